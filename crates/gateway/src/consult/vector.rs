//! The vector of a question: stored, on its way for somebody else, or asked for.
//!
//! Callers who ask one question at once share one call to its embedding route, with each other and with callers of that
//! route. The call runs in a task of its worker's own, for it is no one caller's: who leaves takes nobody's vector along.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Refusal;
use config::Route;
use dialect::{Ask, View, embeddings};
use http::HeaderMap;

use super::{Consult, MOST_ROUNDS, Own, had_the_time, put, unfit};
use crate::cache::flights::{Form, Passenger};
use crate::cache::shared_call::{CallerGuard, SharedCall};
use crate::cache::sources;
use crate::embeddings::Carrier;
use crate::embeddings::input_flights::{Arrival, Call, Carried};
use crate::embeddings::vector::{How, InputVector};
use crate::inputs::{self, Basket, Wish};
use crate::semantic_cache::questions::Asked;
use crate::worker::set_off;
use state::answers::Key;

impl Consult<'_> {
    /// The vector of a question, by the named route; the very one that a call of the client's to that route finds
    /// stored, waits for, or stores. `patience` is when nobody who begins now waits for it any more.
    pub(super) async fn vector(
        &self,
        route: &Arc<str>,
        asked: &mut Asked,
        patience: Instant,
    ) -> Result<Arc<[f32]>, Refusal> {
        let (route, live) = (self.route(route)?, &self.worker.live);
        let ask = put(route, &asked.text)?;
        let wish = inputs::wish(&self.running.snapshot, route, self.client, &HeaderMap::new(), &ask).map(Arc::new);
        let key = wish.as_ref().and_then(|wish| wish.key(0));
        let mut basket = wish.clone().map(|wish| Basket::new(wish, route.dimensions));
        if let Some(basket) = &mut basket {
            basket.look(live).await;
            if let Some(held) = basket.held(0) {
                return Ok(numbers(&held.numbers));
            }
        }
        // A caller of that route who has come at the same moment goes first: what it waits for is waited for longer, and
        // shared, while this call's end would be too soon for it.
        tokio::task::yield_now().await;
        let passenger = self.passenger(patience.saturating_duration_since(live.clock.now()));
        let call = Call { body: ask.body.clone(), large: None, ends: patience };
        for round in 1..=MOST_ROUNDS {
            let shared_call = Arc::<SharedCall>::default();
            let is_purged =
                |key: &Key, carrier: &Passenger| wish.as_ref().is_some_and(|wish| wish.is_purged(live, key, carrier));
            let joins = |key: &Key, carrier: &Passenger| round < MOST_ROUNDS && !is_purged(key, carrier);
            let carrier = Carrier { passenger: &passenger, shared_call: &shared_call };
            let mut boarded = live.input_flights.board(std::iter::once((0, key)), carrier, &call, joins);
            if let (Some(own), Some(basket)) = (&mut boarded.own, &mut basket) {
                own.give_up(|place, key| basket.take_late(live, place, key));
            }
            if let Some(held) = basket.as_ref().and_then(|basket| basket.held(0)) {
                return Ok(numbers(&held.numbers));
            }
            let is_own = boarded.own.is_some();
            let mut rider = match boarded.own {
                Some(own) => {
                    let rider = own.rider();
                    let (route, ask, wish) = (route.clone(), ask.clone(), wish.clone());
                    Embedding { own: Own::of(self, patience), route, ask, wish }.send_off(own, shared_call);
                    rider
                }
                None => boarded.others.pop().ok_or_else(unfit)?.1,
            };
            asked.awaited = Some(rider.awaited());
            match rider.arrival().await {
                Arrival::Vector(held) => {
                    asked.awaited = None;
                    return Ok(numbers(&held.numbers));
                }
                Arrival::Refused { refusal, carrier, call: other } => {
                    let is_same = carrier.client == passenger.client && other.body == call.body;
                    // Who has waited for two calls in vain asks for no third.
                    let is_in_time = round > 1 || had_the_time(&refusal, other.ends, patience);
                    if is_own || (is_same && is_in_time) {
                        return Err((*refusal).clone());
                    }
                }
                Arrival::PassedOn => {}
            }
        }
        Err(unfit())
    }

    /// Who looks up, for others who may wait for the same vector.
    fn passenger(&self, allotted: Duration) -> Passenger {
        Passenger {
            client: self.client.name.clone(),
            priority: self.client.priority,
            form: Form::Whole,
            allotted,
            is_idempotent: true,
            body: bytes::Bytes::new(),
            purges: self.worker.live.purges.count(),
        }
    }
}

/// The call for one question's vector, with all that it needs.
struct Embedding {
    own: Own,
    route: Arc<Route>,
    ask: Ask,
    wish: Option<Arc<Wish>>,
}

impl Embedding {
    /// Sends the call on its way, which goes on while anybody waits for it.
    fn send_off(self, carried: Carried, shared_call: Arc<SharedCall>) {
        // It has no caller of its own: everybody who waits has a seat.
        drop(CallerGuard(shared_call.clone()));
        set_off(async move {
            tokio::select! {
                // An upstream that does not answer in time is to be known for it, also by the last who leaves.
                biased;
                () = self.bring(carried) => {}
                () = shared_call.abandoned() => {}
            }
        });
    }

    async fn bring(&self, own: Carried) {
        match self.vector().await {
            Ok(held) => own.land([held]),
            Err(refusal) => own.refused(refusal),
        }
    }

    async fn vector(&self) -> Result<InputVector, Refusal> {
        let Self { own, route, ask, .. } = self;
        let (live, running) = (&own.worker.live, &own.running);
        let (began, purges) = (live.clock.now(), live.purges.count());
        let (answer, upstream) = own.consult().send(route, ask, own.deadline).await?;
        let View::Embeddings(view) = &ask.view else { return Err(unfit()) };
        let mut vectors = embeddings::vectors(view, &answer).ok_or_else(unfit)?;
        let held = InputVector {
            numbers: vectors.each.drain(..).next().ok_or_else(unfit)?,
            model: vectors.model.into(),
            upstream: upstream.label.to_string().into(),
            source: sources::of_vectors(&upstream),
            tokens: ask.used(&answer, &upstream.sent).prompt,
            took: live.clock.now() - began,
            age: Duration::ZERO,
            how: How::Brought,
        };
        if let Some(wish) = &self.wish {
            inputs::Shelf { live, snapshot: &running.snapshot, route, wish, purges }.keep(0, &held);
        }
        Ok(held)
    }
}

fn numbers(bytes: &[u8]) -> Arc<[f32]> {
    let (numbers, _) = bytes.as_chunks::<4>();
    // Not collected into its place at once, which is done number by number.
    let numbers: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
    numbers.into()
}
