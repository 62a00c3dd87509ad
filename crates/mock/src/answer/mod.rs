//! The built-in answers: what a sound model server would say.

mod chat;
mod forms;
mod ollama;
mod rerank;
mod strict;
mod vectors;

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::reply::Knobs;
use crate::request::Request;

pub use forms::Strict;

/// What the whole mock is set to.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) strict: Option<Strict>,
    pub(crate) key: Option<String>,
    pub(crate) models: Vec<String>,
    pub(crate) dimensions: usize,
    pub(crate) word_delay: Duration,
}

/// A sound answer, before anything goes wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content_type: &'static str,
    pub(crate) body: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Whole(Vec<u8>),
    /// Events with the wait before each.
    Stream(Vec<(Duration, String)>),
}

impl Draft {
    fn json(value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self { status: 200, headers: Vec::new(), content_type: "application/json", body: Content::Whole(body) }
    }

    fn stream(content_type: &'static str, events: Vec<(Duration, String)>) -> Self {
        Self { status: 200, headers: Vec::new(), content_type, body: Content::Stream(events) }
    }

    fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// One call on its way to an answer.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    pub(crate) knobs: &'a Knobs,
    pub(crate) settings: &'a Settings,
    /// The call's number, for ids.
    pub(crate) number: u64,
}

impl Asked<'_> {
    fn model(&self) -> String {
        let asked = self.request.model();
        self.knobs.model.clone().unwrap_or_else(|| if asked.is_empty() { "mock".to_owned() } else { asked.to_owned() })
    }

    fn is_streaming(&self) -> bool {
        self.knobs.stream.unwrap_or_else(|| self.request.is_streaming())
    }

    fn strict(&self) -> Option<Strict> {
        self.settings.strict
    }
}

/// What is wrong with a call: a status and a sentence.
pub(crate) type Wrong = (u16, String);

/// The endpoints that the mock knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Completions,
    Embeddings,
    CohereEmbed,
    TeiEmbed,
    OllamaEmbed,
    OllamaChat,
    OllamaTags,
    Rerank,
    TeiRerank,
    Models,
    Info,
    Health,
}

/// The answer to a call that nothing was scripted for.
pub(crate) fn answer(asked: &Asked<'_>) -> Draft {
    match try_answer(asked) {
        Ok(draft) => draft,
        Err((status, message)) => refusal(asked, status, &message),
    }
}

/// An error in the form of the provider that the call was made for.
pub(crate) fn refusal(asked: &Asked<'_>, status: u16, message: &str) -> Draft {
    let body = forms::error(asked.strict(), &asked.request.path, status, message);
    let draft = Draft::json(&body).with_status(status);
    if status == 429 { draft.header("retry-after", "1") } else { draft }
}

fn try_answer(asked: &Asked<'_>) -> Result<Draft, Wrong> {
    let request = asked.request;
    let endpoint = find(asked)?;
    if endpoint != Endpoint::Health {
        authorize(asked)?;
    }
    if matches!(endpoint, Endpoint::Models | Endpoint::OllamaTags | Endpoint::Info | Endpoint::Health) {
        return look_up(asked, endpoint);
    }
    if request.method != "POST" {
        return Err((405, format!("{} is not taken here; use POST", request.method)));
    }
    if !request.json.as_ref().is_some_and(Value::is_object) {
        return Err((400, "The body is not a JSON object.".to_owned()));
    }
    if let Some(strict) = asked.strict() {
        strict::check(strict, request)?;
    }
    match endpoint {
        Endpoint::Chat => chat::chat(asked),
        Endpoint::Completions => chat::completions(asked),
        Endpoint::Embeddings => vectors::openai(asked),
        Endpoint::CohereEmbed => vectors::cohere(asked),
        Endpoint::TeiEmbed => vectors::tei(asked),
        Endpoint::OllamaEmbed => vectors::ollama(asked),
        Endpoint::OllamaChat => ollama::chat(asked),
        _ => rerank::rerank(asked, endpoint == Endpoint::TeiRerank),
    }
}

fn find(asked: &Asked<'_>) -> Result<Endpoint, Wrong> {
    let path = asked.request.path.as_str();
    let found = match asked.strict() {
        Some(strict) => forms::endpoint(strict, asked.request),
        None => lenient(path, asked.request),
    };
    found.ok_or_else(|| (404, format!("Invalid URL ({} {path})", asked.request.method)))
}

/// Any prefix will do, and forms that share a path are told apart by their fields.
fn lenient(path: &str, request: &Request) -> Option<Endpoint> {
    let path = path.trim_end_matches('/');
    let ends = |tail: &str| path.ends_with(tail);
    Some(match () {
        () if ends("/chat/completions") => Endpoint::Chat,
        () if ends("/completions") => Endpoint::Completions,
        () if ends("/api/chat") => Endpoint::OllamaChat,
        () if ends("/api/embed") => Endpoint::OllamaEmbed,
        () if ends("/api/tags") => Endpoint::OllamaTags,
        () if ends("/embeddings") => Endpoint::Embeddings,
        () if ends("/embed") && request.field("inputs").is_some() && path == "/embed" => Endpoint::TeiEmbed,
        () if ends("/embed") => Endpoint::CohereEmbed,
        () if (ends("/rerank") || ends("/reranks")) && request.field("texts").is_some() => Endpoint::TeiRerank,
        () if ends("/rerank") || ends("/reranks") => Endpoint::Rerank,
        () if ends("/models") || path.contains("/models/") => Endpoint::Models,
        () if ends("/info") => Endpoint::Info,
        () if ends("/health") || ends("/healthz") || path.is_empty() => Endpoint::Health,
        () => return None,
    })
}

/// Where the scenario names a key, only that key is served.
fn authorize(asked: &Asked<'_>) -> Result<(), Wrong> {
    let Some(key) = &asked.settings.key else { return Ok(()) };
    let bearer = asked.request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let plain = ["api-key", "x-api-key"].into_iter().find_map(|name| asked.request.header(name));
    let sent = if asked.strict() == Some(Strict::Azure) { plain.or(bearer) } else { bearer.or(plain) };
    if sent == Some(key) { Ok(()) } else { Err((401, "Incorrect API key provided.".to_owned())) }
}

fn look_up(asked: &Asked<'_>, endpoint: Endpoint) -> Result<Draft, Wrong> {
    let models = &asked.settings.models;
    match endpoint {
        Endpoint::Health => Ok(Draft::json(&json!({"status": "ok"}))),
        Endpoint::Info => Ok(Draft::json(&json!({
            "model_id": models.first(), "max_client_batch_size": 32, "max_input_length": 8192,
            "max_batch_tokens": 16384, "auto_truncate": true, "version": "mock",
        }))),
        Endpoint::OllamaTags => {
            let list: Vec<Value> = models.iter().map(|name| json!({"name": name, "model": name, "size": 0})).collect();
            Ok(Draft::json(&json!({"models": list})))
        }
        _ => {
            let entry = |id: &str| json!({"id": id, "object": "model", "created": 0, "owned_by": "mock"});
            match asked.request.path.split_once("/models/") {
                None => {
                    let list: Vec<Value> = models.iter().map(|id| entry(id)).collect();
                    Ok(Draft::json(&json!({"object": "list", "data": list})))
                }
                Some((_, id)) if models.iter().any(|known| known == &id.replace("%2F", "/")) => {
                    Ok(Draft::json(&entry(&id.replace("%2F", "/"))))
                }
                Some((_, id)) => Err((404, format!("The model `{id}` does not exist"))),
            }
        }
    }
}
