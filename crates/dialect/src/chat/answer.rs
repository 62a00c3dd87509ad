//! Whole answers: judged by one scan, returned as the bytes that came.

use base::{Endpoint, Fault, Usage};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::usage::Counts;
use super::{failed_finish, is_nothing, usage, whole};
use crate::ask::{Ask, Chat};
use crate::json::{self, Kind, Member, Value};
use crate::{Answer, errors};

/// The parts of a completion that the gateway reads.
#[derive(Debug, Default)]
struct Parts<'a> {
    choices: Option<Value<'a>>,
    said: Said<'a>,
    usage: Option<Value<'a>>,
    /// What `usage` says.
    used: Option<Usage>,
    error: Option<Value<'a>>,
    groq: Option<Value<'a>>,
}

/// What the choices say beside their text.
#[derive(Debug, Default)]
struct Said<'a> {
    /// Of a finish reason that is none.
    fault: Option<Fault>,
    has_error: bool,
    usage: Option<Value<'a>>,
}

impl<'a> Said<'a> {
    fn take(&mut self, member: &Member<'a>) {
        match &*member.key {
            "finish_reason" => self.fault = self.fault.take().or_else(|| failed_finish(member.value)),
            "error" => self.has_error |= !is_nothing(member.value),
            "usage" if !member.value.is_null() => self.usage = self.usage.or(Some(member.value)),
            _ => {}
        }
    }
}

/// Judges a chat completion or legacy completion.
///
/// # Errors
/// The fault where it is none, or carries an error.
pub fn answer(ask: &Ask, chat: &Chat, body: &Bytes) -> Result<Answer, Fault> {
    let body = without_leading_space(body);
    let (root, parts) = read(&body)?;
    if parts.error.is_some() {
        return Err(errors::inside_success(root));
    }
    let Some(choices) = parts.choices else {
        let mut fault = errors::inside_success(root);
        fault.message = format!("the upstream's answer has no 'choices': {}", errors::cut(root.raw(), 512));
        return Err(fault);
    };
    let Said { mut fault, has_error, usage: of_choice } = parts.said;
    if has_error {
        let failed = |choice: &Value<'_>| choice.get("error").is_some_and(|error| !is_nothing(error));
        fault = fault.or_else(|| choices.elements().find(failed).map(errors::inside_success));
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    let elsewhere = || of_choice.or_else(|| parts.groq?.get("usage"));
    let (whole, usage) = match parts.usage {
        Some(usage) => (Some(usage), parts.used),
        None => (elsewhere(), elsewhere().and_then(usage::read)),
    };
    // Where the prompt alone was counted, what was written is guessed from it.
    let is_silent =
        |known: &Usage| known.completion == 0 && !choices.is_empty() && !whole.is_some_and(usage::tells_written);
    let usage = usage.map(|known| match is_silent(&known) {
        true => Usage { completion: base::estimate(choices.raw().as_bytes()), estimated: true, ..known },
        false => known,
    });
    if ask.stream {
        let shown = if chat.include_usage == Some(true) { whole } else { None };
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
    let (mut usage, mut stream) = (None, None);
    if !ask.endpoint.is_audio() || is_like_json(headers, &body) {
        let (root, parts) = read(&body)?;
        if parts.error.is_some() {
            return Err(errors::inside_success(root));
        }
        usage = parts.used;
        stream = (ask.stream && ask.endpoint == Endpoint::Responses).then(|| whole::as_response_event(root));
    }
    let is_stream = stream.is_some();
    Ok(Answer { body: stream.unwrap_or(body), usage, is_stream, dimension: None })
}

/// Whether what answers an audio endpoint is to be judged: an object, or nothing at all. Sound may begin with any byte,
/// and a transcript may be plain text whatever its label says.
fn is_like_json(headers: &HeaderMap, body: &[u8]) -> bool {
    let is_sound = headers.get(CONTENT_TYPE).is_some_and(|label| label.as_bytes().starts_with(b"audio/"));
    let body = body.trim_ascii_start();
    body.is_empty() || (body.starts_with(b"{") && !is_sound)
}

/// Everything in one pass, what the choices and the usage hold included.
fn read(body: &[u8]) -> Result<(Value<'_>, Parts<'_>), Fault> {
    let mut parts = Parts::default();
    let (mut said, mut counts) = (Said::default(), Counts::default());
    let root = json::scan_opening(body, &["choices", "usage"], |within, member| {
        let kept = (!is_nothing(member.value)).then_some(member.value);
        match (within, &*member.key) {
            (Some("choices"), _) => said.take(&member),
            (Some(_), _) => counts.take(&member),
            // A member that stands twice counts as it stands last.
            (None, "choices") => {
                let said = std::mem::take(&mut said);
                if member.value.kind() == Kind::Array {
                    (parts.choices, parts.said) = (kept, said);
                }
            }
            (None, "usage") => {
                (parts.usage, parts.used) = (kept, kept.and(std::mem::take(&mut counts).usage(member.value)));
            }
            (None, "error") => parts.error = kept,
            (None, "x_groq") => parts.groq = kept,
            _ => {}
        }
    })
    .map_err(|error| errors::bad_response(format!("the upstream's answer is not JSON: {error}")))?;
    if root.kind() != Kind::Object {
        return Err(errors::inside_success(root));
    }
    Ok((root, parts))
}

/// DeepSeek keeps a connection alive with blank lines before the body.
fn without_leading_space(body: &Bytes) -> Bytes {
    let blank = body.len() - body.trim_ascii_start().len();
    body.slice(blank..)
}
