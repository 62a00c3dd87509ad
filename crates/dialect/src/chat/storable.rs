//! Whether a whole answer may be given to somebody else again.

use std::fmt;

use super::is_nothing;
use crate::json::{self, Kind, Value};

/// Finish reasons of an answer that says all it had to say, in lower case: OpenAI's, and the words of
/// those who speak like it (Anthropic, Cohere, Gemini, Together, llama.cpp). A word that is not here is
/// not trusted.
const FINISHED: [&str; 10] = [
    "stop",
    "tool_calls",
    "function_call",
    "tool_use",
    "end_turn",
    "stop_sequence",
    "complete",
    "eos",
    "eos_token",
    "stop_token",
];

/// What is known of an answer that may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storable {
    /// It calls tools: it answers this very conversation, and no other that asks the same.
    pub has_tool_calls: bool,
}

/// Why an answer must not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstorable {
    /// It is no completion, or carries an error.
    NotAnAnswer,
    /// A choice has no finish reason, or one that nobody has heard of.
    Unfinished,
    /// A choice was cut at its length.
    Truncated,
    /// A choice was withheld for what it says.
    Filtered,
    /// A choice has neither content nor tool calls.
    Empty,
}

impl Unstorable {
    /// Whether it is a whole answer all the same, which the call that asked for it may be given again.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Truncated | Self::Filtered | Self::Empty)
    }
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnAnswer => "it is no completion",
            Self::Unfinished => "a choice has no finish reason",
            Self::Truncated => "a choice was cut at its length",
            Self::Filtered => "a choice was filtered",
            Self::Empty => "a choice has neither content nor tool calls",
        })
    }
}

impl std::error::Error for Unstorable {}

/// Judges a whole answer of chat or of legacy completions.
///
/// # Errors
/// What keeps it from being stored.
pub fn is_storable(whole: &[u8]) -> Result<Storable, Unstorable> {
    let root = json::parse(whole).map_err(|_| Unstorable::NotAnAnswer)?;
    let (mut choices, mut has_error) = (None, false);
    for member in root.members() {
        match &*member.key {
            "choices" => choices = Some(member.value),
            "error" => has_error |= !is_nothing(member.value),
            _ => {}
        }
    }
    let choices = choices.filter(|choices| choices.kind() == Kind::Array && !choices.is_empty() && !has_error);
    let mut storable = Storable { has_tool_calls: false };
    for choice in choices.ok_or(Unstorable::NotAnAnswer)?.elements() {
        storable.has_tool_calls |= judge(choice)?;
    }
    Ok(storable)
}

/// Whether a choice calls tools.
fn judge(choice: Value<'_>) -> Result<bool, Unstorable> {
    let (mut has_content, mut has_calls, mut finish) = (false, false, None);
    for member in choice.members() {
        match &*member.key {
            "finish_reason" => finish = member.value.as_str(),
            "text" => has_content |= says_something(member.value),
            "error" if !is_nothing(member.value) => return Err(Unstorable::NotAnAnswer),
            "message" => {
                for field in member.value.members() {
                    match &*field.key {
                        "content" => has_content |= says_something(field.value),
                        "tool_calls" => has_calls |= field.value.elements().next().is_some(),
                        "function_call" => has_calls |= field.value.kind() == Kind::Object && !field.value.is_empty(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let finish = finish.filter(|finish| !finish.is_empty()).ok_or(Unstorable::Unfinished)?.to_ascii_lowercase();
    match finish.as_str() {
        "length" | "max_tokens" | "model_length" => Err(Unstorable::Truncated),
        "content_filter" | "safety" | "sensitive" | "recitation" => Err(Unstorable::Filtered),
        finish if !FINISHED.contains(&finish) => Err(Unstorable::Unfinished),
        _ if !has_content && !has_calls => Err(Unstorable::Empty),
        _ => Ok(has_calls),
    }
}

/// A text of more than white space, or a list of parts.
fn says_something(content: Value<'_>) -> bool {
    match content.kind() {
        Kind::String => content.as_str_lossy().is_some_and(|text| !text.trim().is_empty()),
        Kind::Array => !content.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A choice with this message and this finish reason.
    fn judged(message: &str, finish: &str) -> Result<bool, Unstorable> {
        let whole = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}]}}"#);
        is_storable(whole.as_bytes()).map(|storable| storable.has_tool_calls)
    }

    const HELLO: &str = r#"{"role":"assistant","content":"Hello"}"#;

    #[test]
    fn a_complete_answer_is_stored() {
        for finish in [r#""stop""#, r#""STOP""#, r#""eos""#, r#""end_turn""#] {
            assert_eq!(judged(HELLO, finish), Ok(false), "{finish}");
        }
        assert_eq!(judged(r#"{"content":[{"type":"text","text":"a"}]}"#, r#""stop""#), Ok(false));
        let text = br#"{"choices":[{"text":"a","finish_reason":"stop"}]}"#;
        assert_eq!(is_storable(text), Ok(Storable { has_tool_calls: false }));
    }

    #[test]
    fn an_answer_with_tool_calls_says_so() {
        let calls = r#"{"content":null,"tool_calls":[{"id":"a"}]}"#;
        assert_eq!(judged(calls, r#""tool_calls""#), Ok(true));
        assert_eq!(judged(calls, r#""stop""#), Ok(true));
        assert_eq!(judged(r#"{"content":null,"function_call":{"name":"a"}}"#, r#""function_call""#), Ok(true));
        assert_eq!(judged(r#"{"content":"a","tool_calls":[]}"#, r#""stop""#), Ok(false));
    }

    #[test]
    fn an_answer_that_is_not_whole_is_not_stored() {
        for (finish, why) in [
            ("null", Unstorable::Unfinished),
            (r#""""#, Unstorable::Unfinished),
            (r#""abort""#, Unstorable::Unfinished),
            ("1", Unstorable::Unfinished),
            (r#""length""#, Unstorable::Truncated),
            (r#""MAX_TOKENS""#, Unstorable::Truncated),
            (r#""content_filter""#, Unstorable::Filtered),
            (r#""SAFETY""#, Unstorable::Filtered),
        ] {
            assert_eq!(judged(HELLO, finish), Err(why), "{finish}");
        }
        let second = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":"b"}}]}"#;
        assert_eq!(is_storable(second.as_bytes()), Err(Unstorable::Unfinished));
    }

    #[test]
    fn an_answer_that_says_nothing_is_not_stored() {
        for message in [
            "{}",
            "null",
            r#"{"content":null}"#,
            r#"{"content":""}"#,
            r#"{"content":" \n"}"#,
            r#"{"content":[]}"#,
            r#"{"content":null,"reasoning_content":"I wonder."}"#,
            r#"{"content":null,"tool_calls":[]}"#,
        ] {
            assert_eq!(judged(message, r#""stop""#), Err(Unstorable::Empty), "{message}");
        }
    }

    #[test]
    fn what_is_no_answer_is_not_stored() {
        for whole in [
            "",
            "[]",
            "{}",
            r#"{"choices":[]}"#,
            r#"{"choices":{}}"#,
            r#"{"error":{"message":"no"},"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"error":"no","message":{"content":"a"},"finish_reason":"stop"}]}"#,
        ] {
            assert_eq!(is_storable(whole.as_bytes()), Err(Unstorable::NotAnAnswer), "{whole}");
        }
    }
}
