//! `/healthz`, `/readyz`, `/metrics`: open to whoever reaches the port.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::cache;
use crate::desk::Desk;

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
    /// The cache on disk.
    #[schema(value_type = Object)]
    cache: Value,
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
        cache: cache::health(&desk),
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
    })
}

/// All metrics, in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "process", security(()), responses(
    (status = 200, description = "Samples.", body = String, content_type = "text/plain"),
))]
pub(crate) async fn metrics(State(desk): State<Desk>) -> Response {
    let text = desk.live.metrics_text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
