//! What holds for any client.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn raising_the_percentage_only_adds_clients(client in ".{0,20}", low in 0.01..100.0_f64, more in 0.0..100.0_f64) {
        let high = (low + more).min(100.0);
        let drawn = |percent| share(percent, true).is_drawn(&client, "chat", &mut no_chance);
        prop_assert!(!drawn(low) || drawn(high));
        prop_assert!(drawn(100.0));
        prop_assert_eq!(drawn(low), drawn(low));
    }
}
