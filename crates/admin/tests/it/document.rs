//! The OpenAPI document, and that the port does what it says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::desk::{ADMIN, Asking, OPERATOR, Port, VIEWER, asking, get};

fn document() -> Value {
    serde_json::from_str(&admin::openapi_json()).unwrap()
}

/// Method, path, role: none where no token is wanted.
fn operations(document: &Value) -> Vec<(String, String, Option<String>)> {
    let general = &document["security"];
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let security = operation.get("security").unwrap_or(general);
            let role = security[0]["token"][0].as_str().map(str::to_owned);
            found.push((method.to_uppercase(), path.clone(), role));
        }
    }
    found
}

/// A request that may be understood or not: it is who asks that counts.
fn some(method: &str, path: &str) -> Asking {
    let path = path.replace("{name}", "chat").replace(['{', '}'], "");
    Asking { path, ..asking(method, "") }
}

#[tokio::test]
async fn anybody_gets_the_document_of_openapi_3_1() {
    let port = Port::open();
    let told = port.ask("", get("/openapi.json")).await.is(200);
    assert_eq!(told.header("content-type"), "application/json");
    assert_eq!(told.json, document());
    assert!(told.json["openapi"].as_str().unwrap().starts_with("3.1."));
    let route = &told.json["components"]["schemas"]["Route"]["properties"];
    assert!(route.get("upstream").is_some() && route.get("retry").is_some());
}

#[tokio::test]
async fn nobody_gets_in_without_a_token_and_nobody_below_the_role() {
    let port = Port::open();
    for (method, path, role) in operations(&document()) {
        let ask = async |token| port.ask(token, some(&method, &path)).await;
        let Some(role) = role else {
            assert!(!path.starts_with("/admin/v1/") || path.ends_with("/openapi.json"), "{path} takes no token");
            continue;
        };
        ask("").await.refused(401, "invalid_token");
        let ranks = [("viewer", VIEWER), ("operator", OPERATOR), ("admin", ADMIN)];
        let least = ranks.iter().position(|(name, _)| *name == role).unwrap();
        for (rank, (_, token)) in ranks.into_iter().enumerate() {
            let told = ask(token).await;
            assert_eq!(told.status == 403, rank < least, "{method} {path} as {token}: {}", told.text);
        }
        assert!(least > 0 || method == "GET" || path.ends_with("/explain"), "{method} {path} is for viewers");
    }
}

#[tokio::test]
async fn what_is_answered_is_declared() {
    let port = Port::open();
    let document = document();
    for (method, path, _) in operations(&document) {
        let declared = document["paths"][&path][method.to_lowercase()]["responses"].as_object().unwrap();
        let declared: BTreeSet<&str> = declared.keys().map(String::as_str).collect();
        for asked in [some(&method, &path), Asking { body: "{\"x\": [".to_owned(), ..some(&method, &path) }] {
            for token in ["", VIEWER, ADMIN] {
                let told = port.ask(token, asked.clone()).await;
                assert!(declared.contains(told.status.as_str()), "{method} {path}: {} {}", told.status, told.text);
            }
        }
    }
}

#[test]
fn every_operation_has_a_name_of_its_own_a_summary_and_a_role() {
    let document = document();
    let mut names = BTreeSet::new();
    for (method, path, _) in operations(&document) {
        let operation = &document["paths"][&path][method.to_lowercase()];
        assert!(names.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
        assert!(operation["summary"].as_str().is_some_and(|summary| summary.ends_with('.')), "{method} {path}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.contains("#/components/schemas/Route"));
    for reference in found {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
    }
    assert_ne!(document["components"]["responses"], json!(null));
}

#[test]
fn every_word_of_a_decision_is_in_the_document() {
    let document: serde_json::Value = serde_json::from_str(&admin::openapi_json()).unwrap();
    let what = &document["components"]["schemas"]["DecisionFacts"]["properties"]["what"];
    let told = what["description"].as_str().unwrap();
    assert!(base::Decision::WORDS.iter().all(|word| told.contains(&format!("`{word}`"))), "{told}");
    assert!(told.contains("`match_withheld`") && told.contains("`more`"));
}
