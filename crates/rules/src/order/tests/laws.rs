//! What holds for any contenders.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

use super::{Contender, Dice, Strategy, arrange, names};

fn any_strategy() -> impl Generator<Value = Strategy> {
    use proptest::sample::select;
    select(vec![Strategy::Ordered, Strategy::Weighted, Strategy::LeastBusy, Strategy::Fastest])
}

fn any_contender() -> impl Generator<Value = Contender> {
    let weight = prop_oneof![Just(0), 1_u32..4, Just(u32::MAX)];
    let busy = prop_oneof![0_usize..4, Just(usize::MAX)];
    let share = prop_oneof![2 => Just(1.0), 1 => prop::num::f64::ANY, 1 => 0.0..1.0];
    (0_u32..3, weight, busy, prop::num::f64::ANY, share).prop_map(|(tier, weight, busy, cost, share)| Contender {
        at: 0,
        tier,
        weight,
        busy,
        cost,
        share,
    })
}

fn any_contenders() -> impl Generator<Value = Vec<Contender>> {
    prop::collection::vec(any_contender(), 0..12).prop_map(|mut contenders| {
        for (at, contender) in contenders.iter_mut().enumerate() {
            contender.at = at;
        }
        contenders
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_lost_whatever_the_figures(
        strategy in any_strategy(),
        contenders in any_contenders(),
        first in prop::option::of(0_usize..14),
        draws in prop_oneof![Just(None), any::<u64>().prop_map(Some), Just(Some(0))],
        odd in prop_oneof![Just(f64::NAN), Just(1.0), Just(-1.0), Just(f64::INFINITY)],
    ) {
        let dice = draws.map(Dice::loaded);
        let mut contenders = contenders;
        let all: Vec<usize> = (0..contenders.len()).collect();
        // Dice that break their promise must not break more.
        arrange(strategy, first, &mut contenders, &mut || dice.as_ref().map_or(odd, Dice::unit));
        let mut found = names(&contenders);
        found.sort_unstable();
        prop_assert_eq!(found, all);
    }

    #[test]
    fn tiers_are_mixed_only_by_a_split_and_by_those_that_grow_back(
        strategy in any_strategy(),
        contenders in any_contenders(),
        first in prop::option::of(0_usize..14),
        seed in any::<u64>(),
    ) {
        let dice = Dice::loaded(seed);
        let mut contenders = contenders;
        arrange(strategy, first, &mut contenders, &mut || dice.unit());
        contenders.retain(|one| Some(one.at) != first);
        let descends = |pair: &[Contender]| pair[0].tier > pair[1].tier;
        let held_back = contenders.windows(2).position(descends).map_or(contenders.len(), |at| at + 1);
        let (_, held_back) = contenders.split_at(held_back);
        prop_assert!(held_back.iter().all(|one| one.share < 1.0), "one of full share behind a worse tier");
        prop_assert!(held_back.is_sorted_by_key(|one| one.tier));
    }

    #[test]
    fn no_weight_goes_before_some_weight_inside_a_tier(contenders in any_contenders(), seed in any::<u64>()) {
        let dice = Dice::loaded(seed);
        let mut tier: Vec<Contender> =
            contenders.into_iter().map(|one| Contender { tier: 0, share: 1.0, ..one }).collect();
        for strategy in [Strategy::Weighted, Strategy::LeastBusy] {
            arrange(strategy, None, &mut tier, &mut || dice.unit());
            prop_assert!(tier.is_sorted_by_key(|one| one.weight == 0));
        }
    }
}
