//! The caller's side of a connection: its socket, and the headers that are taken from callers and told them.

pub mod delayed_writes;
pub mod head_timeout;
pub mod header_table;
pub mod headers;
pub mod socket;
pub mod waker;

use std::sync::Arc;
use std::time::Instant;

use config::Client;
use http::HeaderMap;

/// Who makes a call, and with what wishes.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The client behind the key.
    pub client: &'a Arc<Client>,
    /// The headers of the call.
    pub headers: &'a HeaderMap,
    /// When the whole call must be over.
    pub deadline: Instant,
}
