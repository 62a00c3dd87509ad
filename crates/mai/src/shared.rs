//! What the workers share on the way out, and what a reload touches.

use std::sync::Arc;

use base::{Clock, Secret};
use config::Snapshot;
use gateway::net::{Places, Resolver, Roots, server_config};
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
    /// What a first configuration asks for.
    ///
    /// # Errors
    /// As of [`Shared::refresh`].
    pub fn of(snapshot: &Snapshot) -> Result<Self, String> {
        let shared = Self {
            resolver: Arc::new(Resolver::new(Clock, snapshot.general.resolver_refresh)),
            roots: Arc::new(Roots::of_system()),
            places: Arc::default(),
            tls: TlsSwitch::default(),
        };
        shared.refresh(snapshot)?;
        Ok(shared)
    }

    /// Takes a new configuration's names and certificates.
    ///
    /// # Errors
    /// A sentence when the data port's certificate cannot be used; nothing has changed then.
    pub fn refresh(&self, snapshot: &Snapshot) -> Result<(), String> {
        let tls = snapshot.general.tls.as_ref().map(server_config).transpose()?;
        self.tls.store(tls);
        self.roots.reset();
        self.resolver.reset(snapshot.general.resolver_refresh);
        Ok(())
    }
}

/// Everything in a configuration that must not be printed.
pub fn secrets(snapshot: &Snapshot) -> Vec<Secret> {
    /// A header's value shorter than this is a word, such as a team's name.
    const SHORTEST: usize = 12;
    let mut secrets = Vec::new();
    for provider in &snapshot.providers {
        secrets.extend(provider.keys.iter().map(|key| key.secret.clone()));
        let headers = provider.headers.iter().map(|(_, value)| value);
        let proxy = provider.proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref());
        let values = headers.chain(proxy).filter_map(|value| value.to_str().ok());
        secrets.extend(values.filter(|value| value.len() >= SHORTEST).map(Secret::new));
    }
    secrets
}
