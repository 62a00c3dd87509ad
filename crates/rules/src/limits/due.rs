//! What is due to batch of an account to which online calls come too.
//!
//! Of a bucket a tenth of what flows in is saved for batch while a call of it waits, and online uses the rest. It is
//! measured in what the bucket holds, for calls may be of any size: a large one that waits long for its tokens keeps
//! from online no more than its tenth meanwhile. Of places every tenth is batch's.

use std::time::{Duration, Instant};

use super::bucket::{Levels, Measure, Measures};
use super::{Claim, Kind};
use crate::shares::{BATCH_ONE_IN, BATCH_SHARE, Pressure, Shares};

/// What an account knows of batch calls.
#[derive(Clone, Debug, Default)]
pub(super) struct OfBatch {
    /// Those that were charged and stand in an upstream's line.
    pub in_line: u32,
    /// Who has had the places.
    pub shares: Shares,
    /// Those that wait with a firm claim.
    pub firm: u32,
    /// What the last one wants that came with a claim.
    tokens: u64,
    /// What is saved. Less than nothing where batch calls have used more than they had put
    /// aside: the next ones wait for it, as their bucket does.
    saved: Saved,
    /// Online calls that were refused.
    pub pressure: Pressures,
}

/// What is saved for the batch call that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Saved {
    /// Calls.
    requests: f64,
    tokens: f64,
}

/// How hard online calls press on each limit of an account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pressures {
    pub requests: Pressure,
    pub tokens: Pressure,
    pub places: Pressure,
}

impl Pressures {
    /// An online call was refused by a limit.
    pub fn refused(&mut self, limit: Kind, now: Instant) {
        match limit {
            Kind::Requests => self.requests.refused(now),
            Kind::Tokens => self.tokens.refused(now),
            Kind::Concurrency => self.places.refused(now),
            Kind::Turn => {}
        }
    }
}

impl OfBatch {
    /// A batch call waits, beside others or as the first one.
    pub fn claims(&mut self, claim: Claim, is_first: bool, levels: &Levels) {
        if is_first {
            // While none waited anybody could have it.
            self.saved = Saved {
                requests: self.saved.requests.min(levels.requests.max(0.0)),
                tokens: self.saved.tokens.min(levels.tokens.max(0.0)),
            };
        }
        self.firm = self.firm.saturating_add(u32::from(claim.is_firm));
        self.tokens = claim.tokens;
    }

    /// While a call has waited something has flown in.
    pub fn save(&mut self, measures: &Measures, seconds: f64) {
        if seconds > 0.0 {
            let (requests, tokens) = self.savings(measures);
            let saved = |saving: Option<Saving>| saving.map_or(0.0, |saving| saving.after(seconds));
            self.saved = Saved { requests: saved(requests), tokens: saved(tokens) };
        }
    }

    /// A batch call was let in, by what was saved or by what others left.
    pub fn spend(&mut self, measures: &Measures, tokens: u64) {
        let of_tokens = measures.tokens.map_or(0.0, |measure| measure.at_most(tokens));
        self.saved =
            Saved { requests: (self.saved.requests - 1.0).max(0.0), tokens: (self.saved.tokens - of_tokens).max(0.0) };
    }

    /// A batch call that was let in has used so many calls and tokens less.
    pub fn spare(&mut self, measures: &Measures, requests: f64, tokens: f64) {
        let back = |measure: Option<Measure>, saved: f64, amount: f64| {
            measure.map_or(0.0, |measure| measure.taken(saved, -amount))
        };
        self.saved = Saved {
            requests: back(measures.requests, self.saved.requests, requests),
            tokens: back(measures.tokens, self.saved.tokens, tokens),
        };
    }

    /// What is saved of calls and of tokens, for the call that waits.
    pub fn savings(&self, measures: &Measures) -> (Option<Saving>, Option<Saving>) {
        let requests = measures.requests.map(|measure| Saving { measure, saved: self.saved.requests, wanted: 1.0 });
        let of_tokens =
            |measure: Measure| Saving { measure, saved: self.saved.tokens, wanted: measure.at_most(self.tokens) };
        (requests, measures.tokens.map(of_tokens))
    }
}

/// What is saved of one bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saving {
    measure: Measure,
    saved: f64,
    /// By the batch call that waits; no more than the bucket holds.
    wanted: f64,
}

/// How it goes on with a batch call that waits, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// It claims what is due, and would come at once.
    pub is_firm: bool,
    /// It is the next one to come: all that it wants is saved.
    pub is_next: bool,
}

impl Saving {
    /// After so many seconds more, and never more than is wanted and may come while the call waits for its bucket:
    /// what it is late is not lost to it.
    fn after(self, seconds: f64) -> f64 {
        let most = self.wanted + self.measure.inflow(BATCH_SHARE);
        if self.saved < most { (self.saved + self.measure.inflow(BATCH_SHARE * seconds)).min(most) } else { self.saved }
    }

    /// Whether so much is saved.
    pub fn has(self, amount: f64) -> bool {
        self.measure.lacks(self.saved, amount).is_none()
    }

    /// Whether what the waiting call wants is saved.
    pub fn is_whole(self) -> bool {
        self.has(self.wanted)
    }

    /// How long a call waits for an amount that nobody else waits for.
    pub fn lacks_alone(self, level: f64, amount: f64) -> Option<Duration> {
        self.measure.lacks(level, amount)
    }

    /// How long an online call waits for an amount that is there beside what is saved.
    pub fn lacks_online(self, level: f64, amount: f64, next: Next) -> Option<Duration> {
        let Self { measure, wanted, .. } = self;
        let saved = measure.clamp(self.saved.max(0.0));
        let behind = amount + saved.max(wanted);
        if next.is_next {
            // Whoever stands behind a call that is due waits for it, be the bucket ever so small.
            return measure.lacks(level, behind);
        }
        // What the bucket does not hold beside the call cannot be kept in it.
        measure.lacks(level, measure.clamp(amount + saved))?;
        // More is saved while the call waits, up to what is wanted.
        let growing = measure.time_for((amount + saved - level) / (1.0 - BATCH_SHARE));
        let behind = measure.time_for(behind - level);
        let wait = growing.min(behind).min(measure.time_for(measure.most - level));
        let is_passed = next.is_firm && saved < wanted && measure.time_for((wanted - saved) / BATCH_SHARE) < wait;
        Some(if is_passed { behind } else { wait })
    }

    /// How long a batch call waits for an amount: until it is saved, if it is its turn, or is there beside what batch
    /// leaves to online, which is so many tenths of the bucket, and for how long more than one.
    pub fn lacks_batch(
        self,
        (level, amount): (f64, f64),
        (tenths, lasts): (f64, Duration),
        is_turn: bool,
    ) -> Option<Duration> {
        let measure = self.measure;
        let whole = measure.lacks(level, amount);
        if is_turn && self.has(amount) {
            return whole;
        }
        let beside = |tenths: f64| amount + (measure.most / f64::from(BATCH_ONE_IN) * tenths).ceil();
        let alone = if measure.most < 2.0 { amount } else { beside(1.0) };
        let later = measure.lacks(level, measure.clamp(alone));
        let spare = if tenths <= 1.0 {
            later
        } else if beside(tenths) <= measure.most {
            measure.lacks(level, beside(tenths))
        } else {
            // The bucket does not hold both: online comes first.
            Some(later.unwrap_or_default().max(lasts))
        }?;
        let saved = measure.time_for((amount - self.saved) / BATCH_SHARE).max(whole.unwrap_or_default());
        Some(if is_turn { spare.min(saved) } else { spare })
    }
}
