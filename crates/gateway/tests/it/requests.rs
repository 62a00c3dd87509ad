//! Request records: every ending found as log and metrics tell it, every decision in order, and texts kept apart.

use std::time::Duration;

use serde_json::{Value, json};
use state::requests::{Content, Request, Search};
use testkit::{Ask, Caller, Reply, Stream, chat, embeddings, get, rerank, story};

use crate::chunks::delta;
use crate::stage::{KEY, Stage, pleasant, usual_but};

/// Every request that has ended, the last one first.
async fn all(stage: &Stage) -> Vec<Request> {
    stage.comes_to_rest().await;
    stage.live.gather();
    let page = stage.live.records.search(Search { limit: 500, ..Search::default() }).await.unwrap();
    assert_eq!(page.next, None);
    page.requests
}

/// What was decided for the request that ended last, in order.
async fn decided(stage: &Stage) -> Vec<String> {
    let found = all(stage).await;
    let steps = &found.first().expect("a request has ended").decisions;
    assert!(steps.is_sorted_by_key(|step| step.at), "{steps:?}");
    steps.iter().map(|step| step.what.to_string()).collect()
}

/// Log, metrics and search tell the same of every request; returns its outcomes in the order in which they ended.
async fn agree(stage: &Stage) -> Vec<(String, String)> {
    let found = all(stage).await;
    let log = stage.log();
    assert_eq!(found.len(), log.len());
    let metrics = stage.metrics();
    let sum = |series: &str, labels: &[String]| -> f64 {
        let lines = metrics.lines().filter(|line| line.starts_with(series));
        let such = lines.filter(|line| labels.iter().all(|label| line.contains(label.as_str())));
        such.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    };
    for (line, request) in log.iter().zip(found.iter().rev()) {
        let name = |field: &Value| field.as_str().map(str::to_owned);
        let told = [&line["request_id"], &line["client"], &line["route"], &line["upstream"], &line["cache"]].map(name);
        let kept = |name: &Option<std::sync::Arc<str>>| name.as_ref().map(ToString::to_string);
        let id = Some(request.request_id.to_string());
        let [client, route, upstream, cache] =
            [&request.client, &request.route, &request.upstream, &request.cache].map(kept);
        assert_eq!(told, [id, client, route, upstream, cache.clone()], "{line}");
        assert_eq!((&line["status"], &line["outcome"]), (&json!(request.status), &json!(*request.outcome)), "{line}");
        assert_eq!(line["code"].as_str(), request.code.as_deref(), "{line}");
        assert_eq!(line["tokens_in"].as_u64(), request.tokens.map(|(tokens_in, _)| tokens_in), "{line}");
        assert_eq!(line["tokens_out"].as_u64(), request.tokens.map(|(_, tokens_out)| tokens_out), "{line}");
        assert_eq!(line["degraded"].as_str(), request.degraded.as_deref());
        let of_log: Vec<_> =
            line["attempts"].as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect();
        let of_record: Vec<_> = request.attempts.iter().map(|attempt| &*attempt.outcome).collect();
        assert_eq!(of_log, of_record, "{line}");
        let of_its_kind =
            |other: &&Value| ["status", "outcome", "cache"].iter().all(|field| other[*field] == line[*field]);
        let label = |name: &str, value: String| format!("{name}=\"{value}\"");
        let labels = [
            label("status", request.status.to_string()),
            label("outcome", request.outcome.to_string()),
            label("cache", cache.unwrap_or_default()),
        ];
        assert_eq!(sum("mai_requests_total{", &labels), log.iter().filter(of_its_kind).count() as f64, "{line}");
    }
    let tokens = |field: &str| log.iter().filter_map(|line| line[field].as_f64()).sum::<f64>();
    assert_eq!(sum("mai_tokens_total{", &["kind=\"prompt\"".to_owned()]), tokens("tokens_in"));
    assert_eq!(sum("mai_tokens_total{", &["kind=\"completion\"".to_owned()]), tokens("tokens_out"));
    found.iter().rev().map(|request| (request.outcome.to_string(), request.request_id.to_string())).collect()
}

const ENDINGS: &str = r#"
providers: [{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }]
routes:
  - name: chat
    upstreams: [{ provider: a, model: model-a }]
    retry: { server_error: [] }
    breaker: { failures: 1000 }
  - name: cached
    match: { path: /v1/chat/completions }
    upstreams: [{ provider: a, model: model-a }]
    retry: { server_error: [] }
    breaker: { failures: 1000 }
    on_failure: stale
    cache: { mode: exact, ttl: 60s }
  - name: rerank
    match: { path: /v1/rerank }
    upstreams: [{ provider: a, model: rank }]
    retry: { server_error: [] }
    breaker: { failures: 1000 }
    on_failure: degrade
clients:
  - { name: app, keys: [sk-app], routes: ["*"] }
  - { name: night, keys: [sk-night], routes: ["*"], priority: batch, limit: { concurrency: 1 }, queue: { max_wait: 1s } }
"#;

async fn begin(stage: &Stage, ask: &Ask) -> Caller<Stream> {
    let mut caller = stage.caller();
    caller.begin(ask).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    caller
}

#[test]
fn every_ending_is_the_same_in_log_metrics_and_search() {
    story(async {
        let stage = Stage::set(ENDINGS);
        let a = stage.host("a", pleasant());
        let ask = |id: &str| chat("chat").user("Hi").key(KEY).header("x-request-id", id);
        let of_cache = |id: &str| chat("cached").user("Hi").key(KEY).header("x-request-id", id);
        stage.caller().ask(&ask("complete")).await;
        a.play(Reply::sse([delta("Hel"), "{\"error\":{\"message\":\"x\"}}".to_owned()]));
        stage.caller().ask(&ask("error-event").stream()).await;
        a.play(Reply::say((0..100).map(|n| format!("w{n} ")).collect::<Vec<_>>()).every(Duration::from_millis(200)));
        drop(begin(&stage, &ask("left").stream()).await);
        stage.comes_to_rest().await;
        a.play(Reply::json(json!({ "error": { "message": "no capacity" } })));
        stage.caller().ask(&ask("error-in-200")).await;
        a.play(pleasant());
        stage.caller().ask(&of_cache("miss")).await;
        stage.caller().ask(&of_cache("hit")).await;
        a.play(Reply::status(500));
        stage.caller().ask(&rerank("rerank", "q", ["a", "b"]).key(KEY).header("x-request-id", "degraded")).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        stage.caller().ask(&of_cache("stale")).await;
        a.play(Reply::default().after(Duration::from_secs(5)));
        let of_night = |id: &str| chat("chat").user("Hi").key("sk-night").header("x-request-id", id);
        let mut slow = begin(&stage, &of_night("slow")).await;
        stage.caller().ask(&of_night("queue-timeout")).await;
        slow.answer().await.unwrap();
        let ended = agree(&stage).await;
        let expected = [
            ("ok", "complete"),
            ("upstream_cut", "error-event"),
            ("caller_gone", "left"),
            ("upstream_bad_response", "error-in-200"),
            ("ok", "miss"),
            ("ok", "hit"),
            ("upstream_degraded", "degraded"),
            ("ok", "stale"),
            ("policy_queued", "queue-timeout"),
            ("ok", "slow"),
        ];
        assert_eq!(ended, expected.map(|(outcome, id)| (outcome.to_owned(), id.to_owned())));
        let spent = |id: &str| {
            stage.log().iter().any(|line| line["request_id"] == *id && line["tokens_out"].as_u64() > Some(0))
        };
        assert!(spent("error-event") && spent("left"), "what was spent is told whatever the ending");
        for (field, of) in
            [("upstream_cut", "error-event"), ("caller_gone", "left"), ("policy_queued", "queue-timeout")]
        {
            let search = Search { outcome: Some(field.into()), limit: 10, ..Search::default() };
            let page = stage.live.records.search(search).await.unwrap();
            assert_eq!(page.requests.iter().map(|request| &*request.request_id).collect::<Vec<_>>(), [of]);
        }
    });
}

#[test]
fn a_failover_is_told_step_by_step() {
    let config = usual_but(
        "    match: { path: [",
        "    retry: { server_error: [1s] }\n    breaker: { failures: 1, hold: 60s }\n    match: { path: [",
    );
    story(async move {
        let stage = Stage::set(&config);
        stage.host("a", Reply::status(503));
        stage.host("b", pleasant());
        stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(decided(&stage).await, [""; 0], "a plain failover is told by its attempts");
        stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(decided(&stage).await, ["upstream_skipped"]);
        let found = all(&stage).await;
        let [second, first] = &found[..] else { panic!("{found:?}") };
        let tries =
            |request: &Request| request.attempts.iter().map(|attempt| attempt.upstream.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (tries(first), tries(second)),
            (vec!["a/model-a".to_owned(), "b/model-b".to_owned()], vec!["b/model-b".to_owned()])
        );
        assert!(first.attempts[1].at >= first.attempts[0].at + first.attempts[0].took, "{first:?}");
        let facts = &second.decisions[0].facts;
        assert_eq!(format!("{facts:?}"), r#"[("upstream", Text("a/model-a")), ("why", Text("breaker_open"))]"#);
    });
}

#[test]
fn waits_limits_quotas_policies_and_degraded_answers_are_told() {
    let config = r#"
providers: [{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }]
routes:
  - name: chat
    upstreams: [{ provider: a, model: model-a }]
    retry: { server_error: [1s] }
    params: { max: { max_tokens: 100 }, force: { temperature: 0 } }
    on_failure: degrade
clients:
  - { name: app, keys: [sk-app], routes: ["*"], limit: { concurrency: 1 }, quota: { tokens: 100000, per: day } }
  - { name: night, keys: [sk-night], routes: ["*"], priority: batch, limit: { qps: 1 } }
"#;
    story(async move {
        let stage = Stage::set(config);
        let a = stage.host("a", Reply::status(500));
        stage.ask(chat("chat").user("Hi").with("max_tokens", 900)).await;
        assert_eq!(
            decided(&stage).await,
            ["param_changed", "param_changed", "quota_reserved", "retry_waits", "degraded"],
        );
        a.play(Reply::default().after(Duration::from_secs(2)));
        let mut slow = begin(&stage, &chat("chat").user("Hi").key(KEY)).await;
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 429);
        slow.answer().await.unwrap();
        let limited = all(&stage).await.into_iter().find(|request| request.status == 429).unwrap();
        let facts = format!("{:?}", limited.decisions);
        assert!(facts.contains("limited") && facts.contains("client") && facts.contains("concurrency"), "{facts}");
        a.play(pleasant());
        for _ in 0..2 {
            stage.caller().ask(&chat("chat").user("Hi").key("sk-night")).await;
        }
        let steps = decided(&stage).await;
        assert_eq!(steps, ["limited", "queued", "left_queue", "param_changed", "param_changed"]);
    });
}

#[test]
fn what_a_cache_came_to_is_told_with_the_reason() {
    let config = r#"
providers: [{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }]
routes:
  - name: chat
    upstreams: [{ provider: a, model: model-a }]
    cache: { mode: exact }
  - name: embedding
    match: { path: /v1/embeddings }
    upstreams: [{ provider: a, model: embed }]
    cache: { mode: exact }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;
    story(async move {
        let stage = Stage::set(config);
        stage.host("a", pleasant());
        let asks = [
            (chat("chat").user("Hi"), "result=miss"),
            (chat("chat").user("Hi"), "result=hit"),
            (chat("chat").user("Hi").header("cache-control", "no-store"), "result=bypass why=no_store"),
            (chat("chat").user("Hi").header("cache-control", "no-cache"), "result=bypass why=no_cache"),
            (embeddings("embedding", "one"), "result=miss"),
            (embeddings("embedding", "one"), "result=hit"),
            (embeddings("embedding", json!(["one", "two"])), "result=partial hits=1 misses=1"),
        ];
        for (ask, expected) in asks {
            stage.ask(ask).await;
            let found = all(&stage).await;
            let step = found[0].decisions.first().unwrap_or_else(|| panic!("{expected}"));
            assert_eq!(&*step.what, "cache");
            let fact = |(name, value): &(std::sync::Arc<str>, state::requests::Value)| match value {
                state::requests::Value::Text(text) => format!("{name}={text}"),
                state::requests::Value::Number(number) => format!("{name}={number}"),
                other => panic!("{other:?}"),
            };
            assert_eq!(step.facts.iter().map(fact).collect::<Vec<_>>().join(" "), expected);
        }
    });
}

#[test]
fn an_id_that_came_twice_finds_the_newest_and_search_finds_all() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        let same = |ask: Ask| ask.header("x-request-id", "same");
        stage.ask(same(chat("chat").user("Hi"))).await;
        stage.ask(same(chat("nobody").user("Hi"))).await;
        stage.ask(get("/v1/models")).await;
        stage.live.gather();
        assert_eq!(stage.live.records.find("same").await.unwrap().unwrap().status, 404);
        let search = Search { request_id: Some("same".into()), limit: 10, ..Search::default() };
        let found = stage.live.records.search(search).await.unwrap().requests;
        assert_eq!(found.iter().map(|request| request.status).collect::<Vec<_>>(), [404, 200]);
    });
}

/// The text of a request.
async fn text(stage: &Stage, id: &str) -> Option<Content> {
    stage.comes_to_rest().await;
    stage.live.contents.work_off();
    stage.live.records.content(id).await.unwrap()
}

fn with_texts(more: &str) -> String {
    format!(
        "records: {{ content: true, mask: ['[a-z.]+@[a-z.]+'] }}\n{}",
        ENDINGS.replace("api_key: sk-a-secret }", &format!("api_key: plain-provider-key }}{more}"))
    )
}

#[test]
fn texts_are_kept_apart_and_without_secrets_where_that_is_asked_for() {
    story(async {
        let stage = Stage::set(&with_texts(""));
        let a = stage.host("a", Reply::say(["My key is ", "plain-provider-", "key, hush"]));
        let prompt = "I am anna@example.org, my key is sk-app, yours sk-proj-0123456789";
        let ask = |id: &str| chat("chat").user(prompt).key(KEY).header("x-request-id", id);
        for ask in [ask("whole"), ask("stream").stream()] {
            stage.caller().ask(&ask).await;
        }
        for id in ["whole", "stream"] {
            let kept = text(&stage, id).await.unwrap_or_else(|| panic!("{id}"));
            assert_eq!(&*kept.prompt, "user: I am [masked], my key is [masked], yours [masked]", "{id}");
            assert_eq!((&*kept.answer, kept.is_cut), ("My key is [masked], hush", false), "{id}");
        }
        let everywhere = format!("{}{}{:?}", stage.log_text(), stage.metrics(), all(&stage).await);
        assert!(!everywhere.contains("hush") && !everywhere.contains("anna"), "{everywhere}");
        a.play(Reply::hang());
        drop(begin(&stage, &ask("left")).await);
        let kept = text(&stage, "left").await.unwrap();
        assert!(kept.prompt.starts_with("user: ") && kept.answer.is_empty(), "{kept:?}");
    });
}

#[test]
fn texts_are_kept_without_the_credentials_of_proxies_webhooks_and_collectors() {
    story(async {
        let more = "telemetry: { otlp: 'http://c', headers: { authorization: to-collect } }\n\
                    webhooks: [{ url: 'http://hooks/a-path-as-key', secret: to-sign }]\n";
        let proxied = with_texts("").replace("plain-provider-key", "key, proxy: 'http://a:b@proxy:80'");
        let stage = Stage::set(&format!("{more}{proxied}"));
        stage.host("a", pleasant());
        let prompt = "Basic YTpi to-collect /a-path-as-key to-sign";
        stage.caller().ask(&chat("chat").user(prompt).key(KEY).header("x-request-id", "id")).await;
        let kept = text(&stage, "id").await.unwrap();
        assert_eq!(&*kept.prompt, "user: [masked] [masked] [masked] [masked]");
    });
}

#[test]
fn stored_and_degraded_answers_have_their_texts_too_and_vectors_none() {
    story(async {
        let stage = Stage::set(&with_texts(""));
        let a = stage.host("a", Reply::say(["Good ", "day"]));
        let of_cache = |id: &str| chat("cached").user("Hi").key(KEY).header("x-request-id", id);
        for ask in [of_cache("miss"), of_cache("hit"), of_cache("hit-stream").stream()] {
            stage.caller().ask(&ask).await;
        }
        a.play(Reply::status(500));
        stage
            .caller()
            .ask(&rerank("rerank", "which?", ["one", "two"]).key(KEY).header("x-request-id", "degraded"))
            .await;
        stage.caller().ask(&chat("chat").user("Hi").key(KEY).header("x-request-id", "failed")).await;
        for id in ["miss", "hit", "hit-stream"] {
            let kept = text(&stage, id).await.unwrap_or_else(|| panic!("{id}"));
            assert_eq!((&*kept.prompt, &*kept.answer), ("user: Hi", "Good day"), "{id}");
        }
        let degraded = text(&stage, "degraded").await.unwrap();
        assert_eq!(&*degraded.prompt, "which?\none\ntwo");
        assert!(degraded.answer.contains("index"), "{degraded:?}");
        assert!(text(&stage, "failed").await.is_some_and(|kept| !kept.answer.is_empty()), "what the caller was told");
    });
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    story(async {
        let stage = Stage::set(&with_texts(""));
        stage.host("a", Reply::say(["short"]));
        let long = "长".repeat(40_000);
        stage.caller().ask(&chat("chat").user(&long).key(KEY).header("x-request-id", "long")).await;
        let kept = text(&stage, "long").await.unwrap();
        assert!(kept.is_cut && kept.prompt.len() <= 64 << 10 && kept.prompt.len() > 60 << 10, "{}", kept.prompt.len());
        assert_eq!(&*kept.answer, "short");
    });
}

#[test]
fn texts_are_kept_from_one_reload_to_the_next_and_no_longer() {
    story(async {
        let stage = Stage::set(ENDINGS);
        stage.host("a", pleasant());
        let ask = |id: &str| chat("chat").user("Hi").key(KEY).header("x-request-id", id);
        stage.caller().ask(&ask("before")).await;
        stage.reload(&with_texts(""));
        stage.caller().ask(&ask("while")).await;
        assert_eq!(text(&stage, "before").await, None);
        assert!(text(&stage, "while").await.is_some());
        stage.reload(ENDINGS);
        stage.caller().ask(&ask("after")).await;
        assert_eq!(text(&stage, "after").await, None);
        assert_eq!(text(&stage, "while").await, None, "what was kept is dropped");
    });
}

#[test]
fn no_request_is_kept_for_no_time_at_all() {
    story(async {
        let usual = ENDINGS;
        let stage = Stage::set(usual);
        stage.host("a", pleasant());
        stage.caller().ask(&chat("chat").user("Hi").key(KEY)).await;
        assert_eq!(all(&stage).await.len(), 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.reload(&format!("{usual}\nrecords: {{ keep: 0s }}\n"));
        stage.caller().ask(&chat("chat").user("Hi").key(KEY)).await;
        assert_eq!((all(&stage).await.len(), stage.log().len()), (0, 2), "what was kept is gone, and the log goes on");
    });
}
