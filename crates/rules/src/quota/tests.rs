//! Periods at the edges of calendars and clocks, and warnings.

use proptest::prelude::*;

use super::*;

fn terms(per: Per, zone: &str) -> Terms {
    Terms {
        tokens: Some(1000),
        cost: None,
        currency: "USD".into(),
        per,
        zone: Zone::named(zone).unwrap(),
        warn: vec![0.8, 0.95],
    }
}

fn at(text: &str) -> u64 {
    u64::try_from(text.parse::<Timestamp>().unwrap().as_second()).unwrap()
}

/// Start and end of the period of an instant, in UTC.
fn period(per: Per, zone: &str, instant: &str) -> (String, String) {
    let period = terms(per, zone).period(Duration::from_secs(at(instant)));
    let utc = |seconds| timestamp(seconds).to_string();
    (utc(period.start), utc(period.end))
}

fn is(start: &str, end: &str) -> (String, String) {
    (start.to_owned(), end.to_owned())
}

#[test]
fn a_month_begins_at_the_clients_midnight_and_not_at_utc() {
    let september = is("2026-08-31T16:00:00Z", "2026-09-30T16:00:00Z");
    let october = is("2026-09-30T16:00:00Z", "2026-10-31T16:00:00Z");
    assert_eq!(period(Per::Month, "Asia/Shanghai", "2026-09-30T15:59:50Z"), september);
    assert_eq!(period(Per::Month, "Asia/Shanghai", "2026-09-30T15:59:59.999Z"), september);
    assert_eq!(period(Per::Month, "Asia/Shanghai", "2026-09-30T16:00:00Z"), october);
}

#[test]
fn february_has_29_days_in_leap_years_alone() {
    assert_eq!(period(Per::Month, "UTC", "2028-02-29T12:00:00Z"), is("2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"));
    assert_eq!(period(Per::Month, "UTC", "2027-02-28T23:59:59Z"), is("2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"));
    assert_eq!(period(Per::Day, "UTC", "2028-02-28T23:59:59Z"), is("2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z"));
    // 2100 is none.
    assert_eq!(period(Per::Day, "UTC", "2100-02-28T12:00:00Z"), is("2100-02-28T00:00:00Z", "2100-03-01T00:00:00Z"));
}

#[test]
fn days_of_summer_time_have_23_and_25_hours() {
    let hours = |per, instant| {
        let period = terms(per, "Europe/Berlin").period(Duration::from_secs(at(instant)));
        (period.end - period.start) / 3600
    };
    assert_eq!(hours(Per::Day, "2027-03-28T12:00:00Z"), 23);
    assert_eq!(hours(Per::Day, "2026-10-25T12:00:00Z"), 25);
    assert_eq!(hours(Per::Month, "2027-03-10T12:00:00Z"), 31 * 24 - 1);
    assert_eq!(hours(Per::Month, "2026-10-10T12:00:00Z"), 31 * 24 + 1);
}

#[test]
fn a_midnight_that_summer_time_skips_or_repeats_begins_one_day() {
    // Beirut's clocks go from 24:00 to 01:00, and back from 24:00 to 23:00.
    assert_eq!(
        period(Per::Day, "Asia/Beirut", "2026-03-28T22:00:00Z"),
        is("2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z")
    );
    // Havana's go back from 01:00 to 00:00: midnight comes twice.
    assert_eq!(
        period(Per::Day, "America/Havana", "2026-11-01T05:30:00Z"),
        is("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z")
    );
}

#[test]
fn the_end_of_time_is_no_panic() {
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"] {
        for per in [Per::Day, Per::Month] {
            for at in [Duration::ZERO, Duration::from_secs(LATEST), Duration::MAX] {
                let period = terms(per, zone).period(at);
                assert!(period.start < period.end, "{zone} {per:?} {at:?} {period:?}");
                let _ = terms(per, zone).zone.shown(period.end);
            }
        }
    }
}

#[test]
fn instants_are_shown_in_the_clients_time() {
    assert_eq!(Zone::named("Asia/Shanghai").unwrap().shown(at("2026-09-30T16:00:00Z")), "2026-10-01T00:00:00+08:00");
    assert_eq!(Zone::named("Asia/Kathmandu").unwrap().shown(at("2026-09-30T18:15:00Z")), "2026-10-01T00:00:00+05:45");
    assert!(Zone::named("Mars/Olympus").is_none() && Zone::named("").is_none());
}

#[test]
fn every_share_that_a_sum_has_come_to_and_that_was_not_told_is_found() {
    let shares = [0.5, 0.8, 1.0];
    let found = |limit, sum, told| passed(&shares, limit, sum, told).collect::<Vec<_>>();
    assert_eq!([0, 49, 50, 79, 80, 99, 100, 300].map(|sum| found(100, sum, 0.0).len()), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!((found(100, 90, 0.0), found(100, 90, 0.5), found(100, 90, 0.8)), (vec![0.5, 0.8], vec![0.8], vec![]));
    assert_eq!((found(0, 1, 0.0).len(), passed(&[], 1, 1, 0.0).count()), (0, 0));
}

const ZONES: [&str; 10] = [
    "UTC",
    "Asia/Shanghai",
    "Asia/Kathmandu",
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
];

proptest! {
    #[test]
    fn periods_cover_time_without_gaps_and_overlaps(
        zone in prop::sample::select(&ZONES[..]),
        is_month in any::<bool>(),
        seconds in 1_700_000_000_u64..2_500_000_000,
    ) {
        let terms = terms(if is_month { Per::Month } else { Per::Day }, zone);
        let of = |seconds| terms.period(Duration::from_secs(seconds));
        let period = of(seconds);
        prop_assert!(period.holds(Duration::from_secs(seconds)));
        prop_assert_eq!(of(period.start), period);
        prop_assert_eq!(of(period.end - 1), period);
        prop_assert_eq!(of(period.end).start, period.end);
        prop_assert_eq!(of(period.start - 1).end, period.start);
        let days = (period.end - period.start) as f64 / 86_400.0;
        let range = if is_month { 27.9..31.1 } else { 0.9..1.1 };
        prop_assert!(range.contains(&days), "{days}");
        // What the ledger adds up by.
        prop_assert_eq!(period.start % 900, 0);
    }

    #[test]
    fn a_sum_that_grows_in_any_steps_never_falls_behind_a_share(steps in prop::collection::vec(0_u64..60, 0..40)) {
        let shares = [0.25, 0.5, 0.8, 1.0];
        let mut sum = 0;
        let mut seen: Vec<f64> = Vec::new();
        for step in steps {
            sum += step;
            let told = seen.last().copied().unwrap_or_default();
            seen.extend(passed(&shares, 400, sum, told));
        }
        let reached: Vec<f64> = shares.into_iter().filter(|of| share(sum, 400) >= *of).collect();
        prop_assert_eq!(seen, reached, "each once, rising");
    }
}
