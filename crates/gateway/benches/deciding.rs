//! What it costs to decide upon a call: 10,000 clients with limits of every scope, two threads at once.
//!
//! `cargo bench -p gateway --bench deciding` prints the median and the 99th percentile of one decision, and of one
//! decision with its giving back, in nanoseconds; a look at the clock, some 20 ns, is in each.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use base::{Clock, Dice, KeyHasher};
use config::Source;
use gateway::limits::meters::Whose;
use gateway::live::Live;
use gateway::records::access_log::AccessLog;
use gateway::running::Running;
use rules::limits::{Decision, Want};
use rules::shares::Priority;
use state::{Answer, Settled};

const CLIENTS: usize = 10_000;
const THREADS: usize = 2;
const DECISIONS: usize = 400_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::from(
        r#"
limit: { qps: 100000000, concurrency: 1000000 }
providers: [{ name: a, base_url: "http://a/v1" }]
routes: [{ name: chat, limit: { qps: 100000000, tokens_per_minute: 900000000 }, upstreams: [{ provider: a }] }]
clients:
"#,
    );
    for client in 0..CLIENTS {
        let limits = "limit: { qps: 1000000, tokens_per_minute: 900000000 }";
        let on = "routes: [{ name: chat, limit: { concurrency: 1000 } }]";
        writeln!(text, "  - {{ name: c{client}, keys: [sk-{client}], {on}, {limits} }}")?;
    }
    let source = Source::Text { name: "deciding.yaml".to_owned(), text };
    let loaded = config::load(&source, &|_| None, &KeyHasher::new(&[0; 64])).map_err(|error| error.to_string())?;
    let live = Live::new(loaded.snapshot, Dice::loaded(1), AccessLog::default())?;
    let seats: Vec<_> = (0..THREADS).map(|_| live.add_worker()).collect();
    let mut spent: Vec<(Vec<u64>, Vec<u64>)> = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = seats.iter().map(|seat| scope.spawn(|| decide(&seat.running()))).collect();
        spent.extend(threads.into_iter().filter_map(|thread| thread.join().ok()));
    });
    let (decided, both): (Vec<_>, Vec<_>) = spent.into_iter().unzip();
    let mut out = io::stdout().lock();
    for (what, times) in [("deciding", decided), ("deciding and giving back", both)] {
        let mut times = times.concat();
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        writeln!(out, "{what}: p50 {} ns, p99 {} ns ({THREADS} threads, {CLIENTS} clients)", at(50), at(99))?;
    }
    Ok(())
}

/// Decides for one client after the other. Gives the times of both parts.
fn decide(running: &Arc<Running>) -> (Vec<u64>, Vec<u64>) {
    let snapshot = &running.snapshot;
    let (mut decided, mut both) = (Vec::with_capacity(DECISIONS), Vec::with_capacity(DECISIONS));
    let Some(route) = snapshot.routes.first() else { return (decided, both) };
    for client in snapshot.clients.iter().cycle().take(DECISIONS) {
        let (begin, now) = (instant(), Clock.now());
        let concerned = running.meters.of(Whose::of(client, route));
        let want = Want { tokens: 100, priority: Priority::Online, is_turn: false };
        let answer = running.meters.counters.take(&concerned, want, now);
        let middle = instant();
        if let Answer::Ready(Decision { denial: None, aside, .. }) = answer {
            let tokens = Settled { aside, used: 100, is_void: false };
            running.meters.counters.give_back(&concerned, Priority::Online, tokens, now);
        }
        let end = instant();
        decided.push(nanos(begin, middle));
        both.push(nanos(begin, end));
    }
    (decided, both)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn instant() -> Instant {
    Instant::now()
}

fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}
