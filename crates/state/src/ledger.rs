//! The usage ledger: what is asked of it, and a single process's own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::{Answer, Book, Entry, Question, Row};

/// How a ledger does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What keeps it from writing, while something does.
    pub trouble: Option<Trouble>,
    /// Entries (of one quarter and one combination of names) that are in memory alone.
    pub waiting: u64,
    /// Calls whose use was lost since the start, because memory for entries was full too.
    pub lost: u64,
    /// What befell its file last, where something has.
    pub damage: Option<Damage>,
    /// How often it came to hold something else than what was booked: less of it, or what somebody else has put there.
    pub changes: u64,
}

/// What befell the file of a store: it was removed, replaced, emptied, overwritten or found broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// When that was found last, from the Unix epoch.
    pub at: Duration,
    /// What it was, and what became of what was in the file, for operators.
    pub what: String,
    /// How often something was found since the start.
    pub times: u64,
}

impl Damage {
    /// Something was found, once more.
    pub fn note(known: &mut Option<Self>, at: Duration, what: String) {
        let times = known.as_ref().map_or(0, |known| known.times) + 1;
        *known = Some(Self { at, what, times });
    }
}

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Since when, from the Unix epoch.
    pub since: Duration,
    /// A sentence for operators: what is wrong and what to do.
    pub what: String,
}

/// Why a question got no answer: a sentence for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// The usage ledger.
///
/// While its store is out entries wait in bounded memory and are written as soon as it is back; what no
/// longer fits is counted in [`Health::lost`]. Nothing here ever makes a call wait.
pub trait Ledger: std::fmt::Debug + Send + Sync {
    /// Books entries. Never waits for a store, and never fails: see [`Health`].
    fn book(&self, entries: Vec<Entry>);

    /// Sums, including what is not written yet: everything booked before the question was put, and
    /// nothing booked after. A store that is out answers when it is back, so give an answer that comes
    /// later a deadline. Rows come in no particular order.
    ///
    /// An error says that this question is not answered any more, or that too many wait already: it may be
    /// asked again. What is long past may be known by day or month alone, and lies at its beginning.
    fn report(&self, question: Question) -> Answer<Result<Vec<Row>, Unreadable>>;

    /// How it does.
    fn health(&self) -> Health;

    /// Writes everything booked so far, and returns when that is done or `patience` is over. Blocks: not
    /// for workers. True when nothing is left in memory alone.
    fn flush(&self, patience: Duration) -> bool;

    /// The same, and lets go of everything it holds, such as files, which are whole then: what comes afterwards is lost. True
    /// when that is done within `patience`.
    fn close(&self, patience: Duration) -> bool {
        self.flush(patience)
    }
}

/// A ledger in this process's memory alone: it forgets with the process.
#[derive(Debug, Default)]
pub struct InProcessLedger {
    book: Mutex<Book>,
    lost: AtomicU64,
}

impl Ledger for InProcessLedger {
    fn book(&self, entries: Vec<Entry>) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            self.lost.fetch_add(book.add(entry, MOST_ENTRIES), Ordering::Relaxed);
        }
    }

    fn report(&self, question: Question) -> Answer<Result<Vec<Row>, Unreadable>> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        Answer::Ready(Ok(book.report(&question)))
    }

    fn health(&self) -> Health {
        Health { lost: self.lost.load(Ordering::Relaxed), ..Health::default() }
    }

    fn flush(&self, _: Duration) -> bool {
        true
    }
}

/// Entries kept at most: some 30 MB.
const MOST_ENTRIES: usize = 100_000;
