//! All limits that apply to a call, as one decision.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Code, Refusal};
use config::{Client, Route};
use dialect::Ask;
use rules::limits::{Kind, Limit, Want};

use crate::meters::{self, Concerned, Meter};
use crate::pass::Pass;
use crate::running::Running;
use crate::trail::Trail;

/// Lets a call pass within every limit that applies to it: the gateway's, its route's, its client's, its
/// client's on the route. What one of them refuses takes nothing of another.
///
/// # Errors
/// `rate_limit_exceeded`, which names the limit and says truthfully when to come back.
pub fn admit(
    running: &Arc<Running>,
    (client, route): (&Arc<Client>, &Arc<Route>),
    ask: &Ask,
    now: Instant,
    trail: &mut Trail,
) -> Result<(), Refusal> {
    let meters = running.meters.of(client, route);
    if meters.is_empty() {
        return Ok(());
    }
    let tokens = if meters.iter().any(|meter| meter.counts_tokens()) { ask.tokens_estimate() } else { 0 };
    let decision = meters::take(&meters, &Want { tokens, class: client.class, is_turn: false }, now);
    trail.allowance = decision.allowance;
    match decision.denial {
        None => {
            trail.pass = Some(Pass::new(running.clone(), client.clone(), route.clone(), tokens));
            Ok(())
        }
        Some(denial) => Err(refusal(&meters, denial.at, denial.limit, denial.wait)),
    }
}

/// Refuses a client whose own rate or tokens are plainly used up, before its body is read. Takes nothing.
///
/// # Errors
/// `rate_limit_exceeded`.
pub fn peek(running: &Running, client: &Client, now: Instant, trail: &mut Trail) -> Result<(), Refusal> {
    let Some(meter) = running.meters.of_client(client) else { return Ok(()) };
    let Some((limit, wait)) = meter.is_empty(now) else { return Ok(()) };
    trail.allowance = meter.account().allowance(now);
    Err(exceeded(meter, limit, wait))
}

fn refusal(meters: &Concerned<'_>, at: usize, limit: Kind, wait: Duration) -> Refusal {
    match meters.get(at) {
        Some(meter) => exceeded(meter, limit, wait),
        None => Refusal::new(Code::InternalError, "a limit without a scope; please report this"),
    }
}

fn exceeded(meter: &Meter, kind: Kind, wait: Duration) -> Refusal {
    let limit = shown(meter.account().limit(), kind);
    Refusal::new(Code::RateLimitExceeded, format!("rate limit exceeded, {}: {limit}", meter.scope))
        .after(wait.max(Duration::from_secs(1)))
}

/// A limit in words.
fn shown(limit: &Limit, kind: Kind) -> String {
    match (kind, limit) {
        (Kind::Requests, Limit { rate: Some(rate), .. }) => format!("{} requests per second", rate.qps),
        (Kind::Tokens, Limit { tokens_per_minute: Some(most), .. }) => format!("{most} tokens per minute"),
        (Kind::Concurrency, Limit { concurrency: Some(most), .. }) => format!("{most} concurrent requests"),
        _ => "other calls have waited longer".to_owned(),
    }
}
