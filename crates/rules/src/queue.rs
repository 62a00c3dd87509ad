//! Waiting for a place: in order of arrival, and fairly between those who wait.
//!
//! Each client stands in a lane of its own, and the lanes take turns: however many calls one client has
//! waiting, the next place after its own is somebody else's.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::shares::Priority;

#[cfg(test)]
mod tests;

/// `queue` as written: what is not written is decided by the priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// `max_wait`
    pub max_wait: Option<Duration>,
    /// `max_depth`
    pub max_depth: Option<usize>,
}

impl Patience {
    /// The longest wait of a call: what is written, else by its priority.
    #[must_use]
    pub fn longest(self, priority: Priority) -> Duration {
        self.max_wait.unwrap_or(match priority {
            Priority::Online => Duration::from_secs(1),
            Priority::Batch => Duration::from_secs(30),
        })
    }

    /// How long a call may wait in one more queue, after it has waited for `waited` in others. What is written here,
    /// for its client, holds for all its waits together; what `line` says for that one alone. The shorter counts;
    /// where neither is written, what holds for the priority holds for all together.
    #[must_use]
    pub fn left(self, line: Self, priority: Priority, waited: Duration) -> Duration {
        let all = match (self.max_wait, line.max_wait) {
            (None, Some(_)) => None,
            _ => Some(self.longest(priority).saturating_sub(waited)),
        };
        all.into_iter().chain(line.max_wait).min().unwrap_or_default()
    }

    /// Calls of the priority that wait at most.
    #[must_use]
    pub fn depth(self, priority: Priority) -> usize {
        self.max_depth.unwrap_or(match priority {
            Priority::Online => 100,
            Priority::Batch => 1000,
        })
    }
}

/// Bytes of bodies that wait in one queue at most, beside a first one that is larger.
pub const QUEUE_BYTES: usize = 64 << 20;

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    calls: usize,
    bytes: usize,
}

/// Why a queue takes nobody any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// As many calls wait as may.
    Calls,
    /// Their bodies are as large as they may be together.
    Bytes,
}

impl Load {
    /// Whether one more call may wait that holds so many bytes.
    ///
    /// # Errors
    /// [`Full`] where `most_calls` wait already, or where there would be more than `most_bytes`, unless it is alone.
    pub const fn has_room(&self, bytes: usize, most_calls: usize, most_bytes: usize) -> Result<(), Full> {
        if self.calls >= most_calls {
            return Err(Full::Calls);
        }
        if self.calls > 0 && self.bytes.saturating_add(bytes) > most_bytes { Err(Full::Bytes) } else { Ok(()) }
    }

    /// One more waits, that holds so many bytes.
    pub const fn join(&mut self, bytes: usize) {
        self.calls = self.calls.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// It waits no more.
    pub const fn leave(&mut self, bytes: usize) {
        self.calls = self.calls.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether nobody waits.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.calls == 0
    }
}

/// The calls that wait in one lane, each with the number under which it came.
pub type Lane<T> = VecDeque<(u64, T)>;

/// Lanes that take turns. Its bound is the caller's, who asks for [`Queue::len`] before he adds.
#[derive(Clone, Debug)]
pub struct Queue<K, T> {
    /// None is empty.
    lanes: HashMap<K, Lane<T>>,
    /// Whose turn it is, the next one first; each lane once.
    turns: VecDeque<K>,
    len: usize,
}

impl<K, T> Default for Queue<K, T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<K: Clone + Eq + Hash, T> Queue<K, T> {
    /// Calls that wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Every lane.
    pub fn lanes(&self) -> impl Iterator<Item = (&K, &Lane<T>)> {
        self.lanes.iter()
    }

    /// Whether anybody waits in a lane.
    #[must_use]
    pub fn has(&self, key: &K) -> bool {
        self.lanes.contains_key(key)
    }

    /// Puts a call at the end of its lane. Numbers grow with every call.
    pub fn join(&mut self, key: &K, number: u64, call: T) {
        self.add(key, VecDeque::from([(number, call)]));
    }

    /// Puts a whole lane behind the others.
    pub fn add(&mut self, key: &K, lane: Lane<T>) {
        if lane.is_empty() {
            return;
        }
        self.len += lane.len();
        if let Some(known) = self.lanes.get_mut(key) {
            known.extend(lane);
        } else {
            self.lanes.insert(key.clone(), lane);
            self.turns.push_back(key.clone());
        }
    }

    /// Takes a call out, wherever it stands.
    pub fn leave(&mut self, key: &K, number: u64) -> Option<T> {
        let lane = self.lanes.get_mut(key)?;
        let at = lane.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let (_, call) = lane.remove(at)?;
        self.len -= 1;
        if lane.is_empty() {
            self.lanes.remove(key);
            self.turns.retain(|known| known != key);
        }
        Some(call)
    }

    /// The call whose turn it is.
    #[must_use]
    pub fn front(&self) -> Option<(&K, u64, &T)> {
        let key = self.turns.front()?;
        self.lanes.get(key)?.front().map(|(number, call)| (key, *number, call))
    }

    /// Takes out the call whose turn it is; its lane goes behind the others.
    pub fn pop(&mut self) -> Option<(K, u64, T)> {
        self.pop_first(|_| true)
    }

    /// Takes out the first call for which `is_meant` holds, in the order of turns; its lane goes behind the others.
    pub fn pop_first(&mut self, is_meant: impl Fn(&T) -> bool) -> Option<(K, u64, T)> {
        let place = |key: &K| self.lanes.get(key)?.iter().position(|(_, call)| is_meant(call));
        let (turn, at) = self.turns.iter().enumerate().find_map(|(turn, key)| Some((turn, place(key)?)))?;
        let key = self.turns.remove(turn)?;
        let lane = self.lanes.get_mut(&key)?;
        let (number, call) = lane.remove(at)?;
        self.len -= 1;
        if lane.is_empty() {
            self.lanes.remove(&key);
        } else {
            self.turns.push_back(key.clone());
        }
        Some((key, number, call))
    }

    /// The lane whose turn it is goes behind the others.
    pub fn pass_on(&mut self) {
        if !self.turns.is_empty() {
            self.turns.rotate_left(1);
        }
    }

    /// Takes out the whole lane whose turn it is.
    pub fn pop_lane(&mut self) -> Option<(K, Lane<T>)> {
        let key = self.turns.pop_front()?;
        let lane = self.lanes.remove(&key)?;
        self.len -= lane.len();
        Some((key, lane))
    }
}
