//! When an upstream is left alone, and how it comes back: docs/contract.md, section 4.
//!
//! A breaker is fed by events, what became of tries and what probes found, and stands in one of four
//! ways:
//!
//! ```text
//!            failures within window, or a probe finds it dead
//!   Closed ───────────────────────────────────────────────────▶ Open ◀────────────┐
//!     ▲                                                         ▲ │               │
//!     │                                  failures within window, │ │ hold is over  │ the trial fails, or a
//!     │ RAMP is over                    or a probe finds it dead │ ▼              │ probe finds it dead
//!     └──────────────────── Growing ────────────────────────────┘ HalfOpen ───────┘
//!                              ▲                                  │
//!                              └──────────────────────────────────┘
//!                                the trial succeeds, or a probe finds it well
//! ```
//!
//! Time alone moves it along two of these edges: from open to half open, and from growing to closed.
//! Nobody need be awake for that; whoever asks next sees it.
//!
//! An operator goes before all of them, in whichever way it stands: one who holds it has it open until
//! it is closed or the time given is over, when it is half open; one who closes it has it closed at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long an upstream that came back takes to grow to its full share. The contract promises at
/// least 5 s.
pub const RAMP: Duration = Duration::from_secs(10);

/// The share of its calls that an upstream gets as soon as it is back.
const FIRST_SHARE: f64 = 0.05;

/// No breaker holds for longer than this, whatever is written: instants must not overflow.
const LONGEST_HOLD: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// `breaker` of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Failures within `window` that open it; at least 1.
    pub failures: u32,
    /// See `failures`.
    pub window: Duration,
    /// How long it stays open at least.
    pub hold: Duration,
    /// The longest rest of a throttled upstream or a refused key.
    pub max_rest: Duration,
}

/// How a breaker stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stand {
    /// The upstream takes every call.
    Closed,
    /// It is back, and takes calls by and by.
    Growing {
        /// Of the calls that would be its own, 0.05 to below 1.
        share: f64,
    },
    /// Its hold is over: one call at a time may try it.
    HalfOpen {
        /// That one call is under way.
        trial_out: bool,
    },
    /// It is left alone.
    Open {
        /// When a trial may be had; `None` where an operator holds it until it is closed.
        until: Option<Instant>,
    },
}

/// An operator has said that it stays open, whatever tries and probes find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Until then; a trial may be had from then on.
    Until(Instant),
    /// Until an operator closes it.
    UntilClosed,
}

/// The one call that may try an upstream whose hold is over: a ticket that is handed in with what
/// became of the try. Numbered, so that one that comes late, or twice, changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a trial that is never handed in keeps its upstream out for good"]
pub struct Trial(u64);

/// What an event changed, for the operator's log. That a hold is over is no event: the next
/// [`Trial`] tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The upstream is left alone from now on.
    Opened {
        /// When a trial may be had.
        until: Instant,
    },
    /// It is back; its share grows.
    Growing,
    /// It has its full share again: told once, by the first event after [`RAMP`].
    Closed,
}

/// The breaker of one upstream of a route. New ones are closed.
///
/// The terms belong to the configuration and may differ from one event to the next; each event is
/// judged by those that came with it. It remembers no more instants than `failures` of the terms
/// last used.
#[derive(Debug, Default)]
pub struct Breaker {
    state: State,
    /// When it last opened or began to grow. What began before says nothing about now.
    since: Option<Instant>,
    /// A probe found the upstream dead, and another one will have looked by then.
    dead_until: Option<Instant>,
    /// What an operator has said; over where its time is.
    held: Option<Hold>,
    /// When it last closed.
    closed: Option<Instant>,
    /// How many trials there have been: the number of the last one.
    trials: u64,
}

#[derive(Debug)]
enum State {
    /// Closed, with the failures that may add up.
    Closed(Failures),
    /// Open until an instant; half open from then on, with the trial that is out.
    Open { until: Instant, trial: Option<Trial> },
    /// Growing from an instant on, with the failures that may add up; closed once [`RAMP`] is over. One
    /// failure does not open it: an upstream that has no other beside it would be refused to all for
    /// the sake of one call, and one that has gets few calls as yet.
    Growing { from: Instant, failures: Failures },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed(Failures::default())
    }
}

impl Breaker {
    /// How it stands at `now`.
    #[must_use]
    pub fn stand(&self, now: Instant) -> Stand {
        match self.state {
            State::Closed(_) => Stand::Closed,
            State::Growing { from, .. } => share(from, now).map_or(Stand::Closed, |share| Stand::Growing { share }),
            State::Open { trial: Some(_), .. } => Stand::HalfOpen { trial_out: true },
            State::Open { until, trial: None } => match self.shut(until) {
                Some(until) if now >= until => Stand::HalfOpen { trial_out: false },
                until => Stand::Open { until },
            },
        }
    }

    /// Whether it is closed and remembers no failure: then a call need not ask, and has nothing to
    /// tell but a failure. It is not quiet before an event has told [`Change::Closed`].
    #[must_use]
    pub fn is_quiet(&self, now: Instant) -> bool {
        matches!(&self.state, State::Closed(failures) if failures.have_lapsed(now))
    }

    /// When it was last found dead or back again; `None` if it never was.
    #[must_use]
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Since when it stands as it does; `None` if it never stood otherwise. What stands half open has
    /// done so since it was open no more, and what grows back since its trial.
    #[must_use]
    pub fn stands_since(&self, now: Instant) -> Option<Instant> {
        let since = match (&self.state, self.stand(now)) {
            (State::Closed(_), _) => self.closed,
            (State::Growing { from, .. }, Stand::Closed) => from.checked_add(RAMP),
            (State::Open { until, .. }, Stand::HalfOpen { .. }) => self.shut(*until),
            _ => self.since,
        };
        since.map(|since| since.min(now))
    }

    /// Whether an operator holds it open, and for how long.
    #[must_use]
    pub fn held(&self, now: Instant) -> Option<Hold> {
        self.held.filter(|held| !matches!(held, Hold::Until(until) if *until <= now))
    }

    /// An operator holds it open, for so long or until it is closed. A hold takes the place of the one
    /// before; where it ends sooner than what keeps the upstream out besides, that goes on. A trial that
    /// is out says nothing any more.
    pub fn hold(&mut self, now: Instant, length: Option<Duration>) {
        let until = match (self.stand(now), &self.state) {
            (Stand::Open { .. }, State::Open { until, .. }) => *until,
            _ => {
                self.since = Some(now);
                now
            }
        };
        self.state = State::Open { until, trial: None };
        self.held = Some(match length {
            Some(length) => Hold::Until(now.checked_add(length.min(LONGEST_HOLD)).unwrap_or(now)),
            None => Hold::UntilClosed,
        });
    }

    /// An operator closes it: it takes every call at once, and forgets the failures so far. What fails
    /// from then on counts as ever, and a probe that finds the upstream dead opens it again.
    pub fn close(&mut self, now: Instant) {
        self.closed = if self.stand(now) == Stand::Closed { self.stands_since(now) } else { Some(now) };
        self.state = State::default();
        (self.since, self.dead_until, self.held) = (Some(now), None, None);
    }

    /// A call is about to try the upstream. It may, as a trial where the hold is over; whatever comes
    /// of a trial must be told with its ticket.
    ///
    /// # Errors
    ///
    /// The instant to ask again: the end of the hold, or `now` while another call's trial is out,
    /// which may end at any time. `None` where an operator holds it until it is closed.
    pub fn enter(&mut self, now: Instant) -> Result<Option<Trial>, Option<Instant>> {
        match self.stand(now) {
            Stand::Closed | Stand::Growing { .. } => return Ok(None),
            Stand::HalfOpen { trial_out: true } => return Err(Some(now)),
            Stand::Open { until } => return Err(until),
            Stand::HalfOpen { trial_out: false } => self.trials += 1,
        }
        let out = Some(Trial(self.trials));
        if let State::Open { trial, .. } = &mut self.state {
            *trial = out;
        }
        Ok(out)
    }

    /// A try ended well. Only a trial's success changes anything: failures are counted, not weighed
    /// against successes.
    pub fn succeeded(&mut self, trial: Option<Trial>, now: Instant) -> Option<Change> {
        match trial {
            Some(trial) => self.hand_in(trial).then(|| self.grow(now)),
            None => self.settle(now),
        }
    }

    /// A try that began at `began` failed by the upstream's fault. Where it began before the breaker
    /// last changed it is late, and says nothing about now.
    pub fn failed(&mut self, trial: Option<Trial>, began: Instant, now: Instant, terms: &Terms) -> Option<Change> {
        if let Some(trial) = trial {
            return self.hand_in(trial).then(|| self.open(now, terms));
        }
        if self.since.is_some_and(|since| began < since) {
            return None;
        }
        let settled = self.settle(now);
        let opens = match &mut self.state {
            State::Closed(failures) | State::Growing { failures, .. } => failures.reach(now, terms),
            State::Open { .. } => false,
        };
        if opens { Some(self.open(now, terms)) } else { settled }
    }

    /// A try ended without saying anything about the upstream: its caller left, it was throttled, or
    /// the fault was the caller's. A trial that it was is free for the next call.
    pub fn released(&mut self, trial: Option<Trial>) {
        if let Some(trial) = trial {
            self.hand_in(trial);
        }
    }

    /// A probe found the upstream dead, and the next one will have found something by `next`. It opens for
    /// `hold`, or stays open, and until then at least; a trial that is out will find out by itself.
    pub fn trip(&mut self, now: Instant, next: Instant, terms: &Terms) -> Option<Change> {
        let before = self.stand(now);
        self.dead_until = Some(next);
        match (before, &mut self.state) {
            (Stand::HalfOpen { trial_out: true }, _) => None,
            (Stand::Open { .. }, _) => None,
            _ => Some(self.open(now, terms)),
        }
    }

    /// A probe found the upstream well. When its hold is over and no trial is out, that is as good as
    /// a trial, so that no caller need risk one.
    pub fn well(&mut self, now: Instant) -> Option<Change> {
        self.dead_until = None;
        match self.stand(now) {
            Stand::HalfOpen { trial_out: false } => Some(self.grow(now)),
            _ => self.settle(now),
        }
    }

    fn open(&mut self, now: Instant, terms: &Terms) -> Change {
        let until = end(now, terms);
        self.state = State::Open { until, trial: None };
        (self.since, self.held) = (Some(now), None);
        Change::Opened { until }
    }

    fn grow(&mut self, now: Instant) -> Change {
        (self.dead_until, self.held) = (None, None);
        self.state = State::Growing { from: now, failures: Failures::default() };
        self.since = Some(now);
        Change::Growing
    }

    /// Until when it stays open without a trial, given the end of its own hold; `None` without an end.
    fn shut(&self, until: Instant) -> Option<Instant> {
        let until = self.dead_until.map_or(until, |dead| dead.max(until));
        match self.held {
            None => Some(until),
            Some(Hold::Until(held)) => Some(held.max(until)),
            Some(Hold::UntilClosed) => None,
        }
    }

    /// Takes in that growing is over.
    fn settle(&mut self, now: Instant) -> Option<Change> {
        let State::Growing { from, failures } = &mut self.state else { return None };
        if share(*from, now).is_some() {
            return None;
        }
        self.closed = (*from).checked_add(RAMP);
        self.state = State::Closed(std::mem::take(failures));
        Some(Change::Closed)
    }

    /// Whether this is the trial that is out; from now on it is not.
    fn hand_in(&mut self, ticket: Trial) -> bool {
        match &mut self.state {
            State::Open { trial, .. } => trial.take_if(|out| *out == ticket).is_some(),
            State::Closed(_) | State::Growing { .. } => false,
        }
    }
}

/// The end of a hold that begins now.
fn end(now: Instant, terms: &Terms) -> Instant {
    now.checked_add(terms.hold.min(LONGEST_HOLD)).unwrap_or(now)
}

/// What an upstream that grows from an instant on may take; `None` once it has grown.
fn share(from: Instant, now: Instant) -> Option<f64> {
    let grown = now.saturating_duration_since(from).as_secs_f64() / RAMP.as_secs_f64();
    (grown < 1.0).then_some(FIRST_SHARE + (1.0 - FIRST_SHARE) * grown)
}

/// The failures of late that do not yet open a closed breaker: fewer than its terms allow.
#[derive(Debug, Default)]
struct Failures {
    /// When they happened, the oldest first.
    instants: VecDeque<Instant>,
    /// The window that the last of them was counted with.
    window: Duration,
}

impl Failures {
    /// One more at `now`: whether it is the one too many.
    fn reach(&mut self, now: Instant, terms: &Terms) -> bool {
        let before = usize::try_from(terms.failures.saturating_sub(1)).unwrap_or(usize::MAX);
        while self.instants.front().is_some_and(|at| now.saturating_duration_since(*at) >= terms.window) {
            self.instants.pop_front();
        }
        if self.instants.len() >= before {
            return true;
        }
        self.instants.push_back(now);
        self.window = terms.window;
        false
    }

    fn have_lapsed(&self, now: Instant) -> bool {
        self.instants.back().is_none_or(|at| now.saturating_duration_since(*at) >= self.window)
    }
}
