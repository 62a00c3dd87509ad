//! What operators remove, purge or declare outdated is not served any more from that moment, also by calls that have found
//! it before.

use std::time::Duration;

use serde_json::json;
use state::answers::{Key, Which};
use testkit::{Answer, Ask, Reply, Script, chat, embeddings, story};

use crate::stage::{Stage, answers, begun, cache, millis, pleasant};

/// One upstream, and what is kept for a minute, and beyond it where the upstream fails.
fn stage() -> Stage {
    Stage::set(
        r#"
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
"#,
    )
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
        let outdated = statuses(&chat("chat").user("Hi"), async |stage, _| raise_version(stage).await).await;
        assert!(outdated.iter().all(|(status, _)| *status == 502), "{outdated:?}");
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
