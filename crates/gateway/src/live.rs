//! What outlives requests and reloads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base::{Clock, Dice, Endpoint, Record};
use config::{ApiKey, Provider, Route, Snapshot};
use http::{HeaderMap, HeaderValue, header};
use prometheus::IntGauge;
use tokio::sync::{Notify, watch};

use crate::log::AccessLog;
use crate::metrics::Metrics;
use crate::sheet::{Put, Sheet};

/// The process's state: the configuration in force, and what survives its change.
#[derive(Debug)]
pub struct Live {
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// Counters.
    pub metrics: Metrics,
    /// One line per request.
    pub log: AccessLog,
    running: ArcSwap<Running>,
    kept: Mutex<Kept>,
    /// One for each worker.
    sheets: Mutex<Vec<Arc<Sheet>>>,
    /// Held by whoever gathers; memory that goes around between the sheets.
    gathering: Mutex<Vec<Record>>,
    something_to_gather: Notify,
    unwritten: Arc<AtomicUsize>,
    draining: AtomicBool,
    cut: watch::Sender<bool>,
}

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
    pub inflight: IntGauge,
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
fn heads(provider: &Provider) -> Vec<HeaderMap> {
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

/// Records lie on their sheets so long at most.
const GATHER: Duration = Duration::from_millis(20);

/// For a body on an endpoint that no route serves: it is read only to answer it in good order.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

impl Running {
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

impl Live {
    /// A process that starts with this configuration.
    ///
    /// # Errors
    /// Only when the table of metrics is unsound, which a test rules out.
    pub fn new(snapshot: Snapshot, dice: Dice, log: AccessLog) -> Result<Arc<Self>, prometheus::Error> {
        let metrics = Metrics::new()?;
        let mut kept = Kept::default();
        let running = kept.bind(snapshot, &metrics);
        Ok(Arc::new(Self {
            clock: Clock,
            dice,
            metrics,
            log,
            running: ArcSwap::from_pointee(running),
            kept: Mutex::new(kept),
            sheets: Mutex::default(),
            gathering: Mutex::default(),
            something_to_gather: Notify::new(),
            unwritten: Arc::default(),
            draining: AtomicBool::new(false),
            cut: watch::Sender::new(false),
        }))
    }

    /// Takes a new configuration into force. State of objects that stay is kept, of others dropped.
    pub fn put_in_force(&self, snapshot: Snapshot) {
        let running = self.kept.lock().unwrap_or_else(PoisonError::into_inner).bind(snapshot, &self.metrics);
        self.running.store(Arc::new(running));
    }

    /// The configuration in force now.
    #[must_use]
    pub fn running(&self) -> Arc<Running> {
        self.running.load_full()
    }

    /// New calls are refused from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether new calls are refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The grace is over: what still runs ends with an error event.
    pub fn cut_short(&self) {
        self.cut.send_replace(true);
    }

    /// Becomes true when [`Live::cut_short`] is called.
    #[must_use]
    pub fn cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    /// Requests whose answer has not ended.
    #[must_use]
    pub fn requests(&self) -> i64 {
        self.sheets.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|sheet| sheet.running()).sum()
    }

    /// Connections whose caller is slower than the answer that is being written to it.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.unwritten.load(Ordering::Relaxed)
    }

    pub(crate) fn count_of_unwritten(&self) -> Arc<AtomicUsize> {
        self.unwritten.clone()
    }

    /// A sheet for one worker's records.
    #[must_use]
    pub fn sheet(&self) -> Arc<Sheet> {
        let sheet = Arc::<Sheet>::default();
        self.sheets.lock().unwrap_or_else(PoisonError::into_inner).push(sheet.clone());
        sheet
    }

    /// A request has ended: its record goes onto its worker's sheet.
    pub(crate) fn put_down(&self, sheet: &Sheet, record: Record) {
        match sheet.put(record) {
            Put::First => self.something_to_gather.notify_one(),
            Put::Further => {}
            Put::Full => self.gather(),
        }
    }

    /// Counts and logs every request that has ended so far.
    pub fn gather(&self) {
        let mut gathered = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        let sheets = self.sheets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for sheet in sheets {
            sheet.swap(&mut gathered);
            for record in gathered.drain(..) {
                self.metrics.count(&record);
                self.log.append(&record);
            }
        }
        // A burst's memory is given back.
        gathered.shrink_to(1024);
    }

    /// Gathers for ever, soon after there is something to gather.
    pub async fn keep_gathering(&self) {
        loop {
            self.something_to_gather.notified().await;
            tokio::time::sleep(GATHER).await;
            self.gather();
        }
    }

    /// The metrics of every request that has ended, as Prometheus reads them.
    #[must_use]
    pub fn metrics_text(&self) -> Vec<u8> {
        self.gather();
        self.metrics.text(self.log.lost())
    }
}

/// State by the names of the objects it belongs to; bounded by the configuration.
#[derive(Debug, Default)]
struct Kept {
    keyrings: HashMap<Arc<str>, Arc<KeyRing>>,
    learned: HashMap<(Arc<str>, Arc<str>), Arc<Learned>>,
    /// By route and vector space.
    dimensions: HashMap<(Arc<str>, String), Arc<AtomicUsize>>,
}

impl Kept {
    fn bind(&mut self, snapshot: Snapshot, metrics: &Metrics) -> Running {
        for provider in &snapshot.providers {
            let ring = self.keyrings.entry(provider.name.clone()).or_default();
            *ring = ring.fitting(provider);
        }
        let mut routes = HashMap::with_capacity(snapshot.routes.len());
        for route in &snapshot.routes {
            let upstreams = route.upstreams.iter().map(|upstream| UpstreamState {
                learned: self.learned.entry((route.name.clone(), upstream.label.clone())).or_default().clone(),
                keys: self.keyrings.entry(upstream.provider.name.clone()).or_default().clone(),
                heads: heads(&upstream.provider),
            });
            let state = RouteState {
                inflight: metrics.inflight(&route.name),
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

/// A provider's keys: which one is next, and which ones rest.
#[derive(Debug, Default)]
pub struct KeyRing {
    turn: AtomicUsize,
    rests: Mutex<Vec<Rest>>,
    /// False as long as no key has ever rested: nothing need be looked at then.
    has_rested: AtomicBool,
    refused: AtomicU64,
}

/// One key's rest.
#[derive(Debug, Default)]
struct Rest {
    /// Whose.
    key: Option<HeaderValue>,
    until: Option<Instant>,
    /// How often in a row it was refused.
    refusals: AtomicU32,
}

/// How long a refused key rests at first, and how far that doubles.
const REFUSED_REST: Duration = Duration::from_secs(60);
const LONGEST_REST: Duration = Duration::from_secs(300);

impl KeyRing {
    /// The ring of a provider after a reload: itself where its keys are what they were, else a new
    /// one in which the keys that stay keep their rests. Calls in flight go on with their own.
    fn fitting(self: &Arc<Self>, provider: &Provider) -> Arc<Self> {
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = rests.len() == provider.keys.len()
            && rests.iter().zip(&provider.keys).all(|(rest, key)| rest.key.as_ref() == Some(&key.value));
        if is_same {
            return self.clone();
        }
        let rest_of = |key: &HeaderValue| {
            let known = rests.iter_mut().find(|rest| rest.key.as_ref() == Some(key)).map(std::mem::take);
            Rest { key: Some(key.clone()), ..known.unwrap_or_default() }
        };
        let fitted = provider.keys.iter().map(|key| &key.value).map(rest_of).collect();
        Arc::new(Self {
            rests: Mutex::new(fitted),
            has_rested: AtomicBool::new(true),
            refused: AtomicU64::new(1),
            ..Self::default()
        })
    }

    /// The keys to try, the next in turn first, those that rest left out. A provider without keys
    /// yields one `None`.
    #[must_use]
    pub fn order(&self, provider: &Provider, now: Instant) -> smallvec::SmallVec<[Option<usize>; 2]> {
        let count = provider.keys.len();
        if count == 0 {
            return smallvec::smallvec![None];
        }
        if count == 1 && !self.has_rested.load(Ordering::Relaxed) {
            return smallvec::smallvec![Some(0)];
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count)
            .map(|step| (first + step) % count)
            .filter(|at| rests.get(*at).and_then(|rest| rest.until).is_none_or(|until| until <= now))
            .map(Some)
            .collect()
    }

    /// The soonest end of a rest, where every key rests.
    #[must_use]
    pub fn soonest(&self, now: Instant) -> Option<Duration> {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.iter().filter_map(|rest| rest.until).min().map(|until| until.saturating_duration_since(now))
    }

    /// A key was refused: it rests a minute, doubling up to five.
    pub fn refused(&self, at: Option<usize>, now: Instant) {
        self.has_rested.store(true, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = at.and_then(|at| rests.get_mut(at)) {
            let doublings = rest.refusals.fetch_add(1, Ordering::Relaxed).min(8);
            rest.until = Some(now + (REFUSED_REST * 2u32.pow(doublings)).min(LONGEST_REST));
        }
    }

    /// A key was throttled: it rests as long as the upstream asked for.
    pub fn throttled(&self, at: Option<usize>, now: Instant, wait: Duration) {
        self.has_rested.store(true, Ordering::Relaxed);
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = at.and_then(|at| rests.get_mut(at)) {
            let until = now + wait.min(LONGEST_REST);
            rest.until = Some(rest.until.map_or(until, |known| known.max(until)));
        }
    }

    /// A key worked.
    pub fn worked(&self, at: Option<usize>) {
        if self.refused.load(Ordering::Relaxed) == 0 {
            return;
        }
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = at.and_then(|at| rests.get(at)) {
            rest.refusals.store(0, Ordering::Relaxed);
        }
    }
}
