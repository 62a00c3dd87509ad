//! The inputs of an embeddings call, each with a vector of its own: what is stored of them, what is missing,
//! and the answer that is put together again.

use std::sync::Arc;
use std::time::Duration;

use base::{Cached, Code, Cost, Family, Refusal, Saved, Usage};
use config::{CacheScope, Client, Route, Snapshot, Upstream};
use dialect::embeddings::{Encoding, Spelling, View, answer, answer_spelled, inputs};
use dialect::{Answer, Ask};
use foldhash::{HashMap, HashMapExt as _};
use http::HeaderMap;
use rules::cache_key::KeyBuilder;
use state::answers::{Key, Kind, Stored};

use crate::cache::flights::Passenger;
use crate::embeddings::digits::DigitsCache;
use crate::embeddings::vector::{How, InputVector};
use crate::live::Live;
use crate::{cache::sources, cache::stored, caller::headers};

/// What a look-up that is not answered from memory may take; then it has found nothing. Beside it a tenth of a
/// millisecond for each key, up to the second of these.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const LOOK_FOR_ONE: Duration = Duration::from_micros(100);

/// Inputs that are looked for in one go; between two of them the worker sees to its other calls.
const SLICE: usize = 1_024;

/// What an embeddings call wants of the cache.
#[derive(Clone, Debug)]
pub struct Wish {
    /// In the order of the call.
    inputs: Vec<Input>,
    /// Stored vectors may be served.
    pub may_look: bool,
    /// None that is older.
    ttl: Duration,
    /// The route whose they are.
    route: Arc<str>,
    /// Whom vectors are stored for; `None` where the route's callers share them.
    owner: Option<Arc<str>>,
    /// Where its vectors may have come from; `None` where its upstreams say by their `space` that this is all the same.
    sources: Option<Vec<u64>>,
}

/// What one input is known by.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// All that decides its vector; `None` for what is not to be stored.
    key: Option<Key>,
    /// The place of the first input with the same vector: its own, unless it is a repeat.
    twin: usize,
    /// The place of the next one.
    repeat: Option<usize>,
}

/// What a call wants of the cache. `None` for a call that nothing is stored of: by its caller's wish, or since its
/// vectors are not each input's own.
#[must_use]
pub fn wish(snapshot: &Snapshot, route: &Route, client: &Client, headers: &HeaderMap, ask: &Ask) -> Option<Wish> {
    let control = headers::cache_control(headers);
    if control.no_store || ask.endpoint.family() != Family::Embeddings {
        return None;
    }
    let scope = client.cache_scope.unwrap_or(route.cache.scope);
    let owner = (scope == CacheScope::Client).then(|| client.name.clone());
    let spelling = if route.cache.normalize { Spelling::Normalized } else { Spelling::Exact };
    // A vector does not rest on what a knowledge base holds, so its version is not in here.
    let common = KeyBuilder::new(Kind::Vector.as_str())
        .part(snapshot.general.environment.as_bytes())
        .part(route.name.as_bytes())
        .option(owner.as_ref().map(|owner| owner.as_bytes()))
        .part(route.vector_space()?.as_bytes())
        .part(&[u8::from(route.cache.normalize)])
        .content(|sink| dialect::embeddings::deciding(ask, sink))
        .ok()?;
    let keyed = inputs(ask)
        .into_iter()
        .map(|input| common.clone().content(|sink| input.deciding(spelling, sink)).ok().map(|key| Key(key.finish())));
    let inputs = with_repeats(keyed);
    let is_known = route.upstreams.iter().all(|upstream| upstream.is_space_written);
    let sources = (!is_known).then(|| route.upstreams.iter().map(|upstream| sources::of_vectors(upstream)).collect());
    let (may_look, ttl, route) = (!control.no_cache, route.cache.ttl, route.name.clone());
    let wish = Wish { inputs, may_look, ttl, route, owner, sources };
    (!wish.inputs.is_empty()).then_some(wish)
}

/// Inputs of these keys, each of which knows where it is repeated.
fn with_repeats(keys: impl Iterator<Item = Option<Key>>) -> Vec<Input> {
    let mut all: Vec<Input> = Vec::with_capacity(keys.size_hint().0);
    // The first and the last place of each key so far.
    let mut known: HashMap<Key, (usize, usize)> = HashMap::new();
    for (place, key) in keys.enumerate() {
        let mut twin = place;
        if let Some(key) = key {
            let (first, last) = known.entry(key).or_insert((place, place));
            twin = *first;
            if let Some(before) = all.get_mut(std::mem::replace(last, place)) {
                before.repeat = Some(place);
            }
        }
        all.push(Input { key, twin, repeat: None });
    }
    all
}

impl Wish {
    /// What the call's answer is known by where it has one input alone.
    #[must_use]
    pub fn id(&self) -> Option<Key> {
        match self.inputs.as_slice() {
            [only] => only.key,
            _ => None,
        }
    }

    /// Whether the vector that another call will bring under a key has been purged or removed since that call came.
    #[must_use]
    pub fn is_purged(&self, live: &Live, key: &Key, carrier: &Passenger) -> bool {
        let of = (&*self.route, self.owner.as_deref());
        live.purges.since(carrier.purges).is_some_and(|lost| lost.has(key, Kind::Vector, of))
    }

    /// The key of the input at a place.
    #[must_use]
    pub fn key(&self, place: usize) -> Option<Key> {
        self.inputs.get(place).and_then(|input| input.key)
    }

    /// The inputs that are no repeats and have a key.
    fn distinct(&self) -> impl Iterator<Item = (usize, Key)> {
        let each = self.inputs.iter().enumerate();
        each.filter_map(|(place, input)| Some((place, input.key.filter(|_| input.twin == place)?)))
    }
}

/// Where vectors are stored, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Shelf<'a> {
    /// The process's state, whose store it is.
    pub live: &'a Live,
    /// The configuration in force.
    pub snapshot: &'a Snapshot,
    /// The route.
    pub route: &'a Route,
    /// What the call wants.
    pub wish: &'a Wish,
    /// Purges there had been when the vectors were asked for.
    pub purges: u64,
}

impl Shelf<'_> {
    /// Keeps the vector of the input at a place.
    pub fn keep(&self, place: usize, held: &InputVector) {
        let Some(key) = self.wish.key(place) else { return };
        let now = self.live.steady_wall();
        let expires = now + self.route.cache.ttl;
        let stored = Stored {
            kind: Kind::Vector,
            route: self.route.name.clone(),
            client: self.wish.owner.clone(),
            kb_version: None,
            stored: now,
            expires,
            keep_until: stored::until(self.snapshot, self.route, expires),
            body: held.write(),
        };
        self.live.store(key, Arc::new(stored), self.purges);
    }
}

/// The vectors of a call, as far as they are there.
#[derive(Debug)]
pub struct Basket {
    wish: Arc<Wish>,
    held: Vec<Option<InputVector>>,
    /// Expired ones, for the case that the upstreams fail.
    expired: Vec<(usize, InputVector)>,
    /// Numbers that each must have, as far as is known.
    dimension: Option<usize>,
    /// Nothing is to be looked for any more.
    has_looked: bool,
    /// Purges there had been when it was looked for, or given up, last; `None` before that.
    purges: Option<u64>,
    /// Stored vectors differ, and nobody knows which dimension is right: none of them is taken.
    are_stored_at_odds: bool,
}

impl Basket {
    /// None yet. `dimension` is that of the route's vectors, where it is known.
    #[must_use]
    pub fn new(wish: Arc<Wish>, dimension: Option<usize>) -> Self {
        let (held, has_looked) = (vec![None; wish.inputs.len()], !wish.may_look);
        Self { wish, held, expired: Vec::new(), dimension, has_looked, purges: None, are_stored_at_odds: false }
    }

    /// The vector of the input at a place, as far as it is there.
    #[must_use]
    pub fn held(&self, place: usize) -> Option<&InputVector> {
        self.held.get(place).and_then(Option::as_ref)
    }

    /// Takes what is stored, where that can be told without waiting; true where that is all.
    pub fn take_at_hand(&mut self, live: &Live) -> bool {
        if self.has_looked || self.wish.inputs.len() > SLICE {
            return false;
        }
        let (places, keys): (Vec<usize>, Vec<Key>) = self.wish.distinct().unzip();
        self.purges = Some(live.purges.count());
        if let state::Answer::Ready(found) = live.answers.get_many(&keys) {
            self.has_looked = true;
            self.take(places.into_iter().zip(found), live.steady_wall());
            self.agree();
        }
        self.held.iter().all(Option::is_some)
    }

    /// Takes what is stored.
    pub async fn look(&mut self, live: &Live) {
        self.purges.get_or_insert_with(|| live.purges.count());
        if std::mem::replace(&mut self.has_looked, true) {
            return;
        }
        let wanted: Vec<(usize, Key)> = self.wish.distinct().collect();
        let many = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
        let patience = LOOK.0.saturating_add(LOOK_FOR_ONE.saturating_mul(many)).min(LOOK.1);
        let over = tokio::time::Instant::from_std(live.clock.now() + patience);
        for (at, slice) in wanted.chunks(SLICE).enumerate() {
            if at > 0 {
                // The worker has other calls.
                tokio::task::yield_now().await;
            }
            let (places, keys): (Vec<usize>, Vec<Key>) = slice.iter().copied().unzip();
            let found = match live.answers.get_many(&keys) {
                state::Answer::Ready(found) => Some(found),
                state::Answer::Later(coming) => tokio::time::timeout_at(over, coming).await.ok(),
            };
            self.take(places.into_iter().zip(found.unwrap_or_default()), live.steady_wall());
        }
        self.agree();
    }

    /// Takes what has been stored under this key since the look-up; false where nothing has.
    pub fn take_late(&mut self, live: &Live, place: usize, key: &Key) -> bool {
        let state::Answer::Ready(Some(stored)) = live.answers.get(key) else { return false };
        let now = live.steady_wall();
        let held = InputVector::read(&stored, now)
            .filter(|_| self.wish.may_look && stored.is_fresh_within(self.wish.ttl, now));
        let is_due = |held: &InputVector| match self.dimension {
            _ if !self.may_take(held) => false,
            Some(due) => due == held.dimension(),
            None => !self.are_stored_at_odds,
        };
        let Some(held) = held.filter(is_due) else {
            return false;
        };
        self.put(place, held);
        true
    }

    /// Whether a vector comes from where those of the route come from: another server behind the same name has others.
    #[must_use]
    pub fn may_take(&self, held: &InputVector) -> bool {
        self.wish.sources.as_ref().is_none_or(|sources| sources.contains(&held.source))
    }

    fn take(&mut self, found: impl Iterator<Item = (usize, Option<Arc<Stored>>)>, now: Duration) {
        for (place, stored) in found.filter_map(|(place, stored)| Some((place, stored?))) {
            let is_fresh = stored.is_fresh_within(self.wish.ttl, now);
            let Some(held) = InputVector::read(&stored, now).filter(|held| self.may_take(held)) else { continue };
            if self.dimension.is_some_and(|dimension| dimension != held.dimension()) {
                continue;
            }
            if is_fresh {
                self.put(place, held);
            } else {
                self.expired.push((place, held));
            }
        }
    }

    /// Gives up what has been purged or removed since it was found. With a purge what came meanwhile goes too, for it may be
    /// of the same model as what was purged, and vectors of two models are not to stand in one answer.
    pub fn give_up_purged(&mut self, live: &Live) {
        let purges = live.purges.count();
        let Some(lost) = self.purges.replace(purges).and_then(|purges| live.purges.since(purges)) else { return };
        let wish = self.wish.clone();
        let of = (&*wish.route, wish.owner.as_deref());
        if lost.has_all(Kind::Vector, of) {
            self.held.fill(None);
            self.expired.clear();
            return;
        }
        let is_lost = |place: usize| wish.key(place).is_some_and(|key| lost.has(&key, Kind::Vector, of));
        self.expired.retain(|(place, _)| !is_lost(*place));
        for (place, room) in self.held.iter_mut().enumerate() {
            room.take_if(|held| held.how == How::Stored && is_lost(place));
        }
    }

    /// Puts a vector to its input, and to every repeat of it.
    pub fn put(&mut self, place: usize, held: InputVector) {
        let mut next = Some(place);
        while let Some(place) = next {
            if let Some(room) = self.held.get_mut(place) {
                *room = Some(held.clone());
            }
            next = self.wish.inputs.get(place).and_then(|input| input.repeat);
        }
    }

    /// Gives up stored vectors of another dimension than those that have just come; where none have come, and the
    /// stored ones differ, all of them. Vectors of two dimensions never stand in one answer.
    pub fn agree(&mut self) {
        let first_of = |how: fn(&InputVector) -> bool| {
            self.held.iter().flatten().filter(move |held| how(held)).map(InputVector::dimension).next()
        };
        let wanted = first_of(|held| held.how == How::Brought)
            .or(first_of(|held| held.how == How::Shared))
            .or(self.dimension)
            .or(first_of(|_| true));
        let Some(wanted) = wanted else { return };
        if self.held.iter().flatten().any(|held| held.how != How::Stored) {
            // Known from now on: what is stored of another dimension is not looked at again.
            self.dimension = Some(wanted);
        }
        let all_agree = self.held.iter().flatten().all(|held| held.dimension() == wanted);
        if all_agree {
            return;
        }
        let is_known = self.dimension.is_some();
        self.are_stored_at_odds = !is_known;
        for room in &mut self.held {
            if room.as_ref().is_some_and(|held| !is_known || held.dimension() != wanted) {
                *room = None;
            }
        }
    }

    /// The places of the inputs that have no vector yet, without repeats.
    #[must_use]
    pub fn missing(&self) -> Vec<usize> {
        let each = self.wish.inputs.iter().zip(&self.held).enumerate();
        each.filter(|(place, (input, held))| held.is_none() && input.twin == *place).map(|(place, _)| place).collect()
    }

    /// How many different inputs are there, and how many are missing.
    #[must_use]
    pub fn standing(&self) -> (usize, usize) {
        let each = self.wish.inputs.iter().enumerate().filter(|(place, input)| input.twin == *place);
        let (all, missing) = (each.count(), self.missing().len());
        (all.saturating_sub(missing), missing)
    }

    /// Whether `places` are all inputs of the call, each once.
    #[must_use]
    pub fn is_all(&self, places: &[usize]) -> bool {
        places.len() == self.held.len()
    }

    /// Takes expired vectors in the place of what is missing; true where nothing is missing then.
    pub fn make_do(&mut self) -> bool {
        for (place, held) in std::mem::take(&mut self.expired) {
            if self.held.get(place).is_some_and(Option::is_none) {
                self.put(place, held);
            }
        }
        self.agree();
        self.held.iter().all(Option::is_some)
    }

    /// What the cache has come to where an upstream brought everything.
    #[must_use]
    pub fn missed(&self) -> Cached {
        if self.wish.may_look { Cached::Miss } else { Cached::Bypass }
    }

    /// What the cache has come to.
    #[must_use]
    pub fn cached(&self) -> Cached {
        let any = |how: How| self.held.iter().flatten().any(|held| held.how == how);
        match (any(How::Brought), any(How::Shared), any(How::Stored)) {
            (true, false, false) => self.missed(),
            (true, _, _) => Cached::Partial,
            (false, true, _) => Cached::Shared,
            (false, false, _) => Cached::Hit,
        }
    }

    /// Counts the inputs, repeats among them, by whether they were stored.
    pub fn count(&self, live: &Live, route: &str) {
        if self.wish.may_look {
            let stored = self.held.iter().flatten().filter(|held| held.how == How::Stored).count() as u64;
            live.metrics.caches.looked_for(route, stored, self.held.len() as u64 - stored);
        }
    }

    /// The age of the oldest vector that was stored.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.held.iter().flatten().filter(|held| held.how == How::Stored).map(|held| held.age).max()
    }

    /// What did not have to be asked for.
    #[must_use]
    pub fn saved(&self, route: &Route) -> Option<Saved> {
        let free = || self.held.iter().flatten().filter(|held| held.how != How::Brought);
        let first = free().next()?;
        let prompt = free().map(|held| held.tokens).fold(0, u64::saturating_add);
        let usage = Usage { prompt, ..Usage::default() };
        let took = free().map(|held| held.took).max().unwrap_or_default();
        let cost: Option<Cost> =
            upstream(route, first).and_then(|upstream| upstream.price.as_ref()).and_then(|price| price.of(usage));
        Some(Saved { usage, cost, took })
    }

    /// What the call wants.
    #[must_use]
    pub const fn wish(&self) -> &Arc<Wish> {
        &self.wish
    }

    /// Bytes of numbers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.held.iter().flatten().map(|held| held.numbers.len()).sum()
    }

    /// All vectors of the call.
    ///
    /// # Errors
    /// `embedding_dimension_mismatch` where they differ in their dimension.
    pub fn whole(&self) -> Result<Whole, Refusal> {
        let missing = || Refusal::new(Code::UpstreamBadResponse, "not every input has a vector");
        let all: Vec<InputVector> = self.held.iter().cloned().collect::<Option<_>>().ok_or_else(missing)?;
        let newest = all.iter().max_by_key(|held| held.how).cloned().ok_or_else(missing)?;
        if all.iter().any(|held| held.dimension() != newest.dimension()) {
            let message = "vectors of this call's inputs have different dimensions";
            return Err(Refusal::new(Code::EmbeddingDimensionMismatch, message));
        }
        Ok(Whole { all, newest })
    }
}

/// All vectors of a call, of one dimension.
#[derive(Debug)]
pub struct Whole {
    all: Vec<InputVector>,
    /// One of those that came last.
    newest: InputVector,
}

impl Whole {
    /// The answer, in OpenAI's form and the encoding asked for, and whose it is. Its `usage` counts every input, as
    /// the upstream would have: what is paid for is another matter. Digits may have been written before.
    #[must_use]
    pub fn answer(self, view: &View, written: Option<&DigitsCache>) -> (Answer, InputVector) {
        let Self { all, newest } = self;
        let tokens = all.iter().map(|held| held.tokens).fold(0, u64::saturating_add);
        let numbers = all.iter().map(|held| &held.numbers);
        let body = match (view.encoding, written) {
            (Encoding::Base64, _) => answer(&newest.model(), &numbers.collect::<Vec<_>>(), Encoding::Base64, tokens),
            (_, None) => answer(&newest.model(), &numbers.collect::<Vec<_>>(), Encoding::Float, tokens),
            (_, Some(written)) => {
                let digits: Vec<_> = numbers.map(|numbers| written.digits(numbers)).collect();
                let digits: Vec<&[u8]> = digits.iter().map(|spelling| (**spelling).as_ref()).collect();
                answer_spelled(&newest.model(), &digits, tokens)
            }
        };
        (Answer { body, usage: None, is_stream: false, dimension: Some(newest.dimension()) }, newest)
    }
}

/// The upstream that a vector has come from, where the route still has it.
fn upstream<'a>(route: &'a Route, held: &InputVector) -> Option<&'a Arc<Upstream>> {
    route.upstreams.iter().find(|upstream| upstream.label.as_bytes() == held.upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basket(keys: impl Iterator<Item = Option<u64>>) -> Basket {
        let key = |number: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            Key(bytes)
        };
        let inputs = with_repeats(keys.map(|number| number.map(key)));
        Basket::new(
            Arc::new(Wish {
                inputs,
                may_look: true,
                ttl: Duration::MAX,
                route: "embedding".into(),
                owner: None,
                sources: None,
            }),
            None,
        )
    }

    fn held(number: u8) -> InputVector {
        InputVector {
            numbers: vec![number; 4].into(),
            model: bytes::Bytes::new(),
            upstream: bytes::Bytes::new(),
            source: 0,
            tokens: 1,
            took: Duration::ZERO,
            age: Duration::ZERO,
            how: How::Brought,
        }
    }

    #[test]
    fn a_vector_goes_to_each_repeat_of_its_input_and_to_no_other() {
        let mut basket = basket([Some(1), None, Some(2), Some(1), None, Some(1), Some(2)].into_iter());
        assert_eq!(basket.missing(), [0, 1, 2, 4]);
        basket.put(0, held(1));
        basket.put(2, held(2));
        basket.put(4, held(4));
        let put: Vec<u8> = basket.held.iter().map(|held| held.as_ref().map_or(0, |held| held.numbers[0])).collect();
        assert_eq!(put, [1, 0, 2, 1, 4, 1, 2]);
        assert_eq!(basket.missing(), [1]);
    }

    #[test]
    fn putting_vectors_takes_no_longer_for_each_the_more_there_are() {
        let many = 200_000;
        let mut basket = basket((0..many).map(|number| Some(number / 2)));
        let began = base::Clock.now();
        for place in basket.missing() {
            basket.put(place, held(1));
        }
        assert!(basket.missing().is_empty());
        // Each with all that follow would be ten thousand million steps.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
