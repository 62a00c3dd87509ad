//! What concerns the whole process, and groups of keys that stand at several places.

use super::Preset::{Is, Nothing, Words};
use super::{COUNT, HTTP, Key, Kind, RATE, SHARED_STATE, Section, key, needed};

pub(super) const SECTIONS: &[Section] = &[
    Section { under: &[""], keys: PROCESS },
    Section { under: &[""], keys: RECORDING },
    Section { under: &["", "routes[].", "clients[].", "clients[].routes[]."], keys: LIMIT },
    Section { under: &["limit.", "routes[].limit.", "clients[].limit.", "clients[].routes[].limit."], keys: LIMITS },
    Section { under: &["routes[].", "clients[]."], keys: PARAMS },
];

const PROCESS: &[Key] = &[
    key(
        "environment",
        Kind::Name,
        Is("default"),
        "Part of every cache key and shared-state key: environments never share state.",
    ),
    key(
        "listen",
        Kind::Address,
        Is("0.0.0.0:8080"),
        "Where callers are served. Also `MAI_LISTEN`. A change needs a restart.",
    ),
    key("admin", Kind::Table, Nothing, "The admin port: admin API, console, `/metrics`."),
    key(
        "admin.listen",
        Kind::Address,
        Is("127.0.0.1:8081"),
        "Where operators are served. Also `MAI_ADMIN_LISTEN`. A change needs a restart.",
    ),
    key(
        "admin.tokens",
        Kind::List(&Kind::Table),
        Nothing,
        "Tokens of the admin port. `MAI_ADMIN_TOKEN` adds one of role `admin`.",
    ),
    needed("admin.tokens[].name", Kind::Name, "Who acts with this token, for the audit log."),
    key(
        "admin.tokens[].role",
        Kind::Choice(&["viewer", "operator", "admin"]),
        Is("viewer"),
        "`viewer` reads, `operator` also pulls levers, `admin` does everything.",
    ),
    needed("admin.tokens[].token", Kind::Secret, "The token, of at least 16 characters, plain or as `sha256:<hex>`."),
    key(
        "data_dir",
        Kind::Folder,
        Is("/var/lib/mai-gateway"),
        "The folder for everything that survives a restart; made when missing. Also `MAI_DATA_DIR`.",
    ),
    key(
        "log_level",
        Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        Is("info"),
        "The least grave line that is logged. Also `MAI_LOG_LEVEL`.",
    ),
    key(
        "max_body",
        Kind::Size(1 << 10, 1 << 30),
        Is("10MiB"),
        "A caller's body at most; a larger one is refused with 413.",
    ),
    key("shutdown_grace", Kind::Wait, Is("30s"), "How long calls in flight may go on after `SIGTERM`."),
    key("resolver", Kind::Table, Nothing, "Name resolution."),
    key(
        "resolver.refresh",
        Kind::Duration,
        Is("30s"),
        "How long a resolved address is used before its name is looked up again.",
    ),
    key("tls", Kind::Table, Nothing, "TLS for the data port; read again with every reload."),
    needed("tls.cert", Kind::File, "PEM file with the certificate chain, the server's own certificate first."),
    needed("tls.key", Kind::File, "PEM file with the private key."),
    key("state", Kind::Table, Nothing, "Where replicas share state; without it state is in this process.")
        .with(SHARED_STATE),
    needed("state.redis", Kind::Url(&["redis", "rediss"]), "The Redis that replicas share."),
    key(
        "database",
        Kind::Url(&["sqlite", "postgres", "postgresql"]),
        Is("sqlite://gateway.db"),
        "Usage ledger, objects made through the admin API, audit log. An SQLite file is relative to `data_dir`. A change needs a restart.",
    ),
    key(
        "prices",
        Kind::File,
        Words("the built-in prices"),
        "A file of model prices, which go before the built-in list prices: `{currency, models: [{id, provider, input_per_mtok, …}]}`.",
    ),
    key("cache", Kind::Table, Nothing, "Bounds of all caches together."),
    key(
        "cache.memory",
        Kind::Size(1 << 20, 1 << 50),
        Is("256MiB"),
        "Memory for cached answers and vectors, with what keeping them takes; what is used least goes first.",
    ),
    key(
        "cache.disk",
        Kind::Size(0, 1 << 60),
        Is("2GiB"),
        "Disk for cached answers and vectors, in `cache.db` in `data_dir`, at least 1 MiB; 0 keeps them in memory alone and removes what is there. Knowing what is there takes up to 42 bytes of the memory for each of them.",
    ),
    key(
        "drills",
        Kind::Choice(&["disabled", "enabled"]),
        Is("disabled"),
        "`enabled` lets operators inject faults into upstreams, for a bounded time.",
    ),
    key("providers", Kind::List(&Kind::Table), Nothing, "Who answers: the services behind the gateway."),
    key(
        "routes",
        Kind::List(&Kind::Table),
        Nothing,
        "The model names that callers write, and what stands behind each.",
    ),
    key("clients", Kind::List(&Kind::Table), Nothing, "Who may call: one for every business team."),
];

const RECORDING: &[Key] = &[
    key("records", Kind::Table, Nothing, "Request records, searchable by operators."),
    key(
        "records.content",
        Kind::Bool,
        Is("false"),
        "Also keep the text of prompts and answers, without keys and what `records.mask` matches; false removes what was kept.",
    ),
    key("records.keep", Kind::Wait, Is("7d"), "How long a record is kept; `0s` keeps none, and removes what was kept."),
    key(
        "records.max_size",
        Kind::Size(1 << 20, 1 << 60),
        Is("1GiB"),
        "Bytes on disk of records at most, in `requests.db` in `data_dir`, and as many again of recorded texts; the oldest go first.",
    ),
    key(
        "records.mask",
        Kind::List(&Kind::Pattern(0)),
        Nothing,
        "Regular expressions; what they match in recorded text is blanked.",
    ),
    key("telemetry", Kind::Table, Nothing, "OpenTelemetry: traces and metrics over OTLP."),
    needed(
        "telemetry.otlp",
        HTTP,
        "The OTLP collector that traces and metrics are posted to: its address without `/v1/traces` and `/v1/metrics`, which are put behind it.",
    ),
    key(
        "telemetry.headers",
        Kind::Map(&Kind::Secret),
        Nothing,
        "Headers that the collector wants, such as `authorization`.",
    ),
    key(
        "telemetry.sample",
        Kind::Number(0.0, 1.0),
        Is("1"),
        "The share of traces that are recorded, of those that begin here. Where a caller sent a `traceparent` that one decides.",
    ),
    key(
        "telemetry.compression",
        Kind::Choice(&["none", "gzip"]),
        Is("none"),
        "How what is posted is compressed: `gzip` where the way to the collector is narrow or is paid for.",
    ),
    key(
        "telemetry.proxy",
        Kind::Url(&["http"]),
        Nothing,
        "An HTTP proxy on the way there, with user and password where it wants them.",
    ),
    key("telemetry.ca", Kind::File, Nothing, "PEM file with certificates to trust besides the usual ones."),
    key("webhooks", Kind::List(&Kind::Table), Nothing, "Who is told of events, by signed POSTs: see docs/webhooks.md."),
    key(
        "webhooks[].name",
        Kind::Name,
        Words("its place in the list, from 0"),
        "As metrics, log and `/readyz` call it, which never show its address.",
    ),
    needed("webhooks[].url", HTTP, "Where events are posted; no redirect is followed."),
    needed(
        "webhooks[].secret",
        Kind::Secret,
        "Signs each event: `whsec_` and base64, as the Standard Webhooks specification writes it, else its bytes as they are.",
    ),
    key(
        "webhooks[].proxy",
        Kind::Url(&["http"]),
        Nothing,
        "An HTTP proxy on the way there, with user and password where it wants them.",
    ),
    key("webhooks[].ca", Kind::File, Nothing, "PEM file with certificates to trust besides the usual ones."),
    key(
        "webhooks[].on",
        Kind::List(&Kind::Choice(&["quota", "breaker", "dimension_mismatch"])),
        Words("every event"),
        "Which events.",
    ),
];

const LIMIT: &[Key] = &[key(
    "limit",
    Kind::Table,
    Nothing,
    "Rates and concurrency; a call over any limit that applies is refused with 429. At the top level: the hard ceiling of the whole gateway.",
)];

const LIMITS: &[Key] = &[
    key("qps", RATE, Nothing, "Calls per second."),
    key("burst", COUNT, Words("one second's worth of `qps`, at least 1"), "Calls that may come at once after a pause."),
    key("concurrency", COUNT, Nothing, "Calls in flight."),
    key("tokens_per_minute", COUNT, Nothing, "Tokens per minute, read and written."),
];

const PARAMS: &[Key] = &[
    key(
        "params",
        Kind::Table,
        Nothing,
        "What callers may ask of the model. Fields are named by their path in the body, such as `response_format.type`. On rerank a rule for `top_n`, `return_documents`, `truncate` or `instruction` also holds for its other name: `top_k`, `return_text`, `truncation`, `instruct`.",
    ),
    key(
        "params.force",
        Kind::Map(&Kind::Any),
        Nothing,
        "Fields set to this value, whatever the caller wrote; null takes them out.",
    ),
    key("params.default", Kind::Map(&Kind::Any), Nothing, "Fields set to this value where the caller wrote none."),
    key(
        "params.max",
        Kind::Map(&Kind::Number(f64::MIN, f64::MAX)),
        Nothing,
        "Numbers lowered to this value. A rule for `max_tokens` also bounds `max_completion_tokens`.",
    ),
    key("params.min", Kind::Map(&Kind::Number(f64::MIN, f64::MAX)), Nothing, "Numbers raised to this value."),
    key("params.deny", Kind::List(&Kind::Text), Nothing, "Fields that are refused with 400."),
];
