//! Limits that clients of both priorities share: online passes batch, and batch keeps its tenth.

use std::time::Duration;

use serde_json::json;
use testkit::{Answer, Ask, Caller, Reply, Script, Stream, chat, story};

use crate::stage::{Stage, usual_but};

const NIGHT: &str = "sk-night";
const DAY: &str = "sk-day";

/// A batch client `night` and an online client `day` on the chat route, which is limited so.
fn shared(limit: &str, queue: &str) -> String {
    let clients = format!(
        "  - {{ name: night, keys: [{NIGHT}], routes: [\"*\"], priority: batch, deadline: 200s, queue: {queue} }}\n  - {{ name: day, keys: [{DAY}], routes: [\"*\"] }}"
    );
    usual_but("  - { name: app, keys: [sk-app], routes: [\"*\"] }", &clients)
        .replace("  - name: chat\n", &format!("  - name: chat\n    deadline: 200s\n    limit: {limit}\n"))
}

fn ask(tokens: u64, key: &str) -> Ask {
    chat("chat").user("Hi").with("max_tokens", tokens).key(key)
}

async fn begin(stage: &Stage, ask: &Ask) -> Caller<Stream> {
    let mut caller = stage.caller();
    caller.begin(ask).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    caller
}

async fn day(stage: &Stage) -> Answer {
    stage.caller().ask(&ask(30, DAY)).await
}

#[test]
fn one_batch_caller_with_large_calls_does_not_shut_online_out_of_a_routes_tokens() {
    story(async {
        let stage = Stage::set(&shared("{ tokens_per_minute: 12000 }", "{ max_wait: 20s }"));
        let usage = json!({ "prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50 });
        stage.host("a", Script::always(Reply::say(["ok"]).usage(usage)));
        while day(&stage).await.status == 200 {}
        let mut night = begin(&stage, &ask(11_000, NIGHT)).await;
        let began = base::Clock.now();
        let (mut last, mut calls) = (began, 0);
        while base::Clock.now() < began + Duration::from_secs(40) {
            if day(&stage).await.status == 200 {
                (last, calls) = (base::Clock.now(), calls + 1);
            }
            assert!(base::Clock.now() - last < Duration::from_secs(2), "nothing for 2 s after {calls} calls");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let told = night.answer().await.unwrap();
        assert_eq!((told.status, told.code().as_deref()), (429, Some("queue_timeout")), "{}", told.text());
        // 8000 tokens have flown in, and the tenth of the call that left too.
        assert!((150..=160).contains(&calls), "{calls}");
    });
}

#[test]
fn a_client_whose_batch_calls_wait_in_vain_does_not_keep_those_of_another_behind_it() {
    story(async {
        let config = shared("{ tokens_per_minute: 12000 }", "{ max_wait: 20s }");
        let dawn = "  - { name: dawn, keys: [sk-dawn], routes: [\"*\"], priority: batch, deadline: 200s, queue: { max_wait: 60s } }\n";
        let stage = Stage::set(&config.replace("clients:\n", &format!("clients:\n{dawn}")));
        let usage = json!({ "prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50 });
        stage.host("a", Script::always(Reply::say(["ok"]).usage(usage)));
        while day(&stage).await.status == 200 {}
        let mut nights = Vec::new();
        for _ in 0..3 {
            nights.push(begin(&stage, &ask(11_000, NIGHT)).await);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let mut dawn = begin(&stage, &ask(30, "sk-dawn")).await;
        let began = base::Clock.now();
        while base::Clock.now() < began + Duration::from_secs(6) {
            day(&stage).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(dawn.answer().await.unwrap().status, 200);
        assert!(base::Clock.now() < began + Duration::from_secs(7), "as soon as the first of the others has left");
    });
}

#[test]
fn batch_callers_who_wait_for_a_routes_places_do_not_take_them_from_online_calls_that_are_refused() {
    story(async {
        let stage = Stage::set(&shared("{ concurrency: 10 }", "{ max_wait: 100s }"));
        stage.host("a", Script::always(Reply::say(["ok"]).after(Duration::from_millis(300))));
        let mut nights = Vec::new();
        for _ in 0..300 {
            nights.push(begin(&stage, &ask(1, NIGHT)).await);
        }
        let (mut refused, mut begun) = (0, Vec::new());
        for n in 0..300_u64 {
            // Twenty a second, two at once or one: they come to 60 % of what there is room for.
            begun.push(begin(&stage, &ask(1, DAY)).await);
            tokio::time::sleep(Duration::from_millis(if n % 3 == 0 { 1 } else { 63 })).await;
        }
        for caller in &mut begun {
            refused += u32::from(caller.answer().await.unwrap().status == 429);
        }
        assert!(refused < 30, "{refused} of 300 online calls");
        for caller in &mut nights {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
    });
}
