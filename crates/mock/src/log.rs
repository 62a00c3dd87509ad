//! What reached the mock: every call, bounded, to be asserted on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::request::Request;

/// How a call ended, as far as the mock can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not yet.
    Running,
    /// The answer was written whole.
    Answered,
    /// The mock broke it off, as scripted.
    Cut,
    /// The caller left before the answer was whole.
    Gone,
}

impl End {
    /// As `GET /__mock/calls` writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Answered => "answered",
            Self::Cut => "cut",
            Self::Gone => "gone",
        }
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Counted from 1 over the whole mock.
    pub number: u64,
    /// The connection it came on, counted from 1.
    pub connection: u64,
    /// The call's place on that connection, counted from 1.
    pub turn: u64,
    /// When its last byte had arrived, since the mock's start.
    pub at: Duration,
    /// What was asked. Of a body longer than the log keeps there is the beginning, and no JSON.
    pub request: Arc<Request>,
    /// How long its body was, also where the log keeps less of it.
    pub body_bytes: usize,
    /// The rule that answered, counted from 1; none where no rule applied.
    pub rule: Option<usize>,
    /// How many calls were running when it came, itself included.
    pub in_flight: usize,
    /// The status that was or would be sent; 0 where the script sends none.
    pub status: u16,
    /// When the first byte of its answer had been written, since the mock's start; none before that.
    pub first_byte_at: Option<Duration>,
    /// How it ended.
    pub end: End,
    /// When it ended, since the mock's start.
    pub ended_at: Option<Duration>,
}

impl Call {
    /// The form of `GET /__mock/calls`: times in milliseconds; the body as `json`, else as `text`,
    /// else as `base64`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let ms = |at: Duration| at.as_secs_f64() * 1000.0;
        let headers: Vec<Value> = self
            .request
            .headers
            .iter()
            .map(|(name, value)| json!([name.to_ascii_lowercase(), String::from_utf8_lossy(value)]))
            .collect();
        let (form, body) = match (&self.request.json, std::str::from_utf8(&self.request.body)) {
            (Some(json), _) => ("json", json.clone()),
            (None, Ok(text)) => ("text", text.into()),
            (None, Err(_)) => ("base64", BASE64_STANDARD.encode(&self.request.body).into()),
        };
        let mut call = json!({
            "number": self.number, "connection": self.connection, "turn": self.turn, "at_ms": ms(self.at),
            "method": self.request.method, "path": self.request.path, "query": self.request.query,
            "headers": headers, "rule": self.rule, "in_flight": self.in_flight, "status": self.status,
            "first_byte_at_ms": self.first_byte_at.map(ms), "end": self.end.as_str(),
            "ended_at_ms": self.ended_at.map(ms), "body_bytes": self.body_bytes,
        });
        call[form] = body;
        call
    }
}

/// The log, shared between the mock and whoever asserts on it.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    calls: VecDeque<Call>,
    /// How many calls, and how many bytes of each body, are kept.
    keep: (usize, usize),
    total: u64,
    in_flight: usize,
    in_flight_max: usize,
    last_connection: u64,
    connections: u64,
    open: usize,
}

impl State {
    /// The call with that turn on that connection, where it is still kept.
    fn find(&mut self, key: (u64, u64)) -> Option<&mut Call> {
        self.calls.iter_mut().rev().find(|call| (call.connection, call.turn) == key)
    }
}

impl Log {
    /// An empty log that keeps the last `calls` calls with at most `body` bytes of each.
    #[must_use]
    pub fn new(calls: usize, body: usize) -> Self {
        let state = State {
            calls: VecDeque::new(),
            keep: (calls, body),
            total: 0,
            in_flight: 0,
            in_flight_max: 0,
            last_connection: 0,
            connections: 0,
            open: 0,
        };
        Self(Arc::new(Shared { start: Clock.now(), state: Mutex::new(state), changed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls that are kept, in their order of arrival.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.iter().cloned().collect()
    }

    /// How many calls came since the start or the last [`Log::reset`].
    #[must_use]
    pub fn total(&self) -> u64 {
        self.state().total
    }

    /// How many calls are running, and how many ran at once at most.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        let state = self.state();
        (state.in_flight, state.in_flight_max)
    }

    /// How many connections are open, and how many came in all; those that inspect are not counted.
    #[must_use]
    pub fn connections(&self) -> (usize, u64) {
        let state = self.state();
        (state.open, state.connections)
    }

    /// The time since the mock's start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Clock.now().saturating_duration_since(self.0.start)
    }

    /// Waits until `is_so` holds; it is asked again after every change of the log.
    pub async fn until(&self, mut is_so: impl FnMut(&[Call]) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so(self.state().calls.make_contiguous()) {
                return;
            }
            changed.await;
        }
    }

    /// Forgets every call that has ended, and counts from 0 again.
    pub fn reset(&self) {
        let mut state = self.state();
        state.calls.retain(|call| call.end == End::Running);
        state.total = 0;
        state.in_flight_max = state.in_flight;
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// The summary of `GET /__mock/calls`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let calls: Vec<Value> = self.calls().iter().map(Call::to_json).collect();
        let (in_flight, in_flight_max) = self.in_flight();
        let (open, connections) = self.connections();
        json!({
            "total": self.total(), "in_flight": in_flight, "in_flight_max": in_flight_max,
            "connections": connections, "connections_open": open, "calls": calls,
        })
    }

    pub(crate) fn connect(&self) -> Connected {
        let mut state = self.state();
        state.last_connection += 1;
        state.connections += 1;
        state.open += 1;
        Connected { log: self.clone(), id: state.last_connection, is_counted: true }
    }

    /// Writes down a call that has just arrived; it counts as running until the entry is closed.
    pub(crate) fn begin(&self, connected: &Connected, turn: u64, request: &Arc<Request>) -> Entry {
        let at = self.elapsed();
        let mut state = self.state();
        state.total += 1;
        state.in_flight += 1;
        state.in_flight_max = state.in_flight_max.max(state.in_flight);
        let number = state.total;
        let in_flight = state.in_flight;
        let body_bytes = request.body.len();
        let mut request = Arc::clone(request);
        if request.body.len() > state.keep.1 {
            // A copy, lest the short view keep the long body alive.
            let body = Bytes::copy_from_slice(request.body.get(..state.keep.1).unwrap_or_default());
            let headers = request.headers.clone();
            let (method, path, query) = (request.method.clone(), request.path.clone(), request.query.clone());
            request = Arc::new(Request { method, path, query, headers, body, json: None, is_old: request.is_old });
        }
        let call = Call {
            number,
            connection: connected.id,
            turn,
            at,
            request,
            body_bytes,
            rule: None,
            in_flight,
            status: 0,
            first_byte_at: None,
            end: End::Running,
            ended_at: None,
        };
        if state.keep.0 > 0 {
            if state.calls.len() >= state.keep.0 {
                state.calls.pop_front();
            }
            state.calls.push_back(call);
        }
        drop(state);
        self.0.changed.notify_waiters();
        Entry { log: self.clone(), key: (connected.id, turn), end: End::Gone, number, in_flight }
    }
}

/// One open connection; counted until dropped.
#[derive(Debug)]
pub(crate) struct Connected {
    log: Log,
    pub(crate) id: u64,
    is_counted: bool,
}

impl Connected {
    /// Takes the connection out of the count: it belongs to whoever inspects the mock.
    pub(crate) fn discount(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            let mut state = self.log.state();
            state.connections -= 1;
            state.open -= 1;
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if self.is_counted {
            self.log.state().open -= 1;
            self.log.0.changed.notify_waiters();
        }
    }
}

/// The log's hold on a running call; dropping it ends the call.
#[derive(Debug)]
pub(crate) struct Entry {
    log: Log,
    key: (u64, u64),
    end: End,
    /// Counted from 1 since the mock's start or the log's reset.
    pub(crate) number: u64,
    /// How many calls were running when it came, itself included.
    pub(crate) in_flight: usize,
}

impl Entry {
    /// Notes who answers, and with which status.
    pub(crate) fn answered_by(&self, rule: Option<usize>, status: u16) {
        if let Some(call) = self.log.state().find(self.key) {
            (call.rule, call.status) = (rule, status);
        }
    }

    /// Notes that the answer has begun.
    pub(crate) fn begun(&self) {
        let now = self.log.elapsed();
        if let Some(call) = self.log.state().find(self.key) {
            call.first_byte_at = Some(now);
        }
    }

    /// Ends the call.
    pub(crate) fn end(mut self, end: End) {
        self.end = end;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let now = self.log.elapsed();
        let mut state = self.log.state();
        state.in_flight -= 1;
        if let Some(call) = state.find(self.key) {
            (call.end, call.ended_at) = (self.end, Some(now));
        }
        drop(state);
        self.log.0.changed.notify_waiters();
    }
}
