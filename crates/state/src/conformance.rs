//! What every implementation must do, as functions that tests call with a fresh one.

mod answers;
mod objects;
mod requests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Period;
use rules::limits::{Aside, Kind, Limit, Rate, Terms, Want};
use rules::shares::Priority;

use crate::{
    Account, Amounts, Change, Columns, Counters, Entry, Ledger, Limits, Meter, QUARTER, Question, Row, Scope, Settled,
    Standing, Sums, Wish,
};

pub use answers::answers;
pub use objects::{SECRET, digest, objects};
pub use requests::{record, requests};

/// An entry of one call: 10 tokens read, 5 written.
fn entry(at: u64, client: &str, model: &str, currency: &str) -> Entry {
    let cost = if currency.is_empty() { 0 } else { 1_000 };
    Entry {
        at: Duration::from_secs(at),
        client: client.into(),
        route: "chat".into(),
        upstream: format!("cloud/{model}").into(),
        model: model.into(),
        currency: currency.into(),
        sums: Sums {
            requests: 1,
            tokens_in: 10,
            tokens_out: 5,
            tokens_cached: 2,
            cost,
            unpriced: u64::from(currency.is_empty()),
            cache_hits: 1,
            tokens_saved: 6,
            cost_saved: if currency.is_empty() { 0 } else { 7 },
            ms_saved: 8,
        },
    }
}

async fn rows(ledger: &dyn Ledger, question: Question) -> Vec<Row> {
    let mut rows = match ledger.report(question).await {
        Ok(rows) => rows,
        Err(error) => {
            assert_eq!(error.to_string(), "", "a ledger that is well answers");
            Vec::new()
        }
    };
    let order = |row: &Row| (row.day, row.client.clone(), row.model.clone(), row.currency.clone());
    rows.sort_by_key(order);
    rows
}

/// A ledger that is empty keeps all its promises.
pub async fn ledger(ledger: &dyn Ledger) {
    assert_eq!(rows(ledger, Question::default()).await, []);
    sums_are_by_what_is_asked(ledger).await;
    ranges_are_of_whole_quarters(ledger).await;
    every_question_sees_what_was_booked_before(ledger).await;
    sums_stop_at_the_largest_number(ledger).await;
    assert!(ledger.flush(Duration::from_secs(30)), "a ledger that is well can be flushed");
    let health = ledger.health();
    assert_eq!((health.trouble, health.waiting, health.lost), (None, 0, 0));
}

/// One quarter after midnight of 1970-01-03.
const START: u64 = 2 * 24 * 60 * 60 + QUARTER;

async fn sums_are_by_what_is_asked(ledger: &dyn Ledger) {
    ledger.book(vec![entry(START, "a", "m", "USD"), entry(START + 1, "a", "m", "USD")]);
    ledger.book(vec![
        entry(START, "a", "n", "CNY"),
        entry(START, "b", "n", ""),
        entry(START - QUARTER - 1, "b", "n", ""),
    ]);
    let all = rows(ledger, Question::default()).await;
    let seen: Vec<_> = all.iter().map(|row| (&*row.currency, row.sums.requests, row.sums.cost)).collect();
    assert_eq!(seen, [("", 2, 0), ("CNY", 1, 1_000), ("USD", 2, 2_000)]);
    assert!(all.iter().all(|row| row.day.is_none() && row.client.is_empty() && row.model.is_empty()));
    let by = Columns { client: true, day: true, ..Columns::default() };
    let by_client = rows(ledger, Question { by, ..Question::default() }).await;
    let seen: Vec<_> =
        by_client.iter().map(|row| (row.day, &*row.client, &*row.currency, row.sums.tokens_in)).collect();
    let expected = [(1, "b", "", 10), (2, "a", "CNY", 10), (2, "a", "USD", 20), (2, "b", "", 10)];
    assert_eq!(seen, expected.map(|(day, client, currency, tokens)| (Some(day), client, currency, tokens)));
    let by = Columns { route: true, upstream: true, model: true, ..Columns::default() };
    let of_a = rows(ledger, Question { by, client: Some("a".into()), ..Question::default() }).await;
    let seen: Vec<_> = of_a.iter().map(|row| (&*row.route, &*row.upstream, &*row.model)).collect();
    assert_eq!(seen, [("chat", "cloud/m", "m"), ("chat", "cloud/n", "n")]);
    let sums = of_a.first().map(|row| row.sums).unwrap_or_default();
    assert_eq!((sums.tokens_out, sums.tokens_cached, sums.unpriced), (10, 4, 0));
}

async fn ranges_are_of_whole_quarters(ledger: &dyn Ledger) {
    let count = async |from: u64, to: Option<u64>| {
        let (from, to) = (Duration::from_secs(from), to.map(Duration::from_secs));
        let rows = rows(ledger, Question { from, to, ..Question::default() }).await;
        rows.iter().map(|row| row.sums.requests).sum::<u64>()
    };
    assert_eq!(count(START, None).await, 4, "the quarter that it begins with is in it");
    assert_eq!(count(START + QUARTER, None).await, 0);
    assert_eq!(count(0, Some(START)).await, 1, "the quarter that it ends with is not");
    assert_eq!(count(0, Some(START + 1)).await, 5, "but where it ends within a quarter that is in it whole");
    assert_eq!(count(START + 5, Some(START)).await, 0, "a range that ends before it begins holds nothing");
}

async fn every_question_sees_what_was_booked_before(ledger: &dyn Ledger) {
    let question = || Question { client: Some("c".into()), ..Question::default() };
    let name: Arc<str> = "c".into();
    for count in 1..=50_u64 {
        ledger.book(vec![Entry { client: name.clone(), ..entry(START + count, "c", "m", "USD") }]);
        let asked = ledger.report(question());
        ledger.book(vec![Entry { client: "d".into(), ..entry(START, "d", "m", "USD") }]);
        let sums = asked.await.map(|rows| rows.iter().map(|row| row.sums.requests).sum::<u64>());
        assert_eq!(sums, Ok(count));
    }
    let booked_after = ledger.report(Question { client: Some("e".into()), ..Question::default() });
    ledger.book(vec![Entry { client: "e".into(), ..entry(START, "e", "m", "USD") }]);
    assert_eq!(booked_after.await, Ok(Vec::new()), "what is booked after a question is not in its answer");
}

async fn sums_stop_at_the_largest_number(ledger: &dyn Ledger) {
    for model in ["m", "m", "n"] {
        let huge = entry(START, "f", model, "USD");
        ledger.book(vec![Entry { sums: Sums { cost: u64::MAX, ..huge.sums }, ..huge }]);
        ledger.book(vec![entry(START, "g", "m", "USD")]);
    }
    let by = Columns { client: true, ..Columns::default() };
    let all = rows(ledger, Question { by, ..Question::default() }).await;
    let of = |client: &str| all.iter().find(|row| &*row.client == client).map(|row| row.sums).unwrap_or_default();
    // A store's largest number may be the largest signed one.
    assert!(of("f").requests == 3 && of("f").cost >= u64::MAX / 2, "{:?}", of("f"));
    assert_eq!((of("g").requests, of("g").cost), (3, 3_000), "others are what they are");
}

const fn tokens(tokens: u64) -> Amounts {
    Amounts { tokens, cost: 0 }
}

const fn wish(least: u64, most: u64) -> Wish {
    Wish { least: tokens(least), most: tokens(most) }
}

/// An account of which nothing is known yet keeps all its promises.
pub async fn account(account: &dyn Account) {
    let [first, second] = [Period { start: 0, end: 900 }, Period { start: 900, end: 1800 }];
    let limits = Limits { tokens: Some(100), cost: None };
    assert!(!account.knows(first));
    assert_eq!(account.standing(first), Standing::default());
    // What is put aside counts until it is settled, and then what was used.
    assert_eq!(account.reserve(first, wish(60, 60), limits).await, Ok(tokens(60)));
    let standing = Standing { spent: tokens(0), reserved: tokens(60) };
    assert_eq!(account.reserve(first, wish(41, 41), limits).await, Err(standing));
    assert_eq!(account.reserve(first, wish(40, 40), limits).await, Ok(tokens(40)));
    assert_eq!(account.settle(first, tokens(60), tokens(10)), Change { before: tokens(0), after: tokens(10) });
    assert_eq!(account.settle(first, tokens(40), tokens(0)), Change { before: tokens(10), after: tokens(10) });
    assert_eq!(account.standing(first), Standing { spent: tokens(10), reserved: tokens(0) });
    // Of what need not be there, as much is put aside as is there.
    assert_eq!(account.reserve(first, wish(10, 1_000), limits).await, Ok(tokens(90)));
    assert!(account.reserve(first, wish(0, 0), limits).await.is_err(), "nothing is left, not even for nothing");
    // More may have been used than was put aside.
    assert_eq!(account.settle(first, tokens(90), tokens(95)).after, tokens(105));
    assert!(account.reserve(first, wish(0, 1), limits).await.is_err());
    // Another period is another matter, and the first one is not forgotten for it.
    assert_eq!(account.reserve(second, wish(1, 1), limits).await, Ok(tokens(1)));
    assert_eq!(account.standing(first).spent, tokens(105));
    assert!(account.knows(first) && account.knows(second));
    money_and_tokens_are_one_decision(account).await;
}

async fn money_and_tokens_are_one_decision(account: &dyn Account) {
    let period = Period { start: 1800, end: 2700 };
    let limits = Limits { tokens: Some(100), cost: Some(50) };
    let dear = Amounts { tokens: 1, cost: 51 };
    assert!(account.reserve(period, Wish { least: dear, most: dear }, limits).await.is_err());
    assert_eq!(account.standing(period), Standing::default(), "what is refused takes nothing");
    let fits = Amounts { tokens: 100, cost: 50 };
    assert_eq!(account.reserve(period, Wish { least: fits, most: fits }, limits).await, Ok(fits));
    assert_eq!(account.settle(period, fits, Amounts { tokens: 5, cost: 50 }).after.cost, 50);
    assert!(account.reserve(period, wish(1, 1), limits).await.is_err(), "the money is spent");
    assert!(account.reserve(period, wish(1, 1), Limits { cost: None, ..limits }).await.is_ok());
}

/// Counters that have counted nothing yet keep all their promises, from `now` on.
pub async fn counters(counters: &dyn Counters, now: Instant) {
    let rate = |qps, burst| Limit { rate: Some(Rate { qps, burst }), ..Limit::default() };
    let meter = |scope, limit| Arc::new(Meter::new(scope, Terms::new(limit, false), now));
    let gateway = meter(Scope::Gateway, rate(1.0, 3));
    let client = meter(Scope::Client("a".into()), Limit { concurrency: Some(1), ..rate(1.0, 2) });
    let other = meter(Scope::Client("b".into()), Limit { tokens_per_minute: Some(600), ..Limit::default() });
    let want = |tokens| Want { tokens, priority: Priority::Online, is_turn: false };
    let denied = async |meters: &[&Arc<Meter>], tokens, now| {
        let denial = counters.take(meters, want(tokens), now).await.denial;
        denial.map(|denial| (denial.at, denial.limit, denial.wait.as_secs()))
    };
    // All are charged or none, and the one that refuses is named.
    let both = [&gateway, &client];
    assert_eq!(denied(&both, 0, now).await, None);
    for _ in 0..5 {
        assert_eq!(denied(&both, 0, now).await, Some((1, Kind::Concurrency, 0)));
    }
    counters.give_back(&both, Priority::Online, Settled::default(), now);
    assert_eq!(denied(&both, 0, now).await, None);
    counters.give_back(&both, Priority::Online, Settled::default(), now);
    assert_eq!(denied(&both, 0, now).await, Some((1, Kind::Requests, 1)), "rates are never given back");
    assert_eq!(counters.peek(&client, now).map(|(limit, _)| limit), Some(Kind::Requests));
    assert_eq!(denied(&[&gateway], 0, now).await, None, "what the client refused took nothing of the gateway");
    assert_eq!(denied(&[&gateway], 0, now).await, Some((0, Kind::Requests, 1)));
    assert_eq!(denied(&both, 0, now + Duration::from_secs(1)).await, None, "who waits as told is let in");
    // Tokens are put aside, and settled by what was used.
    assert_eq!(denied(&[&other], 600, now).await, None);
    counters.spare(&[&other], Priority::Online, (Aside::of_each(600), 500), now);
    assert_eq!(denied(&[&other], 200, now).await, Some((0, Kind::Tokens, 10)));
    let settled = |aside, used| Settled { aside: Aside::of_each(aside), used, is_void: false };
    counters.give_back(&[&other], Priority::Online, settled(500, 900), now);
    assert_eq!(denied(&[&other], 1, now).await, Some((0, Kind::Tokens, 30)), "what was used beyond them is owed");
    // Settled is what was put aside, whatever the bound is by then: of one it was all that there was, of the other less.
    let by_tokens = |tokens| Limit { tokens_per_minute: Some(tokens), ..Limit::default() };
    let large = meter(Scope::Client("c".into()), by_tokens(6000));
    let small = meter(Scope::Gateway, by_tokens(600));
    let aside = counters.take(&[&small, &large], want(3000), now).await.aside;
    assert_eq!((aside.of(0), aside.of(1)), (600, 3000));
    large.comes_under(Terms::new(by_tokens(1000), false), now);
    small.comes_under(Terms::new(by_tokens(6000), false), now);
    counters.give_back(&[&small, &large], Priority::Online, Settled { aside, used: 3000, is_void: false }, now);
    let left = |meter: &Meter| meter.account().allowance(now).tokens.map(|left| left.remaining);
    assert_eq!((left(&small), left(&large)), (Some(3000), Some(0)), "nothing was used beyond what was put aside of it");
}

#[cfg(test)]
mod tests {
    use crate::{
        InProcessAccount, InProcessAnswers, InProcessCounters, InProcessLedger, InProcessObjects, InProcessRequests,
    };

    #[tokio::test]
    async fn the_counters_in_memory_conform() {
        super::counters(&InProcessCounters, base::Clock.now()).await;
    }

    #[tokio::test]
    async fn the_answers_in_memory_conform() {
        super::answers(&InProcessAnswers::within(64 << 20)).await;
    }

    #[tokio::test]
    async fn the_objects_in_memory_conform() {
        super::objects(&InProcessObjects::default()).await;
    }

    #[tokio::test]
    async fn the_ledger_in_memory_conforms() {
        super::ledger(&InProcessLedger::default()).await;
    }

    #[tokio::test]
    async fn the_account_in_memory_conforms() {
        super::account(&InProcessAccount::default()).await;
    }

    #[tokio::test]
    async fn the_requests_in_memory_conform() {
        super::requests(&InProcessRequests::default()).await;
    }
}
