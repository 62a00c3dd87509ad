//! What caches come to, and what they save.

use base::{Cached, Family, Record};
use prometheus::{CounterVec, IntCounterVec, Opts, Registry};

use super::{COST_SAVED, INPUTS, LOOKUPS, Metric, SECONDS_SAVED, TOKENS_SAVED};

/// The counters of caches.
#[derive(Debug)]
pub struct Caches {
    lookups: IntCounterVec,
    inputs: IntCounterVec,
    tokens: IntCounterVec,
    cost: CounterVec,
    seconds: CounterVec,
}

impl Caches {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |row: &Metric| {
            let vec = IntCounterVec::new(Opts::new(row.name, row.meaning), row.labels)?;
            registry.register(Box::new(vec.clone())).map(|()| vec)
        };
        let amount = |row: &Metric| {
            let vec = CounterVec::new(Opts::new(row.name, row.meaning), row.labels)?;
            registry.register(Box::new(vec.clone())).map(|()| vec)
        };
        Ok(Self {
            lookups: counter(&LOOKUPS)?,
            inputs: counter(&INPUTS)?,
            tokens: counter(&TOKENS_SAVED)?,
            cost: amount(&COST_SAVED)?,
            seconds: amount(&SECONDS_SAVED)?,
        })
    }

    /// So many look-ups in a cache of a route have come to this.
    pub fn looked_up(&self, route: &str, cache: &str, result: &str, count: u64) {
        self.lookups.with_label_values(&[route, cache, result]).inc_by(count);
    }

    /// Of a call's inputs so many were stored, and so many not.
    pub fn looked_for(&self, route: &str, stored: u64, missing: u64) {
        for (result, count) in [("hit", stored), ("miss", missing)] {
            self.inputs.with_label_values(&[route, result]).inc_by(count);
        }
    }

    /// What a request's cache came to and saved; `home` is the price list's currency.
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
    pub fn count(&self, record: &Record, home: &str) {
        let (Some(cached), Some(route), Some(client)) = (record.cache, &record.route, &record.client) else { return };
        let result = match cached {
            Cached::Hit => Some("hit"),
            Cached::Stale => Some("stale"),
            Cached::Miss | Cached::Shared => Some("miss"),
            Cached::Partial => Some("partial"),
            // By meaning: counted where it is looked up.
            Cached::Semantic | Cached::Replay | Cached::Bypass => None,
        };
        let cache = match record.endpoint.map(base::Endpoint::family) {
            Some(Family::Rerank) => "rerank",
            Some(Family::Embeddings) => "embedding",
            _ => "exact",
        };
        if let Some(result) = result {
            self.looked_up(route, cache, result, 1);
        }
        let Some(saved) = &record.saved else { return };
        let pair = [&**route, &**client];
        self.tokens.with_label_values(&pair).inc_by(saved.usage.tokens());
        self.seconds.with_label_values(&pair).inc_by(saved.took.saturating_sub(record.took).as_secs_f64());
        if let Some(cost) = saved.cost.as_ref().filter(|cost| &*cost.currency == home) {
            self.cost.with_label_values(&pair).inc_by(cost.nanos as f64 / 1e9);
        }
    }
}
