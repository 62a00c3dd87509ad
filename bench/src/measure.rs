//! The measures: what each loads, for how long, and which figures it gives.

use std::io;
use std::time::Duration;

use crate::load;
use crate::process::OneCore;
use crate::streams::{self, Plan, Probe};
use crate::target::Target;
use crate::workload::{self, Call};

/// Connections of the measures that saturate.
const CONNECTIONS: usize = 32;

/// Streams and pace of the measure of one chunk's price.
const PACED_STREAMS: usize = 50;
const PACE_US: u64 = 10_000;

/// Streams of the crowd, and their pace: 100 chunks per second and stream, as a fast model writes.
const CROWD: usize = 1_000;
const CROWD_PACE_US: u64 = 10_000;

/// Pace of a crowd whose memory is read, and how long it is looked at.
const SLOW_PACE_US: u64 = 250_000;
const SLOW_WINDOW: Duration = Duration::from_millis(600);

/// More chunks than any crowd sees.
const ENDLESS: u64 = 1_000_000;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Short chats over one connection, everything on one core.
    Latency,
    /// Short chats over 32 connections.
    Chat,
    /// 50 streams at a fixed pace.
    Stream,
    /// 1,000 streams that ask for 100,000 chunks per second together.
    Crowd,
    /// 1,000 streams as fast as the upstream can write.
    Flood,
    Embeddings,
    Prompt,
    /// Resident memory, once before the first round.
    Memory,
}

impl Measure {
    pub(crate) const ALL: [Self; 8] = [
        Self::Latency,
        Self::Chat,
        Self::Stream,
        Self::Crowd,
        Self::Flood,
        Self::Embeddings,
        Self::Prompt,
        Self::Memory,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Chat => "chat",
            Self::Stream => "stream",
            Self::Crowd => "crowd",
            Self::Flood => "flood",
            Self::Embeddings => "embeddings",
            Self::Prompt => "prompt",
            Self::Memory => "memory",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name)
    }

    /// Length of one sample by default.
    pub(crate) const fn window(self) -> Duration {
        Duration::from_millis(match self {
            Self::Latency => 500,
            Self::Chat => 1_000,
            Self::Stream => 1_500,
            Self::Crowd => 1_000,
            Self::Flood | Self::Embeddings | Self::Prompt => 700,
            Self::Memory => 0,
        })
    }

    /// Whether the way without a proxy says something here.
    pub(crate) const fn wants_direct(self) -> bool {
        matches!(self, Self::Latency | Self::Chat | Self::Stream | Self::Crowd | Self::Flood)
    }
}

/// A figure that a measure gives, in the unit that its name ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    LatencyP50Us,
    ChatCpuUs,
    ChatCallsPerSecond,
    ChunkCpuUs,
    ChunkDelayUs,
    CrowdChunksPerSecond,
    CrowdChunkCpuUs,
    FloodChunksPerSecond,
    FloodChunkCpuUs,
    EmbeddingsCpuUs,
    EmbeddingsCallsPerSecond,
    PromptCpuUs,
    PromptCallsPerSecond,
    IdleMb,
    StreamsMb,
    FloodMb,
}

/// What one sample gave, and what went wrong in it.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) figures: Vec<(Figure, f64)>,
    pub(crate) wrong: Option<String>,
}

/// Takes one sample of `measure` on `target`.
pub(crate) async fn take(measure: Measure, target: &Target, window: Duration) -> io::Result<Taken> {
    match measure {
        Measure::Latency => {
            // Where the scheduler places three processes on few cores costs more than what is measured.
            let _held = OneCore::hold(&target.path_pids())?;
            let sample = loop_of(target, &workload::short_chat(), 1, window).await?;
            let p50_us = micros(sample.p50_ns);
            Ok(Taken { figures: vec![(Figure::LatencyP50Us, p50_us)], wrong: wrong(sample.wrong, sample.first_wrong) })
        }
        Measure::Chat => {
            let figures = (Figure::ChatCpuUs, Figure::ChatCallsPerSecond);
            saturate(target, &workload::short_chat(), window, figures).await
        }
        Measure::Embeddings => {
            let figures = (Figure::EmbeddingsCpuUs, Figure::EmbeddingsCallsPerSecond);
            saturate(target, &workload::embeddings(), window, figures).await
        }
        Measure::Prompt => {
            let figures = (Figure::PromptCpuUs, Figure::PromptCallsPerSecond);
            saturate(target, &workload::long_prompt(), window, figures).await
        }
        Measure::Stream => paced(target, window).await,
        Measure::Crowd => {
            let (sample, wrong) = crowd(target, window, CROWD_PACE_US).await?;
            let rate = rate(sample.chunks, sample.elapsed_ns);
            let cpu_us = per(sample.cpu_ns, sample.chunks);
            Ok(Taken { figures: vec![(Figure::CrowdChunksPerSecond, rate), (Figure::CrowdChunkCpuUs, cpu_us)], wrong })
        }
        Measure::Flood => {
            let (sample, wrong) = crowd(target, window, 0).await?;
            let figures = vec![
                (Figure::FloodChunksPerSecond, rate(sample.chunks, sample.elapsed_ns)),
                (Figure::FloodChunkCpuUs, per(sample.cpu_ns, sample.chunks)),
                (Figure::FloodMb, megabytes(sample.resident_bytes)),
            ];
            Ok(Taken { figures, wrong })
        }
        Measure::Memory => memory(target).await,
    }
}

async fn loop_of(target: &Target, call: &Call, connections: usize, window: Duration) -> io::Result<load::Sample> {
    load::closed_loop(target.port, call, connections, window, &|| target.cpu_ns()).await
}

/// A closed loop over 32 connections: CPU per call, and calls per second.
async fn saturate(target: &Target, call: &Call, window: Duration, names: (Figure, Figure)) -> io::Result<Taken> {
    let sample = loop_of(target, call, CONNECTIONS, window).await?;
    let figures = vec![(names.0, per(sample.cpu_ns, sample.calls)), (names.1, rate(sample.calls, sample.elapsed_ns))];
    Ok(Taken { figures, wrong: wrong(sample.wrong, sample.first_wrong) })
}

async fn paced(target: &Target, window: Duration) -> io::Result<Taken> {
    let chunks = u64::try_from(window.as_micros()).unwrap_or(u64::MAX) / PACE_US;
    let plan = Plan { streams: PACED_STREAMS, chunks: chunks.max(1), every_us: PACE_US };
    let probe = Probe { cpu_ns: &|| target.cpu_ns(), resident_bytes: &|| 0 };
    let sample = streams::paced(target.port, plan, &probe).await?;
    let figures = vec![
        (Figure::ChunkCpuUs, per(sample.cpu_ns, sample.chunks)),
        (Figure::ChunkDelayUs, micros(sample.delay_p50_ns)),
    ];
    Ok(Taken { figures, wrong: wrong(sample.wrong, sample.first_wrong) })
}

/// 1,000 streams, looked at for `window`.
async fn crowd(target: &Target, window: Duration, every_us: u64) -> io::Result<(streams::Sample, Option<String>)> {
    let plan = Plan { streams: CROWD, chunks: ENDLESS, every_us };
    let probe = Probe { cpu_ns: &|| target.cpu_ns(), resident_bytes: &|| target.resident_bytes() };
    let mut sample = streams::crowd(target.port, plan, window, &probe).await?;
    let wrong = wrong(sample.wrong, sample.first_wrong.take());
    Ok((sample, wrong))
}

async fn memory(target: &Target) -> io::Result<Taken> {
    let idle = target.resident_bytes();
    let (sample, wrong) = crowd(target, SLOW_WINDOW, SLOW_PACE_US).await?;
    let figures = vec![(Figure::IdleMb, megabytes(idle)), (Figure::StreamsMb, megabytes(sample.resident_bytes))];
    Ok(Taken { figures, wrong })
}

fn wrong(count: u64, first: Option<String>) -> Option<String> {
    first.map(|first| format!("{count} wrong, first: {first}"))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are plenty")]
const fn float(value: u64) -> f64 {
    value as f64
}

fn micros(nanoseconds: u64) -> f64 {
    float(nanoseconds) / 1e3
}

/// Microseconds per call; not a number of none.
fn per(nanoseconds: u64, calls: u64) -> f64 {
    micros(nanoseconds) / float(calls)
}

fn rate(calls: u64, nanoseconds: u64) -> f64 {
    float(calls) * 1e9 / float(nanoseconds)
}

fn megabytes(bytes: u64) -> f64 {
    float(bytes) / 1e6
}
