//! The accounts of the limits: one for each scope that is limited, shared by all workers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::{Client, Route, Snapshot};
use rules::limits::{Account, Decision, Kind, Limit, Want, decide};
use rules::shares::Class;
use smallvec::SmallVec;

/// What is limited.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The whole gateway.
    Gateway,
    /// A route, for all its callers together.
    Route(Arc<str>),
    /// A client, whichever of its keys it uses.
    Client(Arc<str>),
    /// A client on a route.
    ClientOn(Arc<str>, Arc<str>),
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway => f.write_str("the whole gateway"),
            Self::Route(route) => write!(f, "route `{route}`"),
            Self::Client(client) => write!(f, "client `{client}`"),
            Self::ClientOn(client, route) => write!(f, "client `{client}` on route `{route}`"),
        }
    }
}

/// The account of one scope. Survives reloads.
#[derive(Debug)]
pub struct Meter {
    /// What is limited.
    pub scope: Scope,
    account: Mutex<Account>,
    counts_tokens: AtomicBool,
}

/// The meters that one call concerns: the gateway's, the route's, the client's, the client's on the route.
pub type Concerned<'a> = SmallVec<[&'a Arc<Meter>; 4]>;

impl Meter {
    fn new(scope: Scope, limit: Limit, is_shared: bool, now: Instant) -> Self {
        let account = Mutex::new(Account::new(limit, is_shared, now));
        Self { scope, account, counts_tokens: AtomicBool::new(limit.tokens_per_minute.is_some()) }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn comes_under(&self, limit: Limit, is_shared: bool, now: Instant) {
        self.counts_tokens.store(limit.tokens_per_minute.is_some(), Relaxed);
        self.account().comes_under(limit, is_shared, now);
    }

    /// Whether tokens are limited here.
    #[must_use]
    pub fn counts_tokens(&self) -> bool {
        self.counts_tokens.load(Relaxed)
    }

    /// Whether any call would be refused now, and how long. Takes nothing.
    #[must_use]
    pub fn is_empty(&self, now: Instant) -> Option<(Kind, Duration)> {
        self.account().is_empty(now)
    }

    /// Calls side by side.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.account().running()
    }
}

/// Charges all of them, or none. They are locked in one order everywhere, and for no longer than it
/// takes to add up.
#[must_use]
pub fn take<'a>(meters: impl Iterator<Item = &'a Meter>, want: &Want, now: Instant) -> Decision {
    let mut accounts: SmallVec<[MutexGuard<'_, Account>; 4]> = meters.map(Meter::account).collect();
    decide(&mut accounts, want, now)
}

/// A call has ended that put `aside` tokens aside and used `used`.
pub fn give_back<'a>(meters: impl Iterator<Item = &'a Meter>, class: Class, (aside, used): (u64, u64), now: Instant) {
    for meter in meters {
        let mut account = meter.account();
        account.ended(class);
        account.settle(aside, used, now);
    }
}

/// The meters of one configuration, at hand for its calls.
#[derive(Debug, Default)]
pub struct Meters {
    gateway: Option<Arc<Meter>>,
    routes: HashMap<Arc<str>, Arc<Meter>>,
    clients: HashMap<Arc<str>, OfClient>,
}

/// The meters of one client.
#[derive(Debug, Default)]
struct OfClient {
    own: Option<Arc<Meter>>,
    /// By route.
    on: HashMap<Arc<str>, Arc<Meter>>,
}

impl Meters {
    /// Those that a call of the client on the route concerns.
    #[must_use]
    pub fn of(&self, client: &Client, route: &Route) -> Concerned<'_> {
        let mut concerned = Concerned::new();
        concerned.extend(self.gateway.as_ref());
        if !self.routes.is_empty() {
            concerned.extend(self.routes.get(&route.name));
        }
        if !self.clients.is_empty()
            && let Some(known) = self.clients.get(&client.name)
        {
            concerned.extend(known.own.as_ref());
            concerned.extend(known.on.get(&route.name));
        }
        concerned
    }

    /// The client's own.
    #[must_use]
    pub fn of_client(&self, client: &Client) -> Option<&Meter> {
        if self.clients.is_empty() { None } else { self.clients.get(&client.name)?.own.as_deref() }
    }
}

/// All meters, by scope; bounded by the configuration.
#[derive(Debug, Default)]
pub(crate) struct KeptMeters(HashMap<Scope, Arc<Meter>>);

impl KeptMeters {
    /// The meters of a configuration: those of scopes that stay are kept, others are dropped.
    pub fn bind(&mut self, snapshot: &Snapshot, now: Instant) -> Meters {
        let mut meters = Meters::default();
        let mut seen = HashSet::new();
        let mut meter = |scope: Scope, limit: Limit, is_shared: bool| {
            if limit.is_none() {
                return None;
            }
            seen.insert(scope.clone());
            let meter = self.0.entry(scope.clone());
            let meter = meter.or_insert_with(|| Arc::new(Meter::new(scope, limit, is_shared, now)));
            meter.comes_under(limit, is_shared, now);
            Some(meter.clone())
        };
        let comes = |route: Option<&Route>, class: Class| {
            snapshot
                .clients
                .iter()
                .any(|client| client.class == class && route.is_none_or(|route| client.may_use(route)))
        };
        let is_shared = |route: Option<&Route>| Class::ALL.into_iter().all(|class| comes(route, class));
        meters.gateway = meter(Scope::Gateway, snapshot.general.limit, is_shared(None));
        for route in snapshot.routes.iter().filter(|route| !route.limit.is_none()) {
            let known = meter(Scope::Route(route.name.clone()), route.limit, is_shared(Some(route)));
            meters.routes.extend(known.map(|meter| (route.name.clone(), meter)));
        }
        for client in &snapshot.clients {
            let mut of_client =
                OfClient { own: meter(Scope::Client(client.name.clone()), client.limit, false), on: HashMap::new() };
            for route in snapshot.routes.iter().filter(|_| !client.limits_on.is_empty()) {
                let scope = Scope::ClientOn(client.name.clone(), route.name.clone());
                of_client.on.extend(meter(scope, client.limit_on(route), false).map(|on| (route.name.clone(), on)));
            }
            if of_client.own.is_some() || !of_client.on.is_empty() {
                meters.clients.insert(client.name.clone(), of_client);
            }
        }
        self.0.retain(|scope, _| seen.contains(scope));
        meters
    }
}
