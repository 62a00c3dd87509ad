//! A chat request in Ollama's words.

use std::borrow::Cow;
use std::collections::HashMap;

use base::Refusal;
use bytes::Bytes;

use crate::ask::Chat;
use crate::json::{self, Kind, Value};
use crate::object::Object;
use crate::{Ask, Target};

/// Caller's field and the member of Ollama's `options` that says the same. Where two fields say one
/// thing the first that is given counts.
const OPTIONS: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
    ("seed", "seed"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("repetition_penalty", "repeat_penalty"),
    ("max_completion_tokens", "num_predict"),
    ("max_tokens", "num_predict"),
];

/// Fields of Ollama's own request that pass as the caller wrote them.
const OWN: [&str; 5] = ["keep_alive", "truncate", "shift", "logprobs", "top_logprobs"];

/// The body of `/api/chat`.
///
/// # Errors
/// `invalid_request` for what Ollama cannot be told and cannot do without.
pub(super) fn chat(ask: &Ask, chat: &Chat, target: &Target<'_>) -> Result<Bytes, Refusal> {
    if chat.choices > 1 {
        return Err(Refusal::field("n", "this model's provider gives one choice a call; leave 'n' out"));
    }
    let root = json::parse(&ask.body).map_err(|error| Refusal::new(base::Code::InvalidJson, error.to_string()))?;
    let field = |name: &str| root.get(name).filter(|value| !value.is_null());
    let mut body = Object::with_capacity(ask.body.len() + 128);
    body.text("model", target.model);
    messages(field("messages").unwrap_or(root), body.key("messages"))?;
    let forbids_tools = field("tool_choice").and_then(Value::as_str).is_some_and(|choice| choice == "none");
    if let Some(tools) = field("tools").filter(|_| !forbids_tools) {
        body.json("tools", tools.raw());
    }
    // Ollama streams unless told not to.
    body.json("stream", if ask.stream { "true" } else { "false" });
    if let Some(format) = format(root) {
        body.json("format", format);
    }
    if let Some(options) = options(root) {
        body.key("options").extend_from_slice(&options);
    }
    if let Some(think) = think(root) {
        body.json("think", &think);
    }
    for name in OWN {
        if let Some(value) = field(name) {
            body.json(name, value.raw());
        }
    }
    Ok(body.into_bytes())
}

/// `format` as the caller wrote it, else what `response_format` says.
fn format(root: Value<'_>) -> Option<&str> {
    if let Some(own) = root.get("format").filter(|own| !own.is_null()) {
        return Some(own.raw());
    }
    let wanted = root.get("response_format")?;
    match &*wanted.get("type")?.as_str()? {
        "json_object" => Some("\"json\""),
        "json_schema" => Some(wanted.get("json_schema")?.get("schema")?.raw()),
        _ => None,
    }
}

/// `think` as the caller wrote it, else what `reasoning_effort` says in the three steps known here.
fn think(root: Value<'_>) -> Option<Cow<'_, str>> {
    if let Some(own) = root.get("think").filter(|own| !own.is_null()) {
        return Some(Cow::Borrowed(own.raw()));
    }
    let effort = root.get("reasoning_effort")?.as_str()?;
    Some(Cow::Borrowed(match &*effort {
        "none" => "false",
        "minimal" | "low" => "\"low\"",
        "medium" => "\"medium\"",
        _ => "\"high\"",
    }))
}

/// The caller's own `options`, and beside them what its other fields say.
fn options(root: Value<'_>) -> Option<Vec<u8>> {
    let own = root.get("options").filter(|own| own.kind() == Kind::Object);
    let mut known: Vec<Cow<'_, str>> = Vec::new();
    let mut out = vec![b'{'];
    let mut put = |name: Cow<'_, str>, value: &[&str]| {
        if out.len() > 1 {
            out.push(b',');
        }
        json::push_quoted(&mut out, &name);
        out.push(b':');
        value.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
    };
    // An answer is no longer than either says: a policy bounds the field alone.
    let field =
        ["max_completion_tokens", "max_tokens"].iter().find_map(|name| root.get(name).filter(|most| !most.is_null()));
    let is_loose = |own: Value<'_>| {
        let most = field.and_then(Value::as_f64);
        most.is_some_and(|most| own.as_f64().is_none_or(|own| own < 1.0 || own > most))
    };
    for member in own.into_iter().flat_map(Value::members).filter(|member| !member.value.is_null()) {
        if member.key == "num_predict" && is_loose(member.value) {
            continue;
        }
        known.push(member.key.clone());
        put(member.key, &[member.value.raw()]);
    }
    for (name, option) in OPTIONS {
        let Some(value) = root.get(name).filter(|value| !value.is_null()) else { continue };
        if !known.iter().any(|known| known == option) {
            known.push(Cow::Borrowed(option));
            put(Cow::Borrowed(option), &[value.raw()]);
        }
    }
    if let Some(stop) = root.get("stop").filter(|stop| !stop.is_null() && !known.iter().any(|known| known == "stop")) {
        let (open, close) = if stop.kind() == Kind::String { ("[", "]") } else { ("", "") };
        put(Cow::Borrowed("stop"), &[open, stop.raw(), close]);
    }
    (out.len() > 1).then(|| {
        out.push(b'}');
        out
    })
}

fn messages(list: Value<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    // Names of the functions that were called, by the call's id: Ollama wants them with the results.
    let mut called = HashMap::new();
    let mut mark = b'[';
    for (at, message) in list.elements().enumerate() {
        out.push(mark);
        out.extend_from_slice(&one_message(at, message, &mut called)?);
        mark = b',';
    }
    if mark == b'[' {
        out.push(mark);
    }
    out.push(b']');
    Ok(())
}

fn one_message<'a>(
    at: usize,
    message: Value<'a>,
    called: &mut HashMap<Cow<'a, str>, Value<'a>>,
) -> Result<Vec<u8>, Refusal> {
    let field = |name: &str| message.get(name).filter(|value| !value.is_null());
    let mut out = Object::with_capacity(message.raw().len());
    match field("role").and_then(Value::as_str).as_deref() {
        Some("developer") => out.text("role", "system"),
        Some("function") => out.text("role", "tool"),
        Some(role) => out.text("role", role),
        None => return Err(Refusal::field(format!("messages[{at}].role"), "a message needs a 'role'")),
    }
    content(at, field("content"), &mut out)?;
    if let Some(thinking) = ["reasoning_content", "reasoning", "thinking"].iter().find_map(|name| field(name)) {
        out.json("thinking", thinking.raw());
    }
    if let Some(calls) = field("tool_calls").filter(|calls| !calls.is_empty()) {
        tool_calls(at, calls, called, out.key("tool_calls"))?;
    }
    let answered = field("tool_call_id");
    if let Some(id) = answered {
        out.json("tool_call_id", id.raw());
    }
    let name = answered.and_then(Value::as_str).and_then(|id| called.get(&id).copied());
    if let Some(name) = name.or_else(|| field("tool_name")).or_else(|| field("name").filter(|_| answered.is_some())) {
        out.json("tool_name", name.raw());
    }
    Ok(out.close())
}

/// Text parts become one text, a line each; images in data URIs go into `images` without their head.
fn content(at: usize, content: Option<Value<'_>>, out: &mut Object) -> Result<(), Refusal> {
    let refuse = |why: &'static str| Err(Refusal::field(format!("messages[{at}].content"), why));
    let Some(content) = content else {
        out.json("content", "\"\"");
        return Ok(());
    };
    if content.kind() == Kind::String {
        out.json("content", content.raw());
        return Ok(());
    }
    if content.kind() != Kind::Array {
        return refuse("a message's content must be a text, an array of parts, or null");
    }
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in content.elements() {
        match part.get("type").and_then(Value::as_str).as_deref() {
            Some("text" | "refusal") => {
                let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_escaped);
                texts.push(text.unwrap_or_default());
            }
            Some("image_url") => match part.get("image_url").and_then(image) {
                Some(data) => images.push(data),
                None => return refuse("this model's provider takes images as base64 data URIs only"),
            },
            _ => return refuse("this model's provider takes text and images only"),
        }
    }
    out.json("content", &format!("\"{}\"", texts.join("\\n")));
    if !images.is_empty() {
        out.json("images", &format!("[{}]", images.join(",")));
    }
    Ok(())
}

/// The base64 behind a data URI, quoted.
fn image(part: Value<'_>) -> Option<String> {
    let url = part.get("url").unwrap_or(part).as_str()?;
    let (head, data) = url.split_once(',')?;
    (head.starts_with("data:") && head.ends_with(";base64")).then(|| json::quoted(data))
}

/// OpenAI keeps arguments as JSON in a string, Ollama as an object.
fn tool_calls<'a>(
    at: usize,
    calls: Value<'a>,
    called: &mut HashMap<Cow<'a, str>, Value<'a>>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let mut mark = b'[';
    for call in calls.elements() {
        let function = call.get("function").unwrap_or(call);
        let arguments = function.get("arguments").and_then(arguments).ok_or_else(|| {
            let message = "the 'arguments' of a tool call must be a JSON object in a string for this model's provider";
            Refusal::field(format!("messages[{at}].tool_calls"), message)
        })?;
        let mut inner = Object::with_capacity(arguments.len() + 32);
        if let Some(name) = function.get("name") {
            inner.json("name", name.raw());
        }
        inner.json("arguments", &arguments);
        let mut outer = Object::with_capacity(64);
        if let Some(id) = call.get("id").filter(|id| !id.is_null()) {
            outer.json("id", id.raw());
            if let (Some(id), Some(name)) = (id.as_str(), function.get("name")) {
                called.insert(id, name);
            }
        }
        outer.key("function").extend_from_slice(&inner.close());
        out.push(mark);
        out.extend_from_slice(&outer.close());
        mark = b',';
    }
    out.push(b']');
    Ok(())
}

fn arguments(value: Value<'_>) -> Option<String> {
    if value.kind() == Kind::Object {
        return Some(value.raw().to_owned());
    }
    let text = value.as_str()?;
    if text.trim().is_empty() {
        return Some("{}".to_owned());
    }
    let parsed = json::parse(text.as_bytes()).ok()?;
    (parsed.kind() == Kind::Object).then(|| parsed.raw().to_owned())
}
