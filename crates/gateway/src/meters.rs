//! The accounts of the limits: one for each scope that is limited, shared by all workers.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Instant;

use config::{Callers, Client, Route, Snapshot};
use foldhash::{HashMap, HashMapExt as _};
use rules::limits::Limit;
use smallvec::SmallVec;
use state::{Counters, InProcessCounters, Meter, Scope};

/// The meters that one call concerns: the gateway's, the route's, the client's, the client's on the route.
pub type Concerned<'a> = SmallVec<[&'a Arc<Meter>; 4]>;

/// The meters of one configuration, at hand for the calls of its own clients on its own routes.
#[derive(Debug)]
pub struct Meters {
    /// Who decides upon them.
    pub counters: Arc<dyn Counters>,
    gateway: Option<Arc<Meter>>,
    routes: HashMap<At, Arc<Meter>>,
    clients: HashMap<At, OfClient>,
}

/// An object of the configuration by its place in memory, where it stays as long as the configuration: to
/// look it up by name would read the name twice, from memory that is cold where there are many.
type At = usize;

fn at<T>(object: &T) -> At {
    std::ptr::from_ref(object).addr()
}

/// The meters of one client.
#[derive(Debug, Default)]
struct OfClient {
    own: Option<Arc<Meter>>,
    /// By route, in the order of their places; mostly none or a few.
    on: SmallVec<[(At, Arc<Meter>); 1]>,
}

impl Meters {
    /// Those that a call of the client on the route concerns.
    #[must_use]
    pub fn of(&self, client: &Client, route: &Route) -> Concerned<'_> {
        let mut concerned = Concerned::new();
        if let Some(gateway) = &self.gateway {
            concerned.push(gateway);
        }
        if !self.routes.is_empty()
            && let Some(meter) = self.routes.get(&at(route))
        {
            concerned.push(meter);
        }
        if !self.clients.is_empty()
            && let Some(known) = self.clients.get(&at(client))
        {
            if let Some(own) = &known.own {
                concerned.push(own);
            }
            let found = known.on.binary_search_by_key(&at(route), |(route, _)| *route).ok();
            if let Some((_, meter)) = found.and_then(|found| known.on.get(found)) {
                concerned.push(meter);
            }
        }
        concerned
    }

    /// The client's own.
    #[must_use]
    pub fn of_client(&self, client: &Client) -> Option<&Meter> {
        if self.clients.is_empty() { None } else { self.clients.get(&at(client))?.own.as_deref() }
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
        let mut seen = HashSet::new();
        let mut meter = |scope: Scope, limit: Limit, is_shared: bool| {
            if limit.is_none() {
                return None;
            }
            seen.insert(scope.clone());
            let before = self.unlimited.remove(&scope).and_then(|meter| meter.upgrade());
            let meter = self.by_scope.entry(scope.clone());
            let new = || Arc::new(Meter::new(scope, limit, is_shared, now));
            let meter = meter.or_insert_with(|| before.unwrap_or_else(new));
            meter.comes_under(limit, is_shared, now);
            Some(meter.clone())
        };
        let is_shared = callers.anywhere().are_of_all_classes();
        meters.gateway = meter(Scope::Gateway, snapshot.general.limit, is_shared);
        for route in snapshot.routes.iter().filter(|route| !route.limit.is_none()) {
            let is_shared = callers.on(route).are_of_all_classes();
            let known = meter(Scope::Route(route.name.clone()), route.limit, is_shared);
            meters.routes.extend(known.map(|meter| (at(&**route), meter)));
        }
        let routes: HashMap<&str, &Route> = snapshot.routes.iter().map(|route| (&*route.name, &**route)).collect();
        for client in &snapshot.clients {
            let mut of_client =
                OfClient { own: meter(Scope::Client(client.name.clone()), client.limit, false), on: SmallVec::new() };
            for (route, limit) in &*client.limits_on {
                let Some(route) = routes.get(&**route) else { continue };
                let scope = Scope::ClientOn(client.name.clone(), route.name.clone());
                of_client.on.extend(meter(scope, *limit, false).map(|on| (at(*route), on)));
            }
            of_client.on.sort_by_key(|(route, _)| *route);
            if of_client.own.is_some() || !of_client.on.is_empty() {
                meters.clients.insert(at(&**client), of_client);
            }
        }
        self.unlimited.retain(|_, meter| meter.strong_count() > 0);
        for (scope, meter) in self.by_scope.extract_if(|scope, _| !seen.contains(scope)) {
            // Whoever waits for it waits for nothing any more.
            meter.comes_under(Limit::default(), false, now);
            self.unlimited.insert(scope, Arc::downgrade(&meter));
        }
        meters
    }
}
