//! `/admin/v1/requests`: which request went where, and why.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use base::{Cached, Matched, Outcome, decimal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use state::requests::{Health, Place, Request, Search, Step, Tried, Value as Fact};
use state::{Answer, Unreadable};
use utoipa::{IntoParams, ToSchema};

use crate::caller::{Admin, Caller, Viewer};
use crate::damage::Damage;
use crate::desk::Desk;
use crate::error::{Body, Error, Store};
use crate::extract::{Path, Query};
use crate::listing::{Limit, Page, in_order, instant, time};

/// How long a page or a request may take; the search itself is cut before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which requests are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asking {
    /// With this id alone; callers may give one id to several requests.
    request_id: Option<String>,
    /// Of this client alone.
    client: Option<String>,
    /// On this route alone.
    route: Option<String>,
    /// Of this status, as `429`, or of these, as `5xx`.
    #[param(pattern = "^[1-5]([0-9]{2}|xx)$")]
    status: Option<String>,
    /// Ended so, as `outcome` of metrics and log.
    outcome: Option<String>,
    /// Answered or tried by this upstream, as `provider/model`.
    upstream: Option<String>,
    /// Whose cache came to this, as `x-mai-cache`; or `shadow`: those for which a stored answer to the same question was
    /// found, and not served.
    cache: Option<String>,
    /// Arrived on this day in UTC or later, or at this instant or later.
    since: Option<String>,
    /// Arrived before the end of this day in UTC, or before this instant.
    until: Option<String>,
    /// So many at most.
    #[serde(default)]
    #[param(inline, required = false)]
    limit: Limit,
    /// From a page's `next`.
    after: Option<String>,
}

impl Asking {
    fn search(self) -> Result<Search, Error> {
        let is_shadow = self.cache.as_deref() == Some(Matched::SHADOW);
        one_of("outcome", self.outcome.as_deref(), &Outcome::ALL.map(Outcome::as_str))?;
        let words: Vec<&str> = Cached::ALL.iter().map(|word| word.as_str()).chain([Matched::SHADOW]).collect();
        one_of("cache", self.cache.as_deref(), &words)?;
        let search = Search {
            request_id: self.request_id.map(Into::into),
            client: self.client.map(Into::into),
            route: self.route.map(Into::into),
            upstream: self.upstream.map(Into::into),
            outcome: self.outcome.map(Into::into),
            cache: self.cache.filter(|_| !is_shadow).map(Into::into),
            is_shadow,
            status: self.status.as_deref().map(statuses).transpose()?,
            since: self.since.as_deref().map(|since| instant("since", since, false)).transpose()?,
            until: self.until.as_deref().map(|until| instant("until", until, true)).transpose()?,
            limit: self.limit.get(),
            after: self.after.as_deref().map(place).transpose()?,
        };
        in_order(("since", search.since), ("until", search.until))?;
        Ok(search)
    }
}

fn statuses(written: &str) -> Result<(u16, u16), Error> {
    let (digits, width) = written.strip_suffix("xx").map_or((written, 3), |class| (class, 1));
    let number = digits.parse::<u16>().ok().filter(|_| digits.len() == width && !digits.starts_with('+'));
    let range = match number {
        Some(class @ 1..=5) if width == 1 => Some((class * 100, class * 100 + 99)),
        Some(status @ 100..=599) => Some((status, status)),
        _ => None,
    };
    let wrong = || {
        let forms = "a status from 100 to 599 such as `429`, or a class from `1xx` to `5xx`";
        format!("`status` is `{written}`, but must be {forms}")
    };
    range.ok_or_else(|| Error::of("status", wrong()))
}

/// That a word is one of a closed set: another one would find nothing, ever.
fn one_of(name: &str, written: Option<&str>, known: &[&str]) -> Result<(), Error> {
    match written.filter(|written| !known.contains(written)) {
        None => Ok(()),
        Some(other) => {
            let known = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            Err(Error::of(name, format!("`{name}` is `{other}`, but must be one of {known}")))
        }
    }
}

/// A place, as `next` writes it.
fn shown(place: Place) -> String {
    format!("{}.{}", place.block, place.at)
}

fn place(written: &str) -> Result<Place, Error> {
    let read = || {
        let (block, at) = written.split_once('.')?;
        Some(Place { block: block.parse().ok()?, at: at.parse().ok()? })
    };
    read().ok_or_else(|| Error::of("after", "`after` must be the `next` of a page before"))
}

/// What became of a request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Request)]
pub(crate) struct Shown {
    request_id: String,
    /// When it arrived.
    time: String,
    /// Null before it is known, as in all that follows.
    client: Option<String>,
    route: Option<String>,
    /// The upstream that gave the answer, as `provider/model`.
    upstream: Option<String>,
    /// The model's name there.
    model: Option<String>,
    /// As its path ends: `chat/completions`.
    endpoint: Option<String>,
    /// That the caller saw; 499 where it left before one.
    status: u16,
    outcome: String,
    /// The error object's code.
    code: Option<String>,
    /// As `x-mai-cache`.
    cache: Option<String>,
    /// Of all tries together.
    tokens_in: Option<u64>,
    tokens_out: Option<u64>,
    #[schema(value_type = Option<f64>)]
    cost: Option<Number>,
    currency: Option<String>,
    /// From arrival to the last byte.
    ms: f64,
    /// Of it not spent waiting for upstreams, up to the first byte of the answer.
    overhead_ms: f64,
    /// Spent in queues.
    queue_ms: f64,
    /// To the first content of a stream.
    ttft_ms: Option<f64>,
    /// What the token budget left out, as `x-mai-truncated`.
    truncated: Option<String>,
    /// Why the answer was degraded.
    degraded: Option<String>,
    /// A stored answer to the same question in other words, as `x-mai-cache-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    matched: Option<String>,
    /// How near that question is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    similarity: Option<f64>,
    /// The trace that it is part of, where there is `telemetry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trace_id: Option<String>,
    /// Every try, in order.
    attempts: Vec<Attempt>,
    /// Every decision, in order.
    decisions: Vec<Decision>,
}

/// One try at an upstream.
#[derive(Debug, Serialize, ToSchema)]
struct Attempt {
    upstream: String,
    outcome: String,
    status: Option<u16>,
    ms: f64,
    /// When it began, from the request's arrival.
    at_ms: f64,
    /// It was made by another request, for this one too; counted, and timed, there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    shared: bool,
    /// A drill has harmed it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    drill: bool,
}

/// One decision; beside these fields it has those of its kind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = DecisionFacts)]
pub(crate) struct Decision(Map<String, Value>);

/// What every decision has.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a decision is put together of its facts; this says what is always in it")]
pub(crate) struct DecisionFacts {
    /// From the request's arrival.
    #[schema(required)]
    at_ms: f64,
    #[schema(required, schema_with = words)]
    what: String,
}

/// The words of decisions. Later versions may say more of them.
fn words() -> utoipa::openapi::Object {
    let words: Vec<String> = base::Decision::WORDS.iter().map(|word| format!("`{word}`")).collect();
    let told = format!("What was decided: {}.", words.join(", "));
    utoipa::openapi::Object::builder().schema_type(utoipa::openapi::Type::String).description(Some(told)).build()
}

/// The text of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestContent {
    /// What the caller wrote.
    prompt: String,
    /// What it was answered.
    answer: String,
    /// Not all of it is here: texts are kept up to 64 KiB.
    truncated: bool,
    /// Where the route matches by meaning: the stored answer that came nearest, served or not.
    near: Option<NearAnswer>,
}

/// A stored answer to a question like the one that was asked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NearAnswer {
    /// What was asked, as questions are compared.
    question: String,
    /// The question that the stored answer was given to.
    known_question: String,
    /// That answer; empty where it was not in memory.
    known_answer: String,
    /// The cosine of both questions' vectors.
    similarity: f64,
    /// What has withheld the answer: a guard, `margin` or `verify`; null where it was served, or with `shadow` would have been.
    withheld: Option<String>,
}

/// Milliseconds with three digits behind the point.
#[expect(clippy::cast_precision_loss, reason = "microseconds of years are exact")]
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

impl From<Request> for Shown {
    fn from(request: Request) -> Self {
        let name = |name: Option<std::sync::Arc<str>>| name.map(|name| name.to_string());
        let (matched, similarity) = request.matched.unzip();
        Self {
            request_id: request.request_id.into(),
            time: time(request.time),
            client: name(request.client),
            route: name(request.route),
            upstream: name(request.upstream),
            model: name(request.model),
            endpoint: name(request.endpoint),
            status: request.status,
            outcome: request.outcome.to_string(),
            code: request.code.map(Into::into),
            cache: name(request.cache),
            tokens_in: request.tokens.map(|(tokens_in, _)| tokens_in),
            tokens_out: request.tokens.map(|(_, tokens_out)| tokens_out),
            cost: request.cost.and_then(|nanos| decimal(nanos).parse().ok()),
            currency: name(request.currency),
            ms: ms(request.took),
            overhead_ms: ms(request.overhead),
            queue_ms: ms(request.queued),
            ttft_ms: request.first_content.map(ms),
            truncated: request.truncated.map(|truncated| truncated.to_string()),
            degraded: request.degraded.map(Into::into),
            matched: matched.map(Into::into),
            similarity: similarity.map(rounded),
            trace_id: request.trace.map(|trace| trace.to_string()),
            attempts: request.attempts.into_iter().map(Attempt::from).collect(),
            decisions: request.decisions.iter().map(decision).collect(),
        }
    }
}

impl From<Tried> for Attempt {
    fn from(Tried { upstream, outcome, status, at, took, is_anothers, is_drill }: Tried) -> Self {
        let (upstream, outcome) = (upstream.to_string(), outcome.to_string());
        Self { upstream, outcome, status, ms: ms(took), at_ms: ms(at), shared: is_anothers, drill: is_drill }
    }
}

/// Four digits behind the point, as many as are worth something.
fn rounded(ratio: f32) -> f64 {
    (f64::from(ratio) * 10_000.0).round() / 10_000.0
}

fn decision(Step { at, what, facts }: &Step) -> Decision {
    let mut shown = Map::new();
    shown.insert("at_ms".to_owned(), json!(ms(*at)));
    shown.insert("what".to_owned(), json!(**what));
    for (name, fact) in facts {
        let value = match fact {
            Fact::Text(text) => json!(**text),
            Fact::Number(number) => json!(number),
            Fact::Time(time) => json!(ms(*time)),
            Fact::Ratio(ratio) => json!(rounded(*ratio)),
            Fact::Yes => json!(true),
        };
        shown.insert(name.to_string(), value);
    }
    Decision(shown)
}

/// Requests, the last that ended first.
///
/// A search that takes long is cut: its page has few requests, or none, and a `next`.
#[utoipa::path(get, path = "/admin/v1/requests", tag = "requests", params(Asking), responses(
    (status = 200, description = "A page of them.", body = Page<Shown>),
    (status = 503, description = "`records_unavailable`: they cannot be read; or `busy`: too many questions that take \
        long are asked at a time.", body = Body),
))]
pub(crate) async fn list(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Query(asking): Query<Asking>,
) -> Result<Response, Error> {
    let search = asking.search()?;
    // What has ended a moment ago is in it.
    desk.live.gather();
    let found = async { told(&desk, desk.live.records.search(search)).await };
    let show = |page: state::requests::Page| {
        move || {
            let data = page.requests.into_iter().map(Shown::from).collect();
            Json(Page { data, next: page.next.map(shown) }).into_response()
        }
    };
    desk.aside.look_into(found, show).await
}

/// One request: the last that ended with this id.
#[utoipa::path(get, path = "/admin/v1/requests/{request_id}", tag = "requests",
    params(("request_id" = String, Path, description = "As `x-request-id`.")), responses(
    (status = 200, description = "Where it went and why.", body = Shown),
    (status = 503, description = "`records_unavailable`: it cannot be read.", body = Body),
))]
pub(crate) async fn one(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Path(id): Path<String>,
) -> Result<Json<Shown>, Error> {
    desk.live.gather();
    let found = told(&desk, desk.live.records.find(&id)).await?;
    let none = || Error::NotFound(format!("no request `{id}` is recorded, or not any more; see `records.keep`"));
    found.map(|request| Json(Shown::from(*request))).ok_or_else(none)
}

/// The text of a request and of its answer, where `records.content` asks for it.
#[utoipa::path(get, path = "/admin/v1/requests/{request_id}/content", tag = "requests",
    security(("token" = ["admin"])),
    params(("request_id" = String, Path, description = "As `x-request-id`.")), responses(
    (status = 200, description = "Its text, without keys and what `records.mask` matches.", body = RequestContent),
    (status = 503, description = "`records_unavailable`: it cannot be read.", body = Body),
))]
pub(crate) async fn content(
    _: Caller<Admin>,
    State(desk): State<Desk>,
    Path(id): Path<String>,
) -> Result<Json<RequestContent>, Error> {
    let found = told(&desk, desk.live.records.content(&id)).await?;
    let none = || {
        Error::NotFound(format!("no text of a request `{id}` is recorded; texts are where `records.content` is true"))
    };
    let content = found.ok_or_else(none)?;
    let (prompt, answer) = (content.prompt.into(), content.answer.into());
    let near = content.near.map(|near| NearAnswer {
        question: near.question.into(),
        known_question: near.known.into(),
        known_answer: near.answer.into(),
        similarity: rounded(near.similarity),
        withheld: near.withheld.map(Into::into),
    });
    Ok(Json(RequestContent { prompt, answer, truncated: content.is_cut, near }))
}

async fn told<T: Unpin>(desk: &Desk, answer: Answer<Result<T, Unreadable>>) -> Result<T, Error> {
    let unavailable = |why| Error::Unavailable(Store::Records, why);
    match tokio::time::timeout(PATIENCE, answer.into_future()).await {
        Ok(told) => told.map_err(|error| unavailable(error.0)),
        Err(_) => {
            let Health { trouble, .. } = desk.live.records.health();
            let why = trouble.map_or_else(|| "the disk is slow".to_owned(), |trouble| trouble.what);
            Err(unavailable(format!("the request records do not answer: {why}")))
        }
    }
}

/// How the request records do, and the recorded texts beside them (`records.content`).
#[derive(Serialize, ToSchema)]
pub(crate) struct RecordsHealth {
    /// `ok`, or `behind` while they cannot be written.
    status: &'static str,
    /// Since when they are behind, in seconds since the Unix epoch.
    since: Option<u64>,
    /// Why they are behind.
    why: Option<String>,
    /// Records that are in memory alone, and wait to be written.
    waiting: u64,
    /// Recorded texts that wait to be written.
    contents_waiting: u64,
    /// Records that were lost since the start: memory for them was full, or the disk refused them.
    lost: u64,
    /// Recorded texts that were lost since the start.
    contents_lost: u64,
    /// What befell the file of records last; null where nothing has since the start.
    damage: Option<Damage>,
    /// The same of the file of recorded texts.
    contents_damage: Option<Damage>,
}

/// How they do; the gateway is ready all the same.
pub(crate) fn health(desk: &Desk) -> RecordsHealth {
    let health = desk.live.records.health();
    RecordsHealth {
        status: if health.trouble.is_some() { "behind" } else { "ok" },
        since: health.trouble.as_ref().map(|trouble| trouble.since.as_secs()),
        why: health.trouble.map(|trouble| trouble.what),
        waiting: health.waiting,
        contents_waiting: health.contents_waiting,
        lost: health.lost,
        contents_lost: health.contents_lost + desk.live.contents.lost(),
        damage: health.damage.map(Into::into),
        contents_damage: health.contents_damage.map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(asked: Asking) -> Option<String> {
        match asked.search() {
            Err(Error::Invalid { param, .. }) => param,
            _ => None,
        }
    }

    #[test]
    fn a_status_is_one_that_there_is_or_a_class_of_them() {
        for (written, range) in [("429", (429, 429)), ("100", (100, 100)), ("1xx", (100, 199)), ("5xx", (500, 599))] {
            assert_eq!(statuses(written).ok(), Some(range), "{written}");
        }
        for written in
            ["6xx", "0xx", "05xx", "xx", "x", "99", "600", "0429", "+42", "+5xx", "5XX", "5xxx", "teapot", ""]
        {
            assert!(statuses(written).is_err(), "{written}");
        }
    }

    #[test]
    fn what_could_find_nothing_is_told_with_its_field() {
        let some = |word: &str| Some(word.to_owned());
        assert_eq!(wrong(Asking { outcome: some("upstream_timeout"), cache: some("hit"), ..Asking::default() }), None);
        assert_eq!(wrong(Asking { route: some("of yesterday"), client: some("gone"), ..Asking::default() }), None);
        assert_eq!(wrong(Asking { outcome: some("timeout"), ..Asking::default() }), some("outcome"));
        assert_eq!(wrong(Asking { cache: some("foo"), ..Asking::default() }), some("cache"));
        let day = |day: &str| Some(format!("2026-11-{day}"));
        assert_eq!(wrong(Asking { since: day("29"), until: day("29"), ..Asking::default() }), None, "all of that day");
        assert_eq!(wrong(Asking { since: day("30"), until: day("29"), ..Asking::default() }), some("until"));
    }
}
