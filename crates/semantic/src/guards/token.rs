//! The words of a text, and what each is made of.

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
}

impl Token {
    /// Of a text that is written so.
    pub fn new(text: &str, script: Script) -> Self {
        Self { text: text.to_lowercase(), script, tag: "", upper: false, capital: false }
    }
}

/// Whether a character is Chinese.
pub fn is_han(sign: char) -> bool {
    matches!(sign, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}' | '〇')
}
