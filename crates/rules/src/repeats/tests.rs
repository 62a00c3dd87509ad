//! A minute's memory, and no more of it than is allowed.

use super::*;

mod laws;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_same_call_within_a_minute_is_a_repeat_and_another_is_none() {
    let mut repeats = Repeats::default();
    assert!(!repeats.seen(1, seconds(100)));
    assert!(!repeats.seen(2, seconds(101)));
    assert!(repeats.seen(1, seconds(159)));
    assert!(!repeats.seen(2, seconds(161)));
}

#[test]
fn each_repeat_is_remembered_for_a_minute_of_its_own() {
    let mut repeats = Repeats::default();
    repeats.seen(1, seconds(0));
    for minute in 1..100 {
        assert!(repeats.seen(1, seconds(minute * 59)));
    }
}

#[test]
fn when_it_is_full_the_known_are_still_known_and_the_new_are_let_go() {
    let mut repeats = Repeats::default();
    let most = u64::try_from(MOST).unwrap();
    for fingerprint in 0..most {
        repeats.seen(fingerprint, seconds(fingerprint % 60));
    }
    assert!(!repeats.seen(most, seconds(59)));
    assert!(!repeats.seen(most, seconds(59)));
    for second in [59, 100] {
        assert!(repeats.seen(0, seconds(second)), "each repeat counts anew");
    }
    assert!(!repeats.seen(most, seconds(120)), "there is room again");
    assert!(repeats.seen(most, seconds(120)));
}

#[test]
fn after_two_quiet_minutes_nothing_takes_up_room() {
    let mut repeats = Repeats::default();
    for fingerprint in 0..10 {
        repeats.seen(fingerprint, seconds(0));
    }
    repeats.seen(0, seconds(120));
    assert_eq!(repeats.young.len() + repeats.old.len(), 1);
}

#[test]
fn a_client_is_told_of_once_until_it_has_been_quiet_for_ten_minutes() {
    let mut told = Told::default();
    assert!(told.tell("pilot", seconds(0)));
    assert!(told.tell("other", seconds(1)));
    for minute in 1..30 {
        assert!(!told.tell("pilot", seconds(minute * 60)), "it never stopped");
    }
    assert!(told.tell("pilot", seconds(29 * 60 + 600)));
}

#[test]
fn clients_that_have_stopped_are_forgotten() {
    let mut told = Told::default();
    for client in 0..1_000 {
        told.tell(&client.to_string(), seconds(0));
    }
    told.tell("pilot", seconds(600));
    assert_eq!(told.last.len(), 1);
}
