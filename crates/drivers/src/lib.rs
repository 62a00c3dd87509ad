//! The questions of crate `state`, answered by stores.

mod answers;
mod objects;
mod sqlite;

pub use answers::TieredAnswers;
pub use objects::{SecretKey, SqliteObjects};
pub use sqlite::{SqliteLedger, SqliteVersions};
