//! Which upstream of a tier goes first.
//!
//! One file for each strategy; none of them looks beyond its tier. What holds for all of them is here:
//! tiers stay apart, a split's choice goes first, and what is still growing back takes its share only.

mod fastest;
mod least_busy;
mod weighted;

#[cfg(test)]
mod tests;

/// `strategy` of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// As written.
    #[default]
    Ordered,
    /// By chance, in proportion to the weights.
    Weighted,
    /// The one with the fewest calls in flight for its weight: of the route, or, where its provider's calls side by
    /// side are bounded, of all routes at that provider.
    LeastBusy,
    /// The one that is likely to answer first: peak EWMA of latency times load, the better of two
    /// drawn by chance.
    Fastest,
}

impl Strategy {
    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Weighted => "weighted",
            Self::LeastBusy => "least_busy",
            Self::Fastest => "fastest",
        }
    }
}

/// An upstream that may take the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender {
    /// Index among the route's upstreams.
    pub at: usize,
    /// Lower tiers go first.
    pub tier: u32,
    /// Its weight inside the tier; one of 0 is tried last.
    pub weight: u32,
    /// Its calls in flight.
    pub busy: usize,
    /// What a call is likely to take in seconds: the peak EWMA of its latency, times its calls in
    /// flight with this one. 0 where nothing is known of late.
    pub cost: f64,
    /// The share of its calls that it may take: 1, or less while it grows back.
    pub share: f64,
}

/// Puts the contenders into the order in which they are to be tried.
///
/// `first` is the upstream that a split chose; it goes to the very front. Those that grow back and do
/// not draw their share go behind all others, be it the split's choice: while another upstream is there
/// it carries the rest.
///
/// `chance` gives numbers in `0.0..1.0`. None is drawn for what is settled without.
pub fn arrange(
    strategy: Strategy,
    first: Option<usize>,
    contenders: &mut [Contender],
    chance: &mut dyn FnMut() -> f64,
) {
    contenders.sort_by_key(|contender| contender.tier);
    for tier in contenders.chunk_by_mut(|one, next| one.tier == next.tier) {
        match strategy {
            Strategy::Ordered => {}
            Strategy::Weighted => weighted::arrange(tier, chance),
            Strategy::LeastBusy => least_busy::arrange(tier, chance),
            Strategy::Fastest => fastest::arrange(tier, chance),
        }
    }
    if let Some(at) = contenders.iter().position(|contender| Some(contender.at) == first) {
        bring_forward(contenders, at);
    }
    hold_back(contenders, chance);
}

/// Those that grow back and lose their draw go behind the others, in the order they had.
fn hold_back(contenders: &mut [Contender], chance: &mut dyn FnMut() -> f64) {
    if contenders.len() < 2 {
        return;
    }
    let mut at = 0;
    for _ in 0..contenders.len() {
        let Some(rest) = contenders.get_mut(at..) else { return };
        if rest.first().is_some_and(|contender| contender.share < 1.0 && chance() >= contender.share) {
            rest.rotate_left(1);
        } else {
            at += 1;
        }
    }
}

/// Moves one to the front; the others keep their order.
fn bring_forward(contenders: &mut [Contender], at: usize) {
    if let Some(part) = contenders.get_mut(..=at) {
        part.rotate_right(1);
    }
}

/// A whole number below `bound`, which is at least 1.
fn draw_below(bound: usize, chance: &mut dyn FnMut() -> f64) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of upstreams is small, and the cast of a float saturates"
    )]
    let drawn = (chance() * bound as f64) as usize;
    drawn.min(bound.saturating_sub(1))
}
