//! Try, judge, move on: one call's way to an answer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base::{AttemptOutcome, Class, Fault, Kind, Refusal};
use config::{Route, Upstream};
use http::HeaderValue;
use rules::pursuit::{Pursuit, Step, Target};
use smallvec::SmallVec;

use crate::attempt::{Errand, Landed, Missed, attempt};
use crate::running::{RouteState, UpstreamState};
use crate::trail::Tries;
use crate::worker::Worker;

/// One call that is to be answered.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Who does it.
    pub worker: &'a Worker,
    /// The route and its state.
    pub route: (&'a Route, &'a RouteState),
    /// What is sent.
    pub errand: Errand<'a>,
    /// False for a call that must not run twice.
    pub may_repeat: bool,
    /// When the whole call must be over; for streams: when the first content must be here.
    pub deadline: Instant,
}

/// An answer, and who gave it.
pub struct Won {
    /// The answer.
    pub landed: Landed,
    /// Who.
    pub upstream: Arc<Upstream>,
    /// Who, as a header shows it.
    pub shown: HeaderValue,
}

/// Throttled without a word how long.
const THROTTLED_REST: Duration = Duration::from_secs(5);

/// Pursues an answer through the targets. Each try ends before the next begins.
///
/// # Errors
/// What the caller is told when no target gave an answer.
pub async fn pursue(call: &Call<'_>, targets: SmallVec<[Target; 4]>, tries: &mut Tries) -> Result<Won, Refusal> {
    let clock = call.worker.live.clock;
    let (route, state) = call.route;
    let mut pursuit = Pursuit::new(targets, call.may_repeat);
    loop {
        let now = clock.now();
        let Some(step) = pursuit.next(now, call.deadline) else {
            return Err(pursuit.verdict(now, call.deadline));
        };
        let at = step.target.upstream;
        let (Some(upstream), Some(known)) = (route.upstreams.get(at), state.upstreams.get(at)) else {
            return Err(pursuit.verdict(now, call.deadline));
        };
        tries.begin(&upstream.label);
        let until = until(call, &step, now);
        let tried = attempt(call.worker, call.errand, (upstream, known), &step, until).await;
        tries.wait_ends();
        match tried.and_then(|landed| guard_dimension(call, upstream, landed)) {
            Ok(landed) => {
                learn(known, &step);
                known.keys.worked(step.target.key);
                return Ok(Won { landed, upstream: upstream.clone(), shown: known.shown.clone() });
            }
            Err(missed) => {
                note(call, tries, (upstream, known), &step, &missed.fault);
                pursuit.failed(missed.fault, missed.facts);
            }
        }
    }
}

/// The try's own clock: within the deadline, and leaving a third of it where another upstream waits.
fn until(call: &Call<'_>, step: &Step, now: Instant) -> Instant {
    let timeout = call.route.0.timeout;
    let own = if call.errand.ask.stream { timeout.attempt.min(timeout.first_byte) } else { timeout.attempt };
    let left = call.deadline.saturating_duration_since(now);
    let share = if step.more { left * 2 / 3 } else { left };
    now + own.min(share)
}

/// What a success in another manner teaches about the upstream.
fn learn(known: &UpstreamState, step: &Step) {
    if step.manner.without_stream_options {
        known.learned.refuses_stream_options.store(true, Relaxed);
    }
    if step.manner.decode_tokens {
        known.learned.refuses_token_arrays.store(true, Relaxed);
    }
}

/// Withholds vectors of another dimension than the route's: configured, or that of its first answer.
fn guard_dimension(call: &Call<'_>, upstream: &Upstream, landed: Landed) -> Result<Landed, Missed> {
    let Landed::Whole(answer, _) = &landed else { return Ok(landed) };
    let Some(found) = answer.dimension else { return Ok(landed) };
    let (route, state) = call.route;
    if asked_dimensions(call).is_some() {
        return Ok(landed);
    }
    let wanted = match route.dimensions {
        Some(configured) => configured,
        None => match state.dimension.compare_exchange(0, found, Relaxed, Relaxed) {
            Ok(_) => found,
            Err(known) => known,
        },
    };
    if wanted == found {
        return Ok(landed);
    }
    let message = format!("vectors of {found} dimensions where route `{}` has {wanted}", route.name);
    tracing::error!(route = %route.name, upstream = %upstream.label, found, wanted, "embedding dimension mismatch");
    let fault = Fault::upstream(Kind::Dimension, message);
    Err(Missed { fault, facts: rules::pursuit::Circumstances::default() })
}

fn asked_dimensions(call: &Call<'_>) -> Option<usize> {
    match &call.errand.ask.view {
        dialect::View::Embeddings(view) => view.dimensions,
        _ => None,
    }
}

/// Writes a failed try down, and rests the key that it is about.
fn note(
    call: &Call<'_>,
    tries: &mut Tries,
    (upstream, known): (&Upstream, &UpstreamState),
    step: &Step,
    fault: &Fault,
) {
    let live = &call.worker.live;
    let now = live.clock.now();
    let outcome = match fault.class {
        Class::Caller => AttemptOutcome::Refused,
        Class::Credential => AttemptOutcome::Credential,
        Class::Throttle => AttemptOutcome::Throttled,
        Class::Upstream => AttemptOutcome::Failed(fault.kind),
    };
    tries.end(outcome, fault.status);
    match fault.class {
        Class::Credential => {
            known.keys.refused(step.target.key, now);
            tracing::error!(
                provider = %upstream.provider.name,
                key = step.target.key,
                status = fault.status,
                "the provider refused the gateway's key"
            );
        }
        Class::Throttle if upstream.provider.keys.len() > 1 => {
            known.keys.throttled(step.target.key, now, fault.retry_after.unwrap_or(THROTTLED_REST));
        }
        _ => {}
    }
    if fault.kind == Kind::Dimension {
        live.metrics.dimension_mismatch(&call.route.0.name, &upstream.label);
    }
    // An upstream's own words may repeat the prompt, which no record holds.
    let why = if matches!(fault.kind, Kind::Status | Kind::BadResponse) { "" } else { &*fault.message };
    let outcome = outcome.as_str();
    tracing::debug!(upstream = %upstream.label, outcome, status = fault.status, why, "a try failed");
}
