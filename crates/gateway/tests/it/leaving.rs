//! Callers who leave, at stages beyond the usual ones.

use std::time::Duration;

use serde_json::json;
use testkit::{Door, End, Reply, chat, embeddings, rerank, story};

use crate::stage::{KEY, Stage, pleasant, usual_but};

#[test]
fn leaving_while_the_gateway_connects_starts_nothing() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        a.set_door(Door::After(Duration::from_millis(1500)));
        let b = stage.host("b", pleasant());
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").key(KEY)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(caller);
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], &line["status"]), (&json!("caller_gone"), &json!(499)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((a.calls().len(), b.calls().len(), stage.net.dialed().len()), (0, 0, 1));
    });
}

#[test]
fn leaving_between_two_upstreams_is_seen_by_neither() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(1)));
        let b = stage.host("b", Reply::hang());
        let mut caller = stage.caller();
        caller.begin(&embeddings("embedding", "abc").key(KEY)).await;
        a.has_calls(1).await;
        b.has_calls(1).await;
        drop(caller);
        assert_eq!(b.ending_of(1).await, End::Gone);
        let line = stage.last_line().await;
        let outcomes: Vec<&str> =
            line["attempts"].as_array().unwrap().iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["status", "caller_gone"]);
        assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
    });
}

#[test]
fn leaving_while_waiting_for_a_place_gives_the_place_in_line_back() {
    story(async {
        let config = usual_but(
            "api_key: sk-a-secret",
            "api_key: sk-a-secret, pool: { max_connections: 1, connect_timeout: 60s }",
        );
        let stage = Stage::set(&config);
        let a = stage.host("a", Reply::say(["ok"]).after(Duration::from_secs(2)));
        let mut first = stage.caller();
        first.begin(&chat("chat").user("Hi").key(KEY)).await;
        a.has_calls(1).await;
        for _ in 0..5 {
            let mut waiting = stage.caller();
            waiting.begin(&chat("chat").user("Hi").key(KEY)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(waiting);
        }
        let mut last = stage.caller();
        last.begin(&chat("chat").user("Hi").key(KEY)).await;
        assert_eq!(first.answer().await.unwrap().status, 200);
        assert_eq!(last.answer().await.unwrap().said(), "ok");
        assert_eq!((a.calls().len(), a.most_in_flight()), (2, 1));
        stage.comes_to_rest().await;
    });
}

#[test]
fn leaving_after_the_answer_has_left_is_no_leaving() {
    story(async {
        for ask in [chat("chat").user("Hi"), embeddings("embedding", "abc"), rerank("rerank", "q", ["d"])] {
            let stage = Stage::usual();
            stage.host("a", pleasant());
            let mut caller = stage.caller();
            assert_eq!(caller.ask(&ask.key(KEY)).await.status, 200);
            drop(caller);
            assert_eq!(stage.last_line().await["outcome"], "ok");
        }
    });
}

#[test]
fn leaving_before_a_word_was_said_leaves_a_line_all_the_same() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let mut caller = stage.caller();
        caller.begin(&chat("chat").user("Hi").key(KEY)).await;
        drop(caller);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.last_line().await["outcome"], "caller_gone");
        assert_eq!(a.log().in_flight().0, 0);
    });
}
