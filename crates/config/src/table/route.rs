//! The model names that callers write, and what stands behind each.

use super::Preset::{By, Is, Nothing, Words};
use super::{COUNT, HTTP, Key, Kind, SHARE, Section, key, needed};

pub(super) const SECTIONS: &[Section] = &[
    Section { under: &["routes[]."], keys: ROUTE },
    Section { under: &["routes[]."], keys: FAILURE },
    Section { under: &["routes[]."], keys: SHAPING },
    Section { under: &["routes[].cache."], keys: CACHE },
];

const PERCENT: Kind = Kind::Above(0.0, 100.0);

const ROUTE: &[Key] = &[
    needed("name", Kind::Name, "The route's name; clients are given routes by it."),
    key("match", Kind::Table, Nothing, "Which calls it takes."),
    key(
        "match.path",
        Kind::Either(&[Kind::Endpoint, Kind::List(&Kind::Endpoint)]),
        Is("/v1/chat/completions"),
        "The endpoint, or a list of them.",
    ),
    key("match.model", Kind::Name, Words("the route's name"), "The model name that callers write."),
    key(
        "upstreams",
        Kind::List(&Kind::Table),
        Nothing,
        "Who answers. Tiers are tried in order; inside a tier the strategy chooses.",
    ),
    needed("upstreams[].provider", Kind::Name, "One of `providers`."),
    key("upstreams[].model", Kind::Text, Words("what the caller wrote"), "The model's name at the provider."),
    key("upstreams[].tier", Kind::Integer(0, 1_000), Is("0"), "0 is tried first."),
    key(
        "upstreams[].weight",
        Kind::Integer(0, 1_000_000),
        Is("1"),
        "Its share inside its tier, with `strategy: weighted` or `least_busy`.",
    ),
    key("upstreams[].name", Kind::Name, Words("the provider's"), "What `split.to` and `mirror.to` call it."),
    key("upstreams[].space", Kind::Text, Words("the model's name"), "The vector space of its embeddings."),
    key(
        "upstreams[].context_window",
        COUNT,
        Words("as the model is known"),
        "Tokens that its prompt may be; an upstream with too few for a call is passed over.",
    ),
    key(
        "upstreams[].tokenizer",
        Kind::Text,
        Words("as the model is known"),
        "What counts its tokens: `o200k_base`, `cl100k_base`, or a file `tokenizer.json`, relative to the file that names it.",
    ),
    key(
        "upstreams[].prices",
        Kind::Table,
        Words("as the model is known"),
        "What the model costs here. What is not written here is as `prices` and the built-in list know it, where that is in the same currency; else nobody knows it.",
    ),
    key("upstreams[].prices.prompt", Kind::Number(0.0, 1e9), Words("as the model is known"), "A million tokens read."),
    key(
        "upstreams[].prices.cached",
        Kind::Number(0.0, 1e9),
        Words("as the model is known, else as `prompt`"),
        "A million tokens read from the provider's prefix cache.",
    ),
    key(
        "upstreams[].prices.completion",
        Kind::Number(0.0, 1e9),
        Words("as the model is known"),
        "A million tokens written.",
    ),
    key(
        "upstreams[].prices.search_unit",
        Kind::Number(0.0, 1e6),
        Words("as the model is known"),
        "A search unit of a reranker: a query with up to 100 documents. It is then all that a call costs.",
    ),
    key("upstreams[].prices.currency", Kind::Text, Is("USD"), "The currency of these prices."),
    key(
        "upstream",
        Kind::Table,
        Nothing,
        "The short form for one upstream: a provider of the `openai` protocol, named after the route.",
    ),
    needed("upstream.url", HTTP, "The whole address of the endpoint, used as written."),
    key("upstream.model", Kind::Text, Words("what the caller wrote"), "The model's name there."),
    key("upstream.timeout", Kind::Duration, Words("the route's `timeout.attempt`"), "One try."),
    key(
        "timeout",
        Kind::Either(&[Kind::Duration, Kind::Table]),
        Nothing,
        "The clocks of one try; a bare duration means `attempt`.",
    ),
    key(
        "timeout.attempt",
        Kind::Duration,
        By("20s", "3s", "2s"),
        "One try, whole answer; for streams up to the first content.",
    ),
    key("timeout.first_byte", Kind::Duration, Is("10s"), "Streams: up to the first content."),
    key("timeout.stream_idle", Kind::Duration, Is("15s"), "Streams: between two pieces."),
    key("timeout.stream_total", Kind::Duration, Is("10m"), "Streams: from the first content to the end."),
    key("deadline", Kind::Duration, By("30s", "10s", "5s"), "The whole call: queue, retries and failover included."),
    key("body_timeout", Kind::Duration, Is("30s"), "How long the caller's body may take to arrive."),
    key(
        "dimensions",
        Kind::Integer(1, 1_000_000),
        Words("learned from the first answer"),
        "The dimension of the route's vectors.",
    ),
    key(
        "vector_space",
        Kind::Choice(&["any"]),
        Words("one"),
        "`any` accepts upstreams of different vector spaces in one route, and the damage.",
    ),
    key("batch", Kind::Table, Nothing, "How embedding inputs are put together."),
    key(
        "batch.max_inputs",
        Kind::Integer(1, 100_000),
        Words("as the provider allows"),
        "Inputs in one upstream call; larger calls are split.",
    ),
    key("batch.wait", Kind::Wait, Is("0"), "How long a small call waits for others to join it."),
];

const FAILURE: &[Key] = &[
    key(
        "strategy",
        Kind::Choice(&["ordered", "weighted", "least_busy", "fastest"]),
        Is("ordered"),
        "How an upstream is chosen inside a tier.",
    ),
    key("split", Kind::List(&Kind::Table), Nothing, "Conditional routing; the first match wins."),
    needed("split[].when", Kind::Table, "All conditions written must hold."),
    key("split[].when.header", Kind::Map(&Kind::Text), Nothing, "Request headers with exactly these values."),
    key("split[].when.client", Kind::Name, Nothing, "The client's name."),
    key("split[].when.percent", PERCENT, Is("100"), "The share of calls, drawn for each call."),
    key(
        "split[].when.sticky",
        Kind::Choice(&["client"]),
        Words("drawn for each call"),
        "`client` draws once for each client.",
    ),
    key(
        "split[].when.quota_used",
        SHARE,
        Nothing,
        "The client has used this share of its quota, of tokens or of money.",
    ),
    needed("split[].to", Kind::Name, "The name of one of the route's upstreams."),
    key("mirror", Kind::Table, Nothing, "Copies of calls whose answers are only recorded."),
    needed("mirror.to", Kind::Name, "The name of one of the route's upstreams."),
    key("mirror.percent", PERCENT, Is("100"), "The share of calls that is copied."),
    key(
        "mirror.sticky",
        Kind::Choice(&["client"]),
        Words("drawn for each call"),
        "`client` draws once for each client.",
    ),
    key("retry", Kind::Table, Nothing, "Repeats of failed tries."),
    key(
        "retry.when",
        Kind::Choice(&["idempotent", "always", "never"]),
        Is("idempotent"),
        "Which calls may be repeated once they may have reached an upstream; `never`: nothing waits, and every call has a new connection.",
    ),
    key(
        "retry.server_error",
        Kind::List(&Kind::Wait),
        Is("[1s, 3s]"),
        "The waits after a failure of the upstream; their number is the number of retries.",
    ),
    key(
        "retry.throttled",
        Kind::List(&Kind::Wait),
        Is("[5s]"),
        "The waits after a throttle; `retry-after` replaces one when it fits the deadline.",
    ),
    key(
        "retry.budget",
        Kind::Number(0.0, 1.0),
        Is("0.2"),
        "Retries never exceed this share of the route's recent calls, with a floor of 10 in 10 s.",
    ),
    key("breaker", Kind::Table, Nothing, "When an upstream is left alone."),
    key("breaker.failures", Kind::Integer(1, 100_000), Is("5"), "Failures within `window` that open it."),
    key("breaker.window", Kind::Duration, Is("10s"), "See `failures`."),
    key("breaker.hold", Kind::Duration, Is("30s"), "How long it stays open at least."),
    key("breaker.max_rest", Kind::Duration, Is("5m"), "The longest rest of a throttled upstream or a refused key."),
    key(
        "on_failure",
        Kind::Choice(&["error", "degrade", "stale"]),
        Is("error"),
        "What callers get when nothing answered: an error, a marked weak answer, or an expired cached one.",
    ),
];

const SHAPING: &[Key] = &[
    key("context", Kind::Table, Nothing, "Bounds the prompt's tokens."),
    key("context.budget", COUNT, Nothing, "Tokens of the prompt at most."),
    key("context.retrieval_share", SHARE, Is("0.5"), "The share of the budget that retrieved passages get."),
    key("context.retrieval", Kind::Table, Nothing, "How retrieved passages are known: one of `tag`, `role`, `name`."),
    key("context.retrieval.tag", Kind::Text, Nothing, "They stand between `<tag>` and `</tag>`."),
    key("context.retrieval.role", Kind::Text, Nothing, "They are messages of this role."),
    key("context.retrieval.name", Kind::Text, Nothing, "They are messages with this `name`."),
    key("cache", Kind::Table, Nothing, "Cached answers."),
];

const CACHE: &[Key] = &[
    key(
        "mode",
        Kind::Choice(&["off", "exact", "semantic"]),
        Is("off"),
        "`exact` knows the same call again, `semantic` also the same question in other words.",
    ),
    key(
        "ttl",
        Kind::Duration,
        Is("1h"),
        "How long an answer is served; a shorter time holds for what is stored already.",
    ),
    key(
        "scope",
        Kind::Choice(&["client", "route"]),
        Is("client"),
        "`client` never lets one client see what another caused to be stored.",
    ),
    key(
        "kb_version",
        Kind::Text,
        Nothing,
        "The knowledge base's version, of 1 to 200 letters; answers of another are never served.",
    ),
    key("normalize", Kind::Bool, Is("true"), "Texts that differ only in invisible ways share a cached vector."),
    key("semantic", Kind::Table, Nothing, "How the same question is known, with `mode: semantic`."),
    needed("semantic.route", Kind::Name, "The embedding route that questions are compared by."),
    needed(
        "semantic.threshold",
        Kind::Above(0.0, 1.0),
        "The least cosine similarity; measure it with `mai-gateway calibrate`.",
    ),
    key(
        "semantic.margin",
        Kind::Number(0.0, 1.0),
        Is("0.02"),
        "How far a match must stand above the best entry that is a different question.",
    ),
    key("semantic.timeout", Kind::Duration, Is("300ms"), "What a lookup may take; then it counts as a miss."),
    key(
        "semantic.question",
        Kind::Pattern(1),
        Words("the last user message"),
        "A regular expression whose one group is the question inside the prompt.",
    ),
    key(
        "semantic.multi_turn",
        Kind::Choice(&["bypass", "exact"]),
        Is("bypass"),
        "Calls with earlier turns: not matched by meaning (the same call still hits), or only where those are the same.",
    ),
    key(
        "semantic.max_temperature",
        Kind::Number(0.0, 2.0),
        Is("0.3"),
        "Calls with a written temperature above it are not matched.",
    ),
    key("semantic.verify", Kind::Table, Nothing, "Asks another model whether both are the same question."),
    needed("semantic.verify.route", Kind::Name, "A rerank or chat route."),
    key("semantic.verify.min_score", Kind::Number(0.0, 1.0), Is("0.9"), "The least score of a rerank route."),
    key(
        "semantic.verify.overrules",
        Kind::List(&Kind::Choice(&["action", "entity", "scope"])),
        Words("none"),
        "Guards against whose refusal it is asked too, and may serve the answer all the same.",
    ),
    key("semantic.shadow", Kind::Bool, Is("false"), "Record what would have hit, and serve nothing."),
];
