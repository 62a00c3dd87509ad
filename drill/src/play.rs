//! One run: upstreams, the gateway before them, callers, and what was seen, brought together.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use base::Clock;
use serde_json::Value;
use testkit::{Answer, Caller};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::callers;
use crate::configuration::configuration;
use crate::evidence::{Evidence, Told, Try, lines_by_route, metric_by};
use crate::figures::Figures;
use crate::incident::Incident;
use crate::judge::judge;
use crate::options::Options;
use crate::process::{Process, Scratch, free_port};
use crate::report::{Outcome, json, text};
use crate::say;
use crate::upstreams::Upstreams;

/// How long the gateway may take until it is ready.
const START: Duration = Duration::from_secs(15);

/// From all being ready to the first call.
const LEAD: Duration = Duration::from_millis(100);

/// When the configuration is read anew, in the middle of most incidents: what is known of upstreams must survive that.
const RELOAD: Duration = Duration::from_secs(7);

/// What a run may take beyond the longest incident before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// How it went.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) is_kept: bool,
}

/// Plays the incidents and reports on them.
pub(crate) async fn run(options: &Options) -> io::Result<Report> {
    let scratch = Scratch::make(options.keep.as_deref())?;
    let incidents = options.incidents.as_slice();
    let upstreams = Upstreams::start(incidents)?;
    let gateway = Gateway::start(options, &upstreams, scratch.path()).await?;
    let not_in_force = gateway.not_in_force().await?;
    let longest = incidents.iter().map(|incident| incident.length).max().unwrap_or_default();
    say(&format!("drill: {} incidents side by side, {} s", incidents.len(), longest.as_secs()));

    let began = Clock.now() + LEAD;
    let playing = async {
        let reload = gateway.reload_at(began + RELOAD);
        tokio::join!(play(incidents, &upstreams, gateway.data, began), reload).0
    };
    let told = tokio::time::timeout(longest + PATIENCE, playing).await;
    let told = told.map_err(|_| io::Error::other("the callers do not come to an end"))??;

    let metrics = gateway.metrics().await?;
    if metric_by(&metrics, "mai_config_reloads_total", "result").get("ok").is_none_or(|count| *count < 1.0) {
        return Err(io::Error::other("the gateway has not read its configuration anew"));
    }
    gateway.process.stop().await?;
    let access = fs::read_to_string(scratch.path().join("access.log"))?;
    let log = fs::read_to_string(scratch.path().join("gateway.log"))?;
    let mut lines = lines_by_route(&access);
    let mut outcomes = Vec::new();
    for (at, (incident, told)) in incidents.iter().zip(told).enumerate() {
        let evidence = Evidence {
            told,
            tries: upstreams.tries(at, began),
            lines: lines.remove(incident.name).unwrap_or_default(),
            repeats: metric_by(&metrics, "mai_repeated_requests_total", "client"),
            log: log.clone(),
        };
        let tries: String = evidence.tries.iter().map(Try::shown).collect();
        fs::write(scratch.path().join(format!("{}.upstreams.jsonl", incident.name)), tries)?;
        let figures = Figures::of(incident, &evidence);
        let judgements = judge(incident, &figures, &evidence);
        outcomes.push(Outcome { incident, figures, judgements });
    }
    if let Some(path) = &options.json {
        fs::write(path, format!("{:#}\n", json(&outcomes, &not_in_force)))?;
    }
    Ok(Report { text: text(&outcomes, &not_in_force), is_kept: outcomes.iter().all(Outcome::is_kept) })
}

/// All incidents at once; what their callers were told, in the incidents' order.
async fn play(
    incidents: &[&'static Incident],
    upstreams: &Upstreams,
    gateway: SocketAddr,
    began: Instant,
) -> io::Result<Vec<Vec<Told>>> {
    tokio::time::sleep_until(began.into()).await;
    upstreams.play(incidents)?;
    let mut playing = JoinSet::new();
    for (at, incident) in incidents.iter().copied().enumerate() {
        playing.spawn(async move { (at, callers::play(incident, gateway, began).await) });
    }
    let mut told = vec![Vec::new(); incidents.len()];
    while let Some(played) = playing.join_next().await {
        let (at, calls) = played.map_err(io::Error::other)?;
        if let Some(place) = told.get_mut(at) {
            *place = calls;
        }
    }
    Ok(told)
}

/// The gateway and how it is reached.
struct Gateway {
    process: Process,
    data: SocketAddr,
    admin: SocketAddr,
}

impl Gateway {
    async fn start(options: &Options, upstreams: &Upstreams, dir: &Path) -> io::Result<Self> {
        if !options.gateway.exists() {
            let hint = "build it first: cargo build -p mai-gateway";
            return Err(io::Error::other(format!("{} is not there; {hint}", options.gateway.display())));
        }
        let ports = (free_port()?, free_port()?);
        let config = dir.join("gateway.yaml");
        fs::write(&config, configuration(&options.incidents, &upstreams.ports(), ports))?;
        let process = Process::start(&options.gateway, &config, dir)?;
        let on = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut gateway = Self { process, data: on(ports.0), admin: on(ports.1) };
        let started = tokio::time::timeout(START, gateway.until_ready()).await;
        let started = started.unwrap_or_else(|_| Err(io::Error::other("it is not ready in time")));
        started.map_err(|error| {
            let said = fs::read_to_string(dir.join("gateway.log")).unwrap_or_default();
            io::Error::other(format!("the gateway does not serve: {error}\n{said}"))
        })?;
        Ok(gateway)
    }

    async fn until_ready(&mut self) -> io::Result<()> {
        loop {
            if let Some(status) = self.process.ended() {
                return Err(io::Error::other(format!("it ended with {status}")));
            }
            match get(self.data, "/readyz").await {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn reload_at(&self, at: Instant) {
        tokio::time::sleep_until(at.into()).await;
        self.process.reload();
    }

    /// Keys of the configuration that this gateway does not follow yet, each once: `routes[].retry`.
    async fn not_in_force(&self) -> io::Result<Vec<String>> {
        let answer = get(self.admin, "/readyz").await?;
        let body: Value = serde_json::from_slice(&answer.body)?;
        let keys = body.get("not_in_force").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut keys: Vec<String> = keys.iter().map(|key| without_names(&key.to_string())).collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    async fn metrics(&self) -> io::Result<String> {
        Ok(get(self.admin, "/metrics").await?.text())
    }
}

/// `routes[errors].retry` is `routes[].retry`.
fn without_names(key: &str) -> String {
    let mut is_name = false;
    let outside = key.trim_matches('"').chars().filter(|letter| {
        is_name &= *letter != ']';
        let keep = !is_name;
        is_name |= *letter == '[';
        keep
    });
    outside.collect()
}

async fn get(addr: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut caller = Caller::on(TcpStream::connect(addr).await?);
    caller.begin(&testkit::get(path)).await;
    caller.answer().await
}

#[cfg(test)]
mod tests {
    use super::without_names;

    #[test]
    fn a_key_is_named_without_what_it_belongs_to() {
        assert_eq!(without_names("\"routes[errors].upstreams[0].weight\""), "routes[].upstreams[].weight");
        assert_eq!(without_names("cache.memory"), "cache.memory");
    }
}
