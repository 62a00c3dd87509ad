//! Limits over real sockets: what a refusal says, and who passes whom.

use std::time::Duration;

use crate::process::{Gateway, KEY, chat, upstream, usual};

const NIGHT: &str = "sk-night-0c4b77e1d9";
const DAY: &str = "sk-day-63a2f0b58c";

/// The usual gateway with a limit of its client and of the chat route, a batch client and an online one.
fn limited(url: &str, client: &str, route: &str) -> String {
    let app = format!("  - {{ name: app, keys: [{KEY}], routes: [\"*\"]");
    let more = format!(
        "  - {{ name: night, keys: [{NIGHT}], routes: [\"*\"], priority: batch }}\n  - {{ name: day, keys: [{DAY}], routes: [\"*\"] }}\n"
    );
    usual(url)
        .replace(&app, &format!("{more}{app}, limit: {client}"))
        .replace("  - { name: chat,", &format!("  - {{ name: chat, limit: {route},"))
}

#[tokio::test]
async fn a_refusal_names_the_limit_tells_what_is_left_and_when_to_come_back() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&limited(&up.url(), "{ qps: 0.5, tokens_per_minute: 100000 }", "{ qps: 1000 }")).await;
    let mut caller = gateway.caller().await;
    let first = caller.ask(&chat()).await;
    let header = |name| first.header(name).unwrap_or_default().to_owned();
    assert_eq!(first.status, 200);
    assert_eq!(
        (header("x-ratelimit-limit-requests"), header("x-ratelimit-remaining-requests")),
        ("1".into(), "0".into())
    );
    assert_eq!(
        (header("x-ratelimit-reset-requests"), header("x-ratelimit-limit-tokens")),
        ("2s".into(), "100000".into())
    );
    let left: u64 = header("x-ratelimit-remaining-tokens").parse().unwrap();
    assert!((99_000..100_000).contains(&left), "{left}");
    let refused = caller.ask(&chat()).await;
    let asked = base::Clock.now();
    assert_eq!((refused.status, refused.code().as_deref()), (429, Some("rate_limit_exceeded")));
    assert!(refused.text().contains("client `app`: 0.5 requests per second"), "{}", refused.text());
    assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), (Some("2"), None));
    assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"));
    tokio::time::sleep_until((asked + Duration::from_secs(2)).into()).await;
    assert_eq!(caller.ask(&chat()).await.status, 200, "who waits as told is let in");
    gateway.metric_is("mai_rejected_total", "policy_limited", 1.0).await;
}

#[tokio::test]
async fn an_online_call_passes_batch_calls_that_wait() {
    let up = upstream("rules: [{ reply: { latency: 1s } }]").await;
    let gateway = Gateway::serve(&limited(&up.url(), "{ qps: 1000 }", "{ concurrency: 2 }")).await;
    let call = || testkit::chat("chat").user("Hi");
    let mut night = Vec::new();
    for _ in 0..3 {
        let mut caller = gateway.caller().await;
        caller.begin(&call().key(NIGHT)).await;
        night.push(caller);
    }
    gateway.metric_is("mai_queue_depth", "priority=\"batch\",route=\"chat\"", 2.0).await;
    let day = gateway.ask(&call().key(DAY)).await;
    assert_eq!((day.status, day.header("x-mai-queue-ms")), (200, None), "{}", day.text());
    let mut waits = Vec::new();
    for caller in &mut night {
        let answer = caller.answer().await.unwrap();
        assert_eq!(answer.status, 200);
        waits.push(answer.header("x-mai-queue-ms").map_or(0_u64, |millis| millis.parse().unwrap()));
    }
    waits.sort_unstable();
    assert!(waits[0] == 0 && waits[2] >= 1000, "one after the other, while online has had the other place: {waits:?}");
}
