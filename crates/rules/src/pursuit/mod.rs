//! Which upstream is tried next, and what a failure allows: docs/contract.md, section 4.
//!
//! A pursuit walks the route's targets (an upstream with one of its keys) in the order given: each
//! once at first, then once more for every wait that the route grants. It sends nothing, waits for
//! nothing and keeps no time: the gateway does what it says and tells it how that went.
//!
//! ```text
//!            next                    entered, tried
//!   fresh ────────▶ Try ──────┬──▶ an answer: over
//!     ▲                       ├──▶ failed: once more in another manner, or ...
//!     │   none is left        ▼
//!     │                 broken │ resting │ out
//!     │                    ▲       │
//!     └──── next: Wait ────┘       └──▶ next: Over, verdict
//! ```

mod verdict;
mod waited;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use base::{Class, Fault, Kind, Refusal};
use smallvec::SmallVec;

pub use verdict::{deadline_exceeded, refusal};
use waited::Waited;

/// Which calls may be repeated once they may have reached an upstream: `retry.when`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeats {
    /// Those that may run twice: all but chats marked with `x-mai-side-effects`.
    #[default]
    Idempotent,
    /// Marked ones too.
    Always,
    /// None.
    Never,
}

/// `retry` of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Which calls.
    pub when: Repeats,
    /// The waits after a failure of the upstream; each allows one more try.
    pub server_error: Vec<Duration>,
    /// The waits after a throttle; `retry-after` replaces one when it fits the deadline.
    pub throttled: Vec<Duration>,
    /// Repeats never exceed this share of the route's recent calls (0 to 1), with a floor of 10 in 10 s.
    pub budget: f64,
}

impl Retry {
    /// Whether a call may run twice, given whether its caller says that it may.
    #[must_use]
    pub const fn allows(&self, idempotent: bool) -> bool {
        match self.when {
            Repeats::Idempotent => idempotent,
            Repeats::Always => true,
            Repeats::Never => false,
        }
    }

    /// How long a throttled upstream or key is left alone: as it asked for, else the first of
    /// `throttled`, at most `longest`. Asking for no time at all says nothing.
    #[must_use]
    pub fn rest(&self, asked: Option<Duration>, longest: Duration) -> Duration {
        self.wait(asked, 0).min(longest)
    }

    /// How long a call waits for a throttled upstream that it has already waited for `before` times.
    fn wait(&self, asked: Option<Duration>, before: usize) -> Duration {
        let written = || self.throttled.get(before).or(self.throttled.last()).copied();
        asked.filter(|asked| !asked.is_zero()).or_else(written).unwrap_or(DEFAULT_REST)
    }
}

/// How long a throttled upstream rests where neither it nor the configuration says.
const DEFAULT_REST: Duration = Duration::from_secs(5);

/// An upstream of the route, with one of its provider's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index among the route's upstreams.
    pub upstream: usize,
    /// Index among the provider's keys; `None` where it wants none.
    pub key: Option<usize>,
}

/// Why a target takes no calls, and when that may be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// It was throttled.
    Resting(Instant),
    /// Its key was refused.
    Refused(Instant),
    /// Its breaker is open, or a trial is under way.
    Open(Instant),
    /// An operator holds its breaker open until it is closed: nobody knows when that will be.
    Held,
}

/// How one try is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Only on a new connection: an idle one has just failed, or the call must not run twice.
    pub fresh: bool,
    /// Without `stream_options`, which the upstream refused.
    pub without_stream_options: bool,
    /// With token ids decoded to text, which the upstream wants.
    pub decode_tokens: bool,
}

/// What else is known of a failed try.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances {
    /// The connection had carried calls before and ended without a byte of an answer.
    pub stale: bool,
    /// The request carried a `stream_options` that the gateway had put in.
    pub added_stream_options: bool,
    /// The request carried token ids that the gateway may decode.
    pub carried_token_arrays: bool,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try this one now.
    Try(Step),
    /// Wait in the line of this one for a place, then try it.
    Queue(Step),
    /// Wait for one more try: take it out of the retry budget, say so to [`Pursuit::waits`], sleep.
    Wait(Pause),
    /// There is no more to be done.
    Over,
}

/// One try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whom to try.
    pub target: Target,
    /// How to try it.
    pub manner: Manner,
    /// Whether another upstream is left behind this one.
    pub more: bool,
}

/// A wait that ends with one more try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Not before.
    pub until: Instant,
    /// By then at the latest, for the try to have time for anything.
    latest: Instant,
    /// How long it is meant to be.
    wait: Duration,
    after: After,
}

impl Pause {
    /// Whether a throttled upstream is waited for, and not one that failed.
    #[must_use]
    pub fn is_after_throttling(&self) -> bool {
        self.after == After::Throttled
    }

    /// When to wake up: up to a fifth of the wait later than its end, so that calls which failed
    /// together do not come back together; less where the deadline leaves less room, which is shared out
    /// as evenly. `chance` is uniform in 0 to 1.
    #[must_use]
    pub fn wake(&self, chance: f64) -> Instant {
        let room = self.latest.saturating_duration_since(self.until);
        self.until + self.wait.mul_f64(0.2).min(room).mul_f64(chance.clamp(0.0, 1.0))
    }
}

/// Which list of waits a pause is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    ServerError,
    Throttled,
}

/// No try starts with less than this.
pub const LEAST: Duration = Duration::from_millis(50);

/// What a pursuit goes by.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The route's waits.
    pub retry: &'a Retry,
    /// The longest rest of a throttled upstream: `breaker.max_rest`.
    pub longest_rest: Duration,
    /// False for a call that must not run twice.
    pub may_repeat: bool,
    /// When all must be over; for streams: when the first content must be here.
    pub deadline: Instant,
}

/// One call's way through the upstreams.
#[derive(Debug)]
pub struct Pursuit<'a> {
    terms: Terms<'a>,
    places: SmallVec<[Place; 4]>,
    /// Of the try that was named last.
    at: usize,
    manner: Manner,
    /// Tries so far.
    tries: u32,
    /// Waits taken so far.
    waited: Waited,
    /// A wait has been paid for, and its try not been made.
    is_owed: bool,
    /// Time has passed in a try or in a wait: what barred targets may be over.
    has_passed: bool,
    /// There are no waits: the retry budget is spent, or nothing is to be repeated.
    forgone: bool,
    stopped: bool,
    first: Option<Fault>,
    /// What the first line that could not be waited in has to say.
    crowded: Option<Refusal>,
}

/// A target, and how it stands in this call.
#[derive(Clone, Copy, Debug)]
struct Place {
    target: Target,
    stands: Stands,
    /// The number of its last try; 0 before the first.
    tried: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Fresh,
    /// It failed, and may be tried again after a wait, but not before its breaker lets it.
    Broken(Option<Instant>),
    Barred(Bar),
    /// It has no place free now.
    Full,
    /// Nothing more is to be had from it.
    Out,
}

impl<'a> Pursuit<'a> {
    /// A pursuit through `targets` in their order, those that take no calls now marked so.
    #[must_use]
    pub fn new(targets: impl IntoIterator<Item = (Target, Option<Bar>)>, terms: Terms<'a>) -> Self {
        let place = |(target, bar): (Target, Option<Bar>)| Place {
            target,
            stands: bar.map_or(Stands::Fresh, Stands::Barred),
            tried: 0,
        };
        Self {
            places: targets.into_iter().map(place).collect(),
            at: 0,
            manner: Manner { fresh: !terms.may_repeat, ..Manner::default() },
            tries: 0,
            waited: Waited::default(),
            is_owed: false,
            has_passed: false,
            forgone: terms.retry.when == Repeats::Never,
            stopped: false,
            first: None,
            crowded: None,
            terms,
        }
    }

    /// What to do now. Whoever is told to try enters the upstream, or says that it is
    /// [`Pursuit::barred`], and tells how the try ended if it [`Pursuit::failed`].
    pub fn next(&mut self, now: Instant) -> Next {
        if self.stopped || self.left(now) < LEAST {
            return Next::Over;
        }
        if std::mem::take(&mut self.has_passed) {
            self.look_again(now);
        }
        let again = self.manner != self.first_manner();
        let at = if again { Some(self.at) } else { self.fresh().or_else(|| self.owed(now)) };
        if let Some(at) = at {
            return self.step(at).map_or(Next::Over, Next::Try);
        }
        // Only when nobody else has room.
        match self.places.iter().position(|place| place.stands == Stands::Full) {
            Some(at) => self.step(at).map_or(Next::Over, Next::Queue),
            None => self.pause(now).map_or(Next::Over, Next::Wait),
        }
    }

    fn left(&self, now: Instant) -> Duration {
        self.terms.deadline.saturating_duration_since(now)
    }

    fn first_manner(&self) -> Manner {
        Manner { fresh: !self.terms.may_repeat, ..Manner::default() }
    }

    /// Those that took no calls and may take them by now are as good as any that was not tried yet. Asked
    /// after each try and each wait, and not whenever one turns out to be barred still: an upstream on
    /// trial may be up again any moment, and nobody is to ask it over and over.
    fn look_again(&mut self, now: Instant) {
        for place in self.places.iter_mut().filter(|place| place.tried == 0) {
            if let Stands::Barred(Bar::Resting(until) | Bar::Refused(until) | Bar::Open(until)) = place.stands
                && until <= now
            {
                place.stands = Stands::Fresh;
            }
        }
    }

    fn fresh(&self) -> Option<usize> {
        self.places.iter().position(|place| place.stands == Stands::Fresh)
    }

    /// The one that has waited longest of those that may be tried again now, where a wait has been paid for.
    fn owed(&self, now: Instant) -> Option<usize> {
        let is_ready = |place: &Place| match place.stands {
            Stands::Broken(shut) => shut.is_none_or(|until| until <= now),
            Stands::Barred(Bar::Resting(until)) => until <= now,
            _ => false,
        };
        let ready = self.places.iter().enumerate().filter(|(_, place)| self.is_owed && is_ready(place));
        ready.min_by_key(|(_, place)| place.tried).map(|(at, _)| at)
    }

    fn step(&mut self, at: usize) -> Option<Step> {
        let target = self.places.get(at)?.target;
        self.at = at;
        let is_left = |place: &Place| {
            matches!(place.stands, Stands::Fresh | Stands::Full) && place.target.upstream != target.upstream
        };
        Some(Step { target, manner: self.manner, more: self.places.iter().any(is_left) })
    }

    /// The soonest pause that is granted and fits the deadline.
    fn pause(&self, now: Instant) -> Option<Pause> {
        if self.forgone {
            return None;
        }
        let Terms { retry, deadline, .. } = self.terms;
        let broken = retry.server_error.get(self.waited.server_error).map(|wait| (now + *wait, After::ServerError));
        let is_ready = |place: &Place, then| matches!(place.stands, Stands::Broken(shut) if shut.is_none_or(|until| until <= then));
        let broken = broken.filter(|(then, _)| self.places.iter().any(|place| is_ready(place, *then)));
        let rested = self.soonest(|stands| matches!(stands, Stands::Barred(Bar::Resting(_))));
        let rested = rested.filter(|_| self.waited.throttled < retry.throttled.len());
        let rested = rested.map(|until| (until.max(now), After::Throttled));
        let (until, after) = broken.into_iter().chain(rested).min_by_key(|(until, _)| *until)?;
        let latest = deadline.checked_sub(LEAST).filter(|latest| until <= *latest)?;
        Some(Pause { until, latest, wait: until.saturating_duration_since(now), after })
    }

    /// The soonest end of what bars those that stand so.
    fn soonest(&self, stands: impl Fn(Stands) -> bool) -> Option<Instant> {
        let end = |place: &Place| match place.stands {
            Stands::Barred(Bar::Resting(until) | Bar::Refused(until) | Bar::Open(until)) if stands(place.stands) => {
                Some(until)
            }
            _ => None,
        };
        self.places.iter().filter_map(end).min()
    }

    /// The pause that was named is taken: after it one more try is owed.
    pub fn waits(&mut self, pause: &Pause) {
        self.waited.takes(pause.after);
        self.is_owed = true;
        self.has_passed = true;
    }

    /// The pause that was named cannot be had: the route's retry budget is spent.
    pub fn forgo(&mut self) {
        self.forgone = true;
    }

    /// The target that was named takes no calls: somebody else has found out in the meantime.
    pub fn barred(&mut self, bar: Bar) {
        self.manner = self.first_manner();
        if let Some(place) = self.places.get_mut(self.at) {
            place.stands = Stands::Barred(bar);
        }
    }

    /// The failure that was told has opened its upstream's breaker: no wait that ends before `until` helps.
    pub fn opened(&mut self, until: Instant) {
        if let Some(place) = self.places.get_mut(self.at)
            && matches!(place.stands, Stands::Broken(_))
        {
            place.stands = Stands::Broken(Some(until));
        }
    }

    /// The upstream that was named has no place free: it is waited for if no other one has.
    pub fn full(&mut self) {
        self.manner = self.first_manner();
        let Some(place) = self.places.get_mut(self.at) else { return };
        place.stands = Stands::Full;
        let upstream = place.target.upstream;
        let others = self.places.iter_mut().filter(|other| other.target.upstream == upstream);
        for other in others.filter(|other| other.stands == Stands::Fresh) {
            other.stands = Stands::Full;
        }
    }

    /// The line that was named cannot be waited in, or has been for too long: then the call `is_over`.
    pub fn crowded(&mut self, refusal: Refusal, is_over: bool) {
        let upstream = self.places.get(self.at).map(|place| place.target.upstream);
        for place in self.places.iter_mut().filter(|place| Some(place.target.upstream) == upstream) {
            if place.stands == Stands::Full {
                place.stands = Stands::Out;
            }
        }
        self.crowded.get_or_insert(refusal);
        self.stopped |= is_over;
    }

    /// The try that was named has failed.
    pub fn failed(&mut self, fault: Fault, facts: Circumstances, now: Instant) {
        if self.again(&fault, facts) {
            return;
        }
        self.tries += 1;
        self.is_owed = false;
        // Who was to be tried again and had no place waits for the next wait: this one has been used up.
        for place in self.places.iter_mut().filter(|place| place.stands == Stands::Full && place.tried > 0) {
            place.stands = Stands::Broken(None);
        }
        self.has_passed = true;
        self.manner = self.first_manner();
        let Terms { retry, longest_rest, may_repeat, .. } = self.terms;
        let stands = match fault.class {
            Class::Throttle => {
                // Not before its rest is over for everybody, whatever the later waits are.
                let rest = retry.rest(fault.retry_after, longest_rest);
                let wait = retry.wait(fault.retry_after, self.waited.throttled).min(longest_rest);
                Stands::Barred(Bar::Resting(now + wait.max(rest)))
            }
            Class::Upstream if is_lasting(&fault) => Stands::Out,
            Class::Upstream | Class::Gateway => Stands::Broken(None),
            Class::Caller | Class::Credential => Stands::Out,
        };
        if let Some(place) = self.places.get_mut(self.at) {
            place.stands = stands;
            place.tried = self.tries;
            let upstream = place.target.upstream;
            // Another key helps against a refusal or a throttle, not against a fault of the upstream or the gateway.
            let is_of_no_key = matches!(fault.class, Class::Upstream | Class::Gateway);
            let other_keys = self.places.iter_mut().filter(|other| is_of_no_key && other.target.upstream == upstream);
            for other in other_keys.filter(|other| matches!(other.stands, Stands::Fresh | Stands::Full)) {
                other.stands = Stands::Out;
            }
        }
        // An answer that the gateway had no room for was made: there would be none for another one either.
        let once_only = (!may_repeat || fault.class == Class::Gateway) && fault.maybe_processed;
        // What only a fallback objects to need not be the caller's fault: others may take the call.
        let is_callers = fault.class == Class::Caller && self.first.is_none();
        self.stopped = is_callers || (once_only && !matches!(fault.class, Class::Caller | Class::Credential));
        // The first failure is the one to tell, for a later upstream may lack what the call needs.
        self.first.get_or_insert(fault);
    }

    /// Whether the same target is tried once more, in another manner: nobody is charged for a
    /// connection that had gone stale, nor for what the gateway itself had put into the request.
    fn again(&mut self, fault: &Fault, facts: Circumstances) -> bool {
        if facts.stale && self.terms.may_repeat && !self.manner.fresh {
            self.manner.fresh = true;
            return true;
        }
        if fault.class != Class::Caller || fault.context_overflow {
            return false;
        }
        if facts.carried_token_arrays && !self.manner.decode_tokens {
            self.manner.decode_tokens = true;
            return true;
        }
        if facts.added_stream_options && !self.manner.without_stream_options && blames_stream_options(fault) {
            self.manner.without_stream_options = true;
            return true;
        }
        false
    }
}

/// Faults that a second try at the same upstream cannot mend: it does not know such calls, has moved, or
/// its model makes other vectors.
fn is_lasting(fault: &Fault) -> bool {
    fault.status.is_some_and(|status| status == 501 || (300..400).contains(&status)) || fault.kind == Kind::Dimension
}

fn blames_stream_options(fault: &Fault) -> bool {
    let told = fault.told.as_deref();
    let named = told.and_then(|told| told.param.as_deref()).is_some_and(|param| param.contains("stream_options"));
    // A strict server may name the field in its message only, or name nothing at all.
    named || told.is_none_or(|told| told.message.contains("stream_options") || told.message.contains("include_usage"))
}
