//! What is written down of use: every call's in the ledger, and what the ledger knows of quotas that this
//! process has just come to count.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Cost, Outcome, Record, Saved, Spending, Usage};
use state::objects::IssuedKey;
use state::{
    Accounts, Answers, Entry, InProcessAccounts, InProcessAnswers, InProcessLedger, InProcessObjects,
    InProcessRequests, InProcessVersions, Ledger, Objects, Requests, Row, Sums, Unreadable, Versions,
};
use tokio::sync::watch;

use crate::quota::quotas::{TellsBefore, Unknown};

mod opening;
mod reconcile;

use opening::Opening;

/// Where state is kept that outlives the process, or is shared with others. By default nowhere: it is in
/// this process alone.
#[derive(Clone, Debug)]
pub struct Stores {
    /// What was used.
    pub ledger: Arc<dyn Ledger>,
    /// What clients have used of their quotas.
    pub accounts: Arc<dyn Accounts>,
    /// Cached answers.
    pub answers: Arc<dyn Answers>,
    /// Versions of knowledge bases that operators have set.
    pub versions: Arc<dyn Versions>,
    /// Objects made through the admin API, keys issued there, and who has done what.
    pub objects: Arc<dyn Objects>,
    /// The keys among them, as they were read.
    pub keys: Vec<IssuedKey>,
    /// What became of single requests.
    pub records: Arc<dyn Requests>,
}

/// Memory for cached answers until a configuration says how much.
const MEMORY: u64 = 256 << 20;

impl Default for Stores {
    fn default() -> Self {
        Self {
            ledger: Arc::new(InProcessLedger::default()),
            accounts: Arc::new(InProcessAccounts),
            answers: Arc::new(InProcessAnswers::within(MEMORY)),
            versions: Arc::new(InProcessVersions::default()),
            objects: Arc::new(InProcessObjects::default()),
            keys: Vec::new(),
            records: Arc::new(InProcessRequests::default()),
        }
    }
}

/// The usage ledger as calls see it: what they used is booked here, and what was used before this process began is asked
/// for here.
#[derive(Debug)]
pub struct UsageLedger {
    /// Where entries are kept.
    pub store: Arc<dyn Ledger>,
    openings: Mutex<Openings>,
    /// How many there are.
    outstanding: watch::Sender<usize>,
    /// The change of the ledger's file after which it was last reconciled.
    reconciled: AtomicU64,
}

/// Locked while entries are booked and questions put, so that of two of them it is known which came first.
#[derive(Debug, Default)]
struct Openings {
    /// Bounded by the periods of the quotas in force.
    unanswered: Vec<Opening>,
    /// So far.
    count: u64,
}

/// After an answer that was none the ledger is asked again so soon at first, and so soon at last.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl UsageLedger {
    pub(crate) fn new(store: Arc<dyn Ledger>) -> Self {
        Self { store, openings: Mutex::default(), outstanding: watch::Sender::new(0), reconciled: AtomicU64::new(0) }
    }

    fn openings(&self) -> MutexGuard<'_, Openings> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets openings whose quotas are gone, and tells how many are left.
    fn count(&self, openings: &mut Openings) {
        openings.unanswered.retain_mut(|opening| opening.waiting() > 0);
        self.outstanding.send_replace(openings.unanswered.len());
    }

    /// Books entries. Never waits for a store.
    pub(crate) fn book(&self, entries: Vec<Entry>) {
        let mut openings = self.openings();
        for opening in &mut openings.unanswered {
            entries.iter().for_each(|entry| opening.note(entry));
        }
        self.store.book(entries);
    }

    /// Clients whose quota counts this process alone, since the ledger has not told what was used before.
    #[must_use]
    pub fn unopened(&self) -> usize {
        self.openings().unanswered.iter_mut().map(Opening::waiting).sum()
    }

    /// Waits until the ledger has told all that was asked, at most `patience`; true where it has.
    pub async fn opened(&self, patience: Duration) -> bool {
        let mut outstanding = self.outstanding.subscribe();
        tokio::time::timeout(patience, outstanding.wait_for(|count| *count == 0)).await.is_ok_and(|seen| seen.is_ok())
    }

    /// Adds what the ledger tells to the accounts as it comes, and asks again what it did not tell, for ever.
    pub async fn keep_opening(&self) {
        let mut outstanding = self.outstanding.subscribe();
        let mut wait = AGAIN.0;
        // An error means that the process is gone, and this task with it.
        while outstanding.wait_for(|count| *count > 0).await.is_ok() {
            let next = {
                let mut openings = self.openings();
                openings.unanswered.iter_mut().find_map(|opening| Some((opening.id, opening.take()?)))
            };
            if let Some((id, coming)) = next {
                let told = coming.await;
                wait = if told.is_ok() { AGAIN.0 } else { wait };
                self.told(id, told);
            } else {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(AGAIN.1);
                self.ask_again();
            }
        }
    }

    fn told(&self, id: u64, told: Result<Vec<Row>, Unreadable>) {
        let mut openings = self.openings();
        let Some(at) = openings.unanswered.iter().position(|opening| opening.id == id) else { return };
        match told {
            Ok(rows) => openings.unanswered.swap_remove(at).add_up(&rows),
            Err(error) => openings.unanswered.iter_mut().skip(at).take(1).for_each(|opening| opening.refused(&error)),
        }
        self.count(&mut openings);
    }

    fn ask_again(&self) {
        let mut openings = self.openings();
        openings.unanswered.retain_mut(|opening| !opening.ask(&*self.store));
        self.count(&mut openings);
    }
}

impl TellsBefore for UsageLedger {
    /// Asks the ledger for what was used before. What is booked after this must be counted by the process
    /// itself.
    fn open(&self, unknown: Unknown) {
        let mut openings = self.openings();
        for (period, of) in unknown {
            // Where many enter a period at once, one question is for all that the ledger has not taken yet.
            let put_off = openings.unanswered.iter().position(|opening| opening.is_put_off(period));
            let mut opening = put_off.map(|at| openings.unanswered.swap_remove(at)).unwrap_or_else(|| {
                openings.count += 1;
                Opening::new(openings.count, period)
            });
            opening.add(of);
            if !opening.ask(&*self.store) {
                openings.unanswered.push(opening);
            }
        }
        self.count(&mut openings);
    }
}

/// Adds what the ledger has of a request: those of known clients on known routes that were let in. What other
/// upstreams used than the one that answered is booked as theirs, and is no request more.
pub(crate) fn enter(record: &mut Record, into: &mut Vec<Entry>) {
    let was_let_in = !record.attempts.is_empty() || matches!(record.outcome, Outcome::Ok | Outcome::UpstreamDegraded);
    let (Some(client), Some(route), true) = (record.client.take(), record.route.take(), was_let_in) else { return };
    let at = record.time;
    let entry = |upstream, model, used| self::entry(at, (&client, &route), (upstream, model), used);
    let first = into.len();
    let (is_hit, saved, took) = (record.cache.is_some_and(base::Cached::is_hit), record.saved.take(), record.took);
    let spending = std::mem::take(&mut record.spending);
    if spending.is_empty() {
        let used = record.usage.map(|usage| (usage, record.cost.take()));
        into.push(entry(record.upstream.take(), record.model.take(), used));
    } else {
        let (own, others): (Vec<_>, Vec<_>) = spending.into_each().partition(|spent| spent.upstream == record.upstream);
        if own.is_empty() {
            into.push(entry(record.upstream.take(), record.model.take(), None));
        }
        let spent = own.into_iter().chain(others);
        into.extend(spent.map(|spent| entry(spent.upstream, spent.model, Some((spent.usage, spent.cost)))));
    }
    // One request, be it at several unknown prices.
    let mut is_counted = false;
    for entry in into.iter_mut().skip(first).filter(|entry| entry.sums.unpriced > 0) {
        entry.sums.unpriced = u64::from(!std::mem::replace(&mut is_counted, true));
    }
    if let Some(own) = into.get_mut(first) {
        own.sums.requests = 1;
        own.sums.cache_hits = u64::from(is_hit);
        if let Some(saved) = saved {
            save(own, &saved, took);
        }
    }
}

/// Adds what a call of the gateway's own has used, on behalf of no client.
pub(crate) fn enter_own(at: Duration, route: &Arc<str>, spending: Spending, into: &mut Vec<Entry>) {
    let nobody = Arc::default();
    into.extend(spending.into_each().map(|spent| {
        let used = Some((spent.usage, spent.cost));
        entry(at, (&nobody, route), (spent.upstream, spent.model), used)
    }));
    if let Some(first) = into.first_mut() {
        first.sums.requests = 1;
    }
}

fn entry(
    at: Duration,
    (client, route): (&Arc<str>, &Arc<str>),
    (upstream, model): (Option<Arc<str>>, Option<Arc<str>>),
    used: Option<(Usage, Option<Cost>)>,
) -> Entry {
    let unpriced = u64::from(matches!(used, Some((_, None))));
    let (usage, cost) = used.unwrap_or_default();
    let (cost, currency) = cost.map_or((0, Arc::default()), |cost| (cost.nanos, cost.currency));
    let Usage { prompt: tokens_in, completion: tokens_out, cached: tokens_cached, .. } = usage;
    Entry {
        at,
        client: client.clone(),
        route: route.clone(),
        upstream: upstream.unwrap_or_default(),
        model: model.unwrap_or_default(),
        currency,
        sums: Sums { tokens_in, tokens_out, tokens_cached, cost, unpriced, ..Sums::default() },
    }
}

#[cfg(test)]
mod tests;

/// Books what a request did not use, since its answer was there. Money of two currencies makes no sum.
fn save(entry: &mut Entry, saved: &Saved, took: Duration) {
    entry.sums.tokens_saved = saved.usage.tokens();
    entry.sums.ms_saved = u64::try_from(saved.took.saturating_sub(took).as_millis()).unwrap_or(u64::MAX);
    let Some(cost) = &saved.cost else { return };
    if entry.currency.is_empty() {
        entry.currency = cost.currency.clone();
    }
    if entry.currency == cost.currency {
        entry.sums.cost_saved = cost.nanos;
    }
}
