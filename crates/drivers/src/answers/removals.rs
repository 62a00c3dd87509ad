//! What is being removed, and what was removed lately: neither is given back by a look-up that read it before.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use state::answers::{Key, Stored, Which};

/// Removals that are remembered after their end. A look-up during which more have ended is a miss, whatever it found.
const RECENT: usize = 256;

/// What is to be removed.
#[derive(Debug)]
pub(super) enum Pending {
    Key(Key),
    Which(Which),
}

impl Pending {
    fn has(&self, key: &Key, stored: &Stored) -> bool {
        match self {
            Self::Key(removed) => removed == key,
            Self::Which(which) => which.has(stored),
        }
    }
}

/// A moment in the order of all beginnings and ends of removals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

#[derive(Debug, Default)]
struct Book {
    now: Moment,
    under_way: Vec<(Moment, Pending)>,
    /// By the moment of their end, the oldest first.
    ended: VecDeque<(Moment, Pending)>,
    /// The end of the last one that is remembered no more.
    forgotten: Option<Moment>,
}

impl Book {
    fn next(&mut self) -> Moment {
        let now = self.now;
        self.now = Moment(now.0 + 1);
        now
    }
}

/// Removals of one store.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<Book>);

impl Removals {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The moment for a look-up to begin with.
    pub fn now(&self) -> Moment {
        self.book().now
    }

    /// Something is to be removed. What this gives names it at its end.
    pub fn begin(&self, pending: Pending) -> Moment {
        let mut book = self.book();
        let began = book.next();
        book.under_way.push((began, pending));
        began
    }

    /// It has been removed, from memory too.
    pub fn end(&self, began: Moment) {
        let mut book = self.book();
        let Some(at) = book.under_way.iter().position(|(moment, _)| *moment == began) else { return };
        let (_, pending) = book.under_way.swap_remove(at);
        let now = book.next();
        book.ended.push_back((now, pending));
        if book.ended.len() > RECENT {
            book.forgotten = book.ended.pop_front().map(|(ended, _)| ended);
        }
    }

    /// Whether what a look-up has found that began at a moment is being removed, or may have been since.
    pub fn concern(&self, key: &Key, stored: &Stored, since: Moment) -> bool {
        let book = self.book();
        let later = book.ended.iter().rev().take_while(|(ended, _)| *ended >= since);
        book.forgotten.is_some_and(|ended| ended >= since)
            || book.under_way.iter().chain(later).any(|(_, pending)| pending.has(key, stored))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{key, stored};
    use super::*;

    fn concern(removals: &Removals, number: u64, since: Moment) -> bool {
        removals.concern(&key(number), &stored(number, 10), since)
    }

    #[test]
    fn only_what_is_removed_is_withheld_from_look_ups_under_way() {
        let removals = Removals::default();
        let before = removals.now();
        let removal = removals.begin(Pending::Key(key(1)));
        assert!(concern(&removals, 1, before));
        let amid = removals.now();
        removals.end(removal);
        assert!(concern(&removals, 1, before) && concern(&removals, 1, amid));
        assert!(!concern(&removals, 2, before) && !concern(&removals, 2, amid));
        assert!(!concern(&removals, 1, removals.now()), "a look-up that begins later finds what was put later");
    }

    #[test]
    fn a_purge_withholds_all_that_it_removes() {
        let removals = Removals::default();
        let before = removals.now();
        let which = |route: &str| Which { route: Some(Arc::from(route)), ..Which::default() };
        let own = stored(1, 10).route.clone();
        removals.end(removals.begin(Pending::Which(which("another"))));
        assert!(!concern(&removals, 1, before));
        removals.end(removals.begin(Pending::Which(which(&own))));
        assert!(concern(&removals, 1, before));
    }

    #[test]
    fn a_look_up_that_saw_too_many_removals_end_is_a_miss() {
        let removals = Removals::default();
        let before = removals.now();
        for number in 0..RECENT as u64 {
            removals.end(removals.begin(Pending::Key(key(number))));
        }
        assert!(!concern(&removals, 1_000, before));
        let later = removals.now();
        removals.end(removals.begin(Pending::Key(key(999))));
        assert!(concern(&removals, 1_000, before), "what is forgotten may have been about it");
        assert!(!concern(&removals, 1_000, later));
    }
}
