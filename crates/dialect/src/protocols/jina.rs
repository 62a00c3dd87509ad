//! Jina: rerank and embeddings (source: Jina's OpenAPI document). The base URL is used as written,
//! `https://api.jina.ai/v1`.

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;
use http::HeaderMap;

use super::base_url::Base;
use super::shared::{NoStream, cannot_answer, cannot_say, no_endpoint};
use crate::embeddings::{self, Counted, Options, Purpose};
use crate::object::Object;
use crate::rerank::{self, Truncate, Wire};
use crate::{Added, Answer, Ask, Decode, Dialect, Encoded, Place, Refused, Target, View, errors};

/// Jina.
#[derive(Debug)]
pub struct Jina;

impl Dialect for Jina {
    fn speaks(&self, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Embeddings | Endpoint::Rerank)
    }

    fn max_inputs(&self, endpoint: Endpoint) -> Option<usize> {
        (endpoint == Endpoint::Embeddings).then_some(2048)
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        match place.endpoint {
            Endpoint::Embeddings | Endpoint::Rerank => {
                let mut base = Base::of(base)?;
                let _ = base.without(&["rerank", "embeddings"]);
                Ok(base.join(place.endpoint.tail()))
            }
            other => Err(no_endpoint("jina", other)),
        }
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        match &ask.view {
            View::Rerank(view) => rerank::encode(ask, view, target, Wire::Jina),
            View::Embeddings(view) => embed(ask, view, target),
            _ => Err(cannot_say("jina", ask.endpoint)),
        }
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, _: &HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        match &ask.view {
            View::Rerank(view) => rerank::answer(ask, view, target, None, &body),
            View::Embeddings(view) => embeddings::like_openai(view, body, Counted::Completed),
            _ => Err(cannot_answer("jina", ask.endpoint)),
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
    let input = embeddings::text_input(ask, view)?;
    let mut body = Object::with_capacity(input.len() + 128);
    body.text("model", target.model);
    body.json("input", &input);
    if let Some(purpose) = &options.purpose {
        let task = match purpose {
            Purpose::Query => "retrieval.query",
            Purpose::Document => "retrieval.passage",
            Purpose::Classification => "classification",
            Purpose::Clustering => "separation",
            Purpose::Other(word) => word,
        };
        body.text("task", task);
    }
    body.number_if("dimensions", view.dimensions.map(|dimensions| dimensions as u64));
    body.json_if("truncate", options.truncate.map(Truncate::as_bool));
    body.json_if("normalized", options.raw("normalized"));
    body.json_if("late_chunking", options.raw("late_chunking"));
    Ok(Encoded { body: body.into_bytes(), added: Added::default() })
}
