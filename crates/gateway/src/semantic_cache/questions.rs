//! Questions that have been answered, by route: what the semantic cache searches among.
//!
//! A search runs on the worker that asks. What is added is added behind the traffic, by a thread of its own where one
//! works: putting a vector among its neighbours takes longer than a call should wait.

mod clerk;
mod judge;
mod readings;
mod rest;
mod row;
mod shelf;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use config::{CacheMode, Snapshot};
use foldhash::HashMap;
use rules::cache_key::KeyBuilder;
use semantic::index::Partition;
use smallvec::SmallVec;
use state::Answers;
use state::answers::{Key, Kind, Stored, Which};
use tokio::sync::Notify;

use clerk::{Clerk, Order, WAITING};
pub use judge::{Bar, Judged, judge};
pub use readings::{Reading, Readings};
pub use rest::{Rest, Trial};
pub use shelf::{Candidate, Entry, Place, Shelf};

use crate::cache::purges::Purges;
use crate::cache::shared_call::Awaited;

/// What a call asks, and what may be stored with its answer.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where its question stands.
    pub place: Place,
    /// The question.
    pub text: Arc<str>,
    /// Its vector, once that is known.
    pub vector: Option<Arc<[f32]>>,
    /// The call that brings it, while that is waited for.
    pub awaited: Option<Awaited>,
    /// What has withheld answers to near questions from it, each word once.
    pub withheld: Withheld,
    /// The nearest question, where somebody is to read it later.
    pub near: Option<Near>,
}

/// What is told of the nearest question to whoever reads the request's texts later, be its answer served or not. Its
/// texts are whole, and hold keys yet.
#[derive(Clone, Debug)]
pub struct Near {
    /// What is asked.
    pub question: Arc<str>,
    /// What was asked before.
    pub known: Arc<str>,
    /// What was answered, where that is at hand.
    pub answer: Option<Arc<Stored>>,
    /// The cosine of both vectors.
    pub similarity: f32,
    /// What has withheld the answer.
    pub withheld: Option<&'static str>,
}

/// What a look-up by meaning has come to.
#[derive(Debug, Default)]
pub struct Sought {
    /// A stored answer to the same question.
    pub found: Option<Match>,
    /// What has withheld others.
    pub withheld: Withheld,
    /// The nearest question, where somebody is to read it later.
    pub near: Option<Near>,
}

/// Words for what withheld a stored answer.
pub type Withheld = SmallVec<[&'static str; 2]>;

impl Asked {
    /// A stored answer was withheld, or a look-up came to no end.
    pub(crate) fn withhold(&mut self, by: &'static str) {
        if !self.withheld.contains(&by) {
            self.withheld.push(by);
        }
    }

    /// A question among those that may share its answer.
    #[must_use]
    pub fn new(partition: Partition, text: &str) -> Self {
        let hash = KeyBuilder::new("question text").part(dialect::embeddings::normalized(text).as_bytes()).finish();
        let [half @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = hash;
        Self {
            place: Place { partition, id: u128::from_le_bytes(half) },
            text: text.into(),
            vector: None,
            awaited: None,
            withheld: Withheld::new(),
            near: None,
        }
    }
}

/// A stored answer to the same question.
#[derive(Debug)]
pub struct Match {
    /// The question that it was given to.
    pub candidate: Candidate,
    /// The answer.
    pub stored: Arc<Stored>,
    /// It is written down that it would have been served, and no more.
    pub is_shadow: bool,
    /// The guard that the verifier has overruled.
    pub overruled: Option<&'static str>,
}

/// What was kept before the start waits so long where there is more to be kept than is done.
const PAUSE: Duration = Duration::from_millis(5);
/// After so long a disk that is out is asked again, and so often before it is given up.
const AGAIN: Duration = Duration::from_secs(1);
const MOST_TRIES: u32 = 60;

/// Every route's questions.
#[derive(Debug)]
pub struct Questions {
    answers: Arc<dyn Answers>,
    purges: Arc<Purges>,
    shelves: ArcSwap<HashMap<Arc<str>, Arc<Shelf>>>,
    clerk: Arc<Clerk>,
    orders: OnceLock<SyncSender<Order>>,
    /// The words that questions are compared by are at hand.
    is_ready: Arc<AtomicBool>,
    /// A route has begun to match by meaning.
    news: Notify,
    /// Questions as their words were read lately.
    pub readings: Readings,
}

impl Questions {
    pub(crate) fn new(answers: Arc<dyn Answers>, purges: Arc<Purges>) -> Self {
        let clerk = Clerk { answers: answers.clone(), purges: purges.clone(), lost: AtomicU64::new(0) };
        Self {
            answers,
            purges,
            shelves: ArcSwap::default(),
            clerk: Arc::new(clerk),
            orders: OnceLock::new(),
            is_ready: Arc::new(AtomicBool::new(true)),
            news: Notify::new(),
            readings: Readings::default(),
        }
    }

    /// Makes room for the routes of a configuration that match by meaning, and forgets those of others.
    pub(crate) fn bind(&self, snapshot: &Snapshot) {
        let matching = || snapshot.routes.iter().filter(|route| route.cache.mode == CacheMode::Semantic);
        let most = share(snapshot) / (matching().count() as u64).max(1);
        let before = self.shelves.load();
        let shelf = |route: &Arc<str>| {
            let shelf = before.get(route).cloned().unwrap_or_default();
            shelf.hold_within(most);
            (route.clone(), shelf)
        };
        let shelves: HashMap<_, _> = matching().map(|route| shelf(&route.name)).collect();
        let is_wanted = !shelves.is_empty();
        let has_news = shelves.keys().any(|route| !before.contains_key(route));
        self.shelves.store(Arc::new(shelves));
        if has_news {
            self.news.notify_one();
        }
        if let (true, Some(orders)) = (is_wanted, self.orders.get()) {
            // With a full queue there is work that needs them too.
            let _ = orders.try_send(Order::Warm);
        }
    }

    /// The questions of a route that matches by meaning.
    #[must_use]
    pub fn of(&self, route: &str) -> Option<Arc<Shelf>> {
        self.shelves.load().get(route).cloned()
    }

    /// Whether questions can be compared yet.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Relaxed)
    }

    /// How many questions of a route there are; `None` where it does not match by meaning.
    #[must_use]
    pub fn count(&self, route: &str) -> Option<usize> {
        self.shelves.load().get(route).map(|shelf| shelf.count())
    }

    /// Questions that were not kept, since more came than could be put among the others, or since their vectors cannot
    /// be compared with those of the others.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.clerk.lost.load(Relaxed)
    }

    /// From now on a thread of its own keeps what is to be kept.
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn employ(&self) -> std::io::Result<()> {
        let (orders, work) = std::sync::mpsc::sync_channel(WAITING);
        self.is_ready.store(false, Relaxed);
        let (clerk, is_ready) = (self.clerk.clone(), self.is_ready.clone());
        let thread = std::thread::Builder::new().name("questions".to_owned());
        thread.spawn(move || clerk.work(&is_ready, &work))?;
        if !self.shelves.load().is_empty() {
            // The queue is new.
            let _ = orders.try_send(Order::Warm);
        }
        // Only once in the process.
        let _ = self.orders.set(orders);
        Ok(())
    }

    /// Keeps a question of a route, whose answer has been stored under a key, and was asked for after so many purges. A
    /// question that is known stays known, whether its vector has been asked for this time or not.
    pub fn keep(&self, asked: &Asked, key: Key, stored: &Stored, purges: u64) {
        let Some(shelf) = self.of(&stored.route) else { return };
        if let Some(vector) = asked.vector.clone().or_else(|| self.vector(&shelf, asked.place)) {
            let (place, text, client) = (asked.place, asked.text.clone(), stored.client.clone());
            let entry = Entry { text, answer: key, client, stored: stored.stored, expires: stored.expires };
            let row = row::stored(place, &entry, &vector, stored);
            return self.order(Order::Keep { shelf, place, entry, vector, row, is_stored: false, purges });
        }
        if shelf.renew(asked.place, key, stored) {
            // Its vector lies on disk alone, beside the old answer: from here on it stands in memory alone.
            drop(self.answers.remove(&row::key(asked.place)));
        }
    }

    /// The vector of a question that is known, where it is at hand: a call that has found it by its very words, or has
    /// looked for nothing, did not ask for it.
    fn vector(&self, shelf: &Shelf, place: Place) -> Option<Arc<[f32]>> {
        shelf.known(place)?;
        let (.., vector) = row::read(&*self.answers.peek(&row::key(place))?)?;
        Some(vector.into())
    }

    /// Takes up what was kept before, at the start and whenever a route begins to match by meaning, for ever.
    pub async fn keep_taking_up(&self) {
        loop {
            self.news.notified().await;
            self.take_all_up().await;
        }
    }

    /// Page by page; what is asked meanwhile finds what is there so far.
    async fn take_all_up(&self) {
        let (mut from, mut tries) = (None, 0);
        while tries < MOST_TRIES {
            let purges = self.purges.count();
            let Some(page) = self.answers.scan(Kind::Question, from).await else {
                tries += 1;
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            for (key, stored) in &page.found {
                self.take_up(*key, stored, purges).await;
            }
            from = page.next;
            if from.is_none() {
                return;
            }
        }
        tracing::warn!("what was asked before the start is not matched: the cache on disk cannot be read");
    }

    async fn take_up(&self, key: Key, stored: &Arc<Stored>, purges: u64) {
        let Some(shelf) = self.shelves.load().get(&stored.route).cloned() else { return };
        let Some((place, entry, vector)) = row::read(stored).filter(|(place, ..)| row::key(*place) == key) else {
            return;
        };
        // What has been asked since the start is newer.
        if shelf.known(place).is_some() {
            return;
        }
        let (vector, row, is_stored) = (vector.into(), stored.clone(), true);
        let mut order = Order::Keep { shelf, place, entry, vector, row, is_stored, purges };
        loop {
            let Some(orders) = self.orders.get() else { return self.clerk.carry_out(order) };
            match orders.try_send(order) {
                Err(TrySendError::Full(again)) => order = again,
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            }
            // What is asked now goes first.
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Forgets a question whose answer is gone, unless it has been answered anew since.
    pub fn forget(&self, shelf: &Shelf, place: Place, answer: &Key) {
        if shelf.remove(place, answer) {
            // It is found damaged, or without an answer, once more where this comes to nothing.
            drop(self.answers.remove(&row::key(place)));
        }
    }

    /// A question has been answered anew, with what others must not get: an older answer is found no more.
    pub fn outdated(&self, asked: &Asked, route: &str) {
        let Some(shelf) = self.of(route) else { return };
        if let Some(known) = shelf.known(asked.place) {
            self.forget(&shelf, asked.place, &known.answer);
        }
    }

    /// Forgets the questions that are to be purged. What waits to be put among them is found out by its count of
    /// purges. It looks at every question: not for workers.
    pub(crate) fn purge(&self, which: &Which) {
        if which.kind.is_some_and(|kind| kind != Kind::Question) {
            return;
        }
        for (route, shelf) in &**self.shelves.load() {
            if which.route.as_ref().is_none_or(|only| only == route) {
                shelf.purge(which.client.as_ref());
            }
        }
    }

    fn order(&self, order: Order) {
        let Some(orders) = self.orders.get() else { return self.clerk.carry_out(order) };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = orders.try_send(order) {
            self.clerk.lost.fetch_add(1, Relaxed);
        }
    }
}

/// What of `cache.memory` is for questions and their vectors: half of it, where a route matches by meaning.
#[must_use]
pub fn share(snapshot: &Snapshot) -> u64 {
    let is_matching = snapshot.routes.iter().any(|route| route.cache.mode == CacheMode::Semantic);
    if is_matching { snapshot.general.cache.memory / 2 } else { 0 }
}
