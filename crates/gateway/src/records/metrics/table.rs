//! The one table of metrics.

/// One row of the table of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, unit at its end.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels; none holds anything that a caller wrote.
    pub labels: &'static [&'static str],
    /// What it says.
    pub meaning: &'static str,
}

macro_rules! metrics {
    ($($id:ident: $kind:literal $name:literal [$($label:literal),*] $meaning:literal;)*) => {
        $(pub(super) const $id: Metric = Metric { name: $name, kind: $kind, labels: &[$($label),*], meaning: $meaning };)*
        /// Every metric of this version, in the order of the reference.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    REQUESTS: "counter" "mai_requests_total" ["route", "client", "status", "outcome", "cache"]
        "Requests by how they ended; `unknown` where no configured route or client was named.";
    DURATION: "histogram" "mai_request_duration_seconds" ["route"]
        "From a request's arrival to the last byte of its answer.";
    FIRST_TOKEN: "histogram" "mai_time_to_first_token_seconds" ["route"]
        "From a streaming request's arrival to its first content.";
    ATTEMPTS: "counter" "mai_upstream_attempts_total" ["route", "upstream", "outcome"]
        "Tries at upstreams by how they ended.";
    UPSTREAM_DURATION: "histogram" "mai_upstream_duration_seconds" ["upstream"]
        "From the start of a try to its end; a stream's: to its last byte.";
    HEALTHY: "gauge" "mai_upstream_healthy" ["provider"]
        "1 while the provider answers its health probes, 0 while it does not; of providers with `health` alone.";
    TOKENS: "counter" "mai_tokens_total" ["route", "client", "kind"]
        "Tokens by kind: prompt (cached ones included), completion, cached.";
    QUEUE_DEPTH: "gauge" "mai_queue_depth" ["route", "priority"]
        "Calls that wait in a queue: for a limit or for a place at an upstream.";
    QUEUE_WAIT: "histogram" "mai_queue_wait_seconds" ["priority"]
        "Time that calls spent in queues, of those that have waited in one.";
    CONCURRENCY: "gauge" "mai_upstream_concurrency" ["provider", "kind"]
        "Calls side by side of providers with `concurrency`: `in_use`, and the `limit`, which moves where it is adaptive.";
    REJECTED: "counter" "mai_rejected_total" ["client", "reason"]
        "Requests that the gateway refused before any upstream was tried, by outcome.";
    INFLIGHT: "gauge" "mai_inflight_requests" ["route"]
        "Requests whose answer has not ended.";
    OVERHEAD: "histogram" "mai_overhead_seconds" []
        "Time of a request not spent waiting for an upstream or in a queue, up to the first byte of its answer.";
    RELOADS: "counter" "mai_config_reloads_total" ["result"]
        "Configuration reloads: ok, rejected.";
    DIMENSION: "counter" "mai_embedding_dimension_mismatch_total" ["route", "upstream"]
        "Answers withheld because their vectors have another dimension than the route's.";
    TRUNCATED: "counter" "mai_truncated_tokens_total" ["route"]
        "Tokens that the token budget left out of prompts.";
    RETRIES: "counter" "mai_retries_total" ["route", "result"]
        "Waits for one more try of a call: taken, or withheld because the route's retry budget was spent.";
    REPEATED: "counter" "mai_repeated_requests_total" ["client"]
        "Requests whose client had sent the same request id or the same body within a minute: somebody besides the gateway retries.";
    MIRRORED: "counter" "mai_mirrored_total" ["route", "upstream", "outcome"]
        "Copies of calls by how they ended, as tries do; `skipped` where too many were under way or the upstream took no calls.";
    BREAKER_STATE: "gauge" "mai_breaker_state" ["upstream"]
        "Breakers: 0 closed, 1 half open (one trial at a time, or growing back), 2 open; the worst of the routes that share an upstream.";
    BREAKER_CHANGES: "counter" "mai_breaker_transitions_total" ["upstream", "state"]
        "How often a breaker came to a state: closed, half_open, open.";
    RESTING: "gauge" "mai_upstream_resting" ["upstream"]
        "1 while a throttled upstream rests.";
    HELD: "gauge" "mai_breaker_held" ["upstream"]
        "1 while an operator holds the upstream's breaker open, on any route.";
    DRILLS: "gauge" "mai_drills_active" []
        "Drills under way: faults that operators inject.";
    CONNECTIONS: "gauge" "mai_connections" []
        "Open connections of callers.";
    CONNECTIONS_MAX: "gauge" "mai_connections_max" []
        "Connections of callers at most: 20,000, or what file descriptors are enough for; further ones wait.";
    COST: "counter" "mai_cost_total" ["route", "client"]
        "What calls cost, in the currency of the price list (USD, or that of the `prices` file); calls at unknown prices are not in it.";
    COST_OTHER: "counter" "mai_cost_other_total" ["route", "client", "currency"]
        "What calls cost whose prices are in another currency than the price list's.";
    LOOKUPS: "counter" "mai_cache_lookups_total" ["route", "cache", "result"]
        "Calls by what their look-up in a cache came to.";
    INPUTS: "counter" "mai_cache_inputs_total" ["route", "result"]
        "Inputs of embeddings calls by whether their vectors were stored; a `partial` look-up has both.";
    REFUSALS: "counter" "mai_cache_guard_refusals_total" ["route", "guard"]
        "Stored answers to questions near to one that was asked, withheld since that is a different question: by what said so.";
    OVERRULED: "counter" "mai_cache_guards_overruled_total" ["route", "guard"]
        "Stored answers to the same question that were found against this guard, by the word of the route in `semantic.verify`.";
    QUESTIONS: "gauge" "mai_cache_questions" ["route"]
        "Questions that the semantic cache searches among.";
    QUESTIONS_LOST: "counter" "mai_cache_questions_lost_total" []
        "Questions that were not kept: more came at a time than could be put among the others, or their vectors could not be compared.";
    TOKENS_SAVED: "counter" "mai_tokens_saved_total" ["route", "client"]
        "Tokens that answers from caches, and answers shared with another call, would have used.";
    COST_SAVED: "counter" "mai_cost_saved_total" ["route", "client"]
        "What those answers would have cost, in the currency of the price list.";
    SECONDS_SAVED: "counter" "mai_seconds_saved_total" ["route", "client"]
        "Time that callers did not wait, since their answers were there: that of the first answer, less their own.";
    CACHE_ENTRIES: "gauge" "mai_cache_entries" ["tier"]
        "Things that are cached.";
    CACHE_BYTES: "gauge" "mai_cache_bytes" ["tier"]
        "What they take, of `cache.memory` and `cache.disk`.";
    CACHE_EVICTED: "counter" "mai_cache_evictions_total" ["tier"]
        "Things that had to go for others.";
    CACHE_REFUSED: "counter" "mai_cache_refused_total" ["tier"]
        "Things that were not taken: too large, or more at a time than the disk could write.";
    QUOTA_USED: "gauge" "mai_quota_used_ratio" ["client", "kind"]
        "The share of its quota that a client has used in the period that runs, by kind: tokens, cost.";
    QUOTA_WARNINGS: "counter" "mai_quota_warnings_total" ["client", "kind"]
        "How often a client has come to one of the shares of its quota that are warned of.";
    QUOTA_UNCOUNTED: "counter" "mai_quota_uncounted_total" ["client"]
        "Requests that a quota of money could not count, or not whole: at an unknown price, or in another currency.";
    QUOTAS_UNREAD: "gauge" "mai_quotas_unread" []
        "Clients whose quota counts this process alone, since the usage ledger has not told yet what was used before.";
    USAGE_WAITING: "gauge" "mai_usage_entries_waiting" []
        "Entries of the usage ledger that are in memory alone: more than a few, and the database cannot be written.";
    USAGE_LOST: "counter" "mai_usage_requests_lost_total" []
        "Requests whose usage was lost since memory for it was full while the database could not be written.";
    OBJECTS_OUT: "gauge" "mai_objects_out" []
        "1 while what is made through the admin API cannot be kept, else 0; what is in force stays so.";
    AUDIT_LOST: "counter" "mai_audit_rows_lost_total" []
        "Levers of the admin API that were pulled, and whose row in the audit log could not be written within ten minutes.";
    WEBHOOKS: "counter" "mai_webhook_deliveries_total" ["hook", "event", "result"]
        "Tries to tell webhooks of events, by what they came to, and events that were dropped untold.";
    WEBHOOKS_WAITING: "gauge" "mai_webhook_deliveries_waiting" ["hook"]
        "Events that wait for a webhook's next try; more than a few, and its receiver is out of reach.";
    RECORDS_LOST: "counter" "mai_request_records_lost_total" ["kind"]
        "Request records that were lost since memory for them was full while the disk could not take them, by kind: record, content (recorded texts).";
    STORE_DAMAGES: "counter" "mai_store_damages_total" ["store"]
        "How often the file of a store was found removed, replaced, emptied, overwritten or damaged, by store: ledger, records, contents, kb_versions.";
    TELEMETRY_SENT: "counter" "mai_telemetry_sent_total" []
        "Spans that the collector has taken.";
    TELEMETRY_DROPPED: "counter" "mai_telemetry_dropped_total" ["reason"]
        "Spans that never came to the collector: `queue_full`, too many waited; `given_up`, it was out too long; `refused`, it takes no such request; `rejected`, it took others of the same request.";
    LOG_LOST: "gauge" "mai_log_lines_lost" []
        "Access-log lines that could not be written since the start.";
}
