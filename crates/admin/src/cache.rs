//! `/admin/v1/cache`: what is cached, and the levers over it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use config::{CacheMode, Role, Route};
use serde_json::{Map, Value, json};
use state::answers::{Key, Kind, Tier, Which};
use state::{Answer, Trouble, Unreadable};

use crate::{Desk, authorize, refused};

/// How long a caller waits for the disk: less than many a client waits at all, which would not hear then that what
/// it asked for is on its way.
const PATIENCE: Duration = Duration::from_secs(5);
/// Letters of a `kb_version` at most.
const LONGEST_VERSION: usize = 200;

/// How the cache on disk does; the gateway is ready all the same.
pub(crate) fn health(desk: &Desk) -> Value {
    match desk.live.answers.stats().disk {
        None => json!({ "status": "memory" }),
        Some(disk) => trouble(disk.trouble),
    }
}

fn trouble(trouble: Option<Trouble>) -> Value {
    json!({
        "status": if trouble.is_some() { "out" } else { "ok" },
        "since": trouble.as_ref().map(|trouble| trouble.since.as_secs()),
        "why": trouble.map(|trouble| trouble.what),
    })
}

/// `GET /admin/v1/cache`
pub(crate) async fn stats(State(desk): State<Desk>, headers: HeaderMap) -> Response {
    if let Err(denied) = authorize(&desk, &headers, Role::Viewer) {
        return denied.into_response();
    }
    let (answers, running) = (&desk.live.answers, desk.live.running());
    let stats = answers.stats();
    // It looks at everything, which may take a tenth of a second: not on the thread that takes connections.
    let held = answers.clone();
    let Ok(held) = tokio::task::spawn_blocking(move || held.holdings()).await else {
        return unavailable("the cache cannot be looked through; please report this");
    };
    let sums = |(entries, bytes): (u64, u64)| json!({ "entries": entries, "bytes": bytes });
    let holdings: Vec<Value> = held
        .into_iter()
        .map(|holding| {
            json!({
                "kind": holding.kind.as_str(),
                "route": &*holding.route,
                "memory": sums(holding.memory),
                "disk": sums(holding.disk),
            })
        })
        .collect();
    let routes: Vec<Value> = running.snapshot.routes.iter().map(|route| shown(&desk, route)).collect();
    let disk = stats.disk.map(|disk| {
        let mut shown = tier(&disk);
        shown.insert("damaged".to_owned(), json!(disk.damaged));
        shown.insert("waiting".to_owned(), json!(disk.waiting));
        if let Value::Object(health) = trouble(disk.trouble) {
            shown.extend(health);
        }
        shown
    });
    Json(json!({ "memory": tier(&stats.memory), "disk": disk, "holdings": holdings, "routes": routes })).into_response()
}

fn tier(tier: &Tier) -> Map<String, Value> {
    let counts = [
        ("entries", tier.entries),
        ("bytes", tier.bytes),
        ("max_bytes", tier.most),
        ("hits", tier.hits),
        ("evicted", tier.evicted),
        ("refused", tier.refused),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

/// A route: what it caches, and the version of its knowledge base that holds where callers say nothing.
fn shown(desk: &Desk, route: &Route) -> Value {
    let mode = match route.cache.mode {
        CacheMode::Off => "off",
        CacheMode::Exact => "exact",
        CacheMode::Semantic => "semantic",
    };
    let in_file = route.cache.kb_version.as_deref();
    let (version, from) = match desk.live.kb_versions.all() {
        None => (None, Some("unknown")),
        Some(set) => match set.get(&route.name) {
            Some(set) => (Some(set.to_string()), Some("admin")),
            None => (in_file.map(str::to_owned), in_file.map(|_| "file")),
        },
    };
    json!({ "route": &*route.name, "mode": mode, "kb_version": version, "kb_version_from": from })
}

/// `POST /admin/v1/cache/purge`
pub(crate) async fn purge(State(desk): State<Desk>, headers: HeaderMap, body: ReadBody) -> Response {
    let operator = match authorize(&desk, &headers, Role::Operator) {
        Ok(operator) => operator,
        Err(denied) => return denied.into_response(),
    };
    let which = match read(body).and_then(|body| which(&body)) {
        Ok(which) => which,
        Err((status, wrong)) => return told(status, &wrong),
    };
    let (live, these) = (desk.live.clone(), which.clone());
    let Ok(purging) = tokio::task::spawn_blocking(move || live.purge(&these)).await else {
        return unavailable("the cache cannot be looked through; please report this");
    };
    match within(purging).await {
        Ok(purged) => {
            tracing::info!(by = operator.name, ?which, purged, "cached answers were purged");
            Json(json!({ "purged": purged })).into_response()
        }
        Err(why) => unavailable(&why),
    }
}

type Wrong = (StatusCode, String);
type ReadBody = Result<Bytes, BytesRejection>;
type Segment = Result<Path<String>, PathRejection>;

/// A body, or why there is none in words of ours: in the form of every error of this port.
fn read(body: ReadBody) -> Result<Bytes, Wrong> {
    body.map_err(|rejection| {
        let status = rejection.status();
        let why = if status == StatusCode::PAYLOAD_TOO_LARGE { "the body is too large" } else { "the body broke off" };
        (status, why.to_owned())
    })
}

/// What stands in the path, decoded.
fn segment(path: Segment) -> Result<String, Wrong> {
    let wrong = |_| (StatusCode::BAD_REQUEST, "the path is not UTF-8 once its percent-encoding is undone".to_owned());
    path.map(|Path(segment)| segment).map_err(wrong)
}

/// What a body narrows it down to; one that is empty, to nothing. Routes and clients need not be configured: what was
/// kept for one that is there no more is to be had out of the cache too.
fn which(body: &[u8]) -> Result<Which, Wrong> {
    let bad = |wrong: String| (StatusCode::BAD_REQUEST, wrong);
    let mut which = Which::default();
    for (name, value) in object(body)? {
        let Value::String(value) = value else { return Err(bad(format!("`{name}` must be a text"))) };
        match name.as_str() {
            "route" => which.route = Some(value.into()),
            "client" => which.client = Some(value.into()),
            "kind" => {
                let kinds = Kind::ALL.map(Kind::as_str).join(", ");
                let kind = Kind::named(&value);
                which.kind =
                    Some(kind.ok_or_else(|| bad(format!("`kind` is `{value}`, but must be one of: {kinds}")))?);
            }
            _ => return Err(bad(format!("there is no field `{name}`; write `route`, `client` or `kind`"))),
        }
    }
    Ok(which)
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Wrong> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(body).map_err(|_| (StatusCode::BAD_REQUEST, "the body must be a JSON object".to_owned()))
}

fn route(desk: &Desk, name: &str) -> Result<Arc<Route>, Wrong> {
    let running = desk.live.running();
    let known = running.snapshot.routes.iter().find(|route| *route.name == *name);
    known.cloned().ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no route `{name}`")))
}

/// `DELETE /admin/v1/cache/entries/{id}`
pub(crate) async fn remove(State(desk): State<Desk>, id: Segment, headers: HeaderMap) -> Response {
    let operator = match authorize(&desk, &headers, Role::Operator) {
        Ok(operator) => operator,
        Err(denied) => return denied.into_response(),
    };
    let id = match segment(id) {
        Ok(id) => id,
        Err((status, wrong)) => return told(status, &wrong),
    };
    let nothing = || told(StatusCode::NOT_FOUND, "nothing is cached under this id");
    let Ok(key) = id.parse::<Key>() else { return nothing() };
    match within(desk.live.answers.remove(&key)).await {
        Ok(true) => {
            tracing::info!(by = operator.name, id, "a cached answer was removed");
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(false) => nothing(),
        Err(why) => unavailable(&why),
    }
}

/// `PUT /admin/v1/cache/routes/{name}/kb-version`
pub(crate) async fn set_kb_version(
    State(desk): State<Desk>,
    name: Segment,
    headers: HeaderMap,
    body: ReadBody,
) -> Response {
    let operator = match authorize(&desk, &headers, Role::Operator) {
        Ok(operator) => operator,
        Err(denied) => return denied.into_response(),
    };
    let asked = segment(name).and_then(|name| Ok((route(&desk, &name)?, version(&read(body)?)?)));
    let (route, version) = match asked {
        Ok(asked) => asked,
        Err((status, wrong)) => return told(status, &wrong),
    };
    let setting = desk.live.kb_versions.set(route.name.clone(), version.clone());
    match tokio::time::timeout(PATIENCE, setting).await {
        Ok(Ok(())) => {
            tracing::info!(
                by = operator.name,
                route = &*route.name,
                kb_version = version.as_deref(),
                "kb_version was set"
            );
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(Err(error)) => unavailable(&format!("nothing has changed, for it cannot be written down: {error}")),
        Err(_) => unavailable("the database does not answer; whether this was set is not known, ask again"),
    }
}

/// The version that a body sets; null leaves it to the configuration.
fn version(body: &[u8]) -> Result<Option<Arc<str>>, Wrong> {
    let bad = |wrong: &str| Err((StatusCode::BAD_REQUEST, wrong.to_owned()));
    let mut body = object(body)?;
    let version = body.remove("kb_version");
    if !body.is_empty() {
        return bad("there is only one field: `kb_version`");
    }
    match version {
        Some(Value::Null) => Ok(None),
        Some(Value::String(version)) if (1..=LONGEST_VERSION).contains(&version.chars().count()) => {
            Ok(Some(version.into()))
        }
        _ => bad("`kb_version` must be a text of 1 to 200 letters, or null to leave it to the configuration"),
    }
}

/// What the store says of a removal, if it says it in time. Memory has let go of it by now in any case.
async fn within<T: Unpin>(answer: Answer<Result<T, Unreadable>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, answer.into_future()).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(error)) => Err(format!("it is gone from memory, but not from the disk: {}", error.0)),
        Err(_) => {
            Err("it is gone from memory, but the disk is slow or out: nothing of it is served any more, and the \
                       disk is rid of it as soon as that can be"
                .to_owned())
        }
    }
}

fn unavailable(why: &str) -> Response {
    refused(StatusCode::SERVICE_UNAVAILABLE, "cache_unavailable", why)
}

fn told(status: StatusCode, why: &str) -> Response {
    let code = match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        _ => "invalid_request",
    };
    refused(status, code, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_purges_hears_within_five_seconds_of_a_disk_that_does_not_answer() {
        let began = base::Clock.now();
        let told = within::<u64>(Answer::Later(Box::pin(std::future::pending()))).await;
        assert_eq!(base::Clock.now().duration_since(began), Duration::from_secs(5));
        assert!(told.unwrap_err().contains("gone from memory"));
    }
}
