//! What a call may come to use, as far as its body tells: the one place that limits, quotas and `explain` ask.

use std::sync::LazyLock;

use base::Usage;
use memchr::memmem::Finder;

use super::{Ask, Chat, View};

/// What stands between the type and the bytes of a `data:` URL (RFC 2397).
const DATA: &str = ";base64,";

/// What finds it; made once, for making it costs as much as finding nothing in a usual prompt.
static FIND_DATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(DATA));

/// Tokens of an image at most, by what most providers count: OpenAI's high detail takes 85 and 170 for each
/// of up to 8 tiles, Anthropic's largest images some 1,600.
pub const ATTACHMENT: u64 = 1_600;

/// What one call may come to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens read, at most; 0 for an upload, which is no text.
    pub prompt: u64,
    /// Tokens written.
    pub written: Written,
    /// Search units; 0 for everything but rerank.
    pub units: u64,
}

/// Tokens that a call's answer may be long, with what is thought before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It writes no text.
    Nothing,
    /// So many: the caller has said so.
    AtMost(u64),
    /// Nobody has said.
    Unbounded,
}

impl Written {
    const fn of(bound: Option<u64>) -> Self {
        match bound {
            Some(most) => Self::AtMost(most),
            None => Self::Unbounded,
        }
    }

    /// The bound, 0 where nothing is written.
    #[must_use]
    pub const fn bound(self) -> Option<u64> {
        match self {
            Self::Nothing => Some(0),
            Self::AtMost(most) => Some(most),
            Self::Unbounded => None,
        }
    }
}

impl Estimate {
    /// Tokens that the call may read and write, as far as they are bounded.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.written.bound().unwrap_or_default())
    }

    /// The parts of one call together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let written = match (self.written.bound(), other.written.bound()) {
            (Some(0), Some(0)) => Written::Nothing,
            (Some(one), Some(other)) => Written::AtMost(one.saturating_add(other)),
            _ => Written::Unbounded,
        };
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            written,
            units: self.units.saturating_add(other.units),
        }
    }
}

impl Chat {
    /// Tokens that all answers together may be long, where the caller has said so.
    ///
    /// `best_of` has the upstream write that many and give the best `n` of them (OpenAI's reference of legacy
    /// completions). A `thinking_budget` comes on top: where it is known (Alibaba Cloud Model Studio, Qwen3),
    /// `max_tokens` bounds the answer without what is thought. Other budgets, as OpenRouter's
    /// `reasoning.max_tokens`, are a part of `max_tokens`.
    #[must_use]
    pub const fn most_written(&self) -> Option<u64> {
        match self.max_tokens {
            Some(most) => Some(most.saturating_add(self.thinking).saturating_mul(self.drafts)),
            None => None,
        }
    }
}

impl Ask {
    /// What the call may come to use.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate_with(|written| written)
    }

    /// What the call may come to use, if the limit of its answer's tokens becomes what `limit` makes of the one that
    /// is written.
    #[must_use]
    pub fn estimate_with(&self, limit: impl Fn(Option<u64>) -> Option<u64>) -> Estimate {
        let units = match &self.view {
            View::Rerank(view) => view.units(),
            _ => 0,
        };
        Estimate { prompt: self.prompt_estimate(), written: self.written(limit), units }
    }

    fn written(&self, limit: impl Fn(Option<u64>) -> Option<u64>) -> Written {
        match &self.view {
            View::Chat(chat) | View::Completions(chat) => {
                Written::of(Chat { max_tokens: limit(chat.max_tokens), ..*chat }.most_written())
            }
            View::Responses(most) => Written::of(limit(*most)),
            View::Embeddings(_) | View::Rerank(_) | View::Pass => Written::Nothing,
        }
    }

    /// Tokens of the prompt at most, by the size of the body. An image or a file that stands in it as a `data:`
    /// URL counts as [`ATTACHMENT`], whatever its bytes. A reranker reads the query with each document anew: see
    /// [`crate::rerank::View::pairs`].
    #[must_use]
    pub fn prompt_estimate(&self) -> u64 {
        if self.content_type.is_some() {
            return 0;
        }
        if let View::Rerank(view) = &self.view {
            return view.pairs(&self.body);
        }
        let (mut rest, mut tokens) = (&self.body[..], 0_u64);
        while let Some((text, data)) = FIND_DATA.find(rest).and_then(|at| rest.split_at_checked(at)) {
            let end = memchr::memchr(b'"', data).unwrap_or(data.len());
            tokens = tokens.saturating_add(base::estimate(text)).saturating_add(ATTACHMENT);
            rest = data.get(end..).unwrap_or_default();
        }
        tokens.saturating_add(base::estimate(rest))
    }

    /// What a whole answer has used: the upstream's word, else a guess that errs high.
    #[must_use]
    pub fn used(&self, answer: &crate::Answer) -> Usage {
        answer.usage.unwrap_or_else(|| {
            let is_text = self.written(|written| written) != Written::Nothing;
            let completion = if is_text { base::estimate(&answer.body) } else { 0 };
            Usage { prompt: self.prompt_estimate(), completion, estimated: true, ..Usage::default() }
        })
    }
}
