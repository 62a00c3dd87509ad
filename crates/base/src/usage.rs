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
    /// True where the upstream said nothing and the numbers are the gateway's guess.
    pub estimated: bool,
}

impl Usage {
    /// No single call costs more; a larger number from an upstream is nonsense and is not counted.
    pub const CEILING: u64 = 1_000_000_000;

    /// The sum over the parts of one call, e.g. a split batch.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            completion: self.completion.saturating_add(other.completion),
            cached: self.cached.saturating_add(other.cached),
            estimated: self.estimated || other.estimated,
        }
    }
}
