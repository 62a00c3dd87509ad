//! A file that cannot be written: when it is tried again, and when that is worth telling.

use std::time::{Duration, Instant};

use base::Clock;

/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// A trouble shorter than this is nothing to tell.
const WORTH_TELLING: Duration = Duration::from_millis(500);

/// A trouble, from the first failure to the first success.
pub(crate) struct Failing {
    since: Instant,
    /// Since when, from the Unix epoch.
    pub since_wall: Duration,
    wait: Duration,
    /// When it is tried again.
    pub again: Instant,
    told: bool,
}

impl Failing {
    /// One that begins now.
    pub fn begin() -> Self {
        let now = Clock.now();
        Self { since: now, since_wall: Clock.wall(), wait: RETRY.0 / 2, again: now, told: false }
    }

    /// The same, of which operators have been told.
    pub fn told() -> Self {
        Self { told: true, ..Self::begin() }
    }

    /// It has failed once more. Gives whether operators hear of it for the first time; `None` while that is too early.
    pub fn failed(&mut self) -> Option<bool> {
        let now = Clock.now();
        self.wait = (self.wait * 2).min(RETRY.1);
        self.again = now + self.wait;
        (now.duration_since(self.since) >= WORTH_TELLING).then(|| !std::mem::replace(&mut self.told, true))
    }

    /// It is over. Gives how many seconds it took, where operators have been told of it.
    pub fn over(self) -> Option<u64> {
        self.told.then(|| Clock.now().duration_since(self.since).as_secs())
    }
}
