//! One worker's connections to the providers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Clock, Fault, Kind};
use config::{Origin, Provider};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Connect, Link, Resolver};

/// How a call wants its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkout {
    /// An idle one if there is one.
    Any,
    /// A new one: the call must not meet a connection that the other side is just closing.
    Fresh,
}

/// Idle connections to one provider, the most recently used last.
struct Shelf {
    origin: Origin,
    links: Vec<Link>,
}

/// Idle connections that one worker keeps for one provider at most; further ones are closed.
const SHELF: usize = 256;

/// For so long after a call a connection is used without asking the kernel about it.
const TRUSTED: Duration = Duration::from_millis(100);

/// How many connections a provider may have, and the free ones among them.
type Bound = (usize, Arc<Semaphore>);

/// The count of open connections by provider, over all workers; bounded by the configured providers.
#[derive(Debug, Default)]
pub struct Places(Mutex<HashMap<Arc<str>, Bound>>);

impl Places {
    fn of(&self, provider: &Provider) -> Arc<Semaphore> {
        let most = provider.pool.max_connections;
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = places
            .entry(provider.name.clone())
            .or_insert_with(|| (most, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))));
        if entry.0 != most {
            // A reload changed the bound: old connections end under the old count.
            *entry = (most, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        }
        entry.1.clone()
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
        let opened = tokio::time::timeout(provider.pool.connect_timeout, async {
            let place = self.place(provider).await?;
            let dialed = self.connector.dial(provider).await?;
            Link::start(dialed, place, self.clock.now())
                .await
                .map_err(|error| Fault::upstream(Kind::Connect, error.to_string()))
        });
        opened.await.unwrap_or_else(|_elapsed| {
            Err(Fault::upstream(Kind::Connect, format!("no connection to provider `{}` in time", provider.name)))
        })
    }

    async fn place(&self, provider: &Provider) -> Result<OwnedSemaphorePermit, Fault> {
        let places = self.places.of(provider);
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Ok(place);
        }
        // Full: an idle connection of ours may hold a place that this call needs more.
        drop(self.take_idle(provider));
        places.acquire_owned().await.map_err(|_closed| Fault::upstream(Kind::Connect, "the gateway is stopping"))
    }

    fn take_idle(&self, provider: &Provider) -> Option<Link> {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.get_mut(&provider.name)?;
        if shelf.origin != provider.origin {
            shelf.links.clear();
            shelf.origin = provider.origin.clone();
        }
        while let Some(link) = shelf.links.pop() {
            let young = now.duration_since(link.idle_since) < provider.pool.idle_timeout;
            if !young {
                // The most recently used is too old, so are those below it.
                shelf.links.clear();
                return None;
            }
            let leads =
                link.peer.is_none_or(|address| self.resolver.still_leads(&provider.origin.host, address, link.born));
            // A connection that carried a call a moment ago is taken on trust: should it have been
            // closed since, the call is tried again on a new one, and nobody is charged for it.
            let trusted = now.duration_since(link.idle_since) < TRUSTED;
            if leads && (trusted || link.is_quiet()) {
                return Some(link);
            }
        }
        None
    }

    /// Puts a connection back whose answer has been read to its end.
    pub fn put_back(&self, provider: &Provider, link: Link) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves
            .entry(provider.name.clone())
            .or_insert_with(|| Shelf { origin: provider.origin.clone(), links: Vec::new() });
        if shelf.origin == provider.origin && shelf.links.len() < SHELF {
            shelf.links.push(link);
        }
    }

    /// Closes what has idled too long or was closed by the other side. A worker calls it every
    /// second or so; without it a closed connection would hold its descriptor until the next call.
    pub fn sweep(&self, providers: &[Arc<Provider>]) {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.retain(|name, shelf| {
            let Some(provider) = providers.iter().find(|provider| provider.name == *name) else { return false };
            shelf
                .links
                .retain(|link| now.duration_since(link.idle_since) < provider.pool.idle_timeout && link.is_quiet());
            if shelf.links.is_empty() {
                // Give the memory of a burst back.
                shelf.links.shrink_to(8);
            }
            true
        });
    }
}
