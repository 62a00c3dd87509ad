//! What outlives reloads of one client's quota: its account, and which shares of it were warned of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{Clock, Period};
use rules::quota::{self, Terms};
use state::{Account, Amounts};

use super::{Owner, TellsBefore, Unknown};
use crate::alerts::{Alert, Alerts};

/// The account of one client's quota. It stays the same through reloads as long as money is of the same
/// currency, and periods begin and end where they did: under any other terms the sums would mean
/// something else.
#[derive(Debug)]
pub(crate) struct QuotaAccount {
    /// Tells it from every other one of this process; never 0.
    pub id: u64,
    client: Arc<str>,
    account: Arc<dyn Account>,
    watch: Mutex<Watch>,
    alerts: Arc<Alerts>,
    before: Option<Arc<dyn TellsBefore>>,
    /// Since when it counts, by the wall clock and by the one that is never set.
    began: (Duration, Instant),
    /// Held by whoever enters a period.
    entering: Mutex<()>,
}

/// Clocks that differ by less tell the same time.
const SAME: Duration = Duration::from_secs(60);

/// What is warned of.
#[derive(Debug)]
struct Watch {
    /// Those in force.
    terms: Arc<Terms>,
    /// The highest share of the tokens, and of the money, that was told of the last periods, the newest first.
    told: Vec<(Period, [f64; 2])>,
}

/// Periods whose warnings are remembered: the one that runs, and that in which calls under way began.
const PERIODS_TOLD: usize = 2;

impl Watch {
    fn told(&mut self, period: Period) -> Option<&mut [f64; 2]> {
        let at = match self.told.iter().position(|(known, _)| *known == period) {
            Some(at) => at,
            None => {
                let newer = self.told.iter().take_while(|(known, _)| known.start > period.start).count();
                self.told.insert(newer, (period, [0.0; 2]));
                self.told.truncate(PERIODS_TOLD);
                newer
            }
        };
        self.told.get_mut(at).map(|(_, shares)| shares)
    }
}

impl QuotaAccount {
    pub fn new(
        id: u64,
        client: Arc<str>,
        terms: Arc<Terms>,
        account: Arc<dyn Account>,
        (alerts, before): (Arc<Alerts>, Option<Arc<dyn TellsBefore>>),
    ) -> Self {
        let watch = Mutex::new(Watch { terms, told: Vec::new() });
        let began = (Clock.wall(), Clock.now());
        Self { id, client, account, watch, alerts, before, began, entering: Mutex::default() }
    }

    fn entering(&self) -> MutexGuard<'_, ()> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts in a period from now on; false where it did before.
    pub fn comes_to_know(&self, period: Period) -> bool {
        let _entering = self.entering();
        let is_new = !self.account.knows(period);
        if is_new {
            self.account.settle(period, Amounts::default(), Amounts::default());
        }
        is_new
    }

    /// Counts in the period of an instant from now on. Where it did not count there from the period's beginning on, it
    /// is told what was used before.
    pub fn enter(self: &Arc<Self>, period: Period, at: Duration) {
        // Held until the question is put: what others count and book meanwhile would be in its answer too.
        let _entering = self.entering();
        if self.account.knows(period) {
            return;
        }
        self.account.settle(period, Amounts::default(), Amounts::default());
        let Some(before) = self.before.as_ref().filter(|_| !self.counts_from_beginning(period, at)) else { return };
        let (client, currency) = (self.client.clone(), self.watch().terms.currency.clone());
        before.open(Unknown::from_iter([(period, vec![Owner { client, currency, quota_account: self.clone() }])]));
    }

    /// Whether it was there when the period began: a wall clock that has been set says nothing about that.
    fn counts_from_beginning(&self, period: Period, at: Duration) -> bool {
        let (wall, instant) = self.began;
        let now = wall.saturating_add(Clock.now().saturating_duration_since(instant));
        Duration::from_secs(period.start) >= wall && at.abs_diff(now) < SAME
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn account(&self) -> &dyn Account {
        &*self.account
    }

    /// Whether its sums mean under these terms what they are.
    pub fn is_of(&self, terms: &Terms) -> bool {
        let known = &self.watch().terms;
        (&known.currency, known.per, &known.zone) == (&terms.currency, terms.per, &terms.zone)
    }

    /// Other bounds and other warnings hold from now on. A share that was told of a lower bound has not
    /// been told of a higher one.
    pub fn comes_under(&self, terms: &Arc<Terms>) {
        let mut watch = self.watch();
        if *watch.terms == **terms {
            return;
        }
        watch.terms = terms.clone();
        let limits = [terms.tokens, terms.cost];
        for (period, told) in &mut watch.told {
            let spent = self.account.standing(*period).spent;
            for ((told, limit), sum) in told.iter_mut().zip(limits).zip([spent.tokens, spent.cost]) {
                *told = told.min(limit.map_or(0.0, |limit| quota::share(sum, limit)));
            }
        }
    }

    /// What has been used in the period that runs, and in which currency its money is.
    pub fn counted(&self, now: Duration) -> (Period, Arc<str>, Amounts) {
        let terms = self.watch().terms.clone();
        let period = terms.period(now);
        (period, terms.currency.clone(), self.account.standing(period).spent)
    }

    /// Books what was used, gives back what was put aside for it, and warns where a share is come to.
    pub fn settle(&self, period: Period, reserved: Amounts, used: Amounts) {
        let change = self.account.settle(period, reserved, used);
        self.warn(period, change.after);
    }

    /// Warns of what the period that runs has come to by a change of its bounds.
    pub fn look(&self, now: Duration) {
        let period = self.watch().terms.period(now);
        self.warn(period, self.account.standing(period).spent);
    }

    /// Warns of each share that is come to and was not told before: somebody may wait for just that one.
    fn warn(&self, period: Period, spent: Amounts) {
        let mut watch = self.watch();
        let terms = watch.terms.clone();
        let Some(told) = watch.told(period) else { return };
        let sums = [("tokens", terms.tokens, spent.tokens), ("cost", terms.cost, spent.cost)];
        for (told, (kind, limit, sum)) in told.iter_mut().zip(sums) {
            let Some(limit) = limit else { continue };
            for share in quota::passed(&terms.warn, limit, sum, *told) {
                *told = told.max(share);
                let (client, per) = (self.client.clone(), terms.per.as_str());
                self.alerts.raise(Alert::Quota { client, kind, share, per, until: terms.zone.shown(period.end) });
            }
        }
    }
}
