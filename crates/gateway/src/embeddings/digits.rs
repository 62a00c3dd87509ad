//! The digits of vectors that are often asked for as numbers.
//!
//! Vectors are stored as 32-bit numbers. To write 32 of 1,024 in digits takes about a millisecond, more than all the
//! rest of their call, so what was written lately is kept: a memory of a pure function, bounded by itself.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use dialect::embeddings::{Encoding, spell};
use foldhash::fast::RandomState;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// All of it together, in bytes: some 900 vectors of 1,024.
const MOST: u64 = 16 << 20;
/// What one takes at 1,024 numbers.
const USUAL: u64 = 17 << 10;

/// Numbers, and the same in digits.
#[derive(Debug)]
pub struct Spelling {
    numbers: Box<[u8]>,
    digits: Box<[u8]>,
}

impl AsRef<[u8]> for Spelling {
    fn as_ref(&self) -> &[u8] {
        &self.digits
    }
}

/// What was written lately.
#[derive(Debug)]
pub struct DigitsCache {
    cache: Cache<u64, Arc<Spelling>, Weights>,
    hashes: RandomState,
}

impl Default for DigitsCache {
    fn default() -> Self {
        let items = usize::try_from(MOST / USUAL).unwrap_or(usize::MAX);
        Self { cache: Cache::with_weighter(items, MOST, Weights), hashes: RandomState::default() }
    }
}

impl DigitsCache {
    /// A vector's numbers, little-endian `f32`s, as a JSON list.
    #[must_use]
    pub fn digits(&self, numbers: &[u8]) -> Arc<Spelling> {
        let print = self.hashes.hash_one(numbers);
        if let Some(known) = self.cache.get(&print).filter(|known| *known.numbers == *numbers) {
            return known;
        }
        let spelling = Arc::new(Spelling { numbers: numbers.into(), digits: spell(numbers, Encoding::Float).into() });
        self.cache.insert(print, spelling.clone());
        spelling
    }
}

/// What an entry takes.
#[derive(Clone, Debug)]
struct Weights;

impl Weighter<u64, Arc<Spelling>> for Weights {
    fn weight(&self, _: &u64, spelling: &Arc<Spelling>) -> u64 {
        (spelling.numbers.len() + spelling.digits.len() + 128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(number: f32) -> Vec<u8> {
        (0..1024).flat_map(|at| (number + at as f32 / 7.0).to_le_bytes()).collect()
    }

    #[test]
    fn digits_are_those_of_the_numbers_and_written_once() {
        let spelled = DigitsCache::default();
        let numbers = [0.5_f32, -0.25, 1e-30].map(f32::to_le_bytes).concat();
        let first = spelled.digits(&numbers);
        assert_eq!((*first).as_ref(), b"[0.5,-0.25,1e-30]");
        assert!(Arc::ptr_eq(&first, &spelled.digits(&numbers)));
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let spelled = DigitsCache::default();
        for number in 0..3_000_u16 {
            let _ = spelled.digits(&vector(number.into()));
        }
        assert!(spelled.cache.weight() <= MOST);
        assert!(spelled.cache.len() > 500, "{}", spelled.cache.len());
    }
}
