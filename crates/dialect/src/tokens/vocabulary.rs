//! Tokens by their bytes, found without a pointer to follow for each.

/// Marks a slot that nothing stands in.
const EMPTY: u32 = u32::MAX;

/// A set of byte strings, each with its place in the order in which they were added. For a byte-pair
/// encoding that place is the rank: what came first is merged first.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// All tokens, one after the other.
    bytes: Vec<u8>,
    /// Where each begins in `bytes`, and where the last one ends.
    starts: Vec<u32>,
    /// Open addressing; a power of two, at most half full.
    slots: Vec<u32>,
    /// The places of tokens of two bytes, which are asked for most.
    pairs: Vec<u32>,
    longest: usize,
}

impl Vocabulary {
    /// An empty one with room for so many tokens, at most a billion.
    pub(super) fn with_capacity(tokens: usize) -> Self {
        let slots = (tokens.clamp(8, 1 << 30) * 2).next_power_of_two();
        let bytes = Vec::with_capacity(tokens * 8);
        Self { bytes, starts: vec![0], slots: vec![EMPTY; slots], pairs: vec![EMPTY; 1 << 16], longest: 0 }
    }

    /// Adds a token at the end of the order; one that is there already keeps its place, and the new
    /// place stays empty.
    pub(super) fn push(&mut self, token: &[u8]) {
        let rank = self.len();
        let (is_full, is_known) = ((rank + 1) * 2 > self.slots.len(), self.rank(token).is_some());
        self.bytes.extend_from_slice(if is_known { &[] } else { token });
        self.starts.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        if is_known {
            return;
        }
        self.longest = self.longest.max(token.len());
        if let [first, second] = token
            && let Some(pair) = self.pairs.get_mut(pair(*first, *second))
        {
            *pair = u32::try_from(rank).unwrap_or(EMPTY);
        }
        if is_full {
            self.slots = vec![EMPTY; self.slots.len() * 2];
            (0..rank).for_each(|rank| self.settle(rank));
        }
        self.settle(rank);
    }

    /// How many places the order has.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The place of a token.
    #[inline]
    pub(super) fn rank(&self, token: &[u8]) -> Option<u32> {
        if token.len() > self.longest || token.is_empty() {
            return None;
        }
        if let [first, second] = token {
            return self.pairs.get(pair(*first, *second)).copied().filter(|rank| *rank != EMPTY);
        }
        let mask = self.slots.len() - 1;
        let mut at = hash(token) & mask;
        loop {
            let rank = *self.slots.get(at)?;
            if rank == EMPTY {
                return None;
            }
            if self.token(rank as usize) == token {
                return Some(rank);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn token(&self, rank: usize) -> &[u8] {
        let place = self.starts.get(rank).zip(self.starts.get(rank + 1));
        place.and_then(|(start, end)| self.bytes.get(*start as usize..*end as usize)).unwrap_or_default()
    }

    fn settle(&mut self, rank: usize) {
        let token = self.token(rank);
        if token.is_empty() {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash(token) & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == EMPTY {
                *slot = u32::try_from(rank).unwrap_or(EMPTY);
                return;
            }
            at = (at + 1) & mask;
        }
    }
}

#[inline]
fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// Mixes eight bytes at a time. Tokens come from a file, not from callers, so nobody can make the
/// table slow: what callers write is only looked up.
#[inline]
fn hash(bytes: &[u8]) -> usize {
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = (bytes.len() as u64).wrapping_mul(SEED);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(SEED).rotate_left(29);
    }
    let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
    hash = (hash ^ last).wrapping_mul(SEED);
    (hash ^ (hash >> 32)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_place_at_which_it_was_first_added() {
        let mut vocabulary = Vocabulary::with_capacity(0);
        let words: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
        words.iter().for_each(|word| vocabulary.push(word.as_bytes()));
        vocabulary.push(b"word 7");
        vocabulary.push(b"next");
        for (rank, word) in words.iter().enumerate() {
            assert_eq!(vocabulary.rank(word.as_bytes()), Some(rank as u32), "{word}");
        }
        assert_eq!(vocabulary.rank(b"next"), Some(1001));
        for absent in ["", "word", "word 1000", "a word that is longer than any of them"] {
            assert_eq!(vocabulary.rank(absent.as_bytes()), None, "{absent}");
        }
    }
}
