//! The questions of crate `state`, answered by stores.

mod sqlite;

pub use sqlite::SqliteLedger;
