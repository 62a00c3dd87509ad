//! What a call may come to use, as far as its body tells: the one place that limits, quotas and `explain` ask.

use base::Usage;

use super::attached::{self, Attached};
use super::{Ask, Chat, View};
use crate::images::{self, ATTACHMENT};

/// Bytes of base64 that are a token of sound: OpenAI's models count 10 tokens a second, of which a compressed recording
/// takes 8 KB or more.
const SOUND: u64 = 1_000;

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

/// A field of a call that says how much may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// `max_tokens` under any of its names.
    Limit,
    /// `n`
    Choices,
    /// `best_of`
    Drafts,
    /// `thinking_budget`
    Thinking,
}

impl Amount {
    /// A name of the field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "max_tokens",
            Self::Choices => "n",
            Self::Drafts => "best_of",
            Self::Thinking => "thinking_budget",
        }
    }
}

impl Chat {
    /// With what `ruled` makes of each amount that is written.
    fn ruled(&self, ruled: impl Fn(Amount, Option<u64>) -> Option<u64>) -> Self {
        let prompts = self.prompts.max(1);
        let choices = ruled(Amount::Choices, self.n).unwrap_or(1).max(1);
        // As many as choices are wanted where nothing else is said.
        let drafts = ruled(Amount::Drafts, self.best_of).unwrap_or(choices).max(choices);
        Self {
            max_tokens: ruled(Amount::Limit, self.max_tokens),
            choices: choices.saturating_mul(prompts),
            drafts: drafts.saturating_mul(prompts),
            thinking: ruled(Amount::Thinking, Some(self.thinking).filter(|most| *most > 0)).unwrap_or_default(),
            ..*self
        }
    }

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
    pub fn estimate(&self, image: impl Fn() -> u64) -> Estimate {
        self.estimate_with(image, |_, written| written)
    }

    /// What the call may come to use, if the fields that say how much is written (`max_tokens`, `n`, `best_of`,
    /// `thinking_budget`) become what `ruled` makes of what is written in them. `image` is asked for what an image is
    /// worth, where there is one.
    #[must_use]
    pub fn estimate_with(
        &self,
        image: impl Fn() -> u64,
        ruled: impl Fn(Amount, Option<u64>) -> Option<u64>,
    ) -> Estimate {
        let units = match &self.view {
            View::Rerank(view) => view.units(),
            _ => 0,
        };
        Estimate { prompt: self.prompt_estimate(image), written: self.written(ruled), units }
    }

    fn written(&self, ruled: impl Fn(Amount, Option<u64>) -> Option<u64>) -> Written {
        match &self.view {
            View::Chat(chat) | View::Completions(chat) => Written::of(chat.ruled(ruled).most_written()),
            View::Responses(most) => Written::of(ruled(Amount::Limit, *most)),
            View::Embeddings(_) | View::Rerank(_) | View::Pass => Written::Nothing,
        }
    }

    /// Tokens of the prompt at most, by the size of the body. An image counts as what `image` says, a file as
    /// [`ATTACHMENT`], be it a URL or a `data:` URL of whatever size. A reranker reads the query with each document
    /// anew: see [`crate::rerank::View::pairs`].
    #[must_use]
    pub fn prompt_estimate(&self, image: impl Fn() -> u64) -> u64 {
        if self.content_type.is_some() {
            return 0;
        }
        if let View::Rerank(view) = &self.view {
            return view.pairs(&self.body);
        }
        let (mut tokens, mut from) = (0_u64, 0);
        for (what, range) in attached::all(&self.body) {
            let worth = match what {
                Attached::Image => image(),
                Attached::File => ATTACHMENT,
                Attached::Sound => ATTACHMENT.max(range.len() as u64 / SOUND),
            };
            let text = self.body.get(from..range.start).unwrap_or_default();
            tokens = tokens.saturating_add(base::estimate(text)).saturating_add(worth);
            from = range.end;
        }
        tokens.saturating_add(base::estimate(self.body.get(from..).unwrap_or_default()))
    }

    /// Whether images, files or sounds may be in it, which can be worth more tokens than they take bytes.
    #[must_use]
    pub fn has_attachments(&self) -> bool {
        self.content_type.is_none() && attached::any(&self.body)
    }

    /// What a whole answer of a model has used: the upstream's word, else a guess that errs high.
    #[must_use]
    pub fn used(&self, answer: &crate::Answer, model: &str) -> Usage {
        answer.usage.unwrap_or_else(|| {
            let is_text = self.written(|_, written| written) != Written::Nothing;
            let completion = if is_text { base::estimate(&answer.body) } else { 0 };
            Usage {
                prompt: self.prompt_estimate(|| images::worth(std::iter::once(model))),
                completion,
                estimated: true,
                ..Usage::default()
            }
        })
    }
}
