//! Waiting for a place, in order.

use std::time::Duration;

use crate::shares::Class;

/// `queue` as written: what is not written is decided by the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// `max_wait`
    pub max_wait: Option<Duration>,
    /// `max_depth`
    pub max_depth: Option<usize>,
}

impl Patience {
    /// The longest wait of a call: what is written here or, behind it, elsewhere; the shorter of both.
    #[must_use]
    pub fn longest(self, other: Self, class: Class) -> Duration {
        let written = self.max_wait.into_iter().chain(other.max_wait).min();
        written.unwrap_or(match class {
            Class::Online => Duration::from_secs(1),
            Class::Batch => Duration::from_secs(30),
        })
    }

    /// Calls of the class that wait at most.
    #[must_use]
    pub fn depth(self, class: Class) -> usize {
        self.max_depth.unwrap_or(match class {
            Class::Online => 100,
            Class::Batch => 1000,
        })
    }
}
