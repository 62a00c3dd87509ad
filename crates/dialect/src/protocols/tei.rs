//! Hugging Face text-embeddings-inference, its own routes (source: its OpenAPI document).
//!
//! The base URL is the bare host; a `/v1` at its end, which belongs to the server's OpenAI routes,
//! is tolerated.

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;
use http::HeaderMap;

use super::base_url::Base;
use super::shared::{NoStream, cannot_answer, cannot_say, no_endpoint};
use crate::embeddings::{self, Options, Shape};
use crate::object::Object;
use crate::rerank::{self, Truncate, Wire};
use crate::{Added, Answer, Ask, Decode, Dialect, Encoded, Place, Refused, Target, View, errors};

/// text-embeddings-inference.
#[derive(Debug)]
pub struct Tei;

impl Dialect for Tei {
    fn speaks(&self, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Embeddings | Endpoint::Rerank)
    }

    /// The server's default `--max-client-batch-size`, for texts of either kind. It scores each
    /// document by itself, so a ranking may be split.
    fn max_inputs(&self, endpoint: Endpoint) -> Option<usize> {
        self.speaks(endpoint).then_some(32)
    }

    fn takes_token_ids(&self) -> bool {
        true
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        let mut base = Base::of(base)?;
        let _ = base.without(&["rerank", "embed"]);
        let _ = base.without(&["v1"]);
        match place.endpoint {
            Endpoint::Embeddings => Ok(base.join("embed")),
            Endpoint::Rerank => Ok(base.join("rerank")),
            other => Err(no_endpoint("tei", other)),
        }
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        match &ask.view {
            View::Rerank(view) => rerank::encode(ask, view, target, Wire::Tei),
            View::Embeddings(view) => embed(ask, view, target),
            _ => Err(cannot_say("tei", ask.endpoint)),
        }
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, headers: &HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        let counted = headers.get("x-compute-tokens").and_then(|value| value.to_str().ok()?.trim().parse().ok());
        match &ask.view {
            View::Rerank(view) => rerank::answer(ask, view, target, counted, &body),
            View::Embeddings(view) => embeddings::from_lists(view, &body, Shape::Bare, |_| embeddings::Made {
                model: target.model.into(),
                usage: embeddings::usage_or_estimate(ask, view, counted),
            }),
            _ => Err(cannot_answer("tei", ask.endpoint)),
        }
    }

    fn fault(&self, _: &Ask, refused: &Refused<'_>) -> Fault {
        errors::refused(refused)
    }

    fn decoder(&self, _: &Ask, _: &Target<'_>) -> Box<dyn Decode> {
        Box::new(NoStream::default())
    }
}

fn embed(ask: &Ask, view: &embeddings::View, target: &Target<'_>) -> Result<Encoded, Refusal> {
    embeddings::known_encoding(view)?;
    let options = Options::read(&ask.body)?;
    let decodes = target.decode_tokens && view.form.is_ids();
    let mut body = Object::with_capacity(ask.body.len() + 64);
    if decodes {
        body.json("inputs", &embeddings::text_input(ask, view)?);
    } else {
        body.key("inputs").extend_from_slice(ask.body.get(view.input.range()).unwrap_or_default());
    }
    body.json_if("normalize", options.raw("normalize"));
    body.json_if("truncate", options.truncate.map(Truncate::as_bool));
    if options.truncate == Some(Truncate::Start) {
        body.json("truncation_direction", "\"Left\"");
    }
    body.json_if("prompt_name", options.raw("prompt_name"));
    body.number_if("dimensions", view.dimensions.map(|dimensions| dimensions as u64));
    let added = Added { token_arrays: view.form.is_ids() && !decodes, ..Added::default() };
    Ok(Encoded { body: body.into_bytes(), added })
}
