//! What those who ask and the threads that write and read have in common.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Clock;
use state::answers::{Bounds, Key, Kind, Stored, Tier, Which};
use state::{InProcessAnswers, Trouble, Unreadable};
use tokio::sync::oneshot;

use super::index::Index;
use super::removals::{Moment, Removals};
use super::unwritten::Unwritten;

/// Things that wait to be written at most, and their bytes; most of them are in memory besides.
const MOST_PUTS: usize = 8_192;
const MOST_BYTES: usize = 32 << 20;
/// Removals that may wait for a disk that is out.
const MOST_REMOVALS: usize = 256;
/// Of the file's bound, what one thing may take at most.
const LARGEST_SHARE: u64 = 32;
/// Once the reading of one key takes so long, others are answered as misses.
const STUCK: Duration = Duration::from_millis(50);

pub(super) type Reply<T> = oneshot::Sender<Result<T, Unreadable>>;

/// What is to be done to the file, in the order in which it was asked.
#[derive(Debug)]
pub(super) enum Order {
    Put(Key, Arc<Stored>),
    Remove {
        key: Key,
        was_in_memory: bool,
        pending: Moment,
        reply: Reply<bool>,
    },
    /// `in_memory` are those that memory had, of which the file may have none.
    Purge {
        which: Which,
        in_memory: Vec<u64>,
        pending: Moment,
        reply: Reply<u64>,
    },
    /// A row that was found damaged.
    Forget(u64),
}

/// Sums by kind and route: things, and their bytes.
pub(super) type Tally = BTreeMap<(Kind, Arc<str>), (u64, u64)>;

#[derive(Debug, Default)]
struct Queue {
    orders: VecDeque<Order>,
    /// Among them, things to be written, and their bytes.
    puts: usize,
    bytes: usize,
    /// Somebody waits for everything to be written now, or there is other news for the thread.
    is_urgent: bool,
    /// The thread is at work on what it took.
    at_work: bool,
    closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub evicted: AtomicU64,
    pub refused: AtomicU64,
    pub damaged: AtomicU64,
    /// Bytes of the file that are in use.
    pub bytes: AtomicU64,
    /// Orders that the thread has taken and not carried out.
    pub held: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct Desk {
    pub memory: InProcessAnswers,
    pub index: Index,
    pub unwritten: Unwritten,
    pub counts: Counts,
    pub tally: Mutex<Tally>,
    queue: Mutex<Queue>,
    changed: Condvar,
    bounds: (AtomicU64, AtomicU64),
    pub removals: Removals,
    /// Which of the files that followed one another is read and written.
    epoch: AtomicU64,
    /// What the reader has found damaged: the epoch, and why.
    damage: Mutex<Option<(u64, String)>>,
    trouble: Mutex<Option<Trouble>>,
    began: Instant,
    /// Milliseconds after `began` at which the reader began what it does; 0 where it does nothing.
    reading: AtomicU64,
    /// Milliseconds after `began` up to which the reader is not asked: its last reading failed.
    resting: AtomicU64,
    /// Why that failed.
    rests_for: Mutex<String>,
    #[cfg(test)]
    pub trial: super::tests::Trial,
}

/// Why the thread wakes.
pub(super) struct Work {
    pub orders: VecDeque<Order>,
    pub is_urgent: bool,
    pub closed: bool,
}

impl Desk {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            memory: InProcessAnswers::within(bounds.memory),
            index: Index::default(),
            unwritten: Unwritten::default(),
            counts: Counts::default(),
            tally: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            bounds: (AtomicU64::new(bounds.memory), AtomicU64::new(bounds.disk)),
            removals: Removals::default(),
            epoch: AtomicU64::new(0),
            damage: Mutex::default(),
            trouble: Mutex::default(),
            began: Clock.now(),
            reading: AtomicU64::new(0),
            resting: AtomicU64::new(0),
            rests_for: Mutex::default(),
            #[cfg(test)]
            trial: super::tests::Trial::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the file may take with all that belongs to it.
    pub fn disk(&self) -> u64 {
        self.bounds.1.load(Relaxed)
    }

    /// Whether anything is kept on disk.
    pub fn is_on(&self) -> bool {
        self.disk() > 0
    }

    pub fn bound(&self, bounds: Bounds) {
        self.bounds.0.store(bounds.memory, Relaxed);
        let before = self.bounds.1.swap(bounds.disk, Relaxed);
        self.share_memory();
        if before != bounds.disk {
            self.wake();
        }
    }

    /// What the index takes is not there for answers; half of the memory is in any case.
    pub fn share_memory(&self) {
        let memory = self.bounds.0.load(Relaxed);
        let index = if self.is_on() { self.index.memory() } else { 0 };
        self.memory.hold_within(memory.saturating_sub(index).max(memory / 2));
    }

    /// Entries of the index at most: they may take a quarter of the memory, or 4 MiB.
    pub fn most_entries(&self) -> u64 {
        (self.bounds.0.load(Relaxed) / 4).max(4 << 20) / super::index::ENTRY
    }

    /// The largest thing that is written.
    fn largest(&self) -> u64 {
        self.disk() / LARGEST_SHARE
    }

    pub fn put(&self, key: Key, stored: Arc<Stored>) {
        let size = super::row::size(&stored) as usize;
        let mut queue = self.queue();
        if size as u64 > self.largest() || queue.puts >= MOST_PUTS || queue.bytes.saturating_add(size) > MOST_BYTES {
            drop(queue);
            self.refuse(1);
            return;
        }
        queue.puts += 1;
        queue.bytes += size;
        // In the order of the queue: what is written last is what waits.
        self.unwritten.put(key, stored.clone());
        queue.orders.push_back(Order::Put(key, stored));
        // The thread wakes at the first, and when there are many; in between it gathers.
        let is_news = queue.orders.len() == 1 || queue.puts == MOST_PUTS / 2;
        drop(queue);
        if is_news {
            self.changed.notify_all();
        }
    }

    /// Puts an order other than [`Order::Put`] behind everything else.
    pub fn order(&self, order: Order) -> Result<(), Unreadable> {
        let mut queue = self.queue();
        if queue.orders.len() - queue.puts >= MOST_REMOVALS {
            drop(queue);
            if let Order::Remove { pending, .. } | Order::Purge { pending, .. } = order {
                self.removals.end(pending);
            }
            return Err(Unreadable("too many removals wait for the disk already".to_owned()));
        }
        queue.orders.push_back(order);
        drop(queue);
        self.changed.notify_all();
        Ok(())
    }

    /// There is news for the thread.
    fn wake(&self) {
        self.queue().is_urgent = true;
        self.changed.notify_all();
    }

    pub fn flush(&self, patience: Duration) -> bool {
        let mut queue = self.queue();
        queue.is_urgent = true;
        self.changed.notify_all();
        let is_unwritten = |queue: &mut Queue| {
            queue.is_urgent || !queue.orders.is_empty() || queue.at_work || self.counts.held.load(Relaxed) > 0
        };
        let waited = self.changed.wait_timeout_while(queue, patience, is_unwritten);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }

    /// The thread waits for something to do, at most so long; and then for `gather` more, so that much is
    /// written at once. It takes what there is, unless it has enough at hand.
    pub fn next(&self, wait: Option<Duration>, gather: Duration, takes: bool) -> Work {
        let mut queue = self.queue();
        queue.at_work = false;
        self.changed.notify_all();
        let is_idle = |queue: &mut Queue| (queue.orders.is_empty() || !takes) && !queue.is_urgent && !queue.closed;
        queue = match wait {
            Some(Duration::ZERO) => queue,
            Some(wait) => {
                self.changed.wait_timeout_while(queue, wait, is_idle).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner),
        };
        let is_patient = |queue: &mut Queue| {
            queue.orders.len() == queue.puts && queue.puts < MOST_PUTS / 2 && !queue.is_urgent && !queue.closed
        };
        if takes && !queue.orders.is_empty() {
            let gathered = self.changed.wait_timeout_while(queue, gather, is_patient);
            queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.at_work = true;
        let mut orders = VecDeque::new();
        if takes || queue.closed {
            orders = std::mem::take(&mut queue.orders);
            (queue.puts, queue.bytes) = (0, 0);
            self.counts.held.fetch_add(orders.len(), Relaxed);
        }
        Work { orders, is_urgent: std::mem::take(&mut queue.is_urgent), closed: queue.closed }
    }

    pub fn refuse(&self, count: u64) {
        self.counts.refused.fetch_add(count, Relaxed);
    }

    /// What was read from the file joins what is in memory, and is given back, unless it is being removed, or was
    /// removed, or something put in its place, since the look-up began.
    pub fn admit(&self, key: Key, stored: Stored, since: Moment) -> Option<Arc<Stored>> {
        if self.removals.concern(&key, &stored, since) {
            return None;
        }
        let read = Arc::new(stored);
        let kept = self.memory.keep_unless_there(key, read.clone());
        // A removal may have begun since, and looked into memory before this was there.
        if self.removals.concern(&key, &read, since) {
            self.memory.take_this(&key, &read);
            return None;
        }
        if Arc::ptr_eq(&kept, &read) && self.unwritten.is_overtaken() {
            self.memory.take_this(&key, &read);
            return self.unwritten.get(&key);
        }
        Some(kept)
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Another file is in the place of the one before.
    pub fn is_another_file(&self) {
        self.epoch.fetch_add(1, SeqCst);
    }

    pub fn report_damage(&self, epoch: u64, why: String) {
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some((epoch, why));
        self.wake();
    }

    /// Why the file that is in use now was found damaged.
    pub fn take_damage(&self) -> Option<String> {
        let damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner).take();
        damage.filter(|(epoch, _)| *epoch == self.epoch()).map(|(_, why)| why)
    }

    pub fn set_trouble(&self, trouble: Option<Trouble>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn millis(&self) -> u64 {
        u64::try_from(Clock.now().saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// The reader begins with a key, or has nothing to do.
    pub fn is_reading(&self, is_reading: bool) {
        self.reading.store(if is_reading { self.millis().max(1) } else { 0 }, Relaxed);
    }

    /// The reader is not to be asked for so long, since reading has failed.
    pub fn rest(&self, pause: Duration, why: String) {
        *self.rests_for.lock().unwrap_or_else(PoisonError::into_inner) = why;
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.resting.store(self.millis().saturating_add(pause), Relaxed);
    }

    /// Whether the reader would not answer soon.
    pub fn is_stuck(&self) -> bool {
        let (reading, resting) = (self.reading.load(Relaxed), self.resting.load(Relaxed));
        if reading == 0 && resting == 0 {
            return false;
        }
        let now = self.millis();
        now < resting || (reading > 0 && u128::from(now.saturating_sub(reading)) > STUCK.as_millis())
    }

    pub fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn tier(&self) -> Option<Tier> {
        let most = self.disk();
        if most == 0 {
            return None;
        }
        let waiting = self.queue().orders.len() + self.counts.held.load(Relaxed);
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if trouble.is_none() && self.is_stuck() {
            let what = match self.millis() < self.resting.load(Relaxed) {
                true => self.rests_for.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                false => "the disk is slow: look-ups are answered as misses".to_owned(),
            };
            trouble = Some(Trouble { since: Clock.wall(), what });
        }
        Some(Tier {
            entries: self.index.len(),
            bytes: self.counts.bytes.load(Relaxed),
            most,
            hits: self.index.hits(),
            evicted: self.counts.evicted.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            damaged: self.counts.damaged.load(Relaxed),
            waiting: waiting as u64,
            trouble,
        })
    }
}
