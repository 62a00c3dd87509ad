//! Text into the pieces within which an encoding merges.

use regex::{Regex, RegexBuilder};

/// The pattern of `o200k_base` but for `\s+(?!\S)` (tiktoken, `openai_public.py`).
pub(super) const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// The pattern of `cl100k_base` but for `\s+(?!\S)`, without the possessive forms that change nothing
/// but the speed of an engine that backtracks.
pub(super) const CL100K: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s+$|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// White space before a word gives its last character to the word. The one look-ahead that encodings
/// use; the engine here has none, so that no text makes it slow, and does this by hand.
const LOOK_AHEAD: &str = r"\s+(?!\S)|";

/// Bytes that a thread's automaton may grow to. Text of every script at once needs that many; with less
/// the engine would fall back to one that takes seconds for a megabyte.
const LARGEST: usize = 32 << 20;

/// One way to split.
#[derive(Debug)]
pub(super) struct Split {
    regex: Regex,
    gives_last_space: bool,
    pieces: Pieces,
    /// A space is put in front of what is split, unless it begins with one.
    pub(super) opens_with_space: bool,
}

/// What of a text becomes pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// What matches, and what stands between matches.
    All,
    /// What matches.
    Matches,
    /// What stands between matches.
    Between,
}

impl Split {
    /// A split by a pattern: what it matches are pieces, and what stands between matches.
    ///
    /// # Errors
    /// A sentence for a pattern that looks around in other ways, or is none.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let plain = pattern.replacen(LOOK_AHEAD, "", 1);
        let gives_last_space = plain.len() != pattern.len();
        let regex = RegexBuilder::new(&plain)
            .dfa_size_limit(LARGEST)
            .build()
            .map_err(|_| format!("splits texts in a way that is not known here: {pattern}"))?;
        Ok(Self { regex, gives_last_space, pieces: Pieces::All, opens_with_space: false })
    }

    /// The same split with other pieces.
    pub(super) fn into(self, pieces: Pieces) -> Self {
        Self { pieces, ..self }
    }

    /// The same split of texts that begin with a space.
    pub(super) fn opening_with_space(self) -> Self {
        Self { opens_with_space: true, ..self }
    }

    /// The pieces of a text, in order.
    pub(super) fn pieces<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let is_wanted = |is_match: bool| match self.pieces {
            Pieces::All => true,
            Pieces::Matches => is_match,
            Pieces::Between => !is_match,
        };
        self.all(text).filter(move |(_, is_match)| is_wanted(*is_match)).map(|(piece, _)| piece)
    }

    /// Matches and what stands between them, in order, each with whether it is a match.
    fn all<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (&'t str, bool)> {
        let mut rest = 0;
        let mut waiting: Option<(usize, usize)> = None;
        std::iter::from_fn(move || {
            if rest >= text.len() {
                return None;
            }
            let (start, end) = match waiting.take() {
                Some(found) => found,
                None => match self.regex.find_at(text, rest) {
                    Some(found) if found.end() > rest => (found.start(), self.end(text, found.start(), found.end())),
                    _ => (text.len(), text.len()),
                },
            };
            if start > rest {
                // What lies between two matches is a piece too.
                let between = text.get(rest..start);
                waiting = Some((start, end)).filter(|(start, _)| *start < text.len());
                rest = start;
                return between.map(|between| (between, false));
            }
            let piece = text.get(start..end);
            rest = end;
            piece.map(|piece| (piece, true))
        })
    }

    /// Where a match ends, its last space left to the word behind it.
    fn end(&self, text: &str, start: usize, end: usize) -> usize {
        if !self.gives_last_space || end >= text.len() {
            return end;
        }
        let Some(found) = text.get(start..end) else { return end };
        let Some(last) = found.chars().next_back() else { return end };
        let is_blank = last.is_whitespace() && !matches!(last, '\r' | '\n');
        let is_given = is_blank && last.len_utf8() < found.len() && found.chars().all(char::is_whitespace);
        if is_given { end - last.len_utf8() } else { end }
    }
}
