//! What the caller is told when a pursuit is over without an answer.

use std::time::{Duration, Instant};

use base::{Class, Code, Fault, Kind, Refusal};

use super::{Bar, LEAST, Place, Pursuit, Stands};

impl Pursuit<'_> {
    /// Everything throttled, every breaker open, the deadline over, or else the first failure.
    #[must_use]
    pub fn verdict(self, now: Instant) -> Refusal {
        let is_resting = |place: &Place| matches!(place.stands, Stands::Barred(Bar::Resting(_)));
        let is_throttled = !self.places.is_empty() && self.places.iter().all(is_resting);
        let soonest = self.soonest(|_| true).map(|until| until.saturating_duration_since(now));
        let is_spent = self.left(now) < LEAST;
        let longest = self.terms.longest_rest;
        match self.first {
            Some(fault) if fault.class == Class::Caller => refusal(fault),
            _ if is_throttled => throttled(soonest.unwrap_or_default().min(longest)),
            None if self.crowded.is_some() => self.crowded.unwrap_or_else(deadline_exceeded),
            _ if is_spent => deadline_exceeded(),
            None => unavailable(soonest),
            Some(fault) => {
                let rest = self.terms.retry.rest(fault.retry_after, longest);
                let refusal = refusal(fault);
                if refusal.code == Code::UpstreamThrottled { refusal.after(rest) } else { refusal }
            }
        }
    }
}

/// The whole call's clock ran out.
#[must_use]
pub fn deadline_exceeded() -> Refusal {
    Refusal::new(Code::DeadlineExceeded, "the call's deadline ran out before an upstream answered")
}

fn unavailable(soonest: Option<Duration>) -> Refusal {
    let message = "no upstream of this route can take calls now: their breakers are open or their keys were refused";
    let refusal = Refusal::new(Code::AllUpstreamsUnavailable, message);
    match soonest {
        Some(wait) => refusal.after(wait),
        None => refusal,
    }
}

/// Every upstream rests: come back when the first one is up again.
fn throttled(wait: Duration) -> Refusal {
    Refusal::new(Code::UpstreamThrottled, "every upstream of this route is throttled; try again later").after(wait)
}

/// Nobody knows when the gateway has again what it lacks.
const COME_BACK: Duration = Duration::from_secs(1);

/// A fault in the caller's words.
#[must_use]
pub fn refusal(fault: Fault) -> Refusal {
    let code = match (fault.class, fault.kind) {
        (Class::Caller, _) if fault.context_overflow => Code::ContextLengthExceeded,
        (Class::Caller, _) => Code::UpstreamRefused,
        (Class::Throttle, _) => return throttled(fault.retry_after.unwrap_or(super::DEFAULT_REST)),
        (Class::Credential, _) => {
            return Refusal::new(
                Code::UpstreamError,
                "the upstream refused the gateway's own key; its operator must act",
            );
        }
        (Class::Gateway, _) => return Refusal::new(Code::GatewayOverloaded, fault.message).after(COME_BACK),
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
