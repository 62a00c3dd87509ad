//! Quotas at hand: what a client may use in a period, what it has used, and what a call puts aside.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Cost, Period, Usage};
use config::{Client, Snapshot};
use foldhash::{HashMap, HashMapExt as _};
use rules::quota::{self, Terms};
use state::{Account, Accounts, Amounts, InProcessAccounts, Limits, Standing};

use crate::alerts::{Alert, Alerts};

/// The quota of one client, on one worker.
#[derive(Debug)]
pub struct Purse {
    client: Arc<str>,
    /// What was written.
    pub terms: Arc<Terms>,
    account: Arc<dyn Account>,
    alerts: Arc<Alerts>,
    /// The last period asked for, which is mostly the next one too: to know one from the calendar takes
    /// a microsecond.
    period: Mutex<Option<Period>>,
}

impl Purse {
    /// The period of an instant, given from the Unix epoch.
    #[must_use]
    pub fn period(&self, at: Duration) -> Period {
        let mut known = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(period) if period.holds(at) => period,
            _ => *known.insert(self.terms.period(at)),
        }
    }

    /// The account of all its periods.
    #[must_use]
    pub fn account(&self) -> &dyn Account {
        &*self.account
    }

    /// What bounds a period.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { tokens: self.terms.tokens, cost: self.terms.cost }
    }

    /// The share of its tokens, and of its money, that has been used.
    #[must_use]
    pub fn shares(&self, at: Duration) -> [Option<f64>; 2] {
        let Standing { spent, .. } = self.account.standing(self.period(at));
        let share = |sum, limit: Option<u64>| limit.map(|limit| quota::share(sum, limit));
        [share(spent.tokens, self.terms.tokens), share(spent.cost, self.terms.cost)]
    }

    /// The larger of both.
    #[must_use]
    pub fn used(&self, at: Duration) -> f64 {
        self.shares(at).into_iter().flatten().fold(0.0, f64::max)
    }

    /// What a call weighs here that used so much: money in another currency weighs nothing.
    #[must_use]
    pub fn weigh<'a>(&self, usage: Usage, costs: impl IntoIterator<Item = &'a Cost>) -> Amounts {
        let own = costs.into_iter().filter(|cost| cost.currency == self.terms.currency);
        Amounts { tokens: usage.tokens(), cost: own.map(|cost| cost.nanos).fold(0, u64::saturating_add) }
    }

    /// Books what was used, gives back what was put aside for it, and warns where a share is come to.
    pub fn settle(&self, period: Period, reserved: Amounts, used: Amounts) {
        let change = self.account.settle(period, reserved, used);
        let (before, after) = (change.before, change.after);
        let sums = [
            ("tokens", self.terms.tokens, (before.tokens, after.tokens)),
            ("cost", self.terms.cost, (before.cost, after.cost)),
        ];
        for (kind, limit, sums) in sums {
            let Some(share) = limit.and_then(|limit| quota::warned(&self.terms.warn, limit, sums)) else { continue };
            let (client, per) = (self.client.clone(), self.terms.per.as_str());
            self.alerts.raise(Alert::Quota { client, kind, share, per, until: self.terms.zone.shown(period.end) });
        }
    }
}

/// What one call has put aside of its client's quota. Dropped, all of it is given back.
#[derive(Debug)]
pub struct Stake {
    purse: Arc<Purse>,
    period: Period,
    reserved: Option<Amounts>,
}

impl Stake {
    /// Of what [`Account::reserve`] has put aside.
    #[must_use]
    pub const fn new(purse: Arc<Purse>, period: Period, reserved: Amounts) -> Self {
        Self { purse, period, reserved: Some(reserved) }
    }

    /// The call has ended, and this is what it used.
    pub fn settle<'a>(mut self, usage: Usage, costs: impl IntoIterator<Item = &'a Cost>) {
        if let Some(reserved) = self.reserved.take() {
            self.purse.settle(self.period, reserved, self.purse.weigh(usage, costs));
        }
    }
}

impl Drop for Stake {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.purse.settle(self.period, reserved, Amounts::default());
        }
    }
}

/// The quotas of one configuration, by the client's name.
#[derive(Debug, Default)]
pub struct Purses(HashMap<Arc<str>, Arc<Purse>>);

impl Purses {
    /// That of a client.
    #[must_use]
    pub fn of(&self, client: &Client) -> Option<&Arc<Purse>> {
        client.quota.as_ref().and_then(|_| self.0.get(&client.name))
    }

    /// That of the client of this name.
    #[must_use]
    pub fn named(&self, client: &str) -> Option<&Arc<Purse>> {
        if self.0.is_empty() { None } else { self.0.get(client) }
    }

    /// All of them, by the client's name.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Purse>)> {
        self.0.iter()
    }
}

/// Accounts that survive reloads, by the client's name; bounded by the clients that have a quota.
#[derive(Debug)]
pub(crate) struct KeptPurses {
    accounts: Arc<dyn Accounts>,
    known: HashMap<Arc<str>, Arc<dyn Account>>,
    alerts: Arc<Alerts>,
}

/// An account that does not know yet what was used before this process counted.
#[derive(Debug)]
pub(crate) struct Owner {
    pub client: Arc<str>,
    /// Of its quota.
    pub currency: Arc<str>,
    pub account: Arc<dyn Account>,
}

/// Such accounts by the period that they ask about.
pub(crate) type Unknown = HashMap<Period, Vec<Owner>>;

impl Default for KeptPurses {
    fn default() -> Self {
        Self::new(Arc::new(InProcessAccounts))
    }
}

impl KeptPurses {
    pub fn new(accounts: Arc<dyn Accounts>) -> Self {
        Self { accounts, known: HashMap::new(), alerts: Arc::default() }
    }

    /// Where these quotas raise their alerts.
    pub fn alerts(&self) -> Arc<Alerts> {
        self.alerts.clone()
    }

    /// Accounts of a configuration's clients, and what is not known of their periods now.
    pub fn unknown(&mut self, snapshot: &Snapshot, now: Duration) -> Unknown {
        let mut unknown = Unknown::new();
        for (client, terms) in with_quota(snapshot) {
            let account = self.known.entry(client.name.clone()).or_insert_with(|| self.accounts.of(&client.name));
            let period = terms.period(now);
            if !account.knows(period) {
                // From now on it is: what the process counts itself is added to what the ledger tells.
                account.settle(period, Amounts::default(), Amounts::default());
                let (client, currency) = (client.name.clone(), terms.currency.clone());
                unknown.entry(period).or_default().push(Owner { client, currency, account: account.clone() });
            }
        }
        unknown
    }

    pub fn bind(&mut self, snapshot: &Snapshot) -> Purses {
        let mut purses = HashMap::new();
        for (client, terms) in with_quota(snapshot) {
            let account = self.known.entry(client.name.clone()).or_insert_with(|| self.accounts.of(&client.name));
            let purse = Purse {
                client: client.name.clone(),
                terms: terms.clone(),
                account: account.clone(),
                alerts: self.alerts.clone(),
                period: Mutex::default(),
            };
            purses.insert(client.name.clone(), Arc::new(purse));
        }
        self.known.retain(|client, _| purses.contains_key(client));
        Purses(purses)
    }
}

fn with_quota(snapshot: &Snapshot) -> impl Iterator<Item = (&Arc<Client>, &Arc<Terms>)> {
    snapshot.clients.iter().filter_map(|client| Some((client, client.quota.as_ref()?)))
}

#[cfg(test)]
mod tests;
