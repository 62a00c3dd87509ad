//! A fixed random rotation: it keeps lengths and angles, and spreads what a vector says evenly over its numbers.
//!
//! Real embeddings have few numbers that are large in every vector and many that hardly matter. After the rotation
//! each number is a random mixture of all, as good as any other, so that a part of them tells about the whole.
//! The rotation is a few rounds of random signs and a Walsh-Hadamard transform, which takes `n log n` steps and
//! no memory (as in Ailon and Chazelle, "The Fast Johnson-Lindenstrauss Transform", 2009).

use wide::f32x4;

/// Turns a vector. Its length stays.
pub(super) fn rotate(values: &mut [f32]) {
    let dimensions = values.len();
    // The largest power of two within.
    let width = 1_usize << dimensions.checked_ilog2().unwrap_or(0);
    let spill = dimensions.saturating_sub(width);
    // Where the width is no power of two, the transform goes over the head and over the tail by turns, which overlap.
    let rounds = if spill == 0 { 3 } else { 6 };
    for round in 0..rounds {
        turn_signs(values, round);
        let from = if round % 2 == 0 { 0 } else { spill };
        if let Some(part) = values.get_mut(from..).and_then(|rest| rest.get_mut(..width)) {
            transform(part);
        }
    }
}

/// Negates half of the numbers, the same ones each time.
fn turn_signs(values: &mut [f32], round: u64) {
    for (at, word) in values.chunks_mut(64).enumerate() {
        let mut bits = scramble((round << 32) + at as u64);
        let (quads, rest) = word.as_chunks_mut::<LANES>();
        for quad in quads {
            let signs = SIGNS[(bits % 16) as usize];
            *quad = std::array::from_fn(|at| f32::from_bits(quad[at % LANES].to_bits() ^ signs[at % LANES]));
            bits >>= LANES;
        }
        for (bit, value) in rest.iter_mut().enumerate() {
            let sign = ((bits >> bit) & 1) as u32;
            *value = f32::from_bits(value.to_bits() ^ (sign << 31));
        }
    }
}

/// Numbers that every x86-64 and aarch64 works on at once.
const LANES: usize = 4;

/// What turns the signs of so many numbers, for each choice among them.
const SIGNS: [[u32; LANES]; 16] = {
    let mut all = [[0; LANES]; 16];
    let mut at = 0;
    while at < 16 * LANES {
        all[at / LANES][at % LANES] = (((at / LANES) >> (at % LANES)) as u32 & 1) << 31;
        at += 1;
    }
    all
};

/// SplitMix64: as good as random, and the same on every machine.
fn scramble(counter: u64) -> u64 {
    let mut mixed = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The Walsh-Hadamard transform in place, scaled so that lengths stay. The slice has a power of two of numbers.
fn transform(values: &mut [f32]) {
    let (squares, _) = values.as_chunks_mut::<16>();
    let mut half = if squares.is_empty() { 1 } else { 16 };
    squares.iter_mut().for_each(transform_square);
    // Two steps in one, which reads and writes everything half as often.
    while 4 * half <= values.len() && half >= LANES {
        for block in values.chunks_exact_mut(4 * half) {
            let (left, right) = block.split_at_mut(2 * half);
            let ((one, two), (three, four)) = (left.split_at_mut(half), right.split_at_mut(half));
            for (((one, two), three), four) in quads(one).zip(quads(two)).zip(quads(three)).zip(quads(four)) {
                let mixed = mix([f32x4::new(*one), f32x4::new(*two), f32x4::new(*three), f32x4::new(*four)]);
                [*one, *two, *three, *four] = mixed.map(f32x4::to_array);
            }
        }
        half *= 4;
    }
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (left, right) in left.iter_mut().zip(right) {
                (*left, *right) = (*left + *right, *left - *right);
            }
        }
        half *= 2;
    }
    let scale = (values.len() as f32).sqrt().recip();
    for value in values {
        *value *= scale;
    }
}

/// The transform of 16 numbers, unscaled: over the rows of a square, and then over its columns.
fn transform_square(values: &mut [f32; 16]) {
    let (rows, _) = values.as_chunks_mut::<LANES>();
    let [one, two, three, four] = rows else { return };
    let rows = mix([f32x4::new(*one), f32x4::new(*two), f32x4::new(*three), f32x4::new(*four)]);
    let columns = mix(f32x4::transpose(rows));
    [*one, *two, *three, *four] = f32x4::transpose(columns).map(f32x4::to_array);
}

/// The transform of four, unscaled, in each lane.
#[inline(always)]
fn mix([one, two, three, four]: [f32x4; 4]) -> [f32x4; 4] {
    let (left, right) = ((one + two, one - two), (three + four, three - four));
    [left.0 + right.0, left.1 + right.1, left.0 - right.0, left.1 - right.1]
}

fn quads(values: &mut [f32]) -> impl Iterator<Item = &mut [f32; LANES]> {
    values.as_chunks_mut::<LANES>().0.iter_mut()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{rotate, scramble, transform, turn_signs};

    fn dot(left: &[f32], right: &[f32]) -> f64 {
        left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
    }

    proptest! {
        #[test]
        fn lengths_and_angles_stay(pair in prop::collection::vec((-1.0..1.0_f32, -1.0..1.0_f32), 1..200)) {
            let (mut left, mut right): (Vec<f32>, Vec<f32>) = pair.into_iter().unzip();
            let before = (dot(&left, &left), dot(&left, &right));
            rotate(&mut left);
            rotate(&mut right);
            prop_assert!((dot(&left, &left) - before.0).abs() < 1e-3);
            prop_assert!((dot(&left, &right) - before.1).abs() < 1e-3);
        }
    }

    /// Each number by itself: the sum of all, with a sign that the bits tell which both places have in common.
    fn transformed(values: &[f32]) -> Vec<f64> {
        let sign = |at: usize, from: usize| if (at & from).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let sum = |at| values.iter().enumerate().map(|(from, value)| sign(at, from) * f64::from(*value)).sum::<f64>();
        (0..values.len()).map(|at| sum(at) / (values.len() as f64).sqrt()).collect()
    }

    #[test]
    fn the_transform_is_that_of_walsh_and_hadamard_at_every_width() {
        for width in (0..=11).map(|bits| 1_usize << bits) {
            let before: Vec<f32> = (0..width).map(|at| ((at * 7919 + 13) % 101) as f32 - 50.5).collect();
            let mut after = before.clone();
            transform(&mut after);
            for (after, due) in after.iter().zip(transformed(&before)) {
                assert!((f64::from(*after) - due).abs() < 0.01, "{width}: {after} {due}");
            }
        }
    }

    #[test]
    fn half_of_the_signs_are_turned_the_same_ones_each_time() {
        for width in [1, 3, 64, 70, 1_024] {
            let turned = |round| {
                let mut values = vec![1.0; width];
                turn_signs(&mut values, round);
                values
            };
            assert_eq!(turned(0), turned(0));
            assert!(turned(0).iter().all(|value| value.abs() == 1.0));
            let bit = |at: usize, round: u64| (scramble((round << 32) + at as u64 / 64) >> (at % 64)) & 1 == 1;
            for round in 0..3 {
                let signs: Vec<bool> = turned(round).iter().map(|value| value.is_sign_negative()).collect();
                assert_eq!(signs, (0..width).map(|at| bit(at, round)).collect::<Vec<_>>(), "{width}");
            }
        }
    }

    #[test]
    fn one_number_is_spread_over_all_whatever_the_width() {
        for dimensions in [256, 384, 768, 1_000, 1_024, 1_536, 3_072] {
            for at in [0, dimensions / 2, dimensions - 1] {
                let mut values = vec![0.0; dimensions];
                values[at] = 1.0;
                rotate(&mut values);
                let even = 1.0 / (dimensions as f32).sqrt();
                let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
                assert!(largest < 6.0 * even, "{dimensions} {at}: {largest} of {even}");
            }
        }
    }
}
