//! `/admin/v1/cache`: what is cached, and the levers over it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use config::{CacheMode, Route};
use serde::{Deserialize, Serialize};
use serde_json::json;
use state::answers::{Key, Kind, Tier, Which};
use state::{Answer, Trouble, Unreadable};
use utoipa::{IntoParams, ToSchema};

use crate::caller::{Caller, Operator, Viewer};
use crate::deeds::{Done, audited};
use crate::desk::Desk;
use crate::error::{Body, Error, Store};
use crate::extract::{Json, Path, Query};

/// How long a caller waits for the disk: less than many a client waits at all, which would not hear then that what
/// it asked for is on its way.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the cache on disk does; the gateway is ready all the same.
pub(crate) fn health(desk: &Desk) -> Health {
    match desk.live.answers.stats().disk {
        None => Health { status: "memory", since: None, why: None },
        Some(disk) => Health::of(disk.trouble),
    }
}

/// How a store does.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `out` while it cannot be used; of the cache also `memory` where nothing is kept on disk.
    status: &'static str,
    /// Since when it is out, in seconds since the Unix epoch.
    since: Option<u64>,
    /// Why it is out.
    why: Option<String>,
}

impl Health {
    pub(crate) fn of(trouble: Option<Trouble>) -> Self {
        Self {
            status: if trouble.is_some() { "out" } else { "ok" },
            since: trouble.as_ref().map(|trouble| trouble.since.as_secs()),
            why: trouble.map(|trouble| trouble.what),
        }
    }
}

/// What is cached.
#[derive(Serialize, ToSchema)]
pub(crate) struct CacheStats {
    memory: TierStats,
    /// Null where nothing is kept on disk.
    disk: Option<DiskStats>,
    /// What is kept, by kind and route.
    holdings: Vec<Holding>,
    routes: Vec<RouteCache>,
}

/// What memory or the disk holds.
#[derive(Serialize, ToSchema)]
struct TierStats {
    entries: u64,
    bytes: u64,
    max_bytes: u64,
    /// Look-ups that found something, since the start.
    hits: u64,
    /// Entries that had to go for others, since the start.
    evicted: u64,
    /// Entries that were not taken, since the start.
    refused: u64,
}

impl From<&Tier> for TierStats {
    fn from(tier: &Tier) -> Self {
        Self {
            entries: tier.entries,
            bytes: tier.bytes,
            max_bytes: tier.most,
            hits: tier.hits,
            evicted: tier.evicted,
            refused: tier.refused,
        }
    }
}

/// What the disk holds, and how it does.
#[derive(Serialize, ToSchema)]
struct DiskStats {
    #[serde(flatten)]
    tier: TierStats,
    /// Entries that were found damaged, since the start.
    damaged: u64,
    /// Entries that wait to be written.
    waiting: u64,
    #[serde(flatten)]
    health: Health,
}

/// What is kept of one kind for one route.
#[derive(Serialize, ToSchema)]
struct Holding {
    /// `answer`, `ranking`, `vector`, `replay` or `question`.
    kind: &'static str,
    route: String,
    memory: Sums,
    disk: Sums,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CacheSums)]
struct Sums {
    entries: u64,
    bytes: u64,
}

impl From<(u64, u64)> for Sums {
    fn from((entries, bytes): (u64, u64)) -> Self {
        Self { entries, bytes }
    }
}

/// A route: what it caches, and the version of its knowledge base that holds where callers say nothing.
#[derive(Serialize, ToSchema)]
struct RouteCache {
    route: String,
    /// `off`, `exact` or `semantic`.
    mode: &'static str,
    kb_version: Option<String>,
    /// `admin` or `file`; `unknown` while the versions that were set cannot be read.
    kb_version_from: Option<&'static str>,
}

impl RouteCache {
    fn of(desk: &Desk, route: &Route) -> Self {
        let mode = match route.cache.mode {
            CacheMode::Off => "off",
            CacheMode::Exact => "exact",
            CacheMode::Semantic => "semantic",
        };
        let in_file = route.cache.kb_version.as_deref();
        let (kb_version, kb_version_from) = match desk.live.kb_versions.all() {
            None => (None, Some("unknown")),
            Some(set) => match set.get(&route.name) {
                Some(set) => (Some(set.to_string()), Some("admin")),
                None => (in_file.map(str::to_owned), in_file.map(|_| "file")),
            },
        };
        Self { route: route.name.to_string(), mode, kb_version, kb_version_from }
    }
}

/// What is cached, where, and how the disk does.
#[utoipa::path(get, path = "/admin/v1/cache", tag = "cache", responses(
    (status = 200, body = CacheStats),
    (status = 503, description = "`busy`: too many questions that take long are asked at a time.", body = Body),
))]
pub(crate) async fn stats(_: Caller<Viewer>, State(desk): State<Desk>) -> Result<axum::Json<CacheStats>, Error> {
    let (answers, running) = (&desk.live.answers, desk.live.running());
    let stats = answers.stats();
    // It looks at everything, which may take a tenth of a second: not on the thread that takes connections.
    let held = answers.clone();
    let held = desk.aside.look(move || held.holdings()).await?;
    let holdings = held.into_iter().map(|holding| Holding {
        kind: holding.kind.as_str(),
        route: holding.route.to_string(),
        memory: holding.memory.into(),
        disk: holding.disk.into(),
    });
    Ok(axum::Json(CacheStats {
        memory: (&stats.memory).into(),
        disk: stats.disk.map(|disk| DiskStats {
            tier: (&disk).into(),
            damaged: disk.damaged,
            waiting: disk.waiting,
            health: Health::of(disk.trouble),
        }),
        holdings: holdings.collect(),
        routes: running.snapshot.routes.iter().map(|route| RouteCache::of(&desk, route)).collect(),
    }))
}

/// What to purge; nothing given means everything.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Purge)]
pub(crate) struct Purge {
    /// What is kept for this route. It need not be configured any more.
    route: Option<String>,
    /// What is kept for this client; not what a route's callers share. It need not be configured any more.
    client: Option<String>,
    /// `answer`, `ranking`, `vector`, `replay` or `question`.
    #[schema(pattern = "^(answer|ranking|vector|replay|question)$")]
    kind: Option<String>,
}

impl Purge {
    fn which(self) -> Result<Which, Error> {
        let kind = self.kind.map(|word| {
            let kinds = Kind::ALL.map(Kind::as_str).join(", ");
            Kind::named(&word)
                .ok_or_else(|| Error::of("kind", format!("`kind` is `{word}`, but must be one of: {kinds}")))
        });
        Ok(Which { route: self.route.map(Into::into), client: self.client.map(Into::into), kind: kind.transpose()? })
    }
}

/// What was purged.
#[derive(Serialize, ToSchema)]
pub(crate) struct Purged {
    /// Entries, each counted once.
    purged: u64,
    /// True where nothing was: so many would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

/// How a purge is made.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Purging {
    /// Only count what would be removed.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// Removes what is cached.
///
/// What is being answered meanwhile is not stored afterwards.
#[utoipa::path(post, path = "/admin/v1/cache/purge", tag = "cache", security(("token" = ["operator"])),
    params(Purging), responses(
    (status = 200, body = Purged),
    (status = 503, body = Body, description = "`cache_unavailable`: it is gone from memory and not served any more; \
        the disk is rid of it as soon as that can be. Or `busy`: too much that takes long is asked at a time, and nothing \
        is removed."),
))]
pub(crate) async fn purge(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Query(purging): Query<Purging>,
    Json(asked): Json<Purge>,
) -> Result<axum::Json<Purged>, Error> {
    let which = asked.which()?;
    if purging.dry_run {
        return count(&desk, which).await.map(|purged| axum::Json(Purged { purged, dry_run: true }));
    }
    let (live, these) = (desk.live.clone(), which.clone());
    let purging = desk.aside.change(move || live.purge(&these)).await?;
    let purged = within(purging).await;
    let after = json!({
        "route": which.route.as_deref(),
        "client": which.client.as_deref(),
        "kind": which.kind.map(Kind::as_str),
        "purged": purged.as_ref().ok(),
    });
    audited(&desk, &caller, Done::to("cache", "purge").with(after)).await;
    purged.map(|purged| axum::Json(Purged { purged, dry_run: false }))
}

/// What a purge would remove.
async fn count(desk: &Desk, which: Which) -> Result<u64, Error> {
    let answers = desk.live.answers.clone();
    let counting = desk.aside.look(move || answers.count(&which)).await?;
    match tokio::time::timeout(PATIENCE, counting.into_future()).await {
        Ok(counted) => counted.map_err(|why| unavailable(why.0)),
        Err(_) => Err(unavailable("the disk is slow or out: what is there cannot be counted now")),
    }
}

fn unseen() -> Error {
    unavailable("the cache cannot be looked through; please report this")
}

fn unavailable(why: impl Into<String>) -> Error {
    Error::Unavailable(Store::Cache, why.into())
}

fn route(desk: &Desk, name: &str) -> Result<Arc<Route>, Error> {
    let running = desk.live.running();
    running.snapshot.route_named(name).cloned().ok_or_else(|| Error::NotFound(format!("there is no route `{name}`")))
}

/// Removes one cached answer, by its `x-mai-cache-id`.
#[utoipa::path(delete, path = "/admin/v1/cache/entries/{id}", tag = "cache", security(("token" = ["operator"])),
    responses(
        (status = 204, description = "It is not served any more, and no idempotency key of its route is answered with \
            what it was before."),
        (status = 503, body = Body, description = "`cache_unavailable`: it is gone from memory and not served any \
            more; the disk is rid of it as soon as that can be."),
))]
pub(crate) async fn remove(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    let nothing = || Error::NotFound("nothing is cached under this id".to_owned());
    let key = id.parse::<Key>().map_err(|_| nothing())?;
    let answers = &desk.live.answers;
    let found = match answers.peek(&key) {
        Some(found) => Some(found),
        None => tokio::time::timeout(PATIENCE, answers.get_patiently(&key).into_future()).await.ok().flatten(),
    };
    let mut removed = within(desk.live.remove(&key)).await;
    if !matches!(removed, Ok(false)) {
        // It has been served to idempotency keys perhaps, and what is kept for those knows nothing of it.
        let (route, client) = found.map(|found| (found.route.clone(), found.client.clone())).unzip();
        let replays = Which { route, client: client.flatten(), kind: Some(Kind::Replay) };
        let live = desk.live.clone();
        let purging = tokio::task::spawn_blocking(move || live.purge(&replays)).await.map_err(|_| unseen())?;
        let purged = within(purging).await;
        removed = removed.and_then(|removed| purged.map(|_| removed));
        audited(&desk, &caller, Done::to(format!("cache/entries/{id}"), "delete")).await;
    }
    if removed? { Ok(StatusCode::NO_CONTENT) } else { Err(nothing()) }
}

/// A version of a knowledge base.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KbVersion)]
pub(crate) struct KbVersion {
    /// 1 to 200 letters that are seen, without blanks around them; or null to leave it to the configuration.
    #[serde(deserialize_with = "given")]
    #[schema(required, min_length = 1, max_length = 200)]
    kb_version: Option<String>,
}

/// A null that must be written.
fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(value)
}

/// Sets the version of a route's knowledge base: what was cached under another one is not found any more.
///
/// It goes before the file's until it is changed, also after a restart; a caller's header goes before it.
#[utoipa::path(put, path = "/admin/v1/cache/routes/{name}/kb-version", tag = "cache",
    security(("token" = ["operator"])), responses(
        (status = 204, description = "It is set. Where it was already, that is no change: the audit log has no row."),
        (status = 503, description = "`cache_unavailable`: it cannot be written down; nothing has changed, or, as the \
            message says then, whether it is set is not known.", body = Body),
))]
pub(crate) async fn set_kb_version(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path(name): Path<String>,
    Json(asked): Json<KbVersion>,
) -> Result<StatusCode, Error> {
    let route = route(&desk, &name)?;
    let version = asked.kb_version;
    if let Some(Err(why)) = version.as_deref().map(base::kb_version) {
        return Err(Error::of("kb_version", format!("`kb_version` {why}, or null to leave it to the configuration")));
    }
    let before = RouteCache::of(&desk, &route);
    let mut done = Done::to(format!("cache/routes/{name}/kb-version"), "set");
    done.before = Some(json!({ "kb_version": before.kb_version, "from": before.kb_version_from }));
    let setting = desk.live.kb_versions.set(route.name.clone(), version.as_deref().map(Into::into));
    match tokio::time::timeout(PATIENCE, setting).await {
        Ok(Ok(false)) => Ok(StatusCode::NO_CONTENT),
        Ok(Ok(true)) => {
            audited(&desk, &caller, done.with(json!({ "kb_version": version }))).await;
            Ok(StatusCode::NO_CONTENT)
        }
        Ok(Err(error)) => Err(unavailable(format!("nothing has changed, for it cannot be written down: {error}"))),
        Err(_) => {
            // It may be set yet: whoever reads the audit log must find who wanted it.
            audited(&desk, &caller, done.with(json!({ "kb_version": version, "known": false }))).await;
            Err(unavailable("the database does not answer; whether this was set is not known, ask again"))
        }
    }
}

/// What the store says of a removal, if it says it in time. Memory has let go of it by now in any case.
async fn within<T: Unpin>(answer: Answer<Result<T, Unreadable>>) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, answer.into_future()).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(error)) => Err(unavailable(format!("it is gone from memory, but not from the disk: {}", error.0))),
        Err(_) => Err(unavailable(
            "it is gone from memory, but the disk is slow or out: nothing of it is served any more, and the disk is \
             rid of it as soon as that can be",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_purges_hears_within_five_seconds_of_a_disk_that_does_not_answer() {
        let began = base::Clock.now();
        let told = within::<u64>(Answer::Later(Box::pin(std::future::pending()))).await;
        assert_eq!(base::Clock.now().duration_since(began), Duration::from_secs(5));
        let Err(Error::Unavailable(Store::Cache, why)) = told else { panic!("{told:?}") };
        assert!(why.contains("gone from memory"));
    }
}
