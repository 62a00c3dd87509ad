//! Stories of limits, and what holds whatever is asked for and when.

use proptest::prelude::*;

use super::*;

mod shared;

const SECOND: Duration = Duration::from_secs(1);

fn start() -> Instant {
    // Tests count from anywhere; only differences matter.
    tests_clock()
}

#[expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here depends on which")]
fn tests_clock() -> Instant {
    Instant::now() + Duration::from_secs(1 << 20)
}

fn qps(qps: f64) -> Limit {
    Limit { rate: Some(Rate::of(qps)), ..Limit::default() }
}

fn burst(qps: f64, burst: u32) -> Limit {
    Limit { rate: Some(Rate { qps, burst }), ..Limit::default() }
}

fn side_by_side(most: u32) -> Limit {
    Limit { concurrency: Some(most), ..Limit::default() }
}

fn tokens(per_minute: u64) -> Limit {
    Limit { tokens_per_minute: Some(per_minute), ..Limit::default() }
}

fn fresh(limit: Limit, is_shared: bool, now: Instant) -> Account {
    Account::new(Terms::new(limit, is_shared), now)
}

fn ask(accounts: &mut [&mut Account], priority: Priority, tokens: u64, now: Instant) -> Decision {
    decide(accounts, &Want { tokens, priority, is_turn: false }, now)
}

fn take(account: &mut Account, now: Instant) -> Option<Denial> {
    ask(&mut [account], Priority::Online, 0, now).denial
}

const fn firm(tokens: u64) -> Claim {
    Claim { tokens, is_firm: true }
}

/// A batch call that waits and whose turn it is.
fn turn(account: &mut Account, now: Instant) -> bool {
    decide(&mut [account], &Want { tokens: 0, priority: Priority::Batch, is_turn: true }, now).denial.is_none()
}

#[test]
fn ten_calls_at_the_end_of_a_second_and_ten_after_it_are_not_twenty() {
    let now = start();
    let mut account = fresh(qps(10.0), false, now);
    let late = now + Duration::from_millis(950);
    assert_eq!((0..10).filter(|_| take(&mut account, late).is_none()).count(), 10);
    let after = now + Duration::from_millis(1050);
    assert_eq!((0..10).filter(|_| take(&mut account, after).is_none()).count(), 1);
}

#[test]
fn a_refusal_says_truthfully_how_long_to_wait() {
    let now = start();
    let mut account = fresh(qps(0.5), false, now);
    assert_eq!(take(&mut account, now), None);
    let denial = take(&mut account, now).unwrap();
    assert_eq!((denial.limit, denial.wait.as_millis()), (Kind::Requests, 2000));
    assert!(take(&mut account, now + denial.wait.mul_f64(0.8)).is_some());
    assert_eq!(take(&mut account, now + denial.wait), None);
}

#[test]
fn to_keep_calling_prolongs_nothing() {
    let now = start();
    let mut account = fresh(qps(1.0), false, now);
    assert_eq!(take(&mut account, now), None);
    for step in 1..10 {
        assert!(take(&mut account, now + SECOND.mul_f64(f64::from(step) / 10.0)).is_some());
    }
    assert_eq!(take(&mut account, now + SECOND + Duration::from_nanos(1)), None);
}

#[test]
fn what_one_book_refuses_charges_no_other() {
    let now = start();
    let (mut wide, mut narrow) = (fresh(qps(100.0), false, now), fresh(qps(1.0), false, now));
    assert!(ask(&mut [&mut wide, &mut narrow], Priority::Online, 0, now).denial.is_none());
    for _ in 0..50 {
        let denial = ask(&mut [&mut wide, &mut narrow], Priority::Online, 0, now).denial.unwrap();
        assert_eq!(denial.at, 1);
    }
    assert_eq!(wide.allowance(now).requests.unwrap().remaining, 99);
    assert_eq!(wide.running(), 1);
}

#[test]
fn the_longest_wait_is_the_one_that_is_told() {
    let now = start();
    let (mut slow, mut full) = (fresh(qps(0.1), false, now), fresh(side_by_side(1), false, now));
    assert!(ask(&mut [&mut full, &mut slow], Priority::Online, 0, now).denial.is_none());
    let denial = ask(&mut [&mut full, &mut slow], Priority::Online, 0, now).denial.unwrap();
    assert_eq!((denial.at, denial.limit, denial.wait.as_secs()), (1, Kind::Requests, 10));
}

#[test]
fn places_come_back_when_calls_end() {
    let now = start();
    let mut account = fresh(side_by_side(2), false, now);
    assert!(take(&mut account, now).is_none() && take(&mut account, now).is_none());
    assert_eq!(take(&mut account, now).unwrap().limit, Kind::Concurrency);
    account.ended(Priority::Online);
    assert_eq!(take(&mut account, now), None);
}

#[test]
fn tokens_are_put_aside_by_guess_and_settled_by_use() {
    let now = start();
    let mut account = fresh(tokens(600), false, now);
    assert!(ask(&mut [&mut account], Priority::Online, 500, now).denial.is_none());
    assert_eq!(ask(&mut [&mut account], Priority::Online, 200, now).denial.unwrap().wait.as_secs(), 10);
    account.settle(Priority::Online, 500, 100, now);
    assert_eq!(account.allowance(now).tokens.unwrap().remaining, 500);
    assert!(ask(&mut [&mut account], Priority::Online, 200, now).denial.is_none());
    // More was used than there was: it is owed.
    account.settle(Priority::Online, 200, 900, now);
    assert_eq!(ask(&mut [&mut account], Priority::Online, 1, now).denial.unwrap().wait.as_secs(), 40);
    assert_eq!(account.is_empty(now).unwrap().0, Kind::Tokens);
}

#[test]
fn a_call_larger_than_a_minute_waits_for_a_full_minute_and_no_longer() {
    let now = start();
    let mut account = fresh(tokens(60), false, now);
    assert!(ask(&mut [&mut account], Priority::Online, 10_000, now).denial.is_none());
    assert_eq!(ask(&mut [&mut account], Priority::Online, 10_000, now).denial.unwrap().wait.as_secs(), 60);
}

#[test]
fn the_allowance_tells_of_the_tightest() {
    let now = start();
    let (mut client, mut route) = (fresh(qps(5.0), false, now), fresh(burst(100.0, 50), false, now));
    let mut gateway = fresh(side_by_side(3), false, now);
    let decision = ask(&mut [&mut gateway, &mut route, &mut client], Priority::Online, 0, now);
    let left = decision.allowance.requests.unwrap();
    assert_eq!((left.limit, left.remaining, left.reset.as_millis()), (5, 4, 200));
    assert_eq!(decision.allowance.tokens, None);
}

#[test]
fn a_changed_limit_holds_for_the_next_call_and_forgives_nothing_but_is_no_debt() {
    let now = start();
    let mut account = fresh(qps(10.0), false, now);
    assert!((0..10).all(|_| take(&mut account, now).is_none()));
    account.comes_under(Terms::new(qps(20.0), false), now);
    assert_eq!((0..20).filter(|_| take(&mut account, now).is_none()).count(), 10);
    account.comes_under(Terms::new(qps(1.0), false), now);
    assert_eq!(take(&mut account, now).unwrap().wait.as_secs(), 1);
    account.comes_under(Terms::new(side_by_side(50), false), now);
    assert_eq!(take(&mut account, now), None);
    assert_eq!(account.running(), 21);
}

#[test]
fn batch_leaves_a_tenth_to_online() {
    let now = start();
    let mut account = fresh(side_by_side(10), true, now);
    let batch = |account: &mut Account| ask(&mut [account], Priority::Batch, 0, now).denial.is_none();
    assert_eq!((0..20).filter(|_| batch(&mut account)).count(), 9);
    assert_eq!(take(&mut account, now), None);
    let mut rate = fresh(qps(20.0), true, now);
    assert_eq!((0..40).filter(|_| batch(&mut rate)).count(), 18);
    assert!(take(&mut rate, now).is_none() && take(&mut rate, now).is_none());
}

#[test]
fn a_limit_that_batch_has_to_itself_is_used_whole() {
    let now = start();
    let mut account = fresh(side_by_side(10), false, now);
    assert_eq!((0..20).filter(|_| ask(&mut [&mut account], Priority::Batch, 0, now).denial.is_none()).count(), 10);
}

#[test]
fn under_steady_online_load_a_waiting_batch_keeps_a_tenth_of_the_places() {
    let now = start();
    let mut account = fresh(side_by_side(20), true, now);
    assert!((0..20).all(|_| take(&mut account, now).is_none()));
    account.claim(firm(0), now);
    let mut batch = 0;
    for _ in 0..100 {
        account.ended(Priority::Online);
        // Whoever asks first: the place goes to batch until it has its two.
        if take(&mut account, now).is_some() && turn(&mut account, now) {
            batch += 1;
        }
    }
    assert!(batch >= 2, "{batch}");
    assert!(account.running.batch >= 2);
}

#[test]
fn a_new_batch_call_stands_behind_those_that_wait() {
    let now = start();
    let mut account = fresh(side_by_side(5), false, now);
    account.claim(firm(0), now);
    assert_eq!(ask(&mut [&mut account], Priority::Batch, 0, now).denial.unwrap().limit, Kind::Turn);
    assert!(turn(&mut account, now));
    account.unclaim(firm(0), now);
    assert!(ask(&mut [&mut account], Priority::Batch, 0, now).denial.is_none());
}

#[test]
fn absurd_limits_and_waits_do_no_harm() {
    let now = start();
    for limit in [qps(1e-300), qps(1e9), burst(1e9, u32::MAX), tokens(u64::MAX), tokens(1)] {
        let mut account = fresh(limit, true, now);
        for step in 0..4 {
            let decision = ask(&mut [&mut account], Priority::Online, u64::MAX, now + SECOND * step);
            assert!(decision.denial.is_none_or(|denial| denial.wait <= Duration::from_secs(366 * 86_400)));
        }
        account.settle(Priority::Online, u64::MAX, u64::MAX, now);
        account.settle(Priority::Online, 0, u64::MAX, now + SECOND);
    }
}

proptest! {
    /// Whatever the steps of time, forwards and backwards, no second sees more than the limit plus the burst.
    #[test]
    fn no_second_sees_more_than_limit_plus_burst(
        rate in 0.5f64..50.0, burst in 1u32..20, steps in prop::collection::vec(-50i64..400, 1..400),
    ) {
        let begin = start();
        let mut account = fresh(Limit { rate: Some(Rate { qps: rate, burst }), ..Limit::default() }, false, begin);
        let mut at = 0i64;
        let mut granted: Vec<i64> = Vec::new();
        for step in steps {
            at = (at + step).max(0);
            if take(&mut account, begin + Duration::from_millis(at.unsigned_abs())).is_none() {
                granted.push(at);
            }
        }
        for first in &granted {
            let within = granted.iter().filter(|at| (*first..=*first + 1000).contains(at)).count();
            prop_assert!(within as f64 <= rate + f64::from(burst) + 1e-3, "{within} within a second");
        }
    }

    /// Early fails, after it succeeds, and what was refused before changes nothing.
    #[test]
    fn a_wait_is_truthful(rate in 0.01f64..1000.0, burst in 1u32..10, tries in 0u32..5, early in 0.0f64..0.95) {
        let now = start();
        let mut account = fresh(Limit { rate: Some(Rate { qps: rate, burst }), ..Limit::default() }, false, now);
        while take(&mut account, now).is_none() {}
        let denial = take(&mut account, now).unwrap();
        for _ in 0..tries {
            prop_assert!(take(&mut account, now + denial.wait.mul_f64(early)).is_some());
        }
        prop_assert_eq!(take(&mut account, now + denial.wait), None);
    }

    /// Tokens put aside and given back leave a account as it was.
    #[test]
    fn what_is_put_aside_and_not_used_comes_back(limit in 1u64..1_000_000, calls in prop::collection::vec(0u64..2_000_000, 1..20)) {
        let now = start();
        let mut account = fresh(tokens(limit), false, now);
        for call in calls {
            if ask(&mut [&mut account], Priority::Online, call, now).denial.is_none() {
                account.settle(Priority::Online, call, 0, now);
                account.ended(Priority::Online);
            }
        }
        prop_assert_eq!(account.allowance(now).tokens.unwrap().remaining, limit);
        prop_assert_eq!(account.running(), 0);
    }

    /// Books agree with one another whatever is asked of them together: all are charged or none.
    #[test]
    fn books_are_charged_together(limits in prop::collection::vec((1u32..6, 1u32..6), 1..4), asks in prop::collection::vec((any::<bool>(), 0u64..500), 1..60)) {
        let begin = start();
        let limit = |(burst, most): (u32, u32)| Limit { rate: Some(Rate { qps: 3.0, burst }), concurrency: Some(most), tokens_per_minute: None };
        let mut accounts: Vec<Account> = limits.into_iter().map(|one| fresh(limit(one), false, begin)).collect();
        let (mut now, mut running) = (begin, 0u32);
        for (ends, step) in asks {
            now += Duration::from_millis(step);
            if ends && running > 0 {
                running -= 1;
                accounts.iter_mut().for_each(|account| account.ended(Priority::Online));
            }
            let mut all: Vec<&mut Account> = accounts.iter_mut().collect();
            running += u32::from(ask(&mut all, Priority::Online, 0, now).denial.is_none());
            prop_assert!(accounts.iter().all(|account| account.running() == running));
        }
    }
}

#[test]
fn who_stands_behind_a_huge_call_is_told_no_longer_wait_than_two_minutes() {
    let now = start();
    let mut account = fresh(tokens(60), true, now);
    account.claim(firm(1_000_000), now);
    (0..9).for_each(|_| assert!(ask(&mut [&mut account], Priority::Online, 1, now).denial.is_none()));
    let wait = ask(&mut [&mut account], Priority::Online, 60, now).denial.unwrap().wait;
    assert!(wait <= Duration::from_secs(120), "{wait:?}");
}

#[test]
fn batch_calls_in_an_upstreams_line_hold_no_more_than_a_tenth_of_the_places() {
    let now = start();
    let mut account = fresh(side_by_side(20), true, now);
    assert!((0..2).all(|_| ask(&mut [&mut account], Priority::Batch, 0, now).denial.is_none()));
    account.lines_up(true);
    assert!(ask(&mut [&mut account], Priority::Batch, 0, now).denial.is_none());
    account.lines_up(true);
    assert_eq!(ask(&mut [&mut account], Priority::Batch, 0, now).denial.unwrap().limit, Kind::Concurrency);
    account.claim(firm(0), now);
    assert!(!turn(&mut account, now), "nor one whose turn it is");
    assert!((0..17).all(|_| take(&mut account, now).is_none()), "online has all that is left");
    account.ended(Priority::Batch);
    account.ended(Priority::Batch);
    account.lines_up(false);
    assert!(turn(&mut account, now));
    // A limit that nobody else comes to is used as its client likes.
    let mut own = fresh(side_by_side(3), false, now);
    own.lines_up(true);
    own.lines_up(true);
    assert!((0..3).all(|_| ask(&mut [&mut own], Priority::Batch, 0, now).denial.is_none()));
}

#[test]
fn a_call_that_is_made_smaller_gives_back_what_it_does_not_want_any_more() {
    let now = start();
    let mut account = fresh(tokens(600), false, now);
    assert!(ask(&mut [&mut account], Priority::Online, 10_000, now).denial.is_none());
    account.spare(Priority::Online, 600, 100, now);
    assert_eq!(account.allowance(now).tokens.unwrap().remaining, 500);
    account.spare(Priority::Online, 100, 200, now);
    assert_eq!(account.allowance(now).tokens.unwrap().remaining, 500, "nothing more is taken");
    account.settle(Priority::Online, 100, 0, now);
    assert_eq!(account.allowance(now).tokens.unwrap().remaining, 600);
}

proptest! {
    /// An upstream may report any usage: no limit is shut for longer than a minute by it.
    #[test]
    fn a_debt_is_worked_off_within_a_minute(limit in 1u64..10_000_000, reports in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..90), 1..20)) {
        let mut now = start();
        let mut account = fresh(tokens(limit), false, now);
        for (aside, used, step) in reports {
            account.settle(Priority::Online, aside, used, now);
            let wait = account.is_empty(now).map_or(Duration::ZERO, |(_, wait)| wait);
            // And the time of the one token that is asked for.
            prop_assert!(wait <= SECOND * 60 + SECOND.mul_f64(60.1 / limit as f64), "{wait:?}");
            now += SECOND * u32::try_from(step).unwrap();
        }
        prop_assert_eq!(account.allowance(now + SECOND * 120).tokens.unwrap().remaining, limit);
    }
}

#[test]
fn what_every_call_looks_at_fits_into_one_cache_line_with_the_lock_before_it() {
    let locked = std::sync::Mutex::new(fresh(tokens(600), false, start()));
    let account = std::ptr::from_ref(&*locked.lock().unwrap()).addr();
    let lock = account - std::ptr::from_ref(&locked).addr();
    assert!(lock > 0, "a lock without a byte of its own would be none");
    let looked_at = lock + std::mem::offset_of!(Account, batch);
    assert!(looked_at <= 64, "{looked_at} bytes, {lock} of them the lock's");
}
