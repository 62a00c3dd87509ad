//! `explain`: what would happen to a request, up to the order of upstreams; nothing is sent.

use std::process::ExitCode;

use base::KeyHasher;
use serde_json::Value;

use crate::{BAD_CONFIG, CLEAN, check, complain, files, say};
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
    let source = check::source(&flags.at).ok_or_else(check::none)?;
    let loaded = config::load(&source, &check::env, &KeyHasher::new(&[0; 64])).map_err(|errors| errors.to_string())?;
    let body = files::bytes(&flags.request, LARGEST)?;
    let endpoint = gateway::explain::endpoint(flags.path.as_deref(), &body).map_err(|wrong| match wrong {
        // A path would not help.
        wrong if wrong.contains("not valid JSON") => format!("{}: {wrong}", files::name(&flags.request)),
        wrong => format!("{wrong} (option --path /v1/…)"),
    })?;
    gateway::explain::explain(&loaded.snapshot, &flags.client, endpoint, body.into())
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
