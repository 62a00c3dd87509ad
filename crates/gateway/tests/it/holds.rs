//! Breakers that operators hold open and close.

use std::time::Duration;

use gateway::live::levers::{BreakerShown, Which};
use gateway::upstream::standing::Shown;
use testkit::{Answer, Ask, Reply, chat, story};

use crate::keys::Told;
use crate::stage::{Stage, pleasant};

/// Two routes over `a` with `b` behind it; each counts failures for itself.
const CONFIG: &str = r#"
providers:
  - { name: a, base_url: "http://a/v1", api_key: sk-a-secret }
  - { name: b, base_url: "http://b/v1", api_key: sk-b-secret }
routes:
  - name: chat
    upstreams: [{ provider: a, model: m }, { provider: b, model: m, tier: 1 }]
    retry: { server_error: [], throttled: [] }
  - name: alone
    upstreams: [{ provider: a, model: m }]
    retry: { server_error: [], throttled: [] }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;

fn stage() -> Stage {
    Stage::set(CONFIG)
}

const EVERYWHERE: Which<'_> = Which { upstream: "a/m", route: None };
const ON_CHAT: Which<'_> = Which { upstream: "a/m", route: Some("chat") };

fn ask(route: &str) -> Ask {
    chat(route).user("Hi")
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn by(answer: &Answer) -> &str {
    answer.header("x-mai-upstream").unwrap_or_default()
}

/// How the breaker of `a` stands on a route.
fn breaker(stage: &Stage, route: &str) -> BreakerShown {
    let all = stage.live.breakers();
    all.into_iter().find(|one| &*one.route == route && &*one.upstream == "a/m").expect("the route has it")
}

#[test]
fn a_held_upstream_is_passed_over_until_it_is_closed_and_then_takes_every_call() {
    let told = Told::default();
    // Where there is but one listener, tracing asks the thread that comes first whether it listens.
    let _second = tracing::Dispatch::new(Told::default());
    let listening = tracing::subscriber::set_default(told.clone());
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        stage.host("b", pleasant());
        assert_eq!(stage.live.hold_open(ON_CHAT, None).len(), 1);
        for _ in 0..10 {
            let answer = stage.ask(ask("chat")).await;
            assert_eq!((by(&answer), answer.header("x-mai-attempts")), ("b/m", Some("1")));
            seconds(600).await;
        }
        assert_eq!(a.calls().len(), 0, "it is held for as long as it takes");
        assert_eq!(by(&stage.ask(ask("alone")).await), "a/m", "the other route's breaker is its own");
        let held = breaker(&stage, "chat");
        assert_eq!((held.shown, held.is_held, held.held_until), (Shown::Open, true, None));
        assert_eq!(stage.metric("mai_breaker_state{upstream=\"a/m\"}"), 2.0);
        assert_eq!(stage.metric("mai_breaker_held{upstream=\"a/m\"}"), 1.0);
        stage.live.close_breakers(ON_CHAT);
        for _ in 0..10 {
            assert_eq!(by(&stage.ask(ask("chat")).await), "a/m", "every call, not a share that grows");
        }
        let closed = breaker(&stage, "chat");
        assert_eq!((closed.shown, closed.is_held), (Shown::Closed, false));
        assert!(closed.since > held.since, "{closed:?} after {held:?}");
        assert_eq!(stage.metric("mai_breaker_held{upstream=\"a/m\"}"), 0.0);
        let turned =
            |state| stage.metric(&format!("mai_breaker_transitions_total{{state=\"{state}\",upstream=\"a/m\"}}"));
        assert_eq!((turned("open"), turned("closed")), (1.0, 1.0));
    });
    drop(listening);
    let told = told.text();
    assert_eq!(told.matches("an operator holds the breaker open").count(), 1, "{told}");
    assert_eq!(told.matches("an operator has closed the breaker").count(), 1, "{told}");
}

#[test]
fn a_lever_without_a_route_is_about_every_route_that_has_the_upstream() {
    story(async {
        let stage = stage();
        stage.host("a", pleasant());
        stage.host("b", pleasant());
        let pulled = stage.live.hold_open(EVERYWHERE, None);
        let routes: Vec<&str> = pulled.iter().map(|one| &*one.route).collect();
        assert_eq!(routes, ["chat", "alone"]);
        let refused = stage.ask(ask("alone")).await;
        assert_eq!((refused.status, refused.code().as_deref()), (503, Some("all_upstreams_unavailable")));
        assert_eq!(refused.header("retry-after"), None, "nobody knows when it will be closed");
        assert!(stage.live.hold_open(Which { upstream: "c/m", route: None }, None).is_empty());
        assert!(stage.live.close_breakers(Which { upstream: "b/m", route: Some("alone") }).is_empty());
    });
}

#[test]
fn a_bounded_hold_says_when_to_come_back_and_ends_with_a_trial() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let held = stage.live.hold_open(EVERYWHERE, Some(Duration::from_secs(600)));
        assert_eq!(held[0].held_until.unwrap() - held[0].since, Duration::from_secs(600));
        seconds(100).await;
        let refused = stage.ask(ask("alone")).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("500")));
        seconds(500).await;
        let over = breaker(&stage, "alone");
        assert_eq!((over.shown, over.is_held, over.held_until), (Shown::HalfOpen, false, None));
        let since_now = over.since.abs_diff(held[0].since);
        assert!(
            since_now < Duration::from_secs(60),
            "half open since now, and the wall clock has stood still meanwhile"
        );
        assert_eq!(stage.ask(ask("alone")).await.status, 200);
        seconds(11).await;
        assert_eq!(breaker(&stage, "alone").shown, Shown::Closed);
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn neither_probes_nor_reloads_undo_a_hold() {
    story(async {
        let probed = CONFIG.replacen("api_key: sk-a-secret", "api_key: sk-a-secret, health: { every: 1s }", 1);
        let stage = Stage::set(&probed);
        let a = stage.host("a", pleasant());
        stage.probe();
        stage.live.hold_open(EVERYWHERE, None);
        seconds(300).await;
        assert!(a.calls().len() > 100, "its probes go on, and are answered");
        stage.reload(CONFIG);
        assert!(breaker(&stage, "chat").is_held);
        stage.reload(&CONFIG.replace("sk-a-secret", "sk-a-other"));
        assert!(breaker(&stage, "chat").is_held, "whoever mends a key has not closed the breaker");
        assert_eq!(stage.ask(ask("alone")).await.status, 503);
    });
}

#[test]
fn closing_ends_an_outage_and_a_rest_at_once() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::status(500));
        for _ in 0..5 {
            stage.ask(ask("alone")).await;
        }
        assert_eq!(breaker(&stage, "alone").shown, Shown::Open);
        a.play(pleasant());
        stage.live.close_breakers(EVERYWHERE);
        assert_eq!(stage.ask(ask("alone")).await.status, 200);
        a.play(Reply::status(429).header("retry-after", "200"));
        assert_eq!(stage.ask(ask("alone")).await.status, 429);
        let resting = breaker(&stage, "alone");
        let now = stage.live.clock.wall();
        let left = resting.resting_until.unwrap().saturating_sub(now);
        assert!((190..=200).contains(&left.as_secs()), "{left:?}");
        a.play(pleasant());
        stage.live.close_breakers(EVERYWHERE);
        assert_eq!(breaker(&stage, "alone").resting_until, None);
        assert_eq!(stage.ask(ask("alone")).await.status, 200);
        // A key that was refused is its provider's: it is tried again too.
        a.play(Reply::status(401));
        assert_eq!(stage.ask(ask("alone")).await.status, 502);
        assert!(breaker(&stage, "alone").resting_until.is_some());
        a.play(pleasant());
        stage.live.close_breakers(EVERYWHERE);
        assert_eq!(stage.ask(ask("alone")).await.status, 200);
    });
}

#[test]
fn what_was_under_way_when_a_breaker_was_closed_does_not_open_it_again() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(5)));
        let mut callers = Vec::new();
        for _ in 0..5 {
            let mut caller = stage.caller();
            caller.begin(&ask("alone").key(crate::stage::KEY)).await;
            callers.push(caller);
        }
        a.has_calls(5).await;
        seconds(1).await;
        stage.live.close_breakers(EVERYWHERE);
        seconds(6).await;
        assert_eq!(breaker(&stage, "alone").shown, Shown::Closed);
    });
}

#[test]
fn a_hold_outlives_a_reload_that_gives_its_upstream_a_name() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        stage.host("b", pleasant());
        stage.live.hold_open(ON_CHAT, None);
        stage.reload(&CONFIG.replacen("[{ provider: a, model: m }", "[{ provider: a, model: m, name: main }", 1));
        assert_eq!((breaker(&stage, "chat").is_held, breaker(&stage, "alone").is_held), (true, false));
        assert_eq!(by(&stage.ask(ask("chat")).await), "b/m");
        assert_eq!(a.calls().len(), 0);
        stage.live.close_breakers(ON_CHAT);
        assert_eq!(by(&stage.ask(ask("chat")).await), "a/m");
        stage.reload(CONFIG);
        assert!(!breaker(&stage, "chat").is_held, "nor does one come back that was closed");
    });
}
