//! One search: what is asked, what was found so far, and what is still to be looked at.

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use super::centre::Centre;
use super::nearest::Nearest;
use super::probe::Probe;
use super::row::Vector;
use super::{Id, Neighbours};

/// A vector that should be found is passed over for its bits with the chance that a normal variable is so many deviations
/// below its mean: 0.6 %, if it is only just good enough.
const DEVIATIONS: f32 = 2.5;

/// What looking costs, for each number of a vector: to gaze at the bits, and to compare.
const GAZE: usize = 1;
const COMPARISON: usize = 4;

/// So much is done as bits advise, some 300 µs; for as much more as [`STRICTER`] each, one deviation less is granted.
/// Where thousands are nearly as similar as the best, that costs recall, not time.
const PATIENCE: f32 = 1_500_000.0;
const STRICTER: f32 = 500_000.0;

/// A search under way.
#[derive(Debug)]
pub(super) struct Search<'a> {
    asked: Vector<'a>,
    nearest: Nearest,
    /// What looking has cost.
    done: usize,
    probes: SmallVec<[(Arc<Centre>, Rc<Probe>); 2]>,
    put_off: Vec<PutOff>,
}

/// A row that is compared at the end, unless others have raised the bar beyond it.
#[derive(Debug)]
pub(super) struct PutOff {
    /// Where its block stands.
    pub(super) block: usize,
    pub(super) row: usize,
    /// How many of its bits agree.
    pub(super) agreeing: u32,
}

impl<'a> Search<'a> {
    pub(super) fn new(asked: Vector<'a>, nearest: Nearest) -> Self {
        Self { asked, nearest, done: 0, probes: SmallVec::new(), put_off: Vec::new() }
    }

    /// What is less similar than this is of no use any more.
    pub(super) fn bar(&self) -> f32 {
        self.nearest.bar()
    }

    /// Compares with one vector, come what may.
    pub(super) fn compare(&mut self, id: Id, vector: Vector<'_>) {
        self.nearest.offer(id, self.asked.similarity(vector));
    }

    /// Compares with one vector, as its bits advise.
    pub(super) fn compare_advised(&mut self, id: Id, vector: Vector<'_>) {
        self.done += COMPARISON * vector.values.len();
        self.compare(id, vector);
    }

    /// Counts that the bits of so many vectors were looked at.
    pub(super) fn gazed(&mut self, vectors: usize) {
        self.done += GAZE * vectors * self.asked.values.len();
    }

    pub(super) fn put_off(&mut self, row: PutOff) {
        self.put_off.push(row);
    }

    pub(super) fn take_put_off(&mut self) -> Vec<PutOff> {
        std::mem::take(&mut self.put_off)
    }

    /// How many deviations are granted now.
    pub(super) fn deviations(&self) -> f32 {
        DEVIATIONS - (self.done as f32 - PATIENCE).max(0.0) / STRICTER
    }

    /// What is asked, as seen from a centre.
    pub(super) fn probe(&mut self, centre: &Arc<Centre>) -> Rc<Probe> {
        if let Some((_, probe)) = self.probes.iter().find(|(known, _)| Arc::ptr_eq(known, centre)) {
            return Rc::clone(probe);
        }
        let probe = Rc::new(Probe::new(self.asked, centre));
        self.probes.push((Arc::clone(centre), Rc::clone(&probe)));
        probe
    }

    pub(super) fn into_found(self) -> Neighbours {
        self.nearest.into_found()
    }
}
