//! Storms: bad upstreams, callers who leave, reloads in the middle. Whatever happens, everything
//! that was taken is given back and everything is written down once.

use std::rc::Rc;
use std::time::Duration;

use mock::{Coding, Slices};
use testkit::{Ask, Door, Host, Reply, Scenario, Script, Storm, chat, embeddings, rerank, storms};
use tokio::task::{JoinSet, LocalSet};

use crate::chunks::{delta, role};
use crate::stage::{KEY, Stage, USUAL, usual_but};

/// Keys of `a` in the storm's configurations, at most.
const KEYS: usize = 2;

fn configs() -> [String; 4] {
    [
        USUAL.to_owned(),
        usual_but("api_key: sk-a-secret", "api_keys: [sk-one, sk-two]"),
        usual_but("api_key: sk-a-secret", "api_key: sk-a-secret, pool: { max_connections: 3, idle_timeout: 1s }"),
        usual_but("match: { path: /v1/embeddings }", "match: { path: /v1/embeddings }\n    batch: { max_inputs: 2 }"),
    ]
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
        seen += host.calls().len();
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
        assert!(attempts.len() <= (KEYS + 1) * each, "{line}");
        let outcome = line["outcome"].as_str().unwrap();
        assert_eq!(
            outcome == "ok",
            attempts.last().is_none_or(|last| last["outcome"] == "ok") && line["status"] == 200,
            "{line}"
        );
    }
    assert!(
        seen <= tries && tries <= seen + unsent,
        "{seen} calls were seen, {tries} tries were written down, {unsent} may not have arrived"
    );
    let counted: f64 = stage
        .metrics()
        .lines()
        .filter(|line| line.starts_with("mai_requests_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert_eq!(counted, begun as f64);
    let counted: f64 = stage
        .metrics()
        .lines()
        .filter(|line| line.starts_with("mai_upstream_attempts_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert_eq!(counted, tries as f64);
}

async fn rage(storm: Storm) {
    let storm = Rc::new(storm);
    let stage = Rc::new(Stage::set(storm.one_of::<String>(&configs())));
    let hosts = [stage.host("a", weather(&storm)), stage.host("b", weather(&storm))];
    let local = LocalSet::new();
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
    reckon(&stage, &hosts, begun).await;
}

#[test]
fn after_any_storm_everything_is_given_back_and_written_down_once() {
    storms(0..300, rage);
}
