//! How many connections there may be: to each provider, and to all of them together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Fault, Kind};
use config::Provider;
use foldhash::HashMap;
use tokio::sync::Semaphore;

use super::link::Place;

/// How many connections a provider may have, the free ones among them, and how many calls wait
/// for one.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    most: usize,
    pub free: Arc<Semaphore>,
    pub waiting: Arc<AtomicUsize>,
}

impl Bound {
    fn of(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), waiting: Arc::default() }
    }
}

/// The count of open connections by provider, over all workers; bounded by the configured providers.
#[derive(Debug, Default)]
pub struct Places {
    by_provider: Mutex<HashMap<Arc<str>, Bound>>,
    /// Of all providers together.
    all: Option<Bound>,
}

impl Places {
    /// So many connections at most, of all providers together.
    #[must_use]
    pub fn within(most: Option<usize>) -> Self {
        Self { all: most.map(Bound::of), ..Self::default() }
    }

    /// Whether few are left of those of all providers: idle connections are not to take them.
    pub(super) fn are_scarce(&self) -> bool {
        self.all.as_ref().is_some_and(|all| all.free.available_permits() < all.most / 8)
    }

    pub(super) fn of(&self, provider: &Provider) -> Bound {
        let most = provider.pool.max_connections;
        let mut places = self.by_provider.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = places.entry(provider.name.clone()).or_insert_with(|| Bound::of(most));
        if bound.most != most {
            // A reload changed the bound: old connections end under the old count.
            *bound = Bound::of(most);
        }
        bound.clone()
    }

    /// Waits for a place among those of all providers as well. `spare` closes a connection that is idle here; those of
    /// other workers are closed with their next sweep.
    ///
    /// # Errors
    /// The gateway is stopping.
    pub(super) async fn among_all(&self, place: Place, spare: impl FnOnce()) -> Result<Place, Fault> {
        let Some(all) = &self.all else { return Ok(place) };
        if let Ok(permit) = all.free.clone().try_acquire_owned() {
            return Ok(place.also(permit, all.waiting.clone()));
        }
        spare();
        let _waiting = Counted::begin(all.waiting.clone());
        let permit = all.free.clone().acquire_owned().await.map_err(|_closed| stopping())?;
        Ok(place.also(permit, all.waiting.clone()))
    }
}

/// One more of a count, for as long as it lives.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn begin(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a call is told that waits for a place while there is none any more.
pub(super) fn stopping() -> Fault {
    Fault::upstream(Kind::Connect, "the gateway is stopping")
}
