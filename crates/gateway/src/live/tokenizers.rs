//! What counts tokens and is too large to be loaded before it is needed.

use std::sync::{Arc, OnceLock};

use dialect::{Encoding, Tokenizer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// OpenAI's encodings, each loaded when it is first asked for; some 10 MB each, and kept.
#[derive(Clone, Debug)]
pub struct Tokenizers(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    o200k: OnceLock<Option<Arc<Tokenizer>>>,
    cl100k: OnceLock<Option<Arc<Tokenizer>>>,
    /// One for each core.
    turns: Arc<Semaphore>,
}

impl Default for Tokenizers {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (o200k, cl100k) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Shelf { o200k, cl100k, turns: Arc::new(Semaphore::new(cores)) }))
    }
}

impl Tokenizers {
    fn place(&self, encoding: Encoding) -> &OnceLock<Option<Arc<Tokenizer>>> {
        match encoding {
            Encoding::O200k => &self.0.o200k,
            Encoding::Cl100k => &self.0.cl100k,
        }
    }

    /// A turn to count a large prompt: as many at a time as there are cores. `None` never comes.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.turns.clone().acquire_owned().await.ok()
    }

    /// Whether [`Tokenizers::get`] takes no time.
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
