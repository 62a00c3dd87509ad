//! Connections that send one call after the other, for measures that compare gateways side by side.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};

use crate::clock;
use crate::figures::float;
use crate::target::Target;
use crate::wire::Connection;

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// What connections have seen while they were counted.
#[derive(Default)]
pub(crate) struct Tally {
    counting: Cell<bool>,
    over: Cell<bool>,
    pub(crate) latencies: RefCell<Vec<u64>>,
    pub(crate) refused: Cell<u64>,
    pub(crate) answered: Cell<u64>,
}

/// One connection that sends one call after the other, at a pace where one is given.
pub(crate) async fn drive(port: u16, calls: Vec<Vec<u8>>, pace: Option<Duration>, tally: Rc<Tally>) -> io::Result<()> {
    let mut connection = Connection::open(port).await?;
    let mut beat = pace.map(tokio::time::interval);
    for call in calls.iter().cycle() {
        if tally.over.get() {
            break;
        }
        if let Some(beat) = &mut beat {
            beat.tick().await;
        }
        let start = clock::now_ns();
        let (status, _) = connection.call(call).await?;
        if !tally.counting.get() {
            continue;
        }
        match status {
            200 => {
                tally.answered.set(tally.answered.get() + 1);
                tally.latencies.borrow_mut().push(clock::now_ns() - start);
            }
            429 => tally.refused.set(tally.refused.get() + 1),
            status => return Err(io::Error::other(format!("status {status}"))),
        }
    }
    Ok(())
}

/// Runs connections for a window; their tallies are the caller's.
pub(crate) async fn load(
    drives: Vec<impl Future<Output = io::Result<()>> + 'static>,
    tallies: &[Rc<Tally>],
    window: Duration,
) -> io::Result<()> {
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    for drive in drives {
        tasks.spawn_local_on(drive, &local);
    }
    local
        .run_until(async {
            tokio::time::sleep(WARM_UP).await;
            tallies.iter().for_each(|tally| tally.counting.set(true));
            tokio::time::sleep(window).await;
            tallies.iter().for_each(|tally| {
                tally.counting.set(false);
                tally.over.set(true);
            });
            while let Some(ended) = tasks.join_next().await {
                ended.map_err(io::Error::other)??;
            }
            Ok(())
        })
        .await
}

/// Calls per second over as many connections as there are lists of calls, and CPU nanoseconds of one call.
pub(crate) async fn saturate(gateway: &Target, calls: Vec<Vec<Vec<u8>>>, window: Duration) -> io::Result<(f64, f64)> {
    let tally = Rc::new(Tally::default());
    let drives = calls.into_iter().map(|calls| drive(gateway.port, calls, None, tally.clone()));
    let cpu = gateway.cpu_ns();
    load(drives.collect(), std::slice::from_ref(&tally), window).await?;
    // Warming up is in the CPU time of all alike.
    let (calls, cpu) = (float(tally.answered.get()), float(gateway.cpu_ns() - cpu));
    Ok((calls / window.as_secs_f64(), cpu / calls))
}
