//! How many calls an upstream takes side by side, and who has the next place.

use std::hash::Hash;
use std::time::Instant;

use crate::queue::Queue;
use crate::shares::{InFlight, Priority, Shares, spared};

mod models;

use models::{Door, Models};

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
    /// Whether calls of both priorities come here: then batch leaves a tenth.
    is_shared: bool,
    /// Calls under way.
    in_use: InFlight,
    shares: Shares,
    models: Models<K>,
    /// Each with the model that it is for.
    online: Queue<K, (K, T)>,
    batch: Queue<K, (K, T)>,
}

impl<K: Clone + Eq + Hash, T> Slots<K, T> {
    /// So many places, all free.
    #[must_use]
    pub fn new(limit: u32, is_shared: bool) -> Self {
        Self {
            limit: limit.max(1),
            is_shared,
            in_use: InFlight::NONE,
            shares: Shares::default(),
            models: Models::default(),
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
        self.in_use.all
    }

    /// Calls of a priority that wait.
    #[must_use]
    pub const fn waiting(&self, priority: Priority) -> usize {
        match priority {
            Priority::Online => self.online.len(),
            Priority::Batch => self.batch.len(),
        }
    }

    /// Whether calls of both priorities come here.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Everybody of a priority who waits.
    pub fn in_line(&self, priority: Priority) -> impl Iterator<Item = &T> {
        self.line(priority).lanes().flat_map(|(_, lane)| lane.iter().map(|(_, (_, call))| call))
    }

    /// Gives a newcomer a place, if it need not stand behind anybody.
    pub fn take(&mut self, priority: Priority, model: &K, now: Instant) -> bool {
        self.models.called(model, now);
        if self.free() == 0 {
            return false;
        }
        let door = self.door(now);
        let is_free = self.has_room(priority, door) && door.lets(&self.models, model) && !self.may_any(priority, door);
        if is_free {
            self.grant(priority);
            self.models.began(model, now);
        }
        is_free
    }

    /// Whether no further call of a model could have a place, whoever waits.
    #[must_use]
    pub fn is_full(&self, model: &K, now: Instant) -> bool {
        self.free() == 0 || !self.door(now).lets(&self.models, model)
    }

    /// Puts a call for a model in line. Numbers grow with every call; the bound is the caller's.
    pub fn join(&mut self, priority: Priority, (key, model): (&K, &K), number: u64, call: T) {
        self.queue(priority).join(key, number, (model.clone(), call));
    }

    /// Takes a call out of the line.
    pub fn leave(&mut self, priority: Priority, key: &K, number: u64) -> Option<T> {
        self.queue(priority).leave(key, number).map(|(_, call)| call)
    }

    /// Gives the next place, if there is one, to the call whose turn it is.
    pub fn give(&mut self, now: Instant) -> Option<(Priority, T)> {
        if self.free() == 0 || (self.online.is_empty() && self.batch.is_empty()) {
            return None;
        }
        let door = self.door(now);
        let priority = if self.is_batch_due(door) { [Priority::Batch, Priority::Online] } else { Priority::ALL };
        let priority =
            priority.into_iter().find(|priority| self.has_room(*priority, door) && self.may_any(*priority, door))?;
        // Counted as one that passed those who still wait, or as the one that was waited for.
        self.grant(priority);
        let queue = match priority {
            Priority::Online => &mut self.online,
            Priority::Batch => &mut self.batch,
        };
        let (_, _, (model, call)) = queue.pop_first(|(model, _)| door.lets(&self.models, model))?;
        self.models.began(&model, now);
        Some((priority, call))
    }

    /// A model has begun to answer a call, which goes on.
    pub fn answered(&mut self, model: &K) {
        self.models.answered(model);
    }

    /// A call that was not answered is tried again in the same place, with another model.
    pub fn moves(&mut self, from: &K, to: &K, now: Instant) {
        self.models.answered(from);
        self.models.began(to, now);
    }

    /// A call has ended.
    pub fn ended(&mut self, priority: Priority, model: &K, was_answered: bool) {
        self.in_use.end(priority);
        if !was_answered {
            self.models.answered(model);
        }
    }

    const fn line(&self, priority: Priority) -> &Queue<K, (K, T)> {
        match priority {
            Priority::Online => &self.online,
            Priority::Batch => &self.batch,
        }
    }

    const fn queue(&mut self, priority: Priority) -> &mut Queue<K, (K, T)> {
        match priority {
            Priority::Online => &mut self.online,
            Priority::Batch => &mut self.batch,
        }
    }

    const fn free(&self) -> u32 {
        self.limit.saturating_sub(self.in_use.all)
    }

    fn door(&self, now: Instant) -> Door {
        self.models.door(self.limit, self.free(), now)
    }

    /// Whether anybody of a priority waits whose model may have the next place.
    fn may_any(&self, priority: Priority, door: Door) -> bool {
        let mut waiting = self.line(priority).lanes().flat_map(|(_, lane)| lane);
        waiting.any(|(_, (model, _))| door.lets(&self.models, model))
    }

    fn is_batch_due(&self, door: Door) -> bool {
        self.shares.is_batch_due(self.in_use.batch, self.limit) && self.may_any(Priority::Batch, door)
    }

    fn has_room(&self, priority: Priority, door: Door) -> bool {
        let (free, is_due) = (self.free(), self.is_batch_due(door));
        match priority {
            Priority::Online => free > u32::from(is_due),
            Priority::Batch if is_due => free > 0,
            Priority::Batch => self.online.is_empty() && free > if self.is_shared { spared(self.limit) } else { 0 },
        }
    }

    fn grant(&mut self, priority: Priority) {
        self.in_use.begin(priority);
        self.shares.granted(priority, !self.batch.is_empty());
    }
}
