//! How many tokens a text may be to a model whose tokenizer is not known.
//!
//! A text is measured in three amounts, each of which is a steady number of tokens to one model. What a
//! token of each is worth is at first a guess that errs high, and is then learned from the usage that
//! the model's upstream reports.

#[cfg(test)]
mod tests;

/// What a text is made of, each amount in tokens as most models have them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// ASCII: words, digits, signs.
    pub plain: f64,
    /// Han, kana and hangul, with their punctuation: characters.
    pub wide: f64,
    /// Everything else.
    pub other: f64,
}

impl Amounts {
    /// Measures a text, in one pass.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut amounts = Self::default();
        let mut run = Run::default();
        for letter in text.chars() {
            let kind = Kind::of(letter);
            if !run.goes_on(kind) {
                amounts.plain += run.tokens(kind);
                run = Run { kind, length: 0 };
            }
            run.length += 1;
            match kind {
                Kind::Wide => amounts.wide += 1.0,
                Kind::Other => amounts.other += other(letter),
                _ => {}
            }
        }
        amounts.plain += run.tokens(Kind::Blank);
        amounts
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { plain: self.plain + other.plain, wide: self.wide + other.wide, other: self.other + other.other }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    #[default]
    Blank,
    Sign,
    Wide,
    Other,
}

impl Kind {
    fn of(letter: char) -> Self {
        match letter {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            ' ' | '\t' | '\r' | '\n' => Self::Blank,
            '\0'..='\u{7f}' => Self::Sign,
            // Hangul jamo; CJK radicals to hangul syllables; their compatibility and full-width forms;
            // the supplementary ideographs.
            '\u{1100}'..='\u{11ff}'
            | '\u{2e80}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe4f}'
            | '\u{ff00}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}' => Self::Wide,
            _ => Self::Other,
        }
    }
}

/// Neighbours of one kind: a word with its capital, a number, a gap.
#[derive(Default)]
struct Run {
    kind: Kind,
    length: u32,
}

impl Run {
    fn goes_on(&mut self, next: Kind) -> bool {
        if self.kind == Kind::Upper && next == Kind::Lower && self.length == 1 {
            self.kind = Kind::Lower;
        }
        self.kind == next
    }

    /// Its tokens, where `next` stands behind it.
    fn tokens(&self, next: Kind) -> f64 {
        let length = f64::from(self.length);
        match self.kind {
            // One of up to six letters, and a part of one for what is longer.
            Kind::Lower => 1.0 + (length - 6.0).max(0.0) / 4.0,
            Kind::Upper => (length / 2.0).max(1.0),
            Kind::Digit => length / 2.0,
            // A single space goes with the word behind it.
            Kind::Blank => {
                if self.length > 1 {
                    1.0 + length / 32.0
                } else {
                    0.0
                }
            }
            // Encodings cut a text so that one sign goes with the word behind it (`.name`, `"id`, `_of`), and signs that stand
            // together are one piece (`();`, `":`), which is seldom more than two tokens: cl100k_base and o200k_base by their
            // patterns, and those made like them. So code and prose are worth the same.
            Kind::Sign if self.length == 1 && matches!(next, Kind::Lower | Kind::Upper) => 0.5,
            Kind::Sign => 1.0 + length * 0.2,
            Kind::Wide | Kind::Other => 0.0,
        }
    }
}

/// Tokens of a character that is neither ASCII nor wide: by the length of its UTF-8.
fn other(letter: char) -> f64 {
    match letter.len_utf8() {
        2 => 0.7,
        3 => 1.2,
        _ => 3.0,
    }
}

/// What the amounts are worth to one model, learned from what its upstream reports: recursive least
/// squares that forgets slowly, so that a model that is exchanged is learned anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    each: [f64; 3],
    /// How little is known yet of each worth, and of each pair.
    doubt: [[f64; 3]; 3],
}

/// At first: high, for every tokenizer that is in use.
const AT_FIRST: [f64; 3] = [1.25, 1.5, 1.25];
/// What no tokenizer is beyond.
const BOUNDS: [(f64, f64); 3] = [(0.3, 4.0), (0.2, 4.0), (0.2, 4.0)];
/// Between which shares of the first guess a report is believed.
const FEWEST: f64 = 0.25;
const MOST: f64 = 4.0;
/// How much of what was known still counts after one more report.
const MEMORY: f64 = 0.99;
/// The doubt of what was never seen, and what doubt never exceeds.
const MOST_DOUBT: f64 = 1.0;

impl Default for Worth {
    fn default() -> Self {
        let mut doubt = [[0.0; 3]; 3];
        for (at, row) in doubt.iter_mut().enumerate() {
            if let Some(own) = row.get_mut(at) {
                *own = MOST_DOUBT;
            }
        }
        Self { each: AT_FIRST, doubt }
    }
}

impl Worth {
    /// Tokens of a text of these amounts.
    #[must_use]
    pub fn tokens(&self, amounts: Amounts) -> f64 {
        dot(self.each, row(amounts))
    }

    /// Learns from a prompt of these amounts that was so many tokens, what is no text taken off. Prompts
    /// of less than some ten tokens say little and are not learned from.
    pub fn learn(&mut self, amounts: Amounts, tokens: f64) {
        const LEAST: f64 = 16.0;
        let amounts = row(amounts);
        let size: f64 = amounts.iter().sum();
        if !(tokens.is_finite() && size.is_finite()) || tokens < LEAST || size < LEAST {
            return;
        }
        // Some servers tell only what was not in their cache: such a word says nothing of the text.
        let first = dot(AT_FIRST, amounts);
        if !(first * FEWEST..first * MOST).contains(&tokens) {
            return;
        }
        // Of one size, so that a long prompt says more but not everything.
        let weight = 1.0 / size;
        let x = amounts.map(|amount| amount * weight);
        let spread = self.doubt.map(|row| dot(row, x));
        let whole = MEMORY * NOISE + dot(x, spread).max(0.0);
        let gain = spread.map(|spread| spread / whole);
        let missed = tokens * weight - dot(self.each, x);
        for ((worth, gain), (least, most)) in self.each.iter_mut().zip(gain).zip(BOUNDS) {
            *worth = (*worth + gain * missed).clamp(least, most);
        }
        for (row, gain) in self.doubt.iter_mut().zip(gain) {
            for (doubt, spread) in row.iter_mut().zip(spread) {
                *doubt = ((*doubt - gain * spread) / MEMORY).clamp(-MOST_DOUBT, MOST_DOUBT);
            }
        }
    }
}

/// How far one report may lie off what holds in general.
const NOISE: f64 = 0.02;

fn row(amounts: Amounts) -> [f64; 3] {
    [amounts.plain, amounts.wide, amounts.other]
}

fn dot(one: [f64; 3], other: [f64; 3]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
