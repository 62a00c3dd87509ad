//! Upstreams by name, and names that lead nowhere.

use crate::process::{Gateway, chat, upstream, usual};

#[tokio::test]
async fn an_upstream_by_name_is_found() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&format!("http://localhost:{}", up.addr().port()))).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let host = format!("localhost:{}", up.addr().port());
    assert_eq!(up.log().calls()[0].request.header("host"), Some(host.as_str()));
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_failed_over_and_never_told() {
    let up = upstream("").await;
    let config = usual(&up.url());
    let lost = "  - { name: lost, protocol: openai, base_url: \"http://no-such-host.invalid:8000/v1\", api_key: sk-lost-001 }\n";
    let both = config.replace("routes:\n", &format!("{lost}routes:\n")).replace(
        "name: chat, match: { path: /v1/chat/completions }, upstreams: [",
        "name: chat, match: { path: /v1/chat/completions }, upstreams: [{ provider: lost, model: m }, ",
    );
    let gateway = Gateway::serve(&both).await;
    let answer = gateway.ask(&chat()).await;
    assert_eq!((answer.status, answer.header("x-mai-upstream")), (200, Some("up/m")), "{}", answer.text());
    drop(gateway);

    let alone = both.replace(", { provider: up, model: m }]", "]").replace("name: chat,", "name: chat, deadline: 3s,");
    let gateway = Gateway::serve(&alone).await;
    for ask in [chat(), chat().stream()] {
        let answer = gateway.ask(&ask).await;
        assert!(matches!(answer.status, 502 | 504), "{}", answer.text());
        assert!(!answer.text().contains("no-such-host") && !answer.text().contains("8000"), "{}", answer.text());
        assert!(!answer.text().contains("sk-lost"));
    }
}
