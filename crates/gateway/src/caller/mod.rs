//! The caller's side of a connection: its socket, and the headers that are taken from callers and told them.

pub mod delayed_writes;
pub mod head_timeout;
pub mod header_table;
pub mod headers;
pub mod socket;
pub mod waker;
