//! What operators have purged lately, so that what began before a purge is not stored after it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use state::answers::{Stored, Which};

/// Purges that are told apart. Across more of them nothing is spared.
const MOST: usize = 64;

/// The purges so far.
#[derive(Debug, Default)]
pub struct Purges {
    count: AtomicU64,
    /// The latest of them, the oldest first.
    latest: Mutex<VecDeque<Which>>,
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
        since <= latest.len() && !latest.iter().rev().take(since).any(|which| which.has(stored))
    }

    /// There is one more. To be noted before anything is dropped.
    pub(crate) fn note(&self, which: &Which) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() == MOST {
            latest.pop_front();
        }
        latest.push_back(which.clone());
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
}
