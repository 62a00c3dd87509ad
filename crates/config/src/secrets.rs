//! What of a configuration must not be printed, wherever texts leave the gateway: in its log, in what callers are told,
//! in records.
//!
//! Clients' keys are not among it: only their hashes are kept.

use base::Secret;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::{Destination, Provider, Snapshot};

/// A header's value, or a path, shorter than this is a word, such as a team's name: bytes.
const SHORTEST: usize = 12;

impl Snapshot {
    /// Everything in this configuration that must not be printed.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let tokens = self.general.admin_tokens.iter().filter_map(|token| token.plain.as_ref()).map(Secret::expose);
        let providers = self.providers.iter().flat_map(|provider| provider.secrets());
        let collectors = self.general.telemetry.iter().flat_map(|telemetry| telemetry.traces.provider.secrets());
        let hooks = self.webhooks.iter().flat_map(|hook| hook.to.secrets().chain([hook.secret.expose()]));
        tokens.chain(providers).chain(collectors).chain(hooks)
    }
}

impl Provider {
    /// Its keys, what its proxy is shown, and those of its headers that may be credentials.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let keys = self.keys.iter().map(|key| key.secret.expose());
        let is_credential = |(name, value): &(_, &HeaderValue)| *name == AUTHORIZATION || value.len() >= SHORTEST;
        let headers = self.headers.iter().map(|(name, value)| (name, value)).filter(is_credential);
        let proxy = self.proxy.iter().filter_map(|proxy| proxy.authorization.as_ref());
        keys.chain(headers.map(|(_, value)| value).chain(proxy).filter_map(|value| value.to_str().ok()))
    }
}

impl Destination {
    /// What it is reached with, and its path: whoever knows the whole of it may be able to write there.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let path = Some(self.path.as_str()).filter(|path| path.len() >= SHORTEST);
        self.provider.secrets().chain(path)
    }
}
