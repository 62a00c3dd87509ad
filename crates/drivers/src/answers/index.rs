//! What is on disk, known in memory: whether a key may be there, how large it is, until when it is kept, and
//! when it was used last.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::{HashMap, HashMapExt as _};

/// The first 64 bits of a key, in halves, so that an entry takes 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Print([u32; 2]);

impl Print {
    const fn of(print: u64) -> Self {
        Self([(print >> 32) as u32, print as u32])
    }

    const fn whole(self) -> u64 {
        let [high, low] = self.0;
        ((high as u64) << 32) | low as u64
    }
}

impl Hash for Print {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.whole());
    }
}

/// One row of the file.
#[derive(Debug)]
struct Slot {
    /// The turn in which it was used last.
    used: AtomicU32,
    /// Seconds since the Unix epoch; it is kept until then.
    until: u32,
    size: u32,
}

/// What a row is, for everybody else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub used: u32,
    pub until: u32,
    pub size: u32,
}

/// Locks, each held for as long as it takes to look at one entry, or to look one shard through.
const SHARDS: usize = 256;
/// What an entry takes in a table that is half full, with its control byte.
pub(super) const ENTRY: u64 = 42;
/// Uses are written into the file when they are so many turns newer than what stands there: a sixty-fourth of
/// what the file holds.
const COARSE: u32 = 16;
/// Uses at most that wait to be written.
const MOST_TOUCHED: usize = 4_096;

/// The index. Time goes by turns, each of which is the writing of a thousandth of what the file may hold: how
/// long something was not used counts only as far as others came meanwhile.
#[derive(Debug)]
pub(super) struct Index {
    shards: [RwLock<HashMap<Print, Slot>>; SHARDS],
    entries: AtomicUsize,
    /// Everything in the file is known.
    is_whole: AtomicBool,
    turn: AtomicU32,
    touched: Mutex<Vec<u64>>,
    hits: AtomicU64,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::new(HashMap::new())),
            entries: AtomicUsize::new(0),
            is_whole: AtomicBool::new(false),
            turn: AtomicU32::new(0),
            touched: Mutex::default(),
            hits: AtomicU64::new(0),
        }
    }
}

impl Index {
    fn shard(&self, print: u64) -> &RwLock<HashMap<Print, Slot>> {
        // Keys are hashes: any of their bits tell them apart.
        &self.shards[print as usize % SHARDS]
    }

    fn read(&self, print: u64) -> RwLockReadGuard<'_, HashMap<Print, Slot>> {
        self.shard(print).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, print: u64) -> RwLockWriteGuard<'_, HashMap<Print, Slot>> {
        self.shard(print).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a key may be on disk.
    pub fn may_have(&self, print: u64) -> bool {
        !self.is_whole.load(Relaxed) || self.has(print)
    }

    /// Whether a key is known to be on disk.
    pub fn has(&self, print: u64) -> bool {
        self.read(print).contains_key(&Print::of(print))
    }

    /// Something was used, wherever it lay.
    pub fn touch(&self, print: u64) {
        let now = self.turn();
        let before = match self.read(print).get(&Print::of(print)) {
            Some(slot) if slot.used.load(Relaxed) != now => slot.used.swap(now, Relaxed),
            _ => return,
        };
        if before / COARSE != now / COARSE {
            let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
            if touched.len() < MOST_TOUCHED {
                touched.push(print);
            }
        }
    }

    /// What was used, and is not written yet.
    pub fn take_touched(&self) -> Vec<u64> {
        std::mem::take(&mut self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something was found on disk.
    pub fn hit(&self, print: u64) {
        self.hits.fetch_add(1, Relaxed);
        self.touch(print);
    }

    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    pub fn turn(&self) -> u32 {
        self.turn.load(Relaxed)
    }

    pub fn set_turn(&self, turn: u32) {
        self.turn.store(turn, Relaxed);
    }

    pub fn insert(&self, print: u64, known: Known) {
        let slot = Slot { used: AtomicU32::new(known.used), until: known.until, size: known.size };
        if self.write(print).insert(Print::of(print), slot).is_none() {
            self.entries.fetch_add(1, Relaxed);
        }
    }

    /// False where it was not known.
    pub fn remove(&self, print: u64) -> bool {
        let was_there = self.write(print).remove(&Print::of(print)).is_some();
        self.entries.fetch_sub(usize::from(was_there), Relaxed);
        was_there
    }

    /// Nothing is on disk, or nothing of it is known.
    pub fn clear(&self, is_whole: bool) {
        self.is_whole.store(false, Relaxed);
        for shard in &self.shards {
            *shard.write().unwrap_or_else(PoisonError::into_inner) = HashMap::new();
        }
        self.entries.store(0, Relaxed);
        self.is_whole.store(is_whole, Relaxed);
    }

    /// Everything in the file is known now.
    pub fn is_whole_now(&self) {
        self.is_whole.store(true, Relaxed);
    }

    #[cfg(test)]
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    pub fn len(&self) -> u64 {
        self.entries.load(Relaxed) as u64
    }

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> u64 {
        let capacity =
            |shard: &RwLock<HashMap<Print, Slot>>| shard.read().unwrap_or_else(PoisonError::into_inner).capacity();
        self.shards.iter().map(|shard| capacity(shard) as u64).sum::<u64>() * ENTRY / 2
    }

    /// When each thing was used last.
    pub fn used(&self, print: u64) -> Option<u32> {
        self.read(print).get(&Print::of(print)).map(|slot| slot.used.load(Relaxed))
    }

    /// The turn up to which everything must go that was used no later, so that so many bytes become free.
    pub fn cut(&self, bytes: u64) -> u32 {
        let mut ages: BTreeMap<u32, u64> = BTreeMap::new();
        for shard in &self.shards {
            for slot in shard.read().unwrap_or_else(PoisonError::into_inner).values() {
                *ages.entry(slot.used.load(Relaxed)).or_default() += u64::from(slot.size);
            }
        }
        let mut freed = 0_u64;
        for (used, size) in ages {
            freed += size;
            if freed >= bytes {
                return used;
            }
        }
        u32::MAX
    }

    /// Adds rows of one shard that are such, up to `most` in all; whether that are all of the shard.
    pub fn add_such(&self, shard: usize, most: usize, is_such: &impl Fn(Known) -> bool, to: &mut Vec<u64>) -> bool {
        let Some(shard) = self.shards.get(shard % SHARDS) else { return true };
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        let known = |slot: &Slot| Known { used: slot.used.load(Relaxed), until: slot.until, size: slot.size };
        let such = shard.iter().filter(|(_, slot)| is_such(known(slot))).map(|(print, _)| print.whole());
        to.extend(such.take(most - to.len()));
        to.len() < most
    }

    /// Shards there are.
    pub const fn shards() -> usize {
        SHARDS
    }
}
