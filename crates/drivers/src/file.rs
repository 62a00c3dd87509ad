//! What all files of ours have in common: how they are opened, told from others of their name, and set aside where
//! they are damaged.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// How long SQLite itself tries again where another process holds a lock.
const BUSY: Duration = Duration::from_millis(20);
/// Bytes of a page, SQLite's own default.
pub(crate) const PAGE: u64 = 4_096;
/// What belongs to a database beside it.
pub(crate) const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// Why something could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file is no database, or a broken one.
    Damaged(String),
    /// There is no room, by the file's bound or on the disk.
    Full(String),
    /// Anything else, in words for operators.
    Trouble(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        use crate::failure::Failure as Known;
        let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        match Known::from(error) {
            Known::Damaged(what) => Self::Damaged(what),
            other if is_full => Self::Full(other.what()),
            other => Self::Trouble(other.what()),
        }
    }
}

pub(crate) fn number(connection: &Connection, name: &str) -> Result<i64, Failure> {
    Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
}

pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Failure> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// A connection that writes, to a file that is made where it is missing.
pub(crate) fn connect_to_write(path: &Path) -> Result<Connection, Failure> {
    make(path);
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
}

/// Makes a file where there is none, for nobody else to read. What cannot be made is told by the opening.
pub(crate) fn make(path: &Path) {
    if let Some(folder) = path.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    // What is in it is nobody else's business; SQLite gives the other parts the same mode.
    // Never opened where it is there: closing it would give up the locks that others of this process hold.
    let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// Closes a file of ours to everybody on the machine, where it was made before they were made so. Whom its owner has
/// let in by its group stays in.
pub(crate) fn close_to_others(path: &Path) {
    for part in PARTS {
        let path = with_suffix(path, part);
        let Ok(mode) = std::fs::metadata(&path).map(|file| file.permissions().mode()) else { continue };
        if mode & 0o007 != 0 {
            // Another user's file can be left as it is.
            let _ = std::fs::set_permissions(&path, Permissions::from_mode(mode & 0o770));
        }
    }
}

/// What tells a file of ours from others.
pub(crate) struct Form {
    /// Says whose file it is, in the place that SQLite has for it.
    pub application: i64,
    /// The version of the tables and of what stands in them.
    pub version: i64,
    /// The tables of a new one.
    pub tables: &'static str,
    /// Bytes of a page.
    pub page: u64,
}

/// Opens a file of which nothing is lost that could not be had again: one of another version begins anew. Another
/// program's is left alone.
pub(crate) fn open(path: &Path, form: &Form) -> Result<Connection, Failure> {
    let mut connection = connect_to_write(path)?;
    if number(&connection, "page_count")? > 0 {
        let (application, version) = (number(&connection, "application_id")?, number(&connection, "user_version")?);
        let is_empty = number(&connection, "schema_version")? == 0;
        if application != form.application && !is_empty {
            return Err(anothers(path));
        }
        if version != form.version && !is_empty {
            tracing::info!(file = %path.display(), version, "written by another version: it begins anew");
            drop(connection);
            remove(path);
            connection = connect_to_write(path)?;
        }
    }
    connection.pragma_update(None, "page_size", i64::try_from(form.page).unwrap_or(i64::MAX))?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A power cut takes the last commits, and leaves the file sound.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have come first.
    if number(&transaction, "user_version")? == 0 {
        transaction.execute_batch(form.tables)?;
        transaction.pragma_update(None, "application_id", form.application)?;
        transaction.pragma_update(None, "user_version", form.version)?;
    }
    transaction.commit()?;
    close_to_others(path);
    Ok(connection)
}

pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

pub(crate) fn identities(path: &Path) -> [Option<(u64, u64)>; PARTS.len()] {
    PARTS.map(|part| identity(&with_suffix(path, part)))
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes the file and what belongs to it.
pub(crate) fn remove(path: &Path) {
    for part in PARTS {
        // What is not there need not be removed, and what cannot be is found by the next opening.
        let _ = std::fs::remove_file(with_suffix(path, part));
    }
}

/// Removes a file of this application that is kept no more, what belongs to it and what of it was set aside. Another
/// program's is left alone. Gives whether there was one.
pub(crate) fn remove_own(path: &Path, application: i64) -> Result<bool, Failure> {
    remove_set_aside(path);
    if is_anothers(path, application) {
        return Ok(false);
    }
    let was_there = path.exists();
    remove(path);
    if path.exists() {
        let told =
            format!("{} is kept no more and cannot be removed: remove it, or let the gateway do so", path.display());
        return Err(Failure::Trouble(told));
    }
    Ok(was_there)
}

/// What is told of a file that is not ours.
pub(crate) fn anothers(path: &Path) -> Failure {
    Failure::Trouble(format!("{} is another program's database: move it away", path.display()))
}

/// Whether so much can be read of a file that it is seen to be another program's, or another file of ours. SQLite looks:
/// closing the file otherwise would give up the locks that others of this process hold.
fn is_anothers(path: &Path, application: i64) -> bool {
    let Ok(connection) = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY) else { return false };
    let numbers = (number(&connection, "application_id"), number(&connection, "schema_version"));
    matches!(numbers, (Ok(found), Ok(1..)) if found != application)
}

/// Sets a damaged file of this application aside, in the place of one that was set aside before: they would fill the
/// disk. A file of another one is never touched.
pub(crate) fn set_aside(path: &Path, application: i64, what: &str, why: &str) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    if is_anothers(path, application) {
        return Err(anothers(path));
    }
    remove_set_aside(path);
    let suffix = format!(".damaged-{}", Clock.wall().as_secs());
    for part in PARTS {
        let (from, to) = (with_suffix(path, part), with_suffix(path, &format!("{suffix}{part}")));
        match std::fs::rename(&from, &to) {
            Err(error) if part.is_empty() => {
                return Err(Failure::Trouble(format!(
                    "{what}: its file is damaged ({why}) and cannot be set aside: {error}"
                )));
            }
            _ => {}
        }
    }
    let kept = with_suffix(path, &suffix);
    tracing::warn!(
        file = %path.display(), kept = %kept.display(), why,
        "{what} was damaged: it is set aside and begins anew"
    );
    Ok(())
}

fn remove_set_aside(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let prefix = format!("{name}.damaged-");
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
