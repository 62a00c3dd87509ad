//! A reply as the scenario writes it, and how it becomes the meant form.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::reply::{At, Body, Coding, Cut, Due, Framing, How, Knobs, Latency, Reply, Slices, Step, Vectors, sse_event};
use crate::units::{de_some_duration, de_some_value, duration};

const GAP: Duration = Duration::from_millis(20);

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Written {
    latency: Option<Value>,
    status: Option<u16>,
    headers: Map<String, Value>,
    #[serde(deserialize_with = "de_some_value")]
    json: Option<Value>,
    text: Option<String>,
    base64: Option<String>,
    sse: Option<Vec<Value>>,
    ndjson: Option<Vec<Value>>,
    pieces: Option<Vec<Value>>,
    raw: Option<Vec<Value>>,
    echo: bool,
    empty: bool,
    #[serde(deserialize_with = "de_some_duration")]
    every: Option<Duration>,
    framing: Option<String>,
    encoding: Option<String>,
    slices: Option<Value>,
    cut: Option<Value>,
    early: bool,
    keep_open: bool,
    say: Option<Value>,
    reasoning: Option<String>,
    tool_calls: Vec<ToolCall>,
    #[serde(deserialize_with = "de_some_value")]
    finish: Option<Value>,
    #[serde(deserialize_with = "de_some_value")]
    usage: Option<Value>,
    stream: Option<bool>,
    dimensions: Option<usize>,
    vectors: Option<String>,
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// The meant form of a `reply`: a mapping, a status, or one word.
pub(crate) fn reply(value: &Value) -> Result<Reply, String> {
    match value {
        Value::Null => Ok(Reply::default()),
        Value::Number(status) => status_of(status.as_u64().unwrap_or(0)).map(Reply::status),
        Value::String(word) => match word.as_str() {
            "answer" => Ok(Reply::default()),
            "hang" => Ok(Reply::hang()),
            "reset" => Ok(Reply::reset()),
            "close" => Ok(Reply::close()),
            "echo" => Ok(Reply { body: Body::Echo, ..Reply::default() }),
            "garbage" => Ok(Reply::raw(["\x16\x03\x01 this is not HTTP\r\n\r\n"])),
            _ => Err(format!("`reply: {word}` is not known: answer, echo, hang, reset, close, garbage, or a status")),
        },
        Value::Object(_) => meant(Written::deserialize(value).map_err(|error| error.to_string())?),
        _ => Err("`reply` is a mapping, a status or one word".to_owned()),
    }
}

fn status_of(status: u64) -> Result<u16, String> {
    u16::try_from(status)
        .ok()
        .filter(|status| (200..1000).contains(status))
        .ok_or_else(|| format!("`{status}` is not a status between 200 and 999"))
}

fn meant(written: Written) -> Result<Reply, String> {
    let has_pieces = written.pieces.is_some() || written.raw.is_some();
    let mut reply = Reply {
        latency: written.latency.as_ref().map_or(Ok(Latency::None), latency)?,
        status: written.status.map(|status| status_of(status.into())).transpose()?,
        headers: headers(&written.headers)?,
        dues: dues(&written.headers)?,
        without: written.headers.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect(),
        every: written.every.or(has_pieces.then_some(GAP)),
        framing: written.framing.as_deref().map(framing).transpose()?,
        coding: written.encoding.as_deref().map(coding).transpose()?,
        slices: written.slices.as_ref().map(slices).transpose()?,
        cut: written.cut.as_ref().map(cut).transpose()?,
        early: written.early,
        keep_open: written.keep_open,
        ..Reply::default()
    };
    let mut bodies: Vec<Body> = Vec::new();
    bodies.extend(written.json.map(Body::Json));
    bodies.extend(written.text.map(|text| Body::Bytes("text/plain; charset=utf-8", text.into())));
    if let Some(text) = written.base64 {
        bodies.push(Body::Bytes("application/octet-stream", decode(&text)?));
    }
    if let Some(events) = written.sse {
        bodies.push(Body::Stream("text/event-stream", steps(&events, event)?));
    }
    if let Some(lines) = written.ndjson {
        bodies.push(Body::Stream("application/x-ndjson", steps(&lines, line)?));
    }
    if let Some(pieces) = written.pieces {
        bodies.push(Body::Stream("text/event-stream", steps(&pieces, piece)?));
    }
    if let Some(pieces) = written.raw {
        bodies.push(Body::Raw(steps(&pieces, piece)?));
    }
    bodies.extend(written.echo.then_some(Body::Echo));
    bodies.extend(written.empty.then_some(Body::Empty));
    if bodies.len() > 1 {
        return Err("one of json, text, base64, sse, ndjson, pieces, raw, echo, empty; not several".to_owned());
    }
    reply.body = bodies.pop().unwrap_or_default();
    reply.knobs = Knobs {
        say: written.say.as_ref().map(said).transpose()?,
        reasoning: written.reasoning,
        tool_calls: written.tool_calls.into_iter().map(tool_call).collect(),
        finish: written.finish,
        usage: written.usage,
        stream: written.stream,
        dimensions: written.dimensions.map(|count| count.min(crate::MAX_DIMENSIONS)),
        vectors: written.vectors.as_deref().map(vectors).transpose()?,
        model: written.model,
    };
    Ok(reply)
}

fn tool_call(call: ToolCall) -> (String, String) {
    let arguments = match call.arguments {
        Value::String(text) => text,
        Value::Null => "{}".to_owned(),
        value => value.to_string(),
    };
    (call.name, arguments)
}

fn said(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(crate::words::pieces(text).map(str::to_owned).collect()),
        Value::Array(deltas) => deltas
            .iter()
            .map(|delta| {
                delta.as_str().map(str::to_owned).ok_or_else(|| "`say` is a text or a list of texts".to_owned())
            })
            .collect(),
        _ => Err("`say` is a text or a list of texts".to_owned()),
    }
}

fn decode(text: &str) -> Result<Bytes, String> {
    let text: String = text.split_whitespace().collect();
    BASE64_STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("not base64: {error}"))
}

fn headers(written: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut headers = Vec::new();
    for (name, value) in written.iter().filter(|(_, value)| !value.is_object() && !value.is_null()) {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(format!("header `{name}` is a text or a list of texts")),
            };
            if name.contains(['\r', '\n', ':']) || value.contains(['\r', '\n']) {
                return Err(format!("header `{name}` holds a line break or a colon in its name; use `raw` for that"));
            }
            headers.push((name.clone(), value));
        }
    }
    Ok(headers)
}

/// `{in: 2s}` is the date in two seconds, `{in: 2s, as: unix}` the same in seconds since 1970.
fn dues(written: &Map<String, Value>) -> Result<Vec<(String, Due)>, String> {
    let due = |name: &str, map: &Map<String, Value>| {
        let wait = map.get("in").map(duration).transpose()?;
        let form = map.get("as").map_or(Some("date"), Value::as_str);
        match (wait, form) {
            (Some(wait), Some("date")) if map.keys().all(|key| matches!(key.as_str(), "in" | "as")) => {
                Ok(Due::Date(wait))
            }
            (Some(wait), Some("unix")) if map.len() == 2 => Ok(Due::Unix(wait)),
            _ => Err(format!("header `{name}` is a text, a list of texts or {{in: DURATION, as: date|unix}}")),
        }
    };
    let moments = written.iter().filter_map(|(name, value)| Some((name, value.as_object()?)));
    moments.map(|(name, map)| Ok((name.clone(), due(name, map)?))).collect()
}

fn latency(value: &Value) -> Result<Latency, String> {
    let Value::Object(map) = value else { return duration(value).map(Latency::Fixed) };
    let get = |key: &str| map.get(key).map(duration).transpose();
    if let Some(Value::Array(ends)) = map.get("uniform")
        && let [low, high] = ends.as_slice()
        && map.len() == 1
    {
        return Ok(Latency::Uniform(duration(low)?, duration(high)?));
    }
    match (get("p50")?, get("p95")?) {
        (Some(p50), Some(p95)) if map.len() == 2 && p50 <= p95 => Ok(Latency::LogNormal(p50, p95)),
        _ => Err("`latency` is a duration, {uniform: [LOW, HIGH]} or {p50: …, p95: …}".to_owned()),
    }
}

fn framing(word: &str) -> Result<Framing, String> {
    match word {
        "length" => Ok(Framing::Length),
        "chunked" => Ok(Framing::Chunked),
        "close" => Ok(Framing::Close),
        _ => Err(format!("`framing: {word}` is not known: length, chunked or close")),
    }
}

fn coding(word: &str) -> Result<Coding, String> {
    match word {
        "gzip" => Ok(Coding::Gzip),
        "deflate" => Ok(Coding::Deflate),
        "br" => Ok(Coding::Brotli),
        "zstd" => Ok(Coding::Zstd),
        _ => Err(format!("`encoding: {word}` is not known: gzip, deflate, br or zstd")),
    }
}

fn vectors(word: &str) -> Result<Vectors, String> {
    match word {
        "float" => Ok(Vectors::Float),
        "base64" => Ok(Vectors::Base64),
        _ => Err(format!("`vectors: {word}` is not known: float or base64")),
    }
}

fn slices(value: &Value) -> Result<Slices, String> {
    let wrong = || "`slices` is {bytes: N} or {at: [N, …]}, with `every: DURATION` beside".to_owned();
    let map = value.as_object().ok_or_else(wrong)?;
    let every = map.get("every").map_or(Ok(GAP), duration)?;
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    match (map.get("bytes"), map.get("at")) {
        (Some(bytes), None) => {
            number(bytes).filter(|bytes| *bytes > 0).map(|bytes| Slices::Of(bytes, every)).ok_or_else(wrong)
        }
        (None, Some(Value::Array(at))) => {
            let at: Option<Vec<usize>> = at.iter().map(number).collect();
            at.map(|at| Slices::At(at, every)).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

fn cut(value: &Value) -> Result<Cut, String> {
    let wrong = || "`cut` is {at: request|head|end}, {events: N} or {bytes: N}, with `how: rst|fin|hang`".to_owned();
    let map = value.as_object().ok_or_else(wrong)?;
    let how = match map.get("how").and_then(Value::as_str) {
        None | Some("rst") => How::Rst,
        Some("fin") => How::Fin,
        Some("hang") => How::Hang,
        _ => return Err(wrong()),
    };
    if map.keys().any(|key| !matches!(key.as_str(), "at" | "events" | "bytes" | "how")) {
        return Err(wrong());
    }
    let number = |key: &str| map.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let at = match (map.get("at").and_then(Value::as_str), number("events"), number("bytes")) {
        (Some("request"), None, None) => At::Request,
        (Some("head"), None, None) => At::Head,
        (Some("end"), None, None) => At::End,
        (None, Some(count), None) => At::Events(count),
        (None, None, Some(count)) => At::Bytes(count),
        _ => return Err(wrong()),
    };
    Ok(Cut { at, how })
}

fn steps(items: &[Value], send: impl Fn(&Value) -> Result<Bytes, String>) -> Result<Vec<Step>, String> {
    items
        .iter()
        .map(|item| match item.get("wait") {
            Some(wait) if item.as_object().is_some_and(|map| map.len() == 1) => duration(wait).map(Step::Wait),
            _ => send(item).map(Step::Send),
        })
        .collect()
}

/// A text is the event's data; `{event, data, id}` names the event; `{raw}` is sent as it is; any
/// other mapping is sent as JSON.
fn event(item: &Value) -> Result<Bytes, String> {
    let text_of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(raw) = item.get("raw").and_then(Value::as_str) {
        return Ok(raw.to_owned().into());
    }
    if let (Some(data), Some(name)) = (item.get("data"), item.get("event")) {
        return Ok(format!("event: {}\n{}", text_of(name), sse_event(&text_of(data))).into());
    }
    Ok(sse_event(&text_of(item)).into())
}

fn line(item: &Value) -> Result<Bytes, String> {
    Ok(match item {
        Value::String(text) => format!("{text}\n").into(),
        value => format!("{value}\n").into(),
    })
}

/// A text, `{base64: …}`, or `{repeat: TEXT, times: N}`.
fn piece(item: &Value) -> Result<Bytes, String> {
    const LONGEST: usize = 256 * 1024 * 1024;
    if let Some(text) = item.as_str() {
        return Ok(text.to_owned().into());
    }
    if let Some(text) = item.get("base64").and_then(Value::as_str) {
        return decode(text);
    }
    let times = item.get("times").and_then(Value::as_u64).and_then(|times| usize::try_from(times).ok());
    match (item.get("repeat").and_then(Value::as_str), times) {
        (Some(text), Some(times)) if text.len().saturating_mul(times) <= LONGEST => Ok(text.repeat(times).into()),
        _ => Err("a piece is a text, {base64: TEXT}, {repeat: TEXT, times: N} or {wait: DURATION}".to_owned()),
    }
}
