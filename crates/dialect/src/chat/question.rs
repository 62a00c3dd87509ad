//! The question that a call asks, and what else it is about: two calls may share an answer when their
//! questions mean the same and everything around them is the same.

use std::fmt;

use base::Endpoint;
use bytes::Bytes;
use regex::{Regex, RegexBuilder};

use super::prompt::{Message, Prompt, Retrieval};
use crate::Ask;
use crate::json::{self, Kind, Value};

/// The longest question, bytes; whatever is longer is no question that another could mean.
pub const QUESTION_MAX: usize = 8 << 10;

/// The longest message in which a question is looked for, bytes.
const MESSAGE_MAX: usize = 256 << 10;

/// What a question is found by in a message: its first group is the question.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// A pattern takes no more memory than this once it is compiled, bytes.
const PATTERN_MAX: usize = 1 << 20;

impl Pattern {
    /// Compiles a regular expression. A search takes time in proportion to what is searched, whatever stands there.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn new(text: &str) -> Result<Self, String> {
        match RegexBuilder::new(text).size_limit(PATTERN_MAX).build() {
            Ok(regex) => Ok(Self(regex)),
            // Its lines draw the place; the last one says what is wrong.
            Err(error) => Err(error.to_string().lines().last().unwrap_or_default().trim().to_owned()),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// How the question was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The caller said which it is.
    Explicit,
    /// A pattern found it in the last user message.
    Extracted,
    /// It is the last user message.
    Message,
}

/// What a call asks.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question, without white space around it; at most [`QUESTION_MAX`] bytes.
    pub text: String,
    /// How it was found.
    pub source: Source,
    /// There are other turns than the question's: messages of the user, of an assistant or of a tool,
    /// passages aside.
    pub has_other_turns: bool,
    /// The question stands word for word in the message that asks it, and stands for that message. Where it does not (a
    /// caller's slip), the whole message decides the answer too.
    pub is_in_message: bool,
    /// `temperature` as written, rounded to the nearest double; infinite where it is no number.
    pub temperature: Option<f64>,
    /// The body around the question.
    around: Bytes,
}

/// Why a call asks nothing that another call could mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoQuestion {
    /// It is no chat, and no completion of one text.
    Endpoint,
    /// It has images, sounds, files, or parts of other kinds than text.
    Parts,
    /// No user says anything.
    Nothing,
    /// Its question is longer than [`QUESTION_MAX`], or stands in a message that is too long.
    TooLong,
}

impl fmt::Display for NoQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Endpoint => "questions are asked of chats",
            Self::Parts => "the call has more than text",
            Self::Nothing => "no user says anything",
            Self::TooLong => "the question is too long",
        })
    }
}

impl std::error::Error for NoQuestion {}

/// Finds the question of a call: `explicit` (a header, or the body's `mai.query`), else what the first
/// group of `pattern` finds in the last user message, else that message without passages.
///
/// # Errors
/// Where there is none, or more than text is asked about.
pub fn question(
    ask: &Ask,
    explicit: Option<&str>,
    pattern: Option<&Pattern>,
    retrieval: Option<&Retrieval>,
) -> Result<Question, NoQuestion> {
    let prompt = Prompt::read(ask, retrieval).ok_or(NoQuestion::Endpoint)?;
    let temperature = read(ask)?;
    let is_asking = |message: &Message<'_>| message.role == "user" && !message.is_only_passages();
    let last = prompt.messages.iter().rposition(is_asking).ok_or(NoQuestion::Nothing)?;
    let message = prompt.messages.get(last).ok_or(NoQuestion::Nothing)?;
    let explicit = explicit.map(str::trim).filter(|explicit| !explicit.is_empty());
    let (text, source) = match (explicit, pattern) {
        (Some(explicit), _) => (explicit.to_owned(), Source::Explicit),
        (None, Some(Pattern(pattern))) => match extracted(ask, message, pattern)? {
            Some(text) => (text, Source::Extracted),
            None => (own_text(message), Source::Message),
        },
        (None, None) => (own_text(message), Source::Message),
    };
    if text.is_empty() {
        return Err(NoQuestion::Nothing);
    }
    if text.len() > QUESTION_MAX {
        return Err(NoQuestion::TooLong);
    }
    // What the caller says is the question leaves out the message that asks it, and no other.
    let is_in_message = source != Source::Explicit || whole_text(ask, message).contains(&text);
    let is_turn = |(at, message): (usize, &Message<'_>)| {
        at != last && !matches!(&*message.role, "system" | "developer") && !message.is_only_passages()
    };
    Ok(Question {
        text,
        source,
        has_other_turns: prompt.messages.iter().enumerate().any(is_turn),
        temperature,
        is_in_message,
        around: prompt.around(&ask.body, is_in_message.then_some(last)),
    })
}

impl Question {
    /// The body without the question, for [`Ask::around_question`].
    pub(crate) const fn around(&self) -> &Bytes {
        &self.around
    }
}

/// What the pattern finds in a message.
fn extracted(ask: &Ask, message: &Message<'_>, pattern: &Regex) -> Result<Option<String>, NoQuestion> {
    let text = whole_text(ask, message);
    if text.len() > MESSAGE_MAX {
        return Err(NoQuestion::TooLong);
    }
    let found = pattern.captures(&text).and_then(|found| found.get(1)).map(|found| found.as_str().trim().to_owned());
    Ok(found.filter(|found| !found.is_empty()))
}

/// What a message says, passages included, part by part.
fn whole_text(ask: &Ask, message: &Message<'_>) -> String {
    let content = message.content.and_then(|span| ask.body.get(span.range()));
    let Some(content) = content.and_then(|content| json::parse(content).ok()) else { return String::new() };
    let of_part = |part: Value<'_>| {
        part.as_str_lossy().or_else(|| part.get("text")?.as_str_lossy()).unwrap_or_default().into_owned()
    };
    match content.as_str_lossy() {
        Some(text) => text.into_owned(),
        None => content.elements().map(of_part).collect::<Vec<_>>().join("\n"),
    }
}

/// The same without passages.
fn own_text(message: &Message<'_>) -> String {
    let texts: Vec<String> = message.texts.iter().map(|text| text.own.concat().trim().to_owned()).collect();
    texts.join("\n").trim().to_owned()
}

/// `temperature`; and whether there is nothing but text.
fn read(ask: &Ask) -> Result<Option<f64>, NoQuestion> {
    let (mut temperature, mut is_text) = (None, true);
    json::scan(&ask.body, |member| match &*member.key {
        "temperature" if !member.value.is_null() => {
            temperature = Some(member.value.as_f64().unwrap_or(f64::INFINITY));
        }
        "messages" => is_text &= member.value.elements().all(is_text_only),
        // One text, and no list of them.
        "prompt" if ask.endpoint == Endpoint::Completions => is_text &= member.value.kind() == Kind::String,
        "audio" | "modalities" => is_text &= member.value.is_null(),
        _ => {}
    })
    .map_err(|_| NoQuestion::Endpoint)?;
    if is_text { Ok(temperature) } else { Err(NoQuestion::Parts) }
}

/// Whether a message's content is a text, null, or a list of texts.
fn is_text_only(message: Value<'_>) -> bool {
    let is_text = |part: Value<'_>| match part.kind() {
        Kind::String => true,
        _ => part.get("type").and_then(Value::as_escaped) == Some("text") && part.get("text").is_some(),
    };
    message.members().filter(|member| member.key == "content").all(|content| match content.value.kind() {
        Kind::String | Kind::Null => true,
        Kind::Array => content.value.elements().all(is_text),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
