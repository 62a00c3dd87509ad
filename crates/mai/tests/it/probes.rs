//! Health probes of the running program.

use testkit::{Reply, Script};

use crate::process::{Gateway, upstream, usual};

#[tokio::test]
async fn a_provider_with_health_is_asked_whether_anybody_calls_it_or_not() {
    let up = upstream("").await;
    let config = usual(&up.url()).replace("protocol: openai,", "protocol: openai, health: { every: 1s },");
    let gateway = Gateway::serve(&config).await;
    gateway.metric_is("mai_upstream_healthy", "\"up\"", 1.0).await;
    assert_eq!(up.log().calls()[0].request.path, "/v1/models");
    up.mock().play(Script::always(Reply::status(500)).into());
    gateway.metric_is("mai_upstream_healthy", "\"up\"", 0.0).await;
    assert!(gateway.process.err.has("the provider's health probes fail"), "{}", gateway.process.err.text());
}
