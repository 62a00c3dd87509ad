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

use crate::shares::{Class, Shares, spared};

mod bucket;
mod limit;
mod terms;

#[cfg(test)]
mod tests;

use bucket::{Levels, Measure, Measures, Rest};
pub use limit::{Limit, Rate};
pub use terms::Terms;

/// What a call asks of every account.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Tokens that it is likely to use at most. Of an account that never holds as many it takes all that there are.
    pub tokens: u64,
    /// Who asks.
    pub class: Class,
    /// Whether it has waited and it is its turn: it need not stand behind others of its class.
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
    /// None: others of the same class have waited longer.
    Turn,
}

/// What one account lacks for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Of which of its limits.
    pub limit: Kind,
    /// When it will be there, if nobody else takes it; zero where that cannot be told.
    pub wait: Duration,
    /// Whether it is due to a batch call that waits: online calls have had their nine.
    pub is_due: bool,
}

/// What a batch call that is the first of those who wait claims of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Tokens that it wants.
    pub tokens: u64,
    /// Whether it would come at once if it had what it claims: only then anything is left to it that is due.
    /// A call that must wait elsewhere for long would keep others from what it cannot use.
    pub is_firm: bool,
}

/// What a decision comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// `None` where every account has been charged.
    pub denial: Option<Denial>,
    /// How much is left, for the caller to know.
    pub allowance: Allowance,
}

/// How much is left of the tightest limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Of calls: the rate with the least left; where there is none, the calls side by side.
    pub requests: Option<Left>,
    /// Of tokens.
    pub tokens: Option<Left>,
}

/// How much is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When nothing has been used for long.
    pub limit: u64,
    /// Now.
    pub remaining: u64,
    /// Until all of it is there again.
    pub reset: Duration,
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
    /// Calls side by side, of all classes and of batch.
    running: (u32, u32),
    /// Batch calls that wait for what the account lacks.
    waiting: u32,
    /// What is looked at where batch calls come.
    batch: OfBatch,
}

/// What an account knows of batch calls.
#[derive(Clone, Debug, Default)]
struct OfBatch {
    /// Those that were charged and stand in an upstream's line.
    in_line: u32,
    shares: Shares,
    /// Those that wait with a firm claim.
    firm: u32,
    /// What the last one wants that came with a firm claim.
    tokens: u64,
}

impl Account {
    /// An account in which nothing has been used.
    #[must_use]
    pub fn new(terms: Arc<Terms>, now: Instant) -> Self {
        let levels = Levels::full(&terms.measures, now);
        Self { levels, terms, running: (0, 0), waiting: 0, batch: OfBatch::default() }
    }

    /// Other terms hold from now on. What has been used under the old ones stays used.
    pub fn comes_under(&mut self, terms: Arc<Terms>, now: Instant) {
        self.fill(now);
        self.levels = self.levels.rebound(&self.terms.measures, &terms.measures);
        self.terms = terms;
    }

    /// What is limited.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.terms.limit()
    }

    /// Calls side by side.
    #[must_use]
    pub const fn running(&self) -> u32 {
        self.running.0
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
    pub fn claim(&mut self, claim: Claim) {
        self.waiting = self.waiting.saturating_add(1);
        if claim.is_firm {
            self.batch.firm = self.batch.firm.saturating_add(1);
            self.batch.tokens = claim.tokens;
        }
    }

    /// A batch call waits here no more, or claims something else.
    pub fn unclaim(&mut self, claim: Claim) {
        self.waiting = self.waiting.saturating_sub(1);
        self.batch.firm = self.batch.firm.saturating_sub(u32::from(claim.is_firm));
    }

    /// A batch call that this account was charged for stands in an upstream's line, or does no longer.
    pub fn lines_up(&mut self, is_in_line: bool) {
        self.batch.in_line =
            if is_in_line { self.batch.in_line.saturating_add(1) } else { self.batch.in_line.saturating_sub(1) };
    }

    /// Whether as many batch calls stand in lines as may: where online calls come too, those hold no more than a
    /// tenth of the places.
    fn is_line_full(&self) -> bool {
        let most = |most: u32| spared(most).max(1);
        self.terms.is_shared && self.terms.limit.concurrency.is_some_and(|places| self.batch.in_line >= most(places))
    }

    /// A call has ended that this account was charged for.
    pub fn ended(&mut self, class: Class) {
        self.running.0 = self.running.0.saturating_sub(1);
        if class == Class::Batch {
            self.running.1 = self.running.1.saturating_sub(1);
        }
    }

    /// So many tokens were put aside, and so many used: what is over comes back, what is lacking is owed.
    pub fn settle(&mut self, aside: u64, used: u64, now: Instant) {
        if let Some(measure) = self.terms.measures.tokens {
            #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
            let lacking = used as f64 - measure.at_most(aside);
            self.fill(now);
            self.levels.tokens = measure.taken(self.levels.tokens, lacking);
        }
    }

    /// A call that has put tokens aside turns out to want fewer: the others are there again at once.
    pub fn spare(&mut self, aside: u64, wanted: u64, now: Instant) {
        if let Some(measure) = self.terms.measures.tokens {
            let spared = measure.at_most(aside) - measure.at_most(wanted);
            self.fill(now);
            self.levels.tokens = measure.taken(self.levels.tokens, -spared.max(0.0));
        }
    }

    /// A call that was charged turned out to be none: its share of the rate is there for others again.
    pub fn unspend(&mut self, now: Instant) {
        if let Some(measure) = self.terms.measures.requests {
            self.fill(now);
            self.levels.requests = measure.taken(self.levels.requests, -1.0);
        }
    }

    /// What the account lacks for a call that waits here, if anything; of several things the one that takes
    /// longest.
    #[must_use]
    pub fn lack(&self, want: &Want, now: Instant) -> Option<Lack> {
        let due = self.owes();
        let (limit, wait) = self.lacks(&self.levels.now(&self.terms.measures, now), want, due)?;
        Some(Lack { limit, wait, is_due: if limit == Kind::Concurrency { due.places } else { due.rate } })
    }

    fn lacks(&self, levels: &Levels, want: &Want, due: Due) -> Option<(Kind, Duration)> {
        let yields = self.yields(want.class, due);
        let short = |measure: Option<Measure>, level: f64, amount: f64, kept: f64| {
            let measure = measure?;
            // Whoever stands behind a call that is due waits for it, be the bucket ever so small.
            let is_behind = due.rate && want.class == Class::Online;
            let amount =
                if is_behind { measure.clamp(amount) + measure.clamp(kept) } else { measure.clamp(amount + kept) };
            measure.lacks(level, amount)
        };
        let requests = short(self.terms.measures.requests, levels.requests, 1.0, yields.requests);
        let requests = requests.map(|wait| (Kind::Requests, wait));
        #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
        let tokens = short(self.terms.measures.tokens, levels.tokens, want.tokens as f64, yields.tokens);
        let tokens = tokens.map(|wait| (Kind::Tokens, wait));
        let most = self.terms.limit.concurrency.unwrap_or(u32::MAX);
        let is_in_line = want.class == Class::Batch && self.is_line_full();
        let is_full = is_in_line || self.running.0.saturating_add(yields.places) >= most;
        let places = is_full.then_some((Kind::Concurrency, Duration::ZERO));
        let is_behind = self.waiting > 0 && want.class == Class::Batch && !want.is_turn;
        let turn = is_behind.then_some((Kind::Turn, Duration::ZERO));
        places.into_iter().chain(turn).chain(requests).chain(tokens).max_by_key(|(_, wait)| *wait)
    }

    /// What is due to the batch call that waits, where it can come.
    fn is_batch_due(&self) -> Due {
        if self.batch.firm == 0 { Due::default() } else { self.owes() }
    }

    /// What is due to batch. What it holds of the places says nothing about its share of a rate: many short calls
    /// hold none.
    fn owes(&self) -> Due {
        if !self.terms.is_shared || self.is_line_full() {
            return Due::default();
        }
        let is_due = |most| self.batch.shares.is_batch_due(self.running.1, most);
        Due { rate: is_due(None), places: is_due(self.terms.limit.concurrency) }
    }

    /// What a class leaves to the other.
    fn yields(&self, class: Class, due: Due) -> Yield {
        let tenth = |most: f64| if most < 2.0 { 0.0 } else { (most / 10.0).ceil() };
        let mut yields = Yield::default();
        match class {
            // Its tenth is due: the next share, or place, is the waiting call's.
            Class::Online => {
                if due.rate {
                    yields.requests = 1.0;
                    #[expect(clippy::cast_precision_loss, reason = "a guess of tokens need not be exact beyond 2^53")]
                    let tokens = self.batch.tokens as f64;
                    yields.tokens = tokens;
                }
                yields.places = u32::from(due.places);
            }
            Class::Batch if self.terms.is_shared => {
                if !due.rate {
                    yields.requests = self.terms.measures.requests.map_or(0.0, |measure| tenth(measure.most));
                    yields.tokens = self.terms.measures.tokens.map_or(0.0, |measure| tenth(measure.most));
                }
                if !due.places {
                    yields.places = self.terms.limit.concurrency.map_or(0, spared);
                }
            }
            Class::Batch => {}
        }
        yields
    }

    /// Whether nothing stands in the way of a call: the common case, told without reckoning how long it would wait.
    fn has_room_for(&self, want: &Want) -> bool {
        let Measures { requests, tokens } = self.terms.measures;
        self.waiting == 0
            && (want.class == Class::Online || !self.terms.is_shared)
            && requests.is_none_or(|_| self.levels.requests >= 1.0)
            && tokens.is_none_or(|measure| self.levels.tokens >= measure.at_most(want.tokens))
            && self.terms.limit.concurrency.is_none_or(|most| self.running.0 < most)
    }

    /// Takes a call's share of each bucket, and a place.
    fn charge(&mut self, want: &Want) {
        if let Some(measure) = self.terms.measures.requests {
            self.levels.requests = measure.taken(self.levels.requests, 1.0);
        }
        if let Some(measure) = self.terms.measures.tokens {
            self.levels.tokens = measure.taken(self.levels.tokens, measure.at_most(want.tokens));
        }
        self.running.0 = self.running.0.saturating_add(1);
        if want.class == Class::Batch {
            self.running.1 = self.running.1.saturating_add(1);
        }
        // Not written where nothing changes: see above.
        if self.waiting > 0 || want.class == Class::Batch {
            self.batch.shares.granted(want.class, self.waiting > 0);
        }
    }

    /// Brings its buckets up to now.
    fn fill(&mut self, now: Instant) {
        self.levels.fill(&self.terms.measures, now);
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
        let remaining = most.saturating_sub(self.running.0);
        let reset = if self.running.0 == 0 { Duration::ZERO } else { Duration::from_secs(1) };
        Some(Left { limit: most.into(), remaining: remaining.into(), reset })
    }
}

/// The tightest limits of the accounts that were looked at. When they are whole again is reckoned for them alone.
#[derive(Clone, Copy, Debug, Default)]
struct Tightest {
    requests: Option<Rest>,
    tokens: Option<Rest>,
    places: Option<Left>,
}

impl Tightest {
    fn look(&mut self, account: &Account, levels: &Levels) {
        let tighter = |one: &mut Option<Rest>, measure: Option<Measure>, level: f64| {
            let Some(other) = measure.map(|measure| Rest::of(measure, level)) else { return };
            if one.is_none_or(|one| other.is_tighter(&one)) {
                *one = Some(other);
            }
        };
        tighter(&mut self.requests, account.terms.measures.requests, levels.requests);
        tighter(&mut self.tokens, account.terms.measures.tokens, levels.tokens);
        let key = |left: &Left| (left.remaining, std::cmp::Reverse(left.reset));
        self.places = self.places.into_iter().chain(account.places()).min_by_key(key);
    }

    fn allowance(self) -> Allowance {
        Allowance { requests: self.requests.map(Rest::left).or(self.places), tokens: self.tokens.map(Rest::left) }
    }
}

/// Whether the next share of a rate, and the next place, is for a batch call that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    rate: bool,
    places: bool,
}

/// What a class leaves untouched.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    requests: f64,
    tokens: f64,
    places: u32,
}

/// Charges every account with a call, or none of them.
pub fn decide<B: DerefMut<Target = Account>>(accounts: &mut [B], want: &Want, now: Instant) -> Decision {
    let mut denial: Option<Denial> = None;
    for (at, account) in accounts.iter_mut().enumerate() {
        account.fill(now);
        if account.has_room_for(want) {
            continue;
        }
        let lacks = account.lacks(&account.levels, want, account.is_batch_due());
        // Where several let the call wait equally long, the first counts.
        if let Some((limit, wait)) = lacks.filter(|(_, wait)| denial.is_none_or(|denial| *wait > denial.wait)) {
            denial = Some(Denial { at, limit, wait });
        }
    }
    let mut tightest = Tightest::default();
    for account in accounts {
        if denial.is_none() {
            account.charge(want);
        }
        tightest.look(account, &account.levels);
    }
    Decision { denial, allowance: tightest.allowance() }
}
