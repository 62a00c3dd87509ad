//! Configuration: what was written, and what it means.
mod snapshot;
pub use snapshot::*;
