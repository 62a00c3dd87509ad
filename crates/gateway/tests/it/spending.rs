//! What was really spent: an upstream that has answered is paid, also where its answer is not passed on.

use std::time::Duration;

use serde_json::{Value, json};
use state::{Amounts, Columns, Question, Sums};
use testkit::{Ask, At, How, Reply, Script, Storm, chat, embeddings, rerank, storms, story};

use crate::stage::{KEY, Stage, usual_but, without_breakers, without_waits};

/// The usual gateway, whose first client has this quota and more; two texts make a call, and 32 documents; `a`
/// takes dollars, `b` yuan.
fn config(of_client: &str) -> String {
    let app = "  - { name: app, keys: [sk-app], routes: [\"*\"] }";
    let client = format!("  - {{ name: app, keys: [sk-app], routes: [\"*\"], {of_client} }}");
    let providers = "providers:\n  - { name: rank-a, protocol: tei, base_url: \"http://a\" }\n  - { name: rank-b, protocol: tei, base_url: \"http://b\" }";
    let config = usual_but(app, &client)
        .replace("providers:", providers)
        .replace("match: { path: /v1/embeddings }", "match: { path: /v1/embeddings }\n    batch: { max_inputs: 2 }")
        .replace("provider: a, model: embed", "provider: a, model: embed, prices: { prompt: 1000 }")
        .replace("provider: b, model: embed", "provider: b, model: embed, prices: { prompt: 7000, currency: CNY }")
        .replace("provider: a, model: rank", "provider: rank-a, model: rank, prices: { search_unit: 0.01 }")
        .replace("provider: b, model: rank", "provider: rank-b, model: other-rank");
    without_breakers(&without_waits(&config))
}

/// The same, and vectors have 384 numbers.
fn of_384(of_client: &str) -> String {
    config(of_client).replace("batch: { max_inputs: 2 }", "batch: { max_inputs: 2 }\n    dimensions: 384")
}

/// Three parts' documents; the second part's has one that is bad.
fn documents() -> Vec<&'static str> {
    let mut documents = vec!["good"; 70];
    documents[40] = "bad";
    documents
}

fn quota() -> String {
    config("quota: { tokens: 10000, cost: 100 }")
}

/// An answer for which the upstream counts 70 tokens.
fn seventy() -> Reply {
    // Text-embeddings-inference says it in a header.
    Reply::default().usage(json!({ "prompt_tokens": 70, "total_tokens": 70 })).header("x-compute-tokens", "70")
}

/// One that has another dimension.
fn of_eight() -> Reply {
    seventy().with(|knobs| knobs.dimensions = Some(8))
}

/// Whether a call holds that text.
fn holds(request: &testkit::Request, text: &str) -> bool {
    String::from_utf8_lossy(&request.body).contains(text)
}

/// Answers after a second, but the call with the text `bad`: so after half of one.
fn but_bad(reply: Reply) -> Script {
    Script::by(move |request| match holds(request, "bad") {
        true => reply.clone().after(Duration::from_millis(1500)),
        false => seventy().after(Duration::from_secs(1)),
    })
}

/// What the ledger has of the first client, by upstream: requests, tokens, billionths and their currency,
/// requests at an unknown price.
async fn ledger(stage: &Stage) -> Vec<(String, u64, u64, u64, String, u64)> {
    stage.comes_to_rest().await;
    stage.live.gather();
    let by = Columns { upstream: true, ..Columns::default() };
    let rows = stage.live.usage_ledger.store.report(Question { by, ..Question::default() }).await.unwrap();
    let mut rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let Sums { requests, tokens_in, tokens_out, cost, unpriced, .. } = row.sums;
            (row.upstream.to_string(), requests, tokens_in + tokens_out, cost, row.currency.to_string(), unpriced)
        })
        .collect();
    rows.sort();
    rows
}

/// What the first client's quota has, once nothing is put aside.
fn spent(stage: &Stage) -> Amounts {
    let quota = stage.live.running().quotas.named("app").unwrap().clone();
    let standing = quota.account().standing(quota.period(base::Clock.wall()));
    assert_eq!(standing.reserved, Amounts::default(), "nothing stays put aside");
    standing.spent
}

/// The last call's tokens, which log, metrics and quota agree upon.
async fn tokens(stage: &Stage, route: &str) -> u64 {
    let line = stage.last_line().await;
    let tokens = line["tokens_in"].as_u64().unwrap_or_default();
    let metric = stage.metric(&format!("mai_tokens_total{{client=\"app\",kind=\"prompt\",route=\"{route}\"}}"));
    assert_eq!(metric, tokens as f64, "{line}");
    assert_eq!(spent(stage).tokens, tokens, "{line}");
    tokens
}

#[test]
fn parts_that_were_answered_count_where_another_fails_for_good() {
    story(async {
        for (reply, status) in [(Reply::status(400), 400), (Reply::status(500), 502), (Reply::hang(), 504)] {
            let stage = Stage::set(&quota());
            stage.host("a", but_bad(reply.clone()));
            stage.host("b", Script::always(reply));
            let texts = json!(["one", "two", "three", "four", "bad", "six"]);
            let answer = stage.ask(embeddings("embedding", texts).header("x-mai-timeout-ms", "20000")).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(tokens(&stage, "embedding").await, 140, "{status}: two of three parts");
            let line = stage.last_line().await;
            assert_eq!((line["cost"].to_string().as_str(), &line["upstream"]), ("0.14", &Value::Null), "{line}");
            assert_eq!(spent(&stage).cost, 140_000_000);
            let rows = ledger(&stage).await;
            let row = |upstream: &str, requests, tokens, cost, currency: &str| {
                (upstream.to_owned(), requests, tokens, cost, currency.to_owned(), 0)
            };
            assert_eq!(rows, [row("", 1, 0, 0, ""), row("a/embed", 0, 140, 140_000_000, "USD")]);
        }
    });
}

#[test]
fn parts_that_were_answered_count_where_the_caller_leaves() {
    story(async {
        let stage = Stage::set(&quota());
        stage.host("a", but_bad(Reply::hang()));
        let mut caller = stage.caller();
        caller.begin(&embeddings("embedding", json!(vec!["one", "two", "bad", "four"])).key(KEY)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(caller);
        assert_eq!(tokens(&stage, "embedding").await, 70);
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], &line["status"]), (&json!("caller_gone"), &json!(499)));
    });
}

#[test]
fn parts_that_were_answered_count_where_the_gateway_stops() {
    story(async {
        let stage = Stage::set(&quota());
        stage.host("a", but_bad(Reply::hang()));
        let mut caller = stage.caller();
        caller.begin(&embeddings("embedding", json!(vec!["one", "two", "bad", "four"])).key(KEY)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        stage.live.drain();
        stage.live.cut_short();
        assert_eq!(caller.answer().await.unwrap().status, 503);
        assert_eq!(tokens(&stage, "embedding").await, 70);
    });
}

#[test]
fn parts_that_were_answered_count_where_the_answer_is_a_degraded_one() {
    story(async {
        let stage = Stage::set(&config("quota: { tokens: 10000 }, on_failure: degrade"));
        stage.host("a", but_bad(Reply::status(500)));
        stage.host("b", Reply::status(500));
        let answer = stage.ask(rerank("rerank", "q", documents())).await;
        assert_eq!((answer.status, &answer.json()["degraded"]), (200, &json!(true)), "{}", answer.text());
        assert_eq!(tokens(&stage, "rerank").await, 140);
    });
}

#[test]
fn scores_that_another_model_gives_anew_are_paid_twice() {
    story(async {
        let stage = Stage::set(&quota());
        stage.host("a", but_bad(Reply::status(500)));
        stage.host("b", Script::always(seventy()));
        let answer = stage.ask(rerank("rerank", "q", documents())).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["usage"]["total_tokens"], 210, "the caller is told of what it got");
        assert_eq!(tokens(&stage, "rerank").await, 350, "two parts by `a`, three by `b`");
        let rows = ledger(&stage).await;
        let tokens: Vec<_> = rows.iter().map(|row| (row.0.as_str(), row.1, row.2)).collect();
        assert_eq!(tokens, [("rank-a/rank", 0, 140), ("rank-b/other-rank", 1, 210)]);
    });
}

#[test]
fn vectors_that_are_withheld_are_paid_beside_those_that_are_given() {
    story(async {
        let stage = Stage::set(&of_384("quota: { tokens: 10000, cost: 100 }"));
        stage.host("a", Script::always(of_eight()));
        stage.host("b", Script::always(seventy().with(|knobs| knobs.dimensions = Some(384))));
        assert_eq!(stage.ask(embeddings("embedding", "text")).await.status, 200);
        assert_eq!(tokens(&stage, "embedding").await, 140);
        assert_eq!(stage.last_line().await["cost"], Value::Null, "dollars and yuan have no sum");
        let of = |metric: &str| stage.metric(metric);
        assert!((of("mai_cost_total{client=\"app\",route=\"embedding\"}") - 0.07).abs() < 1e-12);
        assert!((of("mai_cost_other_total{client=\"app\",currency=\"CNY\",route=\"embedding\"}") - 0.49).abs() < 1e-12);
        assert_eq!(spent(&stage).cost, 70_000_000, "a quota counts its own currency");
        let rows = ledger(&stage).await;
        let seen: Vec<_> = rows.iter().map(|row| (row.0.as_str(), row.1, row.2, row.3, row.4.as_str())).collect();
        assert_eq!(seen, [("a/embed", 0, 70, 70_000_000, "USD"), ("b/embed", 1, 70, 490_000_000, "CNY")]);
    });
}

#[test]
fn vectors_that_are_withheld_for_good_are_paid_too_also_where_their_usage_is_not_told() {
    story(async {
        for usage in [json!({ "prompt_tokens": 70, "total_tokens": 70 }), Value::Null] {
            let stage = Stage::set(&of_384("quota: { tokens: 10000, cost: 100 }"));
            for host in ["a", "b"] {
                stage.host(host, Script::always(of_eight().usage(usage.clone())));
            }
            let ask = embeddings("embedding", "text");
            let guess = 2 * base::estimate(&ask.bytes());
            let answer = stage.ask(ask).await;
            assert_eq!(answer.code().as_deref(), Some("embedding_dimension_mismatch"));
            let expected = if usage.is_null() { guess } else { 140 };
            assert_eq!(tokens(&stage, "embedding").await, expected);
        }
    });
}

#[test]
fn an_answer_that_is_none_is_paid_where_it_says_what_it_used() {
    story(async {
        let usage = json!({ "prompt_tokens": 70, "completion_tokens": 0, "total_tokens": 70 });
        let empty = Reply::json(json!({ "object": "list", "data": [], "usage": usage }));
        let stage = Stage::set(&quota());
        stage.host("a", Script::always(empty));
        stage.host("b", Script::always(seventy()));
        assert_eq!(stage.ask(embeddings("embedding", "text")).await.status, 200);
        assert_eq!(tokens(&stage, "embedding").await, 140);
        // A stream that says what its prompt was, and then fails before its first content.
        let told = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage });
        let failed = json!({ "error": { "message": "out of memory", "type": "server_error" } });
        let stage = Stage::set(&quota());
        stage.host("a", Script::always(Reply::sse([told.to_string(), failed.to_string()])));
        stage.host("b", Script::always(Reply::say(["Hi"]).usage(usage)));
        assert_eq!(stage.ask(chat("chat").user("Hi").stream()).await.said(), "Hi");
        assert_eq!(tokens(&stage, "chat").await, 140);
    });
}

#[test]
fn what_was_spent_in_vain_counts_against_tokens_per_minute() {
    story(async {
        let stage = Stage::set(&config("limit: { tokens_per_minute: 200 }"));
        stage.host("a", but_bad(Reply::status(400)));
        let texts = json!(["one", "two", "three", "four", "bad", "six"]);
        assert_eq!(stage.ask(embeddings("embedding", texts)).await.status, 400);
        stage.comes_to_rest().await;
        let long = embeddings("embedding", "x".repeat(250));
        assert_eq!(stage.ask(long).await.code().as_deref(), Some("rate_limit_exceeded"), "140 of 200 are spent");
    });
}

fn responses(most: u64) -> Ask {
    let body = json!({ "model": "chat", "input": "Hi", "max_output_tokens": most });
    chat("chat").path("/v1/responses").body(body.to_string())
}

fn with_responses(of_client: &str) -> Stage {
    Stage::set(&config(of_client).replace("/v1/completions]", "/v1/completions, /v1/responses]"))
}

#[test]
fn responses_put_aside_what_they_bound() {
    story(async {
        let stage = with_responses("quota: { tokens: 3000 }");
        let a = stage.host("a", Script::always(Reply::status(400)));
        let message = stage.ask(responses(4000)).await.json()["error"]["message"].to_string();
        assert!(message.contains("of 3000 tokens a month, 0 tokens used; it needs 40"), "{message}");
        assert_eq!(stage.ask(responses(2000)).await.status, 400, "it is let in");
        assert_eq!(a.calls().len(), 1);
        let stage = with_responses("limit: { tokens_per_minute: 3000 }");
        stage.host("a", Script::always(Reply::hang()));
        let mut caller = stage.caller();
        caller.begin(&responses(2000).key(KEY)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(stage.ask(responses(2000)).await.code().as_deref(), Some("rate_limit_exceeded"));
    });
}

#[test]
fn a_ranking_puts_aside_its_query_for_each_document() {
    story(async {
        let query = "x".repeat(300);
        let stage = Stage::set(&config("quota: { tokens: 5000 }"));
        stage.host("a", Script::always(seventy()));
        let message = stage.ask(rerank("rerank", &query, vec!["d"; 60])).await.json()["error"]["message"].to_string();
        assert!(message.contains("it needs 6120 tokens"), "{message}");
        assert_eq!(stage.ask(rerank("rerank", &query, vec!["d"; 40])).await.status, 200);
    });
}

#[test]
fn a_ranking_in_parts_puts_aside_the_search_units_of_each() {
    story(async {
        for (cents, status) in [(2, 429), (3, 200)] {
            let stage = Stage::set(&config(&format!("quota: {{ cost: 0.0{cents} }}")));
            stage.host("a", Script::always(seventy()));
            let answer = stage.ask(rerank("rerank", "q", documents())).await;
            assert_eq!(answer.status, status, "three calls are three units: {}", answer.text());
        }
    });
}

#[test]
fn in_any_storm_every_answer_that_came_is_paid_once() {
    storms(0..16, |storm: Storm| async move {
        let config = of_384("quota: { tokens: 100000000, cost: 1000 }, on_failure: degrade");
        let stage = std::rc::Rc::new(Stage::set(&config));
        let fitting = || seventy().with(|knobs| knobs.dimensions = Some(384));
        for host in ["a", "b"] {
            let replies = (0..30).map(|_| match storm.number(0..10) {
                0 => Reply::status(*storm.one_of(&[400, 429, 500, 503])),
                1 => Reply::hang(),
                2 => fitting().cut(At::Bytes(100), How::Rst),
                3 => Reply::reset(),
                4 => of_eight(),
                _ => fitting(),
            });
            let replies: Vec<Reply> = replies.map(|reply| reply.after(storm.ms(0..2000))).collect();
            stage.host(host, Script::replies(replies));
        }
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut callers = tokio::task::JoinSet::new();
                for _ in 0..16 {
                    let (stage, begin, patience) = (stage.clone(), storm.ms(0..3000), storm.ms(10..20_000));
                    let texts = vec!["text"; storm.number(1..8)];
                    let ask = if storm.chance(0.5) {
                        embeddings("embedding", json!(texts))
                    } else {
                        rerank("rerank", "q", vec!["text"; 24 * texts.len()])
                    };
                    callers.spawn_local(async move {
                        tokio::time::sleep(begin).await;
                        let _ = tokio::time::timeout(patience, stage.ask(ask)).await;
                    });
                }
                while callers.join_next().await.is_some() {}
            })
            .await;
        stage.comes_to_rest().await;
        let log = stage.log();
        let attempts = log.iter().flat_map(|line| line["attempts"].as_array().unwrap());
        let answered =
            attempts.filter(|attempt| attempt["outcome"] == "ok" || attempt["outcome"] == "dimension_mismatch");
        let due = 70 * answered.count() as u64;
        let logged: u64 = log.iter().filter_map(|line| line["tokens_in"].as_u64()).sum();
        let rows = ledger(&stage).await;
        assert_eq!([spent(&stage).tokens, logged, rows.iter().map(|row| row.2).sum()], [due; 3]);
        assert_eq!(
            rows.iter().map(|row| row.1).sum::<u64>(),
            log.iter().filter(|line| line["attempts"] != json!([])).count() as u64
        );
        let dollars: u64 = rows.iter().filter(|row| row.4 == "USD").map(|row| row.3).sum();
        assert_eq!(spent(&stage).cost, dollars);
    });
}
