//! What outlives reloads of one client's quota: its account, and which shares of it were warned of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Period;
use rules::quota::{self, Terms};
use state::{Account, Amounts};

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
}

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
    pub fn new(id: u64, client: Arc<str>, terms: Arc<Terms>, account: Arc<dyn Account>, alerts: Arc<Alerts>) -> Self {
        Self { id, client, account, watch: Mutex::new(Watch { terms, told: Vec::new() }), alerts }
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
