//! What a request record costs: noted in memory, and written to disk behind it. `cargo bench -p drivers --bench keeping`
//!
//! The first number is time on the thread that notes; the second is processor time of all threads, of the one that
//! compresses and writes among them, for each record.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "figures are read in a terminal")]

use std::time::Duration;

use base::{Attempt, AttemptOutcome, Cached, Clock, Cost, Decision, Endpoint, Noted, Outcome, Record, Usage};
use drivers::SqliteRequests;
use state::requests::{Bounds, Requests, Search};

const RECORDS: u64 = 2_000_000;
/// As many as a busy gateway gathers at a time.
const GATHERED: usize = 400;

fn records() -> Vec<Record> {
    let name = |name: &str, count: usize| -> Vec<std::sync::Arc<str>> {
        (0..count).map(|at| format!("{name}-{at}").into()).collect()
    };
    let (clients, routes, upstreams) = (name("team", 20), name("route", 6), name("cloud/model", 8));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let mut one = |at: usize| {
        let upstream = upstreams[at % 8].clone();
        let id = format!("{:016x}{:016x}", random(), random());
        let took = Duration::from_micros(200 + random() % 50_000);
        let tried = Attempt {
            upstream: upstream.clone(),
            outcome: AttemptOutcome::Ok,
            status: Some(200),
            at: Duration::from_micros(60 + random() % 40),
            took,
            is_anothers: false,
            is_drill: false,
            span: None,
        };
        Record {
            client: Some(clients[at % 20].clone()),
            route: Some(routes[at % 6].clone()),
            endpoint: Some(Endpoint::Chat),
            upstream: Some(upstream),
            model: Some("model".into()),
            attempts: [tried].into_iter().collect(),
            decisions: [Noted { at: Duration::from_micros(40), decision: Decision::Cache(Cached::Miss) }]
                .into_iter()
                .collect(),
            status: 200,
            outcome: Outcome::Ok,
            usage: Some(Usage { prompt: 300 + random() % 3_000, completion: random() % 900, ..Usage::default() }),
            cost: Some(Cost { nanos: 1_000 * (random() % 4_000), currency: "USD".into() }),
            took,
            overhead: Duration::from_micros(50 + random() % 60),
            cache: Some(Cached::Miss),
            ..Record::begun(Clock.wall(), id.into())
        }
    };
    (0..20_000).map(&mut one).collect()
}

/// Processor time of the process so far.
fn spent() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn main() {
    let folder = std::env::temp_dir().join(format!("mai-keeping-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bounds = Bounds { keep: Duration::from_secs(86_400), size: 1 << 30, contents: false };
    let requests = SqliteRequests::open(&folder, bounds).unwrap();
    let records = records();
    let (began, before) = (Clock.now(), spent());
    let mut noting = Duration::ZERO;
    for round in 0..RECORDS.div_ceil(GATHERED as u64) {
        let at = (round as usize * GATHERED) % records.len();
        let now = Clock.now();
        requests.note(&records[at..at + GATHERED]);
        noting += now.elapsed();
        // No more waits than memory takes.
        while requests.health().waiting > 200_000 {
            requests.flush(Duration::from_secs(30));
        }
    }
    assert!(requests.flush(Duration::from_secs(60)));
    let (took, cpu) = (began.elapsed(), spent() - before);
    let each = |time: Duration| time.as_nanos() as f64 / RECORDS as f64;
    let bytes: u64 = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    println!("noted   {:7.0} ns a record", each(noting));
    println!("in all  {:7.0} ns of processor time a record ({:.1} s for {RECORDS})", each(cpu), took.as_secs_f64());
    println!("on disk {:7.1} bytes a record, lost {}", bytes as f64 / RECORDS as f64, requests.health().lost);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let now = Clock.now();
    let found = runtime.block_on(async { requests.find("nobody").await }).unwrap();
    println!("an id that is nowhere: {:.1} ms {}", now.elapsed().as_secs_f64() * 1e3, found.is_some());
    let now = Clock.now();
    let search = Search { client: Some("team-3".into()), status: Some((500, 599)), limit: 100, ..Search::default() };
    let page = runtime.block_on(async { requests.search(search).await }).unwrap();
    println!(
        "a search that finds nothing: {:.1} ms, goes on: {}",
        now.elapsed().as_secs_f64() * 1e3,
        page.next.is_some()
    );
    let now = Clock.now();
    let search =
        Search { client: Some("team-3".into()), limit: 100, until: Some(records[5].time), ..Search::default() };
    let page = runtime.block_on(async { requests.search(search).await }).unwrap();
    println!(
        "a page of unpacked blocks: {:.1} ms, {} found, goes on: {}",
        now.elapsed().as_secs_f64() * 1e3,
        page.requests.len(),
        page.next.is_some()
    );
    drop(requests);
    std::fs::remove_dir_all(&folder).unwrap();
}
