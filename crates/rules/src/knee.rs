//! Finds the point where an upstream's latency grows faster than its throughput, and stays below it.
//!
//! More calls side by side are worth having as long as each takes no longer for it. Beyond some number, the
//! knee, they only stand in a line at the upstream. Where it lies depends on the model, the machine and the
//! hour, so it is looked for again and again: for a short while a lower number of calls is let in, then the
//! number that is thought to be the knee, and the two latencies are compared. What they say of the knee is
//! Little's law: were it beyond the higher number, both would be alike; where the higher number takes `r`
//! times as long, it is too high by that much. In between `headroom` is left free. Since only neighbouring
//! moments are compared, no latency is remembered that once was the lowest: prompts that become longer, or
//! an upstream that becomes slower, are no reason to let in less.
//!
//! After the limits of Netflix's concurrency-limits and of TCP Vegas, which compare latencies too, and
//! BBR (draft-cardwell-iccrg-bbr-congestion-control), which probes above and below in turn.

use std::time::{Duration, Instant};

use crate::slots::Terms;

mod relief;
mod window;

#[cfg(test)]
mod tests;

use relief::{Answer, Relief};
use window::{Mean, Window};

/// The number of calls side by side from which the search begins.
const START: f64 = 8.0;

/// A latency that has grown by less is thought not to have grown.
const TOLERANCE: f64 = 0.1;

/// The lower number of a comparison is at most this share of the knee.
const LOW: f64 = 0.75;

/// Between two comparisons at least, and so many times as long as one takes.
const CRUISE: (Duration, u32) = (Duration::from_secs(10), 5);

/// The knee is lowered to this share when the upstream says itself that it has too much to do.
const RELIEF: f64 = 0.7;

/// How fast the knee is raised: the first time, and at most.
const STEP: (f64, f64) = (0.05, 0.5);

/// The search for one upstream's knee.
#[derive(Clone, Debug)]
pub struct Knee {
    terms: Terms,
    /// Calls side by side, as far as is known.
    knee: f64,
    /// Before, the search doubles its number every time.
    is_found: bool,
    phase: Phase,
    window: Window,
    /// Raised by this share the next time.
    step: f64,
    relief: Relief,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The lower number is let in.
    Low,
    /// The number that is thought to be the knee, compared with what the lower one took, since when.
    High(Mean, Instant),
    /// Nothing is tried until then.
    Cruise(Instant),
}

impl Knee {
    /// A search that begins now.
    #[must_use]
    pub fn new(terms: Terms, now: Instant) -> Self {
        let knee = START.min(f64::from(terms.max));
        Self {
            terms,
            knee,
            is_found: false,
            phase: Phase::Low,
            window: Window::since(now),
            step: STEP.0,
            relief: Relief::new(now),
        }
    }

    /// Other terms hold from now on.
    pub fn comes_under(&mut self, terms: Terms) {
        self.terms = terms;
        self.knee = self.knee.min(f64::from(terms.max));
    }

    /// Calls that may be under way now; at least 1, at most `max`.
    #[must_use]
    pub fn limit(&self) -> u32 {
        match self.phase {
            Phase::Low => self.low(),
            Phase::High(..) => self.high(),
            Phase::Cruise(_) => self.bounded(self.knee * (1.0 - self.terms.headroom)),
        }
    }

    /// The knee, as far as is known.
    #[must_use]
    pub fn knee(&self) -> f64 {
        self.knee
    }

    fn low(&self) -> u32 {
        self.bounded(self.knee * LOW.min(1.0 - self.terms.headroom))
    }

    fn high(&self) -> u32 {
        self.bounded(self.knee).max(self.low() + 1).min(self.terms.max)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
    fn bounded(&self, calls: f64) -> u32 {
        (calls as u32).clamp(1, self.terms.max.max(1))
    }

    /// A call has ended well that began at `began`; `was_full` tells whether no further one could have begun
    /// beside it.
    pub fn ended(&mut self, began: Instant, was_full: bool, now: Instant) {
        if let Phase::Cruise(until) = self.phase
            && now >= until
        {
            self.turns(Phase::Low, now);
        }
        self.relief.ended(now);
        self.window.add(began, was_full, now);
        let needed = u64::from(self.limit()) * 4;
        if matches!(self.phase, Phase::Cruise(_)) || !self.window.is_full(needed.max(40), now) {
            return;
        }
        let mean = self.window.mean();
        match (self.phase, mean) {
            // Too few came for the number to mean anything.
            (_, None) => self.cruises(self.window.since, now),
            (Phase::Low, Some(low)) => self.turns(Phase::High(low, self.window.since), now),
            (Phase::High(low, since), Some(high)) => self.compares(low, high, since, now),
            (Phase::Cruise(_), _) => {}
        }
    }

    /// The upstream says that it has too much to do: it throttles, or answers no more in time.
    pub fn overloaded(&mut self, began: Instant, now: Instant) {
        self.knee = match self.relief.said(began, self.knee, now) {
            Some(Answer::Lower) => (f64::from(self.limit()) * RELIEF).max(1.0),
            Some(Answer::Back(knee)) => knee.min(f64::from(self.terms.max)),
            None => return,
        };
        self.is_found = true;
        self.step = STEP.0;
        self.cruises(now, now);
    }

    fn compares(&mut self, low: Mean, high: Mean, since: Instant, now: Instant) {
        self.relief.begins_anew();
        let most = f64::from(self.terms.max);
        let (fewer, calls) = (f64::from(self.low()), f64::from(self.high()));
        let ratio = high.seconds / low.seconds.max(1e-9);
        // Two standard errors: a growth that chance may have made says nothing.
        let doubt = 2.0 * ratio * (high.error.powi(2) + low.error.powi(2)).sqrt();
        let has_grown = ratio > 1.0 + TOLERANCE;
        if has_grown && ratio - doubt > 1.0 {
            self.knee = (calls / ratio).max(1.0);
            self.is_found = true;
            self.step = STEP.0;
            // The lower number was beyond the knee as well: on with the search, from there.
            if ratio > 1.0 + (calls / fewer - 1.0) * 0.8 && fewer > 1.0 {
                self.turns(Phase::Low, now);
                return;
            }
        } else if !has_grown {
            let step = if self.is_found { self.step } else { 1.0 };
            self.knee = (calls * (1.0 + step)).max(self.knee).min(most);
            self.step = (self.step * 2.0).min(STEP.1);
            if !self.is_found {
                self.turns(Phase::Low, now);
                return;
            }
        }
        self.cruises(since, now);
    }

    /// Nothing is tried for a while, after what was begun at `since`.
    fn cruises(&mut self, since: Instant, now: Instant) {
        let (least, times) = CRUISE;
        let wait = now.saturating_duration_since(since).saturating_mul(times).clamp(least, Duration::from_secs(600));
        self.turns(Phase::Cruise(now + wait), now);
    }

    fn turns(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.window = Window::since(now);
    }
}
