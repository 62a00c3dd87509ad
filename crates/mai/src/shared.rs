//! What the workers share on the way out, and what a reload touches.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Secret};
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

/// Everything in a configuration that must not be printed.
pub fn secrets(snapshot: &Snapshot) -> Vec<Secret> {
    /// A header's value shorter than this is a word, such as a team's name.
    const SHORTEST: usize = 12;
    let tokens = snapshot.general.admin_tokens.iter();
    let mut secrets: Vec<Secret> = tokens.filter_map(|token| token.plain.clone()).collect();
    for provider in &snapshot.providers {
        secrets.extend(provider.keys.iter().map(|key| key.secret.clone()));
        let headers = provider.headers.iter().map(|(_, value)| value);
        let proxy = provider.proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref());
        let values = headers.chain(proxy).filter_map(|value| value.to_str().ok());
        secrets.extend(values.filter(|value| value.len() >= SHORTEST).map(Secret::new));
    }
    if let Some(telemetry) = &snapshot.general.telemetry {
        let collector = &telemetry.traces.provider;
        let proxy = collector.proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref());
        let values = collector.headers.iter().map(|(_, value)| value).chain(proxy);
        let values = values.filter_map(|value| value.to_str().ok());
        secrets.extend(values.filter(|value| value.len() >= SHORTEST).map(Secret::new));
    }
    for hook in &snapshot.webhooks {
        secrets.push(hook.secret.clone());
        // Whoever knows the whole path may be able to write there.
        let path = Some(hook.to.path.as_str()).filter(|path| path.len() >= SHORTEST);
        secrets.extend(path.map(Secret::new));
        let reach = &hook.to.provider;
        let proxy = reach.proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref());
        let values = reach.headers.iter().map(|(_, value)| value).chain(proxy);
        secrets.extend(values.filter_map(|value| value.to_str().ok()).map(Secret::new));
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tokens_and_credentials_are_secrets_and_hashes_and_words_are_not() {
        let text = r#"
admin:
  tokens:
    - { name: ops, role: operator, token: adm-in-plain-text }
    - { name: hashed, role: viewer, token: "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" }
providers:
  - name: a
    protocol: openai
    base_url: "http://a/v1"
    api_keys: [sk-one, sk-two]
    headers: { x-team: rag, x-token: "a-long-credential" }
    proxy: "http://user:word@proxy:3128"
routes: [{ name: chat, match: { path: /v1/chat/completions }, upstreams: [{ provider: a, model: m }] }]
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
telemetry: { otlp: "http://c:4318", headers: { authorization: "Bearer for-the-collector", x-tenant: rag } }
webhooks: [{ url: "https://hooks.example.com/T000/B000/a-token", secret: hook-secret }, { url: "http://u:p@h/in", secret: other }]
"#;
        let source = config::Source::Text { name: "secrets.yaml".to_owned(), text: text.to_owned() };
        let loaded = config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).unwrap();
        let secrets = secrets(&loaded.snapshot);
        let mut shown: Vec<&str> = secrets.iter().map(Secret::expose).collect();
        shown.sort_unstable();
        let of_hooks = ["/T000/B000/a-token", "Basic dTpw", "hook-secret", "other"];
        let of_others = [
            "Basic dXNlcjp3b3Jk",
            "Bearer for-the-collector",
            "a-long-credential",
            "adm-in-plain-text",
            "sk-one",
            "sk-two",
        ];
        let mut all = [&of_hooks[..], &of_others[..]].concat();
        all.sort_unstable();
        assert_eq!(shown, all);
    }
}
