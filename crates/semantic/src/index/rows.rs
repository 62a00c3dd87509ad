//! The rows of a block: how many there are, and which of them count no more.

/// Vectors in a block.
pub(super) const ROWS: usize = 1_024;

/// Words of one bit for each row.
pub(super) const WORDS: usize = ROWS / 64;

/// Which rows of a block are dead: were removed, or never were.
#[derive(Debug, Clone)]
pub(super) struct Dead([u64; WORDS]);

impl Dead {
    /// All rows from this one on.
    pub(super) fn from(living: usize) -> Self {
        let word = |at: usize| u64::MAX.checked_shl(living.saturating_sub(at * 64) as u32).unwrap_or(0);
        Self(std::array::from_fn(word))
    }

    pub(super) fn add(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn has(&self, row: usize) -> bool {
        (self.word(row / 64) >> (row % 64)) & 1 == 1
    }

    /// The bits of 64 rows.
    pub(super) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(u64::MAX)
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Dead, ROWS};

    #[test]
    fn rows_beyond_the_last_are_dead() {
        for rows in [0, 1, 63, 64, 65, 1_000, ROWS] {
            let mut dead = Dead::from(rows);
            assert_eq!(dead.count(), ROWS - rows);
            assert!((0..ROWS).all(|row| dead.has(row) == (row >= rows)));
            dead.add(0);
            assert!(dead.has(0));
        }
    }
}
