//! Names to addresses through the system's resolver, remembered for `resolver.refresh` and asked for
//! again by then as long as connections lead there.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;

/// What a name meant when it was last asked for.
#[derive(Clone, Debug)]
struct Known {
    addresses: Arc<[IpAddr]>,
    /// When that was.
    at: Instant,
    /// When it is asked for again.
    fresh_until: Instant,
    /// Whether anybody wanted it since the last reload.
    is_used: bool,
}

/// While a known name is asked for again, and for so long after that failed, its last addresses do.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Whoever asks for a known name again waits no longer than this: a resolver that is out of order
/// often does not answer at all, and the last addresses are better than none.
const PATIENCE: Duration = Duration::from_millis(300);
/// The same where nobody waits.
const UNHURRIED: Duration = Duration::from_secs(5);

/// What [`Names::ask`] returns.
pub type Asking<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Who is asked for addresses; the seam that tests replace by a table.
pub trait Names: Send + Sync {
    /// The addresses behind a host, the best first.
    fn ask<'a>(&'a self, host: &'a str) -> Asking<'a>;
}

/// The system's own resolver, not one of ours, because it knows `/etc/hosts`, search domains and
/// whatever the platform adds.
#[derive(Debug)]
struct System;

impl Names for System {
    fn ask<'a>(&'a self, host: &'a str) -> Asking<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A cache before the system's resolver.
pub struct Resolver {
    clock: Clock,
    names: Box<dyn Names>,
    refresh: Mutex<Duration>,
    /// Bounded by the number of configured hosts; what nobody wants is dropped at a reload.
    known: Mutex<HashMap<Box<str>, Known>>,
    answers: AtomicU64,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("known", &self.known).finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that asks the system again after `refresh`.
    #[must_use]
    pub fn new(clock: Clock, refresh: Duration) -> Self {
        Self::over(clock, refresh, Box::new(System))
    }

    /// A resolver over other names than the system's.
    #[must_use]
    pub fn over(clock: Clock, refresh: Duration, names: Box<dyn Names>) -> Self {
        Self { clock, names, refresh: Mutex::new(refresh), known: Mutex::default(), answers: AtomicU64::new(0) }
    }

    /// A reload: another refresh, and every name is asked for again. What is known stays for as
    /// long as the resolver does not answer.
    pub fn reset(&self, refresh: Duration) {
        *self.refresh.lock().unwrap_or_else(PoisonError::into_inner) = refresh;
        let now = self.clock.now();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, known| {
            known.fresh_until = now;
            std::mem::take(&mut known.is_used)
        });
    }

    /// The addresses behind a host. A name that once resolved keeps its last addresses while the
    /// resolver is out of order.
    ///
    /// # Errors
    /// The resolver's own, when the name never resolved.
    pub async fn lookup(&self, host: &str) -> io::Result<Arc<[IpAddr]>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Arc::from([address]));
        }
        match self.use_known(host) {
            Some((addresses, true)) => Ok(addresses),
            Some((addresses, false)) => Ok(self.ask_again(host, PATIENCE).await.unwrap_or(addresses)),
            None => self.ask(host).await,
        }
    }

    /// Asks for a known name again when it is time. Connections that are kept busy are never opened
    /// anew, so nothing else would notice that their upstream has moved.
    pub async fn renew(&self, host: &str) {
        if let Some((_, false)) = self.use_known(host) {
            let _ = self.ask_again(host, UNHURRIED).await;
        }
    }

    async fn ask_again(&self, host: &str, patience: Duration) -> io::Result<Arc<[IpAddr]>> {
        tokio::time::timeout(patience, self.ask(host)).await.unwrap_or_else(|elapsed| Err(elapsed.into()))
    }

    async fn ask(&self, host: &str) -> io::Result<Arc<[IpAddr]>> {
        let mut addresses = self.names.ask(host).await?;
        addresses.dedup();
        let addresses: Arc<[IpAddr]> = addresses.into();
        let at = self.clock.now();
        let refresh = *self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Known { addresses: addresses.clone(), at, fresh_until: at + refresh, is_used: true };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(host.into(), entry);
        self.answers.fetch_add(1, Ordering::Release);
        Ok(addresses)
    }

    /// How often a name was asked for with success. As long as it stays, so does every answer of
    /// [`Resolver::still_leads`].
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Acquire)
    }

    /// The last addresses, and whether they are fresh. Where they are not, the one who is told so
    /// asks again, and the others go on with them.
    fn use_known(&self, host: &str) -> Option<(Arc<[IpAddr]>, bool)> {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_mut(host)?;
        known.is_used = true;
        let is_fresh = now < known.fresh_until;
        if !is_fresh {
            known.fresh_until = now + ASK_AGAIN;
        }
        Some((known.addresses.clone(), is_fresh))
    }

    /// False when the host has been asked for since `born` and the address is no longer among its
    /// own: such a connection leads to a machine that was taken out of service.
    #[must_use]
    pub fn still_leads(&self, host: &str, address: IpAddr, born: Instant) -> bool {
        self.recall(host).is_none_or(|known| known.at <= born || known.addresses.contains(&address))
    }

    fn recall(&self, host: &str) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFRESH: Duration = Duration::from_secs(30);

    /// What the names answer: an octet of 10.0.0.x, a failure, or nothing at all.
    #[derive(Clone, Copy)]
    enum Mood {
        Answer(u8),
        Silence,
        Failure,
    }

    struct Scripted(Arc<Mutex<Mood>>);

    impl Names for Scripted {
        fn ask<'a>(&'a self, _: &'a str) -> Asking<'a> {
            let mood = *self.0.lock().unwrap();
            Box::pin(async move {
                match mood {
                    Mood::Answer(octet) => Ok(vec![IpAddr::from([10, 0, 0, octet])]),
                    Mood::Silence => std::future::pending().await,
                    Mood::Failure => Err(io::ErrorKind::NotFound.into()),
                }
            })
        }
    }

    /// A resolver whose names are asked through `lookup`, in that mood.
    struct Asked(Resolver, Arc<Mutex<Mood>>);

    impl Asked {
        fn new() -> Self {
            let mood = Arc::new(Mutex::new(Mood::Failure));
            Self(Resolver::over(Clock, REFRESH, Box::new(Scripted(mood.clone()))), mood)
        }

        async fn lookup(&self, mood: Mood) -> io::Result<Arc<[IpAddr]>> {
            *self.1.lock().unwrap() = mood;
            self.0.lookup("a").await
        }

        async fn renew(&self, mood: Mood) {
            *self.1.lock().unwrap() = mood;
            self.0.renew("a").await;
        }
    }

    fn is(octet: u8, found: &io::Result<Arc<[IpAddr]>>) -> bool {
        matches!(found, Ok(found) if **found == [IpAddr::from([10, 0, 0, octet])])
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_asked_for_again_when_it_is_old() {
        let names = Asked::new();
        assert!(is(1, &names.lookup(Mood::Answer(1)).await));
        tokio::time::advance(REFRESH / 2).await;
        assert!(is(1, &names.lookup(Mood::Silence).await));
        tokio::time::advance(REFRESH).await;
        assert!(is(2, &names.lookup(Mood::Answer(2)).await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resolver_that_fails_or_falls_silent_costs_a_moment_and_no_address() {
        let names = Asked::new();
        assert!(names.lookup(Mood::Failure).await.is_err());
        assert!(is(1, &names.lookup(Mood::Answer(1)).await));
        for reload in [false, true] {
            tokio::time::advance(REFRESH * 2).await;
            if reload {
                names.0.reset(REFRESH);
            }
            let began = Clock.now();
            assert!(is(1, &names.lookup(Mood::Silence).await));
            assert!(Clock.now().duration_since(began) <= PATIENCE + Duration::from_millis(10));
            // Nobody else waits before the next try.
            let began = Clock.now();
            assert!(is(1, &names.lookup(Mood::Silence).await));
            assert_eq!(Clock.now(), began);
            tokio::time::advance(ASK_AGAIN).await;
            assert!(is(1, &names.lookup(Mood::Failure).await));
        }
        tokio::time::advance(ASK_AGAIN).await;
        assert!(is(3, &names.lookup(Mood::Answer(3)).await));
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_nobody_wants_are_forgotten() {
        let names = Asked::new();
        assert!(is(1, &names.lookup(Mood::Answer(1)).await));
        names.0.reset(REFRESH);
        names.0.reset(REFRESH);
        assert!(names.lookup(Mood::Failure).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_in_use_is_asked_for_again_without_a_call_and_only_when_it_is_old() {
        let names = Asked::new();
        names.renew(Mood::Answer(1)).await;
        assert_eq!(names.0.answers(), 0, "nobody has wanted it yet");
        assert!(is(1, &names.lookup(Mood::Answer(1)).await));
        names.renew(Mood::Answer(2)).await;
        assert!(is(1, &names.lookup(Mood::Failure).await));
        tokio::time::advance(REFRESH).await;
        names.renew(Mood::Answer(2)).await;
        assert!(is(2, &names.lookup(Mood::Failure).await));
        assert_eq!(names.0.answers(), 2);
    }
}
