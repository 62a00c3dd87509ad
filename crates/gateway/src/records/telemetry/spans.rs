//! Ended calls as spans: one of kind SERVER for each, and one of kind CLIENT for each of its own tries.

use std::sync::Arc;
use std::time::Duration;

use base::{Attempt, AttemptOutcome, AttemptSpan, Endpoint, Record, SpanContext, SpanId, Spending, Trace, Usage};
use smallvec::SmallVec;

use super::conventions::{self, nanos};
use super::otlp::{Attributes, CLIENT, ERROR, HAS_IS_REMOTE, IS_REMOTE, Link, SERVER, Span, Status};
use super::peers::Peer;

/// Links of one span at most: other calls' tries that were made for this one too.
const MOST_LINKS: usize = 32;

/// Who stands behind each try, in their order.
pub type PeersOf = SmallVec<[Option<Arc<Peer>>; 2]>;

/// A request whose trace is recorded.
#[derive(Debug)]
pub struct Call {
    pub record: Record,
    pub peers: PeersOf,
}

/// A call of the gateway's own, for a request whose trace is recorded.
#[derive(Debug)]
pub struct Own {
    /// The request's span.
    pub parent: SpanContext,
    pub route: Arc<str>,
    pub endpoint: Endpoint,
    /// When it began, from the Unix epoch.
    pub began: Duration,
    pub attempts: SmallVec<[Attempt; 2]>,
    pub spending: Spending,
    pub peers: PeersOf,
}

/// What has ended.
#[derive(Debug)]
pub enum Ended {
    Call(Box<Call>),
    Own(Box<Own>),
}

impl Ended {
    /// How many spans it becomes.
    #[must_use]
    pub fn count(&self) -> usize {
        let tries = |attempts: &[Attempt]| attempts.iter().filter(|attempt| attempt.span.is_some()).count();
        match self {
            Self::Call(call) => 1 + tries(&call.record.attempts),
            Self::Own(own) => tries(&own.attempts),
        }
    }

    /// Its spans.
    pub fn spans(&self, scheme: &str, spans: &mut Vec<Span>) {
        match self {
            Self::Call(call) => call.spans(scheme, spans),
            Self::Own(own) => own.spans(spans),
        }
    }
}

/// What the spans of tries have in common.
struct Tries<'a> {
    parent: SpanContext,
    route: Option<&'a str>,
    endpoint: Option<Endpoint>,
    /// From the Unix epoch.
    began: Duration,
    attempts: &'a [Attempt],
    peers: &'a [Option<Arc<Peer>>],
}

impl Call {
    fn spans(&self, scheme: &str, spans: &mut Vec<Span>) {
        let record = &self.record;
        let Some(trace) = &record.trace else { return };
        spans.push(self.server(trace, scheme));
        let tries = Tries {
            parent: trace.own,
            route: record.route.as_deref(),
            endpoint: record.endpoint,
            began: record.time,
            attempts: &record.attempts,
            peers: &self.peers,
        };
        let usage: SmallVec<[(&str, Usage); 2]> = conventions::used(record).collect();
        tries.spans(&usage, record.first_content, spans);
    }

    fn server(&self, trace: &Trace, scheme: &str) -> Span {
        let record = &self.record;
        let route = trace.path.map(conventions::route);
        let error = conventions::error(record);
        let mut attributes = Attributes::default();
        attributes
            .text("http.request.method", Some(trace.method))
            .text("url.scheme", Some(scheme))
            .text("http.route", route.as_deref())
            .integer("http.response.status_code", conventions::status(record).map(u64::from))
            .text("error.type", error)
            .text("mai.request_id", Some(&record.request_id))
            .text("mai.route", record.route.as_deref())
            .text("mai.client", record.client.as_deref())
            .text("mai.outcome", Some(record.outcome.as_str()))
            .text("mai.cache", record.cache.map(base::Cached::as_str))
            .text("mai.upstream", record.upstream.as_deref())
            .text("mai.degraded", record.degraded.as_deref())
            .number("mai.similarity", record.matched.as_ref().map(|matched| matched.similarity.into()))
            .integer("mai.truncated_tokens", record.truncated.map(|truncated| truncated.tokens))
            .number("mai.queue_ms", Some(millis(record.queued)).filter(|_| !record.queued.is_zero()))
            .number("mai.overhead_ms", Some(millis(record.overhead)))
            .number("mai.cost", record.cost.as_ref().map(|cost| cost.nanos as f64 / 1e9))
            .text("mai.currency", record.cost.as_ref().map(|cost| &*cost.currency));
        let name = route.map_or_else(|| trace.method.to_owned(), |route| format!("{} {route}", trace.method));
        let remote = if trace.parent.is_some() { IS_REMOTE } else { 0 };
        Span {
            trace_state: trace.state.as_deref().unwrap_or_default().to_owned(),
            kind: SERVER,
            attributes: attributes.0,
            links: self.links(),
            status: error.map(|_| Status { code: ERROR }),
            flags: u32::from(trace.own.flags()) | HAS_IS_REMOTE | remote,
            ..span(trace.own, trace.parent, name, record.time, record.took)
        }
    }

    /// Tries that another request has made, for this one too: they are spans of that one's trace.
    fn links(&self) -> Vec<Link> {
        let others = self.record.attempts.iter().filter(|attempt| attempt.is_anothers);
        let link = |AttemptSpan { context: span, .. }: &AttemptSpan| Link {
            trace_id: span.trace.bytes().to_vec(),
            span_id: span.span.bytes().to_vec(),
            attributes: Vec::new(),
            flags: u32::from(span.flags()),
        };
        others.filter_map(|attempt| attempt.span.as_deref()).take(MOST_LINKS).map(link).collect()
    }
}

impl Own {
    fn spans(&self, spans: &mut Vec<Span>) {
        let tries = Tries {
            parent: self.parent,
            route: Some(&self.route),
            endpoint: Some(self.endpoint),
            began: self.began,
            attempts: &self.attempts,
            peers: &self.peers,
        };
        let usage: SmallVec<[(&str, Usage); 2]> =
            self.spending.each().filter_map(|spent| Some((spent.upstream.as_deref()?, spent.usage))).collect();
        let first = spans.len();
        tries.spans(&usage, None, spans);
        for span in spans.iter_mut().skip(first) {
            let mut attributes = Attributes(std::mem::take(&mut span.attributes));
            attributes.flag("mai.own", true);
            span.attributes = attributes.0;
        }
    }
}

impl Tries<'_> {
    fn spans(&self, usage: &[(&str, Usage)], first_content: Option<Duration>, spans: &mut Vec<Span>) {
        let own = || self.attempts.iter().enumerate().filter(|(_, attempt)| !attempt.is_anothers);
        let winner = conventions::winner(self.attempts);
        for (at, attempt) in own() {
            let first = first_content.filter(|_| winner.is_some_and(|winner| std::ptr::eq(winner, attempt)));
            // What an upstream used is known of all its tries together: the last one tells it.
            let is_last = !own().any(|(later, other)| later > at && other.upstream == attempt.upstream);
            let used = usage.iter().find(|(upstream, _)| is_last && **upstream == *attempt.upstream);
            let peer = self.peers.get(at).and_then(Option::as_deref);
            let first_chunk = first.map(|first| first.saturating_sub(attempt.at));
            spans.extend(self.client(attempt, peer, first_chunk, used.map(|(_, usage)| *usage)));
        }
    }

    /// The span of a try, where the gateway tells of one.
    fn client(
        &self,
        attempt: &Attempt,
        peer: Option<&Peer>,
        first_chunk: Option<Duration>,
        used: Option<Usage>,
    ) -> Option<Span> {
        let own = attempt.span.as_deref()?;
        let operation = self.endpoint.map(conventions::operation);
        let error = (attempt.outcome != AttemptOutcome::Ok).then(|| attempt.outcome.as_str());
        let mut attributes = Attributes::default();
        attributes.text("gen_ai.operation.name", operation);
        conventions::put_peer(&mut attributes, peer);
        attributes
            .text("gen_ai.response.model", own.model.as_deref())
            .flag("gen_ai.request.stream", first_chunk.is_some())
            .number("gen_ai.response.time_to_first_chunk", first_chunk.map(|first| first.as_secs_f64()))
            .integer("gen_ai.usage.input_tokens", used.map(|used| used.prompt))
            .integer("gen_ai.usage.output_tokens", used.map(|used| used.completion))
            .integer("gen_ai.usage.cache_read.input_tokens", used.map(|used| used.cached).filter(|cached| *cached > 0))
            .flag("mai.usage_estimated", used.is_some_and(|used| used.estimated))
            .integer("http.response.status_code", attempt.status.map(u64::from))
            .text("error.type", error)
            .text("mai.route", self.route)
            .text("mai.upstream", Some(&attempt.upstream))
            .text("mai.outcome", Some(attempt.outcome.as_str()))
            .flag("mai.drill", attempt.is_drill);
        let name = match (operation, peer) {
            (Some(operation), Some(peer)) => format!("{operation} {}", peer.model),
            (Some(operation), None) => operation.to_owned(),
            (None, _) => attempt.upstream.to_string(),
        };
        Some(Span {
            kind: CLIENT,
            attributes: attributes.0,
            status: error.map(|_| Status { code: ERROR }),
            flags: u32::from(own.context.flags()) | HAS_IS_REMOTE,
            ..span(own.context, Some(self.parent.span), name, self.began + attempt.at, attempt.took)
        })
    }
}

fn span(own: SpanContext, parent: Option<SpanId>, name: String, began: Duration, took: Duration) -> Span {
    Span {
        trace_id: own.trace.bytes().to_vec(),
        span_id: own.span.bytes().to_vec(),
        parent_span_id: parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
        name,
        start_time_unix_nano: nanos(began),
        end_time_unix_nano: nanos(began + took),
        ..Span::default()
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
