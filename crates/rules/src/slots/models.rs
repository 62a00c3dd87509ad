//! Whose calls an upstream has not answered yet, so that a model that hangs does not take every place.
//!
//! Calls that hang free no place for as long as their clocks run, and nobody knows of a call that has just begun whether
//! it will hang. So the last tenth of the places is kept for the models that have less than an equal share of all places
//! unanswered. One that nobody else shares the places with has them all; a stream that has begun does not count.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// One that was called no longer ago shares the places.
const LATELY: Duration = Duration::from_secs(10);

/// Of so many places one is kept, of more a tenth; of fewer none, for it would cost too much.
const LEAST: u32 = 4;

/// The models at one upstream. Bounded by how many are called within [`LATELY`].
#[derive(Clone, Debug)]
pub(super) struct Models<K>(HashMap<K, Model>);

#[derive(Clone, Copy, Debug)]
struct Model {
    called: Instant,
    /// Calls under way of which nothing has come yet.
    unanswered: u32,
}

/// To which models the next place is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    /// Places that there are.
    most: u32,
    /// Models that share them, where the next place is one of the last.
    sharers: Option<usize>,
}

impl<K> Default for Models<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl Model {
    fn shares(&self, now: Instant) -> bool {
        self.unanswered > 0 || now.saturating_duration_since(self.called) < LATELY
    }
}

impl<K: Clone + Eq + Hash> Models<K> {
    /// A call is there.
    pub fn called(&mut self, model: &K, now: Instant) {
        if let Some(known) = self.0.get_mut(model) {
            known.called = now;
            return;
        }
        self.0.retain(|_, known| known.shares(now));
        self.0.insert(model.clone(), Model { called: now, unanswered: 0 });
    }

    /// A call has a place.
    pub fn began(&mut self, model: &K, now: Instant) {
        self.called(model, now);
        if let Some(known) = self.0.get_mut(model) {
            known.unanswered += 1;
        }
    }

    /// Something has come of a call, or it has ended.
    pub fn answered(&mut self, model: &K) {
        if let Some(known) = self.0.get_mut(model) {
            known.unanswered = known.unanswered.saturating_sub(1);
        }
    }

    /// To whom the next of so many places is open, of which so many are free.
    pub fn door(&self, most: u32, free: u32, now: Instant) -> Door {
        let sharers = || self.0.values().filter(|model| model.shares(now)).count();
        Door { most, sharers: (free <= kept(most)).then(sharers) }
    }
}

impl Door {
    /// Whether a model may have the next place.
    pub fn lets<K: Eq + Hash>(self, models: &Models<K>, model: &K) -> bool {
        self.sharers.is_none_or(|sharers| {
            let unanswered = models.0.get(model).map_or(0, |known| known.unanswered);
            u64::from(unanswered).saturating_mul(sharers as u64) < u64::from(self.most)
        })
    }
}

/// Of so many places, those that are kept.
pub(super) const fn kept(most: u32) -> u32 {
    match most {
        0..LEAST => 0,
        LEAST..20 => 1,
        _ => most / 10,
    }
}
