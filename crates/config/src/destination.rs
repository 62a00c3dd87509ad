//! Where the gateway itself sends something that is no call: a webhook, a collector.

use std::fmt;
use std::sync::Arc;

use http::uri::PathAndQuery;

use crate::{Origin, Provider};

/// An address to post to. A path may be as good as a key to whoever knows it, so that `Debug` says the host
/// alone, and nothing else should print more.
#[derive(Clone)]
pub struct Destination {
    /// How it is reached, which is how a provider is: with TLS, pool, proxy and `ca`. It has no path. A user
    /// and password of the address are among its headers.
    pub provider: Arc<Provider>,
    /// Path and query of the address.
    pub path: PathAndQuery,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Destination").field(&self.provider.origin.authority()).finish()
    }
}

impl Destination {
    /// Where it leads: the place that an address means, however it is written.
    #[must_use]
    pub fn place(&self) -> (Origin, PathAndQuery) {
        (self.provider.origin.clone(), self.path.clone())
    }
}
