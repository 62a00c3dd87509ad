//! `GET /v1/models` and `/v1/models/{id}`: just the routes that this key may use.

use base::{Code, Refusal};
use config::{Client, Route, Snapshot};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// What the path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    List,
    /// One, by its decoded id.
    One(String),
}

/// The model resource behind a path as callers write it; ids may hold slashes, raw or `%2F`.
#[must_use]
pub fn of_path(path: &str) -> Option<Wanted> {
    let mut rest = path.trim_start_matches('/');
    while let Some(tail) = rest.strip_prefix("v1/") {
        rest = tail.trim_start_matches('/');
    }
    let tail = rest.strip_prefix("models")?;
    if tail.trim_matches('/').is_empty() {
        return Some(Wanted::List);
    }
    let id = tail.strip_prefix('/')?.trim_matches('/');
    Some(Wanted::One(percent_decode_str(id).decode_utf8().ok()?.into_owned()))
}

/// The answer's body.
///
/// # Errors
/// `model_not_found`, also for routes that this client may not use.
pub fn answer(snapshot: &Snapshot, client: &Client, wanted: &Wanted) -> Result<String, Refusal> {
    let mut allowed = snapshot.routes.iter().filter(|route| client.may_use(route));
    match wanted {
        Wanted::List => {
            let mut seen = std::collections::BTreeSet::new();
            let models: Vec<Value> =
                allowed.filter(|route| seen.insert(route.model.as_str())).map(|route| model(route)).collect();
            Ok(json!({ "object": "list", "data": models }).to_string())
        }
        Wanted::One(id) => match allowed.find(|route| route.model == *id) {
            Some(route) => Ok(model(route).to_string()),
            None => Err(Refusal {
                param: Some("model".into()),
                ..Refusal::new(Code::ModelNotFound, "no such model for this key; GET /v1/models lists what it may use")
            }),
        },
    }
}

fn model(route: &Route) -> Value {
    // A route has no date of its own; OpenAI's clients want a number.
    json!({ "id": route.model, "object": "model", "created": 0, "owned_by": "mai-gateway" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_hold_slashes_raw_or_encoded() {
        for path in ["/v1/models/BAAI/bge-m3", "/models/BAAI%2Fbge-m3", "/v1/v1/models/BAAI%2fbge-m3/"] {
            assert_eq!(of_path(path), Some(Wanted::One("BAAI/bge-m3".to_owned())), "{path}");
        }
        assert_eq!(of_path("/v1/models/%E9%97%AE"), Some(Wanted::One("问".to_owned())));
        assert_eq!(of_path("/v1/models/"), Some(Wanted::List));
        assert_eq!(of_path("//models"), Some(Wanted::List));
        assert_eq!(of_path("/v1/modelsx"), None);
        assert_eq!(of_path("/v1/chat/completions"), None);
        assert_eq!(of_path("/v1/models/%FF"), None);
    }
}
