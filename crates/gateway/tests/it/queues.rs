//! Batch calls that wait for their limits instead of being refused.

use std::time::Duration;

use serde_json::json;
use testkit::{Answer, Ask, Caller, Host, Reply, Stream, embeddings, story};

use crate::stage::{Stage, pleasant, usual_but};

const NIGHT: &str = "sk-night";
const DAWN: &str = "sk-dawn";
const DAY: &str = "sk-day";

/// Batch clients `night` and `dawn` with these keys of theirs, an online client `day`, and a limit of the
/// embedding route.
fn shift(night: &str, route: &str) -> String {
    usual_but(
        "  - { name: app, keys: [sk-app], routes: [\"*\"] }",
        &format!(
            "  - {{ name: night, keys: [{NIGHT}], routes: [\"*\"], priority: batch, deadline: 60s, {night} }}\n  - {{ name: dawn, keys: [{DAWN}], routes: [\"*\"], priority: batch, deadline: 60s, {night} }}\n  - {{ name: day, keys: [{DAY}], routes: [\"*\"] }}"
        ),
    )
    .replace("  - name: embedding\n", &format!("  - name: embedding\n    deadline: 60s\n    {route}\n"))
}

fn ask(text: &str, key: &str) -> Ask {
    embeddings("embedding", text).key(key)
}

async fn begin(stage: &Stage, text: &str, key: &str) -> Caller<Stream> {
    let mut caller = stage.caller();
    caller.begin(&ask(text, key)).await;
    // Calls come one after the other.
    tokio::time::sleep(Duration::from_millis(5)).await;
    caller
}

async fn asks(stage: &Stage, text: &str, key: &str) -> Answer {
    stage.caller().ask(&ask(text, key)).await
}

/// What a host was asked, in order.
fn seen(host: &Host) -> Vec<String> {
    let text = |call: &testkit::Call| {
        let input = call.request.field("input").cloned().unwrap_or_default();
        input.as_str().or(input[0].as_str()).unwrap_or_default().to_owned()
    };
    host.calls().iter().map(text).collect()
}

fn slow(seconds: u64) -> Reply {
    Reply::default().after(Duration::from_secs(seconds))
}

#[test]
fn a_batch_call_waits_for_its_rate_instead_of_a_429() {
    story(async {
        let stage = Stage::set(&shift("limit: { qps: 1 }", ""));
        stage.host("a", pleasant());
        let begun = base::Clock.now();
        let mut callers = Vec::new();
        for n in 0..5 {
            callers.push(begin(&stage, &format!("{n}"), NIGHT).await);
        }
        assert_eq!(stage.metric("mai_queue_depth{priority=\"batch\",route=\"embedding\"}"), 4.0);
        for (n, caller) in callers.iter_mut().enumerate() {
            let answer = caller.answer().await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            let waited: u64 = answer.header("x-mai-queue-ms").map_or(0, |millis| millis.parse().unwrap());
            assert!(waited.abs_diff(1000 * n as u64) < 100, "call {n} has waited {waited} ms");
            let overhead: f64 = answer.header("x-mai-overhead-ms").unwrap().parse().unwrap();
            assert!(overhead < 5.0, "a wait is no overhead: {overhead}");
        }
        assert!((base::Clock.now() - begun).as_millis() < 4200);
        let line = stage.last_line().await;
        assert!(line["queue_ms"].as_f64().unwrap() > 3900.0, "{line}");
        assert_eq!(stage.metric("mai_queue_depth{priority=\"batch\",route=\"embedding\"}"), 0.0);
        assert_eq!(stage.metric("mai_queue_wait_seconds_count{priority=\"batch\"}"), 4.0);
    });
}

#[test]
fn a_place_goes_to_the_next_in_line_as_soon_as_it_is_free() {
    story(async {
        let stage = Stage::set(&shift("limit: { concurrency: 1 }", ""));
        let a = stage.host("a", slow(2));
        let mut callers = Vec::new();
        for text in ["1", "2", "3"] {
            callers.push(begin(&stage, text, NIGHT).await);
        }
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!((seen(&a), a.most_in_flight()), (vec!["1".into(), "2".into(), "3".into()], 1));
        stage.comes_to_rest().await;
    });
}

#[test]
fn clients_take_turns_whatever_each_has_waiting() {
    story(async {
        let stage = Stage::set(&shift("", "limit: { concurrency: 1 }"));
        let a = stage.host("a", slow(1));
        let mut callers = Vec::new();
        for (text, key) in [("n1", NIGHT), ("n2", NIGHT), ("n3", NIGHT), ("n4", NIGHT), ("d1", DAWN), ("d2", DAWN)] {
            callers.push(begin(&stage, text, key).await);
        }
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(seen(&a), ["n1", "n2", "d1", "n3", "d2", "n4"]);
    });
}

#[test]
fn online_passes_those_who_wait_for_the_routes_places() {
    story(async {
        let stage = Stage::set(&shift("", "limit: { concurrency: 5 }"));
        let a = stage.host("a", slow(1));
        let mut callers = Vec::new();
        for n in 0..20 {
            callers.push(begin(&stage, &format!("n{n}"), NIGHT).await);
        }
        // Batch has left a place free, and later ones are free for online again and again.
        for n in 0..8 {
            assert_eq!(asks(&stage, &format!("d{n}"), DAY).await.status, 200);
        }
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert!(a.most_in_flight() <= 5);
    });
}

#[test]
fn who_leaves_the_queue_frees_its_place_and_never_runs() {
    story(async {
        let stage = Stage::set(&shift("queue: { max_depth: 2, max_wait: 40s }, limit: { concurrency: 1 }", ""));
        let a = stage.host("a", slow(2));
        let mut first = begin(&stage, "first", NIGHT).await;
        let leaver = begin(&stage, "leaver", NIGHT).await;
        let mut second = begin(&stage, "second", NIGHT).await;
        let full = asks(&stage, "full", NIGHT).await;
        assert_eq!((full.status, full.code().as_deref()), (429, Some("queue_full")));
        assert!(full.header("retry-after").is_some());
        drop(leaver);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut third = begin(&stage, "third", NIGHT).await;
        for caller in [&mut first, &mut second, &mut third] {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(seen(&a), ["first", "second", "third"]);
        let log = {
            stage.comes_to_rest().await;
            stage.log()
        };
        let gone = log.iter().find(|line| line["outcome"] == "caller_gone").unwrap();
        assert_eq!((&gone["attempts"], &gone["status"]), (&json!([]), &json!(499)));
        let refused = log.iter().find(|line| line["code"] == "queue_full").unwrap();
        assert_eq!(refused["outcome"], "policy_queued");
    });
}

#[test]
fn a_wait_that_is_too_long_ends_in_a_429() {
    story(async {
        let stage = Stage::set(&shift("queue: { max_wait: 3s }, limit: { concurrency: 1 }", ""));
        stage.host("a", slow(2));
        let mut first = begin(&stage, "first", NIGHT).await;
        let mut second = begin(&stage, "second", NIGHT).await;
        let late = asks(&stage, "late", NIGHT).await;
        assert_eq!((late.status, late.code().as_deref()), (429, Some("queue_timeout")));
        assert_eq!((late.header("retry-after"), late.header("x-mai-queue-ms")), (Some("1"), Some("3000")));
        assert_eq!(first.answer().await.unwrap().status, 200);
        assert_eq!(second.answer().await.unwrap().status, 200);
        // And so does a wait that the call's own deadline ends, in its own words.
        let mut holder = begin(&stage, "holder", NIGHT).await;
        let hurried = stage.caller().ask(&ask("hurried", NIGHT).header("x-mai-timeout-ms", "500")).await;
        assert_eq!((hurried.status, hurried.code().as_deref()), (504, Some("deadline_exceeded")));
        assert_eq!(holder.answer().await.unwrap().status, 200);
        stage.comes_to_rest().await;
    });
}

#[test]
fn without_a_queue_a_batch_call_is_refused_like_any() {
    story(async {
        let stage = Stage::set(&shift("queue: { max_depth: 0 }, limit: { qps: 0.1 }", ""));
        stage.host("a", pleasant());
        assert_eq!(asks(&stage, "one", NIGHT).await.status, 200);
        let refused = asks(&stage, "two", NIGHT).await;
        assert_eq!((refused.status, refused.code().as_deref()), (429, Some("rate_limit_exceeded")));
    });
}

#[test]
fn a_reload_in_the_middle_loses_nobody_who_waits() {
    story(async {
        let stage = Stage::set(&shift("limit: { qps: 1 }", ""));
        stage.host("a", pleasant());
        let mut callers = Vec::new();
        for n in 0..10 {
            callers.push(begin(&stage, &format!("{n}"), NIGHT).await);
        }
        stage.reload(&shift("limit: { qps: 5 }", "").replace("model: model-b", "model: model-c"));
        let begun = base::Clock.now();
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert!((base::Clock.now() - begun).as_secs() <= 3, "the new rate holds for those who wait");
        stage.comes_to_rest().await;
    });
}

#[test]
fn raised_limits_are_there_at_once_for_those_who_wait() {
    story(async {
        for (before, after) in [
            (shift("limit: { qps: 0.02 }", ""), shift("limit: { qps: 100 }", "")),
            (shift("limit: { concurrency: 1 }", ""), shift("limit: { concurrency: 9 }", "")),
            (shift("", "limit: { qps: 0.02 }"), shift("", "")),
        ] {
            let stage = Stage::set(&before);
            let a = stage.host("a", slow(2));
            let mut callers = Vec::new();
            for n in 0..5 {
                callers.push(begin(&stage, &format!("{n}"), NIGHT).await);
            }
            // Not when somebody looks around anyway.
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(a.calls().len(), 1);
            stage.reload(&after);
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert_eq!(a.calls().len(), 5, "{after}");
            for caller in &mut callers {
                assert_eq!(caller.answer().await.unwrap().status, 200);
            }
            stage.comes_to_rest().await;
        }
    });
}
