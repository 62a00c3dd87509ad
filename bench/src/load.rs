//! Closed-loop load: each connection sends its next call when the answer to the last one is whole.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::clock;
use crate::wire::Connection;
use crate::workload::Call;

/// Calls before the counting begins.
const WARM_UP: Duration = Duration::from_millis(100);

/// What a measure may take longer than planned before it counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Latencies kept of one sample.
const MOST_LATENCIES: usize = 1_000_000;

/// Wrong answers after which a connection gives up.
const MOST_WRONG: u64 = 20;

/// What one sample of a closed loop saw.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Right answers within the window.
    pub(crate) calls: u64,
    /// The window's length.
    pub(crate) elapsed_ns: u64,
    /// CPU time of the target within the window.
    pub(crate) cpu_ns: u64,
    /// Median time of one call.
    pub(crate) p50_ns: u64,
    /// Answers that were not what was asked for, and lost connections.
    pub(crate) wrong: u64,
    /// What was wrong first.
    pub(crate) first_wrong: Option<String>,
}

/// Shared by the connections of one sample.
#[derive(Default)]
struct Tally {
    counting: Cell<bool>,
    over: Cell<bool>,
    calls: Cell<u64>,
    latencies: RefCell<Vec<u64>>,
    wrong: Cell<u64>,
    first_wrong: RefCell<Option<String>>,
}

impl Tally {
    fn wrong(&self, what: String) {
        self.wrong.set(self.wrong.get() + 1);
        self.first_wrong.borrow_mut().get_or_insert(what);
    }
}

/// Loads `port` over `connections` for `window`, and reads the target's CPU time with `cpu_ns` at both ends of it.
pub(crate) async fn closed_loop(
    port: u16,
    call: &Call,
    connections: usize,
    window: Duration,
    cpu_ns: &dyn Fn() -> u64,
) -> io::Result<Sample> {
    let tally = Rc::new(Tally::default());
    let call = Rc::new(call.clone());
    let local = LocalSet::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        tasks.spawn_local_on(drive(port, Rc::clone(&call), Rc::clone(&tally)), &local);
    }
    let window = local.run_until(async {
        tokio::time::sleep(WARM_UP).await;
        let (cpu, start) = (cpu_ns(), clock::now_ns());
        tally.counting.set(true);
        tokio::time::sleep(window).await;
        tally.counting.set(false);
        let (cpu, elapsed_ns) = (cpu_ns().saturating_sub(cpu), clock::now_ns() - start);
        tally.over.set(true);
        if tokio::time::timeout(PATIENCE, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
            tally.wrong("an answer that never came".into());
        }
        (cpu, elapsed_ns)
    });
    let (cpu_ns, elapsed_ns) = window.await;
    tasks.abort_all();
    let mut latencies = tally.latencies.take();
    Ok(Sample {
        calls: tally.calls.get(),
        elapsed_ns,
        cpu_ns,
        p50_ns: median(&mut latencies),
        wrong: tally.wrong.get(),
        first_wrong: tally.first_wrong.take(),
    })
}

/// One connection's loop; a lost connection is opened anew.
async fn drive(port: u16, call: Rc<Call>, tally: Rc<Tally>) {
    while !tally.over.get() && tally.wrong.get() < MOST_WRONG {
        if let Err(error) = converse(port, &call, &tally).await {
            tally.wrong(error.to_string());
        }
    }
}

async fn converse(port: u16, call: &Call, tally: &Tally) -> io::Result<()> {
    let mut connection = Connection::open(port).await?;
    while !tally.over.get() && tally.wrong.get() < MOST_WRONG {
        let start = clock::now_ns();
        let (status, bytes) = connection.call(&call.bytes).await?;
        if status != 200 || call.answer_bytes.is_some_and(|wanted| wanted != bytes) {
            tally.wrong(format!("status {status} with a body of {bytes} bytes"));
            continue;
        }
        if tally.counting.get() {
            tally.calls.set(tally.calls.get() + 1);
            let mut latencies = tally.latencies.borrow_mut();
            if latencies.len() < MOST_LATENCIES {
                latencies.push(clock::now_ns() - start);
            }
        }
    }
    Ok(())
}

/// The middle one of `values`; 0 of none.
pub(crate) fn median(values: &mut [u64]) -> u64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}
