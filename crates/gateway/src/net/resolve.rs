//! Names to addresses through the system's resolver, remembered for `resolver.refresh`.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
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

/// A cache before the system's resolver. The system's own is used, not a resolver of ours, because
/// it knows `/etc/hosts`, search domains and whatever the platform adds.
#[derive(Debug)]
pub struct Resolver {
    clock: Clock,
    refresh: Mutex<Duration>,
    /// Bounded by the number of configured hosts; what nobody wants is dropped at a reload.
    known: Mutex<HashMap<Box<str>, Known>>,
}

impl Resolver {
    /// A resolver that asks again after `refresh`.
    #[must_use]
    pub fn new(clock: Clock, refresh: Duration) -> Self {
        Self { clock, refresh: Mutex::new(refresh), known: Mutex::new(HashMap::new()) }
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
        let ask = async {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        };
        self.lookup_by(host, ask).await
    }

    async fn lookup_by(
        &self,
        host: &str,
        ask: impl Future<Output = io::Result<Vec<IpAddr>>>,
    ) -> io::Result<Arc<[IpAddr]>> {
        let last = match self.use_known(host) {
            Some((addresses, true)) => return Ok(addresses),
            Some((addresses, false)) => Some(addresses),
            None => None,
        };
        let asked = match &last {
            None => ask.await,
            Some(_) => tokio::time::timeout(PATIENCE, ask).await.unwrap_or_else(|elapsed| Err(elapsed.into())),
        };
        match asked {
            Ok(mut addresses) => {
                addresses.dedup();
                let addresses: Arc<[IpAddr]> = addresses.into();
                let at = self.clock.now();
                let refresh = *self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = Known { addresses: addresses.clone(), at, fresh_until: at + refresh, is_used: true };
                self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(host.into(), entry);
                Ok(addresses)
            }
            Err(error) => last.ok_or(error),
        }
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

    async fn answer(octet: u8) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([10, 0, 0, octet])])
    }

    async fn silence() -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }

    async fn failure() -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn is(octet: u8, found: &io::Result<Arc<[IpAddr]>>) -> bool {
        matches!(found, Ok(found) if **found == [IpAddr::from([10, 0, 0, octet])])
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_asked_for_again_when_it_is_old() {
        let resolver = Resolver::new(Clock, REFRESH);
        assert!(is(1, &resolver.lookup_by("a", answer(1)).await));
        tokio::time::advance(REFRESH / 2).await;
        assert!(is(1, &resolver.lookup_by("a", silence()).await));
        tokio::time::advance(REFRESH).await;
        assert!(is(2, &resolver.lookup_by("a", answer(2)).await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resolver_that_fails_or_falls_silent_costs_a_moment_and_no_address() {
        let resolver = Resolver::new(Clock, REFRESH);
        assert!(resolver.lookup_by("a", failure()).await.is_err());
        assert!(is(1, &resolver.lookup_by("a", answer(1)).await));
        for reload in [false, true] {
            tokio::time::advance(REFRESH * 2).await;
            if reload {
                resolver.reset(REFRESH);
            }
            let began = Clock.now();
            assert!(is(1, &resolver.lookup_by("a", silence()).await));
            assert!(Clock.now().duration_since(began) <= PATIENCE + Duration::from_millis(10));
            // Nobody else waits before the next try.
            let began = Clock.now();
            assert!(is(1, &resolver.lookup_by("a", silence()).await));
            assert_eq!(Clock.now(), began);
            tokio::time::advance(ASK_AGAIN).await;
            assert!(is(1, &resolver.lookup_by("a", failure()).await));
        }
        tokio::time::advance(ASK_AGAIN).await;
        assert!(is(3, &resolver.lookup_by("a", answer(3)).await));
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_nobody_wants_are_forgotten() {
        let resolver = Resolver::new(Clock, REFRESH);
        assert!(is(1, &resolver.lookup_by("a", answer(1)).await));
        resolver.reset(REFRESH);
        resolver.reset(REFRESH);
        assert!(resolver.lookup_by("a", failure()).await.is_err());
    }
}
