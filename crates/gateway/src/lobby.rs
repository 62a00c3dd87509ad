//! Where batch calls wait until their limits have room, instead of a 429.
//!
//! A call waits with the others of its client on its route, in a lane, and the lane stands in the ring of
//! the meter that refused its first call. When that meter may have room again (a call has ended, or its
//! clock has come round) its ring is asked in turn: each first call is decided upon anew, by all its
//! meters at once. Refused by another meter, the lane moves to that one's ring. So nothing is looked
//! at in vain but once, and nothing is held by those who wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;
use rules::limits::{Allowance, Denial, Want};
use rules::queue::Queue;
use rules::shares::Class;
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::meters::{Meter, Scope, give_back, take};

/// Whoever is first in a ring looks for himself so often at least.
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

/// Those who wait for one meter.
#[derive(Debug)]
struct Ring {
    meter: Arc<Meter>,
    queue: Queue<Lane, Arc<Waiter>>,
    /// When the meter will have room, as far as it knows.
    wake: Option<Instant>,
}

impl Ring {
    fn at(meter: &Arc<Meter>) -> Self {
        Self { meter: meter.clone(), queue: Queue::default(), wake: None }
    }
}

/// A call that waits.
#[derive(Debug)]
pub struct Waiter {
    /// Its client and its route.
    pub lane: (Arc<str>, Arc<str>),
    /// Those that have to let it pass.
    pub meters: SmallVec<[Arc<Meter>; 4]>,
    /// Tokens that it is likely to use at most.
    pub tokens: u64,
    /// Set when it is its turn: its meters have been charged.
    granted: OnceLock<Allowance>,
    news: Notify,
}

impl Waiter {
    /// One that has not joined yet.
    #[must_use]
    pub fn new(lane: (Arc<str>, Arc<str>), meters: SmallVec<[Arc<Meter>; 4]>, tokens: u64) -> Self {
        Self { lane, meters, tokens, granted: OnceLock::new(), news: Notify::new() }
    }

    /// Decides upon it, now that it is its turn.
    fn decide(&self, now: Instant) -> Result<Allowance, Denial> {
        let want = Want { tokens: self.tokens, class: Class::Batch, is_turn: true };
        let decision = take(self.meters.iter().map(Arc::as_ref), &want, now);
        decision.denial.map_or(Ok(decision.allowance), Err)
    }
}

/// A place in the lobby. Dropped, it is free again, and what was granted meanwhile is given back.
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
        // Before the meters are asked once more: who gives back after that looks whether anybody waits.
        self.waiting.fetch_add(1, SeqCst);
        hall.number += 1;
        let (waiter, number) = (Arc::new(waiter), hall.number);
        let scope = hall.stands.entry(waiter.lane.clone()).or_insert_with(|| meter.scope.clone()).clone();
        let ring = hall.rings.entry(scope.clone()).or_insert_with(|| Ring::at(&meter));
        ring.queue.join(&waiter.lane, number, waiter.clone());
        let place = Place { lobby: self.clone(), waiter, number, is_over: false };
        self.ask(&mut hall, &scope, now);
        drop(hall);
        Ok(place)
    }

    /// Something was given back to these meters.
    pub fn has_news<'a>(&self, meters: impl Iterator<Item = &'a Meter>, now: Instant) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut hall = self.hall();
        for meter in meters {
            self.ask(&mut hall, &meter.scope, now);
        }
    }

    /// Lets everybody pass whose turn it is in one ring.
    fn ask(&self, hall: &mut Hall, scope: &Scope, now: Instant) {
        loop {
            let Some(ring) = hall.rings.get_mut(scope) else { return };
            let Some((_, _, waiter)) = ring.queue.front() else { break };
            let waiter = waiter.clone();
            let denial = match waiter.decide(now) {
                Ok(allowance) => {
                    ring.queue.pop();
                    hall.parts(&waiter.lane);
                    self.waiting.fetch_sub(1, SeqCst);
                    // Nobody else sets it, and nobody twice: it is in the queue no more.
                    let _ = waiter.granted.set(allowance);
                    waiter.news.notify_one();
                    continue;
                }
                Err(denial) => denial,
            };
            let Some(meter) = waiter.meters.get(denial.at) else { return };
            let wake = (!denial.wait.is_zero()).then(|| now.checked_add(denial.wait)).flatten();
            if meter.scope == *scope {
                ring.wake = wake;
                meter.account().waits(Some(waiter.tokens));
                waiter.news.notify_one();
                return;
            }
            hall.moves(scope, meter, wake);
        }
        if let Some(ring) = hall.rings.remove(scope) {
            ring.meter.account().waits(None);
        }
    }

    /// How a call stands: when it should look again, if at all.
    fn stands(&self, place: &Place, now: Instant) -> Option<Instant> {
        let hall = self.hall();
        let ring = hall.rings.get(hall.stands.get(&place.waiter.lane)?)?;
        let is_first = ring.queue.front().is_some_and(|(_, number, _)| number == place.number);
        is_first.then(|| ring.wake.unwrap_or(now + PATROL).min(now + PATROL))
    }

    fn leaves(&self, place: &Place, now: Instant) {
        let mut hall = self.hall();
        let waiter = &place.waiter;
        let scope = hall.stands.get(&waiter.lane).cloned();
        let ring = scope.as_ref().and_then(|scope| hall.rings.get_mut(scope));
        if ring.is_some_and(|ring| ring.queue.leave(&waiter.lane, place.number).is_some()) {
            hall.parts(&waiter.lane);
            self.waiting.fetch_sub(1, SeqCst);
            if let Some(scope) = scope {
                // Whoever comes next is woken, or the ring closed.
                self.ask(&mut hall, &scope, now);
            }
        }
        drop(hall);
        if waiter.granted.get().is_some() {
            // It was let in just when it left.
            let meters = || waiter.meters.iter().map(Arc::as_ref);
            give_back(meters(), Class::Batch, (waiter.tokens, 0), now);
            self.has_news(meters(), now);
        }
    }
}

impl Hall {
    /// One of a lane waits no more.
    fn parts(&mut self, lane: &Lane) {
        if let Some(count) = self.of_client.get_mut(&lane.0) {
            *count -= 1;
            if *count == 0 {
                self.of_client.remove(&lane.0);
            }
        }
        let scope = self.stands.get(lane);
        let is_left = scope.and_then(|scope| self.rings.get(scope)).is_some_and(|ring| ring.queue.has(lane));
        if !is_left {
            self.stands.remove(lane);
        }
    }

    /// The lane whose turn it is in one ring goes to the ring of the meter that has refused it.
    fn moves(&mut self, from: &Scope, meter: &Arc<Meter>, wake: Option<Instant>) {
        let Some((key, lane)) = self.rings.get_mut(from).and_then(|ring| ring.queue.pop_lane()) else { return };
        self.stands.insert(key.clone(), meter.scope.clone());
        let ring = self.rings.entry(meter.scope.clone()).or_insert_with(|| Ring::at(meter));
        let is_first = ring.queue.is_empty();
        let first = lane.front().map(|(_, waiter)| waiter.clone());
        ring.queue.add(&key, lane);
        if let (true, Some(first)) = (is_first, first) {
            ring.wake = wake;
            meter.account().waits(Some(first.tokens));
            first.news.notify_one();
        }
    }
}

impl Place {
    /// Waits for the call's turn, until `until` at the latest. Its meters are charged then, and it is the
    /// caller's to give back what was charged.
    pub async fn turn(mut self, until: Instant) -> Option<Allowance> {
        loop {
            if let Some(allowance) = self.waiter.granted.get() {
                self.is_over = true;
                return Some(*allowance);
            }
            let now = Clock.now();
            if now >= until {
                return None;
            }
            let look = self.lobby.stands(&self, now);
            let wake = look.map_or(until, |look| look.min(until));
            tokio::select! {
                biased;
                () = self.waiter.news.notified() => {}
                () = tokio::time::sleep_until(wake.into()) => self.looks(),
            }
        }
    }

    /// The meter's clock may have come round.
    fn looks(&self) {
        let mut hall = self.lobby.hall();
        if let Some(scope) = hall.stands.get(&self.waiter.lane).cloned() {
            self.lobby.ask(&mut hall, &scope, Clock.now());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_over {
            self.lobby.leaves(self, Clock.now());
        }
    }
}
