//! Log and metrics: one word for each ending, and nothing in them that callers invent.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, At, How, Reply, Scenario, Storm, chat, embeddings, get, story};

use crate::chunks::delta;
use crate::stage::{KEY, Stage, alone, pleasant};

/// Parses the exposition by the text format's rules, strictly enough to notice what breaks it.
fn series(metrics: &str) -> Vec<(String, f64)> {
    assert!(metrics.ends_with('\n'));
    let mut found = Vec::new();
    for line in metrics.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(comment.starts_with("HELP mai_") || comment.starts_with("TYPE mai_"), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        let bare = name.split('{').next().unwrap();
        assert!(
            bare.starts_with("mai_") && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            "{line}"
        );
        assert_eq!(name.contains('{'), name.ends_with('}'), "{line}");
        found.push((name.to_owned(), value.parse().expect("a number")));
    }
    found
}

#[test]
fn what_callers_invent_makes_no_series() {
    story(async {
        let stage = Stage::usual();
        let storm = Storm::seed(1);
        let random = |prefix: &str| format!("{prefix}-{}-\"'\\\n{{}}问", storm.number(0..1 << 40));
        let odd_names = Reply::default().with(|knobs| knobs.model = Some("an\"odd\nname".to_owned()));
        stage.host("a", odd_names);
        let round = async |count: usize| {
            let mut caller = stage.caller();
            for _ in 0..count {
                let plain = || format!("x{}", storm.number(0..1 << 40));
                for ask in [
                    chat(&random("model")).user("Hi").key(KEY),
                    chat(&"m".repeat(10_000)).user("Hi").key(KEY),
                    chat("chat").user("Hi").key(&plain()),
                    chat("chat").user("Hi").key(KEY).path(&format!("/v1/{}", plain())),
                    chat("chat").user("Hi").key(KEY).path(&format!("/{}/{}", plain(), plain())),
                    get(&format!("/v1/models/{}", plain())).key(KEY),
                    chat("chat")
                        .key(KEY)
                        .user("Hi")
                        .with("user", random("user"))
                        .header("x-mai-tag", plain())
                        .header("x-mai-kb-version", plain())
                        .header("x-request-id", plain()),
                ] {
                    caller.ask(&ask).await;
                }
                let method = storm.one_of(&["BREW", "PATCH", "OPTIONS", "PROPFIND"]);
                stage.ask(chat("chat").user("Hi").method(method)).await;
            }
        };
        round(3).await;
        stage.comes_to_rest().await;
        let before = series(&stage.metrics()).len();
        round(100).await;
        stage.comes_to_rest().await;
        let after = series(&stage.metrics());
        assert!(after.len() <= before + 3, "{before} and then {}", after.len());
        let unknown = after
            .iter()
            .filter(|(name, _)| name.starts_with("mai_requests_total{") && name.contains("route=\"unknown\""));
        assert!(unknown.map(|(_, count)| *count).sum::<f64>() >= 600.0, "they are counted all the same");
        let all = after
            .iter()
            .filter(|(name, _)| name.starts_with("mai_requests_total{"))
            .map(|(_, count)| *count)
            .sum::<f64>();
        assert_eq!(all, stage.log().len() as f64);
    });
}

/// The one line and the one series of the one call so far agree; returns the line.
async fn agrees(stage: &Stage, status: u16, outcome: &str) -> Value {
    stage.comes_to_rest().await;
    let log = stage.log();
    assert_eq!(log.len(), 1, "{log:?}");
    let line = log[0].clone();
    assert_eq!((&line["status"], &line["outcome"]), (&json!(status), &json!(outcome)), "{line}");
    let counted: Vec<(String, f64)> =
        series(&stage.metrics()).into_iter().filter(|(name, _)| name.starts_with("mai_requests_total{")).collect();
    let name = |field: &str| line[field].as_str().unwrap_or("unknown").to_owned();
    let expected = format!(
        r#"mai_requests_total{{cache="",client="{}",outcome="{outcome}",route="{}",status="{status}"}}"#,
        name("client"),
        name("route")
    );
    assert_eq!(counted, [(expected, 1.0)]);
    let tokens = |kind: &str| -> f64 {
        let of_kind = format!("kind=\"{kind}\"");
        series(&stage.metrics())
            .iter()
            .filter(|(name, _)| name.starts_with("mai_tokens_total{") && name.contains(&of_kind))
            .map(|(_, count)| count)
            .sum()
    };
    assert_eq!(tokens("prompt"), line["tokens_in"].as_f64().unwrap_or(0.0), "{line}");
    assert_eq!(tokens("completion"), line["tokens_out"].as_f64().unwrap_or(0.0), "{line}");
    let attempts: f64 = series(&stage.metrics())
        .iter()
        .filter(|(name, _)| name.starts_with("mai_upstream_attempts_total{"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(attempts, line["attempts"].as_array().unwrap().len() as f64);
    line
}

async fn one(reply: impl Into<Scenario>, ask: testkit::Ask) -> (Stage, Answer) {
    let stage = Stage::set(&alone("openai", "http://a/v1"));
    stage.host("a", reply);
    let answer = stage.caller().ask(&ask).await;
    (stage, answer)
}

#[test]
fn every_ending_has_one_name_in_log_and_metrics() {
    story(async {
        let ask = || chat("chat").user("anna@example.org asks").with("user", "anna@example.org").key(KEY);
        let endings: Vec<(Scenario, testkit::Ask, u16, &str)> = vec![
            (Reply::default().into(), ask(), 200, "ok"),
            (Reply::default().into(), ask().stream(), 200, "ok"),
            (Reply::sse([delta("Hel")]).into(), ask().stream(), 200, "upstream_cut"),
            (
                Reply::sse([delta("Hel"), "{\"error\":{\"message\":\"x\"}}".to_owned()]).into(),
                ask().stream(),
                200,
                "upstream_cut",
            ),
            (Reply::json(json!({"error": {"message": "no capacity"}})).into(), ask(), 502, "upstream_bad_response"),
            (Reply::text("no").into(), ask(), 502, "upstream_bad_response"),
            (Reply::status(500).into(), ask(), 502, "upstream_failed"),
            (Reply::reset().into(), ask(), 502, "upstream_failed"),
            (Reply::hang().into(), ask(), 504, "upstream_timeout"),
            (Reply::status(429).into(), ask(), 429, "upstream_throttled"),
            (Reply::status(401).into(), ask(), 502, "upstream_failed"),
            (Reply::status(400).into(), ask(), 400, "caller_refused"),
            (Reply::status(422).into(), ask(), 422, "caller_refused"),
            (Reply::default().into(), ask().body("{"), 400, "caller_invalid"),
            (Reply::default().into(), chat("chat").user("Hi"), 401, "caller_unauthenticated"),
            (Reply::default().into(), chat("nobody").user("Hi").key(KEY), 404, "caller_not_found"),
            (Reply::default().into(), ask().path("/v1/nothing"), 404, "caller_not_found"),
            (Reply::default().into(), ask().method("GET"), 405, "caller_invalid"),
            (Reply::default().into(), get("/v1/models").key(KEY), 200, "ok"),
            (Reply::default().into(), embeddings("embedding", "abc").key(KEY), 200, "ok"),
        ];
        for (scenario, ask, status, outcome) in endings {
            let (stage, answer) = one(scenario, ask).await;
            assert_eq!(answer.status, status, "{outcome}: {}", answer.text());
            let line = agrees(&stage, status, outcome).await;
            assert_eq!(line["code"].as_str().map(str::to_owned), answer.code(), "{line}");
            assert_eq!(line["request_id"].as_str(), answer.header("x-request-id"));
            assert!(!stage.log_text().contains("anna") && !stage.metrics().contains("anna"));
        }
    });
}

#[test]
fn a_caller_who_left_has_an_ending_of_its_own_and_pays_for_what_it_got() {
    story(async {
        let words: Vec<String> = (0..100).map(|n| format!("w{n} ")).collect();
        let stage = Stage::set(&alone("openai", "http://a/v1"));
        stage.host("a", Reply::say(words).every(Duration::from_millis(200)));
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").stream().key(KEY)).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        drop(caller);
        let line = agrees(&stage, 200, "caller_gone").await;
        assert!((5..60).contains(&line["tokens_out"].as_u64().unwrap()), "{line}");
        assert!(line["ttft_ms"].is_number());

        let stage = Stage::set(&alone("openai", "http://a/v1"));
        let a = stage.host("a", Reply::hang());
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").key(KEY)).await;
        a.has_calls(1).await;
        drop(caller);
        let line = agrees(&stage, 499, "caller_gone").await;
        assert_eq!(line["attempts"][0]["outcome"], "caller_gone");
    });
}

#[test]
fn what_a_failed_stream_has_cost_is_counted_once() {
    story(async {
        let events: Vec<String> = (0..20).map(|_| delta("four words in each ")).collect();
        let (stage, _) =
            one(Reply::sse(events).cut(At::Events(20), How::Rst), chat("chat").user("Hi").stream().key(KEY)).await;
        let line = agrees(&stage, 200, "upstream_cut").await;
        assert!(line["tokens_out"].as_u64().unwrap() >= 80, "{line}");
        let stage = Stage::usual();
        stage.host("a", Reply::sse([delta("")]).cut(At::Events(1), How::Rst));
        stage.host("b", pleasant());
        stage.ask(chat("chat").user("Hi").stream()).await;
        let line = agrees(&stage, 200, "ok").await;
        assert_eq!(line["upstream"], "b/model-b");
    });
}

#[test]
fn running_totals_are_not_summed() {
    story(async {
        let total = |prompt: u64, completion: u64| {
            json!({"choices": [{"index": 0, "delta": {"content": "x"}}], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}).to_string()
        };
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 3}}).to_string();
        let (stage, _) = one(
            Reply::sse([total(10, 1), total(10, 2), end, "[DONE]".to_owned()]),
            chat("chat").user("Hi").stream().key(KEY),
        )
        .await;
        let line = agrees(&stage, 200, "ok").await;
        assert_eq!((&line["tokens_in"], &line["tokens_out"]), (&json!(10), &json!(3)));
    });
}

#[test]
fn the_time_told_as_overhead_is_not_the_upstreams() {
    story(async {
        for stream in [false, true] {
            let (stage, answer) = one(
                Reply::default().every(Duration::from_millis(100)).after(Duration::from_secs(3)),
                chat("chat").user("Hi").with("stream", stream).key(KEY),
            )
            .await;
            let told: f64 = answer.header("x-mai-overhead-ms").unwrap().parse().unwrap();
            assert!(told < 50.0, "{told}");
            let line = agrees(&stage, 200, "ok").await;
            assert!(line["ms"].as_f64().unwrap() >= 3000.0 && line["overhead_ms"].as_f64().unwrap() < 50.0, "{line}");
        }
    });
}
