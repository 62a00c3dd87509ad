//! The main job: one streaming chat, one plain chat, one embedding and one rerank, failover, and a
//! caller who leaves.

use std::time::Duration;

use serde_json::json;
use testkit::{Door, End, Reply, Script, chat, embeddings, rerank, story};

use crate::stage::{KEY, Stage, USUAL, pleasant};

#[test]
fn a_plain_chat_is_answered_under_the_routes_name_and_recorded_once() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::say(["Hello"])));
        let answer = stage.ask(chat("chat").user("Hi").header("x-request-id", "r-1")).await;
        assert_eq!((answer.status, answer.said().as_str()), (200, "Hello"));
        assert_eq!(answer.header("x-mai-route"), Some("chat"));
        assert_eq!(answer.header("x-mai-upstream"), Some("a/model-a"));
        assert_eq!(answer.header("x-mai-attempts"), Some("1"));
        assert_eq!(answer.header("x-request-id"), Some("r-1"));
        let call = &a.calls()[0];
        assert_eq!(call.request.header("authorization"), Some("Bearer sk-a-secret"));
        assert_eq!(call.request.model(), "model-a");
        stage.comes_to_rest().await;
        let log = stage.log();
        assert_eq!(log.len(), 1);
        assert_eq!(log[0]["outcome"], "ok");
        assert_eq!(log[0]["request_id"], "r-1");
    });
}

#[test]
fn a_key_that_comes_as_a_request_id_stands_in_no_log_and_goes_to_nobody() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::say(["Hello"])));
        for id in [KEY, "sk-of-somebody-else", "Bearer of-somebody-else"] {
            let answer = stage.ask(chat("chat").user("Hi").key(KEY).header("x-request-id", id)).await;
            assert_eq!(answer.status, 200);
            assert!(
                answer.header("x-request-id").is_some_and(|new| new.starts_with("mai-") && new.len() == 36),
                "{id}"
            );
        }
        for call in a.calls() {
            assert!(call.request.header("x-request-id").is_some_and(|id| id.starts_with("mai-")));
        }
        stage.comes_to_rest().await;
        let log = stage.log_text();
        assert!(!log.contains(KEY) && !log.contains("sk-of-somebody-else"), "{log}");
    });
}

#[test]
fn a_streamed_chat_comes_as_it_comes() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::say(["Hel", "lo", "!"]).every(Duration::from_millis(200))));
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").stream().key(KEY)).await;
        let began = base::Clock.now();
        let head = caller.head().await.unwrap();
        assert_eq!(head.header("content-type"), Some("text/event-stream; charset=utf-8"));
        assert_eq!(head.header("cache-control"), Some("no-cache"));
        let first = caller.more().await.unwrap().unwrap();
        assert!(base::Clock.now() - began < Duration::from_millis(450), "the first word waits for no other");
        let (rest, _) = caller.rest().await;
        let events = testkit::sse::parse(&[first, rest].concat());
        assert_eq!(events.said(), "Hello!");
        assert!(events.is_done());
        assert!(events.usages().is_empty(), "the caller did not ask for usage");
        stage.comes_to_rest().await;
        assert!(stage.log()[0]["tokens_out"].as_u64().unwrap() > 0, "the gateway did");
    });
}

#[test]
fn embeddings_come_in_the_encoding_asked_for() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let answer = stage.ask(embeddings("embedding", json!(["one", "two"])).with("encoding_format", "base64")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.json()["data"][1]["embedding"].is_string());
        assert_eq!(a.calls()[0].request.model(), "embed");
    });
}

#[test]
fn documents_are_reranked_and_given_back_when_asked_for() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        let ask = rerank("rerank", "red apples", ["blue sky", "red apples are sweet"]);
        let answer = stage.ask(ask.with("return_documents", true).with("top_n", 1)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let results = answer.json()["results"].clone();
        assert_eq!(results.as_array().unwrap().len(), 1);
        assert_eq!(results[0]["index"], 1);
        assert_eq!(results[0]["document"]["text"], "red apples are sweet");
    });
}

#[test]
fn a_failing_upstream_is_followed_by_the_next_and_the_caller_sees_no_error() {
    story(async {
        for failing in [Reply::status(500), Reply::status(503), Reply::raw(["no http at all"])] {
            let stage = Stage::usual();
            let a = stage.host("a", Script::always(failing));
            let b = stage.host("b", Script::always(Reply::say(["from b"])));
            for ask in [chat("chat").user("Hi"), chat("chat").user("Hi").stream()] {
                let answer = stage.ask(ask).await;
                assert_eq!((answer.status, answer.said().as_str()), (200, "from b"), "{}", answer.text());
                assert_eq!(answer.header("x-mai-attempts"), Some("2"));
            }
            assert_eq!((a.calls().len(), b.calls().len()), (2, 2));
            stage.comes_to_rest().await;
        }
    });
}

#[test]
fn an_upstream_that_cannot_be_reached_or_never_answers_is_followed_by_the_next() {
    story(async {
        for door in [Door::Refuse, Door::Hang] {
            let stage = Stage::usual();
            stage.host("a", pleasant()).set_door(door);
            stage.host("b", Script::always(Reply::say(["from b"])));
            assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from b");
        }
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::hang()));
        stage.host("b", Script::always(Reply::say(["from b"])));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from b");
        assert_eq!(a.most_in_flight(), 1);
        assert!(matches!(a.ending_of(1).await, End::Gone), "the hung call is closed before the next starts");
    });
}

#[test]
fn a_caller_who_leaves_cancels_the_upstream_at_every_stage() {
    story(async {
        let words: Vec<String> = (0..100).map(|n| format!("w{n} ")).collect();
        let slow = || Reply::say(words.clone()).every(Duration::from_millis(200));
        for (reply, streaming) in [(Reply::hang(), false), (Reply::hang(), true), (slow(), true)] {
            let stage = Stage::usual();
            let a = stage.host("a", Script::always(reply));
            let b = stage.host("b", pleasant());
            let mut caller = stage.caller();
            let ask = chat("chat").user("Hi").key(KEY);
            caller.begin(&if streaming { ask.stream() } else { ask }).await;
            a.has_calls(1).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(caller);
            let left = base::Clock.now();
            assert!(matches!(a.ending_of(1).await, End::Gone));
            assert!(base::Clock.now() - left < Duration::from_secs(2), "soon");
            stage.comes_to_rest().await;
            assert_eq!(b.calls().len(), 0, "nothing further starts");
            assert_eq!(stage.log()[0]["outcome"], "caller_gone");
        }
    });
}

#[test]
fn a_caller_who_only_stops_sending_still_gets_the_answer() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::say(["late"]).after(Duration::from_secs(3))));
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").key(KEY)).await;
        caller.half_close().await;
        let text = String::from_utf8(caller.rest().await.0).unwrap();
        assert!(text.contains("late"), "{text}");
    });
}

#[test]
fn a_call_ends_under_the_configuration_that_it_began_with() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::say(["late"]).after(Duration::from_secs(3))));
        let mut caller = stage.caller();
        let ask = chat("chat").user("Hi").key(KEY);
        caller.begin(&ask).await;
        a.has_calls(1).await;
        stage.reload(&USUAL.replace("model-a", "model-new").replace(KEY, "sk-new"));
        assert_eq!(caller.answer().await.unwrap().said(), "late");
        assert_eq!(caller.ask(&ask).await.status, 401, "the old key is gone");
        assert_eq!(stage.caller().ask(&chat("chat").user("Hi").key("sk-new")).await.status, 200);
        assert_eq!(a.calls()[1].request.model(), "model-new");
    });
}
