//! One worker's connections to the providers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Clock, Fault, Kind};
use config::{Origin, Provider, Proxy};
use tokio::sync::{Notify, Semaphore};

use super::link::Place;
use super::{Connect, Link, Resolver};

/// How a call wants its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkout {
    /// An idle one if there is one.
    Any,
    /// A new one: the call must not meet a connection that the other side is just closing.
    Fresh,
}

/// Over what connections lead to a provider. A reload that changes any of it, above all whom TLS
/// trusts, ends those that were opened before.
struct Way {
    origin: Origin,
    proxy: Option<Proxy>,
    ca: Option<Arc<[u8]>>,
}

impl Way {
    fn to(provider: &Provider) -> Self {
        Self { origin: provider.origin.clone(), proxy: provider.proxy.clone(), ca: provider.ca.clone() }
    }

    fn leads_to(&self, provider: &Provider) -> bool {
        let trusts_the_same = match (&self.ca, &provider.ca) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs) || ours == theirs,
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        trusts_the_same && self.origin == provider.origin && self.proxy == provider.proxy
    }
}

/// Idle connections to one provider, the most recently used last.
struct Shelf {
    way: Way,
    links: Vec<Link>,
    /// This worker's calls that wait for a place.
    waiting: usize,
    /// Told when a connection comes back while they wait.
    returned: Arc<Notify>,
}

impl Shelf {
    fn of(provider: &Provider) -> Self {
        Self { way: Way::to(provider), links: Vec::new(), waiting: 0, returned: Arc::default() }
    }
}

/// Idle connections that one worker keeps for one provider at most; further ones are closed.
const SHELF: usize = 256;

/// For so long after a call a connection is used without asking the kernel about it.
const TRUSTED: Duration = Duration::from_millis(100);

/// How many connections a provider may have, the free ones among them, and how many calls wait
/// for one.
#[derive(Clone, Debug)]
struct Bound {
    most: usize,
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Bound {
    fn of(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), waiting: Arc::default() }
    }
}

/// The count of open connections by provider, over all workers; bounded by the configured providers.
#[derive(Debug, Default)]
pub struct Places(Mutex<HashMap<Arc<str>, Bound>>);

impl Places {
    fn of(&self, provider: &Provider) -> Bound {
        let most = provider.pool.max_connections;
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = places.entry(provider.name.clone()).or_insert_with(|| Bound::of(most));
        if bound.most != most {
            // A reload changed the bound: old connections end under the old count.
            *bound = Bound::of(most);
        }
        bound.clone()
    }
}

/// What a worker reaches upstreams through. It is used by one thread; the lock is never contended
/// and never held across an await.
pub struct Transport {
    clock: Clock,
    connector: Arc<dyn Connect>,
    resolver: Arc<Resolver>,
    places: Arc<Places>,
    shelves: Mutex<HashMap<Arc<str>, Shelf>>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transport")
    }
}

impl Transport {
    /// A transport of its own over a shared resolver and shared counts.
    #[must_use]
    pub fn new(clock: Clock, connector: Arc<dyn Connect>, resolver: Arc<Resolver>, places: Arc<Places>) -> Self {
        Self { clock, connector, resolver, places, shelves: Mutex::new(HashMap::new()) }
    }

    /// A connection to the provider: an idle one, or a new one within `pool.connect_timeout`.
    ///
    /// # Errors
    /// A connect fault.
    pub async fn checkout(&self, provider: &Provider, how: Checkout) -> Result<Link, Fault> {
        if how == Checkout::Any
            && let Some(link) = self.take_idle(provider)
        {
            return Ok(link);
        }
        // Boxed: it is rare, and would make every call's future larger.
        let opened = Box::pin(tokio::time::timeout(provider.pool.connect_timeout, async {
            let place = match self.room(provider, how).await? {
                Room::Idle(link) => return Ok(link),
                Room::New(place) => place,
            };
            let dialed = self.connector.dial(provider).await?;
            Link::start(dialed, place, self.clock.now())
                .await
                .map_err(|error| Fault::upstream(Kind::Connect, error.to_string()))
        }));
        opened.await.unwrap_or_else(|_elapsed| {
            Err(Fault::upstream(Kind::Connect, format!("no connection to provider `{}` in time", provider.name)))
        })
    }

    /// Waits for a place for a new connection, or for one that comes back.
    async fn room(&self, provider: &Provider, how: Checkout) -> Result<Room, Fault> {
        let bound = self.places.of(provider);
        if how == Checkout::Fresh {
            // The new one will take the place of an idle one, so that such calls do not pile them up.
            drop(self.take_idle(provider));
        }
        loop {
            if let Ok(permit) = bound.free.clone().try_acquire_owned() {
                return Ok(Room::New(Place::new(permit, bound.waiting)));
            }
            // Full: an idle connection of ours serves the call, or gives up its place for it.
            match self.take_idle(provider) {
                Some(link) if how == Checkout::Any => return Ok(Room::Idle(link)),
                Some(_) => continue,
                None => {}
            }
            let waiting = Waiting::begin(self, provider, &bound);
            tokio::select! {
                biased;
                permit = bound.free.clone().acquire_owned() => {
                    let permit = permit.map_err(|_closed| Fault::upstream(Kind::Connect, "the gateway is stopping"))?;
                    return Ok(Room::New(Place::new(permit, bound.waiting.clone())));
                }
                () = waiting.returned.notified() => {}
            }
        }
    }

    fn take_idle(&self, provider: &Provider) -> Option<Link> {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.get_mut(&provider.name)?;
        if !shelf.way.leads_to(provider) {
            shelf.links.clear();
            shelf.way = Way::to(provider);
        }
        while let Some(link) = shelf.links.pop() {
            let young = now.duration_since(link.idle_since) < provider.pool.idle_timeout;
            if !young {
                // The most recently used is too old, so are those below it.
                shelf.links.clear();
                return None;
            }
            // A connection that carried a call a moment ago is taken on trust: should it have been
            // closed since, the call is tried again on a new one, and nobody is charged for it.
            if now.duration_since(link.idle_since) < TRUSTED || (self.still_leads(provider, &link) && link.is_quiet()) {
                return Some(link);
            }
        }
        None
    }

    fn still_leads(&self, provider: &Provider, link: &Link) -> bool {
        link.peer.is_none_or(|address| self.resolver.still_leads(&provider.origin.host, address, link.born))
    }

    /// Puts a connection back whose answer has been read to its end.
    pub fn put_back(&self, provider: &Provider, link: Link) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.entry(provider.name.clone()).or_insert_with(|| Shelf::of(provider));
        if shelf.waiting == 0 && link.place.is_wanted() {
            // A call of another worker waits for its place.
            return;
        }
        if shelf.way.leads_to(provider) && shelf.links.len() < SHELF {
            shelf.links.push(link);
            if shelf.waiting > 0 {
                shelf.returned.notify_one();
            }
        }
    }

    /// Closes what has idled too long or was closed by the other side. A worker calls it every
    /// second or so; without it a closed connection would hold its descriptor until the next call.
    pub fn sweep(&self, providers: &[Arc<Provider>]) {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.retain(|name, shelf| {
            let Some(provider) = providers.iter().find(|provider| provider.name == *name) else { return false };
            let is_wanted = |link: &Link| shelf.waiting == 0 && link.place.is_wanted();
            shelf.links.retain(|link| {
                let is_young = now.duration_since(link.idle_since) < provider.pool.idle_timeout;
                is_young && !is_wanted(link) && link.is_quiet()
            });
            if shelf.links.is_empty() {
                // Give the memory of a burst back.
                shelf.links.shrink_to(8);
            }
            true
        });
    }
}

/// What a call without a connection gets.
enum Room {
    /// One that has come back.
    Idle(Link),
    /// The place for a new one.
    New(Place),
}

/// A call that waits for a place; counted, so that connections that come back are passed on to it.
struct Waiting<'a> {
    transport: &'a Transport,
    provider: Arc<str>,
    all: Arc<AtomicUsize>,
    returned: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn begin(transport: &'a Transport, provider: &Provider, bound: &Bound) -> Self {
        bound.waiting.fetch_add(1, Ordering::Relaxed);
        let mut shelves = transport.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.entry(provider.name.clone()).or_insert_with(|| Shelf::of(provider));
        shelf.waiting += 1;
        let returned = shelf.returned.clone();
        drop(shelves);
        Self { transport, provider: provider.name.clone(), all: bound.waiting.clone(), returned }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        let mut shelves = self.transport.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shelf) = shelves.get_mut(&self.provider) {
            shelf.waiting = shelf.waiting.saturating_sub(1);
        }
    }
}
