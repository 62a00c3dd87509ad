//! The thread that writes.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use base::Clock;
use state::Trouble;
use state::answers::{Kind, Which};

use super::desk::{Desk, Order, Tally};
use super::file::{self, Changes, Failure, File, PAGE};
use super::index::Known;
use super::row;
use crate::failing::Failing;

/// What is put is gathered this long, so that a busy gateway commits some thirty times a second at most.
const GATHER: Duration = Duration::from_millis(30);
/// A pause between two steps of what is done beside writing.
const BREATH: Duration = Duration::from_millis(5);
/// Without anything to do, what has expired is looked for this often.
const TICK: Duration = Duration::from_secs(1);
/// Rows that are read or removed in one step.
pub(super) const STEP: u32 = 2_048;
/// Rows of which the index hears in one step.
const CHAPTER: u32 = 16_384;
/// Things written in one commit at most.
const BATCH: usize = 512;

/// Writes until the store is dropped.
pub(super) fn write_out(desk: &Desk, path: PathBuf) {
    let mut writer = Writer {
        desk,
        path,
        file: None,
        held: VecDeque::new(),
        loading: None,
        failing: None,
        has_evicted: false,
        written: 0,
        shard: 0,
        cut: None,
        has_more_to_do: true,
    };
    loop {
        let work = desk.next(writer.wait(), GATHER, writer.held.is_empty());
        writer.held.extend(work.orders);
        let now = Clock.now();
        if work.is_urgent || work.closed || writer.failing.as_ref().is_none_or(|failing| now >= failing.again) {
            writer.turn();
        }
        desk.counts.held.store(writer.held.len(), Relaxed);
        if work.closed {
            // The reader has it open too: closing it alone would leave its log.
            if let Some(file) = &writer.file {
                file.fold_log();
            }
            return;
        }
    }
}

pub(super) struct Writer<'a> {
    pub desk: &'a Desk,
    path: PathBuf,
    pub file: Option<File>,
    /// What was taken and is not carried out.
    held: VecDeque<Order>,
    /// The last row that the index has heard of, while it has not heard of all.
    loading: Option<Option<i64>>,
    failing: Option<Failing>,
    /// Something had to go since the disk was found full.
    has_evicted: bool,
    /// Bytes written in this turn of the index.
    written: u64,
    /// The shard of the index that is looked through next.
    pub shard: usize,
    /// What was used no later than this turn has to go.
    pub cut: Option<u32>,
    /// There is more to be done than what was ordered.
    pub has_more_to_do: bool,
}

/// What was to be written is written, or never will be.
fn let_go(desk: &Desk, orders: impl Iterator<Item = Order>) {
    for order in orders {
        if let Order::Put(key, stored) = order {
            desk.unwritten.let_go(&key, &stored);
        }
    }
}

/// What a file's bound means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Pages of the file at most.
    pub pages: u64,
    /// Pages of its log, after which that is written back.
    log: u64,
    /// Bytes written in one commit at most.
    batch: u64,
}

impl Room {
    /// The log may grow by a commit, and another one that waits for a reader, beyond what it should have.
    pub fn within(bytes: u64) -> Self {
        let log = (bytes / 16 / PAGE).clamp(16, 1_000);
        Self { pages: (bytes / PAGE).saturating_sub(3 * log), log, batch: (bytes / 32).min(4 << 20) }
    }
}

impl Writer<'_> {
    /// How long the thread may wait for orders; `None` where there is nothing else to do.
    fn wait(&self) -> Option<Duration> {
        if let Some(failing) = &self.failing {
            return Some(failing.again.saturating_duration_since(Clock.now()));
        }
        if !self.held.is_empty() || self.loading.is_some() {
            return Some(Duration::ZERO);
        }
        if self.has_more_to_do {
            return Some(BREATH);
        }
        // A file may go at any time, an empty one too.
        (self.file.is_some() || self.desk.index.len() > 0).then_some(TICK)
    }

    fn turn(&mut self) {
        if !self.desk.is_on() {
            return self.leave_the_disk();
        }
        match self.work() {
            Ok(()) => self.succeeded(),
            Err(Failure::Damaged(why)) => match self.begin_anew(&why) {
                Ok(()) => self.succeeded(),
                Err(failure) => self.failed(failure),
            },
            Err(failure) => self.failed(failure),
        }
    }

    fn work(&mut self) -> Result<(), Failure> {
        if let Some(why) = self.desk.take_damage() {
            return Err(Failure::Damaged(why));
        }
        if let Some(lost) = self.file.take_if(|file| !file.is_there()) {
            self.lose(lost);
        }
        if self.file.is_none() {
            let has_puts = self.held.iter().any(|order| matches!(order, Order::Put(..)));
            // While something is wrong, only a file that opens shows that it is over.
            if !has_puts && self.failing.is_none() && !self.path.exists() {
                return self.do_without_a_file();
            }
            self.open()?;
        }
        self.hold_within()?;
        self.load_some()?;
        // What is removed must be known, and all before it written.
        while let Some(order) = self.held.front() {
            let is_put = matches!(order, Order::Put(..));
            // A file that has been removed is made again for what comes behind.
            if if is_put { self.file.is_none() } else { self.loading.is_some() } {
                break;
            }
            self.carry_out_some()?;
            self.tend()?;
        }
        self.tend()
    }

    fn open(&mut self) -> Result<(), Failure> {
        let file = File::open(&self.path)?;
        self.desk.index.set_turn(file.turn()?);
        // It may have taken the place of one of another version.
        self.desk.is_another_file();
        self.file = Some(file);
        self.loading = Some(None);
        self.desk.index.clear(false);
        self.tally().clear();
        Ok(())
    }

    fn hold_within(&mut self) -> Result<(), Failure> {
        let room = Room::within(self.desk.disk());
        #[cfg(test)]
        let room = Room { pages: self.desk.trial.pages(room.pages), ..room };
        let Some(file) = &self.file else { return Ok(()) };
        file.hold_within(room.pages, room.log)
    }

    /// Lets the index hear of some more rows.
    fn load_some(&mut self) -> Result<(), Failure> {
        let (Some(after), Some(file)) = (self.loading, &self.file) else { return Ok(()) };
        let rows = file.after(after, CHAPTER)?;
        let last = rows.last().map(|(touched, _)| touched.print.cast_signed());
        let is_over = rows.len() < CHAPTER as usize;
        let mut tally = self.tally();
        for (touched, known) in rows {
            // What was written since the start is known already.
            if self.desk.index.has(touched.print) {
                continue;
            }
            let (entries, bytes) = tally.entry((touched.kind, touched.route)).or_default();
            (*entries, *bytes) = (*entries + 1, *bytes + u64::from(touched.size));
            self.desk.index.insert(touched.print, known);
        }
        drop(tally);
        self.loading = if is_over { None } else { Some(last) };
        if is_over {
            self.desk.index.is_whole_now();
            self.desk.share_memory();
        }
        Ok(())
    }

    /// Carries out one order, or writes several things at once.
    fn carry_out_some(&mut self) -> Result<(), Failure> {
        match self.held.front() {
            Some(Order::Put(..)) => self.write_some(),
            Some(Order::Forget(print)) => {
                let print = *print;
                self.remove(&[print])?;
                self.held.pop_front();
                Ok(())
            }
            Some(Order::Remove { key, .. }) => {
                let print = key.print();
                let was_on_disk = self.remove(&[print])? > 0;
                if let Some(Order::Remove { key, was_in_memory, pending, reply }) = self.held.pop_front() {
                    // A look-up may have brought it back before the row was gone.
                    self.desk.memory.take(&key);
                    self.desk.removals.end(pending);
                    let _ = reply.send(Ok(was_in_memory || was_on_disk));
                }
                Ok(())
            }
            Some(Order::Purge { which, in_memory, .. }) => {
                let index = &self.desk.index;
                let in_memory_alone = in_memory.iter().filter(|print| !index.has(**print)).count() as u64;
                let which = which.clone();
                let purged = self.purge(&which)?;
                if let Some(Order::Purge { which, pending, reply, .. }) = self.held.pop_front() {
                    self.desk.memory.take_all(&which);
                    self.desk.removals.end(pending);
                    let _ = reply.send(Ok(purged + in_memory_alone));
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes as much as makes one commit.
    fn write_some(&mut self) -> Result<(), Failure> {
        let most = Room::within(self.desk.disk()).batch;
        let mut bytes = 0;
        let fits = |order: &&Order| match order {
            Order::Put(_, stored) => {
                bytes += u64::from(row::size(stored));
                bytes <= most
            }
            _ => false,
        };
        // One in any case, which is no larger than that.
        let count = self.held.iter().take(BATCH).take_while(fits).count().max(1);
        let turn = self.desk.index.turn();
        let Some(file) = &mut self.file else { return Ok(()) };
        #[cfg(test)]
        self.desk.trial.be_full().inspect_err(|_| {
            let_go(self.desk, self.held.drain(..count));
            self.desk.refuse(count as u64);
        })?;
        let things = self.held.iter().take(count).filter_map(|order| match order {
            Order::Put(key, stored) => Some((key, &**stored)),
            _ => None,
        });
        match file.put(things, turn) {
            Ok(changes) => {
                let written = changes.come.iter().map(|(touched, _)| u64::from(touched.size)).sum();
                let_go(self.desk, self.held.drain(..count));
                self.apply(changes);
                self.advance(written)
            }
            // Once something goes, and then it is the disk that is full.
            Err(Failure::Full(_)) if !self.has_evicted => {
                self.has_evicted = true;
                self.evict_at_once()
            }
            Err(failure @ Failure::Full(_)) => {
                let_go(self.desk, self.held.drain(..count));
                self.desk.refuse(count as u64);
                file.fold_log();
                Err(failure)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Time goes on by what is written.
    fn advance(&mut self, written: u64) -> Result<(), Failure> {
        self.has_evicted = false;
        self.written += written;
        if self.written < self.desk.disk() / 1_024 {
            return Ok(());
        }
        self.written = 0;
        let turn = self.desk.index.turn().saturating_add(1);
        self.desk.index.set_turn(turn);
        self.file.as_mut().map_or(Ok(()), |file| file.set_turn(turn))
    }

    /// Removes rows, and says how many.
    pub fn remove(&mut self, prints: &[u64]) -> Result<usize, Failure> {
        let Some(file) = &mut self.file else { return Ok(0) };
        let changes = file.remove(prints)?;
        let removed = changes.gone.len();
        self.apply(changes);
        // What was not there is not known to be there either.
        for print in prints {
            self.desk.index.remove(*print);
        }
        Ok(removed)
    }

    fn purge(&mut self, which: &Which) -> Result<u64, Failure> {
        let has_all = |(kind, route): &(Kind, Arc<str>)| {
            which.kind.is_none_or(|wanted| wanted == *kind) && which.route.as_ref().is_none_or(|wanted| wanted == route)
        };
        // A file of which nothing would be left is removed whole.
        if which.client.is_none() && self.tally().keys().all(has_all) {
            let purged = self.desk.index.len();
            self.forget_the_file();
            file::remove(&self.path);
            self.desk.is_another_file();
            self.desk.index.clear(true);
            self.loading = None;
            return Ok(purged);
        }
        let mut purged = 0;
        let mut after = None;
        loop {
            let Some(file) = &self.file else { return Ok(purged) };
            let (such, more) = file.such(which, after, STEP)?;
            if !such.is_empty() {
                purged += self.remove(&such)? as u64;
            }
            match more {
                Some(last) => after = Some(last),
                None => return Ok(purged),
            }
        }
    }

    fn apply(&self, changes: Changes) {
        let mut tally = self.tally();
        for gone in changes.gone {
            // What the index has not heard of yet is not counted yet.
            if !self.desk.index.remove(gone.print) && self.loading.is_some() {
                continue;
            }
            let group = (gone.kind, gone.route);
            if let Some((entries, bytes)) = tally.get_mut(&group) {
                (*entries, *bytes) = (entries.saturating_sub(1), bytes.saturating_sub(u64::from(gone.size)));
                if *entries == 0 {
                    tally.remove(&group);
                }
            }
        }
        let used = self.desk.index.turn();
        for (come, until) in changes.come {
            self.desk.index.insert(come.print, Known { used, until, size: come.size });
            let (entries, bytes) = tally.entry((come.kind, come.route)).or_default();
            (*entries, *bytes) = (*entries + 1, *bytes + u64::from(come.size));
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.desk.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file is closed, and what was known of it is forgotten.
    fn forget_the_file(&mut self) {
        self.file = None;
        self.cut = None;
        self.desk.index.clear(false);
        self.tally().clear();
        self.desk.counts.bytes.store(0, Relaxed);
        self.desk.is_another_file();
    }

    /// Somebody has removed the file, or put another in its place: it is out until one is open again.
    fn lose(&mut self, file: File) {
        let what = "the file was removed or replaced while it was in use";
        tracing::warn!(file = %self.path.display(), "the cache on disk begins anew: {what}");
        file.leave();
        self.forget_the_file();
        let failing = self.failing.get_or_insert_with(Failing::told);
        self.desk.set_trouble(Some(Trouble { since: failing.since_wall, what: what.to_owned() }));
    }

    /// A damaged file is set aside. What waits is written into the next one.
    fn begin_anew(&mut self, why: &str) -> Result<(), Failure> {
        self.forget_the_file();
        self.loading = None;
        crate::file::set_aside(&self.path, super::file::APPLICATION, "the cache on disk", why)?;
        // Whoever opened it meanwhile has not seen the next one.
        self.desk.is_another_file();
        self.desk.index.clear(true);
        Ok(())
    }

    /// Nothing was ever written: nothing need be removed.
    fn do_without_a_file(&mut self) -> Result<(), Failure> {
        self.desk.index.clear(true);
        self.loading = None;
        self.has_more_to_do = false;
        while !self.held.is_empty() {
            self.carry_out_some()?;
        }
        Ok(())
    }

    /// The bound is 0: what was on disk is removed.
    fn leave_the_disk(&mut self) {
        if self.file.is_some() || self.path.exists() {
            self.forget_the_file();
            file::remove(&self.path);
            self.desk.is_another_file();
            tracing::info!(file = %self.path.display(), "the cache is kept in memory alone: what was on disk is removed");
        }
        let (puts, rest): (VecDeque<Order>, _) =
            std::mem::take(&mut self.held).into_iter().partition(|order| matches!(order, Order::Put(..)));
        let_go(self.desk, puts.into_iter());
        self.held = rest;
        // Without a file this cannot fail.
        let _ = self.do_without_a_file();
        self.succeeded();
    }

    fn failed(&mut self, failure: Failure) {
        let (Failure::Damaged(what) | Failure::Full(what) | Failure::Trouble(what)) = failure;
        let failing = self.failing.get_or_insert_with(Failing::begin);
        let Some(is_news) = failing.failed() else { return };
        if is_news {
            tracing::warn!("the cache on disk cannot be used; new answers are kept in memory alone: {what}");
        }
        self.desk.set_trouble(Some(Trouble { since: failing.since_wall, what }));
    }

    fn succeeded(&mut self) {
        if let Some(seconds) = self.failing.take().and_then(Failing::over) {
            tracing::info!(seconds, "the cache on disk is written again");
            self.desk.set_trouble(None);
        }
    }
}
