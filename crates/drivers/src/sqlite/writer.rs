//! The thread that writes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base::Clock;
use state::{Book, Question, Row, Trouble, joined};

use super::desk::{Desk, Item, MOST_ENTRIES, Reply};
use super::failure::Failure;
use super::store::Store;

/// Entries are gathered this long, so that a busy gateway commits some thirty times a second at most.
const GATHER: Duration = Duration::from_millis(30);
/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// A trouble shorter than this is nothing to tell.
const WORTH_TELLING: Duration = Duration::from_millis(500);

/// Writes and answers until the ledger is dropped.
pub(super) fn write_out(desk: &Desk, path: PathBuf) {
    let mut writer = Writer {
        desk,
        store: Store::at(path),
        unwritten: Book::default(),
        unanswered: Vec::new(),
        failing: None,
        lost_told: 0,
    };
    loop {
        let retry = (!writer.is_idle()).then(|| writer.failing.as_ref().map_or(GATHER, |failing| failing.wait));
        let work = desk.next(GATHER, retry);
        let may_try = writer.failing.as_ref().is_none_or(|failing| Clock.now() >= failing.again) || work.is_urgent;
        for item in work.items {
            writer.take(item, may_try);
        }
        if may_try || work.closed {
            writer.answer_all();
            writer.write();
        }
        writer.tell_of_losses();
        desk.hold(writer.unwritten.len());
        if work.closed {
            return writer.tell_of_the_end();
        }
    }
}

struct Writer<'a> {
    desk: &'a Desk,
    store: Store,
    unwritten: Book,
    /// Questions that the store could not answer, each with what was unwritten when it was put. Nothing is
    /// written while there are any: else it would be in the answer twice.
    unanswered: Vec<Held>,
    failing: Option<Failing>,
    lost_told: u64,
}

struct Held {
    question: Question,
    unwritten: Vec<Row>,
    reply: Reply,
}

/// The store fails.
struct Failing {
    since: Instant,
    since_wall: Duration,
    wait: Duration,
    again: Instant,
    told: bool,
}

impl Writer<'_> {
    fn is_idle(&self) -> bool {
        self.unwritten.is_empty() && self.unanswered.is_empty()
    }

    fn take(&mut self, item: Item, may_try: bool) {
        match item {
            Item::Book(book) => self.desk.lose(self.unwritten.add_all(book, MOST_ENTRIES)),
            Item::Question(question, reply) => {
                if may_try {
                    self.answer_all();
                    self.write();
                }
                let unwritten = self.unwritten.report(&question);
                self.unanswered.push(Held { question: *question, unwritten, reply });
                self.answer_all();
            }
        }
    }

    /// Answers what can be answered.
    fn answer_all(&mut self) {
        for held in std::mem::take(&mut self.unanswered) {
            if held.reply.is_closed() {
                self.desk.answered();
                continue;
            }
            match self.store.read(&held.question) {
                Ok(rows) => {
                    self.desk.answered();
                    // Whoever asked may have left.
                    let _ = held.reply.send(Ok(joined(rows.into_iter().chain(held.unwritten))));
                }
                Err(failure) => {
                    self.unanswered.push(held);
                    self.failed(failure);
                }
            }
        }
    }

    fn write(&mut self) {
        if !self.unanswered.is_empty() || self.unwritten.is_empty() {
            return;
        }
        match self.store.write(&self.unwritten) {
            Ok(()) => {
                self.unwritten.clear();
                self.succeeded();
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn failed(&mut self, failure: Failure) {
        let (Failure::Damaged(what) | Failure::Trouble(what)) = failure;
        let now = Clock.now();
        let failing = self.failing.get_or_insert_with(|| Failing {
            since: now,
            since_wall: Clock.wall(),
            wait: RETRY.0 / 2,
            again: now,
            told: false,
        });
        if now >= failing.again {
            failing.wait = (failing.wait * 2).min(RETRY.1);
            failing.again = now + failing.wait;
        }
        if now.duration_since(failing.since) < WORTH_TELLING {
            return;
        }
        if !std::mem::replace(&mut failing.told, true) {
            tracing::warn!("the usage ledger cannot be written, usage waits in memory: {what}");
        }
        self.desk.set_trouble(Some(Trouble { since: failing.since_wall, what }));
    }

    fn succeeded(&mut self) {
        if let Some(failing) = self.failing.take().filter(|failing| failing.told) {
            let seconds = Clock.now().duration_since(failing.since).as_secs();
            tracing::info!(seconds, "the usage ledger is written again, with all that waited");
            self.desk.set_trouble(None);
        }
    }

    fn tell_of_losses(&mut self) {
        let lost = self.desk.lost();
        let is_over = self.failing.is_none();
        // Once when it begins, and once with the sum when it is over.
        if lost > self.lost_told && (self.lost_told == 0 || is_over) {
            tracing::warn!(
                requests = lost,
                "the usage of requests was lost: memory for it was full while the ledger could not be written"
            );
            self.lost_told = lost;
        }
    }

    fn tell_of_the_end(&self) {
        let requests: u64 = self.unwritten.entries().map(|entry| entry.sums.requests).sum();
        if requests > 0 {
            tracing::error!(requests, "stopped without having written the usage of these requests");
        }
    }
}
