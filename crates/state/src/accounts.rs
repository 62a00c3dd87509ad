//! What clients have used of their quotas: a budget of tokens and of money for each period.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Period;

use crate::Answer;

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Read and written.
    pub tokens: u64,
    /// In billionths of the currency's unit.
    pub cost: u64,
}

impl Amounts {
    /// Each with the other's.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost.saturating_add(other.cost) }
    }

    /// Each less the other's, at least 0.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), cost: self.cost.saturating_sub(other.cost) }
    }

    fn at_most(self, other: Self) -> Self {
        Self { tokens: self.tokens.min(other.tokens), cost: self.cost.min(other.cost) }
    }
}

/// What a call wants to put aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Refused unless all of it is there.
    pub least: Amounts,
    /// As much of it as is there is put aside.
    pub most: Amounts,
}

/// What a period may hold at most; `None` is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Billionths of the currency's unit.
    pub cost: Option<u64>,
}

/// How a period stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Used by calls that have ended.
    pub spent: Amounts,
    /// Put aside by calls under way.
    pub reserved: Amounts,
}

/// A sum before and after something was added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub before: Amounts,
    /// After.
    pub after: Amounts,
}

/// What one client has used. All calls are decided one after the other, so that a crowd lets in exactly
/// as many as fit.
///
/// While a store is out, calls go on: each process counts for itself what it lets in, and adds that
/// when the store is back.
pub trait Account: std::fmt::Debug + Send + Sync {
    /// Puts aside what a call may come to use; gives what was put aside, to be handed to
    /// [`Account::settle`] exactly once. An error says how the period stands: it has no room.
    ///
    /// A call that is dropped while a store's answer is on its way has put nothing aside.
    fn reserve(&self, period: Period, wish: Wish, limits: Limits) -> Answer<Result<Amounts, Standing>>;

    /// Gives back what was put aside, and adds what was used; says what the sum of what was used
    /// was before and is now, as far as this process knows. Never waits.
    fn settle(&self, period: Period, reserved: Amounts, used: Amounts) -> Change;

    /// How a period stands, as far as this process knows. Never waits.
    fn standing(&self, period: Period) -> Standing;

    /// Whether anything was ever heard of a period.
    fn knows(&self, period: Period) -> bool;
}

/// Accounts by the client's name and the currency of its money.
pub trait Accounts: std::fmt::Debug + Send + Sync {
    /// The account of a client in a currency. Money of another one is never added to it.
    fn of(&self, client: &Arc<str>, currency: &Arc<str>) -> Arc<dyn Account>;
}

/// Accounts in this process's memory.
#[derive(Debug, Default)]
pub struct InProcessAccounts;

impl Accounts for InProcessAccounts {
    fn of(&self, _: &Arc<str>, _: &Arc<str>) -> Arc<dyn Account> {
        Arc::new(InProcessAccount::default())
    }
}

/// An account in this process's memory.
#[derive(Debug, Default)]
pub struct InProcessAccount {
    /// The last used first: the period that runs, the one before it for calls that began in it, and what
    /// a clock that is set forth and back comes to.
    periods: Mutex<Vec<(Period, Standing)>>,
}

/// Periods remembered at most.
const MOST_PERIODS: usize = 4;

impl InProcessAccount {
    fn periods(&self) -> MutexGuard<'_, Vec<(Period, Standing)>> {
        self.periods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The standing of a period, moved to the front.
fn of(periods: &mut Vec<(Period, Standing)>, period: Period) -> Option<&mut Standing> {
    match periods.iter().position(|(known, _)| *known == period) {
        Some(0) => {}
        Some(at) => periods.get_mut(..=at)?.rotate_right(1),
        None => {
            periods.truncate(MOST_PERIODS - 1);
            periods.insert(0, (period, Standing::default()));
        }
    }
    periods.first_mut().map(|(_, standing)| standing)
}

impl Account for InProcessAccount {
    fn reserve(&self, period: Period, wish: Wish, limits: Limits) -> Answer<Result<Amounts, Standing>> {
        let mut periods = self.periods();
        let Some(standing) = of(&mut periods, period) else { return Answer::Ready(Ok(Amounts::default())) };
        let limit = Amounts { tokens: limits.tokens.unwrap_or(u64::MAX), cost: limits.cost.unwrap_or(u64::MAX) };
        let left = limit.less(standing.spent).less(standing.reserved);
        // A quota that is spent is spent, also for a call that would use next to nothing.
        let is_there = |left: u64, wanted: u64| left > 0 && wanted <= left;
        if !is_there(left.tokens, wish.least.tokens) || !is_there(left.cost, wish.least.cost) {
            return Answer::Ready(Err(*standing));
        }
        let taken = wish.most.at_most(left);
        standing.reserved = standing.reserved.plus(taken);
        Answer::Ready(Ok(taken))
    }

    fn settle(&self, period: Period, reserved: Amounts, used: Amounts) -> Change {
        let mut periods = self.periods();
        let Some(standing) = of(&mut periods, period) else { return Change::default() };
        let before = standing.spent;
        standing.reserved = standing.reserved.less(reserved);
        standing.spent = before.plus(used);
        Change { before, after: standing.spent }
    }

    fn standing(&self, period: Period) -> Standing {
        let periods = self.periods();
        periods.iter().find(|(known, _)| *known == period).map(|(_, standing)| *standing).unwrap_or_default()
    }

    fn knows(&self, period: Period) -> bool {
        self.periods().iter().any(|(known, _)| *known == period)
    }
}
