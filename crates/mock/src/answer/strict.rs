//! What each provider takes: the fields that its documentation lists, and nothing else.
//!
//! Sources: the providers' references named at [`Strict`], and for TEI its OpenAPI document.

use serde_json::{Map, Value};

use super::{Strict, Wrong};
use crate::request::Request;

/// The fields of one endpoint.
struct Form {
    path: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

const CHAT: Form = Form {
    path: "chat/completions",
    required: &["model", "messages"],
    optional: &[
        "stream",
        "stream_options",
        "max_completion_tokens",
        "max_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "seed",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
        "reasoning_effort",
        "verbosity",
        "modalities",
        "audio",
        "prediction",
        "service_tier",
        "store",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "user",
        "moderation",
        "web_search_options",
    ],
};
const COMPLETIONS: Form = Form {
    path: "completions",
    required: &["model", "prompt"],
    optional: &[
        "suffix",
        "max_tokens",
        "best_of",
        "echo",
        "logprobs",
        "n",
        "stream",
        "stream_options",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "user",
        "temperature",
        "top_p",
    ],
};
const EMBEDDINGS: Form =
    Form { path: "embeddings", required: &["model", "input"], optional: &["encoding_format", "dimensions", "user"] };

const COHERE_V1: &[Form] = &[
    Form {
        path: "rerank",
        required: &["query", "documents"],
        optional: &["model", "top_n", "return_documents", "rank_fields", "max_chunks_per_doc"],
    },
    Form {
        path: "embed",
        required: &["texts"],
        optional: &["model", "input_type", "embedding_types", "truncate", "images"],
    },
];
const COHERE_V2: &[Form] = &[
    Form {
        path: "rerank",
        required: &["model", "query", "documents"],
        optional: &["top_n", "max_tokens_per_doc", "priority", "relevant_spans"],
    },
    Form {
        path: "embed",
        required: &["model", "input_type"],
        optional: &[
            "texts",
            "images",
            "inputs",
            "embedding_types",
            "output_dimension",
            "truncate",
            "max_tokens",
            "priority",
        ],
    },
];
const JINA: &[Form] = &[
    Form {
        path: "rerank",
        required: &["model", "query", "documents"],
        optional: &["top_n", "return_documents", "truncation", "max_doc_length"],
    },
    Form {
        path: "embeddings",
        required: &["model", "input"],
        optional: &["task", "dimensions", "late_chunking", "truncate", "normalized", "embedding_type"],
    },
];
const VOYAGE: &[Form] = &[
    Form {
        path: "rerank",
        required: &["model", "query", "documents"],
        optional: &["top_k", "return_documents", "truncation"],
    },
    Form {
        path: "embeddings",
        required: &["model", "input"],
        optional: &["input_type", "truncation", "output_dimension", "output_dtype", "encoding_format"],
    },
];
const TEI: &[Form] = &[
    Form {
        path: "rerank",
        required: &["query", "texts"],
        optional: &["raw_scores", "return_text", "truncate", "truncation_direction"],
    },
    Form {
        path: "embed",
        required: &["inputs"],
        optional: &["normalize", "truncate", "truncation_direction", "prompt_name", "dimensions"],
    },
    Form { path: "embeddings", required: &["input"], optional: &["model", "dimensions", "encoding_format", "user"] },
];
const OPENAI: &[Form] = &[CHAT, COMPLETIONS, EMBEDDINGS];
const OLLAMA: &[Form] = &[
    Form {
        path: "api/chat",
        required: &["model", "messages"],
        optional: &[
            "stream",
            "format",
            "options",
            "tools",
            "keep_alive",
            "think",
            "truncate",
            "shift",
            "logprobs",
            "top_logprobs",
        ],
    },
    Form {
        path: "api/embed",
        required: &["model", "input"],
        optional: &["truncate", "dimensions", "keep_alive", "options"],
    },
];

const OLLAMA_OPTIONS: &[&str] = &[
    "num_ctx",
    "num_predict",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
    "stop",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "num_keep",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "use_mmap",
    "num_thread",
];

/// Refuses what the provider does not document: unknown fields, nulls, wrong forms, too many inputs.
pub(super) fn check(strict: Strict, request: &Request) -> Result<(), Wrong> {
    let Some(body) = request.json.as_ref().and_then(Value::as_object) else { return Ok(()) };
    // Ollama's OpenAI route skips over what it does not know.
    if strict == Strict::Ollama && request.path.starts_with("/v1/") {
        return Ok(());
    }
    let forms = match strict {
        Strict::OpenAi | Strict::Azure => OPENAI,
        Strict::CohereV1 => COHERE_V1,
        Strict::CohereV2 => COHERE_V2,
        Strict::Jina => JINA,
        Strict::Voyage => VOYAGE,
        Strict::Tei => TEI,
        Strict::Ollama => OLLAMA,
    };
    let Some(form) = forms.iter().find(|form| request.path.ends_with(&format!("/{}", form.path))) else {
        return Ok(());
    };
    let status = invalid_status(strict);
    for (name, value) in body {
        if !form.required.contains(&name.as_str()) && !form.optional.contains(&name.as_str()) {
            return Err((status, format!("Unrecognized request argument supplied: {name}")));
        }
        if value.is_null() {
            return Err((status, format!("Invalid type for '{name}': null")));
        }
    }
    for name in form.required {
        // Azure's deployment stands in the path.
        let is_in_path = strict == Strict::Azure && *name == "model";
        if !is_in_path && !body.contains_key(*name) {
            return Err((status, format!("Missing required parameter: '{name}'.")));
        }
    }
    let wrong = match strict {
        Strict::OpenAi | Strict::Azure => openai(form.path, body),
        Strict::Tei => tei(body),
        Strict::Ollama => ollama(body),
        Strict::CohereV2 => count(body, "texts", 96).or_else(|| bare_texts(body)),
        Strict::Voyage => count(body, "input", 1000).or_else(|| bare_texts(body)),
        Strict::CohereV1 => count(body, "texts", 96),
        Strict::Jina => count(body, "input", 2048),
    };
    wrong.map_or(Ok(()), |message| Err((status, message)))
}

const fn invalid_status(strict: Strict) -> u16 {
    match strict {
        Strict::Tei | Strict::CohereV1 | Strict::CohereV2 | Strict::Jina => 422,
        Strict::OpenAi | Strict::Azure | Strict::Voyage | Strict::Ollama => 400,
    }
}

fn count(body: &Map<String, Value>, field: &str, most: usize) -> Option<String> {
    let length = body.get(field)?.as_array()?.len();
    (length > most).then(|| format!("'{field}' has {length} entries, at most {most} are taken"))
}

fn bare_texts(body: &Map<String, Value>) -> Option<String> {
    let documents = body.get("documents")?.as_array()?;
    (!documents.iter().all(Value::is_string)).then(|| "each document must be a string".to_owned())
}

fn openai(path: &str, body: &Map<String, Value>) -> Option<String> {
    if path == EMBEDDINGS.path {
        let is_empty = |value: &Value| value.as_str().is_some_and(str::is_empty);
        let input = body.get("input")?;
        let has_empty = is_empty(input) || input.as_array().is_some_and(|list| list.iter().any(is_empty));
        return if has_empty { Some("'$.input' is invalid.".to_owned()) } else { count(body, "input", 2048) };
    }
    if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
        return Some("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.".to_owned());
    }
    if body.contains_key("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        return Some("The 'stream_options' parameter is only allowed when 'stream' is enabled.".to_owned());
    }
    tool_pairs(body)
}

/// Every `tool` message answers a call of the assistant message before it, and every call has its answer.
fn tool_pairs(body: &Map<String, Value>) -> Option<String> {
    let mut awaited: Vec<&str> = Vec::new();
    for message in body.get("messages")?.as_array()? {
        if message.get("role").is_some_and(|role| role == "tool") {
            let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or("");
            let Some(at) = awaited.iter().position(|known| *known == id) else {
                return Some(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.".to_owned(),
                );
            };
            awaited.swap_remove(at);
            continue;
        }
        if !awaited.is_empty() {
            break;
        }
        let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        awaited.extend(calls.iter().filter_map(|call| call.get("id").and_then(Value::as_str)));
    }
    let first = awaited.first()?;
    Some(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (no answer to {first})"
    ))
}

fn tei(body: &Map<String, Value>) -> Option<String> {
    let many = ["texts", "inputs", "input"].into_iter().find_map(|field| count(body, field, 32));
    if many.is_some() {
        return Some("batch size > maximum allowed batch size 32".to_owned());
    }
    let texts = body.get("texts")?.as_array()?;
    (!texts.iter().all(Value::is_string)).then(|| "each text must be a string".to_owned())
}

fn ollama(body: &Map<String, Value>) -> Option<String> {
    let unknown =
        |options: &Map<String, Value>| options.keys().find(|name| !OLLAMA_OPTIONS.contains(&name.as_str())).cloned();
    if let Some(name) = body.get("options").and_then(Value::as_object).and_then(unknown) {
        return Some(format!("invalid option provided: {name}"));
    }
    let messages = body.get("messages")?.as_array()?;
    let is_native = |message: &Value| {
        let text = message.get("content").is_none_or(Value::is_string);
        let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let arguments = |call: &Value| {
            call.get("function").and_then(|function| function.get("arguments")).is_some_and(Value::is_object)
        };
        text && calls.iter().all(arguments)
    };
    (!messages.iter().all(is_native))
        .then(|| "json: cannot unmarshal: content must be a string and tool arguments an object".to_owned())
}
