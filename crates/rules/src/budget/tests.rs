//! Repeats never outgrow their share, from however many threads they come.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

mod laws;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// How many repeats may be taken at once.
fn taken(budget: &RetryBudget, now: Instant, share: f64) -> usize {
    (0..100_000).take_while(|_| budget.take(now, share)).count()
}

fn called(budget: &RetryBudget, now: Instant, calls: usize) {
    (0..calls).for_each(|_| budget.called(now));
}

#[test]
fn a_fifth_of_the_recent_calls_may_be_repeated() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    called(&budget, now + seconds(1), 300);
    called(&budget, now + seconds(7), 200);
    assert_eq!(taken(&budget, now + seconds(7), 0.2), 100);
}

#[test]
fn ten_may_always_be_repeated_be_there_ever_so_few_calls() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    assert_eq!(taken(&budget, now, 0.2), 10);
}

#[test]
fn a_share_of_nothing_allows_not_even_the_floor() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    called(&budget, now, 1_000);
    for share in [0.0, -1.0, f64::NAN] {
        assert_eq!(taken(&budget, now, share), 0);
    }
}

#[test]
fn calls_and_repeats_of_ten_seconds_ago_are_forgotten() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    called(&budget, now, 1_000);
    assert_eq!(taken(&budget, now + seconds(9), 0.2), 200);
    assert_eq!(taken(&budget, now + seconds(10), 0.2), 0, "the calls are gone, their repeats are not");
    assert_eq!(taken(&budget, now + seconds(19), 0.2), 10);
}

#[test]
fn a_day_without_calls_leaves_nothing_behind() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    for second in 0..20 {
        called(&budget, now + seconds(second), 100);
    }
    taken(&budget, now + seconds(19), 1.0);
    assert_eq!(taken(&budget, now + seconds(86_400), 1.0), 10);
}

#[test]
fn a_worker_whose_clock_was_read_earlier_takes_from_the_same_window() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    for _ in 0..5 {
        assert!(budget.take(now + seconds(30), 0.2));
    }
    assert_eq!(taken(&budget, now + seconds(20), 0.2), 5);
    assert_eq!(taken(&budget, now + seconds(30), 0.2), 0);
    assert_eq!(taken(&budget, now - seconds(1), 0.2), 0, "an instant before the epoch is the epoch");
}

#[test]
fn threads_together_take_exactly_what_is_allowed() {
    let now = base::Clock.now();
    let budget = RetryBudget::new(now);
    // The first count of a slot may be lost to a race; the others may not.
    budget.called(now);
    let granted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| called(&budget, now, 250));
        }
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| granted.fetch_add(taken(&budget, now, 0.2), Ordering::Relaxed));
        }
    });
    assert_eq!(granted.into_inner(), 200);
}

#[test]
fn threads_that_meet_where_a_second_begins_lose_next_to_nothing() {
    let epoch = base::Clock.now();
    let budget = RetryBudget::new(epoch);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|second| called(&budget, epoch + seconds(second), 1_000)));
        }
    });
    let repeats = taken(&budget, epoch + seconds(9), 1.0);
    assert!((30_000..=40_000).contains(&repeats), "{repeats}");
}
