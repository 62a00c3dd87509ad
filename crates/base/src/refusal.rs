//! What the caller is told instead of an answer, and the one table of codes.

use std::borrow::Cow;
use std::time::Duration;

use crate::{Outcome, Told};

/// The reason of a refusal, as the `code` of OpenAI's error object spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The body is not JSON.
    InvalidJson,
    /// The body or a header is JSON or text, but not what the endpoint takes.
    InvalidRequest,
    /// The route's parameter policy forbids a field.
    ParameterDenied,
    /// The prompt does not fit.
    ContextLengthExceeded,
    /// No key, an unknown, a revoked or an expired one.
    InvalidApiKey,
    /// A key without that route.
    RouteNotAllowed,
    /// No route of that model name on that path.
    ModelNotFound,
    /// No such path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The body is larger than `max_body`.
    RequestTooLarge,
    /// The body's coding is none that the gateway reads.
    UnsupportedEncoding,
    /// A look-up that found no stored answer.
    CacheMiss,
    /// One idempotency key with two bodies.
    IdempotencyConflict,
    /// A rate or concurrency limit.
    RateLimitExceeded,
    /// The queue holds as many as it may.
    QueueFull,
    /// The wait in the queue took too long.
    QueueTimeout,
    /// The client's quota is spent.
    InsufficientQuota,
    /// Every upstream rests.
    UpstreamThrottled,
    /// The upstream failed.
    UpstreamError,
    /// The upstream's answer is not the protocol's.
    UpstreamBadResponse,
    /// The upstream's vectors have another dimension.
    EmbeddingDimensionMismatch,
    /// Every breaker is open, or no upstream can take the call.
    AllUpstreamsUnavailable,
    /// The call failed where the application should go on without it.
    Degraded,
    /// The gateway is draining.
    ShuttingDown,
    /// An attempt's clock ran out.
    UpstreamTimeout,
    /// The whole call's clock ran out.
    DeadlineExceeded,
    /// The gateway has no descriptors, ports or memory left for the call.
    GatewayOverloaded,
    /// The gateway itself is at fault.
    InternalError,
    /// The upstream refused the call for the caller's own fault; status and words are its own.
    UpstreamRefused,
}

/// What belongs to a code: one row of the table of errors.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As written in the error object.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
    /// The error object's `type`.
    pub kind: &'static str,
    /// What metrics and log call the ending.
    pub outcome: Outcome,
    /// True where the caller's own repeat may help.
    pub retry_helps: bool,
    /// When it happens, for the reference.
    pub when: &'static str,
}

/// The closed set of the error object's `type`.
pub const TYPES: [&str; 7] = [
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "rate_limit_error",
    "timeout_error",
    "api_error",
];

impl Code {
    /// Every code, in the order of the reference table: by status, then by name; what an upstream has told comes last.
    pub const ALL: [Self; 30] = [
        Self::ContextLengthExceeded,
        Self::InvalidJson,
        Self::InvalidRequest,
        Self::ParameterDenied,
        Self::InvalidApiKey,
        Self::RouteNotAllowed,
        Self::CacheMiss,
        Self::ModelNotFound,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::RequestTooLarge,
        Self::UnsupportedEncoding,
        Self::IdempotencyConflict,
        Self::InsufficientQuota,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::RateLimitExceeded,
        Self::UpstreamThrottled,
        Self::InternalError,
        Self::EmbeddingDimensionMismatch,
        Self::UpstreamBadResponse,
        Self::UpstreamError,
        Self::AllUpstreamsUnavailable,
        Self::Degraded,
        Self::GatewayOverloaded,
        Self::ShuttingDown,
        Self::DeadlineExceeded,
        Self::UpstreamTimeout,
        Self::UpstreamRefused,
    ];

    /// The table: one row a code.
    #[must_use]
    #[rustfmt::skip]
    pub const fn row(self) -> Row {
        #[expect(clippy::too_many_arguments, reason = "one row of a table, one line of text")]
        const fn row(code: &'static str, status: u16, kind: &'static str, outcome: Outcome, retry_helps: bool, when: &'static str) -> Row {
            Row { code, status, kind, outcome, retry_helps, when }
        }
        const BAD: &str = "invalid_request_error";
        const LATER: &str = "rate_limit_error";
        match self {
            Self::ContextLengthExceeded => row("context_length_exceeded", 400, BAD, Outcome::CallerInvalid, false, "the prompt does not fit the budget or the model"),
            Self::InvalidJson => row("invalid_json", 400, BAD, Outcome::CallerInvalid, false, "the body is not JSON (or not UTF-8, or nested too deeply)"),
            Self::InvalidRequest => row("invalid_request", 400, BAD, Outcome::CallerInvalid, false, "a field or header is missing or wrong; the message names it"),
            Self::ParameterDenied => row("parameter_denied", 400, BAD, Outcome::PolicyDenied, false, "the parameter policy forbids the named field"),
            Self::InvalidApiKey => row("invalid_api_key", 401, "authentication_error", Outcome::CallerUnauthenticated, false, "unknown, revoked, expired or missing key"),
            Self::RouteNotAllowed => row("route_not_allowed", 403, "permission_error", Outcome::CallerForbidden, false, "the key's client may not use that route"),
            Self::CacheMiss => row("cache_miss", 404, "not_found_error", Outcome::Ok, false, "the look-up found no stored answer"),
            Self::ModelNotFound => row("model_not_found", 404, "not_found_error", Outcome::CallerNotFound, false, "no route of that name on that path"),
            Self::NotFound => row("not_found", 404, "not_found_error", Outcome::CallerNotFound, false, "no such path on the data port"),
            Self::MethodNotAllowed => row("method_not_allowed", 405, BAD, Outcome::CallerInvalid, false, "the path takes another method"),
            Self::RequestTimeout => row("request_timeout", 408, "timeout_error", Outcome::CallerTimeout, false, "the body did not arrive within the route's body_timeout"),
            Self::RequestTooLarge => row("request_too_large", 413, BAD, Outcome::CallerInvalid, false, "the body is larger than max_body"),
            Self::UnsupportedEncoding => row("unsupported_encoding", 415, BAD, Outcome::CallerInvalid, false, "the body's content-encoding is none of identity, gzip, deflate, br and zstd"),
            Self::IdempotencyConflict => row("idempotency_conflict", 422, BAD, Outcome::CallerInvalid, false, "one idempotency key came with two bodies"),
            Self::InsufficientQuota => row("insufficient_quota", 429, LATER, Outcome::PolicyQuota, false, "the client's quota of the period is spent"),
            Self::QueueFull => row("queue_full", 429, LATER, Outcome::PolicyQueued, true, "the queue holds max_depth calls"),
            Self::QueueTimeout => row("queue_timeout", 429, LATER, Outcome::PolicyQueued, true, "the call waited max_wait in the queue"),
            Self::RateLimitExceeded => row("rate_limit_exceeded", 429, LATER, Outcome::PolicyLimited, true, "a rate, token or concurrency limit; the message names it"),
            Self::UpstreamThrottled => row("upstream_throttled", 429, LATER, Outcome::UpstreamThrottled, true, "every upstream of the route is throttled and rests"),
            Self::InternalError => row("internal_error", 500, "api_error", Outcome::GatewayFailed, false, "a fault of the gateway's own; please report it"),
            Self::EmbeddingDimensionMismatch => row("embedding_dimension_mismatch", 502, "api_error", Outcome::UpstreamBadResponse, false, "the upstream's vectors have another dimension than the route's"),
            Self::UpstreamBadResponse => row("upstream_bad_response", 502, "api_error", Outcome::UpstreamBadResponse, false, "the upstream's answer is not its protocol's, after retries and failover"),
            Self::UpstreamError => row("upstream_error", 502, "api_error", Outcome::UpstreamFailed, false, "the upstream failed, after retries and failover"),
            Self::AllUpstreamsUnavailable => row("all_upstreams_unavailable", 503, "api_error", Outcome::UpstreamUnavailable, true, "no upstream of the route can take calls now"),
            Self::Degraded => row("degraded", 503, "api_error", Outcome::UpstreamDegraded, false, "the call failed; the application should go on without it"),
            Self::GatewayOverloaded => row("gateway_overloaded", 503, "api_error", Outcome::GatewayOverloaded, true, "the gateway has no file descriptors, local ports or memory left for the call; the message says what its operator can do"),
            Self::ShuttingDown => row("shutting_down", 503, "api_error", Outcome::GatewayShutdown, true, "the gateway is draining; another replica answers"),
            Self::DeadlineExceeded => row("deadline_exceeded", 504, "timeout_error", Outcome::UpstreamTimeout, false, "the whole call's deadline ran out"),
            Self::UpstreamTimeout => row("upstream_timeout", 504, "timeout_error", Outcome::UpstreamTimeout, false, "an attempt's clock ran out and no other upstream could answer"),
            Self::UpstreamRefused => row("", 400, BAD, Outcome::CallerRefused, false, "the upstream refused the call as the caller's fault: its own status, message and code"),
        }
    }
}

/// What the caller is told instead of an answer. Building one logs nothing.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The reason, from the closed list of error codes.
    pub code: Code,
    /// A sentence for people: what is wrong and what to do.
    pub message: Cow<'static, str>,
    /// The body field or header at fault.
    pub param: Option<Cow<'static, str>>,
    /// When a repeat may help.
    pub retry_after: Option<Duration>,
    /// With [`Code::UpstreamRefused`] (and a recognised context overflow): the upstream's own
    /// status and words, cleaned.
    pub told: Option<Box<Told>>,
}

impl Refusal {
    /// A refusal with its sentence.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), param: None, retry_after: None, told: None }
    }

    /// Whether the caller's own repeat may help: by its code, or because it says when to come back.
    #[must_use]
    pub const fn retry_helps(&self) -> bool {
        self.code.row().retry_helps || self.retry_after.is_some()
    }

    /// A 400 `invalid_request` about one field.
    #[must_use]
    pub fn field(param: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self { param: Some(param.into()), ..Self::new(Code::InvalidRequest, message) }
    }

    /// Says when a repeat may help.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The HTTP status that goes with it.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.told.as_ref().map_or_else(|| self.code.row().status, |told| told.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_row_of_its_own_with_a_known_type() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            let row = code.row();
            assert!(seen.insert(row.code), "{} stands twice", row.code);
            assert!(TYPES.contains(&row.kind), "{}", row.kind);
            assert!((400..600).contains(&row.status));
        }
    }

    #[test]
    fn codes_stand_by_status_and_then_by_name() {
        let places = Code::ALL.map(|code| (code == Code::UpstreamRefused, code.row().status, code.row().code));
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn who_is_told_when_to_come_back_is_not_told_to_stay_away() {
        let spent = Refusal::new(Code::InsufficientQuota, "spent");
        assert!(!spent.retry_helps() && Refusal::new(Code::QueueFull, "full").retry_helps());
        assert!(spent.after(Duration::from_secs(40)).retry_helps());
    }
}
