//! Who answers.

use super::Preset::{Is, Nothing, Words};
use super::{HTTP, Key, Kind, Section, key, needed};

pub(super) const SECTIONS: &[Section] = &[
    Section { under: &["providers[]."], keys: PROVIDER },
    Section { under: &["providers[].", "clients[]."], keys: QUEUE },
];

const PROVIDER: &[Key] = &[
    needed("name", Kind::Name, "The provider's name in this configuration, in records and in `x-mai-upstream`."),
    key(
        "protocol",
        Kind::Protocol,
        Is("openai"),
        "The wire format that it speaks. `openai` covers everything that speaks like OpenAI.",
    ),
    needed(
        "base_url",
        HTTP,
        "Where it is reached, used as written; the protocol's path is appended. Credentials do not belong here.",
    ),
    key("api_key", Kind::Secret, Nothing, "Its key; none where it wants none."),
    key(
        "api_keys",
        Kind::List(&Kind::Secret),
        Nothing,
        "Several keys, rotated; one that is throttled or refused rests. Instead of `api_key`.",
    ),
    key("headers", Kind::Map(&Kind::Secret), Nothing, "Headers added to every call."),
    key("pool", Kind::Table, Nothing, "Connections to this provider."),
    key(
        "pool.idle_timeout",
        Kind::Duration,
        Is("20s"),
        "Connections idle for longer are not used again; keep it below the provider's own.",
    ),
    key("pool.tcp_keepalive", Kind::Duration, Is("15s"), "Between TCP keepalive probes on idle connections."),
    key("pool.connect_timeout", Kind::Duration, Is("2s"), "Name resolution, TCP and TLS together."),
    key("pool.max_connections", Kind::Integer(1, 65_535), Is("512"), "Connections at most."),
    key(
        "proxy",
        Kind::Url(&["http"]),
        Nothing,
        "An HTTP proxy on the way to this provider, with user and password where it wants them.",
    ),
    key("ca", Kind::File, Nothing, "PEM file with certificates to trust besides the usual ones."),
    key("api_version", Kind::Text, Nothing, "The `api-version` of Azure OpenAI."),
    key(
        "score",
        Kind::Choice(&["probability", "logit"]),
        Is("probability"),
        "What its rerank scores are: `logit` scores are squeezed into 0 to 1.",
    ),
    key(
        "token_arrays",
        Kind::Choice(&["auto", "pass", "decode"]),
        Is("auto"),
        "Embedding inputs that came as token ids: passed on, decoded to text, or passed until it refuses them.",
    ),
    key(
        "concurrency",
        Kind::Table,
        Nothing,
        "Calls in flight to this provider, of all routes together; others wait in the `queue`, or go to another upstream.",
    ),
    key("concurrency.max", Kind::Integer(1, 65_535), Words("unbounded"), "Calls in flight at most."),
    key(
        "concurrency.adaptive",
        Kind::Bool,
        Is("false"),
        "Find the point where latency grows faster than throughput, and stay below it.",
    ),
    key("concurrency.headroom", Kind::Number(0.0, 0.95), Is("0.3"), "How far below that point, as a share."),
    key("health", Kind::Table, Words("off"), "An active probe."),
    key("health.path", Kind::Text, Is("/models"), "The path asked for, below `base_url`."),
    key("health.every", Kind::Duration, Is("10s"), "Between the starts of two probes; at least a second."),
];

const QUEUE: &[Key] = &[
    key("queue", Kind::Table, Nothing, "Waiting for a free place instead of a 429."),
    key("queue.max_wait", Kind::Wait, Words("1s; 30s for batch clients"), "The longest wait."),
    key(
        "queue.max_depth",
        Kind::Integer(0, 1_000_000),
        Words("100; 1000 for batch clients"),
        "Calls that wait at most.",
    ),
];
