//! Voyage: rerank and embeddings (source: Voyage's API reference). The base URL is used as written,
//! `https://api.voyageai.com/v1`.

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;
use http::HeaderMap;

use super::base_url::Base;
use super::shared::{NoStream, cannot_answer, cannot_say, no_endpoint};
use crate::embeddings::{self, Counted, Encoding, Options, Purpose};
use crate::object::Object;
use crate::rerank::{self, Truncate, Wire};
use crate::{Added, Answer, Ask, Decode, Dialect, Encoded, Place, Refused, Target, View, errors};

/// Voyage.
#[derive(Debug)]
pub struct Voyage;

impl Dialect for Voyage {
    fn speaks(&self, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Embeddings | Endpoint::Rerank)
    }

    fn max_inputs(&self, endpoint: Endpoint) -> Option<usize> {
        (endpoint == Endpoint::Embeddings).then_some(1000)
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        match place.endpoint {
            Endpoint::Embeddings | Endpoint::Rerank => {
                let mut base = Base::of(base)?;
                let _ = base.without(&["rerank", "embeddings"]);
                Ok(base.join(place.endpoint.tail()))
            }
            other => Err(no_endpoint("voyage", other)),
        }
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        match &ask.view {
            View::Rerank(view) => rerank::encode(ask, view, target, Wire::Voyage),
            View::Embeddings(view) => embed(ask, view, target),
            _ => Err(cannot_say("voyage", ask.endpoint)),
        }
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, _: &HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        match &ask.view {
            View::Rerank(view) => rerank::answer(ask, view, target, None, &body),
            // Voyage's usage has `total_tokens` only.
            View::Embeddings(view) => embeddings::like_openai(view, body, Counted::Completed),
            _ => Err(cannot_answer("voyage", ask.endpoint)),
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
    match &options.purpose {
        Some(Purpose::Query) => body.text("input_type", "query"),
        Some(Purpose::Document) => body.text("input_type", "document"),
        Some(Purpose::Other(word)) => body.text("input_type", word),
        // Voyage embeds for these without a type.
        None | Some(Purpose::Classification | Purpose::Clustering) => {}
    }
    body.json_if("truncation", options.truncate.map(Truncate::as_bool));
    body.number_if("output_dimension", view.dimensions.map(|dimensions| dimensions as u64));
    body.json_if("encoding_format", (view.encoding == Encoding::Base64).then_some("\"base64\""));
    Ok(Encoded { body: body.into_bytes(), added: Added::default() })
}
