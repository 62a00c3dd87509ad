//! The one with the fewest calls in flight for its weight.

use super::{Contender, weighted};

/// By calls in flight for each unit of weight. Between equals chance decides in proportion to their
/// weights, so that at rest the strategy is `weighted`.
pub fn arrange(tier: &mut [Contender], chance: &mut dyn FnMut() -> f64) {
    weighted::arrange(tier, chance);
    tier.sort_by(|one, other| load(one).total_cmp(&load(other)));
}

fn load(contender: &Contender) -> f64 {
    if contender.weight == 0 {
        return f64::INFINITY;
    }
    #[expect(clippy::cast_precision_loss, reason = "calls in flight are far below 2^53")]
    let busy = contender.busy as f64;
    busy / f64::from(contender.weight)
}
