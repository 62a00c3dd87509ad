//! `/admin/v1/audit`: who has done what.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use state::objects::{Deed, Deeds, Filling};
use utoipa::{IntoParams, ToSchema};

use crate::caller::{Caller, Viewer};
use crate::desk::Desk;
use crate::error::{Body, Error, Store};
use crate::extract::Query;
use crate::listing::{Limit, Page, in_order, instant, time};

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which deeds are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asking {
    /// Of this token alone, by its name.
    who: Option<String>,
    /// Done to this, or to what lies below it: `routes`, `routes/rag-chat`.
    object: Option<String>,
    /// From this day in UTC, or this instant, on.
    since: Option<String>,
    /// To the end of this day in UTC, or before this instant.
    until: Option<String>,
    /// So many at most.
    #[serde(default)]
    #[param(inline, required = false)]
    limit: Limit,
    /// Older than this one: `next` of the page before.
    after: Option<String>,
}

/// What somebody has done. It holds no secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Deed)]
pub(crate) struct Shown {
    id: u64,
    #[schema(format = DateTime)]
    time: String,
    /// The name of the token.
    who: String,
    /// Its role then.
    role: String,
    /// One word, such as `create`, `replace`, `delete`, `import`, `issue`, `revoke`, `purge`.
    action: String,
    /// Its path below `/admin/v1`.
    object: String,
    /// What was there before.
    #[schema(value_type = Option<Object>)]
    before: Option<Box<RawValue>>,
    /// What is there since.
    #[schema(value_type = Option<Object>)]
    after: Option<Box<RawValue>>,
}

impl From<Deed> for Shown {
    fn from(deed: Deed) -> Self {
        let json = |text: Option<Box<str>>| text.and_then(|text| RawValue::from_string(text.into_string()).ok());
        Self {
            id: deed.id,
            time: time(deed.at),
            who: deed.who.into_string(),
            role: deed.role.into_string(),
            action: deed.action.into_string(),
            object: deed.object.into_string(),
            before: json(deed.before),
            after: json(deed.after),
        }
    }
}

/// Who has done what, the newest first.
///
/// At most 100,000 rows are kept, and 256 MiB of their texts; the oldest go first. A text that is too long says how long
/// it is and how it begins (`cut`).
#[utoipa::path(get, path = "/admin/v1/audit", tag = "audit", params(Asking), responses(
    (status = 200, description = "A page of them.", body = Page<Shown>),
    (status = 503, description = "`objects_unavailable`: the audit log cannot be read; or `busy`: too many questions that \
        take long are asked at a time.", body = Body),
))]
pub(crate) async fn audit(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Query(asking): Query<Asking>,
) -> Result<Response, Error> {
    let limit = asking.limit;
    let which = which(asking)?;
    let unavailable = |why: String| Error::Unavailable(Store::Objects, why);
    let found = async {
        let found = tokio::time::timeout(PATIENCE, desk.objects.deeds(which).into_future()).await;
        let found = found.map_err(|_| unavailable("the audit log does not answer".to_owned()))?;
        found.map_err(|why| unavailable(format!("the audit log cannot be read: {why}")))
    };
    desk.aside.look_into(found, |found| move || axum::Json(page(found, limit)).into_response()).await
}

/// As many as have room in one answer.
fn page(found: Vec<Deed>, limit: Limit) -> Page<Shown> {
    let mut filling = Filling::default();
    let room = found.iter().take_while(|deed| filling.takes(deed)).count();
    Page::up_to(room.min(limit.get()), found.into_iter().map(Shown::from), |deed| deed.id.to_string())
}

fn which(asking: Asking) -> Result<Deeds, Error> {
    let number = |after: String| {
        after.parse().map_err(|_| Error::of("after", "`after` must be what `next` of the page before says"))
    };
    let at = |name, written: Option<String>, is_end| written.map(|written| instant(name, &written, is_end)).transpose();
    let deeds = Deeds {
        before: asking.after.map(number).transpose()?,
        // One more says that it goes on.
        limit: asking.limit.get() + 1,
        who: asking.who.map(Into::into),
        object: asking.object.map(Into::into),
        since: at("since", asking.since, false)?,
        until: at("until", asking.until, true)?,
    };
    in_order(("since", deeds.since), ("until", deeds.until))?;
    Ok(deeds)
}
