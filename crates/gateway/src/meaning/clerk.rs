//! The thread that keeps questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Receiver;

use state::Answers;
use state::answers::Stored;

use super::row;
use super::shelf::{Entry, Place, Shelf};

/// Orders that may wait; what comes beyond is not kept.
pub(super) const WAITING: usize = 1_024;

/// What the thread is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Load what questions are compared by.
    Warm,
    /// Put a question among the others.
    Keep {
        shelf: Arc<Shelf>,
        place: Place,
        entry: Entry,
        vector: Arc<[f32]>,
        /// As it is stored, where it is not yet.
        row: Option<Arc<Stored>>,
    },
}

/// Works until nobody is left who gives orders.
pub(super) fn work(answers: &Arc<dyn Answers>, is_ready: &AtomicBool, orders: &Receiver<Order>) {
    for order in orders {
        if matches!(order, Order::Warm) {
            semantic::guards::warm();
            is_ready.store(true, Relaxed);
        } else {
            carry_out(&**answers, order);
        }
    }
}

/// Carries one order out.
pub(super) fn carry_out(answers: &dyn Answers, order: Order) {
    let Order::Keep { shelf, place, entry, vector, row } = order else { return };
    // What cannot be compared is not found either: it need not be kept.
    if shelf.insert(place, &vector, entry).is_ok()
        && let Some(row) = row
    {
        answers.put(row::key(place), row);
    }
}
