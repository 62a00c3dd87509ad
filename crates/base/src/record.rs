//! What is written down about one request, once.

use std::sync::Arc;
use std::time::Duration;

use crate::{Endpoint, Kind, Usage};

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
    /// A fault of the gateway's own.
    GatewayFailed,
}

impl Outcome {
    /// Every outcome, in the order of the reference table.
    pub const ALL: [Self; 21] = [
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
        Self::GatewayFailed,
    ];

    /// As metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::CallerInvalid => "caller_invalid",
            Self::CallerUnauthenticated => "caller_unauthenticated",
            Self::CallerForbidden => "caller_forbidden",
            Self::CallerNotFound => "caller_not_found",
            Self::CallerTimeout => "caller_timeout",
            Self::CallerGone => "caller_gone",
            Self::CallerRefused => "caller_refused",
            Self::PolicyDenied => "policy_denied",
            Self::PolicyLimited => "policy_limited",
            Self::PolicyQueued => "policy_queued",
            Self::PolicyQuota => "policy_quota",
            Self::UpstreamFailed => "upstream_failed",
            Self::UpstreamBadResponse => "upstream_bad_response",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::UpstreamThrottled => "upstream_throttled",
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::UpstreamDegraded => "upstream_degraded",
            Self::UpstreamCut => "upstream_cut",
            Self::GatewayShutdown => "gateway_shutdown",
            Self::GatewayFailed => "gateway_failed",
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
    /// The caller left while it ran.
    Gone,
}

impl AttemptOutcome {
    /// Every value, in the order of the reference table.
    pub const ALL: [Self; 14] = [
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
        Self::Gone,
    ];

    /// As metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Credential => "credential",
            Self::Throttled => "throttled",
            Self::Failed(Kind::Connect) => "connect_error",
            Self::Failed(Kind::Reset) => "reset",
            Self::Failed(Kind::Timeout) => "timeout",
            Self::Failed(Kind::FirstByte) => "first_byte_timeout",
            Self::Failed(Kind::Idle) => "stream_timeout",
            Self::Failed(Kind::Status) => "status",
            Self::Failed(Kind::BadResponse) => "bad_response",
            Self::Failed(Kind::Dimension) => "dimension_mismatch",
            Self::Failed(Kind::Cut) => "cut",
            Self::Gone => "caller_gone",
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
    /// From its start to its end (a stream's: to its last byte).
    pub took: Duration,
}

/// Everything that log, metrics and ledger are made from; exactly one per request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Wall clock at arrival, from the Unix epoch.
    pub time: Duration,
    /// The caller's `x-request-id`, or ours.
    pub request_id: Box<str>,
    /// The client's configured name; `None` before it is known.
    pub client: Option<Arc<str>>,
    /// The route's configured name; `None` before it is known.
    pub route: Option<Arc<str>>,
    /// Which endpoint, where the path named one.
    pub endpoint: Option<Endpoint>,
    /// The upstream that gave the answer.
    pub upstream: Option<Arc<str>>,
    /// Every try, in order.
    pub attempts: smallvec::SmallVec<[Attempt; 2]>,
    /// The HTTP status that the caller saw (499 where it left before one).
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// The error object's code, where one was sent.
    pub code: Option<Box<str>>,
    /// Tokens; `None` where nothing was consumed.
    pub usage: Option<Usage>,
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
}
