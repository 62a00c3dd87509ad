//! Time and chance as values that are passed in, so that tests own both.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads the clock. Under a paused tokio runtime it reads that runtime's virtual time, so a story
/// test can let hours pass in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The monotonic instant, for measuring and for deadlines.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn now(self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// The wall clock as a distance from the Unix epoch; zero if the clock stands before it.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn wall(self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// A source of chance: seeded from the system in production, from a number in tests.
#[derive(Debug)]
pub struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    /// Dice that fall differently in every process. Whoever sees some throws can foresee the next: they
    /// are not for keys and tokens.
    #[must_use]
    pub fn fair() -> Self {
        Self(Mutex::new(fastrand::Rng::new()))
    }

    /// Dice that fall the same way for the same seed.
    #[must_use]
    pub fn loaded(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A number of 64 random bits.
    pub fn bits(&self) -> u64 {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).u64(..)
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&self) -> f64 {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).f64()
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).usize(..bound)
    }
}
