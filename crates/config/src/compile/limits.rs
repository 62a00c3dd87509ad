//! Limits, queues, priorities and places: from what is written to the terms of the rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Glob;
use foldhash::{HashMap, HashMapExt as _};
use rules::limits::{Limit, Rate};
use rules::queue::Patience;
use rules::shares::Priority;
use rules::slots;

use super::{Compiler, small};
use crate::snapshot::Route;
use crate::view::View;

/// `limit` of the gateway, a route, a client, or a client on a route.
pub(super) fn limit(owner: &View<'_>) -> Limit {
    let limit = owner.at("limit");
    let rate = limit.at("qps").number().map(Rate::of).map(|rate| match small(&limit.at("burst")) {
        0 => rate,
        burst => Rate { burst, ..rate },
    });
    Limit {
        rate,
        concurrency: Some(small(&limit.at("concurrency"))).filter(|most| *most > 0),
        tokens_per_minute: limit.at("tokens_per_minute").integer(),
    }
}

/// `routes[].limit` of a client: of each of these routes that a pattern fits the tightest of each, in one walk over the
/// patterns. `None` where more routes than `most` are limited, of which no more are looked at.
pub(super) fn limits_on(
    client: &View<'_>,
    routes: &BTreeMap<&str, &Route>,
    most: usize,
) -> Option<HashMap<Arc<str>, Limit>> {
    let mut found: HashMap<Arc<str>, Limit> = HashMap::new();
    for item in client.at("routes").items() {
        let limit = limit(&item);
        let Some(glob) = item.at("name").text().filter(|_| !limit.is_none()).map(Glob::new) else { continue };
        for route in glob.among(routes) {
            if let Some(known) = found.get_mut(&*route.name) {
                *known = known.and(&limit);
                continue;
            }
            if found.len() == most {
                return None;
            }
            found.insert(route.name.clone(), limit);
        }
    }
    Some(found)
}

/// `priority` of a client.
pub(super) fn priority(client: &View<'_>) -> Priority {
    if client.at("priority").text_or_preset() == Priority::Batch.as_str() { Priority::Batch } else { Priority::Online }
}

/// `queue` of a client or a provider.
pub(super) fn patience(owner: &View<'_>) -> Patience {
    let queue = owner.at("queue");
    let max_depth = queue.at("max_depth").integer().and_then(|depth| usize::try_from(depth).ok());
    Patience { max_wait: queue.at("max_wait").written_duration(), max_depth }
}

/// `concurrency` of a provider.
pub(super) fn slots(compiler: &mut Compiler<'_>, provider: &View<'_>) -> Option<slots::Terms> {
    let view = provider.at("concurrency");
    if !view.is_written() {
        return None;
    }
    let adaptive = view.at("adaptive");
    let adaptive = adaptive.scalar().and_then(crate::node::Scalar::as_bool).unwrap_or_default();
    let max = view.at("max");
    if !adaptive && !max.is_written() {
        compiler.report(&view, "bounds nothing; write `max`, or `adaptive: true`");
    }
    if !adaptive && view.at("headroom").is_written() {
        compiler.report(&view.at("headroom"), "is about `adaptive: true`, which is not written");
    }
    let max = if max.is_written() { small(&max).max(1) } else { MOST };
    Some(slots::Terms { max, adaptive, headroom: view.at("headroom").number().unwrap_or_default() })
}

/// Calls side by side of a provider whose `max` is not written.
const MOST: u32 = 65_535;

/// A wait in a queue that is longer than the whole call may take.
pub(super) fn check_queue(compiler: &mut Compiler<'_>, client: &View<'_>) {
    let wait = client.at("queue").at("max_wait");
    let deadline: Option<Duration> = client.at("deadline").written_duration();
    if wait.written_duration().zip(deadline).is_some_and(|(wait, deadline)| wait > deadline) {
        compiler.warn(&wait, "is longer than the client's `deadline`, which holds for the wait too");
    }
}
