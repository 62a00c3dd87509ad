//! A token bucket: it fills evenly, holds so much at most, and may be in debt, for as much again at most:
//! however much an upstream says was used, twice the time that it takes to fill makes it full.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use super::Left;

/// How fast a bucket fills, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    /// Above 0.
    pub per_second: f64,
    /// At least 1.
    pub most: f64,
}

impl Measure {
    /// An amount as far as the bucket ever holds it.
    pub fn clamp(self, amount: f64) -> f64 {
        amount.min(self.most)
    }

    /// A count of tokens as far as the bucket ever holds as many.
    #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
    pub fn at_most(self, tokens: u64) -> f64 {
        self.clamp(tokens as f64)
    }

    fn time_for(self, amount: f64) -> Duration {
        Duration::try_from_secs_f64((amount / self.per_second).max(0.0)).unwrap_or(LONGEST).min(LONGEST)
    }

    /// What rounding may take away from an amount: a trifle, or what comes in two nanoseconds.
    fn slack(self) -> f64 {
        (self.per_second * 2e-9).max(1e-6)
    }
}

/// No wait is told to be longer.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A level, and when it was that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    level: f64,
    at: Instant,
}

impl Bucket {
    pub const fn full(measure: Measure, now: Instant) -> Self {
        Self { level: measure.most, at: now }
    }

    /// The level now. Who read the clock before another but comes after it finds what that one left.
    fn level(self, measure: Measure, now: Instant) -> f64 {
        if now <= self.at {
            // Brought up to now already: nothing is reckoned for it.
            return self.level;
        }
        let filled = now.saturating_duration_since(self.at).as_secs_f64() * measure.per_second;
        (self.level + filled).min(measure.most)
    }

    /// Brings the level up to now, so that what follows at the same moment reckons no time.
    pub fn fill(&mut self, measure: Measure, now: Instant) {
        self.level = self.level(measure, now);
        self.at = self.at.max(now);
    }

    /// How long until `amount` is there, where it is not.
    pub fn lacks(self, measure: Measure, amount: f64, now: Instant) -> Option<Duration> {
        if self.level >= amount {
            // It only grows with time.
            return None;
        }
        let lack = amount - self.level(measure, now);
        (lack > measure.slack()).then(|| measure.time_for(lack))
    }

    /// Takes an amount, even if it is not there; a negative one is put back.
    pub fn take(&mut self, measure: Measure, amount: f64, now: Instant) {
        self.level = (self.level(measure, now) - amount).clamp(-measure.most, measure.most);
        self.at = self.at.max(now);
    }

    /// The bucket under another measure: what has been used stays used.
    pub fn rebound(self, old: Measure, new: Measure, now: Instant) -> Self {
        let level = self.level(old, now);
        // A lower limit is no debt.
        let level = (level + new.most - old.most).max(level.min(0.0)).max(-new.most);
        Self { level, at: self.at.max(now) }
    }

    pub fn rest(self, measure: Measure, now: Instant) -> Rest {
        Rest { measure, level: self.level(measure, now) }
    }
}

/// What a bucket holds at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    measure: Measure,
    level: f64,
}

impl Rest {
    fn remaining(self) -> u64 {
        whole(self.level + self.measure.slack())
    }

    /// Until it is full.
    fn reset(self) -> Duration {
        let used = self.measure.most - self.level;
        if used > self.measure.slack() { self.measure.time_for(used) } else { Duration::ZERO }
    }

    /// The one with less left; of two with as much the one that takes longer to be full.
    pub fn tighter(self, other: Self) -> Self {
        match other.remaining().cmp(&self.remaining()) {
            Ordering::Less => other,
            Ordering::Equal if other.reset() > self.reset() => other,
            Ordering::Equal | Ordering::Greater => self,
        }
    }

    pub fn left(self) -> Left {
        Left { limit: whole(self.measure.most), remaining: self.remaining(), reset: self.reset() }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
const fn whole(amount: f64) -> u64 {
    amount as u64
}
