//! A whole answer to a call that asked for a stream, as the stream it would have been.

use base::Endpoint;
use bytes::{Bytes, BytesMut};

use crate::json::{Kind, Member, Value};
use crate::sse::{DONE, push_event};

/// On every chunk of a stream, as OpenAI's API documents it.
const ON_EVERY_CHUNK: &[&str] = &["id", "created", "model", "system_fingerprint", "service_tier"];

/// Two chunks for each choice (what it says; why it ended), a usage chunk where `usage` is to be
/// shown, `[DONE]`. Unknown fields of the answer and of a choice come with the chunk that ends it.
pub(super) fn as_stream(endpoint: Endpoint, root: Value<'_>, choices: Value<'_>, usage: Option<Value<'_>>) -> Bytes {
    let is_chat = endpoint == Endpoint::Chat;
    let frame = Frame::of(is_chat, root);
    let mut out = BytesMut::with_capacity(root.raw().len() + 1024);
    let count = choices.elements().count();
    for (position, choice) in choices.elements().enumerate() {
        let (begin, end) = if is_chat { chat_choice(choice, position) } else { text_choice(choice, position) };
        frame.push(&mut out, &format!("[{begin}]"), "");
        let extra = if position + 1 == count { frame.extra.as_str() } else { "" };
        frame.push(&mut out, &format!("[{end}]"), extra);
    }
    if let Some(usage) = usage {
        frame.push(&mut out, "[]", &format!(",\"usage\":{}", usage.raw()));
    }
    out.extend_from_slice(DONE);
    out.freeze()
}

/// What all chunks have in common.
struct Frame {
    head: String,
    extra: String,
}

impl Frame {
    fn of(is_chat: bool, root: Value<'_>) -> Self {
        let mut head = String::from("{\"object\":");
        head.push_str(if is_chat { "\"chat.completion.chunk\"" } else { "\"text_completion\"" });
        let mut extra = String::new();
        for member in root.members() {
            match &*member.key {
                "object" | "choices" | "usage" => {}
                key if ON_EVERY_CHUNK.contains(&key) => push_member(&mut head, &member),
                _ => push_member(&mut extra, &member),
            }
        }
        Self { head, extra }
    }

    fn push(&self, out: &mut BytesMut, choices: &str, extra: &str) {
        // A pretty-printed answer has line breaks between its tokens, never inside them.
        let chunk = format!("{},\"choices\":{choices}{extra}}}", self.head).replace(['\n', '\r'], " ");
        push_event(out, None, chunk.as_bytes());
    }
}

/// The two chunks' choices: `delta` with everything the message holds, then the finish reason.
fn chat_choice(choice: Value<'_>, position: usize) -> (String, String) {
    let (mut delta, mut logprobs, mut rest) = (String::new(), String::new(), String::new());
    let (mut index, mut finish) = (position.to_string(), "null");
    for member in choice.members() {
        match &*member.key {
            "index" => index = member.value.raw().to_owned(),
            "finish_reason" => finish = member.value.raw(),
            "message" => {
                for field in member.value.members() {
                    if field.key == "tool_calls" && field.value.kind() == Kind::Array {
                        delta.push_str(",\"tool_calls\":");
                        push_indexed(&mut delta, field.value);
                    } else {
                        push_member(&mut delta, &field);
                    }
                }
            }
            "logprobs" => push_member(&mut logprobs, &member),
            _ => push_member(&mut rest, &member),
        }
    }
    let delta = delta.strip_prefix(',').unwrap_or_default();
    (
        format!("{{\"index\":{index},\"delta\":{{{delta}}}{logprobs},\"finish_reason\":null}}"),
        format!("{{\"index\":{index},\"delta\":{{}}{rest},\"finish_reason\":{finish}}}"),
    )
}

fn text_choice(choice: Value<'_>, position: usize) -> (String, String) {
    let (mut text, mut logprobs, mut rest) = ("\"\"", String::new(), String::new());
    let (mut index, mut finish) = (position.to_string(), "null");
    for member in choice.members() {
        match &*member.key {
            "index" => index = member.value.raw().to_owned(),
            "finish_reason" => finish = member.value.raw(),
            "text" => text = member.value.raw(),
            "logprobs" => push_member(&mut logprobs, &member),
            _ => push_member(&mut rest, &member),
        }
    }
    (
        format!("{{\"index\":{index},\"text\":{text}{logprobs},\"finish_reason\":null}}"),
        format!("{{\"index\":{index},\"text\":\"\"{rest},\"finish_reason\":{finish}}}"),
    )
}

/// Tool calls of a delta carry their index, by which clients put them together.
fn push_indexed(out: &mut String, calls: Value<'_>) {
    out.push('[');
    for (index, call) in calls.elements().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match call.raw().strip_prefix('{') {
            Some(rest) if call.get("index").is_none() => {
                let comma = if call.is_empty() { "" } else { "," };
                out.push_str(&format!("{{\"index\":{index}{comma}{rest}"));
            }
            _ => out.push_str(call.raw()),
        }
    }
    out.push(']');
}

fn push_member(out: &mut String, member: &Member<'_>) {
    out.push(',');
    out.push_str(&crate::json::quoted(&member.key));
    out.push(':');
    out.push_str(member.value.raw());
}

/// A whole response object as the event that ends a stream of the responses API.
pub(super) fn as_response_event(root: Value<'_>) -> Bytes {
    let name = match root.get("status").and_then(Value::as_escaped) {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    let data =
        format!("{{\"type\":\"{name}\",\"sequence_number\":0,\"response\":{}}}", root.raw()).replace(['\n', '\r'], " ");
    let mut out = BytesMut::with_capacity(data.len() + 64);
    push_event(&mut out, Some(name.as_bytes()), data.as_bytes());
    out.freeze()
}
