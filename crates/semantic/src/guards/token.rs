//! The words of a text, and what each is made of.

use std::cell::OnceCell;

use smallvec::SmallVec;

/// What a token is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// A Chinese word, as the segmenter cuts.
    Han,
    /// A word of letters, which may hold digits.
    Latin,
    /// Something that begins with a digit.
    Number,
    /// A sign of currency or per cent.
    Sign,
    /// Any other sign: where a clause may end.
    Stop,
}

/// One word of a question, in lower case.
#[derive(Debug, Clone)]
pub struct Token {
    /// As compared.
    pub text: String,
    /// What it is made of.
    pub script: Script,
    /// The segmenter's part of speech; empty for what is not Chinese.
    pub tag: &'static str,
    /// Written with capitals alone, two or more, in a text that is not.
    pub upper: bool,
    /// Written with a first capital, and not first.
    pub capital: bool,
    /// What it may be a form of, once that was looked up.
    pub lemmas: OnceCell<Lemmas>,
}

/// What a written English word may be a form of.
#[derive(Debug, Clone)]
pub struct Lemmas {
    /// All of them.
    pub all: SmallVec<[Box<str>; 2]>,
    /// The place of the one under which it stands in the lists; none where it stands there as it is written.
    pub listed: Option<usize>,
}

impl Token {
    /// Of a text that is written so.
    pub fn new(text: &str, script: Script) -> Self {
        Self::of(text.to_lowercase(), script)
    }

    /// Of a text that has no capitals.
    pub fn of(text: String, script: Script) -> Self {
        Self { text, script, tag: "", upper: false, capital: false, lemmas: OnceCell::new() }
    }
}

/// Whether a word is one of these. Most differ in their length or their last byte, which no call is needed to see.
pub fn is_among(word: &str, words: &[&str]) -> bool {
    let last = word.as_bytes().last();
    words.iter().any(|other| other.len() == word.len() && other.as_bytes().last() == last && *other == word)
}

/// Whether a character is Chinese.
pub fn is_han(sign: char) -> bool {
    matches!(sign, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}' | '〇')
}
