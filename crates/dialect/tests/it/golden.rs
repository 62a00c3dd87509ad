//! Golden files: for each protocol what the caller sends (`*.ask.json`), what the provider gets
//! (`*.request.json`), what it answers (`*.reply.*`) and what the caller gets (`*.answer.*`), all to
//! the byte.

use std::path::PathBuf;

use base::Endpoint;
use bytes::Bytes;
use dialect::{Protocol, Target, dialect};
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

/// Runs a stream against its four files; usage is asked for and hidden where the protocol can.
fn check_stream(protocol: Protocol, form: &str) {
    let ask = support::ask(Endpoint::Chat, &file(protocol, "stream.ask.json"));
    let target = Target { ask_usage: true, ..support::target("/") };
    let request = dialect(protocol).encode(&ask, &target).unwrap().body;
    assert_eq!(
        std::str::from_utf8(&request).unwrap(),
        file(protocol, "stream.request.json"),
        "{protocol:?}: the request"
    );
    let reply = file(protocol, &format!("stream.reply.{form}"));
    for size in [reply.len(), 1] {
        let mut decoder = dialect(protocol).decoder(&ask, &target);
        let mut out = Vec::new();
        for chunk in reply.as_bytes().chunks(size) {
            out.extend_from_slice(&decoder.feed(Bytes::copy_from_slice(chunk)));
        }
        out.extend_from_slice(&decoder.finish());
        let answer = std::str::from_utf8(&out).unwrap().trim_end();
        assert_eq!(answer, file(protocol, "stream.answer.sse"), "{protocol:?}: the answer in pieces of {size}");
        assert!(decoder.progress().finished && decoder.progress().usage.is_some());
    }
}

#[test]
fn openai() {
    check(Protocol::OpenAi, Endpoint::Chat, "chat", "/v1");
}

#[test]
fn openai_streams() {
    check_stream(Protocol::OpenAi, "sse");
    check_stream(Protocol::AzureOpenAi, "sse");
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
    check_stream(Protocol::Ollama, "ndjson");
}
