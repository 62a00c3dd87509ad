//! `/healthz`, `/readyz`, `/metrics`: open to whoever reaches the port.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::damage::shown;
use crate::desk::Desk;
use crate::error::{Body, Error};
use crate::{cache, requests};

/// That the process runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct Alive {
    /// `alive`
    status: &'static str,
}

/// The process runs.
#[utoipa::path(get, path = "/healthz", tag = "process", security(()), responses((status = 200, body = Alive)))]
pub(crate) async fn healthz() -> Json<Alive> {
    Json(Alive { status: "alive" })
}

/// Whether new calls are taken, and what is not as it should be.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    /// `ready`, or `draining` while the process stops.
    status: &'static str,
    /// Keys of the configuration that are accepted, but not in force in this version.
    not_in_force: Vec<String>,
    /// The problems of the last reload; none where it went well.
    last_reload: Vec<String>,
    /// The usage ledger.
    #[schema(value_type = Object)]
    ledger: Value,
    /// The store of objects of the admin API, issued keys and the audit log.
    #[schema(value_type = Object)]
    objects: Value,
    /// The cache on disk.
    #[schema(value_type = Object)]
    cache: Value,
    /// The request records.
    #[schema(value_type = Object)]
    requests: Value,
    /// Versions of knowledge bases that operators have set.
    #[schema(value_type = Object)]
    kb_versions: Value,
    /// Who is told of events, in the order of the configuration.
    webhooks: Vec<Webhook>,
}

/// How a webhook does.
#[derive(Serialize, ToSchema)]
struct Webhook {
    /// Its name, else its place in the list, from 0.
    name: String,
    /// `ok`, or `behind` where the last delivery failed.
    status: &'static str,
    /// Why it did.
    why: Option<String>,
    /// Events that wait for their next try.
    events_waiting: usize,
}

/// Whether the gateway takes calls, and how its stores do.
#[utoipa::path(get, path = "/readyz", tag = "process", security(()), responses(
    (status = 200, body = Ready),
    (status = 503, description = "The process is about to stop, and takes no new calls.", body = Ready),
))]
pub(crate) async fn readyz(State(desk): State<Desk>) -> Response {
    let draining = desk.live.is_draining();
    let body = Ready {
        status: if draining { "draining" } else { "ready" },
        not_in_force: desk.live.running().snapshot.not_in_force.clone(),
        last_reload: desk.last_reload.problems(),
        ledger: ledger(&desk),
        objects: objects(&desk),
        cache: cache::health(&desk),
        webhooks: webhooks(&desk),
        requests: requests::health(&desk),
        kb_versions: kb_versions(&desk),
    };
    let status = if draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(body)).into_response()
}

/// How the usage ledger does: `behind` while it cannot be written. The gateway is ready all the same.
fn ledger(desk: &Desk) -> Value {
    let health = desk.live.books.ledger.health();
    json!({
        "status": if health.trouble.is_some() { "behind" } else { "ok" },
        "since": health.trouble.as_ref().map(|trouble| trouble.since.as_secs()),
        "why": health.trouble.map(|trouble| trouble.what),
        "entries_waiting": health.waiting,
        "requests_lost": health.lost,
        "quotas_unread": desk.live.books.unopened(),
        "damage": shown(health.damage),
    })
}

/// Whether it is known which versions are set; nothing stored before is served until it is.
fn kb_versions(desk: &Desk) -> Value {
    let versions = &desk.live.kb_versions;
    json!({
        "status": if versions.all().is_some() { "ok" } else { "unread" },
        "damage": shown(versions.damage()),
    })
}

fn webhooks(desk: &Desk) -> Vec<Webhook> {
    let hooks = desk.live.webhooks.shown().into_iter();
    let webhook = |hook: gateway::webhooks::Shown| Webhook {
        name: hook.name.to_string(),
        status: if hook.trouble.is_some() { "behind" } else { "ok" },
        why: hook.trouble,
        events_waiting: hook.waiting,
    };
    hooks.map(webhook).collect()
}

/// How the store of objects does: `out` while it cannot be written, or is not the one that was opened. What is in force
/// stays so.
fn objects(desk: &Desk) -> Value {
    let trouble = desk.live.objects.health();
    json!({
        "status": if trouble.is_some() { "out" } else { "ok" },
        "since": trouble.as_ref().map(|trouble| trouble.since.as_secs()),
        "why": trouble.map(|trouble| trouble.what),
    })
}

/// All metrics, in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "process", security(()), responses(
    (status = 200, description = "Samples.", body = String, content_type = "text/plain"),
    (status = 503, description = "`busy`: too many questions that take long are asked at a time.", body = Body),
))]
pub(crate) async fn metrics(State(desk): State<Desk>) -> Result<Response, Error> {
    let live = desk.live;
    let text = desk.aside.scrape(move || live.metrics_text()).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
