//! Ollama's native chat: one JSON object a line, streaming unless told not to.

use std::time::Duration;

use serde_json::{Value, json};

use super::chat::speak;
use super::{Asked, Draft, Wrong};

/// A fixed moment: the mock's answers do not depend on the day.
const CREATED: &str = "2026-01-01T00:00:00Z";

/// `POST /api/chat`.
pub(super) fn chat(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    let options = asked.request.field("options");
    let limit = options.and_then(|options| options.get("num_predict")).and_then(Value::as_u64);
    let stops: Vec<&str> = match options.and_then(|options| options.get("stop")) {
        Some(Value::Array(stops)) => stops.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(stop)) => vec![stop],
        _ => Vec::new(),
    };
    let speech = speak(asked, limit, &stops, "stop");
    let model = asked.model();
    let calls: Vec<Value> = asked
        .knobs
        .tool_calls
        .iter()
        .map(|(name, arguments)| {
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            json!({"function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let line = |content: &str, is_done: bool| {
        let mut message = json!({"role": "assistant", "content": content});
        if is_done && !calls.is_empty() {
            message["tool_calls"] = calls.clone().into();
        }
        let mut line = json!({"model": model, "created_at": CREATED, "message": message, "done": is_done});
        if is_done {
            // Ollama says `stop` also where it calls tools.
            let reason = if speech.finish == "tool_calls" { "stop".into() } else { speech.finish.clone() };
            line["done_reason"] = reason;
            line["total_duration"] = 1_000_000.into();
            line["load_duration"] = 0.into();
            if asked.knobs.usage.is_none() {
                line["prompt_eval_count"] = speech.prompt_tokens.into();
                line["eval_count"] = speech.completion_tokens.into();
            }
            line["prompt_eval_duration"] = 500_000.into();
            line["eval_duration"] = 500_000.into();
        }
        line
    };
    let streams = asked.request.field("stream").and_then(Value::as_bool).unwrap_or(true);
    if !asked.knobs.stream.unwrap_or(streams) {
        return Ok(Draft::json(&line(&speech.pieces.concat(), true)));
    }
    let mut events: Vec<(Duration, String)> = Vec::new();
    for piece in &speech.pieces {
        let wait = if events.is_empty() { Duration::ZERO } else { asked.settings.word_delay };
        events.push((wait, format!("{}\n", line(piece, false))));
    }
    events.push((Duration::ZERO, format!("{}\n", line("", true))));
    Ok(Draft::stream("application/x-ndjson", events))
}
