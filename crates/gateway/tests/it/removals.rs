//! What operators remove, purge or declare outdated is not served any more from that moment, also by calls that have found
//! it before.

use std::time::Duration;

use serde_json::json;
use state::answers::{Key, Which};
use testkit::{Answer, Ask, Reply, Script, chat, embeddings, rerank, story};

use crate::stage::{Stage, answers, begun, cache, millis, pleasant};

/// One upstream, and what is kept for a minute, and beyond it where the upstream fails.
const CONFIG: &str = r#"
providers: [{ name: a, base_url: "http://a/v1" }]
routes:
  - name: chat
    upstreams: [{ provider: a, model: model-a }]
    retry: { server_error: [] }
    cache: { mode: exact, ttl: 60s }
    on_failure: stale
  - name: embedding
    match: { path: /v1/embeddings }
    upstreams: [{ provider: a, model: embed }]
    retry: { server_error: [] }
    cache: { mode: exact, ttl: 60s }
    on_failure: stale
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;

fn stage() -> Stage {
    Stage::set(CONFIG)
}

async fn purge(stage: &Stage) {
    assert!(stage.live.purge(&Which::default()).await.is_ok());
}

async fn remove(stage: &Stage, answer: &Answer) {
    let id = answer.header("x-mai-cache-id").expect("an id").parse::<Key>().expect("a key");
    assert_eq!(stage.live.remove(&id).await.ok(), Some(true));
}

async fn raise_version(stage: &Stage) {
    stage.live.kb_versions.set("chat".into(), Some("2".into())).await.expect("a store in memory");
}

/// Two calls for what has expired, whose upstream thinks for a while, and fails; meanwhile something is done.
async fn statuses(ask: &Ask, meanwhile: impl AsyncFn(&Stage, &Answer)) -> Vec<(u16, String)> {
    let stage = stage();
    let a = stage.host("a", pleasant());
    let first = stage.ask(ask.clone()).await;
    assert_eq!(first.status, 200, "{}", first.text());
    millis(61_500).await;
    a.play(Script::by(|_| Reply::status(500).after(Duration::from_secs(1))));
    let leader = begun(&stage, ask.clone()).await;
    let follower = begun(&stage, ask.clone()).await;
    a.has_calls(2).await;
    millis(100).await;
    meanwhile(&stage, &first).await;
    let both = answers(vec![leader, follower]).await;
    both.iter().map(|answer| (answer.status, cache(answer).to_owned())).collect()
}

#[test]
fn an_expired_answer_that_goes_while_its_upstream_is_asked_is_not_served_when_that_fails() {
    story(async {
        for ask in [chat("chat").user("Hi"), embeddings("embedding", "one")] {
            let kept = statuses(&ask, async |_, _| {}).await;
            assert!(kept.iter().all(|(status, cache)| *status == 200 && cache == "stale"), "{kept:?}");
            let others = Which { client: Some("other".into()), ..Which::default() };
            let kept = statuses(&ask, async |stage, _| drop(stage.live.purge(&others).await)).await;
            assert!(kept.iter().all(|(status, _)| *status == 200), "{kept:?}");
            for gone in [
                statuses(&ask, async |stage, _| purge(stage).await).await,
                statuses(&ask, async |stage, first| remove(stage, first).await).await,
            ] {
                assert!(gone.iter().all(|(status, _)| *status == 502), "{gone:?}");
            }
        }
        let chat = chat("chat").user("Hi");
        let written = CONFIG.replace("mode: exact,", "mode: exact, kb_version: '2',");
        for outdated in [
            statuses(&chat, async |stage, _| raise_version(stage).await).await,
            statuses(&chat, async |stage, _| stage.reload(&written)).await,
        ] {
            assert!(outdated.iter().all(|(status, _)| *status == 502), "{outdated:?}");
        }
    });
}

#[test]
fn who_comes_after_a_purge_or_a_removal_waits_for_no_call_from_before_it() {
    for is_purge in [true, false] {
        for ask in [chat("chat").user("Hi"), chat("chat").user("Hi").stream()] {
            story(async {
                let stage = stage();
                let a = stage.host("a", pleasant());
                let first = stage.ask(ask.clone()).await;
                a.play(Reply::say(["old"]).after(Duration::from_secs(2)));
                let before = begun(&stage, ask.clone().header("cache-control", "no-cache")).await;
                a.has_calls(2).await;
                if is_purge {
                    purge(&stage).await
                } else {
                    remove(&stage, &first).await
                }
                a.play(Reply::say(["new"]).after(Duration::from_secs(1)));
                let after = [begun(&stage, ask.clone()).await, begun(&stage, ask.clone()).await];
                let said: Vec<_> = answers(after.into()).await.iter().map(Answer::said).collect();
                assert_eq!(said, ["new", "new"]);
                assert_eq!(answers(vec![before]).await[0].said(), "old");
                assert_eq!(a.calls().len(), 3, "those who came after it wait together");
                assert_eq!(stage.ask(ask.clone()).await.said(), "new");
            });
        }
    }
}

#[test]
fn who_comes_after_a_purge_takes_no_vector_of_a_call_from_before_it() {
    story(async {
        let stage = stage();
        let a = stage.host("a", model(1));
        let before = begun(&stage, embeddings("embedding", "a")).await;
        a.has_calls(1).await;
        purge(&stage).await;
        a.play(model(2));
        let both = begun(&stage, embeddings("embedding", json!(["a", "b"]))).await;
        let answer = answers(vec![both]).await.remove(0).json();
        let number = |at: usize| answer["data"][at]["embedding"][0].as_f64().expect("a vector");
        assert_eq!((number(0), number(1)), (2.0, 2.0));
        assert_eq!(answers(vec![before]).await[0].status, 200);
    });
}

/// Whatever it is asked for, a model that answers vectors of this number.
fn model(number: u8) -> Script {
    Script::by(move |request| {
        let count = request.json.as_ref().unwrap()["input"].as_array().map_or(1, Vec::len);
        let vector = |index| json!({"object": "embedding", "index": index, "embedding": [number, 0.5]});
        let body = json!({"object": "list", "model": "m", "data": (0..count).map(vector).collect::<Vec<_>>()});
        Reply::json(body).after(Duration::from_secs(1))
    })
}

/// The vectors of `a`, which is stored, and `b`, for which a new model is asked while something is done; and how many calls
/// went upstream for that.
async fn beside_a_stored_one(meanwhile: impl AsyncFn(&Stage, &Answer)) -> (Vec<f64>, usize) {
    let stage = stage();
    let a = stage.host("a", model(1));
    let first = stage.ask(embeddings("embedding", "a")).await;
    a.play(model(2));
    let caller = begun(&stage, embeddings("embedding", json!(["a", "b"]))).await;
    a.has_calls(2).await;
    meanwhile(&stage, &first).await;
    let answer = answers(vec![caller]).await.remove(0).json();
    let number = |at: usize| answer["data"][at]["embedding"][0].as_f64().expect("a vector");
    (vec![number(0), number(1)], a.calls().len() - 1)
}

#[test]
fn a_stored_vector_that_goes_while_others_are_asked_for_is_asked_for_too() {
    story(async {
        assert_eq!(beside_a_stored_one(async |_, _| {}).await, (vec![1.0, 2.0], 1));
        assert_eq!(beside_a_stored_one(async |stage, _| purge(stage).await).await, (vec![2.0, 2.0], 2));
        assert_eq!(beside_a_stored_one(async |stage, first| remove(stage, first).await).await, (vec![2.0, 2.0], 2));
    });
}

#[test]
fn removals_without_end_cost_no_vector_that_is_still_stored() {
    story(async {
        let many = async |stage: &Stage, _: &Answer| {
            for number in 0..1_000_u32 {
                let mut key = [0; 32];
                key[..4].copy_from_slice(&number.to_le_bytes());
                drop(stage.live.remove(&Key(key)).await);
            }
        };
        // Nobody knows any more what those were: what is still stored is found again.
        assert_eq!(beside_a_stored_one(many).await, (vec![1.0, 2.0], 1));
    });
}

/// Routes over a server of that name, whose scores are on that scale.
fn over(host: &str, version: &str, score: &str, space: &str) -> String {
    format!(
        r#"
providers:
  - {{ name: azure, protocol: azure-openai, base_url: "http://{host}", api_key: key, api_version: "{version}" }}
  - {{ name: ranks, protocol: jina, base_url: "http://{host}/v1", api_key: key, score: {score} }}
  - {{ name: embeds, base_url: "http://{host}/v1" }}
routes:
  - name: short
    match: {{ path: /v1/chat/completions, model: short }}
    upstream: {{ url: "http://{host}/v1/chat/completions" }}
    cache: {{ mode: exact }}
  - {{ name: azure, upstreams: [{{ provider: azure, model: gpt }}], cache: {{ mode: exact }} }}
  - {{ name: ranks, match: {{ path: /v1/rerank }}, upstreams: [{{ provider: ranks, model: r }}], cache: {{ mode: exact }} }}
  - name: embeds
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: embeds, model: e{space} }}]
    cache: {{ mode: exact }}
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

/// What the caches of all routes come to.
async fn caches(stage: &Stage) -> [String; 4] {
    let mut all = Vec::new();
    for ask in [
        chat("short").user("Hi"),
        chat("azure").user("Hi"),
        rerank("ranks", "q", ["one", "two"]),
        embeddings("embeds", "one"),
    ] {
        let answer = stage.ask(ask).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        all.push(cache(&answer).to_owned());
    }
    all.try_into().expect("four")
}

#[test]
fn another_server_behind_the_same_name_has_other_answers() {
    let before = ("a", "2024-01-01", "probability", "");
    for (after, expected) in [
        (before, ["hit", "hit", "hit", "hit"]),
        (("b", "2024-01-01", "probability", ""), ["miss", "miss", "miss", "miss"]),
        (("a", "2025-01-01", "probability", ""), ["hit", "miss", "hit", "hit"]),
        (("a", "2024-01-01", "logit", ""), ["hit", "hit", "miss", "hit"]),
    ] {
        story(async {
            let of = |(host, version, score, space): (&str, &str, &str, &str)| over(host, version, score, space);
            let stage = Stage::set(&of(before));
            stage.host("a", pleasant());
            stage.host("b", pleasant());
            assert_eq!(caches(&stage).await, ["miss"; 4]);
            stage.reload(&of(after));
            assert_eq!(caches(&stage).await, expected, "{after:?}");
            stage.reload(&of(before));
            assert_eq!(caches(&stage).await, ["hit", "hit", "hit", if expected[3] == "hit" { "hit" } else { "miss" }]);
        });
    }
}

#[test]
fn a_written_space_says_that_vectors_are_the_same_wherever_they_come_from() {
    story(async {
        let of = |host| over(host, "2024-01-01", "probability", ", space: bge");
        let stage = Stage::set(&of("a"));
        stage.host("a", pleasant());
        stage.host("b", pleasant());
        assert_eq!(caches(&stage).await, ["miss"; 4]);
        stage.reload(&of("b"));
        assert_eq!(caches(&stage).await, ["miss", "miss", "miss", "hit"]);
    });
}

#[test]
fn one_more_server_of_a_model_costs_no_stored_vector() {
    story(async {
        let with = |more: &str| {
            format!(
                r#"
providers: [{{ name: a, base_url: "http://a/v1" }}, {{ name: b, base_url: "http://b/v1" }}]
routes:
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: embed }}{more}]
    cache: {{ mode: exact }}
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
            )
        };
        let stage = Stage::set(&with(""));
        stage.host("a", pleasant());
        let ask = || embeddings("embedding", "one");
        assert_eq!(cache(&stage.ask(ask()).await), "miss");
        stage.reload(&with(", { provider: b, model: embed }"));
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
    });
}
