//! Token buckets: one fills evenly, holds so much at most, and may be in debt, for as much again at most:
//! however much an upstream says was used, twice the time that it takes to fill makes it full.
//!
//! An account has two, and one moment for both: every call goes through this, and time is dear to reckon with.

use std::time::{Duration, Instant};

use super::limit::Limit;

/// How much is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When nothing has been used for long.
    pub limit: u64,
    /// Now.
    pub remaining: u64,
    /// Until all of it is there again.
    pub reset: Duration,
}

/// How fast a bucket fills, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    /// Above 0.
    per_second: f64,
    /// At least 1.
    pub most: f64,
    /// What rounding may take away from an amount: a trifle, or what comes in two nanoseconds.
    slack: f64,
}

impl Measure {
    fn new(per_second: f64, most: f64) -> Self {
        Self { per_second, most, slack: (per_second * 2e-9).max(1e-6) }
    }

    /// An amount as far as the bucket ever holds it.
    pub fn clamp(self, amount: f64) -> f64 {
        amount.min(self.most)
    }

    /// A count of tokens as far as the bucket ever holds as many.
    #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
    pub fn at_most(self, tokens: u64) -> f64 {
        self.clamp(tokens as f64)
    }

    /// The same as a whole number, as bounds of tokens are.
    pub fn whole_at_most(self, tokens: u64) -> u64 {
        tokens.min(whole(self.most))
    }

    /// How long until `amount` is there, where it is not.
    pub fn lacks(self, level: f64, amount: f64) -> Option<Duration> {
        let lack = amount - level;
        (lack > self.slack).then(|| self.time_for(lack))
    }

    /// What is left when an amount is taken, even if it is not there; a negative one is put back.
    pub fn taken(self, level: f64, amount: f64) -> f64 {
        (level - amount).clamp(-self.most, self.most)
    }

    fn filled(self, level: f64, seconds: f64) -> f64 {
        (level + seconds * self.per_second).min(self.most)
    }

    /// What flows in within so many seconds.
    pub fn inflow(self, seconds: f64) -> f64 {
        seconds * self.per_second
    }

    /// How long it takes until so much has flown in; no time for less than nothing.
    pub fn time_for(self, amount: f64) -> Duration {
        let seconds = amount / self.per_second;
        if seconds < LONGEST {
            Duration::from_nanos(whole(seconds.mul_add(1e9, 0.5)))
        } else {
            Duration::from_secs_f64(LONGEST)
        }
    }

    /// The level under another measure: what has been used stays used.
    fn rebound(self, level: f64, new: Self) -> f64 {
        // A lower limit is no debt.
        (level + new.most - self.most).max(level.min(0.0)).max(-new.most)
    }
}

/// No wait is told to be longer, in seconds.
const LONGEST: f64 = 366.0 * 86_400.0;

/// What is measured of an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measures {
    pub requests: Option<Measure>,
    pub tokens: Option<Measure>,
}

impl Measures {
    pub fn of(limit: &Limit) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53 by its bounds in the configuration")]
        let tokens = limit.tokens_per_minute.map(|tokens| tokens.max(1) as f64);
        Self {
            requests: limit.rate.map(|rate| Measure::new(rate.qps, f64::from(rate.burst.max(1)))),
            tokens: tokens.map(|most| Measure::new(most / 60.0, most)),
        }
    }
}

/// How full the buckets of an account are, and when they were. Of what is not measured the level says nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Levels {
    at: Instant,
    pub requests: f64,
    pub tokens: f64,
}

impl Levels {
    pub fn full(measures: &Measures, now: Instant) -> Self {
        let most = |measure: Option<Measure>| measure.map_or(0.0, |measure| measure.most);
        Self { at: now, requests: most(measures.requests), tokens: most(measures.tokens) }
    }

    /// Brings them up to now, and gives the seconds since they were last. Who read the clock before another but comes
    /// after it finds what that one left.
    pub fn fill(&mut self, measures: &Measures, now: Instant) -> f64 {
        if now <= self.at {
            return 0.0;
        }
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        if let Some(measure) = measures.requests {
            self.requests = measure.filled(self.requests, seconds);
        }
        if let Some(measure) = measures.tokens {
            self.tokens = measure.filled(self.tokens, seconds);
        }
        seconds
    }

    /// As they are now.
    pub fn now(mut self, measures: &Measures, now: Instant) -> Self {
        self.fill(measures, now);
        self
    }

    /// Under other measures, at the moment of the last filling.
    pub fn rebound(self, old: &Measures, new: &Measures) -> Self {
        let rebound = |level: f64, old: Option<Measure>, new: Option<Measure>| match (old, new) {
            (Some(old), Some(new)) => old.rebound(level, new),
            (_, new) => new.map_or(0.0, |measure| measure.most),
        };
        Self {
            at: self.at,
            requests: rebound(self.requests, old.requests, new.requests),
            tokens: rebound(self.tokens, old.tokens, new.tokens),
        }
    }
}

/// What a bucket holds at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    measure: Measure,
    level: f64,
    remaining: u64,
}

impl Rest {
    pub fn of(measure: Measure, level: f64) -> Self {
        Self { measure, level, remaining: whole(level + measure.slack) }
    }

    /// Whether less is left than of the other; of two with as much the one is tighter that takes longer to be full.
    pub fn is_tighter(&self, other: &Self) -> bool {
        let (used, of_other) = (self.measure.most - self.level, other.measure.most - other.level);
        self.remaining < other.remaining
            || (self.remaining == other.remaining
                && used * other.measure.per_second > of_other * self.measure.per_second)
    }

    pub fn left(self) -> Left {
        let used = self.measure.most - self.level;
        let reset = if used > self.measure.slack { self.measure.time_for(used) } else { Duration::ZERO };
        Left { limit: whole(self.measure.most), remaining: self.remaining, reset }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
const fn whole(amount: f64) -> u64 {
    amount as u64
}
