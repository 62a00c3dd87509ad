//! Another configuration while calls run, and the gateway's own end.

use std::time::Duration;

use testkit::{End, Reply, chat, embeddings, get, story};
use tokio::task::JoinSet;

use crate::stage::{KEY, Stage, USUAL, pleasant, usual_but};

/// Ten words, half a second apart.
fn five_seconds() -> Reply {
    let words: Vec<String> = (0..10).map(|n| format!("w{n} ")).collect();
    Reply::say(words).every(Duration::from_millis(500))
}

fn all_words() -> String {
    (0..10).map(|n| format!("w{n} ")).collect()
}

/// `a` is gone, the route has another name, the key is revoked, every clock is shorter.
const OTHER: &str = r#"
providers: [{ name: b, protocol: openai, base_url: "http://b/v1", api_key: sk-b-other }]
routes:
  - name: talk
    match: { path: /v1/chat/completions }
    upstreams: [{ provider: b, model: model-b }]
    timeout: { attempt: 100ms, first_byte: 100ms, stream_idle: 200ms, stream_total: 1s }
    deadline: 200ms
clients: [{ name: fresh, keys: [sk-fresh], routes: ["*"] }]
"#;

#[test]
fn calls_in_flight_end_under_the_configuration_they_began_with() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", five_seconds());
        let b = stage.host("b", Reply::say(["from b"]));
        let mut calls = JoinSet::new();
        for stream in [true, false] {
            for _ in 0..20 {
                let mut caller = stage.caller();
                calls.spawn(async move { caller.ask(&chat("chat").user("Hi").with("stream", stream).key(KEY)).await });
            }
        }
        a.has_calls(40).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        for round in 0..10 {
            stage.reload(if round % 2 == 0 { OTHER } else { USUAL });
        }
        stage.reload(OTHER);
        let old = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!((old.status, old.code().as_deref()), (401, Some("invalid_api_key")));
        let mut fresh = stage.caller();
        let answer = fresh.ask(&chat("talk").user("Hi").key("sk-fresh")).await;
        assert_eq!((answer.status, answer.said().as_str()), (200, "from b"));
        assert_eq!(b.calls()[0].request.header("authorization"), Some("Bearer sk-b-other"));
        while let Some(answer) = calls.join_next().await {
            let answer = answer.unwrap();
            assert_eq!((answer.status, answer.said()), (200, all_words()), "{}", answer.text());
        }
        stage.comes_to_rest().await;
        let log = stage.log();
        assert_eq!(log.len(), 42);
        assert_eq!(log.iter().filter(|line| line["outcome"] == "ok" && line["route"] == "chat").count(), 40);
    });
}

#[test]
fn a_call_that_moves_on_after_a_reload_still_knows_its_upstreams() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(2)));
        stage.host("b", Reply::say(["from b"]));
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").key(KEY)).await;
        a.has_calls(1).await;
        stage.reload(OTHER);
        let answer = caller.answer().await.unwrap();
        assert_eq!((answer.said().as_str(), answer.header("x-mai-upstream")), ("from b", Some("b/model-b")));
    });
}

#[test]
fn what_unchanged_objects_have_learned_survives_a_reload() {
    story(async {
        let keys = usual_but("api_key: sk-a-secret", "api_keys: [sk-one, sk-two]");
        let stage = Stage::set(&keys);
        let by_key = testkit::Script::by(|request| match request.header("authorization") {
            Some("Bearer sk-one") => Reply::status(401),
            _ => Reply::say(["from two"]),
        });
        let a = stage.host("a", by_key);
        for _ in 0..4 {
            assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from two");
            stage.reload(&keys);
        }
        let ones =
            a.calls().iter().filter(|call| call.request.header("authorization") == Some("Bearer sk-one")).count();
        assert_eq!(ones, 1, "a refused key rests through reloads");
    });
}

#[test]
fn a_key_that_was_replaced_is_tried_at_once() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host(
            "a",
            testkit::Script::by(|request| match request.header("authorization") {
                Some("Bearer sk-a-secret") => Reply::status(401),
                _ => Reply::say(["from a"]),
            }),
        );
        stage.host("b", Reply::say(["from b"]));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from b");
        stage.reload(&usual_but("sk-a-secret", "sk-a-better"));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from a", "the rest was the old key's");
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn who_mends_where_a_key_is_shown_need_not_wait_for_its_rest() {
    // Two keys each, so that a throttle rests a key and not the upstream.
    let keys = "api_keys: [sk-one, sk-two]";
    let wrong = usual_but("api_key: sk-a-secret", keys).replace("http://a/v1", "http://a/wrong");
    for (what, mended) in [
        ("address", wrong.replace("http://a/wrong", "http://a/v1")),
        ("host", wrong.replace("http://a/wrong", "http://c/v1")),
        ("header", wrong.replace(keys, &format!("{keys}, headers: {{ x-team: rag }}"))),
    ] {
        for status in [401, 402, 403, 429] {
            story(async {
                let stage = Stage::set(&wrong);
                let by_place = move || {
                    testkit::Script::by(move |request| {
                        match request.path.starts_with("/v1/") || request.header("x-team").is_some() {
                            true => Reply::say(["mended"]),
                            false => Reply::status(status),
                        }
                    })
                };
                let (a, _c) = (stage.host("a", by_place()), stage.host("c", by_place()));
                stage.host("b", Reply::say(["from b"]));
                for _ in 0..3 {
                    assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from b");
                }
                assert_eq!(a.calls().len(), 2, "both keys rest");
                stage.reload(&mended);
                let answer = stage.ask(chat("chat").user("Hi")).await;
                assert_eq!(answer.said(), "mended", "{what} after {status}");
            });
        }
    }
}

#[test]
fn who_mends_the_version_of_an_interface_need_not_wait_for_a_rest() {
    story(async {
        let azure = |version: &str| {
            let a = format!(r#"protocol: azure-openai, base_url: "http://a", api_version: "{version}""#);
            let config = usual_but(r#"protocol: openai, base_url: "http://a/v1""#, &a);
            config.replace("{ provider: a, model: rank }, ", "")
        };
        let stage = Stage::set(&azure("2023-05-15"));
        let by_version = testkit::Script::by(|request| {
            match request.query.as_deref().is_some_and(|query| query.contains("2024-10-21")) {
                true => Reply::say(["from a"]),
                false => Reply::status(401),
            }
        });
        stage.host("a", by_version);
        stage.host("b", Reply::say(["from b"]));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from b");
        stage.reload(&azure("2024-10-21"));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from a");
    });
}

#[test]
fn a_learned_dimension_is_that_of_a_vector_space_wherever_it_is_served() {
    story(async {
        let stage = Stage::usual();
        let of =
            |dimensions| testkit::Script::always(Reply::default().with(|knobs| knobs.dimensions = Some(dimensions)));
        let (_a, _b) = (stage.host("a", of(32)), stage.host("b", of(8)));
        stage.host("c", of(8));
        let asks = async || stage.ask(embeddings("embedding", "abc")).await.status;
        assert_eq!(asks().await, 200);
        let moved = usual_but("http://a/v1", "http://c/v1");
        stage.reload(&moved);
        assert_eq!(asks().await, 502, "the application's index holds others");
        stage.reload(
            &moved.replace("match: { path: /v1/embeddings }", "match: { path: /v1/embeddings }\n    dimensions: 8"),
        );
        assert_eq!(asks().await, 200);
    });
}

#[test]
fn a_provider_that_moves_is_called_at_its_new_place_at_once() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let moved = stage.host("c:81", pleasant());
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        stage.reload(&usual_but("http://a/v1", "http://c:81/v1"));
        for _ in 0..3 {
            assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        }
        assert_eq!((a.calls().len(), moved.calls().len()), (1, 3));
        assert_eq!(a.connections_open(), 0, "the old connection is closed");
    });
}

#[test]
fn a_draining_gateway_ends_what_runs_and_takes_nothing_new() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", five_seconds());
        let mut running = stage.caller();
        running.begin(&chat("chat").user("Hi").stream().key(KEY)).await;
        a.has_calls(1).await;
        stage.live.drain();
        for path in ["/v1/chat/completions", "/v1/embeddings", "/v1/nothing"] {
            let answer = stage.ask(chat("chat").user("Hi").path(path)).await;
            assert_eq!((answer.status, answer.code().as_deref()), (503, Some("shutting_down")), "{path}");
            assert_eq!((answer.header("retry-after"), answer.header("connection")), (Some("1"), Some("close")));
        }
        assert_eq!(stage.caller().ask(&get("/readyz")).await.status, 503);
        assert_eq!(stage.caller().ask(&get("/healthz")).await.status, 200);
        assert_eq!(running.answer().await.unwrap().said(), all_words());
        assert_eq!(stage.last_line().await["outcome"], "ok");
    });
}

#[test]
fn when_the_grace_is_over_streams_end_with_an_error_and_calls_with_a_refusal() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", five_seconds());
        let (mut streaming, mut waiting) = (stage.caller(), stage.caller());
        streaming.begin(&chat("chat").user("Hi").stream().key(KEY)).await;
        a.has_calls(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        a.play(Reply::hang());
        waiting.begin(&chat("chat").user("Hi").key(KEY)).await;
        a.has_calls(2).await;
        stage.live.drain();
        stage.live.cut_short();
        let answer = streaming.answer().await.unwrap();
        assert_eq!(
            (answer.status, answer.is_whole, answer.code().as_deref()),
            (200, true, Some("shutting_down")),
            "{}",
            answer.text()
        );
        assert!(!answer.events().said().is_empty() && !answer.events().is_done());
        let answer = waiting.answer().await.unwrap();
        assert_eq!((answer.status, answer.code().as_deref()), (503, Some("shutting_down")));
        for call in [1, 2] {
            assert_eq!(a.ending_of(call).await, End::Gone);
        }
        stage.comes_to_rest().await;
        let log = stage.log();
        assert_eq!(log.len(), 2);
        for line in &log {
            assert_eq!(
                (line["outcome"].as_str(), line["attempts"][0]["outcome"].as_str()),
                (Some("gateway_shutdown"), Some("cancelled")),
                "{line}"
            );
        }
        assert!(log.iter().any(|line| line["tokens_out"].as_u64() > Some(0)), "what was said is counted");
    });
}

#[test]
fn when_the_grace_is_over_who_takes_nothing_of_an_answer_is_written_down_all_the_same() {
    story(async {
        let stage = Stage::usual();
        let words = vec!["x".repeat(4_000); 1_000];
        let a = stage.host("a", Reply::say(words));
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").stream().key(KEY)).await;
        a.has_calls(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.live.drain();
        stage.live.cut_short();
        assert_eq!(stage.live.requests(), 1);
        // The process waits no longer than a second.
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(stage.live.requests(), 0);
        let line = stage.last_line().await;
        assert_eq!(
            (line["outcome"].as_str(), line["code"].as_str(), line["attempts"][0]["outcome"].as_str()),
            (Some("gateway_shutdown"), Some("shutting_down"), Some("cancelled"))
        );
        assert!(line["tokens_out"].as_u64() > Some(0), "what was said is counted");
        assert_eq!(a.ending_of(1).await, End::Gone);
        drop(caller);
    });
}
