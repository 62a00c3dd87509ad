//! The accounts of the limits: one for each scope that is limited, shared by all workers.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Instant;

use config::{Callers, Client, Route, Snapshot};
use foldhash::{HashMap, HashMapExt as _};
use rules::limits::{Limit, Terms};
use smallvec::SmallVec;
use state::{Counters, InProcessCounters, Meter, Scope};

/// The meters that one call concerns: the gateway's, the route's, the client's, the client's on the route.
#[derive(Debug, Default)]
pub struct Concerned<'a> {
    meters: SmallVec<[&'a Arc<Meter>; 4]>,
    /// Whether any of them counts tokens.
    pub counts_tokens: bool,
}

impl<'a> Concerned<'a> {
    fn add(&mut self, bound: &'a Bound) {
        self.meters.push(&bound.meter);
        self.counts_tokens |= bound.counts_tokens;
    }
}

impl<'a> Deref for Concerned<'a> {
    type Target = [&'a Arc<Meter>];

    fn deref(&self) -> &Self::Target {
        &self.meters
    }
}

/// The meters of one configuration, at hand for the calls of its own clients on its own routes.
#[derive(Debug)]
pub struct Meters {
    /// Who decides upon them.
    pub counters: Arc<dyn Counters>,
    gateway: Option<Bound>,
    routes: HashMap<At, Bound>,
    clients: HashMap<At, OfClient>,
}

/// A meter, and what can be told without a look at it: where clients are many it is far away from every core.
#[derive(Clone, Debug)]
struct Bound {
    meter: Arc<Meter>,
    counts_tokens: bool,
}

/// An object of the configuration by its place in memory, where it stays as long as the configuration: to
/// look it up by name would read the name twice, from memory that is cold where there are many.
type At = usize;

fn at<T>(object: &T) -> At {
    std::ptr::from_ref(object).addr()
}

/// Whose call it is, on which route: both of the configuration whose meters are asked for. It holds neither, for all
/// workers count who holds a route in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    client: At,
    route: At,
}

impl Whose {
    /// A call of the client on the route.
    #[must_use]
    pub fn of(client: &Client, route: &Route) -> Self {
        Self { client: at(client), route: at(route) }
    }
}

/// The meters of one client.
#[derive(Debug, Default)]
struct OfClient {
    own: Option<Bound>,
    /// By route, in the order of their places; mostly none or a few.
    on: Box<[(At, Bound)]>,
}

impl Meters {
    /// Those that a call concerns.
    #[must_use]
    pub fn of(&self, whose: Whose) -> Concerned<'_> {
        let Whose { client, route } = whose;
        let mut concerned = Concerned::default();
        if let Some(gateway) = &self.gateway {
            concerned.add(gateway);
        }
        if !self.routes.is_empty()
            && let Some(bound) = self.routes.get(&route)
        {
            concerned.add(bound);
        }
        if !self.clients.is_empty()
            && let Some(known) = self.clients.get(&client)
        {
            if let Some(own) = &known.own {
                concerned.add(own);
            }
            let found = known.on.binary_search_by_key(&route, |(route, _)| *route).ok();
            if let Some((_, bound)) = found.and_then(|found| known.on.get(found)) {
                concerned.add(bound);
            }
        }
        concerned
    }

    /// The client's own.
    #[must_use]
    pub fn of_client(&self, client: &Client) -> Option<&Meter> {
        if self.clients.is_empty() { None } else { Some(&self.clients.get(&at(client))?.own.as_ref()?.meter) }
    }
}

/// Terms that accounts share: of each kind one.
#[derive(Debug, Default)]
struct Kinds(HashMap<Kind, Arc<Terms>>);

/// What tells terms apart: a rate with its burst, calls side by side, tokens a minute, whether both priorities come.
type Kind = (Option<(u64, u32)>, Option<u32>, Option<u64>, bool);

impl Kinds {
    fn of(&mut self, limit: Limit, is_shared: bool) -> Arc<Terms> {
        let rate = limit.rate.map(|rate| (rate.qps.to_bits(), rate.burst));
        let kind = (rate, limit.concurrency, limit.tokens_per_minute, is_shared);
        self.0.entry(kind).or_insert_with(|| Terms::new(limit, is_shared)).clone()
    }
}

/// All meters, by scope; bounded by the configuration.
#[derive(Debug)]
pub(crate) struct KeptMeters {
    counters: Arc<dyn Counters>,
    by_scope: HashMap<Scope, Arc<Meter>>,
    /// Those of scopes that are not limited now, as long as calls are under way that they were charged for.
    unlimited: HashMap<Scope, Weak<Meter>>,
}

impl Default for KeptMeters {
    fn default() -> Self {
        Self { counters: Arc::new(InProcessCounters), by_scope: HashMap::new(), unlimited: HashMap::new() }
    }
}

impl KeptMeters {
    /// The meters of a configuration: those of scopes that stay are kept, of others as long as calls hold places there.
    pub fn bind(&mut self, snapshot: &Snapshot, callers: &Callers, now: Instant) -> Meters {
        let mut meters =
            Meters { counters: self.counters.clone(), gateway: None, routes: HashMap::new(), clients: HashMap::new() };
        let (mut seen, mut kinds) = (HashSet::new(), Kinds::default());
        let mut bind = |scope: Scope, limit: Limit, is_shared: bool| {
            if limit.is_none() {
                return None;
            }
            seen.insert(scope.clone());
            let terms = kinds.of(limit, is_shared);
            let before = self.unlimited.remove(&scope).and_then(|meter| meter.upgrade());
            let meter = self.by_scope.entry(scope.clone());
            let new = || Arc::new(Meter::new(scope, terms.clone(), now));
            let meter = meter.or_insert_with(|| before.unwrap_or_else(new));
            meter.comes_under(terms.clone(), now);
            Some(Bound { meter: meter.clone(), counts_tokens: limit.tokens_per_minute.is_some() })
        };
        let is_shared = callers.anywhere().are_of_all_priorities();
        meters.gateway = bind(Scope::Gateway, snapshot.general.limit, is_shared);
        for route in snapshot.routes.iter().filter(|route| !route.limit.is_none()) {
            let is_shared = callers.on(route).are_of_all_priorities();
            let bound = bind(Scope::Route(route.name.clone()), route.limit, is_shared);
            meters.routes.extend(bound.map(|bound| (at(&**route), bound)));
        }
        let routes: HashMap<&str, &Route> = snapshot.routes.iter().map(|route| (&*route.name, &**route)).collect();
        for client in &snapshot.clients {
            let own = bind(Scope::Client(client.name.clone()), client.limit, false);
            let mut on = Vec::new();
            for (route, limit) in &*client.limits_on {
                let Some(route) = routes.get(&**route) else { continue };
                let scope = Scope::ClientOn(client.name.clone(), route.name.clone());
                on.extend(bind(scope, *limit, false).map(|bound| (at(*route), bound)));
            }
            on.sort_by_key(|(route, _)| *route);
            if own.is_some() || !on.is_empty() {
                meters.clients.insert(at(&**client), OfClient { own, on: on.into() });
            }
        }
        self.unlimited.retain(|_, meter| meter.strong_count() > 0);
        let unlimited = Terms::new(Limit::default(), false);
        for (scope, meter) in self.by_scope.extract_if(|scope, _| !seen.contains(scope)) {
            // Whoever waits for it waits for nothing any more.
            meter.comes_under(unlimited.clone(), now);
            self.unlimited.insert(scope, Arc::downgrade(&meter));
        }
        meters
    }
}
