//! Where batch calls wait until their limits have room, instead of a 429.
//!
//! A call waits with the others of its client on its route, in a lane, and the lane stands in the ring of
//! the meter that refused its first call. Whoever is first in a ring asks for himself when the meter may have
//! room again: its clock has come round, or a call has ended. All his meters decide at once. Let in, he
//! hands the turn to the next lane; refused by another meter, his lane moves to that one's ring. So
//! one waiter asks at a time, nothing is asked in vain but once, and nothing is held by those who wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;
use rules::limits::{Allowance, Denial, Want};
use rules::queue::Queue;
use rules::shares::Class;
use smallvec::SmallVec;
use state::{Counters, Meter, Scope};
use tokio::sync::Notify;

/// Whoever is first in a ring asks so often at least.
const PATROL: Duration = Duration::from_secs(1);

/// Client and route.
type Lane = (Arc<str>, Arc<str>);

/// Those who wait for a limit.
#[derive(Debug, Default)]
pub struct Lobby {
    /// How many, for those who only want to know whether anybody does.
    waiting: AtomicUsize,
    hall: Mutex<Hall>,
}

/// Bounded by the queues of the clients.
#[derive(Debug, Default)]
struct Hall {
    rings: HashMap<Scope, Ring>,
    /// In which ring each lane stands.
    stands: HashMap<Lane, Scope>,
    of_client: HashMap<Arc<str>, usize>,
    /// Of the last one who came.
    number: u64,
}

/// Those who wait for one meter; never empty.
#[derive(Debug)]
struct Ring {
    meter: Arc<Meter>,
    queue: Queue<Lane, Arc<Waiter>>,
    /// Before then it does not help to ask.
    wake: Instant,
    /// Something was given back since the first one asked last.
    has_news: bool,
}

impl Ring {
    fn at(meter: &Arc<Meter>, wake: Instant) -> Self {
        Self { meter: meter.clone(), queue: Queue::default(), wake, has_news: false }
    }

    /// Somebody else is first, or has reason to ask at once.
    fn turns(&mut self, now: Instant) {
        let first = self.queue.front().map(|(_, _, waiter)| waiter);
        self.meter.account().waits(first.map(|waiter| waiter.tokens));
        if let Some(first) = first {
            self.wake = now;
            self.has_news = true;
            first.news.notify_one();
        }
    }
}

/// A call that waits.
#[derive(Debug)]
pub struct Waiter {
    lane: Lane,
    counters: Arc<dyn Counters>,
    /// Those that have to let it pass.
    meters: SmallVec<[Arc<Meter>; 4]>,
    /// Tokens that it is likely to use at most.
    tokens: u64,
    news: Notify,
}

impl Waiter {
    /// One that has not joined yet: a client's call on a route.
    #[must_use]
    pub fn new(lane: (Arc<str>, Arc<str>), counters: Arc<dyn Counters>, meters: &[&Arc<Meter>], tokens: u64) -> Self {
        let meters = meters.iter().map(|meter| Arc::clone(meter)).collect();
        Self { lane, counters, meters, tokens, news: Notify::new() }
    }
}

/// A place in the lobby. Dropped, it is free again.
#[derive(Debug)]
pub struct Place {
    lobby: Arc<Lobby>,
    waiter: Arc<Waiter>,
    number: u64,
    is_over: bool,
}

/// As many calls of the client wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Lobby {
    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that wait, by route.
    #[must_use]
    pub fn depths(&self) -> HashMap<Arc<str>, usize> {
        let mut depths = HashMap::new();
        if self.waiting.load(SeqCst) > 0 {
            let hall = self.hall();
            for ring in hall.rings.values() {
                for ((_, route), lane) in ring.queue.lanes() {
                    *depths.entry(route.clone()).or_default() += lane.len();
                }
            }
        }
        depths
    }

    /// Takes a place for a call that `denial` has refused, if less than `depth` calls of its client wait.
    ///
    /// # Errors
    /// [`Full`].
    pub fn join(self: &Arc<Self>, waiter: Waiter, denial: &Denial, depth: usize, now: Instant) -> Result<Place, Full> {
        let meter = waiter.meters.get(denial.at).ok_or(Full)?.clone();
        let mut hall = self.hall();
        let count = hall.of_client.entry(waiter.lane.0.clone()).or_default();
        if *count >= depth {
            return Err(Full);
        }
        *count += 1;
        // Before its meters are asked once more: who gives back after that looks whether anybody waits.
        self.waiting.fetch_add(1, SeqCst);
        hall.number += 1;
        let (waiter, number) = (Arc::new(waiter), hall.number);
        let scope = hall.stands.entry(waiter.lane.clone()).or_insert_with(|| meter.scope.clone()).clone();
        let ring = hall.rings.entry(scope).or_insert_with(|| Ring::at(&meter, now));
        ring.queue.join(&waiter.lane, number, waiter.clone());
        if ring.queue.len() == 1 {
            ring.turns(now);
        }
        drop(hall);
        Ok(Place { lobby: self.clone(), waiter, number, is_over: false })
    }

    /// Something was given back to these meters.
    pub fn has_news(&self, meters: &[&Arc<Meter>], now: Instant) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut hall = self.hall();
        for meter in meters {
            if let Some(ring) = hall.rings.get_mut(&meter.scope) {
                ring.turns(now);
            }
        }
    }

    /// When a call should ask, if it is the first one in its ring; from then on news are noted.
    fn asks(&self, place: &Place, now: Instant) -> Option<Instant> {
        let mut hall = self.hall();
        let scope = hall.stands.get(&place.waiter.lane)?.clone();
        let ring = hall.rings.get_mut(&scope)?;
        let is_first = ring.queue.front().is_some_and(|(_, number, _)| number == place.number);
        ring.has_news &= !is_first || ring.wake > now;
        is_first.then_some(ring.wake)
    }

    /// The first one in a ring has been refused: it waits on, there or in another ring.
    fn refused(&self, place: &Place, denial: &Denial, now: Instant) {
        let waiter = &place.waiter;
        let mut hall = self.hall();
        let (Some(meter), Some(scope)) = (waiter.meters.get(denial.at), hall.stands.get(&waiter.lane).cloned()) else {
            return;
        };
        let wait = if denial.wait.is_zero() { PATROL } else { denial.wait.min(PATROL) };
        let Some(ring) = hall.rings.get_mut(&scope) else { return };
        if meter.scope == scope {
            ring.wake = if ring.has_news { now } else { now + wait };
            return;
        }
        let Some((key, lane)) = ring.queue.pop_lane() else { return };
        hall.stands.insert(key.clone(), meter.scope.clone());
        let other = hall.rings.entry(meter.scope.clone()).or_insert_with(|| Ring::at(meter, now));
        let is_first = other.queue.is_empty();
        other.queue.add(&key, lane);
        if is_first {
            other.turns(now);
            other.wake = now + wait;
            other.has_news = false;
        }
        hall.goes_on(&scope, now);
    }

    /// A call waits no more: it was let in, or it leaves.
    fn parts(&self, place: &Place, now: Instant) {
        let lane = &place.waiter.lane;
        let mut hall = self.hall();
        let Some(scope) = hall.stands.get(lane).cloned() else { return };
        let Some(ring) = hall.rings.get_mut(&scope) else { return };
        let was_first = ring.queue.front().is_some_and(|(_, number, _)| number == place.number);
        if was_first && place.is_over {
            // Its lane goes behind the others.
            ring.queue.pop();
        } else {
            ring.queue.leave(lane, place.number);
        }
        if !ring.queue.has(lane) {
            hall.stands.remove(lane);
        }
        if let Some(count) = hall.of_client.get_mut(&lane.0) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                hall.of_client.remove(&lane.0);
            }
        }
        self.waiting.fetch_sub(1, SeqCst);
        if was_first {
            hall.goes_on(&scope, now);
        }
    }
}

impl Hall {
    /// Another one may be first in a ring, or none is left in it.
    fn goes_on(&mut self, scope: &Scope, now: Instant) {
        let Some(ring) = self.rings.get_mut(scope) else { return };
        ring.turns(now);
        if ring.queue.is_empty() {
            self.rings.remove(scope);
        }
    }
}

impl Place {
    /// Waits for the call's turn, until `until` at the latest. Its meters are charged then, and it is the
    /// caller's to give back what was charged.
    pub async fn turn(mut self, until: Instant) -> Option<Allowance> {
        let waiter = self.waiter.clone();
        let meters: SmallVec<[&Arc<Meter>; 4]> = waiter.meters.iter().collect();
        let want = Want { tokens: waiter.tokens, class: Class::Batch, is_turn: true };
        loop {
            let now = Clock.now();
            if now >= until {
                return None;
            }
            let wake = self.lobby.asks(&self, now);
            if wake.is_none_or(|wake| wake > now) {
                let wake = wake.map_or(until, |wake| wake.min(until));
                tokio::select! {
                    biased;
                    () = waiter.news.notified() => {}
                    () = tokio::time::sleep_until(wake.into()) => {}
                }
                continue;
            }
            let decision = waiter.counters.take(&meters, want, now).await;
            match decision.denial {
                Some(denial) => self.lobby.refused(&self, &denial, Clock.now()),
                None => {
                    self.is_over = true;
                    self.lobby.parts(&self, Clock.now());
                    return Some(decision.allowance);
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_over {
            self.lobby.parts(self, Clock.now());
        }
    }
}
