//! The index of the semantic cache: how fast it finds, how much of what an exact search finds, what it takes of memory, and what
//! writing beside it does to those who search.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use semantic::index::{Bounds, Id, Index, NotStored, Partition};

use crate::clock::now_ns;
use crate::process::First;
use crate::say;
use crate::vectors::{Numbers, Sentences, cosine, towards, unit};

const USAGE: &str = "\
usage: bench nearest [options]     how the index of the semantic cache finds the nearest vectors

  --entries N       vectors in one partition (100000)
  --dimensions D    numbers in each (1024)
  --seconds S       length of one sample (3)
  --polite          does not run before other programs of the machine";

/// Questions that are asked again and again, and for which the exact answer is computed.
const ASKED: usize = 300;
/// Neighbours wanted.
const WANTED: usize = 8;
/// Least similarities that are tried.
const LEAST: [f32; 4] = [0.9, 0.8, 0.7, -1.0];
/// Entries that share a topic, and a question.
const OF_A_TOPIC: usize = 200;
const OF_A_QUESTION: usize = 3;
const PARTITION: Partition = Partition([1; 32]);

struct Options {
    entries: usize,
    dimensions: usize,
    nanos: u64,
    polite: bool,
}

impl Options {
    fn parse(words: &[String]) -> io::Result<Self> {
        let mut options = Self { entries: 100_000, dimensions: 1_024, nanos: 3_000_000_000, polite: false };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            if flag == "--polite" {
                options.polite = true;
                continue;
            }
            let number = words.next().and_then(|value| value.parse::<usize>().ok()).filter(|number| *number > 0);
            let number = number.ok_or_else(|| wrong(flag))?;
            match flag.as_str() {
                "--entries" => options.entries = number.max(10 * WANTED),
                "--dimensions" => options.dimensions = number,
                "--seconds" => options.nanos = number as u64 * 1_000_000_000,
                _ => return Err(wrong(flag)),
            }
        }
        Ok(options)
    }
}

fn wrong(flag: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{flag}: not known, or its number is missing\n\n{USAGE}"))
}

/// Measures vectors like those of sentences, and vectors without any order.
pub(crate) fn run(words: &[String]) -> io::Result<()> {
    let options = Options::parse(words)?;
    let _first = if options.polite { None } else { First::come().ok() };
    let sentences = Data::sentences(&options);
    measure("sentences", &sentences, &options)?;
    drop(sentences);
    measure("uniform", &Data::uniform(&options), &options)
}

/// What is stored, and what is asked.
struct Data {
    stored: Vec<Vec<f32>>,
    asked: Vec<Vec<f32>>,
}

impl Data {
    /// Half of what is asked is another wording of a stored question, half is a question of a known topic.
    fn sentences(options: &Options) -> Self {
        let mut sentences = Sentences::new(options.dimensions, (options.entries / OF_A_TOPIC).max(1), 1);
        let mut numbers = Numbers::new(2);
        let questions: Vec<_> = (0..options.entries / OF_A_QUESTION).map(|_| sentences.question()).collect();
        let mut wording = |is_known: bool| {
            let question = if is_known { None } else { Some(sentences.question()) };
            let known = questions.get(numbers.below(questions.len()));
            sentences.wording(question.as_ref().or(known).map(Vec::as_slice).unwrap_or_default())
        };
        let stored = (0..options.entries).map(|_| wording(true)).collect();
        Self { stored, asked: (0..ASKED).map(|at| wording(at % 2 == 0)).collect() }
    }

    /// What is asked is a stored vector, moved a little or more.
    fn uniform(options: &Options) -> Self {
        let mut numbers = Numbers::new(1);
        let stored: Vec<_> = (0..options.entries).map(|_| numbers.direction(options.dimensions)).collect();
        let asked = (0..ASKED).map(|_| {
            let from = stored.get(numbers.below(stored.len())).map(Vec::as_slice).unwrap_or_default();
            let to = numbers.direction(options.dimensions);
            towards(from, &to, 0.7 + 0.29 * numbers.share())
        });
        let asked = asked.collect();
        Self { stored, asked }
    }

    /// The exact answers: similarity and entry, the best first.
    fn truth(&self) -> Vec<Vec<(f32, Id)>> {
        let halves = self.asked.chunks(ASKED.div_ceil(2));
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                halves.map(|half| scope.spawn(|| half.iter().map(|asked| self.best(asked)).collect())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|_| Vec::new())).collect()
        })
    }

    fn best(&self, asked: &[f32]) -> Vec<(f32, Id)> {
        let mut all: Vec<_> = self.stored.iter().zip(0..).map(|(stored, id)| (cosine(stored, asked), id)).collect();
        all.select_nth_unstable_by(WANTED, |left, right| right.0.total_cmp(&left.0));
        all.truncate(WANTED);
        all.sort_by(|left, right| right.0.total_cmp(&left.0));
        all
    }
}

fn measure(name: &str, data: &Data, options: &Options) -> io::Result<()> {
    let mut text = format!("{name}: {} vectors of {} numbers\n", data.stored.len(), options.dimensions);
    say(&format!("{name}: searching exactly"));
    let truth = data.truth();
    let index = Index::new(Bounds { entries: data.stored.len() as u64, bytes: u64::MAX });
    let (started, mut longest) = (now_ns(), 0);
    for (vector, id) in data.stored.iter().zip(0..) {
        let began = now_ns();
        index.insert(&PARTITION, id, vector).map_err(not_stored)?;
        longest = longest.max(now_ns() - began);
    }
    let took = seconds(now_ns() - started);
    let _ = writeln!(
        text,
        "  built in {took:.2} s, {:.0} entries/s, the longest insert {:.1} ms; {:.0} MB",
        data.stored.len() as f64 / took,
        longest as f64 / 1e6,
        index.bytes() as f64 / 1e6
    );
    for least in LEAST {
        say(&format!("{name}: searching above {least}"));
        let recall = recall(&index, data, &truth, least);
        let _ = writeln!(text, "  above {least}: {recall}");
        for (searchers, writes) in [(1, false), (2, false), (1, true)] {
            let (times, written) = search(&index, data, least, (searchers, writes), options.nanos)?;
            let beside = if writes { format!(" beside {written:.0} replacements/s") } else { String::new() };
            let _ = writeln!(text, "    {searchers} searching{beside}: {times}");
        }
    }
    io::stdout().write_all(text.as_bytes())
}

/// How much of what is similar enough is found: the nearest of each question, and all.
fn recall(index: &Index, data: &Data, truth: &[Vec<(f32, Id)>], least: f32) -> String {
    let (mut first, mut firsts, mut found, mut all) = (0_u32, 0_u32, 0_u32, 0_u32);
    for (asked, truth) in data.asked.iter().zip(truth) {
        let nearest = index.nearest(&PARTITION, asked, WANTED, least);
        let has = |id: Id| u32::from(nearest.iter().any(|neighbour| neighbour.id == id));
        let mut near = truth.iter().filter(|(similarity, _)| *similarity >= least).peekable();
        if let Some((_, id)) = near.peek() {
            firsts += 1;
            first += has(*id);
        }
        for (_, id) in near {
            all += 1;
            found += has(*id);
        }
    }
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1));
    format!(
        "recall of the nearest {:.4} of {firsts}, of the nearest {WANTED} {:.4} of {all}",
        share(first, firsts),
        share(found, all)
    )
}

/// The times of searches from so many threads, and how many entries were replaced each second meanwhile.
fn search(
    index: &Index,
    data: &Data,
    least: f32,
    (searchers, writes): (usize, bool),
    nanos: u64,
) -> io::Result<(String, f64)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = writes.then(|| scope.spawn(|| replace(index, data, &is_over)));
        let threads: Vec<_> = (0..searchers)
            .map(|searcher| {
                scope.spawn(move || {
                    let (mut times, started) = (Vec::new(), now_ns());
                    for asked in data.asked.iter().cycle().skip(searcher * ASKED / 2) {
                        let began = now_ns();
                        std::hint::black_box(index.nearest(&PARTITION, asked, WANTED, least));
                        let ended = now_ns();
                        times.push(ended - began);
                        if ended - started > nanos {
                            break;
                        }
                    }
                    times
                })
            })
            .collect();
        let mut times: Vec<u64> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|_| Vec::new())).collect();
        is_over.store(true, Ordering::Relaxed);
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 1_000).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3);
        let line =
            format!("p50 {:.0} µs, p90 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs", at(500), at(900), at(990), at(999));
        let written = match writer.map(std::thread::ScopedJoinHandle::join) {
            Some(written) => written.map_err(|_| io::Error::other("the writer failed"))??,
            None => 0,
        };
        Ok((line, written as f64 / seconds(nanos)))
    })
}

/// Replaces entries by vectors like them, one after the other as fast as it goes, until it is over. What is near to a
/// question stays near to it.
fn replace(index: &Index, data: &Data, is_over: &AtomicBool) -> io::Result<u64> {
    let mut written = 0;
    for (vector, id) in data.stored.iter().zip(0..).cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        index.insert(&PARTITION, id, &unit(vector.clone())).map_err(not_stored)?;
        written += 1;
    }
    Ok(written)
}

fn not_stored(error: NotStored) -> io::Error {
    io::Error::other(error.to_string())
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
