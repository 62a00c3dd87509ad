//! Which upstream of a tier goes first.

/// `strategy` of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// As written.
    #[default]
    Ordered,
    /// By chance, in proportion to the weights.
    Weighted,
    /// The one with the fewest calls in flight for its weight.
    LeastBusy,
    /// The one that is likely to answer first: peak EWMA of latency times load, the better of two
    /// drawn by chance.
    Fastest,
}
