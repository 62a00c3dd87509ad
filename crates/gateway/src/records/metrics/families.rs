//! The metrics by family, as they are registered, and the series of names that are gone.
//!
//! Names come and go with the configuration. What a name that has gone has counted stays for some scrapes, so
//! that nobody misses its end, and is then dropped: Prometheus sees a series that has ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::Snapshot;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::{Metric, UNKNOWN};

/// Series of a name that has gone stay so long.
pub const LINGER: Duration = Duration::from_secs(10 * 60);

/// Names of one kind that linger at most; the first to go are dropped for others.
const MOST_LINGER: usize = 1000;

/// Labels whose values are names from the configuration.
const NAMED: [&str; 5] = ["route", "client", "upstream", "provider", "hook"];

/// Every family with a series for each name.
pub struct Families {
    registry: Registry,
    named: Vec<(&'static [&'static str], Box<dyn Series>)>,
    names: Mutex<[Names; NAMED.len()]>,
}

impl std::fmt::Debug for Families {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Families").field("named", &self.named.len()).finish_non_exhaustive()
    }
}

/// The names that one label may have.
#[derive(Debug, Default)]
struct Names {
    in_force: HashSet<Arc<str>>,
    /// Since when.
    gone: HashMap<Arc<str>, Instant>,
}

impl Names {
    fn come_into_force(&mut self, names: HashSet<Arc<str>>, now: Instant) {
        let before = std::mem::replace(&mut self.in_force, names);
        self.gone.retain(|name, _| !self.in_force.contains(name));
        self.gone.extend(before.into_iter().filter(|name| !self.in_force.contains(name)).map(|name| (name, now)));
    }

    /// Forgets those that have lingered long enough; false where there are none.
    fn forget(&mut self, now: Instant) -> bool {
        let before = self.gone.len();
        self.gone.retain(|_, since| now.saturating_duration_since(*since) < LINGER);
        if self.gone.len() > MOST_LINGER {
            // Some more, so that it is not to be done again with the next.
            let most = self.gone.len() - MOST_LINGER * 3 / 4;
            let mut since: Vec<_> = self.gone.iter().map(|(name, since)| (*since, name.clone())).collect();
            since.sort_unstable();
            for (_, name) in since.iter().take(most) {
                self.gone.remove(name);
            }
        }
        self.gone.len() < before
    }

    fn has(&self, name: &str) -> bool {
        name.is_empty() || name == UNKNOWN || self.in_force.contains(name) || self.gone.contains_key(name)
    }
}

/// The series of one family.
trait Series: Send + Sync {
    fn families(&self) -> Vec<MetricFamily>;
    fn remove(&self, labels: &[&str]);
}

impl<T: MetricVecBuilder> Series for MetricVec<T>
where
    Self: Collector,
{
    fn families(&self) -> Vec<MetricFamily> {
        self.collect()
    }

    fn remove(&self, labels: &[&str]) {
        // It is there, or has gone by itself.
        let _ = self.remove_label_values(labels);
    }
}

impl Families {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new(), named: Vec::new(), names: Mutex::default() }
    }

    /// What it is exposed by.
    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    fn keep<T>(&mut self, row: &Metric, vec: MetricVec<T>) -> Result<MetricVec<T>, prometheus::Error>
    where
        T: MetricVecBuilder + 'static,
        MetricVec<T>: Collector + Clone,
    {
        self.registry.register(Box::new(vec.clone()))?;
        if row.labels.iter().any(|label| NAMED.contains(label)) {
            self.named.push((row.labels, Box::new(vec.clone())));
        }
        Ok(vec)
    }

    pub(super) fn counter(&mut self, row: &Metric) -> Result<IntCounterVec, prometheus::Error> {
        self.keep(row, IntCounterVec::new(Opts::new(row.name, row.meaning), row.labels)?)
    }

    pub(super) fn gauge(&mut self, row: &Metric) -> Result<IntGaugeVec, prometheus::Error> {
        self.keep(row, IntGaugeVec::new(Opts::new(row.name, row.meaning), row.labels)?)
    }

    /// A counter of fractions.
    pub(super) fn amount(&mut self, row: &Metric) -> Result<CounterVec, prometheus::Error> {
        self.keep(row, CounterVec::new(Opts::new(row.name, row.meaning), row.labels)?)
    }

    /// A gauge of fractions.
    pub(super) fn share(&mut self, row: &Metric) -> Result<GaugeVec, prometheus::Error> {
        self.keep(row, GaugeVec::new(Opts::new(row.name, row.meaning), row.labels)?)
    }

    pub(super) fn histogram(&mut self, row: &Metric, buckets: &[f64]) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts::new(row.name, row.meaning).buckets(buckets.to_vec());
        self.keep(row, HistogramVec::new(options, row.labels)?)
    }

    fn names(&self) -> MutexGuard<'_, [Names; NAMED.len()]> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of a configuration are those that there are.
    pub(super) fn come_into_force(&self, snapshot: &Snapshot, now: Instant) {
        let upstreams = snapshot.routes.iter().flat_map(|route| &route.upstreams);
        let all: [HashSet<Arc<str>>; NAMED.len()] = [
            snapshot.routes.iter().map(|route| route.name.clone()).collect(),
            snapshot.clients.iter().map(|client| client.name.clone()).collect(),
            upstreams.map(|upstream| upstream.label.clone()).collect(),
            snapshot.providers.iter().map(|provider| provider.name.clone()).collect(),
            snapshot.webhooks.iter().map(|hook| hook.name.clone()).collect(),
        ];
        for (names, new) in self.names().iter_mut().zip(all) {
            names.come_into_force(new, now);
        }
    }

    /// Drops the series of names that have been gone for long enough. `forget` drops what else is kept by
    /// names, of those that it is told are still known; nothing is counted meanwhile.
    pub(super) fn forget_gone(&self, now: Instant, forget: impl FnOnce(&dyn Fn(&str, &str) -> bool)) {
        let mut all = self.names();
        if !all.iter_mut().fold(false, |any, names| names.forget(now) | any) {
            return;
        }
        let has = |label: &str, name: &str| {
            let names = NAMED.iter().zip(all.iter()).find(|(named, _)| **named == label);
            names.is_none_or(|(_, names)| names.has(name))
        };
        for (labels, series) in &self.named {
            for family in series.families() {
                for metric in family.get_metric() {
                    let value = |label: &&'static str| {
                        let pair = metric.get_label().iter().find(|pair| pair.name() == *label);
                        pair.map_or("", |pair| pair.value())
                    };
                    let values: Vec<&str> = labels.iter().map(value).collect();
                    if !labels.iter().zip(&values).all(|(label, name)| has(label, name)) {
                        series.remove(&values);
                    }
                }
            }
        }
        forget(&has);
    }
}

#[cfg(test)]
mod tests {
    use base::Clock;

    use super::*;

    fn names(names: impl IntoIterator<Item = usize>) -> HashSet<Arc<str>> {
        names.into_iter().map(|name| name.to_string().into()).collect()
    }

    #[test]
    fn a_name_lingers_when_it_has_gone_and_stays_when_it_comes_back() {
        let (mut known, start) = (Names::default(), Clock.now());
        known.come_into_force(names([1, 2]), start);
        known.come_into_force(names([]), start);
        known.come_into_force(names([2]), start + LINGER / 2);
        assert!(!known.forget(start + LINGER / 2));
        assert!(known.has("1") && known.has("2"));
        assert!(known.forget(start + LINGER));
        assert!(!known.has("1") && known.has("2") && known.has("unknown"));
        assert!(!known.forget(start + LINGER * 9));
    }

    #[test]
    fn no_more_linger_than_may() {
        let (mut known, start) = (Names::default(), Clock.now());
        for at in 0..5 * MOST_LINGER {
            known.come_into_force(names([at]), start + Duration::from_millis(at as u64));
            known.forget(start + Duration::from_millis(at as u64));
            assert!(known.gone.len() <= MOST_LINGER);
        }
        assert!(known.has(&(5 * MOST_LINGER - 2).to_string()) && !known.has("0"), "the first to go are dropped");
    }
}
