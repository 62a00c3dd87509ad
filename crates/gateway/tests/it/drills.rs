//! Drills: faults that operators inject into tries at an upstream.

use std::time::Duration;

use base::Clock;
use gateway::live::levers::Which;
use gateway::upstream::drills::{Failure, Harm, LONGEST, MOST, NoDrill, Wanted};
use testkit::{Ask, Reply, chat, story};

use crate::keys::Told;
use crate::stage::{Stage, pleasant};

const CONFIG: &str = r#"
drills: enabled
providers:
  - { name: a, base_url: "http://a/v1", api_key: sk-a-secret }
  - { name: b, base_url: "http://b/v1", api_key: sk-b-secret }
routes:
  - name: chat
    upstreams: [{ provider: a, model: m }, { provider: b, model: m, tier: 1 }]
    retry: { server_error: [1s], throttled: [] }
    timeout: { attempt: 4s, first_byte: 3s }
  - name: alone
    upstreams: [{ provider: a, model: m }]
    retry: { server_error: [], throttled: [] }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;

const STATUS: Harm = Harm { latency: None, then: Some(Failure::Status(500)) };
const RESET: Harm = Harm { latency: None, then: Some(Failure::Reset) };

fn slow(millis: u64) -> Harm {
    Harm { latency: Some(Duration::from_millis(millis)), then: None }
}

/// Of every try at `a`, on all routes, for five minutes.
fn wanted(harm: Harm) -> Wanted {
    Wanted {
        upstream: "a/m".into(),
        route: None,
        harm,
        percent: 100.0,
        length: Duration::from_secs(300),
        by: "rehearser".into(),
    }
}

fn ask(route: &str) -> Ask {
    chat(route).user("Hi")
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn active(stage: &Stage) -> f64 {
    stage.metric("mai_drills_active")
}

#[test]
fn a_status_that_a_drill_injects_goes_the_way_of_a_real_one() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", pleasant());
        stage.host("b", pleasant());
        let drill = stage.live.rehearse(wanted(STATUS)).unwrap();
        assert_eq!(active(&stage), 1.0);
        let answer = stage.ask(ask("chat")).await;
        assert_eq!((answer.status, answer.header("x-mai-upstream")), (200, Some("b/m")), "it fails over");
        assert_eq!(answer.header("x-mai-attempts"), Some("2"));
        let line = stage.last_line().await;
        assert_eq!(line["attempts"][0]["outcome"], "status");
        assert_eq!((&line["attempts"][0]["status"], &line["attempts"][0]["drill"]), (&500.into(), &true.into()));
        assert_eq!(line["attempts"][1]["drill"], serde_json::Value::Null, "the other try was a real one");
        for _ in 0..4 {
            stage.ask(ask("chat")).await;
        }
        let opened = stage.live.breakers();
        assert_eq!(opened[0].shown, gateway::upstream::standing::Shown::Open, "five failures open the breaker");
        assert_eq!((drill.harmed(), a.calls().len()), (5, 0), "no call has left");
        let tries = "mai_upstream_attempts_total{outcome=\"status\",route=\"chat\",upstream=\"a/m\"}";
        assert_eq!(stage.metric(tries), 5.0);
    });
}

#[test]
fn statuses_are_classed_as_if_the_upstream_had_sent_them() {
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        for (status, seen, code) in [
            (429, 429, "upstream_throttled"),
            (400, 400, "upstream_refused"),
            (503, 502, "upstream_error"),
            (401, 502, "upstream_error"),
        ] {
            let harm = Harm { then: Some(Failure::Status(status)), ..Harm::default() };
            let drill = stage.live.rehearse(wanted(harm)).unwrap();
            let answer = stage.ask(ask("alone")).await;
            let told = answer.text();
            assert_eq!(answer.status, seen, "{status}: {told}");
            assert!(stage.live.drills.end(&drill.id));
            stage.live.close_breakers(Which { upstream: "a/m", route: None });
            if status != 400 {
                assert_eq!(answer.code().as_deref(), Some(code), "{told}");
            } else {
                assert!(told.contains("injected by a drill"), "{told}");
            }
            assert_eq!(stage.ask(ask("alone")).await.status, 200, "once it has ended");
        }
    });
}

#[test]
fn a_refusal_that_a_drill_injects_rests_no_key_and_ends_with_the_drill() {
    story(async {
        for (status, keys) in [(401, "[sk-1]"), (429, "[sk-1]"), (403, "[sk-1, sk-2]"), (429, "[sk-1, sk-2]")] {
            let config = CONFIG.replace("api_key: sk-a-secret", &format!("api_keys: {keys}"));
            let stage = Stage::set(&config);
            let a = stage.host("a", pleasant());
            stage.host("b", pleasant());
            let harm = Harm { then: Some(Failure::Status(status)), ..Harm::default() };
            let length = Duration::from_secs(10);
            let on_chat = || Wanted { route: Some("chat".into()), length, ..wanted(harm) };
            let by = async |route: &str| {
                let answer = stage.ask(ask(route)).await;
                answer.header("x-mai-upstream").unwrap_or("nobody").to_owned()
            };
            stage.live.rehearse(on_chat()).unwrap();
            assert_eq!(by("chat").await, "b/m", "{status}");
            assert_eq!(by("alone").await, "a/m", "{status}: the other route's calls are not in the drill");
            let rests = |stage: &Stage| stage.live.breakers()[0].resting_until.is_some();
            assert!(rests(&stage), "{status}");
            assert_eq!(by("chat").await, "b/m", "{status}: it rests, as a real one would make it");
            seconds(11).await;
            assert!(!rests(&stage));
            assert_eq!(by("chat").await, "a/m", "{status}: its time is over, and so is the rest");
            // One that an operator ends.
            let drill = stage.live.rehearse(on_chat()).unwrap();
            assert_eq!(by("chat").await, "b/m");
            assert!(stage.live.drills.end(&drill.id));
            assert_eq!(by("chat").await, "a/m", "{status}");
            assert_eq!(a.calls().len(), 3);
        }
    });
}

#[test]
fn a_reset_is_one() {
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        stage.live.rehearse(wanted(RESET)).unwrap();
        let answer = stage.ask(ask("alone")).await;
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_error")));
        assert_eq!(stage.last_line().await["attempts"][0]["outcome"], "reset");
        // With side effects nobody knows what became of it, as with a real one: it does not move on.
        stage.host("b", pleasant());
        let once = stage.ask(ask("chat").header("x-mai-side-effects", "true")).await;
        assert_eq!((once.status, once.header("x-mai-attempts")), (502, Some("1")));
    });
}

#[test]
fn latency_counts_in_the_attempts_own_clock() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", pleasant());
        stage.host("b", pleasant());
        let slowed = stage.live.rehearse(wanted(slow(1500))).unwrap();
        let began = Clock.now();
        let answer = stage.ask(ask("chat")).await;
        assert_eq!((answer.status, answer.header("x-mai-upstream")), (200, Some("a/m")));
        let took = Clock.now() - began;
        assert!((1500..1600).contains(&took.as_millis()), "{took:?}");
        let line = stage.last_line().await;
        assert_eq!((&line["attempts"][0]["outcome"], &line["attempts"][0]["drill"]), (&"ok".into(), &true.into()));
        assert!(line["overhead_ms"].as_f64().unwrap() < 100.0, "the wait is the upstream's: {line}");
        stage.live.drills.end(&slowed.id);

        stage.live.rehearse(wanted(slow(60_000))).unwrap();
        for (call, clock, outcome) in
            [(ask("chat"), 4000, "timeout"), (ask("chat").stream(), 3000, "first_byte_timeout")]
        {
            let began = Clock.now();
            let answer = stage.ask(call).await;
            assert_eq!((answer.status, answer.header("x-mai-upstream")), (200, Some("b/m")));
            let took = (Clock.now() - began).as_millis();
            assert!((clock..clock + 100).contains(&took), "{took} ms");
            assert_eq!(stage.last_line().await["attempts"][0]["outcome"], outcome);
        }
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn latency_may_come_before_a_failure() {
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        stage.live.rehearse(wanted(Harm { then: Some(Failure::Reset), ..slow(700) })).unwrap();
        let began = Clock.now();
        assert_eq!(stage.ask(ask("alone")).await.status, 502);
        let took = (Clock.now() - began).as_millis();
        assert!((700..800).contains(&took), "{took} ms");
    });
}

#[test]
fn a_share_of_the_tries_is_harmed_on_one_route() {
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        stage.host("b", pleasant());
        let some = Wanted { route: Some("chat".into()), percent: 30.0, ..wanted(slow(1)) };
        let drill = stage.live.rehearse(some).unwrap();
        for _ in 0..200 {
            assert_eq!(stage.ask(ask("chat")).await.status, 200);
            assert_eq!(stage.ask(ask("alone")).await.status, 200);
        }
        let harmed = drill.harmed();
        assert!((35..=85).contains(&harmed), "{harmed} of 200, and none of the other route");
        let log = stage.log();
        let marked = log.iter().filter(|line| line["attempts"][0]["drill"] == true);
        assert_eq!(marked.clone().count() as u64, harmed);
        assert!(marked.into_iter().all(|line| line["route"] == "chat"));
    });
}

#[test]
fn a_drill_ends_when_its_time_is_over_and_the_log_says_so() {
    let told = Told::default();
    // Where there is but one listener, tracing asks the thread that comes first whether it listens.
    let _second = tracing::Dispatch::new(Told::default());
    let listening = tracing::subscriber::set_default(told.clone());
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        stage.live.rehearse(wanted(slow(100))).unwrap();
        seconds(299).await;
        assert_eq!(active(&stage), 1.0);
        seconds(2).await;
        assert_eq!(active(&stage), 0.0);
        stage.live.rehearse(wanted(STATUS)).unwrap();
        let begun = Wanted { length: LONGEST * 9, ..wanted(STATUS) };
        let longest = stage.live.rehearse(begun).unwrap();
        assert_eq!(longest.until - longest.began, LONGEST, "whatever is asked for");
    });
    drop(listening);
    let told = told.text();
    assert_eq!(told.matches("a drill begins").count(), 3, "{told}");
    assert_eq!(told.matches("a drill ends").count(), 1, "{told}");
    assert!(told.contains("rehearser"), "{told}");
}

#[test]
fn a_reload_that_forbids_drills_or_drops_the_upstream_ends_them() {
    story(async {
        let stage = Stage::set(CONFIG);
        stage.host("a", pleasant());
        stage.live.rehearse(wanted(STATUS)).unwrap();
        let on_chat = Wanted { route: Some("chat".into()), ..wanted(STATUS) };
        stage.live.rehearse(on_chat).unwrap();
        stage.reload(CONFIG);
        assert_eq!(active(&stage), 2.0, "nothing has changed");
        stage.reload(&CONFIG.replace("[{ provider: a, model: m }, {", "[{ provider: a, model: n }, {"));
        assert_eq!(active(&stage), 1.0, "the other one is about another route too");
        stage.reload(&CONFIG.replace("enabled", "disabled"));
        assert_eq!(active(&stage), 0.0);
        assert_eq!(stage.ask(ask("alone")).await.status, 200);
        assert_eq!(stage.live.rehearse(wanted(STATUS)).unwrap_err(), NoDrill::Disabled);
    });
}

#[test]
fn drills_are_few_and_of_what_there_is() {
    story(async {
        let stage = Stage::set(CONFIG);
        let nowhere = Wanted { upstream: "c/m".into(), ..wanted(STATUS) };
        assert_eq!(stage.live.rehearse(nowhere).unwrap_err(), NoDrill::NoSuchUpstream);
        let elsewhere = Wanted { upstream: "b/m".into(), route: Some("alone".into()), ..wanted(STATUS) };
        assert_eq!(stage.live.rehearse(elsewhere).unwrap_err(), NoDrill::NoSuchUpstream);
        for _ in 0..MOST {
            stage.live.rehearse(wanted(STATUS)).unwrap();
        }
        assert_eq!(stage.live.rehearse(wanted(STATUS)).unwrap_err(), NoDrill::TooMany);
        seconds(301).await;
        assert!(stage.live.rehearse(wanted(STATUS)).is_ok(), "those whose time is over count no more");
        assert!(!stage.live.drills.end("no such drill"));
    });
}

#[test]
fn copies_and_probes_are_no_part_of_a_drill() {
    story(async {
        let config = CONFIG
            .replace("retry: { server_error: [1s], throttled: [] }", "mirror: { to: b, percent: 100 }")
            .replacen("api_key: sk-b-secret", "api_key: sk-b-secret, health: { every: 5s }", 1);
        let stage = Stage::set(&config);
        stage.host("a", pleasant());
        let b = stage.host("b", Reply::say(["copied"]));
        stage.probe();
        stage.live.rehearse(Wanted { upstream: "b/m".into(), ..wanted(RESET) }).unwrap();
        assert_eq!(stage.ask(ask("chat")).await.status, 200);
        seconds(60).await;
        let count = |method| b.calls().iter().filter(|call| call.request.method == method).count();
        assert_eq!(count("POST"), 1, "the copy has arrived");
        assert!(count("GET") >= 10, "and so have the probes");
        assert_eq!(stage.metric("mai_upstream_healthy{provider=\"b\"}"), 1.0);
    });
}
