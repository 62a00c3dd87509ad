//! What one call consumed.

/// Tokens of one call. `prompt` includes `cached`, `completion` includes reasoning, as OpenAI
/// counts them (`usage` of its chat completion object).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written; 0 for embeddings and rerank.
    pub completion: u64,
    /// The part of `prompt` that the upstream served from its prefix cache.
    pub cached: u64,
    /// Search units, by which rerankers are billed: one is a query with up to 100 documents (Cohere's
    /// pricing page); 0 for everything else.
    pub units: u64,
    /// True where the upstream said nothing and the numbers are the gateway's guess.
    pub estimated: bool,
}

impl Usage {
    /// No single call costs more; a larger number from an upstream is nonsense and is not counted.
    pub const CEILING: u64 = 1_000_000_000;

    /// Everything read and written.
    #[must_use]
    pub const fn tokens(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// The sum over the parts of one call, e.g. a split batch.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            completion: self.completion.saturating_add(other.completion),
            cached: self.cached.saturating_add(other.cached),
            units: self.units.saturating_add(other.units),
            estimated: self.estimated || other.estimated,
        }
    }
}

/// Tokens of a text, for want of a count by the upstream; errs high by OpenAI's encodings: a third of a token for an
/// ASCII character, one and a half for any other, as Chinese, Japanese and Korean have less. What encodings have no long
/// tokens for weighs more: two for each number beside its digits (tables, times, UUIDs), one for each capital behind a
/// small letter (base64), and a token for each byte of Han that is rare, or of what stands beyond the first plane.
#[must_use]
pub fn estimate(text: &[u8]) -> u64 {
    let pieces = pieces(text);
    // Most texts are, and that is found out many bytes at a time.
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(3) + pieces;
    }
    let ascii = text.iter().filter(|byte| byte.is_ascii()).count() as u64;
    // Every other character has one leading byte.
    let others = text.iter().filter(|byte| **byte >= 0xc0).count() as u64;
    ascii.div_ceil(3) + pieces + (others * 3 + rare(text)).div_ceil(2)
}

/// Two for each run of digits, as it and what parts it from the next are tokens of their own, and one for each word that
/// begins with a capital within another.
fn pieces(text: &[u8]) -> u64 {
    let weight = |before: u8, byte: u8| {
        let is_number = byte.is_ascii_digit() & !before.is_ascii_digit();
        let is_word = byte.is_ascii_uppercase() & before.is_ascii_lowercase();
        2 * u8::from(is_number) + u8::from(is_word)
    };
    text.first().map_or(0, |first| u64::from(weight(b' ', *first))) + of_pairs(text, weight)
}

/// Twice the tokens that rare characters are beyond one and a half: of Unicode's extension A of Han, which is three bytes,
/// and beyond the first plane, where all is four and only pictographs are usual.
fn rare(text: &[u8]) -> u64 {
    of_pairs(text, |lead, next| {
        let is_extension = ((lead == 0xe3) & (next >= 0x90)) | ((lead == 0xe4) & (next < 0xb8));
        let is_beyond = (lead >= 0xf0) & (next != 0x9f);
        3 * u8::from(is_extension) + 5 * u8::from(is_beyond)
    })
}

/// The sum over all bytes with the byte before, of 5 at most for each. Without a branch, and in sums side by
/// side, it goes through many at once.
fn of_pairs(text: &[u8], weight: impl Fn(u8, u8) -> u8) -> u64 {
    const LANES: usize = 16;
    /// So often a byte holds the most.
    const TIMES: usize = 51;
    let add = |sums: &mut [u8; LANES], before: &[u8; LANES], bytes: &[u8; LANES]| {
        for ((sum, before), byte) in sums.iter_mut().zip(before).zip(bytes) {
            *sum = sum.wrapping_add(weight(*before, *byte));
        }
    };
    let total = |sums: [u8; LANES]| sums.into_iter().map(u64::from).sum::<u64>();
    let ((whole, _), (behind, rest)) = (text.as_chunks(), text.get(1..).unwrap_or_default().as_chunks());
    let mut sum = 0;
    for (before, bytes) in whole.chunks(TIMES).zip(behind.chunks(TIMES)) {
        let mut sums = [0; LANES];
        before.iter().zip(bytes).for_each(|(before, bytes)| add(&mut sums, before, bytes));
        sum += total(sums);
    }
    let (mut sums, mut before, mut bytes) = ([0; LANES], [0; LANES], [0; LANES]);
    let last = text.get(behind.len() * LANES..).unwrap_or_default();
    before.iter_mut().zip(last).for_each(|(to, from)| *to = *from);
    bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    add(&mut sums, &before, &bytes);
    sum + total(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_errs_high() {
        assert_eq!(estimate(b""), 0);
        assert_eq!(estimate(b"hello world"), 4);
        assert_eq!(estimate("知识库网关".as_bytes()), 8);
        assert_eq!(estimate("é🙂".as_bytes()), 3);
        assert_eq!(estimate(b"1,2"), 1 + 2 * 2);
        assert_eq!(estimate(b"a1234"), 2 + 2);
        assert_eq!(estimate(b"camelCase OK"), 4 + 1);
        assert_eq!(estimate("㐀𠀀".as_bytes()), 3 + 4);
        let long = "7 ".repeat(100_000);
        assert_eq!(estimate(long.as_bytes()), 200_000_u64.div_ceil(3) + 200_000);
    }
}
