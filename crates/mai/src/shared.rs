//! What the workers share on the way out, and what a reload touches.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use config::Snapshot;
use gateway::caller::delayed_writes::DelayedWrites;
use gateway::net::{Dialer, Places, Resolver, Roots, Transport, server_config};
use gateway::worker::TlsSwitch;

/// One for the process.
pub struct Shared {
    /// Names to addresses.
    pub resolver: Arc<Resolver>,
    /// Whom TLS trusts.
    pub roots: Arc<Roots>,
    /// How many connections each provider may have.
    pub places: Arc<Places>,
    /// The data port's certificate.
    pub tls: TlsSwitch,
}

impl Shared {
    /// What a first configuration asks for, with so many connections to upstreams at most.
    ///
    /// # Errors
    /// As of [`Shared::refresh`].
    pub fn of(snapshot: &Snapshot, upstreams: Option<usize>) -> Result<Self, String> {
        let shared = Self {
            resolver: Arc::new(Resolver::new(Clock, snapshot.general.resolver_refresh)),
            roots: Arc::new(Roots::of_system()),
            places: Arc::new(Places::within(upstreams)),
            tls: TlsSwitch::default(),
        };
        shared.refresh(snapshot)?;
        shared.places.come_under(&snapshot.providers);
        Ok(shared)
    }

    /// A way to the upstreams of its own, whose connections count among `places` and write through
    /// `delayed_writes`, where there is one.
    #[must_use]
    pub fn transport(&self, places: Arc<Places>, delayed_writes: Option<DelayedWrites>) -> Transport {
        let dialer = Dialer::new(self.resolver.clone(), self.roots.clone());
        let dialer = match delayed_writes {
            Some(delayed_writes) => dialer.through(delayed_writes),
            None => dialer,
        };
        Transport::new(Clock, Arc::new(dialer), self.resolver.clone(), places)
    }

    /// Takes a new configuration's names and certificates.
    ///
    /// # Errors
    /// A sentence when the data port's certificate cannot be used; nothing has changed then.
    pub fn refresh(&self, snapshot: &Snapshot) -> Result<(), String> {
        let tls = snapshot.general.tls.as_ref().map(server_config).transpose()?;
        self.tls.store(tls);
        self.forget(snapshot.general.resolver_refresh);
        Ok(())
    }

    /// Names are asked for again, and TLS settings made anew, for providers of which some have changed.
    pub fn forget(&self, refresh: Duration) {
        self.roots.reset();
        self.resolver.reset(refresh);
    }
}
