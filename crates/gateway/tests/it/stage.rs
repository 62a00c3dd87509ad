//! A gateway between testkit's network and testkit's callers.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Dice, KeyHasher};
use config::{Provider, Source};
use gateway::live::Live;
use gateway::net::{Connect, Dialed, Dialing, Places, Resolver, Transport, unreachable};
use gateway::quota::ledger::Stores;
use gateway::records::access_log::AccessLog;
use gateway::worker::Worker;
use testkit::{Answer, Ask, Caller, Host, Script, Stream, Wire};
use tokio::task::JoinSet;

/// The one client's key in most stories.
pub const KEY: &str = "sk-app";

/// A gateway whose upstreams are hosts of a [`Wire`].
pub struct Stage {
    pub net: Wire,
    pub live: Arc<Live>,
    worker: Arc<Worker>,
}

/// Connects by the provider's `host:port`.
struct Net(Wire);

impl Connect for Net {
    fn dial<'a>(&'a self, provider: &'a Provider) -> Dialing<'a> {
        Box::pin(async move {
            let stream = self.0.connect(&provider.origin.authority()).await;
            let stream = stream.map_err(|error| unreachable(provider, &error))?;
            Ok(Dialed { probe: stream.probe(), io: Box::new(stream), peer: None })
        })
    }
}

fn transport(net: &Wire) -> Transport {
    let resolver = Arc::new(Resolver::new(Clock, Duration::from_secs(30)));
    Transport::new(Clock, Arc::new(Net(net.clone())), resolver, Arc::new(Places::default()))
}

impl Stage {
    /// A gateway with this configuration (providers, routes, clients as YAML).
    pub fn set(config: &str) -> Self {
        Self::keeping(config, Stores::default())
    }

    /// The same, over stores of a story's own.
    pub fn keeping(config: &str, stores: Stores) -> Self {
        let net = Wire::new();
        let live = Live::keeping(snapshot(config), Dice::loaded(7), AccessLog::default(), stores);
        let live = live.expect("the metrics are sound");
        let worker = Arc::new(Worker::new(live.clone(), transport(&net)));
        Self { net, live, worker }
    }

    /// The usual gateway: routes `chat`, `embedding` and `rerank`, each over hosts `a` and then `b`.
    pub fn usual() -> Self {
        Self::set(USUAL)
    }

    /// Puts an upstream on the network; `a` is `http://a` in the configuration.
    pub fn host(&self, name: &str, script: impl Into<testkit::Scenario>) -> Host {
        self.net.host(name, script)
    }

    /// Another configuration, while it runs.
    pub fn reload(&self, config: &str) {
        let snapshot = snapshot(config);
        self.worker.transport.come_under(&snapshot.providers);
        self.live.put_in_force(snapshot);
    }

    /// Closes idle connections that are too old, as a worker does every few seconds.
    pub fn sweep(&self) {
        self.worker.transport.sweep(&self.live.running().snapshot.providers);
    }

    /// Copies of calls under way.
    pub fn copies(&self) -> usize {
        let running = self.worker.per_worker.running();
        let routes = running.snapshot.routes.iter().filter_map(|route| running.state(route));
        routes.map(|state| state.counts.copies.load(std::sync::atomic::Ordering::Relaxed)).sum()
    }

    /// Starts the health probes, as the process does beside its workers.
    pub fn probe(&self) {
        tokio::spawn(gateway::background::probe::keep_probing(self.live.clone(), transport(&self.net)));
    }

    /// Starts to gather and to deliver, as the process does beside its workers.
    pub fn tell_webhooks(&self) {
        let live = self.live.clone();
        tokio::spawn(async move { live.keep_gathering().await });
        tokio::spawn(gateway::background::webhook_delivery::keep_delivering(self.live.clone(), transport(&self.net)));
    }

    /// Starts to tell a collector, as the process does beside its workers.
    pub fn export(&self) {
        tokio::spawn(gateway::background::telemetry_export::keep_exporting(self.live.clone(), transport(&self.net)));
        let live = self.live.clone();
        tokio::spawn(async move { live.keep_gathering().await });
    }

    /// One more worker of the same process.
    pub fn another_worker(&self) -> Arc<Worker> {
        Arc::new(Worker::new(self.live.clone(), transport(&self.net)))
    }

    /// A caller's connection.
    pub fn caller(&self) -> Caller<Stream> {
        let (near, far) = testkit::pair();
        tokio::spawn(self.worker.clone().converse(far));
        Caller::on(near)
    }

    /// One call on a connection of its own, with the usual key.
    pub async fn ask(&self, ask: Ask) -> Answer {
        self.caller().ask(&ask.key(KEY)).await
    }

    /// The access log so far.
    pub fn log_text(&self) -> String {
        self.live.gather();
        self.live.log.text()
    }

    /// The access log so far, line by line.
    pub fn log(&self) -> Vec<serde_json::Value> {
        self.log_text().lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// The last line of the access log, once every request has ended.
    pub async fn last_line(&self) -> serde_json::Value {
        self.comes_to_rest().await;
        let log = self.log_text();
        serde_json::from_str(log.lines().last().expect("a request has ended")).expect("a line is JSON")
    }

    /// A metric's value; 0 where the series does not exist yet.
    pub fn metric(&self, series: &str) -> f64 {
        let metrics = self.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// The metrics' text.
    pub fn metrics(&self) -> String {
        String::from_utf8(self.live.metrics_text()).expect("metrics are UTF-8")
    }

    /// Waits until every request has ended, and asserts that nothing is left behind.
    pub async fn comes_to_rest(&self) {
        for _ in 0..600 {
            if self.live.requests() == 0 {
                for line in self.metrics().lines().filter(|line| line.starts_with("mai_inflight_requests")) {
                    assert!(line.ends_with(" 0"), "{line}");
                }
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} requests never ended", self.live.requests());
    }
}

/// The usual configuration with one text in place of another.
pub fn usual_but(text: &str, instead: &str) -> String {
    assert!(USUAL.contains(text), "the usual configuration holds {text}");
    USUAL.replace(text, instead)
}

/// A configuration whose routes repeat nothing after a wait.
pub fn without_waits(config: &str) -> String {
    let none = "retry: { server_error: [], throttled: [] }";
    config
        .replace("    match: {", &format!("    {none}\n    match: {{"))
        .replace(", match: {", &format!(", {none}, match: {{"))
}

/// A configuration whose breakers never open.
pub fn without_breakers(config: &str) -> String {
    let none = "breaker: { failures: 100000 }";
    config
        .replace("    match: {", &format!("    {none}\n    match: {{"))
        .replace(", match: {", &format!(", {none}, match: {{"))
}

/// One provider `a` at `base_url` that speaks `protocol`, and the usual routes over it alone.
pub fn alone(protocol: &str, base_url: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, protocol: {protocol}, base_url: "{base_url}", api_key: sk-a-secret }}]
routes:
  - {{ name: chat, match: {{ path: /v1/chat/completions }}, upstreams: [{{ provider: a, model: model-a }}] }}
  - {{ name: embedding, match: {{ path: /v1/embeddings }}, upstreams: [{{ provider: a, model: embed }}] }}
  - {{ name: rerank, match: {{ path: /v1/rerank }}, upstreams: [{{ provider: a, model: rank }}] }}
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

/// A configuration as it is compiled.
pub fn snapshot(config: &str) -> config::Snapshot {
    let source = Source::Text { name: "story.yaml".to_owned(), text: config.to_owned() };
    match config::load(&source, &|_| None, &KeyHasher::new(&[0; 64])) {
        Ok(loaded) => loaded.snapshot,
        Err(errors) => panic!("{errors}"),
    }
}

/// Hosts `a` and `b`, the first with a key of its own each.
pub const USUAL: &str = r#"
providers:
  - { name: a, protocol: openai, base_url: "http://a/v1", api_key: sk-a-secret }
  - { name: b, protocol: openai, base_url: "http://b/v1", api_key: sk-b-secret }
routes:
  - name: chat
    match: { path: [/v1/chat/completions, /v1/completions] }
    upstreams: [{ provider: a, model: model-a }, { provider: b, model: model-b, tier: 1 }]
  - name: embedding
    match: { path: /v1/embeddings }
    upstreams: [{ provider: a, model: embed }, { provider: b, model: embed, tier: 1 }]
  - name: rerank
    match: { path: /v1/rerank }
    upstreams: [{ provider: a, model: rank }, { provider: b, model: rank, tier: 1 }]
clients:
  - { name: app, keys: [sk-app], routes: ["*"] }
  - { name: narrow, keys: [sk-narrow], routes: [rerank] }
"#;

/// A host that answers everything pleasantly and at once.
pub fn pleasant() -> Script {
    Script::new()
}

/// Lets time pass.
pub async fn millis(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// A call of the usual client that has been sent, and not waited for.
pub async fn begun(stage: &Stage, ask: Ask) -> Caller<Stream> {
    begun_by(stage, ask.key(KEY)).await
}

/// The same, of whoever's key it has.
pub async fn begun_by(stage: &Stage, ask: Ask) -> Caller<Stream> {
    let mut caller = stage.caller();
    caller.begin(&ask).await;
    caller
}

/// What calls that have been sent are answered, in their order.
pub async fn answers(callers: Vec<Caller<Stream>>) -> Vec<Answer> {
    let mut waiting = JoinSet::new();
    for (at, mut caller) in callers.into_iter().enumerate() {
        waiting.spawn(async move { (at, caller.answer().await.expect("an answer")) });
    }
    let mut answers = waiting.join_all().await;
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// What an answer says of the cache; nothing where it does not.
pub fn cache(answer: &Answer) -> &str {
    answer.header("x-mai-cache").unwrap_or_default()
}
