//! OpenAI's wire format from the outside: requests, whole answers, streams.

mod answers;
mod requests;
mod streams;
mod typed;

use base::Endpoint;
use bytes::Bytes;
use serde_json::Value as Tree;

use crate::{Answer, Ask, Decode, Progress, Protocol, Score, Target, dialect};

fn target(ask_usage: bool) -> Target<'static> {
    Target { model: "up", score: Score::Probability, ask_usage, decode_tokens: false, base_path: "/v1" }
}

fn ask(endpoint: Endpoint, body: &str) -> Ask {
    Ask::read(endpoint, None, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

/// A chat that streams, with more top-level fields.
fn streaming(fields: &str) -> Ask {
    ask(Endpoint::Chat, &format!(r#"{{"model":"m","messages":[{{}}],"stream":true{fields}}}"#))
}

fn answer(ask: &Ask, body: &'static str) -> Result<Answer, base::Fault> {
    let headers = http::HeaderMap::new();
    dialect(Protocol::OpenAi).answer(ask, &target(true), &headers, Bytes::from_static(body.as_bytes()))
}

/// What a stream gave in the end.
#[derive(Debug)]
struct Read {
    out: String,
    progress: Progress,
}

impl Read {
    /// The data of the events that reached the caller.
    fn data(&self) -> Vec<String> {
        let events = self.out.split_terminator("\n\n");
        events
            .map(|event| event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect())
            .collect()
    }

    /// The same, as JSON, `[DONE]` left out.
    fn chunks(&self) -> Vec<Tree> {
        let data = self.data();
        data.iter().filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The text of the first choice.
    fn text(&self) -> String {
        self.chunks().iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
    }

    /// One word on how it ended.
    fn end(&self) -> &'static str {
        match &self.progress {
            Progress { fault: Some(fault), .. } if fault.kind == base::Kind::Cut => "cut",
            Progress { fault: Some(_), .. } => "failed",
            Progress { finished: true, .. } => "complete",
            Progress { done: true, .. } => "done",
            Progress { .. } => "open",
        }
    }
}

/// Feeds a stream in every way that matters and returns what all of them gave.
fn read(ask: &Ask, asked: bool, stream: &[u8]) -> Read {
    let whole = feed(ask, asked, std::iter::once(stream));
    let bytes = feed(ask, asked, stream.chunks(1));
    assert_eq!(whole.out, bytes.out);
    assert_eq!(format!("{:?}", whole.progress), format!("{:?}", bytes.progress));
    whole
}

fn feed<'a>(ask: &Ask, asked: bool, chunks: impl Iterator<Item = &'a [u8]>) -> Read {
    let mut decoder: Box<dyn Decode> = dialect(Protocol::OpenAi).decoder(ask, &target(asked));
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(&decoder.feed(Bytes::copy_from_slice(chunk)));
    }
    out.extend_from_slice(&decoder.finish());
    Read { out: String::from_utf8(out).unwrap(), progress: decoder.progress().clone() }
}

/// One event.
fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// A chunk with this delta of the first choice.
fn delta(delta: &str) -> String {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"u","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    ))
}

/// The chunk that ends the first choice.
fn finish() -> String {
    event(
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"u","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    )
}

/// A chunk with usage alone.
fn usage(prompt: u64, completion: u64) -> String {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"u","choices":[],"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion}}}}}"#
    ))
}

/// `[DONE]`
fn done() -> String {
    event("[DONE]")
}
