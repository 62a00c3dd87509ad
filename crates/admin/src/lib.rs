//! The admin port: health, metrics and levers, apart from the data port and behind tokens.
//!
//! `/healthz`, `/readyz` and `/metrics` are open to whoever reaches the port; everything under
//! `/admin/v1` wants `Authorization: Bearer` with a token of sufficient role.

mod cache;
mod configuring;
mod usage;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use base::KeyHasher;
use config::{AdminToken, Role};
use gateway::live::Live;
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub use configuring::{Changed, Configuring, Doing, Expected, NotChanged, Wish};

/// What the last reload came to, for `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct LastReload(Arc<Mutex<Vec<String>>>);

impl LastReload {
    /// Notes its problems; none where it went well.
    pub fn note(&self, problems: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    /// The problems of the last reload.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A reload's result: a summary, or every problem.
pub type Reloaded = Result<String, Vec<String>>;
/// A reload under way.
pub type Reloading = Pin<Box<dyn Future<Output = Reloaded> + Send>>;

/// What the admin port shows and moves.
#[derive(Clone)]
pub struct Desk {
    /// The process's state.
    pub live: Arc<Live>,
    /// Hashes presented tokens.
    pub hasher: KeyHasher,
    /// What the last reload came to.
    pub last_reload: LastReload,
    /// Reads the configuration again.
    pub reload: Arc<dyn Fn() -> Reloading + Send + Sync>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

/// Serves the admin port until the process ends.
///
/// # Errors
/// The listener's own.
pub async fn serve(listener: TcpListener, desk: Desk) -> std::io::Result<()> {
    axum::serve(listener, router(desk)).await
}

/// The port's paths.
pub fn router(desk: Desk) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({ "status": "alive" })) }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/admin/v1/reload", post(reload))
        .route("/admin/v1/usage", get(usage::usage))
        .route("/admin/v1/cache", get(cache::stats))
        .route("/admin/v1/cache/purge", post(cache::purge))
        .route("/admin/v1/cache/entries/{id}", delete(cache::remove))
        .route("/admin/v1/cache/routes/{name}/kb-version", put(cache::set_kb_version))
        .fallback(|| async { refused(StatusCode::NOT_FOUND, "not_found", "no such path on the admin port") })
        .method_not_allowed_fallback(|| async {
            refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes another method")
        })
        .with_state(desk)
}

async fn readyz(State(desk): State<Desk>) -> Response {
    let draining = desk.live.is_draining();
    let running = desk.live.running();
    let body = json!({
        "status": if draining { "draining" } else { "ready" },
        "not_in_force": running.snapshot.not_in_force,
        "last_reload": desk.last_reload.problems(),
        "ledger": ledger(&desk),
        "cache": cache::health(&desk),
    });
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

async fn metrics(State(desk): State<Desk>) -> Response {
    let text = desk.live.metrics_text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn reload(State(desk): State<Desk>, headers: HeaderMap) -> Response {
    if let Err(denied) = authorize(&desk, &headers, Role::Operator) {
        return denied.into_response();
    }
    match (desk.reload)().await {
        Ok(summary) => Json(json!({ "result": "ok", "summary": summary })).into_response(),
        Err(problems) => {
            let mut body = error("invalid_config", "the new configuration is not sound; the old one keeps serving");
            if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
                error.insert("problems".to_owned(), json!(problems));
            }
            (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
        }
    }
}

/// Why a caller of the admin API is turned away.
enum Denied {
    UnknownToken,
    TooSmallARole,
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        match self {
            Self::UnknownToken => refused(
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                "send `Authorization: Bearer TOKEN` with a token of `admin.tokens` (or MAI_ADMIN_TOKEN)",
            ),
            Self::TooSmallARole => {
                refused(StatusCode::FORBIDDEN, "role_not_allowed", "this token's role may not do that")
            }
        }
    }
}

/// Who asks, when the token is known and its role suffices.
fn authorize(desk: &Desk, headers: &HeaderMap, least: Role) -> Result<AdminToken, Denied> {
    let presented = headers
        .get(header::AUTHORIZATION)
        .map(axum::http::HeaderValue::as_bytes)
        .and_then(|value| value.split_at_checked(7))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
        .map(|(_, token)| token.trim_ascii());
    let running = desk.live.running();
    let id = desk.hasher.of_key(presented.ok_or(Denied::UnknownToken)?);
    // Every token is compared, each in constant time.
    let tokens = running.snapshot.general.admin_tokens.iter();
    let known = tokens.fold(None, |found, token| if token.id == id { Some(token) } else { found });
    let token = known.ok_or(Denied::UnknownToken)?;
    if token.role < least { Err(Denied::TooSmallARole) } else { Ok(token.clone()) }
}

fn refused(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(error(code, message))).into_response()
}

fn error(code: &str, message: &str) -> Value {
    let kind = match code {
        "invalid_token" => "authentication_error",
        "role_not_allowed" => "permission_error",
        "not_found" => "not_found_error",
        "ledger_unavailable" | "cache_unavailable" => "api_error",
        _ => "invalid_request_error",
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}
