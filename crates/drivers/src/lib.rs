//! The questions of crate `state`, answered by stores.

mod answers;
mod failing;
mod file;
mod objects;
mod requests;
mod sqlite;

pub use answers::TieredAnswers;
pub use objects::{SecretKey, SqliteObjects};
pub use requests::SqliteRequests;
pub use sqlite::{SqliteLedger, SqliteVersions};
