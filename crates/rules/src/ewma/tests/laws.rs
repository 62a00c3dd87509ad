//! What holds for any news.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_stays_between_nothing_and_the_worst_and_never_below_the_last_latency(
        news in prop::collection::vec((0_u64..20_000, any::<bool>(), 0_u64..1_000_000), 1..50),
    ) {
        let mut now = base::Clock.now();
        let mut ewma = PeakEwma::default();
        for (gap, failed, took) in news {
            now += Duration::from_millis(gap);
            let before = ewma.value(now);
            let took = Duration::from_millis(took);
            if failed { ewma.failed(now, took) } else { ewma.observe(now, took) }
            let value = ewma.value(now);
            prop_assert!((took.as_secs_f64().min(LONGEST)..=LONGEST).contains(&value));
            prop_assert!(!failed || value >= before);
        }
    }

    #[test]
    fn instants_in_any_order_and_durations_of_any_length_are_no_panic(
        news in prop::collection::vec((0_u64..100_000, any::<bool>(), any::<u64>()), 1..50),
    ) {
        let start = base::Clock.now();
        let mut ewma = PeakEwma::default();
        for (at, failed, took) in news {
            let (now, took) = (start + Duration::from_millis(at), Duration::from_secs(took));
            if failed { ewma.failed(now, took) } else { ewma.observe(now, took) }
            prop_assert!(ewma.value(now).is_finite());
        }
    }
}
