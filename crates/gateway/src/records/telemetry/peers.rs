//! Who stands behind the label of an upstream, as OpenTelemetry's conventions describe it.

use std::sync::{Arc, Weak};

use config::{Provider, Upstream};
use dialect::Protocol;
use foldhash::HashMap;

use crate::running::Running;

/// An upstream as spans and metrics show it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// `gen_ai.provider.name`
    pub system: &'static str,
    /// `gen_ai.request.model`: the model's configured name there.
    pub model: Arc<str>,
    /// `server.address`
    pub address: Box<str>,
    /// `server.port`
    pub port: u16,
}

impl Peer {
    fn of(upstream: &Upstream) -> Self {
        let origin = &upstream.provider.origin;
        Self {
            system: system(&upstream.provider),
            model: upstream.sent.clone(),
            address: origin.host.as_str().into(),
            port: origin.port,
        }
    }
}

/// The hosts of services that the conventions have a name for.
const KNOWN: [(&str, &str); 14] = [
    ("api.openai.com", "openai"),
    (".openai.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    (".amazonaws.com", "aws.bedrock"),
    ("cohere.com", "cohere"),
    ("cohere.ai", "cohere"),
    ("deepseek.com", "deepseek"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral_ai"),
    ("perplexity.ai", "perplexity"),
    ("x.ai", "x_ai"),
];

/// `gen_ai.provider.name`: the service where the conventions have a name for it, else the protocol.
fn system(provider: &Provider) -> &'static str {
    if provider.protocol == Protocol::AzureOpenAi {
        return "azure.ai.openai";
    }
    let host = &*provider.origin.host;
    let is_at = |known: &str| {
        host.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.') || known.starts_with('.'))
    };
    let known = KNOWN.iter().find(|(known, _)| is_at(known)).map(|(_, system)| *system);
    known.unwrap_or(provider.protocol.as_str())
}

/// The upstreams of one configuration, by route and label.
#[derive(Debug, Default)]
struct Index {
    of: Weak<Running>,
    peers: HashMap<Arc<str>, HashMap<Arc<str>, Arc<Peer>>>,
}

impl Index {
    fn of(running: &Arc<Running>) -> Self {
        let routes = running.snapshot.routes.iter().map(|route| {
            let peer = |upstream: &Arc<Upstream>| (upstream.label.clone(), Arc::new(Peer::of(upstream)));
            (route.name.clone(), route.upstreams.iter().map(peer).collect())
        });
        Self { peers: routes.collect(), of: Arc::downgrade(running) }
    }

    fn find(&self, route: &str, label: &str) -> Option<&Arc<Peer>> {
        self.peers.get(route)?.get(label)
    }
}

/// The upstreams of the configuration in force, and of the one before it: calls under way began with that.
#[derive(Debug, Default)]
pub struct Peers {
    now: Index,
    before: Index,
}

impl Peers {
    /// Knows the upstreams of this configuration from now on.
    pub fn follow(&mut self, running: &Arc<Running>) {
        // The weak reference keeps the place in memory taken, so that no later configuration is mistaken for this one.
        if !std::ptr::eq(self.now.of.as_ptr(), Arc::as_ptr(running)) {
            self.before = std::mem::replace(&mut self.now, Index::of(running));
        }
    }

    /// The upstream of that label on that route.
    #[must_use]
    pub fn find(&self, route: Option<&str>, label: &str) -> Option<Arc<Peer>> {
        let route = route?;
        self.now.find(route, label).or_else(|| self.before.find(route, label)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system_at(protocol: &str, url: &str) -> &'static str {
        let text =
            format!("providers: [{{ name: p, protocol: {protocol}, base_url: '{url}', api_version: '2024-10-21' }}]");
        let source = config::Source::Text { name: "peers.yaml".to_owned(), text };
        let loaded = config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).unwrap();
        system(&loaded.snapshot.providers[0])
    }

    #[test]
    fn a_service_has_the_name_of_the_conventions_and_any_other_that_of_its_protocol() {
        for (protocol, url, name) in [
            ("openai", "https://api.openai.com/v1", "openai"),
            ("openai", "https://api.deepseek.com", "deepseek"),
            ("openai", "https://api.x.ai/v1", "x_ai"),
            ("openai", "http://vllm.internal:8000/v1", "openai"),
            ("openai", "http://fox.aix.ai.example.com/v1", "openai"),
            ("openai", "http://notx.ai/v1", "openai"),
            ("azure-openai", "https://corp.openai.azure.com", "azure.ai.openai"),
            ("azure-openai", "http://proxy.internal", "azure.ai.openai"),
            ("ollama", "http://gpu:11434", "ollama"),
        ] {
            assert_eq!(system_at(protocol, url), name, "{protocol} at {url}");
        }
    }
}
