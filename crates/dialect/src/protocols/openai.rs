//! OpenAI, and everything that speaks like it (source: OpenAI's API reference).

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;

use super::base_url::Base;
use crate::embeddings::{self, Counted};
use crate::rerank::{self, Wire};
use crate::{Added, Answer, Ask, Decode, Dialect, Encoded, Place, Refused, Target, View, chat, errors};

/// OpenAI's wire format.
#[derive(Debug)]
pub struct OpenAi;

impl Dialect for OpenAi {
    fn speaks(&self, _: Endpoint) -> bool {
        true
    }

    /// OpenAI's documented bound on the array of `input`.
    fn max_inputs(&self, endpoint: Endpoint) -> Option<usize> {
        (endpoint == Endpoint::Embeddings).then_some(2048)
    }

    fn takes_token_ids(&self) -> bool {
        true
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        Base::of(base)?.join_once(place.endpoint.tail(), None)
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        match &ask.view {
            View::Chat(view) | View::Completions(view) => Ok(chat::encode(ask, view, target)),
            View::Embeddings(view) => embeddings::encode_openai(ask, view, target),
            View::Rerank(view) => rerank::encode(ask, view, target, Wire::OpenAi),
            View::Responses(_) | View::Pass => {
                Ok(Encoded { body: ask.with_model(target.model), added: Added::default() })
            }
        }
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, headers: &http::HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        match &ask.view {
            View::Chat(view) | View::Completions(view) => chat::answer(ask, view, &body),
            View::Embeddings(view) => embeddings::like_openai(view, body, Counted::AsWritten),
            View::Rerank(view) => rerank::answer(ask, view, target, None, &body),
            View::Responses(_) | View::Pass => chat::pass(ask, headers, body),
        }
    }

    fn fault(&self, _: &Ask, refused: &Refused<'_>) -> Fault {
        errors::refused(refused)
    }

    fn decoder(&self, ask: &Ask, target: &Target<'_>) -> Box<dyn Decode> {
        match ask.chat() {
            Some(view) => Box::new(chat::Chunks::new(ask, view, target)),
            None => Box::new(chat::Typed::new(ask)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(base: &str, endpoint: Endpoint) -> Result<String, String> {
        OpenAi.path(base, &Place { endpoint, model: "m", api_version: None })
    }

    #[test]
    fn every_way_to_write_a_base_gives_one_path() {
        for (base, expected) in [
            ("", "/chat/completions"),
            ("/", "/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/v1/", "/v1/chat/completions"),
            ("//v1//", "/v1/chat/completions"),
            ("/api/openai", "/api/openai/chat/completions"),
            ("/v1beta/openai/", "/v1beta/openai/chat/completions"),
            ("/x?api-version=2", "/x/chat/completions?api-version=2"),
            ("/x/?api-version=2&b=%20", "/x/chat/completions?api-version=2&b=%20"),
            ("/v1?", "/v1/chat/completions"),
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/chat/completions/", "/v1/chat/completions"),
            ("/chat/completions?x=1", "/chat/completions?x=1"),
            ("/api/paas/v4", "/api/paas/v4/chat/completions"),
        ] {
            assert_eq!(path(base, Endpoint::Chat).as_deref(), Ok(expected), "{base}");
        }
        assert_eq!(path("/v1/embeddings", Endpoint::Embeddings).unwrap(), "/v1/embeddings");
        assert_eq!(path("/v1", Endpoint::Completions).unwrap(), "/v1/completions");
        assert_eq!(path("/compatible-api/v1/reranks", Endpoint::Rerank).unwrap(), "/compatible-api/v1/reranks");
    }

    #[test]
    fn a_base_that_cannot_work_is_told() {
        for (base, endpoint) in [
            ("/v1/embeddings", Endpoint::Chat),
            ("/v1/chat/completions", Endpoint::Completions),
            ("/v1 /x", Endpoint::Chat),
            ("/模型", Endpoint::Chat),
        ] {
            assert!(path(base, endpoint).is_err(), "{base}");
        }
    }
}
