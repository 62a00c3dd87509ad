//! What goes wrong with a file.

use rusqlite::ErrorCode;

/// Why something could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file is no database, or a broken one.
    Damaged(String),
    /// Anything else, in words for operators.
    Trouble(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let what = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => return Self::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => "the disk is full",
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process holds the database locked",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "the database may not be written",
            Some(ErrorCode::CannotOpen) => "the database cannot be opened",
            Some(ErrorCode::SystemIoFailure) => "the disk fails",
            _ => return Self::Trouble(error.to_string()),
        };
        Self::Trouble(format!("{what} ({error})"))
    }
}
