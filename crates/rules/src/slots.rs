//! How many calls an upstream takes side by side.

/// `concurrency` of a provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// `max`: at least 1.
    pub max: u32,
    /// `adaptive`: find the point where latency grows faster than throughput.
    pub adaptive: bool,
    /// `headroom`: how far below that point, as a share; 0 to 0.95.
    pub headroom: f64,
}
