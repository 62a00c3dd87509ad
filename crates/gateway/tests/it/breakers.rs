//! Breakers: what opens them and what does not, who tries an upstream when its hold is over, and how it
//! comes back.

use std::time::Duration;

use base::Clock;
use serde_json::{Value, json};
use testkit::{Answer, Ask, At, Door, End, Host, How, Reply, Scenario, Script, chat, embeddings, story};
use tokio::task::JoinSet;

use crate::chunks::{delta, role};
use crate::keys::Told;
use crate::stage::{KEY, Stage, begun, millis, pleasant};

/// `a`, and `b` behind it, or `a` alone; no waits, so that every failure is seen.
fn config(behind: &str, breaker: &str) -> String {
    format!(
        r#"
providers:
  - {{ name: a, base_url: "http://a/v1", api_key: sk-a }}
  - {{ name: b, base_url: "http://b/v1", api_key: sk-b }}
routes:
  - name: chat
    upstreams: [{{ provider: a, model: m }}{behind}]
    retry: {{ server_error: [], throttled: [] }}
    breaker: {{ {breaker} }}
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: e }}]
    retry: {{ server_error: [], throttled: [] }}
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

const BEHIND: &str = ", { provider: b, model: m, tier: 1 }";

/// The contract's own terms: 5 failures in 10 s, a hold of 30 s.
fn usual_terms() -> &'static str {
    "failures: 5, window: 10s, hold: 30s"
}

fn alone() -> Stage {
    Stage::set(&config("", usual_terms()))
}

fn ask() -> Ask {
    chat("chat").user("Hi")
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    HalfOpen,
    Open,
}

/// How the breaker of `a` on the route `chat` stands.
fn state(stage: &Stage) -> State {
    match stage.metric("mai_breaker_state{upstream=\"a/m\"}") {
        0.0 => State::Closed,
        1.0 => State::HalfOpen,
        _ => State::Open,
    }
}

/// How often that breaker has come to a state.
fn turned(stage: &Stage, state: &str) -> f64 {
    stage.metric(&format!("mai_breaker_transitions_total{{state=\"{state}\",upstream=\"a/m\"}}"))
}

fn upstream(answer: &Answer) -> Option<&str> {
    answer.header("x-mai-upstream")
}

/// Opens the breaker of `a` by five failures at once, and lets `a` then do as scripted.
async fn open(stage: &Stage, a: &Host, then: impl Into<Scenario>) {
    a.play(Reply::status(500));
    for _ in 0..5 {
        stage.ask(ask()).await;
    }
    assert_eq!(state(stage), State::Open);
    a.play(then);
}

/// The same, and lets the hold go by.
async fn half_open(stage: &Stage, a: &Host, then: impl Into<Scenario>) {
    open(stage, a, then).await;
    seconds(30).await;
}

/// `count` calls that begin at once, and their answers.
async fn crowd(stage: &Stage, count: usize, ask: impl Fn() -> Ask) -> Vec<Answer> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let mut caller = stage.caller();
        let ask = ask().key(KEY);
        calls.spawn(async move { caller.ask(&ask).await });
    }
    calls.join_all().await
}

#[test]
fn the_fifth_failure_within_ten_seconds_opens_it_and_the_fourth_does_not() {
    story(async {
        let stage = alone();
        let a = stage.host("a", Reply::status(500));
        for _ in 0..4 {
            assert_eq!(stage.ask(ask()).await.status, 502);
            seconds(2).await;
        }
        assert_eq!(state(&stage), State::Closed);
        seconds(1).await;
        assert_eq!(stage.ask(ask()).await.status, 502);
        assert_eq!(state(&stage), State::Open, "the fifth came 9 s after the first");
        assert_eq!((a.calls().len(), turned(&stage, "open")), (5, 1.0));
    });
}

#[test]
fn failures_spread_wider_than_the_window_never_open_it() {
    story(async {
        let stage = alone();
        let a = stage.host("a", Reply::status(500));
        for _ in 0..40 {
            assert_eq!(stage.ask(ask()).await.status, 502);
            millis(2501).await;
        }
        assert_eq!((a.calls().len(), state(&stage), turned(&stage, "open")), (40, State::Closed, 0.0));
    });
}

#[test]
fn successes_in_between_do_not_wipe_the_count() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        for _ in 0..5 {
            a.play(pleasant());
            assert_eq!(stage.ask(ask()).await.status, 200);
            a.play(Reply::status(500));
            assert_eq!(stage.ask(ask()).await.status, 502);
        }
        assert_eq!(state(&stage), State::Open);
    });
}

#[test]
fn throttles_neither_count_nor_wipe_the_count() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        for (status, then) in [(500, 0), (500, 0), (429, 0), (500, 0), (500, 0), (500, 2)] {
            a.play(Reply::status(status).header("retry-after", "1"));
            stage.ask(ask()).await;
            millis(1001).await;
            assert_eq!(stage.metric("mai_breaker_state{upstream=\"a/m\"}"), f64::from(then), "after {status}");
        }
        assert_eq!(a.calls().len(), 6, "it opened at the fifth 500");
    });
}

fn error(status: u16, error: Value) -> Reply {
    Reply { status: Some(status), ..Reply::json(json!({"error": error})) }
}

#[test]
fn what_is_the_callers_or_the_keys_fault_never_opens_it() {
    let filter = json!({"message": "filtered", "code": "content_filter"});
    let long = json!({"message": "maximum context length is 10", "code": "context_length_exceeded"});
    let faults = [400, 404, 409, 413, 422, 429].map(Reply::status).into_iter().chain([
        Reply::status(503).header("retry-after", "0"),
        error(400, filter.clone()),
        error(200, filter.clone()),
        error(200, long.clone()),
        Reply::sse([role(), json!({"error": long}).to_string()]),
        // The upstream looks at what its model has said, and breaks off.
        Reply::sse([role(), delta("Hel"), json!({"error": filter}).to_string()]),
        Reply::sse([
            role(),
            delta("Hel"),
            json!({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}).to_string(),
        ]),
    ]);
    for fault in faults {
        story(async {
            let stage = alone();
            let a = stage.host("a", fault.clone());
            for _ in 0..8 {
                stage.ask(ask().with("stream", true)).await;
                // Throttles rest it meanwhile.
                millis(1001).await;
            }
            assert!(!a.calls().is_empty());
            assert_eq!((state(&stage), turned(&stage, "open")), (State::Closed, 0.0), "{fault:?}");
        });
    }
}

#[test]
fn callers_who_leave_at_any_stage_never_open_it() {
    let words: Vec<String> = (0..100).map(|n| format!("w{n} ")).collect();
    let slow = Reply::say(words).every(Duration::from_millis(200));
    let stages = [
        (Reply::hang(), Door::Hang, false),
        (Reply::hang(), Door::Open, false),
        (Reply::hang(), Door::Open, true),
        (Reply::say(["late"]).cut(At::Bytes(20), How::Hang), Door::Open, false),
        (Reply::sse([role()]).cut(At::Events(1), How::Hang), Door::Open, true),
        (slow, Door::Open, true),
    ];
    for (reply, door, streaming) in stages {
        story(async {
            let stage = alone();
            stage.host("a", reply.clone()).set_door(door);
            for _ in 0..8 {
                let caller = begun(&stage, ask().with("stream", streaming)).await;
                millis(700).await;
                drop(caller);
                stage.comes_to_rest().await;
            }
            assert!(stage.log().iter().all(|line| line["outcome"] == "caller_gone"), "{}", stage.log_text());
            assert_eq!((state(&stage), turned(&stage, "open")), (State::Closed, 0.0), "{reply:?}");
        });
    }
}

#[test]
fn a_try_that_the_deadline_cut_short_says_nothing_and_one_that_had_half_its_time_does() {
    for (millis, opens) in [("2000", false), ("9900", false), ("10100", true)] {
        story(async {
            // `attempt` is 20 s.
            let stage = Stage::set(&config("", "failures: 5, window: 5m, hold: 30s"));
            stage.host("a", Reply::hang());
            for _ in 0..6 {
                let answer = stage.ask(ask().header("x-mai-timeout-ms", millis)).await;
                assert!(matches!(answer.status, 503 | 504), "{}", answer.text());
            }
            assert_eq!(state(&stage) == State::Open, opens, "{millis}");
        });
    }
}

#[test]
fn stale_connections_never_open_it() {
    story(async {
        let stage = alone();
        // A second call on a connection is met with a reset.
        let a = stage.host("a", Scenario::from(pleasant()).no_reuse(How::Rst));
        for _ in 0..20 {
            assert_eq!(stage.ask(ask()).await.status, 200);
        }
        assert!(a.connections_open() <= 1 && stage.net.dialed().len() > 10, "connections did go stale");
        assert_eq!((state(&stage), turned(&stage, "open")), (State::Closed, 0.0));
    });
}

#[test]
fn a_full_pool_of_our_own_never_opens_it() {
    story(async {
        let config = config("", usual_terms()).replacen(
            "api_key: sk-a",
            "api_key: sk-a, pool: { max_connections: 1, connect_timeout: 200ms }",
            1,
        );
        let stage = Stage::set(&config);
        let a = stage.host("a", Reply::say(["late"]).after(Duration::from_secs(8)));
        let mut first = begun(&stage, ask()).await;
        a.has_calls(1).await;
        for answer in crowd(&stage, 20, ask).await {
            assert!(matches!(answer.status, 502 | 504), "{}", answer.text());
        }
        assert_eq!((state(&stage), a.calls().len()), (State::Closed, 1));
        assert_eq!(first.answer().await.unwrap().said(), "late");
    });
}

#[test]
fn what_the_gateway_itself_lacks_never_opens_it_and_the_caller_is_told_what_that_is() {
    let lacks = [(24, "`ulimit -n`"), (23, "`fs.file-max`"), (12, "no memory")];
    for (error, what) in lacks {
        story(async {
            let stage = alone();
            let a = stage.host("a", pleasant());
            a.set_door(Door::Lacking(error));
            for _ in 0..6 {
                let answer = stage.ask(ask()).await;
                assert_eq!((answer.status, answer.code().as_deref()), (503, Some("gateway_overloaded")));
                assert!(answer.text().contains(what), "{}", answer.text());
                assert_eq!((answer.header("retry-after"), answer.header("x-should-retry")), (Some("1"), None));
            }
            assert_eq!((state(&stage), turned(&stage, "open")), (State::Closed, 0.0));
            let tries = "mai_upstream_attempts_total{outcome=\"gateway_overloaded\",route=\"chat\",upstream=\"a/m\"}";
            assert_eq!(stage.metric(tries), 6.0);
            a.set_door(Door::Open);
            assert_eq!(stage.ask(ask()).await.status, 200, "as soon as it lacks nothing");
        });
    }
    story(async {
        let stage = Stage::set(&config(BEHIND, usual_terms()));
        stage.host("a", pleasant()).set_door(Door::Lacking(24));
        stage.host("b", Reply::say(["from b"]));
        assert_eq!(stage.ask(ask()).await.said(), "from b", "another may have a connection left");
    });
}

#[test]
fn streams_that_break_off_after_their_first_content_open_it() {
    let cut = |how| Reply::sse([role(), delta("Hel")]).cut(At::Events(2), how);
    let malformed = Reply::sse([role(), delta("Hel"), "{garbage".to_owned()]);
    let failing =
        Reply::sse([role(), delta("Hel"), json!({"error": {"message": "out of memory", "code": 500}}).to_string()]);
    for reply in [cut(How::Rst), cut(How::Fin), cut(How::Hang), malformed, failing] {
        story(async {
            let stage = Stage::set(&config(BEHIND, "failures: 5, window: 5m, hold: 5m"));
            let a = stage.host("a", reply.clone());
            stage.host("b", Reply::say(["from b"]));
            for _ in 0..5 {
                let answer = stage.ask(ask().stream()).await;
                assert!(answer.events().error().is_some(), "{}", answer.text());
            }
            assert_eq!(state(&stage), State::Open, "{reply:?}");
            assert_eq!(stage.ask(ask().stream()).await.said(), "from b");
            assert_eq!(a.calls().len(), 5);
        });
    }
}

#[test]
fn a_stream_that_its_caller_reads_too_slowly_does_not_open_it() {
    story(async {
        let stage = Stage::set(&config("", "failures: 1, window: 5m, hold: 5m"));
        let a = stage.host("a", Script::always(Reply::sse(vec![delta(&"x".repeat(4000)); 5000])));
        let mut caller = begun(&stage, ask().stream()).await;
        caller.head().await.unwrap();
        while caller.more().await.unwrap().is_some() {
            millis(500).await;
        }
        assert_eq!(stage.last_line().await["attempts"][0]["outcome"], "stream_timeout");
        assert_eq!((state(&stage), turned(&stage, "open"), a.calls().len()), (State::Closed, 0.0, 1));
    });
}

#[test]
fn while_it_is_open_nobody_calls_the_upstream_and_the_others_carry_on() {
    story(async {
        let stage = Stage::set(&config(BEHIND, usual_terms()));
        let a = stage.host("a", Reply::status(500));
        let b = stage.host("b", pleasant());
        for _ in 0..5 {
            assert_eq!(upstream(&stage.ask(ask()).await), Some("b/m"));
        }
        let dialed = stage.net.dialed().len();
        for _ in 0..29 {
            let answer = stage.ask(ask()).await;
            assert_eq!((upstream(&answer), answer.header("x-mai-attempts")), (Some("b/m"), Some("1")));
            seconds(1).await;
        }
        assert_eq!((a.calls().len(), b.calls().len()), (5, 34));
        assert!(!stage.net.dialed().iter().skip(dialed).any(|host| host == "a"), "not even a connection");
        // Another route's upstream at the same provider has a breaker of its own.
        assert_eq!(stage.ask(embeddings("embedding", "abc")).await.status, 502);
        assert_eq!(a.calls().len(), 6);
    });
}

#[test]
fn alone_an_open_one_is_told_with_the_time_of_its_next_trial() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        open(&stage, &a, pleasant()).await;
        let calls = a.calls().len();
        for left in [30, 20, 10] {
            let answer = stage.ask(ask()).await;
            assert_eq!(
                (answer.status, answer.code().as_deref(), answer.header("x-mai-attempts")),
                (503, Some("all_upstreams_unavailable"), Some("0")),
                "{}",
                answer.text()
            );
            let told: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert_eq!(told, left, "when a trial may be had");
            assert_eq!(answer.header("x-should-retry"), None, "waiting helps");
            seconds(10).await;
        }
        assert_eq!(a.calls().len(), calls, "nobody was called");
        assert_eq!(stage.ask(ask()).await.status, 200, "who waits as long as told is served");
        assert_eq!(stage.metric("mai_rejected_total{client=\"app\",reason=\"upstream_unavailable\"}"), 3.0);
    });
}

#[test]
fn a_hold_longer_than_any_rest_is_told_as_it_is() {
    story(async {
        let stage = Stage::set(&config("", "failures: 5, window: 10s, hold: 10m, max_rest: 1m"));
        let a = stage.host("a", pleasant());
        open(&stage, &a, pleasant()).await;
        assert_eq!(stage.ask(ask()).await.header("retry-after"), Some("600"));
    });
}

#[test]
fn after_its_hold_one_call_of_a_crowd_tries_it_and_no_other_waits_for_that() {
    story(async {
        let stage = Stage::set(&config(BEHIND, usual_terms()));
        let a = stage.host("a", pleasant());
        let b = stage.host("b", Reply::say(["from b"]));
        half_open(&stage, &a, Reply::say(["from a"]).after(Duration::from_secs(3))).await;
        let (before, began) = (a.calls().len(), Clock.now());
        let mut others = 0;
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let mut caller = stage.caller();
            calls.spawn(async move { caller.ask(&ask().key(KEY)).await });
        }
        while let Some(answer) = calls.join_next().await {
            if answer.unwrap().said() == "from b" {
                others += 1;
                assert!(Clock.now() - began < Duration::from_millis(500), "it did not wait");
            }
        }
        assert_eq!((a.calls().len() - before, others, b.calls().len()), (1, 49, 54));
    });
}

#[test]
fn a_call_whose_fallback_fails_while_the_first_comes_back_goes_to_the_first() {
    story(async {
        let stage = Stage::set(&config(BEHIND, usual_terms()));
        let a = stage.host("a", pleasant());
        let b = stage.host("b", Reply::say(["from b"]));
        half_open(&stage, &a, Reply::say(["from a"]).after(Duration::from_secs(2))).await;
        b.play(Reply::status(500).after(Duration::from_secs(3)));
        let mut trial = begun(&stage, ask()).await;
        seconds(1).await;
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, upstream(&answer)), (200, Some("a/m")), "{}", answer.text());
        assert_eq!(answer.header("x-mai-attempts"), Some("2"));
        assert_eq!(trial.answer().await.unwrap().said(), "from a");
    });
}

#[test]
fn alone_the_others_of_a_crowd_are_told_to_come_back_soon() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        half_open(&stage, &a, Reply::say(["from a"]).after(Duration::from_secs(3))).await;
        let before = a.calls().len();
        let answers = crowd(&stage, 50, ask).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        for answer in answers.iter().filter(|answer| answer.status != 200) {
            assert_eq!((answer.status, answer.code().as_deref()), (503, Some("all_upstreams_unavailable")));
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        assert_eq!(a.calls().len() - before, 1);
        let all_at_once = crowd(&stage, 20, ask).await;
        assert!(all_at_once.iter().all(|answer| answer.status == 200), "alone it has its full share at once");
    });
}

/// A trial that ends in some way that says nothing of the upstream: then the next call is one.
async fn the_next_call_may_try(stage: &Stage, a: &Host) {
    stage.comes_to_rest().await;
    a.play(Reply::say(["back"]));
    let before = a.calls().len();
    let answer = stage.ask(ask()).await;
    assert_eq!((answer.status, answer.said().as_str()), (200, "back"), "{}", answer.text());
    assert_eq!(a.calls().len(), before + 1);
}

#[test]
fn a_trial_whose_caller_leaves_is_given_back() {
    let late = Reply::say(["late"]).cut(At::Bytes(20), How::Hang);
    for (reply, streaming) in [(Reply::hang(), false), (Reply::hang(), true), (late, false)] {
        story(async {
            let stage = alone();
            let a = stage.host("a", pleasant());
            half_open(&stage, &a, reply.clone()).await;
            for _ in 0..3 {
                let before = a.calls().len();
                let caller = begun(&stage, ask().with("stream", streaming)).await;
                a.has_calls(before + 1).await;
                millis(700).await;
                assert_eq!(stage.ask(ask()).await.status, 503, "one at a time");
                drop(caller);
                stage.comes_to_rest().await;
            }
            the_next_call_may_try(&stage, &a).await;
        });
    }
}

#[test]
fn a_trial_that_cannot_even_connect_before_its_caller_leaves_is_given_back() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        half_open(&stage, &a, pleasant()).await;
        a.die();
        a.set_door(Door::Hang);
        let caller = begun(&stage, ask()).await;
        millis(700).await;
        drop(caller);
        the_next_call_may_try(&stage, &a).await;
    });
}

#[test]
fn a_trial_that_says_nothing_of_the_upstream_is_given_back() {
    let filter = json!({"message": "filtered", "code": "content_filter"});
    let replies = [
        Reply::status(429).header("retry-after", "1"),
        Reply::status(503).header("retry-after", "1"),
        Reply::status(400),
        error(200, filter.clone()),
        Reply::sse([role(), delta("Hel"), json!({"error": filter}).to_string()]),
    ];
    for reply in replies {
        story(async {
            let stage = alone();
            let a = stage.host("a", pleasant());
            half_open(&stage, &a, reply.clone()).await;
            assert_ne!(stage.ask(ask().stream()).await.text(), "");
            assert_eq!(state(&stage), State::HalfOpen, "{reply:?}");
            millis(1001).await;
            the_next_call_may_try(&stage, &a).await;
        });
    }
}

#[test]
fn a_trial_that_a_refused_key_ends_is_given_back() {
    story(async {
        let keys = config("", usual_terms()).replacen("api_key: sk-a", "api_keys: [sk-one, sk-two]", 1);
        let stage = Stage::set(&keys);
        let a = stage.host("a", pleasant());
        let by_key = |request: &testkit::Request| match request.header("authorization") {
            Some("Bearer sk-one") => Reply::status(401),
            _ => Reply::say(["from two"]),
        };
        half_open(&stage, &a, Script::by(by_key)).await;
        for _ in 0..2 {
            assert_eq!(stage.ask(ask()).await.said(), "from two");
        }
    });
}

#[test]
fn a_trial_that_the_deadline_cut_short_is_given_back() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        half_open(&stage, &a, Reply::hang()).await;
        assert_eq!(stage.ask(ask().header("x-mai-timeout-ms", "2000")).await.status, 504);
        the_next_call_may_try(&stage, &a).await;
    });
}

#[test]
fn a_trial_on_a_stale_connection_goes_on_with_a_new_one() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        open(&stage, &a, Scenario::from(pleasant()).no_reuse(How::Rst)).await;
        seconds(29).await;
        // A connection that will be found dead by the trial: idle ones are kept for 20 s.
        let idle = stage.ask(embeddings("embedding", "abc")).await;
        assert_eq!(idle.status, 200);
        seconds(1).await;
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("2")), "{}", answer.text());
        assert_eq!(state(&stage), State::HalfOpen, "it grows");
    });
}

#[test]
fn a_trial_keeps_its_place_through_a_reload_and_gives_it_back() {
    for leaves in [true, false] {
        story(async {
            let stage = alone();
            let a = stage.host("a", pleasant());
            half_open(&stage, &a, Reply::say(["late"]).after(Duration::from_secs(3))).await;
            let before = a.calls().len();
            let mut caller = begun(&stage, ask()).await;
            a.has_calls(before + 1).await;
            stage.reload(&config("", "failures: 2, window: 10s, hold: 1s"));
            assert_eq!(stage.ask(ask()).await.status, 503, "it is still out");
            if leaves {
                drop(caller);
            } else {
                assert_eq!(caller.answer().await.unwrap().said(), "late");
            }
            the_next_call_may_try(&stage, &a).await;
        });
    }
}

#[test]
fn a_trial_that_the_gateways_end_cuts_off_is_given_back() {
    for streaming in [false, true] {
        story(async {
            let stage = alone();
            let a = stage.host("a", pleasant());
            let words = Reply::say(["w"; 50]).every(Duration::from_secs(1));
            half_open(&stage, &a, if streaming { words } else { Reply::hang() }).await;
            let before = a.calls().len();
            let mut caller = begun(&stage, ask().with("stream", streaming)).await;
            a.has_calls(before + 1).await;
            seconds(2).await;
            stage.live.drain();
            stage.live.cut_short();
            assert_eq!(caller.answer().await.unwrap().code().as_deref(), Some("shutting_down"));
            stage.comes_to_rest().await;
            let running = stage.live.running();
            let route = running.snapshot.routes.iter().find(|route| &*route.name == "chat").unwrap();
            let gate = &running.state(route).unwrap().upstreams[0].gate;
            assert!(gate.enter(Clock.now()).is_ok(), "nobody holds the trial");
            assert_eq!(turned(&stage, "open"), 1.0, "nor was it charged");
        });
    }
}

#[test]
fn a_failed_trial_holds_it_again_for_as_long() {
    for reply in [Reply::status(500), Reply::reset(), Reply::sse([role()]).cut(At::Events(1), How::Rst)] {
        story(async {
            let stage = alone();
            let a = stage.host("a", pleasant());
            open(&stage, &a, reply).await;
            let before = a.calls().len();
            for round in 1..=3 {
                seconds(30).await;
                stage.ask(ask().stream()).await;
                assert_eq!((a.calls().len(), state(&stage)), (before + round, State::Open));
                for _ in 0..10 {
                    assert_eq!(stage.ask(ask()).await.status, 503);
                }
                assert_eq!(a.calls().len(), before + round);
            }
            assert_eq!((turned(&stage, "open"), turned(&stage, "half_open")), (4.0, 3.0));
        });
    }
}

#[test]
fn its_share_grows_back_over_at_least_five_seconds_while_another_carries_the_rest() {
    story(async {
        let stage = Stage::set(&config(BEHIND, usual_terms()));
        let a = stage.host("a", pleasant());
        let b = stage.host("b", pleasant());
        half_open(&stage, &a, pleasant()).await;
        assert_eq!(upstream(&stage.ask(ask()).await), Some("a/m"), "the trial");
        let mut shares = Vec::new();
        for _ in 0..12 {
            let before = (a.calls().len(), b.calls().len());
            for _ in 0..100 {
                assert_eq!(stage.ask(ask()).await.status, 200);
                millis(10).await;
            }
            let (mine, others) = (a.calls().len() - before.0, b.calls().len() - before.1);
            assert_eq!(mine + others, 100, "each call is sent once");
            shares.push(mine);
        }
        assert!(shares[0] <= 25, "gently at first: {shares:?}");
        assert!(shares[..5].iter().all(|share| *share < 90), "not within 5 s: {shares:?}");
        assert!(shares[5] > shares[0] && shares[9] > shares[4], "by and by: {shares:?}");
        assert_eq!(shares[11], 100, "in the end all of it: {shares:?}");
        assert_eq!((state(&stage), turned(&stage, "closed")), (State::Closed, 1.0));
    });
}

#[test]
fn one_failure_while_its_share_grows_back_takes_it_from_nobody() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        half_open(&stage, &a, pleasant()).await;
        assert_eq!(stage.ask(ask()).await.status, 200);
        seconds(3).await;
        a.play(Reply::status(500));
        assert_eq!(stage.ask(ask()).await.status, 502);
        a.play(pleasant());
        assert_eq!(stage.ask(ask()).await.status, 200, "there is no other upstream");
        a.play(Reply::status(500));
        while state(&stage) != State::Open {
            assert_eq!(stage.ask(ask()).await.status, 502);
        }
    });
}

#[test]
fn a_streaming_trial_has_succeeded_with_its_first_content() {
    story(async {
        let stage = Stage::set(&config(BEHIND, usual_terms()));
        let a = stage.host("a", pleasant());
        stage.host("b", Reply::say(["from b"]));
        half_open(&stage, &a, Reply::say(["w"; 60]).every(Duration::from_millis(500))).await;
        let mut caller = begun(&stage, ask().stream()).await;
        caller.head().await.unwrap();
        assert_eq!(state(&stage), State::HalfOpen, "its share grows");
        seconds(11).await;
        a.play(Reply::say(["from a"]));
        assert_eq!(
            stage.ask(ask()).await.said(),
            "from a",
            "whoever comes meanwhile is not kept out for a whole stream"
        );
        assert_eq!(state(&stage), State::Closed);
        caller.rest().await;
        stage.comes_to_rest().await;
        assert_eq!(state(&stage), State::Closed);
    });
}

#[test]
fn what_is_known_of_an_upstream_survives_other_terms_and_a_dropped_one_is_forgotten() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        open(&stage, &a, pleasant()).await;
        stage.reload(&config("", "failures: 100, window: 1s, hold: 1s"));
        assert_eq!(
            (state(&stage), stage.ask(ask()).await.status),
            (State::Open, 503),
            "the hold that was begun goes on"
        );
        // Three failures of five, then terms that want four.
        seconds(30).await;
        assert_eq!(stage.ask(ask()).await.status, 200);
        seconds(30).await;
        stage.reload(&config("", usual_terms()));
        a.play(Reply::status(500));
        for _ in 0..3 {
            stage.ask(ask()).await;
        }
        stage.reload(&config("", "failures: 4, window: 10s, hold: 5s"));
        assert_eq!(state(&stage), State::Closed);
        stage.ask(ask()).await;
        assert_eq!(state(&stage), State::Open);
        seconds(5).await;
        stage.ask(ask()).await;
        assert_eq!((state(&stage), turned(&stage, "open")), (State::Open, 3.0), "after the new hold it was tried");
        // Under another name it is another upstream.
        stage.reload(&config("", "failures: 4").replace("provider: a, model: m", "provider: b, model: m"));
        stage.reload(&config("", "failures: 4"));
        a.play(pleasant());
        assert_eq!((state(&stage), stage.ask(ask()).await.status), (State::Closed, 200));
    });
}

#[test]
fn each_change_is_told_once() {
    let told = Told::default();
    // Where there is but one listener, tracing asks the thread that comes first whether it listens.
    let _second = tracing::Dispatch::new(Told::default());
    let listening = tracing::subscriber::set_default(told.clone());
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        half_open(&stage, &a, Reply::status(500)).await;
        for _ in 0..5 {
            stage.ask(ask()).await;
        }
        a.play(pleasant());
        seconds(30).await;
        for _ in 0..20 {
            assert_eq!(stage.ask(ask()).await.status, 200);
            seconds(1).await;
        }
        let counted = ["open", "half_open", "closed"].map(|state| turned(&stage, state));
        assert_eq!(counted, [2.0, 2.0, 1.0]);
        let again = ["open", "half_open", "closed"].map(|state| turned(&stage, state));
        assert_eq!(again, counted, "reading changes nothing");
    });
    drop(listening);
    let told = told.text();
    for (line, count) in [("=breaker open", 2), ("=breaker half open", 2), ("=breaker closed", 1)] {
        assert_eq!(told.matches(line).count(), count, "{line} in {told}");
    }
}

/// `a` is probed, calls of `b` are not in the way.
fn probed(behind: &str, every: &str, breaker: &str) -> String {
    config(behind, breaker).replacen("api_key: sk-a", &format!("api_key: sk-a, health: {{ every: {every} }}"), 1)
}

/// Calls that are no probes.
fn calls(host: &Host) -> usize {
    host.calls().iter().filter(|call| call.request.method == "POST").count()
}

#[test]
fn a_hung_upstream_is_found_by_its_probes_and_its_recovery_costs_no_caller_anything() {
    story(async {
        let stage = Stage::set(&probed(BEHIND, "5s", usual_terms()));
        let a = stage.host("a", Reply::hang());
        stage.host("b", Reply::say(["from b"]));
        stage.probe();
        seconds(20).await;
        assert_eq!(state(&stage), State::Open, "though nobody has called it");
        for _ in 0..100 {
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.said().as_str(), answer.header("x-mai-attempts")), ("from b", Some("1")));
            seconds(1).await;
        }
        assert_eq!(calls(&a), 0, "as long as its probes fail nobody tries it");
        a.play(Script::by(|_| Reply::say(["from a"])));
        let back = Clock.now();
        while state(&stage) == State::Open {
            assert_eq!(stage.ask(ask()).await.said(), "from b");
            millis(500).await;
        }
        let held = Clock.now() - back;
        assert!(held.as_secs() <= 11, "its hold was long over, and the next probe stands for the trial: {held:?}");
        for _ in 0..15 {
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("1")));
            seconds(1).await;
        }
        assert_eq!(upstream(&stage.ask(ask()).await), Some("a/m"));
        assert_eq!(turned(&stage, "open"), 1.0, "{}", stage.metrics());
    });
}

#[test]
fn probes_that_come_more_rarely_than_holds_end_keep_it_open_too() {
    story(async {
        let stage = Stage::set(&probed(BEHIND, "60s", usual_terms()));
        let a = stage.host("a", Reply::hang());
        stage.host("b", Reply::say(["from b"]));
        stage.probe();
        seconds(130).await;
        assert_eq!(state(&stage), State::Open);
        for _ in 0..60 {
            assert_eq!(stage.ask(ask()).await.said(), "from b");
            seconds(2).await;
        }
        assert_eq!(calls(&a), 0, "until a probe is answered nobody tries it");
        a.play(Script::by(|_| Reply::say(["from a"])));
        seconds(80).await;
        assert_ne!(state(&stage), State::Open, "one answer ends that");
    });
}

#[test]
fn one_lost_probe_opens_nothing() {
    story(async {
        let stage = Stage::set(&probed("", "5s", usual_terms()));
        let a = stage.host("a", Reply::status(500));
        stage.probe();
        a.has_calls(1).await;
        a.play(pleasant());
        seconds(60).await;
        assert_eq!((turned(&stage, "open"), stage.ask(ask()).await.status), (0.0, 200));
    });
}

#[test]
fn a_trial_leaves_nothing_behind_at_the_upstream() {
    story(async {
        let stage = alone();
        let a = stage.host("a", pleasant());
        half_open(&stage, &a, Reply::hang()).await;
        let before = a.calls().len();
        let caller = begun(&stage, ask()).await;
        a.has_calls(before + 1).await;
        drop(caller);
        assert_eq!(a.ending_of(before + 1).await, End::Gone);
    });
}
