//! `/metrics` as Prometheus reads it: its text format, version 0.0.4.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use base::Record;
use gateway::quota::ledger::Stores;
use gateway::records::metrics::METRICS;
use state::requests::{Bounds, Content, Health, Page, Request, Search};
use state::{Answer, InProcessRequests, Requests, Unreadable};
use testkit::{Reply, chat, embeddings, rerank, story};

use crate::stage::{KEY, Stage, USUAL, pleasant, usual_but, without_waits};

/// One line of a sample: its name, its labels in their order, and its value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Takes the letters in front for which `is` holds.
fn take(text: &mut &str, is: impl Fn(usize, char) -> bool) -> String {
    let end = text.char_indices().find(|(at, letter)| !is(*at, *letter)).map_or(text.len(), |(at, _)| at);
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken.to_owned()
}

fn sample(line: &str) -> Sample {
    let mut rest = line;
    let is_name =
        |at: usize, letter: char| letter.is_ascii_alphabetic() || letter == '_' || (at > 0 && letter.is_ascii_digit());
    let name = take(&mut rest, is_name);
    assert!(!name.is_empty(), "{line}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let label = take(&mut rest, is_name);
            rest = rest.strip_prefix("=\"").unwrap_or_else(|| panic!("{line}"));
            let mut value = String::new();
            loop {
                let letter = rest.chars().next().unwrap_or_else(|| panic!("{line}"));
                rest = rest.split_at(letter.len_utf8()).1;
                match letter {
                    '"' => break,
                    '\\' => {
                        let escaped = rest.chars().next().filter(|escaped| "\\\"n".contains(*escaped));
                        value.push(escaped.unwrap_or_else(|| panic!("an escape that there is not: {line}")));
                        rest = rest.split_at(1).1;
                    }
                    letter => value.push(letter),
                }
            }
            labels.push((label, value));
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').and_then(|value| value.parse().ok());
    Sample { name, labels, value: value.unwrap_or_else(|| panic!("no value: {line}")) }
}

/// Reads a whole exposition, and asserts what the format asks for: each family once and together, behind its HELP
/// and TYPE; each series once; buckets that add up.
fn read(text: &str) -> BTreeMap<String, String> {
    assert!(text.ends_with('\n') && !text.contains('\r'), "lines end in one line feed");
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut helped = HashSet::new();
    let mut series = HashSet::new();
    let (mut family, mut buckets) = (String::new(), BTreeMap::<String, (f64, f64)>::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, meaning) = help.split_once(' ').expect("a sentence");
            assert!(helped.insert(name.to_owned()) && !meaning.trim().is_empty(), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a kind");
            assert!(helped.contains(name) && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            name.clone_into(&mut family);
            buckets.clear();
        } else {
            let sample = sample(line);
            let kind = &*kinds[&family];
            let suffix = sample.name.strip_prefix(&*family).unwrap_or_else(|| panic!("not under its family: {line}"));
            let fits =
                if kind == "histogram" { ["_bucket", "_sum", "_count"].contains(&suffix) } else { suffix.is_empty() };
            assert!(fits, "{kind}: {line}");
            assert!(series.insert(format!("{} {:?}", sample.name, sample.labels)), "twice: {line}");
            assert!(kind == "gauge" || sample.value >= 0.0, "{line}");
            let others: Vec<_> = sample.labels.iter().filter(|(name, _)| name != "le").collect();
            let last = buckets.entry(format!("{others:?}")).or_insert((f64::NEG_INFINITY, 0.0));
            match suffix {
                "_bucket" => {
                    let bound = &sample.labels.iter().find(|(name, _)| name == "le").expect("a bound").1;
                    let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                    assert!(bound > last.0 && sample.value >= last.1, "{line}");
                    *last = (bound, sample.value);
                }
                "_count" => assert_eq!(*last, (f64::INFINITY, sample.value), "{line}"),
                _ => {}
            }
        }
    }
    kinds
}

#[test]
fn what_prometheus_reads_is_in_its_format_and_every_family_is_of_the_table() {
    story(async {
        let odd = "\\\"quoted\\\" back\\\\slash";
        let config = without_waits(&crate::stage::usual_but("name: narrow", &format!("name: \"{odd}\"")));
        let stage = Stage::set(&config);
        stage.host("a", Reply::status(500));
        stage.host("b", pleasant());
        for ask in [chat("chat").user("Hi"), chat("chat").user("Hi").stream(), embeddings("embedding", "x")] {
            assert_eq!(stage.ask(ask).await.status, 200);
        }
        for key in [KEY, "sk-narrow", "sk-nobody"] {
            stage.caller().ask(&rerank("rerank", "which", ["one", "two"]).key(key)).await;
        }
        stage.comes_to_rest().await;
        let text = stage.metrics();
        assert!(text.contains(r#"client="\"quoted\" back\\slash""#), "{text}");
        let kinds = read(&text);
        for (name, kind) in &kinds {
            let row = METRICS.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} is in no table"));
            assert_eq!(row.kind, kind, "{name}");
        }
        assert!(kinds.len() > 25, "{kinds:?}");
    });
}

#[test]
fn every_metric_that_the_contract_names_is_of_the_table() {
    let contract = include_str!("../../../../docs/contract.md");
    let named = contract.split('`').skip(1).step_by(2).filter(|code| code.starts_with("mai_"));
    let named: Vec<&str> = named.map(|code| code.split('{').next().unwrap_or_default()).collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        assert!(METRICS.iter().any(|row| row.name == name), "{name}");
    }
}

/// The usual gateway with so many clients more.
fn with_clients(count: usize) -> String {
    let clients: Vec<String> =
        (0..count).map(|at| format!("  - {{ name: c{at}, keys: [sk-c{at}], routes: [\"*\"] }}\n")).collect();
    format!("{USUAL}{}", clients.concat())
}

#[test]
fn series_of_clients_that_are_gone_are_dropped_some_scrapes_later() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        let before = stage.metrics().lines().count();
        stage.reload(&with_clients(1000));
        let mut caller = stage.caller();
        for at in 0..1000 {
            assert_eq!(caller.ask(&chat("chat").user("Hi").key(&format!("sk-c{at}"))).await.status, 200);
        }
        let most = stage.metrics().lines().count();
        assert!(most >= before + 4000, "{most} after {before}");
        stage.reload(&with_clients(1));
        assert_eq!(stage.metrics().lines().count(), most, "what they did last can still be read");
        tokio::time::sleep(Duration::from_secs(601)).await;
        let after = stage.metrics();
        assert!(after.lines().count() <= before + 10, "{after}");
        let series = |client: &str| {
            format!("mai_requests_total{{cache=\"\",client=\"{client}\",outcome=\"ok\",route=\"chat\",status=\"200\"}}")
        };
        assert_eq!((stage.metric(&series("app")), stage.metric(&series("c0"))), (1.0, 1.0), "who is there stays");
        // A name that comes back begins anew, and counts.
        stage.reload(&with_clients(8));
        assert_eq!(stage.caller().ask(&chat("chat").user("Hi").key("sk-c7")).await.status, 200);
        assert_eq!(stage.metric(&series("c7")), 1.0);
    });
}

#[test]
fn series_of_routes_upstreams_and_providers_that_are_gone_are_dropped_too() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Reply::status(500));
        stage.host("b", pleasant());
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        let of = |text: &str| stage.metrics().lines().filter(|line| line.contains(text)).count();
        assert!(of("\"chat\"") > 0 && of("a/model-a") > 0);
        stage.reload(&usual_but("name: chat", "name: talk").replace("model-a", "model-c"));
        assert!(of("\"chat\"") > 0 && of("a/model-a") > 0);
        tokio::time::sleep(Duration::from_secs(601)).await;
        assert_eq!((of("\"chat\""), of("a/model-a")), (0, 0), "{}", stage.metrics());
        assert!(of("b/model-b") > 0, "an upstream that stays has its series");
    });
}

/// Records that have lost three, and that notice whether two ask at a time how they do.
#[derive(Debug, Default)]
struct Noticing(InProcessRequests, Mutex<(usize, usize)>, Condvar);

impl Requests for Noticing {
    fn note(&self, records: &[Record]) {
        self.0.note(records);
    }

    fn keep(&self, contents: Vec<Content>) {
        self.0.keep(contents);
    }

    fn find(&self, request_id: &str) -> Answer<Result<Option<Box<Request>>, Unreadable>> {
        self.0.find(request_id)
    }

    fn content(&self, request_id: &str) -> Answer<Result<Option<Content>, Unreadable>> {
        self.0.content(request_id)
    }

    fn search(&self, search: Search) -> Answer<Result<Page, Unreadable>> {
        self.0.search(search)
    }

    fn bound(&self, bounds: Bounds) {
        self.0.bound(bounds);
    }

    fn health(&self) -> Health {
        let mut inside = self.1.lock().unwrap();
        inside.0 += 1;
        inside.1 = inside.1.max(inside.0);
        self.2.notify_all();
        // Whoever could come in meanwhile does within this time.
        let alone = |inside: &mut (usize, usize)| inside.1 < 2;
        let mut inside = self.2.wait_timeout_while(inside, Duration::from_millis(200), alone).unwrap().0;
        inside.0 -= 1;
        Health { lost: 3, ..Health::default() }
    }

    fn flush(&self, patience: Duration) -> bool {
        self.0.flush(patience)
    }
}

#[test]
fn losses_are_read_by_one_at_a_time_so_that_none_is_counted_twice() {
    story(async {
        let records = Arc::<Noticing>::default();
        let stores = Stores { records: records.clone(), ..Stores::default() };
        let stage = Stage::keeping(USUAL, stores);
        let live = &stage.live;
        std::thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| live.metrics_text())));
        });
        assert_eq!(records.1.lock().unwrap().1, 1, "two at a time were told of the same losses");
        assert_eq!(stage.metric("mai_request_records_lost_total{kind=\"record\"}"), 3.0);
    });
}

#[test]
fn two_who_read_at_a_time_both_read_all_of_it() {
    story(async {
        let stage = Stage::set(&with_clients(10));
        let live = &stage.live;
        let gauges = |text: Vec<u8>| {
            let text = String::from_utf8(text).unwrap();
            let is_filled_again = |line: &&str| {
                ["mai_inflight_requests{", "mai_queue_depth{", "mai_breaker_state{", "mai_cache_bytes{"]
                    .iter()
                    .any(|name| line.starts_with(name))
            };
            text.lines().filter(is_filled_again).count()
        };
        let all = gauges(live.metrics_text());
        assert!(all > 10, "{all}");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(gauges(live.metrics_text()), all);
                    }
                });
            }
        });
    });
}
