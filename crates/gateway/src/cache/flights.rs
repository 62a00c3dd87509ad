//! Calls in flight: one upstream call, for as many callers as want its answer.
//!
//! The first caller leads: the rest of its story runs in a task of its worker's own, its trail with it.
//! Leader and followers ride: each takes what comes at its own pace, out of a buffer that all share.
//! A flight lives while anybody rides. Whoever leaves last ends it, and the task drops all that it holds.

mod flight;
mod rider;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Code, Cost, Outcome, Refusal, Usage};
use bytes::Bytes;
use foldhash::HashMap;
use http::HeaderValue;
use rules::shares::Priority;
use state::answers::Key;

pub use flight::{Flight, Promised};
pub use rider::{Arrival, Next, Rider};

/// Bytes of an answer that are held for those who ride, and may be stored. A longer one goes on to those who
/// have boarded, its slowest reader slows the upstream, and nobody boards any more.
pub const LONGEST: u64 = 8 << 20;
/// How an answer travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In one piece.
    Whole,
    /// As a stream.
    Stream {
        /// The caller asked for usage at its end.
        shows_usage: bool,
    },
}

/// What decides whom a caller may ride with.
#[derive(Clone, Debug)]
pub struct Passenger {
    /// The client's configured name.
    pub client: Arc<str>,
    /// Its priority.
    pub priority: Priority,
    /// How the answer is wanted.
    pub form: Form,
    /// How long the whole call may take.
    pub allotted: Duration,
    /// False for a call that its caller has marked as having side effects.
    pub is_idempotent: bool,
    /// As it goes upstream. What does not decide the answer is in it too, and an upstream may refuse it for that.
    pub body: Bytes,
    /// Purges there had been when it came: who comes after another one does not ride with it.
    pub purges: u64,
}

/// What a call is known by.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// All that decides its answer.
    pub answer: Option<Key>,
    /// Its idempotency key, and what its body is known by.
    pub replay: Option<Promise>,
}

/// An idempotency key that is to be answered by a flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The client's configured name.
    pub client: Arc<str>,
    /// The key, with its client.
    pub key: Key,
    /// What the body is known by.
    pub fingerprint: [u8; 32],
    /// How the answer was wanted.
    pub form: Form,
}

/// What boarding comes to.
#[derive(Debug)]
pub enum Boarded {
    /// Nobody flies there yet: the caller leads.
    Leads(Rider),
    /// Somebody does.
    Follows(Rider),
    /// Somebody does, who is just landing and takes no more idempotency keys: ask again once that is over.
    Late(Rider),
    /// Somebody does, in a form that cannot be shared.
    Alone,
    /// The idempotency key stands for another body.
    Conflict,
}

/// Every flight, by what it is known by: as many as calls are under way, at most.
#[derive(Debug, Default)]
pub struct Flights {
    /// By the last byte of the key.
    shards: [Mutex<HashMap<Key, Named>>; 16],
}

/// What a flight is known by.
#[derive(Clone, Copy)]
struct Name {
    key: Key,
    /// Of an idempotency key.
    fingerprint: Option<[u8; 32]>,
}

#[derive(Debug)]
struct Named {
    flight: Arc<Flight>,
    /// Under an idempotency key.
    fingerprint: Option<[u8; 32]>,
}

impl Flights {
    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, Named>> {
        let [.., last] = key.0;
        let shard = self.shards.get(usize::from(last & 15)).unwrap_or(&self.shards[0]);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Boards the flight of one of these names, or begins one. Under the name of an answer it boards what `joins` says
    /// of a flight's leader alone; the first answer to an idempotency key is that to its repeats, whatever is purged.
    pub fn board(&self, names: &Names, passenger: &Passenger, joins: impl Fn(&Passenger) -> bool) -> Boarded {
        let flight = Arc::new(Flight::new(passenger.clone()));
        let Some(rider) = Rider::board(&flight, passenger, true) else { return Boarded::Alone };
        if let Some(promise) = &names.replay {
            let name = Name { key: promise.key, fingerprint: Some(promise.fingerprint) };
            match self.enter(name, &flight, passenger, &|_| true) {
                Entered::Here => {}
                Entered::There(boarded) => return boarded,
            }
            flight.promise(promise.clone(), true);
        }
        if let Some(key) = names.answer {
            match self.enter(Name { key, fingerprint: None }, &flight, passenger, &joins) {
                Entered::Here => flight.lock().names.push(key),
                // What goes alone still answers its idempotency key.
                Entered::There(Boarded::Alone) if names.replay.is_some() => {}
                Entered::There(boarded) => {
                    return self.reassign(names.replay.as_ref(), &flight, passenger, boarded);
                }
            }
        }
        Boarded::Leads(rider)
    }

    /// What had been promised to fly by itself flies with another.
    fn reassign(&self, promise: Option<&Promise>, from: &Arc<Flight>, passenger: &Passenger, to: Boarded) -> Boarded {
        let Some(promise) = promise else { return to };
        let mut to = to;
        if let Boarded::Follows(rider) = to {
            let is_leaders = rider.flight.leader.body == passenger.body;
            // The name first: a flight that ends in between finds it among its names, or takes no promise.
            let named = Named { flight: rider.flight.clone(), fingerprint: Some(promise.fingerprint) };
            self.shard(&promise.key).insert(promise.key, named);
            if rider.flight.promise(promise.clone(), is_leaders) {
                to = Boarded::Follows(rider);
            } else {
                self.forget(&promise.key, &rider.flight);
                to = Boarded::Late(rider);
            }
        }
        // Who has boarded in between asks again.
        from.land(End::PassedOn);
        self.forget(&promise.key, from);
        to
    }

    fn enter(
        &self,
        name: Name,
        flight: &Arc<Flight>,
        passenger: &Passenger,
        joins: &dyn Fn(&Passenger) -> bool,
    ) -> Entered {
        let Name { key, fingerprint } = name;
        let mut shard = self.shard(&key);
        if let Some(there) = shard.get(&key).filter(|there| joins(&there.flight.leader)) {
            if there.fingerprint != fingerprint && there.flight.lock().may_board() {
                return Entered::There(Boarded::Conflict);
            }
            match there.flight.admits(passenger) {
                Admits::Yes => {
                    if let Some(rider) = Rider::board(&there.flight, passenger, false) {
                        return Entered::There(Boarded::Follows(rider));
                    }
                }
                Admits::Never => return Entered::There(Boarded::Alone),
                Admits::No => {}
            }
        }
        shard.insert(key, Named { flight: flight.clone(), fingerprint });
        Entered::Here
    }

    /// Whether a flight is known by this name.
    #[must_use]
    pub fn has(&self, key: &Key) -> bool {
        self.shard(key).contains_key(key)
    }

    /// Whether a flight is the one that is known by this name: none has been begun in its place.
    #[must_use]
    pub fn is_named(&self, key: &Key, flight: &Flight) -> bool {
        self.shard(key).get(key).is_some_and(|named| std::ptr::eq(&*named.flight, flight))
    }

    /// Nobody boards this flight any more.
    pub fn close(&self, flight: &Arc<Flight>) {
        let names = std::mem::take(&mut flight.lock().names);
        for key in &names {
            self.forget(key, flight);
        }
    }

    fn forget(&self, key: &Key, flight: &Arc<Flight>) {
        let mut shard = self.shard(key);
        if shard.get(key).is_some_and(|named| Arc::ptr_eq(&named.flight, flight)) {
            shard.remove(key);
        }
    }

    /// How many names flights are known by, for tests: 0 when none is under way.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}

enum Entered {
    Here,
    There(Boarded),
}

enum Admits {
    Yes,
    /// Another flight may take its place.
    No,
    /// The caller goes its own way.
    Never,
}

/// How an answer began that is passed on as it comes.
#[derive(Clone, Debug)]
pub struct Head {
    /// `provider/model` of the upstream that gives it, as a header shows it.
    pub shown: HeaderValue,
    /// `content-type`
    pub content_type: HeaderValue,
    /// It is a stream of events, and no other stream of bytes.
    pub is_events: bool,
    /// What it is to be stored under for others, where it may be.
    pub id: Option<Key>,
}

/// How a flight ended.
#[derive(Clone, Debug)]
pub enum End {
    /// With a complete answer.
    Landed(Arc<Landed>),
    /// After its first content.
    Broken(Arc<Broken>),
    /// Before it.
    Refused(Arc<Refusal>),
    /// For reasons of its leader's own, or with more than is held: who waits asks again.
    PassedOn,
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Landed {
    /// In one piece; `None` where it cannot be had so.
    pub whole: Option<Bytes>,
    /// Of that piece.
    pub content_type: HeaderValue,
    /// `provider/model` of the upstream that gave it.
    pub upstream: Arc<str>,
    /// The same as a header shows it.
    pub shown: HeaderValue,
    /// What it used.
    pub usage: Option<Usage>,
    /// What that cost.
    pub cost: Option<Cost>,
    /// From its leader's arrival to its end.
    pub took: Duration,
    /// What it is stored under for others; `None` where it is not.
    pub id: Option<Key>,
}

/// An answer that broke off.
#[derive(Clone, Debug)]
pub struct Broken {
    /// How its leader's request ended.
    pub outcome: Outcome,
    /// What those are told who have had nothing of it.
    pub refusal: Refusal,
}

/// A refusal for those who waited for an answer that broke off.
#[must_use]
pub fn broken_off(code: Code) -> Refusal {
    Refusal::new(code, "the answer broke off in a call that was shared with others")
}
