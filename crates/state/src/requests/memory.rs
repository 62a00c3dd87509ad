//! Records in this process's memory alone: forgotten with it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Clock, Record};

use super::block::Block;
use super::reading::{find, find_content, search};
use super::{Bounds, Content, Health, Page, Request, Requests, Search, Writing};
use crate::{Answer, Unreadable};

/// Bytes of blocks at most, of records and of contents each, whatever the bounds allow.
const MOST: usize = 16 << 20;

/// Blocks that are kept, and the one that is being written. What in the end is on disk is passed from here to there.
#[derive(Debug)]
struct Shelf {
    sealed: VecDeque<Arc<Block>>,
    bytes: usize,
    open: Writing,
}

impl Default for Shelf {
    fn default() -> Self {
        Self { sealed: VecDeque::new(), bytes: 0, open: Writing::new(1) }
    }
}

impl Shelf {
    fn add(&mut self, add: impl FnOnce(&mut Writing), most: usize) {
        add(&mut self.open);
        if !self.open.is_full() {
            return;
        }
        let next = Writing::new(self.open.id() + 1);
        let block = Arc::new(std::mem::replace(&mut self.open, next).sealed());
        self.bytes += block.size();
        self.sealed.push_back(block);
        self.hold_within(most, Duration::ZERO);
    }

    /// Drops the oldest that are too many, or of requests before a time. What was noted while the clock was ahead goes
    /// with what was noted after it.
    fn hold_within(&mut self, most: usize, since: Duration) {
        let mut old = self.sealed.iter().rposition(|block| block.last < since).map_or(0, |last| last + 1);
        while let Some(oldest) = self.sealed.front().filter(|_| self.bytes > most || old > 0) {
            self.bytes -= oldest.size();
            self.sealed.pop_front();
            old = old.saturating_sub(1);
        }
    }

    /// From the newest to the oldest.
    fn blocks(&self) -> Vec<Arc<Block>> {
        let open = (self.open.count() > 0).then(|| Arc::new(self.open.so_far()));
        open.into_iter().chain(self.sealed.iter().rev().cloned()).collect()
    }
}

/// Records in memory alone.
#[derive(Debug, Default)]
pub struct InProcessRequests(Mutex<Memory>);

#[derive(Debug)]
struct Memory {
    records: Shelf,
    contents: Shelf,
    bounds: Bounds,
}

impl Default for Memory {
    fn default() -> Self {
        let bounds = Bounds { keep: Duration::MAX, size: MOST as u64, contents: true };
        Self { records: Shelf::default(), contents: Shelf::default(), bounds }
    }
}

impl Memory {
    fn most(&self) -> usize {
        usize::try_from(self.bounds.size).unwrap_or(MOST).min(MOST)
    }

    fn hold_within(&mut self) {
        let since = Clock.wall().saturating_sub(self.bounds.keep);
        let most = self.most();
        self.records.hold_within(most, since);
        self.contents.hold_within(most, since);
    }
}

impl InProcessRequests {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests for InProcessRequests {
    fn note(&self, records: &[Record]) {
        let mut memory = self.memory();
        let most = memory.most();
        records.iter().for_each(|record| memory.records.add(|open| open.add(record), most));
    }

    fn keep(&self, contents: Vec<Content>) {
        let mut memory = self.memory();
        let most = memory.most();
        if memory.bounds.contents {
            contents.iter().for_each(|content| memory.contents.add(|open| open.add_content(content), most));
        }
    }

    fn find(&self, request_id: &str) -> Answer<Result<Option<Box<Request>>, Unreadable>> {
        let blocks = self.memory().records.blocks();
        Answer::Ready(Ok(blocks.iter().find_map(|block| find(block, request_id)).map(Box::new)))
    }

    fn content(&self, request_id: &str) -> Answer<Result<Option<Content>, Unreadable>> {
        let blocks = self.memory().contents.blocks();
        Answer::Ready(Ok(blocks.iter().find_map(|block| find_content(block, request_id))))
    }

    fn search(&self, wanted: Search) -> Answer<Result<Page, Unreadable>> {
        let blocks = self.memory().records.blocks();
        let mut page = Page::default();
        for block in &blocks {
            if let Some(next) = search(block, &wanted, &mut page.requests) {
                page.next = Some(next);
                break;
            }
        }
        Answer::Ready(Ok(page))
    }

    fn bound(&self, bounds: Bounds) {
        let mut memory = self.memory();
        memory.bounds = bounds;
        if bounds.keep.is_zero() {
            memory.records = Shelf::default();
        }
        if !bounds.contents {
            memory.contents = Shelf::default();
        }
        memory.hold_within();
    }

    fn health(&self) -> Health {
        Health::default()
    }

    fn flush(&self, _: Duration) -> bool {
        true
    }
}
