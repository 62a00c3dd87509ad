//! WordPiece, counted: the longest piece of a word that is known, then the next.

use std::borrow::Cow;

use super::vocabulary::Vocabulary;

/// A word beyond so many characters is one unknown token, as BERT has it.
const LONGEST: usize = 100;

/// A vocabulary of beginnings and continuations.
#[derive(Debug)]
pub(super) struct Words {
    heads: Vocabulary,
    tails: Vocabulary,
}

impl Words {
    pub(super) fn new<'t>(tokens: impl Iterator<Item = Cow<'t, str>>, prefix: &str) -> Self {
        let mut words = Self { heads: Vocabulary::with_capacity(1 << 15), tails: Vocabulary::with_capacity(1 << 13) };
        for token in tokens {
            match token.strip_prefix(prefix).filter(|tail| !tail.is_empty()) {
                Some(tail) => words.tails.push(tail.as_bytes()),
                None => words.heads.push(token.as_bytes()),
            }
        }
        words
    }

    /// How many tokens a word is; one, for the unknown, where it has a piece that is not known.
    pub(super) fn count(&self, word: &str) -> u64 {
        let word = word.trim();
        if word.is_empty() {
            return 0;
        }
        if word.chars().nth(LONGEST).is_some() {
            return 1;
        }
        let (mut rest, mut count) = (word, 0);
        while !rest.is_empty() {
            let known = if count == 0 { &self.heads } else { &self.tails };
            let ends = rest.char_indices().map(|(at, letter)| at + letter.len_utf8()).rev();
            let longest = ends.map(|end| rest.split_at(end)).find(|(piece, _)| known.rank(piece.as_bytes()).is_some());
            let Some((_, behind)) = longest else { return 1 };
            (rest, count) = (behind, count + 1);
        }
        count
    }
}
