//! What all files of ours have in common: how they are opened, told from others of their name, and set aside where
//! they are damaged.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::Clock;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use crate::failure::Failure as Known;

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
        let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        match Known::from(error) {
            other @ (Known::Unwritable(_) | Known::Trouble(_)) if is_full => Self::Full(other.what()),
            other => other.into(),
        }
    }
}

impl From<Known> for Failure {
    fn from(failure: Known) -> Self {
        match failure {
            Known::Damaged(what) => Self::Damaged(what),
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

/// What shows that somebody else has written into a file: how large it is, and when it was changed last. SQLite changes it
/// when it takes its log up, and at no other time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    size: u64,
    changed: Option<SystemTime>,
}

impl Shape {
    /// That of the file at a path; `None` where there is none. It is never opened: closing it would give up the locks
    /// that others of this process hold.
    pub fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self { size: file.len(), changed: file.modified().ok() })
    }

    /// Whether nothing is left of it. SQLite takes such a file for a new one, and removes its log.
    pub const fn is_empty(self) -> bool {
        self.size == 0
    }
}

/// A file as it was left here, with its log.
#[derive(Debug)]
pub(crate) struct Left {
    shape: Option<Shape>,
    log: Option<Log>,
    /// What SQLite says whenever another connection has written, or has taken the log up and cut it off.
    version: Option<i64>,
}

/// Which file the log is, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log {
    identity: (u64, u64),
    size: u64,
}

impl Log {
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(with_suffix(path, "-wal")).ok()?;
        Some(Self { identity: (file.dev(), file.ino()), size: file.len() })
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}

impl Left {
    /// As it is now.
    pub fn now(path: &Path, connection: &Connection) -> Self {
        Self { version: version(connection).ok(), shape: Shape::of(path), log: Log::of(path) }
    }

    /// The shape that it was left in.
    pub const fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// Whether it looks otherwise now, by its shape or because its log is shorter or another file.
    pub fn is_changed(&self, path: &Path) -> bool {
        self.shape != Shape::of(path) || self.is_log_less(Log::of(path))
    }

    /// Whether its log was removed, replaced or emptied by somebody who is not SQLite: what stands in it alone is
    /// lost with the connection. SQLite goes on without noticing, and writes into a log that nobody will ever find, or
    /// behind a hole.
    pub fn has_lost_its_log(&self, path: &Path, connection: &Connection) -> Result<bool, Known> {
        let now = Log::of(path);
        if !self.is_log_less(now) {
            return Ok(false);
        }
        // Nobody but an outsider removes the log of an open file.
        let is_same_file = now.map(|now| now.identity) == self.log.map(|was| was.identity);
        Ok(!is_same_file || self.version.is_some_and(|known| version(connection).is_ok_and(|now| now == known)))
    }

    fn is_log_less(&self, now: Option<Log>) -> bool {
        let is_less = |was: Log| now.is_none_or(|now| now.identity != was.identity || now.size < was.size);
        self.log.is_some_and(is_less)
    }
}

/// Whether a file that holds something, into which somebody else has written, is one of ours with this table still, in all
/// its parts. Its log goes before it, as always.
pub(crate) fn is_sound(path: &Path, table: &str) -> Result<bool, Known> {
    let look = || -> Result<bool, Known> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        let said: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(said == "ok" && connection.table_exists(None, table)?)
    };
    match look() {
        Err(Known::Damaged(_)) => Ok(false),
        looked => looked,
    }
}

/// Writes everything that a connection can read into a new file, which has its name once it is whole and on the disk: what
/// is left of one that was removed, emptied or overwritten stands in its log, and in the connection's memory. Nothing
/// has changed where not all of it is left, which is [`Known::Damaged`]; at least this table must be.
pub(crate) fn write_anew(connection: &Connection, path: &Path, table: &str) -> Result<(), Known> {
    let trouble = |error: std::io::Error| Known::Trouble(error.to_string());
    let beside = with_suffix(path, "-anew");
    // What an earlier try has left.
    let _ = std::fs::remove_file(&beside);
    make(&beside);
    let name = beside.to_str().ok_or_else(|| Known::Trouble("its name is not UTF-8".to_owned()))?;
    if let Err(error) = connection.execute("VACUUM INTO ?1", [name]) {
        let _ = std::fs::remove_file(&beside);
        // What its log is to hold is not there.
        let is_cut = error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHORT_READ);
        return Err(if is_cut { Known::Damaged("its log was cut off".to_owned()) } else { error.into() });
    }
    // Where the log is empty too, what is left may be taken for a file that never held anything.
    if !is_sound(&beside, table)? {
        let _ = std::fs::remove_file(&beside);
        return Err(Known::Damaged("nothing of it is left".to_owned()));
    }
    std::fs::File::open(&beside).and_then(|file| file.sync_all()).map_err(trouble)?;
    // The old log, left behind, is none of the new file's.
    for part in PARTS.into_iter().skip(1) {
        let _ = std::fs::remove_file(with_suffix(path, part));
    }
    std::fs::rename(&beside, path).map_err(trouble)?;
    let folder = path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all());
    folder.map_err(trouble)
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
