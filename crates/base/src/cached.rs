//! What caches come to, and what they save.

use std::time::Duration;

use crate::{Cost, Usage};

/// What a call's cache came to. A closed set: `x-mai-cache`, and `cache` in metrics and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cached {
    /// A stored answer to the same call.
    Hit,
    /// A stored answer to the same question in other words.
    Semantic,
    /// Some inputs' vectors were stored, the others came from an upstream.
    Partial,
    /// An expired answer, since the upstreams failed.
    Stale,
    /// The answer of a call that was in flight already.
    Shared,
    /// The first answer to the same idempotency key.
    Replay,
    /// Nothing was stored: an upstream was asked.
    Miss,
    /// Nothing was looked for: by the caller's wish, or since the call cannot be told from others.
    Bypass,
}

impl Cached {
    /// Every value, in the order of the reference table.
    pub const ALL: [Self; 8] =
        [Self::Hit, Self::Semantic, Self::Partial, Self::Stale, Self::Shared, Self::Replay, Self::Miss, Self::Bypass];

    /// As headers, metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// What it says, for the reference.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.row().1
    }

    /// Whether the answer came without an upstream call of the request's own.
    #[must_use]
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::Semantic | Self::Stale | Self::Shared | Self::Replay)
    }

    const fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Hit => ("hit", "a stored answer to the same call"),
            Self::Semantic => ("semantic", "a stored answer to the same question in other words"),
            Self::Partial => ("partial", "some inputs' vectors were stored, the others came from an upstream"),
            Self::Stale => ("stale", "an expired answer, since the upstreams failed"),
            Self::Shared => ("shared", "the answer of the same call, which was in flight already"),
            Self::Replay => ("replay", "the first answer to the same idempotency key"),
            Self::Miss => ("miss", "nothing was stored, an upstream was asked"),
            Self::Bypass => {
                ("bypass", "nothing was looked for: by the caller's wish, or since no key can be made of the call")
            }
        }
    }
}

/// A stored answer to the same question in other words, served or, by `shadow`, only noted.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    /// What names it, as `x-mai-cache-id` does.
    pub id: Box<str>,
    /// The cosine of both questions' vectors.
    pub similarity: f32,
}

impl Matched {
    /// The word for one that was only noted: in decisions, and where requests are searched by what their cache came to.
    pub const SHADOW: &str = "shadow";
}

/// What an answer that was not asked for again would have taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Tokens.
    pub usage: Usage,
    /// What they cost when they were used; `None` at a price that nobody knew.
    pub cost: Option<Cost>,
    /// How long the answer took.
    pub took: Duration,
}
