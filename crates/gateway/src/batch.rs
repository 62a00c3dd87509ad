//! An embeddings or rerank call with more inputs than an upstream takes: parts, pursued side by side.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use base::{AttemptOutcome, Decision, Refusal, Skip};
use config::{Route, Upstream};
use dialect::{Answer, Ask, View, embeddings, rerank};
use rules::pursuit;

use crate::attempt::{Errand, Landed};
use crate::plan::plan;
use crate::pursue::{Call, Won, pursue};
use crate::trail::Tries;

/// Parts that one call may become: 16,384 texts where an upstream takes 32.
const MOST_PARTS: usize = 512;
/// Parts of one call that are under way at a time.
const SIDE_BY_SIDE: usize = 4;

/// The parts of a call that is too large for one of its route's upstreams; empty for a call that
/// goes whole. The bound is `batch.max_inputs`, else the smallest that the upstreams' protocols have,
/// so that every part can go to every upstream. Documents are only cut up where every upstream has a
/// bound, as those have that score each document by itself.
///
/// # Errors
/// `invalid_request` for a call that would become more than [`MOST_PARTS`].
pub fn parts(ask: &Ask, route: &Route) -> Result<Vec<Ask>, Refusal> {
    let (field, inputs) = match &ask.view {
        View::Embeddings(view) => ("input", view.inputs),
        View::Rerank(view) => ("documents", view.documents.len()),
        _ => return Ok(Vec::new()),
    };
    let Some(most) = most(ask, route) else { return Ok(Vec::new()) };
    if inputs <= most {
        return Ok(Vec::new());
    }
    if inputs > most.saturating_mul(MOST_PARTS) {
        let all = most.saturating_mul(MOST_PARTS);
        return Err(Refusal::field(
            field,
            format!("'{field}' has {inputs} items, more than the {all} of one call; send fewer at once"),
        ));
    }
    let split = if matches!(ask.view, View::Rerank(_)) { rerank::split } else { embeddings::split };
    let parts = split(ask, most);
    // Inputs that must stay together come back as one.
    Ok(if parts.len() > 1 { parts } else { Vec::new() })
}

/// How many inputs every upstream of a route takes in one call, where that is known.
#[must_use]
pub fn most(ask: &Ask, route: &Route) -> Option<usize> {
    let of_protocols = || {
        let bound = |upstream: &Arc<Upstream>| upstream.provider.dialect.max_inputs(ask.endpoint);
        let is_ranking = matches!(ask.view, View::Rerank(_));
        if is_ranking && !route.upstreams.iter().all(|upstream| bound(upstream).is_some()) {
            // A reranker without a bound may judge documents against each other: it wants them all.
            return None;
        }
        route.upstreams.iter().filter_map(bound).min()
    };
    route.max_inputs.or_else(of_protocols)
}

/// One part on its way to its answer.
type PartUnderWay<'a> = Pin<Box<dyn Future<Output = Result<Won, Refusal>> + Send + 'a>>;

/// Pursues every part, and puts their answers together in order. The first part that fails for good
/// ends the others: there is no partial answer.
///
/// # Errors
/// What the caller is told of the part that failed.
pub async fn pursue_parts(call: &Call<'_>, parts: &[Ask], tries: &mut Tries) -> Result<Won, Refusal> {
    let clock = call.worker.live.clock;
    let mut side =
        Side { began: clock.now(), clock, each: parts.iter().map(|_| tries.of_part()).collect(), whole: tries };
    let won = pursue_all(call, parts, &mut side.each).await;
    if won.is_err() {
        side.each.iter_mut().for_each(|part| part.end(AttemptOutcome::Cancelled, None));
    }
    joined(call.errand.ask, won?)
}

async fn pursue_all(call: &Call<'_>, parts: &[Ask], tries: &mut [Tries]) -> Result<Vec<Won>, Refusal> {
    if matches!(call.errand.ask.view, View::Rerank(_)) {
        let all = parts.iter().zip(&mut *tries).collect();
        let mut won = side_by_side(call, all, &|_| true).await?;
        put_on_one_scale(call, parts, tries, &mut won).await?;
        return Ok(won);
    }
    let mut spaces = spaces(call).into_iter().peekable();
    loop {
        let space = spaces.next();
        let is_of_it = move |upstream: &Upstream| space.as_ref().is_none_or(|space| upstream.space == *space);
        let all = parts.iter().zip(&mut *tries).collect();
        match side_by_side(call, all, &is_of_it).await {
            // What is the caller's fault is so in every space.
            Err(refusal) if refusal.status() >= 500 && spaces.peek().is_some() => {
                tries.iter_mut().for_each(|part| part.end(AttemptOutcome::Cancelled, None));
            }
            won => return won,
        }
    }
}

/// The vector spaces of a route in the order in which its upstreams would be tried: vectors of two never stand in one
/// answer, so one space answers all parts, and the next where that fails.
fn spaces(call: &Call<'_>) -> Vec<Option<String>> {
    let route = call.on.route;
    if route.vector_space().is_some() {
        return Vec::new();
    }
    let worker = call.worker;
    let plan = plan(call.on, call.first, &[], worker.live.clock.now(), &worker.dice);
    let mut spaces: Vec<Option<String>> = Vec::new();
    for upstream in plan.iter().filter_map(|(target, _)| route.upstreams.get(target.upstream)) {
        if !spaces.contains(&upstream.space) {
            spaces.push(upstream.space.clone());
        }
    }
    spaces
}

/// Scores of different models cannot stand in one ranking. Where parts were answered by several,
/// because an upstream failed in between, the one that was tried last ranks the others' parts too.
async fn put_on_one_scale(call: &Call<'_>, parts: &[Ask], tries: &mut [Tries], won: &mut [Won]) -> Result<(), Refusal> {
    let upstreams = &call.on.route.upstreams;
    let place = |won: &&Won| upstreams.iter().position(|upstream| Arc::ptr_eq(upstream, &won.upstream));
    let Some(last) = won.iter().max_by_key(place).map(|won| won.upstream.clone()) else { return Ok(()) };
    let is_odd = |won: &Won| won.upstream.model != last.model;
    let odd = parts.iter().zip(tries).zip(&*won).filter(|(_, won)| is_odd(won)).map(|(part, _)| part).collect();
    let again = side_by_side(call, odd, &|upstream| upstream.model == last.model).await?;
    for (odd, again) in won.iter_mut().filter(|won| is_odd(won)).zip(again) {
        *odd = again;
    }
    Ok(())
}

/// Pursues parts through those upstreams that `may_serve`, a few at a time; answers in their order.
async fn side_by_side<'a>(
    call: &Call<'a>,
    parts: Vec<(&'a Ask, &'a mut Tries)>,
    may_serve: &'a (dyn Fn(&Upstream) -> bool + Sync),
) -> Result<Vec<Won>, Refusal> {
    let mut won: Vec<Option<Won>> = parts.iter().map(|_| None).collect();
    let mut waiting = parts.into_iter().enumerate();
    let mut under_way: Vec<(usize, PartUnderWay<'_>)> = Vec::new();
    loop {
        while under_way.len() < SIDE_BY_SIDE {
            let Some((at, (part, tries))) = waiting.next() else { break };
            under_way.push((at, Box::pin(pursue_part(*call, part, tries, may_serve))));
        }
        if under_way.is_empty() {
            break;
        }
        let (slot, answer) = poll_fn(|cx| {
            for (slot, (_, part)) in under_way.iter_mut().enumerate() {
                if let Poll::Ready(answer) = part.as_mut().poll(cx) {
                    return Poll::Ready((slot, answer));
                }
            }
            Poll::Pending
        })
        .await;
        let (at, _) = under_way.swap_remove(slot);
        if let Some(place) = won.get_mut(at) {
            *place = Some(answer?);
        }
    }
    Ok(won.into_iter().flatten().collect())
}

async fn pursue_part(
    call: Call<'_>,
    part: &Ask,
    tries: &mut Tries,
    may_serve: &(dyn Fn(&Upstream) -> bool + Sync),
) -> Result<Won, Refusal> {
    let call = Call { errand: Errand { ask: part, ..call.errand }, ..call };
    let route = call.on.route;
    let worker = call.worker;
    let mut plan = plan(call.on, call.first, &[], worker.live.clock.now(), &worker.dice);
    plan.retain(|(target, _)| {
        let Some(upstream) = route.upstreams.get(target.upstream) else { return false };
        let may_serve = may_serve(upstream);
        if !may_serve {
            tries.note(Decision::Skipped { upstream: upstream.label.clone(), why: Skip::Unlike });
        }
        may_serve
    });
    let won = pursue(&call, plan, tries).await?;
    tries.end(AttemptOutcome::Ok, Some(200));
    if let Landed::Whole(answer) = &won.landed {
        // Whatever becomes of the whole: of a sister that fails, of scores that another model gives anew.
        tries.spend(&won.upstream, part.used(answer, &won.upstream.sent));
    }
    Ok(won)
}

fn joined(ask: &Ask, won: Vec<Won>) -> Result<Won, Refusal> {
    let mut by = None;
    let mut answers: Vec<Answer> = Vec::with_capacity(won.len());
    for part in won {
        by.get_or_insert((part.upstream, part.shown));
        match part.landed {
            Landed::Whole(answer) => answers.push(answer),
            Landed::Stream(_) => return Err(no_part()),
        }
    }
    let answer = match ask.view {
        View::Rerank(_) => rerank::join(ask, &answers),
        _ => embeddings::join(answers),
    };
    let answer = answer.map_err(pursuit::refusal)?;
    let (upstream, shown) = by.ok_or_else(no_part)?;
    Ok(Won { landed: Landed::Whole(answer), upstream, shown, visit: None, is_counted: true })
}

fn no_part() -> Refusal {
    Refusal::new(base::Code::UpstreamBadResponse, "a part of the answer is a stream")
}

/// The parts' tries, which join the whole call's also when the call is dropped half-way.
struct Side<'a> {
    clock: base::Clock,
    began: Instant,
    each: Vec<Tries>,
    whole: &'a mut Tries,
}

impl Drop for Side<'_> {
    fn drop(&mut self) {
        let waited = self.clock.now().duration_since(self.began);
        self.whole.absorb(std::mem::take(&mut self.each), waited);
    }
}
