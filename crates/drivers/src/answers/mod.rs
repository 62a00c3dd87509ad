//! Cached answers in memory, and behind it in an SQLite file.
//!
//! **What is promised.** What is in memory is given at once, and so is what is known to be nowhere: an
//! index in memory says what the file may have, so that a miss asks no disk. Writes are made behind the
//! traffic by one thread, from a bounded queue; look-ups are read by another, which waits for no write, and goes
//! around between them, so that a large one holds up no small one. A disk that
//! is slow, full or gone costs hits and nothing else: a key whose reading takes long makes all others be answered
//! as misses until it is over, and what cannot be written in time is dropped and counted. What was put last is what
//! is found: also where memory has dropped it before it was written.
//!
//! The file holds no more than its bound; what was used least recently goes first. Each row has a checksum,
//! so that a flipped bit is a miss. A damaged file is set aside under another name and a new one begun; one
//! of another version is replaced. What was written survives the process; a power cut may take the last
//! seconds of it, and nothing more.

mod desk;
mod file;
mod index;
mod reader;
mod removals;
mod row;
mod tend;
#[cfg(test)]
mod tests;
mod unwritten;
mod writer;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use state::answers::{Bounds, Holding, Key, Kind, Page, Stats, Stored, Which};
use state::{Answer, Answers, InProcessAnswers, Unreadable};
use tokio::sync::oneshot;

use desk::{Desk, Order};
use reader::Lookup;
use removals::Pending;

use crate::thread::Thread;

/// How long who asks can wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Haste {
    /// Not for a disk that is slow just now.
    Great,
    /// For that too.
    Little,
}

/// Answers in memory and on disk. Dropped, it writes what it still has, if that can be written at once.
#[derive(Debug)]
pub struct TieredAnswers {
    desk: Arc<Desk>,
    lookups: std::sync::mpsc::SyncSender<Lookup>,
    thread: Thread,
}

impl TieredAnswers {
    /// Answers within these bounds, those on disk in the file at `path`, which is made when there is something to
    /// write. The file is opened by threads of its own: whatever is wrong with it is told by [`Answers::stats`].
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn open(path: PathBuf, bounds: Bounds) -> io::Result<Self> {
        Self::with(path, Desk::new(bounds))
    }

    fn with(path: PathBuf, desk: Desk) -> io::Result<Self> {
        let desk = Arc::new(desk);
        let (lookups, asked) = std::sync::mpsc::sync_channel(reader::MOST_LOOKUPS);
        let (reading, writing, read_from) = (desk.clone(), desk.clone(), path.clone());
        std::thread::Builder::new()
            .name("answers-reader".to_owned())
            .spawn(move || reader::read_out(&reading, &read_from, &asked))?;
        let thread = Thread::begin("answers", move || writer::write_out(&writing, path))?;
        Ok(Self { desk, lookups, thread })
    }

    fn memory(&self) -> &InProcessAnswers {
        &self.desk.memory
    }

    /// What is in memory, which counts as used on disk too, or on its way to the disk.
    fn find(&self, key: &Key) -> Option<Arc<Stored>> {
        let found = self.memory().find(key);
        if !self.desk.is_on() {
            return found;
        }
        if found.is_some() {
            self.desk.index.touch(key.print());
            return found;
        }
        self.desk.unwritten.get(key).filter(|stored| Clock.wall() < stored.keep_until)
    }

    fn get_in(&self, haste: Haste, key: &Key) -> Answer<Option<Arc<Stored>>> {
        if let Some(found) = self.find(key) {
            return Answer::Ready(Some(found));
        }
        if !self.desk.is_on() || !self.may_be_on_disk(key) {
            return Answer::Ready(None);
        }
        let Some(answer) = self.look_up(haste, vec![*key]) else { return Answer::Ready(None) };
        Answer::Later(Box::pin(async move { answer.await.ok().and_then(|found| found.into_iter().next().flatten()) }))
    }

    /// Whether the disk is worth a question about this key.
    fn may_be_on_disk(&self, key: &Key) -> bool {
        self.desk.index.may_have(key.print())
    }

    /// Asks the disk, unless it would not answer in time.
    fn look_up(&self, haste: Haste, keys: Vec<Key>) -> Option<oneshot::Receiver<Vec<Option<Arc<Stored>>>>> {
        if haste == Haste::Great && self.desk.is_stuck() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        let since = self.desk.removals.now();
        self.lookups.try_send(Lookup::Keys { keys, found: Vec::new(), since, reply }).ok()?;
        Some(answer)
    }

    /// Puts an order behind everything that was put before.
    fn order<T: Send + 'static>(
        &self,
        order: Order,
        answer: oneshot::Receiver<Result<T, Unreadable>>,
    ) -> Answer<Result<T, Unreadable>> {
        if let Err(refused) = self.desk.order(order) {
            return Answer::Ready(Err(refused));
        }
        Answer::Later(Box::pin(async move {
            let gone = || Unreadable("the thread of the cache on disk has ended; please report this".to_owned());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }))
    }
}

impl Answers for TieredAnswers {
    fn get(&self, key: &Key) -> Answer<Option<Arc<Stored>>> {
        self.get_in(Haste::Great, key)
    }

    fn get_patiently(&self, key: &Key) -> Answer<Option<Arc<Stored>>> {
        self.get_in(Haste::Little, key)
    }

    fn peek(&self, key: &Key) -> Option<Arc<Stored>> {
        let waiting = || self.desk.is_on().then(|| self.desk.unwritten.get(key)).flatten();
        let found = self.memory().glance(key).or_else(waiting);
        found.filter(|stored| Clock.wall() < stored.keep_until)
    }

    fn get_many(&self, keys: &[Key]) -> Answer<Vec<Option<Arc<Stored>>>> {
        let mut found: Vec<Option<Arc<Stored>>> = keys.iter().map(|key| self.find(key)).collect();
        if !self.desk.is_on() {
            return Answer::Ready(found);
        }
        let missing =
            found.iter().zip(keys).enumerate().filter(|(_, (found, key))| found.is_none() && self.may_be_on_disk(key));
        let (places, asked): (Vec<usize>, Vec<Key>) = missing.map(|(at, (_, key))| (at, *key)).unzip();
        if asked.is_empty() {
            return Answer::Ready(found);
        }
        let Some(answer) = self.look_up(Haste::Great, asked) else { return Answer::Ready(found) };
        Answer::Later(Box::pin(async move {
            for (at, stored) in places.into_iter().zip(answer.await.unwrap_or_default()) {
                if let Some(place) = found.get_mut(at) {
                    *place = stored;
                }
            }
            found
        }))
    }

    fn put(&self, key: Key, stored: Arc<Stored>) {
        // First where the reader looks: it must not bring back what stood on disk before.
        if self.desk.is_on() {
            self.desk.put(key, stored.clone());
        }
        if stored.kind != Kind::Question {
            self.memory().keep(key, stored);
        }
    }

    fn remove(&self, key: &Key) -> Answer<Result<bool, Unreadable>> {
        let pending = self.desk.removals.begin(Pending::Key(*key));
        let was_in_memory = self.memory().take(key).is_some();
        self.desk.unwritten.forget(key);
        if !self.desk.is_on() {
            self.desk.removals.end(pending);
            return Answer::Ready(Ok(was_in_memory));
        }
        let (reply, answer) = oneshot::channel();
        self.order(Order::Remove { key: *key, was_in_memory, pending, reply }, answer)
    }

    fn purge(&self, which: &Which) -> Answer<Result<u64, Unreadable>> {
        let pending = self.desk.removals.begin(Pending::Which(which.clone()));
        let in_memory = self.memory().take_all(which);
        self.desk.unwritten.forget_all(which);
        if !self.desk.is_on() {
            self.desk.removals.end(pending);
            return Answer::Ready(Ok(in_memory.len() as u64));
        }
        let (reply, answer) = oneshot::channel();
        let in_memory = in_memory.iter().map(Key::print).collect();
        self.order(Order::Purge { which: which.clone(), in_memory, pending, reply }, answer)
    }

    fn scan(&self, kind: Kind, from: Option<u64>) -> Answer<Option<Page>> {
        if !self.desk.is_on() {
            return Answer::Ready(Some(Page::default()));
        }
        let (reply, answer) = oneshot::channel();
        if self.lookups.try_send(Lookup::Scan { kind, from, reply }).is_err() {
            return Answer::Ready(None);
        }
        Answer::Later(Box::pin(async move { answer.await.ok() }))
    }

    fn count(&self, which: &Which) -> Answer<Result<u64, Unreadable>> {
        let keys = self.memory().keys(which).into_iter().chain(self.desk.unwritten.keys(which));
        let elsewhere: HashSet<u64> = keys.map(|key| key.print()).collect();
        if !self.desk.is_on() {
            return Answer::Ready(Ok(elsewhere.len() as u64));
        }
        let (reply, answer) = oneshot::channel();
        let lookup = Lookup::Count { which: which.clone(), after: None, elsewhere, here: 0, reply };
        if self.lookups.try_send(lookup).is_err() {
            return Answer::Ready(Err(Unreadable("too many look-ups wait for the disk".to_owned())));
        }
        let failed = |_| Unreadable("the cache on disk cannot be read now".to_owned());
        Answer::Later(Box::pin(async move { answer.await.map_err(failed) }))
    }

    fn stats(&self) -> Stats {
        Stats { memory: self.memory().tier(), disk: self.desk.tier() }
    }

    fn holdings(&self) -> Vec<Holding> {
        let mut all: BTreeMap<(Kind, Arc<str>), Holding> = BTreeMap::new();
        let on_disk =
            self.desk.tally().into_iter().map(|((kind, route), disk)| Holding { kind, route, memory: (0, 0), disk });
        for Holding { kind, route, memory, disk } in self.memory().holdings().into_iter().chain(on_disk) {
            let none = Holding { kind, route: route.clone(), memory: (0, 0), disk: (0, 0) };
            let holding = all.entry((kind, route)).or_insert(none);
            holding.memory = (holding.memory.0 + memory.0, holding.memory.1 + memory.1);
            holding.disk = (holding.disk.0 + disk.0, holding.disk.1 + disk.1);
        }
        all.into_values().collect()
    }

    fn bound(&self, bounds: Bounds) {
        self.desk.bound(bounds);
    }

    fn flush(&self, patience: Duration) -> bool {
        self.desk.flush(patience)
    }

    fn close(&self, patience: Duration) -> bool {
        self.desk.close();
        self.thread.has_ended(patience)
    }
}

impl Drop for TieredAnswers {
    fn drop(&mut self) {
        self.desk.close();
    }
}
