//! When an upstream is left alone, and how it comes back: docs/contract.md, section 4.

use std::time::Duration;

/// `breaker` of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Failures within `window` that open it; at least 1.
    pub failures: u32,
    /// See `failures`.
    pub window: Duration,
    /// How long it stays open at least.
    pub hold: Duration,
    /// The longest rest of a throttled upstream or a refused key.
    pub max_rest: Duration,
}
