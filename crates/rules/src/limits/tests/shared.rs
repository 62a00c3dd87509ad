//! Stories of limits that clients of both priorities share: what batch gets of them, and what it leaves.

use super::*;

const fn loose(tokens: u64) -> Claim {
    Claim { tokens, is_firm: false }
}

/// A batch call that has waited, and whose turn it is.
fn turn_of(account: &mut Account, tokens: u64, now: Instant) -> Option<Denial> {
    decide(&mut [account], &Want { tokens, priority: Priority::Batch, is_turn: true }, now).denial
}

/// An account whose tokens are used up, and its begin.
fn used_up(per_minute: u64) -> (Account, Instant) {
    let now = start();
    let mut account = fresh(tokens(per_minute), true, now);
    account.settle(Priority::Online, 0, per_minute, now);
    (account, now)
}

const STEP: Duration = Duration::from_millis(50);

#[test]
fn under_steady_online_load_a_waiting_batch_gets_a_tenth_of_a_rate() {
    let mut now = start();
    let mut account = fresh(burst(10.0, 1), true, now);
    account.claim(firm(0), now);
    let (mut online, mut batch) = (0, 0);
    // Online comes ten times as often as it may, and just before the waiting call each time.
    for _ in 0..10_000 {
        now += Duration::from_millis(10);
        online += u32::from(take(&mut account, now).is_none());
        batch += u32::from(turn(&mut account, now));
    }
    assert!((99..=101).contains(&batch), "{batch}");
    assert!((895..=905).contains(&online), "{online}");
}

/// Short calls beside a limit of calls side by side: what batch holds says nothing about its share of a rate.
#[test]
fn a_waiting_batch_gets_a_tenth_of_a_rate_also_where_places_are_limited_too() {
    let mut now = start();
    let limit = Limit { concurrency: Some(50), ..burst(10.0, 1) };
    let mut account = fresh(limit, true, now);
    account.claim(firm(0), now);
    let (mut online, mut batch) = (0, 0);
    for _ in 0..10_000 {
        now += Duration::from_millis(10);
        if take(&mut account, now).is_none() {
            online += 1;
            account.ended(Priority::Online);
        }
        if turn(&mut account, now) {
            batch += 1;
            account.ended(Priority::Batch);
        }
    }
    assert!((99..=101).contains(&batch), "{batch}");
    assert!((895..=905).contains(&online), "{online}");
}

#[test]
fn a_large_batch_call_that_waits_for_tokens_shuts_online_out_at_no_time() {
    let (mut account, mut now) = used_up(12_000);
    account.claim(firm(11_000), now);
    let (mut last, mut online) = (now, 0);
    while online < 500 {
        now += STEP;
        if ask(&mut [&mut account], Priority::Online, 50, now).denial.is_none() {
            (last, online) = (now, online + 1);
        }
        assert!(now - last <= SECOND / 2, "nothing for {:?} after {online} calls", now - last);
        assert!(turn_of(&mut account, 11_000, now).is_some(), "a tenth of the tokens is not there yet");
    }
}

#[test]
fn under_steady_online_load_a_waiting_batch_gets_a_tenth_of_the_tokens_whatever_its_calls_want() {
    for size in [30, 900, 6000, 11_000, 50_000] {
        let (mut account, mut now) = used_up(12_000);
        account.claim(firm(size), now);
        let (mut online, mut batch, most) = (0, 0, size.min(12_000));
        for _ in 0..18_000 {
            now += STEP * 4;
            while ask(&mut [&mut account], Priority::Online, 50, now).denial.is_none() {
                online += 50;
            }
            batch += if turn_of(&mut account, size, now).is_none() { most } else { 0 };
        }
        // An hour's worth is 720,000.
        assert!((72_000 - most..=72_000 + 50).contains(&batch), "{batch} for calls of {size}");
        assert!(online + batch >= 700_000, "{online} and {batch}: nothing is lost");
    }
}

#[test]
fn what_batch_calls_have_put_aside_and_not_used_is_saved_for_the_next_and_what_they_use_beyond_it_is_not() {
    for (aside, used) in [(300, 30), (30, 300)] {
        let (mut account, mut now) = used_up(12_000);
        account.claim(firm(aside), now);
        let (mut online, mut batch) = (0, 0);
        for _ in 0..18_000 {
            now += STEP * 4;
            while ask(&mut [&mut account], Priority::Online, 50, now).denial.is_none() {
                online += 50;
            }
            if turn_of(&mut account, aside, now).is_none() {
                account.settle(Priority::Batch, aside, used, now);
                batch += used;
            }
        }
        assert!((70_000..=74_000).contains(&batch), "{batch} of calls that put {aside} aside and use {used}");
        assert!(online >= 630_000, "{online}");
    }
}

#[test]
fn where_online_is_idle_a_large_batch_call_has_all_that_flows_in() {
    let (mut account, begin) = used_up(12_000);
    account.claim(firm(10_000), begin);
    let wait = turn_of(&mut account, 10_000, begin).unwrap().wait;
    // And leaves a tenth.
    assert_eq!(wait.as_secs(), 56);
    assert!(turn_of(&mut account, 10_000, begin + wait - SECOND).is_some());
    assert_eq!(turn_of(&mut account, 10_000, begin + wait), None);
}

#[test]
fn what_was_kept_for_a_batch_call_that_leaves_is_there_for_everybody() {
    let (mut account, begin) = used_up(12_000);
    account.claim(firm(11_000), begin);
    let now = begin + SECOND * 20;
    let left = |account: &mut Account| {
        (0..).take_while(|_| ask(&mut [account], Priority::Online, 50, now).denial.is_none()).count()
    };
    assert_eq!(left(&mut account), 3600 / 50, "of 4000 a tenth is kept");
    account.unclaim(firm(11_000), now);
    assert_eq!(left(&mut account), 400 / 50);
    // What others have used since is not kept for the next one.
    account.claim(firm(11_000), now);
    assert!(ask(&mut [&mut account], Priority::Online, 50, now + SECOND / 2).denial.is_none());
}

#[test]
fn what_is_kept_goes_over_to_the_batch_call_that_waits_next() {
    let (mut account, begin) = used_up(12_000);
    account.claim(firm(11_000), begin);
    let now = begin + SECOND * 20;
    while ask(&mut [&mut account], Priority::Online, 50, now).denial.is_none() {}
    account.claim(firm(100), now);
    account.unclaim(firm(11_000), now);
    for _ in 0..4 {
        assert_eq!(turn_of(&mut account, 100, now), None);
    }
    assert!(turn_of(&mut account, 100, now).is_some());
}

#[test]
fn who_waits_beside_a_batch_call_is_told_truthfully_how_long() {
    let (mut account, begin) = used_up(12_000);
    account.claim(firm(11_000), begin);
    for tokens in [50, 1000, 3000, 9000] {
        let wait = ask(&mut [&mut account], Priority::Online, tokens, begin).denial.unwrap().wait;
        let mut early = account.clone();
        assert!(
            ask(&mut [&mut early], Priority::Online, tokens, begin + wait.mul_f64(0.98)).denial.is_some(),
            "{tokens}"
        );
        let mut then = account.clone();
        assert_eq!(ask(&mut [&mut then], Priority::Online, tokens, begin + wait).denial, None, "{tokens}");
    }
}

#[test]
fn a_batch_call_that_waits_for_tokens_keeps_no_place_and_no_rate_from_others() {
    let now = start();
    let mut account =
        fresh(Limit { tokens_per_minute: Some(12_000), concurrency: Some(1), ..burst(5.0, 1) }, true, now);
    account.settle(Priority::Online, 0, 12_000, now);
    account.claim(firm(11_000), now);
    let mut online = 0;
    for step in 1..=600 {
        let now = now + STEP * step;
        if ask(&mut [&mut account], Priority::Online, 10, now).denial.is_none() {
            online += 1;
            account.ended(Priority::Online);
        }
    }
    assert!(online >= 145, "{online} of 150");
}

#[test]
fn who_must_wait_elsewhere_is_passed_by_others_but_its_tenth_is_saved() {
    let now = start();
    let mut account = fresh(burst(1.0, 1), true, now);
    account.claim(loose(0), now);
    let want = Want { tokens: 0, priority: Priority::Batch, is_turn: true };
    let seconds = (0..15).filter(|second| take(&mut account, now + SECOND * *second).is_none()).count();
    assert_eq!(seconds, 15, "others are not held up for who could not come");
    let now = now + SECOND * 14;
    assert!(account.lack(&want, now).unwrap().is_due);
    account.claim(firm(0), now);
    account.unclaim(loose(0), now);
    let later = now + SECOND;
    assert!(take(&mut account, later).is_some(), "the next one is the waiting call's");
    assert!(turn(&mut account, later));
    assert!(!account.lack(&want, later).unwrap().is_due);
}

/// Calls of a limit that both priorities come to, over so many seconds.
struct Rush {
    account: Account,
    now: Instant,
    /// When calls that run end, each with its priority.
    running: Vec<(Instant, Priority)>,
    /// Dice that always fall in the same way.
    dice: u64,
}

/// What came of them.
#[derive(Debug, Default)]
struct Rushed {
    online: u32,
    refused: u32,
    batch: u32,
}

impl Rushed {
    /// Of the online calls that came.
    fn share_refused(&self) -> f64 {
        f64::from(self.refused) / f64::from(self.online + self.refused)
    }
}

impl Rush {
    fn to(limit: Limit) -> Self {
        let begin = start();
        Self { account: fresh(limit, true, begin), now: begin, running: Vec::new(), dice: 1 }
    }

    /// True in `chance` of all cases.
    fn happens(&mut self, chance: f64) -> bool {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.dice >> 40) as f64) < chance * (1u64 << 24) as f64
    }

    /// Online calls come at random, so many a second, and each goes away when it is refused; batch calls wait, if
    /// there are any. Calls take `millis`.
    fn lasts(&mut self, seconds: u32, per_second: f64, has_batch: bool, millis: u64) -> Rushed {
        const TICK: Duration = Duration::from_millis(5);
        let mut rushed = Rushed::default();
        if has_batch {
            self.account.claim(firm(0), self.now);
        }
        for _ in 0..seconds * 200 {
            self.now += TICK;
            let (now, account) = (self.now, &mut self.account);
            self.running.retain(|(end, priority)| {
                if *end <= now {
                    account.ended(*priority);
                }
                *end > now
            });
            let ends = now + Duration::from_millis(millis);
            while has_batch && turn(&mut self.account, now) {
                self.running.push((ends, Priority::Batch));
                rushed.batch += 1;
            }
            if self.happens(per_second * TICK.as_secs_f64()) {
                if take(&mut self.account, now).is_none() {
                    self.running.push((ends, Priority::Online));
                    rushed.online += 1;
                } else {
                    rushed.refused += 1;
                }
            }
        }
        if has_batch {
            self.account.unclaim(firm(0), self.now);
        }
        rushed
    }
}

/// Of ten places for calls of 300 ms, which come to 33 calls a second, so much is used by online calls, over two minutes.
fn ten_places(load: f64, has_batch: bool) -> Rushed {
    Rush::to(side_by_side(10)).lasts(120, load * 33.3, has_batch, 300)
}

#[test]
fn where_online_calls_are_refused_batch_shrinks_to_its_tenth_and_keeps_it() {
    for (load, most_without, most) in [(0.6, 0.04, 0.08), (0.9, 0.17, 0.23), (3.0, 0.7, 0.73)] {
        let (without, with) = (ten_places(load, false).share_refused(), ten_places(load, true));
        assert!(without < most_without && with.share_refused() < most, "{load}: {without}, {with:?}");
        let share = f64::from(with.batch) / (33.3 * 120.0);
        assert!((0.095..0.14).contains(&share), "{load}: {share} of the places");
    }
}

#[test]
fn where_few_online_calls_come_batch_uses_what_they_leave() {
    for (load, least) in [(0.05, 0.8), (0.15, 0.6), (0.3, 0.4)] {
        let with = ten_places(load, true);
        let share = f64::from(with.batch) / (33.3 * 120.0);
        assert!(share > least && with.share_refused() < 0.09, "{load}: {share}, {with:?}");
    }
}

#[test]
fn when_online_calls_stay_away_batch_has_their_places_soon() {
    let mut rush = Rush::to(side_by_side(10));
    rush.lasts(30, 100.0, true, 300);
    rush.lasts(7, 0.0, true, 300);
    let after = rush.lasts(10, 0.0, true, 300);
    assert!(f64::from(after.batch) > 0.88 * 333.0, "{after:?}");
}

#[test]
fn online_calls_that_come_at_random_within_a_rate_find_it_whatever_waits() {
    let rush = |limit: Limit, per_second: f64| Rush::to(limit).lasts(120, per_second, true, 100);
    let some = rush(burst(30.0, 6), 20.0);
    assert!(some.share_refused() < 0.06 && some.batch > 900, "{some:?}");
    // Also where a bucket holds one call, and cannot hold one for each.
    let without = Rush::to(burst(5.0, 1)).lasts(120, 3.0, false, 10);
    let with = Rush::to(burst(5.0, 1)).lasts(120, 3.0, true, 10);
    assert!(with.share_refused() < without.share_refused() + 0.06 && with.batch >= 57, "{with:?}, {without:?}");
}

#[test]
fn what_its_clients_own_limit_refuses_presses_on_no_other() {
    let now = start();
    let (mut route, mut own) = (fresh(side_by_side(10), true, now), fresh(burst(0.1, 1), false, now));
    for _ in 0..10 {
        ask(&mut [&mut route, &mut own], Priority::Online, 0, now);
    }
    assert_eq!((0..10).filter(|_| ask(&mut [&mut route], Priority::Batch, 0, now).denial.is_none()).count(), 8);
}
