//! What was used, by whom, through which route, of which model, when, and for how much.

use std::sync::Arc;
use std::time::Duration;

/// The ledger books by quarters of an hour: every time zone in use differs from UTC by a multiple of one
/// (the least common are +05:45 and +12:45, IANA time zone database), so that the sums of a day or a
/// month anywhere are sums of whole quarters.
pub const QUARTER: u64 = 15 * 60;

/// What one call, or several alike, used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it arrived, from the Unix epoch.
    pub at: Duration,
    /// The client's configured name.
    pub client: Arc<str>,
    /// The route's configured name.
    pub route: Arc<str>,
    /// `provider/model` of the upstream that answered; empty where none did.
    pub upstream: Arc<str>,
    /// The model's name there; empty where none answered.
    pub model: Arc<str>,
    /// Of `sums.cost`; empty where no price is known.
    pub currency: Arc<str>,
    /// What was used.
    pub sums: Sums,
}

/// Counts, which saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls that were let in.
    pub requests: u64,
    /// Tokens read, cached ones included.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// The part of `tokens_in` that an upstream served from its prefix cache.
    pub tokens_cached: u64,
    /// In billionths of the currency's unit.
    pub cost: u64,
    /// Of `requests`, those that used something whose price nobody knows.
    pub unpriced: u64,
    /// Of `requests`, those that a cache of the gateway answered.
    pub cache_hits: u64,
    /// Tokens that those would have used.
    pub tokens_saved: u64,
    /// What those would have cost, in billionths of the currency's unit.
    pub cost_saved: u64,
    /// Milliseconds that those would have taken longer.
    pub ms_saved: u64,
}

impl Sums {
    /// Each count with the other's.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            tokens_cached: self.tokens_cached.saturating_add(other.tokens_cached),
            cost: self.cost.saturating_add(other.cost),
            unpriced: self.unpriced.saturating_add(other.unpriced),
            cache_hits: self.cache_hits.saturating_add(other.cache_hits),
            tokens_saved: self.tokens_saved.saturating_add(other.tokens_saved),
            cost_saved: self.cost_saved.saturating_add(other.cost_saved),
            ms_saved: self.ms_saved.saturating_add(other.ms_saved),
        }
    }
}

/// By what a report is broken down. Sums of different currencies always stand apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// By client.
    pub client: bool,
    /// By route.
    pub route: bool,
    /// By upstream, which is provider and model.
    pub upstream: bool,
    /// By model.
    pub model: bool,
    /// By day in UTC.
    pub day: bool,
}

/// What is asked of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// From here, from the Unix epoch; rounded down to a whole [`QUARTER`].
    pub from: Duration,
    /// Up to here, which is not in it; rounded up. `None`: no end.
    pub to: Option<Duration>,
    /// Broken down so.
    pub by: Columns,
    /// Of this client alone.
    pub client: Option<Arc<str>>,
}

/// One line of a report. What it is not broken down by is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Days since 1970-01-01 in UTC.
    pub day: Option<u32>,
    /// As of [`Entry`].
    pub client: Arc<str>,
    /// As of [`Entry`].
    pub route: Arc<str>,
    /// As of [`Entry`].
    pub upstream: Arc<str>,
    /// As of [`Entry`].
    pub model: Arc<str>,
    /// As of [`Entry`].
    pub currency: Arc<str>,
    /// The sums.
    pub sums: Sums,
}
