//! A fixed random rotation: it keeps lengths and angles, and spreads what a vector says evenly over its numbers.
//!
//! Real embeddings have few numbers that are large in every vector and many that hardly matter. After the rotation
//! each number is a random mixture of all, as good as any other, so that a part of them tells about the whole.
//! The rotation is a few rounds of random signs and a Walsh-Hadamard transform, which takes `n log n` steps and
//! no memory (as in Ailon and Chazelle, "The Fast Johnson-Lindenstrauss Transform", 2009).

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
        let bits = scramble((round << 32) + at as u64);
        for (bit, value) in word.iter_mut().enumerate() {
            let sign = ((bits >> bit) & 1) as u32;
            *value = f32::from_bits(value.to_bits() ^ (sign << 31));
        }
    }
}

/// SplitMix64: as good as random, and the same on every machine.
fn scramble(counter: u64) -> u64 {
    let mut mixed = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The Walsh-Hadamard transform in place, scaled so that lengths stay. The slice has a power of two of numbers.
fn transform(values: &mut [f32]) {
    let mut half = 1;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::rotate;

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
