//! The one that is likely to answer first.

use super::{Contender, bring_forward, draw_below};

/// The cheaper of two drawn by chance goes first, the rest by cost. Two instead of all, lest all
/// calls run to the same one: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
/// 2001.
pub fn arrange(tier: &mut [Contender], chance: &mut dyn FnMut() -> f64) {
    if tier.len() < 2 {
        return;
    }
    let one = draw_below(tier.len(), chance);
    let other = draw_below(tier.len() - 1, chance);
    // The second is drawn from the others.
    let other = other + usize::from(other >= one);
    let cost_at = |at: usize| tier.get(at).map_or((true, f64::INFINITY), price);
    let winner = if is_cheaper(cost_at(other), cost_at(one)) { other } else { one };
    bring_forward(tier, winner);
    if let Some((_, rest)) = tier.split_first_mut() {
        rest.sort_by(|one, other| compare(price(one), price(other)));
    }
}

/// What a contender costs: known or idle before unknown and busy, then the figure.
///
/// One of which nothing is known costs nothing, so that it is tried; but while that first call is out
/// nothing more is known, and others must not follow it blindly: then it costs more than all that is
/// known, by its calls in flight.
fn price(contender: &Contender) -> (bool, f64) {
    if contender.cost.is_nan() {
        return (true, f64::INFINITY);
    }
    if contender.cost > 0.0 {
        return (false, contender.cost);
    }
    #[expect(clippy::cast_precision_loss, reason = "calls in flight are far below 2^53")]
    let busy = contender.busy as f64;
    (contender.busy > 0, busy)
}

fn compare(one: (bool, f64), other: (bool, f64)) -> std::cmp::Ordering {
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
}

fn is_cheaper(one: (bool, f64), other: (bool, f64)) -> bool {
    compare(one, other).is_lt()
}
