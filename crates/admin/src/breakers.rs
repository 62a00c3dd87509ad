//! `/admin/v1/breakers`: how upstreams stand, and the levers that take them out and bring them back.

use axum::Json as Answer;
use axum::extract::State;
use gateway::live::levers::{BreakerShown, Which};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::caller::{Caller, Operator, Viewer};
use crate::deeds::{Done, audited};
use crate::desk::Desk;
use crate::error::{Body, Error};
use crate::extract::{Json, Path, Query};
use crate::length::Length;
use crate::listing::{Limit, Page, time};

/// Which breakers are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asking {
    /// Of this route alone.
    route: Option<String>,
    /// So many at most.
    #[serde(default)]
    #[param(inline, required = false)]
    limit: Limit,
    /// `next` of the page before.
    after: Option<String>,
}

/// The breaker of an upstream of a route.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Breaker {
    /// `provider/model`
    upstream: String,
    route: String,
    /// `closed` takes every call, `half_open` one trial at a time or a share that grows back, `open` none.
    #[schema(pattern = "^(closed|half_open|open)$")]
    state: &'static str,
    /// Since when it stands so.
    #[schema(format = DateTime)]
    since: String,
    /// An operator holds it open.
    held: bool,
    /// Until when; missing where it is held until it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    held_until: Option<String>,
    /// Until when the upstream rests: it was throttled, or every key of its provider was throttled or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    resting_until: Option<String>,
}

impl Breaker {
    pub(crate) fn is_of(&self, upstream: &str) -> bool {
        self.upstream == upstream
    }
}

impl From<BreakerShown> for Breaker {
    fn from(shown: BreakerShown) -> Self {
        Self {
            upstream: shown.upstream.to_string(),
            route: shown.route.to_string(),
            state: shown.shown.as_str(),
            since: time(shown.since),
            held: shown.is_held,
            held_until: shown.held_until.map(time),
            resting_until: shown.resting_until.map(time),
        }
    }
}

/// Those of one route.
pub(crate) fn of_route(desk: &Desk, route: &str) -> Vec<Breaker> {
    desk.live.breakers().into_iter().filter(|shown| &*shown.route == route).map(Into::into).collect()
}

/// Every breaker, in the order of the configuration.
#[utoipa::path(get, path = "/admin/v1/breakers", operation_id = "list_breakers", tag = "levers", params(Asking), responses(
    (status = 200, description = "A page of them.", body = Page<Breaker>),
    (status = 503, description = "`busy`: too many questions that take long are asked at a time.", body = Body),
))]
pub(crate) async fn list(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Query(asked): Query<Asking>,
) -> Result<Answer<Page<Breaker>>, Error> {
    let live = desk.live;
    let look = move || {
        let is_meant = |shown: &BreakerShown| asked.route.as_deref().is_none_or(|route| route == &*shown.route);
        let found = live.breakers().into_iter().filter(is_meant).map(Breaker::from);
        Page::numbered(found, asked.limit, asked.after.as_deref()).map(Answer)
    };
    desk.aside.look(look).await?
}

/// Which breakers are held, and for how long.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BreakerHold)]
pub(crate) struct Hold {
    /// For so long; without it, until it is closed.
    #[serde(rename = "for")]
    #[schema(nullable = false)]
    length: Option<Length>,
    /// On this route alone; without it, on every one that has such an upstream.
    #[schema(nullable = false)]
    route: Option<String>,
}

/// Which breakers are closed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BreakerClose)]
pub(crate) struct Close {
    /// On this route alone; without it, on every one that has such an upstream.
    #[schema(nullable = false)]
    route: Option<String>,
}

/// Breakers that a lever has moved.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BreakersMoved)]
pub(crate) struct Moved {
    /// How they stand now.
    data: Vec<Breaker>,
}

/// Holds an upstream's breaker open: it gets no calls, whatever tries and probes find.
///
/// Without `for` until it is closed; else there is one trial when the time is over, as after any outage. It outlives
/// reloads, and ends with a restart. A hold takes the place of the one before.
#[utoipa::path(post, path = "/admin/v1/breakers/{upstream}/open", operation_id = "hold_breaker_open", tag = "levers",
    security(("token" = ["operator"])),
    params(("upstream" = String, Path, description = "`provider/model`, percent-encoded")),
    responses((status = 200, description = "It is held.", body = Moved)))]
pub(crate) async fn open(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path(upstream): Path<String>,
    Json(asked): Json<Hold>,
) -> Result<Answer<Moved>, Error> {
    let length = asked.length.map(|length| length.0);
    if length.is_some_and(|length| length.is_zero()) {
        return Err(Error::of("for", "`for` must be longer than nothing; leave it out to hold it until it is closed"));
    }
    let which = Which { upstream: &upstream, route: asked.route.as_deref() };
    let moved = moved(desk.live.hold_open(which, length), which)?;
    let after = json!({ "route": asked.route, "for": asked.length });
    audited(&desk, &caller, Done::to(format!("breakers/{upstream}"), "open").with(after)).await;
    Ok(moved)
}

/// Closes an upstream's breaker: it takes every call at once.
///
/// That ends a hold, an outage, a rest, and the rests of its provider's keys. Failures from then on count as ever, and a
/// probe that finds the provider dead opens it again.
#[utoipa::path(post, path = "/admin/v1/breakers/{upstream}/close", operation_id = "close_breaker", tag = "levers",
    security(("token" = ["operator"])),
    params(("upstream" = String, Path, description = "`provider/model`, percent-encoded")),
    responses((status = 200, description = "It is closed.", body = Moved)))]
pub(crate) async fn close(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path(upstream): Path<String>,
    Json(asked): Json<Close>,
) -> Result<Answer<Moved>, Error> {
    let which = Which { upstream: &upstream, route: asked.route.as_deref() };
    let moved = moved(desk.live.close_breakers(which), which)?;
    let after = json!({ "route": asked.route });
    audited(&desk, &caller, Done::to(format!("breakers/{upstream}"), "close").with(after)).await;
    Ok(moved)
}

fn moved(shown: Vec<BreakerShown>, which: Which<'_>) -> Result<Answer<Moved>, Error> {
    if shown.is_empty() {
        let upstream = which.upstream;
        let whose =
            which.route.map_or_else(|| "no route has".to_owned(), |route| format!("there is no route `{route}` with"));
        return Err(Error::NotFound(format!(
            "{whose} an upstream `{upstream}`; GET /admin/v1/breakers lists those that there are (`provider/model`)"
        )));
    }
    Ok(Answer(Moved { data: shown.into_iter().map(Into::into).collect() }))
}
