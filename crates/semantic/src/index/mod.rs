//! The index of the vectors of stored questions: which of them are nearest to this one?
//!
//! Vectors stand in partitions: a fingerprint of everything besides the question that decides the answer. A search
//! looks at one partition alone, and gives the nearest by cosine above a least similarity, the nearest first.
//!
//! ```
//! use semantic::index::{Bounds, Index, Partition};
//!
//! let index = Index::new(Bounds { entries: 100_000, bytes: 300 << 20 });
//! let partition = Partition([7; 32]);
//! index.insert(&partition, 1, &[0.6, 0.8]).unwrap();
//! index.insert(&partition, 2, &[0.8, -0.6]).unwrap();
//! let found = index.nearest(&partition, &[0.5, 0.8], 8, 0.9);
//! assert_eq!(found.iter().map(|neighbour| neighbour.id).collect::<Vec<_>>(), [1]);
//! ```
//!
//! **How it works**, and what it was measured against, is docs/decisions/0015-vector-index.md. In short: a vector is
//! normalised, turned by a fixed random rotation, and kept as 16-bit fixed-point numbers, from which similarities are
//! computed exactly enough to judge by. The newest of a partition are all compared. The others stand in blocks, and of
//! each a few bits are looked at, of 256 vectors at once; those for whom they speak are looked at closer, and few compared.
//!
//! **Threads.** A search reads one state of a partition, which never changes, and waits for nobody: inserting and
//! removing make the next state and swap it in. Those who write to one partition wait for each other.

mod block;
mod centre;
mod collection;
mod nearest;
mod planes;
mod probe;
mod rotation;
mod row;
mod rows;
mod search;
mod sides;
mod view;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use collection::{Collection, Written};
use row::Row;

/// What names an entry within its partition: the caller's choice, for instance the 16 bytes of a stored answer's id.
pub type Id = u128;

/// The widest vector that is kept. Embedding models give 256 to 4,096 numbers.
pub const MAX_DIMENSIONS: usize = 16_384;

/// The most neighbours that one search gives.
pub const MAX_NEIGHBOURS: usize = 256;

/// Which entries a question is compared with: a hash of everything besides the question that decides the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub [u8; 32]);

/// How much an index may hold, all partitions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Entries at most.
    pub entries: u64,
    /// What entries may cost at most, in bytes, as [`Index::bytes`] counts.
    pub bytes: u64,
}

/// An entry that is near to what was asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The entry.
    pub id: Id,
    /// The cosine of the two vectors, from -1 to 1, to within 0.0002; equal vectors have exactly 1.
    pub similarity: f32,
}

/// What a search finds: the nearest first; of equals, the one with the lower id.
pub type Neighbours = SmallVec<[Neighbour; 8]>;

/// Why a vector was not stored. What was stored before under its id is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStored {
    /// It has no direction: no numbers, or only zeros.
    Zero,
    /// One of its numbers is infinite or not a number.
    NotFinite,
    /// It has more than [`MAX_DIMENSIONS`] numbers.
    TooWide,
    /// It has another number of dimensions than the partition's first.
    OtherDimensions {
        /// Those of the partition.
        expected: usize,
        /// Those of the vector.
        found: usize,
    },
    /// One more would exceed the [`Bounds`]: remove something first.
    Full,
}

impl std::fmt::Display for NotStored {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Zero => to.write_str("the vector has no direction"),
            Self::NotFinite => to.write_str("the vector has a number that is not finite"),
            Self::TooWide => write!(to, "the vector has more than {MAX_DIMENSIONS} dimensions"),
            Self::OtherDimensions { expected, found } => {
                write!(to, "the vector has {found} dimensions where those beside it have {expected}")
            }
            Self::Full => to.write_str("the index is full"),
        }
    }
}

impl std::error::Error for NotStored {}

/// The index. Shared by reference among threads.
#[derive(Debug)]
pub struct Index {
    bounds: Bounds,
    entries: AtomicU64,
    bytes: AtomicU64,
    /// Locked for a look-up or for the coming and going of a partition, never for work on one.
    shards: [RwLock<Shard>; SHARDS],
}

type Shard = HashMap<Partition, Arc<Collection>, RandomState>;

/// So many that no table of partitions grows so large that its growing would hold up a search.
const SHARDS: usize = 256;

/// What a partition costs besides its entries: its place in the table, its locks, an empty state.
const PARTITION_BYTES: u64 = 512;

/// What an entry costs besides its vector and the bits of it: its id, twice, its length, its place.
const ENTRY_BYTES: u64 = 96;

/// What an entry of so many dimensions is counted for.
fn entry_bytes(dimensions: usize) -> u64 {
    let dimensions = dimensions as u64;
    // Two bytes for each number, and its bit in two orders.
    2 * dimensions + 2 * dimensions.div_ceil(8) + ENTRY_BYTES
}

impl Index {
    /// An empty index.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let shards = std::array::from_fn(|_| RwLock::default());
        Self { bounds, entries: AtomicU64::new(0), bytes: AtomicU64::new(0), shards }
    }

    /// Stores a vector, in the place of what the partition has under this id. The first vector of a partition fixes
    /// its dimensions.
    ///
    /// # Errors
    ///
    /// A vector that cannot be compared, or no room for one more; nothing is changed then.
    pub fn insert(&self, partition: &Partition, id: Id, vector: &[f32]) -> Result<(), NotStored> {
        let row = Row::new(vector)?;
        let cost = entry_bytes(row.dimensions());
        loop {
            let collection = self.collection(partition, row.dimensions())?;
            match collection.insert(id, &row, || self.take_room(cost)) {
                Ok(Written::Done) => return Ok(()),
                // Emptied and given up between the look-up and now: the next look-up makes a new one.
                Ok(Written::GivenUp) => self.forget(partition, &collection),
                Err(full) => {
                    // It may have been made for this vector alone.
                    self.forget(partition, &collection);
                    return Err(full);
                }
            }
        }
    }

    /// Removes an entry, and says whether there was one.
    pub fn remove(&self, partition: &Partition, id: Id) -> bool {
        let Some(collection) = self.find(partition) else { return false };
        if !collection.remove(id) {
            return false;
        }
        self.give_room(1, entry_bytes(collection.dimensions()));
        self.forget(partition, &collection);
        true
    }

    /// Removes a partition with all its entries, and says how many there were.
    pub fn clear(&self, partition: &Partition) -> u64 {
        let Some(collection) = self.find(partition) else { return 0 };
        let had = collection.clear();
        self.give_room(had, had * entry_bytes(collection.dimensions()));
        self.forget(partition, &collection);
        had
    }

    /// The nearest of a partition, at most `k` (and [`MAX_NEIGHBOURS`]), none of them less similar than `least`.
    ///
    /// A vector that could not have been stored has no neighbours: one without direction, with a number that is not
    /// finite, or of other dimensions.
    #[must_use]
    pub fn nearest(&self, partition: &Partition, vector: &[f32], k: usize, least: f32) -> Neighbours {
        let Some(collection) = self.find(partition) else { return Neighbours::new() };
        if collection.dimensions() != vector.len() {
            return Neighbours::new();
        }
        let Ok(asked) = Row::new(vector) else { return Neighbours::new() };
        collection.nearest(&asked, k.min(MAX_NEIGHBOURS), least)
    }

    /// How many entries there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// How many entries a partition has.
    #[must_use]
    pub fn count_in(&self, partition: &Partition) -> u64 {
        self.find(partition).map_or(0, |collection| collection.count())
    }

    /// What the entries cost, in bytes. What was removed is no longer counted, though up to a third as much again may
    /// be held of it until it is swept up.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What this index may hold.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// What one more entry of so many dimensions adds to [`Index::bytes`], in a partition that is there.
    #[must_use]
    pub fn cost(dimensions: usize) -> u64 {
        entry_bytes(dimensions)
    }

    fn shard(&self, partition: &Partition) -> &RwLock<Shard> {
        let [first, ..] = partition.0;
        // A byte names one of 256.
        &self.shards[usize::from(first) % SHARDS]
    }

    fn find(&self, partition: &Partition) -> Option<Arc<Collection>> {
        self.shard(partition).read().unwrap_or_else(PoisonError::into_inner).get(partition).map(Arc::clone)
    }

    /// The partition's collection, made where there is none.
    fn collection(&self, partition: &Partition, dimensions: usize) -> Result<Arc<Collection>, NotStored> {
        let found = match self.find(partition) {
            Some(found) => found,
            None => {
                let mut shard = self.shard(partition).write().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(shard.entry(*partition).or_insert_with(|| {
                    self.bytes.fetch_add(PARTITION_BYTES, Ordering::Relaxed);
                    Arc::new(Collection::new(dimensions))
                }))
            }
        };
        let expected = found.dimensions();
        if expected == dimensions { Ok(found) } else { Err(NotStored::OtherDimensions { expected, found: dimensions }) }
    }

    /// Takes a collection out of the table if it is empty, unless another has taken its place there.
    fn forget(&self, partition: &Partition, emptied: &Arc<Collection>) {
        // First, so that nobody waits for the table while this waits for who writes to the collection.
        if !emptied.give_up() {
            return;
        }
        let mut shard = self.shard(partition).write().unwrap_or_else(PoisonError::into_inner);
        if shard.get(partition).is_some_and(|here| Arc::ptr_eq(here, emptied)) {
            shard.remove(partition);
            self.bytes.fetch_sub(PARTITION_BYTES, Ordering::Relaxed);
        }
    }

    /// Counts one more entry, if there is room.
    fn take_room(&self, bytes: u64) -> Result<(), NotStored> {
        take(&self.entries, 1, self.bounds.entries)?;
        take(&self.bytes, bytes, self.bounds.bytes).inspect_err(|_| {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        })
    }

    fn give_room(&self, entries: u64, bytes: u64) {
        self.entries.fetch_sub(entries, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn take(from: &AtomicU64, amount: u64, bound: u64) -> Result<(), NotStored> {
    from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
        taken.checked_add(amount).filter(|sum| *sum <= bound)
    })
    .map(drop)
    .map_err(|_| NotStored::Full)
}

#[cfg(test)]
mod tests;
