//! Keys of clients, issued, listed and revoked.

use std::sync::Arc;

use base::Secret;
use gateway::quota::ledger::Stores;
use serde_json::{Value, json};

use crate::desk::{ADMIN, OPERATOR, Out, Port, Told, VIEWER, delete, get, post};

async fn issue(port: &Port, client: &str, wanted: Value) -> Told {
    port.ask(OPERATOR, post(&format!("/clients/{client}/keys"), wanted)).await
}

/// Whether a caller gets in with a key.
fn opens(port: &Port, key: &str) -> bool {
    let live = &port.desk.live;
    let running = live.running();
    let id = running.snapshot.keys.hasher().of_key(key.as_bytes());
    running.snapshot.client_with(&id).is_some()
        || live.issued.client(&running.snapshot, &id, live.steady_wall()).is_ok()
}

fn ids(told: &Told) -> Vec<&str> {
    told.json["data"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_key_is_shown_once_and_good_until_it_is_revoked() {
    let port = Port::open();
    let made =
        issue(&port, "app", json!({ "note": "the 夜班 batch", "expires_at": "2999-12-31T00:00:00Z" })).await.is(201);
    assert_eq!(made.header("cache-control"), "no-store");
    let (id, key) = (made.json["id"].as_str().unwrap(), made.json["key"].as_str().unwrap());
    assert!(id.starts_with("key_") && key.starts_with("mai-"), "{}", made.text);
    assert!(opens(&port, key));
    let listed = port.ask(VIEWER, get("/clients/app/keys")).await.is(200);
    assert_eq!(ids(&listed), ["written_1", id]);
    let shown = &listed.json["data"][1];
    assert_eq!((&shown["note"], &shown["created_by"]), (&json!("the 夜班 batch"), &json!("otto")));
    assert_eq!((&shown["expires_at"], &shown["managed_by"]), (&json!("2999-12-31T00:00:00.000Z"), &json!("admin")));
    assert_eq!(shown["created_at"], made.json["created_at"]);
    assert_eq!(shown["last_used_at"], made.json["created_at"], "used above, in the hour in which it was made");
    assert_eq!(listed.json["data"][0]["managed_by"], "file");
    port.ask(OPERATOR, delete(&format!("/clients/app/keys/{id}"))).await.is(204);
    assert!(!opens(&port, key), "it is refused before the answer is here");
    port.ask(OPERATOR, delete(&format!("/clients/app/keys/{id}"))).await.refused(404, "not_found");
    // Neither the audit log nor anything else that can be read has the key or its digest.
    let audit = port.ask(ADMIN, get("/audit")).await.is(200);
    let told: Vec<_> =
        audit.json["data"].as_array().unwrap().iter().map(|deed| (&deed["action"], &deed["object"])).collect();
    let object = json!(format!("clients/app/keys/{id}"));
    assert_eq!(told, [(&json!("revoke"), &object), (&json!("issue"), &object)]);
    assert_eq!(audit.json["data"][0]["before"], audit.json["data"][1]["after"]);
    assert_eq!(audit.json["data"][1]["after"]["note"], "the 夜班 batch");
    let digest: String = Secret::new(key).sha256().iter().map(|byte| format!("{byte:02x}")).collect();
    for path in ["/audit", "/clients", "/clients/app", "/clients/app/keys", "/config", "/export?key_hashes=true"] {
        let text = port.ask(ADMIN, get(path)).await.is(200).text;
        assert!(!text.contains(key) && !text.contains(digest.get(..9).unwrap()), "{path}: {text}");
    }
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_refused_by_its_name() {
    let port = Port::open();
    for (wanted, param) in [
        (json!({ "note": "n".repeat(201) }), "note"),
        (json!({ "note": "two\nlines" }), "note"),
        (json!({ "note": "turned \u{202e}round" }), "note"),
        (json!({ "expires_at": "2020-01-01T00:00:00Z" }), "expires_at"),
        (json!({ "expires_at": "tomorrow" }), "expires_at"),
        (json!({ "expires": "2999-01-01" }), "expires"),
    ] {
        let told = issue(&port, "app", wanted.clone()).await.refused(400, "invalid_request");
        assert_eq!(told.json["error"]["param"], param, "{wanted}: {}", told.text);
    }
    assert_eq!(ids(&port.ask(VIEWER, get("/clients/app/keys")).await.is(200)), ["written_1"], "nothing was issued");
    issue(&port, "app", json!({ "note": "问".repeat(200) })).await.is(201);
    port.ask(VIEWER, get("/clients/nobody/keys")).await.refused(404, "not_found");
    port.ask(OPERATOR, delete("/clients/nobody/keys/key_1")).await.refused(404, "not_found");
    port.ask(OPERATOR, delete("/clients/app/keys/key_1")).await.refused(404, "not_found");
    let told = port.ask(OPERATOR, delete("/clients/app/keys/written_1")).await.refused(409, "managed_by_file");
    assert!(told.message().contains("gateway.yaml:"), "{}", told.text);
}

#[tokio::test]
async fn a_list_of_keys_is_given_out_page_by_page() {
    let port = Port::open();
    for _ in 0..4 {
        issue(&port, "app", json!({})).await.is(201);
    }
    let whole = port.ask(VIEWER, get("/clients/app/keys")).await.is(200);
    let mut seen: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let page = port.ask(VIEWER, get(&format!("/clients/app/keys?limit=2{after}"))).await.is(200);
        seen.extend(ids(&page).iter().map(ToString::to_string));
        let Some(next) = page.json["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    for wrong in ["anything", "1", "key_1", "0000000000001", "0000000000001.", "00001."] {
        let told =
            port.ask(VIEWER, get(&format!("/clients/app/keys?after={wrong}"))).await.refused(400, "invalid_request");
        assert_eq!(told.json["error"]["param"], "after", "{wrong}");
    }
    assert_eq!(seen, ids(&whole));
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn while_the_store_is_out_no_key_is_made_and_it_is_said() {
    let port = Port::with(Stores { objects: Arc::new(Out), ..Stores::default() });
    port.ask(VIEWER, get("/clients/app/keys")).await.is(200);
    issue(&port, "app", json!({})).await.refused(503, "objects_unavailable");
    let ready = port.ask("", crate::desk::Asking { path: "/readyz".to_owned(), ..get("") }).await.is(200);
    assert_eq!(ready.json["objects"], json!({ "status": "out", "since": 5, "why": "no space left on device" }));
    assert!(
        port.ask("", crate::desk::Asking { path: "/metrics".to_owned(), ..get("") })
            .await
            .text
            .contains("\nmai_objects_out 1\n")
    );
    let ready = Port::open().ask("", crate::desk::Asking { path: "/readyz".to_owned(), ..get("") }).await.is(200);
    assert_eq!(ready.json["objects"]["status"], "ok", "{}", ready.text);
}
