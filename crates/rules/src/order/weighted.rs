//! By chance, in proportion to the weights.

use super::{Contender, bring_forward};

/// A draw without replacement: each place goes to one of those that are left, in proportion to its
/// weight. Those of weight 0 come last, as given.
pub fn arrange(tier: &mut [Contender], chance: &mut dyn FnMut() -> f64) {
    let mut rest = tier;
    while rest.len() > 1 {
        let total: f64 = rest.iter().map(|contender| f64::from(contender.weight)).sum();
        if total <= 0.0 {
            return;
        }
        let drawn = drawn(rest, chance() * total);
        bring_forward(rest, drawn);
        let Some((_, behind)) = rest.split_first_mut() else { return };
        rest = behind;
    }
}

/// The one whose stretch of the sum of weights holds `point`; at its very end, where rounding may put
/// it, the last that has a weight.
fn drawn(rest: &[Contender], point: f64) -> usize {
    let mut end = 0.0;
    let holds = |contender: &Contender| {
        end += f64::from(contender.weight);
        point < end
    };
    let last = || rest.iter().rposition(|contender| contender.weight > 0);
    rest.iter().position(holds).or_else(last).unwrap_or_default()
}
