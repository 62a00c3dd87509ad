//! What Prometheus sees, and the one table of it.
//!
//! Labels come from the configuration and from closed sets, never from what callers send. The
//! handles that a call needs are looked up once and kept, so that counting costs an atomic.

mod caches;
mod families;
mod table;
mod telemetry;
mod webhooks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base::{Attempt, AttemptOutcome, Cost, Record, Spending};
use prometheus::{
    CounterVec, Encoder, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    TextEncoder,
};

use families::Families;
use table::*;
pub use table::{METRICS, Metric};

/// Bounds of the buckets of latencies, in seconds: a model call takes from a millisecond (cache, refusal) to minutes (long streams).
pub const CALLS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// The same of what the gateway itself adds, from 10 µs.
pub const OWN: &[f64] =
    &[0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];

/// What stands for a route or client that is not configured.
const UNKNOWN: &str = "unknown";

/// Route and client, by name.
type PairKey = (Arc<str>, Arc<str>);

/// The handles that the last record was counted with. Those of one worker mostly come from the same
/// few names, which are then the same pointers, and nothing need be looked up.
#[derive(Debug, Default)]
struct Last {
    pair: Option<(PairKey, Arc<Pair>)>,
    tried: Option<Tried>,
}

/// The counters of one route's tries at one upstream that ended well.
#[derive(Debug)]
struct Tried {
    route: Arc<str>,
    upstream: Arc<str>,
    ok: IntCounter,
    duration: Histogram,
}

/// The counters of one route used by one client.
#[derive(Debug)]
struct Pair {
    /// By what the cache came to; the first of routes without one.
    ok: [OnceLock<IntCounter>; 1 + base::Cached::ALL.len()],
    prompt: IntCounter,
    completion: IntCounter,
    cached: IntCounter,
    duration: Histogram,
}

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    families: Families,
    requests: IntCounterVec,
    duration: HistogramVec,
    first_token: HistogramVec,
    attempts: IntCounterVec,
    upstream_duration: HistogramVec,
    healthy: IntGaugeVec,
    tokens: IntCounterVec,
    queue_depth: IntGaugeVec,
    queue_wait: HistogramVec,
    concurrency: IntGaugeVec,
    rejected: IntCounterVec,
    inflight: IntGaugeVec,
    overhead: Histogram,
    reloads: IntCounterVec,
    dimension: IntCounterVec,
    truncated: IntCounterVec,
    retries: IntCounterVec,
    repeated: IntCounterVec,
    mirrored: IntCounterVec,
    breaker_state: IntGaugeVec,
    breaker_changes: IntCounterVec,
    resting: IntGaugeVec,
    held: IntGaugeVec,
    drills: IntGauge,
    log_lost: IntGauge,
    cost: CounterVec,
    cost_other: CounterVec,
    /// Those of caches.
    pub caches: caches::Caches,
    /// Those of webhooks.
    pub webhooks: webhooks::Webhooks,
    quota_used: GaugeVec,
    quota_warnings: IntCounterVec,
    quota_uncounted: IntCounterVec,
    quotas_unread: IntGauge,
    usage_waiting: IntGauge,
    usage_lost: IntCounter,
    objects_out: IntGauge,
    /// Levers that were pulled and are missing in the audit log.
    pub audit_rows_lost: IntCounter,
    records_lost: IntCounterVec,
    pub(crate) store_damages: IntCounterVec,
    /// Those of telemetry.
    pub telemetry: telemetry::Telemetry,
    /// Open connections of callers.
    pub connections: IntGauge,
    /// As many there may be.
    pub connections_max: IntGauge,
    /// Bounded by configured routes times configured clients.
    pairs: Mutex<HashMap<PairKey, Arc<Pair>>>,
    last: Mutex<Last>,
}

impl Metrics {
    /// Registers the table.
    ///
    /// # Errors
    /// Only when the table itself is unsound, which a test rules out.
    pub fn new() -> Result<Self, prometheus::Error> {
        let mut families = Families::new();
        let of = &mut families;
        let metrics = Self {
            requests: of.counter(&REQUESTS)?,
            duration: of.histogram(&DURATION, CALLS)?,
            first_token: of.histogram(&FIRST_TOKEN, CALLS)?,
            attempts: of.counter(&ATTEMPTS)?,
            upstream_duration: of.histogram(&UPSTREAM_DURATION, CALLS)?,
            healthy: of.gauge(&HEALTHY)?,
            tokens: of.counter(&TOKENS)?,
            queue_depth: of.gauge(&QUEUE_DEPTH)?,
            queue_wait: of.histogram(&QUEUE_WAIT, CALLS)?,
            concurrency: of.gauge(&CONCURRENCY)?,
            rejected: of.counter(&REJECTED)?,
            inflight: of.gauge(&INFLIGHT)?,
            overhead: of.histogram(&OVERHEAD, OWN)?.with_label_values::<&str>(&[]),
            reloads: of.counter(&RELOADS)?,
            dimension: of.counter(&DIMENSION)?,
            truncated: of.counter(&TRUNCATED)?,
            retries: of.counter(&RETRIES)?,
            repeated: of.counter(&REPEATED)?,
            mirrored: of.counter(&MIRRORED)?,
            breaker_state: of.gauge(&BREAKER_STATE)?,
            breaker_changes: of.counter(&BREAKER_CHANGES)?,
            resting: of.gauge(&RESTING)?,
            held: of.gauge(&HELD)?,
            drills: of.gauge(&DRILLS)?.with_label_values::<&str>(&[]),
            connections: of.gauge(&CONNECTIONS)?.with_label_values::<&str>(&[]),
            connections_max: of.gauge(&CONNECTIONS_MAX)?.with_label_values::<&str>(&[]),
            cost: of.amount(&COST)?,
            cost_other: of.amount(&COST_OTHER)?,
            caches: caches::Caches::new(of)?,
            webhooks: webhooks::Webhooks::new(of)?,
            quota_used: of.share(&QUOTA_USED)?,
            quota_warnings: of.counter(&QUOTA_WARNINGS)?,
            quota_uncounted: of.counter(&QUOTA_UNCOUNTED)?,
            quotas_unread: of.gauge(&QUOTAS_UNREAD)?.with_label_values::<&str>(&[]),
            usage_waiting: of.gauge(&USAGE_WAITING)?.with_label_values::<&str>(&[]),
            usage_lost: of.counter(&USAGE_LOST)?.with_label_values::<&str>(&[]),
            objects_out: of.gauge(&OBJECTS_OUT)?.with_label_values::<&str>(&[]),
            audit_rows_lost: of.counter(&AUDIT_LOST)?.with_label_values::<&str>(&[]),
            records_lost: of.counter(&RECORDS_LOST)?,
            store_damages: of.counter(&STORE_DAMAGES)?,
            telemetry: telemetry::Telemetry::new(of.registry())?,
            log_lost: of.gauge(&LOG_LOST)?.with_label_values::<&str>(&[]),
            pairs: Mutex::default(),
            last: Mutex::default(),
            families,
        };
        ["ok", "rejected"].iter().for_each(|result| drop(metrics.reloads.with_label_values(&[result])));
        Ok(metrics)
    }

    /// The exposition in Prometheus' text format, version 0.0.4; `inflight` is by route.
    #[must_use]
    pub fn text(&self, inflight: &HashMap<Arc<str>, i64>, log_lines_lost: u64) -> Vec<u8> {
        self.inflight.reset();
        for (route, count) in inflight {
            self.inflight.with_label_values(&[&**route]).set(*count);
        }
        self.log_lost.set(i64::try_from(log_lines_lost).unwrap_or(i64::MAX));
        let mut out = Vec::with_capacity(16 << 10);
        // Writing to a Vec does not fail, and a family that cannot be encoded is left out.
        let _ = TextEncoder::new().encode(&self.families.registry().gather(), &mut out);
        out
    }

    /// The names of a configuration are those that there are.
    pub fn come_into_force(&self, snapshot: &config::Snapshot, now: Instant) {
        self.families.come_into_force(snapshot, now);
        self.forget_gone(now);
    }

    /// Drops the series of routes, clients, upstreams, providers and webhooks that have been gone for ten minutes.
    pub fn forget_gone(&self, now: Instant) {
        // Held, so that nobody counts with a handle of a series that is being dropped.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.families.forget_gone(now, |has| {
            *last = Last::default();
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            pairs.retain(|(route, client), _| has("route", route) && has("client", client));
        });
    }

    /// A reload has ended so.
    pub fn reloaded(&self, ok: bool) {
        self.reloads.with_label_values(&[if ok { "ok" } else { "rejected" }]).inc();
    }

    /// What a provider's health probes say.
    pub fn health(&self, provider: &str, is_well: bool) {
        self.healthy.with_label_values(&[provider]).set(i64::from(is_well));
    }

    /// A provider is probed no more.
    pub fn forget_health(&self, provider: &str) {
        // It is not there where no probe has ended yet.
        let _ = self.healthy.remove_label_values(&[provider]);
    }

    /// A vector of another dimension was withheld.
    pub fn dimension_mismatch(&self, route: &str, upstream: &str) {
        self.dimension.with_label_values(&[route, upstream]).inc();
    }

    /// A wait for one more try was taken, or withheld for want of budget.
    pub fn retry(&self, route: &str, is_taken: bool) {
        self.retries.with_label_values(&[route, if is_taken { "taken" } else { "withheld" }]).inc();
    }

    /// A call has waited in queues so long.
    pub fn queue_wait(&self, priority: &str, waited: Duration) {
        self.queue_wait.with_label_values(&[priority]).observe(waited.as_secs_f64());
    }

    /// The places of every provider that has a number of them: those that there are, and those in use.
    pub fn show_concurrency<'a>(&self, slots_by_provider: impl Iterator<Item = (&'a str, (u32, u32))>) {
        self.concurrency.reset();
        for (provider, (limit, in_use)) in slots_by_provider {
            self.concurrency.with_label_values(&[provider, "limit"]).set(limit.into());
            self.concurrency.with_label_values(&[provider, "in_use"]).set(in_use.into());
        }
    }

    /// How many calls wait now, by route and priority. A route whose queue has emptied shows 0.
    pub fn show_queues<'a>(&self, depths: impl Iterator<Item = (&'a str, &'a str, usize)>) {
        self.queue_depth.reset();
        for (route, priority, depth) in depths {
            self.queue_depth.with_label_values(&[route, priority]).add(i64::try_from(depth).unwrap_or(i64::MAX));
        }
    }

    /// A client's request had come before, within a minute.
    pub fn repeated(&self, client: &str) {
        self.repeated.with_label_values(&[client]).inc();
    }

    /// A copy of a call has ended so.
    pub fn mirrored(&self, route: &str, upstream: &str, outcome: &str) {
        self.mirrored.with_label_values(&[route, upstream, outcome]).inc();
    }

    /// What a request cost, apart where it was not paid in the price list's currency.
    pub fn count_cost(&self, record: &Record, home: &str) {
        let (Some(route), Some(client)) = (&record.route, &record.client) else { return };
        record.costs().for_each(|cost| self.add_cost(route, client, cost, home));
    }

    fn add_cost(&self, route: &str, client: &str, cost: &Cost, home: &str) {
        #[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
        let amount = cost.nanos as f64 / 1e9;
        if &*cost.currency == home {
            self.cost.with_label_values(&[route, client]).inc_by(amount);
        } else {
            self.cost_other.with_label_values(&[route, client, &*cost.currency]).inc_by(amount);
        }
    }

    /// A client has come to a share of its quota that is warned of.
    pub fn quota_warned(&self, client: &str, kind: &str) {
        self.quota_warnings.with_label_values(&[client, kind]).inc();
    }

    /// A quota of money could not count a request, or not whole.
    pub fn quota_uncounted(&self, client: &str) {
        self.quota_uncounted.with_label_values(&[client]).inc();
    }

    /// So many quotas do not know what was used before.
    pub fn show_unread_quotas(&self, count: usize) {
        self.quotas_unread.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Whether what is made through the admin API cannot be kept.
    pub fn show_objects(&self, are_out: bool) {
        self.objects_out.set(are_out.into());
    }

    /// How quotas stand now: client, kind, share.
    pub fn show_quotas<'a>(&self, quotas: impl Iterator<Item = (&'a str, &'a str, f64)>) {
        self.quota_used.reset();
        for (client, kind, share) in quotas {
            self.quota_used.with_label_values(&[client, kind]).set(share);
        }
    }

    /// How the ledger stands: entries in memory alone, requests lost since the start.
    pub fn show_ledger(&self, waiting: u64, lost: u64) {
        self.usage_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.usage_lost.inc_by(lost.saturating_sub(self.usage_lost.get()));
    }

    /// How the request records do: those lost since the start, and texts that never came to them.
    pub fn show_records(&self, health: &state::requests::Health, unheard: u64) {
        for (kind, lost) in [("record", health.lost), ("content", health.contents_lost + unheard)] {
            let counter = self.records_lost.with_label_values(&[kind]);
            counter.inc_by(lost.saturating_sub(counter.get()));
        }
    }

    /// A breaker has come to a state so often.
    pub fn breaker_changed(&self, upstream: &str, state: &str, count: u64) {
        self.breaker_changes.with_label_values(&[upstream, state]).inc_by(count);
    }

    /// How every upstream stands now: its breaker's value, whether it rests, and whether an operator holds it.
    pub fn show_upstreams<'a>(&self, upstreams: impl Iterator<Item = (&'a str, i64, bool, bool)>) {
        self.breaker_state.reset();
        self.resting.reset();
        self.held.reset();
        for (upstream, breaker, rests, is_held) in upstreams {
            self.held.with_label_values(&[upstream]).set(i64::from(is_held));
            self.breaker_state.with_label_values(&[upstream]).set(breaker);
            self.resting.with_label_values(&[upstream]).set(i64::from(rests));
        }
    }

    /// So many drills are under way.
    pub fn show_drills(&self, count: usize) {
        self.drills.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts one request's end.
    pub fn count(&self, record: &Record) {
        self.overhead.observe(record.overhead.as_secs_f64());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let route = record.route.as_deref().unwrap_or(UNKNOWN);
        for attempt in record.attempts.iter().filter(|attempt| !attempt.is_anothers) {
            match &record.route {
                Some(route) if attempt.outcome == AttemptOutcome::Ok => {
                    let tried = self.tried(&mut last, route, &attempt.upstream);
                    tried.ok.inc();
                    tried.duration.observe(attempt.took.as_secs_f64());
                }
                _ => self.count_attempt(route, attempt),
            }
        }
        if let Some(first) = record.first_content {
            self.first_token.with_label_values(&[route]).observe(first.as_secs_f64());
        }
        if let Some(truncated) = record.truncated {
            self.truncated.with_label_values(&[route]).inc_by(truncated.tokens);
        }
        let ok = record.status == 200 && record.outcome == base::Outcome::Ok;
        if let (true, Some(route), Some(client)) = (ok, &record.route, &record.client) {
            let pair = self.pair(&mut last, route, client);
            self.count_ok(pair, route, client, record.cache);
            pair.duration.observe(record.took.as_secs_f64());
            if let Some(usage) = record.usage {
                pair.prompt.inc_by(usage.prompt);
                pair.completion.inc_by(usage.completion);
                pair.cached.inc_by(usage.cached);
            }
            return;
        }
        self.count_other(record, route);
    }

    /// Counts a call of the gateway's own, which is no client's.
    pub fn count_own(&self, route: &str, attempts: &[Attempt], spending: &Spending, home: &str) {
        attempts.iter().for_each(|attempt| self.count_attempt(route, attempt));
        for spent in spending.each() {
            let (prompt, completion, cached) = (spent.usage.prompt, spent.usage.completion, spent.usage.cached);
            for (kind, count) in [("prompt", prompt), ("completion", completion), ("cached", cached)] {
                self.tokens.with_label_values(&[route, UNKNOWN, kind]).inc_by(count);
            }
            spent.cost.iter().for_each(|cost| self.add_cost(route, UNKNOWN, cost, home));
        }
    }

    fn count_ok(&self, pair: &Pair, route: &str, client: &str, cached: Option<base::Cached>) {
        let new = || self.requests.with_label_values(&[route, client, "200", "ok", cache_label(cached)]);
        if let Some(ok) = pair.ok.get(cached.map_or(0, |cached| 1 + cached as usize)) {
            ok.get_or_init(new).inc();
        }
    }

    fn count_other(&self, record: &Record, route: &str) {
        let client = record.client.as_deref().unwrap_or(UNKNOWN);
        let mut digits = itoa::Buffer::new();
        let status = digits.format(record.status);
        let outcome = record.outcome.as_str();
        self.requests.with_label_values(&[route, client, status, outcome, cache_label(record.cache)]).inc();
        self.duration.with_label_values(&[route]).observe(record.took.as_secs_f64());
        let refused = !matches!(record.outcome, base::Outcome::Ok | base::Outcome::CallerGone);
        // A call that waited for another's was not refused: the other has tried.
        if record.attempts.is_empty() && refused && record.cache != Some(base::Cached::Shared) {
            self.rejected.with_label_values(&[client, outcome]).inc();
        }
        if let Some(usage) = record.usage {
            for (kind, count) in [("prompt", usage.prompt), ("completion", usage.completion), ("cached", usage.cached)]
            {
                self.tokens.with_label_values(&[route, client, kind]).inc_by(count);
            }
        }
    }

    fn count_attempt(&self, route: &str, attempt: &Attempt) {
        let upstream: &str = &attempt.upstream;
        self.attempts.with_label_values(&[route, upstream, attempt.outcome.as_str()]).inc();
        self.upstream_duration.with_label_values(&[upstream]).observe(attempt.took.as_secs_f64());
    }

    fn tried<'a>(&self, last: &'a mut Last, route: &Arc<str>, upstream: &Arc<str>) -> &'a Tried {
        let is_same = |known: &Tried| Arc::ptr_eq(&known.route, route) && Arc::ptr_eq(&known.upstream, upstream);
        last.tried = last.tried.take().filter(is_same);
        last.tried.get_or_insert_with(|| Tried {
            route: route.clone(),
            upstream: upstream.clone(),
            ok: self.attempts.with_label_values(&[&**route, &**upstream, AttemptOutcome::Ok.as_str()]),
            duration: self.upstream_duration.with_label_values(&[&**upstream]),
        })
    }

    fn pair<'a>(&self, last: &'a mut Last, route: &Arc<str>, client: &Arc<str>) -> &'a Pair {
        let is_same = |((known, of), _): &(PairKey, _)| Arc::ptr_eq(known, route) && Arc::ptr_eq(of, client);
        last.pair = last.pair.take().filter(is_same);
        let known = || ((route.clone(), client.clone()), self.known_pair(route, client));
        &last.pair.get_or_insert_with(known).1
    }

    fn known_pair(&self, route: &Arc<str>, client: &Arc<str>) -> Arc<Pair> {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = pairs.entry((route.clone(), client.clone())).or_insert_with(|| {
            let tokens = |kind| self.tokens.with_label_values(&[&**route, &**client, kind]);
            Arc::new(Pair {
                ok: std::array::from_fn(|_| OnceLock::new()),
                prompt: tokens("prompt"),
                completion: tokens("completion"),
                cached: tokens("cached"),
                duration: self.duration.with_label_values(&[&**route]),
            })
        });
        pair.clone()
    }
}

fn cache_label(cached: Option<base::Cached>) -> &'static str {
    cached.map_or("", base::Cached::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound_and_every_name_is_its_own() {
        let metrics = Metrics::new().unwrap();
        let names: std::collections::HashSet<_> = METRICS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), METRICS.len());
        let text = String::from_utf8(metrics.text(&HashMap::new(), 0)).unwrap();
        assert!(text.contains("# TYPE mai_config_reloads_total counter"));
        assert!(text.contains("mai_config_reloads_total{result=\"rejected\"} 0"));
    }

    #[test]
    fn losses_of_records_are_counted_by_kind_and_once() {
        let metrics = Metrics::new().unwrap();
        let health = state::requests::Health { lost: 3, contents_lost: 2, ..Default::default() };
        for _ in 0..2 {
            metrics.show_records(&health, 1);
        }
        let text = String::from_utf8(metrics.text(&HashMap::new(), 0)).unwrap();
        for kind in ["record", "content"] {
            assert!(text.contains(&format!("mai_request_records_lost_total{{kind=\"{kind}\"}} 3")), "{text}");
        }
    }
}
