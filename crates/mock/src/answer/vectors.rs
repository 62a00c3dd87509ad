//! Embeddings in the forms of OpenAI, Cohere, TEI and Ollama.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Asked, Draft, Wrong};
use crate::reply::Vectors;
use crate::words;

/// The inputs as texts: a token array reads as the text of its numbers.
fn inputs(field: &Value) -> Result<Vec<String>, Wrong> {
    let spell = |ids: &[Value]| -> Result<String, Wrong> {
        let words: Option<Vec<String>> = ids.iter().map(|id| id.as_u64().map(|id| id.to_string())).collect();
        words.map(|words| words.join(" ")).ok_or_else(invalid)
    };
    match field {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(list) if list.is_empty() => Err(invalid()),
        Value::Array(list) if list.iter().all(Value::is_number) => Ok(vec![spell(list)?]),
        Value::Array(list) => list
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(text.clone()),
                Value::Array(ids) if !ids.is_empty() => spell(ids),
                Value::Object(part) => part.get("text").and_then(Value::as_str).map(str::to_owned).ok_or_else(invalid),
                _ => Err(invalid()),
            })
            .collect(),
        _ => Err(invalid()),
    }
}

fn invalid() -> Wrong {
    (400, "'$.input' is invalid. Please check the API reference.".to_owned())
}

fn field<'a>(asked: &'a Asked<'_>, name: &str) -> Result<&'a Value, Wrong> {
    asked.request.field(name).ok_or_else(|| (400, format!("Missing required parameter: '{name}'.")))
}

fn dimensions(asked: &Asked<'_>, name: &str) -> Result<usize, Wrong> {
    if let Some(scripted) = asked.knobs.dimensions {
        return Ok(scripted);
    }
    match asked.request.field(name) {
        None => Ok(asked.settings.dimensions),
        Some(value) => value
            .as_u64()
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| (1..=crate::MAX_DIMENSIONS).contains(count))
            .ok_or_else(|| (400, format!("Invalid value for '{name}'."))),
    }
}

fn embed(texts: &[String], dimensions: usize) -> Vec<Vec<f32>> {
    texts.iter().map(|text| words::vector(text, dimensions)).collect()
}

fn tokens(texts: &[String]) -> u64 {
    texts.iter().map(|text| words::tokens(text).max(1)).sum()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written {
    Float(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Item {
    object: &'static str,
    index: usize,
    embedding: Written,
}

#[derive(Serialize)]
struct List {
    object: &'static str,
    data: Vec<Item>,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

/// `POST …/embeddings`.
pub(super) fn openai(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    let texts = inputs(field(asked, "input")?)?;
    let wanted = asked.request.field("dimensions").map_or("output_dimension", |_| "dimensions");
    let dimensions = dimensions(asked, wanted)?;
    let form = match asked.request.field("encoding_format").or(asked.request.field("embedding_type")) {
        _ if asked.knobs.vectors.is_some() => asked.knobs.vectors.unwrap_or(Vectors::Float),
        None => Vectors::Float,
        Some(form) if form == "float" => Vectors::Float,
        Some(form) if form == "base64" => Vectors::Base64,
        Some(form) => return Err((400, format!("Invalid value for 'encoding_format': {form}."))),
    };
    let write = |vector: Vec<f32>| match form {
        Vectors::Float => Written::Float(vector),
        Vectors::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            Written::Base64(BASE64_STANDARD.encode(bytes))
        }
    };
    let vectors = embed(&texts, dimensions).into_iter().enumerate();
    let data = vectors.map(|(index, vector)| Item { object: "embedding", index, embedding: write(vector) }).collect();
    let count = tokens(&texts);
    let usage = match &asked.knobs.usage {
        Some(Value::Null) => None,
        Some(scripted) => Some(scripted.clone()),
        None if asked.strict() == Some(super::Strict::Voyage) => Some(json!({"total_tokens": count})),
        None => Some(json!({"prompt_tokens": count, "total_tokens": count})),
    };
    Ok(Draft::json(&List { object: "list", data, model: asked.model(), usage }))
}

/// `POST /v1/embed`, `/v2/embed` (Cohere).
pub(super) fn cohere(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    let texts = inputs(field(asked, "texts")?)?;
    let vectors = embed(&texts, dimensions(asked, "output_dimension")?);
    let id = format!("embed-mock{}", asked.number);
    let meta = json!({"api_version": {"version": "2"}, "billed_units": {"input_tokens": tokens(&texts)}});
    let is_listed = asked.request.field("embedding_types").is_some() || asked.request.path.contains("/v2/");
    if !is_listed {
        let body = json!({"id": id, "response_type": "embeddings_floats", "embeddings": vectors, "texts": texts, "meta": meta});
        return Ok(Draft::json(&body));
    }
    let embeddings = json!({"float": vectors});
    let body = json!({"id": id, "response_type": "embeddings_by_type", "embeddings": embeddings, "texts": texts, "meta": meta});
    Ok(Draft::json(&body))
}

/// `POST /embed` (TEI).
pub(super) fn tei(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    let texts = inputs(field(asked, "inputs")?)?;
    let vectors = embed(&texts, dimensions(asked, "dimensions")?);
    Ok(Draft::json(&vectors).header("x-compute-tokens", tokens(&texts).to_string()))
}

/// `POST /api/embed` (Ollama), which takes no token arrays.
pub(super) fn ollama(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    let input = field(asked, "input")?;
    let texts = match input {
        Value::Array(list) if list.is_empty() => Vec::new(),
        Value::Array(list) if !list.iter().all(Value::is_string) => return Err((400, "invalid input type".to_owned())),
        input => inputs(input)?,
    };
    let embeddings = embed(&texts, dimensions(asked, "dimensions")?);
    Ok(Draft::json(&json!({
        "model": asked.model(), "embeddings": embeddings, "total_duration": 1_000_000, "load_duration": 0,
        "prompt_eval_count": tokens(&texts),
    })))
}
