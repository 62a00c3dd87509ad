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

/// Tokens of a text at most, for want of a count by the upstream: a third of a token for an ASCII
/// character, one and a half for any other, which errs high for Chinese, Japanese and Korean too.
#[must_use]
pub fn estimate(text: &[u8]) -> u64 {
    // Most texts are, and that is found out many bytes at a time.
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(3);
    }
    let ascii = text.iter().filter(|byte| byte.is_ascii()).count() as u64;
    // Every other character has one leading byte.
    let others = text.iter().filter(|byte| **byte >= 0xc0).count() as u64;
    ascii.div_ceil(3) + (others * 3).div_ceil(2)
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
    }
}
