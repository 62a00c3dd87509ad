//! Traces and metrics for a collector, over OTLP (`telemetry`).
//!
//! A request under way only keeps its place in a trace: ids, made by its worker. Spans and metrics are made of records
//! as they are gathered, and sent by the control runtime. A collector that is slow, or out, costs spans, which are
//! counted, and never a call.

mod conventions;
mod instruments;
mod otlp;
mod peers;
mod spans;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Attempt, Dice, Endpoint, Record, SpanContext, Spending, Trace};
use bytes::Bytes;
use config::Snapshot;
use http::Method;
use http::request::Parts;
use prost::Message as _;
use tokio::sync::{Notify, watch};

use crate::caller::headers;
use crate::records::metrics::Metrics;
use crate::running::Running;
use instruments::{Instruments, Way};
use otlp::{
    Attributes, MetricsRequest, Resource, ResourceMetrics, ResourceSpans, Scope, ScopeMetrics, ScopeSpans, TraceRequest,
};
use peers::Peers;
use spans::{Call, Ended, Own};

/// Spans that wait to be sent at most; further ones are dropped and counted.
const MOST_WAITING: usize = 16_384;
/// Spans of one request to the collector, give or take those of one call.
const BATCH: usize = 512;

/// A request's place in the caller's trace, or in a new one; none without `telemetry`.
#[must_use]
pub fn begin(snapshot: &Snapshot, parts: &Parts, dice: &Dice) -> Option<Box<Trace>> {
    let telemetry = snapshot.general.telemetry.as_ref()?;
    let mut written = parts.headers.get_all(headers::TRACEPARENT).iter();
    let caller = written.next().and_then(|value| SpanContext::parse(value.as_bytes()));
    // Of two nobody knows which is meant (Trace Context, section 3.2.1).
    let caller = caller.filter(|_| written.next().is_none());
    let own = match caller {
        Some(caller) => caller.child(dice),
        None => SpanContext::root(dice, telemetry.sample >= 1.0 || dice.unit() < telemetry.sample),
    };
    let state = caller.and_then(|_| headers::tracestate(&parts.headers));
    Some(Box::new(Trace {
        own,
        parent: caller.map(|caller| caller.span),
        state: state.and_then(|state| state.to_str().ok().map(Into::into)),
        method: method(&parts.method),
        path: None,
    }))
}

/// `http.request.method`: what callers invent is `_OTHER`.
fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 10] = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "QUERY"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("_OTHER")
}

/// A call of the gateway's own, for a request.
#[derive(Clone, Copy, Debug)]
pub struct OwnCall<'a> {
    /// The request's span, where it has one.
    pub parent: Option<&'a SpanContext>,
    /// The route that was asked.
    pub route: &'a Arc<str>,
    /// The endpoint that it was asked at.
    pub endpoint: Endpoint,
    /// When it began, from the Unix epoch.
    pub began: Duration,
    /// Its tries.
    pub attempts: &'a [Attempt],
    /// What they used.
    pub spending: &'a Spending,
}

/// What has ended and is to be told, and what was counted.
#[derive(Debug)]
pub struct Telemetry {
    state: Mutex<State>,
    /// Told when a batch is together.
    pub full: Notify,
    /// How far sending has come.
    pub phase: watch::Sender<Phase>,
    /// `service.instance.id`: tells this process from others.
    instance: Box<str>,
}

#[derive(Debug)]
struct State {
    peers: Peers,
    waiting: VecDeque<Ended>,
    /// How many spans `waiting` becomes.
    spans: usize,
    instruments: Instruments,
    /// Since when is counted, from the Unix epoch.
    since: Duration,
}

/// How far sending has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nobody sends.
    Idle,
    /// Somebody does.
    Running,
    /// What is there is sent once more, and no more after that.
    Stopping,
    /// That has been done.
    Done,
}

/// What goes out in one request.
#[derive(Debug)]
pub struct Batch {
    /// How many spans it holds.
    pub spans: usize,
    /// `ExportTraceServiceRequest`
    pub body: Bytes,
}

impl Telemetry {
    /// Nothing yet, of a process that starts at `now`, from the Unix epoch.
    #[must_use]
    pub fn new(dice: &Dice, now: Duration) -> Self {
        let state = State {
            peers: Peers::default(),
            waiting: VecDeque::new(),
            spans: 0,
            instruments: Instruments::default(),
            since: now,
        };
        Self {
            state: Mutex::new(state),
            full: Notify::new(),
            phase: watch::Sender::new(Phase::Idle),
            instance: instance(dice).into(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has ended.
    pub fn note(&self, running: &Arc<Running>, record: &Record, metrics: &Metrics) {
        let Some(trace) = &record.trace else { return };
        let mut state = self.lock();
        let State { peers, instruments, .. } = &mut *state;
        peers.follow(running);
        let peer = |label: &str| peers.find(record.route.as_deref(), label);
        instruments.count(record, Way { route: record.route.as_ref(), endpoint: record.endpoint, peer: &peer });
        if trace.own.is_sampled() {
            let peers = record.attempts.iter().map(|attempt| peer(&attempt.upstream)).collect();
            self.put(&mut state, Ended::Call(Box::new(Call { record: record.clone(), peers })), metrics);
        }
    }

    /// A call of the gateway's own has ended.
    pub fn note_own(&self, running: &Arc<Running>, own: &OwnCall<'_>, metrics: &Metrics) {
        let Some(parent) = own.parent.copied() else { return };
        let OwnCall { route, endpoint, began, attempts, spending, .. } = *own;
        let mut state = self.lock();
        let State { peers, instruments, .. } = &mut *state;
        peers.follow(running);
        let peer = |label: &str| peers.find(Some(route), label);
        let way = Way { route: Some(route), endpoint: Some(endpoint), peer: &peer };
        instruments.count_attempts(attempts, way);
        for spent in spending.each() {
            instruments.count_usage(way, None, spent.upstream.as_deref().unwrap_or_default(), spent.usage);
        }
        if parent.is_sampled() {
            let peers = attempts.iter().map(|attempt| peer(&attempt.upstream)).collect();
            let (route, attempts, spending) = (route.clone(), attempts.into(), spending.clone());
            let own = Own { parent, route, endpoint, began, attempts, spending, peers };
            self.put(&mut state, Ended::Own(Box::new(own)), metrics);
        }
    }

    fn put(&self, state: &mut State, ended: Ended, metrics: &Metrics) {
        let count = ended.count();
        if state.spans + count > MOST_WAITING {
            metrics.telemetry.dropped("queue_full", count);
            return;
        }
        state.spans += count;
        state.waiting.push_back(ended);
        if state.spans >= BATCH {
            self.full.notify_one();
        }
    }

    /// The oldest of what waits; nothing where nothing waits.
    fn oldest(&self) -> Vec<Ended> {
        let mut state = self.lock();
        let mut batch = Vec::new();
        let mut spans = 0;
        while spans < BATCH {
            let Some(ended) = state.waiting.pop_front() else { break };
            spans += ended.count();
            batch.push(ended);
        }
        state.spans = state.spans.saturating_sub(spans);
        batch
    }

    /// The next request with spans; nothing where none waits. `snapshot` says who sends it.
    #[must_use]
    pub fn take(&self, snapshot: &Snapshot) -> Option<Batch> {
        let (oldest, scheme) = (self.oldest(), scheme(snapshot));
        if oldest.is_empty() {
            return None;
        }
        let mut spans = Vec::new();
        oldest.iter().for_each(|ended| ended.spans(scheme, &mut spans));
        let count = spans.len();
        let resource_spans = ResourceSpans {
            resource: Some(self.resource(snapshot)),
            scope_spans: vec![ScopeSpans { scope: Some(scope()), spans }],
            schema_url: conventions::SCHEMA.to_owned(),
        };
        let request = TraceRequest { resource_spans: vec![resource_spans] };
        Some(Batch { spans: count, body: request.encode_to_vec().into() })
    }

    /// `ExportMetricsServiceRequest` with everything counted up to `now`, from the Unix epoch; nothing before the first
    /// request.
    #[must_use]
    pub fn metrics(&self, snapshot: &Snapshot, now: Duration) -> Option<Bytes> {
        let state = self.lock();
        let metrics = state.instruments.metrics(state.since, now, scheme(snapshot));
        drop(state);
        if metrics.is_empty() {
            return None;
        }
        let resource_metrics = ResourceMetrics {
            resource: Some(self.resource(snapshot)),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope()), metrics }],
            schema_url: conventions::SCHEMA.to_owned(),
        };
        Some(MetricsRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec().into())
    }

    /// Which process sends, as a collector knows it.
    fn resource(&self, snapshot: &Snapshot) -> Resource {
        let mut attributes = Attributes::default();
        attributes
            .text("service.name", Some("mai-gateway"))
            .text("service.version", Some(env!("CARGO_PKG_VERSION")))
            .text("service.instance.id", Some(&self.instance))
            .text("deployment.environment.name", Some(&snapshot.general.environment));
        Resource { attributes: attributes.0 }
    }

    /// Sends what is there, once, and nothing more from then on; false where that takes too long.
    pub async fn flush(&self, patience: Duration) -> bool {
        let mut phase = self.phase.subscribe();
        let is_running = self.phase.send_if_modified(|phase| {
            let is_running = *phase == Phase::Running;
            if is_running {
                *phase = Phase::Stopping;
            }
            is_running
        });
        let done = async { phase.wait_for(|phase| *phase == Phase::Done).await.is_ok() };
        !is_running || tokio::time::timeout(patience, done).await.is_ok()
    }
}

fn scope() -> Scope {
    Scope { name: "mai-gateway".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// `url.scheme` of the data port.
fn scheme(snapshot: &Snapshot) -> &'static str {
    if snapshot.general.tls.is_some() { "https" } else { "http" }
}

/// What a collector's answer says that was not taken, and why: how many spans or points, and its words. Nothing where
/// all was taken.
#[must_use]
pub fn rejected(answer: &[u8]) -> (usize, String) {
    let partial = otlp::Answer::decode(answer).unwrap_or_default().partial_success.unwrap_or_default();
    (usize::try_from(partial.rejected).unwrap_or_default(), partial.error_message)
}

/// A random UUID (RFC 9562, version 4).
fn instance(dice: &Dice) -> String {
    let (high, low) = (dice.bits(), dice.bits());
    let (version, variant) = (0x4000 | (high & 0x0fff), 0x8000 | (low >> 48 & 0x3fff));
    let (first, second, last) = (high >> 32, high >> 16 & 0xffff, low & 0xffff_ffff_ffff);
    format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{last:012x}")
}

#[cfg(test)]
mod tests {
    use base::{AttemptOutcome, Spending};
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn spans_that_wait_are_bounded_and_those_beyond_are_counted() {
        let (dice, metrics) = (Dice::loaded(1), Metrics::new().unwrap());
        let telemetry = Telemetry::new(&dice, Duration::ZERO);
        let parent = SpanContext::root(&dice, true);
        let attempt = || Attempt {
            upstream: "a/m".into(),
            outcome: AttemptOutcome::Ok,
            status: None,
            at: Duration::ZERO,
            took: Duration::ZERO,
            is_anothers: false,
            is_drill: false,
            span: Some(Box::new(base::AttemptSpan { context: parent.child(&dice), model: None })),
        };
        for _ in 0..MOST_WAITING / 2 + 3 {
            let own = Own {
                parent,
                route: "r".into(),
                endpoint: Endpoint::Chat,
                began: Duration::ZERO,
                attempts: smallvec![attempt(), attempt()],
                spending: Spending::default(),
                peers: smallvec![None, None],
            };
            telemetry.put(&mut telemetry.lock(), Ended::Own(Box::new(own)), &metrics);
        }
        let text = String::from_utf8(metrics.text(&std::collections::HashMap::new(), 0)).unwrap();
        assert!(text.contains("mai_telemetry_dropped_total{reason=\"queue_full\"} 6"), "{text}");
        assert!(text.contains("mai_telemetry_dropped_total{reason=\"given_up\"} 0"), "seen before its first: {text}");
        let mut sent = 0;
        loop {
            let count: usize = telemetry.oldest().iter().map(Ended::count).sum();
            if count == 0 {
                break;
            }
            assert!(count <= BATCH);
            sent += count;
        }
        assert_eq!((sent, telemetry.lock().spans), (MOST_WAITING, 0));
    }

    #[test]
    fn an_instance_has_a_random_uuid() {
        let id = instance(&Dice::loaded(1));
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!((parts, id.as_bytes()[14]), (vec![8, 4, 4, 4, 12], b'4'));
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
    }
}
