//! What takes the place of a failure where the application would rather go on without an answer:
//! `on_failure` of the route, or of the client, who knows what its answers are for.

use base::{Code, Decision, Outcome, Refusal, StandIn};
use bytes::Bytes;
use config::{Client, OnFailure, Route};
use dialect::{Ask, View};

use crate::trail::Trail;

/// A failed call, softened.
#[derive(Debug)]
pub enum Softened<Old> {
    /// A weak answer, marked as such: documents in their given order.
    Answer(Bytes),
    /// An old answer, marked as such.
    Stale(Old),
    /// An error all the same.
    Error(Refusal),
}

/// What is wished for where a call of this client on this route fails.
#[must_use]
pub fn wished(route: &Route, client: &Client) -> OnFailure {
    client.on_failure.unwrap_or(route.on_failure)
}

/// Softens a failure of the upstreams where that is wished; what is the caller's own fault, a policy's
/// or the gateway's stays as it is. `old` finds an expired answer to the same call.
#[must_use]
pub fn soften<Old>(
    refusal: Refusal,
    wished: OnFailure,
    ask: &Ask,
    old: impl FnOnce() -> Option<Old>,
    trail: &mut Trail,
) -> Softened<Old> {
    if wished == OnFailure::Error || !is_failure_of_upstreams(&refusal) {
        return Softened::Error(refusal);
    }
    let why = refusal.code.row().code;
    if wished == OnFailure::Stale {
        let Some(old) = old() else { return Softened::Error(refusal) };
        trail.record.degraded = Some(why.into());
        trail.note(Decision::Degraded(StandIn::Stale));
        return Softened::Stale(old);
    }
    trail.record.degraded = Some(why.into());
    if matches!(ask.view, View::Rerank(_)) {
        trail.note(Decision::Degraded(StandIn::Weak));
        return Softened::Answer(dialect::rerank::degraded(ask));
    }
    trail.note(Decision::Degraded(StandIn::Error));
    let message = format!("go on without this call, it failed ({why}): {}", refusal.message);
    Softened::Error(Refusal::new(Code::Degraded, message))
}

/// A queue that is full, or too slow, is an upstream's: what waits for the client's own limits is refused before
/// anything is asked of an upstream. A gateway that lacks what a connection needs leaves the application where an
/// upstream does that is not reached.
fn is_failure_of_upstreams(refusal: &Refusal) -> bool {
    matches!(
        refusal.code.row().outcome,
        Outcome::UpstreamFailed
            | Outcome::UpstreamBadResponse
            | Outcome::UpstreamTimeout
            | Outcome::UpstreamThrottled
            | Outcome::UpstreamUnavailable
            | Outcome::GatewayOverloaded
            | Outcome::PolicyQueued
    )
}
