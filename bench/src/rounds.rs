//! The run: every measure on every target, in the same interleaved rounds, within a bound of time.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::book::{Book, Entry};
use crate::clock;
use crate::measure::{self, Measure};
use crate::options::Options;
use crate::process::{self, First, Scratch};
use crate::report;
use crate::say;
use crate::target::{Kind, Target};

/// Rest between two samples, in which streams that were left end.
const REST: Duration = Duration::from_millis(120);

/// Share of a sample's default length with `--quick`.
const QUICK: f64 = 0.3;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// Everything that is running, the upstream last so that it is stopped last.
pub(crate) struct Stage {
    pub(crate) targets: Vec<Target>,
    upstream: Target,
    pub(crate) scratch: Scratch,
    _first: Option<First>,
}

impl Stage {
    /// Starts the upstream and the targets that were asked for.
    pub(crate) async fn set(options: &Options) -> io::Result<Self> {
        process::raise_open_files()?;
        let first = if options.polite { None } else { First::come().ok() };
        if first.is_none() {
            say("not before other programs (root may, without --polite): leave the machine alone meanwhile");
        }
        let scratch = Scratch::make()?;
        let upstream = Target::upstream(scratch.path()).await?;
        let mut targets = Vec::with_capacity(options.targets.len());
        for kind in &options.targets {
            targets.push(Target::start(*kind, &upstream, &options.gateway, scratch.path()).await?);
        }
        Ok(Self { targets, upstream, scratch, _first: first })
    }

    /// CPU time of all processes of this run.
    fn cpu_ns(&self) -> u64 {
        let started = self.targets.iter().map(Target::cpu_ns).sum::<u64>();
        started + self.upstream.cpu_ns() + process::own_cpu_ns()
    }
}

/// Runs and reports; an error where a target gave wrong answers.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let book = in_runtime(async {
        let stage = Stage::set(options).await?;
        measure_all(options, &stage).await
    })?;
    report::write(options, &book)
}

/// Runs `work` on a single thread, and drops it, with all that it started, at Ctrl-C and at SIGTERM.
pub(crate) fn in_runtime<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            outcome = work => outcome,
            _ = tokio::signal::ctrl_c() => Err(io::Error::other("stopped by Ctrl-C")),
            _ = terminate.recv() => Err(io::Error::other("stopped by SIGTERM")),
        }
    })
}

async fn measure_all(options: &Options, stage: &Stage) -> io::Result<Book> {
    let (start, machine, ours) = (clock::now_ns(), process::machine_cpu_ns(), stage.cpu_ns());
    let mut book = Book::default();
    if options.measures.contains(&Measure::Memory) {
        for target in stage.targets.iter().filter(|target| target.kind != Kind::Direct) {
            sample(&mut book, Measure::Memory, target, Duration::ZERO).await?;
        }
    }
    let mut longest = 0.0_f64;
    for round in 0..options.rounds {
        let began = seconds_since(start);
        if round > 0 && began + longest > options.max_seconds {
            say(&format!("the time for another round is not left: {round} of {} rounds", options.rounds));
            break;
        }
        book.rounds = round + 1;
        measure_round(options, stage, &mut book).await?;
        longest = longest.max(seconds_since(start) - began);
    }
    book.seconds = seconds_since(start);
    let foreign = (process::machine_cpu_ns() - machine).saturating_sub(stage.cpu_ns() - ours);
    book.foreign_share = share(foreign, book.seconds, process::cores());
    Ok(book)
}

async fn measure_round(options: &Options, stage: &Stage, book: &mut Book) -> io::Result<()> {
    let targets = stage.targets.len();
    for measure in options.measures.iter().filter(|measure| **measure != Measure::Memory) {
        // Each round begins with another target: who comes first after a rest has no steady advantage.
        for turn in 0..targets {
            let Some(target) = stage.targets.get((turn + book.rounds) % targets) else { continue };
            if target.kind == Kind::Direct && !measure.wants_direct() {
                continue;
            }
            let scale = if options.quick { QUICK } else { 1.0 };
            let window = options.seconds.map_or(measure.window().mul_f64(scale), Duration::from_secs_f64);
            sample(book, *measure, target, window).await?;
        }
    }
    Ok(())
}

/// Takes one sample, writes it into the book and says so.
async fn sample(book: &mut Book, measure: Measure, target: &Target, window: Duration) -> io::Result<()> {
    let round = book.rounds.saturating_sub(1);
    let taken = measure::take(measure, target, window).await?;
    let figures: Vec<String> = taken.figures.iter().map(|(figure, value)| report::figure(*figure, *value)).collect();
    say(&format!("round {}  {:<10} {:<8} {}", round + 1, measure.name(), target.kind.name(), figures.join("   ")));
    for (figure, value) in taken.figures {
        book.entries.push(Entry { round, kind: target.kind, figure, value });
    }
    if let Some(wrong) = taken.wrong {
        let wrong = format!("{} on {}, round {}: {wrong}", measure.name(), target.kind.name(), round + 1);
        say(&format!("         WRONG: {wrong}"));
        book.wrong.push(wrong);
    }
    tokio::time::sleep(REST).await;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are plenty")]
fn seconds_since(start_ns: u64) -> f64 {
    (clock::now_ns() - start_ns) as f64 / SECOND_NS
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are plenty")]
fn share(foreign_ns: u64, seconds: f64, cores: usize) -> f64 {
    foreign_ns as f64 / SECOND_NS / seconds / cores as f64
}
