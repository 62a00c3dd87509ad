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
    assert_eq!(summary(&loaded.snapshot), "sound: 1 provider, 1 route, 0 clients; 1 key not in force yet");
    assert_eq!(loaded.snapshot.not_in_force, ["routes[rag-embedding].limit"]);
    assert_eq!(
        loaded.warnings[0].to_string(),
        "gateway.yaml:3:14: routes[rag-embedding].limit: accepted, but not in force in this version; \
         it comes with governance"
    );
}
