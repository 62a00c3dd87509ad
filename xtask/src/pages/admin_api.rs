//! admin-api.md: the OpenAPI document of the admin port, for people.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{code, head, table};

const MORE: &str = "
The same as a document for programs: `GET /admin/v1/openapi.json` (OpenAPI 3.1), which takes no token.

Every operation may answer what is listed here beside its own: 400 for whatever is wrong with a parameter or body, 401, 403
and 429 where it takes a token, 404 where its path has a name, 408 and 413 where it takes a body, 405 for other methods.
";

pub fn page() -> String {
    let document: Value = serde_json::from_str(&admin::openapi_json()).unwrap_or_default();
    let mut page = head("Admin API", "the handlers in crates/admin/src");
    page.push_str(&format!("\n{}\n", words(&document["info"]["description"])));
    page.push_str(MORE);
    let common = fields(&document["components"]["responses"]);
    let status = |name: &str| status_of(&document, name).unwrap_or_default().to_owned();
    page.push_str(&table(
        &["answer", "means"],
        common.map(|(name, answer)| vec![status(name), words(&answer["description"])]),
    ));
    let schemas = &document["components"]["schemas"];
    for tag in items(&document["tags"]) {
        let name = words(&tag["name"]);
        page.push_str(&format!("\n## {}\n\n{}\n", capital(&name), words(&tag["description"])));
        for (path, item) in fields(&document["paths"]) {
            for (method, operation) in fields(item) {
                if items(&operation["tags"]).any(|tag| tag.as_str() == Some(&name)) {
                    page.push_str(&section(&document, (method, path), operation));
                }
            }
        }
    }
    page.push_str("\n## Objects\n\nA field that may be missing is in *italics*.\n");
    for (name, schema) in fields(schemas).filter(|(name, _)| !is_of_the_configuration(name)) {
        page.push_str(&object(name, schema));
    }
    page
}

/// The status of an answer that many operations may give.
fn status_of<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    let operations = fields(&document["paths"]).flat_map(|(_, item)| fields(item));
    let mut answers = operations.flat_map(|(_, operation)| fields(&operation["responses"]));
    let is_this = |answer: &Value| answer["$ref"].as_str().is_some_and(|to| to.rsplit('/').next() == Some(name));
    answers.find(|(_, answer)| is_this(answer)).map(|(status, _)| status)
}

/// Whether it is described in the configuration's own reference.
fn is_of_the_configuration(name: &str) -> bool {
    matches!(name.trim_start_matches("New"), "Provider" | "Route" | "Client") || name.starts_with("config.")
}

fn section(document: &Value, (method, path): (&str, &str), operation: &Value) -> String {
    let security = operation.get("security").unwrap_or(&document["security"]);
    let role = match security[0]["token"][0].as_str() {
        Some(role) => format!("Role `{role}`."),
        None => "No token.".to_owned(),
    };
    let mut text = format!("\n### `{} {path}`\n\n{} {role}\n", method.to_uppercase(), words(&operation["summary"]));
    if let Some(more) = operation["description"].as_str() {
        text.push_str(&format!("\n{more}\n"));
    }
    let parameters: Vec<_> = items(&operation["parameters"])
        .map(|parameter| {
            let place = words(&parameter["in"]);
            let schema = kind(&parameter["schema"]);
            vec![code(&words(&parameter["name"])), place, schema, words(&parameter["description"])]
        })
        .collect();
    if !parameters.is_empty() {
        text.push_str(&table(&["parameter", "in", "form", "means"], parameters));
    }
    if let Some(body) = operation.get("requestBody") {
        let more = body["description"].as_str().unwrap_or_default();
        text.push_str(format!("\nBody: {}. {more}", contents(&body["content"])).trim_end());
        text.push('\n');
    }
    let answers = fields(&operation["responses"]).filter(|(_, answer)| answer.get("$ref").is_none());
    text.push_str(&table(
        &["answer", "means", "body"],
        answers.map(|(status, answer)| {
            vec![status.to_owned(), words(&answer["description"]), contents(&answer["content"])]
        }),
    ));
    text
}

fn contents(content: &Value) -> String {
    let told = |(media, content): (&str, &Value)| match media {
        "application/json" => kind(&content["schema"]),
        media => code(media),
    };
    fields(content).map(told).collect::<Vec<_>>().join(" or ")
}

fn object(name: &str, schema: &Value) -> String {
    let mut text = format!("\n### {name}\n");
    if let Some(more) = schema["description"].as_str() {
        text.push_str(&format!("\n{more}\n"));
    }
    let parts: Vec<&Value> = items(&schema["allOf"]).collect();
    for part in parts.iter().filter(|part| part.get("$ref").is_some()) {
        text.push_str(&format!("\nHas all that {} has.\n", kind(part)));
    }
    let own = parts.into_iter().chain([schema]).find(|part| part.get("properties").is_some());
    match own {
        Some(own) => {
            let required: BTreeSet<&str> = items(&own["required"]).filter_map(Value::as_str).collect();
            let rows = fields(&own["properties"]).map(|(field, schema)| {
                let shown = if required.contains(field) { code(field) } else { format!("*{}*", code(field)) };
                vec![shown, kind(schema), meaning(schema)]
            });
            text.push_str(&table(&["field", "form", "means"], rows));
        }
        None if schema.get("oneOf").is_some() => text.push_str(&format!("\nIt is {}.\n", kind(schema))),
        None if schema.get("$ref").is_some() => text.push_str(&format!("\nAs {}.\n", kind(schema))),
        None => {}
    }
    text
}

/// What a field means; of one that may be null, and else is an object, that stands with the object.
fn meaning(schema: &Value) -> String {
    let own = std::iter::once(schema).chain(items(&schema["oneOf"]));
    own.map(|schema| words(&schema["description"])).find(|told| !told.is_empty()).unwrap_or_default()
}

/// The form of a value, in words.
fn kind(schema: &Value) -> String {
    if let Some(to) = schema["$ref"].as_str() {
        let name = to.rsplit('/').next().unwrap_or(to);
        return match name {
            name if is_of_the_configuration(name) => {
                format!("[{}](configuration.md)", name.trim_start_matches("New"))
            }
            name => format!("[{name}](#{})", anchor(name)),
        };
    }
    let several: Vec<String> =
        items(&schema["oneOf"]).chain(items(&schema["anyOf"])).chain(items(&schema["allOf"])).map(kind).collect();
    if !several.is_empty() {
        return several.join(" or ");
    }
    let types: Vec<String> = match &schema["type"] {
        Value::Array(types) => types.iter().map(words).collect(),
        Value::Null => vec!["any".to_owned()],
        one => vec![words(one)],
    };
    let told = |word: String| match word.as_str() {
        "array" => format!("list of {}", kind(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        "string" => "text".to_owned(),
        _ => word,
    };
    let mut text = types.into_iter().map(told).collect::<Vec<_>>().join(" or ");
    let words: Vec<String> = items(&schema["enum"]).filter_map(Value::as_str).map(code).collect();
    if !words.is_empty() {
        text = words.join(", ");
    }
    let bounds = [("least", &schema["minimum"]), ("at most", &schema["maximum"]), ("else", &schema["default"])];
    for (word, bound) in
        bounds.into_iter().filter(|(word, bound)| bound.is_number() && !(*word == "least" && *bound == 0))
    {
        text.push_str(&format!(", {word} {bound}"));
    }
    text
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'))
        .collect::<String>()
        .to_lowercase()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Text for one cell of a table, or one paragraph.
fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn fields(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    object.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}
