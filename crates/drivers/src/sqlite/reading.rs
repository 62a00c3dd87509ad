//! A database that cannot be opened as usual, since its disk is full or may not be written, is read all the same.
//!
//! In WAL mode a reader writes too: it makes the index of the log (`-shm`), in which it also holds its locks. Where that
//! cannot be had there are two ways left, and neither ever gives out less than what was kept last:
//!
//! - alone with the file, which SQLite locks for that, the index can stand in memory;
//! - a file that may not be written, and has no log, is all there is, and can be read as it stands.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::failure::Failure;
use crate::file::{identity, with_suffix};

/// Reads a file of which it is known why it cannot be opened as usual. Where there is no way that is what is told.
pub(crate) fn read<T>(
    path: &Path,
    busy: Duration,
    why: String,
    act: &dyn Fn(&mut Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // With what others have made: as always, but that nothing is made.
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    if let Ok(read) = connect(path, read_only, busy).and_then(|mut connection| act(&mut connection)) {
        return Ok(read);
    }
    let writes = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, busy);
    let may_be_written = writes.as_ref().is_ok_and(|connection| connection.is_readonly(MAIN_DB) == Ok(false));
    let read = match writes {
        Ok(connection) if may_be_written => alone(connection, act),
        _ => as_it_stands(path, act),
    };
    match read {
        // They say more than that it cannot be written.
        Err(failure @ (Failure::Damaged(_) | Failure::Refused(_))) => Err(failure),
        Err(failure) if !may_be_written => Err(Failure::Unwritable(format!("{why}; {}", failure.what()))),
        read => read.map_err(|_| Failure::Unwritable(why)),
    }
}

fn connect(path: &Path, flags: OpenFlags, busy: Duration) -> Result<Connection, Failure> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(busy)?;
    Ok(connection)
}

/// With the index of the log in memory, and nobody else at the file meanwhile.
fn alone<T>(mut connection: Connection, act: &dyn Fn(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    // The log stays where it is: taking it into the file is a write.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    act(&mut connection)
}

/// Without locks. Whoever may write a file that this process may not could change it meanwhile: that is found out.
fn as_it_stands<T>(path: &Path, act: &dyn Fn(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
    let before = Look::at(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(immutable(path)?, flags)?;
    let read = act(&mut connection)?;
    if Look::at(path)? != before {
        return Err(Failure::Trouble("it was changed while it was read".to_owned()));
    }
    Ok(read)
}

/// What shows that a file was changed.
#[derive(PartialEq, Eq)]
struct Look {
    identity: Option<(u64, u64)>,
    size: u64,
    changed: SystemTime,
}

impl Look {
    /// Looks at a file that is all there is: without a log that may say more.
    fn at(path: &Path) -> Result<Self, Failure> {
        for part in ["-wal", "-journal"] {
            let log = with_suffix(path, part);
            match std::fs::metadata(&log) {
                Ok(found) if found.len() > 0 => {
                    return Err(Failure::Trouble(format!(
                        "{} holds what was kept last, and cannot be read while the folder may not be written",
                        log.display()
                    )));
                }
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(trouble(&log, &error)),
                _ => {}
            }
        }
        let file = std::fs::metadata(path).map_err(|error| trouble(path, &error))?;
        let changed = file.modified().map_err(|error| trouble(path, &error))?;
        Ok(Self { identity: identity(path), size: file.len(), changed })
    }
}

fn trouble(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Trouble(format!("{}: {error}", path.display()))
}

/// The file's address, with which SQLite asks for neither locks nor a log (<https://www.sqlite.org/uri.html>).
fn immutable(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path).map_err(|error| trouble(path, &error))?;
    let mut address = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(byte) {
            address.push(char::from(*byte));
        } else {
            // Writing to a text never fails.
            let _ = write!(address, "%{byte:02X}");
        }
    }
    Ok(OsString::from(address + "?immutable=1").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        /// With a name that an address would take for more than a name.
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mai-reading-{}-{name}?immutable=0#%41", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("some.db")
        }

        /// A file whose last row is in its log alone, as a process leaves it that is killed.
        fn killed(&self) {
            let before = self.0.join("before.db");
            let connection = Connection::open(&before).unwrap();
            connection.pragma_update(None, "journal_mode", "WAL").unwrap();
            connection.execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (1)").unwrap();
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
            std::fs::copy(&before, self.file()).unwrap();
            std::fs::copy(with_suffix(&before, "-wal"), self.log()).unwrap();
        }

        fn log(&self) -> PathBuf {
            with_suffix(&self.file(), "-wal")
        }

        /// Nobody can make the log's index any more, not even root.
        fn fill(&self) {
            let index = with_suffix(&self.file(), "-shm");
            std::os::unix::fs::symlink(&index, &index).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn sum(connection: &mut Connection) -> Result<i64, Failure> {
        Ok(connection.query_row("SELECT SUM(n) FROM t", [], |row| row.get(0))?)
    }

    const BUSY: Duration = Duration::from_millis(10);

    #[test]
    fn what_is_in_the_log_alone_is_read_where_its_index_cannot_be_made() {
        let folder = Folder::new("full");
        folder.killed();
        folder.fill();
        assert!(matches!(sum(&mut Connection::open(folder.file()).unwrap()), Err(Failure::Unwritable(_))));
        let (file, log) = (std::fs::read(folder.file()).unwrap(), std::fs::read(folder.log()).unwrap());
        assert_eq!(read(&folder.file(), BUSY, "full".to_owned(), &sum).unwrap(), 3);
        assert_eq!((std::fs::read(folder.file()).unwrap(), std::fs::read(folder.log()).unwrap()), (file, log));
    }

    #[test]
    fn a_file_is_read_as_it_stands_only_while_there_is_nothing_beside_it() {
        let folder = Folder::new("frozen");
        folder.killed();
        let told = as_it_stands(&folder.file(), &sum).unwrap_err().what();
        assert!(told.contains("some.db-wal holds what was kept last"), "{told}");
        std::fs::remove_file(folder.log()).unwrap();
        folder.fill();
        assert_eq!(as_it_stands(&folder.file(), &sum).unwrap(), 1);
        let changing = |connection: &mut Connection| {
            std::fs::write(folder.log(), "something new").unwrap();
            sum(connection)
        };
        assert!(as_it_stands(&folder.file(), &changing).is_err(), "it is not known what was read");
    }
}
