//! What happened in one request so far, and the guard that turns it into exactly one record.

mod tries;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use base::{
    Attempt, AttemptOutcome, CALLER_GONE, Cached, Cost, Decision, Outcome, Record, Spending, Spent, Trace, Usage,
};
use config::Upstream;
use http::{HeaderMap, HeaderValue, header};
use rules::limits::Allowance;
use rules::prices::Price;
use rules::shares::Priority;
use rules::tokens::Amounts;
use state::answers::Key;
use tokio::sync::oneshot;

use crate::caller::headers::{self, AnswerHead};
use crate::live::Live;
use crate::live::per_worker::PerWorker;
use crate::permit::Permit;
use crate::quota::quotas::Stake;
use crate::records::content::CallContent;
use crate::running::Learned;

pub use tries::Tries;

/// The only per-request mutable thing. Dropped without [`Trail::end`], it records a caller who left.
pub struct Trail {
    live: Arc<Live>,
    /// Whose worker's it is.
    pub per_worker: Arc<PerWorker>,
    /// What will be written down; steps note facts here.
    pub record: Record,
    /// Its id as a header shows it.
    pub request_id: HeaderValue,
    shown_route: Option<HeaderValue>,
    /// Its tries at upstreams.
    pub tries: Tries,
    /// `priority` of its client.
    pub priority: Priority,
    /// What its usage will teach about the tokens of the model that answers.
    pub lesson: Option<Box<Lesson>>,
    /// Its place within its limits, to the last byte.
    pub permit: Option<Permit>,
    /// What is left of the tightest of those.
    pub allowance: Allowance,
    /// What it has put aside of its client's quota, until it is known what it used.
    pub stake: Option<Stake>,
    /// What the model costs that answers.
    price: Option<Arc<Price>>,
    /// Names the stored answer, or the place where this one may be stored.
    pub cache_id: Option<Key>,
    /// How old the oldest stored part of its answer is.
    pub age: Option<Duration>,
    /// Of a call that leads a flight: its caller has left, and the flight goes on for others.
    pub departed: Option<Arc<AtomicBool>>,
    /// Who finds out what it has yet to pay, when it has ended: of a call that goes on for others.
    pub owed: Option<oneshot::Sender<Rest>>,
    /// The question that the caller names does not stand in its last user message.
    pub is_query_elsewhere: bool,
    /// What hears its texts, where they are kept.
    pub content: Option<Arc<CallContent>>,
    began: Instant,
    running: Option<Arc<AtomicI64>>,
    overhead_is_known: bool,
    ended: bool,
}

/// A prompt whose tokens were guessed: what its upstream reports says how right the guess was.
#[derive(Debug)]
pub struct Lesson {
    /// What the prompt is made of.
    pub amounts: Amounts,
    /// Tokens that are no text.
    pub around: u64,
    /// What is known of each upstream of unknown tokens, by its label.
    pub pupils: Pupils,
}

/// Upstreams whose tokens nobody knows how to count, by label, and what each has taught.
pub type Pupils = smallvec::SmallVec<[(Arc<str>, Arc<Learned>); 2]>;

impl Lesson {
    fn teach(&self, upstream: Option<&str>, prompt: u64) {
        let pupil = self.pupils.iter().find(|(label, _)| Some(&**label) == upstream);
        if let Some((_, learned)) = pupil {
            learned.learn_worth(self.amounts, prompt.saturating_sub(self.around) as f64);
        }
    }
}

impl std::fmt::Debug for Trail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trail").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Trail {
    /// A request has arrived.
    #[must_use]
    pub fn begin(live: Arc<Live>, per_worker: Arc<PerWorker>, request_id: Box<str>) -> Self {
        let (began, time) = (live.clock.now(), live.clock.wall());
        per_worker.pending.begun();
        let record = Record::begun(time, request_id);
        // An id that may not travel as it is has been replaced before.
        let request_id = HeaderValue::from_str(&record.request_id).unwrap_or(HeaderValue::from_static("unknown"));
        Self {
            tries: Tries::since(live.clock, began),
            live,
            per_worker,
            request_id,
            shown_route: None,
            priority: Priority::default(),
            permit: None,
            allowance: Allowance::default(),
            stake: None,
            price: None,
            cache_id: None,
            age: None,
            departed: None,
            owed: None,
            is_query_elsewhere: false,
            content: None,
            record,
            lesson: None,
            began,
            running: None,
            overhead_is_known: false,
            ended: false,
        }
    }

    /// Something was decided.
    pub fn note(&mut self, decision: Decision) {
        self.tries.note(decision);
    }

    /// The request has this place in a trace.
    pub fn trace(&mut self, trace: Option<Box<Trace>>) {
        self.tries.parent = trace.as_ref().map(|trace| Box::new(trace.own));
        self.record.trace = trace;
    }

    /// When the request arrived.
    #[must_use]
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// The route is known: the request counts among its running ones from now on.
    pub fn on_route(&mut self, name: &Arc<str>, shown: HeaderValue, count: Arc<AtomicI64>) {
        self.shown_route = Some(shown);
        self.record.route = Some(name.clone());
        count.fetch_add(1, Ordering::Relaxed);
        self.running = Some(count);
    }

    /// Time so far that was not spent waiting for an upstream or in a queue; fixed at its first
    /// reading, which is when the answer's head goes out.
    pub fn overhead(&mut self) -> Duration {
        if !self.overhead_is_known {
            self.overhead_until(self.live.clock.now());
        }
        self.record.overhead
    }

    fn overhead_until(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.overhead_is_known, true) {
            let took = now.duration_since(self.began);
            self.record.overhead = took.saturating_sub(self.tries.waited);
        }
    }

    /// The first content of a stream goes out now; not to a leader who has left its flight.
    pub fn first_content(&mut self) {
        if self.has_departed() {
            return;
        }
        self.record.first_content = Some(self.live.clock.now().duration_since(self.began));
    }

    /// Puts what is known of the request into an answer's head.
    pub fn dress(&mut self, head: AnswerHead) -> HeaderMap {
        let overhead = headers::millis(self.overhead());
        let AnswerHead { upstream, content_type, more } = head;
        let Allowance { requests, tokens } = self.allowance;
        let cached = self.record.cache.zip(self.cache_id);
        let route = self.shown_route.as_ref();
        let groups = [upstream.is_some(), route.is_some(), cached.is_some(), requests.is_some(), tokens.is_some()];
        let mut headers = self.live.blanks.copy(groups);
        // In the order in which the names stand.
        let mut places = headers.values_mut();
        let mut put = |value: HeaderValue| {
            if let Some(place) = places.next() {
                *place = value;
            }
        };
        put(content_type);
        put(self.request_id.clone());
        put(overhead);
        if let Some(upstream) = upstream {
            put(upstream);
        }
        if let Some(route) = route {
            put(route.clone());
            put(headers::count(self.tries.count()));
        }
        if let Some((cache, id)) = cached {
            put(HeaderValue::from_static(cache.as_str()));
            put(headers::named(&id.to_string()));
        }
        for left in requests.into_iter().chain(tokens) {
            put(headers::number(left.limit));
            put(headers::number(left.remaining));
            put(headers::clock(left.reset));
        }
        if let (Some(cache), None) = (self.record.cache, cached) {
            headers.insert(headers::CACHE, HeaderValue::from_static(cache.as_str()));
        }
        for (name, value) in more {
            headers.insert(name, value);
        }
        self.dress_rarely(&mut headers);
        headers
    }

    /// What few answers tell.
    fn dress_rarely(&self, headers: &mut HeaderMap) {
        if let Some(why) = &self.record.degraded {
            headers.insert(headers::DEGRADED, headers::named(why));
        }
        if let Some(truncated) = &self.record.truncated {
            headers.insert(headers::TRUNCATED, headers::named(&truncated.to_string()));
        }
        if let (Some(Cached::Semantic), Some(matched)) = (self.record.cache, &self.record.matched) {
            headers.insert(headers::SIMILARITY, headers::named(&format!("{:.4}", matched.similarity)));
        }
        if self.is_query_elsewhere {
            headers.insert(headers::QUERY, headers::QUERY_ELSEWHERE);
        }
        if let Some(age) = self.age {
            headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
        }
        if !self.tries.queued().is_zero() {
            headers.insert(headers::QUEUE, headers::whole_millis(self.tries.queued()));
        }
    }

    /// This upstream answers.
    pub fn answered_by(&mut self, upstream: &Upstream) {
        self.record.upstream = Some(upstream.label.clone());
        self.record.model = Some(upstream.sent.clone());
        self.price.clone_from(&upstream.price);
    }

    /// What the answer consumed, of the upstream that gives it.
    pub fn used(&mut self, usage: Usage) {
        if let Some(lesson) = self.lesson.take().filter(|_| !usage.estimated) {
            lesson.teach(self.record.upstream.as_deref(), usage.prompt);
        }
        self.record.usage = Some(usage);
        self.record.cost = self.price.as_ref().and_then(|price| price.of(usage));
    }

    /// What the answer has consumed: itself, else the parts that it is made of.
    #[must_use]
    pub fn used_so_far(&self) -> (Option<Usage>, Option<Cost>) {
        match self.record.usage {
            Some(usage) => (Some(usage), self.record.cost.clone()),
            None => (self.tries.spending.usage(), self.tries.spending.cost()),
        }
    }

    /// The answer is whole: puts what is known into its headers, and the request has ended, its last try
    /// so, where an upstream has answered. One look at the clock is enough for all of it.
    pub fn conclude(&mut self, head: AnswerHead, tried: Option<AttemptOutcome>, outcome: Outcome) -> HeaderMap {
        let now = self.live.clock.now();
        self.overhead_until(now);
        let headers = self.dress(head);
        if let Some(tried) = tried {
            self.tries.ended(tried, Some(200), now);
        }
        self.ended(outcome, now);
        headers
    }

    fn has_departed(&self) -> bool {
        self.departed.as_ref().is_some_and(|departed| departed.load(Ordering::Relaxed))
    }

    /// The leader of a flight may have left before the end that the others see.
    fn seen(&mut self, outcome: Outcome) -> Outcome {
        if !self.has_departed() {
            return outcome;
        }
        if self.record.first_content.is_none() {
            self.record.status = CALLER_GONE;
        }
        self.record.code = None;
        Outcome::CallerGone
    }

    /// The request has ended. Only the first word counts.
    pub fn end(&mut self, outcome: Outcome) {
        if !self.ended {
            self.ended(outcome, self.live.clock.now());
        }
    }

    fn ended(&mut self, outcome: Outcome, now: Instant) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let outcome = self.seen(outcome);
        self.record.outcome = outcome;
        let unfinished = if outcome == Outcome::CallerGone { AttemptOutcome::Gone } else { AttemptOutcome::Cancelled };
        self.tries.ended(unfinished, None, now);
        self.record.attempts = std::mem::take(&mut self.tries.done);
        self.record.decisions = std::mem::take(&mut self.tries.decisions);
        self.record.queued = self.tries.queued;
        if !self.record.queued.is_zero() {
            self.live.metrics.queue_wait(self.priority.as_str(), self.record.queued);
        }
        if !self.tries.spending.is_empty() {
            add_spending(&mut self.record, std::mem::take(&mut self.tries.spending));
        }
        self.overhead_until(now);
        self.record.took = now.duration_since(self.began);
        if let Some(count) = self.running.take() {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        let (permit, stake) = (self.permit.take(), self.stake.take());
        if let Some(owed) = self.owed.take() {
            let record = std::mem::replace(&mut self.record, blank());
            let (live, per_worker) = (self.live.clone(), self.per_worker.clone());
            // Dropped where nobody finds out any more: then this is all that it pays.
            drop(owed.send(Rest { live, per_worker, record, permit, stake }));
            return;
        }
        settle(&mut self.record, permit, stake, now);
        self.live.put_down(&self.per_worker.pending, std::mem::replace(&mut self.record, blank()));
    }
}

/// Gives back what a request has taken and not used, now that its record is complete.
fn settle(record: &mut Record, permit: Option<Permit>, stake: Option<Stake>, now: Instant) {
    if let Some(mut permit) = permit {
        let is_refused =
            matches!(record.outcome, Outcome::PolicyQuota | Outcome::PolicyDenied | Outcome::CallerInvalid);
        if is_refused && record.attempts.is_empty() {
            permit.void();
        }
        if let Some(usage) = record.usage {
            permit.used(usage);
        }
        permit.end(now);
    }
    if let Some(stake) = stake {
        record.settled_in = stake.account();
        if let Some(usage) = record.usage {
            stake.settle(usage, record.costs());
        }
    }
}

/// A request that has ended for its caller, while it is not known yet what it pays. Dropped, it is written down.
#[derive(Debug)]
pub struct Rest {
    live: Arc<Live>,
    per_worker: Arc<PerWorker>,
    record: Record,
    permit: Option<Permit>,
    stake: Option<Stake>,
}

impl Rest {
    /// These tries were made for it too, by another call.
    pub fn tried(&mut self, attempts: &[Attempt]) {
        self.record.attempts.extend(tries::shared(attempts));
    }

    /// It has used so much of what this upstream has answered.
    pub fn used(&mut self, upstream: &Upstream, usage: Usage) {
        let mut used = Spending::default();
        used.add(tries::spent(upstream, usage));
        add_spending(&mut self.record, used);
        self.record.upstream.get_or_insert_with(|| upstream.label.clone());
        self.record.model.get_or_insert_with(|| upstream.sent.clone());
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        settle(&mut self.record, self.permit.take(), self.stake.take(), self.live.clock.now());
        self.live.put_down(&self.per_worker.pending, std::mem::replace(&mut self.record, blank()));
    }
}

/// Adds what was spent beside the answer to what the answer used.
fn add_spending(record: &mut Record, mut all: Spending) {
    let before = std::mem::take(&mut record.spending);
    if let Some(usage) = record.usage.filter(|_| before.is_empty()) {
        let (upstream, model) = (record.upstream.clone(), record.model.clone());
        all.add(Spent { upstream, model, usage, cost: record.cost.take() });
    }
    all.add_all(before);
    (record.usage, record.cost) = (all.usage(), all.cost());
    record.spending = all;
}

/// The place that a record leaves.
fn blank() -> Record {
    Record::begun(Duration::ZERO, Box::default())
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.end(Outcome::CallerGone);
    }
}
