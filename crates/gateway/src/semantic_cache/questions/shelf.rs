//! The questions of one route, within bounds: what is used least goes first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use semantic::index::{Bounds, Id, Index, NotStored, Partition};
use smallvec::SmallVec;
use state::answers::{Key, Stored};

use super::rest::Rest;

/// Questions of one route at most.
const MOST: u64 = 100_000;
/// So many of the nearest are looked at: where as many stand within the margin, more would hardly say anything else.
const NEAREST: usize = 32;
/// What a question takes beside its text and what the index counts: its entry, its turn, the tables' share of both.
const ENTRY: u64 = 368;

/// Where a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// All that decides the answer beside the question.
    pub partition: Partition,
    /// The question, by its words.
    pub id: Id,
}

/// A question that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As it was asked.
    pub text: Arc<str>,
    /// Where its answer is.
    pub answer: Key,
    /// Whom it is kept for; `None` where the route's callers share it.
    pub client: Option<Arc<str>>,
    /// When the answer was stored.
    pub stored: Duration,
    /// The answer is served until then.
    pub expires: Duration,
}

impl Entry {
    /// Whether its answer is too old for who serves nothing older than `ttl`, and would yet be served by one who did: the
    /// time that a reload has made shorter may become longer again.
    fn is_passed_over(&self, ttl: Duration, now: Duration) -> bool {
        now < self.expires && now.saturating_sub(self.stored) >= ttl
    }
}

/// A question that is near to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Where it stands.
    pub place: Place,
    /// As it was asked.
    pub text: Arc<str>,
    /// Where its answer is.
    pub answer: Key,
    /// The cosine of both vectors.
    pub similarity: f32,
}

/// The questions of one route.
#[derive(Debug)]
pub struct Shelf {
    index: Index,
    /// Locked for as long as looking up a few entries takes, or writing one.
    desk: Mutex<Desk>,
    /// Held by who writes a question and its vector, or takes both out: one at a time, so that neither is left without
    /// the other. Who only looks does not wait for it, as a vector may take long to write.
    writing: Mutex<()>,
    /// What all of it may take, in bytes.
    most: AtomicU64,
    /// How look-ups fare, up to the vector of what is asked.
    pub rest: Rest,
    /// How those fare who have matches verified.
    pub verifier: Rest,
}

#[derive(Debug, Default)]
struct Desk {
    entries: HashMap<Place, (Entry, u64)>,
    by_use: BTreeMap<u64, Place>,
    turn: u64,
    bytes: u64,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            // It is this module that keeps the bounds: what goes must go here too.
            index: Index::new(Bounds { entries: u64::MAX, bytes: u64::MAX }),
            desk: Mutex::default(),
            writing: Mutex::default(),
            most: AtomicU64::new(0),
            rest: Rest::default(),
            verifier: Rest::default(),
        }
    }
}

impl Shelf {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another bound holds from the next question on.
    pub(super) fn hold_within(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    /// The very question, where it has been asked before.
    #[must_use]
    pub fn known(&self, place: Place) -> Option<Candidate> {
        let desk = self.desk();
        let (entry, _) = desk.entries.get(&place)?;
        Some(Candidate { place, text: entry.text.clone(), answer: entry.answer, similarity: 1.0 })
    }

    /// The nearest questions of a partition, the nearest first, none of them less similar than `least`. Those whose answers
    /// are as old as `ttl` are passed over, and stay.
    #[must_use]
    pub fn nearest(
        &self,
        partition: &Partition,
        vector: &[f32],
        least: f32,
        (ttl, now): (Duration, Duration),
    ) -> SmallVec<[Candidate; 8]> {
        let found = self.index.nearest(partition, vector, NEAREST, least);
        let desk = self.desk();
        let candidate = |neighbour: &semantic::index::Neighbour| {
            let place = Place { partition: *partition, id: neighbour.id };
            let (entry, _) = desk.entries.get(&place).filter(|(entry, _)| !entry.is_passed_over(ttl, now))?;
            Some(Candidate { place, text: entry.text.clone(), answer: entry.answer, similarity: neighbour.similarity })
        };
        found.iter().filter_map(candidate).collect()
    }

    /// A question was found, and its answer served.
    pub fn touch(&self, place: Place) {
        self.desk().touch(place);
    }

    /// Keeps a question in the place of what stands there. What was used least goes where there is no room.
    ///
    /// # Errors
    /// A vector that cannot be compared with the others.
    pub(super) fn insert(&self, place: Place, vector: &[f32], entry: Entry) -> Result<(), NotStored> {
        let _writing = self.writing();
        self.index.insert(&place.partition, place.id, vector)?;
        self.desk().put(place, entry);
        while let Some(place) = self.surplus() {
            self.index.remove(&place.partition, place.id);
        }
        Ok(())
    }

    /// A question that is known has been answered anew, and says whether it is.
    pub(super) fn renew(&self, place: Place, answer: Key, given: &Stored) -> bool {
        let mut desk = self.desk();
        let Some((entry, _)) = desk.entries.get_mut(&place) else { return false };
        (entry.answer, entry.stored, entry.expires) = (answer, given.stored, given.expires);
        desk.touch(place);
        true
    }

    /// Takes out what was used least, where there is more than there may be.
    fn surplus(&self) -> Option<Place> {
        let mut desk = self.desk();
        let bytes = self.index.bytes() + desk.bytes;
        let is_too_much = desk.entries.len() as u64 > MOST || bytes > self.most.load(Relaxed);
        if !is_too_much {
            return None;
        }
        let (_, place) = desk.by_use.pop_first()?;
        desk.take(place);
        Some(place)
    }

    /// Removes a question with this answer, and says whether there was one.
    pub(super) fn remove(&self, place: Place, answer: &Key) -> bool {
        let _writing = self.writing();
        let mut desk = self.desk();
        if desk.entries.get(&place).is_none_or(|(entry, _)| entry.answer != *answer) {
            return false;
        }
        desk.take(place);
        drop(desk);
        self.index.remove(&place.partition, place.id);
        true
    }

    /// Removes the questions that are kept for a client; without one, all of them.
    pub(super) fn purge(&self, client: Option<&Arc<str>>) {
        let is_one = |entry: &Entry| client.is_none_or(|client| Some(client) == entry.client.as_ref());
        // The desk is wanted by those who ask: it is locked for looking, and then once for each that goes.
        let found: Vec<(Place, Key)> = {
            let desk = self.desk();
            let all = desk.entries.iter().filter(|(_, (entry, _))| is_one(entry));
            all.map(|(place, (entry, _))| (*place, entry.answer)).collect()
        };
        for (place, answer) in found {
            self.remove(place, &answer);
        }
    }

    /// How many questions there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.desk().entries.len()
    }

    /// What they take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index.bytes() + self.desk().bytes
    }
}

impl Desk {
    fn put(&mut self, place: Place, entry: Entry) {
        self.take(place);
        self.turn += 1;
        self.bytes += cost(&entry);
        self.by_use.insert(self.turn, place);
        self.entries.insert(place, (entry, self.turn));
    }

    fn take(&mut self, place: Place) {
        if let Some((entry, turn)) = self.entries.remove(&place) {
            self.by_use.remove(&turn);
            self.bytes = self.bytes.saturating_sub(cost(&entry));
        }
    }

    fn touch(&mut self, place: Place) {
        let Some((_, turn)) = self.entries.get_mut(&place) else { return };
        self.turn += 1;
        self.by_use.remove(turn);
        *turn = self.turn;
        self.by_use.insert(self.turn, place);
    }
}

fn cost(entry: &Entry) -> u64 {
    ENTRY + entry.text.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: Id) -> Place {
        Place { partition: Partition([1; 32]), id }
    }

    fn entry(text: &str) -> Entry {
        let (stored, expires) = (Duration::ZERO, Duration::from_secs(60));
        Entry { text: text.into(), answer: Key([9; 32]), client: None, stored, expires }
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let shelf = Shelf::default();
        shelf.hold_within(u64::MAX);
        shelf.insert(place(1), &[1.0, 0.0], entry("one")).unwrap();
        shelf.insert(place(2), &[0.0, 1.0], entry("two")).unwrap();
        shelf.hold_within(shelf.bytes());
        shelf.touch(place(1));
        shelf.insert(place(3), &[0.6, 0.8], entry("six")).unwrap();
        assert_eq!((shelf.count(), shelf.known(place(2))), (2, None));
        let near = shelf.nearest(&Partition([1; 32]), &[0.0, 1.0], 0.5, (Duration::MAX, Duration::ZERO));
        assert_eq!(near.iter().map(|near| &*near.text).collect::<Vec<_>>(), ["six"]);
        assert!(shelf.known(place(1)).is_some());
    }

    #[test]
    fn what_is_too_old_for_now_is_passed_over_and_stays_and_what_is_over_is_found_to_be_forgotten() {
        let shelf = Shelf::default();
        shelf.hold_within(u64::MAX);
        shelf.insert(place(1), &[1.0, 0.0], entry("one")).unwrap();
        let seconds = Duration::from_secs;
        let found = |ttl, now| shelf.nearest(&Partition([1; 32]), &[1.0, 0.0], 0.5, (seconds(ttl), seconds(now))).len();
        assert_eq!((found(60, 29), found(30, 29), found(30, 30), found(60, 30)), (1, 1, 0, 1));
        assert_eq!((found(30, 60), shelf.count()), (1, 1), "who looks for its answer finds it gone");
    }

    #[test]
    fn what_is_purged_of_one_client_leaves_the_others() {
        let shelf = Shelf::default();
        shelf.hold_within(u64::MAX);
        let of = |client: &str| Entry { client: Some(client.into()), ..entry("one") };
        shelf.insert(place(1), &[1.0], of("app")).unwrap();
        shelf.insert(place(2), &[1.0], of("other")).unwrap();
        shelf.insert(place(3), &[1.0], entry("all")).unwrap();
        shelf.purge(Some(&"app".into()));
        assert_eq!((shelf.known(place(1)), shelf.count()), (None, 2));
        shelf.purge(None);
        assert_eq!((shelf.count(), shelf.bytes()), (0, 0));
    }

    #[test]
    fn what_is_answered_anew_while_its_old_answer_is_removed_is_found() {
        let shelf = Shelf::default();
        shelf.hold_within(u64::MAX);
        let barrier = std::sync::Barrier::new(2);
        let answered = |answer: u8| Entry { answer: Key([answer; 32]), ..entry("one") };
        let found = || shelf.nearest(&Partition([1; 32]), &[1.0], 0.5, (Duration::MAX, Duration::ZERO)).len();
        for _ in 0..5_000 {
            shelf.insert(place(1), &[1.0], answered(1)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    barrier.wait();
                    shelf.remove(place(1), &Key([1; 32]))
                });
                barrier.wait();
                shelf.insert(place(1), &[1.0], answered(2)).unwrap();
            });
            assert_eq!((shelf.count(), found()), (1, 1), "the question and its vector");
        }
    }

    #[test]
    fn what_has_been_answered_anew_is_not_removed_for_its_old_answer() {
        let shelf = Shelf::default();
        shelf.hold_within(u64::MAX);
        shelf.insert(place(1), &[1.0], entry("one")).unwrap();
        shelf.insert(place(1), &[1.0], Entry { answer: Key([8; 32]), ..entry("one") }).unwrap();
        assert!(!shelf.remove(place(1), &Key([9; 32])));
        assert!(shelf.remove(place(1), &Key([8; 32])));
        assert_eq!((shelf.count(), shelf.bytes()), (0, 0));
    }
}
