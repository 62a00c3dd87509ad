//! Names to addresses through the system's resolver, remembered for `resolver.refresh`.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;

/// What a name meant when it was last asked for.
#[derive(Clone, Debug)]
struct Known {
    addresses: Arc<[IpAddr]>,
    at: Instant,
}

/// A cache before the system's resolver. The system's own is used, not a resolver of ours, because
/// it knows `/etc/hosts`, search domains and whatever the platform adds.
#[derive(Debug)]
pub struct Resolver {
    clock: Clock,
    refresh: Mutex<Duration>,
    /// Bounded by the number of configured hosts; the rest is dropped at a reload.
    known: Mutex<HashMap<Box<str>, Known>>,
}

impl Resolver {
    /// A resolver that asks again after `refresh`.
    #[must_use]
    pub fn new(clock: Clock, refresh: Duration) -> Self {
        Self { clock, refresh: Mutex::new(refresh), known: Mutex::new(HashMap::new()) }
    }

    /// A reload: another refresh, and nothing remembered.
    pub fn reset(&self, refresh: Duration) {
        *self.refresh.lock().unwrap_or_else(PoisonError::into_inner) = refresh;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
        let known = self.recall(host);
        let refresh = *self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &known
            && self.clock.now().duration_since(known.at) < refresh
        {
            return Ok(known.addresses.clone());
        }
        match tokio::net::lookup_host((host, 0)).await {
            Ok(found) => {
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.dedup();
                let addresses: Arc<[IpAddr]> = addresses.into();
                let entry = Known { addresses: addresses.clone(), at: self.clock.now() };
                self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(host.into(), entry);
                Ok(addresses)
            }
            Err(error) => known.map(|known| known.addresses).ok_or(error),
        }
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
