//! Unigram, counted: of all ways to say a piece in tokens, the likeliest one.

use std::borrow::Cow;

use super::vocabulary::Vocabulary;

/// How much less likely than the least likely token a character without one is (SentencePiece).
const UNKNOWN: f64 = 10.0;

/// Tokens with the logarithms of their likelihoods.
#[derive(Debug)]
pub(super) struct Unigram {
    tokens: Vocabulary,
    scores: Vec<f32>,
    unknown: f64,
    /// A character without a token is as many tokens as it has bytes.
    falls_back: bool,
}

impl Unigram {
    pub(super) fn new<'t>(scored: impl Iterator<Item = (Cow<'t, str>, f64)>, falls_back: bool) -> Self {
        let mut unigram =
            Self { tokens: Vocabulary::with_capacity(1 << 18), scores: Vec::new(), unknown: 0.0, falls_back };
        for (token, score) in scored {
            unigram.tokens.push(token.as_bytes());
            unigram.scores.push(score as f32);
            unigram.unknown = unigram.unknown.min(score);
        }
        unigram.unknown -= UNKNOWN;
        unigram
    }

    /// How many tokens a piece is. Neighbours that are unknown are one.
    pub(super) fn count(&self, piece: &str) -> u64 {
        let bytes = piece.as_bytes();
        // The likeliest way to each place: its score, its tokens, whether it ends in something unknown.
        let mut best = vec![(f64::NEG_INFINITY, 0u64, false); bytes.len() + 1];
        if let Some(first) = best.first_mut() {
            *first = (0.0, 0, false);
        }
        for (start, letter) in piece.char_indices() {
            let Some((score, count, was_unknown)) = best.get(start).copied() else { break };
            let next = start + letter.len_utf8();
            let longest = (start + self.tokens.longest()).min(bytes.len());
            let mut is_known = false;
            for end in (next..=longest).filter(|end| piece.is_char_boundary(*end)) {
                let rank = bytes.get(start..end).and_then(|token| self.tokens.rank(token));
                let Some(own) = rank.and_then(|rank| self.scores.get(rank as usize)) else { continue };
                is_known |= end == next;
                take(&mut best, end, (score + f64::from(*own), count + 1, false));
            }
            if !is_known {
                let more = match self.falls_back {
                    true => letter.len_utf8() as u64,
                    false => u64::from(!was_unknown),
                };
                take(&mut best, next, (score + self.unknown, count + more, true));
            }
        }
        best.last().map_or(0, |(_, count, _)| *count)
    }
}

fn take(best: &mut [(f64, u64, bool)], end: usize, way: (f64, u64, bool)) {
    if let Some(known) = best.get_mut(end).filter(|known| known.0 < way.0) {
        *known = way;
    }
}
