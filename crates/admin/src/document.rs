//! The OpenAPI document: what utoipa gathers from the handlers, with what holds for all of them, and with the schemas of
//! objects out of the configuration's own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use crate::error::Body;

/// What holds for the whole.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "MAI Gateway admin API",
        description = "Shows and moves a running gateway. Everything under `/admin/v1` but this document takes \
            `Authorization: Bearer TOKEN` with a token of `admin.tokens`, whose role is `viewer` (reads), `operator` \
            (also writes and pulls levers) or `admin` (also sees what others may not). Errors are in OpenAI's form. \
            A parameter or field that is not in this document is 400 `invalid_request`; a method that is not is 405 \
            `method_not_allowed`, a path 404 `not_found`. Times are RFC 3339 in UTC with milliseconds; in queries also \
            plain days. Every write leaves a row in the audit log.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "configuration", description = "Providers, routes and clients, as files write them."),
        (name = "clients", description = "What clients call with."),
        (name = "cache", description = "What is cached, and the levers over it."),
        (name = "levers", description = "How upstreams stand, what takes them out and brings them back, drills, and what would happen to a request."),
        (name = "usage", description = "What was used."),
        (name = "requests", description = "Which request went where, and why."),
        (name = "audit", description = "Who has done what."),
        (name = "process", description = "Health and metrics; open to whoever reaches the port."),
    ),
    components(schemas(Body)),
    security(("token" = ["viewer"])),
)]
struct Head;

/// The document before any handler has put itself into it.
pub(crate) fn head() -> Document {
    Head::openapi()
}

/// The names of parameters that each operation takes in its query, by method and path.
#[derive(Debug, Default)]
pub(crate) struct Parameters(BTreeMap<(String, String), BTreeSet<String>>);

impl Parameters {
    fn of(document: &Value) -> Self {
        let query = |operation: &Value| {
            let all = operation.get("parameters").and_then(Value::as_array);
            let query = all.into_iter().flatten().filter(|parameter| parameter["in"] == "query");
            query.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
        };
        let mut names = BTreeMap::new();
        for (path, method, operation) in operations(document) {
            names.insert((method.to_uppercase(), path.to_owned()), query(operation));
        }
        Self(names)
    }

    /// Those of one operation; none where it is not in the document.
    pub(crate) fn taken(&self, method: &str, path: &str) -> Option<&BTreeSet<String>> {
        let method = if method == "HEAD" { "GET" } else { method };
        self.0.get(&(method.to_owned(), path.to_owned()))
    }
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

/// The whole, from what the handlers have said.
pub(crate) fn complete(gathered: &Document) -> (Value, Parameters) {
    let mut document = serde_json::to_value(gathered).unwrap_or_default();
    let optional = bodies_without_duties(&document);
    if let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) {
        for (path, item) in paths {
            for (_, operation) in item.as_object_mut().into_iter().flatten() {
                if let Some(operation) = operation.as_object_mut() {
                    common(path, operation);
                    let body = operation.get_mut("requestBody").and_then(Value::as_object_mut);
                    if let Some(body) = body.filter(|body| body_schema(body).is_some_and(|to| optional.contains(to))) {
                        body.insert("required".to_owned(), json!(false));
                    }
                }
            }
        }
    }
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        components.insert("responses".to_owned(), answers());
        let token = json!({ "type": "http", "scheme": "bearer", "description": "A token of `admin.tokens`." });
        components.insert("securitySchemes".to_owned(), json!({ "token": token }));
        if let Some(schemas) = components.get_mut("schemas").and_then(Value::as_object_mut) {
            schemas.extend(objects());
            name_pages(schemas);
        }
    }
    rename_pages(&mut document);
    let parameters = Parameters::of(&document);
    (document, parameters)
}

/// The schemas of which nothing must be written: a body of theirs may be missing.
fn bodies_without_duties(document: &Value) -> BTreeSet<String> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let is_free = |schema: &Value| schema.get("properties").is_some() && schema.get("required").is_none();
    let free = schemas.into_iter().flatten().filter(|(_, schema)| is_free(schema));
    free.map(|(name, _)| format!("#/components/schemas/{name}")).collect()
}

fn body_schema(body: &Map<String, Value>) -> Option<&str> {
    body.get("content")?.pointer("/application~1json/schema/$ref")?.as_str()
}

/// What utoipa calls a [`crate::listing::Page`] of things.
const PAGE: &str = "Page_";

/// Pages hold things by name, as everything else does.
fn name_pages(schemas: &mut Map<String, Value>) {
    let pages: Vec<String> = schemas.keys().filter(|name| name.starts_with(PAGE)).cloned().collect();
    for page in pages {
        let Some(mut schema) = schemas.shift_remove(&page) else { continue };
        let name = page.trim_start_matches(PAGE);
        if let Some(items) = schema.pointer_mut("/properties/data/items") {
            let thing = std::mem::replace(items, json!({ "$ref": format!("#/components/schemas/{name}") }));
            schemas.entry(name).or_insert(thing);
        }
        schemas.insert(format!("{name}Page"), schema);
    }
    schemas.sort_keys();
}

fn rename_pages(document: &mut Value) {
    relink(document, &|to| {
        Some(format!("#/components/schemas/{}Page", to.strip_prefix("#/components/schemas/Page_")?))
    });
}

/// The answers that every operation of a kind may give, each by its status, its name and its meaning.
const COMMON: [(&str, &str, &str); 8] = [
    ("400", "InvalidRequest", "`invalid_request`: `param` names the field or parameter, `message` says what to write."),
    ("401", "InvalidToken", "`invalid_token`: no token, or one that nobody knows."),
    ("403", "RoleNotAllowed", "`role_not_allowed`: the token's role does not suffice."),
    ("404", "NotFound", "`not_found`: nothing is there."),
    ("405", "MethodNotAllowed", "`method_not_allowed`: the path takes other methods; `allow` says which."),
    ("408", "BodyTimeout", "`body_timeout`: the body did not arrive in time."),
    ("413", "BodyTooLarge", "`body_too_large`: the body has more bytes than it may have."),
    ("429", "TooManyAttempts", "`too_many_attempts`: too many wrong tokens came from this address; see `retry-after`."),
];

/// Adds to an operation what it may answer because of what it takes, unless it says so itself.
fn common(path: &str, operation: &mut Map<String, Value>) {
    let is_open = operation.get("security").is_some_and(|security| *security == json!([{}]));
    let has_body = operation.contains_key("requestBody");
    let has_name = path.contains('{');
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        // What may be left out is not null.
        if let Some(Value::Array(types)) = parameter.pointer_mut("/schema/type") {
            types.retain(|form| form != "null");
            if let [form] = types.as_slice() {
                parameter["schema"]["type"] = form.clone();
            }
        }
    }
    let responses = operation.entry("responses").or_insert_with(|| json!({}));
    let Some(responses) = responses.as_object_mut() else { return };
    for (status, name, _) in COMMON {
        let may = match status {
            "401" | "403" | "429" | "400" => !is_open,
            "404" => has_name,
            "408" | "413" => has_body,
            _ => true,
        };
        if may && !responses.contains_key(status) {
            responses.insert(status.to_owned(), json!({ "$ref": format!("#/components/responses/{name}") }));
        }
    }
    responses.sort_keys();
    for answer in responses.values_mut().filter_map(Value::as_object_mut) {
        if !answer.contains_key("$ref") {
            answer.entry("description").or_insert_with(|| json!("Done."));
        }
    }
}

fn answers() -> Value {
    let mut answers = Map::new();
    for (status, name, meaning) in COMMON {
        let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
        let mut answer = json!({ "description": meaning, "content": content });
        let header = match status {
            "401" => Some(("www-authenticate", "`Bearer`", "string")),
            "429" => Some(("retry-after", "Seconds.", "integer")),
            "405" => Some(("allow", "The methods that the path takes.", "string")),
            _ => None,
        };
        if let Some((header, text, kind)) = header {
            answer["headers"] = json!({ header: { "description": text, "schema": { "type": kind } } });
        }
        answers.insert(name.to_owned(), answer);
    }
    Value::Object(answers)
}

/// `Provider`, `Route` and `Client` as the configuration's schema describes them, with the forms that they use.
fn objects() -> Map<String, Value> {
    let schema: Value = serde_json::from_str(&config::schema()).unwrap_or_default();
    let mut objects = Map::new();
    for (list, name) in [("providers", "Provider"), ("routes", "Route"), ("clients", "Client")] {
        let mut object = schema["properties"][list]["items"].clone();
        // Where the path says the name the body may leave it out.
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.retain(|field| field != "name");
        }
        objects.insert(name.to_owned(), object);
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        objects.insert(format!("New{name}"), json!({ "allOf": [reference, { "required": ["name"] }] }));
    }
    for (name, form) in schema["$defs"].as_object().into_iter().flatten() {
        objects.insert(form_name(name), form.clone());
    }
    objects.values_mut().for_each(|schema| {
        relink(schema, &|to| Some(format!("#/components/schemas/{}", form_name(to.strip_prefix("#/$defs/")?))));
    });
    objects
}

fn form_name(name: &str) -> String {
    format!("config.{name}")
}

/// References lead to where `new` says instead, where it says so.
fn relink(value: &mut Value, new: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(to) if name == "$ref" => {
                        if let Some(new) = new(to) {
                            *to = new;
                        }
                    }
                    value => relink(value, new),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| relink(item, new)),
        _ => {}
    }
}
