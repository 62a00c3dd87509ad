//! What was decided on one request's way, in the order in which it was.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::{Cached, Matched, Truncated};

/// A decision, and when it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted {
    /// From the request's arrival.
    pub at: Duration,
    /// What was decided.
    pub decision: Decision,
}

/// One decision. A closed set; its texts are names from the configuration or words of closed sets, and so bounded.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// A limit had no room: of whom, of what, and for how long at least. A batch call then waits for its turn.
    Limited {
        /// Of whom.
        scope: Scope,
        /// Of what.
        limit: Limit,
        /// Zero where that cannot be told.
        wait: Duration,
    },
    /// A wait in line began.
    Queued(Line),
    /// It was over after so long, in time or not.
    LeftQueue(Duration),
    /// A parameter policy changed a field of the body.
    Param {
        /// Its path.
        field: Box<str>,
        /// By which rule.
        by: Rule,
    },
    /// The token budget left something out of the prompt.
    Truncated(Box<Truncated>),
    /// No cache was asked.
    Bypassed(Bypass),
    /// What a cache came to.
    Cache(Cached),
    /// Of an embeddings call's inputs so many were stored, and so many were not.
    Partial {
        /// Found.
        hits: u32,
        /// Asked of an upstream.
        misses: u32,
    },
    /// A stored answer to the same question in other words; in `shadow` it was not served.
    Matched {
        /// The cosine of both questions' vectors.
        similarity: f32,
        /// Noted alone.
        is_shadow: bool,
        /// The guard that the verifier has overruled.
        overruled: Option<&'static str>,
    },
    /// The same call was in flight already: its answer was waited for.
    Joined,
    /// The route's split has chosen this upstream.
    Branch(Arc<str>),
    /// A copy went to this upstream.
    Mirrored(Arc<str>),
    /// So many tokens were put aside of the client's quota.
    Staked(u64),
    /// The quota had no room.
    OverQuota,
    /// An upstream was not asked.
    Skipped {
        /// `provider/model` as configured.
        upstream: Arc<str>,
        /// The reason.
        why: Skip,
    },
    /// One more try, after a wait.
    Waits {
        /// What came before.
        after: Trouble,
        /// The length of the wait.
        wait: Duration,
    },
    /// No further try: the route's retry budget is spent.
    RetryBudgetSpent,
    /// One of a provider's keys rests.
    KeyRests {
        /// The provider's name.
        provider: Arc<str>,
        /// Counted from 0, as written.
        key: u32,
        /// What befell it.
        why: Trouble,
    },
    /// An upstream rests, as it asked for.
    Rests(Arc<str>),
    /// A failure was softened.
    Degraded(StandIn),
    /// A stored answer to a question that is near was not served, by what withheld it: a guard, the margin, the
    /// verifier or its rest, or a look-up that did not come to an end or was not made.
    Withheld(&'static str),
    /// The question that the caller names does not stand in its last user message: that decides the answer whole.
    QueryElsewhere,
    /// So many more, which there was no room for.
    More(u32),
}

/// What a limit holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole gateway's.
    Gateway,
    /// The route's.
    Route,
    /// The client's.
    Client,
    /// The client's on the route.
    ClientOnRoute,
}

/// A limit of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Calls per second.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Calls side by side.
    Concurrency,
    /// None: others have waited longer.
    Turn,
}

/// A rule of a parameter policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `force`
    Force,
    /// `default`
    Default,
    /// `max`
    Max,
    /// `min`
    Min,
    /// `deny`: a null that said nothing is left out.
    Deny,
}

/// What an upstream, or a key of it, is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It failed.
    ServerError,
    /// It asked for fewer calls.
    Throttled,
    /// It was refused.
    Refused,
}

/// What a call waited in line for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Its limits.
    Limits,
    /// A place at this provider.
    Provider(Arc<str>),
}

/// Why no cache was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// The caller's `cache-control: no-cache`.
    NoCache,
    /// The caller's `cache-control: no-store`.
    NoStore,
    /// The call has side effects.
    SideEffects,
    /// No key can be made of the call.
    NoKey,
}

/// Why an upstream was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its breaker.
    BreakerOpen,
    /// An operator holds its breaker open.
    Held,
    /// It, or its key, was throttled.
    Resting,
    /// Its key was refused.
    KeyRefused,
    /// It had no place free.
    Full,
    /// Its vectors or scores do not go with those of the call's other parts.
    Unlike,
    /// Its context window.
    TooSmall,
}

/// What took a failure's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// A marked error.
    Error,
    /// A weak answer, marked as such.
    Weak,
    /// An old answer, marked as such.
    Stale,
}

/// One fact of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact<'a> {
    /// A word of a closed set.
    Word(&'static str),
    /// A configured name.
    Name(&'a Arc<str>),
    /// A path in a body.
    Text(&'a str),
    /// A count.
    Number(u64),
    /// A length of time.
    Time(Duration),
    /// A ratio.
    Ratio(f32),
    /// Yes.
    Yes,
}

/// A decision's facts, by name.
pub type Facts<'a> = SmallVec<[(&'static str, Fact<'a>); 3]>;

/// The words of decisions, each written once: the list of all is made of the same lines.
macro_rules! words {
    ($($name:ident $word:literal)*) => {
        #[derive(Clone, Copy)]
        enum What {
            $($name,)*
        }

        impl What {
            const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }

        impl Decision {
            /// Every word that [`Decision::what`] may say.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];
        }
    };
}

words! {
    Limited "limited"
    Queued "queued"
    LeftQueue "left_queue"
    ParamChanged "param_changed"
    Truncated "truncated"
    Cache "cache"
    Matched "matched"
    MatchWithheld "match_withheld"
    JoinedFlight "joined_flight"
    Split "split"
    Mirrored "mirrored"
    QuotaReserved "quota_reserved"
    QuotaRefused "quota_refused"
    UpstreamSkipped "upstream_skipped"
    RetryWaits "retry_waits"
    RetryBudgetSpent "retry_budget_spent"
    KeyRests "key_rests"
    UpstreamRests "upstream_rests"
    Degraded "degraded"
    QueryElsewhere "query_not_in_user_message"
    More "more"
}

impl Decision {
    /// Its word, the `what` of a request's decisions.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        self.word().as_str()
    }

    const fn word(&self) -> What {
        match self {
            Self::Limited { .. } => What::Limited,
            Self::Queued(_) => What::Queued,
            Self::LeftQueue(_) => What::LeftQueue,
            Self::Param { .. } => What::ParamChanged,
            Self::Truncated(_) => What::Truncated,
            Self::Bypassed(_) | Self::Cache(_) | Self::Partial { .. } => What::Cache,
            Self::Matched { .. } => What::Matched,
            Self::Joined => What::JoinedFlight,
            Self::Branch(_) => What::Split,
            Self::Mirrored(_) => What::Mirrored,
            Self::Staked(_) => What::QuotaReserved,
            Self::OverQuota => What::QuotaRefused,
            Self::Skipped { .. } => What::UpstreamSkipped,
            Self::Waits { .. } => What::RetryWaits,
            Self::RetryBudgetSpent => What::RetryBudgetSpent,
            Self::KeyRests { .. } => What::KeyRests,
            Self::Rests(_) => What::UpstreamRests,
            Self::Degraded(_) => What::Degraded,
            Self::Withheld(_) => What::MatchWithheld,
            Self::QueryElsewhere => What::QueryElsewhere,
            Self::More(_) => What::More,
        }
    }

    /// What else is to be said of it.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        use Fact::{Name, Number, Ratio, Text, Time, Word, Yes};
        let mut facts = Facts::new();
        let mut add = |name, fact| facts.push((name, fact));
        match self {
            Self::Limited { scope, limit, wait } => {
                add("scope", Word(scope.as_str()));
                add("limit", Word(limit.as_str()));
                add("wait_ms", Time(*wait));
            }
            Self::Queued(Line::Limits) => add("for", Word("limits")),
            Self::Queued(Line::Provider(provider)) => add("provider", Name(provider)),
            Self::LeftQueue(took) => add("waited_ms", Time(*took)),
            Self::Param { field, by } => {
                add("field", Text(field));
                add("by", Word(by.as_str()));
            }
            Self::Truncated(truncated) => {
                add("history", Number(truncated.history));
                add("retrieval", Number(truncated.retrieval));
                add("tokens", Number(truncated.tokens));
            }
            Self::Bypassed(why) => {
                add("result", Word(Cached::Bypass.as_str()));
                add("why", Word(why.as_str()));
            }
            Self::Cache(cached) => add("result", Word(cached.as_str())),
            Self::Partial { hits, misses } => {
                add("result", Word(Cached::Partial.as_str()));
                add("hits", Number((*hits).into()));
                add("misses", Number((*misses).into()));
            }
            Self::Matched { similarity, is_shadow, overruled } => {
                add("similarity", Ratio(*similarity));
                if let Some(guard) = overruled {
                    add("overruled", Word(guard));
                }
                if *is_shadow {
                    add(Matched::SHADOW, Yes);
                }
            }
            Self::Branch(upstream) | Self::Mirrored(upstream) | Self::Rests(upstream) => {
                add("upstream", Name(upstream));
            }
            Self::Staked(tokens) => add("tokens", Number(*tokens)),
            Self::Skipped { upstream, why } => {
                add("upstream", Name(upstream));
                add("why", Word(why.as_str()));
            }
            Self::Waits { after, wait } => {
                add("after", Word(after.as_str()));
                add("wait_ms", Time(*wait));
            }
            Self::KeyRests { provider, key, why } => {
                add("provider", Name(provider));
                add("key", Number((*key).into()));
                add("why", Word(why.as_str()));
            }
            Self::Degraded(by) => add("to", Word(by.as_str())),
            Self::Withheld(by) => add("by", Word(by)),
            Self::More(count) => add("decisions", Number((*count).into())),
            Self::Joined | Self::OverQuota | Self::RetryBudgetSpent | Self::QueryElsewhere => {}
        }
        facts
    }
}

impl Scope {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Route => "route",
            Self::Client => "client",
            Self::ClientOnRoute => "client_on_route",
        }
    }
}

impl Limit {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
            Self::Turn => "turn",
        }
    }
}

impl Rule {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Force => "force",
            Self::Default => "default",
            Self::Max => "max",
            Self::Min => "min",
            Self::Deny => "deny",
        }
    }
}

impl Trouble {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServerError => "server_error",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
        }
    }
}

impl Bypass {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCache => "no_cache",
            Self::NoStore => "no_store",
            Self::SideEffects => "side_effects",
            Self::NoKey => "no_key",
        }
    }
}

impl Skip {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker_open",
            Self::Held => "breaker_held",
            Self::Resting => "resting",
            Self::KeyRefused => "key_refused",
            Self::Full => "full",
            Self::Unlike => "unlike_other_parts",
            Self::TooSmall => "window_too_small",
        }
    }
}

impl StandIn {
    /// As records write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Weak => "weak_answer",
            Self::Stale => "stale_answer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_small() {
        assert!(size_of::<Noted>() <= 48, "{} bytes go with every request", size_of::<Noted>());
    }

    #[test]
    fn a_decision_says_what_and_why() {
        let skipped = Decision::Skipped { upstream: "cloud/m".into(), why: Skip::BreakerOpen };
        assert_eq!(skipped.what(), "upstream_skipped");
        let name: Arc<str> = "cloud/m".into();
        assert_eq!(skipped.facts().as_slice(), [("upstream", Fact::Name(&name)), ("why", Fact::Word("breaker_open"))]);
    }
}
