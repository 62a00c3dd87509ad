//! Levers over what is cached, and what of them a restart keeps.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, Ask, get};

use crate::process::{ADMIN, Dir, Gateway, KEY, VIEWER, chat, program, soon, upstream, usual};

fn lever(method: &'static str, path: &str, token: &str, body: &Value) -> Ask {
    get(path).method(method).key(token).body(body.to_string())
}

fn kb_version(route: &str, token: &str, version: &Value) -> Ask {
    lever("PUT", &format!("/admin/v1/cache/routes/{route}/kb-version"), token, &json!({ "kb_version": version }))
}

fn purge(body: &Value) -> Ask {
    lever("POST", "/admin/v1/cache/purge", ADMIN, body)
}

/// What the admin port says of a route's knowledge base: the version, and who has set it.
async fn version_of(gateway: &Gateway, route: &str) -> (Value, Value) {
    let stats = gateway.ask_admin(&get("/admin/v1/cache").key(VIEWER)).await;
    assert_eq!(stats.status, 200, "{}", stats.text());
    let stats = stats.json();
    let routes = stats["routes"].as_array().unwrap();
    let shown = routes.iter().find(|shown| shown["route"] == route).unwrap();
    (shown["kb_version"].clone(), shown["kb_version_from"].clone())
}

fn is_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{}", answer.text());
}

async fn stopped(mut gateway: Gateway) -> Dir {
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await, Some(0));
    gateway.dir
}

#[tokio::test]
async fn a_version_that_is_set_outlives_what_befalls_its_file_while_the_gateway_runs() {
    let up = upstream("").await;
    let file = usual(&up.url()).replace("{ name: chat,", "{ name: chat, cache: { mode: exact, kb_version: \"1\" },");
    let mut gateway = Gateway::serve(&file).await;
    assert_eq!(gateway.ask_admin(&kb_version("chat", ADMIN, &json!("2026-12"))).await.status, 204);
    let harms: [fn(PathBuf) -> std::io::Result<()>; 2] = [std::fs::remove_file, |path| std::fs::write(path, "")];
    for harm in harms {
        harm(gateway.dir.path("data/kb-versions.db")).unwrap();
        // What else is set leaves it in force,
        assert_eq!(gateway.ask_admin(&kb_version("rerank", ADMIN, &json!("7"))).await.status, 204);
        assert_eq!(version_of(&gateway, "chat").await, (json!("2026-12"), json!("admin")));
        let damage = gateway.ask_admin(&get("/readyz")).await.json()["kb_versions"]["damage"].clone();
        assert!(damage["times"] == 1 && damage["what"].as_str().unwrap().contains("written anew"), "{damage}");
        harm(gateway.dir.path("data/kb-versions.db")).unwrap();
        // and so does a restart.
        gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
        assert_eq!(version_of(&gateway, "chat").await, (json!("2026-12"), json!("admin")));
        assert_eq!(version_of(&gateway, "rerank").await, (json!("7"), json!("admin")));
    }
}

#[tokio::test]
async fn a_version_that_is_set_goes_before_the_files_and_survives_a_restart() {
    let up = upstream("").await;
    let file = usual(&up.url()).replace("{ name: chat,", "{ name: chat, cache: { mode: exact, kb_version: \"1\" },");
    let gateway = Gateway::serve(&file).await;
    assert_eq!(version_of(&gateway, "chat").await, (json!("1"), json!("file")));
    assert_eq!(version_of(&gateway, "rerank").await, (Value::Null, Value::Null));
    assert_eq!(gateway.ask_admin(&kb_version("chat", ADMIN, &json!("2026-12"))).await.status, 204);
    assert_eq!(gateway.ask_admin(&kb_version("rerank", ADMIN, &json!("7"))).await.status, 204);
    assert_eq!(version_of(&gateway, "chat").await, (json!("2026-12"), json!("admin")));
    gateway.rewrite(&file.replace("kb_version: \"1\"", "kb_version: \"3\""));
    gateway.reloads(1, 0).await;
    assert_eq!(version_of(&gateway, "chat").await, (json!("2026-12"), json!("admin")), "also after a reload");
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(version_of(&gateway, "chat").await, (json!("2026-12"), json!("admin")));
    assert_eq!(version_of(&gateway, "rerank").await, (json!("7"), json!("admin")));
    assert_eq!(gateway.ask_admin(&kb_version("chat", ADMIN, &Value::Null)).await.status, 204);
    assert_eq!(version_of(&gateway, "chat").await, (json!("3"), json!("file")), "null leaves it to the file again");
}

#[tokio::test]
async fn levers_are_for_operators_and_say_what_is_wrong() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let ask = async |ask: &Ask| gateway.ask_admin(ask).await;
    is_refused(&ask(&get("/admin/v1/cache")).await, 401, "invalid_token");
    is_refused(&ask(&kb_version("chat", VIEWER, &json!("1"))).await, 403, "role_not_allowed");
    is_refused(&ask(&lever("POST", "/admin/v1/cache/purge", VIEWER, &json!({}))).await, 403, "role_not_allowed");
    let id = "A".repeat(43);
    let entry = |token| lever("DELETE", &format!("/admin/v1/cache/entries/{id}"), token, &Value::Null);
    is_refused(&ask(&entry(VIEWER)).await, 403, "role_not_allowed");
    is_refused(&ask(&entry(ADMIN)).await, 404, "not_found");
    is_refused(&ask(&lever("DELETE", "/admin/v1/cache/entries/no-id", ADMIN, &Value::Null)).await, 404, "not_found");
    let no_text = |method, path: &str| lever(method, path, ADMIN, &Value::Null);
    is_refused(&ask(&no_text("DELETE", "/admin/v1/cache/entries/%ff%00")).await, 400, "invalid_request");
    is_refused(&ask(&no_text("PUT", "/admin/v1/cache/routes/%ff/kb-version")).await, 400, "invalid_request");
    let large = json!({ "route": "x".repeat(3 << 20) });
    is_refused(&ask(&purge(&large)).await, 413, "body_too_large");
    is_refused(&ask(&kb_version("nowhere", ADMIN, &json!("1"))).await, 404, "not_found");
    for wrong in [json!(7), json!(""), json!("x".repeat(201))] {
        is_refused(&ask(&kb_version("chat", ADMIN, &wrong)).await, 400, "invalid_request");
    }
    for gone in [json!({ "route": "nowhere" }), json!({ "client": "nobody" })] {
        let purged = ask(&purge(&gone)).await;
        assert_eq!((purged.status, purged.json()), (200, json!({ "purged": 0 })), "names need not be configured");
    }
    is_refused(&ask(&purge(&json!({ "kind": "answers" }))).await, 400, "invalid_request");
    is_refused(&ask(&purge(&json!({ "rout": "chat" }))).await, 400, "invalid_request");
    is_refused(&ask(&purge(&json!([]))).await, 400, "invalid_request");
    let purged = ask(&purge(&json!({ "route": "chat", "client": "app", "kind": "answer" }))).await;
    assert_eq!((purged.status, purged.json()), (200, json!({ "purged": 0 })));
    let health = ask(&get("/readyz")).await.json()["cache"].clone();
    assert_eq!(health, json!({ "status": "ok", "since": null, "why": null }));
}

#[tokio::test]
async fn without_a_disk_for_caches_there_is_no_file() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&format!("cache: {{ memory: 1MiB, disk: 0 }}\n{}", usual(&up.url()))).await;
    let health = gateway.ask_admin(&get("/readyz")).await.json()["cache"].clone();
    assert_eq!(health, json!({ "status": "memory", "since": null, "why": null }));
    let stats = gateway.ask_admin(&get("/admin/v1/cache").key(VIEWER)).await.json();
    assert_eq!((&stats["disk"], &stats["memory"]["max_bytes"]), (&Value::Null, &json!(1 << 20)));
    gateway.rewrite(&format!("cache: {{ memory: 2MiB, disk: 8MiB }}\n{}", usual(&up.url())));
    gateway.reloads(1, 0).await;
    let stats = gateway.ask_admin(&get("/admin/v1/cache").key(VIEWER)).await.json();
    assert_eq!((&stats["disk"]["max_bytes"], &stats["memory"]["max_bytes"]), (&json!(8 << 20), &json!(2 << 20)));
    assert!(!gateway.dir.path("data/cache.db").exists(), "nothing was ever cached");
}

#[tokio::test]
async fn what_is_cached_is_kept_shown_removed_and_purged() {
    let up = upstream("").await;
    let file = usual(&up.url()).replace("{ name: chat,", "{ name: chat, cache: { mode: exact },");
    let gateway = Gateway::serve(&file).await;
    let ask = async |gateway: &Gateway| {
        let answer = gateway.ask(&chat()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let header = |name| answer.header(name).unwrap_or_default().to_owned();
        (header("x-mai-cache"), header("x-mai-cache-id"))
    };
    assert_eq!(ask(&gateway).await.0, "miss");
    let (how, id) = ask(&gateway).await;
    assert_eq!((how.as_str(), id.len()), ("hit", 43));
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(ask(&gateway).await, ("hit".to_owned(), id.clone()), "a restart forgets nothing");
    gateway.metric_is("mai_cache_entries", "\"disk\"", 1.0).await;
    let stats = gateway.ask_admin(&get("/admin/v1/cache").key(VIEWER)).await.json();
    assert_eq!((&stats["holdings"][0]["kind"], &stats["holdings"][0]["route"]), (&json!("answer"), &json!("chat")));
    let entry = lever("DELETE", &format!("/admin/v1/cache/entries/{id}"), ADMIN, &Value::Null);
    assert_eq!(gateway.ask_admin(&entry).await.status, 204);
    is_refused(&gateway.ask_admin(&entry).await, 404, "not_found");
    assert_eq!(ask(&gateway).await.0, "miss");
    assert_eq!(ask(&gateway).await.0, "hit");
    let purged = gateway.ask_admin(&purge(&json!({ "route": "chat", "client": "app" }))).await;
    assert_eq!(purged.json(), json!({ "purged": 1 }));
    assert_eq!(ask(&gateway).await.0, "miss");
    assert_eq!(gateway.ask_admin(&kb_version("chat", ADMIN, &json!("2"))).await.status, 204);
    assert_eq!(ask(&gateway).await.0, "miss", "another version of the knowledge base sees nothing of the one before");
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(ask(&gateway).await.0, "hit");
}

#[tokio::test]
async fn questions_are_matched_by_meaning_and_a_restart_forgets_none() {
    let up = upstream("").await;
    let semantic =
        "{ name: chat, cache: { mode: semantic, semantic: { route: embedding, threshold: 0.5, timeout: 5s } },";
    let gateway = Gateway::serve(&usual(&up.url()).replace("{ name: chat,", semantic)).await;
    let ask = async |gateway: &Gateway, question: &str| {
        let answer = gateway.ask(&testkit::chat("chat").user(question).key(KEY)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("x-mai-cache").unwrap_or_default().to_owned()
    };
    assert_eq!(ask(&gateway, "How do I reset my password?").await, "miss");
    gateway.metric_is("mai_cache_questions", "\"chat\"", 1.0).await;
    assert_eq!(ask(&gateway, "How can I reset my password?").await, "semantic");
    assert_eq!(ask(&gateway, "How do I change my username?").await, "miss");
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    gateway.metric_is("mai_cache_questions", "\"chat\"", 2.0).await;
    assert_eq!(ask(&gateway, "How can I reset my password?").await, "semantic");
    let body = json!({ "model": "chat", "query": "How can I reset my password?" }).to_string();
    let found = gateway.ask(&testkit::chat("chat").path("/v1/cache/lookup").body(body).key(KEY)).await;
    assert_eq!((found.status, found.header("x-mai-cache")), (200, Some("semantic")));
    assert_eq!(gateway.ask_admin(&purge(&json!({ "route": "chat" }))).await.status, 200);
    assert_eq!(ask(&gateway, "How can I reset my password?").await, "miss");
}

#[tokio::test]
async fn an_idempotency_key_stands_for_its_answer_over_a_restart_and_without_a_cache() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let ask = || chat().header("idempotency-key", "order-7");
    let first = gateway.ask(&ask()).await;
    assert_eq!((first.status, first.header("x-mai-cache")), (200, None));
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    let again = gateway.ask(&ask()).await;
    assert_eq!((again.header("x-mai-cache"), &again.body), (Some("replay"), &first.body));
    is_refused(&gateway.ask(&ask().user("more")).await, 422, "idempotency_conflict");
}

#[tokio::test]
async fn many_keys_on_one_answer_cost_it_once_on_disk_and_are_good_after_a_restart() {
    const SAID: usize = 100_000;
    let up = upstream(&format!("rules: [{{ reply: {{ say: {} }} }}]", "x".repeat(SAID))).await;
    let file = usual(&up.url()).replace("{ name: chat,", "{ name: chat, cache: { mode: exact },");
    let gateway = Gateway::serve(&file).await;
    let with = |key: usize| chat().header("idempotency-key", format!("order-{key}"));
    let first = gateway.ask(&chat()).await;
    for key in 0..30 {
        assert_eq!(gateway.ask(&with(key)).await.header("x-mai-cache"), Some("hit"));
    }
    // The answer, the copy, and what each key says of that.
    gateway.metric_is("mai_cache_entries", "\"disk\"", 32.0).await;
    let stats = gateway.ask_admin(&get("/admin/v1/cache").key(VIEWER)).await.json();
    let kept = stats["holdings"].as_array().unwrap().iter().find(|held| held["kind"] == "replay").unwrap().clone();
    assert_eq!(kept["disk"]["entries"], 31);
    for tier in ["memory", "disk"] {
        let bytes = kept[tier]["bytes"].as_u64().unwrap();
        assert!((SAID as u64..2 * SAID as u64).contains(&bytes), "{bytes} bytes of one answer in the {tier}");
    }
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    let again = gateway.ask(&with(29)).await;
    assert_eq!((again.header("x-mai-cache"), &again.body), (Some("replay"), &first.body));
}

/// What the admin port says of the cache on disk, once it says that.
async fn cache_is(gateway: &Gateway, status: &str) -> Value {
    let mut health = Value::Null;
    let waiting = async {
        while health["status"] != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
            health = gateway.ask_admin(&get("/readyz")).await.json()["cache"].take();
        }
    };
    soon("the cache on disk is as expected", waiting).await;
    health
}

#[tokio::test]
async fn a_limit_on_the_size_of_files_costs_the_cache_on_disk_and_never_the_process() {
    let up = upstream("").await;
    let dir = Dir::new();
    let file = usual(&up.url()).replace("{ name: chat,", "{ name: chat, cache: { mode: exact },");
    let config = dir.write("gateway.yaml", file);
    // The default action of the signal, even if whoever runs the tests ignores it.
    let mut limited = Command::new("/usr/bin/env");
    limited.env_clear().stdin(Stdio::null());
    limited
        .args(["--default-signal=XFSZ", "/bin/sh", "-c", "ulimit -f 8 && exec \"$@\"", "sh"])
        .arg(program().get_program());
    limited.arg("serve").arg("--config").arg(config);
    limited.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "2"]);
    let gateway = Gateway::start(dir, &mut limited).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let health = cache_is(&gateway, "out").await;
    assert!(health["why"].is_string(), "{health}");
    let again = gateway.ask(&chat()).await;
    assert_eq!((again.status, again.header("x-mai-cache")), (200, Some("hit")), "memory has it");
    assert_eq!(gateway.ask(&chat().user("more")).await.status, 200);
}
