//! Text as the mock understands it: words, tokens, terms and vectors. Nothing is learned, all is
//! counted and hashed, so the same text always means the same.

use std::collections::HashSet;

/// Han, kana and hangul are written without spaces: each such character stands for itself.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// The text in pieces as a model would stream it: a word with the white space before it, or one
/// character of Chinese, Japanese or Korean. Together they are the text.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut has_word = false;
        let mut end = rest.len();
        for (at, c) in rest.char_indices() {
            let ends_before = has_word && (c.is_whitespace() || stands_alone(c));
            if ends_before {
                end = at;
                break;
            }
            if stands_alone(c) {
                end = at + c.len_utf8();
                break;
            }
            has_word |= !c.is_whitespace();
        }
        let (piece, after) = rest.split_at_checked(end)?;
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// How many tokens the mock counts: its pieces, long words counted once per eight bytes.
pub(crate) fn tokens(text: &str) -> u64 {
    pieces(text).map(|piece| piece.trim().len().div_ceil(8).max(1) as u64).sum()
}

/// What a text speaks of: its words in lower case, and pairs of neighbours in scripts without spaces.
pub(crate) fn terms(text: &str) -> HashSet<String> {
    let mut terms = HashSet::new();
    let mut word = String::new();
    let mut last_alone: Option<char> = None;
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        if c.is_alphanumeric() && !stands_alone(c) {
            word.push(c);
        } else if !word.is_empty() {
            terms.insert(std::mem::take(&mut word));
        }
        if stands_alone(c) && c.is_alphanumeric() {
            if let Some(before) = last_alone {
                terms.insert(String::from_iter([before, c]));
            }
            last_alone = Some(c);
        } else {
            last_alone = None;
        }
    }
    terms
}

/// FNV-1a, 64 bits.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A unit vector of the text: its characters' runs of one to three and its words, each hashed to a
/// place and a sign. Texts that share runs lie near each other.
pub(crate) fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut sums = vec![0f64; dimensions];
    let mut add = |key: u64, weight: f64| {
        let count = sums.len() as u64;
        let place = usize::try_from((key >> 8).checked_rem(count).unwrap_or(0)).unwrap_or(0);
        if let Some(sum) = sums.get_mut(place) {
            *sum += if key & 1 == 0 { weight } else { -weight };
        }
    };
    let lower: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    for (size, weight) in [(1usize, 0.2), (2, 0.6), (3, 1.0)] {
        for run in lower.windows(size) {
            add(hash(run.iter().flat_map(|c| (*c as u32).to_le_bytes())), weight);
        }
    }
    for term in terms(text) {
        add(hash(term.bytes().chain([0xff])), 1.5);
    }
    // Even an empty text points somewhere.
    add(hash(*b"mai"), 0.01);
    let length = sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt();
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "vectors are float32 on the wire")]
    sums.iter().map(|sum| (sum * scale) as f32).collect()
}

/// How well a document answers a query, 0 to 1: mostly the share of the query's terms that it
/// holds, a little their vectors' nearness.
pub(crate) fn relevance(query: &str, document: &str) -> f64 {
    let (wanted, held) = (terms(query), terms(document));
    let shared = wanted.intersection(&held).count();
    let covered = if wanted.is_empty() { 0.0 } else { shared as f64 / wanted.len() as f64 };
    let (a, b) = (vector(query, 256), vector(document, 256));
    let cosine: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    (0.8 * covered + 0.2 * cosine.clamp(0.0, 1.0)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        vector(a, 384).iter().zip(vector(b, 384)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn pieces_together_are_the_text() {
        for text in ["", " ", "hello  big world \n", "你好，世界 and 🙂👨‍👩‍👧𠮷.", "a你b"] {
            assert_eq!(pieces(text).collect::<String>(), text);
        }
        assert_eq!(pieces("Hi there 你好").collect::<Vec<_>>(), ["Hi", " there", " 你", "好"]);
    }

    #[test]
    fn similar_texts_are_near_and_others_far() {
        assert!(cosine("how do I claim travel costs", "how can I claim my travel costs") > 0.7);
        assert!(cosine("how do I claim travel costs", "the printer is out of paper") < 0.4);
        assert!(cosine("如何申请差旅报销", "差旅报销怎么申请") > cosine("如何申请差旅报销", "打印机没有纸了") + 0.2);
        assert!((cosine("x", "x") - 1.0).abs() < 1e-5);
        assert_eq!(vector("same", 8), vector("same", 8));
        assert!(vector("", 4).iter().all(|number| number.is_finite()));
        assert!(vector("any", 0).is_empty());
    }

    #[test]
    fn relevance_follows_shared_words_also_in_chinese() {
        assert!(relevance("travel costs", "Travel costs are paid.") > relevance("travel costs", "Lunch is at noon."));
        assert!(relevance("差旅报销", "差旅报销流程如下") > relevance("差旅报销", "年假申请流程如下"));
    }

    #[test]
    fn a_chinese_character_is_a_token() {
        assert_eq!(tokens("你好世界"), 4);
        assert_eq!(tokens("two words"), 2);
        assert_eq!(tokens(""), 0);
    }
}
