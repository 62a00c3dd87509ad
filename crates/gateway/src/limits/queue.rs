//! Where batch calls wait until their limits have room, instead of a 429.
//!
//! A call waits with the others of its client on its route, in a lane, and the lane stands in the ring of
//! the meter that refused its first call. Whoever is first in a ring asks for himself when the meter may have
//! room again: its clock has come round, or a call has ended. All his meters decide at once. Let in, he
//! hands the turn to the next lane; refused by another meter, his lane moves to that one's ring. So
//! one waiter asks at a time, nothing is asked in vain but once, and nothing is held by those who wait.
//!
//! Where several shared limits are short at once, what one of them owes to batch helps only as far as the others
//! have room at the same moment. So the first in a ring claims all of them: online calls that pass him are counted
//! at each, and once each owes him its next share and has it within a second, each keeps it for him.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;
use rules::limits::{Claim, Decision, Denial, Lack, Want};
use rules::queue::{Full, Load, QUEUE_BYTES, Queue};
use rules::shares::Priority;
use smallvec::SmallVec;
use state::{Counters, Meter, Scope};
use tokio::sync::Notify;

/// Whoever is first in a ring asks so often at least.
const PATROL: Duration = Duration::from_secs(1);

/// Bodies that wait in the queues of all clients together.
const ALL_BYTES: usize = 4 * QUEUE_BYTES;

/// Client and route.
type Lane = (Arc<str>, Arc<str>);

/// The queue of batch calls that wait until their limits have room.
#[derive(Debug, Default)]
pub struct BatchQueue {
    /// How many, for those who only want to know whether anybody does.
    waiting: AtomicUsize,
    state: Mutex<State>,
}

/// All that wait, by the meter that they wait for. Bounded by the queues of the clients.
#[derive(Debug, Default)]
struct State {
    rings: HashMap<Scope, Ring>,
    /// In which ring each lane stands.
    stands: HashMap<Lane, Scope>,
    of_client: HashMap<Arc<str>, Load>,
    /// All together.
    load: Load,
    /// Rings whose first call claims something of another ring's meter, by that meter's scope.
    claimants: HashMap<Scope, SmallVec<[Scope; 2]>>,
    /// Of the last one who came.
    number: u64,
}

type Claims = SmallVec<[(Arc<Meter>, Claim); 2]>;

/// Those who wait for one meter, client by client in turn; never empty.
#[derive(Debug)]
struct Ring {
    queue: Queue<Lane, Arc<Waiter>>,
    /// What the first one claims.
    claims: Claims,
    /// Before then it does not help to ask.
    wake: Instant,
    /// Something was given back since the first one asked last.
    has_news: bool,
}

impl Ring {
    fn new(wake: Instant) -> Self {
        Self { queue: Queue::default(), claims: Claims::new(), wake, has_news: false }
    }

    /// The first one has reason to ask at once.
    fn news(&mut self, now: Instant) {
        if let Some((_, _, first)) = self.queue.front() {
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
    /// Of its body, which waits with it.
    bytes: usize,
    news: Notify,
}

impl Waiter {
    /// One that has not joined yet: a client's call on a route, the tokens that it wants and the bytes that it
    /// keeps in memory.
    #[must_use]
    pub fn new(
        lane: (Arc<str>, Arc<str>),
        counters: Arc<dyn Counters>,
        meters: &[&Arc<Meter>],
        (tokens, bytes): (u64, usize),
    ) -> Self {
        let meters = meters.iter().map(|meter| Arc::clone(meter)).collect();
        Self { lane, counters, meters, tokens, bytes, news: Notify::new() }
    }

    const fn want(&self) -> Want {
        Want { tokens: self.tokens, priority: Priority::Batch, is_turn: true }
    }

    /// What it lacks of each meter, as far as this process knows.
    fn lacks(&self, now: Instant) -> Lacks<'_> {
        let lack = |meter: &Arc<Meter>| meter.account().lack(&self.want(), now);
        self.meters.iter().filter_map(|meter| Some((meter, lack(meter)?))).collect()
    }
}

type Lacks<'a> = SmallVec<[(&'a Arc<Meter>, Lack); 4]>;

/// For want of a shorter wait that is none.
const AT_ONCE: Duration = Duration::from_nanos(1);

/// What a call claims of its meters that waits on at `goal`: all that it lacks, or has lacked, of limits that it
/// shares with others. It does so firmly where it would come within a second. Who waits for its own client's
/// limit keeps nothing from anybody.
fn claims(waiter: &Waiter, lacks: &Lacks<'_>, goal: &Arc<Meter>, before: &Claims) -> Claims {
    let is_near = !lacks.iter().any(|(_, lack)| is_far(*lack));
    let is_short = |one: &Arc<Meter>| {
        let lacked = before.iter().map(|(meter, _)| meter).chain(lacks.iter().map(|(meter, _)| *meter));
        goal.scope.is_shared() && one.scope.is_shared() && lacked.into_iter().any(|meter| Arc::ptr_eq(meter, one))
    };
    let claim = |meter: &Arc<Meter>| {
        let is_goal = Arc::ptr_eq(meter, goal);
        let claim = Claim { tokens: waiter.tokens, is_firm: is_goal || is_near };
        (is_goal || is_short(meter)).then(|| (meter.clone(), claim))
    };
    waiter.meters.iter().filter_map(claim).collect()
}

/// Whether a lack keeps a call from coming within a second, whatever else it has.
fn is_far(lack: Lack) -> bool {
    !lack.is_due || lack.wait > PATROL
}

/// Where a call waits on that stood at `stands`. It stays where it lacks something, and also where it lacks nothing
/// of a limit that is shared if all else is near: it would lose its turn there. Otherwise it goes to what it lacks
/// for longest, of things that are far if any is; and so it does where a reload has taken from its lane what that stood
/// at.
fn goal<'a>(waiter: &'a Waiter, lacks: &Lacks<'a>, stands: &Scope) -> Option<&'a Arc<Meter>> {
    let is_any_far = lacks.iter().any(|(_, lack)| is_far(*lack));
    let may_be = || lacks.iter().filter(|(_, lack)| is_far(*lack) || !is_any_far);
    let is_there = may_be().any(|(meter, _)| meter.scope == *stands) || (stands.is_shared() && !is_any_far);
    let there = waiter.meters.iter().find(|meter| is_there && meter.scope == *stands);
    if there.is_some() {
        return there;
    }
    may_be().max_by_key(|(_, lack)| lack.wait).map(|(meter, _)| *meter)
}

/// A place in the batch queue. Dropped, it is free again.
#[derive(Debug)]
pub struct Place {
    batch_queue: Arc<BatchQueue>,
    waiter: Arc<Waiter>,
    number: u64,
    is_over: bool,
}

impl BatchQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that wait, by route.
    #[must_use]
    pub fn depths(&self) -> HashMap<Arc<str>, usize> {
        let mut depths = HashMap::new();
        if self.waiting.load(SeqCst) > 0 {
            let state = self.state();
            for ring in state.rings.values() {
                for ((_, route), lane) in ring.queue.lanes() {
                    *depths.entry(route.clone()).or_default() += lane.len();
                }
            }
        }
        depths
    }

    /// Takes a place for a call that `denial` has refused, if less than `depth` calls of its client wait, and bodies
    /// not larger than they may be altogether.
    ///
    /// # Errors
    /// [`Full`].
    pub fn join(self: &Arc<Self>, waiter: Waiter, denial: &Denial, depth: usize, now: Instant) -> Result<Place, Full> {
        let meter = waiter.meters.get(denial.at).ok_or(Full::Calls)?.clone();
        let mut state = self.state();
        let State { of_client, load, .. } = &mut *state;
        let of_client = of_client.entry(waiter.lane.0.clone()).or_default();
        of_client.has_room(waiter.bytes, depth, QUEUE_BYTES)?;
        load.has_room(waiter.bytes, usize::MAX, ALL_BYTES)?;
        of_client.join(waiter.bytes);
        load.join(waiter.bytes);
        // Before its meters are asked once more: who gives back after that looks whether anybody waits.
        self.waiting.fetch_add(1, SeqCst);
        state.number += 1;
        let (waiter, number) = (Arc::new(waiter), state.number);
        let scope = state.stands.entry(waiter.lane.clone()).or_insert_with(|| meter.scope.clone()).clone();
        let ring = state.rings.entry(scope.clone()).or_insert_with(|| Ring::new(now));
        ring.queue.join(&waiter.lane, number, waiter.clone());
        if ring.queue.len() == 1 {
            state.turns(&scope, now);
        }
        drop(state);
        Ok(Place { batch_queue: self.clone(), waiter, number, is_over: false })
    }

    /// Something was given back to these meters.
    pub fn has_news(&self, meters: &[&Arc<Meter>], now: Instant) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut state = self.state();
        let State { rings, claimants, .. } = &mut *state;
        for Meter { scope, .. } in meters.iter().map(|meter| &***meter) {
            for scope in claimants.get(scope).into_iter().flatten().chain([scope]) {
                if let Some(ring) = rings.get_mut(scope) {
                    ring.news(now);
                }
            }
        }
    }

    /// Other limits may hold from now on.
    pub fn reloaded(&self, now: Instant) {
        if self.waiting.load(SeqCst) > 0 {
            self.state().rings.values_mut().for_each(|ring| ring.news(now));
        }
    }

    /// When a call should ask, if it is the first one in its ring; from then on news are noted.
    fn asks(&self, place: &Place, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        let scope = state.stands.get(&place.waiter.lane)?.clone();
        let ring = state.rings.get_mut(&scope)?;
        let is_first = ring.queue.front().is_some_and(|(_, number, _)| number == place.number);
        ring.has_news &= !is_first || ring.wake > now;
        is_first.then_some(ring.wake)
    }

    /// The first one in a ring has been refused: it waits on, there or in another ring.
    fn refused(&self, place: &Place, denial: &Denial, now: Instant) {
        let waiter = &place.waiter;
        let mut state = self.state();
        let Some(scope) = state.stands.get(&waiter.lane).cloned() else { return };
        let Some(ring) = state.rings.get_mut(&scope) else { return };
        // Whatever becomes of it, it does not ask again and again at once.
        ring.wake = now + PATROL;
        let Some(denied) = waiter.meters.get(denial.at) else { return };
        let mut lacks = waiter.lacks(now);
        if !lacks.iter().any(|(meter, _)| Arc::ptr_eq(meter, denied)) {
            // It lacks nothing there but a claim, which makes it keep what is due: none of others' places.
            let is_claimed = ring.claims.iter().any(|(meter, claim)| Arc::ptr_eq(meter, denied) && claim.is_firm);
            let wait = if is_claimed { denial.wait } else { AT_ONCE };
            lacks.push((denied, Lack { limit: denial.limit, wait, is_due: true }));
        }
        let Some(goal) = goal(waiter, &lacks, &scope) else { return };
        let claims = claims(waiter, &lacks, goal, &ring.claims);
        let wait = lacks.iter().map(|(_, lack)| lack.wait).max().filter(|wait| !wait.is_zero());
        let wait = wait.map_or(PATROL, |wait| wait.min(PATROL));
        if goal.scope == scope {
            ring.wake = if ring.has_news { now } else { now + wait };
            state.claim(&scope, claims, now);
            return;
        }
        let Some((key, lane)) = ring.queue.pop_lane() else { return };
        state.stands.insert(key.clone(), goal.scope.clone());
        let other = state.rings.entry(goal.scope.clone()).or_insert_with(|| Ring::new(now));
        let is_first = other.queue.is_empty();
        other.queue.add(&key, lane);
        if is_first {
            other.wake = now + wait;
            other.has_news = false;
            state.claim(&goal.scope, claims, now);
        }
        state.goes_on(&scope, now);
    }

    /// A call waits no more: it was let in, or it leaves.
    fn parts(&self, place: &Place, now: Instant) {
        let lane = &place.waiter.lane;
        let mut state = self.state();
        let Some(scope) = state.stands.get(lane).cloned() else { return };
        let Some(ring) = state.rings.get_mut(&scope) else { return };
        let was_first = ring.queue.front().is_some_and(|(_, number, _)| number == place.number);
        if was_first && place.is_over {
            // Its lane goes behind the others.
            ring.queue.pop();
        } else {
            ring.queue.leave(lane, place.number);
            if was_first && ring.queue.has(lane) {
                // It has had its turn: calls that wait in vain do not keep those of other clients behind them.
                ring.queue.pass_on();
            }
        }
        if !ring.queue.has(lane) {
            state.stands.remove(lane);
        }
        if let Some(load) = state.of_client.get_mut(&lane.0) {
            load.leave(place.waiter.bytes);
            if load.is_none() {
                state.of_client.remove(&lane.0);
            }
        }
        state.load.leave(place.waiter.bytes);
        self.waiting.fetch_sub(1, SeqCst);
        if was_first {
            state.goes_on(&scope, now);
        }
    }
}

impl State {
    /// Another one may be first in a ring, or none is left in it.
    fn goes_on(&mut self, scope: &Scope, now: Instant) {
        self.turns(scope, now);
        if self.rings.get(scope).is_some_and(|ring| ring.queue.is_empty()) {
            self.rings.remove(scope);
        }
    }

    /// Somebody else is first in a ring: he asks at once, and claims what he stands there for.
    fn turns(&mut self, scope: &Scope, now: Instant) {
        let Some(ring) = self.rings.get_mut(scope) else { return };
        ring.news(now);
        let first = ring.queue.front().map(|(_, _, waiter)| waiter);
        let claim = |waiter: &Arc<Waiter>| {
            let meter = waiter.meters.iter().find(|meter| meter.scope == *scope)?;
            Some((meter.clone(), Claim { tokens: waiter.tokens, is_firm: true }))
        };
        let claims = first.and_then(claim).into_iter().collect();
        self.claim(scope, claims, now);
    }

    /// The first one in a ring claims this, and no longer what was claimed before.
    fn claim(&mut self, scope: &Scope, claims: Claims, now: Instant) {
        let Some(ring) = self.rings.get_mut(scope) else { return };
        for (meter, claim) in &claims {
            meter.account().claim(*claim, now);
        }
        let before = std::mem::replace(&mut ring.claims, claims);
        for (meter, claim) in before {
            meter.account().unclaim(claim, now);
            if let Some(claimants) = self.claimants.get_mut(&meter.scope) {
                claimants.retain(|claimant| claimant != scope);
                if claimants.is_empty() {
                    self.claimants.remove(&meter.scope);
                }
            }
        }
        for (meter, _) in ring.claims.iter().filter(|(meter, _)| meter.scope != *scope) {
            self.claimants.entry(meter.scope.clone()).or_default().push(scope.clone());
        }
    }
}

impl Place {
    /// Waits for the call's turn, until `until` at the latest. Its meters are charged then, and it is the
    /// caller's to give back what was charged.
    pub async fn turn(mut self, until: Instant) -> Option<Decision> {
        let waiter = self.waiter.clone();
        let meters: SmallVec<[&Arc<Meter>; 4]> = waiter.meters.iter().collect();
        loop {
            let now = Clock.now();
            if now >= until {
                return None;
            }
            let wake = self.batch_queue.asks(&self, now);
            if wake.is_none_or(|wake| wake > now) {
                let wake = wake.map_or(until, |wake| wake.min(until));
                tokio::select! {
                    biased;
                    () = waiter.news.notified() => {}
                    () = tokio::time::sleep_until(wake.into()) => {}
                }
                continue;
            }
            let decision = waiter.counters.take(&meters, waiter.want(), now).await;
            match decision.denial {
                Some(denial) => self.batch_queue.refused(&self, &denial, Clock.now()),
                None => {
                    self.is_over = true;
                    self.batch_queue.parts(&self, Clock.now());
                    return Some(decision);
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_over {
            self.batch_queue.parts(self, Clock.now());
        }
    }
}
