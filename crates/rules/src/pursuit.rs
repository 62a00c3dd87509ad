//! Which upstream is tried next, and what a failure allows: docs/contract.md, section 4.
//!
//! A pursuit walks the route's targets (an upstream with one of its keys) in the order given. It
//! sends nothing and waits for nothing; the gateway tries what it names and tells it how that went.

use std::time::{Duration, Instant};

use base::{Class, Code, Fault, Kind, Refusal};
use smallvec::SmallVec;

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

/// An upstream of the route, with one of its provider's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index among the route's upstreams.
    pub upstream: usize,
    /// Index among the provider's keys; `None` where it wants none.
    pub key: Option<usize>,
}

/// How one try is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
pub struct Step {
    /// Whom to try.
    pub target: Target,
    /// How.
    pub manner: Manner,
    /// Whether another upstream is left behind this one.
    pub more: bool,
}

/// No try starts with less than this.
pub const LEAST: Duration = Duration::from_millis(50);

/// One call's way through the upstreams.
#[derive(Debug)]
pub struct Pursuit {
    targets: SmallVec<[Target; 4]>,
    at: usize,
    manner: Manner,
    may_repeat: bool,
    stopped: bool,
    first: Option<Fault>,
    all_throttled: bool,
    shortest_rest: Option<Duration>,
}

impl Pursuit {
    /// A pursuit through `targets` in their order. `may_repeat` is false for a call that must not
    /// run twice.
    #[must_use]
    pub fn new(targets: SmallVec<[Target; 4]>, may_repeat: bool) -> Self {
        let manner = Manner { fresh: !may_repeat, without_stream_options: false, decode_tokens: false };
        Self {
            targets,
            at: 0,
            manner,
            may_repeat,
            stopped: false,
            first: None,
            all_throttled: true,
            shortest_rest: None,
        }
    }

    /// Whom to try now; `None` when the pursuit is over.
    #[must_use]
    pub fn next(&self, now: Instant, deadline: Instant) -> Option<Step> {
        if self.stopped || deadline.saturating_duration_since(now) < LEAST {
            return None;
        }
        let target = *self.targets.get(self.at)?;
        let more = self.targets.iter().skip(self.at + 1).any(|later| later.upstream != target.upstream);
        Some(Step { target, manner: self.manner, more })
    }

    /// The try that [`Pursuit::next`] named has failed.
    pub fn failed(&mut self, fault: Fault, facts: Circumstances) {
        if self.again(&fault, facts) {
            return;
        }
        let Some(target) = self.targets.get(self.at).copied() else { return };
        self.all_throttled &= fault.class == Class::Throttle;
        if let Some(rest) = fault.retry_after.filter(|_| fault.class == Class::Throttle) {
            self.shortest_rest = Some(self.shortest_rest.map_or(rest, |known| known.min(rest)));
        }
        let once_only = !self.may_repeat && fault.maybe_processed;
        self.stopped = fault.class == Class::Caller || (once_only && fault.class != Class::Credential);
        let other_key_helps = matches!(fault.class, Class::Credential | Class::Throttle);
        self.at += 1;
        while !other_key_helps && self.targets.get(self.at).is_some_and(|next| next.upstream == target.upstream) {
            self.at += 1;
        }
        self.manner = Manner { fresh: !self.may_repeat, without_stream_options: false, decode_tokens: false };
        // The first failure is the one to tell, for a later upstream may lack what the call needs.
        self.first.get_or_insert(fault);
    }

    /// Whether the same target is tried once more, in another manner: nobody is charged for a
    /// connection that had gone stale, nor for what the gateway itself had put into the request.
    fn again(&mut self, fault: &Fault, facts: Circumstances) -> bool {
        if facts.stale && self.may_repeat && !self.manner.fresh {
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

    /// What the caller is told when the pursuit is over without an answer.
    #[must_use]
    pub fn verdict(self, now: Instant, deadline: Instant) -> Refusal {
        let spent = deadline.saturating_duration_since(now) < LEAST;
        match self.first {
            None if spent => deadline_exceeded(),
            None => Refusal::new(Code::AllUpstreamsUnavailable, "no upstream of this route can take calls now"),
            Some(fault) if fault.class == Class::Caller => refusal(fault),
            Some(_) if self.all_throttled && self.at >= self.targets.len() => {
                throttled(self.shortest_rest.unwrap_or(DEFAULT_REST))
            }
            Some(_) if spent => deadline_exceeded(),
            Some(fault) => refusal(fault),
        }
    }
}

/// What a throttled caller is told to wait where the upstream named no time.
const DEFAULT_REST: Duration = Duration::from_secs(5);

fn blames_stream_options(fault: &Fault) -> bool {
    let told = fault.told.as_deref();
    let named = told.and_then(|told| told.param.as_deref()).is_some_and(|param| param.contains("stream_options"));
    // A strict server may name the field in its message only, or name nothing at all.
    named || told.is_none_or(|told| told.message.contains("stream_options") || told.message.contains("include_usage"))
}

fn deadline_exceeded() -> Refusal {
    Refusal::new(Code::DeadlineExceeded, "the call's deadline ran out before an upstream answered")
}

/// No rest is longer, whatever an upstream asks for: the default of `breaker.max_rest`.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Every upstream rests: come back when the first one is up again, after five minutes at most.
#[must_use]
pub fn throttled(wait: Duration) -> Refusal {
    Refusal::new(Code::UpstreamThrottled, "every upstream of this route is throttled; try again later")
        .after(wait.min(LONGEST_REST))
}

/// A fault in the caller's words.
#[must_use]
pub fn refusal(fault: Fault) -> Refusal {
    let code = match (fault.class, fault.kind) {
        (Class::Caller, _) if fault.context_overflow => Code::ContextLengthExceeded,
        (Class::Caller, _) => Code::UpstreamRefused,
        (Class::Throttle, _) => return throttled(fault.retry_after.unwrap_or(DEFAULT_REST)),
        (Class::Credential, _) => {
            return Refusal::new(
                Code::UpstreamError,
                "the upstream refused the gateway's own key; its operator must act",
            );
        }
        (Class::Upstream, Kind::Timeout | Kind::FirstByte | Kind::Idle) => Code::UpstreamTimeout,
        (Class::Upstream, Kind::BadResponse) => Code::UpstreamBadResponse,
        (Class::Upstream, Kind::Dimension) => Code::EmbeddingDimensionMismatch,
        (Class::Upstream, _) => Code::UpstreamError,
    };
    let told = fault.told.filter(|_| fault.class == Class::Caller);
    let message = told.as_ref().map_or(fault.message, |told| told.message.clone());
    let param = told.as_ref().and_then(|told| told.param.clone()).map(Into::into);
    Refusal { code, message: message.into(), param, retry_after: None, told }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Told;

    fn at(seconds: u64) -> (Instant, Instant) {
        let epoch = base::Clock.now();
        (epoch, epoch + Duration::from_secs(seconds))
    }

    fn target(upstream: usize, key: usize) -> Target {
        Target { upstream, key: Some(key) }
    }

    fn pursuit(targets: &[Target], may_repeat: bool) -> Pursuit {
        Pursuit::new(targets.iter().copied().collect(), may_repeat)
    }

    fn fault(class: Class, kind: Kind) -> Fault {
        Fault { class, ..Fault::upstream(kind, "it broke") }
    }

    fn told(status: u16, message: &str) -> Fault {
        let told = Told { status, message: message.into(), kind: None, param: None, code: None };
        Fault { told: Some(Box::new(told)), ..fault(Class::Caller, Kind::Status) }
    }

    fn next(pursuit: &Pursuit) -> Option<Target> {
        let (now, deadline) = at(10);
        pursuit.next(now, deadline).map(|step| step.target)
    }

    #[test]
    fn a_broken_upstream_is_left_for_the_next_one_whatever_its_other_keys() {
        let mut pursuit = pursuit(&[target(0, 0), target(0, 1), target(1, 0)], true);
        pursuit.failed(fault(Class::Upstream, Kind::Status), Circumstances::default());
        assert_eq!(next(&pursuit), Some(target(1, 0)));
    }

    #[test]
    fn a_refused_or_throttled_key_is_followed_by_the_next_key() {
        for class in [Class::Credential, Class::Throttle] {
            let mut pursuit = pursuit(&[target(0, 0), target(0, 1), target(1, 0)], true);
            pursuit.failed(fault(class, Kind::Status), Circumstances::default());
            assert_eq!(next(&pursuit), Some(target(0, 1)));
        }
    }

    #[test]
    fn the_callers_fault_ends_it_with_the_upstreams_words() {
        let mut pursuit = pursuit(&[target(0, 0), target(1, 0)], true);
        pursuit.failed(told(422, "no such field"), Circumstances::default());
        assert_eq!(next(&pursuit), None);
        let (now, deadline) = at(10);
        let refusal = pursuit.verdict(now, deadline);
        assert_eq!((refusal.status(), &*refusal.message), (422, "no such field"));
    }

    #[test]
    fn a_fallbacks_refusal_does_not_hide_the_first_failure() {
        let mut pursuit = pursuit(&[target(0, 0), target(1, 0)], true);
        pursuit.failed(fault(Class::Upstream, Kind::Status), Circumstances::default());
        pursuit.failed(told(400, "too long"), Circumstances::default());
        let (now, deadline) = at(10);
        assert_eq!(pursuit.verdict(now, deadline).code, Code::UpstreamError);
    }

    #[test]
    fn a_stale_connection_costs_one_more_try_on_a_new_one_and_no_more() {
        let mut pursuit = pursuit(&[target(0, 0)], true);
        let stale = Circumstances { stale: true, ..Circumstances::default() };
        pursuit.failed(fault(Class::Upstream, Kind::Reset), stale);
        let (now, deadline) = at(10);
        assert!(pursuit.next(now, deadline).unwrap().manner.fresh);
        pursuit.failed(fault(Class::Upstream, Kind::Reset), stale);
        assert_eq!(pursuit.next(now, deadline), None);
    }

    #[test]
    fn a_call_with_side_effects_moves_on_only_where_nothing_was_processed() {
        let mut refused = pursuit(&[target(0, 0), target(1, 0)], false);
        refused.failed(fault(Class::Upstream, Kind::Connect), Circumstances::default());
        assert_eq!(next(&refused), Some(target(1, 0)));
        let mut broken = pursuit(&[target(0, 0), target(1, 0)], false);
        broken.failed(fault(Class::Upstream, Kind::Reset), Circumstances::default());
        assert_eq!(next(&broken), None);
    }

    #[test]
    fn what_the_gateway_put_in_is_taken_out_once_before_anyone_is_blamed() {
        let mut pursuit = pursuit(&[target(0, 0)], true);
        let added = Circumstances { added_stream_options: true, ..Circumstances::default() };
        pursuit.failed(told(400, "Unknown field: stream_options"), added);
        let (now, deadline) = at(10);
        assert!(pursuit.next(now, deadline).unwrap().manner.without_stream_options);
        pursuit.failed(told(400, "max_tokens is too large"), Circumstances::default());
        assert_eq!(pursuit.verdict(now, deadline).message, "max_tokens is too large");
    }

    #[test]
    fn throttled_everywhere_is_told_with_the_shortest_rest() {
        let mut pursuit = pursuit(&[target(0, 0), target(1, 0)], true);
        for seconds in [9, 4] {
            let fault =
                Fault { retry_after: Some(Duration::from_secs(seconds)), ..fault(Class::Throttle, Kind::Status) };
            pursuit.failed(fault, Circumstances::default());
        }
        let (now, deadline) = at(10);
        let refusal = pursuit.verdict(now, deadline);
        assert_eq!(refusal.code, Code::UpstreamThrottled);
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(4)));
    }

    #[test]
    fn nothing_starts_when_the_deadline_leaves_no_room() {
        let pursuit = pursuit(&[target(0, 0)], true);
        let now = base::Clock.now();
        assert_eq!(pursuit.next(now, now + Duration::from_millis(49)), None);
        assert_eq!(pursuit.verdict(now, now).code, Code::DeadlineExceeded);
    }
}
