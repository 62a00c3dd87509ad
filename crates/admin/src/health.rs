//! `/healthz`, `/readyz`, `/metrics`: open to whoever reaches the port.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::cache::{self, Health};
use crate::damage::Damage;
use crate::desk::Desk;
use crate::error::{Body, Error};
use crate::requests::{self, RecordsHealth};

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
    ledger: LedgerHealth,
    /// The store of objects of the admin API, issued keys and the audit log: `out` while it cannot be written, or is not
    /// the one that was opened. What is in force stays so.
    objects: Health,
    /// The cache on disk.
    cache: Health,
    /// The request records.
    requests: RecordsHealth,
    /// Versions of knowledge bases that operators have set.
    kb_versions: VersionsHealth,
    /// Who is told of events, in the order of the configuration.
    webhooks: Vec<Webhook>,
}

/// How the usage ledger does.
#[derive(Serialize, ToSchema)]
struct LedgerHealth {
    /// `ok`, or `behind` while it cannot be written.
    status: &'static str,
    /// Since when it is behind, in seconds since the Unix epoch.
    since: Option<u64>,
    /// Why it is behind.
    why: Option<String>,
    /// Entries of usage that are in memory alone, and wait to be written.
    entries_waiting: u64,
    /// Requests whose usage was lost since the start.
    requests_lost: u64,
    /// Quotas of which it has not told yet what was used before the start. Until it does, only what was used since counts.
    quotas_unread: usize,
    /// What befell its file last; null where nothing has since the start.
    damage: Option<Damage>,
}

/// How the set versions of knowledge bases do.
#[derive(Serialize, ToSchema)]
struct VersionsHealth {
    /// `ok`, or `unread` while it is not known which are set: nothing stored before is served then.
    status: &'static str,
    /// What befell their file last; null where nothing has since the start.
    damage: Option<Damage>,
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
        objects: Health::of(desk.live.objects.health()),
        cache: cache::health(&desk),
        webhooks: webhooks(&desk),
        requests: requests::health(&desk),
        kb_versions: kb_versions(&desk),
    };
    let status = if draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(body)).into_response()
}

/// How the usage ledger does: `behind` while it cannot be written. The gateway is ready all the same.
fn ledger(desk: &Desk) -> LedgerHealth {
    let health = desk.live.usage_ledger.store.health();
    LedgerHealth {
        status: if health.trouble.is_some() { "behind" } else { "ok" },
        since: health.trouble.as_ref().map(|trouble| trouble.since.as_secs()),
        why: health.trouble.map(|trouble| trouble.what),
        entries_waiting: health.waiting,
        requests_lost: health.lost,
        quotas_unread: desk.live.usage_ledger.unopened(),
        damage: health.damage.map(Into::into),
    }
}

/// Whether it is known which versions are set; nothing stored before is served until it is.
fn kb_versions(desk: &Desk) -> VersionsHealth {
    let versions = &desk.live.kb_versions;
    VersionsHealth {
        status: if versions.all().is_some() { "ok" } else { "unread" },
        damage: versions.damage().map(Into::into),
    }
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
