//! The thread that writes.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use base::Clock;
use state::{Book, Entry, Question, Row, Trouble, Unreadable, joined};

use super::desk::{Desk, Item, MOST_ENTRIES, Reply};
use super::reader::Sitting;
use super::store::Store;
use crate::failure::Failure;

/// Entries are gathered this long, so that a busy gateway commits some thirty times a second at most.
const GATHER: Duration = Duration::from_millis(30);
/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// A trouble shorter than this is nothing to tell.
const WORTH_TELLING: Duration = Duration::from_millis(500);
/// A question that cannot be read an answer to keeps entries from being written so long at most.
const GIVE_UP: Duration = Duration::from_secs(2);
/// The file is looked at so often while nothing is written.
const LOOK: Duration = Duration::from_secs(5);
/// Entries that the file refuses are tried again after so long.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);
/// What lies long past is added up in small steps so far apart, the first one a minute after the start; and
/// again some hours after the last.
const FOLDING: (Duration, Duration, Duration) =
    (Duration::from_secs(60), Duration::from_millis(50), Duration::from_secs(6 * 60 * 60));

/// Writes and answers until the ledger is dropped; what is read at length is read by whom `readers` reach.
pub(super) fn write_out(desk: &Desk, store: Store, readers: SyncSender<Sitting>) {
    let mut writer = Writer {
        desk,
        store,
        readers,
        unwritten: Book::default(),
        unanswered: Vec::new(),
        refused: Refused { book: Book::default(), why: String::new(), since: Duration::ZERO, again: Clock.now() },
        failing: None,
        lost_told: 0,
        folding: (Clock.now() + FOLDING.0, 0),
        look: (Clock.now() + LOOK, false),
    };
    loop {
        let retry = (!writer.is_idle()).then(|| writer.failing.as_ref().map_or(GATHER, |failing| failing.wait));
        let work = desk.next(GATHER, retry, writer.rest());
        let is_quiet = work.items.is_empty();
        let may_try = writer.failing.as_ref().is_none_or(|failing| Clock.now() >= failing.again) || work.is_urgent;
        for item in work.items {
            writer.take(item, may_try);
        }
        writer.take_up_refused(work.is_urgent);
        writer.look(work.is_urgent || work.closed);
        if may_try || work.closed {
            writer.answer_all();
            writer.write();
        }
        if writer.is_idle() && !writer.look.1 {
            // Of what could not be done nothing is left, also where nothing had to be written.
            writer.succeeded();
            if is_quiet {
                writer.fold();
            }
        }
        writer.tell_of_losses();
        writer.tell_of_health();
        if work.closed {
            return writer.tell_of_the_end();
        }
    }
}

struct Writer<'a> {
    desk: &'a Desk,
    store: Store,
    readers: SyncSender<Sitting>,
    unwritten: Book,
    /// Questions that the store could not answer, each with what was unwritten when it was put. Nothing is
    /// written while there are any: else it would be in the answer twice.
    unanswered: Vec<Held>,
    refused: Refused,
    failing: Option<Failing>,
    lost_told: u64,
    /// When to add up what lies long past, and from which quarter on.
    folding: (Instant, u64),
    /// When to look at the file, and whether something was wrong with it.
    look: (Instant, bool),
}

struct Held {
    question: Question,
    unwritten: Vec<Row>,
    reply: Reply,
    since: Instant,
}

/// Entries that the file does not take, whatever becomes of the others.
struct Refused {
    book: Book,
    why: String,
    /// From the Unix epoch.
    since: Duration,
    again: Instant,
}

/// The store fails.
struct Failing {
    since: Instant,
    since_wall: Duration,
    wait: Duration,
    again: Instant,
    /// What was told of it: it is worth telling.
    told: Option<String>,
}

impl Writer<'_> {
    fn is_idle(&self) -> bool {
        self.unwritten.is_empty() && self.unanswered.is_empty()
    }

    /// How long there is nothing to do unless somebody comes.
    fn rest(&self) -> Duration {
        let folding = self.folding.0.min(self.look.0);
        let next = if self.refused.book.is_empty() { folding } else { folding.min(self.refused.again) };
        next.saturating_duration_since(Clock.now())
    }

    fn take(&mut self, item: Item, may_try: bool) {
        match item {
            Item::Book(book) => self.hold(book),
            Item::Question(question, reply) => {
                if may_try {
                    self.answer_all();
                    self.write();
                }
                let (waiting, refused) = (self.unwritten.report(&question), self.refused.book.report(&question));
                let unwritten = joined(waiting.into_iter().chain(refused));
                self.unanswered.push(Held { question: *question, unwritten, reply, since: Clock.now() });
                self.answer_all();
            }
            Item::Damaged(file, why) => {
                if let Err(failure) = self.store.is_damaged(file, &why) {
                    self.failed(failure);
                }
            }
        }
    }

    fn hold(&mut self, book: Book) {
        let most = MOST_ENTRIES.saturating_sub(self.refused.book.len());
        self.desk.lose(self.unwritten.add_all(book, most));
    }

    /// Answers what can be answered.
    fn answer_all(&mut self) {
        for held in std::mem::take(&mut self.unanswered) {
            if held.reply.is_closed() {
                self.desk.answered();
                continue;
            }
            match self.store.view() {
                Ok(Some(view)) => {
                    let Held { question, unwritten, reply, .. } = held;
                    // There is room for as many as may wait at all.
                    if self.readers.try_send(Sitting { question, view, unwritten, reply }).is_err() {
                        self.desk.answered();
                    }
                }
                Ok(None) => {
                    let read = self.store.read(&held.question);
                    self.answer_here(held, read);
                }
                Err(Failure::Unwritable(why)) => {
                    let read = self.store.read_all_the_same(&held.question, why);
                    self.answer_here(held, read);
                }
                Err(failure) => {
                    self.unanswered.push(held);
                    self.failed(failure);
                }
            }
        }
    }

    /// Answers with what was read by the thread that also writes: better late commits than no answer.
    fn answer_here(&mut self, held: Held, read: Result<Vec<Row>, Failure>) {
        match read {
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

    /// Gives up questions that could not be answered for long, where the file can be written: entries go first.
    fn give_up(&mut self) {
        let now = Clock.now();
        if self.unanswered.iter().all(|held| now.duration_since(held.since) < GIVE_UP) || !self.store.can_write() {
            return;
        }
        let why = self.failing.as_ref().and_then(|failing| failing.told.clone()).unwrap_or_default();
        for held in self.unanswered.drain(..) {
            self.desk.answered();
            let _ = held.reply.send(Err(Unreadable(format!("the usage ledger can be written, but not read: {why}"))));
        }
    }

    fn write(&mut self) {
        if !self.unanswered.is_empty() {
            self.give_up();
        }
        if !self.unanswered.is_empty() || self.unwritten.is_empty() {
            return;
        }
        match self.store.write(&self.unwritten) {
            Ok(refused) => {
                self.unwritten.clear();
                self.succeeded();
                self.set_apart(refused);
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn set_apart(&mut self, refused: Vec<(Entry, String)>) {
        let now = Clock.now();
        for (entry, why) in refused {
            if self.refused.book.is_empty() {
                let (client, route, model) = (&*entry.client, &*entry.route, &*entry.model);
                tracing::error!(
                    client,
                    route,
                    model,
                    "the usage ledger refuses an entry, which waits in memory: {why}"
                );
                (self.refused.since, self.refused.why) = (Clock.wall(), why);
            }
            self.refused.again = now + REFUSED_AGAIN;
            self.desk.lose(self.refused.book.add(entry, MOST_ENTRIES));
        }
    }

    fn take_up_refused(&mut self, is_urgent: bool) {
        if !self.refused.book.is_empty() && (is_urgent || Clock.now() >= self.refused.again) {
            let refused = std::mem::take(&mut self.refused.book);
            self.hold(refused);
        }
    }

    /// Looks at the file, where it is time: what befell it is told also while nobody calls.
    fn look(&mut self, is_urgent: bool) {
        let now = Clock.now();
        if !is_urgent && now < self.look.0 {
            return;
        }
        let looked = self.store.look();
        self.look = (now + LOOK, looked.is_err());
        if let Err(failure) = looked {
            self.failed(failure);
        }
    }

    fn fold(&mut self) {
        let (due, from) = self.folding;
        let now = Clock.now();
        if now < due {
            return;
        }
        // What fails here fails elsewhere too, and is told there; or can wait.
        let next = self.store.fold(Clock.wall(), from).ok().flatten();
        self.folding = (now + next.map_or(FOLDING.2, |_| FOLDING.1), next.unwrap_or_default());
    }

    fn failed(&mut self, failure: Failure) {
        let what = failure.what();
        let now = Clock.now();
        let failing = self.failing.get_or_insert_with(|| Failing {
            since: now,
            since_wall: Clock.wall(),
            wait: RETRY.0 / 2,
            again: now,
            told: None,
        });
        if now >= failing.again {
            failing.wait = (failing.wait * 2).min(RETRY.1);
            failing.again = now + failing.wait;
        }
        if now.duration_since(failing.since) < WORTH_TELLING {
            return;
        }
        if failing.told.is_none() {
            tracing::warn!("the usage ledger cannot be written, usage waits in memory: {what}");
        }
        failing.told = Some(what);
    }

    fn succeeded(&mut self) {
        if let Some(failing) = self.failing.take().filter(|failing| failing.told.is_some()) {
            let seconds = Clock.now().duration_since(failing.since).as_secs();
            tracing::info!(seconds, "the usage ledger is written again, with all that waited");
        }
    }

    fn tell_of_health(&mut self) {
        self.desk.set_damage(self.store.damage.as_ref(), self.store.changes);
        let waiting = self.unwritten.len() + self.refused.book.len();
        self.desk.hold(waiting);
        let of_all = self.failing.as_ref().and_then(|failing| Some((failing.since_wall, failing.told.clone()?)));
        let of_some = || {
            let Refused { book, why, since, .. } = &self.refused;
            (!book.is_empty()).then(|| (*since, format!("the database refuses {} entries: {why}", book.len())))
        };
        self.desk.set_trouble(of_all.or_else(of_some).map(|(since, what)| Trouble { since, what }));
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
        let entries = self.unwritten.entries().chain(self.refused.book.entries());
        let requests: u64 = entries.map(|entry| entry.sums.requests).sum();
        if requests > 0 {
            tracing::error!(requests, "stopped without having written the usage of these requests");
        }
    }
}
