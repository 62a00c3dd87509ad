//! What limits cost, and what they are worth: 10,000 clients with limits beside clients without any, the same with limits of the gateway
//! and of the route besides, which all clients and workers share, and a client at ten times its limit beside one that keeps within its own,
//! over an upstream that takes 50 ms. Four gateways stand side by side, and their samples belong to one round.

use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::figures::{Figures, float};
use crate::options::Options;
use crate::process::{self, First, Scratch};
use crate::rounds::in_runtime;
use crate::saturate::{Cost, Slices, Tally, drive, load, saturate, side_by_side};
use crate::say;
use crate::target::{self, Target};
use crate::workload::{self, CLIENT_KEY};

/// Clients of either gateway.
const CLIENTS: usize = 10_000;
/// Connections that saturate.
const CONNECTIONS: usize = 32;
/// Length of one sample of what a neighbour costs.
const NEIGHBOUR_WINDOW: Duration = Duration::from_secs(3);
/// What the upstream takes for a call: two chunks, so long apart.
const UPSTREAM_US: u64 = 50_000;
/// Connections of the quiet client, each asking again at once.
const QUIET: usize = 8;
/// Calls per second that the loud client may make, and so many times more it makes over these connections.
const LOUD_QPS: usize = 100;
const TIMES: usize = 10;
const LOUD: usize = 40;

/// Measures and prints one line for each figure: the median of the rounds, the least and the most.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    in_runtime(async {
        process::raise_open_files()?;
        let _first = if options.polite { None } else { First::come().ok() };
        let scratch = Scratch::make()?;
        let upstream = Target::upstream(scratch.path()).await?;
        let mut gateways = Vec::new();
        // The twin tells what two gateways differ by that do the same.
        for (name, limits) in [
            ("free", Limits::None),
            ("limited", Limits::Clients),
            ("everywhere", Limits::Everywhere),
            ("twin", Limits::None),
        ] {
            let config = |port, admin| config((port, admin, upstream.port), limits);
            gateways.push(Target::gateway(name, config, &upstream, &options.gateway, scratch.path()).await?);
        }
        let [_, _, limited, _] = gateways.as_slice() else { return Err(io::Error::other("four gateways are wanted")) };
        let mut figures = Figures::default();
        for round in 0..options.rounds {
            let take = async |at: usize, window| match gateways.get(at) {
                Some(gateway) => cost(gateway, window).await,
                None => Ok(Cost::default()),
            };
            let [free, clients, everywhere, twin] = side_by_side(round, Slices::SHORT, take).await?;
            let rate = |cost: Cost| cost.rate() / free.rate();
            let cpu = |cost: Cost| cost.cpu() / free.cpu();
            figures.add("calls/s of 10,000 clients with limits, over those of clients without", rate(clients));
            figures.add("the same where the gateway and the route have limits too", rate(everywhere));
            figures.add("the same of a second gateway without limits", rate(twin));
            figures.add("CPU per call of 10,000 clients with limits, over that without", cpu(clients));
            figures.add("the same where the gateway and the route have limits too (CPU)", cpu(everywhere));
            figures.add("the same of a second gateway without limits (CPU)", cpu(twin));
            let free_first = round % 2 == 0;
            let (alone, beside) = if free_first {
                (neighbour(limited, false).await?, neighbour(limited, true).await?)
            } else {
                let beside = neighbour(limited, true).await?;
                (neighbour(limited, false).await?, beside)
            };
            figures.add("median beside a client at ten times its limit, over that alone", beside.p50 / alone.p50);
            figures.add("p95 beside a client at ten times its limit, over that alone", beside.p95 / alone.p95);
            figures.add("share of the loud client's calls that were refused", beside.refused);
            say(&format!(
                "round {}: alone p50 {:.2} ms, p95 {:.2} ms; beside p50 {:.2} ms, p95 {:.2} ms",
                round + 1,
                alone.p50,
                alone.p95,
                beside.p50,
                beside.p95
            ));
        }
        figures.print()
    })
}

/// Who has limits. No call of the bench comes to one, but for the loud client's.
#[derive(Clone, Copy, PartialEq)]
enum Limits {
    None,
    Clients,
    Everywhere,
}

fn config(ports: (u16, u16, u16), limits: Limits) -> String {
    let begins = target::begins(ports);
    let limit = if limits == Limits::Everywhere { "limit: { qps: 10000000, concurrency: 100000 }" } else { "" };
    let mut text = format!(
        r#"{begins}
{limit}
routes:
  - name: chat
    upstreams: [{{ provider: scripted, model: bench-chat }}]
    {limit}
clients:
  - {{ name: bench, keys: ["{CLIENT_KEY}"], routes: ["*"] }}
  - {{ name: loud, keys: ["{}"], routes: ["*"], limit: {{ qps: {LOUD_QPS} }} }}
"#,
        key(CLIENTS)
    );
    let limit = if limits == Limits::None {
        ""
    } else {
        ", limit: { qps: 100000, tokens_per_minute: 900000000, concurrency: 1000 }"
    };
    for client in 0..CLIENTS {
        let _ = writeln!(text, "  - {{ name: c{client}, keys: [\"{}\"], routes: [\"*\"]{limit} }}", key(client));
    }
    text
}

/// A key as long as the bench's own.
fn key(client: usize) -> String {
    format!("sk-client-{client:0width$}", width = CLIENT_KEY.len() - 10)
}

/// The bytes of a call with another client's key.
fn with_key(call: &[u8], client: usize) -> Vec<u8> {
    String::from_utf8_lossy(call).replace(CLIENT_KEY, &key(client)).into_bytes()
}

/// What short chats by many clients in turn cost.
async fn cost(gateway: &Target, window: Duration) -> io::Result<Cost> {
    let chat = workload::short_chat().bytes;
    let share = CLIENTS / CONNECTIONS;
    let calls = |at| (at * share..(at + 1) * share).map(|client| with_key(&chat, client)).collect();
    saturate(gateway, (0..CONNECTIONS).map(calls).collect(), window).await
}

/// What the quiet client saw, in milliseconds, and the share of the loud one's calls that were refused.
struct Seen {
    p50: f64,
    p95: f64,
    refused: f64,
}

async fn neighbour(gateway: &Target, is_loud: bool) -> io::Result<Seen> {
    let (quiet, loud) = (Rc::new(Tally::default()), Rc::new(Tally::default()));
    let slow = workload::stream(2, UPSTREAM_US).bytes;
    let mut drives: Vec<_> = (0..QUIET).map(|_| drive(gateway.port, vec![slow.clone()], None, quiet.clone())).collect();
    if is_loud {
        let pace =
            Duration::from_secs(1) * u32::try_from(LOUD).unwrap_or(1) / u32::try_from(LOUD_QPS * TIMES).unwrap_or(1);
        let call = with_key(&slow, CLIENTS);
        drives.extend((0..LOUD).map(|_| drive(gateway.port, vec![call.clone()], Some(pace), loud.clone())));
    }
    load(drives, &[quiet.clone(), loud.clone()], NEIGHBOUR_WINDOW).await?;
    let mut latencies = quiet.latencies.take();
    latencies.sort_unstable();
    let at = |share: usize| latencies.get(latencies.len() * share / 100).map_or(f64::NAN, |nanos| float(*nanos) / 1e6);
    let (refused, answered) = (float(loud.refused.get()), float(loud.answered.get()));
    Ok(Seen { p50: at(50), p95: at(95), refused: refused / (refused + answered).max(1.0) })
}
