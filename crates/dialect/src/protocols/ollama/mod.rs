//! Ollama's own API: `/api/chat` and `/api/embed` (source: Ollama's API documentation, and the
//! structures of its `api` package).
//!
//! The base URL is the bare host; `/v1` or `/api` at its end is tolerated. Of the caller's fields
//! those go out that Ollama has a word for, under its own names: [`request`] lists them. What it has
//! no word for (`logit_bias`, `tool_choice` other than `none`, `user`, `store`, …) is left out, and
//! what would change the answer's form (`n`, images by URL, audio) is refused.

mod answer;
mod request;
mod stream;

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;
use http::HeaderMap;

use super::base_url::Base;
use super::shared::{NoStream, cannot_answer, cannot_say, no_endpoint};
use crate::embeddings::{self, Options, Shape};
use crate::json::Value;
use crate::object::Object;
use crate::rerank::Truncate;
use crate::{Added, Answer, Ask, Decode, Dialect, Encoded, Place, Refused, Target, View, errors};

/// Ollama.
#[derive(Debug)]
pub struct Ollama;

impl Dialect for Ollama {
    fn speaks(&self, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Chat | Endpoint::Embeddings)
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        let mut base = Base::of(base)?;
        let _ = base.without(&["chat", "embed"]);
        let _ = base.without(&["v1", "api"]);
        match place.endpoint {
            Endpoint::Chat => Ok(base.join("api/chat")),
            Endpoint::Embeddings => Ok(base.join("api/embed")),
            other => Err(no_endpoint("ollama", other)),
        }
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        let body = match &ask.view {
            View::Chat(chat) => request::chat(ask, chat, target)?,
            View::Embeddings(view) => embed(ask, view, target)?,
            _ => return Err(cannot_say("ollama", ask.endpoint)),
        };
        Ok(Encoded { body, added: Added::default() })
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, _: &HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        match &ask.view {
            View::Chat(_) if ask.stream => stream::of_whole(ask, target, &body),
            View::Chat(_) => answer::whole(ask, target, &body),
            View::Embeddings(view) => embeddings::from_lists(view, &body, Shape::Embeddings, |others| {
                let counted = others.get("prompt_eval_count").and_then(Value::as_u64);
                embeddings::Made {
                    model: others.text("model").unwrap_or(target.model.into()),
                    usage: embeddings::usage_or_estimate(ask, view, counted),
                }
            }),
            _ => Err(cannot_answer("ollama", ask.endpoint)),
        }
    }

    fn fault(&self, _: &Ask, refused: &Refused<'_>) -> Fault {
        errors::refused(refused)
    }

    fn decoder(&self, ask: &Ask, target: &Target<'_>) -> Box<dyn Decode> {
        match &ask.view {
            View::Chat(_) => Box::new(stream::Lines::new(ask, target)),
            _ => Box::new(NoStream::default()),
        }
    }
}

/// Token ids are always turned to text: Ollama takes texts only.
fn embed(ask: &Ask, view: &embeddings::View, target: &Target<'_>) -> Result<Bytes, Refusal> {
    embeddings::known_encoding(view)?;
    let options = Options::read(&ask.body)?;
    let input = embeddings::text_input(ask, view)?;
    let mut body = Object::with_capacity(input.len() + 128);
    body.text("model", target.model);
    body.json("input", &input);
    body.json_if("truncate", options.truncate.map(Truncate::as_bool));
    body.number_if("dimensions", view.dimensions.map(|dimensions| dimensions as u64));
    body.json_if("keep_alive", options.raw("keep_alive"));
    body.json_if("options", options.raw("options"));
    Ok(body.into_bytes())
}
