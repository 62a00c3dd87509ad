//! Stories of one upstream, and what holds whatever happens to it.

use super::*;

mod laws;

const TERMS: Terms = Terms {
    failures: 5,
    window: Duration::from_secs(10),
    hold: Duration::from_secs(30),
    max_rest: Duration::from_secs(300),
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A breaker that a probe has opened at `now`.
fn open(now: Instant) -> Breaker {
    let mut breaker = Breaker::default();
    breaker.trip(now, now, &TERMS);
    breaker
}

/// A breaker that was opened at `now`, with its trial out since its hold was over.
fn on_trial(now: Instant) -> (Breaker, Trial) {
    let mut breaker = open(now);
    let trial = breaker.enter(now + TERMS.hold).unwrap().unwrap();
    (breaker, trial)
}

/// A breaker that grows back from `now` on.
fn growing(now: Instant) -> Breaker {
    let mut breaker = open(now - TERMS.hold);
    breaker.well(now);
    breaker
}

/// A try that begins and fails at `now`.
fn fail(breaker: &mut Breaker, now: Instant) -> Option<Change> {
    breaker.failed(None, now, now, &TERMS)
}

#[test]
fn the_fifth_failure_within_the_window_opens_it_for_the_hold() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    for second in 0..4 {
        assert_eq!(fail(&mut breaker, now + seconds(second)), None);
    }
    let fifth = now + seconds(9);
    let until = fifth + TERMS.hold;
    assert_eq!(fail(&mut breaker, fifth), Some(Change::Opened { until }));
    assert_eq!(breaker.stand(until - Duration::from_nanos(1)), Stand::Open { until: Some(until) });
    assert_eq!(breaker.enter(fifth), Err(Some(until)));
    assert_eq!(breaker.since(), Some(fifth));
}

#[test]
fn failures_further_apart_than_the_window_never_open_it() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    for count in 0..100 {
        assert_eq!(fail(&mut breaker, now + Duration::from_millis(2500) * count), None);
    }
    assert_eq!(breaker.stand(now), Stand::Closed);
}

#[test]
fn neither_successes_nor_throttles_between_failures_wipe_the_count() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    for _ in 0..4 {
        assert_eq!(fail(&mut breaker, now), None);
        assert_eq!(breaker.succeeded(None, now), None);
        breaker.released(None);
    }
    assert!(fail(&mut breaker, now).is_some());
}

#[test]
fn it_is_quiet_but_while_a_failure_is_remembered() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    assert!(breaker.is_quiet(now));
    fail(&mut breaker, now);
    assert!(!breaker.is_quiet(now + seconds(9)));
    assert!(breaker.is_quiet(now + seconds(10)));
}

#[test]
fn after_the_hold_one_call_at_a_time_tries_it() {
    let now = base::Clock.now();
    let mut breaker = open(now);
    let later = now + TERMS.hold;
    assert_eq!(breaker.stand(later), Stand::HalfOpen { trial_out: false });
    assert!(breaker.enter(later).unwrap().is_some());
    assert_eq!(breaker.stand(later), Stand::HalfOpen { trial_out: true });
    assert_eq!(breaker.enter(later + seconds(1)), Err(Some(later + seconds(1))));
}

#[test]
fn a_trial_whose_caller_left_is_free_for_the_next_call() {
    let now = base::Clock.now();
    let (mut breaker, trial) = on_trial(now);
    let later = now + TERMS.hold;
    breaker.released(Some(trial));
    let next = breaker.enter(later).unwrap().unwrap();
    assert_ne!(next, trial);
    breaker.released(Some(trial));
    assert_eq!(breaker.enter(later), Err(Some(later)), "the first one's ticket does not free the second's");
}

#[test]
fn a_failed_trial_opens_it_for_another_hold() {
    let now = base::Clock.now();
    let (mut breaker, trial) = on_trial(now);
    let began = now + TERMS.hold;
    let ended = began + seconds(3);
    let until = ended + TERMS.hold;
    assert_eq!(breaker.failed(Some(trial), began, ended, &TERMS), Some(Change::Opened { until }));
    assert_eq!(breaker.enter(until - seconds(1)), Err(Some(until)));
    assert!(breaker.enter(until).unwrap().is_some());
}

#[test]
fn after_a_good_trial_its_share_grows_to_the_whole_and_it_is_closed_once() {
    let now = base::Clock.now();
    let (mut breaker, trial) = on_trial(now);
    let back = now + TERMS.hold;
    assert_eq!(breaker.succeeded(Some(trial), back), Some(Change::Growing));
    assert_eq!(breaker.stand(back), Stand::Growing { share: 0.05 });
    assert_eq!(breaker.stand(back + RAMP / 2), Stand::Growing { share: 0.525 });
    assert_eq!(breaker.enter(back), Ok(None), "whether it is its turn is drawn elsewhere");
    assert_eq!(breaker.succeeded(None, back + RAMP / 2), None);
    assert_eq!(breaker.stand(back + RAMP), Stand::Closed);
    assert!(!breaker.is_quiet(back + RAMP), "somebody has yet to tell the log");
    assert_eq!(breaker.succeeded(None, back + RAMP), Some(Change::Closed));
    assert_eq!(breaker.succeeded(None, back + RAMP), None);
    assert!(breaker.is_quiet(back + RAMP));
}

#[test]
fn failures_while_it_grows_are_counted_as_ever() {
    let now = base::Clock.now();
    for later in [now, now + seconds(2)] {
        let mut breaker = growing(now);
        for _ in 1..TERMS.failures {
            assert_eq!(fail(&mut breaker, later), None, "one call that fails must not take it from all others");
        }
        let until = later + TERMS.hold;
        assert_eq!(fail(&mut breaker, later), Some(Change::Opened { until }));
    }
}

#[test]
fn failures_at_the_end_of_its_growth_count_when_it_is_closed() {
    let now = base::Clock.now();
    let mut breaker = growing(now);
    for _ in 2..TERMS.failures {
        assert_eq!(fail(&mut breaker, now + RAMP - seconds(1)), None);
    }
    assert_eq!(fail(&mut breaker, now + RAMP), Some(Change::Closed));
    assert!(matches!(fail(&mut breaker, now + RAMP), Some(Change::Opened { .. })));
}

#[test]
fn once_grown_back_a_failure_is_only_counted() {
    let now = base::Clock.now();
    let mut breaker = growing(now);
    assert_eq!(fail(&mut breaker, now + RAMP), Some(Change::Closed));
    for _ in 0..3 {
        assert_eq!(fail(&mut breaker, now + RAMP), None);
    }
    assert!(matches!(fail(&mut breaker, now + RAMP), Some(Change::Opened { .. })));
}

#[test]
fn calls_that_hung_since_before_it_opened_do_not_open_it_again() {
    let now = base::Clock.now();
    let hung = now - TERMS.hold - seconds(1);
    let mut breaker = growing(now);
    for later in [now, now + RAMP, now + RAMP * 2] {
        for _ in 0..10 {
            breaker.failed(None, hung, later, &TERMS);
        }
        assert!(matches!(breaker.stand(later), Stand::Growing { .. } | Stand::Closed));
    }
}

#[test]
fn a_call_that_ends_well_after_all_does_not_close_an_open_one() {
    let now = base::Clock.now();
    let mut breaker = open(now);
    for later in [now, now + TERMS.hold] {
        assert_eq!(breaker.succeeded(None, later), None);
        assert!(!matches!(breaker.stand(later), Stand::Closed | Stand::Growing { .. }));
    }
}

#[test]
fn a_ticket_counts_once_and_in_its_own_time_only() {
    let now = base::Clock.now();
    let (mut breaker, trial) = on_trial(now);
    let began = now + TERMS.hold;
    breaker.failed(Some(trial), began, began, &TERMS);
    let later = began + TERMS.hold;
    let next = breaker.enter(later).unwrap().unwrap();
    assert_eq!(breaker.succeeded(Some(trial), later), None);
    assert_eq!(breaker.failed(Some(trial), began, later, &TERMS), None);
    assert_eq!(breaker.stand(later), Stand::HalfOpen { trial_out: true });
    assert_eq!(breaker.succeeded(Some(next), later), Some(Change::Growing));
    assert_eq!(breaker.failed(Some(next), later, later, &TERMS), None);
}

#[test]
fn a_probe_that_finds_it_dead_opens_it_and_keeps_it_open() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    let until = now + TERMS.hold;
    assert_eq!(breaker.trip(now, now, &TERMS), Some(Change::Opened { until }));
    let later = now + seconds(10);
    assert_eq!(breaker.trip(later, later + seconds(5), &TERMS), None);
    assert_eq!(breaker.stand(later), Stand::Open { until: Some(until) }, "the hold is neither prolonged nor cut short");
    let next = until + seconds(5);
    breaker.trip(until - seconds(1), next, &TERMS);
    assert_eq!(breaker.stand(until), Stand::Open { until: Some(next) }, "but while probes fail it stays shut");
    breaker.well(next);
    assert_eq!(breaker.stand(next), Stand::Growing { share: 0.05 }, "and an answered one stands for the trial");
}

#[test]
fn a_probe_that_finds_it_dead_after_its_hold_spares_the_caller_a_trial() {
    let now = base::Clock.now();
    let mut breaker = open(now);
    let later = now + TERMS.hold;
    assert_eq!(breaker.trip(later, later, &TERMS), Some(Change::Opened { until: later + TERMS.hold }));
    assert_eq!(breaker.enter(later), Err(Some(later + TERMS.hold)));
}

#[test]
fn a_probe_that_finds_it_well_counts_as_a_trial_but_never_before_the_hold_is_over() {
    let now = base::Clock.now();
    let mut breaker = open(now);
    assert_eq!(breaker.well(now + seconds(29)), None);
    assert_eq!(breaker.well(now + seconds(30)), Some(Change::Growing));
    assert_eq!(breaker.well(now + seconds(31)), None);
    assert_eq!(breaker.well(now + seconds(40)), Some(Change::Closed));
}

#[test]
fn while_a_trial_is_out_probes_leave_the_verdict_to_it() {
    let now = base::Clock.now();
    let (mut breaker, trial) = on_trial(now);
    let later = now + TERMS.hold + seconds(1);
    assert_eq!(breaker.well(later), None);
    assert_eq!(breaker.trip(later, later, &TERMS), None);
    assert_eq!(breaker.succeeded(Some(trial), later), Some(Change::Growing));
}

#[test]
fn stricter_terms_hold_from_the_next_failure_on() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    fail(&mut breaker, now);
    fail(&mut breaker, now);
    let strict = Terms { failures: 2, ..TERMS };
    assert!(matches!(breaker.failed(None, now, now, &strict), Some(Change::Opened { .. })));
}

#[test]
fn one_failure_opens_it_where_the_terms_allow_none() {
    let now = base::Clock.now();
    for failures in [0, 1] {
        let terms = Terms { failures, ..TERMS };
        let mut breaker = Breaker::default();
        assert!(matches!(breaker.failed(None, now, now, &terms), Some(Change::Opened { .. })));
    }
}

#[test]
fn a_hold_beyond_all_measure_is_no_panic() {
    let now = base::Clock.now();
    let mut breaker = Breaker::default();
    breaker.trip(now, now, &Terms { hold: Duration::MAX, ..TERMS });
    assert_eq!(breaker.enter(now + seconds(86_400)), Err(Some(now + LONGEST_HOLD)));
}

#[test]
fn what_a_probe_found_dead_stays_shut_until_the_next_one_has_looked() {
    let (mut breaker, now) = (Breaker::default(), base::Clock.now());
    let next = now + seconds(65);
    assert!(breaker.trip(now, next, &TERMS).is_some());
    assert_eq!(breaker.stand(now + TERMS.hold), Stand::Open { until: Some(next) }, "beyond its hold");
    assert_eq!(breaker.enter(now + TERMS.hold), Err(Some(next)));
    assert_eq!(breaker.well(now + seconds(60)), Some(Change::Growing), "one answer ends that");
    let mut unwatched = Breaker::default();
    assert!(unwatched.trip(now, next, &TERMS).is_some());
    assert!(unwatched.enter(next).unwrap().is_some(), "where no probe comes any more a caller may try");
}

/// One that an operator holds from `now` on.
fn held(now: Instant, length: Option<Duration>) -> Breaker {
    let mut breaker = Breaker::default();
    breaker.hold(now, length);
    breaker
}

#[test]
fn an_operator_holds_it_open_until_it_is_closed() {
    let now = base::Clock.now();
    let mut breaker = held(now, None);
    let much_later = now + seconds(86_400);
    assert_eq!(breaker.stand(much_later), Stand::Open { until: None });
    assert_eq!(breaker.enter(much_later), Err(None));
    assert_eq!(breaker.held(much_later), Some(Hold::UntilClosed));
    assert_eq!(breaker.stands_since(much_later), Some(now));
    breaker.close(much_later);
    assert_eq!(breaker.stand(much_later), Stand::Closed, "it takes every call, not a share that grows");
    assert_eq!((breaker.held(much_later), breaker.stands_since(much_later)), (None, Some(much_later)));
    assert!(breaker.is_quiet(much_later));
}

#[test]
fn a_hold_whose_time_is_over_ends_with_one_trial() {
    let now = base::Clock.now();
    let mut breaker = held(now, Some(seconds(600)));
    let over = now + seconds(600);
    assert_eq!(breaker.stand(over - seconds(1)), Stand::Open { until: Some(over) });
    assert_eq!(breaker.held(over - seconds(1)), Some(Hold::Until(over)));
    assert_eq!((breaker.stand(over), breaker.held(over)), (Stand::HalfOpen { trial_out: false }, None));
    assert_eq!(breaker.stands_since(over + seconds(5)), Some(over));
    let trial = breaker.enter(over).unwrap();
    assert_eq!(breaker.succeeded(trial, over), Some(Change::Growing));
    assert_eq!(breaker.held(over), None);
    assert_eq!(breaker.stands_since(over + RAMP + seconds(7)), Some(over + RAMP), "closed once it has grown");
}

#[test]
fn neither_probes_nor_late_answers_undo_a_hold() {
    let now = base::Clock.now();
    let (mut breaker, trial) = on_trial(now - TERMS.hold);
    breaker.hold(now, None);
    assert_eq!(breaker.succeeded(Some(trial), now), None, "a trial of before says nothing any more");
    assert_eq!((breaker.well(now), breaker.trip(now, now + seconds(5), &TERMS)), (None, None));
    assert_eq!(breaker.well(now + seconds(60)), None);
    assert_eq!(breaker.stand(now + seconds(60)), Stand::Open { until: None });
}

#[test]
fn a_hold_takes_the_place_of_the_one_before_and_never_shortens_the_breakers_own() {
    let now = base::Clock.now();
    let mut breaker = held(now, None);
    breaker.hold(now, Some(seconds(5)));
    assert_eq!(breaker.stand(now), Stand::Open { until: Some(now + seconds(5)) });
    let mut breaker = open(now);
    breaker.hold(now + seconds(1), Some(seconds(5)));
    assert_eq!(breaker.stand(now + seconds(10)), Stand::Open { until: Some(now + TERMS.hold) });
    assert_eq!(breaker.stands_since(now + seconds(10)), Some(now), "it has stood open since before");
}

#[test]
fn closing_forgets_what_failed_before_and_not_what_fails_after() {
    let now = base::Clock.now();
    let mut breaker = open(now);
    let began = now + seconds(1);
    breaker.close(now + seconds(2));
    for _ in 0..9 {
        assert_eq!(breaker.failed(None, began, now + seconds(3), &TERMS), None, "it began before");
    }
    for _ in 0..4 {
        assert_eq!(fail(&mut breaker, now + seconds(4)), None);
    }
    assert!(matches!(fail(&mut breaker, now + seconds(5)), Some(Change::Opened { .. })));
    breaker.close(now + seconds(6));
    assert!(matches!(breaker.trip(now + seconds(7), now + seconds(9), &TERMS), Some(Change::Opened { .. })));
}

#[test]
fn closing_a_closed_one_leaves_it_as_long_closed_as_it_was() {
    let now = base::Clock.now();
    let mut breaker = growing(now);
    breaker.close(now + seconds(60));
    assert_eq!(breaker.stands_since(now + seconds(60)), Some(now + RAMP));
    assert_eq!(Breaker::default().stands_since(now), None);
}
