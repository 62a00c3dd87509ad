//! Try, judge, move on: one call's way to an answer.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base::decision::Trouble;
use base::{AttemptOutcome, Class, Code, Decision, Fault, Kind, Line, Refusal, Skip};
use config::{Client, Upstream};
use dialect::Protocol;
use http::HeaderValue;
use rules::pursuit::{Bar, LEAST, Next, Pause, Pursuit, Step, Target, Terms, deadline_exceeded};
use rules::queue::Full;

use crate::attempt::{Errand, Landed, Missed, attempt};
use crate::permit::Permit;
use crate::running::{AtUpstream, OnRoute, UpstreamState};
use crate::trail::Tries;
use crate::upstream::slots::{Comer, Slot};
use crate::upstream::standing::Visit;
use crate::worker::Worker;
use rehearse::rehearse;
use rests::{rehearse_rest, rest};

mod rehearse;
mod rests;

/// One call that is to be answered.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Who does it.
    pub worker: &'a Worker,
    /// Who wants it.
    pub client: &'a Client,
    /// Its place within its limits, where any applies.
    pub permit: Option<&'a Permit>,
    /// The route that it is made on.
    pub on: OnRoute<'a>,
    /// What is sent.
    pub errand: Errand<'a>,
    /// False for a call that its caller has marked as having side effects.
    pub is_idempotent: bool,
    /// The upstream that a split has chosen.
    pub first: Option<usize>,
    /// When the whole call must be over; for streams: when the first content must be here.
    pub deadline: Instant,
}

/// An answer, and who gave it.
pub struct Won {
    /// The answer.
    pub landed: Landed,
    /// The upstream that gave it.
    pub upstream: Arc<Upstream>,
    /// That upstream's label, as a header shows it.
    pub shown: HeaderValue,
    /// The stay at that upstream, where the answer has not ended yet.
    pub visit: Option<Visit>,
    /// What it used is among what the tries have spent already: it is put together of parts.
    pub is_counted: bool,
}

/// Pursues an answer through the targets. Each try ends before the next begins.
///
/// # Errors
/// What the caller is told when no target gave an answer.
pub async fn pursue(
    call: &Call<'_>,
    plan: impl IntoIterator<Item = (Target, Option<Bar>)>,
    tries: &mut Tries,
) -> Result<Won, Refusal> {
    let clock = call.worker.live.clock;
    let OnRoute { route, state, .. } = call.on;
    let terms = Terms {
        retry: &route.retry,
        longest_rest: route.breaker.max_rest,
        may_repeat: route.retry.allows(call.is_idempotent),
        deadline: call.deadline,
    };
    let plan = plan.into_iter().inspect(|(target, bar)| {
        if let Some(bar) = bar {
            tries.note(skipped(call, target.upstream, reason(*bar)));
        }
    });
    let mut pursuit = Pursuit::new(plan, terms);
    // Its place at the upstream that it tried last: another try there needs no other.
    let mut held: Option<Slot> = None;
    state.budget.called(clock.now());
    loop {
        let Some((step, now, mut visit)) = approach(call, &mut pursuit, &mut held, tries).await else {
            return Err(pursuit.verdict(clock.now()));
        };
        let Some(at) = target(call, &step) else { return Err(pursuit.verdict(now)) };
        let AtUpstream { upstream, known } = at;
        tries.begin(&upstream.label, &call.worker.dice);
        let until = until(call, &step, now);
        let tried = make(call, tries, at, &step, now..until).await;
        tries.wait_ends();
        match tried.and_then(|landed| guard_dimension(call, at, landed)) {
            Ok(landed) => {
                learn(known, &step);
                tries.answered_by(|| model_of(upstream, &landed));
                known.keys.worked(step.target.key);
                let visit = arrived(visit, &landed, clock.now());
                let (upstream, shown) = (upstream.clone(), known.shown.clone());
                return Ok(Won { landed, upstream, shown, visit, is_counted: false });
            }
            Err(missed) => {
                let was_short = until.saturating_duration_since(now) * 2 < own_timeout(call);
                let is_real = tries.drill().is_none();
                note(call, tries, at, &step, &missed.fault);
                let now = clock.now();
                held = visit.slot.take();
                // A drill says nothing about the places of a provider, which other routes use too.
                if let Some(slot) = held.as_ref().filter(|_| is_real && says_too_much(&missed.fault)) {
                    slot.overloaded(now);
                }
                if charges(&missed, was_short) {
                    visit.failed(now);
                } else {
                    drop(visit);
                }
                pursuit.failed(missed.fault, missed.facts, now);
                match known.gate.standing().look(now).0 {
                    Some(Bar::Open(until)) => pursuit.opened(until),
                    Some(Bar::Held) => pursuit.barred(Bar::Held),
                    _ => {}
                }
            }
        }
    }
}

/// Makes a try that has begun, or rehearses one that an operator's drill harms.
async fn make(
    call: &Call<'_>,
    tries: &mut Tries,
    at: AtUpstream<'_>,
    step: &Step,
    time: Range<Instant>,
) -> Result<Landed, Missed> {
    let Range { start: now, end: until } = time;
    let drawn = call.worker.live.drills.draw(&call.on.route.name, &at.upstream.label, now, &call.worker.dice);
    tries.drilled(drawn.clone());
    let errand = Errand { traceparent: tries.traceparent(), ..call.errand };
    match drawn {
        None => attempt(call.worker, errand, at, step, until).await,
        Some(drill) => {
            let harm = drill.wanted.harm;
            Box::pin(async { rehearse(&Call { errand, ..*call }, harm, at, step, until).await }).await
        }
    }
}

/// The upstream that a step names, and what is known of it.
fn target<'a>(call: &Call<'a>, step: &Step) -> Option<AtUpstream<'a>> {
    call.on.at(step.target.upstream)
}

/// The way to the next try: waits, in line or for one more, and takes what the try needs. Nothing where the
/// pursuit is over.
async fn approach(
    call: &Call<'_>,
    pursuit: &mut Pursuit<'_>,
    held: &mut Option<Slot>,
    tries: &mut Tries,
) -> Option<(Step, Instant, Visit)> {
    let clock = call.worker.live.clock;
    loop {
        let mut now = clock.now();
        let (step, slot) = match pursuit.next(now) {
            Next::Try(step) => (step, held.take()),
            Next::Queue(step) => {
                *held = None;
                let slot = Box::pin(line(call, &step, tries)).await;
                now = clock.now();
                match slot {
                    Ok(slot) => (step, slot),
                    Err((refusal, is_over)) => {
                        pursuit.crowded(refusal, is_over);
                        continue;
                    }
                }
            }
            Next::Wait(pause) => {
                *held = None;
                wait(call, pursuit, &pause, tries).await;
                continue;
            }
            Next::Over => return None,
        };
        match enter(target(call, &step)?, &step, slot, call.client.priority, now) {
            Ok(visit) => return Some((step, now, visit)),
            Err(Shut::Full) => {
                tries.note_at(skipped(call, step.target.upstream, Skip::Full), now);
                pursuit.full();
            }
            Err(Shut::Barred(bar)) => {
                tries.note_at(skipped(call, step.target.upstream, reason(bar)), now);
                pursuit.barred(bar);
            }
        }
    }
}

fn skipped(call: &Call<'_>, at: usize, why: Skip) -> Decision {
    let upstream = call.on.route.upstreams.get(at).map(|upstream| upstream.label.clone()).unwrap_or_default();
    Decision::Skipped { upstream, why }
}

const fn reason(bar: Bar) -> Skip {
    match bar {
        Bar::Resting(_) => Skip::Resting,
        Bar::Refused(_) => Skip::KeyRefused,
        Bar::Open(_) => Skip::BreakerOpen,
        Bar::Held => Skip::Held,
    }
}

/// Why a target cannot be tried now.
enum Shut {
    /// It has no place free.
    Full,
    Barred(Bar),
}

/// Takes what a try needs: a place at the upstream, if it is not held already, and a visit.
fn enter(
    at: AtUpstream<'_>,
    step: &Step,
    held: Option<Slot>,
    priority: rules::shares::Priority,
    now: Instant,
) -> Result<Visit, Shut> {
    let AtUpstream { upstream, known } = at;
    let slot = match &known.slots {
        None => None,
        Some(slots) => {
            let model = &upstream.label;
            let held = held.filter(|slot| slot.is_at(slots)).map(|slot| slot.anew(model, now));
            let slot = held.or_else(|| slots.take(priority, model, now)).ok_or(Shut::Full)?;
            // It may have waited for it, or have begun, before the provider moved: it goes where that was.
            Some(slot.after(known.moves))
        }
    };
    // Others may have found out since the plan was made.
    if let Some(bar) = known.keys.bar(step.target.key, now) {
        return Err(Shut::Barred(bar));
    }
    let mut visit = known.gate.enter(now).map_err(Shut::Barred)?;
    visit.slot = slot;
    Ok(visit)
}

/// Waits in line for a place at an upstream. Nothing is needed where places are bounded no more.
///
/// # Errors
/// What the caller is told, and whether its time is over: then no other line is tried.
async fn line(call: &Call<'_>, step: &Step, tries: &mut Tries) -> Result<Option<Slot>, (Refusal, bool)> {
    let Some(AtUpstream { upstream, known }) = target(call, step) else { return Ok(None) };
    let Some(slots) = &known.slots else { return Ok(None) };
    let (client, provider, route) = (call.client, &upstream.provider, call.on.route);
    let now = call.worker.live.clock.now();
    let (priority, depth) = (client.priority, provider.queue.depth(client.priority));
    let left = |waited| client.queue.left(provider.queue, priority, waited);
    let busy = |code, what: String| Refusal::new(code, format!("provider `{}` {what}", provider.name)).after(COME_BACK);
    if depth == 0 || left(Duration::ZERO).is_zero() {
        let what = "is busy, and nobody waits for it: `queue.max_wait` or `queue.max_depth` is 0; send the call again, or let it wait";
        return Err((busy(Code::QueueFull, what.to_owned()), false));
    }
    let longest = left(tries.queued());
    if longest.is_zero() {
        let what = format!("is busy, and the call has waited for {} s already", tries.queued().as_secs_f64());
        return Err((busy(Code::QueueTimeout, what), true));
    }
    let (client, route, model) = (&client.name, &route.name, &upstream.label);
    let comer = Comer { priority, client, route, model, bytes: call.errand.ask.body.len() };
    let in_line = slots.join(comer, depth).map_err(|full| {
        let what = match full {
            Full::Calls => format!("is busy, and {depth} calls wait for it already"),
            Full::Bytes => "is busy, and the calls that wait for it are as large together as they may be".to_owned(),
        };
        (busy(Code::QueueFull, what), false)
    })?;
    let _lined_up = call.permit.map(Permit::lines_up);
    let last = call.deadline.checked_sub(LEAST).unwrap_or(now);
    tries.queue(Line::Provider(provider.name.clone()));
    let slot = in_line.turn(last.min(now + longest)).await;
    tries.queue_ends();
    match slot {
        Some(slot) => Ok(Some(slot)),
        // A deadline as long as the patience began with the call, a moment before the wait.
        None if last + 2 * LEAST < now + longest => Err((deadline_exceeded(), true)),
        None => {
            let what = format!("was busy for {} s", longest.as_secs_f64());
            Err((busy(Code::QueueTimeout, what), true))
        }
    }
}

/// Nobody knows when a place will be free.
const COME_BACK: Duration = Duration::from_secs(1);

/// Whether a fault says that the upstream has more to do than it can.
fn says_too_much(fault: &Fault) -> bool {
    fault.class == Class::Throttle || matches!(fault.kind, Kind::Timeout | Kind::FirstByte)
}

/// An answer is here: the visit of a whole one is over, that of a stream goes on with it.
fn arrived(mut visit: Visit, landed: &Landed, now: Instant) -> Option<Visit> {
    visit.answered(now);
    match landed {
        Landed::Whole(..) => {
            visit.succeeded(now);
            None
        }
        Landed::Stream(_) => {
            if let Some(slot) = &mut visit.slot {
                slot.answered(now);
            }
            Some(visit)
        }
    }
}

/// Waits for one more try, if the route's retry budget has one left.
async fn wait(call: &Call<'_>, pursuit: &mut Pursuit<'_>, pause: &Pause, tries: &mut Tries) {
    let OnRoute { route, state, .. } = call.on;
    let live = &call.worker.live;
    let is_granted = state.budget.take(live.clock.now(), route.retry.budget);
    live.metrics.retry(&route.name, is_granted);
    if !is_granted {
        tries.note(Decision::RetryBudgetSpent);
        pursuit.forgo();
        return;
    }
    let now = live.clock.now();
    let after = if pause.is_after_throttling() { Trouble::Throttled } else { Trouble::ServerError };
    let wakes = pause.wake(call.worker.dice.unit());
    tries.note_at(Decision::Waits { after, wait: wakes.saturating_duration_since(now) }, now);
    pursuit.waits(pause);
    tries.pause();
    // Boxed, for few calls ever wait, and each holds the room for it.
    Box::pin(tokio::time::sleep_until(wakes.into())).await;
    tries.wait_ends();
}

/// The model that has answered, where the upstream itself names it: in answers of those that do not, the name that was
/// asked for has been put.
fn model_of(upstream: &Upstream, landed: &Landed) -> Option<Box<str>> {
    if matches!(upstream.provider.protocol, Protocol::Cohere | Protocol::Tei) {
        return None;
    }
    match landed {
        Landed::Whole(answer) => dialect::model_in(&answer.body),
        Landed::Stream(opened) => opened.raw.is_none().then(|| dialect::model_in(&opened.first))?,
    }
}

/// The route's own clock for one try.
fn own_timeout(call: &Call<'_>) -> Duration {
    let timeout = call.on.route.timeout;
    if call.errand.ask.stream { timeout.attempt.min(timeout.first_byte) } else { timeout.attempt }
}

/// The try's own clock: within the deadline, and leaving a third of it where another upstream waits, as
/// far as the try itself has time for anything.
fn until(call: &Call<'_>, step: &Step, now: Instant) -> Instant {
    let left = call.deadline.saturating_duration_since(now);
    let share = if step.more { (left * 2 / 3).max(LEAST) } else { left };
    now + own_timeout(call).min(share)
}

/// Whether a failed try speaks against its upstream. A connection that had gone stale does not, nor a
/// clock that the call's deadline had cut short, nor a wait for a place among our own connections.
fn charges(missed: &Missed, was_short: bool) -> bool {
    let fault = &missed.fault;
    let is_ours = missed.in_line || (was_short && matches!(fault.kind, Kind::Timeout | Kind::FirstByte));
    fault.class == Class::Upstream && !missed.facts.stale && !is_ours
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
fn guard_dimension(call: &Call<'_>, at: AtUpstream<'_>, landed: Landed) -> Result<Landed, Missed> {
    let AtUpstream { upstream, known } = at;
    let Landed::Whole(answer) = &landed else { return Ok(landed) };
    let Some(found) = answer.dimension else { return Ok(landed) };
    let route = call.on.route;
    if asked_dimensions(call).is_some() {
        return Ok(landed);
    }
    let wanted = match route.dimensions {
        Some(configured) => configured,
        None => match known.dimension.compare_exchange(0, found, Relaxed, Relaxed) {
            Ok(_) => found,
            Err(known) => known,
        },
    };
    if wanted == found {
        return Ok(landed);
    }
    let message = format!("vectors of {found} dimensions where route `{}` has {wanted}", route.name);
    tracing::error!(route = %route.name, upstream = %upstream.label, found, wanted, "embedding dimension mismatch");
    let usage = Some(Box::new(call.errand.ask.used(answer, &upstream.sent)));
    let fault = Fault { usage, ..Fault::upstream(Kind::Dimension, message) };
    Err(Missed { fault, facts: rules::pursuit::Circumstances::default(), in_line: false })
}

fn asked_dimensions(call: &Call<'_>) -> Option<usize> {
    match &call.errand.ask.view {
        dialect::View::Embeddings(view) => view.dimensions,
        _ => None,
    }
}

/// Writes a failed try down, with what it used all the same, and rests whom it is about: a refused key, a
/// throttled one among several, or the throttled upstream.
fn note(call: &Call<'_>, tries: &mut Tries, at: AtUpstream<'_>, step: &Step, fault: &Fault) {
    let (live, upstream) = (&call.worker.live, at.upstream);
    let outcome = AttemptOutcome::of(fault);
    live.resources.tell(fault, live.clock.now());
    // One that only held the try up has not failed it so.
    let drill = tries.drill().filter(|drill| drill.wanted.harm.then.is_some()).cloned();
    tries.end(outcome, fault.status);
    if let Some(usage) = &fault.usage {
        tries.spend(upstream, **usage);
    }
    match drill {
        Some(drill) => rehearse_rest(call, tries, at, &drill, fault),
        None => rest(call, tries, at, step, fault),
    }
    if fault.kind == Kind::Dimension {
        live.metrics.dimension_mismatch(&call.on.route.name, &upstream.label);
        live.alerts.mismatch(&call.on.route.name, &upstream.label, &fault.message);
    }
    // An upstream's own words may repeat the prompt, which no record holds.
    let why = if matches!(fault.kind, Kind::Status | Kind::BadResponse) { "" } else { &*fault.message };
    let outcome = outcome.as_str();
    tracing::debug!(upstream = %upstream.label, outcome, status = fault.status, why, "a try failed");
}
