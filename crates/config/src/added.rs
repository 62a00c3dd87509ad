//! What the admin API adds to files.

use std::sync::Arc;
use std::time::Duration;

use base::Object;

/// What the admin API adds to files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added<'a> {
    /// Providers, routes and clients.
    pub objects: &'a [Object],
}

/// A client's key that was issued through the admin API. It opens nothing by the configuration: such keys come and go
/// beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// The client's name.
    pub client: Arc<str>,
    /// The key's SHA-256.
    pub sha256: [u8; 32],
    /// From when on it is not good any more, from the Unix epoch.
    pub expires: Option<Duration>,
}
