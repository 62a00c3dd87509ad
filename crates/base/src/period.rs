//! A stretch of time that a quota holds for.

use std::time::Duration;

/// From one instant up to another, in whole seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Period {
    /// Its first second.
    pub start: u64,
    /// The second after its last.
    pub end: u64,
}

impl Period {
    /// Whether an instant, given from the Unix epoch, is in it.
    #[must_use]
    pub const fn holds(&self, at: Duration) -> bool {
        self.start <= at.as_secs() && at.as_secs() < self.end
    }
}
