//! How much is left of limits, for a caller to know.

use super::Account;
use super::bucket::{Left, Levels, Measure, Rest};

/// How much is left of the tightest limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Of calls: the rate with the least left; where there is none, the calls side by side.
    pub requests: Option<Left>,
    /// Of tokens.
    pub tokens: Option<Left>,
}

/// The tightest limits of the accounts that were looked at. When they are whole again is reckoned for them alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tightest {
    requests: Option<Rest>,
    tokens: Option<Rest>,
    places: Option<Left>,
}

impl Tightest {
    pub fn look(&mut self, account: &Account, levels: &Levels) {
        let tighter = |one: &mut Option<Rest>, measure: Option<Measure>, level: f64| {
            let Some(other) = measure.map(|measure| Rest::of(measure, level)) else { return };
            if one.is_none_or(|one| other.is_tighter(&one)) {
                *one = Some(other);
            }
        };
        tighter(&mut self.requests, account.terms.measures.requests, levels.requests);
        tighter(&mut self.tokens, account.terms.measures.tokens, levels.tokens);
        let key = |left: &Left| (left.remaining, std::cmp::Reverse(left.reset));
        self.places = self.places.into_iter().chain(account.places()).min_by_key(key);
    }

    pub fn allowance(self) -> Allowance {
        Allowance { requests: self.requests.map(Rest::left).or(self.places), tokens: self.tokens.map(Rest::left) }
    }
}
