//! What caches come to, and what they save.

use base::{Cached, Family, Record};
use prometheus::{CounterVec, IntCounter, IntCounterVec, IntGaugeVec};
use state::answers::Stats;

use super::families::Families;
use super::{
    CACHE_BYTES, CACHE_ENTRIES, CACHE_EVICTED, CACHE_REFUSED, COST_SAVED, INPUTS, LOOKUPS, OVERRULED, QUESTIONS,
    QUESTIONS_LOST, REFUSALS, SECONDS_SAVED, TOKENS_SAVED,
};

/// The counters of caches.
#[derive(Debug)]
pub struct Caches {
    lookups: IntCounterVec,
    inputs: IntCounterVec,
    refusals: IntCounterVec,
    overruled: IntCounterVec,
    questions: IntGaugeVec,
    questions_lost: IntCounter,
    tokens: IntCounterVec,
    cost: CounterVec,
    seconds: CounterVec,
    entries: IntGaugeVec,
    bytes: IntGaugeVec,
    evicted: IntCounterVec,
    refused: IntCounterVec,
}

impl Caches {
    pub(super) fn new(of: &mut Families) -> Result<Self, prometheus::Error> {
        Ok(Self {
            lookups: of.counter(&LOOKUPS)?,
            inputs: of.counter(&INPUTS)?,
            refusals: of.counter(&REFUSALS)?,
            overruled: of.counter(&OVERRULED)?,
            questions: of.gauge(&QUESTIONS)?,
            questions_lost: of.counter(&QUESTIONS_LOST)?.with_label_values::<&str>(&[]),
            tokens: of.counter(&TOKENS_SAVED)?,
            cost: of.amount(&COST_SAVED)?,
            seconds: of.amount(&SECONDS_SAVED)?,
            entries: of.gauge(&CACHE_ENTRIES)?,
            bytes: of.gauge(&CACHE_BYTES)?,
            evicted: of.counter(&CACHE_EVICTED)?,
            refused: of.counter(&CACHE_REFUSED)?,
        })
    }

    /// How the store of cached answers stands.
    pub fn show(&self, stats: &Stats) {
        self.entries.reset();
        self.bytes.reset();
        let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
        for (name, tier) in [("memory", Some(&stats.memory)), ("disk", stats.disk.as_ref())] {
            let Some(tier) = tier else { continue };
            self.entries.with_label_values(&[name]).set(gauge(tier.entries));
            self.bytes.with_label_values(&[name]).set(gauge(tier.bytes));
            let (evicted, refused) = (self.evicted.with_label_values(&[name]), self.refused.with_label_values(&[name]));
            evicted.inc_by(tier.evicted.saturating_sub(evicted.get()));
            refused.inc_by(tier.refused.saturating_sub(refused.get()));
        }
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

    /// A stored answer was withheld by a guard, for the margin, or by the verifier.
    pub fn withheld(&self, route: &str, by: &str) {
        self.refusals.with_label_values(&[route, by]).inc();
    }

    /// The verifier has found a question the same that this guard calls a different one.
    pub fn overruled(&self, route: &str, guard: &str) {
        self.overruled.with_label_values(&[route, guard]).inc();
    }

    /// How many questions the semantic cache searches among, by route, and how many were not kept since the start.
    pub fn show_questions<'a>(&self, counts: impl Iterator<Item = (&'a str, usize)>, lost: u64) {
        self.questions.reset();
        for (route, count) in counts {
            self.questions.with_label_values(&[route]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.questions_lost.inc_by(lost.saturating_sub(self.questions_lost.get()));
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
            // Found by its meaning, and not as it is: the former is counted where it is looked up.
            Cached::Semantic => Some("miss"),
            Cached::Replay | Cached::Bypass => None,
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
