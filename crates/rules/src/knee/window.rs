//! What was seen for a while.

use std::time::{Duration, Instant};

/// A window ends by then at the latest.
const LONGEST: Duration = Duration::from_secs(60);

/// Latencies of the calls that began and ended within a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub since: Instant,
    calls: f64,
    sum: f64,
    squares: f64,
    /// Calls beside which no further one could have begun.
    full: f64,
}

/// A mean latency, and how much of it chance may have made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub seconds: f64,
    /// The standard error, as a share of the mean.
    pub error: f64,
}

impl Window {
    pub const fn since(now: Instant) -> Self {
        Self { since: now, calls: 0.0, sum: 0.0, squares: 0.0, full: 0.0 }
    }

    pub fn add(&mut self, began: Instant, was_full: bool, now: Instant) {
        if began < self.since {
            // It began beside others than those that are let in now.
            return;
        }
        let seconds = now.saturating_duration_since(began).as_secs_f64();
        self.calls += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
        self.full += f64::from(was_full);
    }

    /// Whether there is enough to judge by, and the first calls, which found the line short, weigh little.
    pub fn is_full(&self, needed: u64, now: Instant) -> bool {
        let took = now.saturating_duration_since(self.since);
        #[expect(clippy::cast_precision_loss, reason = "calls of a window are few")]
        let is_enough = self.calls >= needed as f64;
        took >= LONGEST || (is_enough && took.as_secs_f64() >= 4.0 * self.sum / self.calls.max(1.0))
    }

    /// Nothing where there were too few calls, or half of them could have had company.
    pub fn mean(&self) -> Option<Mean> {
        if self.calls < 10.0 || self.full < self.calls / 2.0 {
            return None;
        }
        let mean = self.sum / self.calls;
        let variance = (self.squares / self.calls - mean * mean).max(0.0);
        Some(Mean { seconds: mean, error: (variance / self.calls).sqrt() / mean.max(1e-9) })
    }
}
