//! metrics.md: what Prometheus sees.

use base::{AttemptOutcome, Cached, Outcome};
use gateway::records::metrics::{CALLS, METRICS, OWN};

use super::{code, codes, head, table};

const INTRODUCTION: &str = "
`GET /metrics` on the admin port, in Prometheus' text format. Durations are seconds. Labels hold what is configured
and the closed sets below, never what callers send; what is not configured is `unknown`.
";

/// What the labels that are no closed set hold.
const LABELS: &[(&str, &str)] = &[
    ("route", "The route's name."),
    ("client", "The client's name."),
    ("upstream", "`provider/model` as configured."),
    ("provider", "The provider's name."),
    ("status", "The HTTP status that the caller saw; 499 where it left before one."),
    ("outcome", "How a request or a try ended: the two tables below."),
    ("reason", "The outcome of a request that was refused before any upstream was tried."),
    (
        "kind",
        "Of tokens: `prompt` (cached ones included), `completion`, `cached`. Of a quota: `tokens`, `cost`. Of a provider's places: `limit`, `in_use`.",
    ),
    ("tier", "`memory`, `disk`."),
    (
        "guard",
        "What said that a question is a different one: `length`, `number`, `date`, `amount`, `version`, `unit`, `negation`, `comparison`, `scope`, `mood`, `kind`, `action`, `entity`, `direction`; `margin` where one of those was too near, `verify` where the verifying route said so.",
    ),
    ("priority", "`online`, `batch`."),
    ("currency", "As the price's."),
    ("store", "`ledger`, `records`, `contents`, `kb_versions`: see `/readyz`."),
    ("hook", "The webhook's name, else its place in the list, from 0."),
    ("event", "`quota.warning`, `breaker.opened`, `breaker.closed`, `embedding.dimension_mismatch`."),
    ("state", "`closed`, `half_open`, `open`."),
    (
        "cache",
        "Of requests: what the cache came to, as the table below says; empty where the route has none. Of look-ups: `exact`, `embedding`, `rerank`, `semantic`.",
    ),
    (
        "result",
        "Of a reload: `ok`, `rejected`. Of a wait for one more try: `taken`, `withheld`. Of look-ups: `hit`, `partial`, `miss`, `stale`; of those by meaning also `refused` (by guards, margin or verifier), `error` (the question's vector was not to be had in time) and `shadow` (would have hit). Of inputs: `hit`, `miss`. Of webhooks: `delivered`; `retried` (a try failed, and another follows); `refused` and `expired` (given up: by the receiver's status, or after the last try); `dropped` (too many waited, or the webhook was removed).",
    ),
];

pub fn page() -> String {
    let metrics = METRICS.iter().map(|metric| {
        vec![code(metric.name), metric.kind.to_owned(), codes(metric.labels.iter().copied()), metric.meaning.to_owned()]
    });
    let labels = LABELS.iter().map(|(name, meaning)| vec![code(name), (*meaning).to_owned()]);
    let outcomes = Outcome::ALL.map(|outcome| vec![code(outcome.as_str()), outcome.meaning().to_owned()]);
    let caches = Cached::ALL.map(|cached| vec![code(cached.as_str()), cached.meaning().to_owned()]);
    let tries = AttemptOutcome::ALL.map(|outcome| vec![code(outcome.as_str()), outcome.meaning().to_owned()]);
    [
        head(
            "Metrics",
            "`METRICS` in crates/gateway/src/records/metrics.rs and the outcomes in crates/base/src/record.rs",
        ),
        INTRODUCTION.to_owned(),
        table(&["metric", "kind", "labels", "meaning"], metrics),
        format!(
            "\nBuckets of histograms end at {} seconds, those of `mai_overhead_seconds` at {}.\n",
            bounds(CALLS),
            bounds(OWN)
        ),
        "\n## Labels\n".to_owned(),
        table(&["label", "holds"], labels),
        "\n## Outcomes of requests\n\nThe first word names the domain at fault. The access log has the same words.\n"
            .to_owned(),
        table(&["outcome", "meaning"], outcomes),
        "\n## Outcomes of tries at upstreams\n".to_owned(),
        table(&["outcome", "meaning"], tries),
        "\n## What the cache came to\n\nAlso `x-mai-cache`, and `cache` in the access log.\n".to_owned(),
        table(&["cache", "meaning"], caches),
    ]
    .concat()
}

/// Numbers as a sentence lists them.
fn bounds(bounds: &[f64]) -> String {
    bounds.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_of_the_table_is_explained() {
        for label in METRICS.iter().flat_map(|metric| metric.labels) {
            assert!(LABELS.iter().any(|(name, _)| name == label), "{label}");
        }
    }
}
