//! How long an upstream is likely to take: an average of latencies that believes bad news at once.
//!
//! An exponentially weighted moving average over time, not over calls: what was learned ten seconds
//! ago weighs a third of what is learned now, be there one call in between or a thousand. A latency
//! above it is taken as it is, one below pulls it down slowly, and where nothing comes it sinks by
//! itself, so that a slow upstream is tried again by and by. After Finagle's `p2c` balancer with peak
//! EWMA.

use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// After this time without news the value has sunk to 1/e, about a third.
const DECAY: Duration = Duration::from_secs(10);

/// After this time without news nothing is known any more.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// A failed call must be done again elsewhere: it counts as so many of its kind.
const FAILURE: f64 = 3.0;

/// No latency counts for more, in seconds: failures must not add up beyond what time can heal.
const LONGEST: f64 = 600.0;

/// The likely latency of one upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeakEwma {
    /// In seconds, at the instant of the last news.
    value: f64,
    /// `None` before the first.
    last: Option<Instant>,
}

impl PeakEwma {
    /// A call ended well and took so long.
    pub fn observe(&mut self, now: Instant, took: Duration) {
        self.learn(now, took.as_secs_f64());
    }

    /// A call failed after so long: it counts as three times the worse of that and of what was
    /// expected, for the call has to be done again elsewhere.
    pub fn failed(&mut self, now: Instant, took: Duration) {
        let expected = self.value(now);
        self.learn(now, FAILURE * took.as_secs_f64().max(expected));
    }

    /// What a call is likely to take, in seconds, 0 to 600; 0 where nothing has been heard for a
    /// minute.
    #[must_use]
    pub fn value(&self, now: Instant) -> f64 {
        if self.is_forgotten(now) { 0.0 } else { self.value * self.weight(now) }
    }

    fn learn(&mut self, now: Instant, seconds: f64) {
        let seconds = seconds.min(LONGEST);
        let weight = if self.is_forgotten(now) { 0.0 } else { self.weight(now) };
        let blended = self.value * weight + seconds * (1.0 - weight);
        // The sum of the two parts may be rounded beyond either.
        self.value = blended.max(seconds).min(LONGEST);
        // Workers read the clock before they get here; it must not run backwards.
        self.last = self.last.max(Some(now));
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) >= FORGOTTEN)
    }

    /// What the last value still weighs, 0 to 1.
    fn weight(&self, now: Instant) -> f64 {
        let silence = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        (-silence.as_secs_f64() / DECAY.as_secs_f64()).exp()
    }
}
