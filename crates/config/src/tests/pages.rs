//! What is generated from the table of keys, and the examples.

use std::path::Path;

use base::Family;
use serde_json::Value;

use super::hasher;
use crate::{Source, load, reference_markdown, schema};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn every_example_is_sound_as_it_stands() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "yaml" || end == "json") {
            load(&Source::Path(path), &|_| None, &hasher()).unwrap_or_else(|errors| panic!("{errors}"));
            count += 1;
        }
    }
    assert!(count >= 4);
}

#[test]
fn the_reference_page_is_the_generated_one() {
    let page = std::fs::read_to_string(root().join("docs/reference/configuration.md")).unwrap_or_default();
    assert!(page == reference_markdown(), "docs/reference/configuration.md is stale: `make docs` writes it");
}

#[test]
fn the_schema_is_json_that_describes_every_key() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let route = &schema["properties"]["routes"]["items"];
    assert_eq!(route["additionalProperties"], false);
    assert_eq!(route["required"], serde_json::json!(["name"]));
    assert_eq!(route["properties"]["strategy"]["default"], "ordered");
    assert_eq!(route["properties"]["retry"]["properties"]["server_error"]["default"], serde_json::json!(["1s", "3s"]));
    assert_eq!(route["properties"]["upstreams"]["items"]["properties"]["tier"]["default"], 0);
    let text = schema["properties"]["state"]["description"].as_str().unwrap();
    assert!(text.contains("not in force in this version"), "{text}");
}

#[test]
fn the_reference_lists_a_key_with_its_default_and_its_force() {
    let page = reference_markdown();
    for row in [
        "| `providers[].pool.idle_timeout` | duration | `20s` | Connections idle for longer are not used again; keep it \
         below the provider's own. | now |",
        "| `routes[].deadline` | duration | `30s` chat, `10s` embeddings, `5s` rerank | The whole call: queue, retries and \
         failover included. | now |",
        "| `routes[].breaker.hold` | duration | `30s` | How long it stays open at least. | now |",
        "the same question in other words. | now |",
    ] {
        assert!(page.contains(row), "{row}");
    }
    // A bar or a line end in a cell would break the table.
    for line in page.lines().filter(|line| line.starts_with('|')) {
        assert_eq!(line.matches('|').count(), 6, "{line}");
    }
}

#[test]
fn defaults_of_the_families_are_those_of_the_contract() {
    let loaded = super::sound(
        "providers: [{ name: p, base_url: http://p/v1 }]
routes:
  - { name: c, upstreams: [{ provider: p }] }
  - { name: e, match: { path: /v1/embeddings }, upstreams: [{ provider: p }] }
  - { name: r, match: { path: /v2/rerank }, upstreams: [{ provider: p }] }
",
    );
    let seconds: Vec<(u64, u64)> = loaded
        .snapshot
        .routes
        .iter()
        .map(|route| (route.timeout.attempt.as_secs(), route.deadline.as_secs()))
        .collect();
    assert_eq!(seconds, [(20, 30), (3, 10), (2, 5)]);
    let families: Vec<Family> = loaded.snapshot.routes.iter().map(|route| route.endpoints[0].family()).collect();
    assert_eq!(families, [Family::Chat, Family::Embeddings, Family::Rerank]);
    let timeout = loaded.snapshot.routes[0].timeout;
    assert_eq!(
        (timeout.first_byte.as_secs(), timeout.stream_idle.as_secs(), timeout.stream_total.as_secs()),
        (10, 15, 600)
    );
    let pool = loaded.snapshot.providers[0].pool;
    assert_eq!(
        (pool.idle_timeout.as_secs(), pool.tcp_keepalive.as_secs(), pool.connect_timeout.as_secs()),
        (20, 15, 2)
    );
    assert_eq!(pool.max_connections, 512);
    let general = &loaded.snapshot.general;
    assert_eq!((general.listen.to_string().as_str(), general.max_body), ("0.0.0.0:8080", 10 << 20));
    assert_eq!((general.admin_listen.to_string().as_str(), general.shutdown_grace.as_secs()), ("127.0.0.1:8081", 30));
}
