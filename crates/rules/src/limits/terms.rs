//! What a limit comes to.

use std::sync::Arc;

use super::bucket::Measures;
use super::limit::Limit;

/// What an account may do, reckoned once: limits are few, and accounts many. Accounts under the same limit share them,
/// so that a call finds them in the cache of its core, whoever asks.
#[derive(Debug)]
pub struct Terms {
    pub(super) measures: Measures,
    pub(super) limit: Limit,
    /// Whether both priorities of clients come here: then each leaves the other a tenth.
    pub(super) is_shared: bool,
}

impl Terms {
    /// Those of a limit; `is_shared` where clients of both priorities come under it together.
    #[must_use]
    pub fn new(limit: Limit, is_shared: bool) -> Arc<Self> {
        Arc::new(Self { measures: Measures::of(&limit), limit, is_shared })
    }

    /// What is limited.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }
}
