//! Cohere: rerank and embed, v1 and v2 (source: Cohere's API reference).
//!
//! Its clients are given the bare host and put the version in front of every path themselves, so a
//! base URL may end in one or not. One that ends in `/v1` gets the v1 API, every other one v2.

use base::{Class, Endpoint, Fault, Refusal};
use bytes::Bytes;
use http::HeaderMap;

use super::base_url::Base;
use super::shared::{NoStream, cannot_answer, cannot_say, no_endpoint};
use crate::embeddings::{self, Options, Purpose, Shape};
use crate::json::Value;
use crate::object::Object;
use crate::rerank::{self, Truncate, Wire};
use crate::{Added, Answer, Ask, Decode, Dialect, Encoded, Place, Refused, Target, View, errors};

/// The last segments of its endpoints.
const OWN: &[&str] = &["rerank", "embed"];

/// Cohere v1 or v2.
#[derive(Debug)]
pub struct Cohere;

impl Dialect for Cohere {
    fn speaks(&self, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Embeddings | Endpoint::Rerank)
    }

    fn max_inputs(&self, endpoint: Endpoint) -> Option<usize> {
        (endpoint == Endpoint::Embeddings).then_some(96)
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        let mut base = Base::of(base)?;
        let _ = base.without(OWN);
        let version = base.without(&["v1", "v2"]).unwrap_or("v2");
        match place.endpoint {
            Endpoint::Embeddings => Ok(base.join(&format!("{version}/embed"))),
            Endpoint::Rerank => Ok(base.join(&format!("{version}/rerank"))),
            other => Err(no_endpoint("cohere", other)),
        }
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        let is_v1 = Base::of(target.base_path).is_ok_and(|mut base| {
            let _ = base.without(OWN);
            base.without(&["v1"]).is_some()
        });
        match &ask.view {
            View::Rerank(view) => {
                rerank::encode(ask, view, target, if is_v1 { Wire::CohereV1 } else { Wire::CohereV2 })
            }
            View::Embeddings(view) => embed(ask, view, target, is_v1),
            _ => Err(cannot_say("cohere", ask.endpoint)),
        }
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, _: &HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        match &ask.view {
            View::Rerank(view) => rerank::answer(ask, view, target, None, &body),
            View::Embeddings(view) => embeddings::from_lists(view, &body, Shape::Embeddings, |others| {
                let units = others.get("meta").and_then(|meta| meta.get("billed_units"));
                let counted = units.and_then(|units| units.get("input_tokens")).and_then(Value::as_f64);
                embeddings::Made {
                    model: target.model.into(),
                    usage: embeddings::usage_or_estimate(ask, view, counted.map(|count| count as u64)),
                }
            }),
            _ => Err(cannot_answer("cohere", ask.endpoint)),
        }
    }

    fn fault(&self, _: &Ask, refused: &Refused<'_>) -> Fault {
        let fault = errors::refused(refused);
        // Cohere's own status for an invalid token.
        if refused.status == 498 { Fault { class: Class::Credential, maybe_processed: false, ..fault } } else { fault }
    }

    fn decoder(&self, _: &Ask, _: &Target<'_>) -> Box<dyn Decode> {
        Box::new(NoStream::default())
    }
}

fn embed(ask: &Ask, view: &embeddings::View, target: &Target<'_>, is_v1: bool) -> Result<Encoded, Refusal> {
    embeddings::known_encoding(view)?;
    if is_v1 && view.dimensions.is_some() {
        let message = "Cohere's v1 API has no output dimension; leave 'dimensions' out or use its v2";
        return Err(Refusal::field("dimensions", message));
    }
    let options = Options::read(&ask.body)?;
    let texts = embeddings::text_array(ask, view)?;
    let mut body = Object::with_capacity(texts.len() + 128);
    body.text("model", target.model);
    body.json("texts", &texts);
    let input_type = match &options.purpose {
        Some(Purpose::Query) => "search_query",
        None | Some(Purpose::Document) => "search_document",
        Some(Purpose::Classification) => "classification",
        Some(Purpose::Clustering) => "clustering",
        Some(Purpose::Other(word)) => word,
    };
    body.text("input_type", input_type);
    body.json("embedding_types", r#"["float"]"#);
    body.number_if("output_dimension", view.dimensions.map(|dimensions| dimensions as u64));
    body.json_if(
        "truncate",
        options.truncate.map(|cut| match cut {
            Truncate::Never => "\"NONE\"",
            Truncate::Start => "\"START\"",
            Truncate::End => "\"END\"",
        }),
    );
    Ok(Encoded { body: body.into_bytes(), added: Added::default() })
}
