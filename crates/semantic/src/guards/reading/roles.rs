//! Semantic roles from prepositions: the role that a person plays behind one, and words that one makes nouns
//! (merge develop into *main*).

use crate::guards::lexicon::function_words::{Case, SemanticRole};
use crate::guards::reading::reader::Reader;

impl Reader<'_> {
    /// The part that a person plays; it passes the owner by: into my folder.
    pub(super) fn part_of(&mut self, case: Case) -> Option<SemanticRole> {
        if case == Case::Possessive && !self.question.chinese { None } else { self.next.role.take() }
    }

    /// Whether an English word is the name of something by its place, whatever it is elsewhere: behind a preposition,
    /// or behind «to» where it was told from where.
    pub(super) fn is_named(&self, at: usize) -> bool {
        let text = self.text(at);
        let Some(mut before) = at.checked_sub(1).filter(|_| !text.ends_with("ing")) else { return false };
        if ARTICLES.contains(&self.text(before)) {
            before = before.wrapping_sub(1);
        }
        let came = || self.question.terms.iter().any(|term| term.role == Some(SemanticRole::Source));
        PREPOSITIONS.contains(&self.text(before)) || self.text(before) == "to" && came()
    }
}

/// Prepositions behind which a noun stands, but for verbs in «-ing».
const PREPOSITIONS: [&str; 15] = [
    "into", "onto", "from", "under", "above", "below", "over", "in", "on", "with", "inside", "behind", "of", "for",
    "at",
];

const ARTICLES: [&str; 8] = ["the", "a", "an", "my", "our", "your", "this", "that"];
