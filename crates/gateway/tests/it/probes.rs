//! Active health probes: what they find, how soon, and what they leave alone.

use std::time::Duration;

use base::Clock;
use testkit::{At, Door, Host, How, Reply, Script, chat, story};

use crate::keys::Told;
use crate::stage::{KEY, Stage, pleasant};

/// Two providers that are probed, and one that is not.
const CONFIG: &str = r#"
providers:
  - { name: a, base_url: "http://a/v1", api_key: sk-a-secret, headers: { x-team: rag }, health: { every: 10s } }
  - { name: b, base_url: "http://b/v1?version=2", api_keys: [sk-b-secret, sk-b-other], health: { path: /health, every: 3s } }
  - { name: c, base_url: "http://c/v1" }
routes:
  - { name: chat, upstreams: [{ provider: a, model: m }, { provider: c, model: m, tier: 1 }] }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;

/// One provider `a` with one place for calls, probed every `every`.
fn alone(every: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, base_url: "http://a/v1", health: {{ every: {every} }}, pool: {{ max_connections: 1 }} }}]
routes: [{{ name: chat, upstreams: [{{ provider: a, model: m }}] }}]
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

/// What the metrics say of a provider's health; nothing where it is not probed.
fn health(stage: &Stage, provider: &str) -> Option<bool> {
    let series = format!("mai_upstream_healthy{{provider=\"{provider}\"}} ");
    stage.metrics().lines().find_map(|line| line.strip_prefix(&series)).map(|value| value == "1")
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn paths(host: &Host) -> Vec<String> {
    host.calls().iter().map(|call| format!("{} {}", call.request.method, call.request.path)).collect()
}

#[test]
fn every_provider_with_health_is_probed_and_no_other() {
    story(async {
        let stage = Stage::set(CONFIG);
        let [a, b, c] = ["a", "b", "c"].map(|name| stage.host(name, pleasant()));
        stage.probe();
        seconds(60).await;
        assert!((5..=6).contains(&a.calls().len()), "{:?}", paths(&a));
        assert!((19..=20).contains(&b.calls().len()), "{:?}", paths(&b));
        assert!(a.calls().iter().all(|call| call.request.path == "/v1/models" && call.request.method == "GET"));
        let query = |call: &testkit::Call| (call.request.path.clone(), call.request.query.clone());
        assert!(b.calls().iter().all(|call| query(call) == ("/v1/health".into(), Some("version=2".into()))));
        assert_eq!(c.calls().len(), 0);
        assert_eq!((health(&stage, "a"), health(&stage, "b"), health(&stage, "c")), (Some(true), Some(true), None));
        // The distance between two starts is what is configured, on a new connection each time.
        let calls = a.calls();
        for pair in calls.windows(2) {
            let apart = pair[1].at.abs_diff(pair[0].at + Duration::from_secs(10));
            assert!(apart < Duration::from_millis(20), "{apart:?}");
            assert_ne!(pair[0].connection, pair[1].connection);
        }
        assert!(stage.log().is_empty(), "a probe is no request");
    });
}

#[test]
fn a_hung_upstream_is_found_though_nobody_calls_it_and_so_is_its_recovery() {
    story(async {
        let stage = Stage::set(&alone("10s"));
        let a = stage.host("a", Reply::hang());
        stage.probe();
        a.has_calls(1).await;
        seconds(6).await;
        assert_eq!(health(&stage, "a"), Some(true), "one lost probe is no verdict");
        // The second one begins 10 s after the first and is given 5 s.
        seconds(10).await;
        assert_eq!(health(&stage, "a"), Some(false));
        a.play(pleasant());
        seconds(10).await;
        assert_eq!(health(&stage, "a"), Some(true));
    });
}

#[test]
fn whatever_answers_is_alive_and_whatever_does_not_is_sick() {
    let alive = [200, 204, 301, 400, 401, 403, 404, 405, 429].map(Reply::status);
    let endless = Reply::text("x".repeat(4 << 20));
    for reply in alive.into_iter().chain([endless]) {
        assert_eq!(found(reply.clone(), Door::Open), Some(true), "{reply:?}");
    }
    let broken = [500, 501, 502, 503, 529].map(Reply::status);
    let cut = [How::Fin, How::Rst, How::Hang].map(|how| Reply::text("xyz").cut(At::Bytes(1), how));
    let silent = [Reply::hang(), Reply::reset(), Reply::close()];
    for reply in broken.into_iter().chain(cut).chain(silent) {
        assert_eq!(found(reply.clone(), Door::Open), Some(false), "{reply:?}");
    }
    for door in [Door::Refuse, Door::Hang] {
        assert_eq!(found(Reply::status(200), door), Some(false), "{door:?}");
    }
}

#[test]
fn a_probe_that_the_gateway_cannot_make_finds_nothing() {
    assert_eq!(found(Reply::status(200), Door::Lacking(24)), None, "nothing was asked");
}

/// What is found of a host that behaves so for half a minute.
fn found(reply: Reply, door: Door) -> Option<bool> {
    story(async {
        let stage = Stage::set(&alone("10s"));
        let a = stage.host("a", reply);
        a.set_door(door);
        stage.probe();
        seconds(30).await;
        assert_eq!(a.connections_open(), 0, "nothing is left open");
        health(&stage, "a")
    })
}

#[test]
fn a_key_goes_to_its_own_provider_alone_and_nothing_of_a_caller_goes_with_it() {
    story(async {
        let stage = Stage::set(CONFIG);
        let [a, b] = ["a", "b"].map(|name| stage.host(name, pleasant()));
        stage.probe();
        seconds(20).await;
        let written = |host: &Host| {
            let mut heads: Vec<Vec<(String, String)>> = Vec::new();
            for call in host.calls() {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                let mut head: Vec<_> =
                    call.request.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
                head.sort();
                assert!(call.request.body.is_empty());
                if !heads.contains(&head) {
                    heads.push(head);
                }
            }
            heads
        };
        let version = concat!("mai-gateway/", env!("CARGO_PKG_VERSION"));
        let head = |own: &[(&str, &str)]| {
            let common =
                [("accept", "application/json, */*"), ("accept-encoding", "identity"), ("user-agent", version)];
            let mut head: Vec<_> =
                common.iter().chain(own).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            head.sort();
            vec![head]
        };
        assert_eq!(written(&a), head(&[("host", "a"), ("authorization", "Bearer sk-a-secret"), ("x-team", "rag")]));
        assert_eq!(written(&b), head(&[("host", "b"), ("authorization", "Bearer sk-b-secret")]));
    });
}

#[test]
fn no_two_probes_of_a_provider_are_under_way_at_once() {
    story(async {
        let stage = Stage::set(&alone("1s"));
        let a = stage.host("a", Reply::hang());
        stage.probe();
        seconds(20).await;
        assert!((18..=20).contains(&a.calls().len()), "{}", a.calls().len());
        for pair in a.calls().windows(2) {
            assert!(pair[0].ended_at.is_some_and(|ended| ended <= pair[1].at), "{pair:?}");
        }
        assert_eq!(a.most_in_flight(), 1);
    });
}

#[test]
fn reloads_begin_change_and_end_probing() {
    story(async {
        let stage = Stage::set(&alone("10s").replace("health: { every: 10s }, ", ""));
        let [a, b] = ["a", "b"].map(|name| stage.host(name, Reply::status(500)));
        stage.probe();
        seconds(60).await;
        assert_eq!((a.calls().len(), health(&stage, "a")), (0, None));
        stage.reload(&alone("1h"));
        seconds(60).await;
        assert_eq!(a.calls().len(), 0, "the first probe falls anywhere within the hour");
        stage.reload(&alone("10s"));
        seconds(30).await;
        assert_eq!(health(&stage, "a"), Some(false), "a shorter distance holds at once");
        stage.reload(&alone("10s").replace("http://a", "http://b"));
        b.has_calls(1).await;
        seconds(1).await;
        assert_eq!(health(&stage, "a"), Some(true), "another address begins anew");
        let so_far = (a.calls().len(), b.calls().len());
        stage.reload(&alone("10s").replace("health: { every: 10s }, ", ""));
        seconds(60).await;
        assert_eq!((a.calls().len(), b.calls().len()), so_far);
        assert_eq!(health(&stage, "a"), None, "nothing is known of what is not asked");
    });
}

#[test]
fn what_a_probe_finds_after_a_reload_to_another_address_is_not_held_against_that() {
    story(async {
        let stage = Stage::set(&alone("10s"));
        let a = stage.host("a", Reply::hang());
        stage.host("b", pleasant());
        stage.probe();
        a.has_calls(2).await;
        stage.reload(&alone("10s").replace("http://a", "http://b"));
        seconds(6).await;
        assert_eq!(a.calls().len(), 2);
        assert_eq!(health(&stage, "a"), Some(true));
    });
}

#[test]
fn a_reload_that_leaves_a_provider_alone_keeps_its_verdict() {
    story(async {
        let stage = Stage::set(&alone("10s"));
        let a = stage.host("a", Reply::status(503));
        stage.probe();
        for _ in 0..4 {
            seconds(7).await;
            stage.reload(&alone("10s"));
        }
        assert_eq!(health(&stage, "a"), Some(false));
        assert_eq!(a.calls().len(), 3, "{:?}", paths(&a));
    });
}

#[test]
fn probes_never_delay_calls_nor_calls_probes() {
    story(async {
        let stage = Stage::set(&alone("10s"));
        let answer = Reply::say(["hello"]).after(Duration::from_secs(4));
        let a = stage.host(
            "a",
            Script::by(move |request| if request.method == "GET" { Reply::hang() } else { Reply::say(["hello"]) }),
        );
        stage.probe();
        a.has_calls(1).await;
        // The provider has a place for one connection, and a probe hangs.
        let began = Clock.now();
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "hello");
        assert!(Clock.now().duration_since(began) < Duration::from_millis(5));
        a.play(Script::by(move |request| if request.method == "GET" { Reply::status(200) } else { answer.clone() }));
        let mut caller = stage.caller();
        for _ in 0..10 {
            // The one place is taken all the time.
            assert_eq!(caller.ask(&chat("chat").user("Hi").key(KEY)).await.said(), "hello");
            assert_ne!(health(&stage, "a"), Some(false));
        }
        assert_eq!(health(&stage, "a"), Some(true));
    });
}

#[test]
fn calls_leave_a_hung_provider_alone_before_any_of_them_has_waited_and_come_back_without_a_trial() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::hang());
        let c = stage.host("c", Reply::say(["from c"]));
        stage.host("b", pleasant());
        stage.probe();
        seconds(30).await;
        let began = Clock.now();
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!((answer.said().as_str(), answer.header("x-mai-attempts")), ("from c", Some("1")));
        assert!(Clock.now().duration_since(began) < Duration::from_millis(5));
        assert_eq!(stage.metric("mai_breaker_state{upstream=\"a/m\"}"), 2.0);
        // However long it hangs, no call is spent on finding that out.
        seconds(600).await;
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from c");
        assert!(a.calls().iter().all(|call| call.request.method == "GET"), "{:?}", paths(&a));
        a.play(Reply::say(["from a"]));
        // Until `hold` is over, the next probe has stood for the trial, and its share has grown back.
        seconds(120).await;
        let before = c.calls().len();
        for _ in 0..20 {
            assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "from a");
        }
        assert_eq!((c.calls().len(), stage.metric("mai_breaker_state{upstream=\"a/m\"}")), (before, 0.0));
    });
}

#[test]
fn what_turns_is_told_once_with_its_reason_and_without_the_key() {
    let told = Told::default();
    // Where there is but one listener, tracing asks the thread that comes first whether it listens.
    let _second = tracing::Dispatch::new(Told::default());
    let listening = tracing::subscriber::set_default(told.clone());
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::status(503));
        stage.host("b", pleasant());
        stage.probe();
        seconds(120).await;
        a.play(pleasant());
        seconds(120).await;
    });
    drop(listening);
    let told = told.text();
    for (line, count) in [
        ("message=the provider's health probes fail", 1),
        ("reason=status 503", 1),
        ("message=the provider answers its health probes again", 1),
        ("sk-a-secret", 0),
    ] {
        assert_eq!(told.matches(line).count(), count, "{line} in {told}");
    }
}
