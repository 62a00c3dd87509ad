//! What a process's own store keeps, and what lets go first.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Dice};

use super::*;

fn key(number: u64) -> Key {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Key(bytes)
}

fn vector(bytes: usize) -> Arc<Stored> {
    let keep_until = Clock.wall() + Duration::from_secs(3_600);
    Arc::new(Stored {
        kind: Kind::Vector,
        route: "embedding".into(),
        client: None,
        kb_version: None,
        stored: Duration::ZERO,
        expires: keep_until,
        keep_until,
        body: vec![0; bytes].into(),
    })
}

#[test]
fn a_key_is_shown_in_43_letters_from_which_it_can_be_had_again() {
    let key = Key(std::array::from_fn(|at| at as u8 * 8));
    let shown = key.to_string();
    assert_eq!(shown, "AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Pg");
    assert_eq!(shown.parse(), Ok(key));
    for wrong in ["", "AAgQ", "AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8P/", &format!("{shown}A")] {
        assert_eq!(wrong.parse::<Key>(), Err(NoKey), "{wrong}");
    }
    assert_eq!("AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Ph".parse::<Key>(), Err(NoKey), "one key has one form");
}

#[test]
fn a_kind_has_one_name_and_one_number() {
    for kind in Kind::ALL {
        assert_eq!((Kind::named(kind.as_str()), Kind::numbered(kind.number())), (Some(kind), Some(kind)));
    }
    assert_eq!((Kind::named("else"), Kind::numbered(0)), (None, None));
}

#[test]
fn what_a_clock_that_was_ahead_has_stored_is_not_fresh_for_years() {
    let now = Duration::from_secs(1_800_000_000);
    let stored_at =
        |stored: Duration| Stored { stored, expires: stored + Duration::from_secs(3_600), ..Stored::clone(&vector(1)) };
    assert!(stored_at(now).is_fresh(now));
    assert!(stored_at(now + Duration::from_secs(30)).is_fresh(now), "clocks are never quite the same");
    assert!(!stored_at(now + Duration::from_secs(61)).is_fresh(now));
    assert!(!stored_at(now + Duration::from_secs(400 * 86_400)).is_fresh(now));
    assert!(!stored_at(now - Duration::from_secs(3_600)).is_fresh(now));
}

#[test]
fn who_serves_nothing_older_than_so_much_is_not_bound_by_what_was_promised_before() {
    let (now, hour, minute) = (Duration::from_secs(1_800_000_000), Duration::from_secs(3_600), Duration::from_secs(60));
    let stored = Stored { stored: now - minute, expires: now - minute + hour, ..Stored::clone(&vector(1)) };
    assert!(stored.is_fresh_within(hour, now) && stored.is_fresh_within(minute + Duration::from_nanos(1), now));
    assert!(!stored.is_fresh_within(minute, now), "it is as old as it may be");
    assert!(!stored.is_fresh_within(10 * hour, now + hour), "nor is it served for longer than was meant when it came");
}

#[test]
fn a_body_is_shared_without_a_copy() {
    let stored = vector(100);
    let bytes = stored.bytes();
    assert_eq!(bytes.as_ptr(), stored.body.as_ptr());
    drop(stored);
    assert_eq!(bytes.len(), 100);
}

#[test]
fn memory_never_takes_more_than_its_bound() {
    let dice = Dice::loaded(1);
    for bound in [1 << 20, 5 << 20, 40 << 20] {
        let answers = InProcessAnswers::within(bound);
        for number in 0..20_000 {
            answers.keep(key(number), vector(dice.below(16 << 10)));
            if number % 100 == 0 {
                assert!(answers.tier().bytes <= bound);
            }
        }
        let tier = answers.tier();
        assert!(tier.bytes > bound / 10 * 8 && tier.bytes <= bound, "{tier:?} of {bound}");
        assert_eq!(tier.entries + tier.evicted, 20_000);
        answers.hold_within(bound / 2);
        assert!(answers.tier().bytes <= bound / 2);
    }
}

#[test]
fn what_is_stored_anew_pushes_nothing_out() {
    let answers = InProcessAnswers::within(1 << 20);
    (0..10).for_each(|length| answers.keep(key(1), vector(length)));
    let tier = answers.tier();
    assert_eq!((tier.entries, tier.evicted), (1, 0));
}

#[test]
fn what_is_too_large_is_refused_and_takes_the_place_of_nothing() {
    let answers = InProcessAnswers::within(1 << 20);
    answers.keep(key(1), vector(10));
    answers.keep(key(2), vector(10));
    answers.keep(key(1), vector(1 << 20));
    assert_eq!(answers.find(&key(1)), None, "not even of what it would have replaced, which is not the last any more");
    assert!(answers.find(&key(2)).is_some());
    let tier = answers.tier();
    assert_eq!((tier.entries, tier.refused, tier.evicted), (1, 1, 0));
}

/// Of 20,000 texts the r-th is asked for with a chance of 1/r; there is room for a tenth of them.
#[test]
fn what_is_asked_for_often_is_kept() {
    let texts = 20_000;
    let weights: Vec<f64> = (1..=texts).map(|rank| 1.0 / f64::from(rank)).collect();
    let total: f64 = weights.iter().sum();
    let mut so_far = 0.0;
    let chances: Vec<f64> = weights
        .iter()
        .map(|weight| {
            so_far += weight;
            so_far / total
        })
        .collect();
    let best: f64 = weights[..2_000].iter().sum::<f64>() / total;
    let dice = Dice::loaded(7);
    let answers = InProcessAnswers::within(2_000 * (4_096 + 512 + 320 + 9));
    let mut hits = 0.0;
    let mut ask = |is_counted: bool| {
        let at = dice.unit();
        let number = chances.partition_point(|chance| *chance < at) as u64;
        match answers.find(&key(number)) {
            Some(_) if is_counted => hits += 1.0,
            Some(_) => {}
            None => answers.keep(key(number), vector(4_096)),
        }
    };
    (0..100_000).for_each(|_| ask(false));
    (0..100_000).for_each(|_| ask(true));
    // Whoever knew the chances would keep the first 2,000. The least recently used tenth would reach 0.67.
    let rate = hits / 100_000.0;
    assert!(rate > best - 0.06, "{rate} of at most {best}");
}

#[test]
fn one_scan_of_new_texts_does_not_push_out_what_is_used() {
    let answers = InProcessAnswers::within(16 << 20);
    let used = 0..1_000;
    for _ in 0..3 {
        for number in used.clone() {
            if answers.find(&key(number)).is_none() {
                answers.keep(key(number), vector(4_096));
            }
        }
    }
    for number in 1_000_000..1_050_000 {
        assert!(answers.find(&key(number)).is_none());
        answers.keep(key(number), vector(4_096));
    }
    let left = used.filter(|number| answers.find(&key(*number)).is_some()).count();
    assert!(left > 950, "{left} of 1000 are left");
}
