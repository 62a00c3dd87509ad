//! The middle of a collection, from which its vectors are seen.
//!
//! All embeddings of a model lie in one direction more or less: seen from the origin any two are alike. Seen from their
//! mean they are as different as they can be, and that is where sides are taken.

use super::row::{ONE, Vector};

/// Below this many numbers bits tell too little, and comparing all is quick.
const LEAST_DIMENSIONS: usize = 128;

/// The middle of a collection, as it was when it was taken. A centre that is a little off costs time, nothing else.
#[derive(Debug)]
pub(super) struct Centre {
    pub(super) values: Box<[f32]>,
    /// The sum of squares.
    pub(super) squares: f32,
    /// The same in whole numbers, rounded down: what exceeds them lies beyond the centre.
    pub(super) cuts: Box<[i16]>,
}

impl Centre {
    /// The mean of vectors of so many dimensions; none where bits would be of no use.
    pub(super) fn of<'a>(dimensions: usize, vectors: impl Iterator<Item = Vector<'a>>) -> Option<Self> {
        if dimensions < LEAST_DIMENSIONS {
            return None;
        }
        let (mut values, mut count) = (vec![0.0_f32; dimensions].into_boxed_slice(), 0.0_f32);
        for vector in vectors {
            for (sum, value) in values.iter_mut().zip(vector.values) {
                *sum += f32::from(*value);
            }
            count += 1.0;
        }
        let scale = (count.max(1.0) * ONE).recip();
        for value in &mut values {
            *value *= scale;
        }
        let squares = values.iter().map(|value| value * value).sum();
        let cuts = values.iter().map(|value| (value * ONE).floor() as i16).collect();
        Some(Self { values, squares, cuts })
    }

    /// How far a vector goes in the centre's direction: their dot product.
    pub(super) fn lean(&self, vector: Vector<'_>) -> f32 {
        const LANES: usize = 16;
        // In lanes, for a sum of floats in order cannot be vectorised.
        let mut lanes = [0.0_f32; LANES];
        for (centre, values) in self.values.chunks(LANES).zip(vector.values.chunks(LANES)) {
            for ((lane, centre), value) in lanes.iter_mut().zip(centre).zip(values) {
                *lane += centre * f32::from(*value);
            }
        }
        lanes.iter().sum::<f32>() / ONE
    }
}
