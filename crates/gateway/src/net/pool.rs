//! One worker's connections to the providers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Clock, Fault, Kind};
use config::{Origin, Provider, Proxy};
use foldhash::{HashMap, HashMapExt as _};
use tokio::sync::Notify;

use super::places::{Bound, Counted, Place, Places, stopping};
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
    #[expect(clippy::vec_box, reason = "a link is handed on many times in a call, and a box is handed on for less")]
    links: Vec<Box<Link>>,
    /// Whether a connection has come back since the last look at the provider's name.
    is_used: bool,
    /// This worker's calls that wait for a place.
    waiting: usize,
    /// Told when a connection comes back while they wait.
    returned: Arc<Notify>,
}

impl Shelf {
    fn of(provider: &Provider) -> Self {
        Self { way: Way::to(provider), links: Vec::new(), is_used: false, waiting: 0, returned: Arc::default() }
    }
}

/// Idle connections that one worker keeps for one provider at most; further ones are closed.
const SHELF: usize = 256;

/// For so long after a call a connection is used without asking the kernel about it.
const TRUSTED: Duration = Duration::from_millis(100);

/// Whether a call waits for a place among the gateway's own connections to a provider, of which
/// `pool.max_connections` is the bound: nothing that its upstream could be blamed for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// It waits now.
    pub is_waiting: bool,
    /// It is over, and a connection was had: from here on the call may reach the upstream.
    pub is_over: bool,
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

    /// A connection to the provider: an idle one, or a new one within `pool.connect_timeout`. `line`
    /// says, also where this is given up, whether it was still waiting for a place.
    ///
    /// # Errors
    /// A connect fault.
    pub async fn checkout(&self, provider: &Provider, how: Checkout, line: &mut Line) -> Result<Box<Link>, Fault> {
        if how == Checkout::Any
            && let Some(link) = self.take_idle(provider)
        {
            return Ok(link);
        }
        // Boxed: it is rare, and would make every call's future larger.
        let opened = Box::pin(tokio::time::timeout(provider.pool.connect_timeout, async {
            line.is_waiting = true;
            let room = match self.room(provider, how).await {
                Ok(Room::New(place)) => self.places.among_all(place, || self.spare_idle()).await.map(Room::New),
                other => other,
            };
            line.is_waiting = false;
            let place = match room? {
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
                return Ok(Room::New(bound.place(permit)));
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
                    let permit = permit.map_err(|_closed| stopping())?;
                    return Ok(Room::New(bound.place(permit)));
                }
                () = waiting.returned.notified() => {}
            }
        }
    }

    /// Closes this worker's connection that has been idle longest, of whichever provider.
    fn spare_idle(&self) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = shelves.values_mut().filter(|shelf| !shelf.links.is_empty());
        if let Some(shelf) = idle.min_by_key(|shelf| shelf.links[0].idle_since) {
            drop(shelf.links.remove(0));
        }
    }

    /// Whether at least half of the places for connections to the provider stay free when one more is taken.
    #[must_use]
    pub fn is_roomy(&self, provider: &Provider) -> bool {
        self.places.of(provider).is_roomy()
    }

    fn take_idle(&self, provider: &Provider) -> Option<Box<Link>> {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.get_mut(&provider.name)?;
        if !shelf.way.leads_to(provider) {
            shelf.links.clear();
            shelf.way = Way::to(provider);
        }
        while let Some(mut link) = shelf.links.pop() {
            let young = now.duration_since(link.idle_since) < provider.pool.idle_timeout;
            if !young {
                // The most recently used is too old, so are those below it.
                shelf.links.clear();
                return None;
            }
            // A connection that carried a call a moment ago is taken on trust: should it have been
            // closed since, the call is tried again on a new one, and nobody is charged for it.
            let is_trusted = now.duration_since(link.idle_since) < TRUSTED;
            if self.still_leads(provider, &mut link) && (is_trusted || link.is_quiet()) {
                return Some(link);
            }
        }
        None
    }

    /// Whether the provider's name still has the address. The resolver's lock is taken only where it
    /// has learned something since the last time.
    fn still_leads(&self, provider: &Provider, link: &mut Link) -> bool {
        let Some(address) = link.peer else { return true };
        let answers = self.resolver.answers();
        if link.confirmed == answers {
            return true;
        }
        link.confirmed = answers;
        self.resolver.still_leads(&provider.origin.host, address, link.born)
    }

    /// Asks for the names of the providers in use again where `resolver.refresh` is over. A worker
    /// calls it every second or so.
    pub async fn renew_names(&self, providers: &[Arc<Provider>]) {
        for provider in providers {
            let in_use = || {
                let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
                let shelf = shelves.get_mut(&provider.name)?;
                (std::mem::take(&mut shelf.is_used) || !shelf.links.is_empty()).then_some(())
            };
            // A proxy looks the provider's name up itself.
            if provider.proxy.is_none() && in_use().is_some() {
                self.resolver.renew(&provider.origin.host).await;
            }
        }
    }

    /// So many connections to each of these providers hold from now on.
    pub fn come_under(&self, providers: &[Arc<Provider>]) {
        self.places.come_under(providers);
    }

    /// Puts a connection back whose answer has been read to its end.
    pub fn put_back(&self, provider: &Provider, link: Box<Link>) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.entry(provider.name.clone()).or_insert_with(|| Shelf::of(provider));
        shelf.is_used = true;
        if shelf.waiting == 0 && (link.place.is_wanted() || self.places.are_scarce()) {
            // A call of another worker, or to another provider, waits for its place, or is about to.
            return;
        }
        if shelf.way.leads_to(provider) && shelf.links.len() < SHELF {
            shelf.links.push(link);
            if shelf.waiting > 0 {
                shelf.returned.notify_one();
            }
        }
    }

    /// Closes what has idled too long, was closed by the other side or leads where the provider no
    /// longer is. A worker calls it every
    /// second or so; without it a closed connection would hold its descriptor until the next call.
    pub fn sweep(&self, providers: &[Arc<Provider>]) {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.retain(|name, shelf| {
            let Some(provider) = providers.iter().find(|provider| provider.name == *name) else { return false };
            let is_wanted = |link: &Link| shelf.waiting == 0 && link.place.is_wanted();
            shelf.links.retain_mut(|link| {
                let is_young = now.duration_since(link.idle_since) < provider.pool.idle_timeout;
                is_young && !is_wanted(link) && self.still_leads(provider, link) && link.is_quiet()
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
    Idle(Box<Link>),
    /// The place for a new one.
    New(Place),
}

/// A call that waits for a place; counted, so that connections that come back are passed on to it.
struct Waiting<'a> {
    transport: &'a Transport,
    provider: Arc<str>,
    _counted: Counted,
    returned: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn begin(transport: &'a Transport, provider: &Provider, bound: &Bound) -> Self {
        let counted = Counted::begin(bound.waiting.clone());
        let mut shelves = transport.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.entry(provider.name.clone()).or_insert_with(|| Shelf::of(provider));
        shelf.waiting += 1;
        let returned = shelf.returned.clone();
        drop(shelves);
        Self { transport, provider: provider.name.clone(), _counted: counted, returned }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut shelves = self.transport.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shelf) = shelves.get_mut(&self.provider) {
            shelf.waiting = shelf.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::IpAddr;

    use config::Source;

    use super::super::{Asking, Dialed, Dialing, Names};
    use super::*;

    const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// Names that move: each answer holds until the next is asked for.
    struct Moving(Mutex<VecDeque<IpAddr>>);

    impl Names for Moving {
        fn ask<'a>(&'a self, _: &'a str) -> Asking<'a> {
            let next = self.0.lock().unwrap().pop_front().expect("the name is asked for too often");
            Box::pin(async move { Ok(vec![next]) })
        }
    }

    struct Net(Arc<Resolver>);

    impl Connect for Net {
        fn dial<'a>(&'a self, provider: &'a Provider) -> Dialing<'a> {
            Box::pin(async move {
                let addresses = self.0.lookup(&provider.origin.host).await.expect("it resolves");
                let (near, far) = tokio::io::duplex(64);
                std::mem::forget(far);
                Ok(Dialed { io: Box::new(near), probe: Box::new(|| true), peer: addresses.first().copied() })
            })
        }
    }

    fn provider() -> Arc<Provider> {
        providers().swap_remove(0)
    }

    fn providers() -> Vec<Arc<Provider>> {
        let text = r#"
providers: [{ name: a, protocol: openai, base_url: "http://upstream.example/v1" }, { name: b, base_url: "http://b.example/v1" }]
routes: [{ name: chat, match: { path: /v1/chat/completions }, upstreams: [{ provider: a, model: m }] }]
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;
        let source = Source::Text { name: "pool.yaml".to_owned(), text: text.to_owned() };
        let loaded = config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).expect("it is sound");
        loaded.snapshot.providers.to_vec()
    }

    /// A call that takes a millisecond: which address it went to.
    async fn call(transport: &Transport, provider: &Provider) -> Option<IpAddr> {
        let mut link = transport.checkout(provider, Checkout::Any, &mut Line::default()).await.expect("it connects");
        tokio::time::advance(Duration::from_millis(1)).await;
        link.idle_since = Clock.now();
        let peer = link.peer;
        transport.put_back(provider, link);
        peer
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_follows_its_upstream_to_another_address() {
        let names = Moving(Mutex::new([FIRST, FIRST, SECOND].into()));
        let refresh = Duration::from_secs(30);
        let resolver = Arc::new(Resolver::over(Clock, refresh, Box::new(names)));
        let transport = Transport::new(Clock, Arc::new(Net(resolver.clone())), resolver, Arc::default());
        let provider = provider();
        let mut moved = None;
        let began = Clock.now();
        // Far too busy ever to be found idle for long, as under load.
        while Clock.now().duration_since(began) < refresh * 3 {
            for _ in 0..40 {
                let peer = call(&transport, &provider).await;
                if peer == Some(SECOND) && moved.is_none() {
                    moved = Some(Clock.now().duration_since(began));
                }
                assert_eq!(peer, Some(if moved.is_some() { SECOND } else { FIRST }));
                tokio::time::advance(Duration::from_millis(49)).await;
            }
            if moved.is_none() {
                transport.renew_names(std::slice::from_ref(&provider)).await;
            }
        }
        let moved = moved.expect("it has moved");
        assert!((refresh * 2..refresh * 2 + Duration::from_secs(5)).contains(&moved), "{moved:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_to_where_the_upstream_was_is_closed_and_nobody_asks_for_an_unused_name() {
        let names = Moving(Mutex::new([FIRST, SECOND].into()));
        let resolver = Arc::new(Resolver::over(Clock, Duration::from_secs(5), Box::new(names)));
        let transport = Transport::new(Clock, Arc::new(Net(resolver.clone())), resolver, Arc::default());
        let provider = provider();
        let providers = std::slice::from_ref(&provider);
        let left = || transport.shelves.lock().unwrap()[&provider.name].links.len();
        assert_eq!(call(&transport, &provider).await, Some(FIRST));
        transport.renew_names(providers).await;
        transport.sweep(providers);
        assert_eq!(left(), 1);
        tokio::time::advance(Duration::from_secs(6)).await;
        transport.renew_names(providers).await;
        transport.sweep(providers);
        assert_eq!(left(), 0);
        tokio::time::advance(Duration::from_secs(6)).await;
        // A third question would find no answer.
        transport.renew_names(providers).await;
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_connections_than_all_providers_may_have_together_and_idle_ones_make_room() {
        let names = Moving(Mutex::new(vec![FIRST; 2].into()));
        let resolver = Arc::new(Resolver::over(Clock, Duration::from_secs(500), Box::new(names)));
        let places = Arc::new(Places::within(Some(2)));
        let worker = || Transport::new(Clock, Arc::new(Net(resolver.clone())), resolver.clone(), Arc::clone(&places));
        let (here, there) = (worker(), worker());
        let [one, other] = &providers()[..] else { panic!("two of them") };
        let ask = async |at: &Transport, provider: &Provider| {
            at.checkout(provider, Checkout::Any, &mut Line::default()).await
        };
        let (first, second) = (ask(&here, one).await.unwrap(), ask(&there, one).await.unwrap());
        let mut line = Line::default();
        assert!(here.checkout(other, Checkout::Any, &mut line).await.is_err() && line.is_waiting, "none is left");
        here.put_back(one, first);
        let third = ask(&here, other).await.expect("an idle one of the same worker makes room");
        let (_, fourth) = tokio::join!(
            async {
                tokio::task::yield_now().await;
                there.put_back(one, second);
            },
            ask(&here, one)
        );
        let fourth = fourth.expect("so does one that comes back to another worker");
        there.put_back(one, fourth);
        assert_eq!(there.shelves.lock().unwrap()[&one.name].links.len(), 1, "it stays where nobody waits");
        let waiting = ask(&here, one);
        let sweeping = async {
            tokio::task::yield_now().await;
            there.sweep(std::slice::from_ref(one));
        };
        assert!(tokio::join!(waiting, sweeping).0.is_ok(), "and one that is idle there");
        drop(third);
    }
}
