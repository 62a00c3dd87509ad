//! A stream put together again: the whole answer that its pieces are of.
//!
//! Fed with the events that a caller is sent, this builds the answer that the upstream would have
//! given to a caller who wanted it whole, so that either form can be made of what is stored. Texts are
//! joined as JSON writes them, escapes and all: a character that was cut in two at a chunk's end is
//! whole again, and no digit of a number is touched.

mod calls;
mod node;

use std::collections::BTreeMap;
use std::fmt;

use base::{Endpoint, Usage};
use bytes::Bytes;

use super::chunks::is_noise;
use super::is_nothing;
use crate::json::{self, Kind, Value};
use crate::sse::Reader;
use calls::Calls;
use node::{Budget, Fields, How, Node, TooLarge};

/// Members of a chunk that are of no use in a whole answer: padding against eavesdroppers.
const OF_STREAMS: &str = "obfuscation";

/// Members of an answer that OpenAI's API puts on every chunk, beside the first ones.
const OF_ALL_CHUNKS: [&str; 2] = ["service_tier", "system_fingerprint"];

/// Why a stream cannot be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It is larger than was allowed.
    TooLarge,
    /// It carries an error, or what is no chunk.
    Failed,
    /// It has no choice.
    Empty,
    /// Of pieces of its tool calls nobody can tell which call they are of.
    Unclear,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the answer is too large",
            Self::Failed => "the stream carries an error or what is no chunk",
            Self::Empty => "the stream has no choice",
            Self::Unclear => "the stream's tool calls cannot be told apart",
        })
    }
}

impl std::error::Error for Broken {}

impl From<TooLarge> for Broken {
    fn from(TooLarge: TooLarge) -> Self {
        Self::TooLarge
    }
}

/// A whole answer under construction.
#[derive(Debug)]
pub struct Assembly {
    endpoint: Endpoint,
    reader: Reader,
    budget: Budget,
    /// Members of the answer beside `object`, `choices` and `usage`.
    head: Fields,
    choices: BTreeMap<u64, Choice>,
    /// The last word on usage, as written.
    usage: Option<String>,
    broken: Option<Broken>,
}

/// One choice under construction.
#[derive(Debug, Default)]
struct Choice {
    message: Fields,
    calls: Calls,
    /// A legacy completion's text.
    text: Option<Node>,
    /// The finish reason, log probabilities, and what else stands beside the message.
    beside: Fields,
}

impl Assembly {
    /// Begins an answer of chat or of legacy completions, which may take `most` bytes of memory, some
    /// overhead aside. The longest event is [`crate::sse::EVENT_MAX`].
    #[must_use]
    pub fn new(endpoint: Endpoint, most: usize) -> Self {
        Self {
            endpoint,
            reader: Reader::new(),
            budget: Budget::new(most),
            head: Fields::default(),
            choices: BTreeMap::new(),
            usage: None,
            broken: None,
        }
    }

    /// Takes what goes to the caller, cut anywhere.
    pub fn feed(&mut self, chunk: Bytes) {
        if self.broken.is_some() {
            return;
        }
        self.reader.push(chunk);
        let mut reader = std::mem::take(&mut self.reader);
        loop {
            match reader.next() {
                Ok(Some(event)) => {
                    let is_error = event.name == Some(b"error");
                    let taken = if is_error { Err(Broken::Failed) } else { self.take(event.data.trim_ascii()) };
                    if let Err(broken) = taken {
                        return self.give_up(broken);
                    }
                }
                Ok(None) => break,
                Err(_) => return self.give_up(Broken::TooLarge),
            }
        }
        self.reader = reader;
    }

    /// The usage as the upstream wrote it, which the events need not have shown.
    pub fn unshown_usage(&mut self, written: &str) {
        if self.broken.is_none() && self.usage.is_none() {
            self.usage = Some(written.to_owned());
        }
    }

    /// Why nothing will come of it, once that is known; its memory is given back already.
    #[must_use]
    pub const fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// The whole answer. `usage` is what is known of it where the stream itself did not show any.
    /// Whether the answer is complete is for [`super::is_storable`] to say.
    ///
    /// # Errors
    /// Where the stream was broken.
    pub fn finish(self, usage: Option<Usage>) -> Result<Bytes, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        if self.choices.is_empty() {
            return Err(Broken::Empty);
        }
        let is_chat = self.endpoint == Endpoint::Chat;
        let mut out = Vec::with_capacity(1024);
        out.push(b'{');
        for name in ["id", "object", "created", "model"] {
            if name == "object" {
                let object = if is_chat { "chat.completion" } else { "text_completion" };
                node::push_member(&mut out, name, &Node::Text(object.to_owned()));
            } else if let Some(value) = self.head.get(name) {
                node::push_member(&mut out, name, value);
            }
        }
        node::push_name(&mut out, "choices");
        out.push(b'[');
        for (at, (index, choice)) in self.choices.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            choice.write(*index, is_chat, &mut out);
        }
        out.push(b']');
        let known = self.usage.or_else(|| usage.map(written));
        if let Some(usage) = known {
            node::push_member(&mut out, "usage", &Node::Raw(usage));
        }
        // In one order, wherever in the stream they came.
        for name in OF_ALL_CHUNKS {
            self.head.get(name).into_iter().for_each(|value| node::push_member(&mut out, name, value));
        }
        let is_written = |name: &str| matches!(name, "id" | "created" | "model") || OF_ALL_CHUNKS.contains(&name);
        for (name, value) in self.head.iter().filter(|(name, _)| !is_written(name)) {
            node::push_member(&mut out, name, value);
        }
        out.push(b'}');
        Ok(Bytes::from(out))
    }

    fn give_up(&mut self, broken: Broken) {
        *self = Self { broken: Some(broken), ..Self::new(self.endpoint, 0) };
    }

    /// Takes the data of one event.
    fn take(&mut self, data: &[u8]) -> Result<(), Broken> {
        if is_noise(data) || data == b"[DONE]" {
            return Ok(());
        }
        let root = json::parse(data).map_err(|_| Broken::Failed)?;
        if root.kind() != Kind::Object {
            return Err(Broken::Failed);
        }
        for member in root.members() {
            let value = member.value;
            match &*member.key {
                "choices" => self.take_choices(value)?,
                "usage" => self.take_usage(value)?,
                "error" if !is_nothing(value) => return Err(Broken::Failed),
                "object" | OF_STREAMS => {}
                key => self.head.update(&member, key == "created", &mut self.budget)?,
            }
        }
        Ok(())
    }

    fn take_usage(&mut self, usage: Value<'_>) -> Result<(), Broken> {
        if usage.kind() == Kind::Object && !usage.is_empty() {
            self.budget.give(self.usage.as_ref().map_or(0, String::len));
            self.budget.take(usage.raw().len())?;
            self.usage = Some(usage.raw().to_owned());
        }
        Ok(())
    }

    fn take_choices(&mut self, choices: Value<'_>) -> Result<(), Broken> {
        for (position, value) in choices.elements().enumerate() {
            if value.kind() != Kind::Object {
                continue;
            }
            let index = value.get("index").and_then(Value::as_u64).unwrap_or(position as u64);
            if !self.choices.contains_key(&index) {
                self.budget.take(size_of::<Choice>())?;
            }
            let choice = self.choices.entry(index).or_default();
            let has_delta = value.get("delta").is_some_and(|delta| delta.kind() == Kind::Object);
            let mut usage = None;
            for member in value.members() {
                match &*member.key {
                    "index" => {}
                    "delta" => choice.take_delta(member.value, &mut self.budget)?,
                    // Some say a whole message in the place of a delta.
                    "message" if !has_delta => choice.take_delta(member.value, &mut self.budget)?,
                    "message" => {}
                    "text" => node::put(&mut choice.text, member.value, How::Joined, &mut self.budget)?,
                    // Moonshot's place for it.
                    "usage" => usage = Some(member.value),
                    "error" if !is_nothing(member.value) => return Err(Broken::Failed),
                    _ => choice.beside.merge(&member, How::Replaced, &mut self.budget)?,
                }
            }
            if let Some(usage) = usage {
                self.take_usage(usage)?;
            }
        }
        Ok(())
    }
}

impl Choice {
    fn take_delta(&mut self, delta: Value<'_>, budget: &mut Budget) -> Result<(), Broken> {
        for member in delta.members() {
            match &*member.key {
                "tool_calls" if member.value.kind() == Kind::Array => self.calls.take(member.value, budget)?,
                "tool_calls" => {}
                _ => self.message.merge(&member, How::Joined, budget)?,
            }
        }
        Ok(())
    }

    fn write(&self, index: u64, is_chat: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"index\":");
        out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        if is_chat {
            node::push_name(out, "message");
            self.write_message(out);
        } else {
            let nothing = Node::Text(String::new());
            node::push_member(out, "text", self.text.as_ref().unwrap_or(&nothing));
        }
        let null = Node::null();
        let rest = self.beside.iter().filter(|(name, _)| !matches!(*name, "logprobs" | "finish_reason"));
        let finish = self.beside.get("finish_reason").unwrap_or(&null);
        let known = self.beside.get("logprobs").map(|logprobs| ("logprobs", logprobs));
        for (name, value) in known.into_iter().chain([("finish_reason", finish)]).chain(rest) {
            node::push_member(out, name, value);
        }
        out.push(b'}');
    }

    /// Every message has a role and a content, be it null, as OpenAI's API documents it.
    fn write_message(&self, out: &mut Vec<u8>) {
        let (assistant, null) = (Node::Text("assistant".to_owned()), Node::null());
        out.push(b'{');
        node::push_member(out, "role", self.message.get("role").filter(|role| !role.is_null()).unwrap_or(&assistant));
        node::push_member(out, "content", self.message.get("content").unwrap_or(&null));
        for (name, value) in self.message.iter().filter(|(name, _)| !matches!(*name, "role" | "content")) {
            node::push_member(out, name, value);
        }
        self.calls.write(out);
        out.push(b'}');
    }
}

/// Usage that the stream did not show, in OpenAI's form.
fn written(usage: Usage) -> String {
    let Usage { prompt, completion, cached, units: _, estimated: _ } = usage;
    let total = prompt.saturating_add(completion);
    let details = match cached {
        0 => String::new(),
        cached => format!(",\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}"),
    };
    format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}{details}}}")
}
