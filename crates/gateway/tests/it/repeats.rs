//! Clients that repeat their calls although the gateway does the retrying.

use std::time::Duration;

use serde_json::json;
use testkit::{Ask, Reply, chat, embeddings, story};

use crate::keys::Told;
use crate::stage::{Stage, pleasant};

const CONFIG: &str = r#"
providers: [{ name: a, base_url: "http://a/v1", api_key: sk-a }]
routes:
  - { name: chat, match: { path: [/v1/chat/completions, /v1/completions] }, upstreams: [{ provider: a, model: m }] }
  - { name: other, upstreams: [{ provider: a, model: m }] }
  - { name: embedding, match: { path: /v1/embeddings }, upstreams: [{ provider: a, model: m }] }
clients:
  - { name: app, keys: [sk-app, sk-app-too], routes: ["*"] }
  - { name: batch, keys: [sk-batch], routes: ["*"] }
"#;

fn ask(text: &str) -> Ask {
    chat("chat").user(text)
}

/// How many calls of a client were repeats so far.
fn repeats(stage: &Stage, client: &str) -> f64 {
    stage.metric(&format!("mai_repeated_requests_total{{client=\"{client}\"}}"))
}

async fn send(stage: &Stage, ask: Ask) {
    let key = if ask.head().windows(7).any(|text| text == b"Bearer ") { ask } else { ask.key("sk-app") };
    assert_eq!(stage.caller().ask(&key).await.status, 200);
    stage.comes_to_rest().await;
}

fn stage() -> Stage {
    let stage = Stage::set(CONFIG);
    stage.host("a", pleasant());
    stage
}

#[test]
fn the_same_body_or_the_same_request_id_within_a_minute_is_a_repeat() {
    story(async {
        let stage = stage();
        send(&stage, ask("one")).await;
        assert_eq!(repeats(&stage, "app"), 0.0);
        send(&stage, ask("one")).await;
        assert_eq!(repeats(&stage, "app"), 1.0, "the same body");
        send(&stage, ask("two").header("x-request-id", "r-1")).await;
        send(&stage, ask("three").header("x-request-id", "r-1")).await;
        assert_eq!(repeats(&stage, "app"), 2.0, "the same id");
        send(&stage, ask("three").header("x-request-id", "r-1")).await;
        assert_eq!(repeats(&stage, "app"), 3.0, "both count as one");
        send(&stage, ask("one").key("sk-app-too")).await;
        assert_eq!(repeats(&stage, "app"), 4.0, "a client is one, whatever its keys");
    });
}

#[test]
fn other_clients_routes_endpoints_and_bodies_repeat_nothing() {
    story(async {
        let stage = stage();
        let with_id = |ask: Ask| ask.header("x-request-id", "q-1");
        for ask in [
            with_id(ask("one")),
            with_id(ask("one").key("sk-batch")),
            // One question's calls under one id: each route has its own.
            with_id(chat("other").user("two")),
            with_id(embeddings("embedding", "one")),
            with_id(chat("chat").path("/v1/completions").with("prompt", "one")),
            ask("two"),
            ask("one").with("temperature", json!(0.1)),
            chat("other").user("one"),
        ] {
            send(&stage, ask).await;
        }
        assert_eq!((repeats(&stage, "app"), repeats(&stage, "batch")), (0.0, 0.0), "{}", stage.metrics());
    });
}

#[test]
fn after_a_minute_the_same_is_new() {
    story(async {
        let stage = stage();
        send(&stage, ask("one")).await;
        tokio::time::sleep(Duration::from_secs(58)).await;
        send(&stage, ask("one")).await;
        assert_eq!(repeats(&stage, "app"), 1.0);
        tokio::time::sleep(Duration::from_secs(61)).await;
        send(&stage, ask("one")).await;
        assert_eq!(repeats(&stage, "app"), 1.0);
    });
}

#[test]
fn a_minute_is_counted_between_beginnings_however_long_a_call_takes() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::say(["w"; 90]).every(Duration::from_secs(1)));
        let mut slow = stage.caller();
        slow.begin(&ask("one").stream().key("sk-app")).await;
        a.has_calls(1).await;
        tokio::time::sleep(Duration::from_secs(80)).await;
        let mut again = stage.caller();
        again.begin(&ask("one").stream().key("sk-app")).await;
        drop(slow.answer().await.unwrap());
        // As the process does many times a second.
        stage.live.gather();
        drop(again.answer().await.unwrap());
        stage.comes_to_rest().await;
        assert_eq!(repeats(&stage, "app"), 0.0);
    });
}

#[test]
fn callers_who_leave_and_failed_calls_count_as_seen() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::hang());
        let mut caller = stage.caller();
        caller.begin(&ask("one").key("sk-app")).await;
        a.has_calls(1).await;
        drop(caller);
        stage.comes_to_rest().await;
        a.play(Reply::status(400));
        assert_eq!(stage.ask(ask("one")).await.status, 400);
        stage.comes_to_rest().await;
        assert_eq!(repeats(&stage, "app"), 1.0, "a client's own timeout, and its next attempt");
    });
}

#[test]
fn what_a_cache_answers_again_is_no_repeat() {
    story(async {
        let cached = CONFIG
            .replace("{ name: chat,", "{ name: chat, cache: { mode: exact },")
            .replace("{ name: embedding,", "{ name: embedding, cache: { mode: exact },");
        let stage = Stage::set(&cached);
        let a = stage.host("a", pleasant());
        for _ in 0..3 {
            // Others ask the same; one conversation has one id.
            send(&stage, ask("one").header("x-request-id", "r-1")).await;
            send(&stage, embeddings("embedding", "one")).await;
        }
        assert_eq!((a.calls().len(), repeats(&stage, "app")), (2, 0.0));
        a.play(Reply::say(["w"; 5]).every(Duration::from_secs(1)));
        let (mut first, mut second) = (stage.caller(), stage.caller());
        first.begin(&ask("two").stream().key("sk-app")).await;
        a.has_calls(3).await;
        second.begin(&ask("two").stream().key("sk-app")).await;
        drop((first.answer().await.unwrap(), second.answer().await.unwrap()));
        stage.comes_to_rest().await;
        assert_eq!(a.calls().len(), 3);
        assert_eq!(repeats(&stage, "app"), 0.0, "who joins a call that is under way takes nothing either");
    });
}

#[test]
fn what_went_upstream_again_beside_a_cache_is_a_repeat_and_so_is_a_replay() {
    story(async {
        let stage = Stage::set(&CONFIG.replace("{ name: chat,", "{ name: chat, cache: { mode: exact },"));
        let a = stage.host("a", Reply::hang());
        let mut caller = stage.caller();
        caller.begin(&ask("one").key("sk-app")).await;
        a.has_calls(1).await;
        drop(caller);
        stage.comes_to_rest().await;
        a.play(pleasant());
        send(&stage, ask("one")).await;
        assert_eq!(repeats(&stage, "app"), 1.0, "a client's own timeout, and its next attempt");
        for _ in 0..2 {
            send(&stage, chat("other").user("two").header("idempotency-key", "k-1")).await;
        }
        assert_eq!(repeats(&stage, "app"), 2.0, "the key says that it is the same call");
    });
}

#[test]
fn a_client_that_repeats_is_named_once() {
    let told = Told::default();
    // Where there is but one listener, tracing asks the thread that comes first whether it listens.
    let _second = tracing::Dispatch::new(Told::default());
    let listening = tracing::subscriber::set_default(told.clone());
    story(async {
        let stage = stage();
        for key in ["sk-app", "sk-app-too", "sk-batch"] {
            for _ in 0..5 {
                send(&stage, ask("one").key(key)).await;
            }
        }
        assert_eq!((repeats(&stage, "app"), repeats(&stage, "batch")), (9.0, 4.0));
    });
    drop(listening);
    let told = told.text();
    assert_eq!(told.matches("this client repeats its calls").count(), 2, "{told}");
    for client in ["client=\"app\"", "client=\"batch\""] {
        assert!(told.contains(client), "{client} in {told}");
    }
    assert!(!told.contains("sk-app"));
}
