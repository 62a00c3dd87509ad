//! The one table of headers: what callers may send, what they are told, what goes upstream. The
//! reference page is made from it.

/// One row of the table of headers.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The name, or several with one meaning.
    pub name: &'static str,
    /// What it says, and its bounds.
    pub meaning: &'static str,
}

const fn row(name: &'static str, meaning: &'static str) -> Header {
    Header { name, meaning }
}

/// What callers may send. Everything else is ignored and goes no further.
pub const REQUEST: &[Header] = &[
    row("authorization", "`Bearer KEY`: the client's key. Never sent upstream, never written down."),
    row("api-key, x-api-key", "The client's key, for clients that send it so; looked at after `authorization`."),
    row("content-type", "Of the body; it decides the boundary of a multipart upload, and is sent upstream."),
    row("content-encoding", "`identity`, `gzip`, `deflate`, `br` or `zstd`; any other is 415 `unsupported_encoding`."),
    row("expect", "`100-continue`: the body is asked for once key, path and method are found good."),
    row(
        "x-request-id",
        "Kept where it is visible ASCII of at most 128 characters and looks like no key, otherwise replaced by a new one; returned, logged, and sent upstream.",
    ),
    row(
        "traceparent",
        "W3C Trace Context; where it is sound the call is part of its trace, otherwise it is dropped. Without `telemetry` it goes upstream as it came.",
    ),
    row("tracestate", "Beside a sound `traceparent`: sent upstream, at most 32 members and 512 bytes of it."),
    row("x-mai-timeout-ms", "A shorter deadline than the configured one: a whole number of milliseconds, at least 1."),
    row(
        "x-mai-side-effects",
        "`true`: this chat call is not to be sent again once it may have reached an upstream, uses no connection that has sat idle, and is not answered by a cache or by another call in flight.",
    ),
    row(
        "idempotency-key",
        "A repeat with the same key gets the first answer, also while that is on its way; at most 255 bytes.",
    ),
    row("x-mai-query", "Percent-encoded UTF-8: the bare question inside an assembled prompt."),
    row(
        "x-mai-kb-version",
        "The knowledge-base version that this caller's answer rests on: a text of 1 to 200 letters.",
    ),
    row("x-mai-tag", "Matched by `split`; the body's `metadata.mai_tag` says the same, and neither goes upstream."),
    row("cache-control", "`no-cache` skips the cache's lookup, `no-store` lookup and store."),
];

/// What callers are told.
pub const RESPONSE: &[Header] = &[
    row("x-request-id", "On every answer of a model endpoint; the same id stands in the access log."),
    row("x-mai-route", "The route's name, once it is known. Names that are not visible ASCII are percent-encoded."),
    row("x-mai-upstream", "`provider/model` of the upstream that answered, percent-encoded likewise."),
    row("x-mai-attempts", "How many tries at upstreams were made, once the route is known."),
    row(
        "x-mai-overhead-ms",
        "Milliseconds, two digits behind the point, not spent waiting for an upstream or in a queue, up to the first byte of the answer.",
    ),
    row("content-type", "`application/json`, `text/event-stream`, or what a passed-through upstream said."),
    row("retry-after", "Whole seconds, rounded up, at least 1: on errors where waiting helps and the wait is known."),
    row(
        "x-should-retry",
        "`false` on every error that the caller's own retry cannot help. OpenAI's SDKs obey it (openai-python, `_base_client.py`).",
    ),
    row("cache-control", "`no-cache` on streams."),
    row("x-accel-buffering", "`no` on streams: keeps nginx from gathering the events."),
    row("connection", "`close` with 503 `shutting_down`."),
    row(
        "x-mai-cache",
        "What the cache came to: `hit`, `semantic`, `partial`, `stale`, `shared`, `replay`, `miss`, `bypass`.",
    ),
    row("x-mai-cache-id", "Names the cached answer for operators."),
    row(
        "x-mai-cache-similarity",
        "With `semantic`: the cosine of both questions' vectors, four digits behind the point.",
    ),
    row(
        "x-mai-query",
        "`not_in_user_message`: on a route that matches by meaning, the question that the call names does not stand word for word in its last user message, so that message stays in the cache key, passages and all.",
    ),
    row("age", "Seconds since a cached answer was stored."),
    row("x-mai-degraded", "Why the answer is a weak one."),
    row("x-mai-truncated", "What the token budget dropped: `history=4,retrieval=2,tokens=1830`."),
    row("x-mai-queue-ms", "Whole milliseconds spent in queues, where the call has waited in one."),
    row(
        "x-ratelimit-{limit,remaining,reset}-{requests,tokens}",
        "What is left of the tightest limit, where one applies; `limit` is what may come at once after a pause, `reset` when all of it is there again, as `1s` or `6m0s`.",
    ),
];

/// What goes upstream: this list and no other header of the caller's.
pub const UPSTREAM: &[Header] = &[
    row("host", "The provider's own."),
    row("authorization, api-key, …", "The provider's key, in the header that its protocol wants."),
    row("content-type", "`application/json`, or that of a passed-through upload."),
    row("accept, accept-encoding", "JSON, and events for a stream; `identity`."),
    row("user-agent", "`mai-gateway/VERSION`."),
    row("x-request-id", "The caller's, or the new one."),
    row(
        "traceparent",
        "With `telemetry` the caller's trace, or a new one, and the span of this try; without it the caller's, where it sent a sound one.",
    ),
    row("tracestate", "The caller's, beside its `traceparent`."),
    row("providers[].headers", "What the configuration adds to every call of this provider."),
    row(
        "proxy-authorization",
        "The proxy's credentials, on plain HTTP through a proxy; for TLS they go with `CONNECT` alone.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::headers;

    fn stands(table: &[Header], name: &http::HeaderName) -> bool {
        table.iter().flat_map(|header| header.name.split(", ")).any(|known| known == name.as_str())
    }

    #[test]
    fn the_rate_limit_headers_are_those_of_their_row() {
        let row = RESPONSE.iter().find(|header| header.name.starts_with("x-ratelimit-")).unwrap();
        for (kind, names) in [("requests", headers::REQUESTS_LEFT), ("tokens", headers::TOKENS_LEFT)] {
            assert!(row.name.contains(kind));
            assert_eq!(
                names.map(|name| name.as_str().to_owned()),
                ["limit", "remaining", "reset"].map(|what| format!("x-ratelimit-{what}-{kind}"))
            );
        }
    }

    #[test]
    fn every_header_that_the_gateway_writes_or_reads_stands_in_the_table() {
        for name in [
            headers::REQUEST_ID,
            headers::ROUTE,
            headers::UPSTREAM,
            headers::ATTEMPTS,
            headers::OVERHEAD,
            headers::QUEUE,
            headers::CACHE,
            headers::CACHE_ID,
            headers::QUERY,
            headers::SHOULD_RETRY,
            headers::ACCEL_BUFFERING,
        ] {
            assert!(stands(RESPONSE, &name), "{name}");
        }
        for name in [
            headers::REQUEST_ID,
            headers::TRACEPARENT,
            headers::TRACESTATE,
            headers::TIMEOUT,
            headers::SIDE_EFFECTS,
            headers::IDEMPOTENCY_KEY,
            headers::QUERY,
            headers::KB_VERSION,
        ] {
            assert!(stands(REQUEST, &name), "{name}");
        }
    }
}
