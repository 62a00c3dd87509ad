//! What is cached: `cache` of a route and of a client.

use std::sync::Arc;
use std::time::Duration;

use dialect::chat::Pattern;

/// `cache` of the process: what all caches together may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBounds {
    /// `memory`
    pub memory: u64,
    /// `disk`; 0 keeps nothing there.
    pub disk: u64,
}

/// `cache` of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Caching {
    /// `mode`
    pub mode: CacheMode,
    /// `ttl`: how long an answer is served.
    pub ttl: Duration,
    /// `scope`, where the client says nothing else.
    pub scope: CacheScope,
    /// `kb_version`, where neither the caller nor an operator says another.
    pub kb_version: Option<Arc<str>>,
    /// `normalize`: texts that differ only in invisible ways share a vector.
    pub normalize: bool,
    /// `semantic`, with `mode: semantic` alone.
    pub semantic: Option<Arc<Semantic>>,
}

impl Caching {
    /// Whether anything is cached at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.mode != CacheMode::Off
    }
}

/// By what an answer is known again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// Nothing is cached.
    #[default]
    Off,
    /// By the same call.
    Exact,
    /// By the same call, and by the same question in other words.
    Semantic,
}

impl CacheMode {
    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Exact => "exact",
            Self::Semantic => "semantic",
        }
    }
}

/// Who sees what was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheScope {
    /// The client that caused it to be stored, and nobody else.
    #[default]
    Client,
    /// Every client of the route whose scope it is too.
    Route,
}

impl CacheScope {
    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Route => "route",
        }
    }
}

/// `cache.semantic`: how the same question in other words is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Semantic {
    /// `route`: the embedding route that questions are compared by.
    pub route: Arc<str>,
    /// `threshold`: the least cosine similarity, above 0 and up to 1.
    pub threshold: f64,
    /// `margin`: how far a match must stand above the best entry that is a different question.
    pub margin: f64,
    /// `timeout`: what a lookup may take.
    pub timeout: Duration,
    /// `question`: a regular expression whose one group is the question inside the prompt.
    pub question: Option<Pattern>,
    /// `multi_turn`
    pub multi_turn: MultiTurn,
    /// `max_temperature`: calls with a written temperature above it are not matched.
    pub max_temperature: f64,
    /// `verify`
    pub verify: Option<Verify>,
    /// `shadow`: record what would have hit, and serve nothing.
    pub shadow: bool,
}

/// What becomes of calls with earlier turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MultiTurn {
    /// They are not matched.
    #[default]
    Bypass,
    /// They are matched where the earlier turns are the same.
    Exact,
}

/// `semantic.verify`: asks another model whether two questions are the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Verify {
    /// `route`: of rerank or chat.
    pub route: Arc<str>,
    /// `min_score`: the least score of a rerank route.
    pub min_score: f64,
    /// `overrules`: where these guards alone call a question a different one, that model is asked as well.
    pub overrules: Arc<[Overruled]>,
}

/// A guard that another model may overrule. It compares words, and the same may be said in others; guards that compare
/// what is said with them (numbers, dates, negation, direction, …) are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overruled {
    /// Another action.
    Action,
    /// Another thing or person.
    Entity,
    /// More, or less, is asked about.
    Scope,
}

impl Overruled {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Action, Self::Entity, Self::Scope];

    /// As configuration and metrics write the guard.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Entity => "entity",
            Self::Scope => "scope",
        }
    }

    /// By that word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guard| guard.as_str() == word)
    }
}
