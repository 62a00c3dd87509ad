//! What a run has seen: every figure of every target in every round.

use crate::measure::Figure;
use crate::target::Kind;

/// One figure of one target in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) round: usize,
    pub(crate) kind: Kind,
    pub(crate) figure: Figure,
    pub(crate) value: f64,
}

/// Everything that a run saw.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) entries: Vec<Entry>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// Share of the machine's cores that other processes used meanwhile.
    pub(crate) foreign_share: f64,
    /// What went wrong, in words.
    pub(crate) wrong: Vec<String>,
}

impl Book {
    /// The figure of `kind` in `round`.
    pub(crate) fn find(&self, round: usize, kind: Kind, figure: Figure) -> Option<f64> {
        let found = self.entries.iter().find(|entry| (entry.round, entry.kind, entry.figure) == (round, kind, figure));
        found.map(|entry| entry.value).filter(|value| value.is_finite())
    }
}
