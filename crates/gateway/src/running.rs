//! A configuration in force, bound to the state that belongs to its objects.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use base::{Clock, Endpoint};
use config::{ApiKey, Callers, Comers, Provider, Route, Snapshot, Upstream};
use foldhash::{HashMap, HashMapExt as _};
use http::{HeaderMap, HeaderValue, header};
use rules::budget::RetryBudget;
use rules::order::Strategy;
use rules::slots::Terms;
use rules::tokens::{Amounts, Worth};

use crate::alerts::Alerts;
use crate::caller::headers;
use crate::limits::meters::{KeptMeters, Meters};
use crate::limits::queue::BatchQueue;
use crate::quota::quotas::{ClientQuotas, KeptQuotas};
use crate::upstream::keyring::KeyRing;
use crate::upstream::slots::ProviderSlots;
use crate::upstream::standing::{Gate, Standing};

mod on_route;
mod pulled;

pub use on_route::{AtUpstream, OnRoute};
pub use pulled::Which;
pub(crate) use pulled::{Lever, Pulled};

/// One configuration in force, with the state of its objects at hand. A request holds one from its
/// beginning to its end.
#[derive(Debug)]
pub struct Running {
    /// The configuration.
    pub snapshot: Snapshot,
    /// By the route's name.
    routes: HashMap<Arc<str>, RouteState>,
    patience: HashMap<Endpoint, Duration>,
    /// The accounts of its limits.
    pub meters: Meters,
    /// Those who wait for a limit, on all workers.
    pub batch_queue: Arc<BatchQueue>,
    /// The quotas of its clients.
    pub quotas: ClientQuotas,
    slots_by_provider: HashMap<Arc<str>, Arc<ProviderSlots>>,
    /// Those of providers that are gone, or bounded no more.
    closed_slots: Vec<Weak<ProviderSlots>>,
}

/// What belongs to a configured route.
#[derive(Debug)]
pub struct RouteState {
    /// What of it is under way on this worker.
    pub counts: Counts,
    /// Its name as a header shows it.
    pub shown: HeaderValue,
    /// Bounds its repeats.
    pub budget: Arc<RetryBudget>,
    /// Parallel to `Route::upstreams`.
    pub upstreams: Vec<UpstreamState>,
    /// What decides a vector that it is asked for beside the question, once somebody has compared by it.
    pub manner: OnceLock<Option<Box<[u8]>>>,
}

/// What of a route is under way on one worker, whatever configuration it began with.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests.
    pub inflight: Arc<AtomicI64>,
    /// Copies of its calls.
    pub copies: Arc<AtomicUsize>,
}

/// What belongs to an upstream of a route.
#[derive(Debug)]
pub struct UpstreamState {
    /// Its breaker, its rest, its load.
    pub gate: Arc<Gate>,
    /// What its answers have taught.
    pub learned: Arc<Learned>,
    /// The dimension of its vector space where a call names none; 0 until the first answer.
    pub dimension: Arc<AtomicUsize>,
    /// Its provider's keys.
    pub keys: Arc<KeyRing>,
    /// Whose turn it is among them, on this worker.
    pub turn: AtomicUsize,
    /// Its provider's places, where they are bounded.
    pub slots: Option<Arc<ProviderSlots>>,
    /// How often that had been begun anew when the configuration was bound: calls go where that says.
    pub moves: u32,
    /// Its label as a header shows it.
    pub shown: HeaderValue,
    /// What every call's head holds: one for each key, or one without.
    heads: Arc<[HeaderMap]>,
}

impl UpstreamState {
    /// Where its state and that of its keys lies: what befalls one upstream befalls all that have both in common.
    fn state_at(&self) -> (usize, usize) {
        (std::ptr::from_ref(self.gate.standing()).addr(), Arc::as_ptr(&self.keys).addr())
    }

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
    /// What its model's tokens are worth, where nobody knows how it counts them.
    worth: Mutex<Worth>,
}

impl Learned {
    /// What its model's tokens are worth, as far as is known.
    #[must_use]
    pub fn worth(&self) -> Worth {
        self.worth.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A prompt made of these amounts was so many tokens to its model.
    pub fn learn_worth(&self, amounts: Amounts, tokens: f64) {
        self.worth.lock().unwrap_or_else(PoisonError::into_inner).learn(amounts, tokens);
    }
}

/// For a body on an endpoint that no route serves: it is read only to answer it in good order.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

impl AsRef<Snapshot> for Running {
    fn as_ref(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Running {
    /// The state of one of its routes.
    #[must_use]
    pub fn state(&self, route: &Route) -> Option<&RouteState> {
        self.routes.get(&route.name)
    }

    /// Every upstream of every route.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = (&Route, &Upstream, &UpstreamState)> {
        self.snapshot.routes.iter().filter_map(|route| Some((route, self.state(route)?))).flat_map(|(route, state)| {
            let pairs = route.upstreams.iter().zip(&state.upstreams);
            pairs.map(|(upstream, known)| (&**route, &**upstream, known))
        })
    }

    /// Every upstream of every route, by its label.
    pub(crate) fn standings(&self) -> impl Iterator<Item = (&Arc<str>, &Standing)> {
        self.upstreams().map(|(_, upstream, known)| (&upstream.label, known.gate.standing()))
    }

    /// The upstreams at one provider, of all routes.
    pub(crate) fn standings_at(&self, provider: &str) -> impl Iterator<Item = &Standing> {
        let there = self.upstreams().filter(move |(_, upstream, _)| &*upstream.provider.name == provider);
        there.map(|(_, _, known)| known.gate.standing())
    }

    /// The places of every provider whose calls side by side are bounded.
    pub(crate) fn slots_by_provider(&self) -> &HashMap<Arc<str>, Arc<ProviderSlots>> {
        &self.slots_by_provider
    }

    /// The places of providers that are gone, or bounded no more, as long as calls are there.
    pub(crate) fn closed_slots(&self) -> impl Iterator<Item = Arc<ProviderSlots>> {
        self.closed_slots.iter().filter_map(Weak::upgrade)
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
    /// The providers of the last configuration, to know one that has moved.
    providers: HashMap<Arc<str>, Arc<Provider>>,
    keyrings: HashMap<Arc<str>, Arc<KeyRing>>,
    slots_by_provider: HashMap<Arc<str>, Arc<ProviderSlots>>,
    /// Slots of providers that are gone, or whose calls side by side are not bounded now, as long as calls are there,
    /// and of whom that is.
    closed_slots: HashMap<Arc<str>, (Weak<ProviderSlots>, Arc<Provider>)>,
    /// By route.
    budgets: HashMap<Arc<str>, Arc<RetryBudget>>,
    upstreams: HashMap<Identity, Known>,
    /// By route and vector space.
    dimensions: HashMap<(Arc<str>, String), Arc<AtomicUsize>>,
    meters: KeptMeters,
    batch_queue: Arc<BatchQueue>,
    alerts: Arc<Alerts>,
    pub(crate) quotas: KeptQuotas,
}

impl Kept {
    /// Nothing but the quotas' accounts.
    pub(crate) fn with(quotas: KeptQuotas) -> Self {
        Self { alerts: quotas.alerts(), quotas, ..Self::default() }
    }

    pub(crate) fn bind(&mut self, snapshot: Snapshot, counts: &dyn Fn(&Arc<str>) -> Counts) -> Running {
        for provider in &snapshot.providers {
            let before = self.providers.insert(provider.name.clone(), provider.clone());
            if before.is_some_and(|before| !is_reached_alike(&before, provider)) {
                // What befell its keys, and how much it takes, was found out of another.
                self.keyrings.remove(&provider.name);
                if let Some(slots) = self.slots_by_provider.get(&provider.name) {
                    slots.is_anothers(Clock.now());
                }
            }
            let ring = self.keyrings.entry(provider.name.clone()).or_default();
            *ring = ring.fitting(provider);
        }
        let callers = snapshot.callers();
        self.bind_slots(&snapshot, &callers);
        let (held, mut heads) = (self.held(), Heads::new());
        let mut routes = HashMap::with_capacity(snapshot.routes.len());
        for route in &snapshot.routes {
            let upstreams =
                route.upstreams.iter().map(|upstream| self.bind_upstream(route, upstream, &held, &mut heads)).collect();
            let budget = self.budgets.entry(route.name.clone());
            let state = RouteState {
                counts: counts(&route.name),
                shown: headers::named(&route.name),
                budget: budget.or_insert_with(|| Arc::new(RetryBudget::new(Clock.now()))).clone(),
                upstreams,
                manner: OnceLock::new(),
            };
            routes.insert(route.name.clone(), state);
        }
        self.forget_all_but(&snapshot);
        let mut patience: HashMap<Endpoint, Duration> = HashMap::new();
        for route in &snapshot.routes {
            for endpoint in &route.endpoints {
                let longest = patience.entry(*endpoint).or_default();
                *longest = route.body_timeout.max(*longest);
            }
        }
        let meters = self.meters.bind(&snapshot, &callers, Clock.now());
        let quotas = self.quotas.bind(&snapshot);
        let (batch_queue, slots_by_provider) = (self.batch_queue.clone(), self.slots_by_provider.clone());
        let closed_slots = self.closed_slots.values().map(|(slots, _)| slots.clone()).collect();
        Running { snapshot, routes, patience, meters, batch_queue, slots_by_provider, closed_slots, quotas }
    }

    fn bind_slots(&mut self, snapshot: &Snapshot, callers: &Callers) {
        let now = Clock.now();
        let bounded = snapshot.providers.iter().filter(|provider| provider.concurrency.is_some());
        let mut comers: HashMap<&str, Comers> = bounded.map(|provider| (&*provider.name, Comers::default())).collect();
        let gone = self.slots_by_provider.extract_if(|provider, _| !comers.contains_key(&**provider));
        let closed = gone.filter_map(|(name, slots)| {
            let provider = self.providers.get(&name)?.clone();
            Some((name, (Arc::downgrade(&slots), provider)))
        });
        self.closed_slots.extend(closed);
        for route in &snapshot.routes {
            let on_it = callers.on(route);
            for upstream in &route.upstreams {
                if let Some(known) = comers.get_mut(&*upstream.provider.name) {
                    *known = known.and(on_it);
                }
            }
        }
        for provider in &snapshot.providers {
            let Some(terms) = provider.concurrency else { continue };
            let is_shared = comers.get(&*provider.name).is_some_and(|comers| comers.are_of_all_priorities());
            let before = self.closed_slots.remove(&provider.name).and_then(|(slots, of)| {
                let slots = slots.upgrade()?;
                if !is_reached_alike(&of, provider) {
                    slots.is_anothers(now);
                }
                Some(slots)
            });
            let slots = self.slots_by_provider.entry(provider.name.clone());
            let slots =
                slots.or_insert_with(|| before.unwrap_or_else(|| Arc::new(ProviderSlots::new(terms, is_shared, now))));
            slots.comes_under(terms, is_shared, now);
        }
        self.closed_slots.retain(|_, (slots, _)| slots.strong_count() > 0);
        for provider in snapshot.providers.iter().filter(|provider| provider.concurrency.is_none()) {
            // Whoever waits for a place waits for nothing any more.
            if let Some(slots) = self.closed_slots.get(&provider.name).and_then(|(slots, _)| slots.upgrade()) {
                slots.comes_under(UNBOUNDED, false, now);
            }
        }
    }

    /// What operators hold open: little, and mostly nothing.
    fn held(&self) -> Held {
        let now = Clock.now();
        let mut held = Held::new();
        for ((route, name, label), known) in self.upstreams.iter().filter(|(_, known)| known.standing.is_held(now)) {
            let alike = held.entry((route.clone(), label.clone())).or_default();
            alike.push((name.clone(), known.standing.clone()));
        }
        held
    }

    fn bind_upstream(&mut self, route: &Route, upstream: &Upstream, held: &Held, heads: &mut Heads) -> UpstreamState {
        let (now, is) = (Clock.now(), identity(route, upstream));
        let new = || Known::new(route, upstream, &self.alerts);
        let is_new = !self.upstreams.contains_key(&is);
        let known = self.upstreams.entry(is).or_insert_with(new);
        if !known.is_about(&upstream.provider) {
            let old = std::mem::replace(known, new());
            known.standing.takes_place_of(&old.standing, now);
        }
        // Operators hold what has this label on this route, whatever else it is called.
        let alike = if is_new { held.get(&(route.name.clone(), upstream.label.clone())) } else { None };
        for (name, old) in alike.into_iter().flatten() {
            if route.upstreams.iter().any(|one| one.name == *name && one.label == upstream.label) {
                known.standing.takes_hold_of(old, now, false);
            } else {
                known.standing.takes_place_of(old, now);
            }
        }
        let Known { standing, learned, .. } = known;
        standing.comes_under(route.breaker);
        let made = || crate::running::heads(&upstream.provider).into();
        let is_measured = matches!(route.strategy, Strategy::LeastBusy | Strategy::Fastest);
        let space = (route.name.clone(), space(upstream).to_owned());
        let slots = self.slots_by_provider.get(&upstream.provider.name).cloned();
        UpstreamState {
            gate: Arc::new(Gate::new(standing.clone(), is_measured)),
            learned: learned.clone(),
            dimension: self.dimensions.entry(space).or_default().clone(),
            keys: self.keyrings.entry(upstream.provider.name.clone()).or_default().clone(),
            turn: AtomicUsize::new(0),
            moves: slots.as_ref().map_or(0, |slots| slots.moves()),
            slots,
            shown: headers::named(&upstream.label),
            heads: heads.entry(upstream.provider.name.clone()).or_insert_with(made).clone(),
        }
    }

    fn forget_all_but(&mut self, snapshot: &Snapshot) {
        let upstreams = || snapshot.routes.iter().flat_map(|route| route.upstreams.iter().map(move |one| (route, one)));
        let known: HashSet<Identity> = upstreams().map(|(route, upstream)| identity(route, upstream)).collect();
        self.upstreams.retain(|identity, forgotten| {
            let is_kept = known.contains(identity);
            if !is_kept {
                forgotten.standing.forget(Clock.now());
            }
            is_kept
        });
        let spaces: HashSet<(&str, &str)> =
            upstreams().map(|(route, upstream)| (&*route.name, space(upstream))).collect();
        self.dimensions.retain(|(route, of), _| spaces.contains(&(&**route, of.as_str())));
        let routes: HashSet<&str> = snapshot.routes.iter().map(|route| &*route.name).collect();
        self.budgets.retain(|route, _| routes.contains(&**route));
        let providers: HashSet<&str> = snapshot.providers.iter().map(|provider| &*provider.name).collect();
        self.keyrings.retain(|provider, _| providers.contains(&**provider));
        self.providers.retain(|provider, _| providers.contains(&**provider));
    }
}

/// What operators hold, by route and label: under which name, and how it stands.
type Held = HashMap<(Arc<str>, Arc<str>), Vec<(Arc<str>, Arc<Standing>)>>;

/// Of every provider what its calls' heads hold. All its upstreams share them.
type Heads = HashMap<Arc<str>, Arc<[HeaderMap]>>;

/// What is known of an upstream, and of where it was learned.
#[derive(Debug)]
struct Known {
    provider: Arc<Provider>,
    standing: Arc<Standing>,
    learned: Arc<Learned>,
}

impl Known {
    fn new(route: &Route, upstream: &Upstream, alerts: &Arc<Alerts>) -> Self {
        let (route_name, label) = (route.name.clone(), upstream.label.clone());
        let standing = Standing::new(route_name, label, route.breaker, alerts.clone());
        Self { provider: upstream.provider.clone(), standing: Arc::new(standing), learned: Arc::default() }
    }

    /// Whether a provider after a reload is the one that this was learned of: where it is, how it is
    /// reached, what it is spoken to with. An operator who mends one of these need not wait for a breaker.
    fn is_about(&self, provider: &Provider) -> bool {
        let keys = |provider: &Provider| provider.keys.iter().map(|key| key.value.clone()).collect::<Vec<_>>();
        is_reached_alike(&self.provider, provider) && keys(&self.provider) == keys(provider)
    }
}

/// Whether both are the same place, reached and spoken to in the same way, whatever keys are shown there.
fn is_reached_alike(one: &Provider, other: &Provider) -> bool {
    let version = |provider: &Provider| (provider.protocol, provider.api_version.clone());
    (&one.origin, &one.base_path, &one.proxy, &one.ca, version(one), &one.headers)
        == (&other.origin, &other.base_path, &other.proxy, &other.ca, version(other), &other.headers)
}

/// As many places as anybody asks for.
const UNBOUNDED: Terms = Terms { max: u32::MAX, adaptive: false, headroom: 0.0 };

/// What makes an upstream of a route the same one after a reload: route, name and label.
type Identity = (Arc<str>, Arc<str>, Arc<str>);

fn identity(route: &Route, upstream: &Upstream) -> Identity {
    (route.name.clone(), upstream.name.clone(), upstream.label.clone())
}

/// An upstream's vector space: as configured, else its model's name stands for it.
fn space(upstream: &Upstream) -> &str {
    upstream.space.as_deref().or(upstream.model.as_deref()).unwrap_or_default()
}
