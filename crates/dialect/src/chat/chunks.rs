//! Streams of chat completions and legacy completions.

use base::{Fault, Kind as FaultKind};
use bytes::{Bytes, BytesMut};

use super::choices::Choices;
use super::shape::Shape;
use super::{failed_finish, is_nothing, request, usage};
use crate::ask::{Ask, Chat};
use crate::json::{self, Kind, Span, Value};
use crate::sse::{DONE, Event, Output, Reader, push_event};
use crate::{Decode, Progress, Target, errors};

/// Members of a chunk that say nothing by themselves: a chunk that has no choices and only these
/// is not worth a caller's attention.
const FRAME: &[&str] = &[
    "id",
    "object",
    "created",
    "model",
    "choices",
    "usage",
    "system_fingerprint",
    "service_tier",
    "provider",
    "obfuscation",
];

/// Reads a stream of chunks and passes them on.
#[derive(Debug)]
pub struct Chunks {
    reader: Reader,
    progress: Progress,
    choices: Choices,
    /// The caller asked for usage.
    shows_usage: bool,
    /// The gateway asked for usage and the caller did not.
    hides_usage: bool,
    /// The usage chunk that goes out before `[DONE]`.
    held: Option<Held>,
    /// A chunk with usage has gone out already.
    usage_is_out: bool,
    /// What the last chunk was that brought one text and nothing else.
    shape: Shape,
}

#[derive(Debug)]
struct Held {
    event: Bytes,
    /// Made by the gateway because the upstream puts usage where SDKs do not look.
    is_ours: bool,
}

/// What the choices of one chunk bring.
#[derive(Default)]
struct Brought<'a> {
    /// Usage that stands elsewhere than SDKs look.
    usage: Option<Value<'a>>,
    /// The last text, and how many things of substance there are.
    text: Option<Span>,
    things: u32,
}

/// A usage object that is written at greater length, bytes, is kept by its numbers alone.
const LONGEST_USAGE: usize = 4 << 10;

/// What one chunk holds, by the places of its members.
#[derive(Default)]
struct Chunk<'a> {
    choices: Option<Value<'a>>,
    usage: Option<Value<'a>>,
    usage_member: Option<Span>,
    error: Option<Value<'a>>,
    groq: Option<Value<'a>>,
    /// Something beside the frame.
    has_more: bool,
    /// Members by which errors without `error` are known.
    is_like_error: bool,
}

impl Chunks {
    /// A reader of the answer to `ask`.
    #[must_use]
    pub fn new(ask: &Ask, chat: &Chat, target: &Target<'_>) -> Self {
        Self {
            reader: Reader::new(),
            progress: Progress::default(),
            choices: Choices::new(chat.choices),
            shows_usage: chat.include_usage == Some(true),
            hides_usage: request::hides_usage(ask, chat, target),
            held: None,
            usage_is_out: false,
            shape: Shape::default(),
        }
    }
}

impl Decode for Chunks {
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        if self.progress.fault.is_some() || self.progress.done {
            return Bytes::new();
        }
        let mut output = Output::new(chunk.clone());
        self.reader.push(chunk);
        let mut reader = std::mem::take(&mut self.reader);
        while !self.progress.done {
            match reader.next() {
                Ok(Some(event)) => {
                    if let Err(fault) = self.take(&event, &mut output) {
                        self.progress.fault = Some(fault);
                        break;
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    self.progress.fault = Some(errors::bad_response("an event of the stream is too long"));
                    break;
                }
            }
        }
        self.reader = reader;
        output.into_bytes()
    }

    fn finish(&mut self) -> Bytes {
        if self.progress.fault.is_some() || self.progress.done {
            return Bytes::new();
        }
        let mut output = Output::new(Bytes::new());
        let mut reader = std::mem::take(&mut self.reader);
        if let Some(event) = reader.finish().filter(is_whole)
            && let Err(fault) = self.take(&event, &mut output)
        {
            self.progress.fault = Some(fault);
        } else if !self.progress.done {
            if self.progress.finished {
                self.end(&mut output);
                output.bytes(DONE);
            } else {
                let cut = "the stream ended without finish reason and without [DONE]";
                self.progress.fault = Some(Fault::upstream(FaultKind::Cut, cut));
            }
        }
        output.into_bytes()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}

/// Whether what stands behind the last blank line is an event all the same.
pub(super) fn is_whole(event: &Event<'_>) -> bool {
    let data = event.data.trim_ascii();
    data == b"[DONE]" || json::parse(data).is_ok()
}

/// Nothing to read: blank, or a comment that was sent as data (`data: : keepalive`).
pub(super) fn is_noise(data: &[u8]) -> bool {
    data.first().is_none_or(|first| *first == b':')
}

/// The fault behind data that is not JSON.
pub(super) fn garbage(event: &Event<'_>, error: json::Error) -> Fault {
    if event.name == Some(b"error") {
        return errors::inside(&errors::Said::read(event.data));
    }
    errors::bad_response(format!("an event of the stream is not JSON: {error}"))
}

impl Chunks {
    fn take(&mut self, event: &Event<'_>, output: &mut Output) -> Result<(), Fault> {
        let data = event.data.trim_ascii();
        if is_noise(data) {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.end(output);
            if event.data == data {
                output.pass(event)
            } else {
                output.bytes(DONE)
            }
            return Ok(());
        }
        if event.name.is_none()
            && let Some(text) = self.shape.fit(event.data)
        {
            self.progress.text_chars += text_chars(text);
            match self.shape.cut(event.data) {
                Some(cut) => output.pass_without(event, cut),
                None => output.pass(event),
            }
            return Ok(());
        }
        let (root, chunk) = Chunk::read(event.data).map_err(|error| garbage(event, error))?;
        let is_error = chunk.error.is_some() || event.name == Some(b"error");
        if is_error || root.kind() != Kind::Object || (chunk.choices.is_none() && chunk.is_like_error) {
            return Err(errors::inside_success(root));
        }
        let brought = self.read_choices(&chunk)?;
        let written = chunk.usage.or(brought.usage);
        if let Some((known, raw)) = written.and_then(|written| usage::read(written).zip(Some(written))) {
            if known.completion > 0 || usage::tells_written(raw) {
                self.progress.told(known);
            } else {
                self.progress.told_prompt(known);
            }
            let written = raw.raw();
            if !self.shows_usage && written.len() <= LONGEST_USAGE {
                // Some upstreams tell it with every chunk.
                self.progress.unshown_usage.clear();
                self.progress.unshown_usage.push_str(written);
            }
        }
        if let (Some(usage), None, true) = (brought.usage, chunk.usage, self.shows_usage) {
            self.held = Some(Held { event: usage_chunk(root, usage), is_ours: true });
        }
        let cut = chunk.usage_member.filter(|_| self.hides_usage).map(|member| json::cut(event.data, member));
        if let Brought { usage: None, text: Some(text), things: 1 } = brought
            && chunk.usage.is_none()
        {
            self.shape.learn(event.data, text, cut);
        }
        self.pass(event, &chunk, cut, output);
        Ok(())
    }

    /// Notes what the choices bring.
    fn read_choices<'a>(&mut self, chunk: &Chunk<'a>) -> Result<Brought<'a>, Fault> {
        let mut brought = Brought {
            usage: chunk.groq.and_then(|groq| groq.get("usage")).filter(|usage| !usage.is_null()),
            ..Brought::default()
        };
        for (position, choice) in chunk.choices.into_iter().flat_map(Value::elements).enumerate() {
            let (mut index, mut is_last) = (position as u64, false);
            for member in choice.members() {
                match &*member.key {
                    "index" => index = member.value.as_u64().unwrap_or(index),
                    "delta" | "message" => self.read_delta(member.value, &mut brought),
                    "text" => self.read_text(member.value, &mut brought),
                    "finish_reason" if member.value.kind() == Kind::String && !member.value.is_empty() => {
                        if let Some(fault) = failed_finish(member.value) {
                            return Err(fault);
                        }
                        is_last = true;
                        brought.things += 1;
                    }
                    // OpenRouter, once the upstream has begun.
                    "error" if !is_nothing(member.value) => return Err(errors::inside_success(choice)),
                    "usage" if !member.value.is_null() => brought.usage = Some(member.value),
                    _ => {}
                }
            }
            self.choices.see(index, is_last);
        }
        if brought.things > 0 {
            self.progress.content = true;
            self.progress.finished = self.choices.all_finished();
        }
        Ok(brought)
    }

    fn read_delta(&mut self, delta: Value<'_>, brought: &mut Brought<'_>) {
        for member in delta.members() {
            let is_something = !member.value.is_empty() && !member.value.is_null();
            match &*member.key {
                "content" | "reasoning_content" | "reasoning" | "refusal" => self.read_text(member.value, brought),
                "tool_calls" if is_something => {
                    brought.things += 2;
                    for call in member.value.elements() {
                        let arguments = call.get("function").and_then(|function| function.get("arguments"));
                        self.progress.text_chars += arguments.map_or(0, text_chars);
                    }
                }
                "function_call" | "audio" | "reasoning_details" if is_something => brought.things += 2,
                _ => {}
            }
        }
    }

    /// A text, or (Mistral) an array of parts.
    fn read_text(&mut self, text: Value<'_>, brought: &mut Brought<'_>) {
        if matches!(text.kind(), Kind::String | Kind::Array) && !text.is_empty() {
            brought.things += 1;
            brought.text = (text.kind() == Kind::String).then(|| text.span());
            self.progress.text_chars += text_chars(text);
        }
    }

    fn pass(&mut self, event: &Event<'_>, chunk: &Chunk<'_>, cut: Option<Span>, output: &mut Output) {
        let is_empty = chunk.choices.is_some_and(Value::is_empty);
        match chunk.usage {
            Some(_) if is_empty && self.shows_usage => {
                let mut held = BytesMut::new();
                push_event(&mut held, event.name, event.data);
                self.held = Some(Held { event: held.freeze(), is_ours: false });
                return;
            }
            Some(_) if is_empty => return,
            None if is_empty && !chunk.has_more && !self.shows_usage => return,
            usage => self.usage_is_out |= usage.is_some(),
        }
        match cut {
            Some(cut) => output.pass_without(event, cut),
            None => output.pass(event),
        }
    }

    /// The end: what was held goes out, and a choice that never came is not missed.
    fn end(&mut self, output: &mut Output) {
        self.progress.done = true;
        self.progress.finished = self.choices.none_is_open();
        if let Some(held) = self.held.take()
            && !(held.is_ours && self.usage_is_out)
        {
            output.bytes(&held.event);
        }
    }
}

impl<'a> Chunk<'a> {
    fn read(data: &'a [u8]) -> Result<(Value<'a>, Self), json::Error> {
        let mut chunk = Self::default();
        let root = json::scan(data, |member| {
            let value = (!member.value.is_null()).then_some(member.value);
            match &*member.key {
                "choices" => chunk.choices = value.filter(|value| value.kind() == Kind::Array),
                "usage" => {
                    chunk.usage = value;
                    chunk.usage_member = Some(member.span());
                }
                "error" => chunk.error = value.filter(|value| !is_nothing(*value)),
                "x_groq" => {
                    chunk.groq = value;
                    chunk.has_more = true;
                }
                "message" | "detail" | "error_msg" => chunk.is_like_error = true,
                "object" => chunk.is_like_error |= member.value.as_escaped() == Some("error"),
                key => chunk.has_more |= value.is_some() && !FRAME.contains(&key),
            }
        })?;
        Ok((root, chunk))
    }
}

/// A chunk as OpenAI sends it for `include_usage`, with usage found elsewhere in `root`.
fn usage_chunk(root: Value<'_>, usage: Value<'_>) -> Bytes {
    let mut text = String::from("{");
    for member in root.members().filter(|member| FRAME.contains(&&*member.key)) {
        if !matches!(&*member.key, "choices" | "usage" | "obfuscation") {
            text.push_str(&format!("{}:{},", json::quoted(&member.key), member.value.raw()));
        }
    }
    text.push_str(&format!("\"choices\":[],\"usage\":{}}}", usage.raw()));
    let mut event = BytesMut::new();
    push_event(&mut event, None, text.replace(['\n', '\r'], " ").as_bytes());
    event.freeze()
}

/// The characters of a text; of anything else those of its JSON.
pub(super) fn text_chars(text: Value<'_>) -> u64 {
    let inside = text.as_escaped().unwrap_or_else(|| text.raw()).as_bytes();
    let count = if memchr::memchr(b'\\', inside).is_some() {
        text.as_str_lossy().map_or(inside.len(), |text| text.chars().count())
    } else {
        bytecount::num_chars(inside)
    };
    count as u64
}
