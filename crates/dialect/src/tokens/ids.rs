//! Token ids and texts: the vocabularies of OpenAI's models.

use tiktoken_rs::bpe_for_tokenizer;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// A token id that the vocabulary does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownToken;

/// Loads the vocabulary that [`decode`] needs for a model, some 10 MB in some 100 ms; after the first
/// time it costs nothing. Whoever must not be held up that long has it done elsewhere beforehand.
pub fn load_vocabulary(model: &str) {
    // Where it cannot be loaded, `decode` says so.
    drop(bpe_for_tokenizer(vocabulary_of(model)));
}

fn vocabulary_of(model: &str) -> Tokenizer {
    get_tokenizer(model).unwrap_or(Tokenizer::Cl100kBase)
}

/// The text behind token ids, in the vocabulary of a model as its caller names it.
///
/// LangChain takes `cl100k_base` for every model name that tiktoken does not know, so that is what
/// the ids of such a call mean. A vocabulary (some 10 MB) is loaded when first used and then kept
/// by tiktoken itself. Ids cut within a character decode to U+FFFD: a text has to be valid UTF-8.
///
/// # Errors
/// For an id outside the vocabulary.
pub(crate) fn decode(model: &str, ids: &[u32]) -> Result<String, UnknownToken> {
    let vocabulary = bpe_for_tokenizer(vocabulary_of(model)).map_err(|_| UnknownToken)?;
    let bytes = vocabulary.decode_bytes(ids).map_err(|_| UnknownToken)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_unknown_models_are_cl100k() {
        // "hello world" in cl100k_base.
        assert_eq!(decode("bge-m3", &[15339, 1917]).unwrap(), "hello world");
        assert_eq!(decode("text-embedding-3-small", &[15339, 1917]).unwrap(), "hello world");
    }

    #[test]
    fn an_id_outside_the_vocabulary_is_named_as_such() {
        assert_eq!(decode("bge-m3", &[4_000_000_000]), Err(UnknownToken));
    }
}
