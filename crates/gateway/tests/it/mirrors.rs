//! Copies of calls: what they carry, what they can do to nobody, and how many there are.

use std::time::Duration;

use base::Clock;
use testkit::{Answer, Ask, Door, End, How, Reply, Scenario, chat, embeddings, story};

use crate::stage::{KEY, Stage, begun, millis, pleasant};

/// Calls go to `a`, and some of them are copied to `m`, which is tried last.
fn config(mirror: &str) -> String {
    format!(
        r#"
providers:
  - {{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }}
  - {{ name: m, base_url: "http://m/v1", api_key: sk-m-secret, headers: {{ x-team: rag }} }}
routes:
  - name: chat
    upstreams: [{{ provider: a, model: model-a }}, {{ provider: m, model: model-m, tier: 1 }}]
    retry: {{ server_error: [], throttled: [] }}
    mirror: {{ to: m{mirror} }}
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: e }}, {{ provider: m, model: e, tier: 1 }}]
    retry: {{ server_error: [], throttled: [] }}
    mirror: {{ to: m{mirror} }}
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

fn all() -> Stage {
    Stage::set(&config(""))
}

fn ask() -> Ask {
    chat("chat").user("Hi")
}

fn mirrored(stage: &Stage, outcome: &str) -> f64 {
    stage.metric(&format!("mai_mirrored_total{{outcome=\"{outcome}\",route=\"chat\",upstream=\"m/model-m\"}}"))
}

/// The answer is `a`'s, at once and without a trace of any copy.
fn is_untouched(answer: &Answer, began: std::time::Instant) {
    assert_eq!((answer.status, answer.header("x-mai-upstream")), (200, Some("a/model-a")), "{}", answer.text());
    assert_eq!(answer.header("x-mai-attempts"), Some("1"));
    assert!(Clock.now() - began < Duration::from_millis(60), "no later than without");
}

#[test]
fn a_copy_asks_the_same_of_another_model_with_that_ones_key_alone() {
    story(async {
        let stage = all();
        let [a, m] = ["a", "m"].map(|name| stage.host(name, pleasant()));
        let ask = ask()
            .with("temperature", 0.5)
            .header("x-request-id", "r-1")
            .header("cookie", "session=1")
            .header("x-mai-tag", "eval")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        stage.ask(ask).await;
        m.has_calls(1).await;
        let (call, copy) = (a.calls()[0].request.clone(), m.calls()[0].request.clone());
        assert_eq!((copy.model(), copy.field("messages")), ("model-m", call.field("messages")));
        assert_eq!(copy.field("temperature"), call.field("temperature"));
        assert_eq!(copy.header("authorization"), Some("Bearer sk-m-secret"));
        for name in ["x-request-id", "traceparent"] {
            assert_eq!(copy.header(name), call.header(name), "{name}");
        }
        for (name, value) in &copy.headers {
            let value = String::from_utf8_lossy(value);
            assert!(!value.contains(KEY) && !value.contains("sk-a-secret"), "{name}: {value}");
            assert!(!matches!(name.as_str(), "cookie" | "x-mai-tag" | "api-key"), "{name}");
        }
    });
}

#[test]
fn a_copy_never_delays_fails_or_bills_a_call() {
    let long = Reply::sse(vec![crate::chunks::delta("x"); 2000]).every(Duration::from_millis(50));
    let replies = [
        (Reply::hang(), Door::Open, ""),
        (Reply::hang(), Door::Hang, ""),
        (Reply::default(), Door::Refuse, "connect_error"),
        (Reply::default(), Door::Lacking(24), "gateway_overloaded"),
        (Reply::status(500), Door::Open, "status"),
        (Reply::status(400), Door::Open, "refused"),
        (Reply::status(401), Door::Open, "credential"),
        (Reply::status(429).header("retry-after", "60"), Door::Open, "throttled"),
        (Reply::json(serde_json::json!("no")), Door::Open, "bad_response"),
        (long, Door::Open, ""),
        (Reply::say(["fine"]), Door::Open, "ok"),
    ];
    for (reply, door, outcome) in replies {
        story(async {
            let stage = all();
            stage.host(
                "a",
                Reply::say(["from a"])
                    .usage(serde_json::json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14})),
            );
            let m = stage.host("m", reply.clone());
            m.set_door(door);
            for number in 1..=10 {
                let streaming = number % 2 == 0;
                let began = Clock.now();
                is_untouched(&stage.ask(ask().with("stream", streaming)).await, began);
            }
            millis(50).await;
            if !outcome.is_empty() {
                assert_eq!(mirrored(&stage, outcome), 10.0, "{reply:?}: {}", stage.metrics());
            }
            let log = stage.log();
            assert_eq!(log.len(), 10, "a copy is no request");
            for line in &log {
                assert_eq!(
                    (line["upstream"].as_str(), line["attempts"].as_array().unwrap().len()),
                    (Some("a/model-a"), 1)
                );
                assert_eq!((line["tokens_in"].as_u64(), line["tokens_out"].as_u64()), (Some(11), Some(3)), "{line}");
            }
            let metrics = stage.metrics();
            for untouched in [
                "mai_breaker_state{upstream=\"m/model-m\"} 0",
                "mai_upstream_resting{upstream=\"m/model-m\"} 0",
                "mai_tokens_total{client=\"app\",kind=\"prompt\",route=\"chat\"} 110",
            ] {
                assert!(metrics.lines().any(|line| line == untouched), "{untouched} in {metrics}");
            }
            assert!(!metrics.contains("mai_upstream_attempts_total{outcome=\"status\""), "no try of any call");
            // Nor does its key rest: calls that need it may have it.
            let running = stage.live.running();
            assert!(
                running
                    .snapshot
                    .routes
                    .iter()
                    .all(|route| running.state(route).unwrap().upstreams[1].keys.resting(Clock.now()) == 0)
            );
        });
    }
}

#[test]
fn a_share_of_the_calls_is_copied() {
    story(async {
        let stage = Stage::set(&config(", percent: 25"));
        stage.host("a", pleasant());
        let m = stage.host("m", pleasant());
        for _ in 0..400 {
            stage.ask(ask()).await;
        }
        millis(50).await;
        assert!((70..=130).contains(&m.calls().len()), "{}", m.calls().len());
        assert_eq!(mirrored(&stage, "ok"), m.calls().len() as f64);
    });
}

#[test]
fn a_hung_mirror_holds_so_many_copies_and_no_more_whatever_is_reloaded() {
    story(async {
        let stage = all();
        stage.host("a", pleasant());
        let m = stage.host("m", Reply::hang());
        for _ in 0..50 {
            stage.ask(ask()).await;
        }
        millis(50).await;
        assert_eq!((m.log().in_flight().0, mirrored(&stage, "skipped")), (32, 18.0));
        stage.reload(&config(""));
        for _ in 0..50 {
            let began = Clock.now();
            is_untouched(&stage.ask(ask()).await, began);
        }
        millis(50).await;
        assert_eq!((m.log().in_flight().0, mirrored(&stage, "skipped")), (32, 68.0), "a reload makes no room");
        // Their clock is the route's own for a try.
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert_eq!((m.log().in_flight().0, mirrored(&stage, "timeout")), (0, 32.0), "{}", stage.metrics());
        m.play(pleasant());
        stage.ask(ask()).await;
        millis(50).await;
        assert_eq!(mirrored(&stage, "ok"), 1.0);
    });
}

#[test]
fn a_copy_of_a_stream_is_read_to_its_end_though_its_caller_has_long_gone() {
    story(async {
        let stage = all();
        stage.host("a", Reply::say(["short"]));
        let m = stage.host("m", Reply::say(["w"; 10]).every(Duration::from_secs(1)));
        let mut caller = stage.caller();
        caller.ask(&ask().stream().key(KEY)).await;
        drop(caller);
        assert_eq!(m.ending_of(1).await, End::Answered);
        millis(50).await;
        assert_eq!(mirrored(&stage, "ok"), 1.0);
        // What breaks off is counted so, what falls silent is let go.
        m.play(Reply::say(["w"; 10]).cut(testkit::At::Events(3), How::Rst));
        stage.ask(ask().stream()).await;
        m.play(Reply::say(["w"; 10]).cut(testkit::At::Events(3), How::Hang));
        stage.ask(ask().stream()).await;
        tokio::time::sleep(Duration::from_secs(16)).await;
        assert_eq!((mirrored(&stage, "reset"), mirrored(&stage, "stream_timeout")), (1.0, 1.0), "{}", stage.metrics());
        assert_eq!(m.log().in_flight().0, 0);
    });
}

#[test]
fn what_must_not_run_twice_is_not_copied_and_what_may_is() {
    story(async {
        let stage = all();
        stage.host("a", pleasant());
        let m = stage.host("m", pleasant());
        let marked = |ask: Ask| ask.header("x-mai-side-effects", "true");
        for ask in [marked(ask()), marked(ask().stream())] {
            assert_eq!(stage.ask(ask).await.status, 200);
        }
        millis(50).await;
        assert_eq!((m.calls().len(), mirrored(&stage, "skipped")), (0, 0.0));
        assert_eq!(stage.ask(marked(embeddings("embedding", "abc"))).await.status, 200);
        m.has_calls(1).await;
        assert_eq!(m.calls()[0].request.path, "/v1/embeddings");
    });
}

#[test]
fn copies_hold_up_no_end_of_the_gateway() {
    story(async {
        let stage = all();
        stage.host("a", pleasant());
        let m = stage.host("m", Reply::hang());
        stage.ask(ask()).await;
        m.has_calls(1).await;
        stage.live.drain();
        assert_eq!(stage.live.requests(), 0, "nothing is waited for");
        stage.comes_to_rest().await;
        assert_eq!(stage.ask(ask()).await.status, 503);
        millis(50).await;
        assert_eq!(m.calls().len(), 1);
    });
}

#[test]
fn a_copy_ends_under_the_configuration_it_began_with() {
    story(async {
        let stage = all();
        stage.host("a", pleasant());
        let m = stage.host("m", Reply::say(["late"]).after(Duration::from_secs(3)));
        stage.ask(ask()).await;
        m.has_calls(1).await;
        stage.reload(&config("").replace("mirror: { to: m }", "timeout: 1s"));
        stage.ask(ask()).await;
        assert_eq!(m.ending_of(1).await, End::Answered);
        millis(50).await;
        assert_eq!((m.calls().len(), mirrored(&stage, "ok")), (1, 1.0));
    });
}

#[test]
fn one_that_takes_no_calls_gets_no_copies_and_one_that_comes_back_is_left_to_its_trial() {
    story(async {
        let stage = all();
        let [a, m] = ["a", "m"].map(|name| stage.host(name, pleasant()));
        let running = stage.live.running();
        let route = running.snapshot.routes.iter().find(|route| &*route.name == "chat").unwrap();
        let standing = running.state(route).unwrap().upstreams[1].gate.standing();
        standing.found_sick(Clock.now(), Clock.now());
        for skipped in 1..=40 {
            stage.ask(ask()).await;
            millis(1000).await;
            assert_eq!((m.calls().len(), mirrored(&stage, "skipped")), (0, f64::from(skipped)), "also beyond its hold");
        }
        standing.found_well(Clock.now());
        stage.ask(ask()).await;
        assert_eq!(m.calls().len(), 0, "nor while its share grows");
        tokio::time::sleep(Duration::from_secs(10)).await;
        standing.rests(Clock.now(), Duration::from_secs(5));
        stage.ask(ask()).await;
        assert_eq!(m.calls().len(), 0, "nor at rest");
        tokio::time::sleep(Duration::from_secs(5)).await;
        stage.ask(ask()).await;
        m.has_calls(1).await;
        assert_eq!(a.calls().len(), 43);
    });
}

#[test]
fn copies_take_at_most_half_of_a_providers_connections() {
    for (places, most) in [(1, 0), (2, 1), (3, 1), (8, 4)] {
        story(async {
            let config = config("").replace(
                "api_key: sk-m-secret",
                &format!("api_key: sk-m-secret, pool: {{ max_connections: {places} }}"),
            );
            let stage = Stage::set(&config);
            let a = stage.host("a", pleasant());
            let m = stage.host("m", Scenario::from(testkit::Script::always(Reply::hang())));
            for _ in 0..20 {
                stage.ask(ask()).await;
            }
            millis(50).await;
            assert_eq!(m.log().in_flight().0, most, "of {places}");
            // So a call that fails over finds a place.
            a.play(Reply::status(500));
            let caller = begun(&stage, ask()).await;
            m.has_calls(most + 1).await;
            drop(caller);
        });
    }
}

#[test]
fn copies_take_at_most_half_of_a_providers_places_and_give_them_back() {
    for (places, most) in [(1, 0), (2, 1), (3, 1), (8, 4)] {
        story(async {
            let bounded = format!("api_key: sk-m-secret, concurrency: {{ max: {places} }}");
            let stage = Stage::set(&config("").replace("api_key: sk-m-secret", &bounded));
            let a = stage.host("a", pleasant());
            let m = stage.host("m", Scenario::from(testkit::Script::always(Reply::hang())));
            for _ in 0..20 {
                stage.ask(ask()).await;
            }
            millis(50).await;
            assert_eq!(m.log().in_flight().0, most, "of {places}");
            a.play(Reply::status(500));
            let caller = begun(&stage, ask()).await;
            m.has_calls(most + 1).await;
            drop(caller);
            millis(25_000).await;
            stage.comes_to_rest().await;
            assert_eq!(stage.metric("mai_upstream_concurrency{kind=\"in_use\",provider=\"m\"}"), 0.0);
        });
    }
}
