//! What goes wrong with a file.

use std::path::Path;

use rusqlite::ErrorCode;

/// Why something could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file is no database, or a broken one.
    Damaged(String),
    /// It cannot be opened or written as things are with the disk. There may be a way to read it: see `sqlite::reading`.
    Unwritable(String),
    /// What was asked cannot be done, and the file has nothing to do with it.
    Refused(String),
    /// Anything else, in words for operators.
    Trouble(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let what = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => return Self::Damaged(error.to_string()),
            _ if is_unlike_what_was_written(&error) => return Self::Damaged(error.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                return Self::Trouble(format!("another process holds the database locked ({error})"));
            }
            Some(ErrorCode::DiskFull) => "the disk is full",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "the database may not be written",
            Some(ErrorCode::CannotOpen) => "the database cannot be opened",
            Some(ErrorCode::SystemIoFailure) => "the disk is full or fails",
            _ => return Self::Trouble(error.to_string()),
        };
        Self::Unwritable(format!("{what} ({error})"))
    }
}

/// Whether the file holds what nobody has written there. SQLite itself does not notice a value that has lost its type, or a
/// table that has lost its name, as with a part of the disk that reads as zeros.
fn is_unlike_what_was_written(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    let is_missing = |what: &str| what.starts_with("no such table") || what.starts_with("no such column");
    match error {
        InvalidColumnType(..) | FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | Utf8Error(..) => true,
        // Who asks has made the tables, or has seen that they are there.
        rusqlite::Error::SqlInputError { msg, .. } => is_missing(msg),
        rusqlite::Error::SqliteFailure(_, Some(what)) => is_missing(what),
        _ => false,
    }
}

impl Failure {
    /// What went wrong, in words.
    pub fn what(self) -> String {
        match self {
            Self::Damaged(what) | Self::Unwritable(what) | Self::Refused(what) | Self::Trouble(what) => what,
        }
    }

    /// The same, with the file's name where that is not told otherwise.
    pub fn of(self, path: &Path) -> Self {
        let named = |what: String| format!("{}: {what}", path.display());
        match self {
            Self::Trouble(what) => Self::Trouble(named(what)),
            Self::Unwritable(what) => Self::Unwritable(named(what)),
            other @ (Self::Damaged(_) | Self::Refused(_)) => other,
        }
    }
}
