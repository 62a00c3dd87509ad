//! What the configuration means: compiled, checked, immutable, swapped whole.
//!
//! The gateway sees nothing but this. Everything a request needs is resolved here once, so that
//! serving it looks nothing up by name but its key and its model.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{Endpoint, Glob, KeyHasher, KeyId, Secret};
use dialect::chat::prompt::Retrieval;
use dialect::texts::Mask;
use dialect::{Dialect, Encoding, Protocol, Score, TokenArrays, Tokenizer};
use foldhash::HashMap;
use http::{HeaderName, HeaderValue};
use rules::breaker;
use rules::context::Terms;
use rules::limits::Limit;
use rules::order::Strategy;
use rules::params::Policy;
use rules::prices::Price;
use rules::pursuit::Retry;
use rules::queue::Patience;
use rules::quota;
use rules::shares::Priority;
use rules::slots;
use rules::split::{Branch, Mirror};

use crate::caching::{CacheBounds, CacheScope, Caching};
use crate::{List, Telemetry, Webhook};

/// One compiled configuration. A request sees exactly one.
#[derive(Debug)]
pub struct Snapshot {
    /// What concerns the whole process.
    pub general: General,
    /// In the order written.
    pub providers: List<Arc<Provider>>,
    /// In the order written.
    pub routes: List<Arc<Route>>,
    /// In the order written.
    pub clients: List<Arc<Client>>,
    /// Who is told of events, in the order written.
    pub webhooks: Vec<Arc<Webhook>>,
    /// Client keys.
    pub keys: KeyTable,
    /// The currency of the price list, in which costs are counted where they can be in one alone.
    pub currency: Arc<str>,
    /// Keys that are accepted in this file but not in force in this version: their paths.
    pub not_in_force: Vec<String>,
    /// Endpoint and model name to the index of a route.
    pub(crate) by_model: HashMap<Endpoint, HashMap<String, usize>>,
    /// Routes by name.
    pub(crate) by_name: HashMap<Box<str>, usize>,
}

impl Snapshot {
    /// The route behind a model name on an endpoint.
    #[must_use]
    pub fn route(&self, endpoint: Endpoint, model: &str) -> Option<&Arc<Route>> {
        self.by_model.get(&endpoint)?.get(model).and_then(|at| self.routes.get(*at))
    }

    /// The route of that name.
    #[must_use]
    pub fn route_named(&self, name: &str) -> Option<&Arc<Route>> {
        self.by_name.get(name).and_then(|at| self.routes.get(*at))
    }

    /// The client behind a key of the configuration, as presented.
    #[must_use]
    pub fn client(&self, presented: &[u8]) -> Option<&Arc<Client>> {
        self.client_with(&self.keys.hasher.of_key(presented))
    }

    /// The client that this key of the configuration belongs to.
    #[must_use]
    pub fn client_with(&self, key: &KeyId) -> Option<&Arc<Client>> {
        self.keys.by_id.get(key).and_then(|at| self.clients.get(*at))
    }

    /// The client of that name.
    #[must_use]
    pub fn client_named(&self, name: &str) -> Option<&Arc<Client>> {
        self.keys.by_name.get(name).and_then(|at| self.clients.get(*at))
    }

    /// True when some route answers this endpoint, whatever the model.
    #[must_use]
    pub fn serves(&self, endpoint: Endpoint) -> bool {
        self.by_model.get(&endpoint).is_some_and(|models| !models.is_empty())
    }
}

/// Process-wide settings.
#[derive(Clone, Debug)]
pub struct General {
    /// `environment`
    pub environment: String,
    /// `listen`: the data port.
    pub listen: SocketAddr,
    /// `admin.listen`
    pub admin_listen: SocketAddr,
    /// `admin.tokens` and `MAI_ADMIN_TOKEN`
    pub admin_tokens: Vec<AdminToken>,
    /// `data_dir`
    pub data_dir: PathBuf,
    /// `log_level`: error, warn, info, debug, trace
    pub log_level: String,
    /// `max_body`, bytes
    pub max_body: usize,
    /// `database`: the SQLite file of the usage ledger.
    pub database: PathBuf,
    /// `cache`
    pub cache: CacheBounds,
    /// `records`
    pub records: Records,
    /// `shutdown_grace`
    pub shutdown_grace: Duration,
    /// `resolver.refresh`
    pub resolver_refresh: Duration,
    /// `tls`: PEM files for the data port, already read.
    pub tls: Option<TlsPem>,
    /// `limit`: of the whole gateway.
    pub limit: Limit,
    /// `drills`: operators may inject faults.
    pub drills: bool,
    /// `telemetry`: where traces and metrics go.
    pub telemetry: Option<Arc<Telemetry>>,
}

/// What is kept of single requests.
#[derive(Clone, Debug)]
pub struct Records {
    /// `records.keep`: for how long.
    pub keep: Duration,
    /// `records.max_size`, bytes
    pub max_size: u64,
    /// `records.content`: texts are kept too.
    pub content: bool,
    /// `records.mask`, and keys.
    pub mask: Mask,
}

/// A certificate chain and its key as read from their files.
#[derive(Clone, Debug)]
pub struct TlsPem {
    /// PEM text of the chain.
    pub cert: Vec<u8>,
    /// PEM text of the private key.
    pub key: Secret,
}

/// What an admin token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads and pulls levers.
    Operator,
    /// Everything.
    Admin,
}

/// One token of the admin port.
#[derive(Clone, Debug)]
pub struct AdminToken {
    /// The operator's name, for the audit log.
    pub name: String,
    /// May do what.
    pub role: Role,
    /// The token where it was written plain, for the mask before the log alone.
    pub plain: Option<Secret>,
    /// The token's keyed hash, by which callers are known.
    pub id: KeyId,
}

/// Where a provider is reached and how it is spoken to.
#[derive(Debug)]
pub struct Provider {
    /// `name`
    pub name: Arc<str>,
    /// `protocol`
    pub protocol: Protocol,
    /// The protocol's wire format.
    pub dialect: &'static dyn Dialect,
    /// Scheme, host and port of `base_url`.
    pub origin: Origin,
    /// Path and query of `base_url` as written.
    pub base_path: String,
    /// `api_keys` / `api_key`, ready to send; empty when the provider wants none.
    pub keys: Vec<ApiKey>,
    /// `headers`: added to every call.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// `pool`
    pub pool: Pool,
    /// `proxy`: an HTTP proxy on the way out.
    pub proxy: Option<Proxy>,
    /// `ca`: PEM text of extra roots, already read.
    pub ca: Option<Arc<[u8]>>,
    /// `api_version`
    pub api_version: Option<String>,
    /// `score`
    pub score: Score,
    /// `token_arrays`
    pub token_arrays: TokenArrays,
    /// `health`: an active probe.
    pub health: Option<Health>,
    /// `concurrency`: calls side by side, of all its routes together.
    pub concurrency: Option<slots::Terms>,
    /// `queue`: for a place among those.
    pub queue: Patience,
}

/// `health` of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Path and query asked for, with `base_url`'s path in front of it.
    pub path: http::uri::PathAndQuery,
    /// Between the starts of two probes.
    pub every: Duration,
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// https?
    pub tls: bool,
    /// Host name or address; an IPv6 address without brackets; lower case.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Origin {
    /// As a `Host` header writes it: the port only where it is not the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// One key of a provider.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its place in the list, from 0: the only name it has in records.
    pub index: usize,
    /// Which header carries it.
    pub header: HeaderName,
    /// The header's value, marked sensitive.
    pub value: HeaderValue,
    /// The key alone, to scrub it out of upstreams' error texts.
    pub secret: Secret,
}

/// `pool` of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Idle connections older than this are not used again.
    pub idle_timeout: Duration,
    /// TCP keepalive probes on idle connections.
    pub tcp_keepalive: Duration,
    /// Name resolution, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Connections to this provider at most, over all workers.
    pub max_connections: usize,
}

/// An outbound HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Where it listens.
    pub origin: Origin,
    /// `proxy-authorization`, from user and password in its URL.
    pub authorization: Option<HeaderValue>,
}

/// One upstream of a route.
#[derive(Debug)]
pub struct Upstream {
    /// `name`, by default the provider's.
    pub name: Arc<str>,
    /// `provider/model` for records; the provider alone where the caller's model name is sent on.
    pub label: Arc<str>,
    /// The provider that answers.
    pub provider: Arc<Provider>,
    /// The model's name there; `None` sends what the caller wrote.
    pub model: Option<String>,
    /// 0 first.
    pub tier: u32,
    /// Share inside its tier.
    pub weight: u32,
    /// Path and query at the provider, by endpoint of the route.
    pub paths: HashMap<Endpoint, http::uri::PathAndQuery>,
    /// `space`: the vector space, for embeddings.
    pub space: Option<String>,
    /// It is written; else the model's name stands for it.
    pub is_space_written: bool,
    /// The model's name there as records have it: `model`, else the one that callers write.
    pub sent: Arc<str>,
    /// What the model costs there; `None` where nobody knows.
    pub price: Option<Arc<Price>>,
    /// `context_window`, else as the model is known: tokens of the prompt at most.
    pub context_window: Option<u64>,
    /// `tokenizer`, else as the model is known; `None` where nobody knows how its tokens are counted.
    pub tokenizer: Option<Counting>,
}

/// One route: the model name that callers write.
#[derive(Debug)]
pub struct Route {
    /// `name`
    pub name: Arc<str>,
    /// Endpoints of `match.path`.
    pub endpoints: Vec<Endpoint>,
    /// `match.model`
    pub model: String,
    /// By tier, then in the order written.
    pub upstreams: Vec<Arc<Upstream>>,
    /// `timeout`
    pub timeout: Timeouts,
    /// `deadline`
    pub deadline: Duration,
    /// `body_timeout`: how long the caller's body may take.
    pub body_timeout: Duration,
    /// `dimensions`: of its vectors, where configured.
    pub dimensions: Option<usize>,
    /// `batch.max_inputs`: inputs in one upstream call, where configured.
    pub max_inputs: Option<usize>,
    /// `batch.wait`: how long a small call waits for others to join it.
    pub wait: Duration,
    /// `strategy`
    pub strategy: Strategy,
    /// `split`: the first branch that is met wins.
    pub split: Vec<Branch>,
    /// `mirror`
    pub mirror: Option<Mirror>,
    /// `retry`
    pub retry: Retry,
    /// `breaker`
    pub breaker: breaker::Terms,
    /// `on_failure`
    pub on_failure: OnFailure,
    /// `params`
    pub params: Policy,
    /// `context`
    pub context: Option<Context>,
    /// `cache`
    pub cache: Caching,
    /// `limit`
    pub limit: Limit,
}

impl Route {
    /// The vector space of its answers; `None` where it has none, or several, whose vectors must not be compared.
    #[must_use]
    pub fn vector_space(&self) -> Option<&str> {
        let mut spaces = self.upstreams.iter().map(|upstream| upstream.space.as_deref());
        let first = spaces.next()?;
        spaces.all(|space| space == first).then_some(first?)
    }

    /// Those that a call goes to first: the one that a split has chosen, else the first tier; others answer for want of it.
    pub fn first_upstreams(&self, chosen: Option<usize>) -> impl Iterator<Item = &Arc<Upstream>> {
        let tier = self.upstreams.first().map(|upstream| upstream.tier);
        let is_first = move |(at, upstream): &(usize, &Arc<Upstream>)| match chosen {
            Some(chosen) => *at == chosen,
            None => Some(upstream.tier) == tier,
        };
        self.upstreams.iter().enumerate().filter(is_first).map(|(_, upstream)| upstream)
    }
}

/// How an upstream's tokens are counted.
#[derive(Clone, Debug)]
pub enum Counting {
    /// As one of OpenAI's encodings does.
    Encoding(Encoding),
    /// As a `tokenizer.json` says.
    File(Arc<Tokenizer>),
}

/// `context` of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// `budget` and `retrieval_share`; `None` where nothing is bounded.
    pub terms: Option<Terms>,
    /// `retrieval`
    pub retrieval: Option<Retrieval>,
}

/// What callers get when nothing answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// An error.
    #[default]
    Error,
    /// A marked weak answer, or an error that says that the application may go on without.
    Degrade,
    /// An expired cached answer; without one, an error.
    Stale,
}

impl OnFailure {
    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Degrade => "degrade",
            Self::Stale => "stale",
        }
    }
}

/// `timeout` of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// One try, whole answer; for streams: up to the first content.
    pub attempt: Duration,
    /// Streams: up to the first content.
    pub first_byte: Duration,
    /// Streams: between two pieces, comments included.
    pub stream_idle: Duration,
    /// Streams: from first content to the end.
    pub stream_total: Duration,
}

/// One business team.
#[derive(Debug)]
pub struct Client {
    /// `name`
    pub name: Arc<str>,
    /// `routes`; none, no access.
    pub routes: Vec<Glob>,
    /// `deadline`: at most this, whatever the route says.
    pub deadline: Option<Duration>,
    /// `on_failure`: overrides the route's.
    pub on_failure: Option<OnFailure>,
    /// `quota`
    pub quota: Option<Arc<quota::Terms>>,
    /// `params`
    pub params: Policy,
    /// `priority`
    pub priority: Priority,
    /// `limit`
    pub limit: Limit,
    /// `routes[].limit`: of each route that such a pattern fits, by its name, the tightest of each.
    pub limits_on: Arc<HashMap<Arc<str>, Limit>>,
    /// `queue`
    pub queue: Patience,
    /// `cache.scope`: overrides the routes'.
    pub cache_scope: Option<CacheScope>,
}

impl Client {
    /// Whether this client may use that route.
    #[must_use]
    pub fn may_use(&self, route: &Route) -> bool {
        self.routes.iter().any(|glob| glob.fits(&route.name))
    }

    /// What limits this client on that route alone.
    #[must_use]
    pub fn limit_on(&self, route: &Route) -> Limit {
        self.limits_on.get(&*route.name).copied().unwrap_or_default()
    }
}

/// Client keys by their keyed hash, and clients by name.
#[derive(Debug)]
pub struct KeyTable {
    pub(crate) hasher: KeyHasher,
    pub(crate) by_id: HashMap<KeyId, usize>,
    pub(crate) by_name: HashMap<Box<str>, usize>,
}

impl KeyTable {
    pub(crate) fn new(hasher: KeyHasher, by_id: HashMap<KeyId, usize>, clients: &List<Arc<Client>>) -> Self {
        let names = clients.iter().map(|client| Box::from(&*client.name));
        Self { hasher, by_id, by_name: names.zip(0..).collect() }
    }

    /// What hashes keys as they are known here: tables are keyed by an HMAC under this process's own key and ids are
    /// compared in constant time, so timing betrays nothing.
    #[must_use]
    pub const fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// How many keys the configuration gives the client of that name.
    #[must_use]
    pub fn count_of(&self, client: &str) -> usize {
        let at = self.by_name.get(client);
        self.by_id.values().filter(|owner| Some(*owner) == at).count()
    }
}
