//! Small calls that arrive together go upstream as one, and each caller's share of it is its own.

use std::time::Duration;

use base::Clock;
use serde_json::{Value, json};
use testkit::{Answer, Ask, Caller, Host, Reply, Request, Script, Stream, embeddings, story};
use tokio::task::JoinSet;

use crate::stage::{Stage, answers, begun_by, millis, pleasant};

/// One upstream, without waits but for other calls.
fn config(more: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }}]
routes:
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: embed }}]
    retry: {{ server_error: [], throttled: [] }}
    batch: {{ max_inputs: 8, wait: 20ms }}
    {more}
clients:
  - {{ name: app, keys: [sk-app], routes: ["*"] }}
  - {{ name: other, keys: [sk-other], routes: ["*"] }}
  - {{ name: poor, keys: [sk-poor], routes: ["*"], quota: {{ tokens: 20 }} }}
  - {{ name: night, keys: [sk-night], routes: ["*"], priority: batch }}
"#
    )
}

fn stage() -> Stage {
    Stage::set(&config(""))
}

fn ask(key: &str, input: impl Into<Value>) -> Ask {
    embeddings("embedding", input).key(key)
}

async fn begun(stage: &Stage, ask: Ask) -> Caller<Stream> {
    let caller = begun_by(stage, ask).await;
    // It arrives before the next one.
    millis(1).await;
    caller
}

/// Answers to all of these, asked in this order and nearly at once.
async fn all(stage: &Stage, asks: impl IntoIterator<Item = Ask>) -> Vec<Answer> {
    let mut callers = Vec::new();
    for ask in asks {
        callers.push(begun(stage, ask).await);
    }
    answers(callers).await
}

fn vectors(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let data = body["data"].as_array().unwrap();
    assert!(data.iter().enumerate().all(|(at, item)| item["index"] == json!(at)), "{body}");
    data.iter().map(|item| item["embedding"].clone()).collect()
}

fn inputs(host: &Host) -> Vec<Value> {
    host.calls().iter().map(|call| call.request.json.as_ref().unwrap()["input"].clone()).collect()
}

async fn rests(stage: &Stage, host: &Host) {
    stage.comes_to_rest().await;
    millis(300).await;
    assert_eq!((stage.live.joint_calls.count(), stage.live.input_flights.count()), (0, 0));
    assert_eq!(host.log().in_flight().0, 0);
}

/// A vector that only this text has, and as many tokens as letters. A text `bad` is refused, whoever it is with.
fn own(request: &Request) -> Reply {
    let input = &request.json.as_ref().unwrap()["input"];
    let texts: Vec<String> = match input {
        Value::String(text) => vec![text.clone()],
        _ => input.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
    };
    if texts.iter().any(|text| text == "bad") {
        return Reply::json(json!({"error": {"message": "input is bad", "type": "invalid_request_error"}}))
            .with(|knobs| knobs.usage = None)
            .after(Duration::from_millis(100));
    }
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(at, text)| json!({"object": "embedding", "index": at, "embedding": vector(text)}))
        .collect();
    let tokens: usize = texts.iter().map(String::len).sum();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Reply::json(json!({"object": "list", "model": "m", "data": data, "usage": usage})).after(Duration::from_millis(100))
}

fn vector(text: &str) -> Value {
    let sum: u32 = text.bytes().map(u32::from).sum();
    json!([f64::from(sum), text.len() as f64, 0.5])
}

#[test]
fn calls_that_arrive_together_are_one() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Script::by(own));
        let began = Clock.now();
        let answers =
            all(&stage, [ask("sk-app", "one"), ask("sk-other", json!(["two", "three"])), ask("sk-app", "four")]).await;
        assert!(Clock.now() - began < Duration::from_millis(150));
        assert_eq!(inputs(&a), [json!(["one", "two", "three", "four"])]);
        assert_eq!(vectors(&answers[0]), [vector("one")]);
        assert_eq!(vectors(&answers[1]), [vector("two"), vector("three")]);
        assert_eq!(vectors(&answers[2]), [vector("four")]);
        assert!(answers.iter().all(|answer| answer.header("x-mai-upstream") == Some("a/embed")));
        assert!(answers.iter().all(|answer| answer.header("x-mai-attempts") == Some("1")));
        rests(&stage, &a).await;
        let log = stage.log();
        let of = |name: &str| log.iter().map(|line| line[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!(of("tokens_in"), "onetwothreefour".len() as u64, "the upstream's count, shared out: {log:?}");
        let told: u64 = answers.iter().map(|answer| answer.json()["usage"]["prompt_tokens"].as_u64().unwrap()).sum();
        assert_eq!(told, of("tokens_in"));
        for line in &log {
            assert_eq!((&line["attempts"][0]["outcome"], &line["cache"]), (&json!("ok"), &Value::Null), "{line}");
            assert!(line["overhead_ms"].as_f64().unwrap() < 15.0, "waiting for others is no overhead: {line}");
        }
        let tries = r#"mai_upstream_attempts_total{outcome="ok",route="embedding",upstream="a/embed"}"#;
        assert_eq!(stage.metric(tries), 1.0, "counted once");
    });
}

#[test]
fn a_call_waits_no_longer_than_its_route_says() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let began = Clock.now();
        assert_eq!(stage.ask(embeddings("embedding", "one")).await.status, 200);
        assert!(Clock.now() - began < Duration::from_millis(40));
        let eight: Vec<String> = (0..8).map(|at| format!("text {at}")).collect();
        let began = Clock.now();
        assert_eq!(stage.ask(embeddings("embedding", eight)).await.status, 200);
        assert!(Clock.now() - began < Duration::from_millis(10), "nobody could join it");
        let began = Clock.now();
        let four = |from: usize| json!((from..from + 4).map(|at| format!("text {at}")).collect::<Vec<_>>());
        all(&stage, [ask("sk-app", four(0)), ask("sk-app", four(4))]).await;
        assert!(Clock.now() - began < Duration::from_millis(10), "it is full");
        assert_eq!(a.calls().len(), 3);
        let answers = all(
            &stage,
            [ask("sk-app", four(0)), ask("sk-app", four(4).as_array().unwrap()[..3].to_vec()), ask("sk-app", four(8))],
        )
        .await;
        assert!(answers.iter().all(|answer| answer.status == 200));
        let sizes: Vec<usize> = inputs(&a)[3..].iter().map(|input| input.as_array().unwrap().len()).collect();
        assert_eq!(sizes, [7, 4], "never more than the upstream takes");
    });
}

#[test]
fn only_calls_that_differ_in_nothing_else_are_joined() {
    story(async {
        for (first, second) in [
            (ask("sk-app", "one"), ask("sk-app", "two").with("dimensions", 8)),
            (ask("sk-app", "one"), ask("sk-app", "two").with("user", "u")),
            (ask("sk-app", "one"), ask("sk-app", "two").with("input_type", "query")),
            (ask("sk-app", "one"), ask("sk-app", json!([1, 2]))),
            (ask("sk-app", "one"), ask("sk-night", "two")),
            (ask("sk-app", json!(["one"])), ask("sk-app", json!(["two", "three"])).with("late_chunking", true)),
        ] {
            let stage = stage();
            let a = stage.host("a", pleasant());
            all(&stage, [first, second.clone()]).await;
            assert_eq!(a.calls().len(), 2, "{second:?}");
        }
        let stage = stage();
        let a = stage.host("a", Script::by(own));
        let answers = all(&stage, [ask("sk-app", "a").with("encoding_format", "base64"), ask("sk-other", "b")]).await;
        assert_eq!(a.calls().len(), 1, "the form of numbers keeps nobody apart");
        assert!(vectors(&answers[0])[0].is_string());
        assert_eq!(vectors(&answers[1]), [vector("b")]);
    });
}

#[test]
fn what_one_caller_asked_wrongly_harms_no_other() {
    story(async {
        let stage = stage();
        let a = stage.host(
            "a",
            Script::by(|request: &Request| {
                let reply = own(request);
                let is_bad = request.body.windows(5).any(|part| part == b"\"bad\"");
                if is_bad { Reply { status: Some(400), ..reply } } else { reply }
            }),
        );
        for order in [["good", "bad"], ["bad", "good"]] {
            let before = a.calls().len();
            let answers =
                all(&stage, order.map(|text| ask(if text == "bad" { "sk-other" } else { "sk-app" }, text))).await;
            let of = |text: &str| &answers[order.iter().position(|own| *own == text).unwrap()];
            assert_eq!(vectors(of("good")), [vector("good")]);
            assert_eq!(of("bad").status, 400);
            assert!(of("bad").text().contains("input is bad"), "{}", of("bad").text());
            assert_eq!(a.calls().len() - before, 3, "together, and each alone");
        }
        rests(&stage, &a).await;
        for line in stage.log() {
            let (outcome, client) = (&line["outcome"], &line["client"]);
            assert_eq!(outcome, if client == "other" { "caller_refused" } else { "ok" }, "{line}");
        }
    });
}

#[test]
fn whoever_leaves_takes_nobody_along_and_pays_its_share() {
    story(async {
        for leaves in 0..2 {
            let stage = stage();
            let a = stage.host("a", Script::by(own));
            let mut callers =
                vec![begun(&stage, ask("sk-app", "one")).await, begun(&stage, ask("sk-other", "three")).await];
            millis(60).await;
            drop(callers.remove(leaves));
            let answers = answers(callers).await;
            assert_eq!(vectors(&answers[0]), [vector(["three", "one"][leaves])]);
            assert_eq!(a.calls().len(), 1);
            rests(&stage, &a).await;
            let log = stage.log();
            let used: u64 = log.iter().map(|line| line["tokens_in"].as_u64().unwrap()).sum();
            assert_eq!(used, 8, "{log:?}");
            assert!(log.iter().any(|line| line["outcome"] == "caller_gone" && line["status"] == 499));
        }
    });
}

#[test]
fn a_call_that_nobody_waits_for_any_more_is_given_up() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::default().after(Duration::from_secs(2)));
        let (one, two) = (begun(&stage, ask("sk-app", "one")).await, begun(&stage, ask("sk-app", "two")).await);
        millis(200).await;
        drop(one);
        millis(100).await;
        assert_eq!(a.log().in_flight().0, 1);
        drop(two);
        millis(200).await;
        rests(&stage, &a).await;
        assert!(stage.log().iter().all(|line| line["outcome"] == "caller_gone"));
    });
}

#[test]
fn who_leads_may_leave_before_anything_is_sent() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Script::by(own));
        let (one, two) = (begun(&stage, ask("sk-app", "one")).await, begun(&stage, ask("sk-app", "two")).await);
        drop(one);
        assert_eq!(vectors(&answers(vec![two]).await[0]), [vector("two")]);
        rests(&stage, &a).await;
    });
}

#[test]
fn each_has_its_own_deadline() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Script::by(|request: &Request| own(request).after(Duration::from_secs(1))));
        let hasty = |text: &str| ask("sk-app", text).header("x-mai-timeout-ms", "300");
        let answers_a = all(&stage, [ask("sk-app", "one"), hasty("two")]).await;
        assert_eq!((answers_a[0].status, answers_a[1].status), (200, 504));
        assert_eq!(a.calls().len(), 1);
        let answers_b = all(&stage, [hasty("one"), ask("sk-app", "two")]).await;
        assert_eq!((answers_b[0].status, answers_b[1].status), (504, 200), "it asks again by itself");
        rests(&stage, &a).await;
    });
}

#[test]
fn whose_time_is_over_before_the_others_pays_its_share_where_the_answer_still_comes() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Script::by(|request: &Request| own(request).after(Duration::from_secs(1))));
        let leads = begun(&stage, ask("sk-app", "one")).await;
        let mut hasty = begun(&stage, ask("sk-poor", "sixteen tokens..").header("x-mai-timeout-ms", "300")).await;
        assert_eq!(hasty.answer().await.unwrap().status, 504);
        assert_eq!(stage.metric(r#"mai_inflight_requests{route="embedding"}"#), 1.0, "it has its answer");
        assert_eq!(answers(vec![leads]).await[0].status, 200);
        let refused = stage.caller().ask(&ask("sk-poor", "twelve token")).await;
        assert_eq!(refused.code().as_deref(), Some("insufficient_quota"), "{}", refused.text());
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
        let log = stage.log();
        let used = |client: &str| log.iter().find(|line| line["client"] == client).unwrap();
        let tokens = |line: &Value| line["tokens_in"].as_u64().unwrap();
        let late = used("poor");
        assert!(tokens(late) >= 15, "{late}");
        assert_eq!(tokens(used("app")) + tokens(late), 19, "the upstream's count, shared out");
        assert_eq!((&late["outcome"], &late["status"]), (&json!("upstream_timeout"), &json!(504)), "{late}");
        assert_eq!((&late["upstream"], &late["attempts"][0]["outcome"]), (&json!("a/embed"), &json!("ok")), "{late}");
        assert!(late["ms"].as_f64().unwrap() < 310.0, "it took as long as its caller has waited: {late}");
        stage.live.gather();
        let question = state::Question { client: Some("poor".into()), ..state::Question::default() };
        let rows = stage.live.usage_ledger.store.report(question).await.unwrap();
        assert_eq!(
            rows.iter().map(|row| (row.sums.requests, row.sums.tokens_in)).collect::<Vec<_>>(),
            [(1, tokens(late))]
        );
        let tries = r#"mai_upstream_attempts_total{outcome="ok",route="embedding",upstream="a/embed"}"#;
        assert_eq!(stage.metric(tries), 1.0, "counted once");
    });
}

#[test]
fn whose_time_is_over_pays_nothing_where_no_answer_comes() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(1)));
        let leads = begun(&stage, ask("sk-app", "one")).await;
        let mut hasty = begun(&stage, ask("sk-poor", "twelve token").header("x-mai-timeout-ms", "300")).await;
        assert_eq!(hasty.answer().await.unwrap().status, 504);
        assert_eq!(answers(vec![leads]).await[0].status, 502);
        rests(&stage, &a).await;
        let log = stage.log();
        let late = log.iter().find(|line| line["client"] == "poor").unwrap();
        assert_eq!((&late["outcome"], &late["tokens_in"]), (&json!("upstream_timeout"), &Value::Null), "{late}");
        assert_eq!(late["attempts"][0]["outcome"], "status", "{late}");
        a.play(Script::by(own));
        assert_eq!(stage.caller().ask(&ask("sk-poor", "twelve token")).await.status, 200, "its quota is whole");
    });
}

#[test]
fn a_failure_is_that_of_all_and_counted_once() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::status(500));
        let answers = all(&stage, [ask("sk-app", "one"), ask("sk-other", "two")]).await;
        assert!(answers.iter().all(|answer| answer.status == 502), "{}", answers[1].text());
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
        for client in ["app", "other"] {
            let rejected = format!(r#"mai_rejected_total{{client="{client}",reason="upstream_failed"}}"#);
            assert_eq!(stage.metric(&rejected), 0.0, "an upstream was tried");
        }
    });
}

#[test]
fn each_client_pays_of_its_own_quota() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Script::by(own));
        let answers = all(&stage, [ask("sk-app", "a text of other tokens"), ask("sk-poor", "twelve token")]).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{}", answers[1].text());
        stage.comes_to_rest().await;
        let answers = all(
            &stage,
            [ask("sk-app", "a text of other tokens"), ask("sk-poor", "and as many tokens again, and more")],
        )
        .await;
        assert_eq!((answers[0].status, answers[1].code().as_deref()), (200, Some("insufficient_quota")));
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
    });
}

#[test]
fn digits_are_the_upstreams_own() {
    story(async {
        let stage = stage();
        let body = r#"{"data":[{"embedding":[0.12345678901234567890],"index":0},{"embedding":[1e-30],"index":1}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        stage.host(
            "a",
            Script::always(Reply { body: testkit::Body::Bytes("application/json", body.into()), ..Reply::default() }),
        );
        let answers = all(&stage, [ask("sk-app", "one"), ask("sk-app", "two")]).await;
        assert!(answers[0].text().contains("0.12345678901234567890"), "{}", answers[0].text());
        assert!(answers[1].text().contains("[1e-30],\"index\":0"), "{}", answers[1].text());
    });
}

#[test]
fn with_a_cache_only_what_is_missing_is_joined() {
    story(async {
        let stage = Stage::set(&config("cache: { mode: exact, scope: route }"));
        let a = stage.host("a", Script::by(own));
        all(&stage, [ask("sk-app", "one")]).await;
        let both =
            all(&stage, [ask("sk-app", json!(["one", "two"])), ask("sk-other", json!(["three", "two", "one"]))]).await;
        assert_eq!(inputs(&a), [json!("one"), json!(["two", "three"])]);
        assert_eq!(vectors(&both[0]), [vector("one"), vector("two")]);
        assert_eq!(vectors(&both[1]), [vector("three"), vector("two"), vector("one")]);
        let hit = all(&stage, [ask("sk-app", json!(["three", "two"]))]).await;
        assert_eq!(hit[0].header("x-mai-cache"), Some("hit"));
        rests(&stage, &a).await;
    });
}

#[test]
fn every_text_gets_its_own_vector_whatever_happens() {
    for seed in 0..60 {
        story(async move {
            let dice = base::Dice::loaded(seed);
            let cache = ["", "cache: { mode: exact }", "cache: { mode: exact, scope: route }"];
            let stage = Stage::set(&config(cache[dice.below(3)]));
            let fails = dice.below(3);
            let a = stage.host(
                "a",
                Script::by(move |request: &Request| {
                    let is_bad = request.body.windows(5).any(|part| part == b"\"bad\"");
                    match () {
                        () if is_bad => Reply { status: Some(400), ..own(request) },
                        () if fails > 0 && request.body.len().is_multiple_of(9 + fails) => Reply::status(500),
                        () => own(request).after(Duration::from_millis(10 + request.body.len() as u64 % 60)),
                    }
                }),
            );
            let mut waiting = JoinSet::new();
            for _ in 0..40 {
                let is_bad = dice.below(8) == 0;
                let mut texts: Vec<String> = (0..1 + dice.below(4)).map(|_| format!("{}", dice.below(20))).collect();
                if is_bad {
                    texts.push("bad".to_owned());
                }
                let key = ["sk-app", "sk-other", "sk-night"][dice.below(3)];
                let leaves = dice.below(5) == 0;
                let pause = dice.below(60) as u64;
                let mut caller = begun(&stage, ask(key, texts.clone())).await;
                waiting.spawn(async move {
                    if leaves {
                        millis(pause).await;
                        return;
                    }
                    let answer = caller.answer().await.expect("an answer");
                    if is_bad || answer.status != 200 {
                        assert!([400, 502, 503].contains(&answer.status), "{}", answer.text());
                        assert_eq!(
                            answer.status == 400,
                            is_bad && answer.status < 500,
                            "seed {seed}: {}",
                            answer.text()
                        );
                        return;
                    }
                    let due: Vec<Value> = texts.iter().map(|text| vector(text)).collect();
                    assert_eq!(vectors(&answer), due, "seed {seed}");
                });
                millis(dice.below(15) as u64).await;
            }
            while let Some(ended) = waiting.join_next().await {
                ended.unwrap();
            }
            rests(&stage, &a).await;
        });
    }
}

#[test]
fn nobody_joins_those_of_another_configuration() {
    let before = config("cache: { mode: exact }");
    let after = before.replace("model: embed", "model: other");
    let elsewhere = before.replace("model: embed", "model: embed, space: other");
    for after in [after, elsewhere] {
        story(async {
            let stage = Stage::set(&before);
            let a = stage.host("a", Script::by(own));
            let old = begun(&stage, ask("sk-app", "one")).await;
            stage.reload(&after);
            let new = begun(&stage, ask("sk-app", "two")).await;
            let answers = answers(vec![old, new]).await;
            assert_eq!((vectors(&answers[0]), vectors(&answers[1])), (vec![vector("one")], vec![vector("two")]));
            assert_eq!(inputs(&a), [json!("one"), json!("two")]);
            rests(&stage, &a).await;
        });
    }
}

#[test]
fn no_other_client_hears_what_an_upstream_said_of_a_callers_input() {
    story(async {
        let stage = stage();
        let words = "cannot embed `one of my secrets`";
        let error = json!({"error": {"message": words, "type": "server_error"}});
        let failing = Reply { status: Some(500), ..Reply::json(error) };
        let a = stage.host("a", failing);
        let answers = all(&stage, [ask("sk-app", "one"), ask("sk-other", "two"), ask("sk-app", "three")]).await;
        assert_eq!(a.calls().len(), 1);
        assert!(answers.iter().all(|answer| answer.status == answers[0].status), "{}", answers[1].text());
        assert!(answers.iter().all(|answer| answer.code() == answers[0].code()));
        assert!(answers[1].text().contains("went as one with others"), "{}", answers[1].text());
        assert_eq!(answers[2].text(), answers[0].text(), "its own client's");
    });
}
