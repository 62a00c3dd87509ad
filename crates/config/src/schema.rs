//! The table of keys as a JSON Schema, from which editors complete.

use base::Endpoint;
use dialect::Protocol;
use serde_json::{Map, Value, json};

use crate::check::LONGEST_NAME;
use crate::shape::Branch;
use crate::table::{Kind, Preset, preset_items};

/// The JSON Schema of the configuration (draft 2020-12), with descriptions and defaults.
///
/// It describes a file as it is written: whatever is no text may also be a `${VARIABLE}`.
#[must_use]
pub fn schema() -> String {
    let mut schema = Map::new();
    schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".into(), json!("MAI Gateway configuration"));
    schema.extend(table(&Branch::root()));
    schema.insert("$defs".into(), definitions());
    format!("{:#}\n", Value::Object(schema))
}

fn definitions() -> Value {
    let paths: Vec<String> = Endpoint::ALL.iter().map(|endpoint| format!("/v1/{}", endpoint.tail())).collect();
    json!({
        "variable": { "type": "string", "pattern": "\\$\\{" },
        "duration": {
            "description": "250ms, 3s, 5m, 2h, 7d, or a bare number of milliseconds",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *(ms|s|m|h|d)$|^[0-9]+$|\\$\\{" }
            ]
        },
        "size": {
            "description": "10MiB, 2GB, or a bare number of bytes",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *([KMGT]i?B|B)$|^[0-9]+$|\\$\\{" }
            ]
        },
        "endpoint": { "type": "string", "examples": paths }
    })
}

/// A mapping with the keys of the table.
fn table(branch: &Branch) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for child in &branch.children {
        let Some(key) = child.key else { continue };
        let mut property = kind(child, key.kind);
        let mut text = key.text.to_owned();
        if let Some(capability) = child.waits_for() {
            text.push_str(&format!(" Accepted, but not in force in this version: it comes with {capability}."));
        }
        property.insert("description".into(), text.into());
        match key.preset {
            Preset::Is(value) => {
                property.insert("default".into(), preset(key.kind, value));
            }
            Preset::By(chat, embeddings, rerank) => {
                let words = format!("{chat} for chat, {embeddings} for embeddings, {rerank} for rerank");
                property.insert("$comment".into(), format!("default: {words}").into());
            }
            Preset::Words(words) => {
                property.insert("$comment".into(), format!("default: {words}").into());
            }
            Preset::Nothing => {}
        }
        properties.insert(child.name.to_owned(), Value::Object(property));
        if key.is_required {
            required.push(child.name);
        }
    }
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("additionalProperties".into(), json!(false));
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema
}

fn kind(branch: &Branch, wanted: Kind) -> Map<String, Value> {
    let or_variable = |value: Value| json!({ "anyOf": [value, { "$ref": "#/$defs/variable" }] });
    let schema = match wanted {
        Kind::Text | Kind::Glob | Kind::File | Kind::Folder | Kind::Address => {
            json!({ "type": "string", "minLength": 1 })
        }
        Kind::Name => json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_NAME }),
        Kind::Secret => json!({ "type": "string", "minLength": 1, "writeOnly": true }),
        Kind::Pattern(_) => json!({ "type": "string", "format": "regex" }),
        Kind::Endpoint => json!({ "$ref": "#/$defs/endpoint" }),
        Kind::Url(schemes) => json!({ "type": "string", "pattern": format!("^({})://|\\$\\{{", schemes.join("|")) }),
        Kind::Duration | Kind::Wait => json!({ "$ref": "#/$defs/duration" }),
        Kind::Size(..) => json!({ "$ref": "#/$defs/size" }),
        Kind::Integer(least, most) => or_variable(json!({ "type": "integer", "minimum": least, "maximum": most })),
        Kind::Above(least, most) => {
            or_variable(json!({ "type": "number", "exclusiveMinimum": least, "maximum": most }))
        }
        Kind::Number(f64::MIN, f64::MAX) => or_variable(json!({ "type": "number" })),
        Kind::Number(least, most) => or_variable(json!({ "type": "number", "minimum": least, "maximum": most })),
        Kind::Bool => or_variable(json!({ "type": "boolean" })),
        Kind::Protocol => or_variable(json!({ "enum": Protocol::ALL.map(Protocol::as_str) })),
        Kind::Choice(words) => or_variable(json!({ "enum": words })),
        Kind::Table => return table(branch),
        Kind::List(inner) => {
            json!({ "type": "array", "items": kind(branch.item.as_deref().unwrap_or(branch), *inner) })
        }
        Kind::Map(inner) => json!({ "type": "object", "additionalProperties": kind(branch, *inner) }),
        Kind::Any => json!({}),
        Kind::Either(kinds) => {
            let forms: Vec<_> = kinds.iter().map(|form| Value::Object(kind(branch, *form))).collect();
            json!({ "anyOf": forms })
        }
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// A default as JSON: numbers and truths as such, lists of durations as lists.
fn preset(kind: Kind, value: &'static str) -> Value {
    match kind {
        Kind::List(inner) => Value::Array(preset_items(value).map(|item| preset(*inner, item)).collect()),
        Kind::Integer(..) | Kind::Number(..) | Kind::Above(..) | Kind::Bool => {
            serde_json::from_str(value).unwrap_or_else(|_| value.into())
        }
        _ => value.into(),
    }
}
