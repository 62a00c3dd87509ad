//! What counts tokens and is too large to be loaded before it is needed.

use std::sync::{Arc, OnceLock};

use dialect::{Encoding, Tokenizer};

/// OpenAI's encodings, each loaded when it is first asked for; some 10 MB each, and kept.
#[derive(Clone, Debug, Default)]
pub struct Vocabularies(Arc<[OnceLock<Option<Arc<Tokenizer>>>; 2]>);

impl Vocabularies {
    fn place(&self, encoding: Encoding) -> &OnceLock<Option<Arc<Tokenizer>>> {
        let [first, second] = &*self.0;
        match encoding {
            Encoding::O200k => first,
            Encoding::Cl100k => second,
        }
    }

    /// Whether [`Vocabularies::get`] takes no time.
    #[must_use]
    pub fn is_loaded(&self, encoding: Encoding) -> bool {
        self.place(encoding).get().is_some()
    }

    /// An encoding; loading it takes some 300 ms, which no worker has. `None` where it cannot be loaded,
    /// which its log line says.
    #[must_use]
    pub fn get(&self, encoding: Encoding) -> Option<Arc<Tokenizer>> {
        let load = || match Tokenizer::openai(encoding) {
            Ok(tokenizer) => Some(Arc::new(tokenizer)),
            Err(why) => {
                tracing::error!(encoding = encoding.as_str(), why, "the encoding cannot be loaded; tokens are guessed");
                None
            }
        };
        self.place(encoding).get_or_init(load).clone()
    }
}
