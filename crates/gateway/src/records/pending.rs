//! What one worker's requests leave to be written down, off their way.
//!
//! Counters and the access log are shared by all workers, and to touch them from every core on every
//! call costs more than the counting itself. A request that has ended leaves its record on its
//! worker's own list; a task of the control runtime gathers the lists many times a second.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use base::Record;

/// Records on one list at most; the request that finds it full has the lists gathered itself.
const BOUND: usize = 8192;

/// The records of one worker's ended requests that are not counted and logged yet.
#[derive(Debug, Default)]
pub struct PendingRecords {
    records: Mutex<Vec<Record>>,
    running: AtomicI64,
}

/// How a record was put down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The first on its list: somebody must be told that there is something to gather.
    First,
    /// One of many.
    Further,
    /// The list is full.
    Full,
}

impl PendingRecords {
    /// A request has begun.
    pub fn begun(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests begun and not ended.
    #[must_use]
    pub fn running(&self) -> i64 {
        self.running.load(Ordering::Relaxed)
    }

    /// A request has ended.
    #[must_use]
    pub fn put(&self, record: Record) -> Put {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(record);
        self.running.fetch_sub(1, Ordering::Relaxed);
        match records.len() {
            1 => Put::First,
            count if count >= BOUND => Put::Full,
            _ => Put::Further,
        }
    }

    /// Takes everything off the list, and leaves it the memory of `spare`, which must be empty.
    pub fn swap(&self, spare: &mut Vec<Record>) {
        std::mem::swap(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner), spare);
    }
}
