//! A whole answer to a call that asked for a stream, as the stream it would have been.

use base::Endpoint;
use bytes::{Bytes, BytesMut};

use super::is_nothing;
use crate::json::{self, Kind, Member, Value};
use crate::sse::{DONE, push_event};

/// On every chunk of a stream, as OpenAI's API documents it.
const ON_EVERY_CHUNK: &[&str] = &["id", "created", "model", "system_fingerprint", "service_tier"];

/// The most of one text that goes into one chunk, bytes: clients that read line by line have bounds
/// (64 KiB in Python's asyncio).
const PIECE: usize = 16 << 10;

/// A whole answer of chat or of legacy completions as the stream that it would have been, with its
/// usage where that is to be shown; `None` for what is no such answer.
///
/// [`super::Assembly`] makes the same answer of it again.
#[must_use]
pub fn events(endpoint: Endpoint, whole: &[u8], include_usage: bool) -> Option<Bytes> {
    let root = json::parse(whole).ok()?;
    let choices = root.get("choices").filter(|choices| choices.kind() == Kind::Array)?;
    let usage = root.get("usage").filter(|usage| include_usage && !is_nothing(*usage));
    Some(as_stream(endpoint, root, choices, usage))
}

/// At least two chunks for each choice (what it says, long texts in several; why it ended), a usage
/// chunk where `usage` is to be shown, `[DONE]`. Unknown fields of the answer and of a choice come with the chunk that ends it.
pub(super) fn as_stream(endpoint: Endpoint, root: Value<'_>, choices: Value<'_>, usage: Option<Value<'_>>) -> Bytes {
    let is_chat = endpoint == Endpoint::Chat;
    let frame = Frame::of(is_chat, root);
    let mut out = BytesMut::with_capacity(root.raw().len() + 1024);
    let count = choices.elements().count();
    for (position, choice) in choices.elements().enumerate() {
        let Pieces { begin, more, end } =
            if is_chat { chat_choice(choice, position) } else { text_choice(choice, position) };
        for piece in std::iter::once(begin).chain(more) {
            frame.push(&mut out, &format!("[{piece}]"), "");
        }
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

/// A choice, chunk by chunk.
struct Pieces {
    begin: String,
    /// What is left of long texts.
    more: Vec<String>,
    end: String,
}

/// `delta` with everything the message holds, then the finish reason.
fn chat_choice(choice: Value<'_>, position: usize) -> Pieces {
    let (mut delta, mut logprobs, mut rest, mut more) = (String::new(), String::new(), String::new(), Vec::new());
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
                        push_begin(&mut delta, &field, &mut more);
                    }
                }
            }
            "logprobs" => push_member(&mut logprobs, &member),
            _ => push_member(&mut rest, &member),
        }
    }
    let delta = delta.strip_prefix(',').unwrap_or_default();
    let whole = |more: String| format!("{{\"index\":{index},\"delta\":{{{more}}},\"finish_reason\":null}}");
    Pieces {
        begin: format!("{{\"index\":{index},\"delta\":{{{delta}}}{logprobs},\"finish_reason\":null}}"),
        more: more.into_iter().map(whole).collect(),
        end: format!("{{\"index\":{index},\"delta\":{{}}{rest},\"finish_reason\":{finish}}}"),
    }
}

fn text_choice(choice: Value<'_>, position: usize) -> Pieces {
    let (mut text, mut logprobs, mut rest, mut more) = (String::new(), String::new(), String::new(), Vec::new());
    let (mut index, mut finish) = (position.to_string(), "null");
    for member in choice.members() {
        match &*member.key {
            "index" => index = member.value.raw().to_owned(),
            "finish_reason" => finish = member.value.raw(),
            "text" => push_begin(&mut text, &member, &mut more),
            "logprobs" => push_member(&mut logprobs, &member),
            _ => push_member(&mut rest, &member),
        }
    }
    if text.is_empty() {
        text.push_str(",\"text\":\"\"");
    }
    let whole = |more: String| format!("{{\"index\":{index},{more},\"finish_reason\":null}}");
    Pieces {
        begin: format!("{{\"index\":{index}{text}{logprobs},\"finish_reason\":null}}"),
        more: more.into_iter().map(whole).collect(),
        end: format!("{{\"index\":{index},\"text\":\"\"{rest},\"finish_reason\":{finish}}}"),
    }
}

/// A member whose text may be long: its beginning, and what is left as members for further chunks.
fn push_begin(out: &mut String, member: &Member<'_>, more: &mut Vec<String>) {
    let Some(text) = member.value.as_escaped().filter(|text| text.len() > PIECE) else {
        return push_member(out, member);
    };
    let (begin, mut rest) = text.split_at_checked(piece_end(text)).unwrap_or((text, ""));
    let name = json::quoted(&member.key);
    out.push_str(&format!(",{name}:\"{begin}\""));
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at_checked(piece_end(rest)).unwrap_or((rest, ""));
        more.push(format!("{name}:\"{piece}\""));
        rest = behind;
    }
}

/// Where to cut a text as JSON writes it: at most [`PIECE`] bytes, and never inside of a character or
/// of what stands for one.
fn piece_end(text: &str) -> usize {
    let mut end = 0;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        if end + plain > PIECE {
            let cut = text.floor_char_boundary(PIECE).max(end);
            return if cut > 0 { cut } else { text.len() };
        }
        end += plain;
        let escape = text.as_bytes().get(end..).unwrap_or_default();
        let length = match escape {
            [] => return end,
            // The first half of a pair keeps its other half.
            [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _, b'\\', b'u', ..] => 12,
            [b'\\', b'u', ..] => 6,
            _ => 2,
        };
        if end + length > PIECE && end > 0 {
            return end;
        }
        end = (end + length).min(text.len());
    }
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
