//! Bad news at once, good news by and by.

use super::*;

mod laws;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.01, "{found} is not near {expected}");
}

#[test]
fn nothing_is_known_at_first_and_the_first_latency_is_taken_as_it_is() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    assert_near(ewma.value(now), 0.0);
    ewma.observe(now, seconds(2));
    assert_near(ewma.value(now), 2.0);
}

#[test]
fn a_peak_is_taken_at_once() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    ewma.observe(now, seconds(1));
    ewma.observe(now + seconds(1), seconds(9));
    assert_near(ewma.value(now + seconds(1)), 9.0);
}

#[test]
fn a_single_fast_answer_does_not_make_a_slow_upstream_fast() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    ewma.observe(now, seconds(10));
    ewma.observe(now + seconds(1), seconds(1));
    assert!(ewma.value(now + seconds(1)) > 9.0);
    for second in 2..60 {
        ewma.observe(now + seconds(second), seconds(1));
    }
    assert_near(ewma.value(now + seconds(59)), 1.027);
}

#[test]
fn without_news_it_sinks_to_a_third_in_ten_seconds_and_is_forgotten_in_a_minute() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    ewma.observe(now, seconds(10));
    assert_near(ewma.value(now + seconds(10)), 3.679);
    assert!(ewma.value(now + seconds(59)) > 0.0);
    assert!(ewma.value(now + seconds(60)) <= 0.0);
}

#[test]
fn news_of_a_worker_that_read_its_clock_earlier_does_not_age_the_value() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    ewma.observe(now + seconds(5), seconds(2));
    ewma.observe(now, seconds(1));
    assert_near(ewma.value(now + seconds(5)), 2.0);
}

#[test]
fn a_failure_counts_as_three_of_its_kind() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    ewma.failed(now, seconds(2));
    assert_near(ewma.value(now), 6.0);
    let mut known = PeakEwma::default();
    known.observe(now, seconds(4));
    known.failed(now, Duration::from_millis(1));
    assert_near(known.value(now), 12.0);
}

#[test]
fn no_row_of_failures_is_beyond_healing() {
    let now = base::Clock.now();
    let mut ewma = PeakEwma::default();
    for _ in 0..10_000 {
        ewma.failed(now, seconds(1));
    }
    assert_near(ewma.value(now), 600.0);
    assert!(ewma.value(now + seconds(60)) <= 0.0);
}
