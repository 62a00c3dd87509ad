//! A refusal as a response: status, headers, OpenAI's error object.

use base::{Code, Refusal};
use http::{HeaderValue, Response, StatusCode, header};

use crate::caller::headers::{self, AnswerHead};
use crate::reply::Reply;
use crate::trail::Trail;

/// The response that tells the caller, and the record's ending with it.
#[must_use]
pub fn refuse(refusal: &Refusal, mut trail: Trail) -> Response<Reply> {
    let row = refusal.code.row();
    let status = refusal.status();
    let mut response = Response::new(Reply::whole(dialect::errors::refusal_json(refusal)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut head = AnswerHead::of(HeaderValue::from_static("application/json"));
    if let Some(wait) = refusal.retry_after {
        // Whole seconds, rounded up, for a caller that comes too early is refused again.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        head.add(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    if !refusal.retry_helps() {
        head.add(headers::SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if refusal.code == Code::ShuttingDown {
        head.add(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let told = refusal.told.as_ref().and_then(|told| told.code.as_deref());
    let code = if row.code.is_empty() { told } else { Some(row.code) };
    trail.record.code = code.map(Into::into);
    trail.record.status = status;
    // Nothing that could be found, or removed.
    trail.cache_id = None;
    *response.headers_mut() = trail.conclude(head, None, row.outcome);
    response
}
