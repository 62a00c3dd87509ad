//! What holds for any traffic.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn within_any_window_repeats_stay_below_the_greater_of_ten_and_their_share(
        steps in prop::collection::vec((0_u64..3_000, 0_usize..200, 0_usize..60), 1..60),
        share in 0.01..1.0_f64,
    ) {
        let epoch = base::Clock.now();
        let budget = RetryBudget::new(epoch);
        let (mut at, mut calls, mut repeats) = (Duration::ZERO, Vec::new(), Vec::new());
        for (gap, called_now, wanted) in steps {
            at += Duration::from_millis(gap);
            let now = epoch + at;
            called(&budget, now, called_now);
            calls.push((at.as_secs(), called_now));
            let recent = |all: &[(u64, usize)]| -> usize {
                all.iter().filter(|(second, _)| second + WINDOW > at.as_secs()).map(|(_, count)| count).sum()
            };
            let most = 10.0_f64.max(share * recent(&calls) as f64);
            let before = recent(&repeats);
            let granted = (0..wanted).take_while(|_| budget.take(now, share)).count();
            repeats.push((at.as_secs(), granted));
            prop_assert!(granted == 0 || (before + granted) as f64 <= most);
            prop_assert!(granted == wanted || (before + granted + 1) as f64 > most, "refused without need");
        }
    }
}
