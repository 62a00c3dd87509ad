//! The questions of crate `state`, answered by stores.

mod answers;
mod failing;
mod failure;
mod file;
mod folder;
mod objects;
mod requests;
#[cfg(test)]
mod scratch;
mod sqlite;
mod thread;

pub use answers::TieredAnswers;
pub use folder::{DataFolder, is_file_or_missing};
pub use objects::{SecretKey, SqliteObjects};
pub use requests::SqliteRequests;
pub use sqlite::{SqliteLedger, SqliteVersions};
