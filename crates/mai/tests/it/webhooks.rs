//! Webhooks over real sockets: what the binary tells, and that neither address nor secret is in its log.

use testkit::{Scenario, get};

use crate::process::{Gateway, KEY, chat, until, upstream, usual};

const PATH: &str = "/services/T0PATH/B0TOKEN-5d1f";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The usual gateway, whose client has a quota that the first call comes to a share of, and two webhooks.
fn config(up: &str, hook: &str, broken: &str) -> String {
    let config = usual(up)
        .replace(&format!("keys: [{KEY}]"), &format!("keys: [{KEY}], quota: {{ tokens: 100000, warn: [0.00001] }}"));
    format!(
        "log_level: debug\nwebhooks:\n  - {{ name: pager, url: \"{hook}{PATH}\", secret: {SECRET} }}\n  \
         - {{ url: \"{broken}{PATH}\", secret: {SECRET} }}\n{config}"
    )
}

#[tokio::test]
async fn a_share_of_a_quota_is_told_and_the_log_holds_neither_path_nor_secret() {
    let (up, hook, broken) = (upstream("").await, upstream("").await, upstream("").await);
    hook.mock().play(Scenario::read("rules: [{ reply: { text: thanks } }]").unwrap());
    broken.mock().play(Scenario::read("rules: [{ reply: { status: 410, text: gone } }]").unwrap());
    let gateway = Gateway::serve(&config(&up.url(), &hook.url(), &broken.url())).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let result = |hook: &str, result: &str| format!("event=\"quota.warning\",hook=\"{hook}\",result=\"{result}\"");
    gateway.metric_is("mai_webhook_deliveries_total", &result("pager", "delivered"), 1.0).await;
    gateway.metric_is("mai_webhook_deliveries_total", &result("1", "refused"), 1.0).await;
    let call = &hook.log().calls()[0];
    assert_eq!((&*call.request.path, call.request.field("type")), (PATH, Some(&"quota.warning".into())));
    assert!(call.request.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    let ready = gateway.ask_admin(&get("/readyz")).await;
    let hooks = ready.json()["webhooks"].clone();
    assert_eq!((&hooks[0]["name"], &hooks[0]["status"]), (&"pager".into(), &"ok".into()));
    assert_eq!((&hooks[1]["name"], &hooks[1]["why"]), (&"1".into(), &"status 410".into()));
    until("the log tells of it", || gateway.process.err.has("status 410")).await;
    let log = format!("{}{}{}", gateway.process.err.text(), gateway.process.out.text(), ready.text());
    for secret in [PATH, "B0TOKEN", SECRET, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
