//! What is done beside writing, in small steps: making room, dropping what is past its time, writing down what
//! was used.

use std::sync::atomic::Ordering::Relaxed;

use base::Clock;

use super::file::{Failure, PAGE};
use super::index::{Index, Known};
use super::row;
use super::writer::{Room, STEP, Writer};

/// Of the room, what may be in use, and down to what it is emptied then, in sixteenths.
const HIGH: u64 = 15;
const LOW: u64 = 14;
/// Rows that go in one step.
const FEW: usize = 1_024;
/// Free pages that are given back in one step.
const PAGES: u64 = 1_024;
/// Shards of the index that are looked through for what has expired, in one step.
const SHARDS: usize = 16;

impl Writer<'_> {
    /// One step of each.
    pub fn tend(&mut self) -> Result<(), Failure> {
        self.has_more_to_do = false;
        self.desk.share_memory();
        let pages = Room::within(self.desk.disk()).pages;
        let used = self.measure()?;
        if self.cut.is_some() || used > pages / 16 * HIGH || self.desk.index.len() > self.desk.most_entries() {
            self.evict_some(used, pages)?;
        }
        self.drop_expired()?;
        self.note_used()?;
        self.shrink(pages)
    }

    /// Pages in use.
    fn measure(&self) -> Result<u64, Failure> {
        let Some(file) = &self.file else { return Ok(0) };
        let (all, free) = file.pages()?;
        let used = all.saturating_sub(free);
        self.desk.counts.bytes.store(used * PAGE, Relaxed);
        Ok(used)
    }

    /// Lets a few things go of those that were used least recently.
    fn evict_some(&mut self, used: u64, pages: u64) -> Result<(), Failure> {
        let index = &self.desk.index;
        let surplus = index.len().saturating_sub(self.desk.most_entries() / 16 * LOW);
        let is_crowded = index.len() > self.desk.most_entries();
        let low = pages / 16 * LOW;
        if used <= low && !is_crowded {
            self.cut = None;
            return Ok(());
        }
        let cut = match self.cut {
            Some(cut) => cut,
            None => {
                let average = used * PAGE / index.len().max(1);
                let bytes = used.saturating_sub(low) * PAGE;
                let bytes = if is_crowded { bytes.max(surplus * average) } else { bytes };
                *self.cut.insert(index.cut(bytes))
            }
        };
        // Once around the index at most; then another cut is made.
        let some = self.such(Index::shards(), |known| known.used <= cut);
        if some.is_empty() {
            self.cut = None;
            return Ok(());
        }
        let evicted = self.remove(&some)? as u64;
        self.desk.counts.evicted.fetch_add(evicted, Relaxed);
        self.has_more_to_do = true;
        Ok(())
    }

    /// A few rows that are such, from so many shards of the index at most.
    fn such(&mut self, shards: usize, is_such: impl Fn(Known) -> bool) -> Vec<u64> {
        let mut such = Vec::new();
        for _ in 0..shards {
            let are_all = self.desk.index.add_such(self.shard, FEW, &is_such, &mut such);
            if !are_all {
                break;
            }
            self.shard = self.shard.wrapping_add(1);
        }
        such
    }

    /// There was no room for a commit: some goes now.
    pub fn evict_at_once(&mut self) -> Result<(), Failure> {
        let used = self.measure()?;
        // As if the room were what is in use, so that a sixteenth of it goes.
        for _ in 0..Index::shards() {
            let now = self.measure()?;
            if now <= used / 16 * HIGH {
                break;
            }
            self.evict_some(now, used)?;
        }
        self.cut = None;
        Ok(())
    }

    fn drop_expired(&mut self) -> Result<(), Failure> {
        let now = row::seconds(Clock.wall());
        let some = self.such(SHARDS, |known| known.until < now);
        if some.is_empty() {
            return Ok(());
        }
        self.has_more_to_do = true;
        self.remove(&some).map(|_| ())
    }

    fn note_used(&mut self) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut touched = self.desk.index.take_touched();
        touched.truncate(STEP as usize);
        let used: Vec<_> =
            touched.into_iter().filter_map(|print| Some((print, self.desk.index.used(print)?))).collect();
        if used.is_empty() { Ok(()) } else { file.note_used(&used) }
    }

    /// A file that had more room before gives back what is free.
    fn shrink(&mut self, pages: u64) -> Result<(), Failure> {
        let Some(file) = &self.file else { return Ok(()) };
        let (all, free) = file.pages()?;
        if all > pages && free > 0 {
            file.shrink(PAGES.min(all - pages))?;
            file.fold_log();
            self.has_more_to_do = true;
        }
        Ok(())
    }
}
