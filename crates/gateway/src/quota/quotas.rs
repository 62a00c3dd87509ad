//! Quotas at hand: what a client may use in a period, what it has used, and what a call puts aside.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Cost, Period, Usage};
use config::{Client, Snapshot};
use foldhash::{HashMap, HashMapExt as _};
use rules::quota::{self, Terms};
use state::{Account, Accounts, Amounts, InProcessAccounts, Limits, Standing};

use crate::alerts::Alerts;

mod account;

pub(crate) use account::QuotaAccount;

/// The quota of one client: what it may use in a period, as one worker sees it.
#[derive(Debug)]
pub struct ClientQuota {
    /// What was written.
    pub terms: Arc<Terms>,
    quota_account: Arc<QuotaAccount>,
    /// The last period asked for, which is mostly the next one too: to know one from the calendar takes
    /// a microsecond.
    period: Mutex<Option<Period>>,
}

impl ClientQuota {
    /// The period of an instant, given from the Unix epoch. From now on its account counts there, and is told what
    /// was used in it before. Never waits for that.
    #[must_use]
    pub fn period(&self, at: Duration) -> Period {
        let mut known = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(period) if period.holds(at) => period,
            _ => {
                let period = self.terms.period(at);
                self.quota_account.enter(period, at);
                *known.insert(period)
            }
        }
    }

    /// The account of all its periods.
    #[must_use]
    pub fn account(&self) -> &dyn Account {
        self.quota_account.account()
    }

    /// Tells its account from all others; never 0.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.quota_account.id
    }

    /// What bounds a period.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { tokens: self.terms.tokens, cost: self.terms.cost }
    }

    /// What of it has been used so far in the period of an instant.
    #[must_use]
    pub fn spent(&self, at: Duration) -> Amounts {
        self.account().standing(self.period(at)).spent
    }

    /// What of it a call can put aside in the period of an instant; of what is not bounded, everything.
    #[must_use]
    pub fn left(&self, at: Duration) -> Amounts {
        let Limits { tokens, cost } = self.limits();
        let all = Amounts { tokens: tokens.unwrap_or(u64::MAX), cost: cost.unwrap_or(u64::MAX) };
        let Standing { spent, reserved } = self.account().standing(self.period(at));
        all.less(spent).less(reserved)
    }

    /// The share of its tokens, and of its money, that has been used.
    #[must_use]
    pub fn shares(&self, at: Duration) -> [Option<f64>; 2] {
        let spent = self.spent(at);
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
        self.quota_account.settle(period, reserved, used);
    }
}

/// What one call has put aside of its client's quota. Dropped, all of it is given back.
#[derive(Debug)]
pub struct Stake {
    quota: Arc<ClientQuota>,
    period: Period,
    reserved: Option<Amounts>,
}

impl Stake {
    /// Of what [`Account::reserve`] has put aside.
    #[must_use]
    pub const fn new(quota: Arc<ClientQuota>, period: Period, reserved: Amounts) -> Self {
        Self { quota, period, reserved: Some(reserved) }
    }

    /// Tells the account that it is of from all others; never 0.
    #[must_use]
    pub fn account(&self) -> u64 {
        self.quota.id()
    }

    /// Both as one, of the same call.
    #[must_use]
    pub fn and(mut self, mut more: Self) -> Self {
        if let (Some(reserved), Some(also)) = (&mut self.reserved, more.reserved.take()) {
            *reserved = reserved.plus(also);
        }
        self
    }

    /// The call has ended, and this is what it used.
    pub fn settle<'a>(mut self, usage: Usage, costs: impl IntoIterator<Item = &'a Cost>) {
        if let Some(reserved) = self.reserved.take() {
            self.quota.settle(self.period, reserved, self.quota.weigh(usage, costs));
        }
    }
}

impl Drop for Stake {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.quota.settle(self.period, reserved, Amounts::default());
        }
    }
}

/// The quotas of one configuration, by the client's name.
#[derive(Debug, Default)]
pub struct ClientQuotas(HashMap<Arc<str>, Arc<ClientQuota>>);

impl ClientQuotas {
    /// That of a client.
    #[must_use]
    pub fn of(&self, client: &Client) -> Option<&Arc<ClientQuota>> {
        client.quota.as_ref().and_then(|_| self.0.get(&client.name))
    }

    /// That of the client of this name.
    #[must_use]
    pub fn named(&self, client: &str) -> Option<&Arc<ClientQuota>> {
        if self.0.is_empty() { None } else { self.0.get(client) }
    }

    /// All of them, by the client's name.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ClientQuota>)> {
        self.0.iter()
    }
}

/// Funds that survive reloads, by the client's name; bounded by the clients that have a quota.
#[derive(Debug)]
pub(crate) struct KeptQuotas {
    accounts: Arc<dyn Accounts>,
    known: HashMap<Arc<str>, Arc<QuotaAccount>>,
    /// Funds so far.
    count: u64,
    alerts: Arc<Alerts>,
    /// Whom accounts ask that enter a period; without one they know of nothing before.
    before: Option<Arc<dyn TellsBefore>>,
}

/// A quota account that does not know yet what was used before this process counted.
#[derive(Debug)]
pub(crate) struct Owner {
    pub client: Arc<str>,
    /// Of its quota.
    pub currency: Arc<str>,
    pub quota_account: Arc<QuotaAccount>,
}

/// What a quota has counted in the period that runs.
#[derive(Debug)]
pub(crate) struct Counted {
    pub client: Arc<str>,
    /// Of its money.
    pub currency: Arc<str>,
    pub period: Period,
    pub spent: Amounts,
}

/// Such funds by the period that they ask about.
pub(crate) type Unknown = HashMap<Period, Vec<Owner>>;

/// Who tells accounts what was used before they counted.
pub(crate) trait TellsBefore: std::fmt::Debug + Send + Sync {
    /// Adds it to them as soon as it is known. Never waits for a store.
    fn open(&self, unknown: Unknown);
}

impl Default for KeptQuotas {
    fn default() -> Self {
        Self::new(Arc::new(InProcessAccounts))
    }
}

impl KeptQuotas {
    pub fn new(accounts: Arc<dyn Accounts>) -> Self {
        Self { accounts, known: HashMap::new(), count: 0, alerts: Arc::default(), before: None }
    }

    /// The same, with accounts that ask there what was used before.
    pub fn told_by(self, before: Arc<dyn TellsBefore>) -> Self {
        Self { before: Some(before), ..self }
    }

    /// Where these quotas raise their alerts.
    pub fn alerts(&self) -> Arc<Alerts> {
        self.alerts.clone()
    }

    /// What the funds of a configuration that was bound do not know of their periods now. From now on they do:
    /// what the process counts itself is to be added to what the ledger tells.
    pub fn unknown(&self, snapshot: &Snapshot, now: Duration) -> Unknown {
        let mut unknown = Unknown::new();
        for (client, terms) in with_quota(snapshot) {
            let Some(quota_account) = self.known.get(&client.name) else { continue };
            let period = terms.period(now);
            if quota_account.comes_to_know(period) {
                let (client, currency) = (client.name.clone(), terms.currency.clone());
                unknown.entry(period).or_default().push(Owner {
                    client,
                    currency,
                    quota_account: quota_account.clone(),
                });
            }
        }
        unknown
    }

    pub fn bind(&mut self, snapshot: &Snapshot) -> ClientQuotas {
        let mut quotas = HashMap::new();
        for (client, terms) in with_quota(snapshot) {
            let quota_account = self.quota_account(&client.name, terms);
            let quota = ClientQuota { terms: terms.clone(), quota_account, period: Mutex::default() };
            quotas.insert(client.name.clone(), Arc::new(quota));
        }
        self.known.retain(|client, _| quotas.contains_key(client));
        ClientQuotas(quotas)
    }

    /// The quota account of a client under these terms: a new one where the sums of the one that it has would mean
    /// something else. That one is told by the ledger what belongs to it.
    fn quota_account(&mut self, client: &Arc<str>, terms: &Arc<Terms>) -> Arc<QuotaAccount> {
        if let Some(known) = self.known.get(client).filter(|known| known.is_of(terms)) {
            known.comes_under(terms);
            return known.clone();
        }
        self.count += 1;
        let account = self.accounts.of(client, &terms.currency);
        let places = (self.alerts.clone(), self.before.clone());
        let quota_account = Arc::new(QuotaAccount::new(self.count, client.clone(), terms.clone(), account, places));
        self.known.insert(client.clone(), quota_account.clone());
        quota_account
    }

    /// What quotas have counted in the periods that run, where they have counted anything.
    pub fn counted(&self, now: Duration) -> Vec<Counted> {
        let counted = self.known.iter().map(|(client, quota_account)| {
            let (period, currency, spent) = quota_account.counted(now);
            Counted { client: client.clone(), currency, period, spent }
        });
        counted.filter(|counted| counted.spent != Amounts::default()).collect()
    }

    /// Warns of what quotas have come to by a change of their bounds.
    pub fn look(&self, now: Duration) {
        self.known.values().for_each(|quota_account| quota_account.look(now));
    }
}

fn with_quota(snapshot: &Snapshot) -> impl Iterator<Item = (&Arc<Client>, &Arc<Terms>)> {
    snapshot.clients.iter().filter_map(|client| Some((client, client.quota.as_ref()?)))
}

#[cfg(test)]
mod tests;
