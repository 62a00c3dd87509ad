//! How many connections there may be: to each provider, and to all of them together.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Fault, Kind};
use config::Provider;
use foldhash::HashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many connections a provider may have, the free ones among them, and how many calls wait
/// for one.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    most: usize,
    pub free: Arc<Semaphore>,
    pub waiting: Arc<AtomicUsize>,
    /// Places that are taken beyond `most`, since it was lowered: they do not become free again.
    owed: Arc<AtomicUsize>,
}

impl Bound {
    fn of(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { most, free: Arc::new(Semaphore::new(most)), waiting: Arc::default(), owed: Arc::default() }
    }

    /// Whether at least half of the places stay free when one more is taken.
    pub fn is_roomy(&self) -> bool {
        self.free.available_permits() > self.most.div_ceil(2)
    }

    /// One of its places.
    pub fn place(&self, permit: OwnedSemaphorePermit) -> Place {
        let permit = Permit { permit: Some(permit), owed: self.owed.clone() };
        Place { _permit: permit, waiting: self.waiting.clone(), all: None }
    }

    /// So many from now on. Those that are taken stay taken.
    fn resize(&mut self, most: usize) {
        let most = most.min(Semaphore::MAX_PERMITS);
        if most < self.most {
            let less = self.most - most;
            self.owed.fetch_add(less - self.free.forget_permits(less), Ordering::SeqCst);
        } else {
            let more = most - self.most;
            let free = (0..more).filter(|_| !pays(&self.owed)).count();
            self.free.add_permits(free);
        }
        self.most = most;
    }

    fn is_unused(&self) -> bool {
        self.free.available_permits() >= self.most
    }
}

/// Takes one off what is owed; false where nothing is.
fn pays(owed: &AtomicUsize) -> bool {
    owed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |owed| owed.checked_sub(1)).is_ok()
}

/// The right to a place. Dropped, that is free again, unless there are too many.
#[derive(Debug)]
struct Permit {
    permit: Option<OwnedSemaphorePermit>,
    owed: Arc<AtomicUsize>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take()
            && pays(&self.owed)
        {
            permit.forget();
        }
    }
}

/// One connection's place among those that its provider may have.
#[derive(Debug)]
pub struct Place {
    _permit: Permit,
    /// Calls that wait for one, in whichever worker.
    waiting: Arc<AtomicUsize>,
    /// The same among those of all providers together, where these are bounded.
    all: Option<(OwnedSemaphorePermit, Arc<AtomicUsize>)>,
}

impl Place {
    /// The same, which is also one among those of all providers.
    fn also(self, permit: OwnedSemaphorePermit, waiting: Arc<AtomicUsize>) -> Self {
        Self { all: Some((permit, waiting)), ..self }
    }

    /// Whether a call waits for a place, in whichever worker.
    pub(super) fn is_wanted(&self) -> bool {
        let is_waited_for = |waiting: &AtomicUsize| waiting.load(Ordering::Relaxed) > 0;
        is_waited_for(&self.waiting) || self.all.as_ref().is_some_and(|(_, waiting)| is_waited_for(waiting))
    }
}

/// The count of open connections by provider, over all workers; bounded by the configured providers, and those before
/// them to which connections are open.
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

    /// The bounds of these providers hold from now on, for calls of an older configuration too: else each of both would
    /// count for itself. Whoever waits has more places at once where there are more.
    pub fn come_under(&self, providers: &[Arc<Provider>]) {
        let mut places = self.by_provider.lock().unwrap_or_else(PoisonError::into_inner);
        let names: HashSet<&str> = providers.iter().map(|provider| &*provider.name).collect();
        places.retain(|name, bound| names.contains(&**name) || !bound.is_unused());
        for provider in providers {
            let most = provider.pool.max_connections;
            places.entry(provider.name.clone()).or_insert_with(|| Bound::of(most)).resize(most);
        }
    }

    pub(super) fn of(&self, provider: &Provider) -> Bound {
        let mut places = self.by_provider.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Bound::of(provider.pool.max_connections);
        places.entry(provider.name.clone()).or_insert_with(new).clone()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bound: &Bound) -> Option<Place> {
        bound.free.clone().try_acquire_owned().ok().map(|permit| bound.place(permit))
    }

    /// As many as can be taken now.
    fn all(bound: &Bound) -> Vec<Place> {
        std::iter::from_fn(|| taken(bound)).collect()
    }

    #[test]
    fn places_that_are_taken_stay_taken_whatever_the_bound_becomes() {
        let mut bound = Bound::of(5);
        let mut places = all(&bound);
        assert_eq!(places.len(), 5);
        bound.resize(3);
        for left in [4, 3] {
            places.pop();
            assert!(taken(&bound).is_none(), "{left} are taken");
        }
        places.pop();
        places.extend(taken(&bound));
        assert_eq!(places.len(), 3);
        bound.resize(1);
        bound.resize(2);
        bound.resize(4);
        places.extend(all(&bound));
        assert_eq!(places.len(), 4);
        drop(places);
        assert!(bound.is_unused());
        assert_eq!(all(&bound).len(), 4);
    }
}
