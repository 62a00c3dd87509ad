//! One bit of each number of each vector of a block, kept so that 256 vectors are looked at in one step.
//!
//! A bit says on which side of the centre a number lies. It stands beside the same bit of the block's other vectors:
//! a plane has the bits of one number. Vectors are like the one asked for where many of their bits are. That is
//! counted for all vectors at once, by adders made of logical instructions, which every machine has.

use wide::u64x4;

use super::rows::{Dead, ROWS, WORDS};

/// Vectors that are counted side by side.
pub(super) const GROUP: usize = 256;

/// Groups of a block.
pub(super) const GROUPS: usize = ROWS / GROUP;

/// Words of a group in a plane.
pub(super) const GROUP_WORDS: usize = GROUP / 64;

/// Planes that are added in one step.
pub(super) const STEP: usize = 8;

/// Digits of a count: enough for three of 32 planes of the widest vector.
const DIGITS: usize = 11;

/// The words of a group in one plane.
type Strip = [u64; GROUP_WORDS];

/// The planes of a block: of each plane the strips of all groups.
#[derive(Debug)]
pub(super) struct Planes(Box<[[Strip; GROUPS]]>);

/// A plane to be counted, and what its bits are compared with: all ones where zeros count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pick {
    pub(super) plane: u16,
    pub(super) flip: u64,
}

impl Planes {
    /// The planes of vectors, of which there are [`ROWS`] at most: ones where a number exceeds its cut.
    pub(super) fn new<'a>(vectors: impl Iterator<Item = &'a [i16]>, cuts: &[i16]) -> Self {
        let mut planes = vec![[[0; GROUP_WORDS]; GROUPS]; cuts.len()].into_boxed_slice();
        // The words of 64 vectors are made beside each other, for to write them at once would touch all memory for each.
        let mut words = vec![0_u64; cuts.len()];
        let mut vectors = vectors.peekable();
        for at in 0..WORDS {
            words.fill(0);
            for bit in 0..64 {
                let Some(values) = vectors.next() else { break };
                for ((word, value), cut) in words.iter_mut().zip(values).zip(cuts) {
                    *word |= u64::from(value > cut) << bit;
                }
            }
            for (plane, word) in planes.iter_mut().zip(&words) {
                if let Some(place) = plane.as_flattened_mut().get_mut(at) {
                    *place = *word;
                }
            }
            if vectors.peek().is_none() {
                break;
            }
        }
        Self(planes)
    }

    /// The strip of a group in one plane, flipped as the pick says. No bits where there is no such plane.
    #[inline(always)]
    fn load(&self, group: usize, pick: Pick) -> u64x4 {
        let strip = self.0.get(usize::from(pick.plane)).map_or([0; GROUP_WORDS], |plane| plane[group % GROUPS]);
        u64x4::new(strip) ^ u64x4::splat(pick.flip)
    }
}

/// How many of the planes counted so far have a one, for each vector of a group. Digits of the counts, the lowest first.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    digits: [u64x4; DIGITS],
}

impl Counts {
    /// Counts in the picked planes, [`STEP`] by [`STEP`].
    pub(super) fn new(planes: &Planes, group: usize, picks: &[Pick]) -> Self {
        let (steps, _) = picks.as_chunks::<STEP>();
        // Digits that so many planes cannot reach stay zero.
        let reached = 1 + picks.len().checked_ilog2().unwrap_or(0) as usize;
        let zero = u64x4::splat(0);
        let mut digits = [zero; DIGITS];
        let (mut ones, mut twos, mut fours) = (zero, zero, zero);
        for step in steps {
            let [a, b, c, d, e, f, g, h] = step.map(|pick| planes.load(group, pick));
            let (carry_a, carry_b, carry_c, carry_d, carry_e, carry_f, mut eights);
            (ones, carry_a) = add_three(ones, a, b);
            (ones, carry_b) = add_three(ones, c, d);
            (ones, carry_c) = add_three(ones, e, f);
            (ones, carry_d) = add_three(ones, g, h);
            (twos, carry_e) = add_three(twos, carry_a, carry_b);
            (twos, carry_f) = add_three(twos, carry_c, carry_d);
            (fours, eights) = add_three(fours, carry_e, carry_f);
            for digit in digits.iter_mut().take(reached).skip(3) {
                (*digit, eights) = (*digit ^ eights, *digit & eights);
            }
        }
        let [first, second, third, ..] = &mut digits;
        (*first, *second, *third) = (ones, twos, fours);
        Self { digits }
    }

    /// A one for each vector of which at least so many have been counted.
    pub(super) fn at_least(&self, bar: u32) -> Strip {
        // A count reaches the bar where adding what the bar lacks to the next power of two overflows.
        let Some(lack) = (1_u32 << DIGITS).checked_sub(bar) else { return [0; GROUP_WORDS] };
        if bar == 0 {
            return [u64::MAX; GROUP_WORDS];
        }
        let mut carry = u64x4::splat(0);
        for (at, digit) in self.digits.iter().enumerate() {
            carry = if (lack >> at) & 1 == 1 { *digit | carry } else { *digit & carry };
        }
        carry.to_array()
    }
}

/// Sum and carry of three bits.
#[inline(always)]
fn add_three(a: u64x4, b: u64x4, c: u64x4) -> (u64x4, u64x4) {
    let either = a ^ b;
    (either ^ c, (a & b) | (either & c))
}

/// The rows of a group whose bit is one and which are not dead.
pub(super) fn living(mask: Strip, group: usize, dead: &Dead) -> impl Iterator<Item = usize> + use<> {
    let from = group * GROUP_WORDS;
    let words = std::array::from_fn::<_, GROUP_WORDS, _>(|at| {
        let bits = mask.get(at).copied().unwrap_or(0);
        ((from + at) * 64, bits & !dead.word(from + at))
    });
    words.into_iter().flat_map(|(row, word)| Ones(word).map(move |bit| row + bit))
}

/// The places of the ones in a word.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.0.trailing_zeros() as usize;
        self.0 &= self.0.checked_sub(1)?;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Counts, GROUPS, Pick, Planes, living};
    use crate::index::rows::{Dead, ROWS};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn counts_are_those_of_counting_one_by_one(
            seed in any::<u64>(),
            rows in 1..=ROWS,
            picked in prop::collection::vec((0..40_u16, any::<bool>()), 0..12),
            bar in 0..100_u32,
        ) {
            const DIMENSIONS: usize = 40;
            let value = |row: usize, at: usize| (seed.wrapping_mul(2 * (row * DIMENSIONS + at) as u64 + 1) >> 40) as i16;
            let vectors: Vec<Vec<i16>> = (0..rows).map(|row| (0..DIMENSIONS).map(|at| value(row, at)).collect()).collect();
            let cuts: Vec<i16> = (0..DIMENSIONS as i16).map(|at| at * 100 - 1_000).collect();
            let planes = Planes::new(vectors.iter().map(Vec::as_slice), &cuts);
            // Each pick eight times, so that there are whole steps.
            let picks: Vec<Pick> = picked.iter().flat_map(|(plane, is_flipped)| {
                std::iter::repeat_n(Pick { plane: *plane, flip: if *is_flipped { u64::MAX } else { 0 } }, 8)
            }).collect();
            let dead = Dead::from(rows);
            for group in 0..GROUPS {
                let counts = Counts::new(&planes, group, &picks);
                let found: Vec<usize> = living(counts.at_least(bar), group, &dead).collect();
                let wanted: Vec<usize> = (group * 256..rows.min((group + 1) * 256)).filter(|row| {
                    let count = picks.iter().filter(|pick| {
                        let at = usize::from(pick.plane);
                        (vectors[*row][at] > cuts[at]) != (pick.flip == u64::MAX)
                    }).count();
                    count >= bar as usize
                }).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
