//! `/admin/v1/drills`: faults that operators inject into upstreams, to rehearse an outage.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use gateway::upstream::drills::{Drill, Failure, Harm, LONGEST, MOST, NoDrill, Wanted};
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

/// A drill to begin: `latency`, `status`, `reset`, or `latency` before one of the others.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDrill)]
pub(crate) struct Asking {
    /// `provider/model`
    upstream: String,
    /// On this route alone; without it, on every one that has such an upstream.
    #[schema(nullable = false)]
    route: Option<String>,
    /// Tries take so much longer, within their own clocks.
    #[schema(nullable = false)]
    latency: Option<Length>,
    /// Tries are answered with this status and an error object.
    #[schema(nullable = false, minimum = 400, maximum = 599)]
    status: Option<u16>,
    /// The connection breaks off without an answer.
    #[serde(default)]
    reset: bool,
    /// Of how many of its tries: above 0, at most 100.
    #[serde(default = "every")]
    #[schema(default = 100.0, exclusive_minimum = 0, maximum = 100)]
    percent: f64,
    /// For so long, at most an hour.
    #[serde(rename = "for")]
    length: Length,
}

const fn every() -> f64 {
    100.0
}

impl Asking {
    fn wanted(self, by: &str) -> Result<Wanted, Error> {
        let within = |name: &str, length: Duration| {
            let is_sound = !length.is_zero() && length <= LONGEST;
            let wrong = || Error::of(name, format!("`{name}` must be longer than nothing, and at most an hour"));
            is_sound.then_some(length).ok_or_else(wrong)
        };
        let length = within("for", self.length.0)?;
        let latency = self.latency.map(|latency| within("latency", latency.0)).transpose()?;
        let then = match (self.status, self.reset) {
            (Some(_), true) => {
                return Err(Error::of("reset", "a try cannot be answered and break off: write `status` or `reset`"));
            }
            (Some(status), false) if !(400..=599).contains(&status) => {
                return Err(Error::of("status", format!("`status` is {status}, but must be 400 to 599")));
            }
            (Some(status), false) => Some(Failure::Status(status)),
            (None, true) => Some(Failure::Reset),
            (None, false) => None,
        };
        if latency.is_none() && then.is_none() {
            return Err(Error::whole("nothing would happen: write `latency`, `status` or `reset`"));
        }
        if !(self.percent > 0.0 && self.percent <= 100.0) {
            return Err(Error::of(
                "percent",
                format!("`percent` is {}, but must be above 0 and at most 100", self.percent),
            ));
        }
        Ok(Wanted {
            upstream: self.upstream.into(),
            route: self.route.map(Into::into),
            harm: Harm { latency, then },
            percent: self.percent,
            length,
            by: by.into(),
        })
    }
}

/// A drill under way.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Drill)]
pub(crate) struct Shown {
    id: String,
    /// `provider/model`
    upstream: String,
    /// Missing where it is on every route that has the upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    latency: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    status: Option<u16>,
    reset: bool,
    percent: f64,
    #[schema(format = DateTime)]
    since: String,
    /// When it ends by itself.
    #[schema(format = DateTime)]
    until: String,
    /// The name of the token that began it.
    by: String,
    /// Tries that it has harmed so far.
    tries: u64,
}

impl Shown {
    pub(crate) fn of(desk: &Desk, drill: &Drill) -> Self {
        let Wanted { upstream, route, harm, percent, by, .. } = &drill.wanted;
        Self {
            id: drill.id.to_string(),
            upstream: upstream.to_string(),
            route: route.as_deref().map(str::to_owned),
            latency: harm.latency.map(Length),
            status: if let Some(Failure::Status(status)) = harm.then { Some(status) } else { None },
            reset: harm.then == Some(Failure::Reset),
            percent: *percent,
            since: time(desk.live.shown_at(drill.began)),
            until: time(desk.live.shown_at(drill.until)),
            by: by.to_string(),
            tries: drill.harmed(),
        }
    }
}

/// Which drills are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// So many at most.
    #[serde(default)]
    #[param(inline, required = false)]
    limit: Limit,
    /// `next` of the page before.
    after: Option<String>,
}

/// The drills under way, the oldest first.
#[utoipa::path(get, path = "/admin/v1/drills", operation_id = "list_drills", tag = "levers", params(Listing), responses(
    (status = 200, description = "A page of them.", body = Page<Shown>),
))]
pub(crate) async fn list(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Query(asked): Query<Listing>,
) -> Result<Answer<Page<Shown>>, Error> {
    let drills = desk.live.drills.under_way(desk.live.clock.now());
    let drills = drills.iter().map(|drill| Shown::of(&desk, drill));
    Page::numbered(drills, asked.limit, asked.after.as_deref()).map(Answer)
}

/// Injects faults into tries at an upstream, for a bounded time.
///
/// What is injected goes the way of a real fault: it is retried, fails over and opens breakers; the try is marked with
/// `drill` in the log. Copies (`mirror`) and health probes are left alone. The drill ends when its time is over, when it
/// is deleted, with a reload that forbids drills or drops the upstream, and with a restart.
#[utoipa::path(post, path = "/admin/v1/drills", operation_id = "begin_drill", tag = "levers", security(("token" = ["operator"])), responses(
    (status = 201, description = "It has begun.", body = Shown, headers(("location" = String, description = "Where to end it."))),
    (status = 409, description = "`drills_disabled`: the configuration allows none.", body = Body),
))]
pub(crate) async fn begin(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Json(asked): Json<Asking>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Answer<Shown>), Error> {
    if !desk.live.running().snapshot.general.drills {
        return Err(Error::DrillsDisabled);
    }
    let wanted = asked.wanted(&caller.name)?;
    let (upstream, route) = (wanted.upstream.clone(), wanted.route.clone());
    let drill = desk.live.rehearse(wanted).map_err(|why| match why {
        NoDrill::Disabled => Error::DrillsDisabled,
        NoDrill::TooMany => Error::whole(format!("{MOST} drills are under way already; end one of them first")),
        NoDrill::NoSuchUpstream => {
            let whose =
                route.map_or_else(|| "no route has".to_owned(), |route| format!("there is no route `{route}` with"));
            let message =
                format!("{whose} an upstream `{upstream}`; GET /admin/v1/breakers lists those that there are");
            Error::of("upstream", message)
        }
    })?;
    let shown = Shown::of(&desk, &drill);
    audited(&desk, &caller, Done::to(format!("drills/{}", drill.id), "create").with(json!(shown))).await;
    let location = format!("/admin/v1/drills/{}", drill.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Answer(shown)))
}

/// Ends a drill, also where the configuration allows none any more.
#[utoipa::path(delete, path = "/admin/v1/drills/{id}", operation_id = "end_drill", tag = "levers", security(("token" = ["operator"])), responses(
    (status = 204, description = "It has ended."),
))]
pub(crate) async fn end(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    if !desk.live.drills.end(&id) {
        return Err(Error::NotFound("no drill of this id is under way; it may have ended by itself".to_owned()));
    }
    audited(&desk, &caller, Done::to(format!("drills/{id}"), "delete")).await;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(body: &str) -> (Option<String>, String) {
        let asked: Asking = serde_json::from_str(body).unwrap();
        match asked.wanted("root").unwrap_err() {
            Error::Invalid { param, message } => (param, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_makes_no_drill_is_told_with_its_field() {
        for (rest, param) in [
            (r#""for": "5m""#, None),
            (r#""for": "5m", "reset": false"#, None),
            (r#""for": "5m", "status": 503, "reset": true"#, Some("reset")),
            (r#""for": "5m", "status": 200"#, Some("status")),
            (r#""for": "5m", "status": 503, "percent": 0"#, Some("percent")),
            (r#""for": "5m", "status": 503, "percent": 100.5"#, Some("percent")),
            (r#""for": "61m", "status": 503"#, Some("for")),
            (r#""for": 0, "status": 503"#, Some("for")),
            (r#""for": "5m", "latency": "0s""#, Some("latency")),
        ] {
            let (named, told) = wrong(&format!(r#"{{"upstream": "a/m", {rest}}}"#));
            assert_eq!(named.as_deref(), param, "{rest}: {told}");
        }
    }

    #[test]
    fn latency_may_come_before_a_failure() {
        let body = r#"{"upstream": "a/m", "latency": "2s", "status": 503, "percent": 12.5, "for": "1h"}"#;
        let wanted = serde_json::from_str::<Asking>(body).unwrap().wanted("root").unwrap();
        let harm = Harm { latency: Some(Duration::from_secs(2)), then: Some(Failure::Status(503)) };
        assert_eq!((wanted.harm, wanted.percent, wanted.length), (harm, 12.5, LONGEST));
    }
}
