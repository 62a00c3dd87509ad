//! Tokenizers that a Hugging Face `tokenizer.json` describes
//! (<https://huggingface.co/docs/tokenizers/api/tokenizer>).
//!
//! Read is what decides a count: how texts are changed and split, and the model. Unicode's normal forms
//! are left out but for full-width letters and signs, which are all that common text holds of what they
//! change; special tokens written in a text count as text.

use std::borrow::Cow;

use super::merges::Merges;
use super::split::{Pieces, Split};
use super::unigram::Unigram;
use super::vocabulary::Vocabulary;
use super::words::Words;
use super::{Change, Model, Tokenizer};
use crate::json::{self, Kind, Value};

/// GPT-2's pattern, which `ByteLevel` splits by.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Punctuation, with all of ASCII's signs.
const SIGNS: &str = r"[\p{P}$+<=>^`|~]";
/// The sign that stands for a space.
const SPACE: &str = "\u{2581}";

/// Reads a `tokenizer.json`.
///
/// # Errors
/// What it does that is not known here, as the end of a sentence.
pub(super) fn read(text: &[u8]) -> Result<Tokenizer, String> {
    let root = json::parse(text).map_err(|error| format!("is not valid JSON: {error}"))?;
    let mut tokenizer = Tokenizer { changes: Vec::new(), splits: Vec::new(), model: Model::default() };
    let mut is_bytes = false;
    if let Some(normalizer) = root.get("normalizer") {
        normalize(normalizer, &mut tokenizer)?;
    }
    if let Some(splitter) = root.get("pre_tokenizer") {
        split(splitter, &mut tokenizer, &mut is_bytes)?;
    }
    let model = root.get("model").ok_or("holds no `model`")?;
    tokenizer.model = read_model(model, is_bytes)?;
    Ok(tokenizer)
}

fn kind(value: Value<'_>) -> Cow<'_, str> {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_true(value: Value<'_>, key: &str) -> Option<bool> {
    value.get(key).and_then(Value::as_bool)
}

fn normalize(value: Value<'_>, tokenizer: &mut Tokenizer) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(Cow::into_owned);
    match &*kind(value) {
        "Sequence" => {
            let all = value.get("normalizers").into_iter().flat_map(Value::elements);
            return all.into_iter().try_for_each(|one| normalize(one, tokenizer));
        }
        "NFC" | "NFD" | "StripAccents" | "Strip" | "Nmt" | "ByteLevel" => {}
        "NFKC" | "NFKD" | "Precompiled" => tokenizer.changes.push(Change::Narrow),
        "Lowercase" => tokenizer.changes.push(Change::Lower),
        "BertNormalizer" => {
            if is_true(value, "lowercase") == Some(true) {
                tokenizer.changes.push(Change::Lower);
            }
            if is_true(value, "handle_chinese_chars") != Some(false) {
                tokenizer.splits.push(Split::new(r"[\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{f900}-\u{faff}]")?);
            }
        }
        "Prepend" => tokenizer.changes.push(Change::Prepend(text("prepend").unwrap_or_default())),
        "Replace" => {
            let pattern = value.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str);
            let content = text("content").unwrap_or_default();
            // What replaces by a pattern tidies white space up, which is a token here or there.
            if let Some(pattern) = pattern {
                tokenizer.changes.push(Change::Replace(pattern.into_owned(), content));
            }
        }
        other => return Err(format!("changes texts in a way that is not known here: {other}")),
    }
    Ok(())
}

fn split(value: Value<'_>, tokenizer: &mut Tokenizer, is_bytes: &mut bool) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let splits = &mut tokenizer.splits;
    match &*kind(value) {
        "Sequence" => {
            let all = value.get("pretokenizers").into_iter().flat_map(Value::elements);
            return all.into_iter().try_for_each(|one| split(one, tokenizer, is_bytes));
        }
        "ByteLevel" => {
            *is_bytes = true;
            let opens_with_space = is_true(value, "add_prefix_space") != Some(false);
            let uses_regex = is_true(value, "use_regex") != Some(false);
            if uses_regex || opens_with_space {
                let split = Split::new(if uses_regex { GPT2 } else { r"(?s).+" })?;
                splits.push(if opens_with_space { split.opening_with_space() } else { split });
            }
        }
        "Split" => {
            let pattern = value.get("pattern").ok_or("splits by nothing")?;
            let regex = match pattern.get("Regex").and_then(Value::as_str) {
                Some(regex) => regex.into_owned(),
                None => regex::escape(&pattern.get("String").and_then(Value::as_str).unwrap_or_default()),
            };
            let behaviour = value.get("behavior").and_then(Value::as_str).unwrap_or_default();
            let pieces = match (&*behaviour, is_true(value, "invert")) {
                ("Removed", Some(true)) => Pieces::Matches,
                ("Removed", _) => Pieces::Between,
                _ => Pieces::All,
            };
            splits.push(Split::new(&regex)?.into(pieces));
        }
        "Digits" if is_true(value, "individual_digits") == Some(true) => splits.push(Split::new(r"\p{N}")?),
        "Digits" => splits.push(Split::new(r"\p{N}+")?),
        "Punctuation" => splits.push(Split::new(SIGNS)?),
        "Whitespace" => splits.push(Split::new(r"\w+|[^\w\s]+")?.into(Pieces::Matches)),
        "WhitespaceSplit" => splits.push(Split::new(r"\S+")?.into(Pieces::Matches)),
        "BertPreTokenizer" => {
            splits.push(Split::new(r"\S+")?.into(Pieces::Matches));
            splits.push(Split::new(SIGNS)?);
        }
        "Metaspace" => {
            let sign = value.get("replacement").and_then(Value::as_str).unwrap_or(SPACE.into()).into_owned();
            let never = value.get("prepend_scheme").and_then(Value::as_escaped) == Some("never");
            tokenizer.changes.push(Change::Replace(" ".into(), sign.clone()));
            if !never && is_true(value, "add_prefix_space") != Some(false) {
                tokenizer.changes.push(Change::Prepend(sign.clone()));
            }
            if is_true(value, "split") != Some(false) {
                let sign = regex::escape(&sign);
                splits.push(Split::new(&format!("{sign}[^{sign}]*"))?);
            }
        }
        other => return Err(format!("splits texts in a way that is not known here: {other}")),
    }
    Ok(())
}

fn read_model(model: Value<'_>, is_bytes: bool) -> Result<Model, String> {
    let vocabulary = model.get("vocab").ok_or("holds no `model.vocab`")?;
    match &*kind(model) {
        "BPE" | "" if model.get("merges").is_some() => Ok(Model::Merges(read_merges(model, vocabulary, is_bytes))),
        "WordPiece" => {
            let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or("##".into());
            let tokens = vocabulary.members().map(|member| member.key);
            Ok(Model::Words(Words::new(tokens, &prefix)))
        }
        "Unigram" | "" if vocabulary.kind() == Kind::Array => {
            let falls_back = is_true(model, "byte_fallback") == Some(true);
            let scored = vocabulary.elements().filter_map(|pair| {
                let mut pair = pair.elements();
                Some((pair.next()?.as_str()?, pair.next()?.as_f64()?))
            });
            Ok(Model::Unigram(Unigram::new(scored, falls_back)))
        }
        other => Err(format!("is of a model that is not known here: {other}")),
    }
}

/// The merges in their order, behind all that pieces begin as.
fn read_merges(model: Value<'_>, vocabulary: Value<'_>, is_bytes: bool) -> Merges {
    let mut ranks = Vocabulary::with_capacity(1 << 17);
    let bytes = |text: &str| if is_bytes { bytes_of(text) } else { text.as_bytes().to_vec() };
    if is_bytes {
        (0..=u8::MAX).for_each(|byte| ranks.push(&[byte]));
    } else {
        let singles = vocabulary.members().map(|member| member.key).filter(|key| key.chars().count() == 1);
        singles.for_each(|single| ranks.push(single.as_bytes()));
    }
    for merge in model.get("merges").into_iter().flat_map(Value::elements) {
        let both: String = match merge.kind() {
            Kind::Array => merge.elements().filter_map(Value::as_str).collect(),
            _ => {
                merge.as_str().unwrap_or_default().split_once(' ').map_or_else(String::new, |(a, b)| format!("{a}{b}"))
            }
        };
        ranks.push(&bytes(&both));
    }
    let falls_back = is_true(model, "byte_fallback") == Some(true);
    if is_bytes { Merges::of_bytes(ranks) } else { Merges::of_chars(ranks, falls_back) }
}

/// The bytes behind a token of a byte-level vocabulary, in which each byte has a visible character
/// (GPT-2, `encoder.py`).
fn bytes_of(token: &str) -> Vec<u8> {
    let byte = |letter: char| match letter {
        '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' => u8::try_from(letter).ok(),
        // The others, in their order, from here on.
        '\u{100}'..='\u{143}' => {
            let at = u8::try_from(u32::from(letter) - 0x100).ok()?;
            Some(match at {
                0..=32 => at,
                33..=66 => at + 94,
                _ => 0xad,
            })
        }
        _ => None,
    };
    token.chars().filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_character() {
        let others = (0..=u8::MAX).filter(|byte| !matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..));
        for (at, byte) in others.enumerate() {
            let letter = char::from_u32(0x100 + at as u32).unwrap();
            assert_eq!(bytes_of(&letter.to_string()), [byte], "{letter}");
        }
        assert_eq!(bytes_of("Ġhello"), b" hello");
        assert_eq!(bytes_of("ä½ł"), "你".as_bytes());
    }

    fn of(model: &str, normalizer: &str, splitter: &str) -> Tokenizer {
        let file = format!(r#"{{"normalizer":{normalizer},"pre_tokenizer":{splitter},"model":{model}}}"#);
        read(file.as_bytes()).unwrap()
    }

    #[test]
    fn byte_level_merges_are_counted() {
        let model = r#"{"type":"BPE","vocab":{"Ġ":0,"a":1,"b":2},"merges":["a b",["Ġ","ab"]]}"#;
        let tokenizer = of(model, "null", r#"{"type":"ByteLevel","add_prefix_space":false}"#);
        let opening = of(model, "null", r#"{"type":"ByteLevel"}"#);
        assert_eq!([opening.count("ab"), opening.count(" ab"), opening.count("b")], [1, 1, 2]);
        for (text, count) in [("", 0), ("ab", 1), (" ab", 1), ("ab ab", 2), ("abab", 2), ("ab  ab", 3), ("你", 3)] {
            assert_eq!(tokenizer.count(text), count, "{text:?}");
        }
    }

    #[test]
    fn merges_of_characters_fall_back_to_bytes() {
        let model = r#"{"type":"BPE","byte_fallback":true,"vocab":{"▁":0,"a":1,"b":2,"▁a":3,"<0x41>":4},"merges":["▁ a","▁a b"]}"#;
        let normalizer = r#"{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}"#;
        let tokenizer = of(model, normalizer, "null");
        for (text, count) in [("ab", 1), ("ab ab", 2), ("b", 2), ("a你", 4)] {
            assert_eq!(tokenizer.count(text), count, "{text:?}");
        }
    }

    #[test]
    fn word_pieces_are_the_longest_that_fit() {
        let model = r###"{"type":"WordPiece","unk_token":"[UNK]","vocab":{"play":0,"##ing":1,"##er":2,"知":3,"!":4,"##i":5}}"###;
        let tokenizer = of(model, r#"{"type":"BertNormalizer","lowercase":true}"#, r#"{"type":"BertPreTokenizer"}"#);
        for (text, count) in [("Playing  PLAYER!", 5), ("知识", 2), ("zzz playing", 3), ("", 0)] {
            assert_eq!(tokenizer.count(text), count, "{text:?}");
        }
    }

    #[test]
    fn unigrams_are_the_likeliest_way() {
        let model = r#"{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["▁",-2.0],["▁ab",-3.0],["a",-4.0],["b",-4.0],["abc",-1.0],["c",-9.0]]}"#;
        let tokenizer =
            of(model, r#"{"type":"Precompiled"}"#, r#"{"type":"Metaspace","replacement":"▁","add_prefix_space":true}"#);
        for (text, count) in [("ab", 1), ("abc", 2), ("ab ab", 2), ("zz", 2), ("ａb", 1)] {
            assert_eq!(tokenizer.count(text), count, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let of = |file: &str| read(file.as_bytes()).unwrap_err();
        assert!(of("[").contains("not valid JSON"));
        assert!(of("{}").contains("`model`"));
        assert!(of(r#"{"model":{"type":"Other","vocab":{}}}"#).contains("Other"));
        assert!(of(r#"{"pre_tokenizer":{"type":"Scripts"},"model":{}}"#).contains("Scripts"));
        let lookaround = r#"{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<=a)b"}},"model":{}}"#;
        assert!(of(lookaround).contains("(?<=a)b"));
    }
}
