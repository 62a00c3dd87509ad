//! Where those who book and ask leave things for the thread that writes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use state::{Book, Damage, Entry, Health, Question, Row, Trouble, Unreadable};
use tokio::sync::oneshot;

/// Different entries that the thread holds at most, some 30 MB: those of a day when a hundred teams use
/// ten models.
pub(super) const MOST_ENTRIES: usize = 100_000;
/// Different entries on their way to the thread, which takes them when this is half full, or after a second.
const MOST_ON_THEIR_WAY: usize = 20_000;
/// Questions that may wait for an answer: each may come to hold a view of the file, which is a connection.
pub(super) const MOST_QUESTIONS: usize = 64;

/// Which file it is: device and inode.
pub(super) type File = Option<(u64, u64)>;

pub(super) type Reply = oneshot::Sender<Result<Vec<Row>, Unreadable>>;

/// In the order in which it came, so that a question sees what was booked before it and no more.
#[derive(Debug)]
pub(super) enum Item {
    Book(Book),
    Question(Box<Question>, Reply),
    /// A reader found this file damaged.
    Damaged(File, String),
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Different entries in `items`.
    entries: usize,
    /// Questions in `items`.
    questions: usize,
    /// Somebody waits for everything to be written now.
    is_urgent: bool,
    /// The thread is at work on what it took.
    at_work: bool,
    closed: bool,
}

/// What the writing thread shares with everybody else.
#[derive(Debug, Default)]
pub(super) struct Desk {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Entries that the thread has taken and not written yet.
    held: AtomicUsize,
    /// Questions that the thread has taken and could not answer yet.
    unanswered: AtomicUsize,
    lost: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
    damage: Mutex<(Option<Damage>, u64)>,
}

/// Why the thread wakes.
pub(super) struct Work {
    pub items: VecDeque<Item>,
    /// Everything is to be tried now, whatever failed a moment ago.
    pub is_urgent: bool,
    /// The ledger is dropped.
    pub closed: bool,
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn book(&self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut queue = self.queue();
        if !matches!(queue.items.back(), Some(Item::Book(_))) {
            queue.items.push_back(Item::Book(Book::default()));
        }
        let others = queue.entries;
        let Some(Item::Book(book)) = queue.items.back_mut() else { return };
        let before = book.len();
        let most = (MOST_ON_THEIR_WAY + before).saturating_sub(others);
        let lost = entries.into_iter().map(|entry| book.add(entry, most)).fold(0, u64::saturating_add);
        let new = book.len() - before;
        queue.entries += new;
        drop(queue);
        self.lose(lost);
        self.changed.notify_all();
    }

    pub fn ask(&self, question: Question, reply: Reply) -> Result<(), Unreadable> {
        let mut queue = self.queue();
        if queue.questions + self.unanswered.load(Ordering::Relaxed) >= MOST_QUESTIONS {
            let told = format!("{MOST_QUESTIONS} questions wait for the usage ledger already; ask again in a moment");
            return Err(Unreadable(told));
        }
        queue.questions += 1;
        queue.items.push_back(Item::Question(Box::new(question), reply));
        drop(queue);
        self.changed.notify_all();
        Ok(())
    }

    /// A reader has found the file damaged, which the thread that writes has yet to find.
    pub fn report_damage(&self, file: File, what: String) {
        self.queue().items.push_back(Item::Damaged(file, what));
        self.changed.notify_all();
    }

    pub fn health(&self) -> Health {
        let queue = self.queue();
        let waiting = queue.entries + self.held.load(Ordering::Relaxed);
        drop(queue);
        let (damage, changes) = self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Health {
            damage,
            changes,
            trouble: self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            waiting: waiting as u64,
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    pub fn flush(&self, patience: Duration) -> bool {
        let mut queue = self.queue();
        queue.is_urgent = true;
        self.changed.notify_all();
        let is_unwritten =
            |queue: &mut Queue| !queue.items.is_empty() || queue.at_work || self.held.load(Ordering::Relaxed) > 0;
        let waited = self.changed.wait_timeout_while(queue, patience, is_unwritten);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }

    /// The thread waits for something to do: until something is booked, `rest` at most, and then for `gather`
    /// more, so that many entries make one commit; for `retry` at most where it holds what it could not
    /// write.
    pub fn next(&self, gather: Duration, retry: Option<Duration>, rest: Duration) -> Work {
        let mut queue = self.queue();
        queue.at_work = false;
        self.changed.notify_all();
        let is_idle = |queue: &mut Queue| queue.items.is_empty() && !queue.is_urgent && !queue.closed;
        let is_patient = |queue: &mut Queue| {
            queue.questions == 0 && queue.entries < MOST_ON_THEIR_WAY / 2 && !queue.is_urgent && !queue.closed
        };
        if retry.is_none() {
            let woken = self.changed.wait_timeout_while(queue, rest, is_idle);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if retry.is_some() || !queue.items.is_empty() {
            let gathered = self.changed.wait_timeout_while(queue, retry.unwrap_or(gather), is_patient);
            queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.at_work = true;
        self.held.fetch_add(std::mem::take(&mut queue.entries), Ordering::Relaxed);
        self.unanswered.fetch_add(std::mem::take(&mut queue.questions), Ordering::Relaxed);
        Work {
            items: std::mem::take(&mut queue.items),
            is_urgent: std::mem::take(&mut queue.is_urgent),
            closed: queue.closed,
        }
    }

    /// The thread holds so many entries that it could not write yet.
    pub fn hold(&self, entries: usize) {
        self.held.store(entries, Ordering::Relaxed);
    }

    /// A question that the thread took has been answered, or nobody waits for it any more.
    pub fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
    }

    /// The use of so many calls was lost.
    pub fn lose(&self, requests: u64) {
        self.lost.fetch_add(requests, Ordering::Relaxed);
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What befell the file, and how often it has changed.
    pub fn set_damage(&self, damage: Option<&Damage>, changes: u64) {
        let mut known = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        if known.1 != changes || known.0.as_ref() != damage {
            *known = (damage.cloned(), changes);
        }
    }

    pub fn set_trouble(&self, trouble: Option<Trouble>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}
