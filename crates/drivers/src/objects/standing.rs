//! How the store does, as what was asked of it has shown.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use base::Clock;
use state::Trouble;

/// What is told of one that cannot be written.
pub(super) const OUT: &str = "nothing can be made or changed through the admin API, and what is in force stays so";

/// What a question wanted of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// To be read. That it can be says nothing of whether it can be written.
    Reading,
    /// To be written.
    Writing,
}

/// What the last questions met.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Why nothing can be written.
    met: Mutex<Option<Trouble>>,
    /// Something was written, or could have been.
    was_written: AtomicBool,
    /// The last question that wanted to read could not.
    is_unread: AtomicBool,
}

impl Standing {
    /// Why nothing can be written, while nothing can.
    pub fn trouble(&self) -> Option<Trouble> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the file was written, and nothing has gone wrong since.
    pub fn is_proven(&self) -> bool {
        self.was_written.load(Relaxed) && self.trouble().is_none()
    }

    /// A question was answered. What kept something from being written is over once something is.
    pub fn is_well(&self, wanted: Wanted) {
        self.is_unread.store(false, Relaxed);
        if wanted == Wanted::Reading {
            return;
        }
        self.was_written.store(true, Relaxed);
        if self.met.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("what is made through the admin API is kept again");
        }
    }

    /// Something could not be written.
    pub fn is_out(&self, what: &str) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = met.get_or_insert_with(|| {
            tracing::warn!("{OUT}: {what}");
            Trouble { since: Clock.wall(), what: String::new() }
        });
        what.clone_into(&mut trouble.what);
    }

    /// Something could not be read. Whether it can be written, the next look finds out.
    pub fn is_unread(&self, what: &str) {
        self.was_written.store(false, Relaxed);
        if !self.is_unread.swap(true, Relaxed) {
            tracing::warn!(
                "something that was made through the admin API, or the audit log, could not be read: {what}"
            );
        }
    }
}
