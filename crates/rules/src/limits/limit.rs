//! What may be used by one scope.

/// `limit`: what one scope may do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// `qps` with its `burst`.
    pub rate: Option<Rate>,
    /// `concurrency`: calls side by side, at least 1.
    pub concurrency: Option<u32>,
    /// `tokens_per_minute`: tokens read and written, at least 1.
    pub tokens_per_minute: Option<u64>,
}

/// Calls per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Above 0.
    pub qps: f64,
    /// Calls that may come at once after a pause, at least 1.
    pub burst: u32,
}

impl Rate {
    /// A rate whose burst is one second's worth, but at least one call.
    #[must_use]
    pub fn of(qps: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
        let burst = (qps as u32).max(1);
        Self { qps, burst }
    }
}

impl Limit {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The tighter of both, of each kind.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let rates = self.rate.into_iter().chain(other.rate);
        let least = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
        Self {
            rate: rates.min_by(|one, other| one.qps.total_cmp(&other.qps)),
            concurrency: least(self.concurrency, other.concurrency),
            tokens_per_minute: self.tokens_per_minute.into_iter().chain(other.tokens_per_minute).min(),
        }
    }
}
