//! The request as each provider wants it: its own fields only, nothing null.

use std::borrow::Cow;

use base::Refusal;

use super::{Truncate, View, slice};
use crate::object::Object;
use crate::{Added, Ask, Encoded, Target};

/// The request forms, with their source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Cohere's API reference, `POST /v1/rerank`.
    CohereV1,
    /// Cohere's API reference, `POST /v2/rerank`.
    CohereV2,
    /// Jina's OpenAPI document, `POST /v1/rerank`.
    Jina,
    /// What servers beside OpenAI's chat API offer as `/rerank`: vLLM, Infinity, Xinference,
    /// llama.cpp, SiliconFlow. All take Jina's core; what only some take goes out only where the
    /// caller gave it.
    OpenAi,
    /// Voyage's API reference, `POST /v1/rerank`.
    Voyage,
    /// The OpenAPI document of text-embeddings-inference, `POST /rerank`.
    Tei,
}

/// The request's body for one upstream.
///
/// # Errors
/// None so far; a protocol that cannot say a request would refuse it here.
pub fn encode(ask: &Ask, view: &View, target: &Target<'_>, wire: Wire) -> Result<Encoded, Refusal> {
    let mut body = Object::with_capacity(ask.body.len() + 64);
    if wire != Wire::Tei {
        body.text("model", target.model);
    }
    body.json("query", &query(ask, view, wire));
    write_documents(ask, view, body.key(if wire == Wire::Tei { "texts" } else { "documents" }));
    let top_n = view.top_n.and_then(|top_n| u64::try_from(top_n).ok());
    match wire {
        Wire::Tei => {}
        Wire::Voyage => body.number_if("top_k", top_n),
        _ => body.number_if("top_n", top_n),
    }
    if matches!(wire, Wire::Jina | Wire::OpenAi | Wire::Voyage) {
        // The gateway has the documents itself.
        body.json("return_documents", "false");
    }
    write_options(ask, view, wire, &mut body);
    Ok(Encoded { body: body.into_bytes(), added: Added::default() })
}

/// The query as a JSON string. Voyage has no field for an instruction and wants it before the query.
fn query<'a>(ask: &'a Ask, view: &'a View, wire: Wire) -> Cow<'a, str> {
    let query = view.query.json(&ask.body);
    match view.options.instruction {
        Some(instruction) if wire == Wire::Voyage => {
            let instruction = slice(&ask.body, instruction);
            let opened = instruction.strip_suffix('"').unwrap_or_default();
            Cow::Owned(format!("{opened}\\n{}", query.strip_prefix('"').unwrap_or_default()))
        }
        _ => Cow::Borrowed(query),
    }
}

fn write_documents(ask: &Ask, view: &View, out: &mut Vec<u8>) {
    let mut mark = b'[';
    for document in &view.documents {
        out.push(mark);
        out.extend_from_slice(document.text.json(&ask.body).as_bytes());
        mark = b',';
    }
    out.push(b']');
}

fn write_options(ask: &Ask, view: &View, wire: Wire, body: &mut Object) {
    let options = &view.options;
    let truncates = options.truncate.map(Truncate::as_bool);
    match wire {
        Wire::CohereV1 => body.number_if("max_chunks_per_doc", options.max_chunks_per_doc),
        Wire::CohereV2 => body.number_if("max_tokens_per_doc", options.max_tokens_per_doc),
        Wire::Jina | Wire::Voyage => body.json_if("truncation", truncates),
        Wire::OpenAi => {
            body.number_if("max_tokens_per_doc", options.max_tokens_per_doc);
            body.number_if("max_chunks_per_doc", options.max_chunks_per_doc);
            body.number_if("overlap_tokens", options.overlap_tokens);
            body.json_if("instruction", options.instruction.map(|text| slice(&ask.body, text)));
            body.json_if("raw_scores", view.raw_scores.then_some("true"));
            body.json_if("user", options.user.map(|text| slice(&ask.body, text)));
        }
        Wire::Tei => {
            // The server's own default depends on how it was started; ours does not.
            body.json("truncate", truncates.unwrap_or("true"));
            if options.truncate == Some(Truncate::Start) {
                body.json("truncation_direction", "\"Left\"");
            }
            body.json_if("raw_scores", view.raw_scores.then_some("true"));
        }
    }
}
