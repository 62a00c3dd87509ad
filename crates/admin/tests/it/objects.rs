//! Providers, routes and clients, shown and changed.

use serde_json::{Value, json};

use crate::desk::{ADMIN, OPERATOR, Out, Port, VIEWER, delete, get, post, put};

/// As whoever uses the OpenAI API would write it.
const SHORT: &str = r#"{"name": "rag-embedding", "match": {"path": "/v1/embeddings", "model": "rag-embedding"}, "upstream": {"url": "http://embedding-service:8000/v1/embeddings", "timeout": 3000}, "limit": {"qps": 100, "burst": 20}}"#;

fn route(model: &str) -> Value {
    json!({ "upstreams": [{ "provider": "cloud", "model": model }] })
}

fn names(told: &Value) -> Vec<&str> {
    told["data"].as_array().unwrap().iter().map(|object| object["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_short_form_of_a_route_works_as_it_stands() {
    let port = Port::open();
    let told = port.ask(OPERATOR, post("/routes", SHORT)).await.is(201);
    assert_eq!(told.header("location"), "/admin/v1/routes/rag-embedding");
    assert_eq!(told.header("etag"), "\"1\"");
    assert_eq!(told.json["managed_by"], "admin");
    assert_eq!(told.json["config"], serde_json::from_str::<Value>(SHORT).unwrap());
    assert!(port.desk.live.running().snapshot.routes.iter().any(|route| &*route.name == "rag-embedding"));
    let told = port.ask(VIEWER, get("/routes/rag-embedding")).await.is(200);
    assert_eq!((told.json["revision"].as_u64(), told.header("etag")), (Some(1), "\"1\""));
    assert!(told.json["changed_at"].as_str().unwrap().ends_with('Z'));
    port.ask(OPERATOR, post("/routes", SHORT)).await.refused(409, "already_exists");
}

#[tokio::test]
async fn objects_of_files_are_shown_with_their_place_and_changed_there() {
    let port = Port::open();
    let told = port.ask(VIEWER, get("/providers/cloud")).await.is(200);
    assert_eq!((&told.json["managed_by"], &told.json["file"]), (&json!("file"), &json!("gateway.yaml:8:5")));
    assert_eq!(told.json["config"]["api_key"], "[secret]");
    assert!(told.header("etag").starts_with("\"file-"));
    for asked in [put("/routes/chat", route("n")), delete("/routes/chat"), post("/clients", r#"{"name": "app"}"#)] {
        let told = port.ask(OPERATOR, asked).await.refused(409, "managed_by_file");
        assert!(told.message().contains("gateway.yaml:"), "{}", told.text);
    }
}

#[tokio::test]
async fn a_list_is_given_out_page_by_page_in_the_order_of_names() {
    let port = Port::open();
    for name in ["b", "a/b", "问答", "d"] {
        let client = json!({ "name": name, "routes": ["*"] });
        port.ask(OPERATOR, post("/clients", client)).await.is(201);
    }
    let told = port.ask(VIEWER, get("/clients?limit=3")).await.is(200);
    assert_eq!((names(&told.json), &told.json["next"]), (vec!["a/b", "app", "b"], &json!("b")));
    let told = port.ask(VIEWER, get("/clients?limit=3&after=b")).await.is(200);
    assert_eq!((names(&told.json), told.json.get("next")), (vec!["d", "问答"], None));
}

#[tokio::test]
async fn names_in_paths_may_be_chinese_and_have_slashes() {
    let port = Port::open();
    for (name, path) in [("问答", "/routes/%E9%97%AE%E7%AD%94"), ("team/chat 1", "/routes/team%2Fchat%201")] {
        let told = port.ask(OPERATOR, put(path, route("m"))).await.is(201);
        assert_eq!((&told.json["name"], told.header("location")), (&json!(name), &*format!("/admin/v1{path}")));
        port.ask(VIEWER, get(path)).await.is(200);
        port.ask(OPERATOR, delete(path)).await.is(204);
        port.ask(VIEWER, get(path)).await.refused(404, "not_found");
    }
    port.ask(VIEWER, get("/routes/%FF")).await.refused(400, "invalid_request");
}

#[tokio::test]
async fn put_makes_and_replaces_and_the_name_in_its_body_agrees_with_the_path() {
    let port = Port::open();
    port.ask(OPERATOR, put("/routes/a", route("m"))).await.is(201);
    let told = port.ask(OPERATOR, put("/routes/a", route("n"))).await.is(200);
    assert_eq!((told.header("etag"), told.header("location")), ("\"2\"", ""));
    assert_eq!(told.json["config"]["upstreams"][0]["model"], "n");
    let mut other = route("n");
    other["name"] = json!("b");
    let told = port.ask(OPERATOR, put("/routes/a", other)).await.refused(400, "invalid_request");
    assert_eq!(told.json["error"]["param"], "name");
    let told = port.ask(OPERATOR, post("/routes", route("m"))).await.refused(400, "invalid_request");
    assert_eq!(told.json["error"]["param"], "name");
}

#[tokio::test]
async fn a_change_is_made_to_the_state_that_it_is_meant_for_or_not_at_all() {
    let port = Port::open();
    let new = |asked: crate::desk::Asking| asked.header("if-none-match", "*");
    let of = |asked: crate::desk::Asking, tag: &str| asked.header("if-match", tag);
    port.ask(OPERATOR, of(put("/routes/a", route("m")), "\"1\"")).await.refused(412, "precondition_failed");
    port.ask(OPERATOR, new(put("/routes/a", route("m")))).await.is(201);
    port.ask(OPERATOR, new(put("/routes/a", route("m")))).await.refused(412, "precondition_failed");
    port.ask(OPERATOR, of(put("/routes/a", route("n")), "\"1\"")).await.is(200);
    port.ask(OPERATOR, of(put("/routes/a", route("o")), "\"1\"")).await.refused(412, "precondition_failed");
    port.ask(OPERATOR, of(delete("/routes/a"), "\"1\"")).await.refused(412, "precondition_failed");
    port.ask(VIEWER, get("/routes/a").header("if-none-match", "\"2\"")).await.is(304);
    port.ask(OPERATOR, of(delete("/routes/a"), "\"2\"")).await.is(204);
    port.ask(OPERATOR, of(put("/routes/a", route("o")), "7")).await.refused(400, "invalid_request");
}

#[tokio::test]
async fn a_dry_run_says_what_would_become_of_it_and_changes_nothing() {
    let port = Port::open();
    let before = port.ask(VIEWER, get("/config")).await.text;
    let told = port.ask(OPERATOR, post("/routes?dry_run=true", SHORT)).await.is(200);
    assert_eq!((&told.json["would"], &told.json["object"]["name"]), (&json!("create"), &json!("rag-embedding")));
    port.ask(OPERATOR, put("/routes/a?dry_run=true", r#"{"tmeout": 5}"#)).await.refused(422, "invalid_config");
    assert_eq!(port.ask(VIEWER, get("/config")).await.text, before);
    port.ask(OPERATOR, post("/routes", SHORT)).await.is(201);
    let told = port.ask(OPERATOR, delete("/routes/rag-embedding?dry_run=true")).await.is(200);
    assert_eq!(told.json["would"], "delete");
    let told = port.ask(OPERATOR, put("/routes/rag-embedding?dry_run=true", route("m"))).await.is(200);
    assert_eq!(told.json["would"], "replace");
    let rows = port.ask(VIEWER, get("/audit")).await.is(200);
    assert_eq!(rows.json["data"].as_array().unwrap().len(), 1, "dry runs leave no row: {}", rows.text);
}

#[tokio::test]
async fn whatever_is_wrong_with_an_object_is_told_with_its_path_and_nothing_changes() {
    let port = Port::open();
    let wrong = r#"{"name": "a", "upstreams": [{"provider": "clout", "model": "m"}], "tmeout": 5}"#;
    let told = port.ask(OPERATOR, post("/routes", wrong)).await.refused(422, "invalid_config");
    let problems = told.json["error"]["problems"].as_array().unwrap();
    let paths: Vec<&str> = problems.iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["routes[a].upstreams[0].provider", "routes[a].tmeout"]);
    assert!(problems[1]["message"].as_str().unwrap().contains("did you mean `timeout`?"));
    let variable = r#"{"name": "p", "base_url": "http://p/v1", "api_key": "${HOME}"}"#;
    let told = port.ask(OPERATOR, post("/providers", variable)).await.refused(422, "invalid_config");
    assert_eq!(told.json["error"]["problems"][0]["path"], "providers[p].api_key");
    let twice = r#"{"name": "p", "base_url": "http://p/v1", "base_url": "http://q/v1"}"#;
    port.ask(OPERATOR, post("/providers", twice)).await.refused(400, "invalid_request");
    port.ask(VIEWER, get("/routes/a")).await.refused(404, "not_found");
}

#[tokio::test]
async fn what_others_still_name_is_not_removed() {
    let port = Port::open();
    port.ask(OPERATOR, post("/providers", r#"{"name": "local", "base_url": "http://local/v1"}"#)).await.is(201);
    let route = json!({ "name": "a", "upstreams": [{ "provider": "local", "model": "m" }] });
    port.ask(OPERATOR, post("/routes", route)).await.is(201);
    let told = port.ask(OPERATOR, delete("/providers/local")).await.refused(422, "invalid_config");
    assert!(told.message().contains("the provider `local` is in use: `routes/a` would not be sound"), "{}", told.text);
    let problem = &told.json["error"]["problems"][0];
    assert_eq!(problem["path"], "routes[a].upstreams[0].provider");
    assert_eq!(problem["message"], "still needs the provider `local`: name another one here, or remove this");
    port.ask(OPERATOR, delete("/routes/a")).await.is(204);
    port.ask(OPERATOR, delete("/providers/local")).await.is(204);
    port.ask(OPERATOR, delete("/providers/local")).await.refused(404, "not_found");
}

#[tokio::test]
async fn whoever_needs_an_object_is_told_by_its_name_whatever_that_looks_like() {
    let port = Port::open();
    let provider = json!({ "name": "b` is none of the providers", "base_url": "http://local/v1" });
    port.ask(OPERATOR, post("/providers", &provider)).await.is(201);
    let route = json!({ "name": "a].b", "upstreams": [{ "provider": provider["name"], "model": "m" }] });
    port.ask(OPERATOR, post("/routes", route)).await.is(201);
    let gone = delete("/providers/b%60%20is%20none%20of%20the%20providers");
    let told = port.ask(OPERATOR, gone.clone()).await.refused(422, "invalid_config");
    assert!(told.message().contains("is in use: `routes/a].b` would not be sound"), "{}", told.text);
    let message = told.json["error"]["problems"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("still needs the provider `b` is none of the providers`"), "{message}");
    port.ask(OPERATOR, delete("/routes/a%5D.b")).await.is(204);
    port.ask(OPERATOR, gone).await.is(204);
}

#[tokio::test]
async fn a_masked_secret_that_comes_back_is_kept_and_none_is_ever_shown() {
    let port = Port::open();
    let provider = json!({ "name": "p", "base_url": "http://p/v1", "api_key": "sk-of-the-cloud" });
    let told = port.ask(OPERATOR, post("/providers", provider)).await.is(201);
    assert_eq!(told.json["config"]["api_key"], "[secret]");
    let mut back = told.json["config"].clone();
    back["base_url"] = json!("http://q/v1");
    let told = port.ask(OPERATOR, put("/providers/p", &back)).await.refused(422, "invalid_config");
    assert_eq!(told.json["error"]["problems"][0]["path"], "providers[p].api_key", "not to another host");
    back["base_url"] = json!("http://p/v2");
    port.ask(OPERATOR, put("/providers/p", &back)).await.is(200);
    let running = port.desk.live.running();
    let provider = running.snapshot.providers.iter().find(|provider| &*provider.name == "p").unwrap();
    assert_eq!(provider.keys[0].secret.expose(), "sk-of-the-cloud");
    let told = port.ask(OPERATOR, put("/providers/new", json!({ "base_url": "http://p/v1", "api_key": "[secret]" })));
    told.await.refused(422, "invalid_config");
    port.ask(ADMIN, get("/config")).await.is(200);
    port.ask(ADMIN, get("/audit")).await.is(200);
}

#[tokio::test]
async fn every_write_leaves_one_row_with_what_was_and_what_is() {
    let port = Port::open();
    port.ask(OPERATOR, put("/routes/a", route("m"))).await.is(201);
    port.ask(ADMIN, put("/routes/a", route("n"))).await.is(200);
    port.ask(OPERATOR, put("/routes/a", r#"{"upstreams": 7}"#)).await.is(422);
    port.ask(OPERATOR, delete("/routes/a")).await.is(204);
    let told = port.ask(VIEWER, get("/audit")).await.is(200);
    let rows: Vec<_> = told.json["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let model = |side: &str| row[side]["upstreams"][0]["model"].as_str().unwrap_or_default().to_owned();
            let word = |field: &str| row[field].as_str().unwrap().to_owned();
            (word("who"), word("role"), word("action"), word("object"), model("before"), model("after"))
        })
        .collect();
    let row = |who: &str, role: &str, action: &str, before: &str, after: &str| {
        let [who, role, action, before, after] = [who, role, action, before, after].map(str::to_owned);
        (who, role, action, "routes/a".to_owned(), before, after)
    };
    assert_eq!(
        rows,
        [
            row("otto", "operator", "delete", "n", ""),
            row("ada", "admin", "replace", "m", "n"),
            row("otto", "operator", "create", "", "m"),
        ]
    );
    let told = port.ask(VIEWER, get("/audit?limit=2&who=otto&object=routes")).await.is(200);
    assert_eq!((told.json["data"][1]["action"].as_str(), told.json.get("next")), (Some("create"), None));
    let told = port.ask(VIEWER, get("/audit?limit=1")).await.is(200);
    let next = told.json["next"].as_str().unwrap();
    let told = port.ask(VIEWER, get(&format!("/audit?limit=1&after={next}"))).await.is(200);
    assert_eq!(told.json["data"][0]["action"], "replace");
    port.ask(VIEWER, get("/audit?after=x")).await.refused(400, "invalid_request");
    let told = port.ask(VIEWER, get("/audit?until=1999-12-31")).await.is(200);
    assert_eq!(told.json["data"], json!([]));
}

#[tokio::test]
async fn a_file_is_imported_whole_or_not_at_all() {
    let port = Port::open();
    let file = "
listen: 127.0.0.1:1
routes: [{ name: a, upstreams: [{ provider: local, model: m }] }]
providers: [{ name: local, base_url: http://local/v1 }]
";
    let told = port.ask(OPERATOR, post("/import?dry_run=true", file)).await.is(200);
    assert_eq!(told.json["created"], json!(["providers/local", "routes/a"]));
    port.ask(VIEWER, get("/routes/a")).await.refused(404, "not_found");
    let told = port.ask(OPERATOR, post("/import", file)).await.is(200);
    assert_eq!(told.json["warnings"][0]["path"], "listen");
    port.ask(VIEWER, get("/routes/a")).await.is(200);
    port.ask(OPERATOR, post("/import", file)).await.refused(409, "already_exists");
    let told = port.ask(OPERATOR, post("/import?replace=true", file)).await.is(200);
    assert_eq!(
        (&told.json["replaced"], &told.json["unchanged"]),
        (&json!([]), &json!(["providers/local", "routes/a"]))
    );
    let told = port.ask(OPERATOR, post("/import?replace=true", file.replace("model: m", "model: n"))).await.is(200);
    assert_eq!((&told.json["replaced"], &told.json["unchanged"]), (&json!(["routes/a"]), &json!(["providers/local"])));
    for (wrong, code, status) in [
        ("routes: [{ name: b, upstreams: [{ provider: none, model: m }] }]", "invalid_config", 422),
        ("providers: [{ name: b, base_url: http://b, api_key: \"${KEY:-x}\" }]", "invalid_config", 422),
        ("clients: [{ name: c, routes: ['*'] }]\nroutes: [{ name: chat }]", "managed_by_file", 409),
        ("a: [", "invalid_config", 422),
        ("routes: []", "invalid_request", 400),
    ] {
        port.ask(OPERATOR, post("/import", wrong)).await.refused(status, code);
    }
    port.ask(VIEWER, get("/clients/c")).await.refused(404, "not_found");
    let told = port.ask(VIEWER, get("/audit?object=config")).await.is(200);
    assert_eq!(told.json["data"][1]["after"]["created"], json!(["providers/local", "routes/a"]));
    let told = port.ask(VIEWER, get("/audit?object=routes/a")).await.is(200);
    let rows = told.json["data"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["action"], &rows[1]["before"]), (2, &json!("import"), &Value::Null));
    assert_eq!(rows[0]["before"]["upstreams"], rows[1]["after"]["upstreams"]);
    let told = port.ask(VIEWER, get("/audit?object=providers/local")).await.is(200);
    assert_eq!(told.json["data"].as_array().unwrap().len(), 1, "what stays as it is leaves no row");
}

#[tokio::test]
async fn an_import_that_replaces_replaces_what_others_make_meanwhile_and_any_other_says_so() {
    let port = Port::open();
    let import = |model: &str| format!("routes: [{{ name: a, upstreams: [{{ provider: cloud, model: {model} }}] }}]");
    let behind = port.behind();
    port.ask(OPERATOR, put("/routes/a", route("m"))).await.is(201);
    behind.ask(OPERATOR, post("/import", import("n"))).await.refused(409, "already_exists");
    let told = behind.ask(OPERATOR, post("/import?replace=true", import("n"))).await.is(200);
    assert_eq!((&told.json["created"], &told.json["replaced"]), (&json!([]), &json!(["routes/a"])), "as it was then");
    let behind = port.behind();
    port.ask(OPERATOR, put("/routes/a", route("m"))).await.is(200);
    behind.ask(OPERATOR, post("/import?replace=true", import("o"))).await.is(200);
    let told = port.ask(VIEWER, get("/routes/a")).await.is(200);
    assert_eq!(told.json["config"]["upstreams"][0]["model"], "o");
    let behind = port.behind();
    port.ask(OPERATOR, delete("/routes/a")).await.is(204);
    let told = behind.ask(OPERATOR, post("/import?replace=true", import("p"))).await.is(200);
    assert_eq!(told.json["created"], json!(["routes/a"]));
}

#[tokio::test]
async fn what_is_put_as_it_was_keeps_its_tag_and_leaves_no_row() {
    let port = Port::open();
    let provider = json!({ "name": "p", "base_url": "http://p/v1", "api_key": "sk-of-the-cloud" });
    let made = port.ask(OPERATOR, put("/providers/p", &provider)).await.is(201);
    let shown = port.ask(VIEWER, get("/providers/p")).await.is(200);
    for same in [&provider, &shown.json["config"]] {
        let dry = port.ask(OPERATOR, put("/providers/p?dry_run=true", same)).await.is(200);
        assert_eq!(dry.json["would"], "nothing");
        let told = port.ask(OPERATOR, put("/providers/p", same)).await.is(200);
        assert_eq!((told.header("etag"), &told.json), (made.header("etag"), &made.json));
    }
    let other = json!({ "base_url": "http://p/v1", "api_key": "another" });
    let told = port.ask(OPERATOR, put("/providers/p", other)).await.is(200);
    assert_eq!(told.header("etag"), "\"2\"", "another secret is a change, though it is not seen");
    let rows = port.ask(VIEWER, get("/audit?object=providers/p")).await.is(200);
    let actions: Vec<&str> =
        rows.json["data"].as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["replace", "create"]);
}

#[tokio::test]
async fn any_state_may_be_replaced_where_somebody_says_so_as_long_as_there_is_one() {
    let port = Port::open();
    let any = |asked: crate::desk::Asking| asked.header("if-match", "*");
    port.ask(OPERATOR, any(put("/routes/a", route("m")))).await.refused(412, "precondition_failed");
    port.ask(OPERATOR, put("/routes/a", route("m"))).await.is(201);
    port.ask(OPERATOR, any(put("/routes/a", route("n")))).await.is(200);
    port.ask(OPERATOR, any(delete("/routes/a"))).await.is(204);
}

#[tokio::test]
async fn names_that_deceive_or_do_not_come_back_are_refused_at_their_field() {
    let port = Port::open();
    for (path, told) in [
        ("%2E%2E", "stands for a folder"),
        ("%E2%80%8B", "U+200B"),
        ("a%E2%80%AEb", "U+202E"),
        ("e%CC%81", "U+0301"),
        ("%24%7BH%7D", "`${`"),
        ("%20a", "blanks around it"),
    ] {
        let asked = put(&format!("/providers/{path}"), r#"{"base_url": "http://p/v1"}"#);
        let refused = port.ask(OPERATOR, asked).await.refused(422, "invalid_config");
        let problem = &refused.json["error"]["problems"][0];
        assert!(problem["path"].as_str().unwrap().ends_with("].name"), "{}", refused.text);
        assert!(problem["message"].as_str().unwrap().contains(told), "{}", refused.text);
    }
    let import = "providers: [{ name: \"..\", base_url: http://p/v1 }]";
    let refused = port.ask(OPERATOR, post("/import", import)).await.refused(422, "invalid_config");
    assert_eq!(refused.json["error"]["problems"][0]["path"], "providers[..].name");
}

#[tokio::test]
async fn an_admin_token_is_no_clients_key() {
    let port = Port::open();
    let client = json!({ "keys": [ADMIN], "routes": ["*"] });
    let refused = port.ask(OPERATOR, put("/clients/c", client)).await.refused(422, "invalid_config");
    assert_eq!(refused.json["error"]["problems"][0]["path"], "clients[c].keys[0]");
    let import = format!("clients: [{{ name: c, keys: [{ADMIN}] }}]");
    port.ask(OPERATOR, post("/import", import)).await.refused(422, "invalid_config");
    port.ask(ADMIN, get("/clients/c")).await.refused(404, "not_found");
}

#[tokio::test]
async fn while_the_store_is_out_objects_are_shown_and_none_is_changed() {
    let stores = gateway::quota::ledger::Stores { objects: std::sync::Arc::new(Out), ..Default::default() };
    let port = Port::with(stores);
    port.ask(VIEWER, get("/routes")).await.is(200);
    let told = port.ask(OPERATOR, post("/routes", SHORT)).await.refused(503, "objects_unavailable");
    assert!(told.message().contains("nothing has changed"), "{}", told.text);
    port.ask(VIEWER, get("/audit")).await.refused(503, "objects_unavailable");
    port.ask(VIEWER, get("/routes/rag-embedding")).await.refused(404, "not_found");
}
