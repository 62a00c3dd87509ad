//! Who is tried first: weights, load, latency, tiers, and the branches of a split.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use testkit::{Answer, Ask, Host, Reply, Scenario, Script, chat, embeddings, story};

use crate::stage::{Stage, begun, millis, pleasant};

/// Three providers and two clients; the route's upstreams and the rest of it are the story's.
fn config(upstreams: &str, route: &str) -> String {
    format!(
        r#"
providers:
  - {{ name: a, base_url: "http://a/v1", api_key: sk-a }}
  - {{ name: b, base_url: "http://b/v1", api_key: sk-b }}
  - {{ name: c, base_url: "http://c/v1", api_key: sk-c }}
routes:
  - name: chat
    upstreams: [{upstreams}]
    retry: {{ server_error: [], throttled: [] }}
    {route}
clients:
  - {{ name: app, keys: [sk-app], routes: ["*"] }}
  - {{ name: pilot, keys: [sk-pilot], routes: ["*"] }}
"#
    )
}

const A_AND_B: &str = "{ provider: a, model: m }, { provider: b, model: m }";
const A_B_AND_C: &str = "{ provider: a, model: m }, { provider: b, model: m }, { provider: c, model: m, tier: 1 }";

fn ask() -> Ask {
    chat("chat").user("Hi")
}

fn upstream(answer: &Answer) -> String {
    answer.header("x-mai-upstream").unwrap_or_default().replace("/m", "")
}

/// Who answers each of `count` calls, one after the other.
async fn answerers(stage: &Stage, count: usize, ask: impl Fn() -> Ask) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..count {
        said.push(upstream(&stage.ask(ask()).await));
    }
    said
}

fn count(answerers: &[String], name: &str) -> usize {
    answerers.iter().filter(|answerer| *answerer == name).count()
}

fn hosts(stage: &Stage) -> [Host; 3] {
    ["a", "b", "c"].map(|name| stage.host(name, pleasant()))
}

#[test]
fn weights_share_the_calls_of_a_tier_out() {
    story(async {
        let upstreams =
            "{ provider: a, model: m, weight: 3 }, { provider: b, model: m }, { provider: c, model: m, weight: 0 }";
        let stage = Stage::set(&config(upstreams, "strategy: weighted"));
        let [a, b, _] = hosts(&stage);
        let said = answerers(&stage, 400, ask).await;
        assert!((270..=330).contains(&count(&said, "a")), "{}", count(&said, "a"));
        assert_eq!(count(&said, "c"), 0, "without a weight it is tried last");
        // Each is the other's way out, whoever was drawn first.
        a.play(Reply::status(400));
        a.play(Reply::status(500));
        let said = answerers(&stage, 20, ask).await;
        assert_eq!(count(&said, "b"), 20);
        b.play(Reply::status(500));
        assert_eq!(count(&answerers(&stage, 2, ask).await, "c"), 2);
    });
}

#[test]
fn the_least_busy_gets_the_call() {
    story(async {
        let stage = Stage::set(&config(A_AND_B, "strategy: least_busy"));
        let slow = || Reply::say(["late"]).after(Duration::from_secs(5));
        let [a, b] = ["a", "b"].map(|name| stage.host(name, slow()));
        let mut calls = Vec::new();
        for number in 1..=20 {
            calls.push(begun(&stage, ask()).await);
            millis(10).await;
            let (a, b) = (a.calls().len(), b.calls().len());
            assert!(a + b == number && a.abs_diff(b) <= 1, "{a} and {b}");
        }
        // Five callers leave `a` and its load with them.
        let running = stage.live.running();
        let busy = || {
            let route = running.snapshot.routes.iter().find(|route| &*route.name == "chat").unwrap();
            let state = running.state(route).unwrap();
            state.upstreams.iter().map(|known| known.gate.standing().busy()).collect::<Vec<_>>()
        };
        assert_eq!(busy(), [10, 10]);
        calls.truncate(10);
        millis(1500).await;
        assert_eq!(busy().iter().sum::<usize>(), 10);
        for mut call in calls {
            assert_eq!(call.answer().await.unwrap().said(), "late");
        }
        stage.comes_to_rest().await;
        assert_eq!(busy(), [0, 0]);
    });
}

#[test]
fn a_stream_is_a_load_to_its_end() {
    story(async {
        let stage = Stage::set(&config(A_AND_B, "strategy: least_busy"));
        let [a, b] = ["a", "b"].map(|name| {
            stage.host(
                name,
                Script::by(|request| match request.is_streaming() {
                    true => Reply::say(["w"; 20]).every(Duration::from_secs(1)),
                    false => Reply::say(["at once"]),
                }),
            )
        });
        let mut streaming = begun(&stage, ask().stream()).await;
        streaming.head().await.unwrap();
        let (of_stream, other) = if a.calls().is_empty() { (&b, &a) } else { (&a, &b) };
        for _ in 0..10 {
            stage.ask(ask()).await;
            millis(500).await;
        }
        assert_eq!((of_stream.calls().len(), other.calls().len()), (1, 10));
        streaming.rest().await;
        stage.comes_to_rest().await;
        for _ in 0..20 {
            stage.ask(ask()).await;
        }
        assert!(of_stream.calls().len() > 5, "then it is as free as the other");
    });
}

#[test]
fn what_other_routes_have_under_way_at_a_bounded_provider_counts_for_the_least_busy() {
    story(async {
        let config = config(A_AND_B, "strategy: least_busy")
            .replace("api_key: sk-a }", "api_key: sk-a, concurrency: { max: 10 } }")
            .replace("clients:\n", "  - { name: other, upstreams: [{ provider: a, model: m }] }\nclients:\n");
        let stage = Stage::set(&config);
        let [a, b] = ["a", "b"].map(|name| stage.host(name, Reply::hang()));
        let mut calls = Vec::new();
        for _ in 0..5 {
            calls.push(begun(&stage, chat("other").user("Hi")).await);
            millis(1).await;
        }
        assert_eq!((a.calls().len(), b.calls().len()), (5, 0));
        for _ in 0..5 {
            calls.push(begun(&stage, ask()).await);
            millis(1).await;
        }
        assert_eq!((a.calls().len(), b.calls().len()), (5, 5));
    });
}

#[test]
fn weights_count_for_the_least_busy_too() {
    story(async {
        let upstreams = "{ provider: a, model: m, weight: 3 }, { provider: b, model: m }";
        let stage = Stage::set(&config(upstreams, "strategy: least_busy"));
        let [a, b] = ["a", "b"].map(|name| stage.host(name, Reply::hang()));
        let mut calls = Vec::new();
        for _ in 0..40 {
            calls.push(begun(&stage, ask()).await);
            millis(1).await;
        }
        millis(10).await;
        assert_eq!((a.calls().len(), b.calls().len()), (30, 10));
    });
}

fn quick_and_slow(stage: &Stage) -> [Host; 2] {
    let after = |millis| Reply::say(["ok"]).after(Duration::from_millis(millis));
    [stage.host("a", after(400)), stage.host("b", after(40))]
}

#[test]
fn the_faster_one_is_found_and_a_recovered_one_found_again() {
    story(async {
        let stage = Stage::set(&config(A_AND_B, "strategy: fastest"));
        let [a, b] = quick_and_slow(&stage);
        let said = answerers(&stage, 50, ask).await;
        assert!(count(&said, "b") >= 45, "{said:?}");
        // Now the other one is the faster by far.
        a.play(Reply::say(["ok"]).after(Duration::from_millis(20)));
        b.play(Reply::say(["ok"]).after(Duration::from_millis(800)));
        let said = answerers(&stage, 100, ask).await;
        assert!(count(&said[20..], "a") >= 75, "{said:?}");
        // Nor is one forgotten that was slow: it is looked at again by and by.
        b.play(Reply::say(["ok"]).after(Duration::from_millis(1)));
        let mut said = Vec::new();
        for _ in 0..120 {
            said.extend(answerers(&stage, 1, ask).await);
            millis(1000).await;
        }
        assert!(count(&said[90..], "b") >= 25, "{said:?}");
    });
}

#[test]
fn a_failing_one_is_no_fast_one() {
    story(async {
        let stage = Stage::set(&config(A_AND_B, "strategy: fastest\n    breaker: { failures: 10000 }"));
        let [a, _] = quick_and_slow(&stage);
        a.play(Reply::status(500).after(Duration::from_millis(2)));
        for _ in 0..100 {
            assert_eq!(upstream(&stage.ask(ask()).await), "b");
            millis(50).await;
        }
        assert!(a.calls().len() < 40, "it answers at once, and wrongly: {}", a.calls().len());
    });
}

#[test]
fn a_crowd_does_not_follow_blindly_to_one_of_which_nothing_is_known() {
    story(async {
        let stage = Stage::set(&config(A_AND_B, "strategy: fastest"));
        let quick = stage.host("a", Reply::say(["ok"]).after(Duration::from_millis(50)));
        let hung = stage.host("b", Reply::hang());
        // Of `a` something becomes known, of `b` not.
        for _ in 0..20 {
            let _leaves = begun(&stage, ask()).await;
            millis(1500).await;
        }
        assert!(!quick.calls().is_empty());
        let before = hung.calls().len();
        let mut crowd = Vec::new();
        for _ in 0..50 {
            crowd.push(begun(&stage, ask()).await);
            millis(2).await;
        }
        assert!(hung.calls().len() - before <= 10, "{} of 50", hung.calls().len() - before);
    });
}

#[test]
fn what_only_throttles_or_refuses_is_neither_fast_nor_slow() {
    story(async {
        let stage = Stage::set(&config(A_AND_B, "strategy: fastest"));
        let [a, b] = quick_and_slow(&stage);
        a.play(Reply::status(429).header("retry-after", "1"));
        for _ in 0..20 {
            assert_eq!(upstream(&stage.ask(ask()).await), "b");
        }
        assert!(a.calls().len() <= 2, "{}", a.calls().len());
        assert_eq!(b.calls().len(), 20);
    });
}

#[test]
fn tiers_come_before_every_strategy() {
    for strategy in ["ordered", "weighted", "least_busy", "fastest"] {
        story(async {
            let stage = Stage::set(&config(A_B_AND_C, &format!("strategy: {strategy}")));
            let [a, b, c] = hosts(&stage);
            for host in [&a, &b] {
                host.play(Reply::say(["slow"]).after(Duration::from_secs(2)));
            }
            for _ in 0..20 {
                stage.ask(ask()).await;
            }
            assert_eq!((a.calls().len() + b.calls().len(), c.calls().len()), (20, 0), "{strategy}");
            assert_eq!(b.calls().is_empty(), strategy == "ordered");
            a.play(Reply::status(500));
            b.play(Reply::status(500));
            let answer = stage.ask(ask()).await;
            assert_eq!((upstream(&answer).as_str(), answer.header("x-mai-attempts")), ("c", Some("3")), "{strategy}");
        });
    }
}

#[test]
fn open_breakers_and_rests_are_passed_over_by_every_strategy() {
    for strategy in ["ordered", "weighted", "least_busy", "fastest"] {
        story(async {
            let stage = Stage::set(&config(A_AND_B, &format!("strategy: {strategy}")));
            let [a, b, _] = hosts(&stage);
            a.play(Reply::status(429).header("retry-after", "30"));
            b.play(Reply::status(429).header("retry-after", "30"));
            stage.ask(ask()).await;
            tokio::time::sleep(Duration::from_secs(31)).await;
            b.play(pleasant());
            // Until it is `a`'s turn, which then rests.
            while a.calls().len() < 2 {
                stage.ask(ask()).await;
            }
            let before = b.calls().len();
            for _ in 0..10 {
                assert_eq!(stage.ask(ask()).await.header("x-mai-attempts"), Some("1"), "{strategy}");
            }
            assert_eq!((a.calls().len(), b.calls().len() - before), (2, 10), "{strategy}");
        });
    }
}

fn split(branches: &str) -> String {
    config(A_B_AND_C, &format!("split: [{branches}]"))
}

#[test]
fn a_split_goes_by_header_by_tag_and_by_client() {
    story(async {
        let stage = Stage::set(&split(
            "{ when: { header: { x-mai-tag: eval } }, to: b }, { when: { header: { x-team: \"red\" } }, to: c }, \
             { when: { client: pilot }, to: c }",
        ));
        let [_, b, _] = hosts(&stage);
        let tagged = || ask().with("metadata", json!({"mai_tag": "eval", "other": "kept"}));
        let by = |ask: Ask| async { upstream(&stage.ask(ask).await) };
        assert_eq!(by(ask()).await, "a");
        assert_eq!(by(ask().header("x-mai-tag", "eval")).await, "b");
        assert_eq!(by(tagged()).await, "b");
        assert_eq!(b.calls()[1].request.field("metadata"), Some(&json!({"other": "kept"})), "the tag goes no further");
        for not_quite in ["Eval", "evaluation", "", "eval, eval"] {
            assert_eq!(by(ask().header("x-mai-tag", not_quite)).await, "a", "{not_quite}");
        }
        assert_eq!(by(ask().header("X-Team", "red")).await, "c");
        let pilot = |ask: Ask| async { upstream(&stage.caller().ask(&ask.key("sk-pilot")).await) };
        assert_eq!(pilot(ask()).await, "c");
        assert_eq!(pilot(tagged()).await, "b", "the first branch that is met");
    });
}

#[test]
fn a_split_by_percent_takes_its_share_of_the_calls_it_is_for() {
    story(async {
        let stage = Stage::set(&split("{ when: { client: pilot, percent: 25 }, to: b }"));
        hosts(&stage);
        assert_eq!(count(&answerers(&stage, 100, ask).await, "a"), 100);
        let mut of_pilot = Vec::new();
        for _ in 0..400 {
            of_pilot.push(upstream(&stage.caller().ask(&ask().key("sk-pilot")).await));
        }
        assert!((70..=130).contains(&count(&of_pilot, "b")), "{}", count(&of_pilot, "b"));
        assert_eq!(count(&of_pilot, "a") + count(&of_pilot, "b"), 400);
    });
}

#[test]
fn a_sticky_share_is_a_share_of_the_clients_who_never_waver() {
    story(async {
        let names: Vec<String> = (0..60).map(|n| format!("team-{n}")).collect();
        let clients: String =
            names.iter().map(|name| format!("  - {{ name: {name}, keys: [sk-{name}], routes: [\"*\"] }}\n")).collect();
        let config =
            |percent| split(&format!("{{ when: {{ percent: {percent}, sticky: client }}, to: b }}")) + &clients;
        let stage = Stage::set(&config(30));
        hosts(&stage);
        let drawn = || async {
            let mut drawn = HashSet::new();
            for name in &names {
                let key = format!("sk-{name}");
                let first = upstream(&stage.caller().ask(&ask().key(&key)).await);
                for _ in 0..3 {
                    assert_eq!(upstream(&stage.caller().ask(&ask().key(&key)).await), first, "{name}");
                }
                if first == "b" {
                    drawn.insert(name.clone());
                }
            }
            drawn
        };
        let few = drawn().await;
        assert!((8..=28).contains(&few.len()), "{few:?}");
        stage.reload(&config(60));
        let more = drawn().await;
        assert!(more.is_superset(&few) && more.len() > few.len(), "raising the share only adds to them");
    });
}

#[test]
fn a_branch_that_leads_to_a_failing_upstream_falls_back_to_the_others() {
    story(async {
        let stage = Stage::set(&split("{ when: { header: { x-mai-tag: eval } }, to: c }"));
        let [a, b, c] = hosts(&stage);
        let tagged = || ask().header("x-mai-tag", "eval");
        c.play(Reply::status(500));
        for _ in 0..5 {
            let answer = stage.ask(tagged()).await;
            assert_eq!((upstream(&answer).as_str(), answer.header("x-mai-attempts")), ("a", Some("2")));
        }
        let answer = stage.ask(tagged()).await;
        assert_eq!((upstream(&answer).as_str(), answer.header("x-mai-attempts")), ("a", Some("1")), "it is open");
        assert_eq!((a.calls().len(), b.calls().len(), c.calls().len()), (6, 0, 5));
        a.play(Reply::status(500));
        assert_eq!(upstream(&stage.ask(tagged()).await), "b");
        assert_eq!(c.calls().len(), 5);
    });
}

#[test]
fn another_split_holds_from_the_next_call_on() {
    story(async {
        let stage = Stage::set(&split("{ when: { client: app }, to: b }"));
        let [_, b, c] = hosts(&stage);
        assert_eq!(upstream(&stage.ask(ask()).await), "b");
        b.play(Reply::status(500).after(Duration::from_secs(2)));
        let mut under_way = begun(&stage, ask()).await;
        b.has_calls(2).await;
        stage.reload(&split("{ when: { client: app }, to: c }"));
        assert_eq!(upstream(&stage.ask(ask()).await), "c");
        assert_eq!(upstream(&under_way.answer().await.unwrap()), "a", "as it was when it began");
        stage.reload(&config(A_B_AND_C, ""));
        assert_eq!(upstream(&stage.ask(ask()).await), "a");
        assert_eq!(c.calls().len(), 1);
    });
}

#[test]
fn every_part_of_a_split_up_call_takes_the_same_branch() {
    story(async {
        let config = split("{ when: { percent: 50 }, to: b }").replace(
            "name: chat",
            "name: embedding\n    match: { path: /v1/embeddings }\n    batch: { max_inputs: 1 }",
        );
        let stage = Stage::set(&config);
        let hosts = hosts(&stage);
        let inputs: Vec<String> = (0..8).map(|n| format!("text {n}")).collect();
        let mut all = HashSet::new();
        for _ in 0..20 {
            let before = hosts.each_ref().map(|host| host.calls().len());
            assert_eq!(stage.ask(embeddings("embedding", inputs.clone())).await.status, 200);
            let parts: Vec<usize> =
                hosts.iter().zip(before).map(|(host, before)| host.calls().len() - before).collect();
            assert!(parts == [8, 0, 0] || parts == [0, 8, 0], "{parts:?}");
            all.insert(parts);
        }
        assert_eq!(all.len(), 2);
    });
}

#[test]
fn the_order_says_nothing_about_scripts_that_end_badly() {
    // Chance is drawn for each call: two of three fail, and no call does.
    story(async {
        let stage = Stage::set(&config(
            "{ provider: a, model: m }, { provider: b, model: m }, { provider: c, model: m }",
            "strategy: weighted\n    breaker: { failures: 10000 }",
        ));
        let [a, b, _] = hosts(&stage);
        a.play(Scenario::from(Script::always(Reply::reset())));
        b.play(Reply::text("no"));
        for _ in 0..60 {
            assert_eq!(upstream(&stage.ask(ask()).await), "c");
        }
        assert!(a.calls().len() > 10 && b.calls().len() > 10);
    });
}
