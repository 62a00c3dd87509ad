//! What is shown of a configuration holds no secret, and what is exported makes the same one elsewhere.

use std::time::Duration;

use base::{Endpoint, Object, ObjectKind, Secret};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{hasher, load_text, sound};
use crate::{Added, ClientKey, Files, Overrides, Source};

const FULL: &str = r#"
environment: production
database: "postgres://gw:s3cret/x@db/gateway?sslmode=disable"
state: { redis: "redis://:s3cret@r:6379" }
telemetry: { otlp: "http://u:s3cret@collector:4318?token=s3cret" }
webhooks:
  - { url: "https://hooks.example.com/T0/s3cret?x=s3cret", secret: s3cret-hook, proxy: "http://u:s3cret@p:1" }
admin: { tokens: [{ name: root, role: admin, token: s3cret-token-of-root }] }
providers:
  - name: cloud
    base_url: "https://api.example.com/v1?key=s3cret"
    api_keys: [s3cret-1, "${KEY}"]
    headers: { x-team: s3cret-header, x-b: "${HEADER}" }
    proxy: "http://user:s3cret@proxy:3128"
    health: { path: "/models?key=s3cret" }
  - { name: 本地, base_url: "${LOCAL}/v1", api_key: s3cret-2 }
routes:
  - name: chat
    upstreams: [{ provider: cloud, model: "a: b # c" }, { provider: 本地, model: "$${literal}", tier: 1 }]
    timeout: 5s
    limit: { qps: "${QPS}", burst: 0x10 }
    params: { force: { temperature: 0.20, stop: ["yes", "~", "1.0", true, ~] }, deny: [] }
  - { name: embedding, match: { path: /v1/embeddings }, upstream: { url: "http://e:8000/v1/embeddings?a=s3cret", timeout: 3000 } }
clients:
  - { name: app, keys: [s3cret-app, "${KEY}x"], routes: ["*", { name: "emb*", limit: { qps: 1.5 } }] }
  - { name: idle }
"#;

const VARIABLES: &[(&str, &str)] =
    &[("KEY", "s3cret-3"), ("HEADER", "s3cret-4"), ("LOCAL", "http://local"), ("QPS", "12")];

#[test]
fn what_is_shown_holds_no_secret() {
    let written = load_text(FULL, VARIABLES).unwrap().whole.written();
    let config = written.config();
    assert!(!config.to_string().contains("s3cret"), "{config:#}");
    assert_eq!(config["database"], "postgres://[secret]@db/gateway?[secret]");
    assert_eq!(config["state"], json!({ "redis": "redis://[secret]@r:6379" }));
    assert_eq!(config["telemetry"], json!({ "otlp": "http://[secret]@collector:4318?[secret]" }));
    let hook = json!([{ "url": "https://hooks.example.com/[secret]?[secret]", "secret": "[secret]", "proxy": "http://[secret]@p:1" }]);
    assert_eq!(config["webhooks"], hook);
    let cloud = json!({
        "name": "cloud", "base_url": "https://api.example.com/v1?[secret]", "api_keys": ["[secret]", "[secret]"],
        "headers": { "x-team": "[secret]", "x-b": "[secret]" }, "proxy": "http://[secret]@proxy:3128",
        "health": { "path": "/models?[secret]" },
    });
    assert_eq!(written.object(ObjectKind::Provider, "cloud").unwrap().shown, cloud);
    let chat = &written.object(ObjectKind::Route, "chat").unwrap().shown;
    assert_eq!(chat["limit"], json!({ "qps": "[secret]", "burst": 16 }));
    assert_eq!(chat["params"]["force"].to_string(), r#"{"temperature":0.20,"stop":["yes","~","1.0",true,null]}"#);
    assert_eq!(config["routes"][1]["upstream"]["url"], "http://e:8000/v1/embeddings?[secret]");
    assert_eq!(written.of(ObjectKind::Client).count(), 2);
}

#[test]
fn an_export_makes_the_same_routes_elsewhere() {
    let here = load_text(FULL, VARIABLES).unwrap();
    let text = here.whole.export(&[]);
    assert!(!text.contains("s3cret"), "{text}");
    let variables = [
        ("CLOUD_BASE_URL_QUERY", "key=s3cret"),
        ("CLOUD_API_KEY_1", "s3cret-1"),
        ("CLOUD_API_KEY_2", "s3cret-3"),
        ("CLOUD_HEADERS_X_TEAM", "s3cret-header"),
        ("CLOUD_HEADERS_X_B", "s3cret-4"),
        ("CLOUD_PROXY_USER", "user:s3cret"),
        ("CLOUD_HEALTH_PATH_QUERY", "key=s3cret"),
        ("BASE_URL", "http://local/v1"),
        ("API_KEY", "s3cret-2"),
        ("CHAT_LIMIT_QPS", "12"),
        ("EMBEDDING_UPSTREAM_URL_QUERY", "a=s3cret"),
    ];
    let named: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    assert!(text.contains(&format!("# Set these variables before: {}\n", named.join(", "))), "{text}");
    let there = load_text(&text, &variables).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(format!("{:?}", here.snapshot.routes), format!("{:?}", there.snapshot.routes));
    assert_eq!(format!("{:?}", here.snapshot.providers), format!("{:?}", there.snapshot.providers));
    assert_eq!(format!("{:?}", here.snapshot.clients), format!("{:?}", there.snapshot.clients));
    for key in 0..2 {
        let secret = |loaded: &crate::Loaded| loaded.snapshot.providers[0].keys[key].secret.expose().to_owned();
        assert_eq!(secret(&here), secret(&there));
    }
    let snapshot = &there.snapshot;
    assert!(snapshot.client(b"s3cret-app").is_none(), "keys of clients stay where they are");
    assert!(snapshot.route(Endpoint::Embeddings, "embedding").is_some());
}

#[test]
fn of_issued_keys_the_hash_can_be_exported() {
    let key = ClientKey { client: "app".into(), sha256: [0xa5; 32], expires: None };
    let loaded = load_text(FULL, VARIABLES).unwrap();
    let hex = "a5".repeat(32);
    assert!(loaded.whole.export(&[key]).contains(&format!("- name: app\n  routes:\n    - \"*\"\n    - name: \"emb*\"\n      limit:\n        qps: 1.5\n  keys:\n    - sha256:{hex}\n")));
}

#[test]
fn a_key_that_expires_is_not_exported_for_it_would_open_for_good_elsewhere() {
    let key = |number: u8, expires: Option<u64>| ClientKey {
        client: "app".into(),
        sha256: [number; 32],
        expires: expires.map(Duration::from_secs),
    };
    let loaded = load_text(FULL, VARIABLES).unwrap();
    let export = loaded.whole.export(&[key(0xa5, Some(1)), key(0xb6, None), key(0xc7, Some(u64::MAX))]);
    assert!(export.contains(&"b6".repeat(32)), "{export}");
    assert!(!export.contains(&"a5".repeat(32)) && !export.contains(&"c7".repeat(32)), "{export}");
    assert!(export.contains("# So are 2 issued keys that expire"), "{export}");
}

#[test]
fn places_of_one_name_have_variables_of_their_own() {
    let text = "providers:\n  - { name: a-b, base_url: http://a/v1, api_key: one }\n  - { name: a.b, base_url: http://a/v1, api_key: two }\n  - { name: 1, base_url: http://a/v1, api_key: three }\n";
    let text = text.replace("name: 1", "name: '1'");
    let export = sound(&text).whole.export(&[]);
    assert!(export.contains("A_B_API_KEY, A_B_API_KEY__2, MAI_1_API_KEY\n"), "{export}");
}

/// A text in which secrets are easy to find, of letters that addresses and headers bear.
fn secret() -> impl Strategy<Value = String> {
    "[A-Za-z0-9]{4}".prop_map(|end| format!("s3cret{end}"))
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "[a-z$\\{\\}: #'\"\\\\,\\[\\]é知\u{85}\u{7f}-]{1,12}",
        Just("no".into()),
        Just("1e3".into())
    ]
    .prop_map(|word| format!("w{}", word.trim()))
}

/// The same without what no name may hold.
fn name() -> impl Strategy<Value = String> {
    let letters = |word: String| word.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect::<String>();
    word().prop_map(move |word| letters(word).replace("${", "$"))
}

fn provider(index: usize) -> impl Strategy<Value = Value> {
    let several = prop::collection::vec(secret(), 1..3).prop_map(|keys| {
        let numbered: Vec<String> = keys.iter().enumerate().map(|(at, key)| format!("{key}-{at}")).collect();
        json!({ "api_keys": numbered })
    });
    let keys = prop_oneof![several, secret().prop_map(|key| json!({ "api_key": key })), Just(json!({}))];
    (keys, prop::option::of(secret()), prop::option::of(secret()), prop::option::of(secret()), name()).prop_map(
        move |(mut provider, user, query, header, name)| {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            provider["name"] = format!("{name}{index}").into();
            provider["base_url"] = format!("http://host{index}/v1{query}").into();
            if let Some(user) = user {
                provider["proxy"] = format!("http://{user}:{user}@proxy:3128").into();
            }
            if let Some(header) = header {
                provider["headers"] = json!({ "x-a": header, "x-b": "${VAR}" });
            }
            provider
        },
    )
}

fn configuration() -> impl Strategy<Value = Value> {
    let providers = (provider(0), provider(1), provider(2));
    (providers, prop::collection::vec(word(), 1..4), word(), name(), secret()).prop_map(
        |((a, b, c), models, forced, name, key)| {
            let provider = a["name"].as_str().unwrap_or_default().replace("${", "$${");
            let escaped = |text: &str| text.replace("${", "$${");
            let upstream = |(tier, model): (usize, &String)| {
                json!({ "provider": provider, "model": escaped(model), "tier": tier, "name": format!("u{tier}") })
            };
            let upstreams: Vec<Value> = models.iter().enumerate().map(upstream).collect();
            let named = |mut provider: Value| {
                provider["name"] = escaped(provider["name"].as_str().unwrap_or_default()).into();
                provider
            };
            json!({
                "providers": [named(a), named(b), named(c)],
                "routes": [{ "name": "chat", "upstreams": upstreams,
                    "params": { "force": { "user": escaped(&forced), "seed": 7, "stop": [forced.len(), null, 1.5, {}] } } }],
                "clients": [{ "name": escaped(&name), "keys": [key], "routes": ["*"] }],
                "admin": { "tokens": [{ "name": "t", "token": format!("{key}-token") }] },
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_secret_of_any_configuration_is_shown_or_exported(config in configuration()) {
        let text = config.to_string();
        let loaded = load_text(&text, &[("VAR", "s3cret-variable")]).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let written = loaded.whole.written();
        prop_assert!(!written.config().to_string().contains("s3cret"), "{}", written.config());
        for object in &written.objects {
            prop_assert!(!object.shown.to_string().contains("s3cret"));
        }
        let export = loaded.whole.export(&[]);
        prop_assert!(!export.contains("s3cret"), "{export}");
        // Whatever the variables hold, the routes are the same.
        let set = |name: &str| (!name.starts_with("MAI_")).then(|| if name.ends_with("USER") { "u:p".into() } else { name.to_ascii_lowercase() });
        let source = Source::Text { name: "export.yaml".into(), text: export.clone() };
        let there = crate::load(&source, &set, &hasher()).unwrap_or_else(|errors| panic!("{errors}\n{export}"));
        let said = |loaded: &crate::Loaded| {
            let routes = loaded.whole.written().of(ObjectKind::Route).map(|route| route.shown.clone()).collect::<Vec<_>>();
            (Value::from(routes), format!("{:?}", loaded.snapshot.routes[0].params))
        };
        prop_assert_eq!(said(&loaded), said(&there), "{}", export);
    }

    #[test]
    fn what_was_shown_and_is_put_again_changes_nothing(config in configuration()) {
        let text = config.to_string().replace("${VAR}", "s3cret-plain");
        let read = Files::read(&Source::Text { name: "empty".into(), text: "environment: a".into() }, Overrides::default(), &|_| None).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        let object = |kind: ObjectKind, written: &Value| {
            let name = written["name"].as_str().unwrap_or_default().replace("$${", "${");
            Object { kind, name: name.into(), written: Secret::new(written.to_string()), revision: 1, changed: Duration::ZERO }
        };
        let objects: Vec<Object> = ObjectKind::ALL.iter().flat_map(|kind| {
            config[kind.list()].as_array().unwrap().iter().map(|written| object(*kind, written)).collect::<Vec<_>>()
        }).collect();
        let loaded = read.with(Added { objects: &objects }, &hasher()).unwrap();
        let written = loaded.whole.written();
        for before in &objects {
            let shown = &written.object(before.kind, &before.name).unwrap().shown;
            let again = Object { written: Secret::new(shown.to_string()), ..before.clone() };
            let unmasked = crate::unmask(&again, Some(before)).unwrap();
            let same: (Value, Value) = (serde_json::from_str(unmasked.expose()).unwrap(), serde_json::from_str(before.written.expose()).unwrap());
            prop_assert_eq!(&same.0, &same.1);
        }
    }
}

#[test]
fn an_object_as_lines_is_the_same_object_again() {
    let object = serde_json::json!({
        "name": "问答: a", "keys": ["yes", "12", "[secret]"], "limit": { "qps": 0.5 }, "routes": [{ "name": "a", "limit": {} }],
        "text": "two\nlines", "empty": [], "on": true,
    });
    let lines = crate::as_yaml(&object);
    assert!(lines.starts_with("name: ") && lines.contains("\nlimit:\n  qps: 0.5\n"), "{lines}");
    let again = crate::pieces("lines", &lines, Some(base::ObjectKind::Client), &|_| None).unwrap();
    assert_eq!(again.pieces[0].config, object, "{lines}");
}
