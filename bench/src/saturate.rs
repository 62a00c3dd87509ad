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

/// How long each of several targets is measured in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices {
    pub(crate) count: usize,
    pub(crate) length: Duration,
}

impl Slices {
    /// In turn with what it is compared to: a machine that others use too is faster and slower by the second.
    pub(crate) const SHORT: Self = Self { count: 3, length: Duration::from_millis(700) };
    /// At once, for what is done now and then: several commits of the records' file.
    pub(crate) const LONG: Self = Self { count: 1, length: Duration::from_secs(3) };
}

/// What calls have cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) calls: u64,
    /// The time in which they were made, nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// CPU time of who served them, nanoseconds.
    pub(crate) cpu_ns: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.elapsed_ns += other.elapsed_ns;
        self.cpu_ns += other.cpu_ns;
    }

    /// Calls per second.
    pub(crate) fn rate(self) -> f64 {
        float(self.calls) * 1e9 / float(self.elapsed_ns.max(1))
    }

    /// CPU nanoseconds of one call.
    pub(crate) fn cpu(self) -> f64 {
        float(self.cpu_ns) / float(self.calls.max(1))
    }
}

/// What each of several targets costs: in slices, of which none has the steady advantage of coming first. `take`
/// measures the target at this place for so long.
pub(crate) async fn side_by_side<const N: usize>(
    round: usize,
    slices: Slices,
    mut take: impl AsyncFnMut(usize, Duration) -> io::Result<Cost>,
) -> io::Result<[Cost; N]> {
    let mut costs = [Cost::default(); N];
    for slice in 0..slices.count {
        for turn in 0..N {
            let turn = if slice.is_multiple_of(2) { turn } else { N - 1 - turn };
            let at = (turn + round) % N;
            if let Some(cost) = costs.get_mut(at) {
                cost.add(take(at, slices.length).await?);
            }
        }
    }
    Ok(costs)
}

/// Calls over as many connections as there are lists of them.
pub(crate) async fn saturate(gateway: &Target, calls: Vec<Vec<Vec<u8>>>, window: Duration) -> io::Result<Cost> {
    let tally = Rc::new(Tally::default());
    let drives = calls.into_iter().map(|calls| drive(gateway.port, calls, None, tally.clone()));
    let cpu = gateway.cpu_ns();
    load(drives.collect(), std::slice::from_ref(&tally), window).await?;
    // Warming up is in the CPU time of all alike.
    let elapsed_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    Ok(Cost { calls: tally.answered.get(), elapsed_ns, cpu_ns: gateway.cpu_ns() - cpu })
}
