//! The route's upstreams in the order in which they are to be tried.

use std::time::Instant;

use base::Refusal;
use config::Route;
use rules::pursuit::{Target, throttled};
use smallvec::SmallVec;

use crate::running::RouteState;

/// Every target that may be tried now: upstreams by tier and order written, each with those of its
/// provider's keys that do not rest.
///
/// # Errors
/// `upstream_throttled` when every key of every upstream rests.
pub fn plan(route: &Route, state: &RouteState, now: Instant) -> Result<SmallVec<[Target; 4]>, Refusal> {
    let mut targets = SmallVec::new();
    for (at, (upstream, known)) in route.upstreams.iter().zip(&state.upstreams).enumerate() {
        for key in known.keys.order(&upstream.provider, now) {
            targets.push(Target { upstream: at, key });
        }
    }
    if targets.is_empty() && !route.upstreams.is_empty() {
        let soonest = state.upstreams.iter().filter_map(|known| known.keys.soonest(now)).min();
        return Err(throttled(soonest.unwrap_or_default()));
    }
    Ok(targets)
}
