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
    met: Mutex<Option<(Trouble, Wanted)>>,
    /// Something was written.
    was_written: AtomicBool,
}

impl Standing {
    /// What is wrong, while something is.
    pub fn trouble(&self) -> Option<Trouble> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(trouble, _)| trouble.clone())
    }

    /// Whether the file was written, and nothing has gone wrong since.
    pub fn is_proven(&self) -> bool {
        self.was_written.load(Relaxed) && self.trouble().is_none()
    }

    /// A question was answered. What kept something from being written is over once something is.
    pub fn is_well(&self, wanted: Wanted) {
        if wanted == Wanted::Writing {
            self.was_written.store(true, Relaxed);
        }
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.take_if(|(_, of)| *of == Wanted::Reading || wanted == Wanted::Writing).is_some() {
            tracing::info!("what is made through the admin API is kept again");
        }
    }

    /// A question met something.
    pub fn is_out(&self, wanted: Wanted, what: &str) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let (trouble, of) = met.get_or_insert_with(|| {
            tracing::warn!("{OUT}: {what}");
            (Trouble { since: Clock.wall(), what: String::new() }, wanted)
        });
        what.clone_into(&mut trouble.what);
        if wanted == Wanted::Writing {
            *of = wanted;
        }
    }
}
