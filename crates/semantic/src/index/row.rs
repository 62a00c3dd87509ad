//! A vector as it is kept: of length one, rotated, in 16-bit fixed-point numbers.

use std::sync::Arc;

use super::rotation::rotate;
use super::{Id, MAX_DIMENSIONS, NotStored};

/// What stands for 1. A vector of length one becomes whole numbers whose length is about this, so that by
/// Cauchy-Schwarz no sum of products of two of them, nor a part of one, exceeds 32 bits.
pub(super) const ONE: f32 = 32_767.0;

/// A vector. Cloning shares it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    values: Arc<[i16]>,
    length: f64,
}

impl Row {
    /// Takes a vector of any length but none.
    pub(super) fn new(vector: &[f32]) -> Result<Self, NotStored> {
        if vector.len() > MAX_DIMENSIONS {
            return Err(NotStored::TooWide);
        }
        let squares = squares(vector);
        if !squares.is_finite() {
            return Err(NotStored::NotFinite);
        }
        if squares <= 0.0 {
            return Err(NotStored::Zero);
        }
        let scale = squares.sqrt().recip();
        let mut unit: Vec<f32> = vector.iter().map(|value| (f64::from(*value) * scale) as f32).collect();
        rotate(&mut unit);
        // Not collected into its place at once, which is done number by number.
        let values: Vec<i16> = unit.iter().map(|value| nearest(value * ONE)).collect();
        let values: Arc<[i16]> = values.into();
        let length = length(&values);
        Ok(Self { values, length })
    }

    pub(super) fn dimensions(&self) -> usize {
        self.values.len()
    }

    pub(super) fn vector(&self) -> Vector<'_> {
        Vector { values: &self.values, length: self.length }
    }
}

/// A vector with the name that it is stored under.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: Id,
    pub(super) row: Row,
}

/// A vector wherever it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vector<'a> {
    pub(super) values: &'a [i16],
    /// Its length in whole numbers: about [`ONE`].
    pub(super) length: f64,
}

impl Vector<'_> {
    /// The cosine.
    pub(super) fn similarity(self, other: Vector<'_>) -> f32 {
        let cosine = f64::from(dot(self.values, other.values)) / (self.length * other.length);
        (cosine as f32).clamp(-1.0, 1.0)
    }

    /// The same vector, shared by clones.
    pub(super) fn to_row(self) -> Row {
        Row { values: Arc::from(self.values), length: self.length }
    }
}

/// The sum of squares, in several sums that wait for each other's additions no more than they must.
fn squares(vector: &[f32]) -> f64 {
    const LANES: usize = 8;
    let square = |value: &f32| f64::from(*value) * f64::from(*value);
    let (chunks, rest) = vector.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += square(value));
    }
    sums.iter().sum::<f64>() + rest.iter().map(square).sum::<f64>()
}

/// The nearest whole number, of two the even one, within what [`ONE`] allows. Beside so large a number there is no room for
/// a fraction: the addition rounds, and its last bits are the number. No instruction for that is in every x86-64.
#[inline(always)]
fn nearest(value: f32) -> i16 {
    const LARGE: f32 = 12_582_912.0;
    (value.clamp(-ONE, ONE) + LARGE).to_bits() as i16
}

fn length(values: &[i16]) -> f64 {
    f64::from(dot(values, values)).sqrt()
}

/// The sum of products. Compilers make the multiply-and-add of pairs of it that every x86-64 and aarch64 has.
fn dot(left: &[i16], right: &[i16]) -> i32 {
    const LANES: usize = 32;
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let whole: i32 = left.iter().zip(right).map(|(left, right)| products(left, right)).fold(0, i32::wrapping_add);
    whole.wrapping_add(products(left_rest, right_rest))
}

#[inline(always)]
fn products(left: &[i16], right: &[i16]) -> i32 {
    left.iter().zip(right).map(|(left, right)| i32::from(*left) * i32::from(*right)).fold(0, i32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::{NotStored, ONE, Row, nearest};
    use crate::index::MAX_DIMENSIONS;

    #[test]
    fn vectors_without_a_direction_are_refused() {
        let refused = |vector: &[f32]| Row::new(vector).err();
        assert_eq!(refused(&[]), Some(NotStored::Zero));
        assert_eq!(refused(&[0.0, -0.0]), Some(NotStored::Zero));
        assert_eq!(refused(&[1.0, f32::NAN]), Some(NotStored::NotFinite));
        assert_eq!(refused(&[f32::INFINITY, 1.0]), Some(NotStored::NotFinite));
        assert_eq!(refused(&vec![1.0; MAX_DIMENSIONS + 1]), Some(NotStored::TooWide));
        assert_eq!(refused(&vec![f32::MAX; MAX_DIMENSIONS]), None);
        assert_eq!(refused(&[f32::MIN_POSITIVE, 0.0]), None);
    }

    #[test]
    fn numbers_become_the_nearest_whole_ones() {
        for tenth in -327_680..=327_680 {
            let value = tenth as f32 / 10.0;
            assert_eq!(nearest(value), value.clamp(-ONE, ONE).round_ties_even() as i16, "{value}");
        }
    }

    #[test]
    fn equal_directions_have_a_cosine_of_exactly_one_and_opposite_ones_of_minus_one() {
        for dimensions in [1, 2, 3, 100, 384, 1_024, 5_000] {
            let vector: Vec<f32> = (0..dimensions).map(|at| ((at * 7919 + 13) % 101) as f32 - 50.5).collect();
            let longer: Vec<f32> = vector.iter().map(|value| value * 1e30).collect();
            let opposite: Vec<f32> = vector.iter().map(|value| -value).collect();
            let row = Row::new(&vector).unwrap();
            assert_eq!(row.vector().similarity(Row::new(&longer).unwrap().vector()), 1.0);
            assert_eq!(row.vector().similarity(Row::new(&opposite).unwrap().vector()), -1.0);
        }
    }
}
