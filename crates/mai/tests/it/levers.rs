//! The levers of the admin API: breakers, drills, and what would happen to a request.

use serde_json::{Value, json};
use testkit::{Answer, Ask, get};

use crate::process::{ADMIN, Gateway, KEY, VIEWER, chat, upstream, usual};

fn lever(method: &'static str, path: &str, body: &Value) -> Ask {
    get(path).method(method).key(ADMIN).body(body.to_string())
}

fn is_refused(answer: &Answer, status: u16, code: &str, param: Option<&str>) {
    let told = answer.text();
    assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{told}");
    assert_eq!(answer.json()["error"]["param"], json!(param), "{told}");
}

/// Two routes over the same upstream, and drills.
fn config(url: &str) -> String {
    let both = "{ name: chat, match: { path: /v1/chat/completions }, upstreams: [{ provider: up, model: m }], retry: { server_error: [] } }";
    let usual = usual(url).replace("retry: { server_error: [10ms, 20ms] }", "retry: { server_error: [] }");
    usual.replacen(both, &format!("{both}\n  - {}", both.replacen("name: chat", "name: talk", 1)), 1)
}

async fn breakers(gateway: &Gateway) -> Vec<Value> {
    let answer = gateway.ask_admin(&get("/admin/v1/breakers").key(VIEWER)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["data"].as_array().unwrap().clone()
}

fn fields<'a>(breaker: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    names.iter().map(|name| &breaker[*name]).collect()
}

#[tokio::test]
async fn an_operator_takes_an_upstream_out_and_brings_it_back() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&config(&up.url())).await;
    let all = breakers(&gateway).await;
    assert_eq!(all.len(), 4, "{all:?}");
    let first = json!(fields(&all[0], &["upstream", "route", "state", "held"]));
    assert_eq!(first, json!(["up/m", "chat", "closed", false]));
    assert!(all[0]["since"].as_str().unwrap().ends_with('Z'));

    let open = |body: &Value| lever("POST", "/admin/v1/breakers/up%2Fm/open", body);
    let held = gateway.ask_admin(&open(&json!({ "for": "10m", "route": "chat" }))).await;
    assert_eq!(held.status, 200, "{}", held.text());
    let held = held.json()["data"].clone();
    assert_eq!(
        (held.as_array().unwrap().len(), &held[0]["state"], &held[0]["held"]),
        (1, &json!("open"), &json!(true))
    );
    assert!(held[0]["held_until"].as_str() > held[0]["since"].as_str(), "{held}");
    let refused = gateway.ask(&chat()).await;
    assert_eq!((refused.status, refused.code().as_deref()), (503, Some("all_upstreams_unavailable")));
    assert_eq!(gateway.ask(&testkit::chat("talk").user("Hi").key(KEY)).await.status, 200, "the other route goes on");

    assert_eq!(gateway.ask_admin(&open(&json!({}))).await.json()["data"].as_array().unwrap().len(), 2);
    let all = breakers(&gateway).await;
    assert!(all[..2].iter().all(|breaker| breaker["held"] == true && breaker.get("held_until").is_none()), "{all:?}");
    let closed = gateway.ask_admin(&lever("POST", "/admin/v1/breakers/up%2Fm/close", &Value::Null)).await;
    is_refused(&closed, 400, "invalid_request", None);
    let closed = gateway.ask_admin(&get("/admin/v1/breakers/up%2Fm/close").method("POST").key(ADMIN)).await;
    assert_eq!((closed.status, &closed.json()["data"][0]["state"]), (200, &json!("closed")));
    assert_eq!(gateway.ask(&chat()).await.status, 200);

    is_refused(&gateway.ask_admin(&open(&json!({ "for": "soon" }))).await, 400, "invalid_request", Some("for"));
    is_refused(&gateway.ask_admin(&open(&json!({ "for": 0 }))).await, 400, "invalid_request", Some("for"));
    is_refused(&gateway.ask_admin(&open(&json!({ "until": "5m" }))).await, 400, "invalid_request", Some("until"));
    is_refused(&gateway.ask_admin(&open(&json!({ "route": "none" }))).await, 404, "not_found", None);
    let nowhere = lever("POST", "/admin/v1/breakers/up%2Fnone/open", &json!({}));
    is_refused(&gateway.ask_admin(&nowhere).await, 404, "not_found", None);
    let viewer = get("/admin/v1/breakers/up%2Fm/open").method("POST").key(VIEWER);
    is_refused(&gateway.ask_admin(&viewer).await, 403, "role_not_allowed", None);

    let page = gateway.ask_admin(&get("/admin/v1/breakers?limit=3").key(VIEWER)).await.json();
    let next = page["next"].as_str().unwrap();
    let rest = gateway.ask_admin(&get(&format!("/admin/v1/breakers?limit=3&after={next}")).key(VIEWER)).await.json();
    assert_eq!((page["data"].as_array().unwrap().len(), rest["data"].as_array().unwrap().len()), (3, 1));
    assert_eq!(rest.get("next"), None);
    let one = gateway.ask_admin(&get("/admin/v1/breakers?route=talk").key(VIEWER)).await.json();
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_outage_is_rehearsed_where_the_configuration_allows_it() {
    let up = upstream("").await;
    let forbidden = config(&up.url());
    let gateway = Gateway::serve(&forbidden).await;
    let begin = |body: &Value| lever("POST", "/admin/v1/drills", body);
    let outage = json!({ "upstream": "up/m", "route": "chat", "status": 503, "for": "5m" });
    is_refused(&gateway.ask_admin(&begin(&outage)).await, 409, "drills_disabled", None);
    let none = gateway.ask_admin(&get("/admin/v1/drills").key(VIEWER)).await;
    assert_eq!((none.status, &none.json()["data"]), (200, &json!([])), "one that is left is seen: {}", none.text());
    gateway.rewrite(&format!("drills: enabled\n{forbidden}"));
    gateway.reloads(1, 0).await;

    let begun = gateway.ask_admin(&begin(&outage)).await;
    assert_eq!(begun.status, 201, "{}", begun.text());
    let drill = begun.json();
    let location = begun.header("location").unwrap().to_owned();
    assert_eq!(location, format!("/admin/v1/drills/{}", drill["id"].as_str().unwrap()));
    assert_eq!(fields(&drill, &["status", "reset", "by"]), [&json!(503), &json!(false), &json!("root")]);
    assert!(drill["until"].as_str() > drill["since"].as_str());
    gateway.metric_is("mai_drills_active", "", 1.0).await;
    assert_eq!(gateway.ask(&chat()).await.status, 502);
    assert_eq!(gateway.ask(&testkit::chat("talk").user("Hi").key(KEY)).await.status, 200);
    let line = gateway.lines(2).await.into_iter().find(|line| line["route"] == "chat").unwrap();
    assert_eq!((&line["attempts"][0]["outcome"], &line["attempts"][0]["drill"]), (&json!("status"), &json!(true)));
    let listed = gateway.ask_admin(&get("/admin/v1/drills?limit=500").key(VIEWER)).await.json();
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["tries"]), (&drill["id"], &json!(1)));

    assert_eq!(gateway.ask_admin(&get(&location).method("DELETE").key(ADMIN)).await.status, 204);
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    is_refused(&gateway.ask_admin(&get(&location).method("DELETE").key(ADMIN)).await, 404, "not_found", None);
    for (wrong, param) in [
        (json!({ "upstream": "up/none", "status": 503, "for": "5m" }), Some("upstream")),
        (json!({ "upstream": "up/m", "status": 503 }), Some("for")),
        (json!({ "upstream": "up/m", "status": 503, "for": "2h" }), Some("for")),
        (json!({ "upstream": "up/m", "latency": "fast", "for": "5m" }), Some("latency")),
        (json!({ "upstream": "up/m", "percent": 30, "for": "5m" }), None),
    ] {
        is_refused(&gateway.ask_admin(&begin(&wrong)).await, 400, "invalid_request", param);
    }
    let viewer = get("/admin/v1/drills").method("POST").key(VIEWER).body(outage.to_string());
    is_refused(&gateway.ask_admin(&viewer).await, 403, "role_not_allowed", None);

    let slow = json!({ "upstream": "up/m", "latency": 300, "percent": 50.5, "for": "1h" });
    let slow = gateway.ask_admin(&begin(&slow)).await.json();
    assert_eq!(fields(&slow, &["latency", "percent"]), [&json!("300ms"), &json!(50.5)]);
    gateway.rewrite(&forbidden);
    gateway.reloads(2, 0).await;
    gateway.metric_is("mai_drills_active", "", 0.0).await;
    let log = gateway.process.err.text();
    assert_eq!((log.matches("a drill begins").count(), log.matches("a drill ends").count()), (2, 2), "{log}");
}

#[tokio::test]
async fn a_request_is_explained_with_how_things_stand_now() {
    let up = upstream("").await;
    let config = config(&up.url()).replace("{ name: app,", "{ name: app, quota: { tokens: 1000, per: month },");
    let gateway = Gateway::serve(&format!("drills: enabled\n{config}")).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let hold = lever("POST", "/admin/v1/breakers/up%2Fm/open", &json!({ "route": "chat" }));
    assert_eq!(gateway.ask_admin(&hold).await.status, 200);
    for route in ["chat", "talk"] {
        let drill = json!({ "upstream": "up/m", "route": route, "reset": true, "for": "5m" });
        assert_eq!(gateway.ask_admin(&lever("POST", "/admin/v1/drills", &drill)).await.status, 201);
    }
    let explain = |body: &Value| get("/admin/v1/explain").method("POST").key(VIEWER).body(body.to_string());
    let request = json!({ "model": "chat", "messages": [{ "role": "user", "content": "a hush-hush question" }] });
    let told = gateway.ask_admin(&explain(&json!({ "client": "app", "request": request }))).await;
    assert_eq!(told.status, 200, "{}", told.text());
    assert!(!told.text().contains("hush-hush"), "{}", told.text());
    let story = told.json();
    assert_eq!((&story["route"], &story["upstreams"][0]["upstream"]), (&json!("chat"), &json!("up/m")));
    let now = &story["now"];
    assert_eq!((now["breakers"].as_array().unwrap().len(), &now["breakers"][0]["held"]), (1, &json!(true)));
    assert_eq!((now["drills"].as_array().unwrap().len(), &now["drills"][0]["route"]), (1, &json!("chat")));
    assert!(now["quota"]["tokens"].as_u64().unwrap() > 0 && now["quota"]["used"].as_f64().unwrap() > 0.0, "{now}");

    let by_path =
        json!({ "client": "app", "path": "/v1/embeddings", "request": { "model": "embedding", "input": "x" } });
    assert_eq!(gateway.ask_admin(&explain(&by_path)).await.json()["endpoint"], "/v1/embeddings");
    let refused = json!({ "client": "app", "request": { "model": "none", "messages": [] } });
    let refused = gateway.ask_admin(&explain(&refused)).await;
    assert_eq!((refused.status, &refused.json()["now"]["breakers"]), (200, &json!([])));
    for (wrong, param) in [
        (json!({ "client": "nobody", "request": request }), "client"),
        (json!({ "client": "app", "request": { "model": "chat" } }), "path"),
        (json!({ "client": "app", "path": "/v2/chat", "request": request }), "path"),
        (json!({ "client": "app" }), "request"),
        (json!({ "client": "app", "body": request }), "body"),
    ] {
        is_refused(&gateway.ask_admin(&explain(&wrong)).await, 400, "invalid_request", Some(param));
    }
}
