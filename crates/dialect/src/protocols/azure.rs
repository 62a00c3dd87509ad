//! Azure OpenAI (source: Azure's REST reference): OpenAI's bodies behind other paths.
//!
//! Classic: `{endpoint}/openai/deployments/{model}/{endpoint path}?api-version=…`, where the path
//! decides the model. A base that ends in `/openai/v1` speaks the newer form, where the body does.

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;

use super::base_url::Base;
use super::openai::OpenAi;
use crate::{Answer, Ask, Auth, Decode, Dialect, Encoded, Place, Refused, Target};

/// The API version of the classic form where none is configured: the latest that is generally
/// available there.
pub const API_VERSION: &str = "2024-10-21";

/// Azure OpenAI's wire format.
#[derive(Debug)]
pub struct Azure;

impl Dialect for Azure {
    fn speaks(&self, endpoint: Endpoint) -> bool {
        !matches!(endpoint, Endpoint::Rerank | Endpoint::Moderations)
    }

    fn auth(&self) -> Auth {
        Auth::Header("api-key")
    }

    /// OpenAI's documented bound on the array of `input`.
    fn max_inputs(&self, endpoint: Endpoint) -> Option<usize> {
        (endpoint == Endpoint::Embeddings).then_some(2048)
    }

    fn takes_token_ids(&self) -> bool {
        true
    }

    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        let tail = place.endpoint.tail();
        if !self.speaks(place.endpoint) {
            return Err(format!("Azure OpenAI has no endpoint '/{tail}'"));
        }
        let mut base = Base::of(base)?;
        let version = place.api_version.map(percent_encoded);
        if base.path.ends_with("/openai/v1") || base.path.contains("/openai/v1/") {
            return base.join_once(tail, version.as_deref().map(|version| ("api-version", version)));
        }
        let version = version.as_deref().unwrap_or(API_VERSION);
        if !base.path.contains("/openai/deployments/") {
            if !base.path.ends_with("/openai") {
                base.path.push_str("/openai");
            }
            // Responses belong to the resource, not to a deployment.
            if place.endpoint != Endpoint::Responses {
                base.path.push_str("/deployments/");
                base.path.push_str(&percent_encoded(place.model));
            }
        }
        base.join_once(tail, Some(("api-version", version)))
    }

    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal> {
        OpenAi.encode(ask, target)
    }

    fn answer(&self, ask: &Ask, target: &Target<'_>, headers: &http::HeaderMap, body: Bytes) -> Result<Answer, Fault> {
        OpenAi.answer(ask, target, headers, body)
    }

    fn fault(&self, ask: &Ask, refused: &Refused<'_>) -> Fault {
        OpenAi.fault(ask, refused)
    }

    fn decoder(&self, ask: &Ask, target: &Target<'_>) -> Box<dyn Decode> {
        OpenAi.decoder(ask, target)
    }
}

/// As one segment of a path or one value of a query (RFC 3986: all but the unreserved).
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(base: &str, endpoint: Endpoint, api_version: Option<&str>) -> Result<String, String> {
        Azure.path(base, &Place { endpoint, model: "gpt 4o/x", api_version })
    }

    #[test]
    fn the_deployment_stands_in_the_path() {
        const CHAT: &str = "/openai/deployments/gpt%204o%2Fx/chat/completions";
        for (base, api_version, expected) in [
            ("/", None, format!("{CHAT}?api-version=2024-10-21")),
            ("", Some("2025-01-01-preview"), format!("{CHAT}?api-version=2025-01-01-preview")),
            ("/openai/", None, format!("{CHAT}?api-version=2024-10-21")),
            ("/?api-version=1", Some("2"), format!("{CHAT}?api-version=1")),
            ("/proxy?x=1", None, format!("/proxy{CHAT}?x=1&api-version=2024-10-21")),
            ("/openai/deployments/d", None, "/openai/deployments/d/chat/completions?api-version=2024-10-21".to_owned()),
            (
                "/openai/deployments/d/chat/completions?api-version=1",
                None,
                "/openai/deployments/d/chat/completions?api-version=1".to_owned(),
            ),
        ] {
            assert_eq!(path(base, Endpoint::Chat, api_version), Ok(expected), "{base}");
        }
        assert_eq!(path("/", Endpoint::Responses, None).unwrap(), "/openai/responses?api-version=2024-10-21");
    }

    #[test]
    fn the_newer_form_names_the_model_in_the_body() {
        assert_eq!(path("/openai/v1/", Endpoint::Chat, None).unwrap(), "/openai/v1/chat/completions");
        let preview = path("/openai/v1", Endpoint::Embeddings, Some("preview")).unwrap();
        assert_eq!(preview, "/openai/v1/embeddings?api-version=preview");
    }

    #[test]
    fn it_has_no_rerank_and_its_key_goes_alone() {
        assert!(path("/", Endpoint::Rerank, None).is_err());
        assert!(!Azure.speaks(Endpoint::Rerank));
        assert_eq!(Azure.auth(), Auth::Header("api-key"));
    }
}
