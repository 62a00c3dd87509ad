//! What is counted for the collector: histograms of OpenTelemetry's conventions for HTTP and for generative AI.
//!
//! Attributes come from the configuration and from closed sets, never from what callers send.

use std::sync::Arc;
use std::time::Duration;

use base::{Attempt, AttemptOutcome, Endpoint, Record, Usage};
use foldhash::HashMap;

use super::otlp::{Attributes, CUMULATIVE, HistogramPoint, Metric};
use super::peers::Peer;
use super::{conventions, otlp};

/// Series of one instrument at most (Metrics SDK, "Cardinality limits"); what goes beyond is counted in one more.
const MOST_SERIES: usize = 2000;

/// What one series is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    route: Option<Arc<str>>,
    client: Option<Arc<str>>,
    peer: Option<Arc<Peer>>,
    operation: Option<&'static str>,
    token: Option<&'static str>,
    method: Option<&'static str>,
    path: Option<&'static str>,
    status: Option<u16>,
    error: Option<&'static str>,
    is_overflow: bool,
}

impl Labels {
    fn attributes(&self, scheme: &str) -> Attributes {
        let mut all = Attributes::default();
        conventions::put_peer(&mut all, self.peer.as_deref());
        all.text("gen_ai.operation.name", self.operation)
            .text("gen_ai.token.type", self.token)
            .text("http.request.method", self.method)
            .text("url.scheme", self.method.map(|_| scheme))
            .text("http.route", self.path.map(conventions::route).as_deref())
            .integer("http.response.status_code", self.status.map(u64::from))
            .text("error.type", self.error)
            .text("mai.route", self.route.as_deref())
            .text("mai.client", self.client.as_deref())
            .flag("otel.metric.overflow", self.is_overflow);
        all
    }
}

/// One series.
#[derive(Clone, Debug)]
struct Series {
    /// One more than there are bounds.
    buckets: Vec<u64>,
    sum: f64,
    min: f64,
    max: f64,
}

/// One instrument.
#[derive(Debug)]
struct Instrument {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    bounds: &'static [f64],
    series: HashMap<Labels, Series>,
}

impl Instrument {
    fn new(name: &'static str, unit: &'static str, bounds: &'static [f64], description: &'static str) -> Self {
        Self { name, description, unit, bounds, series: HashMap::default() }
    }

    fn observe(&mut self, labels: Labels, value: f64) {
        let is_new = self.series.len() >= MOST_SERIES && !self.series.contains_key(&labels);
        let labels = if is_new { Labels { is_overflow: true, ..Labels::default() } } else { labels };
        let empty = || Series { buckets: vec![0; self.bounds.len() + 1], sum: 0.0, min: value, max: value };
        let series = self.series.entry(labels).or_insert_with(empty);
        // A value belongs to the bucket whose upper bound it does not exceed.
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = series.buckets.get_mut(at) {
            *bucket += 1;
        }
        series.sum += value;
        (series.min, series.max) = (series.min.min(value), series.max.max(value));
    }

    fn metric(&self, since: u64, now: u64, scheme: &str) -> Metric {
        let point = |(labels, series): (&Labels, &Series)| HistogramPoint {
            start_time_unix_nano: since,
            time_unix_nano: now,
            count: series.buckets.iter().sum(),
            sum: Some(series.sum),
            bucket_counts: series.buckets.clone(),
            explicit_bounds: self.bounds.to_vec(),
            attributes: labels.attributes(scheme).0,
            min: Some(series.min),
            max: Some(series.max),
        };
        let histogram = otlp::Histogram {
            data_points: self.series.iter().map(point).collect(),
            aggregation_temporality: CUMULATIVE,
        };
        Metric {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            unit: self.unit.to_owned(),
            histogram: Some(histogram),
        }
    }
}

/// All of them.
#[derive(Debug)]
pub struct Instruments {
    requests: Instrument,
    operations: Instrument,
    first_chunk: Instrument,
    tokens: Instrument,
}

impl Default for Instruments {
    fn default() -> Self {
        use conventions::{OPERATION_BOUNDS, REQUEST_BOUNDS, TOKEN_BOUNDS};
        Self {
            requests: Instrument::new(
                "http.server.request.duration",
                "s",
                REQUEST_BOUNDS,
                "Duration of HTTP server requests.",
            ),
            operations: Instrument::new(
                "gen_ai.client.operation.duration",
                "s",
                OPERATION_BOUNDS,
                "GenAI operation duration.",
            ),
            first_chunk: Instrument::new(
                "gen_ai.client.operation.time_to_first_chunk",
                "s",
                OPERATION_BOUNDS,
                "Time to receive the first chunk of a stream, from when it was asked for.",
            ),
            tokens: Instrument::new(
                "gen_ai.client.token.usage",
                "{token}",
                TOKEN_BOUNDS,
                "Number of input and output tokens used.",
            ),
        }
    }
}

/// Where a call went: its route, what it asked for, and who the upstreams are behind their labels.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    pub route: Option<&'a Arc<str>>,
    pub endpoint: Option<Endpoint>,
    pub peer: &'a dyn Fn(&str) -> Option<Arc<Peer>>,
}

impl Instruments {
    /// Counts one request's end.
    pub fn count(&mut self, record: &Record, way: Way<'_>) {
        if let Some(trace) = &record.trace {
            let labels = Labels {
                route: record.route.clone(),
                method: Some(trace.method),
                path: trace.path,
                status: conventions::status(record),
                error: conventions::error(record),
                ..Labels::default()
            };
            self.requests.observe(labels, record.took.as_secs_f64());
        }
        self.count_attempts(&record.attempts, way);
        if let (Some(first), Some(attempt)) = (record.first_content, conventions::winner(&record.attempts)) {
            let labels = labels(way, &attempt.upstream);
            self.first_chunk.observe(labels, first.saturating_sub(attempt.at).as_secs_f64());
        }
        for (upstream, usage) in conventions::used(record) {
            self.count_usage(way, record.client.as_ref(), upstream, usage);
        }
    }

    /// Counts what tries took.
    pub fn count_attempts(&mut self, attempts: &[Attempt], way: Way<'_>) {
        for attempt in attempts.iter().filter(|attempt| !attempt.is_anothers) {
            let error = (attempt.outcome != AttemptOutcome::Ok).then(|| attempt.outcome.as_str());
            self.operations.observe(Labels { error, ..labels(way, &attempt.upstream) }, attempt.took.as_secs_f64());
        }
    }

    /// Counts what an upstream used.
    pub fn count_usage(&mut self, way: Way<'_>, client: Option<&Arc<str>>, upstream: &str, usage: Usage) {
        let labels = Labels { client: client.cloned(), ..labels(way, upstream) };
        #[expect(clippy::cast_precision_loss, reason = "a histogram's values are floats")]
        let mut observe = |token, count: u64| {
            self.tokens.observe(Labels { token: Some(token), ..labels.clone() }, count as f64);
        };
        observe("input", usage.prompt);
        // Embeddings and rankings have no output that is counted in tokens.
        if usage.completion > 0 || way.endpoint.is_some_and(|endpoint| endpoint.family() == base::Family::Chat) {
            observe("output", usage.completion);
        }
    }

    /// Everything counted since then, both from the Unix epoch.
    #[must_use]
    pub fn metrics(&self, since: Duration, now: Duration, scheme: &str) -> Vec<Metric> {
        let (since, now) = (conventions::nanos(since), conventions::nanos(now));
        let all = [&self.requests, &self.operations, &self.first_chunk, &self.tokens];
        all.into_iter().filter(|one| !one.series.is_empty()).map(|one| one.metric(since, now, scheme)).collect()
    }
}

fn labels(way: Way<'_>, upstream: &str) -> Labels {
    Labels {
        route: way.route.cloned(),
        peer: (way.peer)(upstream),
        operation: way.endpoint.map(conventions::operation),
        ..Labels::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instrument() -> Instrument {
        Instrument::new("i", "s", &[1.0, 2.0], "An instrument.")
    }

    #[test]
    fn a_value_on_a_bound_belongs_below_it() {
        let mut instrument = instrument();
        [0.5, 1.0, 1.5, 2.0, 2.5].into_iter().for_each(|value| instrument.observe(Labels::default(), value));
        let metric = instrument.metric(1, 2, "http");
        let point = &metric.histogram.unwrap().data_points[0];
        assert_eq!((point.bucket_counts.as_slice(), point.count, point.sum), ([2, 2, 1].as_slice(), 5, Some(7.5)));
        assert_eq!(
            (point.min, point.max, point.start_time_unix_nano, point.time_unix_nano),
            (Some(0.5), Some(2.5), 1, 2)
        );
    }

    #[test]
    fn series_are_bounded_and_what_goes_beyond_is_counted_in_one() {
        let mut instrument = instrument();
        for number in 0..MOST_SERIES + 10 {
            let route = Some(Arc::from(number.to_string()));
            instrument.observe(Labels { route, ..Labels::default() }, 1.0);
        }
        assert_eq!(instrument.series.len(), MOST_SERIES + 1);
        let overflow = Labels { is_overflow: true, ..Labels::default() };
        assert_eq!(instrument.series.get(&overflow).unwrap().buckets.iter().sum::<u64>(), 10);
    }
}
