//! All limits that apply to a call, as one decision.

use std::time::{Duration, Instant};

use base::{Clock, Code, Decision, Line, Refusal, decision};
use config::{Client, Route};
use dialect::Ask;
use dialect::ask::Amount;
use dialect::images;
use http::{HeaderMap, header};
use rules::limits::{Denial, Kind, Limit, Want};
use rules::params::amount;
use rules::pursuit::LEAST;
use rules::queue::Full;
use rules::shares::Priority;
use state::{Meter, Scope};

use crate::caller::Caller;
use crate::limits::meters::{Concerned, Whose};
use crate::limits::queue::Waiter;
use crate::permit::Permit;
use crate::running::{OnRoute, Running};
use crate::trail::Trail;

/// Lets a call pass within every limit that applies to it: the gateway's, its route's, its client's, its
/// client's on the route. What one of them refuses takes nothing of another. A batch call waits for its
/// turn, within its client's patience and its deadline.
///
/// # Errors
/// `rate_limit_exceeded`, which names the limit and says truthfully when to come back; `queue_full`,
/// `queue_timeout`, `deadline_exceeded`.
pub async fn admit(on: OnRoute<'_>, caller: Caller<'_>, ask: &Ask, trail: &mut Trail) -> Result<(), Refusal> {
    let (OnRoute { running, route, .. }, Caller { client, deadline, .. }) = (on, caller);
    let meters = running.meters.of(Whose::of(client, route));
    if meters.is_empty() {
        return Ok(());
    }
    let now = Clock.now();
    let tokens = if meters.counts_tokens { tokens(ask, route, client) } else { 0 };
    let want = Want { tokens, priority: client.priority, is_turn: false };
    let mut decision = running.meters.counters.take(&meters, want, now).await;
    trail.allowance = decision.allowance;
    if let Some(denial) = decision.denial {
        let refusal = refusal(&meters, &denial);
        if let Some(meter) = meters.get(denial.at) {
            trail.tries.note_at(limited(meter, denial.limit, denial.wait), now);
        }
        let queue = Queue::of(client, now, deadline);
        if client.priority == Priority::Online || !queue.is_open() {
            return Err(refusal);
        }
        let lane = (client.name.clone(), route.name.clone());
        let waiter = Waiter::new(lane, running.meters.counters.clone(), &meters, (tokens, ask.body.len()));
        let place = running.batch_queue.join(waiter, &denial, queue.depth, now);
        let place = place.map_err(|full| queue.is_full(full, &refusal))?;
        trail.tries.queue(Line::Limits);
        // Boxed, for few calls ever wait, and each holds the room for it.
        let turn = Box::pin(place.turn(queue.until)).await;
        trail.tries.queue_ends();
        decision = turn.ok_or_else(|| queue.is_over(&refusal))?;
        trail.allowance = decision.allowance;
    }
    trail.permit = Some(Permit::new(running.clone(), client, route, decision.aside));
    Ok(())
}

/// Once the call is shaped: gives back the tokens that it has put aside beyond what it now wants.
pub fn weigh(route: &Route, client: &Client, ask: &Ask, trail: &mut Trail) {
    if route.params.is_empty() && client.params.is_empty() && route.context.is_none() {
        // Nothing shapes the call: it wants what it has put aside, and its body need not be gone through again.
        return;
    }
    if let Some(permit) = trail.permit.as_mut().filter(|permit| permit.aside() > 0) {
        permit.wants(tokens(ask, route, client));
    }
}

/// Tokens that a call comes to use at most, as far as that can be told from what its caller wrote without reading
/// its prompt: of the prompt what its size says, but no more than the route's budget lets through, of each prompt of
/// a list; of the answer as much as the parameter policies leave it.
fn tokens(ask: &Ask, route: &Route, client: &Client) -> u64 {
    let image = || images::worth(route.upstreams.iter().map(|upstream| &*upstream.sent));
    let ruled = |what: Amount, written| amount(&route.params, &client.params, what.name(), written);
    let mut estimate = ask.estimate_with(image, ruled);
    if let (Some(terms), Some(chat)) = (route.context.as_ref().and_then(|context| context.terms), ask.chat()) {
        estimate.prompt = estimate.prompt.min(terms.budget.saturating_mul(chat.prompts.max(1)));
    }
    estimate.tokens()
}

/// A client's queue, for one call.
struct Queue<'a> {
    client: &'a Client,
    depth: usize,
    until: Instant,
    longest: Duration,
    /// Whether the call's own deadline comes before the queue's patience ends.
    is_hurried: bool,
}

impl<'a> Queue<'a> {
    fn of(client: &'a Client, now: Instant, deadline: Instant) -> Self {
        let longest = client.queue.longest(client.priority);
        let last = deadline.checked_sub(LEAST).unwrap_or(now);
        // A deadline as long as the patience began with the call, a moment before the wait.
        let is_hurried = last + 2 * LEAST < now + longest;
        Self { client, depth: client.queue.depth(client.priority), until: last.min(now + longest), longest, is_hurried }
    }

    fn is_open(&self) -> bool {
        self.depth > 0 && !self.longest.is_zero()
    }

    fn is_full(&self, full: Full, refusal: &Refusal) -> Refusal {
        let what = match full {
            Full::Calls => format!("{} calls wait already", self.depth),
            Full::Bytes => "the bodies of the calls that wait are as large together as they may be".to_owned(),
        };
        let text = format!("the queue of client `{}` is full: {what} ({})", self.client.name, refusal.message);
        Refusal { retry_after: refusal.retry_after, ..Refusal::new(Code::QueueFull, text) }
    }

    fn is_over(&self, refusal: &Refusal) -> Refusal {
        if self.is_hurried {
            let text = format!("the call's deadline ran out in the queue ({})", refusal.message);
            return Refusal::new(Code::DeadlineExceeded, text);
        }
        let seconds = self.longest.as_secs_f64();
        let text = format!("no room within {seconds} s in the queue ({})", refusal.message);
        Refusal { retry_after: refusal.retry_after, ..Refusal::new(Code::QueueTimeout, text) }
    }
}

/// A body of so many bytes at most is read before a call is refused.
const SMALL: u64 = 64 << 10;

/// Refuses a client whose own rate or tokens are plainly used up, before its body is read. Takes nothing.
///
/// Only where the body is large, may become so, does not say, or is not sent before the caller is told to: which route
/// it asks for stands in it, and only then all limits can say together which of them lets the call wait longest. To
/// read a small one costs little.
///
/// # Errors
/// `rate_limit_exceeded`.
pub fn peek(running: &Running, client: &Client, headers: &HeaderMap, trail: &mut Trail) -> Result<(), Refusal> {
    // A batch call may wait.
    let Some(meter) = running.meters.of_client(client).filter(|_| client.priority == Priority::Online) else {
        return Ok(());
    };
    if is_small(headers) {
        return Ok(());
    }
    let now = trail.began();
    let Some((limit, wait)) = running.meters.counters.peek(meter, now) else { return Ok(()) };
    trail.allowance = meter.account().allowance(now);
    trail.tries.note_at(limited(meter, limit, wait), now);
    Err(exceeded(meter, limit, wait))
}

fn is_small(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let is_left_open = || headers.contains_key(header::CONTENT_ENCODING) || headers.contains_key(header::EXPECT);
    length.is_some_and(|length| length <= SMALL) && !is_left_open()
}

fn refusal(meters: &Concerned<'_>, denial: &Denial) -> Refusal {
    match meters.get(denial.at) {
        Some(meter) => exceeded(meter, denial.limit, denial.wait),
        None => Refusal::new(Code::InternalError, "a limit without a scope; please report this"),
    }
}

fn limited(meter: &Meter, kind: Kind, wait: Duration) -> Decision {
    let scope = match meter.scope {
        Scope::Gateway => decision::Scope::Gateway,
        Scope::Route(_) => decision::Scope::Route,
        Scope::Client(_) => decision::Scope::Client,
        Scope::ClientOn(..) => decision::Scope::ClientOnRoute,
    };
    let limit = match kind {
        Kind::Requests => decision::Limit::Requests,
        Kind::Tokens => decision::Limit::Tokens,
        Kind::Concurrency => decision::Limit::Concurrency,
        Kind::Turn => decision::Limit::Turn,
    };
    Decision::Limited { scope, limit, wait }
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
