//! Calls that are in flight already: whoever asks the same waits for one answer.

use std::time::Duration;

use base::Clock;
use mock::{At, How};
use serde_json::json;
use testkit::{Answer, Ask, Caller, End, Host, Reply, Script, Stream, chat, story};

use crate::chunks::{delta, finish, hello};
use crate::stage::{KEY, Stage, answers, begun, begun_by, cache, millis, pleasant};

/// One upstream, tried once whatever it does, and a cache.
fn config(more: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }}]
routes:
  - name: chat
    upstreams: [{{ provider: a, model: model-a }}]
    retry: {{ server_error: [], throttled: [] }}
    breaker: {{ failures: 100000 }}
    cache: {{ mode: exact{more} }}
clients:
  - {{ name: app, keys: [sk-app], routes: ["*"] }}
  - {{ name: other, keys: [sk-other], routes: ["*"] }}
  - {{ name: night, keys: [sk-night], routes: ["*"], priority: batch }}
"#
    )
}

fn stage() -> Stage {
    Stage::set(&config(""))
}

fn ask() -> Ask {
    chat("chat").user("Hi").key(KEY)
}

fn slow() -> Reply {
    Reply::say(["from a"]).after(Duration::from_secs(1))
}

/// Answers to all of these, asked in this order and at once.
async fn all(stage: &Stage, asks: impl IntoIterator<Item = Ask>) -> Vec<Answer> {
    let mut callers = Vec::new();
    for ask in asks {
        callers.push(begun_by(stage, ask).await);
        tokio::task::yield_now().await;
    }
    answers(callers).await
}

/// Nothing is left of any flight.
async fn rests(stage: &Stage, host: &Host) {
    stage.comes_to_rest().await;
    millis(300).await;
    assert_eq!(stage.live.flights.count(), 0);
    assert_eq!(host.log().in_flight().0, 0);
}

#[test]
fn twenty_callers_of_the_same_thing_wait_for_one_call() {
    story(async {
        let stage = stage();
        let a = stage.host("a", slow());
        let began = Clock.now();
        let answers = all(&stage, (0..20).map(|_| ask())).await;
        assert!(Clock.now() - began < Duration::from_millis(1100));
        assert_eq!(a.calls().len(), 1);
        assert_eq!(cache(&answers[0]), "miss");
        for answer in &answers {
            assert_eq!((answer.status, answer.said()), (200, "from a".to_owned()));
        }
        for answer in &answers[1..] {
            assert_eq!((cache(answer), answer.header("x-mai-attempts")), ("shared", Some("0")));
            assert_eq!(answer.header("x-mai-upstream"), Some("a/model-a"));
        }
        rests(&stage, &a).await;
        let line = stage.last_line().await;
        assert_eq!(
            (&line["cache"], &line["tokens_in"], &line["outcome"]),
            (&json!("shared"), &json!(null), &json!("ok"))
        );
        assert!(line["overhead_ms"].as_f64().unwrap() < 50.0, "waiting for another's call is no overhead: {line}");
    });
}

#[test]
fn a_leader_who_leaves_takes_nobody_down() {
    story(async {
        let stage = stage();
        let a = stage.host("a", slow());
        let leader = begun_by(&stage, ask()).await;
        millis(10).await;
        let mut followers = Vec::new();
        for _ in 0..5 {
            followers.push(begun_by(&stage, ask()).await);
        }
        millis(290).await;
        drop(leader);
        for answer in answers(followers).await {
            assert_eq!((answer.status, answer.said()), (200, "from a".to_owned()));
        }
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
        let log = stage.log();
        let gone: Vec<_> = log.iter().filter(|line| line["outcome"] == "caller_gone").collect();
        assert_eq!(gone.len(), 1);
        assert_eq!((&gone[0]["status"], &gone[0]["attempts"][0]["outcome"]), (&json!(499), &json!("ok")));
        assert!(gone[0]["tokens_out"].as_u64().unwrap() > 0, "what it began is its own to pay");
    });
}

#[test]
fn the_last_to_leave_ends_the_call() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::say(["late"]).after(Duration::from_secs(20)));
        let leader = begun_by(&stage, ask()).await;
        millis(10).await;
        let follower = begun_by(&stage, ask()).await;
        millis(100).await;
        drop(leader);
        millis(100).await;
        assert_eq!(a.log().in_flight().0, 1, "somebody waits");
        drop(follower);
        millis(200).await;
        assert_eq!(a.log().in_flight().0, 0);
        assert_eq!(a.ending_of(1).await, End::Gone);
        rests(&stage, &a).await;
        for line in stage.log() {
            assert_eq!((&line["outcome"], &line["status"]), (&json!("caller_gone"), &json!(499)), "{line}");
        }
        a.play(pleasant());
        assert_eq!(cache(&stage.ask(chat("chat").user("Hi")).await), "miss", "nothing was stored");
    });
}

#[test]
fn a_failure_is_everybodys_who_waits_and_nobodys_after() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(1)));
        let answers = all(&stage, (0..20).map(|_| ask())).await;
        assert_eq!(a.calls().len(), 1);
        for answer in &answers {
            assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_error")));
        }
        a.play(pleasant());
        assert_eq!(cache(&stage.ask(chat("chat").user("Hi")).await), "miss");
        rests(&stage, &a).await;
        assert_eq!(stage.metric("mai_rejected_total{client=\"app\",reason=\"upstream_failed\"}"), 0.0);
    });
}

#[test]
fn an_upstream_that_hangs_costs_one_call_up_to_the_deadline() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::hang());
        let answers = all(&stage, (0..20).map(|_| ask())).await;
        for answer in &answers {
            assert_eq!(answer.status, 504);
        }
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
    });
}

#[test]
fn a_follower_who_cannot_wait_is_told_alone() {
    story(async {
        let stage = stage();
        let a = stage.host("a", slow());
        let mut asks: Vec<Ask> = (0..5).map(|_| ask()).collect();
        asks.insert(2, ask().header("x-mai-timeout-ms", "200"));
        let answers = all(&stage, asks).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 504, 200, 200, 200]);
        assert_eq!(answers[2].code().as_deref(), Some("deadline_exceeded"));
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
    });
}

#[test]
fn a_leader_who_cannot_wait_fails_alone() {
    story(async {
        let stage = stage();
        let a = stage.host("a", slow());
        let asks = [ask().header("x-mai-timeout-ms", "200"), ask(), ask()];
        let answers = all(&stage, asks).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [504, 200, 200]);
        assert_eq!(a.calls().len(), 2, "the others ask once more, together");
        rests(&stage, &a).await;
    });
}

#[test]
fn a_leader_who_cannot_wait_for_a_second_try_fails_alone() {
    story(async {
        let stage = stage();
        let failing = Reply::status(500).after(Duration::from_millis(100));
        let a = stage.host("a", Script::always(slow()).on_call(1, failing));
        let asks = [ask().header("x-mai-timeout-ms", "200"), ask(), ask()];
        let statuses: Vec<u16> = all(&stage, asks).await.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [502, 200, 200]);
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
    });
}

#[test]
fn a_leader_who_must_not_be_repeated_fails_alone() {
    story(async {
        let stage = stage();
        let failing = Reply::status(500).after(Duration::from_millis(100));
        let a = stage.host("a", Script::always(slow()).on_call(1, failing));
        let ask = || ask().header("idempotency-key", "k-1");
        let answers = all(&stage, [ask().header("x-mai-side-effects", "true"), ask()]).await;
        assert_eq!((answers[0].status, answers[1].status, a.calls().len()), (502, 200, 2));
        rests(&stage, &a).await;
    });
}

/// What does not decide an answer may be refused all the same.
#[test]
fn a_refusal_is_that_of_the_body_that_was_refused() {
    story(async {
        let stage = stage();
        let picky = |request: &mock::Request| {
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            let reply = if body["user"] == "bad" { Reply::status(400) } else { Reply::say(["good"]) };
            reply.after(Duration::from_secs(1))
        };
        let a = stage.host("a", Script::by(picky));
        let of = |user: &str, key: &str| ask().with("user", user).header("idempotency-key", key);
        let asks = || [of("bad", "k-1"), of("good", "k-2"), of("bad", "k-3"), ask()];
        let answers = all(&stage, asks()).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [400, 200, 400, 200]);
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
        let again = all(&stage, asks()).await;
        let seen: Vec<_> = again.iter().map(|answer| (answer.status, cache(answer))).collect();
        assert_eq!(seen, [(400, "replay"), (200, "replay"), (400, "replay"), (200, "hit")]);
    });
}

#[test]
fn a_call_that_goes_alone_after_many_flights_is_still_one_for_its_idempotency_key() {
    story(async {
        let stage = stage();
        let picky = |request: &mock::Request| {
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            let reply = if body["user"].is_string() { Reply::status(400) } else { Reply::say(["good"]) };
            reply.after(Duration::from_secs(1))
        };
        let a = stage.host("a", Script::by(picky));
        let mut callers = Vec::new();
        for at in 0..9 {
            callers.push(begun(&stage, ask().with("user", format!("bad {at}"))).await);
        }
        let keyed = || ask().header("idempotency-key", "k-1");
        let pair = vec![begun(&stage, keyed()).await, begun(&stage, keyed()).await];
        let both = answers(pair).await;
        assert!(both.iter().all(|answer| (answer.status, answer.said()) == (200, "good".to_owned())));
        answers(callers).await;
        let asked = |user: bool| {
            a.calls().iter().filter(|call| call.request.json.as_ref().unwrap()["user"].is_string() == user).count()
        };
        assert_eq!((asked(false), asked(true)), (1, 9));
        assert_eq!(cache(&stage.ask(keyed()).await), "replay");
    });
}

#[test]
fn an_answer_that_was_asked_for_anew_is_not_replaced_by_an_older_one() {
    story(async {
        let stage = stage();
        let older = Reply::say(["older"]).after(Duration::from_secs(2));
        let a = stage.host("a", Script::always(Reply::say(["newer"])).on_call(1, older));
        let first = begun_by(&stage, ask()).await;
        millis(500).await;
        let newer = stage.ask(ask().header("cache-control", "no-cache")).await;
        let older = answers(vec![first]).await;
        assert_eq!((newer.said().as_str(), older[0].said().as_str()), ("newer", "older"));
        let hit = stage.ask(ask()).await;
        assert_eq!((hit.said().as_str(), cache(&hit), a.calls().len()), ("newer", "hit", 2));
        rests(&stage, &a).await;
    });
}

#[test]
fn who_wants_nothing_stored_goes_alone() {
    story(async {
        let stage = stage();
        let a = stage.host("a", slow());
        let answers = all(&stage, [ask(), ask().header("cache-control", "no-store"), ask()]).await;
        let caches: Vec<&str> = answers.iter().map(cache).collect();
        assert_eq!(caches, ["miss", "bypass", "shared"]);
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
    });
}

#[test]
fn clients_wait_together_only_where_they_share() {
    for (scope, calls) in [("", 2), (", scope: route", 1)] {
        story(async {
            let stage = Stage::set(&config(scope));
            let a = stage.host("a", slow());
            let other = || chat("chat").user("Hi").key("sk-other");
            let answers = all(&stage, [ask(), other(), ask(), other()]).await;
            assert!(answers.iter().all(|answer| answer.status == 200));
            assert_eq!(a.calls().len(), calls);
            rests(&stage, &a).await;
        });
    }
}

#[test]
fn a_leader_whose_quota_is_spent_is_refused_alone() {
    story(async {
        let config = config(", scope: route")
            .replace("keys: [sk-app], routes: [\"*\"]", "keys: [sk-app], routes: [\"*\"], quota: { tokens: 1 }");
        let stage = Stage::set(&config);
        let a = stage.host("a", slow());
        let other = || chat("chat").user("Hi").key("sk-other");
        let answers = all(&stage, [ask(), other(), other()]).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [429, 200, 200]);
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
    });
}

#[test]
fn an_online_call_does_not_wait_behind_one_of_batch() {
    story(async {
        let stage = Stage::set(&config(", scope: route"));
        let a = stage.host("a", slow());
        let night = chat("chat").user("Hi").key("sk-night");
        let answers = all(&stage, [night.clone(), ask(), night, ask()]).await;
        let caches: Vec<&str> = answers.iter().map(cache).collect();
        assert_eq!(caches, ["miss", "miss", "shared", "shared"]);
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
    });
}

/// An answer that takes 700 ms and says `Hello!`.
fn spoken() -> Reply {
    Reply::sse(hello()).every(Duration::from_millis(100))
}

/// What a caller has of its answer after so long.
async fn heard(caller: &mut Caller<Stream>, long: u64) -> String {
    let mut heard = Vec::new();
    let hearing = async {
        caller.head().await.unwrap();
        while let Some(more) = caller.more().await.unwrap() {
            heard.extend(more);
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(long), hearing).await;
    String::from_utf8(heard).unwrap()
}

#[test]
fn a_stream_is_shared_as_it_comes_and_late_joiners_hear_its_beginning() {
    story(async {
        let stage = stage();
        let a = stage.host("a", spoken());
        let mut leader = begun_by(&stage, ask().stream()).await;
        millis(350).await;
        let mut late = begun_by(&stage, ask().stream()).await;
        let (first, second) = tokio::join!(heard(&mut leader, 60), heard(&mut late, 60));
        assert!(first.contains("\"!\"") == second.contains("\"!\"") && second.contains("Hel"), "{first} {second}");
        let (first, second) = tokio::join!(leader.read(), late.read());
        assert!(!first.is_empty() && !second.is_empty());
        drop((leader, late));
        rests(&stage, &a).await;
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn streaming_callers_and_others_wait_for_one_call_whoever_leads() {
    for leads_streaming in [true, false] {
        story(async {
            let stage = stage();
            let a = stage.host(
                "a",
                Reply::say(["Hel", "lo", "!"]).after(Duration::from_secs(1)).every(Duration::from_millis(100)),
            );
            let asks = (0..20).map(|n| if (n % 2 == 0) == leads_streaming { ask().stream() } else { ask() });
            let answers = all(&stage, asks).await;
            assert_eq!(a.calls().len(), 1);
            for answer in &answers {
                assert_eq!((answer.status, answer.said()), (200, "Hello!".to_owned()), "{}", answer.text());
                assert!(answer.is_whole);
            }
            assert_eq!(answers.iter().filter(|answer| cache(answer) == "shared").count(), 19);
            rests(&stage, &a).await;
            assert_eq!(cache(&stage.ask(ask()).await), "hit");
        });
    }
}

#[test]
fn a_leader_who_leaves_in_mid_stream_takes_nobody_down() {
    story(async {
        let stage = stage();
        let a = stage.host("a", spoken());
        let mut leader = begun_by(&stage, ask().stream()).await;
        millis(10).await;
        let follower = begun_by(&stage, ask().stream()).await;
        let whole = begun_by(&stage, ask()).await;
        heard(&mut leader, 250).await;
        drop(leader);
        for answer in answers(vec![follower, whole]).await {
            assert_eq!((answer.said().as_str(), answer.is_whole), ("Hello!", true));
        }
        rests(&stage, &a).await;
        assert_eq!(a.ending_of(1).await, End::Answered);
        let log = stage.log();
        let gone: Vec<_> = log.iter().filter(|line| line["outcome"] == "caller_gone").collect();
        assert_eq!((gone.len(), &gone[0]["status"], &gone[0]["tokens_out"]), (1, &json!(200), &json!(3)));
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
    });
}

#[test]
fn when_all_have_left_a_stream_its_upstream_is_left_too() {
    story(async {
        let stage = stage();
        let long = Reply::sse(vec![delta("x"); 10_000]).every(Duration::from_millis(100));
        let a = stage.host("a", long);
        let mut callers = [begun_by(&stage, ask().stream()).await, begun_by(&stage, ask().stream()).await];
        for caller in &mut callers {
            heard(caller, 300).await;
        }
        let [first, second] = callers;
        drop(first);
        millis(500).await;
        assert_eq!(a.log().in_flight().0, 1);
        drop(second);
        millis(200).await;
        assert_eq!(a.ending_of(1).await, End::Gone);
        rests(&stage, &a).await;
    });
}

#[test]
fn a_stream_that_breaks_off_breaks_off_for_all_who_had_some_of_it() {
    story(async {
        let stage = stage();
        let a = stage.host("a", spoken().cut(At::Events(3), How::Rst));
        let mut callers = Vec::new();
        for ask in [ask().stream(), ask().stream(), ask(), ask()] {
            callers.push(begun(&stage, ask).await);
        }
        a.has_calls(1).await;
        a.play(Reply::say(["whole"]));
        let answers = answers(callers).await;
        for answer in &answers[..2] {
            assert!(answer.text().contains("Hel") && answer.is_whole);
            assert_eq!(answer.code().as_deref(), Some("upstream_error"));
            assert!(!answer.events().is_done());
        }
        for answer in &answers[2..] {
            assert_eq!((answer.status, answer.said()), (200, "whole".to_owned()), "it has had nothing of it");
        }
        rests(&stage, &a).await;
        assert_eq!(a.calls().len(), 2, "one more for both");
        let outcomes: Vec<_> = stage.log().iter().map(|line| line["outcome"].clone()).collect();
        let of = |outcome: &str| outcomes.iter().filter(|known| *known == outcome).count();
        assert_eq!((of("upstream_cut"), of("ok")), (2, 2));
    });
}

#[test]
fn a_slow_reader_holds_nobody_up() {
    story(async {
        let stage = stage();
        let text = "x".repeat(1000);
        let mut events = vec![delta(&text); 3000];
        events.extend([finish(), "[DONE]".to_owned()]);
        let a = stage.host("a", Reply::sse(events));
        let mut slow = begun_by(&stage, ask().stream()).await;
        slow.head().await.unwrap();
        let quick = begun_by(&stage, ask().stream()).await;
        let answer = tokio::time::timeout(Duration::from_secs(5), answers(vec![quick])).await.unwrap();
        assert_eq!(answer[0].said().len(), 3_000_000);
        let mut heard = 0;
        while let Some(more) = slow.more().await.unwrap() {
            heard += more.len();
        }
        assert!(heard > 3_000_000);
        drop(slow);
        rests(&stage, &a).await;
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn an_answer_that_is_too_long_to_hold_goes_on_at_the_pace_of_its_slowest_reader() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::say(vec!["x".repeat(100_000); 90]));
        let mut slow = begun_by(&stage, ask().stream()).await;
        slow.head().await.unwrap();
        let quick = begun_by(&stage, ask().stream()).await;
        let whole = begun_by(&stage, ask()).await;
        let reading = async {
            let mut heard = 0;
            millis(1000).await;
            while let Some(more) = slow.more().await.unwrap() {
                heard += more.len();
            }
            heard
        };
        let (heard, answers) = tokio::join!(reading, answers(vec![quick, whole]));
        assert!(heard > 9_000_000);
        for answer in &answers {
            assert_eq!(answer.said().len(), 9_000_000);
        }
        assert_eq!(cache(&answers[0]), "shared");
        drop(slow);
        rests(&stage, &a).await;
        assert_eq!(cache(&stage.ask(ask()).await), "miss");
        assert!(a.calls().len() >= 2, "who wanted it whole had to ask by itself");
    });
}

#[test]
fn callers_who_want_usage_and_those_who_do_not_go_apart_while_a_stream_runs() {
    story(async {
        let stage = stage();
        let a = stage.host("a", spoken());
        let answers = all(&stage, [ask().stream(), ask().stream().usage(), ask().stream()]).await;
        assert!(answers.iter().all(|answer| answer.said() == "Hello!"));
        let shows: Vec<bool> = answers.iter().map(|answer| answer.text().contains("total_tokens")).collect();
        assert_eq!(shows, [false, true, false]);
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
    });
}

#[test]
fn callers_of_several_workers_wait_together() {
    story(async {
        let stage = stage();
        let a = stage.host("a", slow());
        let mut callers = vec![begun_by(&stage, ask()).await];
        millis(10).await;
        let another = stage.another_worker();
        for _ in 0..3 {
            let (near, far) = testkit::pair();
            tokio::spawn(another.clone().converse(far));
            let mut caller = Caller::on(near);
            caller.begin(&ask()).await;
            callers.push(caller);
        }
        millis(100).await;
        // The leader's own worker goes on when the leader has left.
        drop(callers.remove(0));
        for answer in answers(callers).await {
            assert_eq!((answer.said().as_str(), cache(&answer)), ("from a", "shared"));
        }
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
    });
}

/// However calls that are shared end, no place of their client is lost with them.
#[test]
fn no_place_is_lost_however_a_shared_call_ends() {
    let fates: [(&str, Reply); 6] = [
        ("left in mid-stream", Reply::sse(hello()).every(Duration::from_secs(1))),
        ("left before the first token", Reply::hang()),
        ("a failure", Reply::status(500)),
        ("reset", Reply::say(["x"]).cut(At::Head, How::Rst)),
        ("cut", Reply::sse(hello()).cut(At::Events(3), How::Rst)),
        ("a hit", Reply::say(["x"])),
    ];
    for (fate, reply) in fates {
        story(async {
            let config = config("").replace("routes: [\"*\"] }", "routes: [\"*\"], limit: { concurrency: 2 } }");
            let stage = Stage::set(&config);
            let a = stage.host("a", reply.clone());
            for _ in 0..10 {
                let mut callers = [begun_by(&stage, ask().stream()).await, begun_by(&stage, ask().stream()).await];
                if fate.starts_with("left") {
                    millis(1500).await;
                } else {
                    for caller in &mut callers {
                        caller.answer().await.unwrap();
                    }
                }
                drop(callers);
                millis(1000).await;
            }
            a.play(slow());
            let good = all(&stage, [chat("chat").user("A").key(KEY), chat("chat").user("B").key(KEY)]).await;
            assert!(good.iter().all(|answer| answer.status == 200), "{fate}");
            rests(&stage, &a).await;
        });
    }
}
