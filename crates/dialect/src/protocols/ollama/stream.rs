//! Ollama's streams: a JSON object a line, which become OpenAI's server-sent events.

use base::{Fault, Kind, Usage};
use bytes::Bytes;

use super::answer::{self, Identity};
use crate::json::{self, Value};
use crate::object::Object;
use crate::{Answer, Ask, Decode, Progress, Target, errors};

/// The longest line that is waited for, bytes. A whole tool call comes in one line.
const LINE_MAX: usize = 8 << 20;

/// Reads one streamed answer.
#[derive(Debug)]
pub(super) struct Lines {
    /// The caller's request, to name the answer and to guess usage by.
    ask: Ask,
    model: String,
    shows_usage: bool,
    identity: Option<Identity>,
    /// The beginning of a line whose end has not come; at most [`LINE_MAX`].
    rest: Vec<u8>,
    tool_calls: usize,
    progress: Progress,
}

impl Lines {
    pub(super) fn new(ask: &Ask, target: &Target<'_>) -> Self {
        Self {
            ask: ask.clone(),
            model: target.model.to_owned(),
            shows_usage: ask.chat().is_some_and(|chat| chat.include_usage == Some(true)),
            identity: None,
            rest: Vec::new(),
            tool_calls: 0,
            progress: Progress::default(),
        }
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let line = line.trim_ascii();
        if line.is_empty() || self.is_over() {
            return;
        }
        match json::parse(line) {
            Ok(root) => {
                let is_last = root.get("done").and_then(Value::as_bool) == Some(true);
                self.take(root, is_last, out);
            }
            Err(error) => self.fail(errors::bad_response(format!("a line of the stream is not JSON: {error}"))),
        }
    }

    /// Takes one object: a piece of the answer, its end, or an error.
    fn take(&mut self, root: Value<'_>, is_last: bool, out: &mut Vec<u8>) {
        let message = match answer::said(root) {
            Ok(message) => message,
            Err(fault) => return self.fail(fault),
        };
        let identity = self.identity.get_or_insert_with(|| Identity::of(&self.ask.body, &self.model, root)).clone();
        // An answer that never says anything still names its role.
        let needed = is_last && !self.progress.content;
        if let Some(delta) = self.delta(message, &identity, needed) {
            write_chunk(&identity, &delta, &answer::logprobs(root), "null", out);
        }
        if is_last {
            let reason = answer::finish_reason(root, self.tool_calls > 0);
            write_chunk(&identity, b"{}", "null", &json::quoted(reason), out);
            let usage = answer::usage(root, &self.ask, &self.model, self.progress.text_chars);
            if self.shows_usage {
                let mut chunk = identity.object("chat.completion.chunk", b"[]");
                chunk.json("usage", &answer::usage_json(usage));
                write_event(&chunk.close(), out);
            }
            write_event(b"[DONE]", out);
            self.end(usage);
        }
    }

    /// What a piece adds, or nothing where it is empty and not needed. The first one names the role.
    fn delta(&mut self, message: Value<'_>, identity: &Identity, needed: bool) -> Option<Vec<u8>> {
        let content = message.get("content").filter(|content| content.kind() == json::Kind::String);
        let thinking = answer::thinking(message);
        let calls = answer::tool_calls(message, &identity.id, Some(self.tool_calls));
        let says = content.is_some_and(|content| !content.is_empty()) || thinking.is_some() || calls.is_some();
        if !says && !needed {
            return None;
        }
        let mut delta = Object::with_capacity(message.raw().len() + 64);
        if !self.progress.content {
            delta.text("role", "assistant");
        }
        if let Some(content) = content.filter(|content| !content.is_empty() || needed) {
            delta.json("content", content.raw());
        }
        if let Some(thinking) = thinking {
            delta.json("reasoning_content", thinking.raw());
        }
        if let Some((calls, count)) = calls {
            delta.key("tool_calls").extend_from_slice(&calls);
            self.tool_calls += count;
        }
        self.progress.content |= says;
        self.progress.text_chars += answer::chars(message);
        Some(delta.close())
    }

    fn end(&mut self, usage: Usage) {
        self.progress.content = true;
        self.progress.finished = true;
        self.progress.done = true;
        self.progress.told(usage);
    }

    fn fail(&mut self, fault: Fault) {
        self.rest = Vec::new();
        self.progress.fault = Some(fault);
    }

    const fn is_over(&self) -> bool {
        self.progress.done || self.progress.fault.is_some()
    }
}

impl Decode for Lines {
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        let mut out = Vec::new();
        let mut fresh: &[u8] = &chunk;
        while !self.is_over() {
            let Some(end) = memchr::memchr(b'\n', fresh) else { break };
            let (line, behind) = fresh.split_at(end);
            fresh = behind.get(1..).unwrap_or_default();
            if self.rest.is_empty() {
                self.take_line(line, &mut out);
            } else {
                self.rest.extend_from_slice(line);
                let line = std::mem::take(&mut self.rest);
                self.take_line(&line, &mut out);
            }
        }
        if !self.is_over() {
            self.rest.extend_from_slice(fresh);
            if self.rest.len() > LINE_MAX {
                self.fail(errors::bad_response("a line of the stream is longer than 8 MiB"));
            }
        }
        Bytes::from(out)
    }

    fn finish(&mut self) -> Bytes {
        let mut out = Vec::new();
        let line = std::mem::take(&mut self.rest);
        // The last line may lack its end; half a line is a cut.
        if json::parse(line.trim_ascii()).is_ok() {
            self.take_line(&line, &mut out);
        }
        if !self.is_over() {
            self.fail(Fault::upstream(Kind::Cut, "the stream ended before its last line"));
        }
        Bytes::from(out)
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}

fn write_chunk(identity: &Identity, delta: &[u8], logprobs: &str, finish_reason: &str, out: &mut Vec<u8>) {
    let mut choice = Object::with_capacity(delta.len() + 96);
    choice.number("index", 0);
    choice.key("delta").extend_from_slice(delta);
    choice.json("logprobs", logprobs);
    choice.json("finish_reason", finish_reason);
    let chunk = identity.object("chat.completion.chunk", &[b"[", choice.close().as_slice(), b"]"].concat());
    write_event(&chunk.close(), out);
}

fn write_event(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// A whole answer to a call that asked for a stream.
///
/// # Errors
/// What an error object says, or that the answer is not the protocol's.
pub(super) fn of_whole(ask: &Ask, target: &Target<'_>, body: &[u8]) -> Result<Answer, Fault> {
    let root = json::parse(body).map_err(|error| errors::bad_response(format!("the answer is not JSON: {error}")))?;
    let mut lines = Lines::new(ask, target);
    let mut out = Vec::new();
    lines.take(root, true, &mut out);
    let progress = lines.progress();
    match &progress.fault {
        Some(fault) => Err(fault.clone()),
        None => Ok(Answer { body: Bytes::from(out), usage: progress.usage, is_stream: true, dimension: None }),
    }
}
