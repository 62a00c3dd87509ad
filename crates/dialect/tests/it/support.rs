//! What the tests of all endpoints share.

use base::{Endpoint, Fault, Refusal};
use bytes::Bytes;
use dialect::{Answer, Ask, Protocol, Score, Target, dialect};
use http::HeaderMap;

/// A call as a caller makes it.
pub fn ask(endpoint: Endpoint, body: &str) -> Ask {
    read(endpoint, body).unwrap()
}

/// The same, where it may be refused.
pub fn read(endpoint: Endpoint, body: &str) -> Result<Ask, Refusal> {
    Ask::read(endpoint, None, Bytes::copy_from_slice(body.as_bytes()))
}

/// The usual upstream.
pub fn target(base_path: &str) -> Target<'_> {
    Target { model: "m-1", score: Score::Probability, ask_usage: false, decode_tokens: false, base_path }
}

/// The request's body as it reaches a provider.
pub fn sent(protocol: Protocol, ask: &Ask) -> String {
    let encoded = dialect(protocol).encode(ask, &target("/")).unwrap();
    String::from_utf8(encoded.body.to_vec()).unwrap()
}

/// What the caller gets for a provider's answer.
pub fn answer(protocol: Protocol, ask: &Ask, body: &str) -> Result<Answer, Fault> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    dialect(protocol).answer(ask, &target("/"), &HeaderMap::new(), body)
}

/// Its body as text.
pub fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

/// A body as a tree, for looking things up.
pub fn tree(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body).unwrap()
}
