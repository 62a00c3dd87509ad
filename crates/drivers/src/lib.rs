//! The questions of crate `state`, answered by stores.

mod answers;
mod sqlite;

pub use answers::TieredAnswers;
pub use sqlite::{SqliteLedger, SqliteVersions};
