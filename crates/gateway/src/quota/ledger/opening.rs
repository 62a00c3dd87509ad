//! What was used in a period before this process counted it: asked of the ledger until it tells.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Period;
use foldhash::{HashMap, HashMapExt as _};
use state::{Amounts, Answer, Columns, Coming, Entry, Ledger, Question, Row, Unreadable};

use crate::quota::quotas::{Owner, QuotaAccount};

pub(super) type Told = Coming<Result<Vec<Row>, Unreadable>>;

/// A question about one period, for every quota account that counts from its middle on.
#[derive(Debug)]
pub(super) struct Opening {
    /// Tells it from all others.
    pub id: u64,
    period: Period,
    /// By the client's name.
    of: HashMap<Arc<str>, Waiting>,
    answer: Progress,
    /// That it was refused has been logged.
    is_logged: bool,
}

#[derive(Debug)]
enum Progress {
    /// On its way.
    Coming(Told),
    /// On its way, and somebody waits for it.
    Awaited,
    /// There was none: the ledger is to be asked again.
    Refused,
}

/// A quota account that waits for an answer.
#[derive(Debug)]
struct Waiting {
    quota_account: Weak<QuotaAccount>,
    currency: Arc<str>,
    /// What has been booked of its client since it began to count, and so is in its account.
    booked: Amounts,
    /// As much of that as had been booked when the question was put: it is in the answer too.
    in_answer: Amounts,
}

impl Opening {
    pub fn new(id: u64, period: Period) -> Self {
        Self { id, period, of: HashMap::new(), answer: Progress::Refused, is_logged: false }
    }

    /// Whether it is of the period, and nothing has been asked that is still to be answered.
    pub fn is_put_off(&self, period: Period) -> bool {
        self.period == period && matches!(self.answer, Progress::Refused)
    }

    /// Asks for these too: before the question is put.
    pub fn add(&mut self, of: Vec<Owner>) {
        let waiting = |Owner { client, currency, quota_account }: Owner| {
            let (booked, in_answer) = (Amounts::default(), Amounts::default());
            (client, Waiting { quota_account: Arc::downgrade(&quota_account), currency, booked, in_answer })
        };
        self.of.extend(of.into_iter().map(waiting));
    }

    /// Puts the question, if it is not on its way; true when it is answered at once. Nothing may be booked
    /// meanwhile.
    pub fn ask(&mut self, ledger: &dyn Ledger) -> bool {
        if !matches!(self.answer, Progress::Refused) {
            return false;
        }
        for waiting in self.of.values_mut() {
            waiting.in_answer = waiting.booked;
        }
        let (from, to) = (Duration::from_secs(self.period.start), Some(Duration::from_secs(self.period.end)));
        let by = Columns { client: true, ..Columns::default() };
        let mut clients = self.of.keys();
        let client = clients.next().filter(|_| clients.next().is_none()).cloned();
        match ledger.report(Question { from, to, by, client }) {
            Answer::Ready(Ok(rows)) => {
                self.add_up(&rows);
                return true;
            }
            Answer::Ready(Err(error)) => self.refused(&error),
            later @ Answer::Later(_) => self.answer = Progress::Coming(later.into_future()),
        }
        false
    }

    /// The answer, to be waited for.
    pub fn take(&mut self) -> Option<Told> {
        match std::mem::replace(&mut self.answer, Progress::Awaited) {
            Progress::Coming(told) => Some(told),
            other => {
                self.answer = other;
                None
            }
        }
    }

    /// There will be no answer to this asking.
    pub fn refused(&mut self, error: &Unreadable) {
        self.answer = Progress::Refused;
        if !std::mem::replace(&mut self.is_logged, true) {
            tracing::error!(
                clients = self.of.len(),
                "quotas count without what was used before, until the usage ledger tells it: {error}"
            );
        }
    }

    /// Something of its clients is booked.
    pub fn note(&mut self, entry: &Entry) {
        if !self.period.holds(entry.at) {
            return;
        }
        if let Some(waiting) = self.of.get_mut(&entry.client) {
            let tokens = entry.sums.tokens_in.saturating_add(entry.sums.tokens_out);
            let cost = if entry.currency == waiting.currency { entry.sums.cost } else { 0 };
            waiting.booked = waiting.booked.plus(Amounts { tokens, cost });
        }
    }

    /// Adds what the ledger tells to what the process has counted itself.
    pub fn add_up(&self, rows: &[Row]) {
        let mut sums: HashMap<&str, Amounts> = HashMap::new();
        for row in rows {
            let Some(waiting) = self.of.get(&row.client) else { continue };
            let tokens = row.sums.tokens_in.saturating_add(row.sums.tokens_out);
            let cost = if row.currency == waiting.currency { row.sums.cost } else { 0 };
            let sum = sums.entry(&row.client).or_default();
            *sum = sum.plus(Amounts { tokens, cost });
        }
        for (client, waiting) in &self.of {
            let before = sums.get(&**client).copied().unwrap_or_default().less(waiting.in_answer);
            if let Some(quota_account) = waiting.quota_account.upgrade() {
                quota_account.settle(self.period, Amounts::default(), before);
            }
        }
        if self.is_logged {
            tracing::info!(clients = self.of.len(), "the usage ledger has told what was used before of these quotas");
        }
    }

    /// Funds that wait for the answer; those that are gone meanwhile are forgotten.
    pub fn waiting(&mut self) -> usize {
        self.of.retain(|_, waiting| waiting.quota_account.strong_count() > 0);
        self.of.len()
    }
}
