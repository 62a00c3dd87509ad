//! A caller's request: what the gateway must know of it, beside the bytes as they came.

use base::{Endpoint, Refusal};
use bytes::Bytes;

/// One request, read once.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is asked for.
    pub endpoint: Endpoint,
    /// The body as it came, gateway-only fields (`mai`, `metadata.mai_tag`) removed.
    pub body: Bytes,
    /// The request's content type where the body is not JSON (multipart of the audio and image
    /// endpoints): sent on as it came.
    pub content_type: Option<http::HeaderValue>,
    /// The model name that the caller wrote.
    pub model: String,
    /// Whether the caller wants a stream.
    pub stream: bool,
    /// `metadata.mai_tag`
    pub tag: Option<String>,
    /// `mai.query`
    pub query: Option<String>,
    /// What else is known, by endpoint.
    pub view: View,
}

/// What is known of a body, by endpoint.
#[derive(Clone, Debug)]
pub enum View {
    /// Passed through; only the model is known.
    Pass,
    /// Embeddings.
    Embeddings(crate::embeddings::View),
    /// Rerank.
    Rerank(crate::rerank::View),
}

impl Ask {
    /// Reads a body. `content_type` is the request's header.
    ///
    /// # Errors
    /// `invalid_json` or `invalid_request` that names the field.
    pub fn read(endpoint: Endpoint, content_type: Option<&http::HeaderValue>, body: Bytes) -> Result<Self, Refusal> {
        let _ = content_type;
        Ok(Self {
            endpoint,
            body,
            content_type: None,
            model: String::new(),
            stream: false,
            tag: None,
            query: None,
            view: View::Pass,
        })
    }
}
