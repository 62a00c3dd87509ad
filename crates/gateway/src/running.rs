//! A configuration in force, bound to the state that belongs to its objects.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::time::Duration;

use base::Endpoint;
use config::{ApiKey, Provider, Route, Snapshot};
use http::{HeaderMap, HeaderValue, header};

use crate::head;
use crate::keyring::KeyRing;

/// One configuration in force, with the state of its objects at hand. A request holds one from its
/// beginning to its end.
#[derive(Debug)]
pub struct Running {
    /// The configuration.
    pub snapshot: Snapshot,
    /// By the route's name.
    routes: HashMap<Arc<str>, RouteState>,
    patience: HashMap<Endpoint, Duration>,
}

/// What belongs to a configured route.
#[derive(Debug)]
pub struct RouteState {
    /// Requests running.
    pub inflight: Arc<AtomicI64>,
    /// Its name as a header shows it.
    pub shown: HeaderValue,
    /// The dimension of its vectors where a call names none; 0 until the first answer.
    pub dimension: Arc<AtomicUsize>,
    /// Parallel to `Route::upstreams`.
    pub upstreams: Vec<UpstreamState>,
}

/// What belongs to an upstream of a route.
#[derive(Debug)]
pub struct UpstreamState {
    /// What its answers have taught.
    pub learned: Arc<Learned>,
    /// Its provider's keys.
    pub keys: Arc<KeyRing>,
    /// Its label as a header shows it.
    pub shown: HeaderValue,
    /// What every call's head holds: one for each key, or one without.
    heads: Vec<HeaderMap>,
}

impl UpstreamState {
    /// The headers of a call with that key, to be completed.
    #[must_use]
    pub fn headers(&self, key: Option<usize>) -> HeaderMap {
        self.heads.get(key.unwrap_or(0)).cloned().unwrap_or_default()
    }
}

/// The part of an upstream call's headers that is the same for every call.
pub(crate) fn heads(provider: &Provider) -> Vec<HeaderMap> {
    let mut common = HeaderMap::with_capacity(16);
    for (name, value) in &provider.headers {
        common.insert(name.clone(), value.clone());
    }
    let authority = HeaderValue::from_str(&provider.origin.authority());
    common.insert(header::HOST, authority.unwrap_or(HeaderValue::from_static("upstream")));
    common.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    common.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    common.insert(header::USER_AGENT, HeaderValue::from_static(concat!("mai-gateway/", env!("CARGO_PKG_VERSION"))));
    if let (Some(proxy), false) = (&provider.proxy, provider.origin.tls)
        && let Some(authorization) = &proxy.authorization
    {
        common.insert(header::PROXY_AUTHORIZATION, authorization.clone());
    }
    if provider.keys.is_empty() {
        return vec![common];
    }
    let with_key = |key: &ApiKey| {
        let mut headers = common.clone();
        headers.insert(key.header.clone(), key.value.clone());
        headers
    };
    provider.keys.iter().map(with_key).collect()
}

/// What an upstream's answers have taught about it.
#[derive(Debug, Default)]
pub struct Learned {
    /// It refused `stream_options`: not asked for again.
    pub refuses_stream_options: AtomicBool,
    /// It refused token ids: decoded from then on.
    pub refuses_token_arrays: AtomicBool,
}

/// For a body on an endpoint that no route serves: it is read only to answer it in good order.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

impl Running {
    pub(crate) fn has_route(&self, name: &Arc<str>) -> bool {
        self.routes.contains_key(name)
    }

    /// The state of one of its routes.
    #[must_use]
    pub fn state(&self, route: &Route) -> Option<&RouteState> {
        self.routes.get(&route.name)
    }

    /// How long a caller's body may take on an endpoint: the longest `body_timeout` of its routes,
    /// since the body itself says which route it is for.
    #[must_use]
    pub fn body_patience(&self, endpoint: Endpoint) -> Duration {
        self.patience.get(&endpoint).copied().unwrap_or(BODY_PATIENCE)
    }
}

/// State by the names of the objects it belongs to; bounded by the configuration.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    keyrings: HashMap<Arc<str>, Arc<KeyRing>>,
    learned: HashMap<(Arc<str>, Arc<str>), Arc<Learned>>,
    /// By route and vector space.
    dimensions: HashMap<(Arc<str>, String), Arc<AtomicUsize>>,
}

impl Kept {
    pub(crate) fn bind(&mut self, snapshot: Snapshot, inflight: &dyn Fn(&Arc<str>) -> Arc<AtomicI64>) -> Running {
        for provider in &snapshot.providers {
            let ring = self.keyrings.entry(provider.name.clone()).or_default();
            *ring = ring.fitting(provider);
        }
        let mut routes = HashMap::with_capacity(snapshot.routes.len());
        for route in &snapshot.routes {
            let upstreams = route.upstreams.iter().map(|upstream| UpstreamState {
                learned: self.learned.entry((route.name.clone(), upstream.label.clone())).or_default().clone(),
                keys: self.keyrings.entry(upstream.provider.name.clone()).or_default().clone(),
                shown: head::named(&upstream.label),
                heads: heads(&upstream.provider),
            });
            let state = RouteState {
                inflight: inflight(&route.name),
                shown: head::named(&route.name),
                dimension: self.dimensions.entry((route.name.clone(), space(route))).or_default().clone(),
                upstreams: upstreams.collect(),
            };
            routes.insert(route.name.clone(), state);
        }
        self.learned.retain(|(route, label), _| {
            let kept = |kept: &Arc<Route>| {
                kept.name == *route && kept.upstreams.iter().any(|upstream| upstream.label == *label)
            };
            snapshot.routes.iter().any(kept)
        });
        self.dimensions.retain(|(name, space_of), _| {
            snapshot.routes.iter().any(|route| route.name == *name && space(route) == *space_of)
        });
        self.keyrings.retain(|name, _| snapshot.providers.iter().any(|provider| provider.name == *name));
        let mut patience: HashMap<Endpoint, Duration> = HashMap::new();
        for route in &snapshot.routes {
            for endpoint in &route.endpoints {
                let longest = patience.entry(*endpoint).or_default();
                *longest = route.body_timeout.max(*longest);
            }
        }
        Running { snapshot, routes, patience }
    }
}

/// The vector space of a route: as configured, else the model's name stands for it.
fn space(route: &Route) -> String {
    let first = route.upstreams.first();
    let named = first.and_then(|upstream| upstream.space.as_deref().or(upstream.model.as_deref()));
    named.unwrap_or_default().to_owned()
}
