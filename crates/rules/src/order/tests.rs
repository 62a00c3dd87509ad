//! Proportions over many draws, and what holds for any contenders.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Dice;

use super::{Contender, Strategy, arrange};
use crate::ewma::PeakEwma;

mod laws;

/// An idle upstream of weight 1 in the first tier.
fn upstream(at: usize) -> Contender {
    Contender { at, tier: 0, weight: 1, busy: 0, cost: 0.0, share: 1.0 }
}

fn names(contenders: &[Contender]) -> Vec<usize> {
    contenders.iter().map(|contender| contender.at).collect()
}

fn arranged(strategy: Strategy, first: Option<usize>, contenders: &[Contender], dice: &Dice) -> Vec<usize> {
    let mut contenders = contenders.to_vec();
    arrange(strategy, first, &mut contenders, &mut || dice.unit());
    names(&contenders)
}

const DRAWS: u32 = 20_000;

/// How often in a hundred each order comes out.
fn percentages(strategy: Strategy, contenders: &[Contender]) -> BTreeMap<Vec<usize>, f64> {
    let dice = Dice::loaded(7);
    let mut counts = BTreeMap::new();
    for _ in 0..DRAWS {
        *counts.entry(arranged(strategy, None, contenders, &dice)).or_default() += 100.0 / f64::from(DRAWS);
    }
    counts
}

/// How often in a hundred each comes first.
fn firsts(strategy: Strategy, contenders: &[Contender]) -> BTreeMap<usize, f64> {
    let mut firsts = BTreeMap::new();
    for (order, percent) in percentages(strategy, contenders) {
        *firsts.entry(order[0]).or_default() += percent;
    }
    firsts
}

#[track_caller]
fn assert_near(found: Option<&f64>, expected: f64) {
    let found = found.copied().unwrap_or_default();
    assert!((found - expected).abs() < 1.5, "{found} % is not near {expected} %");
}

#[test]
fn the_written_order_is_kept_without_a_draw() {
    let mut contenders = [Contender { tier: 1, ..upstream(0) }, upstream(1), upstream(2)];
    arrange(Strategy::Ordered, None, &mut contenders, &mut || panic!("drawn"));
    assert_eq!(names(&contenders), [1, 2, 0]);
}

#[test]
fn a_lone_upstream_needs_no_draw_whatever_the_strategy() {
    for strategy in [Strategy::Ordered, Strategy::Weighted, Strategy::LeastBusy, Strategy::Fastest] {
        let mut contenders = [Contender { share: 0.1, ..upstream(0) }];
        arrange(strategy, Some(0), &mut contenders, &mut || panic!("drawn"));
        assert_eq!(names(&contenders), [0]);
    }
}

#[test]
fn weights_give_their_share_of_first_places_and_of_the_second_ones_after_that() {
    let contenders = [6, 3, 1].map(|weight| Contender { weight, ..upstream(weight as usize) });
    let found = percentages(Strategy::Weighted, &contenders);
    for (one, two) in [(6, 3), (6, 1), (3, 6), (3, 1), (1, 6), (1, 3)] {
        let expected = 100.0 * f64::from(one) / 10.0 * f64::from(two) / f64::from(10 - one);
        let three = 10 - one - two;
        assert_near(found.get(&vec![one as usize, two as usize, three as usize]), expected);
    }
}

#[test]
fn an_upstream_of_no_weight_is_the_last_resort() {
    let contenders = [Contender { weight: 0, ..upstream(0) }, upstream(1), upstream(2)];
    for strategy in [Strategy::Weighted, Strategy::LeastBusy] {
        let found = percentages(strategy, &contenders);
        assert_near(found.get(&vec![1, 2, 0]), 50.0);
        assert_near(found.get(&vec![2, 1, 0]), 50.0);
    }
}

#[test]
fn the_least_busy_for_its_weight_goes_first() {
    let dice = Dice::loaded(1);
    let contenders = [
        Contender { busy: 2, ..upstream(0) },
        Contender { busy: 5, weight: 10, ..upstream(1) },
        Contender { busy: 1, ..upstream(2) },
    ];
    assert_eq!(arranged(Strategy::LeastBusy, None, &contenders, &dice), [1, 2, 0]);
}

#[test]
fn the_equally_busy_share_by_weight() {
    let found = firsts(Strategy::LeastBusy, &[Contender { weight: 3, ..upstream(0) }, upstream(1)]);
    assert_near(found.get(&0), 75.0);
}

#[test]
fn the_cheaper_of_two_is_always_the_first_of_two() {
    let dice = Dice::loaded(1);
    let contenders = [Contender { cost: 2.0, ..upstream(0) }, Contender { cost: 0.2, ..upstream(1) }];
    for _ in 0..100 {
        assert_eq!(arranged(Strategy::Fastest, None, &contenders, &dice), [1, 0]);
    }
}

#[test]
fn of_three_the_fastest_gets_two_thirds_and_the_slowest_nothing() {
    let contenders = [3.0, 1.0, 2.0].map(|cost| Contender { cost, ..upstream(cost as usize) });
    let found = percentages(Strategy::Fastest, &contenders);
    assert_near(found.get(&vec![1, 2, 3]), 66.7);
    assert_near(found.get(&vec![2, 1, 3]), 33.3);
    assert_eq!(found.len(), 2);
}

#[test]
fn equally_fast_ones_share_evenly() {
    let found = firsts(Strategy::Fastest, &[upstream(0), upstream(1), upstream(2)]);
    for at in 0..3 {
        assert_near(found.get(&at), 33.3);
    }
}

#[test]
fn an_unknown_upstream_is_sampled_by_one_call_and_not_by_a_herd() {
    let dice = Dice::loaded(1);
    let known = Contender { cost: 0.2, busy: 3, ..upstream(0) };
    assert_eq!(arranged(Strategy::Fastest, None, &[known, upstream(1)], &dice), [1, 0]);
    let sampled = Contender { busy: 1, ..upstream(1) };
    assert_eq!(arranged(Strategy::Fastest, None, &[known, sampled], &dice), [0, 1]);
}

#[test]
fn the_slow_one_of_two_gets_little_and_is_found_again_when_it_has_recovered() {
    let dice = Dice::loaded(3);
    let mut now = base::Clock.now();
    let mut latency = [PeakEwma::default(), PeakEwma::default()];
    let mut traffic = |took: [Duration; 2], calls: u32| {
        let mut slow = 0;
        for _ in 0..calls {
            now += Duration::from_millis(100);
            let contenders = [0, 1].map(|at| Contender { cost: latency[at].value(now), ..upstream(at) });
            let chosen = arranged(Strategy::Fastest, None, &contenders, &dice)[0];
            latency[chosen].observe(now, took[chosen]);
            slow += u32::from(chosen == 1);
        }
        f64::from(slow) / f64::from(calls)
    };
    let (fast, slow) = (Duration::from_millis(200), Duration::from_secs(2));
    let share = traffic([fast, slow], 3_000);
    assert!(share > 0.0 && share < 0.02, "{share} of the calls go to the slow one");
    traffic([fast, fast], 600);
    let share = traffic([fast, fast], 3_000);
    assert!((0.3..0.7).contains(&share), "{share} of the calls go to the one that has recovered");
}

#[test]
fn a_splits_choice_goes_before_better_tiers() {
    let dice = Dice::loaded(1);
    let contenders = [upstream(0), upstream(1), Contender { tier: 2, ..upstream(2) }];
    assert_eq!(arranged(Strategy::Ordered, Some(2), &contenders, &dice), [2, 0, 1]);
    assert_eq!(arranged(Strategy::Ordered, Some(9), &contenders, &dice), [0, 1, 2], "one that is not there");
}

#[test]
fn one_that_grows_back_gets_its_share_and_else_stands_behind_the_last_tier() {
    let contenders = [Contender { share: 0.3, ..upstream(0) }, upstream(1), Contender { tier: 1, ..upstream(2) }];
    let found = percentages(Strategy::Ordered, &contenders);
    assert_near(found.get(&vec![0, 1, 2]), 30.0);
    assert_near(found.get(&vec![1, 2, 0]), 70.0);
}

#[test]
fn one_that_grows_back_is_spared_though_a_split_chose_it() {
    let mut contenders = [upstream(0), Contender { share: 0.3, ..upstream(1) }];
    arrange(Strategy::Ordered, Some(1), &mut contenders, &mut || 0.5);
    assert_eq!(names(&contenders), [0, 1]);
    arrange(Strategy::Ordered, Some(1), &mut contenders, &mut || 0.2);
    assert_eq!(names(&contenders), [1, 0]);
}

#[test]
fn when_all_grow_back_the_order_is_kept() {
    let mut contenders = [0, 1, 2].map(|at| Contender { share: 0.1, ..upstream(at) });
    arrange(Strategy::Ordered, None, &mut contenders, &mut || 0.9);
    assert_eq!(names(&contenders), [0, 1, 2]);
}
