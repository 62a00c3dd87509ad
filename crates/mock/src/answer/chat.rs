//! Chat and completions in OpenAI's form.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Asked, Draft, Wrong};
use crate::reply::sse_event;
use crate::words;

/// The most choices that one call gets.
const CHOICES: u64 = 128;

/// One answer as the mock will give it.
pub(super) struct Speech {
    pub(super) pieces: Vec<String>,
    pub(super) finish: Value,
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
}

/// What the mock says to a conversation, within the call's limits.
pub(super) fn speak(asked: &Asked<'_>, limit: Option<u64>, stops: &[&str], natural: &'static str) -> Speech {
    let messages = asked.request.field("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut text_tokens: u64 = messages.iter().map(|message| 4 + words::tokens(&text_of(message))).sum();
    let asked_text = match asked.request.field("prompt") {
        Some(prompt) => {
            let text = prompt.as_str().map_or_else(|| prompt.to_string(), str::to_owned);
            text_tokens += words::tokens(&text);
            text
        }
        None => messages
            .iter()
            .rev()
            .find(|message| message.get("role").is_some_and(|role| role == "user"))
            .map(text_of)
            .unwrap_or_default(),
    };
    let scripted = asked.knobs.say.clone();
    let mut pieces =
        scripted.unwrap_or_else(|| words::pieces(&sentence(asked, &asked_text)).map(str::to_owned).collect());
    let mut finish = natural;
    stop_at(&mut pieces, stops);
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok())
        && pieces.len() > limit
    {
        pieces.truncate(limit);
        finish = "length";
    }
    let reasoning = asked.knobs.reasoning.as_deref().map_or(0, words::tokens);
    let calls: u64 =
        asked.knobs.tool_calls.iter().map(|(name, arguments)| words::tokens(name) + words::tokens(arguments)).sum();
    if !asked.knobs.tool_calls.is_empty() {
        finish = "tool_calls";
        if asked.knobs.say.is_none() {
            pieces.clear();
        }
    }
    Speech {
        completion_tokens: pieces.len() as u64 + reasoning + calls,
        pieces,
        finish: asked.knobs.finish.clone().unwrap_or_else(|| finish.into()),
        prompt_tokens: text_tokens,
    }
}

fn sentence(asked: &Asked<'_>, text: &str) -> String {
    const QUOTED: usize = 200;
    let heard: String = text.chars().take(QUOTED).collect();
    let more = if heard.len() < text.len() { "…" } else { "" };
    let model = asked.model();
    format!(
        "This is the built-in mock answering as {model}: no real model is connected. You said \"{heard}{more}\". \
         Configure a provider to hear a real answer."
    )
}

/// The text of a message, whether written as one or in parts.
fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Ends the answer before the first of `stops`.
fn stop_at(pieces: &mut Vec<String>, stops: &[&str]) {
    let whole = pieces.concat();
    let Some(end) = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| whole.find(stop)).min() else {
        return;
    };
    let mut left = end;
    pieces.retain_mut(|piece| {
        let kept: String = piece.char_indices().take_while(|(at, _)| *at < left).map(|(_, c)| c).collect();
        left -= kept.len().min(left);
        *piece = kept;
        !piece.is_empty()
    });
}

fn stops<'a>(asked: &'a Asked<'_>) -> Vec<&'a str> {
    match asked.request.field("stop") {
        Some(Value::String(stop)) => vec![stop],
        Some(Value::Array(stops)) => stops.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn usage(asked: &Asked<'_>, speech: &Speech, choices: u64) -> Option<Value> {
    match &asked.knobs.usage {
        Some(Value::Null) => None,
        Some(scripted) => Some(scripted.clone()),
        None => {
            let (prompt, completion) = (speech.prompt_tokens, speech.completion_tokens * choices);
            Some(json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}))
        }
    }
}

fn number(asked: &Asked<'_>, field: &str) -> Result<Option<u64>, Wrong> {
    match asked.request.field(field) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if number > 0 => Ok(Some(number)),
            _ => Err((400, format!("Invalid value for '{field}': expected a positive integer."))),
        },
    }
}

/// The first fields of every object of one answer.
struct Envelope {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
}

impl Envelope {
    fn of(asked: &Asked<'_>, prefix: &str, object: &'static str) -> Self {
        let created = base::Clock.wall().as_secs();
        Self { id: format!("{prefix}-mock{}", asked.number), object, created, model: asked.model() }
    }

    fn wrap(&self, choices: Value) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("id".into(), self.id.clone().into());
        map.insert("object".into(), self.object.into());
        map.insert("created".into(), self.created.into());
        map.insert("model".into(), self.model.clone().into());
        map.insert("choices".into(), choices);
        map
    }
}

fn wants_usage(asked: &Asked<'_>) -> bool {
    let options = asked.request.field("stream_options");
    options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool).unwrap_or(false)
}

/// `POST …/chat/completions`.
pub(super) fn chat(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    if !asked.request.field("messages").is_some_and(Value::is_array) {
        return Err((400, "Missing required parameter: 'messages'.".to_owned()));
    }
    let limit = number(asked, "max_completion_tokens")?.or(number(asked, "max_tokens")?);
    let choices = number(asked, "n")?.unwrap_or(1);
    if choices > CHOICES {
        return Err((400, format!("Invalid value for 'n': at most {CHOICES}.")));
    }
    let speech = speak(asked, limit, &stops(asked), "stop");
    let usage = usage(asked, &speech, choices);
    if asked.is_streaming() {
        return Ok(chat_stream(asked, &speech, choices, usage));
    }
    let calls: Vec<Value> = tool_calls(asked).map(|(_, call)| call).collect();
    let has_content = calls.is_empty() || !speech.pieces.is_empty();
    let mut message =
        json!({"role": "assistant", "content": has_content.then(|| speech.pieces.concat()), "refusal": null});
    if let Some(reasoning) = &asked.knobs.reasoning {
        message["reasoning_content"] = reasoning.clone().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice =
        |index: u64| json!({"index": index, "message": message, "logprobs": null, "finish_reason": speech.finish});
    let mut body = Envelope::of(asked, "chatcmpl", "chat.completion").wrap((0..choices).map(choice).collect());
    body.extend(usage.map(|usage| ("usage".to_owned(), usage)));
    body.insert("system_fingerprint".into(), "fp_mock".into());
    Ok(Draft::json(&body))
}

fn tool_calls<'a>(asked: &'a Asked<'_>) -> impl Iterator<Item = (usize, Value)> + 'a {
    asked.knobs.tool_calls.iter().enumerate().map(|(index, (name, arguments))| {
        let id = format!("call_mock{}_{index}", asked.number);
        (index, json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
    })
}

/// The deltas of one choice, the role first and the finish apart.
fn deltas(asked: &Asked<'_>, speech: &Speech) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    if let Some(reasoning) = &asked.knobs.reasoning {
        deltas.extend(words::pieces(reasoning).map(|piece| json!({"reasoning_content": piece})));
    }
    deltas.extend(speech.pieces.iter().map(|piece| json!({"content": piece})));
    for (index, mut call) in tool_calls(asked) {
        let arguments = call["function"]["arguments"].take();
        call["function"]["arguments"] = "".into();
        call["index"] = index.into();
        deltas.push(json!({"tool_calls": [call]}));
        let arguments: Vec<char> = arguments.as_str().unwrap_or("").chars().collect();
        for piece in arguments.chunks(8) {
            let piece = String::from_iter(piece);
            deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
    }
    deltas
}

fn chat_stream(asked: &Asked<'_>, speech: &Speech, choices: u64, usage: Option<Value>) -> Draft {
    let envelope = Envelope::of(asked, "chatcmpl", "chat.completion.chunk");
    let wants_usage = wants_usage(asked);
    let chunk = |index: u64, delta: &Value, finish: &Value| {
        let choice = json!([{"index": index, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        let mut body = envelope.wrap(choice);
        if wants_usage {
            body.insert("usage".into(), Value::Null);
        }
        sse_event(&Value::Object(body).to_string())
    };
    let pace = asked.settings.word_delay;
    let mut events = Vec::new();
    for (turn, delta) in deltas(asked, speech).iter().enumerate() {
        for index in 0..choices {
            let wait = if turn < 2 || index > 0 { Duration::ZERO } else { pace };
            events.push((wait, chunk(index, delta, &Value::Null)));
        }
    }
    if !speech.finish.is_null() {
        events.extend((0..choices).map(|index| (Duration::ZERO, chunk(index, &json!({}), &speech.finish))));
    }
    if let Some(usage) = usage.filter(|_| wants_usage) {
        let mut body = envelope.wrap(json!([]));
        body.insert("usage".into(), usage);
        events.push((Duration::ZERO, sse_event(&Value::Object(body).to_string())));
    }
    events.push((Duration::ZERO, sse_event("[DONE]")));
    Draft::stream("text/event-stream", events)
}

/// How many prompts there are: a list of texts, or of token arrays, is as many.
fn prompts(asked: &Asked<'_>) -> u64 {
    let list = asked.request.field("prompt").and_then(Value::as_array);
    list.filter(|list| list.iter().any(|one| one.is_string() || one.is_array())).map_or(1, |list| list.len() as u64)
}

/// `POST …/completions`.
pub(super) fn completions(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    if asked.request.field("prompt").is_none() {
        return Err((400, "Missing required parameter: 'prompt'.".to_owned()));
    }
    let limit = number(asked, "max_tokens")?.or(Some(16));
    let choices = number(asked, "n")?.unwrap_or(1).saturating_mul(prompts(asked)).min(CHOICES);
    let speech = speak(asked, limit, &stops(asked), "stop");
    let usage = usage(asked, &speech, choices);
    let envelope = Envelope::of(asked, "cmpl", "text_completion");
    let choice = |index: u64, text: &str, finish: &Value| json!({"text": text, "index": index, "logprobs": null, "finish_reason": finish});
    if !asked.is_streaming() {
        let text = speech.pieces.concat();
        let list: Vec<Value> = (0..choices).map(|index| choice(index, &text, &speech.finish)).collect();
        let mut body = envelope.wrap(list.into());
        body.extend(usage.map(|usage| ("usage".to_owned(), usage)));
        return Ok(Draft::json(&body));
    }
    let event = |choices: Value| sse_event(&Value::Object(envelope.wrap(choices)).to_string());
    let mut events = Vec::new();
    for (turn, piece) in speech.pieces.iter().enumerate() {
        let wait = if turn == 0 { Duration::ZERO } else { asked.settings.word_delay };
        events.extend((0..choices).map(|index| (wait, event(json!([choice(index, piece, &Value::Null)])))));
    }
    events.extend((0..choices).map(|index| (Duration::ZERO, event(json!([choice(index, "", &speech.finish)])))));
    if let Some(usage) = usage.filter(|_| wants_usage(asked)) {
        let mut body = envelope.wrap(json!([]));
        body.insert("usage".into(), usage);
        events.push((Duration::ZERO, sse_event(&Value::Object(body).to_string())));
    }
    events.push((Duration::ZERO, sse_event("[DONE]")));
    Ok(Draft::stream("text/event-stream", events))
}
