//! What one worker's requests leave to be written down, off their way.
//!
//! Counters and the access log are shared by all workers, and to touch them from every core on every
//! call costs more than the counting itself. A request that has ended leaves its record on its
//! worker's own sheet; a task of the control runtime gathers the sheets many times a second.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use base::Record;

/// Records on one sheet at most; the request that finds it full has the sheets gathered itself.
const BOUND: usize = 8192;

/// One worker's sheet.
#[derive(Debug, Default)]
pub struct Sheet {
    records: Mutex<Vec<Record>>,
    running: AtomicI64,
}

/// How a record was put down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The first on its sheet: somebody must be told that there is something to gather.
    First,
    /// One of many.
    Further,
    /// The sheet is full.
    Full,
}

impl Sheet {
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

    /// Takes everything off the sheet, and leaves it the memory of `spare`, which must be empty.
    pub fn swap(&self, spare: &mut Vec<Record>) {
        std::mem::swap(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner), spare);
    }
}
