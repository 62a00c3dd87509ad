//! Ollama's chat answers in OpenAI's words.

use std::hash::{DefaultHasher, Hash, Hasher};

use base::{Fault, Usage};

use crate::json::{self, Kind, Value};
use crate::object::Object;
use crate::{Answer, Ask, Progress, Target, errors, images};

/// What is the same on every chunk of an answer.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// `chatcmpl-…`, made of the call and the answer's first line: this crate has no dice.
    pub id: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The model as the upstream names it, quoted.
    pub model: String,
}

impl Identity {
    pub(super) fn of(body: &[u8], model: &str, first: Value<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        (body, first.raw()).hash(&mut hasher);
        let created = first.get("created_at").and_then(Value::as_str).and_then(|time| seconds(&time));
        let own = first.get("model").filter(|model| model.kind() == Kind::String);
        Self {
            id: format!("chatcmpl-{:016x}", hasher.finish()),
            created: created.unwrap_or(0),
            model: own.map_or_else(|| json::quoted(model), |model| model.raw().to_owned()),
        }
    }

    /// An answer or chunk that has one list of choices.
    pub(super) fn object(&self, kind: &str, choices: &[u8]) -> Object {
        let mut out = Object::with_capacity(choices.len() + 160);
        out.text("id", &self.id);
        out.text("object", kind);
        out.number("created", self.created);
        out.json("model", &self.model);
        out.key("choices").extend_from_slice(choices);
        out
    }
}

/// A whole answer: one JSON object. A caller who wants a stream gets it as one.
pub(super) fn whole(ask: &Ask, target: &Target<'_>, body: &[u8]) -> Result<Answer, Fault> {
    let root = json::parse(body).map_err(|error| errors::bad_response(format!("the answer is not JSON: {error}")))?;
    let message = said(root)?;
    let identity = Identity::of(&ask.body, target.model, root);
    let mut out = Object::with_capacity(body.len() + 64);
    out.text("role", "assistant");
    let calls = tool_calls(message, &identity.id, None);
    let content = message.get("content").filter(|content| content.kind() == Kind::String);
    match content {
        Some(content) if calls.is_none() || !content.is_empty() => out.json("content", content.raw()),
        _ => out.json("content", "null"),
    }
    if let Some(thinking) = thinking(message) {
        out.json("reasoning_content", thinking.raw());
    }
    if let Some((calls, _)) = &calls {
        out.key("tool_calls").extend_from_slice(calls);
    }
    let mut choice = Object::with_capacity(body.len() + 64);
    choice.number("index", 0);
    choice.key("message").extend_from_slice(&out.close());
    choice.json("logprobs", &logprobs(root));
    choice.text("finish_reason", finish_reason(root, calls.is_some()));
    let usage = usage(root, ask, target.model, chars(message));
    let mut out = identity.object("chat.completion", &[b"[", choice.close().as_slice(), b"]"].concat());
    out.json("usage", &usage_json(usage));
    Ok(Answer { body: out.into_bytes(), usage: Some(usage), is_stream: false, dimension: None })
}

/// The message of an answer or line.
///
/// # Errors
/// What an error object says, or that there is no message.
pub(super) fn said(root: Value<'_>) -> Result<Value<'_>, Fault> {
    if root.get("error").is_some_and(|error| !error.is_null()) {
        return Err(errors::inside_success(root));
    }
    root.get("message")
        .filter(|message| message.kind() == Kind::Object)
        .ok_or_else(|| errors::bad_response("the answer has no message"))
}

/// A non-empty thought.
pub(super) fn thinking(message: Value<'_>) -> Option<Value<'_>> {
    message.get("thinking").filter(|thinking| thinking.kind() == Kind::String && !thinking.is_empty())
}

/// The tool calls as OpenAI writes them, and how many they are. Those of a stream go on counting
/// from `first`, and say so in `index`.
pub(super) fn tool_calls(message: Value<'_>, id: &str, first: Option<usize>) -> Option<(Vec<u8>, usize)> {
    let calls = message.get("tool_calls").filter(|calls| calls.kind() == Kind::Array && !calls.is_empty())?;
    let mut out = Vec::new();
    let mut count = 0;
    for call in calls.elements() {
        let Some(function) = call.get("function") else { continue };
        let index = first.unwrap_or(0) + count;
        let mut inner = Object::with_capacity(function.raw().len() + 32);
        inner.json("name", function.get("name").map_or("\"\"", Value::raw));
        inner.text("arguments", function.get("arguments").filter(|value| !value.is_null()).map_or("{}", Value::raw));
        let mut outer = Object::with_capacity(function.raw().len() + 96);
        if first.is_some() {
            outer.number("index", index as u64);
        }
        match call.get("id").filter(|id| id.kind() == Kind::String && !id.is_empty()) {
            Some(id) => outer.json("id", id.raw()),
            None => outer.text("id", &format!("{}-{index}", id.replacen("chatcmpl", "call", 1))),
        }
        outer.text("type", "function");
        outer.key("function").extend_from_slice(&inner.close());
        out.push(if count == 0 { b'[' } else { b',' });
        out.extend_from_slice(&outer.close());
        count += 1;
    }
    out.push(b']');
    (count > 0).then_some((out, count))
}

/// Ollama's log probabilities have OpenAI's form, in another place.
pub(super) fn logprobs(root: Value<'_>) -> String {
    match root.get("logprobs").filter(|list| list.kind() == Kind::Array && !list.is_empty()) {
        Some(list) => format!(r#"{{"content":{},"refusal":null}}"#, list.raw()),
        None => "null".to_owned(),
    }
}

/// Why it ended. `load` and `unload` answer calls without messages.
pub(super) fn finish_reason(root: Value<'_>, called: bool) -> &'static str {
    match root.get("done_reason").and_then(Value::as_str).as_deref() {
        _ if called => "tool_calls",
        Some("length") => "length",
        _ => "stop",
    }
}

/// Characters that a message says: of its text, its thought, and its tool calls as they are written.
pub(super) fn chars(message: Value<'_>) -> u64 {
    let texts = [message.get("content").filter(|content| content.kind() == Kind::String), thinking(message)];
    let texts = texts.into_iter().flatten().filter_map(Value::as_str_lossy).map(|text| text.chars().count());
    let calls = message.get("tool_calls").into_iter().flat_map(|calls| calls.elements());
    let calls = calls.filter_map(|call| call.get("function")).map(|function| function.raw().chars().count());
    texts.chain(calls).map(|count| count as u64).sum()
}

/// What a call consumed whose answer has so many characters. Ollama leaves `prompt_eval_count` out where it had the prompt
/// in its cache, and servers like it leave out `eval_count`.
pub(super) fn usage(root: Value<'_>, ask: &Ask, model: &str, chars: u64) -> Usage {
    let count = |name| root.get(name).and_then(Value::as_u64).filter(|count| *count <= Usage::CEILING);
    let guess = || ask.prompt_estimate(|| images::worth(std::iter::once(model))).min(Usage::CEILING);
    let (prompt, completion) = (count("prompt_eval_count"), count("eval_count"));
    Usage {
        prompt: prompt.unwrap_or_else(guess),
        completion: completion.unwrap_or_else(|| Progress::guess(chars)),
        cached: 0,
        units: 0,
        estimated: prompt.is_none() || completion.is_none(),
    }
}

/// As OpenAI writes it.
pub(super) fn usage_json(usage: Usage) -> String {
    let Usage { prompt, completion, .. } = usage;
    let total = prompt.saturating_add(completion);
    format!(r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{total}}}"#)
}

/// Seconds since the Unix epoch of an RFC 3339 time; fractions of a second are dropped.
fn seconds(time: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| time.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // Days since 1 March of year 0 in the Gregorian calendar, whose years then end with February.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let local = days * 86_400 + hour * 3_600 + minute * 60 + second;
    u64::try_from(local - offset(time.get(19..)?)?).ok()
}

/// Seconds ahead of UTC.
fn offset(rest: &str) -> Option<i64> {
    let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let sign = match zone.bytes().next()? {
        b'Z' | b'z' => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    Some(sign * (hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60))
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read_with_their_zones() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2024-02-29T12:00:00.123456Z"), Some(1_709_208_000));
        assert_eq!(seconds("2024-02-29T20:00:00.1+08:00"), Some(1_709_208_000));
        assert_eq!(seconds("2024-02-29T07:00:00-05:00"), Some(1_709_208_000));
        for wrong in ["", "yesterday", "2024-02-29T12:00:00", "2024-02-29T12:00:00+8"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
