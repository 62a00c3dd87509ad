//! Keys: whose they are, where they go, and where they never appear.

use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::{Ask, Host, Reply, chat, embeddings, get, story};

use crate::stage::{Stage, pleasant};

const K1: &str = "sk-caller-7c1e9f3ab2";
const K9: &str = "sk-nobody-55d0c4e8aa";
const P1: &str = "sk-first-provider-91";
const P2: &str = "sk-second-provider-62";

const CONFIG: &str = r#"
providers:
  - { name: a, protocol: openai, base_url: "http://a/v1", api_key: sk-first-provider-91 }
  - { name: b, protocol: azure-openai, base_url: "http://b", api_key: sk-second-provider-62 }
  - { name: c, protocol: openai, base_url: "http://c/v1" }
routes:
  - name: chat
    match: { path: /v1/chat/completions }
    upstreams: [{ provider: a, model: m }, { provider: b, model: m, tier: 1 }, { provider: c, model: m, tier: 2 }]
  - name: other
    match: { path: /v1/chat/completions }
    upstreams: [{ provider: c, model: m }]
clients: [{ name: app, keys: [sk-caller-7c1e9f3ab2], routes: [chat] }]
"#;

/// Everything that reached a host, as one text.
fn all_that_reached(host: &Host) -> String {
    let mut text = String::new();
    for call in host.calls() {
        text.push_str(&call.request.path);
        text.push_str(call.request.query.as_deref().unwrap_or_default());
        for (name, value) in &call.request.headers {
            text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value)));
        }
        text.push_str(&String::from_utf8_lossy(&call.request.body));
    }
    text
}

#[test]
fn a_callers_key_goes_no_further_and_each_provider_sees_its_own_alone() {
    story(async {
        let ask = || chat("chat").user("Hi");
        let shown: Vec<Ask> = vec![
            ask().key(K1),
            ask().header("authorization", format!("bearer  {K1}")),
            ask().header("api-key", K1),
            ask().header("x-api-key", K1),
            ask().header("Authorization", "Bearer sk-nobody").header("X-Api-Key", K1),
        ];
        for shown in shown {
            for stream in [false, true] {
                let stage = Stage::set(CONFIG);
                let (a, b, c) = (
                    stage.host("a", Reply::status(500)),
                    stage.host("b", Reply::status(401)),
                    stage.host("c", pleasant()),
                );
                let everywhere = shown
                    .clone()
                    .with("stream", stream)
                    .path(&format!("/v1/chat/completions?key={K1}&api_key={K1}"))
                    .header("x-goog-api-key", K1)
                    .header("cookie", format!("session={K1}"))
                    .header("proxy-authorization", format!("Basic {K1}"))
                    .header("x-forwarded-authorization", K1)
                    .header("x-mai-tag", K1)
                    .header("referer", format!("http://x/?key={K1}"))
                    .header("user-agent", K1)
                    .header("tracestate", K1)
                    .header("traceparent", K1);
                let answer = stage.caller().ask(&everywhere).await;
                assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("3")), "{}", answer.text());
                for (host, own, others) in [(&a, Some(P1), [P2, K1]), (&b, Some(P2), [P1, K1]), (&c, None, [P1, P2])] {
                    let text = all_that_reached(host);
                    assert!(!text.is_empty() && !text.contains(K1), "{text}");
                    assert!(others.iter().all(|other| !text.contains(other)), "{text}");
                    assert!(own.is_none_or(|own| text.contains(own)), "{text}");
                }
                assert_eq!(
                    c.calls()[0].request.header("authorization"),
                    None,
                    "no credential where none is configured"
                );
            }
        }
    });
}

#[test]
fn a_caller_without_a_known_key_is_turned_away_before_anything_else() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", pleasant());
        let ask = || chat("chat").user("Hi");
        let refused = [
            ask(),
            ask().key(K9),
            ask().key(""),
            ask().header("authorization", K1),
            ask().header("authorization", format!("Basic {K1}")),
            ask().header("api-key", K9),
            ask().header("cookie", format!("api-key={K1}")),
            ask().header("x-goog-api-key", K1),
            ask().path(&format!("/v1/chat/completions?key={K1}")),
            ask().path(&format!("/v1/chat/completions?api_key={K1}")),
            ask().key(&format!("{K1}x")),
            ask().key(K1.strip_suffix('2').unwrap()),
            ask().key(&K1.to_uppercase()),
            ask().header("authorization", [b"Bearer ".as_slice(), &[0xff, 0xfe]].concat()),
            ask().body("{ not json").key(K9),
            get("/v1/models"),
        ];
        for ask in refused {
            let answer = stage.caller().ask(&ask).await;
            assert_eq!((answer.status, answer.code().as_deref()), (401, Some("invalid_api_key")), "{ask:?}");
            assert_eq!(answer.json()["error"]["type"], "authentication_error");
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            assert!(!answer.text().contains(K1) && !answer.text().contains(K9));
        }
        assert_eq!(a.calls().len(), 0);
    });
}

#[test]
fn a_key_opens_its_own_routes_only() {
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        let answer = stage.caller().ask(&chat("other").user("Hi").key(K1)).await;
        assert_eq!((answer.status, answer.code().as_deref()), (403, Some("route_not_allowed")), "{}", answer.text());
        assert_eq!(answer.json()["error"]["type"], "permission_error");
        let answer = stage.caller().ask(&chat("nobody").user("Hi").key(K1)).await;
        assert_eq!((answer.status, answer.code().as_deref()), (404, Some("model_not_found")));
        let answer = stage.caller().ask(&embeddings("chat", "abc").key(K1)).await;
        assert_eq!(
            (answer.status, answer.code().as_deref()),
            (404, Some("model_not_found")),
            "a route of another path"
        );
        let models = stage.caller().ask(&get("/v1/models").key(K1)).await.json();
        let ids: Vec<&str> =
            models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["chat"]);
        assert_eq!(stage.caller().ask(&get("/v1/models/chat").key(K1)).await.json()["id"], "chat");
        assert_eq!(stage.caller().ask(&get("/v1/models/other").key(K1)).await.status, 404);
    });
}

/// Client libraries choose among OpenAI's endpoints on their own, and a list in which the name stands would send whoever
/// reads the error round in a circle.
#[test]
fn a_name_that_is_good_on_another_path_is_told_with_that_path_to_those_who_may_use_it_there() {
    story(async {
        let stage = Stage::set(CONFIG);
        for path in ["/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/rerank"] {
            let with = |model: &str| {
                let ask = chat(model).user("Hi").with("prompt", "Hi").with("input", "Hi").path(path).key(K1);
                ask.with("query", "Hi").with("documents", json!(["a"]))
            };
            let answer = stage.caller().ask(&with("chat")).await;
            assert_eq!((answer.status, answer.code().as_deref()), (404, Some("model_not_found")), "{path}");
            let told = format!("not offered on {path}, only on /v1/chat/completions");
            assert!(answer.text().contains(&told), "{}", answer.text());
            for unknown in ["other", "nobody"] {
                let answer = stage.caller().ask(&with(unknown)).await;
                assert_eq!((answer.status, answer.code().as_deref()), (404, Some("model_not_found")), "{path}");
                assert!(!answer.text().contains("chat"), "{}", answer.text());
            }
        }
    });
}

#[test]
fn no_record_holds_a_key_an_address_or_a_word_of_the_prompt() {
    let told = Told::default();
    // Where there is but one listener, tracing asks the thread that comes first whether it listens.
    let _second = tracing::Dispatch::new(Told::default());
    let listening = tracing::subscriber::set_default(told.clone());
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", pleasant());
        let ask = || chat("chat").user("the prompt is hush").with("user", K1).key(K1);
        for status in [400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503] {
            let words =
                format!("Incorrect API key provided: {P1}. You are at http://a/v1 and said: the prompt is hush");
            let refusal = json!({"error": {"message": words, "type": "invalid_request_error", "code": P1}});
            a.play(Reply { status: Some(status), ..Reply::json(refusal) });
            let answer = stage.caller().ask(&ask()).await;
            assert!(!answer.text().contains(P1), "{status}: {}", answer.text());
            assert!(answer.headers.iter().all(|(_, value)| !value.contains(P1)));
        }
        a.play(Reply::say(["an answer that is hush"]));
        for ask in [
            ask(),
            ask().stream(),
            ask().path(&format!("/v1/chat/completions?key={K9}&api_key=sk%2Dnobody%2D55d0c4e8aa")),
            ask().path(&format!("/v1/{K9}/chat")),
            chat(K1).user("Hi").key(K1),
            chat(K9).user("Hi").key(K1),
            chat("chat").user("Hi").key(K9),
            chat("other").user("Hi").key(K1),
            chat("chat").body(format!("{{\"model\": \"{K1}\" \"")).key(K1),
            chat("chat").user("Hi").key(K1).header("x-mai-timeout-ms", K1),
            get(&format!("/v1/models/{K9}")).key(K1),
        ] {
            stage.caller().ask(&ask).await;
        }
        stage.comes_to_rest().await;
        let records = format!("{}{}", stage.log_text(), stage.metrics());
        for secret in [K1, K9, P1, P2, "sk%2D", "hush", "http://a"] {
            assert!(!records.contains(secret), "{secret} in {records}");
        }
        assert_eq!(stage.log().len(), 22);
    });
    drop(listening);
    let told = told.text();
    assert!(told.contains("a try failed"), "everything was listened to: {told}");
    for secret in [K1, K9, P1, P2, "sk%2D", "hush", "http://a"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

/// Whatever is traced, at every level, as one text.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<String>>);

impl Told {
    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::Subscriber for Told {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::Id {
        span.record(&mut Written(&self.0));
        tracing::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Written(&self.0));
    }
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Written(&self.0));
    }
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

struct Written<'a>(&'a Mutex<String>);

impl tracing::field::Visit for Written<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!("{field}={value:?}\n"));
    }
}

/// How often each of two keys was seen at a host.
fn uses(host: &Host) -> [usize; 2] {
    let used = |key: &str| host.calls().iter().filter(|call| call.request.header("authorization") == Some(key)).count();
    [used("Bearer sk-one"), used("Bearer sk-two")]
}

#[test]
fn keys_take_turns_also_where_two_upstreams_share_them() {
    story(async {
        let stage = Stage::set(
            r#"
providers: [{ name: a, base_url: "http://a/v1", api_keys: [sk-one, sk-two] }]
routes:
  - name: chat
    upstreams: [{ provider: a, model: large }, { provider: a, model: small, tier: 1 }]
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#,
        );
        let a = stage.host("a", pleasant());
        for _ in 0..10 {
            assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        }
        assert_eq!(uses(&a), [5, 5]);
    });
}

#[test]
fn no_copy_is_sent_while_every_key_rests() {
    story(async {
        let stage = Stage::set(
            r#"
providers:
  - { name: a, base_url: "http://a/v1", api_key: sk-a }
  - { name: b, base_url: "http://b/v1", api_key: sk-b }
routes:
  - name: chat
    upstreams: [{ provider: a, model: m }, { provider: b, model: m, tier: 1 }]
    retry: { server_error: [] }
    mirror: { to: b }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#,
        );
        let a = stage.host("a", pleasant());
        let b = stage.host("b", Reply::status(401));
        a.play(Reply::status(500));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 502);
        let before = b.calls().len();
        a.play(pleasant());
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        stage.comes_to_rest().await;
        assert_eq!(b.calls().len(), before);
        let skipped = "mai_mirrored_total{outcome=\"skipped\",route=\"chat\",upstream=\"b/m\"}";
        assert_eq!(stage.metric(skipped), 1.0, "{}", stage.metrics());
    });
}
