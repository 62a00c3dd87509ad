//! Wire formats without I/O: a caller's bytes become an [`Ask`], an upstream's bytes become an
//! [`Answer`] or pass a [`Decode`]r, each fault gets its class.
//!
//! The rule that everything here serves: **what nothing edits leaves as it came, to the byte.**
//! Bodies are read once by a borrowing scanner ([`json`]), edits are spliced into the original
//! bytes, answers stay bytes.
//!
//! A provider is one file in [`protocols`], one line in [`dialect`] and one folder of golden files.

mod answerer;
pub mod ask;
pub mod canonical;
pub mod chat;
pub mod embeddings;
pub mod errors;
pub mod images;
pub mod json;
mod keyed;
mod object;
pub mod protocols;
pub mod rerank;
mod spent;
pub mod sse;
pub mod texts;
mod tokens;

use base::{Endpoint, Fault, Refusal, Usage};
use bytes::Bytes;

pub use answerer::model_in;
pub use ask::{Ask, View};
pub use spent::usage_in;
pub use tokens::{Encoding, Tokenizer, load_vocabulary};

/// The protocols that a provider can be configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// OpenAI and everything that speaks like it.
    OpenAi,
    /// Azure OpenAI: deployments in the path, `api-key`, `api-version`.
    AzureOpenAi,
    /// Ollama's own API (`/api/chat`, `/api/embed`).
    Ollama,
    /// Cohere v1 or v2 rerank and embed.
    Cohere,
    /// Jina rerank and embeddings.
    Jina,
    /// Voyage rerank and embeddings.
    Voyage,
    /// Hugging Face text-embeddings-inference, its own routes.
    Tei,
}

impl Protocol {
    /// Every protocol, in the order in which documents list them.
    pub const ALL: [Self; 7] =
        [Self::OpenAi, Self::AzureOpenAi, Self::Ollama, Self::Cohere, Self::Jina, Self::Voyage, Self::Tei];

    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::AzureOpenAi => "azure-openai",
            Self::Ollama => "ollama",
            Self::Cohere => "cohere",
            Self::Jina => "jina",
            Self::Voyage => "voyage",
            Self::Tei => "tei",
        }
    }
}

/// The dialect of a protocol.
#[must_use]
pub fn dialect(protocol: Protocol) -> &'static dyn Dialect {
    match protocol {
        Protocol::OpenAi => &protocols::openai::OpenAi,
        Protocol::AzureOpenAi => &protocols::azure::Azure,
        Protocol::Ollama => &protocols::ollama::Ollama,
        Protocol::Cohere => &protocols::cohere::Cohere,
        Protocol::Jina => &protocols::jina::Jina,
        Protocol::Voyage => &protocols::voyage::Voyage,
        Protocol::Tei => &protocols::tei::Tei,
    }
}

/// How a provider wants to be shown its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `authorization: Bearer KEY`
    Bearer,
    /// The key alone in a header of this (lower-case) name.
    Header(&'static str),
}

/// What a rerank upstream's scores mean (`score` of the provider).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Score {
    /// 0..1 already: passed on.
    #[default]
    Probability,
    /// Unbounded: squeezed by the logistic function.
    Logit,
}

/// What becomes of embedding inputs that came as token ids (`token_arrays` of the provider).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenArrays {
    /// Passed at first; decoded once the upstream has refused them.
    #[default]
    Auto,
    /// Always passed.
    Pass,
    /// Always decoded to text.
    Decode,
}

/// Where a call goes, as far as its path depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The endpoint that the caller asked for.
    pub endpoint: Endpoint,
    /// The model's name at the provider.
    pub model: &'a str,
    /// `api_version` of the provider.
    pub api_version: Option<&'a str>,
}

/// What an upstream wants to see, as far as the body depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The model's name at the provider.
    pub model: &'a str,
    /// What its rerank scores mean.
    pub score: Score,
    /// Ask for usage in streams even where the caller did not.
    pub ask_usage: bool,
    /// Turn token ids into text.
    pub decode_tokens: bool,
    /// The base URL's path as configured (decides between Cohere's v1 and v2).
    pub base_path: &'a str,
}

/// A request body as it goes out.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The body.
    pub body: Bytes,
    /// What the gateway itself put in, so that a refusal of it is not the caller's fault.
    pub added: Added,
}

/// What the gateway itself added to or changed in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// `stream_options.include_usage`
    pub stream_options: bool,
    /// The body still carries token ids, which some upstreams refuse.
    pub token_arrays: bool,
}

/// An upstream's refusal as it came, with at most 4 MiB of its body.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// HTTP status.
    pub status: u16,
    /// Headers of interest: `retry-after`, `retry-after-ms`, `x-ratelimit-reset*`, …
    pub headers: &'a http::HeaderMap,
    /// The body, decompressed.
    pub body: &'a [u8],
    /// The wall clock since the Unix epoch, for `retry-after` dates.
    pub wall: std::time::Duration,
}

/// A whole, successful answer in the caller's form.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The body in the form that the caller asked for.
    pub body: Bytes,
    /// What it consumed, where the upstream said so.
    pub usage: Option<Usage>,
    /// True when the body is an SSE stream made of a whole answer.
    pub is_stream: bool,
    /// Embeddings: the length of every vector, so that vector spaces can be guarded.
    pub dimension: Option<usize>,
}

/// One wire format. Pure and synchronous; `&'static` values without state.
pub trait Dialect: Send + Sync + std::fmt::Debug {
    /// Whether this protocol has such an endpoint at all.
    fn speaks(&self, endpoint: Endpoint) -> bool;

    /// How it wants its key.
    fn auth(&self) -> Auth {
        Auth::Bearer
    }

    /// The number of inputs (embeddings: texts, rerank: documents) that the provider takes in one
    /// call by default, where a larger call may be split; `None` where it names no bound or where
    /// the inputs belong together.
    fn max_inputs(&self, _endpoint: Endpoint) -> Option<usize> {
        None
    }

    /// Whether its embeddings take token ids. Where not, `encode` puts texts in their place whatever
    /// the target says.
    fn takes_token_ids(&self) -> bool {
        false
    }

    /// The path and query at the provider: `base` is the configured base URL's path and query as
    /// written (`/v1`, `/`, `/x?api-version=2`). Never yields `//` or a doubled version.
    ///
    /// # Errors
    /// A sentence for `check` when that base cannot work.
    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String>;

    /// The request's body for one upstream.
    ///
    /// # Errors
    /// A refusal when the caller's body cannot be said in this protocol.
    fn encode(&self, ask: &Ask, target: &Target<'_>) -> Result<Encoded, Refusal>;

    /// Judges a whole 2xx JSON answer and puts it into the form that the caller asked for
    /// (`ask.stream`: an SSE body; embeddings: the encoding asked for; rerank: the unified form).
    ///
    /// # Errors
    /// The fault when the body is not the protocol's, or carries an error object.
    fn answer(&self, ask: &Ask, target: &Target<'_>, headers: &http::HeaderMap, body: Bytes) -> Result<Answer, Fault>;

    /// Classes an answer whose status is not 2xx.
    fn fault(&self, ask: &Ask, refused: &Refused<'_>) -> Fault;

    /// A reader for a streamed answer to `ask`, whose output is the caller's SSE.
    fn decoder(&self, ask: &Ask, target: &Target<'_>) -> Box<dyn Decode>;
}

/// Reads one streamed answer. Fed byte by byte or all at once it does the same.
pub trait Decode: Send {
    /// Takes what arrived and returns what goes to the caller: whole events only, possibly none.
    /// Once [`Progress::fault`] is set nothing more comes out.
    fn feed(&mut self, chunk: Bytes) -> Bytes;

    /// The upstream's body has ended cleanly: returns what is still owed to the caller (the last
    /// event, a supplied `[DONE]`, …). Sets [`Progress::fault`] to a [`base::Kind::Cut`] when the
    /// stream ended without finish reason and without `[DONE]`.
    fn finish(&mut self) -> Bytes;

    /// What is known so far.
    fn progress(&self) -> &Progress;
}

/// What a stream has shown so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Something of substance came: a non-empty delta, a tool call, a finish reason.
    pub content: bool,
    /// Every choice has its finish reason.
    pub finished: bool,
    /// `[DONE]` (or the protocol's own end) came or was supplied: what follows is not read.
    pub done: bool,
    /// The upstream's last word on usage.
    pub usage: Option<Usage>,
    /// That word as it was written, where the caller is not shown it: others may be given the answer who are. Empty where
    /// there is none.
    pub unshown_usage: String,
    /// Characters of text delivered, for an estimate where usage never comes.
    pub text_chars: u64,
    /// Those that had been delivered when usage was told last. What came after it may not be in it: some servers tell
    /// usage at the beginning.
    pub told_at: u64,
    /// An error object, invalid bytes or garbage: the stream has failed.
    pub fault: Option<Fault>,
}

impl Progress {
    fn told(&mut self, usage: Usage) {
        self.usage = Some(usage);
        self.told_at = self.text_chars;
    }

    /// The prompt alone was counted: nothing that was written is in it.
    fn told_prompt(&mut self, usage: Usage) {
        self.usage = Some(usage);
        self.told_at = 0;
    }

    /// Tokens of so many characters of an answer, for want of a count.
    const fn guess(chars: u64) -> u64 {
        chars.div_ceil(2)
    }

    /// What the stream has used so far: the upstream's word, and of what it says nothing about a guess that errs high;
    /// `prompt` is that of the prompt.
    #[must_use]
    pub fn used(&self, prompt: u64) -> Usage {
        match self.usage {
            Some(told) if self.text_chars > self.told_at => {
                let completion = told.completion.saturating_add(Self::guess(self.text_chars - self.told_at));
                Usage { completion, estimated: true, ..told }
            }
            Some(told) => told,
            None => Usage { prompt, completion: Self::guess(self.text_chars), cached: 0, units: 0, estimated: true },
        }
    }
}
