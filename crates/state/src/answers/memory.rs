//! Answers in this process's memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use base::Clock;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use smallvec::SmallVec;

use super::{Answers, Bounds, Holding, Key, Kind, Page, Stats, Stored, Tier, Which};
use crate::{Answer, Unreadable};

/// Answers in memory alone: forgotten with the process.
///
/// What goes first is what was put and not asked for again (S3-FIFO by `quick_cache`), so that many new
/// things cannot push out what is used. The memory is cut up into shards, each with a lock held for as long as
/// a look-up takes.
#[derive(Debug)]
pub struct InProcessAnswers {
    cache: Shards,
    counts: Arc<Counts>,
}

type Shards = Cache<Key, Arc<Stored>, Weights, foldhash::fast::RandomState, Evictions>;

#[derive(Debug, Default)]
struct Counts {
    most: AtomicU64,
    /// The largest thing that is taken.
    largest: AtomicU64,
    hits: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
}

/// A shard is no smaller, so that one large answer still is a small part of it.
const SMALLEST_SHARD: u64 = 16 << 20;
/// And there are no more of them: some for each core of a large machine.
const MOST_SHARDS: u64 = 64;
/// What things take, for guessing how many there will be.
const USUAL: u64 = 4 << 10;

impl InProcessAnswers {
    /// Room for so many bytes.
    #[must_use]
    pub fn within(memory: u64) -> Self {
        let counts = Arc::new(Counts::default());
        let shards = (memory / SMALLEST_SHARD).clamp(1, MOST_SHARDS);
        // Rounded down to a power of two, as it would be rounded up.
        let shards = 1_usize << shards.ilog2();
        let entries = usize::try_from(memory / USUAL).unwrap_or(usize::MAX).max(1);
        let mut options = OptionsBuilder::new();
        options.shards(shards).estimated_items_capacity(entries).weight_capacity(memory);
        let evictions = Evictions(counts.clone());
        let hashes = foldhash::fast::RandomState::default();
        let cache = match options.build() {
            Ok(options) => Cache::with_options(options, Weights, hashes, evictions),
            // Only where a number is missing, which none is.
            Err(_) => Cache::with(entries, memory, Weights, hashes, evictions),
        };
        counts.most.store(memory, Relaxed);
        counts.largest.store(largest(&cache), Relaxed);
        Self { cache, counts }
    }

    /// What is there under a key.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<Arc<Stored>> {
        let stored = self.cache.get(key)?;
        if Clock.wall() >= stored.keep_until {
            self.cache.remove_if(key, |there| Arc::ptr_eq(there, &stored));
            return None;
        }
        self.counts.hits.fetch_add(1, Relaxed);
        Some(stored)
    }

    /// The same, which counts as no look-up and as no use.
    #[must_use]
    pub fn glance(&self, key: &Key) -> Option<Arc<Stored>> {
        self.cache.peek(key).filter(|stored| Clock.wall() < stored.keep_until)
    }

    /// Keeps something.
    pub fn keep(&self, key: Key, stored: Arc<Stored>) {
        if Weights.weight(&key, &stored) > self.counts.largest.load(Relaxed) {
            self.counts.refused.fetch_add(1, Relaxed);
            // What was there is no longer what was put last.
            self.cache.remove(&key);
            return;
        }
        self.cache.insert(key, stored);
    }

    /// Keeps something unless there is something under its key, and gives what is there then.
    #[must_use]
    pub fn keep_unless_there(&self, key: Key, stored: Arc<Stored>) -> Arc<Stored> {
        if Weights.weight(&key, &stored) > self.counts.largest.load(Relaxed) {
            return stored;
        }
        let kept = self.cache.get_or_insert_with(&key, || Ok::<_, std::convert::Infallible>(stored));
        match kept {
            Ok(kept) => kept,
            Err(never) => match never {},
        }
    }

    /// Drops what is there under a key.
    pub fn take(&self, key: &Key) -> Option<Arc<Stored>> {
        self.cache.remove(key).map(|(_, stored)| stored)
    }

    /// Drops this very thing, if it is what is there under a key.
    pub fn take_this(&self, key: &Key, stored: &Arc<Stored>) {
        self.cache.remove_if(key, |there| Arc::ptr_eq(there, stored));
    }

    /// Drops some, and tells the keys of those. Nothing is locked for longer than it takes to look at one.
    pub fn take_all(&self, which: &Which) -> Vec<Key> {
        let mut taken = Vec::new();
        for (key, stored) in self.cache.iter() {
            if which.has(&stored) && self.cache.remove_if(&key, |there| which.has(there)).is_some() {
                taken.push(key);
            }
        }
        taken
    }

    /// The keys of some.
    #[must_use]
    pub fn keys(&self, which: &Which) -> Vec<Key> {
        self.cache.iter().filter(|(_, stored)| which.has(stored)).map(|(key, _)| key).collect()
    }

    /// How it does.
    #[must_use]
    pub fn tier(&self) -> Tier {
        Tier {
            entries: self.cache.len() as u64,
            bytes: self.cache.weight(),
            most: self.counts.most.load(Relaxed),
            hits: self.counts.hits.load(Relaxed),
            evicted: self.counts.evicted.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            ..Tier::default()
        }
    }

    /// Another bound holds from now on.
    pub fn hold_within(&self, memory: u64) {
        if self.counts.most.swap(memory, Relaxed) != memory {
            self.cache.set_capacity(memory);
            self.counts.largest.store(largest(&self.cache), Relaxed);
        }
    }
}

/// Of one shard, as the cache itself takes no more than 97 % of one for one thing.
fn largest(cache: &Shards) -> u64 {
    cache.shard_capacity() / 10 * 9
}

impl Answers for InProcessAnswers {
    fn get(&self, key: &Key) -> Answer<Option<Arc<Stored>>> {
        Answer::Ready(self.find(key))
    }

    fn peek(&self, key: &Key) -> Option<Arc<Stored>> {
        self.glance(key)
    }

    fn get_many(&self, keys: &[Key]) -> Answer<Vec<Option<Arc<Stored>>>> {
        Answer::Ready(keys.iter().map(|key| self.find(key)).collect())
    }

    fn put(&self, key: Key, stored: Arc<Stored>) {
        // What is for after a restart does not survive one here.
        if stored.kind != Kind::Question {
            self.keep(key, stored);
        }
    }

    fn scan(&self, _: Kind, _: Option<u64>) -> Answer<Option<Page>> {
        Answer::Ready(Some(Page::default()))
    }

    fn remove(&self, key: &Key) -> Answer<Result<bool, Unreadable>> {
        Answer::Ready(Ok(self.take(key).is_some()))
    }

    fn purge(&self, which: &Which) -> Answer<Result<u64, Unreadable>> {
        Answer::Ready(Ok(self.take_all(which).len() as u64))
    }

    fn count(&self, which: &Which) -> Answer<Result<u64, Unreadable>> {
        Answer::Ready(Ok(self.keys(which).len() as u64))
    }

    fn stats(&self) -> Stats {
        Stats { memory: self.tier(), disk: None }
    }

    fn holdings(&self) -> Vec<Holding> {
        let mut sums: BTreeMap<(Kind, Arc<str>), (u64, u64)> = BTreeMap::new();
        for (key, stored) in self.cache.iter() {
            let (entries, bytes) = sums.entry((stored.kind, stored.route.clone())).or_default();
            *entries += 1;
            *bytes += Weights.weight(&key, &stored);
        }
        sums.into_iter().map(|((kind, route), memory)| Holding { kind, route, memory, disk: (0, 0) }).collect()
    }

    fn bound(&self, bounds: Bounds) {
        self.hold_within(bounds.memory);
    }

    fn flush(&self, _: Duration) -> bool {
        true
    }
}

/// What things take.
#[derive(Clone, Debug)]
struct Weights;

/// What one thing takes beside its body and names: itself and its counts (144 bytes), and its share of the
/// cache's table, which is between half and wholly full, with the memory of what has gone.
const ENTRY: usize = 320;

impl Weighter<Key, Arc<Stored>> for Weights {
    fn weight(&self, _: &Key, stored: &Arc<Stored>) -> u64 {
        let name = |name: &Option<Arc<str>>| name.as_ref().map_or(0, |name| name.len());
        let names = stored.route.len() + name(&stored.client) + name(&stored.kb_version);
        // Allocators round up by an eighth at most.
        let body = stored.body.len();
        (ENTRY + names + body + body / 8) as u64
    }
}

/// Counts what goes, and drops it when the shard's lock is free again.
#[derive(Clone, Debug)]
struct Evictions(Arc<Counts>);

impl Lifecycle<Key, Arc<Stored>> for Evictions {
    type RequestState = SmallVec<[Arc<Stored>; 2]>;

    /// Not called where something else is put under the same key.
    fn before_evict(&self, _: &mut Self::RequestState, _: &Key, _: &mut Arc<Stored>) {
        self.0.evicted.fetch_add(1, Relaxed);
    }

    fn on_evict(&self, gone: &mut Self::RequestState, _: Key, stored: Arc<Stored>) {
        gone.push(stored);
    }
}
