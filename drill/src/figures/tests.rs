//! The arithmetic, on evidence that can be checked by head.

use super::*;
use crate::evidence::Attempt;
use crate::incidents::ALL;

fn incident(name: &str) -> &'static Incident {
    ALL.iter().find(|incident| incident.name == name).unwrap()
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn a_try(id: &str, upstream: usize, at: u64, ended: u64) -> Try {
    let ended = Some(ms(ended));
    let (is_sound, is_given_up) = (true, false);
    let (at, began) = (ms(at), ended);
    Try { id: id.to_owned(), upstream, at, began, ended, is_sound, is_given_up, rule: None, status: 200 }
}

fn told(at: u64, ending: Ending) -> Told {
    Told { group: 0, id: format!("call-{at}"), at: ms(at), took: ms(10), status: 200, attempts: 1, ending }
}

fn line(ms: f64, attempts: &[(&str, &str, f64)]) -> Line {
    let attempt = |(upstream, outcome, ms): &(&str, &str, f64)| Attempt {
        upstream: (*upstream).to_owned(),
        outcome: (*outcome).to_owned(),
        ms: *ms,
    };
    let attempts = attempts.iter().map(attempt).collect();
    Line { id: "a".to_owned(), status: 200, ms, attempts, text: "the line".to_owned() }
}

#[test]
fn tries_one_after_the_other_do_not_overlap_and_a_late_end_is_forgiven() {
    assert!(overlapping(&[a_try("a", 0, 0, 100), a_try("a", 1, 100, 150)]).is_empty());
    assert!(overlapping(&[a_try("a", 0, 0, 340), a_try("a", 1, 100, 150)]).is_empty());
    assert_eq!(overlapping(&[a_try("a", 0, 0, 360), a_try("a", 1, 100, 150), a_try("b", 1, 100, 150)]), ["a"]);
    let running = Try { ended: None, ..a_try("a", 0, 0, 0) };
    assert_eq!(overlapping(&[running, a_try("a", 1, 100, 150)]), ["a"]);
    // The second of three does not hide the first.
    assert_eq!(overlapping(&[a_try("a", 0, 0, 900), a_try("a", 1, 10, 20), a_try("a", 2, 500, 600)]).len(), 2);
}

#[test]
fn calls_at_a_time_are_counted_where_they_are_most() {
    let tries = [a_try("a", 0, 0, 10), a_try("b", 0, 10, 30), a_try("c", 0, 20, 40), a_try("d", 0, 25, 26)];
    assert_eq!(at_a_time(tries.iter()), ["b", "c", "d"]);
    assert_eq!(at_a_time(tries[..2].iter()).len(), 1);
    assert!(at_a_time(std::iter::empty()).is_empty());
}

#[test]
fn a_call_that_was_given_up_may_be_heard_of_late() {
    let given_up = |ended| Try { is_sound: false, is_given_up: true, ..a_try("a", 0, 0, ended) };
    let after = |ended| at_a_time([given_up(ended), a_try("b", 0, 1000, 1050)].iter()).len();
    assert_eq!((after(1000), after(1090), after(1110)), (1, 1, 2));
}

#[test]
fn who_left_is_counted_by_the_access_log() {
    let left = Told { id: "a".to_owned(), attempts: 0, ..told(0, Ending::Left) };
    let answered = Told { id: "b".to_owned(), ..told(0, Ending::Right) };
    let lines = vec![
        line(5.0, &[("hung-first/m", "caller_gone", 5.0)]),
        Line { id: "b".to_owned(), ..line(5.0, &[("hung-first/m", "ok", 5.0)]) },
    ];
    let tries = vec![a_try("a", 0, 0, 5), a_try("b", 0, 0, 5)];
    let figures =
        Figures::of(incident("hung"), &Evidence { told: vec![left, answered], tries, lines, ..Evidence::default() });
    assert!(figures.sums.agree() && figures.failures.is_empty(), "{figures:?}");
}

#[test]
fn a_switch_is_the_time_from_the_first_failure_to_the_answer() {
    let lines = [
        line(20.0, &[("a/m", "ok", 19.0)]),
        line(50.0, &[("a/m", "status", 10.0), ("b/m", "ok", 38.0)]),
        line(90.0, &[("a/m", "timeout", 20.0), ("b/m", "ok", 70.0)]),
        line(99.0, &[("a/m", "reset", 1.0), ("a/m", "ok", 70.0)]),
    ];
    assert_eq!(switched(&lines), Some((ms(40), ms(70))));
    assert_eq!(switched(&lines[..1]), None);
}

#[test]
fn another_try_on_a_new_connection_is_no_move() {
    assert_eq!(moves(&line(9.0, &[("a/m", "reset", 1.0), ("a/m", "connect_error", 1.0), ("b/m", "ok", 1.0)])), 2);
    assert_eq!(moves(&line(9.0, &[("a/m", "status", 1.0), ("a/m", "status", 1.0), ("b/m", "ok", 1.0)])), 3);
    assert_eq!(moves(&line(9.0, &[])), 0);
}

#[test]
fn sums_agree_where_every_try_is_somewhere() {
    let sums = Sums { told: 10, logged: 10, reached: 7, unconnected: 2, unsure: 1 };
    assert!(sums.agree());
    assert!(Sums { reached: 8, ..sums }.agree());
    assert!(!Sums { reached: 9, ..sums }.agree(), "more at the upstreams than anybody told");
    assert!(!Sums { reached: 6, ..sums }.agree(), "a try that is nowhere");
    assert!(!Sums { logged: 9, ..sums }.agree());
}

#[test]
fn a_degraded_answer_is_right_for_who_expects_it_while_something_is_wrong() {
    let rerank = incident("rerank");
    let failed = |call: Told| failure(rerank, &call).is_some();
    assert!(!failed(told(5000, Ending::Degraded)));
    assert!(failed(told(500, Ending::Degraded)));
    assert!(failed(told(17_000, Ending::Degraded)));
    assert!(failed(told(5000, Ending::Refused("degraded".to_owned()))));
    assert!(failed(Told { group: 1, ..told(5000, Ending::Degraded) }));
    assert!(!failed(Told { group: 1, ..told(5000, Ending::Refused("upstream_timeout".to_owned())) }));
    assert!(failed(told(5000, Ending::Broken("cut".to_owned()))));
}

#[test]
fn a_failure_brings_its_line_of_the_access_log() {
    let call = Told { id: "a".to_owned(), status: 502, ..told(0, Ending::Refused("upstream_error".to_owned())) };
    let evidence = Evidence { told: vec![call], lines: vec![line(5.0, &[])], ..Evidence::default() };
    let figures = Figures::of(incident("errors"), &evidence);
    assert_eq!(figures.failures[0].line.as_deref(), Some("the line"));
    assert!(figures.failures[0].what.contains("upstream_error"), "{:?}", figures.failures);
}

#[test]
fn calls_within_a_rest_are_too_early() {
    let throttled = incident("throttled");
    let refusal = Try { is_sound: false, rule: Some(1), status: 429, ..a_try("a", 0, 0, 10) };
    let early_with = |at: u64| early(throttled, &[refusal.clone(), a_try("b", 0, at, at + 10)]).len();
    assert_eq!(early_with(100), 0, "it was under way when the word came");
    assert_eq!(early_with(700), 0, "nor had the gateway of a busy machine heard of it");
    assert_eq!(early_with(800), 1);
    assert_eq!(early_with(1000), 0);
    assert!(early(throttled, &[refusal.clone(), a_try("b", 1, 800, 810)]).is_empty(), "another upstream");
}

/// The first upstream is sick from 2 to 12 s, is tried each second, answers at 12.5 s, and then takes a tenth more of the calls
/// with each half second.
fn way_back() -> Vec<Try> {
    let mut tries: Vec<Try> = (5..12)
        .map(|second| Try { is_sound: false, status: 503, ..a_try("trial", 0, second * 1000, second * 1000 + 50) })
        .collect();
    for at in (12_500..30_000).step_by(10) {
        let tenths = (at - 12_500) / 500 + 1;
        let upstream = usize::from(at / 10 % 10 >= tenths);
        tries.push(a_try("call", upstream, at, at + 5));
    }
    tries
}

#[test]
fn the_way_back_is_measured_from_the_first_answer() {
    let errors = incident("errors");
    let back = Back::of(errors, errors.fault.unwrap(), &way_back());
    assert_eq!((back.trials, back.together.len()), (7, 1));
    assert_eq!(back.first, Some(ms(500)));
    assert_eq!(back.full, Some(ms(4000)));
    assert!((back.in_1s - 0.15).abs() < 0.02, "{back:?}");
    assert!((back.in_4s - 0.45).abs() < 0.02, "{back:?}");
    assert!((back.at_last - 1.0).abs() < 1e-9, "{back:?}");
}

#[test]
fn calls_that_wait_for_a_sick_upstream_are_seen_in_flight() {
    let errors = incident("errors");
    let mut tries = way_back();
    tries.push(Try { is_sound: false, ..a_try("hung", 0, 11_100, 12_400) });
    tries.push(Try { is_sound: false, ..a_try("hung too", 0, 12_100, 12_800) });
    tries.sort_by_key(|one| one.at);
    assert_eq!(Back::of(errors, errors.fault.unwrap(), &tries).together, ["hung", "hung too"]);
    // What ran before it was known, and what runs after the first answer, is no trial.
    let mut tries = way_back();
    tries.push(Try { is_sound: false, ..a_try("early", 0, 2_500, 5_500) });
    tries.push(a_try("late", 0, 12_600, 12_900));
    tries.sort_by_key(|one| one.at);
    assert_eq!(Back::of(errors, errors.fault.unwrap(), &tries).together.len(), 1);
}

#[test]
fn a_stream_lets_others_in_with_its_first_byte() {
    let errors = incident("errors");
    let with = |began: u64| {
        let mut tries = way_back();
        // The trial that succeeds answers from `began` on, for a long time; others come at 12.5 s.
        tries.push(Try { began: Some(ms(began)), ..a_try("stream", 0, 12_300, 14_000) });
        tries.sort_by_key(|one| one.at);
        Back::of(errors, errors.fault.unwrap(), &tries).together.len()
    };
    assert_eq!((with(12_400), with(12_505)), (1, 2));
}

#[test]
fn an_upstream_that_never_comes_back_has_no_share() {
    let errors = incident("errors");
    let tries: Vec<Try> = (0..30).map(|second| a_try("a", 1, second * 1000, second * 1000 + 5)).collect();
    let back = Back::of(errors, errors.fault.unwrap(), &tries);
    assert_eq!((back.first, back.full, back.trials), (None, None, 0));
    assert_eq!(back.at_last.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn refused_connections_are_faults_that_no_upstream_saw() {
    let outage = incident("outage");
    let lines = vec![line(5.0, &[("outage-first/m", "connect_error", 1.0), ("outage-second/m", "ok", 3.0)])];
    let tries = vec![a_try("a", 1, 0, 5), Try { is_sound: false, ..a_try("b", 0, 0, 5) }];
    assert_eq!(faults(outage, &Evidence { lines, tries, ..Evidence::default() }), 2);
}
