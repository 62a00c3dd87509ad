//! Answers in the place of failures, for applications that would rather go on without.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, Ask, At, How, Reply, chat, embeddings, rerank, story};

use crate::chunks::{delta, role};
use crate::stage::{KEY, Stage, pleasant, usual_but};

/// One upstream; routes and clients that degrade or do not.
fn config(of_routes: &str, of_client: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, base_url: "http://a/v1", api_key: sk-a }}]
routes:
  - name: chat
    upstreams: [{{ provider: a, model: m }}]
    retry: {{ server_error: [], throttled: [] }}
    {of_routes}
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: m }}]
    retry: {{ server_error: [], throttled: [] }}
    {of_routes}
  - name: rerank
    match: {{ path: /v1/rerank }}
    upstreams: [{{ provider: a, model: m }}]
    retry: {{ server_error: [], throttled: [] }}
    {of_routes}
clients: [{{ name: app, keys: [sk-app], routes: ["*"]{of_client} }}]
"#
    )
}

const DEGRADE: &str = "on_failure: degrade";

fn degrading() -> Stage {
    Stage::set(&config(DEGRADE, ""))
}

fn ask() -> Ask {
    rerank("rerank", "query", ["first", "second", "third"])
}

fn indexes(answer: &Answer) -> Vec<u64> {
    answer.json()["results"].as_array().unwrap().iter().map(|result| result["index"].as_u64().unwrap()).collect()
}

#[test]
fn documents_come_back_in_their_given_order_and_say_that_they_are_not_ranked() {
    story(async {
        let stage = degrading();
        let a = stage.host("a", Reply::status(500));
        let answer = stage.ask(ask()).await;
        assert_eq!(
            (answer.status, answer.header("x-mai-degraded")),
            (200, Some("upstream_error")),
            "{}",
            answer.text()
        );
        assert_eq!((answer.header("x-mai-upstream"), answer.header("x-mai-attempts")), (None, Some("1")));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let body = answer.json();
        assert_eq!(
            (&body["degraded"], &body["object"], &body["model"]),
            (&json!(true), &json!("list"), &json!("rerank"))
        );
        assert_eq!(indexes(&answer), [0, 1, 2]);
        for result in body["results"].as_array().unwrap() {
            assert_eq!((&result["relevance_score"], result.get("document")), (&json!(0), None));
        }
        assert_eq!(body["usage"]["total_tokens"], 0, "nobody was billed");
        let line = stage.last_line().await;
        assert_eq!(
            (&line["outcome"], &line["status"], &line["degraded"], &line["attempts"][0]["outcome"]),
            (&json!("upstream_degraded"), &json!(200), &json!("upstream_error"), &json!("status"))
        );
        let metrics = stage.metrics();
        let counted = metrics.lines().find(|line| line.starts_with("mai_requests_total{")).unwrap();
        assert!(counted.contains("outcome=\"upstream_degraded\"") && counted.contains("status=\"200\""), "{counted}");
        // Whoever is well again ranks again.
        a.play(pleasant());
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.header("x-mai-degraded"), answer.json().get("degraded")), (None, None));
    });
}

#[test]
fn what_the_caller_asked_of_the_answer_is_kept_to() {
    story(async {
        let stage = degrading();
        stage.host("a", Reply::status(500));
        assert_eq!(indexes(&stage.ask(ask().with("top_n", 2)).await), [0, 1]);
        assert_eq!(indexes(&stage.ask(ask().with("top_n", 50)).await), [0, 1, 2]);
        let documents = json!([{"text": "one", "id": 7}, "two"]);
        let answer = stage.ask(ask().with("documents", documents).with("return_documents", true)).await;
        let results = answer.json()["results"].clone();
        assert_eq!((&results[0]["document"]["text"], &results[0]["document"]["id"]), (&json!("one"), &json!(7)));
        assert_eq!(results[1]["document"]["text"], "two");
        let voyage = stage.ask(ask().with("top_k", 1)).await.json();
        assert_eq!(voyage["data"].as_array().map(Vec::len), Some(1), "as Voyage's clients read it: {voyage}");
        // TEI's own list has no room for more than the header.
        let texts = chat("rerank").path("/v1/rerank").with("query", "q").with("texts", json!(["x", "y"]));
        let answer = stage.ask(texts).await;
        assert_eq!((answer.status, answer.json().as_array().map(Vec::len)), (200, Some(2)), "{}", answer.text());
        assert_eq!(answer.header("x-mai-degraded"), Some("upstream_error"));
    });
}

#[test]
fn chats_and_embeddings_say_in_an_error_that_the_application_may_go_on_without() {
    story(async {
        let stage = degrading();
        stage.host("a", Reply::status(500));
        for ask in [chat("chat").user("Hi"), chat("chat").user("Hi").stream(), embeddings("embedding", "abc")] {
            let answer = stage.ask(ask).await;
            assert_eq!(
                (answer.status, answer.code().as_deref(), answer.header("x-mai-degraded")),
                (503, Some("degraded"), Some("upstream_error")),
                "{}",
                answer.text()
            );
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            assert_eq!(answer.json()["error"]["type"], "api_error");
            let line = stage.last_line().await;
            assert_eq!(
                (&line["outcome"], &line["status"], &line["code"], &line["degraded"]),
                (&json!("upstream_degraded"), &json!(503), &json!("degraded"), &json!("upstream_error"))
            );
        }
    });
}

#[test]
fn a_client_knows_better_what_its_answers_are_for() {
    for (route, client, degraded) in [
        ("", "", false),
        (DEGRADE, "", true),
        ("", ", on_failure: degrade", true),
        (DEGRADE, ", on_failure: error", false),
        ("on_failure: error", ", on_failure: degrade", true),
        // Nothing old is kept yet.
        ("on_failure: stale", "", false),
        (DEGRADE, ", on_failure: stale", false),
    ] {
        story(async {
            let stage = Stage::set(&config(route, client));
            stage.host("a", Reply::status(500));
            let answer = stage.ask(ask()).await;
            assert_eq!(
                (answer.status == 200, answer.status),
                (degraded, if degraded { 200 } else { 502 }),
                "{route} {client}"
            );
            assert_eq!(answer.header("x-mai-degraded").is_some(), degraded);
            let answer = stage.ask(chat("chat").user("Hi")).await;
            assert_eq!(answer.status, if degraded { 503 } else { 502 });
        });
    }
}

fn error(status: u16, error: Value) -> Reply {
    Reply { status: Some(status), ..Reply::json(json!({"error": error})) }
}

#[test]
fn the_callers_own_faults_are_told_as_they_are() {
    let filter = json!({"message": "filtered", "code": "content_filter"});
    let long = json!({"message": "maximum context length is 10", "code": "context_length_exceeded"});
    for fault in [
        Reply::status(400),
        Reply::status(404),
        Reply::status(413),
        Reply::status(422),
        error(400, filter),
        error(200, long),
    ] {
        story(async {
            let stage = degrading();
            stage.host("a", fault.clone());
            for ask in [ask(), chat("chat").user("Hi"), embeddings("embedding", "abc")] {
                let answer = stage.ask(ask).await;
                assert!((400..500).contains(&answer.status), "{fault:?}: {} {}", answer.status, answer.text());
                assert_eq!(answer.header("x-mai-degraded"), None);
            }
        });
    }
    story(async {
        let stage = degrading();
        let a = stage.host("a", Reply::status(500));
        for (ask, status) in [
            (rerank("rerank", "", ["a"]), 400),
            (ask().with("top_n", 0), 400),
            (rerank("nobody", "q", ["a"]), 404),
            (ask().header("x-mai-timeout-ms", "soon"), 400),
            (ask().body("{"), 400),
        ] {
            let answer = stage.ask(ask).await;
            assert_eq!((answer.status, answer.header("x-mai-degraded")), (status, None), "{}", answer.text());
        }
        assert_eq!(stage.caller().ask(&ask().key("sk-nobody")).await.status, 401);
        assert!(a.calls().is_empty());
        stage.live.drain();
        assert_eq!(stage.ask(ask()).await.code().as_deref(), Some("shutting_down"));
    });
}

#[test]
fn a_stream_that_has_begun_ends_with_its_error() {
    story(async {
        let stage = degrading();
        stage.host("a", Reply::sse([role(), delta("Hel")]).cut(At::Events(2), How::Rst));
        let answer = stage.ask(chat("chat").user("Hi").stream()).await;
        assert_eq!((answer.status, answer.code().as_deref()), (200, Some("upstream_error")), "{}", answer.text());
        assert_eq!(answer.header("x-mai-degraded"), None);
        assert_eq!(stage.last_line().await["outcome"], "upstream_cut");
    });
}

#[test]
fn whatever_fails_upstream_is_softened_and_said() {
    for (reply, why) in [
        (Reply::status(500), "upstream_error"),
        (Reply::status(401), "upstream_error"),
        (Reply::reset(), "upstream_error"),
        (Reply::json(json!("no")), "upstream_bad_response"),
        (Reply::hang(), "upstream_timeout"),
        (Reply::status(429).header("retry-after", "60"), "upstream_throttled"),
    ] {
        story(async {
            let stage = degrading();
            stage.host("a", reply.clone());
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, answer.header("x-mai-degraded")), (200, Some(why)), "{reply:?}");
            assert_eq!((indexes(&answer).len(), answer.header("retry-after")), (3, None));
        });
    }
}

#[test]
fn open_breakers_rests_and_deadlines_are_failures_too() {
    story(async {
        let stage = degrading();
        let a = stage.host("a", Reply::status(500));
        for _ in 0..5 {
            stage.ask(ask()).await;
        }
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, answer.header("x-mai-degraded")), (200, Some("all_upstreams_unavailable")));
        assert_eq!((answer.header("x-mai-attempts"), a.calls().len()), (Some("0"), 5), "at once, and nobody is called");
        a.play(Reply::status(429).header("retry-after", "60"));
        tokio::time::sleep(Duration::from_secs(30)).await;
        for attempts in ["1", "0"] {
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, answer.header("x-mai-degraded")), (200, Some("upstream_throttled")));
            assert_eq!(answer.header("x-mai-attempts"), Some(attempts));
        }
        let stage = degrading();
        stage.host("a", Reply::hang());
        let answer = stage.ask(ask().header("x-mai-timeout-ms", "500")).await;
        assert_eq!(
            (answer.status, answer.header("x-mai-degraded")),
            (200, Some("deadline_exceeded")),
            "{}",
            answer.text()
        );
        let answer = stage.ask(ask().header("x-mai-timeout-ms", "40")).await;
        assert_eq!((answer.status, answer.header("x-mai-degraded")), (200, Some("deadline_exceeded")));
    });
}

#[test]
fn vectors_of_another_dimension_are_a_failure_too() {
    story(async {
        let stage = degrading();
        let a = stage.host("a", pleasant());
        assert_eq!(stage.ask(embeddings("embedding", "abc")).await.status, 200);
        a.play(Reply::default().with(|knobs| knobs.dimensions = Some(8)));
        let answer = stage.ask(embeddings("embedding", "abc")).await;
        assert_eq!(
            (answer.status, answer.code().as_deref(), answer.header("x-mai-degraded")),
            (503, Some("degraded"), Some("embedding_dimension_mismatch")),
            "{}",
            answer.text()
        );
    });
}

#[test]
fn a_call_in_parts_of_which_one_fails_is_degraded_as_a_whole() {
    story(async {
        let parts = config(DEGRADE, "").replace(
            "match: { path: /v1/embeddings }",
            "match: { path: /v1/embeddings }\n    batch: { max_inputs: 1 }",
        );
        let stage = Stage::set(&parts);
        let a = stage.host("a", testkit::Script::new().on_call(2, Reply::status(500)));
        let answer = stage.ask(embeddings("embedding", vec!["one", "two", "three"])).await;
        assert_eq!(
            (answer.status, answer.header("x-mai-degraded")),
            (503, Some("upstream_error")),
            "{}",
            answer.text()
        );
        assert!(a.calls().len() <= 3);
        assert_eq!(stage.last_line().await["outcome"], "upstream_degraded");
    });
}

#[test]
fn an_upstream_that_is_too_busy_is_gone_on_without_whether_patience_ends_first_or_the_deadline() {
    story(async {
        for (timeout, why) in [("5000", "queue_timeout"), ("500", "deadline_exceeded")] {
            let config = usual_but("api_key: sk-a-secret", "api_key: sk-a-secret, concurrency: { max: 1 }")
                .replace(", { provider: b, model: rank, tier: 1 }", "")
                .replace("  - name: rerank\n", "  - name: rerank\n    on_failure: degrade\n");
            let stage = Stage::set(&config);
            let a = stage.host("a", Reply::default().after(Duration::from_secs(4)));
            let mut holder = stage.caller();
            holder.begin(&ask().key(KEY)).await;
            a.has_calls(1).await;
            let answer = stage.ask(ask().header("x-mai-timeout-ms", timeout)).await;
            assert_eq!((answer.status, answer.header("x-mai-degraded")), (200, Some(why)), "{}", answer.text());
            assert_eq!(indexes(&answer), [0, 1, 2]);
            stage.comes_to_rest().await;
            let log = stage.log();
            let line = log.iter().find(|line| line["attempts"] == json!([])).unwrap();
            assert_eq!((&line["outcome"], &line["degraded"]), (&json!("upstream_degraded"), &json!(why)));
        }
    });
}
