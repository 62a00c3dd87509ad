//! Streams of chat chunks, written by hand.

use serde_json::{Value, json};

/// The data of one chunk.
fn chunk(choices: Value, usage: Option<Value>) -> String {
    let mut chunk =
        json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices});
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    chunk.to_string()
}

/// A chunk with a text.
pub fn delta(text: &str) -> String {
    chunk(json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]), None)
}

/// A chunk that opens the answer and says nothing.
pub fn role() -> String {
    chunk(json!([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]), None)
}

/// The chunk that finishes the first choice.
pub fn finish() -> String {
    chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), None)
}

/// The chunk that tells usage: 11 tokens in, 3 out.
pub fn usage() -> String {
    chunk(json!([]), Some(told()))
}

/// A chunk with these choices and 11 tokens in, 3 out.
pub fn usage_beside(choices: Value) -> String {
    chunk(choices, Some(told()))
}

/// A chunk with these choices.
pub fn choices(choices: Value) -> String {
    chunk(choices, None)
}

fn told() -> Value {
    json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14})
}

/// The events of an answer that says `Hello!`, tells its usage and ends well.
pub fn hello() -> Vec<String> {
    vec![role(), delta("Hel"), delta("lo"), delta("!"), finish(), usage(), "[DONE]".to_owned()]
}

/// Those events as the bytes of a stream.
pub fn bytes(events: &[String]) -> Vec<u8> {
    events.iter().flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect()
}
