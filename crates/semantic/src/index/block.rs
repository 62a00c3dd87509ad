//! A block: a fixed number of vectors side by side in memory, which never change again.

use super::Id;
use super::nearest::Nearest;
use super::row::{Entry, Vector};

/// Vectors in a block.
pub(super) const ROWS: usize = 1_024;

/// Words of one bit for each row.
pub(super) const WORDS: usize = ROWS / 64;

/// [`ROWS`] entries.
#[derive(Debug)]
pub(super) struct Block {
    /// What names the block within its collection; later ones have higher numbers.
    pub(super) serial: u64,
    ids: Box<[Id]>,
    lengths: Box<[f64]>,
    /// One vector after the other.
    values: Box<[i16]>,
    dimensions: usize,
}

impl Block {
    /// Takes entries, of which there are [`ROWS`] at most, in their order.
    pub(super) fn new(serial: u64, entries: &[Entry]) -> Self {
        let dimensions = entries.first().map_or(0, |entry| entry.row.dimensions());
        let mut values = Vec::with_capacity(entries.len() * dimensions);
        for entry in entries {
            values.extend_from_slice(entry.row.vector().values);
        }
        Self {
            serial,
            ids: entries.iter().map(|entry| entry.id).collect(),
            lengths: entries.iter().map(|entry| entry.row.vector().length).collect(),
            values: values.into_boxed_slice(),
            dimensions,
        }
    }

    /// What stands in a row.
    pub(super) fn get(&self, row: usize) -> Option<(Id, Vector<'_>)> {
        let values = self.values.get(row * self.dimensions..(row + 1) * self.dimensions)?;
        Some((*self.ids.get(row)?, Vector { values, length: *self.lengths.get(row)? }))
    }

    /// What stands in the block, with the rows.
    pub(super) fn ids(&self) -> impl Iterator<Item = (usize, Id)> {
        self.ids.iter().copied().enumerate()
    }

    /// Offers all that are not dead.
    pub(super) fn search(&self, asked: Vector<'_>, dead: &Dead, nearest: &mut Nearest) {
        for row in 0..self.ids.len() {
            if let Some((id, vector)) = self.get(row).filter(|_| !dead.has(row)) {
                nearest.offer(id, asked.similarity(vector));
            }
        }
    }
}

/// Which rows of a block were removed.
#[derive(Debug, Clone, Default)]
pub(super) struct Dead([u64; WORDS]);

impl Dead {
    pub(super) fn add(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn has(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| (word >> (row % 64)) & 1 == 1)
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}
