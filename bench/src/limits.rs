//! What limits cost, and what they are worth: 10,000 clients with limits beside clients without any, and a client at ten times its limit
//! beside one that keeps within its own, over an upstream that takes 50 ms. Two gateways stand side by side, and each pair of samples
//! belongs to one round.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};

use crate::clock;
use crate::figures::{Figures, float};
use crate::options::Options;
use crate::process::{self, First, Scratch};
use crate::rounds::in_runtime;
use crate::say;
use crate::target::Target;
use crate::wire::Connection;
use crate::workload::{self, CLIENT_KEY};

/// Clients of either gateway.
const CLIENTS: usize = 10_000;
/// Connections that saturate, and before that for so long.
const CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_millis(200);
/// Lengths of one sample: what limits cost, and what a neighbour costs.
const COST_WINDOW: Duration = Duration::from_millis(1_500);
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
        let limits = ["", LIMITED];
        let mut gateways = Vec::new();
        for (name, limit) in ["free", "limited"].into_iter().zip(limits) {
            let config = |port, admin| config((port, admin, upstream.port), limit);
            gateways.push(Target::gateway(name, config, &upstream, &options.gateway, scratch.path()).await?);
        }
        let [free, limited] = gateways.as_slice() else { return Err(io::Error::other("two gateways are wanted")) };
        let mut figures = Figures::default();
        for round in 0..options.rounds {
            // Neither has the steady advantage of coming first.
            let (free_first, pair) = (round % 2 == 0, [free, limited]);
            let order = if free_first { pair } else { [limited, free] };
            let mut costs = Vec::new();
            for gateway in order {
                costs.push(cost(gateway).await?);
            }
            if !free_first {
                costs.reverse();
            }
            if let [free, limited] = costs.as_slice() {
                figures.add("calls/s of 10,000 clients with limits, over those of clients without", limited.0 / free.0);
                figures.add("CPU per call of 10,000 clients with limits, over that without", limited.1 / free.1);
            }
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

/// Limits of every scope that no call of the bench comes to.
const LIMITED: &str = "limit: { qps: 10000000, concurrency: 100000 }";

fn config((port, admin, upstream): (u16, u16, u16), limit: &str) -> String {
    let is_limited = !limit.is_empty();
    let mut text = format!(
        r#"listen: "127.0.0.1:{port}"
admin: {{ listen: "127.0.0.1:{admin}" }}
{limit}
providers:
  - name: scripted
    base_url: "http://127.0.0.1:{upstream}/v1"
    api_key: "sk-upstream-bench"
    pool: {{ max_connections: 4096 }}
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
    let limit =
        if is_limited { ", limit: { qps: 100000, tokens_per_minute: 900000000, concurrency: 1000 }" } else { "" };
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

#[derive(Default)]
struct Tally {
    counting: Cell<bool>,
    over: Cell<bool>,
    latencies: RefCell<Vec<u64>>,
    refused: Cell<u64>,
    answered: Cell<u64>,
}

/// One connection that sends one call after the other, at a pace where one is given.
async fn drive(port: u16, calls: Vec<Vec<u8>>, pace: Option<Duration>, tally: Rc<Tally>) -> io::Result<()> {
    let mut connection = Connection::open(port).await?;
    let mut beat = pace.map(tokio::time::interval);
    for call in calls.iter().cycle() {
        if tally.over.get() {
            break;
        }
        if let Some(beat) = &mut beat {
            beat.tick().await;
        }
        let start = clock::now_ns();
        let (status, _) = connection.call(call).await?;
        if !tally.counting.get() {
            continue;
        }
        match status {
            200 => {
                tally.answered.set(tally.answered.get() + 1);
                tally.latencies.borrow_mut().push(clock::now_ns() - start);
            }
            429 => tally.refused.set(tally.refused.get() + 1),
            status => return Err(io::Error::other(format!("status {status}"))),
        }
    }
    Ok(())
}

/// Runs connections for a window; their tallies are the caller's.
async fn load(
    drives: Vec<impl Future<Output = io::Result<()>> + 'static>,
    tallies: &[Rc<Tally>],
    window: Duration,
) -> io::Result<()> {
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    for drive in drives {
        tasks.spawn_local_on(drive, &local);
    }
    local
        .run_until(async {
            tokio::time::sleep(WARM_UP).await;
            tallies.iter().for_each(|tally| tally.counting.set(true));
            tokio::time::sleep(window).await;
            tallies.iter().for_each(|tally| {
                tally.counting.set(false);
                tally.over.set(true);
            });
            while let Some(ended) = tasks.join_next().await {
                ended.map_err(io::Error::other)??;
            }
            Ok(())
        })
        .await
}

/// Calls per second of short chats by many clients in turn, and CPU nanoseconds of one.
async fn cost(gateway: &Target) -> io::Result<(f64, f64)> {
    let tally = Rc::new(Tally::default());
    let chat = workload::short_chat().bytes;
    let share = CLIENTS / CONNECTIONS;
    let drives = (0..CONNECTIONS).map(|at| {
        let calls = (at * share..(at + 1) * share).map(|client| with_key(&chat, client)).collect();
        drive(gateway.port, calls, None, tally.clone())
    });
    let cpu = gateway.cpu_ns();
    load(drives.collect(), std::slice::from_ref(&tally), COST_WINDOW).await?;
    // Warming up is in the CPU time of both alike.
    let (calls, cpu) = (float(tally.answered.get()), float(gateway.cpu_ns() - cpu));
    Ok((calls / COST_WINDOW.as_secs_f64(), cpu / calls))
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
