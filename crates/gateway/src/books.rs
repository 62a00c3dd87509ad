//! What is written down of use: every call's in the ledger, and what the ledger knows of quotas that this
//! process has just come to count.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Cost, Outcome, Period, Record, Usage};
use foldhash::HashMap;
use state::{
    Accounts, Amounts, Answer, Answers, Columns, Coming, Entry, InProcessAccounts, InProcessAnswers, InProcessLedger,
    InProcessVersions, Ledger, Question, Row, Sums, Unreadable, Versions,
};
use tokio::sync::watch;

use crate::purse::{Owner, Unknown};

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
        }
    }
}

/// The ledger, and the questions that it has not answered yet.
#[derive(Debug)]
pub struct Books {
    /// What was used.
    pub ledger: Arc<dyn Ledger>,
    /// Bounded by the periods of one configuration's quotas, for each reload while the ledger is out.
    openings: Mutex<Vec<Opening>>,
    /// How many there are, those included that are awaited.
    outstanding: watch::Sender<usize>,
}

/// What was used in a period before this process counted it.
#[derive(Debug)]
struct Opening {
    coming: Coming<Result<Vec<Row>, Unreadable>>,
    period: Period,
    of: Vec<Owner>,
}

impl Books {
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, openings: Mutex::default(), outstanding: watch::Sender::new(0) }
    }

    /// Asks the ledger for what was used before. What is booked after this is not in the answer, and must
    /// be counted by the process itself.
    pub(crate) fn open(&self, unknown: Unknown) {
        let by = Columns { client: true, ..Columns::default() };
        for (period, of) in unknown {
            let (from, to) = (Duration::from_secs(period.start), Some(Duration::from_secs(period.end)));
            let question = Question { from, to, by, client: None };
            match self.ledger.report(question) {
                Answer::Ready(Ok(rows)) => add_up(&rows, period, &of),
                answer => {
                    let opening = Opening { coming: answer.into_future(), period, of };
                    self.openings.lock().unwrap_or_else(PoisonError::into_inner).push(opening);
                    self.outstanding.send_modify(|count| *count += 1);
                }
            }
        }
    }

    /// Waits until the ledger has told all that was asked, at most `patience`; true where it has.
    pub async fn opened(&self, patience: Duration) -> bool {
        let mut outstanding = self.outstanding.subscribe();
        tokio::time::timeout(patience, outstanding.wait_for(|count| *count == 0)).await.is_ok_and(|seen| seen.is_ok())
    }

    /// Adds what the ledger tells to the accounts as it comes, for ever.
    pub async fn keep_opening(&self) {
        let mut outstanding = self.outstanding.subscribe();
        // An error means that the process is gone, and this task with it.
        while outstanding.wait_for(|count| *count > 0).await.is_ok() {
            let openings = std::mem::take(&mut *self.openings.lock().unwrap_or_else(PoisonError::into_inner));
            for Opening { coming, period, of } in openings {
                match coming.await {
                    Ok(rows) => add_up(&rows, period, &of),
                    Err(error) => {
                        tracing::error!(
                            "quotas begin without what was used before, the usage ledger does not tell it: {error}"
                        );
                    }
                }
                self.outstanding.send_modify(|count| *count -= 1);
            }
        }
    }
}

fn add_up(rows: &[Row], period: Period, of: &[Owner]) {
    let owners: HashMap<&str, &Owner> = of.iter().map(|owner| (&*owner.client, owner)).collect();
    for row in rows {
        let Some(Owner { currency, account, .. }) = owners.get(&*row.client) else { continue };
        let tokens = row.sums.tokens_in.saturating_add(row.sums.tokens_out);
        let cost = if row.currency == *currency { row.sums.cost } else { 0 };
        account.settle(period, Amounts::default(), Amounts { tokens, cost });
    }
}

/// Adds what the ledger has of a request: those of known clients on known routes that were let in. What other
/// upstreams used than the one that answered is booked as theirs, and is no request more.
pub(crate) fn enter(mut record: Record, into: &mut Vec<Entry>) {
    let was_let_in = !record.attempts.is_empty() || matches!(record.outcome, Outcome::Ok | Outcome::UpstreamDegraded);
    let (Some(client), Some(route), true) = (record.client, record.route, was_let_in) else { return };
    let entry = |upstream: Option<Arc<str>>, model: Option<Arc<str>>, used: Option<(Usage, Option<Cost>)>| {
        let unpriced = u64::from(matches!(used, Some((_, None))));
        let (usage, cost) = used.unwrap_or_default();
        let (cost, currency) = cost.map_or((0, Arc::default()), |cost| (cost.nanos, cost.currency));
        let Usage { prompt: tokens_in, completion: tokens_out, cached: tokens_cached, .. } = usage;
        Entry {
            at: record.time,
            client: client.clone(),
            route: route.clone(),
            upstream: upstream.unwrap_or_default(),
            model: model.unwrap_or_default(),
            currency,
            sums: Sums { tokens_in, tokens_out, tokens_cached, cost, unpriced, ..Sums::default() },
        }
    };
    let first = into.len();
    let spending = std::mem::take(&mut record.spending);
    if spending.is_empty() {
        into.push(entry(record.upstream, record.model, record.usage.map(|usage| (usage, record.cost))));
    } else {
        let (own, others): (Vec<_>, Vec<_>) = spending.into_each().partition(|spent| spent.upstream == record.upstream);
        if own.is_empty() {
            into.push(entry(record.upstream, record.model, None));
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
    }
}
