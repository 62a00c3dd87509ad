//! One target under one measure with `perf` beside it: where its time goes.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::measure::{self, Measure};
use crate::options::Options;
use crate::process::Started;
use crate::rounds::{Stage, in_runtime};
use crate::say;
use crate::target::Kind;

/// Length of a profile by default.
const SECONDS: f64 = 8.0;

/// Samples per second and thread; off the beat of timers.
const FREQUENCY: &str = "1997";

/// Lines of each list of functions.
const LINES: usize = 40;

/// Profiles the last target that was asked for under each measure that was asked for.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let mut options = options.clone();
    let kind = options.targets.last().copied().unwrap_or(Kind::Gateway);
    options.targets = vec![kind];
    in_runtime(async {
        let stage = Stage::set(&options).await?;
        for measure in &options.measures {
            if *measure != Measure::Memory {
                profile(&options, &stage, *measure).await?;
            }
        }
        Ok(())
    })
}

async fn profile(options: &Options, stage: &Stage, measure: Measure) -> io::Result<()> {
    let target = stage.targets.last().ok_or_else(|| io::Error::other("no target"))?;
    let window = Duration::from_secs_f64(options.seconds.unwrap_or(SECONDS));
    let name = format!("{}-{}", target.kind.name(), measure.name());
    let data = options.perf.clone().unwrap_or_else(|| stage.scratch.path().join(format!("{name}.data")));
    let data = data.to_string_lossy().into_owned();
    let pids: Vec<String> = target.pids().iter().map(u32::to_string).collect();
    let seconds = (window.as_secs_f64() + 0.2).to_string();
    let words =
        ["perf", "record", "-q", "-g", "-F", FREQUENCY, "-o", &data, "-p", &pids.join(","), "--", "sleep", &seconds];
    let mut perf = Started::start(stage.scratch.path(), "perf", &words.map(String::from), &[])?;
    let taken = measure::take(measure, target, window).await?;
    for (figure, value) in &taken.figures {
        say(&format!("{name}: {}", crate::report::figure(*figure, *value)));
    }
    for _ in 0..100 {
        if perf.ended() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let report = Command::new("perf")
        .args(["report", "-q", "-i", &data, "--no-children", "-g", "none", "--stdio", "--sort", "dso,symbol"])
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&report.stdout);
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    list(&format!("{name}, share of all time"), lines().take(LINES))?;
    list(&format!("{name}, outside the kernel"), lines().filter(|line| !line.contains("[k]")).take(LINES))
}

fn list<'a>(title: &str, lines: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{title}")?;
    for line in lines {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
