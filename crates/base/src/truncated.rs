//! What a token budget left out of a prompt.

/// What a token budget left out of a prompt. Written as headers and log show it:
/// `history=4,retrieval=2,tokens=1830`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truncated {
    /// Messages of the conversation.
    pub history: u64,
    /// Retrieved passages.
    pub retrieval: u64,
    /// Tokens of both.
    pub tokens: u64,
}

impl std::fmt::Display for Truncated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { history, retrieval, tokens } = self;
        write!(f, "history={history},retrieval={retrieval},tokens={tokens}")
    }
}
