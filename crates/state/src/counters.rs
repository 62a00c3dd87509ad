//! Rates, tokens and calls side by side: what was used of each limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rules::limits::{Account, Aside, Decision, Kind, Terms, Want, decide};
use rules::shares::Priority;
use smallvec::SmallVec;

use crate::Answer;

/// What is limited.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The whole gateway.
    Gateway,
    /// A route, for all its callers together.
    Route(Arc<str>),
    /// A client, whichever of its keys it uses.
    Client(Arc<str>),
    /// A client on a route.
    ClientOn(Arc<str>, Arc<str>),
}

impl Scope {
    /// Whether clients share it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Gateway | Self::Route(_))
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway => f.write_str("the whole gateway"),
            Self::Route(route) => write!(f, "route `{route}`"),
            Self::Client(client) => write!(f, "client `{client}`"),
            Self::ClientOn(client, route) => write!(f, "client `{client}` on route `{route}`"),
        }
    }
}

/// What this process knows of one scope's account: all there is to know without a store, and what goes on
/// being counted while a store is out.
#[derive(Debug)]
pub struct Meter {
    /// What is limited; the name under which replicas share it.
    pub scope: Scope,
    account: OnItsLine,
}

/// An account that begins a cache line, with its lock, so that the cores which share it pass as few lines as can be.
#[derive(Debug)]
#[repr(align(64))]
struct OnItsLine(Mutex<Account>);

impl Meter {
    /// One of which nothing has been used.
    #[must_use]
    pub fn new(scope: Scope, terms: Arc<Terms>, now: Instant) -> Self {
        Self { scope, account: OnItsLine(Mutex::new(Account::new(terms, now))) }
    }

    /// Other terms hold from now on. What has been used stays used.
    pub fn comes_under(&self, terms: Arc<Terms>, now: Instant) {
        self.account().comes_under(terms, now);
    }

    /// The account, locked: for no longer than it takes to add up.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        self.account.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls side by side.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.account().running()
    }
}

/// What is used of limits, over all scopes that a call concerns.
///
/// While a store is out, calls go on: each process holds them to the limits by its own [`Meter`]s alone.
pub trait Counters: std::fmt::Debug + Send + Sync {
    /// Charges every meter with a call, or none of them: one decision. What was charged is to be handed to
    /// [`Counters::give_back`] exactly once. Everybody gives the meters in one order: the gateway's, the route's,
    /// the client's, the client's on the route.
    ///
    /// A call that is dropped while a store's answer is on its way has been charged with nothing.
    fn take(&self, meters: &[&Arc<Meter>], want: Want, now: Instant) -> Answer<Decision>;

    /// A call has ended that was charged: its place is free again, and of the tokens that it had put aside
    /// what it has not used; what it has used beyond them is owed. Rates are not given back, but for a void
    /// call's: of those limits that it shares with other clients. Never waits.
    fn give_back(&self, meters: &[&Arc<Meter>], priority: Priority, tokens: Settled, now: Instant);

    /// A call of the priority that was charged, and has put the first of `tokens` aside, turns out to want only the second
    /// of each meter: the others are there again. Never waits.
    fn spare(&self, meters: &[&Arc<Meter>], priority: Priority, tokens: (Aside, u64), now: Instant);

    /// Whether any call would be refused now, whatever its size, and how long, as far as this process knows.
    /// Takes nothing, and never waits.
    fn peek(&self, meter: &Meter, now: Instant) -> Option<(Kind, Duration)>;
}

/// Tokens of a call that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Put aside when it began, of each meter, as its [`Decision`] has it.
    pub aside: Aside,
    /// Used.
    pub used: u64,
    /// The call was refused behind its limits, before it cost anybody anything.
    pub is_void: bool,
}

/// Counters in this process's memory.
#[derive(Debug, Default)]
pub struct InProcessCounters;

impl Counters for InProcessCounters {
    fn take(&self, meters: &[&Arc<Meter>], want: Want, now: Instant) -> Answer<Decision> {
        // Locked in one order everywhere.
        let mut accounts: SmallVec<[MutexGuard<'_, Account>; 4]> = meters.iter().map(|meter| meter.account()).collect();
        Answer::Ready(decide(&mut accounts, &want, now))
    }

    fn give_back(&self, meters: &[&Arc<Meter>], priority: Priority, tokens: Settled, now: Instant) {
        for (at, meter) in meters.iter().enumerate() {
            let mut account = meter.account();
            account.ended(priority);
            account.settle(priority, tokens.aside.of(at), tokens.used, now);
            if tokens.is_void && meter.scope.is_shared() {
                account.unspend(priority, now);
            }
        }
    }

    fn spare(&self, meters: &[&Arc<Meter>], priority: Priority, (aside, wanted): (Aside, u64), now: Instant) {
        for (at, meter) in meters.iter().enumerate() {
            meter.account().spare(priority, aside.of(at), wanted, now);
        }
    }

    fn peek(&self, meter: &Meter, now: Instant) -> Option<(Kind, Duration)> {
        meter.account().is_empty(now)
    }
}

#[cfg(test)]
mod tests {
    use base::Clock;
    use rules::limits::Limit;

    use super::*;

    #[test]
    fn the_lock_of_an_account_begins_a_cache_line_and_the_account_follows_it() {
        let meter = Meter::new(Scope::Gateway, Terms::new(Limit::default(), false), Clock.now());
        let lock = std::ptr::from_ref(&meter.account.0).addr();
        assert_eq!(lock % 64, 0);
        let before = std::ptr::from_ref(&*meter.account()).addr() - lock;
        assert!(before <= 8, "{before} bytes");
    }
}
