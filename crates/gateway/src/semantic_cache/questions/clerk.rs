//! The thread that keeps questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;

use state::Answers;
use state::answers::Stored;

use super::row;
use super::shelf::{Entry, Place, Shelf};
use crate::cache::purges::Purges;

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
        /// As it is stored.
        row: Arc<Stored>,
        is_stored: bool,
        /// Purges there had been when its answer was asked for.
        purges: u64,
    },
}

/// What questions are kept with.
#[derive(Debug)]
pub(super) struct Clerk {
    pub(super) answers: Arc<dyn Answers>,
    pub(super) purges: Arc<Purges>,
    /// Questions that were not kept.
    pub(super) lost: AtomicU64,
}

impl Clerk {
    /// Works until nobody is left who gives orders.
    pub(super) fn work(&self, is_ready: &AtomicBool, orders: &Receiver<Order>) {
        for order in orders {
            if matches!(order, Order::Warm) {
                semantic::guards::warm();
                is_ready.store(true, Relaxed);
            } else {
                self.carry_out(order);
            }
        }
    }

    /// Carries one order out.
    pub(super) fn carry_out(&self, order: Order) {
        let Order::Keep { shelf, place, entry, vector, row, is_stored, purges } = order else { return };
        if !self.purges.spare(&row, purges) {
            return;
        }
        let answer = entry.answer;
        // What cannot be compared is not found either: it need not be kept.
        if shelf.insert(place, &vector, entry).is_err() {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        if !is_stored {
            self.answers.put(row::key(place), row.clone());
        }
        // Whoever has purged in between has not seen it.
        if !self.purges.spare(&row, purges) {
            shelf.remove(place, &answer);
            drop(self.answers.remove(&row::key(place)));
        }
    }
}
