//! Sound configurations mean what the contract says.

use std::time::Duration;

use base::Endpoint;

use super::{load_text, sound};
use crate::{Origin, summary};

const SIMPLE: &str = r#"
providers:
  - name: cloud
    base_url: http://API.example.com/v1
    api_keys: ["${CLOUD_KEY}", plain-key]
routes:
  - name: rag-chat
    upstreams: [{ provider: cloud, model: gpt-4o-mini }]
  - name: rag-embedding
    match: { path: /v1/embeddings, model: rag-embedding }
    upstream: { url: "http://embedding-service:8000/v1/embeddings", timeout: 3000 }
clients:
  - name: online-qa
    keys: [qa-key]
    routes: ["rag-*"]
"#;

#[test]
fn a_simple_file_becomes_a_snapshot() {
    let loaded = load_text(SIMPLE, &[("CLOUD_KEY", "sk-1")]).unwrap_or_else(|errors| panic!("{errors}"));
    let snapshot = &loaded.snapshot;
    assert_eq!(summary(snapshot), "sound: 2 providers, 2 routes, 1 client");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let cloud = &snapshot.providers[0];
    assert_eq!(cloud.origin, Origin { tls: false, host: "api.example.com".into(), port: 80 });
    assert_eq!(cloud.keys.len(), 2);
    assert_eq!(cloud.keys[0].value.to_str().unwrap(), "Bearer sk-1");
    assert!(cloud.keys[0].value.is_sensitive());
    let chat = snapshot.route(Endpoint::Chat, "rag-chat").unwrap();
    assert_eq!(chat.timeout.attempt, Duration::from_secs(20));
    assert_eq!(&*chat.upstreams[0].label, "cloud/gpt-4o-mini");
    let embedding = snapshot.route(Endpoint::Embeddings, "rag-embedding").unwrap();
    assert_eq!(embedding.timeout.attempt, Duration::from_secs(3));
    assert_eq!(embedding.deadline, Duration::from_secs(10));
    assert_eq!(embedding.upstreams[0].paths[&Endpoint::Embeddings].as_str(), "/v1/embeddings");
    let client = snapshot.client(b"qa-key").unwrap();
    assert!(client.may_use(chat) && client.may_use(embedding));
    assert!(snapshot.client(b"other").is_none());
    assert!(snapshot.route(Endpoint::Chat, "rag-embedding").is_none());
}

#[test]
fn a_route_posted_alone_is_a_configuration() {
    let loaded = sound(
        r#"{ "name": "rag-embedding", "match": { "path": "/v1/embeddings", "model": "rag-embedding" },
             "upstream": { "url": "http://embedding-service:8000/v1/embeddings", "timeout": 3000 },
             "limit": { "qps": 100, "burst": 20 } }"#,
    );
    assert_eq!(summary(&loaded.snapshot), "sound: 1 provider, 1 route, 0 clients");
    assert!(loaded.warnings.is_empty());
    let limit = loaded.snapshot.routes[0].limit;
    assert_eq!(limit.rate, Some(rules::limits::Rate { qps: 100.0, burst: 20 }));
}

#[test]
fn base_urls_are_used_as_written_and_the_path_appended() {
    for (url, origin, path) in [
        ("http://a", "a", "/chat/completions"),
        ("http://a/", "a", "/chat/completions"),
        ("http://a/v1", "a", "/v1/chat/completions"),
        ("http://a/v1/", "a", "/v1/chat/completions"),
        ("https://A.Example.COM/api/openai", "a.example.com", "/api/openai/chat/completions"),
        ("http://a:8080/v1beta/openai/", "a:8080", "/v1beta/openai/chat/completions"),
        ("http://[::1]:8000/v1", "[::1]:8000", "/v1/chat/completions"),
    ] {
        let text = format!(
            "providers: [{{ name: p, base_url: '{url}' }}]\nroutes: [{{ name: r, upstreams: [{{ provider: p }}] }}]\n"
        );
        let loaded = sound(&text);
        let upstream = &loaded.snapshot.routes[0].upstreams[0];
        assert_eq!(upstream.provider.origin.authority(), origin, "{url}");
        assert_eq!(upstream.paths[&Endpoint::Chat].as_str(), path, "{url}");
    }
}

#[test]
fn the_short_forms_address_is_used_to_the_letter() {
    let loaded = sound(
        "routes: [{ name: r, match: { path: /v1/rerank }, upstream: { url: 'http://H:8000/api/rerank/?version=2', model: m } }]",
    );
    let upstream = &loaded.snapshot.routes[0].upstreams[0];
    assert_eq!(upstream.paths[&Endpoint::Rerank].as_str(), "/api/rerank/?version=2");
    assert_eq!((&*upstream.provider.name, &*upstream.label, upstream.model.as_deref()), ("r", "r/m", Some("m")));
}

#[test]
fn names_may_be_written_in_any_script() {
    let loaded = sound(
        "
providers: [{ name: 本地模型, base_url: http://a/v1, api_key: k }]
routes: [{ name: 知识库问答, match: { model: 知识库问答 }, upstreams: [{ provider: 本地模型, model: 通义千问 }] }]
clients: [{ name: 在线问答, keys: [k], routes: [知识库*] }]
",
    );
    let route = loaded.snapshot.route(Endpoint::Chat, "知识库问答").unwrap();
    assert_eq!(&*route.upstreams[0].label, "本地模型/通义千问");
    assert!(loaded.snapshot.client(b"k").unwrap().may_use(route));
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    assert_eq!(sound("\u{feff}environment: a").snapshot.general.environment, "a");
}

#[test]
fn upstreams_stand_by_tier_and_then_as_written() {
    let loaded = sound(
        "providers: [{ name: p, base_url: http://a/v1 }]
routes: [{ name: r, upstreams: [{ provider: p, model: c, tier: 2 }, { provider: p, model: a }, { provider: p, model: b }] }]
",
    );
    let models: Vec<_> =
        loaded.snapshot.routes[0].upstreams.iter().filter_map(|upstream| upstream.model.clone()).collect();
    assert_eq!(models, ["a", "b", "c"]);
}

#[test]
fn a_route_may_have_several_endpoints_and_another_model_name() {
    let loaded = sound(
        "providers: [{ name: p, base_url: http://a/v1 }]
routes: [{ name: r, match: { path: [/v1/completions, /responses, /v1/v1/completions/], model: m }, upstreams: [{ provider: p }] }]
",
    );
    let snapshot = &loaded.snapshot;
    assert_eq!(snapshot.routes[0].endpoints, [Endpoint::Completions, Endpoint::Responses]);
    assert!(snapshot.route(Endpoint::Responses, "m").is_some() && snapshot.route(Endpoint::Responses, "r").is_none());
    assert!(snapshot.serves(Endpoint::Completions) && !snapshot.serves(Endpoint::Chat));
}

#[test]
fn client_keys_may_be_written_as_digests() {
    // The SHA-256 of "sk-team".
    let loaded = sound(
        "clients: [{ name: a, keys: ['sha256:3FC923743166BAE134970EB2789DF5145D8B8041E050ACF18067986818F41D13', other] }]",
    );
    assert!(loaded.snapshot.client(b"other").is_some());
    assert!(loaded.snapshot.client(b"sk-team").is_some());
    assert!(loaded.snapshot.client(b"sk-tean").is_none());
}

#[test]
fn every_protocol_has_a_header_for_its_key() {
    for protocol in dialect::Protocol::ALL {
        let text = format!(
            "providers: [{{ name: p, protocol: {}, base_url: 'http://a', api_key: k, api_version: '2024-10-21' }}]",
            protocol.as_str()
        );
        let loaded = sound(&text);
        let key = &loaded.snapshot.providers[0].keys[0];
        assert!(key.value.is_sensitive() && key.value.to_str().unwrap().ends_with('k'), "{protocol:?}");
    }
}

#[test]
fn every_further_key_of_the_contract_is_accepted() {
    let loaded = sound(
        r#"
state: { redis: "redis://r:6379" }
telemetry: { otlp: "http://collector:4318" }
records: { mask: ["(?i)secret", "[0-9]{15,19}"] }
database: "postgres://u:p@db/gateway"
drills: enabled
providers:
  - name: p
    base_url: http://a/v1
    score: logit
    token_arrays: decode
    queue: { max_wait: 1s, max_depth: 100 }
    proxy: "http://proxy:3128"
    api_version: "2024-10-21"
routes:
  - name: chat
    body_timeout: 1m
    timeout: 5s
    upstreams:
      - { provider: p, name: one, model: m, context_window: 32768, tokenizer: o200k_base,
          prices: { prompt: 0.15, cached: 0.075, completion: 0.6, currency: USD } }
    params: { min: { temperature: 0 }, force: { response_format: { type: text }, stop: null }, default: { n: 1 } }
    cache:
      mode: semantic
      normalize: false
      semantic: { route: emb, threshold: 0.93, question: "Question: (.*)", multi_turn: exact, timeout: 300ms,
                  max_temperature: 0.3, verify: { route: chat }, shadow: true }
  - name: emb
    match: { path: /v1/embeddings }
    upstreams: [{ provider: p, space: bge-m3 }]
    vector_space: any
clients:
  - name: c
    routes: [{ name: chat, limit: { qps: 5 } }, "e*"]
    params: { deny: [logit_bias] }
    on_failure: stale
    cache: { scope: route }
    limit: { tokens_per_minute: 100000 }
    quota: { cost: 100, currency: CNY, warn: [0.8, 0.95], per: day }
"#,
    );
    let snapshot = &loaded.snapshot;
    let provider = &snapshot.providers[0];
    assert_eq!((provider.score, provider.token_arrays), (dialect::Score::Logit, dialect::TokenArrays::Decode));
    assert_eq!(provider.proxy.as_ref().unwrap().origin.port, 3128);
    let chat = &snapshot.routes[0];
    assert_eq!((chat.timeout.attempt.as_secs(), chat.body_timeout.as_secs()), (5, 60));
    assert_eq!(&*chat.upstreams[0].name, "one");
    let paths =
        |policy: &rules::params::Policy| policy.fields().iter().map(|field| field.path.join(".")).collect::<Vec<_>>();
    assert_eq!(paths(&chat.params), ["n", "temperature", "response_format", "stop"]);
    assert_eq!(chat.upstreams[0].context_window, Some(32_768));
    assert!(matches!(chat.upstreams[0].tokenizer, Some(crate::Counting::Encoding(dialect::Encoding::O200k))));
    assert_eq!(paths(&snapshot.clients[0].params), ["logit_bias"]);
    assert_eq!(snapshot.routes[1].upstreams[0].space.as_deref(), Some("bge-m3"));
    assert_eq!(snapshot.not_in_force, ["database: postgres", "state"]);
}
