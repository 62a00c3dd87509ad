//! The waits that a call has taken.

use super::After;

/// How many waits a call has taken from each list of `retry`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    pub server_error: usize,
    pub throttled: usize,
}

impl Waited {
    /// One more is taken.
    pub const fn takes(&mut self, after: After) {
        match after {
            After::ServerError => self.server_error += 1,
            After::Throttled => self.throttled += 1,
        }
    }
}
