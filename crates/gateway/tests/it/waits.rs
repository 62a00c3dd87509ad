//! Waits: who is tried when, how long is waited, how long the throttled rest, and how many repeats a
//! route may make.

use std::time::Duration;

use base::Clock;
use mock::Due;
use serde_json::json;
use testkit::{Answer, Ask, End, Host, Reply, Scenario, Script, chat, embeddings, story};
use tokio::task::JoinSet;

use crate::stage::{KEY, Stage, begun, pleasant};

/// `a` and `b` side by side, or `a` alone, with this in the route.
fn config(beside: &str, route: &str) -> String {
    format!(
        r#"
providers:
  - {{ name: a, base_url: "http://a/v1", api_key: sk-a }}
  - {{ name: b, base_url: "http://b/v1", api_key: sk-b }}
routes:
  - name: chat
    upstreams: [{{ provider: a, model: m }}{beside}]
    breaker: {{ failures: 1000 }}
    {route}
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: m }}]
    breaker: {{ failures: 1000 }}
    {route}
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

const BESIDE: &str = ", { provider: b, model: m }";

fn two(route: &str) -> Stage {
    Stage::set(&config(BESIDE, route))
}

fn alone(route: &str) -> Stage {
    Stage::set(&config("", route))
}

fn ask() -> Ask {
    chat("chat").user("Hi")
}

fn throttled(wait: &str) -> Reply {
    Reply::status(429).header("retry-after", wait)
}

fn attempts(answer: &Answer) -> usize {
    answer.header("x-mai-attempts").unwrap().parse().unwrap()
}

fn code(answer: &Answer) -> String {
    answer.code().unwrap_or_default()
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Seconds from one call of a host to the next.
fn gaps(host: &Host) -> Vec<f64> {
    host.calls().windows(2).map(|pair| (pair[1].at - pair[0].ended_at.unwrap()).as_secs_f64()).collect()
}

/// From `wait` to a fifth more, in seconds.
fn is_about(gap: f64, wait: f64) -> bool {
    (wait - 0.001..=wait * 1.2 + 0.06).contains(&gap)
}

#[test]
fn every_upstream_is_tried_at_once_before_the_first_wait_and_each_wait_grants_one_try() {
    story(async {
        let stage = two("retry: { server_error: [1s, 3s] }");
        let [a, b] = ["a", "b"].map(|name| stage.host(name, Reply::status(500)));
        let began = Clock.now();
        let answer = stage.ask(ask()).await;
        let took = (Clock.now() - began).as_secs_f64();
        assert_eq!((answer.status, code(&answer).as_str(), attempts(&answer)), (502, "upstream_error", 4));
        let at = |host: &Host| host.calls().iter().map(|call| call.at.as_secs_f64()).collect::<Vec<_>>();
        let (a, b) = (at(&a), at(&b));
        assert_eq!((a.len(), b.len()), (2, 2), "the one that has waited longest is next");
        assert!(b[0] - a[0] < 0.05, "another upstream comes at once");
        assert!(is_about(a[1] - b[0], 1.0) && is_about(b[1] - a[1], 3.0), "{a:?} {b:?}");
        assert!((4.0..=4.9).contains(&took), "{took}");
    });
}

#[test]
fn a_wait_is_up_to_a_fifth_longer_so_that_not_all_come_back_together() {
    story(async {
        let stage = alone("retry: { server_error: [10s], budget: 1 }");
        let a = stage.host("a", Reply::status(500));
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            let mut caller = stage.caller();
            calls.spawn(async move { caller.ask(&ask().key(KEY)).await });
        }
        calls.join_all().await;
        let mut repeats: Vec<f64> = a.calls().iter().skip(10).map(|call| call.at.as_secs_f64()).collect();
        assert_eq!(repeats.len(), 10);
        repeats.sort_by(f64::total_cmp);
        assert!(repeats[0] >= 10.0 && repeats[9] <= 12.1, "{repeats:?}");
        assert!(repeats[9] - repeats[0] > 0.5, "spread: {repeats:?}");
    });
}

#[test]
fn a_repeat_that_succeeds_is_an_answer_like_any_other_and_its_wait_no_overhead() {
    story(async {
        let stage = alone("");
        let a = stage.host("a", Script::replies([Reply::status(500), Reply::status(502), Reply::default()]));
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, attempts(&answer)), (200, 3));
        let overhead: f64 = answer.header("x-mai-overhead-ms").unwrap().parse().unwrap();
        assert!(overhead < 10.0, "{overhead}");
        assert!(is_about(gaps(&a)[0], 1.0) && is_about(gaps(&a)[1], 3.0), "{:?}", gaps(&a));
        let line = stage.last_line().await;
        assert_eq!(line["outcome"], "ok");
        assert!(line["ms"].as_f64().unwrap() >= 4000.0 && line["overhead_ms"].as_f64().unwrap() < 10.0, "{line}");
        assert_eq!(stage.metric("mai_retries_total{result=\"taken\",route=\"chat\"}"), 2.0, "{}", stage.metrics());
    });
}

#[test]
fn streams_wait_and_repeat_until_their_first_content() {
    story(async {
        let stage = alone("");
        let silent = Reply::sse([crate::chunks::role()]).cut(testkit::At::Events(1), testkit::How::Rst);
        stage.host("a", Script::new().on_call(1, silent).then(Reply::say(["Hel", "lo"])));
        let answer = stage.ask(ask().stream()).await;
        assert_eq!((answer.said().as_str(), attempts(&answer)), ("Hello", 2));
    });
}

#[test]
fn no_wait_goes_beyond_the_deadline() {
    story(async {
        let stage = alone("retry: { server_error: [1s, 3s] }");
        let a = stage.host("a", Reply::status(500));
        for (deadline, tries) in [("900", 1), ("1200", 2), ("3000", 2), ("6000", 3)] {
            let (before, began) = (a.calls().len(), Clock.now());
            let answer = stage.ask(ask().header("x-mai-timeout-ms", deadline)).await;
            let took = (Clock.now() - began).as_millis();
            assert_eq!((answer.status, attempts(&answer)), (502, tries), "{deadline}: {}", answer.text());
            assert!(took <= deadline.parse().unwrap(), "{took}");
            assert!(tries != 1 || took < 50, "what cannot be waited for is told at once: {took}");
            assert_eq!(a.calls().len() - before, tries);
        }
    });
}

#[test]
fn a_throttled_upstream_is_waited_for_as_long_as_it_asks_in_whatever_words() {
    // The mock's own 429 asks for a second.
    let status = || Reply { status: Some(429), ..Reply::json(json!({"error": {"message": "slow down"}})) };
    for (reply, wait) in [
        (throttled("3"), 3.0),
        (throttled("1.5"), 1.5),
        (status().header("retry-after-ms", "2500"), 2.5),
        (status().header("x-ratelimit-reset-requests", "4s"), 4.0),
        (status().header("x-ratelimit-reset-tokens", "2m0s").header("x-ratelimit-reset-requests", "1s"), 1.0),
        (status().header("x-ratelimit-reset", "6"), 6.0),
        (Reply::status(503).header("retry-after", "2"), 2.0),
        (Reply::status(529).header("retry-after", "2"), 2.0),
        (status(), 5.0),
    ] {
        story(async {
            let stage = alone("");
            let a = stage.host("a", Script::new().on_call(1, reply.clone()));
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, attempts(&answer)), (200, 2), "{reply:?}");
            assert!(is_about(gaps(&a)[0], wait), "{reply:?}: {:?}", gaps(&a));
        });
    }
    // A date is read off the wall clock, which no story can stop.
    story(async {
        let stage = alone("");
        let a =
            stage.host("a", Script::new().on_call(1, status().due("retry-after", Due::Date(Duration::from_secs(8)))));
        assert_eq!(attempts(&stage.ask(ask()).await), 2);
        assert!((6.0..=9.7).contains(&gaps(&a)[0]), "{:?}", gaps(&a));
    });
}

#[test]
fn nonsense_is_no_time_and_the_longest_rest_bounds_every_other() {
    for (wait, rest) in [
        ("-5", 7),
        ("soon", 7),
        ("", 7),
        ("NaN", 7),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7),
        ("999999999999999999999", 7),
        ("1e9", 60),
        ("3600", 60),
        ("Fri, 31 Dec 2100 23:59:59 GMT", 60),
    ] {
        story(async {
            let config = config("", "retry: { throttled: [7s], budget: 0 }");
            let stage = Stage::set(&config.replace("failures: 1000", "failures: 1000, max_rest: 1m"));
            let a = stage.host("a", throttled(wait));
            assert_eq!(stage.ask(ask()).await.header("retry-after"), Some(rest.to_string().as_str()), "{wait}");
            tokio::time::sleep(Duration::from_millis(rest * 1000 - 20)).await;
            assert_eq!((attempts(&stage.ask(ask()).await), a.calls().len()), (0, 1), "{wait}: it rests");
            tokio::time::sleep(Duration::from_millis(40)).await;
            assert_eq!((attempts(&stage.ask(ask()).await), a.calls().len()), (1, 2), "{wait}: and no longer");
        });
    }
}

#[test]
fn a_resting_upstream_gets_no_call_from_anybody() {
    story(async {
        let stage = two("");
        let a = stage.host("a", throttled("20"));
        let b = stage.host("b", pleasant());
        for _ in 0..20 {
            assert_eq!(stage.ask(ask()).await.header("x-mai-upstream"), Some("b/m"));
            assert_eq!(stage.metric("mai_upstream_resting{upstream=\"a/m\"}"), 1.0);
            seconds(1).await;
        }
        assert_eq!((a.calls().len(), b.calls().len()), (1, 20));
        a.play(pleasant());
        assert_eq!(stage.ask(ask()).await.header("x-mai-upstream"), Some("a/m"), "its rest is over");
        assert_eq!(stage.metric("mai_upstream_resting{upstream=\"a/m\"}"), 0.0);
        assert_eq!(stage.metric("mai_breaker_transitions_total{state=\"open\",upstream=\"a/m\"}"), 0.0);
    });
}

#[test]
fn of_two_rests_the_one_that_ends_later_counts() {
    for order in [["5", "20"], ["20", "5"]] {
        story(async {
            let stage = two("");
            let late = |wait: &str| throttled(wait).after(Duration::from_secs(1));
            let a = stage.host("a", Scenario::from(Script::replies([late(order[0]), late(order[1])])));
            stage.host("b", pleasant());
            let mut one = begun(&stage, ask()).await;
            let mut other = begun(&stage, ask()).await;
            assert_eq!((one.answer().await.unwrap().status, other.answer().await.unwrap().status), (200, 200));
            assert_eq!(a.calls().len(), 2);
            seconds(19).await;
            assert_eq!(stage.ask(ask()).await.header("x-mai-upstream"), Some("b/m"), "{order:?}");
            seconds(2).await;
            stage.ask(ask()).await;
            assert_eq!(a.calls().len(), 3, "{order:?}");
        });
    }
}

#[test]
fn when_all_rest_the_first_to_be_up_again_is_waited_for() {
    story(async {
        let stage = two("");
        let a = stage.host("a", Script::new().on_call(1, throttled("15")));
        let b = stage.host("b", Script::new().on_call(1, throttled("6")));
        let mut first = begun(&stage, ask()).await;
        b.has_calls(1).await;
        seconds(2).await;
        // Another call finds both at rest, and waits too.
        let began = Clock.now();
        let answer = stage.ask(ask()).await;
        let waited = (Clock.now() - began).as_secs_f64();
        assert_eq!((answer.header("x-mai-upstream"), attempts(&answer)), (Some("b/m"), 1));
        assert!((3.9..=4.9).contains(&waited), "{waited}");
        assert_eq!(first.answer().await.unwrap().header("x-mai-upstream"), Some("b/m"));
        assert_eq!((a.calls().len(), b.calls().len()), (1, 3));
    });
}

#[test]
fn a_rest_that_cannot_be_waited_for_is_told_at_once_with_what_is_left_of_the_shorter() {
    story(async {
        let stage = two("");
        let a = stage.host("a", throttled("90"));
        let b = stage.host("b", throttled("60"));
        stage.ask(ask()).await;
        for left in [60, 50, 40, 31] {
            let began = Clock.now();
            let answer = stage.ask(ask()).await;
            assert!(Clock.now() - began < Duration::from_millis(50));
            assert_eq!(
                (answer.status, code(&answer).as_str(), answer.header("retry-after"), attempts(&answer)),
                (429, "upstream_throttled", Some(left.to_string().as_str()), 0)
            );
            assert_eq!(answer.header("x-should-retry"), None, "waiting helps");
            seconds(if left == 40 { 9 } else { 10 }).await;
        }
        assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
        b.play(pleasant());
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, attempts(&answer)), (200, 1), "21 s fit the deadline of 30 s");
    });
}

#[test]
fn a_wait_during_which_somebody_else_is_told_to_stay_away_longer_ends_without_a_call() {
    story(async {
        let stage = two("retry: { throttled: [5s] }");
        let a = stage.host("a", Reply::status(500));
        stage.host("b", throttled("3"));
        // It waits for `b`, which meanwhile asks another caller's call for more.
        a.play(throttled("4"));
        let mut waiting = begun(&stage, ask()).await;
        seconds(1).await;
        let running = stage.live.running();
        let route = running.snapshot.routes.iter().find(|route| &*route.name == "chat").unwrap();
        let b = &running.state(route).unwrap().upstreams[1];
        b.gate.standing().rests(Clock.now(), Duration::from_secs(60));
        let answer = waiting.answer().await.unwrap();
        assert_eq!((answer.status, attempts(&answer)), (429, 2), "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("1"), "then `a` is up again");
        assert_eq!((a.calls().len(), stage.log().len()), (1, 1));
    });
}

#[test]
fn a_key_that_somebody_else_has_found_throttled_is_left_alone_too() {
    story(async {
        let keys = config(BESIDE, "").replace("api_key: sk-b", "api_keys: [sk-one, sk-two]");
        let stage = Stage::set(&keys);
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(5)));
        let b = stage.host("b", throttled("60"));
        // The first plans for both keys of `b`, and is held up by `a`.
        let mut first = begun(&stage, ask()).await;
        a.has_calls(1).await;
        a.play(Reply::status(500));
        seconds(1).await;
        stage.ask(ask().header("x-mai-timeout-ms", "900")).await;
        assert_eq!(b.calls().len(), 2, "both keys were throttled");
        first.answer().await.unwrap();
        assert_eq!(b.calls().len(), 2, "nobody calls during a rest");
    });
}

#[test]
fn a_crowd_of_failing_calls_makes_no_more_repeats_than_its_budget() {
    for (crowd, most) in [(1, 2), (20, 10), (200, 40)] {
        story(async {
            let stage = alone("");
            let a = stage.host("a", Reply::status(500));
            let mut calls = JoinSet::new();
            for _ in 0..crowd {
                let mut caller = stage.caller();
                calls.spawn(async move { caller.ask(&ask().key(KEY)).await });
            }
            let answers = calls.join_all().await;
            assert!(answers.iter().all(|answer| answer.status == 502), "never anything but the failure itself");
            let repeats = a.calls().len() - crowd;
            assert_eq!(repeats, most.min(crowd * 2), "of {crowd} calls");
            let denied = stage.metric("mai_retries_total{result=\"withheld\",route=\"chat\"}");
            assert_eq!(denied > 0.0, crowd > 1, "{}", stage.metrics());
            // The next ten seconds have a budget of their own.
            seconds(11).await;
            assert_eq!(attempts(&stage.ask(ask()).await), 3);
        });
    }
}

#[test]
fn a_steady_outage_costs_at_most_a_fifth_more_calls() {
    story(async {
        let stage = alone("retry: { server_error: [1s, 1s] }");
        let a = stage.host("a", Scenario::from(Script::always(Reply::status(500))));
        let mut calls = JoinSet::new();
        for _ in 0..900 {
            let mut caller = stage.caller();
            calls.spawn(async move { caller.ask(&ask().key(KEY)).await });
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        calls.join_all().await;
        let at: Vec<f64> = a.calls().iter().map(|call| call.at.as_secs_f64()).collect();
        // 200 calls in any ten seconds, so 40 repeats.
        for from in 0..35 {
            let within = at.iter().filter(|at| (f64::from(from)..f64::from(from) + 10.0).contains(*at)).count();
            assert!(within <= 200 + 44, "{within} from {from} s on");
        }
        assert!(a.log().total() <= 900 + 900 / 5 + 10, "{}", a.log().total());
    });
}

#[test]
fn moves_are_no_repeats_and_no_budget_bounds_them() {
    story(async {
        let stage = two("retry: { budget: 0 }");
        let a = stage.host("a", Reply::status(500));
        let b = stage.host("b", pleasant());
        for _ in 0..100 {
            assert_eq!(attempts(&stage.ask(ask()).await), 2);
        }
        assert_eq!((a.calls().len(), b.calls().len()), (100, 100));
        b.play(Reply::status(500));
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, attempts(&answer)), (502, 2), "a budget of nothing grants nothing");
        assert_eq!(stage.metric("mai_retries_total{result=\"taken\",route=\"chat\"}"), 0.0);
    });
}

#[test]
fn each_route_has_a_budget_of_its_own_and_keeps_it_through_reloads() {
    story(async {
        let stage = alone("");
        stage.host("a", Reply::status(500));
        for _ in 0..6 {
            let mut calls = JoinSet::new();
            let mut caller = stage.caller();
            calls.spawn(async move { caller.ask(&ask().header("x-mai-timeout-ms", "1300").key(KEY)).await });
            let mut caller = stage.caller();
            calls.spawn(async move { caller.ask(&ask().header("x-mai-timeout-ms", "1300").key(KEY)).await });
            calls.join_all().await;
            stage.reload(&config("", ""));
        }
        assert_eq!(stage.metric("mai_retries_total{result=\"taken\",route=\"chat\"}"), 10.0);
        assert_eq!(stage.metric("mai_retries_total{result=\"withheld\",route=\"chat\"}"), 2.0);
        assert_eq!(attempts(&stage.ask(embeddings("embedding", "abc")).await), 3);
    });
}

#[test]
fn who_says_never_gets_one_call_and_who_says_always_gets_marked_ones_too() {
    let marked = || ask().header("x-mai-side-effects", "true");
    for (when, ask, tries, fresh) in [
        ("never", ask(), 1, true),
        ("never", marked(), 1, true),
        ("idempotent", ask(), 4, false),
        ("idempotent", marked(), 1, true),
        ("always", ask(), 4, false),
        ("always", marked(), 4, false),
    ] {
        story(async {
            let stage = two(&format!("retry: {{ when: {when} }}"));
            let [a, b] = ["a", "b"].map(|name| stage.host(name, Reply::status(500)));
            let answer = stage.ask(ask.clone()).await;
            assert_eq!((answer.status, attempts(&answer)), (502, tries), "{when} {ask:?}");
            assert_eq!(a.calls().len() + b.calls().len(), tries);
            assert_eq!(a.calls().len() == 1, fresh);
            // What was certainly not processed moves on, whoever asks.
            a.die();
            b.play(pleasant());
            let answer = stage.ask(ask).await;
            assert_eq!((answer.status, attempts(&answer)), (200, 2), "{when}: {}", answer.text());
        });
    }
}

#[test]
fn embeddings_are_repeated_whatever_their_mark() {
    story(async {
        let stage = alone("");
        let a = stage.host("a", Script::new().on_call(1, Reply::status(500)));
        let marked = embeddings("embedding", "abc").header("x-mai-side-effects", "true");
        assert_eq!(attempts(&stage.ask(marked).await), 2);
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn what_another_call_cannot_mend_is_not_repeated() {
    for status in [501, 301, 302, 307, 308] {
        story(async {
            let stage = two("");
            let a = stage.host("a", Reply::status(status).header("location", "http://elsewhere/v1/chat/completions"));
            let b = stage.host("b", Script::new().on_call(1, Reply::status(500)));
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, attempts(&answer)), (200, 3), "{status}");
            assert_eq!((a.calls().len(), b.calls().len()), (1, 2), "{status}: {:?}", stage.net.dialed());
            b.play(Reply::status(status));
            let began = Clock.now();
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, attempts(&answer)), (502, 2), "{status}");
            assert!(Clock.now() - began < Duration::from_millis(50), "and nothing is waited for");
            assert!(!stage.net.dialed().iter().any(|host| host == "elsewhere"));
        });
    }
}

#[test]
fn a_caller_who_leaves_in_the_middle_of_a_wait_ends_it() {
    for (reply, tries) in [(Reply::status(500), 1), (throttled("3"), 1)] {
        story(async {
            let stage = alone("");
            let a = stage.host("a", reply);
            let caller = begun(&stage, ask()).await;
            a.has_calls(1).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let before = stage.metric("mai_retries_total{result=\"taken\",route=\"chat\"}");
            assert_eq!(before, 1.0, "it waits");
            drop(caller);
            let left = Clock.now();
            let line = stage.last_line().await;
            assert!(Clock.now() - left < Duration::from_secs(2), "soon");
            assert_eq!((line["outcome"].as_str(), line["status"].as_u64()), (Some("caller_gone"), Some(499)));
            assert_eq!(line["attempts"].as_array().unwrap().len(), tries, "{line}");
            seconds(30).await;
            assert_eq!(a.calls().len(), tries, "no further try");
            assert_eq!(stage.metric("mai_retries_total{result=\"taken\",route=\"chat\"}"), 1.0, "paid for once");
            assert_eq!(a.ending_of(1).await, End::Answered);
        });
    }
}

#[test]
fn the_gateways_end_cuts_a_wait_short() {
    story(async {
        let stage = alone("");
        let a = stage.host("a", Reply::status(500));
        let mut caller = begun(&stage, ask()).await;
        a.has_calls(1).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.live.drain();
        stage.live.cut_short();
        assert_eq!(code(&caller.answer().await.unwrap()), "shutting_down");
        assert_eq!(a.calls().len(), 1);
        stage.comes_to_rest().await;
    });
}

#[test]
fn a_wait_goes_on_under_the_configuration_it_began_with() {
    story(async {
        let stage = alone("retry: { server_error: [3s] }");
        let a = stage.host("a", Script::new().on_call(1, Reply::status(500)));
        let mut caller = begun(&stage, ask()).await;
        a.has_calls(1).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.reload(&config("", "retry: { server_error: [], budget: 0 }").replace("http://a/", "http://c/"));
        assert_eq!(caller.answer().await.unwrap().status, 200);
        assert!(is_about(gaps(&a)[0], 3.0));
    });
}

#[test]
fn no_two_tries_of_one_call_are_ever_in_flight() {
    for reply in [Reply::status(500), Reply::hang(), throttled("1"), Reply::close()] {
        story(async {
            let stage = two("timeout: { attempt: 2s, first_byte: 2s }");
            let [a, b] = ["a", "b"].map(|name| stage.host(name, reply.clone()));
            for ask in [ask(), ask().stream()] {
                stage.ask(ask).await;
            }
            let mut calls = a.calls();
            calls.extend(b.calls());
            calls.sort_by_key(|call| call.at);
            assert!(calls.len() >= 5, "{}", calls.len());
            for pair in calls.windows(2) {
                assert!(pair[0].ended_at.unwrap() <= pair[1].at + Duration::from_millis(1), "{pair:?}");
            }
        });
    }
}

#[test]
fn what_failed_first_is_told_after_all_waits() {
    story(async {
        let stage = two("");
        stage.host("a", Reply::json(json!("no")));
        stage.host("b", Reply::status(500));
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, code(&answer).as_str(), attempts(&answer)), (502, "upstream_bad_response", 4));
        let outcomes: Vec<String> = stage.last_line().await["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| attempt["outcome"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(outcomes, ["bad_response", "status", "bad_response", "status"]);
    });
}
