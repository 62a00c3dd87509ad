//! A request's tries at upstreams, and what was decided on its way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{
    Attempt, AttemptOutcome, AttemptSpan, Clock, Decision, Dice, Line, Noted, SpanContext, Spending, Spent, Usage,
};
use config::Upstream;
use http::HeaderValue;
use smallvec::SmallVec;

use crate::upstream::drills::Drill;

/// Tries at upstreams, one after the other, and the time they took. A call that is split into parts
/// has one for each part while they run side by side.
#[derive(Debug)]
pub struct Tries {
    clock: Clock,
    /// When the request arrived.
    arrived: Instant,
    /// The span that theirs are children of.
    pub parent: Option<Box<SpanContext>>,
    pub(super) decisions: SmallVec<[Noted; 1]>,
    pub(super) done: SmallVec<[Attempt; 1]>,
    /// What was used beside the answer that is given: by answers that were not, and by parts of a split call.
    pub(super) spending: Spending,
    trying: Option<Trying>,
    /// A drill has a hand in the running one.
    drill: Option<Arc<Drill>>,
    waiting_since: Option<Instant>,
    pub(super) waited: Duration,
    queueing_since: Option<Instant>,
    pub(super) queued: Duration,
}

/// A try that runs.
#[derive(Debug)]
struct Trying {
    upstream: Arc<str>,
    began: Instant,
    /// Its span, and that as it is sent upstream.
    span: Option<Box<(AttemptSpan, HeaderValue)>>,
}

/// Decisions noted of one request at most: a call in many parts has many. The first are kept, and one says how many
/// more there were.
const MOST_DECISIONS: usize = 128;

impl Tries {
    /// None yet, of a call that begins now.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self::since(clock, clock.now())
    }

    /// None yet, of a request that arrived then.
    #[must_use]
    pub fn since(clock: Clock, arrived: Instant) -> Self {
        Self {
            clock,
            arrived,
            parent: None,
            decisions: SmallVec::new(),
            done: SmallVec::new(),
            spending: Spending::default(),
            trying: None,
            drill: None,
            waiting_since: None,
            waited: Duration::ZERO,
            queueing_since: None,
            queued: Duration::ZERO,
        }
    }

    /// None yet, of a part of the call that has these: it has waited in queues as long as they have.
    #[must_use]
    pub fn of_part(&self) -> Self {
        Self { queued: self.queued, parent: self.parent.clone(), ..Self::since(self.clock, self.arrived) }
    }

    /// Something was decided.
    pub fn note(&mut self, decision: Decision) {
        self.note_at(decision, self.clock.now());
    }

    /// An upstream was chosen, where one was.
    pub fn note_to(&mut self, decision: impl FnOnce(Arc<str>) -> Decision, upstream: Option<&Arc<Upstream>>) {
        if let Some(upstream) = upstream {
            self.note(decision(upstream.label.clone()));
        }
    }

    /// Something was decided then.
    pub fn note_at(&mut self, decision: Decision, now: Instant) {
        self.add(Noted { at: now.saturating_duration_since(self.arrived), decision });
    }

    fn add(&mut self, noted: Noted) {
        let count = match &noted.decision {
            Decision::More(count) => *count,
            // An upstream is passed over with each of its keys.
            Decision::Skipped { .. } if self.decisions.last().is_some_and(|last| last.decision == noted.decision) => {
                return;
            }
            _ => 1,
        };
        if let Some(Noted { decision: Decision::More(more), .. }) = self.decisions.last_mut() {
            *more += count;
        } else if self.decisions.len() < MOST_DECISIONS {
            self.decisions.push(noted);
        } else {
            self.decisions.push(Noted { decision: Decision::More(count), ..noted });
        }
    }

    /// A try begins: from here on an upstream is waited for.
    pub fn begin(&mut self, upstream: &Arc<str>, dice: &Dice) {
        let now = self.clock.now();
        let span = self.parent.as_ref().map(|parent| parent.child(dice));
        let span = span.and_then(|context| {
            let header = HeaderValue::from_bytes(&context.traceparent()).ok()?;
            Some(Box::new((AttemptSpan { context, model: None }, header)))
        });
        self.trying = Some(Trying { upstream: upstream.clone(), began: now, span });
        self.waiting_since = Some(now);
    }

    /// The `traceparent` that the try which runs goes with, where it is part of a trace.
    #[must_use]
    pub fn traceparent(&self) -> Option<&HeaderValue> {
        Some(&self.trying.as_ref()?.span.as_ref()?.1)
    }

    /// The try that runs was answered by this model, which is asked for where its trace is recorded.
    pub fn answered_by(&mut self, model: impl FnOnce() -> Option<Box<str>>) {
        let span = self.trying.as_mut().and_then(|trying| trying.span.as_mut());
        if let Some(span) = span.filter(|span| span.0.context.is_sampled()) {
            span.0.model = model();
        }
    }

    /// The try that has begun is harmed by this drill, if by any.
    pub fn drilled(&mut self, drill: Option<Arc<Drill>>) {
        self.drill = drill;
    }

    /// What has a hand in the try that runs.
    #[must_use]
    pub const fn drill(&self) -> Option<&Arc<Drill>> {
        self.drill.as_ref()
    }

    /// A wait for one more try begins.
    pub fn pause(&mut self) {
        self.waiting_since = Some(self.clock.now());
    }

    /// A wait in this queue begins.
    pub fn queue(&mut self, line: Line) {
        let now = self.clock.now();
        self.queueing_since = Some(now);
        self.note_at(Decision::Queued(line), now);
    }

    /// The wait in a queue is over.
    pub fn queue_ends(&mut self) {
        self.queue_ended(self.clock.now());
    }

    fn queue_ended(&mut self, now: Instant) {
        if let Some(since) = self.queueing_since.take() {
            let took = now.duration_since(since);
            self.queued += took;
            self.waited += took;
            self.note_at(Decision::LeftQueue(took), now);
        }
    }

    /// Time spent in queues; of parts side by side the longest.
    #[must_use]
    pub const fn queued(&self) -> Duration {
        self.queued
    }

    /// The wait is over: the try has failed, or its answer is here or has begun.
    pub fn wait_ends(&mut self) {
        if self.waiting_since.is_some() {
            self.wait_ended(self.clock.now());
        }
    }

    fn wait_ended(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.duration_since(since);
        }
    }

    /// The try has ended so.
    pub fn end(&mut self, outcome: AttemptOutcome, status: Option<u16>) {
        self.ended(outcome, status, self.clock.now());
    }

    pub(super) fn ended(&mut self, outcome: AttemptOutcome, status: Option<u16>, now: Instant) {
        self.wait_ended(now);
        self.queue_ended(now);
        if let Some(Trying { upstream, began, span }) = self.trying.take() {
            let (at, took) = (began.saturating_duration_since(self.arrived), now.duration_since(began));
            let span = span.filter(|span| span.0.context.is_sampled()).map(|span| Box::new(span.0));
            let is_drill = self.drill.take().is_some();
            self.done.push(Attempt { upstream, outcome, status, at, took, is_anothers: false, is_drill, span });
        }
    }

    /// Those that have ended, behind the first so many.
    #[must_use]
    pub fn ended_since(&self, first: usize) -> Arc<[Attempt]> {
        self.done.iter().skip(first).cloned().collect()
    }

    /// Tries that another call has made, for this one too; they begin when that call says.
    pub fn share(&mut self, others: &[Attempt]) {
        self.done.extend(shared(others));
    }

    /// An upstream has used so much, whatever becomes of its answer.
    pub fn spend(&mut self, upstream: &Upstream, usage: Usage) {
        self.spending.add(spent(upstream, usage));
    }

    /// How many, the running one included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.done.len() + usize::from(self.trying.is_some())
    }

    /// What they were and what they have used, of a call that has no record of its own.
    #[must_use]
    pub fn so_far(&self) -> (&[Attempt], &Spending) {
        (&self.done, &self.spending)
    }

    /// How long ago the request arrived.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.arrived)
    }

    /// Adds the tries of parts that ran side by side for `waited`.
    pub fn absorb(&mut self, parts: impl IntoIterator<Item = Self>, waited: Duration) {
        let mut decisions = std::mem::take(&mut self.decisions);
        for mut part in parts {
            part.end(AttemptOutcome::Gone, None);
            self.done.extend(part.done);
            decisions.extend(part.decisions);
            self.spending.add_all(part.spending);
            self.queued = self.queued.max(part.queued);
        }
        self.waited += waited;
        // They ran side by side.
        decisions.sort_by_key(|noted| (matches!(noted.decision, Decision::More(_)), noted.at));
        decisions.into_iter().for_each(|noted| self.add(noted));
    }
}

/// Tries that another call has made.
pub(super) fn shared(others: &[Attempt]) -> impl Iterator<Item = Attempt> {
    others.iter().cloned().map(|attempt| Attempt { is_anothers: true, ..attempt })
}

/// What an upstream has used.
pub(super) fn spent(upstream: &Upstream, usage: Usage) -> Spent {
    Spent {
        upstream: Some(upstream.label.clone()),
        model: Some(upstream.sent.clone()),
        usage,
        cost: upstream.price.as_ref().and_then(|price| price.of(usage)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(tries: &Tries) -> (usize, Option<&Decision>) {
        (tries.decisions.len(), tries.decisions.last().map(|last| &last.decision))
    }

    #[test]
    fn decisions_that_there_is_no_room_for_are_counted() {
        let mut tries = Tries::new(Clock);
        (0..MOST_DECISIONS as u64).for_each(|at| tries.note(Decision::Staked(at)));
        assert_eq!(more(&tries), (MOST_DECISIONS, Some(&Decision::Staked(127))));
        (0..72).for_each(|at| tries.note(Decision::Staked(at)));
        assert_eq!(more(&tries), (MOST_DECISIONS + 1, Some(&Decision::More(72))));
        let part = || {
            let mut part = Tries::new(Clock);
            (0..130).for_each(|at| part.note(Decision::Staked(at)));
            part
        };
        tries.absorb([part(), part()], Duration::ZERO);
        assert_eq!(more(&tries), (MOST_DECISIONS + 1, Some(&Decision::More(72 + 260))));
    }
}
