//! `explain`: what would happen to a request, up to the order of upstreams; nothing is sent.

use std::io::Read as _;
use std::process::ExitCode;

use base::{Endpoint, KeyHasher};
use serde_json::{Value, json};

use crate::{BAD_CONFIG, CLEAN, check, complain, say};
use mai::args::ExplainFlags;

/// A request file larger than this is no request.
const LARGEST: u64 = 256 << 20;

/// `mai-gateway explain`
pub fn explain(flags: &ExplainFlags) -> ExitCode {
    match explained(flags) {
        Ok(story) if flags.json => say(format!("{story:#}")),
        Ok(story) => say(table(&story)),
        Err(message) => {
            complain(message);
            return BAD_CONFIG.into();
        }
    }
    CLEAN.into()
}

fn explained(flags: &ExplainFlags) -> Result<Value, String> {
    let source = check::source(&flags.at).ok_or("no configuration: name one with --config PATH or MAI_CONFIG")?;
    let loaded = config::load(&source, &check::env, &KeyHasher::new(&[0; 64])).map_err(|errors| errors.to_string())?;
    let body = read(flags)?;
    let endpoint = endpoint(flags, &body)?;
    gateway::explain::explain(&loaded.snapshot, &flags.client, endpoint, body.into())
}

fn read(flags: &ExplainFlags) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let failed = |error: std::io::Error| format!("{}: {error}", flags.request.display());
    if flags.request.as_os_str() == "-" {
        std::io::stdin().take(LARGEST).read_to_end(&mut body).map_err(failed)?;
    } else {
        let file = std::fs::File::open(&flags.request).map_err(failed)?;
        file.take(LARGEST).read_to_end(&mut body).map_err(failed)?;
    }
    Ok(body)
}

/// The endpoint that was named, or the one whose fields the body has.
fn endpoint(flags: &ExplainFlags, body: &[u8]) -> Result<Endpoint, String> {
    if let Some(path) = &flags.path {
        return Endpoint::of_path(path).ok_or_else(|| format!("--path {path}: no such path on the data port"));
    }
    let fields: Value = serde_json::from_slice(body).unwrap_or(json!({}));
    let has = |name: &str| fields.get(name).is_some();
    Ok(match () {
        () if has("messages") => Endpoint::Chat,
        () if has("documents") || has("texts") => Endpoint::Rerank,
        () if has("prompt") => Endpoint::Completions,
        () if has("input") => Endpoint::Embeddings,
        () => return Err("the body does not tell its endpoint; name it with --path /v1/…".to_owned()),
    })
}

fn table(story: &Value) -> String {
    let Some(steps) = story.as_object() else { return story.to_string() };
    let width = steps.keys().map(String::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (step, value) in steps {
        match value {
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let head = if at == 0 { step.as_str() } else { "" };
                    lines.push(format!("{head:width$}  {}", plain(item)));
                }
            }
            value => lines.push(format!("{step:width$}  {}", plain(value))),
        }
    }
    lines.join("\n")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Object(fields) => {
            let pairs: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
            pairs.join("  ")
        }
        other => other.to_string(),
    }
}
