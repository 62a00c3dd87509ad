//! What the caches cost and what they are worth: hits beside nginx, which proxies the same answers (the very chat, a chat in other words, and
//! vectors of which all are stored), and the questions of a knowledge
//! base's users, of which two in five repeat an earlier one, through a gateway with a cache and through one without. What is compared
//! belongs to one round, and what was stored in a round is of no use in another.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};

use crate::clock;
use crate::figures::{Figures, float};
use crate::load;
use crate::options::Options;
use crate::process::{self, First, Scratch};
use crate::rounds::in_runtime;
use crate::saturate::{Cost, Slices, side_by_side};
use crate::say;
use crate::target::{self, Kind, Target};
use crate::wire::Connection;
use crate::workload::{self, CLIENT_KEY, Call};

/// Connections over which hits are asked for.
const CONNECTIONS: usize = 32;
/// Questions of one round, and the connections over which they are asked.
const QUESTIONS: usize = 600;
const ASKERS: usize = 16;
/// Of ten questions so many repeat an earlier one.
const REPEATED_OF_TEN: u64 = 4;
/// The shortest answer and how much longer the longest is, in chunks, and microseconds between two.
const LEAST_CHUNKS: u64 = 10;
const MORE_CHUNKS: u64 = 51;
const CHUNK_US: u64 = 4_000;
/// The records of calls that have ended are in the metrics after so long.
const GATHERED: Duration = Duration::from_millis(500);
/// What the gateway says of an answer that it had, or that was coming already.
const HITS: [&[u8]; 2] = [b"x-mai-cache: hit", b"x-mai-cache: shared"];
/// A question that is stored, and the same in other words.
const ASKED: &str = "How do I reset my password?";
const AGAIN: &str = "How can I reset my password?";
/// What is told of each kind of hit.
const HIT: [&str; 2] = [
    "hits/s over 32 connections, over calls/s that nginx proxies",
    "CPU of a hit, over that of a call that nginx proxies",
];
const HIT_BY_MEANING: [&str; 2] =
    ["hits by meaning/s, over calls/s that nginx proxies", "CPU of a hit by meaning, over that of nginx's call"];
const HIT_OF_VECTORS: [&str; 2] =
    ["hits of 32 vectors/s, over calls/s that nginx proxies", "CPU of a hit of 32 vectors, over that of nginx's call"];
/// The longest that one round of questions may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures and prints one line for each figure.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    in_runtime(async {
        process::raise_open_files()?;
        let _first = if options.polite { None } else { First::come().ok() };
        let scratch = Scratch::make()?;
        let upstream = Target::upstream(scratch.path()).await?;
        let nginx = Target::start(Kind::Nginx, &upstream, &options.gateway, scratch.path()).await?;
        let mut gateways = Vec::new();
        for (name, mode) in [("without", "off"), ("with", "exact")] {
            let admin_port = Cell::new(0);
            let config = |port, admin| {
                admin_port.set(admin);
                config((port, admin, upstream.port), mode)
            };
            let target = Target::gateway(name, config, &upstream, &options.gateway, scratch.path()).await?;
            gateways.push(Gateway { target, admin: admin_port.get() });
        }
        let [without, with] = gateways.as_slice() else { return Err(io::Error::other("two gateways are wanted")) };
        let found = found(&with.target).await?;
        let mut figures = Figures::default();
        for round in 0..options.rounds {
            for one in &found {
                hits(&mut figures, one, (&with.target, &nginx), round).await?;
            }
            let questions = questions(round);
            let (asked_with, asked_without) = if round.is_multiple_of(2) {
                let first = ask(with, &questions).await?;
                (first, ask(without, &questions).await?)
            } else {
                let first = ask(without, &questions).await?;
                (ask(with, &questions).await?, first)
            };
            compare(&mut figures, (&asked_with, &asked_without), round);
        }
        figures.print()
    })
}

/// A gateway and its admin port.
struct Gateway {
    target: Target,
    admin: u16,
}

impl Gateway {
    /// What its calls have cost so far, as its metrics say.
    async fn cost(&self) -> io::Result<f64> {
        let mut metrics = Vec::new();
        let call = b"GET /metrics HTTP/1.1\r\nhost: bench.local\r\n\r\n";
        let body = |bytes: &[u8]| {
            metrics.extend_from_slice(bytes);
            Ok(())
        };
        Connection::open(self.admin).await?.stream_call(call, body).await?;
        let metrics = String::from_utf8_lossy(&metrics);
        let costs = metrics.lines().filter(|line| line.starts_with("mai_cost_total{"));
        Ok(costs.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

fn config(ports: (u16, u16, u16), mode: &str) -> String {
    let begins = target::begins(ports);
    format!(
        r#"{begins}
routes:
  - name: chat
    upstreams: [{{ provider: scripted, model: bench-chat, prices: {{ prompt: 1000, completion: 1000 }} }}]
    cache: {{ mode: {mode} }}
  - name: meaning
    upstreams: [{{ provider: scripted, model: bench-chat }}]
    cache: {{ mode: semantic, semantic: {{ route: embedding, threshold: 0.9 }} }}
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: scripted, model: bench-embedding }}]
    cache: {{ mode: exact }}
clients:
  - {{ name: bench, keys: ["{CLIENT_KEY}"], routes: ["*"] }}
"#
    )
}

/// Something that the cache has.
struct Found {
    name: &'static str,
    /// Its rate and its CPU, as they are printed.
    figures: [&'static str; 2],
    /// As the gateway is asked, whose stored vectors may have other digits than the upstream's, and as nginx is.
    calls: [Call; 2],
}

/// What is asked for, once the gateway has it: also the answer to a question that it knows in other words.
async fn found(with: &Target) -> io::Result<[Found; 3]> {
    let first = Connection::open(with.port).await?.call(&workload::question(ASKED).bytes).await?;
    if first.0 != 200 {
        return Err(io::Error::other(format!("the question is answered with status {}", first.0)));
    }
    // Its vector is put among the others off the way.
    tokio::time::sleep(GATHERED).await;
    let wanted = [
        ("hits", "hit", workload::short_chat(), HIT),
        ("hits by meaning", "semantic", workload::question(AGAIN), HIT_BY_MEANING),
        ("hits of 32 vectors", "hit", workload::embeddings(), HIT_OF_VECTORS),
    ];
    let mut all = Vec::new();
    for (name, word, call, figures) in wanted {
        let mut connection = Connection::open(with.port).await?;
        connection.call(&call.bytes).await?;
        let said = format!("x-mai-cache: {word}");
        let (mut is_found, mut length) = (false, 0);
        let seen = |head: &[u8]| is_found = memchr::memmem::find(head, said.as_bytes()).is_some();
        let body = |bytes: &[u8]| {
            length += bytes.len();
            Ok(())
        };
        connection.headed_call(&call.bytes, seen, body).await?;
        if !is_found {
            return Err(io::Error::other(format!("{name}: the gateway does not say `{said}`")));
        }
        let stored = Call { answer_bytes: Some(length), ..call.clone() };
        all.push(Found { name, figures, calls: [stored, call] });
    }
    all.try_into().map_err(|_| io::Error::other("three kinds of hits are wanted"))
}

/// What is answered from the cache, beside nginx, which asks the upstream for the same each time.
async fn hits(
    figures: &mut Figures,
    Found { name, figures: [rate_of, cpu_of], calls: [stored, plain] }: &Found,
    (with, nginx): (&Target, &Target),
    round: usize,
) -> io::Result<()> {
    let of = [(with, stored), (nginx, plain)];
    let take = async |at: usize, window| {
        let Some((target, call)) = of.get(at) else { return Ok(Cost::default()) };
        let taken = load::closed_loop(target.port, call, CONNECTIONS, window, &|| target.cpu_ns()).await?;
        if taken.wrong > 0 {
            return Err(io::Error::other(taken.first_wrong.unwrap_or_default()));
        }
        Ok(Cost { calls: taken.calls, elapsed_ns: taken.elapsed_ns, cpu_ns: taken.cpu_ns })
    };
    let [hit, proxied] = side_by_side(round, Slices::SHORT, take).await?;
    figures.add(rate_of, hit.rate() / proxied.rate());
    figures.add(cpu_of, hit.cpu() / proxied.cpu());
    say(&format!(
        "round {}: {name} {:.0}/s of {:.1} us, nginx {:.0} calls/s of {:.1} us",
        round + 1,
        hit.rate(),
        hit.cpu() / 1e3,
        proxied.rate(),
        proxied.cpu() / 1e3
    ));
    Ok(())
}

/// The questions of one round, each as the bytes of its call. An earlier one is repeated as often as it was asked before, which makes a few
/// of them frequent. What does not decide the answer (an id in `metadata`) is another in every call.
fn questions(round: usize) -> Vec<Vec<u8>> {
    let mut dice = fastrand::Rng::with_seed(round as u64 + 1);
    let mut asked: Vec<u64> = Vec::with_capacity(QUESTIONS);
    for at in 0..QUESTIONS {
        let is_repeated = at > 0 && dice.u64(0..10) < REPEATED_OF_TEN;
        let earlier = if is_repeated { asked.get(dice.usize(0..at)).copied() } else { None };
        asked.push(earlier.unwrap_or_else(|| dice.u64(..)));
    }
    asked.into_iter().enumerate().map(|(at, question)| call(question, at)).collect()
}

fn call(question: u64, at: usize) -> Vec<u8> {
    let passages: String = (0..5)
        .map(|n| {
            let n = question.wrapping_add(n) % 10_000;
            format!("[{n}] The contract with number {n} covers parts and labour for two years from delivery, and a repair on site within {} working days. ", n % 9 + 1)
        })
        .collect();
    let chunks = LEAST_CHUNKS + question % MORE_CHUNKS;
    workload::post(
        "/v1/chat/completions",
        &format!(
            r#"{{"model":"chat","stream":true,"stream_options":{{"include_usage":true}},"user":"bench {chunks} every {CHUNK_US}","metadata":{{"trace":"{at:08}"}},"temperature":0.2,"messages":[{{"role":"system","content":"Answer from the passages. {passages}"}},{{"role":"user","content":"What does contract {question} cover?"}}]}}"#
        ),
    )
}

/// What a round of questions came to.
struct Asked {
    /// Time to the last byte of each, ascending, nanoseconds.
    latencies: Vec<u64>,
    /// How many of them the cache has answered, an answer that was still coming included.
    hits: usize,
    /// What they cost, in whatever currency.
    cost: f64,
}

impl Asked {
    fn at(&self, percent: usize) -> f64 {
        self.latencies.get(self.latencies.len() * percent / 100).map_or(f64::NAN, |nanos| float(*nanos) / 1e6)
    }
}

/// Asks all of them over a few connections, each as soon as one is free.
async fn ask(gateway: &Gateway, questions: &[Vec<u8>]) -> io::Result<Asked> {
    let questions: Rc<[Vec<u8>]> = questions.into();
    let before = gateway.cost().await?;
    let (next, hits) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let latencies = Rc::new(RefCell::new(Vec::with_capacity(QUESTIONS)));
    let (local, mut tasks) = (LocalSet::new(), JoinSet::new());
    for _ in 0..ASKERS {
        let (questions, next, hits, latencies) = (questions.clone(), next.clone(), hits.clone(), latencies.clone());
        let port = gateway.target.port;
        let asking = async move {
            let mut connection = Connection::open(port).await?;
            while let Some(question) = questions.get(next.replace(next.get() + 1)) {
                let start = clock::now_ns();
                let mut is_hit = false;
                let seen = |head: &[u8]| is_hit = HITS.iter().any(|hit| memchr::memmem::find(head, hit).is_some());
                let status = connection.headed_call(question, seen, |_| Ok(())).await?;
                if status != 200 {
                    return Err(io::Error::other(format!("status {status}")));
                }
                latencies.borrow_mut().push(clock::now_ns() - start);
                hits.set(hits.get() + usize::from(is_hit));
            }
            Ok(())
        };
        tasks.spawn_local_on(asking, &local);
    }
    let all = local.run_until(async {
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok::<(), io::Error>(())
    });
    tokio::time::timeout(PATIENCE, all).await.map_err(io::Error::other)??;
    let mut latencies = latencies.take();
    latencies.sort_unstable();
    tokio::time::sleep(GATHERED).await;
    Ok(Asked { latencies, hits: hits.get(), cost: gateway.cost().await? - before })
}

fn compare(figures: &mut Figures, (with, without): (&Asked, &Asked), round: usize) {
    figures.add("share of questions that the cache answered", float(with.hits as u64) / float(QUESTIONS as u64));
    figures.add("cost of questions with the cache, over that without", with.cost / without.cost);
    figures.add("p50 of questions with the cache, over that without", with.at(50) / without.at(50));
    figures.add("p95 of questions with the cache, over that without", with.at(95) / without.at(95));
    say(&format!(
        "round {}: with p50 {:.1} ms, p95 {:.1} ms, {} hits of {QUESTIONS}; without p50 {:.1} ms, p95 {:.1} ms",
        round + 1,
        with.at(50),
        with.at(95),
        with.hits,
        without.at(50),
        without.at(95)
    ));
}
