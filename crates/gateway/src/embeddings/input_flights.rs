//! Inputs in flight: one upstream call, for every call that wants a vector which it brings.
//!
//! A call that asks an upstream for inputs carries a flight of them. Whoever wants one of those inputs meanwhile waits for
//! that flight, whatever else is in either call, as long as that is one upstream call. A flight is on its way while its
//! own caller or anybody else waits for it; whoever leaves last ends it. What fails fails for calls with the same
//! body alone: in another it may be another input, or another field, that is to blame.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::Refusal;
use bytes::Bytes;
use foldhash::HashMap;
use rules::shares::Priority;
use state::answers::Key;
use tokio::sync::watch;

use crate::cache::flights::Passenger;
use crate::cache::shared_call::{Awaited, SharedCall, WaitGuard};
use crate::embeddings::Carrier;
use crate::embeddings::vector::InputVector;

/// What a flight has come to.
#[derive(Clone, Debug)]
enum End {
    /// Vectors, by their places in the flight; none where an input was given up.
    Brought(Arc<[Option<InputVector>]>),
    /// No upstream has given any.
    Refused(Arc<Refusal>),
    /// Its carrier went away: whoever waits goes by itself.
    PassedOn,
}

#[derive(Debug)]
struct InputFlight {
    carrier: Passenger,
    call: Call,
    shared_call: Arc<SharedCall>,
    end: watch::Sender<Option<End>>,
    awaited: Awaited,
}

/// The call that a flight belongs to.
#[derive(Clone, Debug)]
pub struct Call {
    /// As it goes upstream.
    pub body: Bytes,
    /// What the body of one is known by that takes more than one upstream call: who wants a part of it would wait for
    /// all of them, so it is shared with repeats of itself alone.
    pub large: Option<[u8; 32]>,
    /// When it is over at the latest.
    pub ends: Instant,
}

/// Every input in flight, by what its vector is known by: as many as calls under way have, at most.
#[derive(Debug, Default)]
pub struct InputFlights {
    /// By the last byte of the key.
    shards: [Mutex<HashMap<Key, Place>>; 16],
}

#[derive(Clone, Debug)]
struct Place {
    flight: Arc<InputFlight>,
    at: usize,
}

/// What boarding comes to.
#[derive(Debug, Default)]
pub struct Boarded {
    /// What nobody else brings, and the call is to bring itself.
    pub own: Option<Carried>,
    /// What others bring, by the places in the call.
    pub others: Vec<(usize, Rider)>,
}

impl InputFlights {
    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, Place>> {
        let [.., last] = key.0;
        let shard = self.shards.get(usize::from(last & 15)).unwrap_or(&self.shards[0]);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out who brings these inputs of a call; what nobody brings is the call's own from now on, and so is what
    /// `joins` does not want of a flight's carrier.
    pub fn board(
        self: &Arc<Self>,
        inputs: impl Iterator<Item = (usize, Option<Key>)>,
        carrier: Carrier<'_>,
        call: &Call,
        joins: impl Fn(&Key, &Passenger) -> bool,
    ) -> Boarded {
        let Carrier { passenger, shared_call } = carrier;
        let (end, _) = watch::channel(None);
        let flight = Arc::new(InputFlight {
            carrier: passenger.clone(),
            call: call.clone(),
            shared_call: shared_call.clone(),
            end,
            awaited: Awaited::default(),
        });
        let (mut others, mut own) = (Vec::new(), Vec::new());
        for (place, key) in inputs {
            let Some(key) = key else {
                own.push(Carry { place, key: None, is_given_up: false });
                continue;
            };
            let mut shard = self.shard(&key);
            let is_joined = |there: &&Place| there.flight.takes(passenger, call) && joins(&key, &there.flight.carrier);
            match shard.get(&key).filter(is_joined) {
                Some(there) => others.push((place, Rider::new(there.clone()))),
                None => {
                    shard.insert(key, Place { flight: flight.clone(), at: own.len() });
                    own.push(Carry { place, key: Some(key), is_given_up: false });
                }
            }
        }
        let own = (!own.is_empty()).then(|| Carried { flights: self.clone(), flight, inputs: own });
        Boarded { own, others }
    }

    fn leave(&self, key: &Key, flight: &Arc<InputFlight>) {
        let mut shard = self.shard(key);
        if shard.get(key).is_some_and(|there| Arc::ptr_eq(&there.flight, flight)) {
            shard.remove(key);
        }
    }

    /// Inputs in flight.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}

impl InputFlight {
    fn takes(&self, passenger: &Passenger, call: &Call) -> bool {
        // A call of `batch` waits longer for its place at an upstream: what waits with it would be passed by.
        self.end.borrow().is_none()
            && (self.carrier.priority != Priority::Batch || passenger.priority == Priority::Batch)
            && (self.call.large.is_none() || self.call.large == call.large)
            // Who waits for a call that is over sooner than its own may fail too soon. It gives up half of the time that
            // it is allotted for that, and no more.
            && self.call.ends + passenger.allotted / 2 >= call.ends
    }
}

/// A flight on its way. Dropped before it has come to an end, it passes on whoever waits for it.
#[derive(Debug)]
pub struct Carried {
    flights: Arc<InputFlights>,
    flight: Arc<InputFlight>,
    inputs: Vec<Carry>,
}

#[derive(Debug)]
struct Carry {
    /// In the call.
    place: usize,
    key: Option<Key>,
    /// It has been found elsewhere.
    is_given_up: bool,
}

impl Carried {
    /// The places of its inputs in the call.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().filter(|input| !input.is_given_up).map(|input| input.place)
    }

    /// A seat for one who waits for the first of its inputs, beside whoever carries it.
    #[must_use]
    pub fn rider(&self) -> Rider {
        Rider::new(Place { flight: self.flight.clone(), at: 0 })
    }

    /// Gives up what `is_here` already: whoever waits for it looks again.
    pub fn give_up(&mut self, mut is_here: impl FnMut(usize, &Key) -> bool) {
        for input in &mut self.inputs {
            if let Some(key) = input.key
                && is_here(input.place, &key)
            {
                input.is_given_up = true;
                self.flights.leave(&key, &self.flight);
            }
        }
    }

    /// Brings the vectors of its inputs, in the order of [`Carried::places`].
    pub fn land(self, vectors: impl IntoIterator<Item = InputVector>) {
        let mut vectors = vectors.into_iter();
        let each = self.inputs.iter().map(|input| if input.is_given_up { None } else { vectors.next() });
        self.end(End::Brought(each.collect()));
    }

    /// No upstream has given anything.
    pub fn refused(self, refusal: Refusal) {
        self.end(End::Refused(Arc::new(refusal)));
    }

    /// Only the first word counts.
    fn end(&self, end: End) {
        self.flight.end.send_if_modified(|there| {
            let is_first = there.is_none();
            there.get_or_insert(end);
            is_first
        });
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        for key in self.inputs.iter().filter_map(|input| input.key.as_ref()) {
            self.flights.leave(key, &self.flight);
        }
        self.end(End::PassedOn);
    }
}

/// One who waits for an input that another call brings.
#[derive(Debug)]
pub struct Rider {
    place: Place,
    end: watch::Receiver<Option<End>>,
    _seat: WaitGuard,
}

/// What an awaited input has come to.
#[derive(Debug)]
pub enum Arrival {
    /// Its vector.
    Vector(InputVector),
    /// No upstream has given it.
    Refused {
        /// What its caller would be told.
        refusal: Arc<Refusal>,
        /// Whose own reasons those may have been.
        carrier: Passenger,
        /// What was refused, with other inputs perhaps.
        call: Call,
    },
    /// Its carrier went away.
    PassedOn,
}

impl Rider {
    fn new(place: Place) -> Self {
        let (seat, end) = (WaitGuard::take(&place.flight.shared_call), place.flight.end.subscribe());
        Self { place, end, _seat: seat }
    }

    /// What is waited for, also for when that is over.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        self.place.flight.awaited.clone()
    }

    /// Waits for the end of the flight.
    pub async fn arrival(&mut self) -> Arrival {
        let end = self.end.wait_for(Option::is_some).await.map(|end| end.clone());
        match end {
            Ok(Some(End::Brought(vectors))) => match vectors.get(self.place.at) {
                Some(Some(held)) => Arrival::Vector(held.clone()),
                _ => Arrival::PassedOn,
            },
            Ok(Some(End::Refused(refusal))) => {
                let InputFlight { carrier, call, .. } = &*self.place.flight;
                Arrival::Refused { refusal, carrier: carrier.clone(), call: call.clone() }
            }
            Ok(Some(End::PassedOn) | None) | Err(_) => Arrival::PassedOn,
        }
    }
}
