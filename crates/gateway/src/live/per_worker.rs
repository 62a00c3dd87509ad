//! What one worker has to itself, so that no two cores write to the same memory on every call.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::cache::known_bodies::KnownBodies;
use crate::records::pending::PendingRecords;
use crate::running::{Counts, Running};

/// One worker's own share of the process's state.
#[derive(Debug)]
pub struct PerWorker {
    /// Where its requests leave their records.
    pub pending: PendingRecords,
    /// The keys of bodies that have come to it before.
    pub known_bodies: KnownBodies,
    running: ArcSwap<Running>,
    cut: watch::Sender<bool>,
    /// By the route's name; bounded by the routes of every configuration that had requests running.
    routes: Mutex<Routes>,
}

type Routes = HashMap<Arc<str>, Counts>;

fn counts_in(routes: &Mutex<Routes>, route: &Arc<str>) -> Counts {
    routes.lock().unwrap_or_else(PoisonError::into_inner).entry(route.clone()).or_default().clone()
}

impl PerWorker {
    /// That of a worker whose configuration `bind` makes, given this worker's counts of running requests.
    pub(crate) fn with(bind: impl FnOnce(&dyn Fn(&Arc<str>) -> Counts) -> Running) -> Arc<Self> {
        let routes = Mutex::default();
        let running = bind(&|route| counts_in(&routes, route));
        Arc::new(Self {
            pending: PendingRecords::default(),
            known_bodies: KnownBodies::default(),
            running: ArcSwap::from_pointee(running),
            cut: watch::Sender::new(false),
            routes,
        })
    }

    /// This worker's twin of the configuration in force.
    #[must_use]
    pub fn running(&self) -> Arc<Running> {
        self.running.load_full()
    }

    /// Gives what was in force, so that whoever has no time to drop it need not.
    pub(crate) fn put_in_force(&self, running: Arc<Running>) -> Arc<Running> {
        self.running.swap(running)
    }

    /// Becomes true when the gateway stops waiting for answers to end.
    #[must_use]
    pub fn cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    pub(crate) fn cut_short(&self) {
        self.cut.send_replace(true);
    }

    /// What of a route is under way on this worker.
    pub(crate) fn counts(&self, route: &Arc<str>) -> Counts {
        counts_in(&self.routes, route)
    }

    /// Adds this worker's running requests to `sums`, and forgets routes that are gone and idle.
    pub(crate) fn add_inflight(&self, sums: &mut HashMap<Arc<str>, i64>) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.retain(|route, counts| {
            let count = counts.inflight.load(Relaxed);
            *sums.entry(route.clone()).or_default() += count;
            // A configuration that has it may be bound, and not in force yet.
            count != 0 || counts.copies.load(Relaxed) != 0 || Arc::strong_count(&counts.inflight) > 1
        });
    }
}
