//! Who goes where, and who stays there.

use std::cell::Cell;

use base::Dice;

use super::*;

mod laws;

type Headers<'a> = &'a dyn Fn(&str) -> Option<&'a [u8]>;

const NO_HEADERS: Headers<'static> = &|_| None;

fn no_chance() -> f64 {
    panic!("drawn")
}

/// A call of `pilot`, without headers, tag and quota.
fn case(header: Headers<'_>) -> Case<'_> {
    Case { route: "chat", header, tag: None, client: "pilot", quota_used: None }
}

/// A branch without conditions.
fn branch(to: usize) -> Branch {
    Branch { headers: Vec::new(), client: None, share: None, quota_used: None, to }
}

fn with_header(name: &str, value: &str) -> Branch {
    Branch { headers: vec![(name.into(), value.into())], ..branch(1) }
}

fn share(percent: f64, sticky: bool) -> Share {
    Share { percent, sticky }
}

#[test]
fn a_header_is_met_by_exactly_its_value() {
    let tried = with_header("x-mai-tag", "trial");
    for (value, met) in [("trial", true), ("Trial", false), ("trial ", false), ("", false)] {
        let header = |name: &str| (name == "x-mai-tag").then_some(value.as_bytes());
        assert_eq!(tried.is_met(&case(&header), &mut no_chance), met, "{value:?}");
    }
    assert!(!tried.is_met(&case(NO_HEADERS), &mut no_chance));
}

#[test]
fn the_bodys_tag_stands_for_that_one_header_and_no_other() {
    let tagged = Case { tag: Some("trial"), ..case(NO_HEADERS) };
    assert!(with_header("x-mai-tag", "trial").is_met(&tagged, &mut no_chance));
    assert!(!with_header("x-mai-tag", "else").is_met(&tagged, &mut no_chance));
    assert!(!with_header("x-stage", "trial").is_met(&tagged, &mut no_chance));
}

#[test]
fn every_condition_written_must_hold() {
    let header = |name: &str| (name == "x-stage").then_some(&b"beta"[..]);
    let both = Branch { client: Some("pilot".into()), ..with_header("x-stage", "beta") };
    assert!(both.is_met(&case(&header), &mut no_chance));
    assert!(!both.is_met(&case(NO_HEADERS), &mut no_chance));
    assert!(!both.is_met(&Case { client: "other", ..case(&header) }, &mut no_chance));
}

#[test]
fn a_used_quota_counts_from_its_share_on_and_only_where_there_is_one() {
    let landing = Branch { quota_used: Some(0.8), ..branch(1) };
    for (used, met) in
        [(None, false), (Some(0.79), false), (Some(0.8), true), (Some(2.0), true), (Some(f64::NAN), false)]
    {
        assert_eq!(landing.is_met(&Case { quota_used: used, ..case(NO_HEADERS) }, &mut no_chance), met, "{used:?}");
    }
}

#[test]
fn a_share_is_drawn_only_where_the_other_conditions_hold() {
    let draws = Cell::new(0);
    let mut chance = || {
        draws.set(draws.get() + 1);
        0.0
    };
    let other = Branch { client: Some("other".into()), share: Some(share(10.0, false)), ..branch(1) };
    assert!(!other.is_met(&case(NO_HEADERS), &mut chance));
    assert_eq!(draws.get(), 0);
    let pilot = Branch { client: Some("pilot".into()), ..other };
    assert!(pilot.is_met(&case(NO_HEADERS), &mut chance));
    assert_eq!(draws.get(), 1);
}

#[test]
fn the_first_branch_that_is_met_is_taken() {
    let branches = [with_header("x-stage", "beta"), branch(2), branch(3)];
    assert_eq!(choose(&branches, &case(NO_HEADERS), &mut no_chance), Some(2));
    assert_eq!(choose(&branches[..1], &case(NO_HEADERS), &mut no_chance), None);
}

#[test]
fn a_percentage_of_calls_is_a_percentage_of_calls() {
    let dice = Dice::loaded(5);
    let tenth = share(10.0, false);
    let drawn = (0..20_000).filter(|_| tenth.is_drawn("pilot", "chat", &mut || dice.unit())).count();
    assert!((1_900..2_100).contains(&drawn), "{drawn} of 20,000");
    assert!(share(100.0, false).is_drawn("pilot", "chat", &mut || 1.0 - f64::EPSILON));
}

#[test]
fn a_sticky_percentage_of_clients_is_a_percentage_of_clients_with_names_of_any_kind() {
    for (kind, name) in [("numbered", "client-{}"), ("short", "{}"), ("Chinese", "客户{}")] {
        for percent in [1.0, 10.0, 50.0] {
            let names = (0..20_000).map(|number| name.replace("{}", &number.to_string()));
            let drawn = names.filter(|name| share(percent, true).is_drawn(name, "chat", &mut no_chance)).count();
            let (drawn, expected) = (drawn as f64, 200.0 * percent);
            assert!((drawn - expected).abs() < 4.5 * expected.sqrt(), "{kind}: {drawn} instead of {expected}");
        }
    }
}

#[test]
fn where_a_client_stands_never_changes_from_one_version_to_the_next() {
    for (client, route, expected) in POINTS {
        let found = point(client, (route, usize::MAX));
        assert!((found - expected).abs() < 1e-9, "{client} on {route}: {found}");
    }
}

#[test]
fn each_route_and_each_branch_has_clients_of_its_own() {
    let half = |to| Branch { share: Some(share(50.0, true)), ..branch(to) };
    let branches = [half(1), half(2)];
    let mut counts = [0_u32; 3];
    for number in 0..2_000 {
        let client = format!("client-{number}");
        let case = Case { client: &client, ..case(&|_| None) };
        counts[choose(&branches, &case, &mut no_chance).unwrap_or_default()] += 1;
    }
    assert!(counts[1].abs_diff(1_000) < 100, "{counts:?}");
    assert!(counts[2].abs_diff(500) < 100, "half of those that the first has left: {counts:?}");
    let half = share(50.0, true);
    let both = (0..2_000).map(|number| format!("client-{number}")).filter(|client| {
        half.is_drawn(client, "chat", &mut no_chance) && half.is_drawn(client, "embed", &mut no_chance)
    });
    assert!(both.count().abs_diff(500) < 100);
}

/// Fixed once: a client that moved would see another model.
const POINTS: [(&str, &str, f64); 3] =
    [("pilot", "chat", 0.399000905785), ("pilot", "embed", 0.716789495085), ("", "", 0.612648537464)];
