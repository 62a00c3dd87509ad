//! How an upstream of a route stands: its breaker, its rest, its load and its latency; and one try's
//! visit to it.
//!
//! As long as nothing goes wrong, a visit costs the look at one flag. What is taken by a visit, the
//! breaker's trial above all, is given back when the visit is dropped, whatever became of the call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;
use rules::breaker::{Breaker, Hold, Stand, Terms, Trial};
use rules::ewma::PeakEwma;
use rules::pursuit::Bar;

use crate::alerts::{Alert, Alerts};
use crate::upstream::drills::Drill;

mod visit;

pub use visit::{Gate, Visit};

/// What all workers know of one upstream of a route. Survives reloads.
#[derive(Debug)]
pub struct Standing {
    route: Arc<str>,
    /// As metrics and log name it.
    label: Arc<str>,
    /// Since when there is something to know.
    known_since: Instant,
    /// Closed, without a failure in mind, without a rest: nothing need be asked.
    is_quiet: AtomicBool,
    state: Mutex<State>,
    /// Visits under way; counted where the route's strategy goes by it.
    busy: AtomicUsize,
    latency: Mutex<PeakEwma>,
    /// Where its breaker's opening and closing is told further.
    alerts: Arc<Alerts>,
}

#[derive(Debug)]
struct State {
    terms: Terms,
    breaker: Breaker,
    rests_until: Option<Instant>,
    /// A rest that a drill has brought about.
    rehearsed: Option<Rehearsed>,
    /// What the log said last.
    told: Shown,
    /// Whether it was told further that it is open. Half open is neither: most trials fail while there is
    /// something to tell.
    is_alert: bool,
    /// A reload has dropped it: what late calls find out is of no use to anybody.
    is_forgotten: bool,
    /// Changes to each state since metrics were read last, by its value.
    changes: [u64; 3],
}

/// A rest that a drill has brought about. It ends with the drill, whatever it stands for.
#[derive(Debug)]
struct Rehearsed {
    until: Instant,
    /// It stands for that of a refused key, else for that of a throttled upstream.
    is_of_key: bool,
    drill: Arc<Drill>,
}

impl State {
    /// Why it rests now, if it does.
    fn rest(&self, now: Instant) -> Option<Bar> {
        let real = self.rests_until.filter(|until| *until > now).map(Bar::Resting);
        let rehearsed = || {
            let Rehearsed { until, is_of_key, drill } = self.rehearsed.as_ref()?;
            let bar = if *is_of_key { Bar::Refused(*until) } else { Bar::Resting(*until) };
            (*until > now && drill.is_on(now)).then_some(bar)
        };
        real.or_else(rehearsed)
    }
}

/// How an upstream stands at a moment, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its breaker.
    pub shown: Shown,
    /// Since when the breaker stands so; at the earliest since the upstream is known.
    pub since: Instant,
    /// An operator holds the breaker open.
    pub held: Option<Hold>,
    /// Until when it rests, where it was throttled.
    pub rests_until: Option<Instant>,
}

/// A breaker as metrics, log and admin API show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Takes every call.
    #[default]
    Closed = 0,
    /// One trial at a time, or a share that grows back.
    HalfOpen = 1,
    /// Takes none.
    Open = 2,
}

impl Shown {
    /// Every state, by its value.
    pub const ALL: [Self; 3] = [Self::Closed, Self::HalfOpen, Self::Open];

    /// As metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }

    /// The value of `mai_breaker_state`.
    #[must_use]
    pub const fn value(self) -> i64 {
        self as i64
    }

    const fn of(stand: Stand) -> Self {
        match stand {
            Stand::Closed => Self::Closed,
            Stand::Growing { .. } | Stand::HalfOpen { .. } => Self::HalfOpen,
            Stand::Open { .. } => Self::Open,
        }
    }
}

impl Standing {
    /// One of which nothing is known.
    #[must_use]
    pub fn new(route: Arc<str>, label: Arc<str>, terms: Terms, alerts: Arc<Alerts>) -> Self {
        let state = State {
            terms,
            breaker: Breaker::default(),
            rests_until: None,
            rehearsed: None,
            told: Shown::Closed,
            is_alert: false,
            is_forgotten: false,
            changes: [0; 3],
        };
        Self {
            route,
            label,
            known_since: Clock.now(),
            is_quiet: AtomicBool::new(true),
            state: Mutex::new(state),
            busy: AtomicUsize::new(0),
            latency: Mutex::default(),
            alerts,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reload has brought other terms.
    pub(crate) fn comes_under(&self, terms: Terms) {
        self.state().terms = terms;
    }

    /// A reload has dropped it. Whoever was told that its breaker is open is told that it is no longer.
    pub(crate) fn forget(&self, now: Instant) {
        let mut state = self.state();
        self.alert(&mut state, Shown::Closed, now);
        state.is_forgotten = true;
    }

    /// Whether it takes calls now, and which share of them. Takes nothing.
    #[must_use]
    pub fn look(&self, now: Instant) -> (Option<Bar>, f64) {
        if self.is_quiet.load(Relaxed) {
            return (None, 1.0);
        }
        let state = self.state();
        if let Some(bar) = state.rest(now) {
            return (Some(bar), 1.0);
        }
        match state.breaker.stand(now) {
            Stand::Closed | Stand::HalfOpen { trial_out: false } => (None, 1.0),
            Stand::Growing { share } => (None, share),
            Stand::HalfOpen { trial_out: true } => (Some(Bar::Open(now)), 1.0),
            Stand::Open { until } => (Some(open(until)), 1.0),
        }
    }

    /// Whether it takes every call: neither rests nor is on its way back, when its few calls tell more
    /// than any copy.
    #[must_use]
    pub fn is_sound(&self, now: Instant) -> bool {
        self.is_quiet.load(Relaxed) || {
            let state = self.state();
            state.rest(now).is_none() && state.breaker.stand(now) == Stand::Closed
        }
    }

    /// Visits under way.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.busy.load(Relaxed)
    }

    /// What a visit is likely to cost, in seconds; 0 where nothing is known yet.
    #[must_use]
    pub fn cost(&self, now: Instant) -> f64 {
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner).value(now);
        #[expect(clippy::cast_precision_loss, reason = "calls in flight are few")]
        let load = (self.busy() + 1) as f64;
        latency * load
    }

    /// Takes what a try needs.
    fn enter(&self, now: Instant) -> Result<Option<Trial>, Bar> {
        if self.is_quiet.load(Relaxed) {
            return Ok(None);
        }
        let mut state = self.state();
        if let Some(bar) = state.rest(now) {
            return Err(bar);
        }
        let trial = state.breaker.enter(now).map_err(open);
        self.settle(&mut state, now);
        trial
    }

    /// It asked to be left alone for `wait`. Of two rests the longer one counts.
    pub fn rests(&self, now: Instant, wait: Duration) {
        let mut state = self.state();
        let known = state.rests_until.filter(|known| *known > now);
        if known.is_none() {
            let (route, upstream) = (&*self.route, &*self.label);
            tracing::warn!(route, upstream, rest_ms = millis(wait), "throttled: the upstream rests");
        }
        state.rests_until = known.max(Some(now + wait));
        self.is_quiet.store(false, Relaxed);
    }

    /// A drill has had a try refused or throttled: the upstream rests on this route, as long as the drill goes on
    /// at most. Its provider's keys, which others use too, are left alone.
    pub fn rehearses(&self, drill: &Arc<Drill>, now: Instant, wait: Duration, is_of_key: bool) {
        let mut state = self.state();
        if state.rest(now).is_none() {
            let (route, upstream, drill) = (&*self.route, &*self.label, &*drill.id);
            tracing::info!(route, upstream, drill, rest_ms = millis(wait), "the upstream rests, as a drill has it");
        }
        state.rehearsed = Some(Rehearsed { until: now + wait, is_of_key, drill: drill.clone() });
        self.is_quiet.store(false, Relaxed);
    }

    /// Whether it rests because it was throttled.
    #[must_use]
    pub fn is_resting(&self, now: Instant) -> bool {
        matches!(self.look(now).0, Some(Bar::Resting(_)))
    }

    /// An active probe found it out of order; the next one will have found something by `next`.
    pub fn found_sick(&self, now: Instant, next: Instant) {
        let mut state = self.state();
        let terms = state.terms;
        state.breaker.trip(now, next, &terms);
        self.settle(&mut state, now);
    }

    /// An active probe found it in order.
    pub fn found_well(&self, now: Instant) {
        if self.is_quiet.load(Relaxed) {
            return;
        }
        let mut state = self.state();
        state.breaker.well(now);
        self.settle(&mut state, now);
    }

    /// An operator holds its breaker open, for so long or until it is closed.
    pub fn hold(&self, now: Instant, length: Option<Duration>) {
        let mut state = self.state();
        self.settle(&mut state, now);
        let was_open = state.told == Shown::Open;
        state.breaker.hold(now, length);
        self.settle(&mut state, now);
        if was_open {
            self.tell_hold(&state, now);
        }
    }

    /// Takes the place of one that a reload has dropped. An operator's word outlives what was learned: its hold goes
    /// on, and whoever was told of that is told nothing new.
    pub(crate) fn takes_place_of(&self, old: &Self, now: Instant) {
        if self.takes_hold_of(old, now, true) {
            old.state().is_forgotten = true;
        } else {
            old.forget(now);
        }
    }

    /// Takes over the hold of another one under the same label; false where it has none.
    pub(crate) fn takes_hold_of(&self, old: &Self, now: Instant, takes_alert: bool) -> bool {
        let (held, is_alert) = {
            let old = old.state();
            (old.breaker.held(now), old.is_alert)
        };
        let Some(held) = held else { return false };
        self.state().is_alert |= takes_alert && is_alert;
        match held {
            Hold::Until(until) => self.hold(now, Some(until.saturating_duration_since(now))),
            Hold::UntilClosed => self.hold(now, None),
        }
        true
    }

    /// Whether an operator holds it open.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        !self.is_quiet.load(Relaxed) && self.state().breaker.held(now).is_some()
    }

    /// An operator closes its breaker, and ends its rest: it takes every call from now on.
    pub fn close(&self, now: Instant) {
        let mut state = self.state();
        state.breaker.close(now);
        let rested = state.rest(now).is_some();
        (state.rests_until, state.rehearsed) = (None, None);
        let (route, upstream) = (&*self.route, &*self.label);
        tracing::info!(route, upstream, rested, "an operator has closed the breaker");
        self.settle(&mut state, now);
    }

    /// How it stands, for people.
    #[must_use]
    pub fn glance(&self, now: Instant) -> Glance {
        let mut state = self.state();
        self.settle(&mut state, now);
        Glance {
            shown: state.told,
            since: state.breaker.stands_since(now).unwrap_or(self.known_since),
            held: state.breaker.held(now),
            rests_until: match state.rest(now) {
                Some(Bar::Resting(until) | Bar::Refused(until)) => Some(until),
                _ => None,
            },
        }
    }

    /// Whose upstream it is.
    #[must_use]
    pub fn route(&self) -> &Arc<str> {
        &self.route
    }

    /// How the breaker stands, for people. Transitions that time alone has brought are told by the way.
    #[must_use]
    pub fn shown(&self, now: Instant) -> Shown {
        if self.is_quiet.load(Relaxed) {
            return Shown::Closed;
        }
        let mut state = self.state();
        self.settle(&mut state, now);
        state.told
    }

    /// How often the breaker has come to each state since this was asked last.
    pub fn take_changes(&self) -> [(Shown, u64); 3] {
        let changes = std::mem::take(&mut self.state().changes);
        let mut counted = Shown::ALL.map(|shown| (shown, 0));
        for (counted, change) in counted.iter_mut().zip(changes) {
            counted.1 = change;
        }
        counted
    }

    /// Has it told further where it opens, or closes again.
    fn alert(&self, state: &mut State, shown: Shown, now: Instant) {
        let is_open = shown == Shown::Open;
        if shown == Shown::HalfOpen || is_open == state.is_alert || state.is_forgotten {
            return;
        }
        state.is_alert = is_open;
        let (route, upstream) = (self.route.clone(), self.label.clone());
        let is_held = is_open && state.breaker.held(now).is_some();
        self.alerts.raise(Alert::Breaker { route, upstream, is_open, is_held });
    }

    /// Says in the log what has changed, and sees whether all is quiet.
    fn settle(&self, state: &mut State, now: Instant) {
        let shown = Shown::of(state.breaker.stand(now));
        if shown != state.told {
            state.told = shown;
            if let Some(count) = state.changes.get_mut(shown as usize) {
                *count += 1;
            }
            self.alert(state, shown, now);
            let (route, upstream) = (&*self.route, &*self.label);
            match shown {
                Shown::Open if state.breaker.held(now).is_some() => self.tell_hold(state, now),
                Shown::Open => tracing::warn!(
                    route,
                    upstream,
                    hold_ms = millis(state.terms.hold),
                    "breaker open: the upstream is left alone"
                ),
                Shown::HalfOpen => tracing::info!(route, upstream, "breaker half open: one trial at a time"),
                Shown::Closed => tracing::info!(route, upstream, "breaker closed: the upstream takes every call again"),
            }
        }
        let rests = state.rest(now).is_some();
        self.is_quiet.store(!rests && state.breaker.is_quiet(now), Relaxed);
    }

    fn tell_hold(&self, state: &State, now: Instant) {
        let (route, upstream) = (&*self.route, &*self.label);
        let hold_ms = match state.breaker.held(now) {
            Some(Hold::Until(until)) => Some(millis(until.saturating_duration_since(now))),
            _ => None,
        };
        tracing::warn!(route, upstream, hold_ms, "an operator holds the breaker open: the upstream is left alone");
    }
}

/// Why one whose breaker is open until then takes no calls.
fn open(until: Option<Instant>) -> Bar {
    until.map_or(Bar::Held, Bar::Open)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
