//! On which side of a centre the numbers of a block's vectors lie: what tells in a glance which are worth comparing.

use std::sync::Arc;

use smallvec::SmallVec;

use super::centre::Centre;
use super::planes::{Counts, GROUP, GROUP_WORDS, GROUPS, Planes, living};
use super::probe::{Expected, Look, Probe};
use super::row::Vector;
use super::rows::Dead;
use super::search::Search;

/// The sides of vectors, in two orders: bits of many vectors together, and those of each.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) centre: Arc<Centre>,
    planes: Planes,
    /// 64 numbers a word, one vector after the other.
    bits: Box<[u64]>,
    /// The least and the largest lean of each group.
    leans: [(f32, f32); GROUPS],
}

/// A row, and how many bits of the larger half of what is asked agree with its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gazed {
    pub(super) row: usize,
    pub(super) agreeing: u32,
}

impl Sides {
    /// Takes vectors in the order of how they lean.
    pub(super) fn new(centre: &Arc<Centre>, vectors: &[Vector<'_>]) -> Self {
        let mut leans = [(0.0, 0.0); GROUPS];
        for (place, group) in leans.iter_mut().zip(vectors.chunks(GROUP)) {
            if let (Some(first), Some(last)) = (group.first(), group.last()) {
                *place = (centre.lean(*first), centre.lean(*last));
            }
        }
        let planes = Planes::new(vectors.iter().map(|vector| vector.values), &centre.cuts);
        let mut bits = Vec::with_capacity(vectors.len() * centre.cuts.len().div_ceil(64));
        for vector in vectors {
            let words = vector.values.chunks(64).zip(centre.cuts.chunks(64)).map(|(values, cuts)| {
                let beyond = values.iter().zip(cuts).map(|(value, cut)| u64::from(value > cut));
                beyond.enumerate().fold(0, |word, (at, bit)| word | (bit << at))
            });
            bits.extend(words);
        }
        Self { centre: Arc::clone(centre), planes, bits: bits.into_boxed_slice(), leans }
    }

    /// Looks at the bits of a group, and closer at those of the rows that seem worth it.
    pub(super) fn look(
        &self,
        group: usize,
        dead: &Dead,
        probe: &Probe,
        search: &mut Search<'_>,
    ) -> SmallVec<[Gazed; 32]> {
        let Some(expected) = self.expect(group, probe, Look::Glance, search.bar()) else { return SmallVec::new() };
        let counts = Counts::new(&self.planes, group, &probe.picks);
        let mask = counts.at_least(expected.less(search.deviations()));
        if mask == [0; GROUP_WORDS] {
            return SmallVec::new();
        }
        let words = self.centre.cuts.len().div_ceil(64);
        let gaze = |row: usize| {
            let agreeing = probe.agreeing(self.bits.get(row * words..(row + 1) * words)?);
            Some(Gazed { row, agreeing })
        };
        // All of them before anything is made of one, so that the memory of the next is on its way meanwhile.
        let gazed: SmallVec<_> = living(mask, group, dead).filter_map(gaze).collect();
        search.gazed(gazed.len());
        gazed
    }

    /// How many bits agree where a row of a group is as similar as `bar`. None where no row can be.
    pub(super) fn expect(&self, group: usize, probe: &Probe, look: Look, bar: f32) -> Option<Expected> {
        probe.expect(look, probe.needed(bar, *self.leans.get(group)?))
    }
}
