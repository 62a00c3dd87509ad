//! Streams of typed events: the responses API, and what OpenAI's audio and image endpoints stream.

use base::{Endpoint, Fault, Kind as FaultKind};
use bytes::Bytes;

use super::chunks::{garbage, is_noise, is_whole, text_chars};
use super::{is_nothing, usage};
use crate::json::{self, Kind, Value};
use crate::sse::{Event, Output, Reader};
use crate::{Ask, Decode, Progress, errors};

/// Reads a stream whose events say their `type`, and passes them on.
#[derive(Debug)]
pub struct Typed {
    reader: Reader,
    progress: Progress,
    is_responses: bool,
}

/// The members that are read.
#[derive(Default)]
struct Parts<'a> {
    kind: Option<&'a str>,
    delta: Option<Value<'a>>,
    item: Option<Value<'a>>,
    response: Option<Value<'a>>,
    usage: Option<Value<'a>>,
    error: Option<Value<'a>>,
}

impl Typed {
    /// A reader of the answer to `ask`.
    #[must_use]
    pub fn new(ask: &Ask) -> Self {
        let is_responses = ask.endpoint == Endpoint::Responses;
        Self { reader: Reader::new(), progress: Progress::default(), is_responses }
    }

    fn take(&mut self, event: &Event<'_>, output: &mut Output) -> Result<(), Fault> {
        let data = event.data.trim_ascii();
        if is_noise(data) {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.progress.done = true;
            output.pass(event);
            return Ok(());
        }
        let mut parts = Parts::default();
        let root = json::scan(event.data, |member| {
            let value = (!is_nothing(member.value)).then_some(member.value);
            match &*member.key {
                "type" => parts.kind = member.value.as_escaped(),
                "delta" => parts.delta = value,
                "item" => parts.item = value,
                "response" => parts.response = value,
                "usage" => parts.usage = value,
                "error" => parts.error = value,
                _ => {}
            }
        })
        .map_err(|error| garbage(event, error))?;
        if root.kind() != Kind::Object || parts.error.is_some() || event.name == Some(b"error") {
            return Err(errors::inside_success(root));
        }
        self.read(root, &parts)?;
        output.pass(event);
        Ok(())
    }

    fn read(&mut self, root: Value<'_>, parts: &Parts<'_>) -> Result<(), Fault> {
        let kind = parts.kind.unwrap_or_default();
        match kind {
            "error" => return Err(errors::inside_success(root)),
            "response.failed" => return Err(errors::inside_success(parts.response.unwrap_or(root))),
            "response.completed" | "response.incomplete" => self.complete(),
            "response.output_item.added" => {
                let item = parts.item.and_then(|item| item.get("type")).and_then(Value::as_escaped);
                self.progress.content |= !matches!(item, None | Some("message" | "reasoning"));
            }
            _ if kind.ends_with(".delta") => {
                self.progress.content |= parts.delta.is_some();
                self.progress.text_chars += parts.delta.map_or(0, text_chars);
            }
            _ if self.is_responses => {}
            _ => {
                self.progress.content = true;
                if kind.ends_with(".done") || kind.ends_with(".completed") {
                    self.complete();
                }
            }
        }
        let known = parts.usage.or_else(|| parts.response?.get("usage")).and_then(usage::read);
        known.into_iter().for_each(|known| self.progress.told(known));
        Ok(())
    }

    fn complete(&mut self) {
        self.progress.content = true;
        self.progress.finished = true;
        self.progress.done = true;
    }
}

impl Decode for Typed {
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        if self.progress.fault.is_some() {
            return Bytes::new();
        }
        let mut output = Output::new(chunk.clone());
        self.reader.push(chunk);
        let mut reader = std::mem::take(&mut self.reader);
        loop {
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
        if self.progress.fault.is_some() {
            return Bytes::new();
        }
        let mut output = Output::new(Bytes::new());
        let mut reader = std::mem::take(&mut self.reader);
        if let Some(event) = reader.finish().filter(is_whole)
            && let Err(fault) = self.take(&event, &mut output)
        {
            self.progress.fault = Some(fault);
        } else if !self.progress.done {
            self.progress.fault = Some(Fault::upstream(FaultKind::Cut, "the stream ended before its last event"));
        }
        output.into_bytes()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}
