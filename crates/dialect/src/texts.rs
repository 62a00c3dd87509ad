//! The texts of calls and answers, for those who want to read what was said: what callers and models wrote, and
//! nothing of what stands around it; no images, no sounds, no vectors.

mod mask;

use base::Endpoint;
use bytes::Bytes;

use crate::json::{self, Kind, Value};
use crate::sse::Reader;

pub use mask::{BLANK, BadPattern, Mask};

/// A text that is no longer than it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// As much as there was room for.
    pub text: String,
    /// There was more.
    pub is_cut: bool,
    most: usize,
}

impl Text {
    /// An empty one, of so many bytes at most.
    #[must_use]
    pub const fn within(most: usize) -> Self {
        Self { text: String::new(), is_cut: false, most }
    }

    /// Adds to it, as far as there is room.
    pub fn push(&mut self, more: &str) {
        let room = self.most.saturating_sub(self.text.len());
        let fits = more.floor_char_boundary(room);
        self.is_cut |= fits < more.len();
        self.text.push_str(more.get(..fits).unwrap_or_default());
    }

    fn is_full(&self) -> bool {
        self.is_cut
    }

    /// Begins a new line, unless it is the first.
    fn line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    fn string(&mut self, value: Value<'_>) {
        if let Some(text) = value.as_str_lossy() {
            self.push(&text);
        }
    }
}

/// What is read aloud of an object: the names of members that hold text.
const SPOKEN: [&str; 13] = [
    "content",
    "text",
    "input_text",
    "output_text",
    "refusal",
    "reasoning_content",
    "reasoning",
    "arguments",
    "name",
    "output",
    "message",
    "title",
    "transcript",
];
/// Members that lead to text.
const LEADING: [&str; 7] = ["tool_calls", "function", "function_call", "parts", "delta", "summary", "error"];
/// How deep a message is looked into.
const DEEPEST: usize = 8;

/// Everything that is said in a value.
fn say(out: &mut Text, value: Value<'_>, depth: usize) {
    if depth == 0 || out.is_full() {
        return;
    }
    match value.kind() {
        Kind::String => {
            out.line();
            out.string(value);
        }
        Kind::Array => value.elements().for_each(|element| say(out, element, depth - 1)),
        Kind::Object => {
            for member in value.members() {
                if SPOKEN.contains(&&*member.key) || LEADING.contains(&&*member.key) {
                    say(out, member.value, depth - 1);
                }
            }
        }
        _ => {}
    }
}

/// A message: who speaks, and what is said.
fn message(out: &mut Text, message: Value<'_>) {
    out.line();
    if let Some(role) = message.get("role").filter(|role| role.kind() == Kind::String) {
        out.string(role);
        out.push(": ");
    }
    match message.get("content").filter(|content| content.kind() == Kind::String) {
        Some(content) => {
            out.string(content);
            let rest = message.members().filter(|member| member.key != "content" && member.key != "role");
            for member in rest {
                if SPOKEN.contains(&&*member.key) || LEADING.contains(&&*member.key) {
                    say(out, member.value, DEEPEST);
                }
            }
        }
        None => say(out, message, DEEPEST),
    }
}

/// What a call's body says, in so many bytes at most. Forms say nothing: they carry files.
#[must_use]
pub fn of_call(endpoint: Endpoint, body: &[u8], most: usize) -> Text {
    let mut out = Text::within(most);
    let Ok(body) = json::parse(body) else { return out };
    for member in body.members() {
        match &*member.key {
            "messages" => member.value.elements().for_each(|one| message(&mut out, one)),
            "input" if endpoint == Endpoint::Responses && member.value.kind() == Kind::Array => {
                member.value.elements().for_each(|one| message(&mut out, one));
            }
            "prompt" | "input" | "query" | "documents" | "instructions" => say(&mut out, member.value, DEEPEST),
            _ => {}
        }
    }
    out
}

/// What a whole answer says, be it one of events, in so many bytes at most; of embeddings that is nothing, of a ranking
/// the ranking.
#[must_use]
pub fn of_answer(body: &Bytes, most: usize) -> Text {
    let mut out = Text::within(most);
    let Ok(body) = json::parse(body) else {
        let mut transcript = Transcript::within(most);
        transcript.feed(body);
        return transcript.said();
    };
    for member in body.members() {
        match &*member.key {
            "choices" => member.value.elements().for_each(|choice| {
                out.line();
                match choice.get("message") {
                    Some(message) => say(&mut out, message, DEEPEST),
                    None => say(&mut out, choice, DEEPEST),
                }
            }),
            "results" => {
                out.line();
                out.push(member.value.raw());
            }
            "output" | "error" | "text" => say(&mut out, member.value, DEEPEST),
            _ => {}
        }
    }
    out
}

/// What a stream of events says, as it passes.
#[derive(Debug)]
pub struct Transcript {
    reader: Reader,
    said: Text,
}

impl Transcript {
    /// Of so many bytes at most.
    #[must_use]
    pub fn within(most: usize) -> Self {
        Self { reader: Reader::new(), said: Text::within(most) }
    }

    /// The next piece of the stream, as its caller gets it.
    pub fn feed(&mut self, piece: &Bytes) {
        if self.said.is_full() {
            return;
        }
        self.reader.push(piece.clone());
        loop {
            match self.reader.next() {
                Ok(Some(event)) => event_says(&mut self.said, event.data),
                Ok(None) => return,
                // Longer than an event may be: nothing more is heard.
                Err(_) => {
                    self.said.is_cut = true;
                    return;
                }
            }
        }
    }

    /// All that was said.
    #[must_use]
    pub fn said(self) -> Text {
        self.said
    }
}

fn event_says(out: &mut Text, data: &[u8]) {
    let Ok(chunk) = json::parse(data) else { return };
    for choice in chunk.get("choices").into_iter().flat_map(Value::elements) {
        if let Some(text) = choice.get("text") {
            out.string(text);
        }
        for member in choice.get("delta").into_iter().flat_map(Value::members) {
            match &*member.key {
                "content" | "refusal" | "reasoning_content" | "reasoning" if member.value.kind() == Kind::String => {
                    out.string(member.value);
                }
                "tool_calls" => member.value.elements().filter_map(|call| call.get("function")).for_each(|function| {
                    if let Some(name) = function.get("name").filter(|name| name.kind() == Kind::String) {
                        out.line();
                        out.string(name);
                        out.push(" ");
                    }
                    if let Some(arguments) = function.get("arguments") {
                        out.string(arguments);
                    }
                }),
                _ => {}
            }
        }
    }
    let kind = chunk.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| kind.ends_with(".delta"))
        && let Some(delta) = chunk.get("delta")
    {
        out.string(delta);
    }
    if let Some(error) = chunk.get("error") {
        say(out, error, DEEPEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(endpoint: Endpoint, body: &str) -> String {
        of_call(endpoint, body.as_bytes(), 1 << 16).text
    }

    #[test]
    fn a_conversation_is_read_with_its_speakers() {
        let body = r#"{"model":"m","messages":[{"role":"system","content":"Be kind."},
            {"role":"user","content":[{"type":"text","text":"Wer ist das?"},{"type":"image_url","image_url":{"url":"data:x"}}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"look","arguments":"{\"at\":1}"}}]},
            {"role":"tool","content":"一只猫"}],"user":"anna@example.org"}"#;
        assert_eq!(
            call(Endpoint::Chat, body),
            "system: Be kind.\nuser: \nWer ist das?\nassistant: \nlook\n{\"at\":1}\ntool: 一只猫"
        );
    }

    #[test]
    fn inputs_and_documents_are_read_and_token_ids_are_not() {
        assert_eq!(call(Endpoint::Embeddings, r#"{"model":"m","input":["a","b"]}"#), "a\nb");
        assert_eq!(call(Endpoint::Embeddings, r#"{"model":"m","input":[[1,2],[3]]}"#), "");
        let rerank = r#"{"model":"m","query":"q","documents":["one",{"text":"two"}]}"#;
        assert_eq!(call(Endpoint::Rerank, rerank), "q\none\ntwo");
        assert_eq!(call(Endpoint::Chat, "no json"), "");
    }

    #[test]
    fn whole_answers_and_streams_say_the_same() {
        let whole = r#"{"id":"1","choices":[{"message":{"role":"assistant","content":"Hello"}}],"usage":{}}"#;
        assert_eq!(of_answer(&whole.into(), 100).text, "Hello");
        let mut transcript = Transcript::within(100);
        let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n: hm\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\ndata: [DONE]\n\n";
        for byte in stream.bytes() {
            transcript.feed(&Bytes::copy_from_slice(&[byte]));
        }
        assert_eq!(transcript.said().text, "Hello");
        assert_eq!(of_answer(&Bytes::from_static(br#"{"data":[{"embedding":[0.1]}]}"#), 100).text, "");
        assert_eq!(
            of_answer(&Bytes::from_static(br#"{"error":{"message":"no","type":"t","code":"c"}}"#), 100).text,
            "no"
        );
        assert_eq!(
            of_answer(&Bytes::from_static(br#"{"results":[{"index":0,"relevance_score":0.5}]}"#), 100).text,
            "[{\"index\":0,\"relevance_score\":0.5}]"
        );
    }

    #[test]
    fn a_text_ends_where_it_must_and_at_a_whole_letter() {
        let said = of_call(Endpoint::Embeddings, r#"{"input":"你好世界"}"#.as_bytes(), 7);
        assert_eq!((said.text.as_str(), said.is_cut), ("你好", true));
        let mut transcript = Transcript::within(3);
        transcript.feed(&Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"abcdef\"}}]}\n\n"));
        let said = transcript.said();
        assert_eq!((said.text.as_str(), said.is_cut), ("abc", true));
    }
}
