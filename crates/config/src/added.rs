//! What the admin API adds to files.

use std::sync::Arc;
use std::time::Duration;

use base::Object;

/// What the admin API adds to files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added<'a> {
    /// Providers, routes and clients.
    pub objects: &'a [Object],
    /// Keys of clients.
    pub keys: &'a [ClientKey],
}

/// A client's key that was issued through the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// The client's name; a key of a client that there is not opens nothing.
    pub client: Arc<str>,
    /// The key's SHA-256.
    pub sha256: [u8; 32],
    /// From when on it is not good any more, from the Unix epoch.
    pub expires: Option<Duration>,
}
