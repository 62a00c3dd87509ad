//! Who may do what, and what is said to whoever asks wrongly.

use std::time::Duration;

use serde_json::json;

use crate::desk::{ADMIN, Asking, OPERATOR, Port, VIEWER, asking, delete, get, post, put};

#[tokio::test]
async fn viewers_read_operators_write_and_admins_see_hashes_of_keys() {
    let port = Port::open();
    let client = r#"{"name": "team", "routes": ["chat"]}"#;
    let none = port.ask("", get("/clients")).await.refused(401, "invalid_token");
    assert!(none.message().starts_with("send `Authorization"), "{}", none.text);
    let wrong = port.ask("wrong", get("/clients")).await.refused(401, "invalid_token");
    assert!(wrong.message().contains("unknown"), "{}", wrong.text);
    port.ask(VIEWER, get("/clients")).await.is(200);
    let refused = port.ask(VIEWER, post("/clients", client)).await.refused(403, "role_not_allowed");
    assert!(refused.message().contains("operator or admin"), "{}", refused.text);
    port.ask(OPERATOR, post("/clients", client)).await.is(201);
    port.ask(VIEWER, get("/export")).await.is(200);
    port.ask(OPERATOR, get("/export?key_hashes=true")).await.refused(403, "role_not_allowed");
    let told = port.ask(ADMIN, get("/export?key_hashes=true")).await.is(200);
    assert!(told.header("content-type").starts_with("text/yaml"));
}

#[tokio::test(start_paused = true)]
async fn ten_wrong_tokens_in_a_minute_make_their_address_wait_even_with_the_right_one() {
    let port = Port::open();
    guess(&port).await;
    let told = port.ask(ADMIN, get("/config")).await.refused(429, "too_many_attempts");
    assert_eq!(told.header("retry-after"), "50");
    port.from("192.0.2.2:40000").ask(ADMIN, get("/config")).await.is(200);
    tokio::time::advance(Duration::from_secs(50)).await;
    port.ask(ADMIN, get("/config")).await.is(200);
}

/// Ten wrong tokens within ten seconds.
async fn guess(port: &Port) {
    for number in 0..10 {
        port.ask(&format!("wrong-{number}"), get("/config")).await.refused(401, "invalid_token");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_was_in_before_is_let_in_while_somebody_guesses_from_the_same_address() {
    let port = Port::open();
    port.ask(OPERATOR, get("/config")).await.is(200);
    guess(&port).await;
    port.ask(OPERATOR, get("/config")).await.is(200);
    for unfamiliar in [ADMIN, "wrong-11", "wrong-1"] {
        port.ask(unfamiliar, get("/config")).await.refused(429, "too_many_attempts");
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_with_an_old_token_locks_out_nobody() {
    let port = Port::open();
    for _ in 0..100 {
        port.ask("token-of-last-year", get("/config")).await.refused(401, "invalid_token");
    }
    port.ask(ADMIN, get("/config")).await.is(200);
}

#[tokio::test]
async fn who_sends_no_token_at_all_guesses_nothing() {
    let port = Port::open();
    for _ in 0..20 {
        port.ask("", get("/config")).await.refused(401, "invalid_token");
    }
    port.ask(VIEWER, get("/config")).await.is(200);
}

#[tokio::test]
async fn what_is_not_known_is_refused_with_a_hint_only_to_those_who_may_ask() {
    let port = Port::open();
    port.ask("", get("/routes?limt=5")).await.refused(401, "invalid_token");
    for (asked, param, hint) in [
        (get("/routes?limt=5"), "limt", "there is no parameter `limt`; write `after` or `limit`"),
        (get("/config?pretty=true"), "pretty", "there is no parameter `pretty`; there is none here"),
        (get("/routes?limit=0"), "limit", "`limit`: is 0, but must be 1 to 500"),
        (get("/routes?limit=1&limit=2"), "limit", "`limit` is written twice"),
        (
            post("/cache/purge", r#"{"rout": "chat"}"#),
            "rout",
            "there is no field `rout`; write `route`, `client` or `kind`",
        ),
        (put("/cache/routes/chat/kb-version", "{}"), "kb_version", "the field `kb_version` is missing"),
        (delete("/routes/chat?dry_run=yes"), "dry_run", "`dry_run`: is `yes`, but must be `true` or `false`"),
    ] {
        let told = port.ask(OPERATOR, asked).await.refused(400, "invalid_request");
        assert_eq!((told.json["error"]["param"].as_str(), told.message()), (Some(param), hint));
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_other_methods_405_with_those_that_there_are() {
    let port = Port::open();
    port.ask(ADMIN, get("/nothing")).await.refused(404, "not_found");
    port.ask(ADMIN, get("/routes/nothing")).await.refused(404, "not_found");
    let told = port.ask(ADMIN, asking("PATCH", "/routes/chat")).await.refused(405, "method_not_allowed");
    let mut allowed: Vec<&str> = told.header("allow").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["DELETE", "GET", "HEAD", "PUT"]);
    port.ask(VIEWER, asking("HEAD", "/routes")).await.is(200);
}

#[tokio::test]
async fn a_body_has_a_megabyte_and_an_import_eight() {
    let port = Port::open();
    let comment = |bytes: usize| format!("routes: [] # {}", "x".repeat(bytes));
    port.ask(OPERATOR, put("/routes/a", comment(1 << 20))).await.refused(413, "body_too_large");
    port.ask(OPERATOR, post("/import", comment(2 << 20))).await.refused(400, "invalid_request");
    port.ask(OPERATOR, post("/import", comment(8 << 20))).await.refused(413, "body_too_large");
}

#[tokio::test(start_paused = true)]
async fn what_takes_long_waits_for_a_place_while_health_and_metrics_are_told() {
    let port = Port::allowing(0);
    let heavy = [
        "/providers",
        "/providers/cloud",
        "/routes",
        "/routes/chat",
        "/clients",
        "/clients/app",
        "/clients/app/keys",
        "/config",
        "/export",
        "/audit",
        "/usage",
        "/usage?format=csv",
        "/requests",
        "/cache",
        "/breakers",
    ];
    for path in heavy {
        let told = port.ask(VIEWER, get(path)).await.refused(503, "busy");
        assert_eq!(told.header("retry-after"), "1", "{path}");
    }
    let counted = port.ask(OPERATOR, post("/cache/purge?dry_run=true", json!({}))).await;
    counted.refused(503, "busy");
    port.ask(OPERATOR, post("/cache/purge", json!({}))).await.is(200);
    for path in ["/healthz", "/readyz", "/metrics"] {
        port.ask("", Asking { path: path.to_owned(), ..get("") }).await.is(200);
    }
}
