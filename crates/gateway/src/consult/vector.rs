//! The vector of a question: stored, on its way for somebody else, or asked for.
//!
//! Callers who ask one question at once share one call to its embedding route, with each other and with callers of that
//! route. The call runs in a task of its worker's own, for it is no one caller's: who leaves takes nobody's vector along.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Outcome, Refusal, SpanContext};
use config::{Client, Route};
use dialect::{Ask, View, embeddings};
use http::{HeaderMap, HeaderValue};

use super::{Consult, put, unfit};
use crate::flights::{Form, Passenger};
use crate::held::{Held, How};
use crate::inputs::{self, Basket, Wish};
use crate::loads::{Arrival, Call, Carried};
use crate::meaning::Asked;
use crate::running::Running;
use crate::trip::{Aboard, Trip};
use crate::worker::{Worker, set_off};

/// How often a look-up waits for others that bring its vector; then it asks for it itself.
const MOST_ROUNDS: usize = 3;

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
        let wish = inputs::wish(&self.running.snapshot, (route, self.client, &HeaderMap::new()), &ask).map(Arc::new);
        let key = wish.as_ref().and_then(|wish| wish.key(0));
        let mut basket = wish.clone().map(|wish| Basket::new(wish, route.dimensions));
        if let Some(basket) = &mut basket {
            basket.look(live).await;
        }
        let passenger = self.passenger(patience.saturating_duration_since(live.clock.now()));
        let call = Call { body: ask.body.clone(), large: None, ends: patience };
        for round in 1..=MOST_ROUNDS {
            let trip = Arc::<Trip>::default();
            let is_fresh = round == MOST_ROUNDS;
            let mut boarded = live.loads.board(std::iter::once((0, key)), (&passenger, &call, &trip), is_fresh);
            if let (Some(own), Some(basket)) = (&mut boarded.own, &mut basket) {
                own.give_up(|place, key| basket.take_late(live, (place, key)));
            }
            if let Some(held) = basket.as_ref().and_then(|basket| basket.held(0)) {
                return Ok(numbers(&held.numbers));
            }
            let is_own = boarded.own.is_some();
            let mut rider = match boarded.own {
                Some(own) => {
                    let rider = own.rider();
                    self.send_off(own, trip, (route, &ask, wish.as_ref()), patience);
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
            class: self.client.class,
            form: Form::Whole,
            allotted,
            is_idempotent: true,
            body: bytes::Bytes::new(),
        }
    }

    /// Sends the call on its way, which goes on while anybody waits for it.
    fn send_off(
        &self,
        own: Carried,
        trip: Arc<Trip>,
        (route, ask, wish): (&Arc<Route>, &Ask, Option<&Arc<Wish>>),
        deadline: Instant,
    ) {
        let embedding = Embedding {
            worker: self.worker.clone(),
            running: self.running.clone(),
            client: self.client.clone(),
            request_id: self.request_id.clone(),
            trace: self.trace.copied(),
            route: route.clone(),
            ask: ask.clone(),
            wish: wish.cloned(),
            deadline,
        };
        // It has no caller of its own: everybody who waits has a seat.
        drop(Aboard(trip.clone()));
        set_off(async move {
            tokio::select! {
                // An upstream that does not answer in time is to be known for it, also by the last who leaves.
                biased;
                () = embedding.bring(own) => {}
                () = trip.abandoned() => {}
            }
        });
    }
}

/// Callers who come at once, and each count their patience from their own beginning, end so near to each other.
const AT_ONCE: Duration = Duration::from_millis(5);

/// Whether what a call has failed of would be the same for one who waits until `patience`: it had as much time, or failed
/// of something else.
fn had_the_time(refusal: &Refusal, ended: Instant, patience: Instant) -> bool {
    refusal.code.row().outcome != Outcome::UpstreamTimeout || ended + AT_ONCE >= patience
}

/// The call for one question's vector, with all that it needs.
struct Embedding {
    worker: Arc<Worker>,
    running: Arc<Running>,
    client: Arc<Client>,
    request_id: HeaderValue,
    trace: Option<SpanContext>,
    route: Arc<Route>,
    ask: Ask,
    wish: Option<Arc<Wish>>,
    deadline: Instant,
}

impl Embedding {
    async fn bring(&self, own: Carried) {
        match self.vector().await {
            Ok(held) => own.land([held]),
            Err(refusal) => own.refused(refusal),
        }
    }

    async fn vector(&self) -> Result<Held, Refusal> {
        let Self { worker, running, client, request_id, trace, route, ask, .. } = self;
        let (trace, deadline, live) = (trace.as_ref(), self.deadline, &worker.live);
        let (owner, tells_near) = (None, false);
        let consult = Consult { worker, running, client, owner, request_id, trace, deadline, tells_near };
        let (began, purges) = (live.clock.now(), live.purges.count());
        let (answer, upstream) = consult.send(route, ask, deadline).await?;
        let View::Embeddings(view) = &ask.view else { return Err(unfit()) };
        let mut vectors = embeddings::vectors(view, &answer).ok_or_else(unfit)?;
        let held = Held {
            numbers: vectors.each.drain(..).next().ok_or_else(unfit)?,
            model: vectors.model.into(),
            upstream: upstream.label.to_string().into(),
            tokens: ask.used(&answer).prompt,
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
    numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
}
