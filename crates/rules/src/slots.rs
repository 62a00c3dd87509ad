//! How many calls an upstream takes side by side, and who has the next place.

use std::hash::Hash;

use crate::queue::Queue;
use crate::shares::{Class, Shares, spared};

#[cfg(test)]
mod tests;

/// `concurrency` of a provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// `max`: at least 1.
    pub max: u32,
    /// `adaptive`: find the point where latency grows faster than throughput.
    pub adaptive: bool,
    /// `headroom`: how far below that point, as a share; 0 to 0.95.
    pub headroom: f64,
}

/// The places at one upstream, and those who wait for one.
#[derive(Clone, Debug)]
pub struct Slots<K, T> {
    limit: u32,
    /// Whether calls of both classes come here: then batch leaves a tenth.
    is_shared: bool,
    /// Calls under way, of all classes and of batch.
    in_use: (u32, u32),
    shares: Shares,
    online: Queue<K, T>,
    batch: Queue<K, T>,
}

impl<K: Clone + Eq + Hash, T> Slots<K, T> {
    /// So many places, all free.
    #[must_use]
    pub fn new(limit: u32, is_shared: bool) -> Self {
        Self {
            limit: limit.max(1),
            is_shared,
            in_use: (0, 0),
            shares: Shares::default(),
            online: Queue::default(),
            batch: Queue::default(),
        }
    }

    /// So many places from now on. Those that are taken stay taken.
    pub fn resize(&mut self, limit: u32, is_shared: bool) {
        self.limit = limit.max(1);
        self.is_shared = is_shared;
    }

    /// Places that there are.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Calls under way.
    #[must_use]
    pub const fn in_use(&self) -> u32 {
        self.in_use.0
    }

    /// Calls of a class that wait.
    #[must_use]
    pub const fn waiting(&self, class: Class) -> usize {
        match class {
            Class::Online => self.online.len(),
            Class::Batch => self.batch.len(),
        }
    }

    /// Whether calls of both classes come here.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Everybody of a class who waits.
    pub fn in_line(&self, class: Class) -> impl Iterator<Item = &T> {
        let queue = match class {
            Class::Online => &self.online,
            Class::Batch => &self.batch,
        };
        queue.lanes().flat_map(|(_, lane)| lane.iter().map(|(_, call)| call))
    }

    /// Whether a newcomer of the class would have a place at once. Takes nothing.
    #[must_use]
    pub fn is_free(&self, class: Class) -> bool {
        self.waiting(class) == 0 && self.has_room(class)
    }

    /// Gives a newcomer a place, if it need not stand behind anybody.
    pub fn take(&mut self, class: Class) -> bool {
        let is_free = self.is_free(class);
        if is_free {
            self.grant(class);
        }
        is_free
    }

    /// Puts a call in line. Numbers grow with every call; the bound is the caller's.
    pub fn join(&mut self, class: Class, key: &K, number: u64, call: T) {
        self.queue(class).join(key, number, call);
    }

    /// Takes a call out of the line.
    pub fn leave(&mut self, class: Class, key: &K, number: u64) -> Option<T> {
        self.queue(class).leave(key, number)
    }

    /// Gives the next place, if there is one, to the call whose turn it is.
    pub fn give(&mut self) -> Option<(Class, T)> {
        let class = if self.is_batch_due() { [Class::Batch, Class::Online] } else { Class::ALL };
        let class = class.into_iter().find(|class| self.waiting(*class) > 0 && self.has_room(*class))?;
        // Counted as one that passed those who still wait, or as the one that was waited for.
        self.grant(class);
        let (_, _, call) = self.queue(class).pop()?;
        Some((class, call))
    }

    /// A call has ended.
    pub fn ended(&mut self, class: Class) {
        self.in_use.0 = self.in_use.0.saturating_sub(1);
        if class == Class::Batch {
            self.in_use.1 = self.in_use.1.saturating_sub(1);
        }
    }

    const fn queue(&mut self, class: Class) -> &mut Queue<K, T> {
        match class {
            Class::Online => &mut self.online,
            Class::Batch => &mut self.batch,
        }
    }

    fn is_batch_due(&self) -> bool {
        !self.batch.is_empty() && self.shares.is_batch_due(self.in_use.1, Some(self.limit))
    }

    fn has_room(&self, class: Class) -> bool {
        let free = self.limit.saturating_sub(self.in_use.0);
        let is_due = self.is_batch_due();
        match class {
            Class::Online => free > u32::from(is_due),
            Class::Batch if is_due => free > 0,
            Class::Batch => self.online.is_empty() && free > if self.is_shared { spared(self.limit) } else { 0 },
        }
    }

    fn grant(&mut self, class: Class) {
        self.in_use.0 += 1;
        self.in_use.1 += u32::from(class == Class::Batch);
        self.shares.granted(class, !self.batch.is_empty());
    }
}
