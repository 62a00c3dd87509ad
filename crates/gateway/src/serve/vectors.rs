//! An embeddings call whose vectors may be stored, or on their way for others.
//!
//! What is stored is not asked for, what another call brings is waited for, and the rest goes upstream as one
//! call. That runs in a task of its worker's own, for others may wait for what it brings when its caller has left.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use base::{AttemptOutcome, Bypass, Cached, Code, Decision, Outcome, Refusal};
use bytes::Bytes;
use config::{Client, Route, Upstream};
use dialect::embeddings;
use dialect::{Answer, Ask};
use http::{HeaderValue, Response};
use rules::cache_key::body_fingerprint;
use rules::pursuit::deadline_exceeded;
use state::answers::Key;
use tokio::sync::oneshot;

use super::seek::Seeker;
use super::{Connection, Errands, Gone, answers, internal, shutting_down};
use crate::attempt::Landed;
use crate::cache::flights::{Form, Passenger};
use crate::cache::shared_call::{CallerGuard, SharedCall};
use crate::caller::Caller;
use crate::degrade::{self, Softened};
use crate::embeddings::Carrier;
use crate::embeddings::input_flights::{Arrival, Call, Carried, Rider};
use crate::embeddings::vector::{How, InputVector};
use crate::inputs::{self, Basket, Shelf, Wish};
use crate::live::Live;
use crate::pursue::Won;
use crate::reply::Reply;
use crate::running::{OnRoute, Running};
use crate::shape::Shaped;
use crate::trail::Trail;
use crate::worker::{Worker, set_off};
use crate::{batch, cache::sources, caller::headers, recall, refuse};

/// How often a call looks for others that bring what it misses; then it brings everything itself.
const MOST_ROUNDS: usize = 4;
/// Inputs of one call that others may wait for, and fewer where its upstream takes fewer at once: who wants one text
/// never waits until a library of them has been read.
const MOST_SHARED: usize = 256;
/// Bytes of numbers that are read and written where they come: a few milliseconds' work. More is done beside the
/// worker, whose other calls go on.
const AT_ONCE: usize = 1 << 20;
/// The same of texts, which are put into their normal form and hashed.
const READ_AT_ONCE: usize = 64 << 10;

/// All that the rest of the story needs.
pub struct Quest {
    pub worker: Arc<Worker>,
    pub running: Arc<Running>,
    pub client: Arc<Client>,
    pub route: Arc<Route>,
    pub shaped: Shaped,
    pub errands: Errands,
    pub deadline: Instant,
}

/// Answers a call from what is stored, else sends it on its way, and waits for its answer.
pub async fn lead(connection: &Connection, quest: Quest, mut trail: Trail) -> Result<Response<Reply>, Gone> {
    let Some(on) = quest.running.on(&quest.route) else {
        return Ok(refuse::refuse(&internal(), trail));
    };
    let mut basket = quest.errands.inputs.as_ref().map(|wish| basket(on, &quest.shaped.ask, wish));
    if let Some(basket) = &mut basket
        && basket.take_at_hand(&quest.worker.live)
        && let Ok(won) = put_together(basket, on, &quest.shaped.ask, &quest.worker.live, &mut trail).await
    {
        connection.presence.idle();
        return Ok(answer(won, &quest.shaped.ask, trail));
    }
    let shared_call = Arc::<SharedCall>::default();
    trail.departed = Some(shared_call.departed.clone());
    let _aboard = CallerGuard(shared_call.clone());
    let (tell, told) = oneshot::channel();
    set_off(async move {
        let on_its_way = async {
            // Nobody listens any more where the caller has left: what was brought is stored, and written down.
            let _ = tell.send(Box::pin(quest.answer(basket, &shared_call, trail)).await);
        };
        tokio::select! {
            biased;
            () = shared_call.abandoned() => {}
            () = on_its_way => {}
        }
    });
    let response = told.await.map_err(|_| Gone)?;
    connection.presence.idle();
    Ok(response)
}

impl Quest {
    async fn answer(
        &self,
        mut basket: Option<Basket>,
        shared_call: &Arc<SharedCall>,
        mut trail: Trail,
    ) -> Response<Reply> {
        let Self { worker, running, client, route, shaped, errands, deadline } = self;
        let Some(on) = running.on(route) else { return refuse::refuse(&internal(), trail) };
        let seeker = Seeker { worker, on, client, errands, deadline: *deadline };
        let gathering = Gathering { seeker, shaped, shared_call };
        let (live, ask) = (&worker.live, &shaped.ask);
        let mut cut = worker.per_worker.cut();
        let gathered = tokio::select! {
            biased;
            gathered = gathering.any(basket.as_mut(), &mut trail) => gathered,
            _ = cut.wait_for(|cut| *cut) => Err(shutting_down()),
        };
        let refusal = match gathered {
            Ok(won) => return answer(won, ask, trail),
            Err(refusal) => refusal,
        };
        let old = || {
            basket.and_then(|mut basket| {
                basket.give_up_purged(live);
                basket.make_do().then_some(basket)
            })
        };
        match degrade::soften(refusal, degrade::wished(route, client), ask, old, &mut trail) {
            Softened::Answer(body) => answers::own(body, Outcome::UpstreamDegraded, trail),
            Softened::Error(refusal) => refuse::refuse(&refusal, trail),
            Softened::Stale(basket) => match put_together(&basket, on, ask, live, &mut trail).await {
                Ok(won) => {
                    trail.record.cache = Some(Cached::Stale);
                    answer(won, ask, trail)
                }
                Err(refusal) => refuse::refuse(&refusal, trail),
            },
        }
    }
}

/// A whole answer as a response.
fn answer(won: Won, ask: &Ask, mut trail: Trail) -> Response<Reply> {
    let Won { landed: Landed::Whole(answer), upstream, shown, is_counted, .. } = won else {
        return refuse::refuse(&Refusal::new(Code::UpstreamBadResponse, "the answer is a stream"), trail);
    };
    trail.answered_by(&upstream);
    let (body, head) = answers::whole(answer, shown, is_counted, ask, &mut trail);
    let mut response = Response::new(Reply::whole(body));
    *response.headers_mut() = trail.conclude(head, Some(AttemptOutcome::Ok), Outcome::Ok);
    response
}

/// An empty basket for a call.
fn basket(on: OnRoute<'_>, ask: &Ask, wish: &Arc<Wish>) -> Basket {
    let asked = match &ask.view {
        dialect::View::Embeddings(view) => view.dimensions,
        _ => None,
    };
    // All upstreams of a route whose vectors are stored share one space.
    let learned = || on.state.upstreams.first().map(|known| known.dimension.load(Relaxed));
    let dimension = asked.or(on.route.dimensions).or_else(|| learned().filter(|dimension| *dimension > 0));
    Basket::new(wish.clone(), dimension)
}

/// Writes down which inputs were stored, where they were looked for.
fn note_stored(basket: &Basket, trail: &mut Trail) {
    if !basket.wish().may_look {
        return;
    }
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    trail.note(match basket.standing() {
        // What is put together of stored vectors alone is said where that is done.
        (_, 0) => return,
        (0, _) => Decision::Cache(Cached::Miss),
        (hits, misses) => Decision::Partial { hits: count(hits), misses: count(misses) },
    });
}

/// The answer of a call whose vectors are all there.
async fn put_together(
    basket: &Basket,
    on: OnRoute<'_>,
    ask: &Ask,
    live: &Live,
    trail: &mut Trail,
) -> Result<Won, Refusal> {
    let dialect::View::Embeddings(view) = &ask.view else { return Err(internal()) };
    let whole = basket.whole()?;
    let (answer, newest) = if basket.size() > AT_ONCE {
        let view = view.clone();
        tokio::task::spawn_blocking(move || whole.answer(&view, None)).await.map_err(|_| internal())?
    } else {
        whole.answer(view, Some(&live.digits))
    };
    basket.count(live, &on.route.name);
    let cached = basket.cached();
    trail.record.cache = Some(cached);
    if cached.is_hit() {
        trail.note(Decision::Cache(cached));
    }
    trail.record.saved = basket.saved(on.route).map(Box::new);
    trail.age = basket.age();
    let (upstream, shown) = came_from(&newest, on).ok_or_else(internal)?;
    Ok(Won { landed: Landed::Whole(answer), upstream, shown, visit: None, is_counted: true })
}

/// Who has given a vector; where the route does not have that upstream any more, the first that it has.
fn came_from(held: &InputVector, on: OnRoute<'_>) -> Option<(Arc<Upstream>, HeaderValue)> {
    let OnRoute { route, state, .. } = on;
    let mut pairs = route.upstreams.iter().zip(&state.upstreams);
    let known = pairs.find(|(upstream, _)| upstream.label.as_bytes() == held.upstream);
    if let Some((upstream, known)) = known {
        return Some((upstream.clone(), known.shown.clone()));
    }
    let shown = headers::named(&String::from_utf8_lossy(&held.upstream));
    route.upstreams.first().map(|upstream| (upstream.clone(), shown))
}

/// One call that gathers its vectors.
#[derive(Clone, Copy)]
pub struct Gathering<'a> {
    pub seeker: Seeker<'a>,
    pub shaped: &'a Shaped,
    pub shared_call: &'a Arc<SharedCall>,
}

impl Gathering<'_> {
    /// Gathers what a call wants, with whatever is stored of it.
    pub async fn all(&self, trail: &mut Trail) -> Result<Won, Refusal> {
        let Seeker { on, errands, .. } = self.seeker;
        let mut basket = errands.inputs.as_ref().map(|wish| basket(on, &self.shaped.ask, wish));
        self.any(basket.as_mut(), trail).await
    }

    /// Gathers what a call wants; without a basket nothing is stored or shared.
    async fn any(&self, basket: Option<&mut Basket>, trail: &mut Trail) -> Result<Won, Refusal> {
        match basket {
            Some(basket) => self.gather(basket, trail).await,
            None => self.bring_with_others(self.shaped, trail).await,
        }
    }

    /// Who calls, for others who may wait for it.
    pub fn passenger(&self, trail: &Trail) -> Passenger {
        let Seeker { client, deadline, .. } = self.seeker;
        let allotted = deadline.saturating_duration_since(trail.began());
        Passenger {
            client: client.name.clone(),
            priority: client.priority,
            form: Form::Whole,
            allotted,
            is_idempotent: true,
            body: Bytes::new(),
            purges: self.seeker.worker.live.purges.count(),
        }
    }

    /// The call, for others who may wait for some of its inputs, of which so many are missing.
    fn call(&self, missing: usize) -> Call {
        let ask = &self.shaped.ask;
        let most = batch::most(ask, self.seeker.on.route).unwrap_or(MOST_SHARED).min(MOST_SHARED);
        let large = (missing > most).then(|| body_fingerprint(ask.endpoint.tail(), &ask.body));
        Call { body: ask.body.clone(), large, ends: self.seeker.deadline }
    }

    async fn gather(&self, basket: &mut Basket, trail: &mut Trail) -> Result<Won, Refusal> {
        let live = &self.seeker.worker.live;
        basket.look(live).await;
        note_stored(basket, trail);
        let passenger = self.passenger(trail);
        let carrier = Carrier { passenger: &passenger, shared_call: self.shared_call };
        let call = self.call(basket.missing().len());
        let mut has_asked = false;
        for round in 1..=MOST_ROUNDS {
            let missing = basket.missing();
            if missing.is_empty() {
                break;
            }
            let may_join = basket.wish().may_look && round < MOST_ROUNDS;
            let joins = |key: &Key, carrier: &Passenger| may_join && !basket.wish().is_purged(live, key, carrier);
            let keys = missing.iter().map(|place| (*place, basket.wish().key(*place)));
            let boarded = live.input_flights.board(keys, carrier, &call, joins);
            if let Some(mut own) = boarded.own {
                own.give_up(|place, key| basket.take_late(live, place, key));
                has_asked |= own.places().next().is_some();
                if let Some(won) = self.bring(own, basket, trail).await? {
                    return Ok(won);
                }
            }
            for (place, rider) in boarded.others {
                match self.await_other(rider, &passenger, trail).await {
                    Ok(held) => {
                        if let Some(held) = held.filter(|held| basket.may_take(held)) {
                            basket.put(place, held);
                        }
                    }
                    Err(refusal) => {
                        if !has_asked {
                            trail.record.cache = Some(Cached::Shared);
                        }
                        return Err(refusal);
                    }
                }
            }
            if round < MOST_ROUNDS {
                basket.give_up_purged(live);
            }
            basket.agree();
        }
        put_together(basket, self.seeker.on, &self.shaped.ask, live, trail).await
    }

    /// Brings what nobody else does: from an upstream, as one call. The answer as it came where that is all that
    /// was asked for.
    async fn bring(&self, own: Carried, basket: &mut Basket, trail: &mut Trail) -> Result<Option<Won>, Refusal> {
        let places: Vec<usize> = own.places().collect();
        if places.is_empty() {
            return Ok(None);
        }
        let part = match basket.is_all(&places) {
            true => None,
            false => {
                let ask = embeddings::subset(&self.shaped.ask, &places).ok_or_else(internal)?;
                Some(Shaped { ask, too_small: self.shaped.too_small.clone() })
            }
        };
        let sent = part.as_ref().unwrap_or(self.shaped);
        let OnRoute { running, route, .. } = self.seeker.on;
        let live = &self.seeker.worker.live;
        let (began, purges) = (live.clock.now(), live.purges.count());
        let mut won = match self.bring_with_others(sent, trail).await {
            Ok(won) => won,
            Err(refusal) => {
                own.refused(refusal.clone());
                return Err(refusal);
            }
        };
        let Landed::Whole(answer) = &won.landed else { return Ok(Some(won)) };
        if !std::mem::replace(&mut won.is_counted, true) {
            // The upstream is paid, whether or not the caller stays until its answer has been read.
            let used = sent.ask.used(answer, &won.upstream.sent);
            if part.is_some() {
                trail.tries.spend(&won.upstream, used);
            } else {
                trail.answered_by(&won.upstream);
                trail.used(used);
            }
        }
        let vectors = self.read(&sent.ask, answer.clone(), won.upstream.clone(), began).await;
        let shelf = Shelf { live, snapshot: &running.snapshot, route, wish: &basket.wish().clone(), purges };
        for (place, held) in places.iter().zip(vectors.iter().flatten()) {
            shelf.keep(*place, held);
            basket.put(*place, held.clone());
        }
        let is_read = vectors.is_some();
        if let Some(vectors) = vectors {
            own.land(vectors);
        }
        if part.is_none() {
            basket.count(live, &route.name);
            trail.record.cache = Some(if is_read { basket.cached() } else { basket.missed() });
            trail.cache_id = trail.cache_id.filter(|_| is_read);
            return Ok(Some(won));
        }
        trail.tries.end(AttemptOutcome::Ok, Some(200));
        let unread = || Refusal::new(Code::UpstreamBadResponse, "a vector holds numbers that no 32 bits can");
        if is_read { Ok(None) } else { Err(unread()) }
    }

    /// The vectors of an answer; `None` where they cannot be told apart, or not be stored.
    async fn read(
        &self,
        ask: &Ask,
        answer: Answer,
        upstream: Arc<Upstream>,
        began: Instant,
    ) -> Option<Vec<InputVector>> {
        let dialect::View::Embeddings(view) = &ask.view else { return None };
        let used = ask.used(&answer, &upstream.sent);
        let found = if answer.body.len() > AT_ONCE {
            let view = view.clone();
            tokio::task::spawn_blocking(move || embeddings::vectors(&view, &answer)).await.ok()?
        } else {
            embeddings::vectors(view, &answer)
        };
        let embeddings::Vectors { each, model } = found?;
        let sizes: Vec<u64> = embeddings::inputs(ask).iter().map(embeddings::Input::size).collect();
        let tokens = embeddings::share_out(used.prompt, &sizes);
        let source = sources::of_vectors(&upstream);
        let (model, upstream) = (Bytes::from(model), Bytes::copy_from_slice(upstream.label.as_bytes()));
        let took = self.seeker.worker.live.clock.now() - began;
        let held = |(numbers, tokens)| InputVector {
            numbers,
            model: model.clone(),
            upstream: upstream.clone(),
            source,
            tokens,
            took,
            age: std::time::Duration::ZERO,
            how: How::Brought,
        };
        Some(each.into_iter().zip(tokens).map(held).collect())
    }

    /// Waits for what another call brings; nothing where that ended for reasons of that call's own.
    async fn await_other(
        &self,
        mut rider: Rider,
        passenger: &Passenger,
        trail: &mut Trail,
    ) -> Result<Option<InputVector>, Refusal> {
        trail.tries.pause();
        let arrival = tokio::time::timeout_at(self.seeker.deadline.into(), rider.arrival()).await;
        trail.tries.wait_ends();
        match arrival {
            Err(_elapsed) => Err(deadline_exceeded()),
            Ok(Arrival::Vector(held)) => Ok(Some(InputVector { how: How::Shared, ..held })),
            Ok(Arrival::Refused { refusal, carrier, call }) => {
                let is_own =
                    call.body == self.shaped.ask.body && !recall::is_leaders_own(&refusal, &carrier, passenger);
                if is_own { Err((*refusal).clone()) } else { Ok(None) }
            }
            Ok(Arrival::PassedOn) => Ok(None),
        }
    }
}

/// What an embeddings call wants of the cache, noted in its trail.
pub async fn wish(on: OnRoute<'_>, caller: Caller<'_>, ask: &Ask, trail: &mut Trail) -> Option<Arc<Wish>> {
    let (OnRoute { running, route, .. }, Caller { client, headers, .. }) = (on, caller);
    if !route.cache.is_on() || ask.endpoint.family() != base::Family::Embeddings {
        return None;
    }
    let wish = if ask.body.len() > READ_AT_ONCE {
        let (running, route, client) = (running.clone(), route.clone(), client.clone());
        let (headers, ask) = (headers.clone(), ask.clone());
        let read = move || inputs::wish(&running.snapshot, &route, &client, &headers, &ask);
        // A reading that was lost finds nothing, and stores nothing.
        tokio::task::spawn_blocking(read).await.ok().flatten()
    } else {
        inputs::wish(&running.snapshot, route, client, headers, ask)
    };
    let looks = wish.as_ref().is_some_and(|wish| wish.may_look);
    trail.record.cache = Some(if looks { Cached::Miss } else { Cached::Bypass });
    if !looks {
        let control = headers::cache_control(headers);
        let why = match () {
            () if control.no_store => Bypass::NoStore,
            () if wish.is_none() => Bypass::NoKey,
            () => Bypass::NoCache,
        };
        trail.note(Decision::Bypassed(why));
    }
    trail.cache_id = wish.as_ref().and_then(Wish::id);
    wish.map(Arc::new)
}
