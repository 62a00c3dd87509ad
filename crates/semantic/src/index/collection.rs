//! The entries of one partition: how they are written while others search.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;

use super::block::Block;
use super::centre::Centre;
use super::nearest::Nearest;
use super::row::{Entry, Row};
use super::rows::ROWS;
use super::search::Search;
use super::view::{Sealed, View};
use super::{Id, Neighbours, NotStored};

/// A block of which more rows are dead is swept up.
const MOST_DEAD: usize = ROWS / 4;

/// The centre is taken anew when so many times as many blocks have been made as there were when it was taken.
const NEW_CENTRE: usize = 3;

/// The vectors that a centre is the mean of, at most.
const CENTRED: usize = 4_096;

/// Blocks that are moved to a new centre whenever one is made, so that no write takes long.
const MOVED: usize = 4;

/// The entries of one partition.
#[derive(Debug)]
pub(super) struct Collection {
    dimensions: usize,
    count: AtomicU64,
    /// What searches read.
    view: ArcSwap<View>,
    /// What those who write know besides; held by one of them at a time.
    desk: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    places: HashMap<Id, Place, RandomState>,
    next_serial: u64,
    given_up: bool,
    /// From where new blocks are seen.
    centre: Option<Arc<Centre>>,
    /// How many more blocks it serves.
    centre_lasts: usize,
}

/// Where an entry stands in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Tail(usize),
    Block { serial: u64, row: usize },
}

/// What became of an entry to be written.
pub(super) enum Written {
    /// It is there.
    Done,
    /// The collection was given up, and takes nothing any more.
    GivenUp,
}

impl Collection {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { dimensions, count: AtomicU64::new(0), view: ArcSwap::default(), desk: Mutex::default() }
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The nearest to `asked`, which has the same dimensions.
    pub(super) fn nearest(&self, asked: &Row, wanted: usize, least: f32) -> Neighbours {
        let mut search = Search::new(asked.vector(), Nearest::new(wanted, least));
        self.view.load().search(&mut search);
        search.into_found()
    }

    /// Writes an entry, in the place of one with its id; `take_room` is asked where there is none.
    pub(super) fn insert(
        &self,
        id: Id,
        row: &Row,
        take_room: impl FnOnce() -> Result<(), NotStored>,
    ) -> Result<Written, NotStored> {
        let mut desk = self.desk();
        if desk.given_up {
            return Ok(Written::GivenUp);
        }
        let old = desk.places.get(&id).copied();
        if old.is_none() {
            take_room()?;
        }
        let mut view = View::clone(&self.view.load());
        if let Some(place) = old {
            desk.take_out(&mut view, place);
        }
        desk.append(&mut view, id, row.clone());
        desk.seal(&mut view);
        self.publish(&desk, view);
        Ok(Written::Done)
    }

    /// Removes an entry, and says whether there was one.
    pub(super) fn remove(&self, id: Id) -> bool {
        let mut desk = self.desk();
        let Some(place) = desk.places.remove(&id) else { return false };
        let mut view = View::clone(&self.view.load());
        desk.take_out(&mut view, place);
        desk.seal(&mut view);
        self.publish(&desk, view);
        true
    }

    /// Removes all, and says how many there were.
    pub(super) fn clear(&self) -> u64 {
        let mut desk = self.desk();
        let had = desk.places.len() as u64;
        *desk = Desk { given_up: desk.given_up, next_serial: desk.next_serial, ..Desk::default() };
        self.publish(&desk, View::default());
        had
    }

    /// Gives the collection up for good if it is empty, and says whether it is given up.
    pub(super) fn give_up(&self) -> bool {
        let mut desk = self.desk();
        desk.given_up |= desk.places.is_empty();
        desk.given_up
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, desk: &Desk, view: View) {
        self.count.store(desk.places.len() as u64, Ordering::Relaxed);
        self.view.store(Arc::new(view));
    }
}

impl Desk {
    fn append(&mut self, view: &mut View, id: Id, row: Row) {
        self.places.insert(id, Place::Tail(view.tail.len()));
        view.tail.push(Entry { id, row });
    }

    /// Takes out of the view what stands at `place`.
    fn take_out(&mut self, view: &mut View, place: Place) {
        match place {
            Place::Tail(at) => {
                if at < view.tail.len() {
                    view.tail.swap_remove(at);
                }
                if let Some(moved) = view.tail.get(at) {
                    self.places.insert(moved.id, place);
                }
            }
            Place::Block { serial, row } => {
                let Some(at) = view.find(serial) else { return };
                let Some(sealed) = view.sealed.get_mut(at) else { return };
                sealed.dead.add(row);
                if sealed.dead.count() > MOST_DEAD {
                    self.sweep(view, at);
                }
            }
        }
    }

    /// Moves what lives in a block to the tail.
    fn sweep(&mut self, view: &mut View, at: usize) {
        let Sealed { block, dead } = view.sealed.remove(at);
        for (id, vector) in block.living(&dead) {
            self.append(view, id, vector.to_row());
        }
    }

    /// Makes a block of the tail's oldest where there are enough.
    fn seal(&mut self, view: &mut View) {
        while view.tail.len() >= ROWS {
            let entries: Vec<Entry> = view.tail.drain(..ROWS).collect();
            for (at, entry) in view.tail.iter().enumerate() {
                self.places.insert(entry.id, Place::Tail(at));
            }
            self.centre(view, &entries);
            let vectors = entries.iter().map(|entry| (entry.id, entry.row.vector())).collect();
            let block = Block::new(self.next_serial, vectors, self.centre.as_ref());
            self.next_serial += 1;
            self.place(&block);
            view.sealed.push(Sealed::new(block));
            self.move_to_centre(view);
        }
    }

    /// Writes down where a block's rows stand.
    fn place(&mut self, block: &Block) {
        for (row, id) in block.ids().enumerate() {
            self.places.insert(id, Place::Block { serial: block.serial, row });
        }
    }

    /// Sees to the centre of the next block, which will have these entries.
    fn centre(&mut self, view: &View, entries: &[Entry]) {
        self.centre_lasts = self.centre_lasts.saturating_sub(1);
        if self.centre_lasts > 0 {
            return;
        }
        let blocks = view.sealed.len() + 1;
        self.centre_lasts = blocks * NEW_CENTRE;
        let Some(first) = entries.first() else { return };
        // As many of each block, so that old and new count alike, and from all over it, for its rows are in order.
        let every = ROWS / (CENTRED / blocks).clamp(1, ROWS);
        let kept = view.sealed.iter().flat_map(|sealed| sealed.block.living(&sealed.dead).step_by(every));
        let new = entries.iter().step_by(every).map(|entry| entry.row.vector());
        let vectors = kept.map(|(_, vector)| vector).chain(new);
        self.centre = Centre::of(first.row.dimensions(), vectors).map(Arc::new);
    }

    /// Moves some of the blocks that are seen from an older centre.
    fn move_to_centre(&mut self, view: &mut View) {
        let Some(centre) = self.centre.clone() else { return };
        let older = view.sealed.iter_mut().filter(|sealed| !sealed.block.is_seen_from(&centre));
        for sealed in older.take(MOVED) {
            let block = sealed.block.seen_from(&centre, &sealed.dead);
            self.place(&block);
            *sealed = Sealed::new(block);
        }
    }
}
