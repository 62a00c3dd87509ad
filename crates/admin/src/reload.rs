//! `/admin/v1/reload`: the configuration is read again.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::caller::{Caller, Operator};
use crate::deeds::{Done, audited};
use crate::desk::Desk;
use crate::error::{Body, Error};

/// A reload that went well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Reload {
    /// `ok`
    result: &'static str,
    /// What is in force now, in words.
    summary: String,
}

/// Reads the files of the configuration again.
///
/// Where they are not sound nothing changes: the old configuration keeps serving.
#[utoipa::path(post, path = "/admin/v1/reload", tag = "configuration", security(("token" = ["operator"])), responses(
    (status = 200, description = "The new configuration is in force.", body = Reload),
    (status = 422, description = "`invalid_config`: the new configuration is not sound.", body = Body),
))]
pub(crate) async fn reload(caller: Caller<Operator>, State(desk): State<Desk>) -> Result<Json<Reload>, Error> {
    let reloaded = (desk.reload)().await;
    let result = if reloaded.is_ok() { "ok" } else { "rejected" };
    audited(&desk, &caller, Done::to("config", "reload").with(json!({ "result": result }))).await;
    match reloaded {
        Ok(summary) => Ok(Json(Reload { result, summary })),
        Err(problems) => Err(Error::InvalidConfig {
            message: "the new configuration is not sound; the old one keeps serving".to_owned(),
            problems,
        }),
    }
}
