//! Whether an upstream that says it is too busy really wants fewer calls side by side.
//!
//! A refusal that only one call gets, or fewer than one call in fifty, says nothing about that. Any other is obeyed at
//! once: the knee goes down by a step, and by another each time calls are refused again. But a provider that throttles
//! a model for its tokens, or a key for its month, refuses in the same words, however few calls there are. So after some
//! steps it is compared how many calls end well. Where too many calls were the cause, as many end well as before, and
//! only fewer are refused. Where they were not, the steps have cost calls and helped nobody: they are taken back, and
//! for a while refusals are not heeded.

use std::time::{Duration, Instant};

/// Steps after which it is looked what they have come to.
const STEPS: u32 = 4;
/// For so many times as long as the call took that was refused; for so long at least, and at most.
const LOOK: (u32, Duration, Duration) = (2, Duration::from_secs(1), Duration::from_secs(60));
/// What was looked at longer ago says nothing of what is said now.
const STALE: Duration = Duration::from_secs(30);
/// Of the calls that ended well before, so many must still, for the steps to have been right.
const KEPT: f64 = 0.5;
/// For so long words are not heard: the first time, and at most.
const DEAF: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));

/// What a word is answered with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    /// Fewer calls are let in.
    Lower,
    /// As many as before these steps.
    Back(f64),
}

/// What was said, and what was done about it.
#[derive(Clone, Debug)]
pub(super) struct Relief {
    /// Calls that began before then have said it already.
    heard: Option<Instant>,
    steps: u32,
    before: Before,
    look: Option<Look>,
    deaf_until: Option<Instant>,
    deaf_for: Duration,
    share: Share,
}

/// What was seen before the first step.
#[derive(Clone, Copy, Debug)]
struct Before {
    knee: f64,
    /// Calls that ended well.
    well_per_second: f64,
}

/// What is seen after the steps.
#[derive(Clone, Copy, Debug)]
struct Look {
    since: Instant,
    until: Instant,
    well: f64,
}

impl Relief {
    pub const fn new(now: Instant) -> Self {
        Self {
            heard: None,
            steps: 0,
            before: Before { knee: 0.0, well_per_second: 0.0 },
            look: None,
            deaf_until: None,
            deaf_for: DEAF.0,
            share: Share::since(now),
        }
    }

    /// A call has ended well.
    pub fn ended(&mut self, now: Instant) {
        self.share.add(1.0, 0.0, now);
        if let Some(look) = &mut self.look {
            look.well += 1.0;
        }
    }

    /// What was said before is over. That holds once a comparison has come to its end, which each step puts off.
    pub const fn begins_anew(&mut self) {
        self.steps = 0;
        self.look = None;
    }

    /// A call that began at `began` was refused; `knee` calls are thought to be right.
    pub fn said(&mut self, began: Instant, knee: f64, now: Instant) -> Option<Answer> {
        self.share.add(0.0, 1.0, now);
        if !self.share.is_telling() {
            return None;
        }
        // Calls that were under way together say it once.
        let is_heard = self.heard.is_some_and(|heard| began <= heard);
        if is_heard || self.deaf_until.is_some_and(|until| now < until) {
            return None;
        }
        if let Some(look) = self.look {
            if now < look.until {
                return None;
            }
            self.begins_anew();
            let well = look.well / now.saturating_duration_since(look.since).as_secs_f64();
            let Before { knee, well_per_second: before } = self.before;
            // Where none ends well any more, fewer calls are not what has cost them.
            if now < look.until + STALE && well > 0.0 && well < before * KEPT {
                self.deaf_until = Some(now + self.deaf_for);
                self.deaf_for = (self.deaf_for * 2).min(DEAF.1);
                self.heard = Some(now);
                return Some(Answer::Back(knee));
            }
            self.deaf_for = DEAF.0;
        }
        if self.steps == 0 {
            self.before = Before { knee, well_per_second: self.share.well_per_second() };
        }
        self.steps += 1;
        self.heard = Some(now);
        if self.steps == STEPS {
            let (times, least, most) = LOOK;
            let long = now.saturating_duration_since(began).saturating_mul(times).clamp(least, most);
            self.look = Some(Look { since: now, until: now + long, well: 0.0 });
        }
        Some(Answer::Lower)
    }
}

/// How many calls hear the word, of late: what has ended counts half after [`HALF`].
#[derive(Clone, Copy, Debug)]
struct Share {
    at: Instant,
    well: f64,
    refused: f64,
}

/// See [`Share`].
const HALF: f64 = 2.0;
/// One call in so many hears it at least, and it is heard more than once, where there are too many side by side.
const TELLING: (f64, f64) = (0.02, 1.2);

impl Share {
    const fn since(now: Instant) -> Self {
        Self { at: now, well: 0.0, refused: 0.0 }
    }

    fn add(&mut self, well: f64, refused: f64, now: Instant) {
        let left = (-now.saturating_duration_since(self.at).as_secs_f64() / HALF).exp2();
        *self = Self { at: now.max(self.at), well: self.well * left + well, refused: self.refused * left + refused };
    }

    /// Of calls that come evenly, what counts half after so long counts `HALF / ln 2` seconds of them.
    fn well_per_second(&self) -> f64 {
        self.well * std::f64::consts::LN_2 / HALF
    }

    fn is_telling(&self) -> bool {
        let (share, words) = TELLING;
        self.refused >= words && self.refused >= (self.well + self.refused) * share
    }
}
