//! Tokens: how many a text is to a model, and the texts behind token ids.
//!
//! One engine counts for all byte-pair encodings, OpenAI's own and those that a Hugging Face
//! `tokenizer.json` describes. It counts without making tokens, in time that grows with the text and no
//! faster, whatever the text.

mod file;
mod ids;
mod merges;
mod split;
mod unigram;
mod vocabulary;
mod words;

use std::borrow::Cow;
use std::fmt;

use tiktoken_rs::tokenizer::{Tokenizer as Known, get_tokenizer};

pub use ids::load_vocabulary;
pub(crate) use ids::{UnknownToken, decode};
use merges::Merges;
use split::Split;
use unigram::Unigram;
use vocabulary::Vocabulary;
use words::Words;

/// OpenAI's encodings that models of today use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// GPT-4o and what came after it.
    O200k,
    /// GPT-4, GPT-3.5 and the embedding models.
    Cl100k,
}

impl Encoding {
    /// As OpenAI's tiktoken calls it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }

    /// The encoding of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::O200k, Self::Cl100k].into_iter().find(|encoding| encoding.as_str() == name)
    }

    /// The encoding of one of OpenAI's models, also with a vendor's name in front (`openai/gpt-4o`).
    #[must_use]
    pub fn of_model(model: &str) -> Option<Self> {
        let bare = model.rsplit_once('/').map_or(model, |(_, bare)| bare);
        match get_tokenizer(bare)? {
            Known::O200kBase | Known::O200kHarmony => Some(Self::O200k),
            Known::Cl100kBase => Some(Self::Cl100k),
            _ => None,
        }
    }
}

/// Counts the tokens of texts as one model does.
pub struct Tokenizer {
    changes: Vec<Change>,
    splits: Vec<Split>,
    model: Model,
}

/// What is done to a text before it is split.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// To lower case.
    Lower,
    /// Full-width letters and signs become those of ASCII.
    Narrow,
    /// Something is put in front.
    Prepend(String),
    /// One text takes the place of another, everywhere.
    Replace(String, String),
}

/// What makes tokens of a piece.
enum Model {
    Merges(Merges),
    Words(Words),
    Unigram(Unigram),
}

impl Default for Model {
    fn default() -> Self {
        Self::Merges(Merges::of_bytes(Vocabulary::with_capacity(0)))
    }
}

impl Model {
    fn count(&self, piece: &str) -> u64 {
        match self {
            Self::Merges(merges) => merges.count(piece),
            Self::Words(words) => words.count(piece),
            Self::Unigram(unigram) => unigram.count(piece),
        }
    }
}

impl Change {
    fn apply<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        const WIDE: u32 = 0xff01 - 0x21;
        let narrow = |letter: char| match letter {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - WIDE).unwrap_or(letter),
            '\u{3000}' => ' ',
            other => other,
        };
        match self {
            Self::Lower => Cow::Owned(text.to_lowercase()),
            Self::Narrow if text.is_ascii() => text,
            Self::Narrow => Cow::Owned(text.chars().map(narrow).collect()),
            Self::Prepend(_) if text.is_empty() => text,
            Self::Prepend(front) => Cow::Owned(format!("{front}{text}")),
            Self::Replace(from, to) => Cow::Owned(text.replace(from.as_str(), to)),
        }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// One of OpenAI's, some 10 MB made in some 300 ms: not for a thread that others wait for.
    ///
    /// # Errors
    /// A sentence where the encoding cannot be loaded.
    pub fn openai(encoding: Encoding) -> Result<Self, String> {
        let (known, pattern, tokens) = match encoding {
            Encoding::O200k => (tiktoken_rs::o200k_base(), split::O200K, 199_998),
            Encoding::Cl100k => (tiktoken_rs::cl100k_base(), split::CL100K, 100_256),
        };
        let known = known.map_err(|error| error.to_string())?;
        let mut vocabulary = Vocabulary::with_capacity(tokens);
        for id in 0..tokens {
            let id = u32::try_from(id).map_err(|error| error.to_string())?;
            let token = known.decode_bytes(&[id]).map_err(|error| error.to_string())?;
            vocabulary.push(&token);
        }
        let model = Model::Merges(Merges::of_bytes(vocabulary));
        Ok(Self { changes: Vec::new(), splits: vec![Split::new(pattern)?], model })
    }

    /// The one that a Hugging Face `tokenizer.json` describes: byte-pair encodings of bytes or
    /// characters, WordPiece and Unigram.
    ///
    /// # Errors
    /// What it does that is not known here, as the end of a sentence.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        file::read(text)
    }

    /// How many tokens a text is.
    #[must_use]
    pub fn count(&self, text: &str) -> u64 {
        let text = self.changes.iter().fold(Cow::Borrowed(text), |text, change| change.apply(text));
        self.count_split(&self.splits, &text)
    }

    fn count_split(&self, splits: &[Split], text: &str) -> u64 {
        let Some((split, rest)) = splits.split_first() else { return self.model.count(text) };
        let text = match split.opens_with_space && !text.starts_with(' ') && !text.is_empty() {
            true => Cow::Owned(format!(" {text}")),
            false => Cow::Borrowed(text),
        };
        split.pieces(&text).map(|piece| self.count_split(rest, piece)).sum()
    }
}

#[cfg(test)]
mod tests;
