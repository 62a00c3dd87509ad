//! Stores what a flight has come to: once, from its one end.

use std::sync::Arc;
use std::time::Duration;

use base::{Cost, Endpoint, Refusal, Usage};
use bytes::Bytes;
use config::Route;
use http::HeaderValue;
use rules::cache_key::KeyBuilder;
use smallvec::SmallVec;
use state::answers::{Key, Kind, Stored};

use crate::cache::flights::{Flight, Form, Landed, Promise, Promised};
use crate::cache::forms;
use crate::cache::forms::Whole;
use crate::cache::stored::{self, Facts};
use crate::live::Live;
use crate::recall::{self, Found, Wish};
use crate::running::Running;
use crate::semantic_cache::questions::Asked;

/// Answers to idempotency keys are kept so long.
const REPLAYED: Duration = Duration::from_secs(24 * 60 * 60);
/// A copy that several of them share is kept longer, so that it is written once a day at most, however many come to it.
const SHARED: Duration = Duration::from_secs(48 * 60 * 60);
/// A body that takes no more is not worth a copy beside its keys.
const SMALL: usize = 256;

/// Who stores, and for whom.
pub struct Keeper<'a> {
    pub live: &'a Live,
    pub running: &'a Running,
    pub route: &'a Route,
    pub wish: &'a Wish,
    /// What the call asks, where another call may ask the same in other words.
    pub asked: Option<&'a Asked>,
    pub flight: &'a Flight,
    /// The upstream that the route's split has chosen.
    pub first: Option<usize>,
    /// Purges there had been when the flight began.
    pub purges: u64,
}

/// A complete answer, and what is told with it.
pub struct Complete {
    /// As the leader gets it; `None` where that is more than is held.
    pub given: Option<Bytes>,
    pub content_type: HeaderValue,
    /// In one piece.
    pub whole: Option<Whole>,
    pub shown: HeaderValue,
    pub upstream: Arc<str>,
    pub usage: Option<Usage>,
    pub cost: Option<Cost>,
    pub took: Duration,
}

/// Stores an answer under every name that it may be found by, and says what those get who wait for the whole.
pub fn answer(keeper: &Keeper<'_>, complete: Complete) -> Landed {
    let Complete { given, content_type, whole, shown, upstream, usage, cost, took } = complete;
    let content = content_type.to_str().unwrap_or_default();
    let facts = Facts {
        status: 200,
        content_type: content,
        usage,
        cost: cost.as_ref().map(|cost| (cost.nanos, &*cost.currency)),
        took,
        upstream: &upstream,
        ..Facts::default()
    };
    let in_one = |body: &Bytes| (body.len() as u64) <= crate::cache::flights::LONGEST;
    let key = keeper.wish.names.answer.filter(|key| keeper.stands_for(key, &upstream));
    let mut id = None;
    if let (Some(key), Some(whole)) = (key, whole.as_ref().filter(|whole| whole.may_store && in_one(&whole.body))) {
        let body = stored::write(&whole.body, &Facts { content_type: JSON, ..facts.clone() });
        let stored = Arc::new(keeper.stored(keeper.wish.kind, body));
        let is_stored = keeper.live.store(key, stored.clone(), keeper.purges);
        id = Some(key).filter(|_| is_stored);
        if let Some(asked) = keeper.asked.filter(|_| is_stored) {
            if whole.has_tool_calls {
                // For this very call alone, and what the question was answered before stands no more.
                keeper.live.questions.outdated(asked, &stored.route);
            } else {
                keeper.live.questions.keep(asked, key, &stored, keeper.purges);
            }
        }
    }
    let leads_stream = matches!(keeper.flight.leader.form, Form::Stream { .. });
    // A chat that has not come to its end is no answer to keep, though its leader has to take it as it is.
    let may_lack_end = !matches!(keeper.wish.endpoint, Endpoint::Chat | Endpoint::Completions);
    let has_end = may_lack_end || whole.as_ref().is_some_and(|whole| whole.is_complete);
    let promises = keeper.flight.settle();
    let among_others = promises.first().filter(|_| promises.len() > 1);
    let given_once = among_others.map(|first| Given::landed(keeper.route, &first.promise, keeper.live.steady_wall()));
    for Promised { promise, .. } in promises.into_iter().filter(|_| has_end) {
        let same = given
            .clone()
            .filter(|_| promise.form == keeper.flight.leader.form)
            .map(|body| (body, leads_stream, content));
        let other = || {
            let body = forms::in_form(keeper.wish.endpoint, whole.as_ref()?.body.clone(), promise.form)?;
            match promise.form {
                Form::Whole => Some((body, false, JSON)),
                Form::Stream { .. } => Some((body, true, EVENTS)),
            }
        };
        let Some((body, is_stream, content_type)) = same.or_else(other).filter(|(body, ..)| in_one(body)) else {
            continue;
        };
        let facts = Facts { is_stream, content_type, id, ..facts.clone() };
        let clerk = Clerk { live: keeper.live, route: keeper.route, promise: &promise, purges: keeper.purges };
        match &given_once {
            Some(given) => clerk.share(given, &body, facts),
            None => clerk.keep(&body, facts),
        }
    }
    let body = whole.map(|whole| whole.body);
    // What is no text of ours has one form.
    let (whole, content_type) = match body {
        Some(body) => (Some(body), HeaderValue::from_static(JSON)),
        None => (given.filter(|_| !leads_stream), content_type),
    };
    Landed { whole, content_type, upstream, shown, usage, cost, took, id }
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";

/// Keeps an upstream's refusal of the call for the idempotency keys that it answers.
pub fn refusal(keeper: &Keeper<'_>, refusal: &Refusal) {
    let promises: SmallVec<[Promised; 1]> =
        keeper.flight.settle().into_iter().filter(|promised| promised.is_leaders).collect();
    if promises.is_empty() {
        return;
    }
    let body = dialect::errors::refusal_json(refusal);
    let told = refusal.told.as_ref().and_then(|told| told.code.as_deref());
    let facts = Facts { status: refusal.status(), content_type: JSON, code: told, ..Facts::default() };
    for Promised { promise, .. } in promises {
        let clerk = Clerk { live: keeper.live, route: keeper.route, promise: &promise, purges: keeper.purges };
        clerk.keep(&body, facts.clone());
    }
}

impl Keeper<'_> {
    /// Whether this upstream's answer may be stored under the key of the answer: the key names the upstream, and no
    /// newer answer has been asked for meanwhile.
    fn stands_for(&self, key: &Key, upstream: &str) -> bool {
        recall::is_of_key(self.route, self.first, upstream) && self.live.flights.is_named(key, self.flight)
    }

    fn stored(&self, kind: Kind, body: Box<[u8]>) -> Stored {
        let now = self.live.steady_wall();
        let expires = now + self.route.cache.ttl;
        Stored {
            kind,
            route: self.route.name.clone(),
            client: self.wish.owner.clone(),
            kb_version: self.wish.kb_version.name.clone(),
            stored: now,
            expires,
            keep_until: stored::until(&self.running.snapshot, self.route, expires),
            body,
        }
    }
}

/// Keeps a stored answer that was served, for the idempotency key that it was served to.
pub fn served(live: &Live, route: &Route, promise: &Promise, found: &Found) {
    let Some((_, facts)) = stored::read(&found.stored.body) else { return };
    let content_type = if found.is_stream { EVENTS } else { facts.content_type };
    let facts = Facts { is_stream: found.is_stream, content_type, id: found.key, ..facts };
    let clerk = Clerk { live, route, promise, purges: live.purges.count() };
    match &found.key {
        Some(key) => clerk.share(&Given::stored(key, found.stored.stored), &found.body, facts),
        None => clerk.keep(&found.body, facts),
    }
}

/// What tells one answer from every other that was ever given, so that no copy of it stands for another: idempotency keys
/// come again, with other questions.
struct Given([u8; 32]);

impl Given {
    /// An answer that a flight has brought at that moment, the first of whose idempotency keys came with this.
    fn landed(route: &Route, first: &Promise, at: Duration) -> Self {
        let builder = KeyBuilder::new("landed").part(route.name.as_bytes()).part(&first.key.0).part(&first.fingerprint);
        Self(builder.part(&at.as_nanos().to_le_bytes()).finish())
    }

    /// What stands under this key of an answer, stored at that moment.
    fn stored(key: &Key, at: Duration) -> Self {
        Self(KeyBuilder::new("stored").part(&key.0).part(&at.as_nanos().to_le_bytes()).finish())
    }
}

/// Who keeps an answer for an idempotency key.
struct Clerk<'a> {
    live: &'a Live,
    route: &'a Route,
    promise: &'a Promise,
    /// Purges there had been when the answer was asked for.
    purges: u64,
}

impl Clerk<'_> {
    /// Keeps it for this key alone.
    fn keep(&self, body: &[u8], facts: Facts<'_>) {
        let written = stored::write(body, &Facts { fingerprint: Some(self.promise.fingerprint), ..facts });
        self.put(self.promise.key, written, REPLAYED);
    }

    /// Keeps it for this key among others that have the same answer: one copy for all of a client's, however many they
    /// are, and for each of them where that is.
    fn share(&self, given: &Given, body: &[u8], facts: Facts<'_>) {
        if body.len() <= SMALL {
            return self.keep(body, facts);
        }
        let copy = self.copy(given);
        let lasts = |stored: Arc<Stored>| stored.expires >= self.live.steady_wall() + REPLAYED;
        // One that lies on disk alone is written anew: that it lies there still nobody knows yet.
        let is_there = self.live.answers.peek(&copy).is_some_and(lasts);
        if is_there || self.put(copy, stored::write(body, &facts), SHARED) {
            self.put(self.promise.key, stored::write_reference(&copy, &self.promise.fingerprint), REPLAYED);
        }
    }

    /// What a copy is known by: whose it is, of which answer, and in which form.
    fn copy(&self, given: &Given) -> Key {
        let form = match self.promise.form {
            Form::Whole => 0,
            Form::Stream { shows_usage } => 1 + u8::from(shows_usage),
        };
        let builder = KeyBuilder::new("copy").part(self.promise.client.as_bytes());
        Key(builder.part(&given.0).part(&[form]).finish())
    }

    /// False where it has been purged since.
    fn put(&self, key: Key, body: Box<[u8]>, keep: Duration) -> bool {
        let now = self.live.steady_wall();
        let stored = Stored {
            kind: Kind::Replay,
            route: self.route.name.clone(),
            client: Some(self.promise.client.clone()),
            kb_version: None,
            stored: now,
            expires: now + keep,
            keep_until: now + keep,
            body,
        };
        self.live.store(key, Arc::new(stored), self.purges)
    }
}
