//! Where each provider has its endpoints, and in which form it reports errors.

use serde_json::{Value, json};

use super::Endpoint;
use crate::request::Request;

/// A provider whose paths and fields are taken literally: what it does not document is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// <https://platform.openai.com/docs/api-reference>
    OpenAi,
    /// <https://learn.microsoft.com/azure/ai-services/openai/reference>
    Azure,
    /// <https://docs.cohere.com/v1/reference/rerank>
    CohereV1,
    /// <https://docs.cohere.com/v2/reference/rerank>
    CohereV2,
    /// <https://api.jina.ai/redoc>
    Jina,
    /// <https://docs.voyageai.com/reference/reranker-api>
    Voyage,
    /// <https://huggingface.github.io/text-embeddings-inference>
    Tei,
    /// <https://github.com/ollama/ollama/blob/main/docs/api.md>
    Ollama,
}

impl Strict {
    /// Every mode with its name in a scenario.
    pub const ALL: [(&'static str, Self); 8] = [
        ("openai", Self::OpenAi),
        ("azure-openai", Self::Azure),
        ("cohere-v1", Self::CohereV1),
        ("cohere-v2", Self::CohereV2),
        ("jina", Self::Jina),
        ("voyage", Self::Voyage),
        ("tei", Self::Tei),
        ("ollama", Self::Ollama),
    ];
}

/// The endpoint behind a path, exactly as the provider documents it.
pub(super) fn endpoint(strict: Strict, request: &Request) -> Option<Endpoint> {
    let path = request.path.as_str();
    match strict {
        Strict::OpenAi => match path {
            "/v1/chat/completions" => Some(Endpoint::Chat),
            "/v1/completions" => Some(Endpoint::Completions),
            "/v1/embeddings" => Some(Endpoint::Embeddings),
            _ if path == "/v1/models" || path.starts_with("/v1/models/") => Some(Endpoint::Models),
            _ => None,
        },
        Strict::Azure => azure(request),
        Strict::CohereV1 => match path {
            "/v1/rerank" => Some(Endpoint::Rerank),
            "/v1/embed" => Some(Endpoint::CohereEmbed),
            "/v1/models" => Some(Endpoint::Models),
            _ => None,
        },
        Strict::CohereV2 => match path {
            "/v2/rerank" => Some(Endpoint::Rerank),
            "/v2/embed" => Some(Endpoint::CohereEmbed),
            "/v1/models" => Some(Endpoint::Models),
            _ => None,
        },
        Strict::Jina | Strict::Voyage => match path {
            "/v1/rerank" => Some(Endpoint::Rerank),
            "/v1/embeddings" => Some(Endpoint::Embeddings),
            _ => None,
        },
        Strict::Tei => match path {
            "/rerank" => Some(Endpoint::TeiRerank),
            "/embed" => Some(Endpoint::TeiEmbed),
            "/v1/embeddings" | "/embeddings" => Some(Endpoint::Embeddings),
            "/info" => Some(Endpoint::Info),
            "/health" => Some(Endpoint::Health),
            _ => None,
        },
        Strict::Ollama => match path {
            "/" => Some(Endpoint::Health),
            "/api/chat" => Some(Endpoint::OllamaChat),
            "/api/embed" => Some(Endpoint::OllamaEmbed),
            "/api/tags" => Some(Endpoint::OllamaTags),
            "/v1/chat/completions" => Some(Endpoint::Chat),
            "/v1/completions" => Some(Endpoint::Completions),
            "/v1/embeddings" => Some(Endpoint::Embeddings),
            _ if path == "/v1/models" || path.starts_with("/v1/models/") => Some(Endpoint::Models),
            _ => None,
        },
    }
}

/// `/openai/deployments/{name}/…?api-version=…`, or `/openai/v1/…`.
fn azure(request: &Request) -> Option<Endpoint> {
    let tail = if let Some(rest) = request.path.strip_prefix("/openai/deployments/") {
        let has_version = request.query.as_deref().is_some_and(|query| query.contains("api-version="));
        rest.split_once('/').filter(|(name, _)| has_version && !name.is_empty())?.1
    } else {
        request.path.strip_prefix("/openai/v1/")?
    };
    match tail {
        "chat/completions" => Some(Endpoint::Chat),
        "completions" => Some(Endpoint::Completions),
        "embeddings" => Some(Endpoint::Embeddings),
        "models" => Some(Endpoint::Models),
        _ => None,
    }
}

/// An error as that provider writes it; OpenAI's form where none is set.
pub(super) fn error(strict: Option<Strict>, path: &str, status: u16, message: &str) -> Value {
    match strict {
        None | Some(Strict::OpenAi | Strict::Azure) => openai(status, message),
        Some(Strict::CohereV1 | Strict::CohereV2) => json!({"id": "mock", "message": message}),
        Some(Strict::Jina | Strict::Voyage) => json!({"detail": message}),
        // TEI's OpenAI route has an error form of its own, without the wrapper.
        Some(Strict::Tei) if path.ends_with("/embeddings") => {
            json!({"message": message, "code": status, "type": tei_type(status)})
        }
        Some(Strict::Tei) => json!({"error": message, "error_type": tei_type(status)}),
        Some(Strict::Ollama) if path.starts_with("/v1/") => {
            json!({"error": {"message": message, "type": "api_error", "param": null, "code": null}})
        }
        Some(Strict::Ollama) => json!({"error": message}),
    }
}

fn tei_type(status: u16) -> &'static str {
    match status {
        400 => "Empty",
        413 | 422 => "Validation",
        424 => "Backend",
        429 => "Overloaded",
        _ => "Unhealthy",
    }
}

fn openai(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        404 if message.starts_with("The model") => ("invalid_request_error", json!("model_not_found")),
        429 => ("requests", json!("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", Value::Null),
        _ => ("server_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
