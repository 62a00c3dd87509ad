//! What operators have purged and removed lately, so that what began before is neither stored nor served after it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use state::answers::{Key, Kind, Stored, Which};

/// Purges and removals that are told apart. Across more of them nothing is spared.
const MOST: usize = 256;

/// One purge, or the removal of what stands under one key.
#[derive(Clone, Debug)]
enum Gone {
    All(Which),
    One(Key),
}

/// What has gone since somebody began.
#[derive(Clone, Debug)]
pub struct Lost(Option<Vec<Gone>>);

impl Lost {
    /// Whether what stood under a key may have gone, something of this kind that a route has for a client, or with `None`
    /// for all of its callers.
    #[must_use]
    pub fn has(&self, key: &Key, kind: Kind, of: (&str, Option<&str>)) -> bool {
        let has = |gone: &Gone| match gone {
            Gone::All(which) => which.covers(kind, of),
            Gone::One(removed) => removed == key,
        };
        self.0.as_ref().is_none_or(|gone| gone.iter().any(has))
    }

    /// Whether all of a kind has been purged, as far as that is known.
    #[must_use]
    pub fn has_all(&self, kind: Kind, of: (&str, Option<&str>)) -> bool {
        self.0.iter().flatten().any(|gone| matches!(gone, Gone::All(which) if which.covers(kind, of)))
    }
}

/// The purges so far.
#[derive(Debug, Default)]
pub struct Purges {
    count: AtomicU64,
    /// The latest of them, the oldest first.
    latest: Mutex<VecDeque<Gone>>,
}

impl Purges {
    /// How many there have been: what a call that may store something remembers when it begins.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Whether none of those since the first `count` concerns something.
    #[must_use]
    pub fn spare(&self, stored: &Stored, count: u64) -> bool {
        if self.count() == count {
            return true;
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let since = usize::try_from(self.count().saturating_sub(count)).unwrap_or(usize::MAX);
        let has = |gone: &Gone| matches!(gone, Gone::All(which) if which.has(stored));
        since <= latest.len() && !latest.iter().rev().take(since).any(has)
    }

    /// What has gone since the first `count`; `None` for nothing.
    #[must_use]
    pub fn since(&self, count: u64) -> Option<Lost> {
        if self.count() == count {
            return None;
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let since = usize::try_from(self.count().saturating_sub(count)).unwrap_or(usize::MAX);
        Some(Lost((since <= latest.len()).then(|| latest.iter().rev().take(since).cloned().collect())))
    }

    /// There is one more. To be noted before anything is dropped.
    pub(crate) fn note(&self, which: &Which) {
        self.push(Gone::All(which.clone()));
    }

    /// What stood under a key is gone. To be noted once it is: who looks it up later does not find it.
    pub(crate) fn note_one(&self, key: &Key) {
        self.push(Gone::One(*key));
    }

    fn push(&self, gone: Gone) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() == MOST {
            latest.pop_front();
        }
        latest.push_back(gone);
        self.count.fetch_add(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use state::answers::Kind;

    use super::*;

    fn answer() -> Stored {
        Stored {
            kind: Kind::Answer,
            route: "chat".into(),
            client: Some("app".into()),
            kb_version: None,
            stored: Duration::ZERO,
            expires: Duration::ZERO,
            keep_until: Duration::ZERO,
            body: Box::default(),
        }
    }

    #[test]
    fn only_later_purges_of_the_same_concern_a_thing() {
        let purges = Purges::default();
        purges.note(&Which::default());
        let count = purges.count();
        assert!(purges.spare(&answer(), count), "that was before");
        purges.note(&Which { kind: Some(Kind::Vector), ..Which::default() });
        purges.note(&Which { client: Some("other".into()), ..Which::default() });
        assert!(purges.spare(&answer(), count), "those were of others");
        purges.note(&Which { route: Some("chat".into()), ..Which::default() });
        assert!(!purges.spare(&answer(), count));
        assert!(purges.spare(&answer(), purges.count()));
    }

    #[test]
    fn nothing_is_spared_across_more_purges_than_are_told_apart() {
        let purges = Purges::default();
        let of_others = Which { client: Some("other".into()), ..Which::default() };
        (0..MOST).for_each(|_| purges.note(&of_others));
        assert!(purges.spare(&answer(), 0));
        purges.note(&of_others);
        assert!(!purges.spare(&answer(), 0));
        assert!(purges.spare(&answer(), 1));
    }

    #[test]
    fn what_was_removed_by_itself_has_gone_and_may_be_stored_anew() {
        let purges = Purges::default();
        let (key, of) = (Key([1; 32]), ("chat", Some("app")));
        assert!(purges.since(0).is_none());
        purges.note_one(&key);
        let lost = purges.since(0).unwrap();
        assert!(lost.has(&key, Kind::Answer, of) && !lost.has(&Key([2; 32]), Kind::Answer, of));
        assert!(!lost.has_all(Kind::Answer, of));
        assert!(purges.spare(&answer(), 0));
        purges.note(&Which { client: Some("app".into()), ..Which::default() });
        let lost = purges.since(1).unwrap();
        assert!(lost.has_all(Kind::Answer, of) && lost.has(&key, Kind::Answer, of));
        assert!(!lost.has(&key, Kind::Answer, ("chat", None)));
        (0..MOST).for_each(|_| purges.note_one(&key));
        let lost = purges.since(0).unwrap();
        assert!(lost.has(&Key([2; 32]), Kind::Vector, ("other", None)), "nobody knows what those were");
        assert!(!lost.has_all(Kind::Vector, ("other", None)));
    }
}
