//! What is written down about one request, once.

use std::sync::Arc;
use std::time::Duration;

use crate::{AttemptSpan, Cached, Class, Cost, Endpoint, Fault, Kind, Matched, Noted, Saved, Trace, Truncated, Usage};

/// How a request ended. A closed set; the first word names the domain at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered whole.
    Ok,
    /// A body, field, header or method that the endpoint does not take.
    CallerInvalid,
    /// No valid key.
    CallerUnauthenticated,
    /// A key without that route.
    CallerForbidden,
    /// No such route or path.
    CallerNotFound,
    /// The body did not arrive.
    CallerTimeout,
    /// The caller left before the end.
    CallerGone,
    /// The upstream refused the call as the caller's fault.
    CallerRefused,
    /// The parameter policy.
    PolicyDenied,
    /// A limit.
    PolicyLimited,
    /// The queue.
    PolicyQueued,
    /// The quota.
    PolicyQuota,
    /// The upstream failed.
    UpstreamFailed,
    /// The upstream's answer was not its protocol's.
    UpstreamBadResponse,
    /// A clock ran out.
    UpstreamTimeout,
    /// Throttled everywhere.
    UpstreamThrottled,
    /// No upstream could take the call.
    UpstreamUnavailable,
    /// Failed, and the application was told to go on without.
    UpstreamDegraded,
    /// A stream that broke after its first content.
    UpstreamCut,
    /// Draining.
    GatewayShutdown,
    /// No descriptors, ports or memory left.
    GatewayOverloaded,
    /// A fault of the gateway's own.
    GatewayFailed,
}

impl Outcome {
    /// Every outcome, in the order of the reference table.
    pub const ALL: [Self; 22] = [
        Self::Ok,
        Self::CallerInvalid,
        Self::CallerUnauthenticated,
        Self::CallerForbidden,
        Self::CallerNotFound,
        Self::CallerTimeout,
        Self::CallerGone,
        Self::CallerRefused,
        Self::PolicyDenied,
        Self::PolicyLimited,
        Self::PolicyQueued,
        Self::PolicyQuota,
        Self::UpstreamFailed,
        Self::UpstreamBadResponse,
        Self::UpstreamTimeout,
        Self::UpstreamThrottled,
        Self::UpstreamUnavailable,
        Self::UpstreamDegraded,
        Self::UpstreamCut,
        Self::GatewayShutdown,
        Self::GatewayOverloaded,
        Self::GatewayFailed,
    ];

    /// As metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// What it says, for the reference.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.row().1
    }

    const fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Ok => ("ok", "answered whole"),
            Self::CallerInvalid => {
                ("caller_invalid", "a body, field, header or method that the endpoint does not take")
            }
            Self::CallerUnauthenticated => ("caller_unauthenticated", "no valid key"),
            Self::CallerForbidden => ("caller_forbidden", "a key without that route"),
            Self::CallerNotFound => ("caller_not_found", "no such route or path"),
            Self::CallerTimeout => ("caller_timeout", "the body did not arrive in time"),
            Self::CallerGone => ("caller_gone", "the caller left before the end"),
            Self::CallerRefused => ("caller_refused", "the upstream refused the call as the caller's fault"),
            Self::PolicyDenied => ("policy_denied", "the parameter policy forbids a field"),
            Self::PolicyLimited => ("policy_limited", "a rate, token or concurrency limit"),
            Self::PolicyQueued => ("policy_queued", "the queue was full, or the wait in it too long"),
            Self::PolicyQuota => ("policy_quota", "the quota of the period is spent"),
            Self::UpstreamFailed => ("upstream_failed", "the upstream failed, after every other try"),
            Self::UpstreamBadResponse => (
                "upstream_bad_response",
                "the upstream's answer was not its protocol's, or its vectors had the wrong dimension",
            ),
            Self::UpstreamTimeout => ("upstream_timeout", "an attempt's clock or the call's deadline ran out"),
            Self::UpstreamThrottled => ("upstream_throttled", "every upstream is throttled and rests"),
            Self::UpstreamUnavailable => ("upstream_unavailable", "no upstream could take the call"),
            Self::UpstreamDegraded => {
                ("upstream_degraded", "the call failed, and the application was told to go on without it")
            }
            Self::UpstreamCut => ("upstream_cut", "a stream that broke after its first content"),
            Self::GatewayShutdown => ("gateway_shutdown", "the gateway is stopping"),
            Self::GatewayOverloaded => {
                ("gateway_overloaded", "the gateway had no descriptors, ports or memory left for the call")
            }
            Self::GatewayFailed => ("gateway_failed", "a fault of the gateway's own"),
        }
    }
}

/// How one try ended. A closed set, the `outcome` of attempts in metrics and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// A whole answer, or a stream that ended complete.
    Ok,
    /// The caller's fault, by the upstream's word.
    Refused,
    /// The gateway's own key was refused.
    Credential,
    /// Throttled.
    Throttled,
    /// It failed so.
    Failed(Kind),
    /// The gateway had no descriptors, ports or memory for it.
    Overloaded,
    /// The caller left while it ran.
    Gone,
    /// The gateway ended it: another part of the call had failed, or it was stopping.
    Cancelled,
}

impl AttemptOutcome {
    /// Every value, in the order of the reference table.
    pub const ALL: [Self; 16] = [
        Self::Ok,
        Self::Refused,
        Self::Credential,
        Self::Throttled,
        Self::Failed(Kind::Connect),
        Self::Failed(Kind::Reset),
        Self::Failed(Kind::Timeout),
        Self::Failed(Kind::FirstByte),
        Self::Failed(Kind::Idle),
        Self::Failed(Kind::Status),
        Self::Failed(Kind::BadResponse),
        Self::Failed(Kind::Dimension),
        Self::Failed(Kind::Cut),
        Self::Overloaded,
        Self::Gone,
        Self::Cancelled,
    ];

    /// How a try ended that failed so.
    #[must_use]
    pub const fn of(fault: &Fault) -> Self {
        match fault.class {
            Class::Caller => Self::Refused,
            Class::Credential => Self::Credential,
            Class::Throttle => Self::Throttled,
            Class::Upstream => Self::Failed(fault.kind),
            Class::Gateway => Self::Overloaded,
        }
    }

    /// As metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// What it says, for the reference.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.row().1
    }

    const fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Ok => ("ok", "a whole answer, or a stream that ended complete"),
            Self::Refused => ("refused", "the caller's fault, by the upstream's word"),
            Self::Credential => ("credential", "the gateway's own key was refused"),
            Self::Throttled => ("throttled", "the upstream asked for fewer calls"),
            Self::Failed(Kind::Connect) => ("connect_error", "no connection: name, TCP, TLS or proxy"),
            Self::Failed(Kind::Reset) => ("reset", "the connection ended without an answer"),
            Self::Failed(Kind::Timeout) => ("timeout", "the attempt's clock ran out"),
            Self::Failed(Kind::FirstByte) => ("first_byte_timeout", "a stream brought no content in time"),
            Self::Failed(Kind::Idle) => ("stream_timeout", "a stream fell silent, or ran longer than it may"),
            Self::Failed(Kind::Status) => ("status", "a status that is the upstream's fault"),
            Self::Failed(Kind::BadResponse) => ("bad_response", "a success that is not the protocol's"),
            Self::Failed(Kind::Dimension) => ("dimension_mismatch", "vectors of another dimension"),
            Self::Failed(Kind::Cut) => ("cut", "a stream that broke after its first content"),
            Self::Overloaded => ("gateway_overloaded", "the gateway had no descriptors, ports or memory for it"),
            Self::Gone => ("caller_gone", "the caller left while it ran"),
            Self::Cancelled => {
                ("cancelled", "ended by the gateway: another part of the call failed, or it was stopping")
            }
        }
    }
}

/// One try, as recorded.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// `provider/model` as configured.
    pub upstream: Arc<str>,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The upstream's HTTP status, where there was one.
    pub status: Option<u16>,
    /// When it began, from the request's arrival.
    pub at: Duration,
    /// From its start to its end (a stream's: to its last byte).
    pub took: Duration,
    /// It was made by another request, for this one too; counted there.
    pub is_anothers: bool,
    /// A drill has harmed it: an operator injects faults into the upstream.
    pub is_drill: bool,
    /// Its span, where its trace is recorded.
    pub span: Option<Box<AttemptSpan>>,
}

/// What one upstream used for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    /// `provider/model` as configured; `None` where none is known.
    pub upstream: Option<Arc<str>>,
    /// The model's name there.
    pub model: Option<Arc<str>>,
    /// Tokens.
    pub usage: Usage,
    /// What they cost; `None` at a price that nobody knows.
    pub cost: Option<Cost>,
}

/// What upstreams used for one request, each once for every currency: bounded by the upstreams of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending(Vec<Spent>);

impl Spending {
    /// Adds what was used.
    pub fn add(&mut self, more: Spent) {
        let currency = |spent: &Spent| spent.cost.as_ref().map(|cost| cost.currency.clone());
        let is_alike = |known: &&mut Spent| known.upstream == more.upstream && currency(known) == currency(&more);
        match self.0.iter_mut().find(is_alike) {
            Some(known) => {
                known.usage = known.usage.plus(more.usage);
                known.cost = known.cost.take().zip(more.cost).and_then(|(sum, more)| sum.plus(more));
            }
            None => self.0.push(more),
        }
    }

    /// Adds all that another holds.
    pub fn add_all(&mut self, more: Self) {
        more.0.into_iter().for_each(|spent| self.add(spent));
    }

    /// Each upstream's.
    pub fn each(&self) -> impl Iterator<Item = &Spent> {
        self.0.iter()
    }

    /// Each upstream's, to keep.
    pub fn into_each(self) -> impl Iterator<Item = Spent> {
        self.0.into_iter()
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All tokens together.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.0.iter().map(|spent| spent.usage).reduce(Usage::plus)
    }

    /// All cost together; `None` where a price is not known, or is in another currency than the rest.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let mut costs = self.0.iter().map(|spent| spent.cost.clone());
        let first = costs.next()??;
        costs.try_fold(first, |sum, cost| sum.plus(cost?))
    }
}

/// Everything that log, metrics and ledger are made from; exactly one per request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Wall clock at arrival, from the Unix epoch.
    pub time: Duration,
    /// The caller's `x-request-id`, or ours.
    pub request_id: Box<str>,
    /// Its place in a trace; `None` where there is no `telemetry`.
    pub trace: Option<Box<Trace>>,
    /// The client's configured name; `None` before it is known.
    pub client: Option<Arc<str>>,
    /// The route's configured name; `None` before it is known.
    pub route: Option<Arc<str>>,
    /// Which endpoint, where the path named one.
    pub endpoint: Option<Endpoint>,
    /// The upstream that gave the answer.
    pub upstream: Option<Arc<str>>,
    /// The model's name there.
    pub model: Option<Arc<str>>,
    /// Every try, in order.
    pub attempts: smallvec::SmallVec<[Attempt; 1]>,
    /// What was decided on its way, in order.
    pub decisions: smallvec::SmallVec<[Noted; 1]>,
    /// The HTTP status that the caller saw (499 where it left before one).
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// The error object's code, where one was sent.
    pub code: Option<Box<str>>,
    /// Tokens of all tries together; `None` where nothing was consumed.
    pub usage: Option<Usage>,
    /// What they cost; `None` where nothing was consumed, at a price that nobody knows, and in several
    /// currencies.
    pub cost: Option<Cost>,
    /// Whose they are, where it is not the upstream alone that answered: parts of a split call, and answers
    /// that came and were not passed on. Empty otherwise.
    pub spending: Spending,
    /// The account of its client's quota that it was settled with; 0 where it was with none.
    pub settled_in: u64,
    /// From arrival to the first content of a stream.
    pub first_content: Option<Duration>,
    /// From arrival to the last byte.
    pub took: Duration,
    /// The part of `took` not spent waiting for an upstream, up to the first byte of the answer.
    pub overhead: Duration,
    /// Time spent in a queue.
    pub queued: Duration,
    /// Why the answer was degraded.
    pub degraded: Option<Box<str>>,
    /// What the token budget left out of the prompt.
    pub truncated: Option<Truncated>,
    /// What its cache came to; `None` where there is none.
    pub cache: Option<Cached>,
    /// A stored answer to the same question in other words.
    pub matched: Option<Box<Matched>>,
    /// What it would have used, had the answer not been there.
    pub saved: Option<Box<Saved>>,
    /// What tells the request from others on its endpoint: a hash of the caller's own request id and
    /// one of the body; 0 where there is none. Good for this process alone, and never written down.
    pub fingerprints: [u64; 2],
}

/// The status under which a caller is recorded who left before it saw one.
pub const CALLER_GONE: u16 = 499;

impl Record {
    /// Of a request that arrived then, and of which nothing else is known: its caller has left.
    #[must_use]
    pub fn begun(time: Duration, request_id: Box<str>) -> Self {
        Self {
            time,
            request_id,
            trace: None,
            client: None,
            route: None,
            endpoint: None,
            upstream: None,
            model: None,
            attempts: smallvec::SmallVec::new(),
            decisions: smallvec::SmallVec::new(),
            status: CALLER_GONE,
            outcome: Outcome::CallerGone,
            code: None,
            usage: None,
            cost: None,
            spending: Spending::default(),
            settled_in: 0,
            first_content: None,
            took: Duration::ZERO,
            overhead: Duration::ZERO,
            queued: Duration::ZERO,
            degraded: None,
            truncated: None,
            cache: None,
            saved: None,
            matched: None,
            fingerprints: [0; 2],
        }
    }

    /// What each currency's cost is; the costs at unknown prices are not in it.
    pub fn costs(&self) -> impl Iterator<Item = &Cost> {
        let whole = self.cost.as_ref().filter(|_| self.spending.is_empty());
        whole.into_iter().chain(self.spending.each().filter_map(|spent| spent.cost.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(upstream: &str, prompt: u64, cost: Option<(u64, &str)>) -> Spent {
        let usage = Usage { prompt, ..Usage::default() };
        let cost = cost.map(|(nanos, currency)| Cost { nanos, currency: currency.into() });
        Spent { upstream: Some(upstream.into()), model: None, usage, cost }
    }

    fn spending(all: impl IntoIterator<Item = Spent>) -> Spending {
        let mut spending = Spending::default();
        all.into_iter().for_each(|one| spending.add(one));
        spending
    }

    #[test]
    fn what_an_upstream_used_several_times_is_one_sum() {
        let all = spending([
            spent("a", 1, Some((10, "USD"))),
            spent("b", 2, Some((20, "USD"))),
            spent("a", 4, Some((40, "USD"))),
        ]);
        assert_eq!(all.each().count(), 2);
        assert_eq!(all.usage().map(Usage::tokens), Some(7));
        assert_eq!(all.cost(), Some(Cost { nanos: 70, currency: "USD".into() }));
    }

    #[test]
    fn a_sum_of_several_currencies_or_with_an_unknown_price_is_no_sum() {
        let two = spending([spent("a", 1, Some((10, "USD"))), spent("a", 2, Some((20, "CNY")))]);
        assert_eq!((two.each().count(), two.cost()), (2, None));
        let unknown = spending([spent("a", 1, Some((10, "USD"))), spent("a", 2, None), spent("a", 4, None)]);
        assert_eq!((unknown.each().count(), unknown.cost()), (2, None));
        assert_eq!(unknown.usage().map(Usage::tokens), Some(7), "tokens are known all the same");
        assert_eq!((Spending::default().usage(), Spending::default().cost()), (None, None));
    }
}
