//! The admin port: health, metrics and levers, apart from the data port and behind tokens.
//!
//! `/healthz`, `/readyz`, `/metrics` and the document are open to whoever reaches the port; everything else under
//! `/admin/v1` wants `Authorization: Bearer` with a token of sufficient role.
//!
//! # One more endpoint
//!
//! 1. A file in this crate, with handlers such as
//!
//!    ```ignore
//!    /// Takes a key back for good.
//!    ///
//!    /// Calls that run go on; the next one is refused.
//!    #[utoipa::path(delete, path = "/admin/v1/clients/{name}/keys/{id}", tag = "clients",
//!        security(("token" = ["operator"])), responses(
//!            (status = 204, description = "It is good no more."),
//!            (status = 503, description = "`objects_unavailable`: it cannot be written down.", body = Body),
//!    ))]
//!    pub(crate) async fn revoke(
//!        caller: Caller<Operator>,                        // first: whoever may not do it hears nothing else
//!        State(desk): State<Desk>,
//!        Path((name, id)): Path<(String, String)>,        // this crate's: `extract::{Path, Query, Json}`
//!    ) -> Result<StatusCode, Error> { … }
//!    ```
//!
//!    The role in `security` is that of `Caller` (leave it out for `viewer`). Bodies and queries are structs with
//!    `#[derive(Deserialize, ToSchema)]` or `#[derive(Deserialize, IntoParams)] #[into_params(parameter_in = Query)]`
//!    and `#[serde(deny_unknown_fields)]`; answers have `#[derive(Serialize, ToSchema)]`. Lists take a
//!    [`listing::Limit`] (with `#[serde(default)] #[param(inline, required = false)]`) and give a [`listing::Page`]. What every operation of its kind may answer (400, 401, 403, 404, 405, 408, 413,
//!    429) is added by `document`; what is its own stands in `responses`, and is an [`error::Error`].
//! 2. A line in [`api`].
//! 3. Whatever moves something calls [`deeds::audited`] once it is done, or hands its deed to
//!    [`Configuring::change`] or to the store in the same transaction.
//! 4. `cargo run -p xtask -- docs`. A test walks the document: nobody without a token, nobody below the role.

mod aside;
mod attempts;
mod audit;
mod breakers;
mod cache;
mod caller;
mod configuring;
mod damage;
mod deeds;
mod desk;
mod document;
mod drills;
mod error;
mod etag;
mod explain;
mod extract;
mod health;
mod keys;
mod late;
mod length;
mod listing;
mod objects;
mod port;
mod reload;
mod requests;
mod usage;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Method, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tokio::net::TcpListener;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use aside::Aside;
pub use attempts::Attempts;
pub use configuring::{Changed, Configuring, Doing, Expected, Export, NotChanged, Wish};
pub use deeds::bounded;
pub use desk::{Desk, LastReload, Reloaded, Reloading};
pub use error::Told;
pub use late::LateRows;

use error::Error;

/// Every endpoint. Methods of one path stand in one line.
fn api() -> OpenApiRouter<Desk> {
    OpenApiRouter::with_openapi(document::head())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(objects::providers::list, objects::providers::create))
        .routes(routes!(objects::providers::get, objects::providers::put, objects::providers::delete))
        .routes(routes!(objects::routes::list, objects::routes::create))
        .routes(routes!(objects::routes::get, objects::routes::put, objects::routes::delete))
        .routes(routes!(objects::clients::list, objects::clients::create))
        .routes(routes!(objects::clients::get, objects::clients::put, objects::clients::delete))
        .routes(routes!(keys::list, keys::issue))
        .routes(routes!(keys::revoke))
        .routes(routes!(objects::config))
        .routes(routes!(objects::export))
        .routes(routes!(objects::import))
        .routes(routes!(reload::reload))
        .routes(routes!(audit::audit))
        .routes(routes!(usage::usage))
        .routes(routes!(cache::stats))
        .routes(routes!(cache::purge))
        .routes(routes!(cache::remove))
        .routes(routes!(cache::set_kb_version))
        .routes(routes!(breakers::list))
        .routes(routes!(breakers::open))
        .routes(routes!(breakers::close))
        .routes(routes!(drills::list, drills::begin))
        .routes(routes!(drills::end))
        .routes(routes!(explain::explain))
        .routes(routes!(requests::list))
        .routes(routes!(requests::one))
        .routes(routes!(requests::content))
        .routes(routes!(openapi))
}

/// Serves the admin port until the process ends, `most` connections at a time.
pub async fn serve(listener: TcpListener, desk: Desk, most: usize) {
    port::serve(listener, router(desk), most).await;
}

/// The OpenAPI document of the admin API (3.1), as JSON.
#[must_use]
pub fn openapi_json() -> String {
    let (_, gathered) = api().split_for_parts();
    format!("{:#}\n", document::complete(&gathered).0)
}

/// The port's paths.
pub fn router(desk: Desk) -> Router {
    let (router, gathered) = api().split_for_parts();
    let (document, parameters) = document::complete(&gathered);
    router
        .fallback(|| async { Error::NotFound("no such path on the admin port".to_owned()) })
        .method_not_allowed_fallback(|| async { Error::MethodNotAllowed })
        .layer(from_fn(to_its_end))
        .layer(Extension(OpenApiText(document.to_string().into())))
        .layer(Extension(Arc::new(parameters)))
        .with_state(desk)
}

/// The document as it is given out.
#[derive(Clone)]
struct OpenApiText(Arc<str>);

/// This document: OpenAPI 3.1, made from the handlers.
#[utoipa::path(get, path = "/admin/v1/openapi.json", tag = "process", security(()), responses(
    (status = 200, description = "The document.", body = Object),
))]
async fn openapi(Extension(text): Extension<OpenApiText>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.0.to_string()).into_response()
}

/// What has begun to change something is brought to its end, with its row in the audit log, also where the caller
/// leaves meanwhile. Everything that is waited for on the way has a deadline.
async fn to_its_end(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::Internal("this is a fault of the gateway; please report it".to_owned()).into_response(),
    }
}
