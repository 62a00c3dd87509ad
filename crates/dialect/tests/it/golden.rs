//! Golden files: for each protocol what the caller sends (`*.ask.json`), what the provider gets
//! (`*.request.json`), what it answers (`*.reply.*`) and what the caller gets (`*.answer.*`), all to
//! the byte.

use std::path::PathBuf;

use base::Endpoint;
use bytes::Bytes;
use dialect::{Protocol, dialect};
use http::{HeaderMap, HeaderValue};

use crate::support;

fn file(protocol: Protocol, name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/golden", protocol.as_str(), name].iter().collect();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.trim_end().to_owned()
}

/// Runs one case against its four files.
fn check(protocol: Protocol, endpoint: Endpoint, case: &str, base: &str) {
    let ask = support::ask(endpoint, &file(protocol, &format!("{case}.ask.json")));
    let target = support::target(base);
    let encoded = dialect(protocol).encode(&ask, &target).unwrap();
    let request = std::str::from_utf8(&encoded.body).unwrap();
    assert_eq!(request, file(protocol, &format!("{case}.request.json")), "{protocol:?} {case}: the request");
    let mut headers = HeaderMap::new();
    headers.insert("x-compute-tokens", HeaderValue::from_static("21"));
    let reply = file(protocol, &format!("{case}.reply.json"));
    let answer = dialect(protocol).answer(&ask, &target, &headers, Bytes::from(reply)).unwrap();
    let answer = std::str::from_utf8(&answer.body).unwrap();
    assert_eq!(answer, file(protocol, &format!("{case}.answer.json")), "{protocol:?} {case}: the answer");
}

#[test]
fn cohere() {
    check(Protocol::Cohere, Endpoint::Rerank, "rerank-v2", "/");
    check(Protocol::Cohere, Endpoint::Rerank, "rerank-v1", "/v1");
    check(Protocol::Cohere, Endpoint::Embeddings, "embed", "/v2");
}

#[test]
fn jina() {
    check(Protocol::Jina, Endpoint::Rerank, "rerank", "/v1");
    check(Protocol::Jina, Endpoint::Embeddings, "embed", "/v1");
}

#[test]
fn voyage() {
    check(Protocol::Voyage, Endpoint::Rerank, "rerank", "/v1");
    check(Protocol::Voyage, Endpoint::Embeddings, "embed", "/v1");
}

#[test]
fn tei() {
    check(Protocol::Tei, Endpoint::Rerank, "rerank", "/");
    check(Protocol::Tei, Endpoint::Embeddings, "embed", "/");
}

#[test]
fn ollama() {
    check(Protocol::Ollama, Endpoint::Chat, "chat", "/");
    check(Protocol::Ollama, Endpoint::Chat, "tools", "/");
    check(Protocol::Ollama, Endpoint::Embeddings, "embed", "/");
}

#[test]
fn ollama_streams() {
    let (protocol, case) = (Protocol::Ollama, "stream");
    let ask = support::ask(Endpoint::Chat, &file(protocol, &format!("{case}.ask.json")));
    let target = support::target("/");
    let request = dialect(protocol).encode(&ask, &target).unwrap().body;
    assert_eq!(std::str::from_utf8(&request).unwrap(), file(protocol, &format!("{case}.request.json")));
    let mut decoder = dialect(protocol).decoder(&ask, &target);
    let mut out = decoder.feed(Bytes::from(file(protocol, &format!("{case}.reply.ndjson")))).to_vec();
    out.extend_from_slice(&decoder.finish());
    assert_eq!(std::str::from_utf8(&out).unwrap().trim_end(), file(protocol, &format!("{case}.answer.sse")));
}
