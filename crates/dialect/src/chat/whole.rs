//! A whole answer to a call that asked for a stream, as the stream it would have been.

use base::Endpoint;
use bytes::{Bytes, BytesMut};

use super::is_nothing;
use crate::json::{self, Kind, Member, Value};
use crate::sse::{DONE, push_event};

/// On every chunk of a stream, as OpenAI's API documents it.
const ON_EVERY_CHUNK: &[&str] = &["id", "created", "model", "system_fingerprint", "service_tier"];

/// The most of one text, or of one list, that goes into one chunk, bytes: clients that read line by line have bounds
/// (64 KiB in Python's asyncio).
const PIECE: usize = 16 << 10;

/// Where a chunk holds as much already, what does not fit goes into chunks of its own.
const BEGUN: usize = PIECE / 4;

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

/// At least two chunks for each choice (what it says, long texts and lists in several; why it ended), a usage
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
    /// What is left of long texts and lists.
    more: Vec<String>,
    end: String,
}

/// `delta` with everything the message holds, then the finish reason.
fn chat_choice(choice: Value<'_>, position: usize) -> Pieces {
    let (mut delta, mut rest, mut more) = (String::new(), String::new(), Vec::new());
    let (mut index, mut finish, mut logprobs) = (position.to_string(), "null", Vec::new());
    for member in choice.members() {
        match &*member.key {
            "index" => index = member.value.raw().to_owned(),
            "finish_reason" => finish = member.value.raw(),
            "message" => {
                for field in member.value.members() {
                    push_begin(&mut delta, &field, &mut more);
                }
            }
            "logprobs" => logprobs = logprob_pieces(&member),
            _ => push_member(&mut rest, &member),
        }
    }
    let delta = delta.strip_prefix(',').unwrap_or_default();
    let mut logprobs = logprobs.into_iter();
    let first = logprobs.next().unwrap_or_default();
    let more = more.into_iter().map(|more| (more, String::new())).chain(logprobs.map(|more| (String::new(), more)));
    let whole =
        |(delta, logprobs)| format!("{{\"index\":{index},\"delta\":{{{delta}}}{logprobs},\"finish_reason\":null}}");
    Pieces {
        more: more.map(whole).collect(),
        begin: whole((delta.to_owned(), first)),
        end: format!("{{\"index\":{index},\"delta\":{{}}{rest},\"finish_reason\":{finish}}}"),
    }
}

/// The member of a chunk that says nothing.
const NONE: &str = "\"text\":\"\"";

fn text_choice(choice: Value<'_>, position: usize) -> Pieces {
    let (mut text, mut rest, mut more) = (String::new(), String::new(), Vec::new());
    let (mut index, mut finish, mut logprobs) = (position.to_string(), "null", Vec::new());
    for member in choice.members() {
        match &*member.key {
            "index" => index = member.value.raw().to_owned(),
            "finish_reason" => finish = member.value.raw(),
            "text" => push_begin(&mut text, &member, &mut more),
            "logprobs" => logprobs = logprob_pieces(&member),
            _ => push_member(&mut rest, &member),
        }
    }
    let text = text.strip_prefix(',').unwrap_or(NONE);
    let mut logprobs = logprobs.into_iter();
    let first = logprobs.next().unwrap_or_default();
    let more = more.into_iter().map(|more| (more, String::new())).chain(logprobs.map(|more| (NONE.to_owned(), more)));
    let whole = |(text, logprobs)| format!("{{\"index\":{index},{text}{logprobs},\"finish_reason\":null}}");
    Pieces {
        more: more.map(whole).collect(),
        begin: whole((text.to_owned(), first)),
        end: format!("{{\"index\":{index},\"text\":\"\"{rest},\"finish_reason\":{finish}}}"),
    }
}

/// A member that may be long: its beginning, and what is left as members for further chunks.
fn push_begin(out: &mut String, member: &Member<'_>, more: &mut Vec<String>) {
    let is_calls = member.key == "tool_calls" && member.value.kind() == Kind::Array;
    if !is_calls && out.len() + member.value.raw().len() <= PIECE {
        return push_member(out, member);
    }
    let name = json::quoted(&member.key);
    let values = match member.value.kind() {
        Kind::Array if is_calls => {
            packed(member.value.elements().enumerate().flat_map(|(index, call)| call_pieces(index, call)))
        }
        Kind::Array => packed(member.value.elements().flat_map(part_pieces)),
        Kind::Object if member.key == "function_call" => cut(member.value, "arguments", ""),
        _ => match member.value.as_escaped() {
            Some(text) => text_pieces(text).into_iter().map(|piece| format!("\"{piece}\"")).collect(),
            None => vec![member.value.raw().to_owned()],
        },
    };
    for (at, value) in values.into_iter().enumerate() {
        if at == 0 && (out.len() < BEGUN || out.len() + value.len() <= PIECE) {
            out.push_str(&format!(",{name}:{value}"));
        } else {
            more.push(format!("{name}:{value}"));
        }
    }
}

/// A tool call, with the index by which clients put it together, and what is left of long arguments.
fn call_pieces(index: usize, call: Value<'_>) -> Vec<String> {
    let given = call.get("index").map(|index| index.raw().to_owned());
    let number = given.as_ref().map_or_else(|| index.to_string(), String::clone);
    let mut first = if given.is_some() { String::new() } else { format!(",\"index\":{number}") };
    let mut more = Vec::new();
    if call.kind() != Kind::Object {
        return vec![call.raw().to_owned()];
    }
    for member in call.members() {
        let long = match &*member.key {
            "function" => "arguments",
            "custom" => "input",
            _ => "",
        };
        let name = json::quoted(&member.key);
        for (at, piece) in cut(member.value, long, "").into_iter().enumerate() {
            match at {
                0 => first.push_str(&format!(",{name}:{piece}")),
                _ => more.push(format!("{{\"index\":{number},{name}:{piece}}}")),
            }
        }
    }
    let first = format!("{{{}}}", first.strip_prefix(',').unwrap_or_default());
    std::iter::once(first).chain(more).collect()
}

/// An element of a content that comes in parts, and what is left of a long text.
fn part_pieces(part: Value<'_>) -> Vec<String> {
    let is_text = part.get("type").and_then(Value::as_escaped) == Some("text");
    cut(part, if is_text { "text" } else { "" }, "\"type\":\"text\",")
}

/// An object, and what is left of its text of this name where that is long: objects of that alone, and of what is `beside` it.
fn cut(object: Value<'_>, long: &str, beside: &str) -> Vec<String> {
    let text = object.get(long).and_then(Value::as_escaped).filter(|text| text.len() > PIECE);
    let Some(text) = text.filter(|_| object.kind() == Kind::Object) else { return vec![object.raw().to_owned()] };
    let mut pieces = text_pieces(text).into_iter();
    let (begin, name) = (pieces.next().unwrap_or_default(), json::quoted(long));
    let mut first = String::new();
    for member in object.members() {
        if member.key == long {
            first.push_str(&format!(",{name}:\"{begin}\""));
        } else {
            push_member(&mut first, &member);
        }
    }
    let first = format!("{{{}}}", first.strip_prefix(',').unwrap_or_default());
    std::iter::once(first).chain(pieces.map(|piece| format!("{{{beside}{name}:\"{piece}\"}}"))).collect()
}

/// Lists of these elements, each as long as one chunk's may be.
fn packed(elements: impl Iterator<Item = String>) -> Vec<String> {
    let (mut lists, mut list) = (Vec::new(), String::from("["));
    for element in elements {
        if list.len() > 1 && list.len() + element.len() > PIECE {
            lists.push(std::mem::replace(&mut list, String::from("[")) + "]");
        }
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(&element);
    }
    lists.push(list + "]");
    lists
}

/// Log probabilities as members of as many chunks as they are for: chat's are lists of entries, those of legacy completions
/// lists of the same length side by side.
fn logprob_pieces(member: &Member<'_>) -> Vec<String> {
    let mut whole = String::new();
    push_member(&mut whole, member);
    if whole.len() <= PIECE || member.value.kind() != Kind::Object {
        return vec![whole];
    }
    let is_list = |member: &Member<'_>| member.value.kind() == Kind::Array;
    let (lists, rest): (Vec<_>, Vec<_>) = member.value.members().partition(is_list);
    let mut lists: Vec<_> = lists.iter().map(|list| (&list.key, list.value.elements().peekable())).collect();
    let mut begin = String::new();
    rest.iter().for_each(|member| push_member(&mut begin, member));
    let mut pieces = Vec::new();
    while lists.iter_mut().any(|(_, entries)| entries.peek().is_some()) || pieces.is_empty() {
        let mut taken: Vec<Vec<&str>> = vec![Vec::new(); lists.len()];
        let mut size = 0;
        while size < PIECE && lists.iter_mut().any(|(_, entries)| entries.peek().is_some()) {
            for ((_, entries), taken) in lists.iter_mut().zip(&mut taken) {
                let entry = entries.next().map(Value::raw);
                size += entry.map_or(0, str::len);
                taken.extend(entry);
            }
        }
        let mut piece = std::mem::take(&mut begin);
        for ((name, _), taken) in lists.iter().zip(taken) {
            piece.push_str(&format!(",{}:[{}]", json::quoted(name), taken.join(",")));
        }
        pieces.push(format!(",\"logprobs\":{{{}}}", piece.strip_prefix(',').unwrap_or_default()));
    }
    pieces
}

/// A text as JSON writes it, cut where it is long.
fn text_pieces(text: &str) -> Vec<&str> {
    let (first, mut rest) = text.split_at_checked(piece_end(text)).unwrap_or((text, ""));
    let mut pieces = vec![first];
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at_checked(piece_end(rest)).unwrap_or((rest, ""));
        pieces.push(piece);
        rest = behind;
    }
    pieces
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
