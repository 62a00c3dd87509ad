//! What was answered before, and what is being answered now: a call that need not go upstream does not.
//!
//! In this order: the first answer to the same idempotency key; a stored answer to the same call; a call in
//! flight that asks the same. Who finds nothing leads a flight, which others then find.

mod known_by;
mod question;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Bypass, Cached, Code, Decision, Endpoint, Family, Matched, Outcome, Refusal};
use bytes::Bytes;
use config::{CacheScope, Client, Route};
use dialect::Ask;
use http::HeaderMap;
use known_by::{key, surroundings};
use rules::cache_key::KeyBuilder;
use rules::pursuit::deadline_exceeded;
use state::answers::{Key, Kind, Stored};

use crate::cache::flights::{Arrival, Boarded, End, Form, Head, Landed, Names, Passenger, Promise, Rider};
use crate::cache::kb_versions::KbVersion;
use crate::caller::Caller;
use crate::live::Live;
use crate::running::OnRoute;
use crate::semantic_cache::questions::{Match, Sought};
use crate::trail::Trail;
use crate::{cache::forms, cache::stored, caller::headers};

pub use known_by::{fingerprint, is_of_key, key_by_body};
pub use question::{Comparable, is_query_in_message};

/// What a look-up that is not answered from memory may take; then it has found nothing.
const LOOK: Duration = Duration::from_millis(100);
/// The same for an idempotency key, whose call would be made twice.
const LOOK_FOR_REPLAY: Duration = Duration::from_secs(1);
/// How often a caller boards another flight when one ends for reasons of its leader's own; then it goes alone.
const MOST_FLIGHTS: usize = 4;

/// What a call wants of the caches.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which route answers it.
    pub route: Arc<str>,
    /// What it asks for.
    pub endpoint: Endpoint,
    /// What it is known by.
    pub names: Names,
    /// Stored answers to the same call may be served.
    pub may_look: bool,
    /// None that is older.
    pub ttl: Duration,
    /// What its answer is stored as.
    pub kind: Kind,
    /// Whom it is stored for; `None` where the route's callers share it.
    pub owner: Option<Arc<str>>,
    /// The knowledge base that it rests on.
    pub kb_version: KbVersion,
    /// Who calls, and how the answer is wanted.
    pub passenger: Passenger,
}

impl Wish {
    /// Of a call that wants nothing yet.
    fn nothing(route: &Route, client: &Client, ask: &Ask) -> Self {
        Self {
            route: route.name.clone(),
            endpoint: ask.endpoint,
            names: Names::default(),
            may_look: false,
            ttl: route.cache.ttl,
            kind: if ask.endpoint.family() == Family::Rerank { Kind::Ranking } else { Kind::Answer },
            owner: None,
            kb_version: KbVersion::default(),
            passenger: Passenger {
                client: client.name.clone(),
                priority: client.priority,
                form: forms::form(ask),
                allotted: Duration::ZERO,
                is_idempotent: true,
                body: ask.body.clone(),
                purges: 0,
            },
        }
    }
}

/// What was found.
#[derive(Debug)]
pub enum Recalled {
    /// Nothing, and nobody is to wait for this call: it goes upstream by itself.
    Alone,
    /// An answer.
    Found(Found),
    /// Nothing: the call leads a flight.
    Leads(Rider),
    /// A flight whose answer has begun, and is taken as it comes.
    Begun(Rider, Head),
    /// A flight that has landed, and its answer in the caller's form.
    Landed(Arc<Landed>, Bytes),
    /// A flight that has failed, or took longer than the caller may wait.
    Failed(Refusal),
}

/// A stored answer that is to be served.
#[derive(Debug)]
pub struct Found {
    /// As it is stored.
    pub stored: Arc<Stored>,
    /// Under which key it stands, or stood when it was kept for an idempotency key; `None` where it was kept for that alone.
    pub key: Option<Key>,
    /// In the caller's form.
    pub body: Bytes,
    /// Which is a stream of events.
    pub is_stream: bool,
    /// What found it.
    pub how: Cached,
}

/// An expired answer, for the case that the upstreams fail.
#[derive(Clone, Debug)]
pub struct Expired {
    stored: Arc<Stored>,
    /// Purges there had been when it was found.
    purges: u64,
}

impl Expired {
    /// The answer, where it still may be served: upstreams have been waited for since it was found.
    #[must_use]
    pub fn served(self, live: &Live, route: &Route, wish: &Wish) -> Option<Found> {
        let Self { stored, purges } = self;
        let key = wish.names.answer.as_ref()?;
        let of = (&*stored.route, stored.client.as_deref());
        let is_gone = live.purges.since(purges).is_some_and(|lost| lost.has(key, stored.kind, of));
        if is_gone || live.steady_wall() >= stored.keep_until || !live.still_holds(route, &wish.kb_version) {
            return None;
        }
        served(stored, wish, Cached::Stale)
    }
}

/// A call that may have been answered before: all by which its answers are told apart, beside its route and its caller.
#[derive(Clone, Copy, Debug)]
pub struct Recallable<'a> {
    /// What goes out.
    pub ask: &'a Ask,
    /// The upstream that the route's split has chosen.
    pub first: Option<usize>,
    /// By what a repeat under the same idempotency key is known; see [`fingerprint`].
    pub fingerprint: Option<[u8; 32]>,
}

/// What a call wants of the caches; `None` where neither its route nor the caller wants anything. Notes in the
/// trail that nothing was found, or looked for.
///
/// # Errors
/// `invalid_request` for a header that cannot be read.
pub fn wish(
    live: &Live,
    on: OnRoute<'_>,
    caller: Caller<'_>,
    sought: Recallable<'_>,
    trail: &mut Trail,
) -> Result<Option<Wish>, Refusal> {
    let (OnRoute { running, route, .. }, Caller { client, headers, .. }) = (on, caller);
    let Recallable { ask, first, fingerprint } = sought;
    let repeat = headers::idempotency_key(headers)?;
    if repeat.is_none() && !route.cache.is_on() {
        return Ok(None);
    }
    let environment = running.snapshot.general.environment.as_bytes();
    let replay = repeat.zip(fingerprint).map(|(key, fingerprint)| Promise {
        client: client.name.clone(),
        key: Key(KeyBuilder::new("replay").part(environment).part(client.name.as_bytes()).part(key).finish()),
        fingerprint,
        form: forms::form(ask),
    });
    let mut wish = Wish { names: Names { answer: None, replay }, ..Wish::nothing(route, client, ask) };
    wish.passenger.is_idempotent = is_idempotent(ask, headers);
    wish.passenger.purges = live.purges.count();
    // Vectors are cached one by one, where a batch is made.
    if route.cache.is_on() && ask.endpoint.family() != Family::Embeddings {
        let control = headers::cache_control(headers);
        let scope = client.cache_scope.unwrap_or(route.cache.scope);
        wish.owner = (scope == CacheScope::Client).then(|| client.name.clone());
        wish.kb_version = live.kb_versions.for_call(route, headers::kb_version(headers)?);
        // What has side effects is to have them: another call's answer does not stand for it.
        if !control.no_store && wish.passenger.is_idempotent {
            let around = surroundings(wish.kind.as_str(), environment, route, &wish, first);
            wish.names.answer = trail.per_worker.known_bodies.key(&around, ask, || key(around.clone(), ask));
        }
        wish.may_look = wish.names.answer.is_some() && !control.no_cache;
        trail.record.cache = Some(if wish.may_look { Cached::Miss } else { Cached::Bypass });
        if !wish.may_look {
            let why = match () {
                () if control.no_store => Bypass::NoStore,
                () if !wish.passenger.is_idempotent => Bypass::SideEffects,
                () if wish.names.answer.is_none() => Bypass::NoKey,
                () => Bypass::NoCache,
            };
            trail.note(Decision::Bypassed(why));
        }
        trail.cache_id = wish.names.answer;
    }
    Ok((wish.names.answer.is_some() || wish.names.replay.is_some()).then_some(wish))
}

/// False for a chat call that its caller has marked as having side effects.
#[must_use]
pub fn is_idempotent(ask: &Ask, headers: &HeaderMap) -> bool {
    !(ask.endpoint.family() == Family::Chat && headers::side_effects(headers))
}

/// A look-up by meaning, to be begun where there is no answer to the very call.
pub type ByMeaning<'a> = Pin<Box<dyn Future<Output = Sought> + Send + 'a>>;

/// A stored answer that is at hand, in memory: for the call that need not wait for anything.
#[must_use]
pub fn at_hand(live: &Live, wish: &Wish) -> Option<Found> {
    let (Some(key), true, None) = (&wish.names.answer, wish.may_look, &wish.names.replay) else { return None };
    let state::Answer::Ready(Some(stored)) = live.answers.get(key) else { return None };
    found(stored, wish, live.steady_wall(), Cached::Hit)
}

/// Finds an answer, or waits for one in flight, or leaves it to the caller to lead. Beside it an expired answer,
/// where there is one.
///
/// # Errors
/// `idempotency_conflict`.
pub async fn recall(
    live: &Live,
    wish: &Wish,
    mut by_meaning: Option<ByMeaning<'_>>,
    deadline: Instant,
    trail: &mut Trail,
) -> Result<(Recalled, Option<Expired>), Refusal> {
    let mut stale = None;
    let alone = Names { answer: None, replay: wish.names.replay.clone() };
    for turn in 0..2 * MOST_FLIGHTS {
        // In the end it goes by itself, but a repeat of it still finds it.
        let names = if turn < MOST_FLIGHTS { &wish.names } else { &alone };
        if turn >= MOST_FLIGHTS && alone.replay.is_none() {
            break;
        }
        if let Some(found) = replay(live, wish, true).await? {
            // The answer to another call, perhaps, or one that was stored for nobody else.
            trail.cache_id = found.key;
            return Ok((Recalled::Found(found), stale));
        }
        if let Some(key) = wish.names.answer.as_ref().filter(|_| wish.may_look) {
            if let Some(found) = fresh(live, wish, key, &mut stale).await {
                return Ok((Recalled::Found(found), stale));
            }
            if turn == 0 {
                trail.note(Decision::Cache(Cached::Miss));
            }
            // Where somebody asks for the very same already, that answer is waited for.
            if let Some(look) = by_meaning.take_if(|_| !live.flights.has(key))
                && let Some(found) = meant(look, wish, trail).await
            {
                return Ok((Recalled::Found(found), stale));
            }
        }
        match live.flights.board(names, &wish.passenger, |leader| wish.may_look && !is_purged(live, wish, leader)) {
            Boarded::Alone => return Ok((Recalled::Alone, stale)),
            Boarded::Conflict => return Err(conflict()),
            Boarded::Leads(rider) => {
                let late = late(live, wish).await;
                if matches!(late, Ok(None)) {
                    return Ok((Recalled::Leads(rider), stale));
                }
                // Who has boarded in between finds it too.
                rider.flight.land(End::PassedOn);
                live.flights.close(&rider.flight);
                if let Some(found) = late? {
                    trail.cache_id = found.key;
                    return Ok((Recalled::Found(found), stale));
                }
            }
            Boarded::Late(mut rider) => {
                // What has landed by then is stored.
                if tokio::time::timeout_at(deadline.into(), rider.over()).await.is_err() {
                    return Ok((Recalled::Failed(deadline_exceeded()), stale));
                }
            }
            Boarded::Follows(rider) => {
                trail.note(Decision::Joined);
                if let Some(recalled) = ride(rider, wish, deadline, trail).await {
                    return Ok((recalled, stale));
                }
            }
        }
    }
    Ok((Recalled::Alone, stale))
}

/// A stored answer to the very call; one that has expired is left in `stale`.
async fn fresh(live: &Live, wish: &Wish, key: &Key, stale: &mut Option<Expired>) -> Option<Found> {
    let purges = live.purges.count();
    let stored = look(live, key).await?;
    if !stored.is_fresh_within(wish.ttl, live.steady_wall()) {
        *stale = Some(Expired { stored, purges });
        return None;
    }
    found(stored, wish, live.steady_wall(), Cached::Hit)
}

/// Whether what a leader will bring has been purged or removed since it came.
fn is_purged(live: &Live, wish: &Wish, leader: &Passenger) -> bool {
    let (Some(lost), Some(key)) = (live.purges.since(leader.purges), &wish.names.answer) else { return false };
    lost.has(key, wish.kind, (&*wish.route, wish.owner.as_deref()))
}

/// An answer that was given to the same question in other words.
async fn meant(look: ByMeaning<'_>, wish: &Wish, trail: &mut Trail) -> Option<Found> {
    trail.tries.pause();
    let Sought { found, withheld, near } = look.await;
    trail.tries.wait_ends();
    withheld.into_iter().for_each(|by| trail.note(Decision::Withheld(by)));
    if let (Some(near), Some(content)) = (near, &trail.content) {
        content.hear_near(near);
    }
    let Match { candidate, stored, is_shadow, overruled } = found?;
    let similarity = candidate.similarity;
    trail.record.matched = Some(Box::new(Matched { id: candidate.answer.to_string().into(), similarity }));
    trail.note(Decision::Matched { similarity, is_shadow, overruled });
    if is_shadow {
        return None;
    }
    let found = served(stored, wish, Cached::Semantic)?;
    trail.cache_id = Some(candidate.answer);
    Some(Found { key: Some(candidate.answer), ..found })
}

/// Finds a stored answer, and waits for nobody who asks for it.
pub async fn lookup(live: &Live, wish: &Wish, by_meaning: Option<ByMeaning<'_>>, trail: &mut Trail) -> Option<Found> {
    let key = wish.names.answer.as_ref().filter(|_| wish.may_look)?;
    if let Some(stored) = look(live, key).await
        && let Some(found) = found(stored, wish, live.steady_wall(), Cached::Hit)
    {
        return Some(found);
    }
    meant(by_meaning?, wish, trail).await
}

/// What has been stored by a flight that landed between the look-up and the boarding. Waits for nothing, as others may
/// wait for who leads.
async fn late(live: &Live, wish: &Wish) -> Result<Option<Found>, Refusal> {
    if let Some(found) = replay(live, wish, false).await? {
        return Ok(Some(found));
    }
    let Some(key) = wish.names.answer.as_ref().filter(|_| wish.may_look) else { return Ok(None) };
    let state::Answer::Ready(Some(stored)) = live.answers.get(key) else { return Ok(None) };
    Ok(found(stored, wish, live.steady_wall(), Cached::Hit))
}

/// The first answer to the same idempotency key; where it may not be waited for, what is at hand.
async fn replay(live: &Live, wish: &Wish, may_wait: bool) -> Result<Option<Found>, Refusal> {
    let Some(promise) = &wish.names.replay else { return Ok(None) };
    let look = async |key: &Key| {
        let found = match may_wait {
            true => within(LOOK_FOR_REPLAY, live.answers.get_patiently(key)).await,
            false => live.answers.peek(key),
        };
        found.filter(|stored| stored.is_fresh(live.steady_wall()))
    };
    let Some(stored) = look(&promise.key).await else { return Ok(None) };
    let Some((copy, fingerprint)) = stored::reference(&stored.body) else {
        return replayed(stored, Some(promise.fingerprint));
    };
    if fingerprint != promise.fingerprint {
        return Err(conflict());
    }
    // Where the copy that many keys share had to go for others, the call is made again.
    let Some(stored) = look(&copy).await else { return Ok(None) };
    replayed(stored, None)
}

/// An answer that was kept for an idempotency key, and for this very body where one is named.
fn replayed(stored: Arc<Stored>, fingerprint: Option<[u8; 32]>) -> Result<Option<Found>, Refusal> {
    let Some((length, facts)) = stored::read(&stored.body) else { return Ok(None) };
    if facts.fingerprint != fingerprint {
        return Err(conflict());
    }
    let (body, is_stream, key) = (stored::body(&stored, length), facts.is_stream, facts.id);
    Ok(Some(Found { stored, key, body, is_stream, how: Cached::Replay }))
}

fn conflict() -> Refusal {
    let message = "this idempotency-key came with another body before; a new call needs a new key";
    Refusal { param: Some("idempotency-key".into()), ..Refusal::new(Code::IdempotencyConflict, message) }
}

async fn look(live: &Live, key: &Key) -> Option<Arc<Stored>> {
    within(LOOK, live.answers.get(key)).await
}

async fn within(patience: Duration, answer: state::Answer<Option<Arc<Stored>>>) -> Option<Arc<Stored>> {
    match answer {
        state::Answer::Ready(stored) => stored,
        state::Answer::Later(coming) => tokio::time::timeout(patience, coming).await.ok().flatten(),
    }
}

/// A stored answer in the caller's form, where it is fresh.
fn found(stored: Arc<Stored>, wish: &Wish, now: Duration, how: Cached) -> Option<Found> {
    if !stored.is_fresh_within(wish.ttl, now) {
        return None;
    }
    served(stored, wish, how)
}

/// A stored answer in the caller's form, be it expired.
fn served(stored: Arc<Stored>, wish: &Wish, how: Cached) -> Option<Found> {
    let (length, _) = stored::read(&stored.body)?;
    let body = forms::in_form(wish.endpoint, stored::body(&stored, length), wish.passenger.form)?;
    let is_stream = wish.passenger.form != Form::Whole;
    Some(Found { stored, key: wish.names.answer, body, is_stream, how })
}

/// Rides with another's call; `None` where that ended for reasons of its leader's own.
async fn ride(mut rider: Rider, wish: &Wish, deadline: Instant, trail: &mut Trail) -> Option<Recalled> {
    trail.tries.pause();
    let arrival = tokio::time::timeout_at(deadline.into(), rider.arrival()).await;
    trail.tries.wait_ends();
    let shared = match arrival {
        Err(_elapsed) => return Some(Recalled::Failed(deadline_exceeded())),
        Ok(Arrival::Begun(head)) => Recalled::Begun(rider, head),
        Ok(Arrival::Over(End::Landed(landed))) => {
            let whole = landed.whole.clone()?;
            let body = forms::in_form(wish.endpoint, whole, wish.passenger.form)?;
            Recalled::Landed(landed, body)
        }
        // It has had nothing of it: alone it would be asked again, and elsewhere.
        Ok(Arrival::Over(End::Broken(_))) if wish.passenger.is_idempotent => return None,
        Ok(Arrival::Over(End::Broken(broken))) => Recalled::Failed(broken.refusal.clone()),
        Ok(Arrival::Over(End::Refused(refusal))) if is_leaders_own(&refusal, &rider.flight.leader, &wish.passenger) => {
            return None;
        }
        Ok(Arrival::Over(End::Refused(refusal))) => Recalled::Failed((*refusal).clone()),
        Ok(Arrival::Over(End::PassedOn)) => return None,
    };
    trail.record.cache = Some(Cached::Shared);
    Some(shared)
}

/// Whether a call failed for reasons that need not be those of another that waits for it: its client's policy,
/// a field of its body that decides no answer, less time, or side effects that forbid a second try.
#[must_use]
pub fn is_leaders_own(refusal: &Refusal, leader: &Passenger, other: &Passenger) -> bool {
    match refusal.code.row().outcome {
        Outcome::PolicyQuota | Outcome::PolicyQueued | Outcome::PolicyLimited | Outcome::PolicyDenied => {
            leader.client != other.client
        }
        Outcome::CallerRefused | Outcome::CallerInvalid => leader.body != other.body,
        Outcome::UpstreamFailed
        | Outcome::UpstreamBadResponse
        | Outcome::UpstreamTimeout
        | Outcome::UpstreamThrottled
        | Outcome::UpstreamUnavailable => {
            other.allotted > leader.allotted || (other.is_idempotent && !leader.is_idempotent)
        }
        _ => false,
    }
}

/// Whether an upstream has refused what was asked: one of several may be to blame.
#[must_use]
pub fn is_about_the_call(refusal: &Refusal) -> bool {
    matches!(refusal.code.row().outcome, Outcome::CallerRefused | Outcome::CallerInvalid)
}
