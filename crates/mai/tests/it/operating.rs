//! The commands of operators against a gateway that runs.

use serde_json::Value;

use crate::process::{ADMIN, Gateway, Ran, VIEWER, chat, program, run, upstream, usual};

/// Runs a command against that gateway, with a variable of its own.
async fn with_token(gateway: &Gateway, token: &str, words: &[&str]) -> Ran {
    let mut command = program();
    command.args(words).args(["--admin", &format!("http://{}", gateway.admin)]).current_dir(gateway.dir.path("."));
    command.env("MAI_ADMIN_TOKEN", token).env("QPS", "7");
    tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
}

/// The same, and it does well.
async fn done(gateway: &Gateway, words: &[&str]) -> String {
    let ran = with_token(gateway, ADMIN, words).await;
    assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.out, ran.err);
    ran.out
}

/// The same, and it is refused.
async fn refused(gateway: &Gateway, words: &[&str]) -> String {
    let ran = with_token(gateway, ADMIN, words).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{words:?}: {}", ran.err);
    ran.err
}

#[tokio::test]
async fn a_route_is_made_looked_at_changed_and_removed_while_the_gateway_runs() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let route = "name: summary\nupstreams:\n- { provider: up, model: m }\nlimit: { qps: \"${QPS}\" }\n";
    gateway.dir.write("summary.yaml", route);
    let ask = || testkit::chat("summary").user("Hi").key(crate::process::KEY);
    let dry = done(&gateway, &["routes", "put", "summary.yaml", "--dry-run"]).await;
    assert!(dry.contains("\n+  qps: 7\n") && dry.contains("nothing was changed"), "{dry}");
    assert_eq!(gateway.ask(&ask()).await.status, 404);
    let made = done(&gateway, &["routes", "put", "summary.yaml"]).await;
    assert!(made.ends_with("routes/summary created\n"), "{made}");
    assert_eq!(gateway.ask(&ask()).await.status, 200);
    let list = done(&gateway, &["routes", "list"]).await;
    assert!(list.contains("gateway.yaml:") && list.contains("up/m"), "{list}");

    let shown = done(&gateway, &["routes", "show", "summary"]).await;
    gateway.dir.write("changed.yaml", shown.replace("qps: 7", "qps: 8"));
    let changed = done(&gateway, &["routes", "put", "changed.yaml"]).await;
    assert!(changed.contains("-  qps: 7\n+  qps: 8\n") && changed.contains("routes/summary replaced"), "{changed}");
    gateway.dir.write("wrong.yaml", "name: summary\nupstreams: [{ provider: pu, model: m }]\n");
    let wrong = refused(&gateway, &["routes", "put", "wrong.yaml"]).await;
    assert!(wrong.contains("answers 422") && wrong.contains("routes[summary]"), "{wrong}");
    gateway.dir.write("file.yaml", "name: chat\nupstreams: [{ provider: up, model: m }]\n");
    let in_file = refused(&gateway, &["routes", "put", "file.yaml"]).await;
    assert!(in_file.contains("answers 409") && in_file.contains("gateway.yaml:"), "{in_file}");
    let viewer = with_token(&gateway, VIEWER, &["routes", "delete", "summary"]).await;
    assert!(viewer.code == 1 && viewer.err.contains("answers 403"), "{}", viewer.err);

    done(&gateway, &["routes", "delete", "summary"]).await;
    assert_eq!(gateway.ask(&ask()).await.status, 404);
    let audit = done(&gateway, &["audit", "--object", "routes/summary"]).await;
    assert!(audit.contains("limit.qps: 7 → 8") && audit.lines().count() == 4, "{audit}");
    assert!(audit.lines().nth(1).unwrap().contains("delete"), "the newest is first: {audit}");
}

#[tokio::test]
async fn what_one_gateway_exports_another_imports() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let exported = done(&gateway, &["export"]).await;
    assert!(!exported.contains(crate::process::PROVIDER_KEY), "{exported}");
    let other = Gateway::serve("admin: { tokens: [{ name: root, role: admin, token: adm-token-5be1f08d }] }\n").await;
    let name = exported.lines().find_map(|line| line.strip_prefix("# Set these variables before: ")).unwrap();
    other.dir.write("all.yaml", exported.replace(&format!("${{{name}}}"), "sk-other"));
    let dry = done(&other, &["import", "all.yaml", "--dry-run"]).await;
    assert!(dry.contains("routes/chat would be created"), "{dry}");
    let made = done(&other, &["import", "all.yaml"]).await;
    for name in ["providers/up created", "routes/chat created", "clients/app created"] {
        assert!(made.contains(name), "{made}");
    }
    let told: Value = serde_json::from_str(&done(&other, &["routes", "list", "--json"]).await).unwrap();
    assert_eq!((told["data"].as_array().unwrap().len(), &told["data"][0]["managed_by"]), (3, &"admin".into()));
    let again = refused(&other, &["import", "all.yaml"]).await;
    assert!(again.contains("answers 409"), "{again}");
    done(&other, &["import", "all.yaml", "--replace"]).await;
}

#[tokio::test]
async fn what_is_cached_is_counted_and_purged() {
    let up = upstream("").await;
    let cached = usual(&up.url()).replacen(
        "upstreams: [{ provider: up, model: m }]",
        "cache: { mode: exact }, upstreams: [{ provider: up, model: m }]",
        1,
    );
    let gateway = Gateway::serve(&cached).await;
    assert_eq!(gateway.ask(&chat()).await.header("x-mai-cache"), Some("miss"));
    gateway.metric_is("mai_cache_entries", "disk", 1.0).await;
    let purge = ["cache", "purge", "--route", "chat"];
    assert_eq!(done(&gateway, &[&purge[..], &["--dry-run"]].concat()).await, "1 entry would be purged; nothing was\n");
    let stats = done(&gateway, &["cache", "stats"]).await;
    assert!(stats.contains("chat   answer") && stats.contains("exact"), "{stats}");
    assert_eq!(done(&gateway, &purge).await, "1 entry purged\n");
    done(&gateway, &["cache", "kb-version", "chat", "2026-12"]).await;
    assert_eq!(done(&gateway, &["cache", "kb-version", "chat"]).await, "2026-12 (set by an operator)\n");
    done(&gateway, &["cache", "kb-version", "chat", "--unset"]).await;
    assert_eq!(done(&gateway, &["cache", "kb-version", "chat"]).await, "none is set\n");
}

#[tokio::test]
async fn an_upstream_is_taken_out_and_brought_back_by_hand() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url()).replacen("admin:", "drills: enabled\nadmin:", 1)).await;
    let held = done(&gateway, &["breakers", "open", "up/m", "--for", "30m"]).await;
    assert!(held.starts_with("up/m takes no calls on chat until 20"), "{held}");
    let list = done(&gateway, &["breakers", "list"]).await;
    let line = list.lines().find(|line| line.contains("up/m")).unwrap();
    assert!(line.contains("open") && line.contains("by hand, ends in 29 min"), "{list}");
    assert_eq!(gateway.ask(&chat()).await.status, 503);
    assert_eq!(done(&gateway, &["breakers", "close", "up/m"]).await, "up/m takes calls on chat\n");
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let unknown = refused(&gateway, &["breakers", "open", "up/none"]).await;
    assert!(unknown.contains("answers 404"), "{unknown}");

    let words = ["drills", "start", "up/m", "--status", "429", "--percent", "100", "--for", "5m", "--json"];
    let drill: Value = serde_json::from_str(&done(&gateway, &words).await).unwrap();
    let list = done(&gateway, &["drills", "list"]).await;
    assert!(list.contains("status 429") && list.contains("in 4 min"), "{list}");
    assert_ne!(gateway.ask(&chat()).await.status, 200);
    done(&gateway, &["drills", "stop", drill["id"].as_str().unwrap()]).await;
    assert!(done(&gateway, &["drills", "list"]).await.contains("no drill is on"));
    let audit = done(&gateway, &["audit", "--limit", "1"]).await;
    assert!(audit.contains("drills"), "{audit}");
}

#[tokio::test]
async fn a_request_is_found_and_told_by_its_id() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let answer = gateway.ask(&chat()).await;
    let id = answer.header("x-request-id").unwrap();
    let list = done(&gateway, &["requests", "list", "--client", "app", "--status", "2xx", "--since", "1h"]).await;
    assert!(list.lines().nth(1).is_some_and(|line| line.contains(id) && line.contains("up/m")), "{list}");
    let story = done(&gateway, &["requests", "show", id]).await;
    assert!(story.contains("client app, route chat") && story.contains("asked up/m: ok (200)"), "{story}");
    assert!(story.lines().last().unwrap().ends_with("ended: 200 ok"), "{story}");
    let none = refused(&gateway, &["requests", "show", "nobody"]).await;
    assert!(none.contains("answers 404"), "{none}");
}
