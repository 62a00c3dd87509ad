//! What holds for any calls.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_says_what_a_list_of_all_calls_would_say(
        calls in prop::collection::vec((0_u64..8, 0_u64..40_000), 0..200),
    ) {
        let mut repeats = Repeats::default();
        let mut all = BTreeMap::new();
        let mut at = Duration::ZERO;
        for (fingerprint, gap) in calls {
            at += Duration::from_millis(gap);
            let age = all.insert(fingerprint, at).map(|before: Duration| at - before);
            let said = repeats.seen(fingerprint, at);
            // It counts in whole seconds, and rather forgets one early than late.
            prop_assert!(!said || age.is_some_and(|age| age < seconds(60)), "after {:?}", age);
            prop_assert!(said || age.is_none_or(|age| age > seconds(59)), "after {:?}", age);
            prop_assert!(repeats.seen(fingerprint, at), "at once");
        }
    }

    #[test]
    fn clocks_that_run_backwards_are_no_panic(calls in prop::collection::vec((0_u64..4, 0_u64..400), 0..100)) {
        let (mut repeats, mut told) = (Repeats::default(), Told::default());
        for (fingerprint, at) in calls {
            repeats.seen(fingerprint, seconds(at));
            prop_assert!(repeats.seen(fingerprint, seconds(at)));
            told.tell("pilot", seconds(at));
        }
    }
}

proptest! {
    // Few, for each fills the whole of it.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_never_holds_more_than_it_may(
        bursts in prop::collection::vec((any::<u64>(), 0_u64..100, 1_u64..60_000), 1..6),
    ) {
        let mut repeats = Repeats::default();
        let mut at = Duration::ZERO;
        for (first, gap, count) in bursts {
            at += seconds(gap);
            for fingerprint in 0..count {
                repeats.seen(first.wrapping_add(fingerprint), at);
            }
            prop_assert!(repeats.young.len() + repeats.old.len() <= MOST);
        }
    }
}
