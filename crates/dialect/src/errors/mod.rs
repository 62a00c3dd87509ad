//! What went wrong, read out of an upstream's own words, and what the caller is told about it.
//!
//! Each failure is classed once, by status and by content (docs/contract.md, section 4). Error
//! bodies come in every shape; [`Said`] reads the known ones.

mod clean;
mod said;
mod wait;

use base::{Class, Code, Fault, Kind, Refusal, TYPES, Told};
use bytes::Bytes;

use crate::Refused;
use crate::json::{self, Value, push_quoted};

pub use clean::{TOLD_MAX, cut, scrub};
pub use said::Said;
pub use wait::retry_after;

/// An error that says nothing is none: null, false, `""`, `{}`.
pub(crate) fn is_nothing(value: Value<'_>) -> bool {
    match value.kind() {
        json::Kind::Null => true,
        json::Kind::Bool => value.as_bool() == Some(false),
        json::Kind::String | json::Kind::Object => value.is_empty(),
        json::Kind::Number | json::Kind::Array => false,
    }
}

/// Classes an answer whose status is not 2xx, whatever the protocol.
#[must_use]
pub fn refused(refused: &Refused<'_>) -> Fault {
    let said = Said::read(refused.body);
    let mut fault = classed(&said, refused.status);
    fault.retry_after = retry_after(refused.headers, refused.wall).or_else(|| said.retry_after());
    // A 503 that names a time is a request for a pause, even where the time is nonsense.
    let names_a_time = ["retry-after", "retry-after-ms"].iter().any(|name| refused.headers.contains_key(*name));
    if refused.status == 503 && names_a_time {
        fault.class = Class::Throttle;
    }
    fault.maybe_processed = match fault.class {
        Class::Throttle => !matches!(refused.status, 429 | 503),
        Class::Credential => false,
        Class::Caller | Class::Upstream | Class::Gateway => true,
    };
    fault
}

/// Classes an error object inside a 200 or a stream, by what it says.
#[must_use]
pub fn inside_success(body: Value<'_>) -> Fault {
    inside(&Said::of(body))
}

/// The same for an error that has been read already.
#[must_use]
pub fn inside(said: &Said) -> Fault {
    let status = said.status();
    let mut fault = classed(said, status.unwrap_or(500));
    if status.is_none() && fault.class == Class::Upstream {
        if said.is_context_overflow() || said.is_content_refusal() {
            fault = classed(said, 400);
        } else if said.is_about_money() {
            fault.class = Class::Credential;
        }
    }
    // Its words came with a success: the call did begin.
    fault.maybe_processed = true;
    fault.kind = Kind::BadResponse;
    fault.status = None;
    fault.retry_after = said.retry_after();
    fault.message = format!("the upstream answered with success and an error: {}", said.summary());
    fault
}

/// A 2xx that is not the protocol's.
#[must_use]
pub fn bad_response(why: impl Into<String>) -> Fault {
    Fault::upstream(Kind::BadResponse, why)
}

fn classed(said: &Said, status: u16) -> Fault {
    let context_overflow = match status {
        400 | 413 | 422 => said.is_context_overflow(),
        // Believed only where it names the very thing.
        500 => said.code_is(&["context_length_exceeded", "exceed_context_size_error"]),
        _ => false,
    };
    let class = if context_overflow { Class::Caller } else { class(said, status) };
    let told = (class == Class::Caller).then(|| Box::new(told(said, status, context_overflow)));
    Fault {
        class,
        kind: Kind::Status,
        status: Some(status),
        message: format!("the upstream answered {status}: {}", said.summary()),
        told,
        retry_after: None,
        maybe_processed: true,
        context_overflow,
        usage: None,
    }
}

fn class(said: &Said, status: u16) -> Class {
    match status {
        403 if said.is_content_refusal() => Class::Caller,
        401..=403 => Class::Credential,
        429 if said.is_about_money() => Class::Credential,
        429 | 529 => Class::Throttle,
        400 if said.is_about_the_key() => Class::Credential,
        // Proxies, clocks, capacity and models at fault: not what the caller wrote.
        407 | 408 | 424 | 425 | 498 | 499 => Class::Upstream,
        400..=499 => Class::Caller,
        _ => Class::Upstream,
    }
}

fn told(said: &Said, status: u16, context_overflow: bool) -> Told {
    let message = said.message.as_deref().unwrap_or("the upstream refused the call and did not say why");
    Told {
        status: if context_overflow || !(400..500).contains(&status) { 400 } else { status },
        message: clean::for_caller(message),
        kind: said.kind.clone(),
        param: said.param.clone(),
        code: if context_overflow {
            Some(Code::ContextLengthExceeded.row().code.to_owned())
        } else {
            said.code.clone()
        },
    }
}

/// A refusal as OpenAI's error object: `{"error":{"message","type","param","code"}}`.
#[must_use]
pub fn refusal_json(refusal: &Refusal) -> Bytes {
    let row = refusal.code.row();
    let told = refusal.told.as_deref();
    let message = told.map(|told| told.message.as_str()).filter(|text| !text.is_empty()).unwrap_or(&refusal.message);
    let kind = told.map_or(row.kind, kind_of);
    let code = match told {
        Some(told) if row.code.is_empty() => told.code.as_deref(),
        _ => Some(row.code),
    };
    let param = told.and_then(|told| told.param.as_deref()).or(refusal.param.as_deref());
    let mut out = Vec::with_capacity(message.len() + 128);
    out.extend_from_slice(b"{\"error\":{\"message\":");
    push_quoted(&mut out, message);
    for (name, value) in [("type", Some(kind)), ("param", param), ("code", code)] {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        match value.filter(|value| !value.is_empty()) {
            Some(value) => push_quoted(&mut out, value),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"}}");
    out.into()
}

/// The upstream's own `type` where it is one of the closed set, else what its status means.
fn kind_of(told: &Told) -> &str {
    match told.kind.as_deref() {
        Some(kind) if TYPES.contains(&kind) => kind,
        _ if told.status == 404 => "not_found_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests;
