//! Load of streams: at a fixed pace until they end, or as many as the machine can carry until they are left.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use crate::clock;
use crate::load::{PATIENCE, median};
use crate::wire::{Connection, Events};
use crate::workload;

/// Connections that are being opened at the same time: fewer than any target's accept queue is long.
const OPENING: usize = 64;

/// Delays kept of one sample.
const MOST_DELAYS: usize = 1_000_000;

/// What one sample of streams saw.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Content events that arrived while counting.
    pub(crate) chunks: u64,
    /// Time of counting.
    pub(crate) elapsed_ns: u64,
    /// CPU time of the target while counting.
    pub(crate) cpu_ns: u64,
    /// Median time from the upstream's write to the caller's read.
    pub(crate) delay_p50_ns: u64,
    /// Resident bytes of the target at the end of counting.
    pub(crate) resident_bytes: u64,
    /// Streams that failed, ended early, or never began.
    pub(crate) wrong: u64,
    /// What was wrong first.
    pub(crate) first_wrong: Option<String>,
}

/// What is read from the target's processes.
pub(crate) struct Probe<'a> {
    pub(crate) cpu_ns: &'a dyn Fn() -> u64,
    pub(crate) resident_bytes: &'a dyn Fn() -> u64,
}

/// How many streams of how many chunks.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) streams: usize,
    pub(crate) chunks: u64,
    /// Time between two chunks of one stream; 0 is as fast as it goes.
    pub(crate) every_us: u64,
}

#[derive(Default)]
struct Tally {
    chunks: Cell<u64>,
    begun: Cell<usize>,
    delays: RefCell<Vec<u64>>,
    wrong: Cell<u64>,
    first_wrong: RefCell<Option<String>>,
}

impl Tally {
    fn wrong(&self, what: String) {
        self.wrong.set(self.wrong.get() + 1);
        self.first_wrong.borrow_mut().get_or_insert(what);
    }

    fn sample(&self) -> Sample {
        Sample {
            chunks: self.chunks.get(),
            delay_p50_ns: median(&mut self.delays.borrow_mut()),
            wrong: self.wrong.get(),
            first_wrong: self.first_wrong.take(),
            ..Sample::default()
        }
    }
}

/// Runs paced streams to their end; every one must bring all its chunks.
pub(crate) async fn paced(port: u16, plan: Plan, probe: &Probe<'_>) -> io::Result<Sample> {
    let tally = Rc::new(Tally::default());
    let call = Rc::new(workload::stream(plan.chunks, plan.every_us).bytes);
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    let (cpu, start) = ((probe.cpu_ns)(), clock::now_ns());
    for n in 0..plan.streams {
        // Spread over one pace, so that the chunks of all streams do not fall due together.
        let offset = Duration::from_micros(plan.every_us * n as u64 / plan.streams as u64);
        let (call, tally) = (Rc::clone(&call), Rc::clone(&tally));
        let whole = async move {
            tokio::time::sleep(offset).await;
            let before = tally.wrong.get();
            match follow(port, &call, &tally).await {
                Ok(chunks) if chunks != plan.chunks => tally.wrong(format!("{chunks} of {} chunks", plan.chunks)),
                Ok(_) => {}
                Err(error) => tally.wrong(error.to_string()),
            }
            debug_assert!(tally.wrong.get() - before <= 1);
        };
        tasks.spawn_local_on(whole, &local);
    }
    let planned = Duration::from_micros(plan.every_us * plan.chunks);
    let all = async { while tasks.join_next().await.is_some() {} };
    if local.run_until(tokio::time::timeout(planned + PATIENCE, all)).await.is_err() {
        tally.wrong("streams that never ended".into());
    }
    tasks.abort_all();
    let (cpu_ns, elapsed_ns) = ((probe.cpu_ns)().saturating_sub(cpu), clock::now_ns() - start);
    Ok(Sample { cpu_ns, elapsed_ns, resident_bytes: (probe.resident_bytes)(), ..tally.sample() })
}

/// Opens all streams, waits until each has begun, counts for `window`, and leaves them.
pub(crate) async fn crowd(port: u16, plan: Plan, window: Duration, probe: &Probe<'_>) -> io::Result<Sample> {
    let tally = Rc::new(Tally::default());
    let call = Rc::new(workload::stream(plan.chunks, plan.every_us).bytes);
    let opening = Rc::new(Semaphore::new(OPENING));
    let start = Rc::new(Semaphore::new(0));
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    for n in 0..plan.streams {
        // As in `paced`: the chunks of all streams must not fall due together.
        let offset = Duration::from_micros(plan.every_us * n as u64 / plan.streams as u64);
        let (call, tally) = (Rc::clone(&call), Rc::clone(&tally));
        let (opening, start) = (Rc::clone(&opening), Rc::clone(&start));
        let task = async move {
            let connection = {
                let _turn = opening.acquire().await;
                Connection::open(port).await
            };
            tally.begun.set(tally.begun.get() + 1);
            let _started = start.acquire().await;
            if !offset.is_zero() {
                tokio::time::sleep(offset).await;
            }
            let followed = match connection {
                Ok(connection) => read_events(connection, &call, &tally).await,
                Err(error) => Err(error),
            };
            match followed {
                Ok(chunks) => tally.wrong(format!("a stream that ended after {chunks} chunks")),
                Err(error) => tally.wrong(error.to_string()),
            }
        };
        tasks.spawn_local_on(task, &local);
    }
    let counted = local.run_until(async {
        let _ = wait_for(plan.streams, &tally).await;
        tally.begun.set(0);
        start.add_permits(plan.streams);
        if wait_for(plan.streams, &tally).await.is_err() {
            tally.wrong(format!("only {} of {} streams began", tally.begun.get(), plan.streams));
        }
        let (cpu, from, chunks) = ((probe.cpu_ns)(), clock::now_ns(), tally.chunks.get());
        tokio::time::sleep(window).await;
        Sample {
            cpu_ns: (probe.cpu_ns)().saturating_sub(cpu),
            elapsed_ns: clock::now_ns() - from,
            resident_bytes: (probe.resident_bytes)(),
            ..Sample { chunks: tally.chunks.get() - chunks, ..tally.sample() }
        }
    });
    let sample = counted.await;
    tasks.abort_all();
    Ok(sample)
}

/// Waits until `streams` have begun, or for as long as patience lasts.
async fn wait_for(streams: usize, tally: &Tally) -> Result<(), tokio::time::error::Elapsed> {
    let all = async {
        while tally.begun.get() < streams {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await
}

/// Opens one stream and reads it to its end; how many chunks it brought.
async fn follow(port: u16, call: &[u8], tally: &Tally) -> io::Result<u64> {
    read_events(Connection::open(port).await?, call, tally).await
}

async fn read_events(mut connection: Connection, call: &[u8], tally: &Tally) -> io::Result<u64> {
    let mut events = Events::default();
    let mut seen = 0;
    let status = connection.stream_call(call, |body| {
        let now = clock::now_ns();
        let before = seen;
        let mut delays = tally.delays.borrow_mut();
        events.feed(body, |sent| {
            seen += 1;
            if delays.len() < MOST_DELAYS {
                delays.push(now.saturating_sub(sent));
            }
        })?;
        if before == 0 && seen > 0 {
            tally.begun.set(tally.begun.get() + 1);
        }
        tally.chunks.set(tally.chunks.get() + seen - before);
        Ok(())
    });
    match status.await? {
        200 => Ok(seen),
        status => Err(io::Error::other(format!("status {status}"))),
    }
}
