//! Whole answers: judged by one scan, returned as the bytes that came.

use base::{Endpoint, Fault};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::{failed_finish, usage, whole};
use crate::ask::{Ask, Chat};
use crate::json::{self, Kind, Value};
use crate::{Answer, errors};

/// The parts of a completion that the gateway reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) choices: Option<Value<'a>>,
    pub(super) usage: Option<Value<'a>>,
    error: Option<Value<'a>>,
    groq: Option<Value<'a>>,
}

/// Judges a chat completion or legacy completion.
///
/// # Errors
/// The fault where it is none, or carries an error.
pub fn answer(ask: &Ask, chat: &Chat, body: &Bytes) -> Result<Answer, Fault> {
    let body = without_leading_space(body);
    let (root, mut parts) = read(&body)?;
    if parts.error.is_some() {
        return Err(errors::inside_success(root));
    }
    let Some(choices) = parts.choices else {
        let mut fault = errors::inside_success(root);
        fault.message = format!("the upstream's answer has no 'choices': {}", errors::cut(root.raw(), 512));
        return Err(fault);
    };
    let (mut fault, mut has_error) = (None, false);
    choices.members_of_elements(|member| match &*member.key {
        "finish_reason" => fault = fault.take().or_else(|| failed_finish(member.value)),
        "error" => has_error |= !is_nothing(member.value),
        "usage" if !member.value.is_null() => parts.usage = parts.usage.or(Some(member.value)),
        _ => {}
    });
    if has_error {
        let failed = |choice: &Value<'_>| choice.get("error").is_some_and(|error| !is_nothing(error));
        fault = fault.or_else(|| choices.elements().find(failed).map(errors::inside_success));
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    parts.usage = parts.usage.or_else(|| parts.groq?.get("usage"));
    let usage = parts.usage.and_then(usage::read);
    if ask.stream {
        let shown = if chat.include_usage == Some(true) { parts.usage } else { None };
        let stream = whole::as_stream(ask.endpoint, root, choices, shown);
        return Ok(Answer { body: stream, usage, is_stream: true, dimension: None });
    }
    Ok(Answer { body, usage, is_stream: false, dimension: None })
}

/// Lets a 2xx answer of an endpoint through whose form the gateway does not know, and reads its
/// usage where it has one.
///
/// # Errors
/// The fault where it is JSON with an error, or where it should be JSON and is not.
pub fn pass(ask: &Ask, headers: &HeaderMap, body: Bytes) -> Result<Answer, Fault> {
    let is_json = headers.get(CONTENT_TYPE).is_none_or(|value| value.as_bytes().starts_with(b"application/json"));
    let looks_like_json = body.trim_ascii_start().starts_with(b"{");
    let must_be_json = matches!(ask.endpoint, Endpoint::Responses | Endpoint::Moderations);
    let mut usage = None;
    let mut stream = None;
    if must_be_json || (is_json && looks_like_json) {
        match read(&body) {
            Err(fault) if must_be_json => return Err(fault),
            Err(_) => {}
            Ok((root, parts)) => {
                if parts.error.is_some() {
                    return Err(errors::inside_success(root));
                }
                usage = parts.usage.and_then(usage::read);
                stream = (ask.stream && ask.endpoint == Endpoint::Responses).then(|| whole::as_response_event(root));
            }
        }
    }
    let is_stream = stream.is_some();
    Ok(Answer { body: stream.unwrap_or(body), usage, is_stream, dimension: None })
}

fn read(body: &[u8]) -> Result<(Value<'_>, Parts<'_>), Fault> {
    let mut parts = Parts::default();
    let root = json::scan(body, |member| {
        let part = match &*member.key {
            "choices" if member.value.kind() == Kind::Array => &mut parts.choices,
            "usage" => &mut parts.usage,
            "error" => &mut parts.error,
            "x_groq" => &mut parts.groq,
            _ => return,
        };
        *part = (!is_nothing(member.value)).then_some(member.value);
    })
    .map_err(|error| errors::bad_response(format!("the upstream's answer is not JSON: {error}")))?;
    if root.kind() != Kind::Object {
        return Err(errors::inside_success(root));
    }
    Ok((root, parts))
}

/// An error that says nothing is none: null, false, `""`, `{}`.
pub(super) fn is_nothing(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Null => true,
        Kind::Bool => value.as_bool() == Some(false),
        Kind::String | Kind::Object => value.is_empty(),
        Kind::Number | Kind::Array => false,
    }
}

/// DeepSeek keeps a connection alive with blank lines before the body.
fn without_leading_space(body: &Bytes) -> Bytes {
    let blank = body.len() - body.trim_ascii_start().len();
    body.slice(blank..)
}
