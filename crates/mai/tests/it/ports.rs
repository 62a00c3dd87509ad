//! Two ports: what is where, and who may do what.

use testkit::get;

use crate::process::{ADMIN, Gateway, KEY, VIEWER, chat, reload, upstream, usual};

#[tokio::test]
async fn nothing_of_the_admin_port_is_on_the_data_port() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for path in [
        "/metrics",
        "/admin/v1/reload",
        "/admin/v1/config",
        "/admin",
        "/",
        "/v1/metrics",
        "//metrics",
        "/metrics/",
        "/admin/v1/openapi.json",
        "/%6detrics",
        "/v1/../metrics",
        "/healthz/../metrics",
    ] {
        for ask in [get(path), get(path).method("POST")] {
            let answer = gateway.ask(&ask.key(ADMIN)).await;
            assert_eq!((answer.status, answer.code().as_deref()), (404, Some("not_found")), "{path}");
            assert!(answer.header("x-request-id").is_some());
        }
    }
    let answer = gateway.ask(&get("http://127.0.0.1/metrics")).await;
    assert_eq!(answer.status, 404, "an absolute form leads nowhere else");
    for path in ["/v1/chat/completions", "/v1/models"] {
        assert_eq!(gateway.ask_admin(&get(path).key(KEY)).await.status, 404, "no calls on the admin port");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(gateway.ask(&get(path)).await.status, 200);
        assert_eq!(gateway.ask_admin(&get(path)).await.status, 200);
        assert_eq!(gateway.ask_admin(&get(path).method("DELETE")).await.status, 405);
    }
    assert!(!gateway.ask(&get("/readyz")).await.text().contains("up"), "the data port tells no names");
}

#[tokio::test]
async fn metrics_are_prometheus_text_with_configured_labels_alone() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    for word in ["no-such-model", "a\"b\nc\\", "模型"] {
        assert_eq!(gateway.ask(&testkit::chat(word).user("Hi").key(KEY)).await.status, 404);
        assert_eq!(gateway.ask(&testkit::chat("chat").user("Hi").key("sk-wrong")).await.status, 401);
    }
    let answer = gateway.ask_admin(&get("/metrics")).await;
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = answer.text();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(
                comment.starts_with("HELP mai_") || comment.starts_with("TYPE mai_") || comment.contains("process_"),
                "{line}"
            );
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect(line);
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) = series.split_once('{').map_or((series, None), |(name, rest)| (name, Some(rest)));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
        assert!(labels.is_none_or(|labels| labels.ends_with('}')), "{line}");
    }
    for word in ["no-such-model", "模型", "sk-"] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(gateway.metric("mai_requests_total", "client=\"unknown\"").await >= 3.0);
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
}

#[tokio::test]
async fn a_reload_wants_a_token_of_sufficient_role() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let expect = async |ask, status: u16, code: Option<&str>| {
        let answer = gateway.ask_admin(&ask).await;
        assert_eq!((answer.status, answer.code().as_deref()), (status, code), "{}", answer.text());
    };
    expect(get("/admin/v1/reload").method("POST"), 401, Some("invalid_token")).await;
    expect(reload("wrong"), 401, Some("invalid_token")).await;
    expect(reload(""), 401, Some("invalid_token")).await;
    expect(reload(KEY), 401, Some("invalid_token")).await;
    expect(reload(VIEWER), 403, Some("role_not_allowed")).await;
    expect(get("/admin/v1/reload").key(ADMIN), 405, Some("method_not_allowed")).await;
    gateway.reloads(0, 0).await;
    expect(reload(ADMIN), 200, None).await;
    gateway.reloads(1, 0).await;
    gateway.rewrite("routes: 7\n");
    expect(reload(ADMIN), 422, Some("invalid_config")).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200, "the old configuration keeps serving");
}

#[tokio::test]
async fn reloads_at_the_same_time_are_all_answered() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut asked = Vec::new();
    for _ in 0..20 {
        let mut caller = testkit::Caller::on(tokio::net::TcpStream::connect(gateway.admin).await.unwrap());
        caller.begin(&reload(ADMIN)).await;
        asked.push(caller);
    }
    for mut caller in asked {
        assert_eq!(crate::process::soon("an answer", caller.answer()).await.unwrap().status, 200);
    }
    gateway.reloads(20, 0).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
}

#[tokio::test]
async fn it_listens_on_ipv6_too() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let up = upstream("").await;
    let dir = crate::process::Dir::new();
    let path = dir.write("gateway.yaml", usual(&up.url()));
    let mut command = crate::process::program();
    command.arg("serve").arg("-c").arg(path).args(["--listen", "[::1]:0", "--admin-listen", "[::1]:0"]);
    let gateway = Gateway::start(dir, &mut command).await;
    assert!(gateway.data.is_ipv6() && gateway.admin.is_ipv6());
    assert_eq!(gateway.ask(&chat()).await.status, 200);
}
