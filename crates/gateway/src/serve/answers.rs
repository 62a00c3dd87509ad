//! What the story comes to, as a response: the gateway's own answer, an upstream's, a stored one.

use base::{Code, Cost, Decision, Outcome, Saved};
use bytes::Bytes;
use config::Route;
use dialect::{Answer, Ask};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{EVENTS, JSON};
use crate::cache::flights;
use crate::caller::headers::{self, AnswerHead};
use crate::live::Live;
use crate::recall::Found;
use crate::reply::Reply;
use crate::running::Running;
use crate::trail::Trail;
use crate::{cache::stored, reply::flight_body};

/// The gateway's own answer.
pub fn own(body: Bytes, outcome: Outcome, mut trail: Trail) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(body));
    trail.record.status = 200;
    trail.cache_id = None;
    *response.headers_mut() = trail.conclude(AnswerHead::of(JSON), None, outcome);
    response
}

/// An upstream's whole answer and its head; what it used is in the trail, where it `is_counted` already.
pub fn whole(
    answer: Answer,
    shown: HeaderValue,
    is_counted: bool,
    ask: &Ask,
    trail: &mut Trail,
) -> (Bytes, AnswerHead) {
    trail.record.status = 200;
    let mut head = AnswerHead::of(if answer.is_stream { EVENTS } else { JSON }).by(shown);
    if answer.is_stream {
        unbuffered(&mut head);
        trail.first_content();
    }
    if !is_counted {
        let by = trail.record.upstream.clone().unwrap_or_default();
        trail.used(ask.used(&answer, &by));
    }
    (answer.body, head)
}

/// The headers of an upstream's stream; `raw` is its content type where it is none of events.
pub fn begun(shown: &HeaderValue, raw: Option<&HeaderValue>, trail: &mut Trail) -> HeaderMap {
    let mut head = AnswerHead::of(raw.cloned().unwrap_or(EVENTS)).by(shown.clone());
    if raw.is_none() {
        unbuffered(&mut head);
    }
    trail.dress(head)
}

fn unbuffered(head: &mut AnswerHead) {
    head.add(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    head.add(headers::ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

/// A stored answer.
pub fn kept(found: Found, running: &Running, route: &Route, live: &Live, mut trail: Trail) -> Response<Reply> {
    let Found { stored: entry, body, is_stream, how, key: _ } = found;
    let mut response = Response::new(Reply::whole(body));
    trail.record.cache = Some(how);
    trail.note(Decision::Cache(how));
    let facts = stored::read(&entry.body).map(|(_, facts)| facts).unwrap_or_default();
    trail.record.status = facts.status;
    *response.status_mut() = StatusCode::from_u16(facts.status).unwrap_or_default();
    let upstreams = running.state(route).map(|state| &*state.upstreams).unwrap_or_default();
    let known = route.upstreams.iter().zip(upstreams).find(|(upstream, _)| *upstream.label == *facts.upstream);
    if let Some((upstream, _)) = known {
        trail.answered_by(upstream);
    }
    let kind = match facts.content_type {
        // In another form than it is stored.
        _ if is_stream && !facts.is_stream => EVENTS,
        "application/json" => JSON,
        written => HeaderValue::from_str(written).unwrap_or(JSON),
    };
    let mut head = AnswerHead::of(kind);
    if !facts.upstream.is_empty() {
        let shown = known.map_or_else(|| headers::named(facts.upstream), |(_, state)| state.shown.clone());
        head = head.by(shown);
    }
    if is_stream {
        unbuffered(&mut head);
        trail.first_content();
    }
    trail.age = Some(entry.age(live.steady_wall()));
    if facts.status != 200 {
        head.add(headers::SHOULD_RETRY, HeaderValue::from_static("false"));
        trail.record.code = facts.code.map(Into::into);
    }
    trail.record.saved = facts.usage.map(|usage| {
        let currency = |written: &str| {
            let priced = known.and_then(|(upstream, _)| upstream.price.as_ref()).map(|price| &price.currency);
            priced.filter(|currency| ***currency == *written).cloned().unwrap_or_else(|| written.into())
        };
        let cost = facts.cost.map(|(nanos, written)| Cost { nanos, currency: currency(written) });
        Box::new(Saved { usage, cost, took: facts.took })
    });
    let outcome = match facts.code {
        _ if facts.status == 200 => Outcome::Ok,
        Some(code) if code == Code::ContextLengthExceeded.row().code => Outcome::CallerInvalid,
        _ => Outcome::CallerRefused,
    };
    *response.headers_mut() = trail.conclude(head, None, outcome);
    response
}

/// The answer of a flight that has landed, for one who waited for it.
pub fn landed(landed: &flights::Landed, body: Bytes, is_stream: bool, mut trail: Trail) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(body));
    trail.record.status = 200;
    trail.cache_id = landed.id;
    let kind = if is_stream { EVENTS } else { landed.content_type.clone() };
    let mut head = AnswerHead::of(kind).by(landed.shown.clone());
    if is_stream {
        unbuffered(&mut head);
        trail.first_content();
    }
    trail.record.saved = Some(flight_body::saved(landed));
    *response.headers_mut() = trail.conclude(head, None, Outcome::Ok);
    response
}
