//! What request records say of a call's way.

use std::time::Duration;

use gateway::live::levers::Which;
use gateway::upstream::drills::{Failure, Harm, Wanted};
use serde_json::json;
use state::requests::{Request, Value as Fact};
use testkit::{Answer, Caller, Reply, Script, chat, embeddings, story};

use crate::stage::{KEY, Stage, USUAL, pleasant, usual_but};

/// The record of the request of this id that ended last.
fn record(stage: &Stage, id: &str) -> Request {
    stage.live.gather();
    match stage.live.records.find(id) {
        state::Answer::Ready(Ok(Some(request))) => *request,
        _ => panic!("request {id} has a record"),
    }
}

fn of(stage: &Stage, answer: &Answer) -> Request {
    record(stage, answer.header("x-request-id").expect("every answer has an id"))
}

/// The facts of every decision of one kind.
fn decided(request: &Request, what: &str) -> Vec<String> {
    let of = |fact: &Fact| match fact {
        Fact::Text(text) => text.to_string(),
        other => format!("{other:?}"),
    };
    let steps = request.decisions.iter().filter(|step| &*step.what == what);
    steps.map(|step| step.facts.iter().map(|(_, fact)| of(fact)).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_copy_that_is_skipped_is_none_that_was_sent() {
    story(async {
        let config =
            usual_but("model: model-b, tier: 1 }]", "model: model-b, tier: 1 }]\n    mirror: { to: b, percent: 100 }");
        let stage = Stage::set(&config);
        stage.host("a", pleasant());
        let b = stage.host("b", pleasant());
        stage.live.hold_open(Which { upstream: "b/model-b", route: Some("chat") }, None);
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(decided(&of(&stage, &answer), "mirrored"), [""; 0]);
        stage.live.close_breakers(Which { upstream: "b/model-b", route: None });
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(decided(&of(&stage, &answer), "mirrored"), ["b/model-b"]);
        b.has_calls(1).await;
    });
}

#[test]
fn a_wait_is_as_long_as_it_says() {
    story(async {
        let config = usual_but(
            "upstreams: [{ provider: a, model: model-a }, { provider: b, model: model-b, tier: 1 }]",
            "upstreams: [{ provider: a, model: model-a }]\n    retry: { server_error: [5s] }",
        );
        for _ in 0..5 {
            let stage = Stage::set(&config);
            stage.host("a", Script::replies([Reply::status(500), Reply::say(["well"])]));
            let answer = stage.ask(chat("chat").user("Hi")).await;
            let request = of(&stage, &answer);
            let [first, second] = &request.attempts[..] else { panic!("{:?}", request.attempts) };
            let waited = second.at - first.at - first.took;
            let waits = request.decisions.iter().find(|step| &*step.what == "retry_waits").unwrap();
            let Some((_, Fact::Time(told))) = waits.facts.iter().find(|(name, _)| &**name == "wait_ms") else {
                panic!()
            };
            assert!(waited.abs_diff(*told) <= Duration::from_millis(2), "{told:?} where it was {waited:?}");
        }
    });
}

#[test]
fn an_upstream_with_many_keys_is_passed_over_once() {
    story(async {
        let keys: Vec<String> = (0..20).map(|at| format!("sk-{at}")).collect();
        let stage = Stage::set(&usual_but("api_key: sk-a-secret", &format!("api_keys: [{}]", keys.join(", "))));
        stage.host("b", pleasant());
        stage.live.hold_open(Which { upstream: "a/model-a", route: None }, None);
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(decided(&of(&stage, &answer), "upstream_skipped"), ["a/model-a breaker_held"]);
    });
}

#[test]
fn of_one_id_the_request_that_ended_last_is_found_whichever_worker_had_it() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        let other = stage.another_worker();
        let (near, far) = testkit::pair();
        tokio::spawn(other.converse(far));
        let ask = |ask: testkit::Ask| ask.key(KEY).header("x-request-id", "one");
        assert_eq!(Caller::on(near).ask(&ask(chat("chat").user("Hi"))).await.status, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.caller().ask(&ask(embeddings("embedding", "abc"))).await.status, 200);
        assert_eq!(record(&stage, "one").route.as_deref(), Some("embedding"));
    });
}

#[test]
fn a_try_that_a_drill_has_harmed_says_so() {
    story(async {
        let stage = Stage::set(&format!("drills: enabled\n{USUAL}"));
        stage.host("a", pleasant());
        stage.host("b", pleasant());
        let wanted = Wanted {
            upstream: "a/model-a".into(),
            route: None,
            harm: Harm { latency: None, then: Some(Failure::Status(429)) },
            percent: 100.0,
            length: Duration::from_secs(60),
            by: "rehearser".into(),
        };
        stage.live.rehearse(wanted).unwrap();
        let answer = stage.ask(chat("chat").user("Hi")).await;
        let request = of(&stage, &answer);
        assert_eq!(request.attempts.iter().map(|tried| tried.is_drill).collect::<Vec<_>>(), [true, false]);
        assert_eq!(decided(&request, "upstream_rests"), ["a/model-a"]);
    });
}

/// An embedder for which every text is the same.
fn near(_: &testkit::Request) -> Reply {
    Reply::json(json!({
        "object": "list", "model": "embed", "data": [{ "object": "embedding", "index": 0, "embedding": [1.0, 0.0] }],
        "usage": { "prompt_tokens": 4, "total_tokens": 4 },
    }))
}

/// A route that matches by meaning, and has its matches verified.
const MATCHING: &str = r#"
providers: [{ name: a, base_url: "http://a/v1" }, { name: e, base_url: "http://e/v1" }, { name: j, base_url: "http://j/v1" }]
routes:
  - name: chat
    upstreams: [{ provider: a, model: m }]
    cache: { mode: semantic, semantic: { route: emb, threshold: 0.9, margin: 0, verify: { route: judge } } }
  - { name: emb, match: { path: /v1/embeddings }, upstreams: [{ provider: e, model: embed }] }
  - { name: judge, upstreams: [{ provider: j, model: small }] }
clients: [{ name: app, keys: [sk-app], routes: [chat] }]
"#;

#[test]
fn what_withheld_a_match_is_told() {
    story(async {
        let stage = Stage::set(MATCHING);
        stage.host("a", pleasant());
        stage.host("j", Reply::say(["no"]));
        let e = stage.host("e", Script::by(near));
        let withheld = async |question: &str| {
            let answer = stage.ask(chat("chat").user(question)).await;
            assert_eq!((answer.status, answer.header("x-mai-cache")), (200, Some("miss")));
            decided(&of(&stage, &answer), "match_withheld")
        };
        assert_eq!(withheld("How do I enable 2FA?").await, [""; 0]);
        assert_eq!(withheld("How do I disable 2FA?").await, ["negation"]);
        assert_eq!(withheld("How can I enable 2FA?").await, ["negation", "verify"]);
        e.play(Reply::hang());
        assert_eq!(withheld("What is a tax?").await, ["error"]);
    });
    story(async {
        let stage = Stage::set(MATCHING);
        stage.host("a", pleasant());
        stage.host("j", Reply::status(400));
        stage.host("e", Script::by(near));
        let mut told = Vec::new();
        for word in ["do", "can", "could", "should", "would"] {
            let answer = stage.ask(chat("chat").user(format!("How {word} I enable 2FA?").as_str())).await;
            told.extend(decided(&of(&stage, &answer), "match_withheld"));
        }
        assert_eq!(told, ["error", "error", "error", "verifier_resting"]);
    });
}

#[test]
fn a_named_question_that_stands_nowhere_in_its_message_is_told_to_caller_and_operator() {
    const WHERE: &str = "query_not_in_user_message";
    story(async {
        let stage = Stage::set(MATCHING);
        let a = stage.host("a", pleasant());
        stage.host("e", Script::by(near));
        let prompt = |question: &str| {
            let prompt = "Passages: file them in the portal.\n\nQuestion: How do I file expenses?";
            chat("chat").user(prompt).with("mai", json!({ "query": question }))
        };
        let slipped = stage.ask(prompt("how do I file expenses")).await;
        assert_eq!((slipped.status, slipped.header("x-mai-cache")), (200, Some("miss")));
        assert_eq!(slipped.header("x-mai-query"), Some("not_in_user_message"));
        assert_eq!(decided(&of(&stage, &slipped), WHERE), [""]);
        let streamed = stage.ask(prompt("Expenses?").stream().with("seed", 1)).await;
        assert_eq!(streamed.header("x-mai-query"), Some("not_in_user_message"));
        let encoded = chat("chat").user("Why?").header("x-mai-query", "What%20for%3F").with("temperature", 0.9);
        let encoded = stage.ask(encoded).await;
        assert_eq!(encoded.header("x-mai-query"), Some("not_in_user_message"), "whatever else keeps it from a match");
        let body = json!({"model": "chat", "query": "Why?", "messages": [{"role": "user", "content": "What for?"}]});
        let lookup = stage.ask(chat("chat").path("/v1/cache/lookup").body(body.to_string())).await;
        assert_eq!((lookup.status, lookup.header("x-mai-query")), (404, Some("not_in_user_message")));
        let sound = stage.ask(prompt("How do I file expenses?").with("seed", 2)).await;
        assert_eq!((sound.status, sound.header("x-mai-query")), (200, None));
        assert_eq!(decided(&of(&stage, &sound), WHERE), [""; 0]);
        assert_eq!(a.calls().len(), 4);
    });
}

#[test]
fn explain_tells_whether_a_named_question_stands_in_its_message() {
    let told = |question: Option<&str>| {
        let mut body = json!({ "model": "chat", "messages": [{ "role": "user", "content": "Read: lorem. Why?" }] });
        if let Some(question) = question {
            body["mai"] = json!({ "query": question });
        }
        let snapshot = crate::stage::snapshot(MATCHING);
        let told = gateway::explain::explain(&snapshot, "app", base::Endpoint::Chat, body.to_string().into()).unwrap();
        told["cache"]["query_in_user_message"].clone()
    };
    assert_eq!([told(Some("Why?")), told(Some("why?")), told(None)], [json!(true), json!(false), json!(null)]);
}
