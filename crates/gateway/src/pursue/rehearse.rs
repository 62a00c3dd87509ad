//! A try that a drill harms. It takes the way of a real one: what it comes to is judged, charged, repeated
//! and written down as if the upstream had done it.

use std::time::Instant;

use base::{Fault, Kind};
use config::Upstream;
use dialect::{Ask, Refused};
use http::HeaderMap;
use rules::pursuit::{Circumstances, Step};

use super::Call;
use crate::attempt::{Landed, Missed, attempt};
use crate::running::AtUpstream;
use crate::upstream::drills::{Failure, Harm};

/// What an upstream that a drill makes refuse a call says.
const TOLD: &[u8] = br#"{"error":{"message":"injected by a drill","type":"drill","param":null,"code":null}}"#;

/// Makes a try that is harmed, within its own clock.
///
/// # Errors
/// What the drill does to it, else what becomes of the try itself.
pub(super) async fn rehearse(
    call: &Call<'_>,
    harm: Harm,
    at: AtUpstream<'_>,
    step: &Step,
    until: Instant,
) -> Result<Landed, Missed> {
    let clock = call.worker.live.clock;
    let missed = |fault| Missed { fault, facts: Circumstances::default(), in_line: false };
    if let Some(latency) = harm.latency {
        let wakes = clock.now().checked_add(latency).unwrap_or(until);
        tokio::time::sleep_until(wakes.min(until).into()).await;
        if wakes >= until {
            let kind = if call.errand.ask.stream { Kind::FirstByte } else { Kind::Timeout };
            return Err(missed(Fault::upstream(kind, "the upstream did not answer in time: a drill holds it up")));
        }
    }
    match harm.then {
        None => attempt(call.worker, call.errand, at, step, until).await,
        Some(Failure::Status(status)) => {
            let wall = clock.wall();
            Err(missed(refused(at.upstream, call.errand.ask, status, wall)))
        }
        Some(Failure::Reset) => {
            let message = "the upstream closed the connection without an answer: a drill makes it do so";
            Err(missed(Fault::upstream(Kind::Reset, message)))
        }
    }
}

/// A status, classed as if the upstream had sent it.
fn refused(upstream: &Upstream, ask: &Ask, status: u16, wall: std::time::Duration) -> Fault {
    let headers = HeaderMap::new();
    upstream.provider.dialect.fault(ask, &Refused { status, headers: &headers, body: TOLD, wall })
}
