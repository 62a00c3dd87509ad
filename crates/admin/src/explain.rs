//! `POST /admin/v1/explain`: what would happen to a request now.

use axum::Json as Answer;
use axum::extract::State;
use gateway::explain;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::breakers::{self, Breaker};
use crate::caller::{Caller, Viewer};
use crate::desk::Desk;
use crate::drills;
use crate::error::{Body, Error};
use crate::extract::Json;
use crate::listing::time;

/// A request, and who would send it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToExplain)]
pub(crate) struct Asking {
    /// The client's name.
    client: String,
    /// The path on the data port, such as `/v1/chat/completions`; without it the body's fields tell.
    #[schema(nullable = false)]
    path: Option<String>,
    /// The body that the client would send.
    #[schema(value_type = Object)]
    request: Box<RawValue>,
}

/// The way of a request: what `mai-gateway explain --json` prints, under the configuration in force, and how what it
/// names stands now.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explained {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    story: Value,
    now: Now,
}

/// How what a request would meet stands at the moment.
#[derive(Serialize, ToSchema)]
struct Now {
    #[schema(format = DateTime)]
    time: String,
    /// Of the route's upstreams, with their rests and holds.
    breakers: Vec<Breaker>,
    /// Those under way that harm calls on the route.
    drills: Vec<drills::Shown>,
    /// Of the client; null where it has none.
    quota: Option<QuotaNow>,
}

/// What a client has used of its quota.
#[derive(Serialize, ToSchema)]
struct QuotaNow {
    /// Tokens so far in the period that runs.
    tokens: u64,
    /// Money so far, in the quota's currency.
    #[schema(value_type = f64)]
    cost: Value,
    /// The larger of both shares: 1 where it is spent.
    used: f64,
    /// When the period ends.
    #[schema(format = DateTime)]
    until: String,
}

/// What would happen to a request; nothing is sent or taken.
///
/// A request that would be refused is no error here: the refusal is the answer.
#[utoipa::path(post, path = "/admin/v1/explain", tag = "levers", responses(
    (status = 200, description = "Its way.", body = Explained),
    (status = 503, description = "`busy`: too many questions that take long are asked at a time.", body = Body),
))]
pub(crate) async fn explain(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Json(asked): Json<Asking>,
) -> Result<Answer<Explained>, Error> {
    let Asking { client, path, request } = asked;
    let body: Box<str> = request.into();
    let endpoint = explain::endpoint(path.as_deref(), body.as_bytes()).map_err(|wrong| Error::of("path", wrong))?;
    let telling = desk.aside.clone();
    // A long prompt takes a while to be counted.
    let tell = move || -> Result<Explained, String> {
        let body = body.into_boxed_bytes().into_vec().into();
        let story = explain::explain_live(&desk.live, &client, endpoint, body)?;
        let now = Now::of(&desk, &client, story.get("route").and_then(Value::as_str));
        Ok(Explained { story, now })
    };
    telling.look(tell).await?.map(Answer).map_err(|wrong| Error::of("client", wrong))
}

impl Now {
    fn of(desk: &Desk, client: &str, route: Option<&str>) -> Self {
        let (live, running) = (&desk.live, desk.live.running());
        let wall = live.clock.wall();
        let breakers = route.map(|route| breakers::of_route(desk, route)).unwrap_or_default();
        let drills = live.drills.under_way(live.clock.now());
        let is_near = |upstream: &str, on: Option<&str>| {
            on.is_none_or(|on| Some(on) == route) && breakers.iter().any(|breaker| breaker.is_of(upstream))
        };
        let drills = drills.iter().filter(|drill| is_near(&drill.wanted.upstream, drill.wanted.route.as_deref()));
        let drills = drills.map(|drill| drills::Shown::of(desk, drill)).collect();
        let quota = running.quotas.named(client).map(|quota| {
            let spent = quota.spent(wall);
            QuotaNow {
                tokens: spent.tokens,
                cost: serde_json::from_str(&base::decimal(spent.cost)).unwrap_or_else(|_| json!(null)),
                used: quota.used(wall),
                until: time(std::time::Duration::from_secs(quota.period(wall).end)),
            }
        });
        Self { time: time(wall), breakers, drills, quota }
    }
}
