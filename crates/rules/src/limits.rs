//! How much may be asked for: calls per second, tokens per minute, calls side by side.
//!
//! An [`Account`] keeps what one scope has used: a client, a route, a client on a route, the whole gateway.
//! [`decide`] looks into all accounts that a call concerns at once: either each of them is charged, or none.
//!
//! Rates are token buckets: one holds a `burst` at most and fills evenly, so that no second sees more than the
//! limit plus the burst, and a caller who is refused has neither used anything up nor prolonged his wait.

use std::ops::DerefMut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::shares::{InFlight, Pressure, Priority, spared};

mod allowance;
mod bucket;
mod due;
mod limit;
mod terms;

#[cfg(test)]
mod tests;

pub use allowance::Allowance;
use allowance::Tightest;
pub use bucket::Left;
use bucket::{Levels, Measure, Measures};
use due::{Next, OfBatch, Saving};
pub use limit::{Limit, Rate};
pub use terms::Terms;

/// What a call asks of every account.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Tokens that it is likely to use at most. Of an account that never holds as many it takes all that there are.
    pub tokens: u64,
    /// The priority of the client that asks.
    pub priority: Priority,
    /// Whether it has waited and it is its turn: it need not stand behind others of its priority.
    pub is_turn: bool,
}

/// What one of the accounts refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Which of the accounts: the one that lets the call wait longest.
    pub at: usize,
    /// Which of its limits.
    pub limit: Kind,
    /// When the accounts will have what the call wants, if nobody else takes it; zero where that cannot be told.
    pub wait: Duration,
}

/// A limit of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls per second.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Calls side by side.
    Concurrency,
    /// None: others of the same priority have waited longer.
    Turn,
}

/// What one account lacks for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Of which of its limits.
    pub limit: Kind,
    /// When it will be there, if nobody else takes it; zero where that cannot be told.
    pub wait: Duration,
    /// Whether it is due to a batch call that waits: its tenth has come.
    pub is_due: bool,
}

/// What a batch call that is the first of those who wait claims of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Tokens that it wants.
    pub tokens: u64,
    /// Whether it would come at once if it had what it claims: only then others stand behind it. A call that must
    /// wait elsewhere for long would keep them from what it cannot use.
    pub is_firm: bool,
}

/// Tokens that a call has put aside of each account, in the order in which they were asked. An account never has
/// more than it holds put aside of it, and its bound may be another one when the call ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aside([u64; MOST_ACCOUNTS]);

/// Accounts that a call concerns at most: the gateway's, its route's, its client's, its client's on the route.
const MOST_ACCOUNTS: usize = 4;

impl Aside {
    /// So many of each account.
    #[must_use]
    pub const fn of_each(tokens: u64) -> Self {
        Self([tokens; MOST_ACCOUNTS])
    }

    /// Those of one account, by its place.
    #[must_use]
    pub fn of(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
    }

    /// Those of the account of which it is the most.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.0.into_iter().max().unwrap_or_default()
    }

    /// So many of each at most.
    #[must_use]
    pub fn at_most(self, tokens: u64) -> Self {
        Self(self.0.map(|own| own.min(tokens)))
    }
}

/// What a decision comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// `None` where every account has been charged.
    pub denial: Option<Denial>,
    /// What was put aside; nothing where one refuses.
    pub aside: Aside,
    /// How much is left, for the caller to know.
    pub allowance: Allowance,
}

/// What one scope has used, and may use.
///
/// What every call looks at comes first, and fits into one cache line with the lock before it: where clients are many
/// each line of each is far away, and cores that share an account pass that line to and fro, and no other.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Account {
    levels: Levels,
    terms: Arc<Terms>,
    /// Calls side by side.
    running: InFlight,
    /// Batch calls that wait for what the account lacks.
    waiting: u32,
    /// What is looked at where batch calls come, of an account that both priorities come to.
    batch: Option<Box<OfBatch>>,
}

impl Account {
    /// An account in which nothing has been used.
    #[must_use]
    pub fn new(terms: Arc<Terms>, now: Instant) -> Self {
        let levels = Levels::full(&terms.measures, now);
        let batch = terms.is_shared.then(Box::default);
        Self { levels, terms, running: InFlight::NONE, waiting: 0, batch }
    }

    /// Other terms hold from now on. What has been used under the old ones stays used.
    pub fn comes_under(&mut self, terms: Arc<Terms>, now: Instant) {
        self.fill(now);
        self.levels = self.levels.rebound(&self.terms.measures, &terms.measures);
        self.terms = terms;
        if self.terms.is_shared {
            self.batch.get_or_insert_default();
        }
    }

    /// What is limited.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.terms.limit()
    }

    /// Calls side by side.
    #[must_use]
    pub const fn running(&self) -> u32 {
        self.running.all
    }

    /// Whether a call would be refused whatever its size: its rate or its tokens are used up. Takes nothing.
    #[must_use]
    pub fn is_empty(&self, now: Instant) -> Option<(Kind, Duration)> {
        let Measures { requests, tokens } = self.terms.measures;
        let has_one = |measure: Option<Measure>, level: f64| measure.is_none() || level >= 1.0;
        if has_one(requests, self.levels.requests) && has_one(tokens, self.levels.tokens) {
            // Levels only grow with time.
            return None;
        }
        let levels = self.levels.now(&self.terms.measures, now);
        let requests = requests.and_then(|measure| measure.lacks(levels.requests, 1.0));
        let tokens = tokens.and_then(|measure| measure.lacks(levels.tokens, 1.0));
        let lacks = requests.map(|wait| (Kind::Requests, wait)).into_iter();
        lacks.chain(tokens.map(|wait| (Kind::Tokens, wait))).max_by_key(|(_, wait)| *wait)
    }

    /// A batch call waits for what the account lacks. Each claim is to be [dropped](Account::unclaim) once.
    pub fn claim(&mut self, claim: Claim, now: Instant) {
        self.fill(now);
        if let Some(batch) = &mut self.batch {
            batch.claims(claim, self.waiting == 0, &self.levels);
        }
        self.waiting = self.waiting.saturating_add(1);
    }

    /// A batch call waits here no more, or claims something else. What was kept for it is there for those who still
    /// wait; where none does, for everybody.
    pub fn unclaim(&mut self, claim: Claim, now: Instant) {
        self.fill(now);
        self.waiting = self.waiting.saturating_sub(1);
        if let Some(batch) = &mut self.batch {
            batch.firm = batch.firm.saturating_sub(u32::from(claim.is_firm));
        }
    }

    /// A batch call that this account was charged for stands in an upstream's line, or does no longer.
    pub fn lines_up(&mut self, is_in_line: bool) {
        if let Some(batch) = &mut self.batch {
            batch.in_line = if is_in_line { batch.in_line.saturating_add(1) } else { batch.in_line.saturating_sub(1) };
        }
    }

    /// What is known of batch calls where online calls come too.
    fn shared(&self) -> Option<&OfBatch> {
        self.batch.as_deref().filter(|_| self.terms.is_shared)
    }

    /// Whether as many batch calls stand in lines as may: where online calls come too, those hold no more than a
    /// tenth of the places.
    fn is_line_full(&self, batch: &OfBatch) -> bool {
        self.terms.limit.concurrency.is_some_and(|places| batch.in_line >= spared(places).max(1))
    }

    /// A call has ended that this account was charged for.
    pub fn ended(&mut self, priority: Priority) {
        self.running.end(priority);
    }

    /// So many tokens were put aside [of this account](Aside) by a call of the priority, and so many used: what is over
    /// comes back, what is lacking is owed.
    pub fn settle(&mut self, priority: Priority, aside: u64, used: u64, now: Instant) {
        if let Some(measure) = self.terms.measures.tokens {
            #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
            let lacking = used as f64 - aside as f64;
            self.fill(now);
            self.levels.tokens = measure.taken(self.levels.tokens, lacking);
            self.spares(priority, 0.0, -lacking);
        }
    }

    /// A call that has put tokens aside of this account turns out to want fewer: the others are there again at once.
    pub fn spare(&mut self, priority: Priority, aside: u64, wanted: u64, now: Instant) {
        if let Some(measure) = self.terms.measures.tokens {
            #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
            let spared = aside.saturating_sub(wanted) as f64;
            self.fill(now);
            self.levels.tokens = measure.taken(self.levels.tokens, -spared);
            self.spares(priority, 0.0, spared);
        }
    }

    /// A call that was charged turned out to be none: its share of the rate is there for others again.
    pub fn unspend(&mut self, priority: Priority, now: Instant) {
        if let Some(measure) = self.terms.measures.requests {
            self.fill(now);
            self.levels.requests = measure.taken(self.levels.requests, -1.0);
            self.spares(priority, 1.0, 0.0);
        }
    }

    /// What a batch call gives back is saved for the next one, as it had been for this one.
    fn spares(&mut self, priority: Priority, requests: f64, tokens: f64) {
        if priority == Priority::Batch
            && let Some(batch) = &mut self.batch
        {
            batch.spare(&self.terms.measures, requests, tokens);
        }
    }

    /// What the account lacks for a call that waits here, if anything; of several things the one that takes
    /// longest.
    #[must_use]
    pub fn lack(&mut self, want: &Want, now: Instant) -> Option<Lack> {
        self.fill(now);
        self.lacks(want, true, now)
    }

    /// As of the moment to which its buckets were brought. A batch call that does not come with a firm claim is given
    /// no place that is due to one.
    fn lacks(&self, want: &Want, is_firm: bool, now: Instant) -> Option<Lack> {
        let Measures { requests, tokens } = self.terms.measures;
        let amount = tokens.map_or(0.0, |measure| measure.at_most(want.tokens));
        let most = self.terms.limit.concurrency.unwrap_or(u32::MAX);
        let Some(batch) = self.shared() else {
            let requests = requests.and_then(|measure| measure.lacks(self.levels.requests, 1.0));
            let tokens = tokens.and_then(|measure| measure.lacks(self.levels.tokens, amount));
            let is_full = self.running.all >= most;
            return self.longest(want, (is_full, false), (requests, false), (tokens, false));
        };
        let (requests, tokens) = batch.savings(&self.terms.measures);
        let is_in_line = self.is_line_full(batch);
        let is_place_due = !is_in_line && batch.shares.is_batch_due(self.running.batch, most);
        let leaves = batch.pressure.places.spares(most, now);
        let has_room = |leaves: u32| self.running.all.saturating_add(leaves) < most;
        match want.priority {
            Priority::Online => {
                let is_whole = |saving: Option<Saving>| saving.is_none_or(Saving::is_whole);
                let is_ready = batch.firm > 0 && !is_in_line && is_whole(requests) && is_whole(tokens);
                let is_next = is_ready && (is_place_due || has_room(leaves));
                let next = Next { is_firm: batch.firm > 0 && !is_in_line, is_next };
                let short = |saving: Option<Saving>, level: f64, amount: f64| {
                    if self.waiting == 0 {
                        return saving?.lacks_alone(level, amount);
                    }
                    saving?.lacks_online(level, amount, next)
                };
                let requests = short(requests, self.levels.requests, 1.0);
                let tokens = short(tokens, self.levels.tokens, amount);
                // Of places too the next one is the waiting call's, if it comes as soon as it has it.
                let is_full = !has_room(u32::from(is_ready && is_place_due));
                self.longest(want, (is_full, is_place_due), (requests, false), (tokens, false))
            }
            Priority::Batch => {
                let is_turn = want.is_turn && self.waiting > 0 && !is_in_line;
                let short = |saving: Option<Saving>, level: f64, amount: f64, pressure: Pressure| {
                    let is_due = is_turn && saving.is_some_and(|saving| saving.has(amount));
                    let pressure = (pressure.tenths(now), pressure.lasts(now));
                    (saving.and_then(|saving| saving.lacks_batch((level, amount), pressure, is_turn)), is_due)
                };
                let requests = short(requests, self.levels.requests, 1.0, batch.pressure.requests);
                let tokens = short(tokens, self.levels.tokens, amount, batch.pressure.tokens);
                let is_full = is_in_line || !has_room(if is_place_due && is_firm { 0 } else { leaves });
                self.longest(want, (is_full, is_place_due), requests, tokens)
            }
        }
    }

    /// An online call was refused, for it lacked this here.
    fn refuses(&mut self, limit: Kind, now: Instant) {
        if let Some(batch) = &mut self.batch {
            batch.pressure.refused(limit, now);
        }
    }

    /// Of what a call lacks what it waits longest for, each with whether it is due to batch.
    fn longest(
        &self,
        want: &Want,
        (is_full, is_place_due): (bool, bool),
        (requests, are_requests_due): (Option<Duration>, bool),
        (tokens, are_tokens_due): (Option<Duration>, bool),
    ) -> Option<Lack> {
        let lack = |limit, wait, is_due| Lack { limit, wait, is_due };
        let places = is_full.then(|| lack(Kind::Concurrency, Duration::ZERO, is_place_due));
        let is_behind = self.waiting > 0 && want.priority == Priority::Batch && !want.is_turn;
        let turn = is_behind.then(|| lack(Kind::Turn, Duration::ZERO, false));
        let requests = requests.map(|wait| lack(Kind::Requests, wait, are_requests_due));
        let tokens = tokens.map(|wait| lack(Kind::Tokens, wait, are_tokens_due));
        places.into_iter().chain(turn).chain(requests).chain(tokens).max_by_key(|lack| lack.wait)
    }

    /// Whether nothing stands in the way of a call: the common case, told without reckoning how long it would wait.
    fn has_room_for(&self, want: &Want) -> bool {
        let Measures { requests, tokens } = self.terms.measures;
        self.waiting == 0
            && (want.priority == Priority::Online || !self.terms.is_shared)
            && requests.is_none_or(|_| self.levels.requests >= 1.0)
            && tokens.is_none_or(|measure| self.levels.tokens >= measure.at_most(want.tokens))
            && self.terms.limit.concurrency.is_none_or(|most| self.running.all < most)
    }

    /// Takes a call's share of each bucket, and a place. Gives the tokens that were put aside.
    fn charge(&mut self, want: &Want) -> u64 {
        let mut aside = 0;
        if let Some(measure) = self.terms.measures.requests {
            self.levels.requests = measure.taken(self.levels.requests, 1.0);
        }
        if let Some(measure) = self.terms.measures.tokens {
            self.levels.tokens = measure.taken(self.levels.tokens, measure.at_most(want.tokens));
            aside = measure.whole_at_most(want.tokens);
        }
        self.running.begin(want.priority);
        // Not written where nothing changes: see above.
        if (self.waiting > 0 || want.priority == Priority::Batch)
            && let Some(batch) = &mut self.batch
        {
            batch.shares.granted(want.priority, self.waiting > 0);
            if want.priority == Priority::Batch {
                batch.spend(&self.terms.measures, want.tokens);
            }
        }
        aside
    }

    /// Brings its buckets up to now, and what is saved of them for batch calls that wait.
    fn fill(&mut self, now: Instant) {
        let seconds = self.levels.fill(&self.terms.measures, now);
        if self.waiting > 0
            && let Some(batch) = &mut self.batch
        {
            batch.save(&self.terms.measures, seconds);
        }
    }

    /// How much is left.
    #[must_use]
    pub fn allowance(&self, now: Instant) -> Allowance {
        let mut tightest = Tightest::default();
        tightest.look(self, &self.levels.now(&self.terms.measures, now));
        tightest.allowance()
    }

    /// How many places are left.
    fn places(&self) -> Option<Left> {
        let most = self.terms.limit.concurrency?;
        let remaining = most.saturating_sub(self.running.all);
        let reset = if self.running.all == 0 { Duration::ZERO } else { Duration::from_secs(1) };
        Some(Left { limit: most.into(), remaining: remaining.into(), reset })
    }
}

/// Charges every account with a call, or none of them.
pub fn decide<B: DerefMut<Target = Account>>(accounts: &mut [B], want: &Want, now: Instant) -> Decision {
    let mut denial: Option<Denial> = None;
    for (at, account) in accounts.iter_mut().enumerate() {
        account.fill(now);
        if account.has_room_for(want) {
            continue;
        }
        let is_firm = account.batch.as_ref().is_some_and(|batch| batch.firm > 0);
        let lack = account.lacks(want, is_firm, now);
        // Where several let the call wait equally long, the first counts.
        if let Some(Lack { limit, wait, .. }) = lack.filter(|lack| denial.is_none_or(|denial| lack.wait > denial.wait))
        {
            denial = Some(Denial { at, limit, wait });
        }
    }
    if let Some(Denial { at, limit, .. }) = denial.filter(|_| want.priority == Priority::Online)
        && let Some(account) = accounts.get_mut(at)
    {
        account.refuses(limit, now);
    }
    let (mut tightest, mut aside) = (Tightest::default(), Aside::default());
    for (at, account) in accounts.iter_mut().enumerate() {
        if denial.is_none() {
            let charged = account.charge(want);
            if let Some(own) = aside.0.get_mut(at) {
                *own = charged;
            }
        }
        tightest.look(account, &account.levels);
    }
    Decision { denial, aside, allowance: tightest.allowance() }
}
