//! Storms: bad upstreams, callers who leave, reloads in the middle. Whatever happens, everything
//! that was taken is given back and everything is written down once.

use std::rc::Rc;
use std::time::Duration;

use base::Clock;
use gateway::limits::meters::Whose;
use mock::{Coding, Slices};
use rules::pursuit::Bar;
use testkit::{Ask, Door, Host, Reply, Scenario, Script, Storm, chat, embeddings, rerank, storms};
use tokio::task::{JoinSet, LocalSet};

use crate::chunks::{delta, role};
use crate::stage::{KEY, Stage, USUAL, usual_but};

/// Keys of `a` in the storm's configurations, at most.
const KEYS: usize = 2;
/// Waits of a route in the storm's configurations, at most.
const WAITS: usize = 3;

fn configs() -> [String; 11] {
    let side_by_side = USUAL.replace(", tier: 1", "");
    let with_routes =
        |config: String, text: &str| config.replace("    match: {", &format!("    {text}\n    match: {{"));
    let with_a = |text: &str| side_by_side.replace("api_key: sk-a-secret", text);
    [
        USUAL.to_owned(),
        usual_but("api_key: sk-a-secret", "api_keys: [sk-one, sk-two]"),
        with_routes(
            with_a("api_keys: [sk-one, sk-two]"),
            "strategy: weighted\n    mirror: { to: b, percent: 50 }\n    retry: { server_error: [200ms] }",
        ),
        with_routes(
            with_a("api_key: sk-a-secret, pool: { max_connections: 3, idle_timeout: 1s }"),
            "strategy: least_busy\n    breaker: { failures: 2, hold: 1s }\n    retry: { server_error: [100ms, 300ms], budget: 1 }",
        ),
        with_routes(
            side_by_side.replace(
                "match: { path: /v1/embeddings }",
                "match: { path: /v1/embeddings }\n    batch: { max_inputs: 2 }",
            ),
            "strategy: fastest\n    split: [{ when: { percent: 50 }, to: b }]\n    on_failure: degrade\n    retry: { budget: 0 }",
        ),
        with_routes(
            with_a("api_key: sk-a-secret, health: { every: 2s }"),
            "breaker: { failures: 1, hold: 500ms, max_rest: 3s }\n    mirror: { to: a, percent: 20 }",
        ),
        with_routes(
            with_a("api_key: sk-a-secret, concurrency: { max: 2 }, queue: { max_wait: 500ms, max_depth: 3 }"),
            "limit: { qps: 20, concurrency: 6, tokens_per_minute: 50000 }",
        )
        .replace("keys: [sk-app], routes: [\"*\"]", "keys: [sk-app], routes: [\"*\"], limit: { concurrency: 5 }"),
        waiting(&with_a("api_keys: [sk-one, sk-two], concurrency: { max: 2, adaptive: true }"), "max_wait: 2s"),
        waiting(&with_routes(side_by_side.clone(), "limit: { concurrency: 2 }"), "max_depth: 4"),
        with_routes(USUAL.to_owned(), "cache: { mode: exact, ttl: 2s }\n    on_failure: stale"),
        with_routes(
            with_a("api_key: sk-a-secret, concurrency: { max: 2 }, queue: { max_wait: 500ms, max_depth: 3 }"),
            "cache: { mode: exact, ttl: 1s, scope: route }\n    on_failure: degrade\n    limit: { concurrency: 6 }",
        ),
    ]
}

/// A configuration whose client waits for its limits, and for the gateway's.
fn waiting(config: &str, queue: &str) -> String {
    let patient = format!(
        "keys: [sk-app], routes: [{{ name: chat, limit: {{ concurrency: 2 }} }}, \"*\"], priority: batch, queue: {{ {queue} }}, limit: {{ qps: 8, burst: 2, tokens_per_minute: 90000 }}"
    );
    config
        .replace("keys: [sk-app], routes: [\"*\"]", &patient)
        .replace("routes:\n  - name: chat", "limit: { qps: 15, concurrency: 3 }\nroutes:\n  - name: chat")
}

fn ask(storm: &Storm) -> Ask {
    let texts: Vec<String> = (0..storm.number(1..6)).map(|n| format!("text {n}")).collect();
    let ask = match storm.number(0..8) {
        0..3 => chat("chat").user("Hi").stream(),
        3..5 => chat("chat").user("Hi"),
        5 => embeddings("embedding", texts).with("encoding_format", *storm.one_of(&["float", "base64"])),
        6 => rerank("rerank", "text", texts),
        _ => match storm.number(0..5) {
            0 => chat("chat").body("{\"model\":"),
            1 => chat("nobody").user("Hi"),
            2 => chat("chat").user("Hi").path("/v1/nothing"),
            3 => embeddings("embedding", serde_json::json!([[]])),
            _ => chat("chat").user(&"x".repeat(storm.number(0..300_000))),
        },
    };
    let ask = if storm.chance(0.1) { ask.header("x-mai-side-effects", "true") } else { ask };
    let ask = match storm.number(0..20) {
        0 => ask.header("cache-control", *storm.one_of(&["no-cache", "no-store"])),
        1..3 => ask.header("idempotency-key", storm.number(0..4).to_string()),
        _ => ask,
    };
    let ask = if storm.chance(0.2) { ask.header("x-mai-timeout-ms", storm.number(1..4000).to_string()) } else { ask };
    if storm.chance(0.05) { ask } else { ask.key(KEY) }
}

/// A reply as the storm has it: the testkit's faults, and some of streams.
fn reply(storm: &Storm) -> Reply {
    if storm.chance(0.15) {
        let fault = match storm.number(0..5) {
            0 => Reply::sse(vec![": ping"; 40]).every(Duration::from_secs(1)),
            1 => Reply::sse([role(), delta("Hel"), "{garbage".to_owned()]),
            2 => Reply::sse([role(), delta("Hel"), delta("lo")]).every(Duration::from_secs(storm.number(1..20) as u64)),
            3 => Reply::text("<html>no</html>"),
            _ => Reply::status(*storm.one_of(&[302, 402, 404, 408, 413, 422, 429, 529])).header("retry-after", "2"),
        };
        return fault;
    }
    let codings = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
    let mut reply = storm.reply(0.6);
    if storm.chance(0.2) {
        reply.coding = Some(*storm.one_of(&codings));
    }
    if storm.chance(0.2) {
        reply.slices = Some(Slices::Of(storm.number(1..300), storm.ms(0..4)));
    }
    reply
}

fn weather(storm: &Storm) -> Scenario {
    let replies: Vec<Reply> = (0..storm.number(1..12)).map(|_| reply(storm)).collect();
    let scenario = Scenario::from(Script::replies(replies));
    match storm.number(0..4) {
        0 => scenario.idle(storm.ms(1..500), testkit::How::Fin),
        1 => scenario.idle(storm.ms(1..500), testkit::How::Rst),
        _ => scenario,
    }
}

/// One caller: some calls on one connection, patient or not.
async fn call(stage: Rc<Stage>, storm: Rc<Storm>) -> usize {
    let mut caller = stage.caller();
    let mut begun = 0;
    for _ in 0..storm.number(1..4) {
        tokio::time::sleep(storm.ms(0..800)).await;
        let wire = ask(&storm).wire();
        let leaves = storm.chance(0.3);
        let sent = if leaves && storm.chance(0.3) { storm.number(0..wire.len()) } else { wire.len() };
        caller.write(wire.get(..sent).unwrap_or_default()).await;
        let has_head = wire.windows(4).position(|end| end == b"\r\n\r\n").is_some_and(|end| end + 4 <= sent);
        begun += usize::from(has_head);
        if leaves {
            tokio::time::sleep(storm.ms(0..3000)).await;
            return begun;
        }
        if storm.chance(0.1) {
            caller.half_close().await;
            let answer = caller.answer().await.expect("a half-closed caller is answered");
            assert!(answer.is_whole);
            return begun;
        }
        let Ok(answer) = caller.answer().await else { panic!("a patient caller is answered") };
        assert!(answer.is_whole, "{}", answer.text());
        assert!(answer.header("x-request-id").is_some());
        if answer.status >= 400 {
            let error = answer.json()["error"].clone();
            assert!(error["message"].is_string() && error["type"].is_string(), "{}", answer.text());
        } else if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let events = answer.events();
            assert_ne!(events.is_done(), events.error().is_some(), "one ending: {}", answer.text());
            assert_eq!(events.unfinished, "");
        }
        if answer.header("connection") == Some("close") {
            return begun;
        }
    }
    begun
}

/// Opens and shuts doors, changes scripts, reloads.
async fn stir(stage: Rc<Stage>, storm: Rc<Storm>, hosts: [Host; 2]) {
    for _ in 0..storm.number(0..8) {
        tokio::time::sleep(storm.ms(0..1500)).await;
        let host = storm.one_of(&hosts);
        match storm.number(0..6) {
            0 => stage.reload(storm.one_of::<String>(&configs())),
            1 => host.die(),
            2 => host.set_door(*storm.one_of(&[
                Door::Open,
                Door::Refuse,
                Door::Hang,
                Door::After(Duration::from_millis(300)),
                Door::Lacking(24),
            ])),
            _ => host.play(weather(&storm)),
        }
    }
    if storm.chance(0.1) {
        stage.live.drain();
        tokio::time::sleep(storm.ms(0..2000)).await;
        stage.live.cut_short();
    }
}

/// What must hold when all is over.
async fn reckon(stage: &Stage, hosts: &[Host; 2], begun: usize) {
    stage.comes_to_rest().await;
    nothing_is_held(stage).await;
    // Without probes.
    stage.reload(USUAL);
    assert_eq!(stage.live.requests(), 0);
    let log = stage.log();
    assert_eq!(log.len(), begun, "one line for each request");
    // Idle connections end by their clock, and with them whatever a host still does on one.
    for host in hosts {
        assert!(host.connections_open() <= 256, "{}", host.connections_open());
    }
    tokio::time::sleep(Duration::from_secs(21)).await;
    stage.sweep();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut seen = 0;
    for host in hosts {
        assert_eq!(host.log().in_flight().0, 0, "no call is left behind");
        assert_eq!(host.connections_open(), 0, "no connection is left behind");
        seen += host.calls().iter().filter(|call| call.request.method == "POST").count();
    }
    let (mut tries, mut unsent) = (0, 0);
    for line in &log {
        let attempts = line["attempts"].as_array().unwrap();
        tries += attempts.len();
        // A try without a connection, or one that the caller's leaving, a clock or a dead
        // connection ended first, may not have reached its host.
        let reaches = |outcome: &str| {
            matches!(
                outcome,
                "ok" | "refused"
                    | "credential"
                    | "throttled"
                    | "status"
                    | "bad_response"
                    | "cut"
                    | "dimension_mismatch"
            )
        };
        unsent += attempts.iter().filter(|attempt| !reaches(attempt["outcome"].as_str().unwrap())).count();
        // `a` with each of its keys and `b`: each once more after a connection that had gone stale,
        // chats once more without what the gateway had added; embeddings in three parts at most.
        let each = if line["route"] == "embedding" { 2 * 3 } else { 3 };
        assert!(attempts.len() <= (KEYS + 1 + WAITS) * each, "{line}");
        let outcome = line["outcome"].as_str().unwrap();
        // Those who wait for another's call have no tries; whose call others wait for may be gone before its end.
        let is_shared = line["cache"] == "shared" || outcome == "caller_gone";
        if line["cache"] == "stale" {
            assert!(outcome == "ok" && line["status"] == 200 && line["degraded"].is_string(), "{line}");
            continue;
        }
        if is_shared {
            assert!(line["cache"] != "shared" || attempts.is_empty(), "{line}");
            continue;
        }
        assert_eq!(
            outcome == "ok",
            attempts.last().is_none_or(|last| last["outcome"] == "ok")
                && line["status"] == 200
                && line["degraded"].is_null(),
            "{line}"
        );
    }
    let copies = sum(stage, "mai_mirrored_total{") - sum(stage, "mai_mirrored_total{outcome=\"skipped\"");
    assert!(
        seen as f64 <= tries as f64 + copies && tries <= seen + unsent,
        "{seen} calls were seen, {tries} tries and {copies} copies were made, {unsent} tries may not have arrived"
    );
    assert_eq!(sum(stage, "mai_requests_total{"), begun as f64);
    assert_eq!(sum(stage, "mai_upstream_attempts_total{"), tries as f64);
}

/// The sum of the series that begin so.
fn sum(stage: &Stage, series: &str) -> f64 {
    let metrics = stage.metrics();
    let values = metrics.lines().filter(|line| line.starts_with(series));
    values.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// No trial is out, nobody visits an upstream, and copies end by themselves.
async fn nothing_is_held(stage: &Stage) {
    assert_eq!(sum(stage, "mai_upstream_concurrency{kind=\"in_use\""), 0.0, "no place at an upstream is taken");
    assert_eq!(sum(stage, "mai_queue_depth{"), 0.0, "nobody waits");
    let running = stage.live.running();
    for client in &running.snapshot.clients {
        for route in &running.snapshot.routes {
            for meter in &*running.meters.of(Whose::of(client, route)) {
                assert_eq!(meter.running(), 0, "{}", meter.scope);
            }
        }
    }
    for seconds in 0.. {
        if stage.copies() == 0 {
            break;
        }
        assert!(seconds < 120, "{} copies never ended", stage.copies());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(stage.live.flights.count(), 0, "no flight is left behind");
    let (running, now) = (stage.live.running(), Clock.now());
    for route in &running.snapshot.routes {
        for known in &running.state(route).unwrap().upstreams {
            let standing = known.gate.standing();
            assert_eq!(standing.busy(), 0, "{standing:?}");
            assert_ne!(standing.look(now).0, Some(Bar::Open(now)), "a trial is out: {standing:?}");
        }
    }
}

/// However long it took, no ten seconds had more repeats than their share.
fn repeats_are_within_their_budget(stage: &Stage, took: Duration, begun: usize) {
    // An embeddings call counts once for each of its parts.
    let most = f64::max(10.0, 3.0 * begun as f64) * (took.as_secs_f64() / 10.0).ceil();
    for route in ["chat", "embedding", "rerank"] {
        let taken = stage.metric(&format!("mai_retries_total{{result=\"taken\",route=\"{route}\"}}"));
        assert!(taken <= most, "{taken} repeats in {took:?}");
    }
}

async fn rage(storm: Storm) {
    let storm = Rc::new(storm);
    let stage = Rc::new(Stage::set(storm.one_of::<String>(&configs())));
    let hosts = [stage.host("a", weather(&storm)), stage.host("b", weather(&storm))];
    stage.probe();
    let local = LocalSet::new();
    let began = Clock.now();
    let begun = local
        .run_until(async {
            let mut callers = JoinSet::new();
            for _ in 0..storm.number(1..16) {
                callers.spawn_local(call(stage.clone(), storm.clone()));
            }
            stir(stage.clone(), storm.clone(), hosts.clone()).await;
            let mut begun = 0;
            while let Some(calls) = callers.join_next().await {
                begun += calls.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
            }
            begun
        })
        .await;
    repeats_are_within_their_budget(&stage, Clock.now() - began, begun);
    reckon(&stage, &hosts, begun).await;
}

#[test]
fn after_any_storm_everything_is_given_back_and_written_down_once() {
    storms(0..150, rage);
}

/// Until when an upstream takes no calls, looked at many times a second.
#[derive(Default)]
struct Watch(Vec<(Duration, Duration)>);

/// So long a call may be on its way to an upstream that was shut in the meantime.
const ON_ITS_WAY: Duration = Duration::from_millis(60);

impl Watch {
    /// Whether it was shut at an instant, and had been for a while.
    fn was_shut(&self, at: Duration) -> bool {
        let before = self.0.partition_point(|(looked, _)| *looked + ON_ITS_WAY < at);
        let until = self.0.partition_point(|(looked, _)| *looked <= at);
        let looks = self.0.get(before.saturating_sub(1)..until).unwrap_or_default();
        before > 0 && looks.iter().all(|(_, until)| *until > at)
    }
}

/// Patient callers, one configuration: whoever rests or is left alone is called by nobody.
async fn brew(storm: Storm) {
    let storm = Rc::new(storm);
    let strategy = *storm.one_of(&["ordered", "weighted", "least_busy", "fastest"]);
    let terms = format!("strategy: {strategy}\n    breaker: {{ failures: 2, hold: 2s }}\n    match: {{");
    let stage = Rc::new(Stage::set(&USUAL.replace(", tier: 1", "").replace("    match: {", &format!("    {terms}"))));
    let hosts = [stage.host("a", weather(&storm)), stage.host("b", weather(&storm))];
    let local = LocalSet::new();
    let watches = local
        .run_until(async {
            let mut callers = JoinSet::new();
            for _ in 0..30 {
                let (stage, storm) = (stage.clone(), storm.clone());
                callers.spawn_local(async move {
                    tokio::time::sleep(storm.ms(0..20_000)).await;
                    stage.ask(chat("chat").user("Hi").with("stream", storm.chance(0.5))).await;
                });
            }
            let running = stage.live.running();
            let route = &running.snapshot.routes[0];
            let began = Clock.now();
            let mut watches = [Watch::default(), Watch::default()];
            while callers.try_join_next().is_some() || !callers.is_empty() {
                let now = Clock.now();
                for (watch, known) in watches.iter_mut().zip(&running.state(route).unwrap().upstreams) {
                    let until = match known.gate.standing().look(now).0 {
                        Some(Bar::Open(until) | Bar::Resting(until)) => until,
                        _ => now,
                    };
                    watch.0.push((now - began, until - began));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            watches
        })
        .await;
    for (host, watch) in hosts.iter().zip(&watches) {
        for call in host.calls() {
            assert!(!watch.was_shut(call.at), "a call at {:?}: {call:?}", call.at);
        }
    }
    stage.comes_to_rest().await;
    nothing_is_held(&stage).await;
}

#[test]
fn in_no_storm_anybody_calls_who_rests_or_is_left_alone() {
    storms(0..40, brew);
}
