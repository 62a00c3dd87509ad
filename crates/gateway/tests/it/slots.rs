//! Places at upstreams: how many calls a provider has side by side, and who is next.

use std::time::Duration;

use serde_json::json;
use testkit::{Answer, Ask, At, Caller, Door, Host, How, Reply, Scenario, Script, Stream, chat, embeddings, story};

use crate::stage::{Stage, pleasant, usual_but, without_breakers};

const NIGHT: &str = "sk-night";
const DAY: &str = "sk-day";
const DUSK: &str = "sk-dusk";

/// Providers `a` and `b` with these keys of theirs, a batch client and two online ones.
fn bounded(a: &str, b: &str) -> String {
    without_breakers(&usual_but(
        "  - { name: app, keys: [sk-app], routes: [\"*\"] }",
        &format!(
            "  - {{ name: night, keys: [{NIGHT}], routes: [\"*\"], priority: batch }}\n  - {{ name: day, keys: [{DAY}], routes: [\"*\"] }}\n  - {{ name: dusk, keys: [{DUSK}], routes: [\"*\"] }}"
        ),
    ))
    .replace("api_key: sk-a-secret", &format!("api_key: sk-a-secret, {a}"))
    .replace("api_key: sk-b-secret", &format!("api_key: sk-b-secret, {b}"))
}

/// The same over `a` alone.
fn alone(a: &str) -> String {
    bounded(a, "")
        .replace(", { provider: b, model: model-b, tier: 1 }", "")
        .replace(", { provider: b, model: embed, tier: 1 }", "")
        .replace(", { provider: b, model: rank, tier: 1 }", "")
}

fn ask(text: &str, key: &str) -> Ask {
    chat("chat").user(text).key(key)
}

async fn begin(stage: &Stage, ask: Ask) -> Caller<Stream> {
    let mut caller = stage.caller();
    caller.begin(&ask).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    caller
}

async fn asks(stage: &Stage, ask: Ask) -> Answer {
    stage.caller().ask(&ask).await
}

fn slow(millis: u64) -> Reply {
    Reply::say(["ok"]).after(Duration::from_millis(millis))
}

/// What a host was asked, in order.
fn seen(host: &Host) -> Vec<String> {
    let text = |call: &testkit::Call| {
        let messages = call.request.field("messages").cloned().unwrap_or_default();
        messages[0]["content"].as_str().unwrap_or_default().to_owned()
    };
    host.calls().iter().map(text).collect()
}

fn in_use(stage: &Stage, provider: &str) -> f64 {
    stage.metric(&format!("mai_upstream_concurrency{{kind=\"in_use\",provider=\"{provider}\"}}"))
}

#[test]
fn a_provider_never_has_more_calls_side_by_side_than_it_may_over_all_routes() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 2 }"));
        let a = stage.host("a", slow(300));
        let mut callers = Vec::new();
        for n in 0..6 {
            let ask = if n % 2 == 0 { ask("Hi", DAY) } else { embeddings("embedding", "abc").key(DUSK) };
            callers.push(begin(&stage, ask).await);
        }
        assert_eq!(in_use(&stage, "a"), 2.0);
        assert_eq!(stage.metric("mai_upstream_concurrency{kind=\"limit\",provider=\"a\"}"), 2.0);
        assert_eq!(stage.metric("mai_queue_depth{priority=\"online\",route=\"chat\"}"), 2.0);
        for caller in &mut callers {
            let answer = caller.answer().await.unwrap();
            assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("1")), "{}", answer.text());
        }
        assert_eq!(a.most_in_flight(), 2);
        let line = stage.last_line().await;
        assert!(line["queue_ms"].as_f64().unwrap() > 500.0 && line["overhead_ms"].as_f64().unwrap() < 5.0, "{line}");
        assert_eq!(in_use(&stage, "a"), 0.0);
    });
}

#[test]
fn a_full_upstream_is_passed_over_where_another_has_room() {
    story(async {
        let stage = Stage::set(&bounded("concurrency: { max: 1 }", "concurrency: { max: 1 }"));
        let (a, b) = (stage.host("a", slow(400)), stage.host("b", slow(400)));
        let mut callers = Vec::new();
        for text in ["1", "2", "3"] {
            callers.push(begin(&stage, ask(text, DAY)).await);
        }
        let mut upstreams = Vec::new();
        for caller in &mut callers {
            let answer = caller.answer().await.unwrap();
            assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("1")));
            upstreams.push(answer.header("x-mai-upstream").unwrap().to_owned());
        }
        assert_eq!(upstreams, ["a/model-a", "b/model-b", "a/model-a"], "the third waits, and first come first tried");
        assert_eq!((a.most_in_flight(), b.most_in_flight()), (1, 1));
    });
}

#[test]
fn online_passes_batch_in_line_and_clients_take_turns() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 1 }"));
        let a = stage.host("a", slow(100));
        let mut callers = Vec::new();
        for (text, key) in
            [("n1", NIGHT), ("n2", NIGHT), ("n3", NIGHT), ("d1", DAY), ("d2", DAY), ("d3", DAY), ("k1", DUSK)]
        {
            callers.push(begin(&stage, ask(text, key)).await);
        }
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(seen(&a), ["n1", "d1", "k1", "d2", "d3", "n2", "n3"]);
    });
}

#[test]
fn batch_gets_a_tenth_under_online_load_that_never_ends() {
    story(async {
        let stage = std::rc::Rc::new(Stage::set(&alone("concurrency: { max: 2 }")));
        let a = stage.host("a", slow(50));
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut load = tokio::task::JoinSet::new();
                for _ in 0..8 {
                    let stage = stage.clone();
                    load.spawn_local(async move {
                        loop {
                            assert_eq!(asks(&stage, ask("day", DAY)).await.status, 200);
                        }
                    });
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut night = Vec::new();
                for _ in 0..40 {
                    night.push(begin(&stage, ask("night", NIGHT).header("x-mai-timeout-ms", "29000")).await);
                }
                let before = a.calls().len();
                for caller in &mut night {
                    assert_eq!(caller.answer().await.unwrap().status, 200);
                }
                let calls = seen(&a);
                let since = &calls[before..];
                let share = 40.0 / since.len() as f64;
                assert!((0.09..0.13).contains(&share), "{share}");
            })
            .await;
    });
}

#[test]
fn a_line_that_is_full_or_too_slow_ends_in_a_429_and_costs_no_call() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 1 }, queue: { max_wait: 200ms, max_depth: 2 }"));
        let a = stage.host("a", slow(5000));
        let mut holder = begin(&stage, ask("1", DAY)).await;
        let mut waiting = Vec::new();
        for text in ["2", "3"] {
            waiting.push(begin(&stage, ask(text, DAY)).await);
        }
        let full = asks(&stage, ask("4", DUSK)).await;
        assert_eq!(
            (full.status, full.code().as_deref(), full.header("retry-after")),
            (429, Some("queue_full"), Some("1"))
        );
        for caller in &mut waiting {
            let late = caller.answer().await.unwrap();
            assert_eq!((late.status, late.code().as_deref()), (429, Some("queue_timeout")));
            assert_eq!((late.header("retry-after"), late.header("x-mai-attempts")), (Some("1"), Some("0")));
        }
        assert_eq!(holder.answer().await.unwrap().status, 200);
        assert_eq!(a.calls().len(), 1);
        stage.comes_to_rest().await;
        assert_eq!(stage.metric("mai_rejected_total{client=\"day\",reason=\"policy_queued\"}"), 2.0);
        assert_eq!(stage.metric("mai_rejected_total{client=\"dusk\",reason=\"policy_queued\"}"), 1.0);
    });
}

#[test]
fn a_stream_holds_its_place_to_the_last_byte_and_a_leaver_frees_it_at_once() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 1 }"));
        let stream = Reply::say(["a", "b", "c", "d"]).every(Duration::from_millis(250));
        let a = stage.host("a", Script::always(stream));
        let mut first = begin(&stage, ask("first", DAY).stream()).await;
        assert_eq!(first.head().await.unwrap().status, 200);
        let mut second = begin(&stage, ask("second", DAY).stream()).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!((a.calls().len(), in_use(&stage, "a")), (1, 1.0));
        drop(first);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(a.calls().len(), 2);
        let leaver = begin(&stage, ask("leaver", DUSK)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(leaver);
        assert_eq!(second.answer().await.unwrap().said(), "abcd");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!((seen(&a), in_use(&stage, "a")), (vec!["first".into(), "second".into()], 0.0));
        stage.comes_to_rest().await;
    });
}

#[test]
fn a_place_comes_back_however_the_try_ends() {
    story(async {
        let stage = Stage::set(&bounded("concurrency: { max: 1 }", "concurrency: { max: 1 }"));
        let ends = [
            Reply::status(500),
            Reply::status(400),
            Reply::status(401),
            Reply::status(429).header("retry-after", "0"),
            Reply::reset(),
            Reply::hang(),
            Reply::text("<html>"),
            Reply::default().cut(At::Events(2), How::Rst),
        ];
        let (a, b) = (stage.host("a", Script::replies(ends.clone())), stage.host("b", Script::replies(ends)));
        for _ in 0..10 {
            for stream in [false, true] {
                let ask = ask("Hi", DAY).header("x-mai-timeout-ms", "3000");
                assert!(asks(&stage, if stream { ask.stream() } else { ask }).await.status >= 200);
            }
            a.set_door(Door::Refuse);
            asks(&stage, ask("Hi", DAY).header("x-mai-timeout-ms", "3000")).await;
            a.set_door(Door::Open);
        }
        stage.comes_to_rest().await;
        assert_eq!((in_use(&stage, "a"), in_use(&stage, "b")), (0.0, 0.0));
        a.play(pleasant());
        b.play(pleasant());
    });
}

#[test]
fn a_reload_that_gives_more_places_lets_those_who_wait_pass() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 1 }"));
        let a = stage.host("a", slow(900));
        let mut callers = Vec::new();
        for text in ["1", "2", "3"] {
            callers.push(begin(&stage, ask(text, DAY)).await);
        }
        assert_eq!(a.calls().len(), 1);
        stage.reload(&alone("concurrency: { max: 3 }"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(a.calls().len(), 3);
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        stage.reload(&alone("timeout: { }").replace(", timeout: { }", ""));
        assert_eq!(asks(&stage, ask("4", DAY)).await.status, 200);
        stage.comes_to_rest().await;
    });
}

#[test]
fn where_places_are_bounded_no_more_nobody_waits_for_one() {
    two_who_wait_go_on(&alone("concurrency: { max: 1 }"), &alone("timeout: { }").replace(", timeout: { }", ""));
}

/// Of three calls under the one configuration two wait; under the other none does.
fn two_who_wait_go_on(before: &str, after: &str) {
    story(async {
        let stage = Stage::set(before);
        let a = stage.host("a", slow(900));
        let mut callers = Vec::new();
        for text in ["1", "2", "3"] {
            callers.push(begin(&stage, ask(text, DAY)).await);
        }
        assert_eq!(a.calls().len(), 1);
        stage.reload(after);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(a.calls().len(), 3);
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        stage.comes_to_rest().await;
    });
}

#[test]
fn places_that_are_taken_stay_taken_while_their_bound_is_gone_and_back() {
    story(async {
        let (bounded, free) = (alone("concurrency: { max: 2 }"), alone("pool: { }").replace(", pool: { }", ""));
        let stage = Stage::set(&bounded);
        let a = stage.host("a", slow(900));
        let mut callers = vec![begin(&stage, ask("1", DAY)).await, begin(&stage, ask("2", DAY)).await];
        stage.reload(&free);
        stage.reload(&bounded);
        assert_eq!(in_use(&stage, "a"), 2.0);
        callers.push(begin(&stage, ask("3", DAY)).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(a.calls().len(), 2, "there is no place for a third");
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        stage.comes_to_rest().await;
        assert_eq!(in_use(&stage, "a"), 0.0);
    });
}

/// So many connections to `a`, for which a call waits as long as it may.
fn connected(most: u32) -> String {
    alone(&format!("pool: {{ max_connections: {most}, connect_timeout: 60s }}"))
}

#[test]
fn a_reload_that_allows_more_connections_lets_those_who_wait_for_one_pass() {
    two_who_wait_go_on(&connected(1), &connected(3));
}

#[test]
fn calls_of_an_older_configuration_and_of_a_newer_one_share_the_connections_there_may_be() {
    story(async {
        // What waits for its client's limit belongs to the older one.
        let of_night =
            |config: String| config.replace("priority: batch", "priority: batch, limit: { qps: 20, burst: 1 }");
        let stage = Stage::set(&of_night(connected(4)));
        let a = stage.host("a", slow(3_000));
        let mut callers = Vec::new();
        for n in 0..40 {
            callers.push(begin(&stage, ask(&format!("{n}"), NIGHT)).await);
        }
        stage.reload(&of_night(connected(5)));
        for n in 40..80 {
            callers.push(begin(&stage, ask(&format!("{n}"), DAY)).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (_, at_once) = a.log().in_flight();
        assert_eq!(at_once, 5);
        drop(callers);
        stage.comes_to_rest().await;
    });
}

#[test]
fn how_much_a_provider_takes_is_found_out_anew_where_it_has_moved() {
    story(async {
        let config = alone("concurrency: { max: 64, adaptive: true }");
        let stage = Stage::set(&config);
        let limit = || stage.metric("mai_upstream_concurrency{kind=\"limit\",provider=\"a\"}");
        let begins_with = limit();
        stage.host("a", Reply::status(429).header("retry-after", "1").after(Duration::from_millis(100)));
        stage.host("c", pleasant());
        let mut callers = Vec::new();
        for n in 0..3 {
            callers.push(begin(&stage, ask(&format!("{n}"), DAY).header("x-mai-timeout-ms", "500")).await);
        }
        for mut caller in callers {
            caller.answer().await.unwrap();
        }
        let found = limit();
        assert!(found < begins_with, "{found}");
        stage.reload(&config.replace("model: model-a", "model: model-c"));
        assert_eq!(limit(), found, "what was found out stays");
        stage.reload(&config.replace("http://a/v1", "http://c/v1"));
        assert_eq!(limit(), begins_with);
        assert_eq!(asks(&stage, ask("2", DAY)).await.status, 200);
    });
}

/// Places at `a`, of which it is found out that they are fewer, before `reload` is asked to do something.
fn found_fewer(reload: impl Fn(&Stage, &str)) -> (f64, f64, f64) {
    let told = std::cell::Cell::default();
    story(async {
        let config = alone("concurrency: { max: 64, adaptive: true }, queue: { max_wait: 60s }");
        let stage = Stage::set(&config);
        let limit = || stage.metric("mai_upstream_concurrency{kind=\"limit\",provider=\"a\"}");
        let begins_with = limit();
        let a = stage.host("a", Reply::status(429).header("retry-after", "1").after(Duration::from_millis(100)));
        stage.host("c", pleasant());
        let mut refused = Vec::new();
        for n in 0..3 {
            refused.push(begin(&stage, ask(&format!("{n}"), DAY).header("x-mai-timeout-ms", "500")).await);
        }
        for mut caller in refused {
            caller.answer().await.unwrap();
        }
        let found = limit();
        a.play(slow(10_000));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut runs = begin(&stage, ask("runs", DAY)).await;
        reload(&stage, &config);
        told.set((begins_with, found, limit()));
        assert_eq!(runs.answer().await.unwrap().status, 200);
        stage.comes_to_rest().await;
    });
    told.take()
}

/// Without the provider `a`.
fn removed(config: &str) -> String {
    let lines = config.lines().filter(|line| !line.contains("name: a,"));
    lines.collect::<Vec<_>>().join("\n").replace("provider: a", "provider: b")
}

#[test]
fn how_much_a_provider_takes_is_found_out_anew_where_it_is_removed_and_comes_back_elsewhere() {
    let (begins_with, found, after) = found_fewer(|stage, config| {
        stage.reload(&removed(config));
        stage.reload(config);
    });
    assert!(found < begins_with && after == found, "it is where it was: {after} after {found}");
    let (begins_with, _, after) = found_fewer(|stage, config| {
        stage.reload(&removed(config));
        stage.reload(&config.replace("http://a/v1", "http://c/v1"));
    });
    assert_eq!(after, begins_with);
}

#[test]
fn calls_that_were_under_way_to_where_a_provider_was_say_nothing_of_where_it_is() {
    story(async {
        let config = alone("concurrency: { max: 64, adaptive: true }");
        let stage = Stage::set(&config);
        let limit = || stage.metric("mai_upstream_concurrency{kind=\"limit\",provider=\"a\"}");
        let begins_with = limit();
        let a = stage.host("a", Reply::hang());
        stage.host("c", pleasant());
        let mut hanging = Vec::new();
        for n in 0..4 {
            hanging.push(begin(&stage, ask(&format!("{n}"), DAY).header("x-mai-timeout-ms", "20000")).await);
        }
        a.has_calls(4).await;
        stage.reload(&config.replace("http://a/v1", "http://c/v1"));
        for caller in &mut hanging {
            assert_eq!(caller.answer().await.unwrap().status, 504);
        }
        assert_eq!(limit(), begins_with);
        stage.comes_to_rest().await;
    });
}

#[test]
fn nor_do_calls_that_waited_in_line_to_go_where_a_provider_was() {
    story(async {
        let config = alone("concurrency: { max: 64, adaptive: true }, queue: { max_wait: 60s }");
        let stage = Stage::set(&config);
        let limit = || stage.metric("mai_upstream_concurrency{kind=\"limit\",provider=\"a\"}");
        let begins_with = limit();
        let a = stage.host("a", slow(2_000));
        stage.host("c", pleasant());
        let mut running = Vec::new();
        while in_use(&stage, "a") < begins_with {
            running.push(begin(&stage, ask("runs", DAY)).await);
        }
        let mut waits = Vec::new();
        for _ in 0..3 {
            waits.push(begin(&stage, ask("waits", DAY).header("x-mai-timeout-ms", "4000")).await);
        }
        assert_eq!(stage.metric("mai_queue_depth{priority=\"online\",route=\"chat\"}"), 3.0);
        stage.reload(&config.replace("http://a/v1", "http://c/v1"));
        a.play(Reply::status(429).after(Duration::from_millis(100)));
        for caller in &mut waits {
            assert_eq!(caller.answer().await.unwrap().status, 429);
        }
        assert_eq!(limit(), begins_with, "what throttled them is not there any more");
        for caller in &mut running {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        stage.comes_to_rest().await;
    });
}

#[test]
fn who_waits_at_a_provider_that_a_reload_has_removed_is_counted_among_those_who_wait() {
    story(async {
        let config = alone("concurrency: { max: 1 }, queue: { max_wait: 60s }");
        let stage = Stage::set(&config);
        stage.host("a", slow(5_000));
        let mut callers = vec![begin(&stage, ask("1", DAY)).await, begin(&stage, ask("2", DAY)).await];
        let waiting = || stage.metric("mai_queue_depth{priority=\"online\",route=\"chat\"}");
        assert_eq!(waiting(), 1.0);
        stage.reload(&removed(&config));
        assert_eq!(waiting(), 1.0);
        stage.reload(&config);
        assert_eq!(waiting(), 1.0);
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(waiting(), 0.0);
        stage.comes_to_rest().await;
    });
}

#[test]
fn the_knee_of_an_upstream_is_found_under_load() {
    story(async {
        let stage = std::rc::Rc::new(Stage::set(&alone(
            "concurrency: { max: 64, adaptive: true, headroom: 0.3 }, queue: { max_wait: 10s }",
        )));
        let scenario = "slots: 10\nrules: [{ reply: { latency: 1s } }]";
        let a = stage.host("a", Scenario::read(scenario).unwrap());
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut load = tokio::task::JoinSet::new();
                for _ in 0..40 {
                    let stage = stage.clone();
                    load.spawn_local(async move {
                        let mut caller = stage.caller();
                        loop {
                            caller.ask(&ask("day", DAY)).await;
                        }
                    });
                }
                tokio::time::sleep(Duration::from_secs(180)).await;
                let mut limits = Vec::new();
                for _ in 0..60 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    limits.push(stage.metric("mai_upstream_concurrency{kind=\"limit\",provider=\"a\"}"));
                }
                let mean = limits.iter().sum::<f64>() / limits.len() as f64;
                assert!((5.5..9.5).contains(&mean), "{mean}: {limits:?}");
                assert!(a.log().total() > 1000);
            })
            .await;
    });
}

#[test]
fn parts_of_one_call_take_a_place_each() {
    story(async {
        let config = alone("concurrency: { max: 2 }").replace(
            "match: { path: /v1/embeddings }",
            "match: { path: /v1/embeddings }\n    batch: { max_inputs: 1 }",
        );
        let stage = Stage::set(&config);
        let a = stage.host("a", Reply::default().after(Duration::from_millis(100)));
        let answer = asks(&stage, embeddings("embedding", json!(["1", "2", "3", "4", "5"])).key(DAY)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!((a.calls().len(), a.most_in_flight()), (5, 2));
        stage.comes_to_rest().await;
        assert_eq!(in_use(&stage, "a"), 0.0);
    });
}

#[test]
fn a_call_has_one_patience_for_its_own_limits_and_for_the_upstreams() {
    story(async {
        let night = "priority: batch";
        let config = alone("concurrency: { max: 1 }")
            .replace(night, &format!("{night}, limit: {{ concurrency: 1 }}, queue: {{ max_wait: 3s }}"));
        let stage = Stage::set(&config);
        let a = stage.host("a", slow(2000));
        let mut first = begin(&stage, ask("first", NIGHT)).await;
        // It waits two seconds for its client's place, while others come who have the upstream's before it.
        let mut second = begin(&stage, ask("second", NIGHT)).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(begin(&stage, ask("other", DAY).header("x-mai-timeout-ms", "20000")).await);
        }
        assert_eq!(first.answer().await.unwrap().status, 200);
        let late = second.answer().await.unwrap();
        assert_eq!((late.status, late.code().as_deref()), (429, Some("queue_timeout")), "{}", late.text());
        let waited: u64 = late.header("x-mai-queue-ms").unwrap().parse().unwrap();
        assert!((2990..3010).contains(&waited), "{waited}");
        assert_eq!(seen(&a)[..2], ["first", "other"]);
        stage.comes_to_rest().await;
    });
}

#[test]
fn batch_calls_in_an_upstreams_line_keep_no_online_call_out_of_the_route() {
    story(async {
        for scope in ["route", "gateway"] {
            let config = alone("concurrency: { max: 2 }");
            let limit = "limit: { concurrency: 10 }";
            let config = match scope {
                "route" => config.replace("  - name: chat\n", &format!("  - name: chat\n    {limit}\n")),
                _ => config.replace("routes:\n", &format!("{limit}\nroutes:\n")),
            };
            let stage = Stage::set(&config);
            let a = stage.host("a", slow(500));
            let mut night = Vec::new();
            for n in 0..20 {
                night.push(begin(&stage, ask(&format!("n{n}"), NIGHT)).await);
            }
            assert_eq!(a.calls().len(), 1, "a place is left to online");
            let mut day = Vec::new();
            for _ in 0..8 {
                day.push(begin(&stage, ask("day", DAY).header("x-mai-timeout-ms", "20000")).await);
            }
            // One runs, and one stands in line: all other places of the limit are for whoever cannot wait.
            for caller in &mut day {
                let answer = caller.answer().await.unwrap();
                assert!(answer.status == 200 || answer.code().as_deref() == Some("queue_timeout"), "{}", answer.text());
            }
            for caller in &mut night {
                assert_eq!(caller.answer().await.unwrap().status, 200, "each comes to its turn");
            }
            let mut seen = seen(&a);
            seen.retain(|text| text != "day");
            assert_eq!(seen, (0..20).map(|n| format!("n{n}")).collect::<Vec<_>>(), "in the order of their arrival");
            stage.comes_to_rest().await;
        }
    });
}

#[test]
fn who_does_not_wait_is_told_what_to_do() {
    story(async {
        for queue in ["max_wait: 0", "max_depth: 0"] {
            let stage = Stage::set(&alone(&format!("concurrency: {{ max: 1 }}, queue: {{ {queue} }}")));
            stage.host("a", slow(1000));
            let mut holder = begin(&stage, ask("1", DAY)).await;
            let refused = asks(&stage, ask("2", DAY)).await;
            assert_eq!((refused.status, refused.code().as_deref()), (429, Some("queue_full")));
            assert!(refused.text().contains("nobody waits for it: `queue.max_wait`"), "{}", refused.text());
            assert_eq!(holder.answer().await.unwrap().status, 200);
        }
    });
}

/// Chat calls hang, and embeddings calls of another client come now and then.
fn while_chat_hangs(concurrency: &str, stream: bool) {
    story(async {
        let stage = Stage::set(&alone(concurrency));
        let hangs = Scenario::read("rules: [{ when: { model: model-a }, reply: hang }]").unwrap();
        stage.host("a", hangs);
        assert_eq!(asks(&stage, embeddings("embedding", "before").key(DUSK)).await.status, 200);
        let mut hanging = Vec::new();
        for n in 0..30 {
            for text in ["1", "2"] {
                let ask = ask(text, DAY);
                hanging.push(begin(&stage, if stream { ask.stream() } else { ask }).await);
            }
            let answer = asks(&stage, embeddings("embedding", format!("{n}").as_str()).key(DUSK)).await;
            assert_eq!(answer.status, 200, "{n}: {}", answer.text());
            assert_eq!(answer.header("x-mai-queue-ms").unwrap_or("0"), "0");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        drop(hanging);
        stage.comes_to_rest().await;
        assert_eq!(in_use(&stage, "a"), 0.0);
    });
}

#[test]
fn a_model_that_hangs_leaves_the_others_of_its_provider_a_place() {
    while_chat_hangs("concurrency: { max: 8 }", false);
    while_chat_hangs("concurrency: { max: 8 }", true);
    while_chat_hangs("concurrency: { max: 8, adaptive: true, headroom: 0 }", false);
}

#[test]
fn a_model_that_nobody_else_shares_a_provider_with_has_all_its_places() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 8 }"));
        let a = stage.host("a", slow(900));
        let mut callers = Vec::new();
        for n in 0..12 {
            callers.push(begin(&stage, ask(&format!("{n}"), DAY).header("x-mai-timeout-ms", "20000")).await);
        }
        assert_eq!((a.calls().len(), in_use(&stage, "a")), (8, 8.0));
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
    });
}

#[test]
fn streams_that_have_begun_keep_no_place_from_their_own_model() {
    story(async {
        let stage = Stage::set(&alone("concurrency: { max: 8 }"));
        let long = Reply::say(["a"; 100]).every(Duration::from_millis(500));
        let a = stage.host(
            "a",
            Scenario::from(Script::by(move |request| match request.path.ends_with("embeddings") {
                true => Reply::default(),
                false => long.clone(),
            })),
        );
        assert_eq!(asks(&stage, embeddings("embedding", "before").key(DUSK)).await.status, 200);
        let mut streams = Vec::new();
        for n in 0..8 {
            let mut caller = begin(&stage, ask(&format!("{n}"), DAY).stream()).await;
            assert_eq!(caller.head().await.unwrap().status, 200);
            streams.push(caller);
        }
        assert_eq!((a.calls().len(), in_use(&stage, "a")), (9, 8.0));
        drop(streams);
        stage.comes_to_rest().await;
    });
}
