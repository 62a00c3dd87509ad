//! The file: opened, migrated, written, viewed, and set aside where it is damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, TransactionBehavior};
use state::{Book, Damage, Entry, QUARTER, Question, Row, Sums};

use super::desk::File;
use super::schema::{ADD_TO_KNOWN, whole};
use super::{fold, read, reading, schema};
use crate::failure::Failure;
use crate::file::{Left, PARTS, Shape, close_to_others, identity, is_sound, make, with_suffix, write_anew};

/// A database file; opened when it is first needed, and again after every failure if that can be.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    open: Option<Open>,
    /// What befell the file last.
    pub damage: Option<Damage>,
    /// How often it came to hold something else than what was booked.
    pub changes: u64,
    /// The disk is full when the file has so many pages; 0 is no bound.
    #[cfg(test)]
    pub room: std::sync::Arc<std::sync::atomic::AtomicU32>,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    file: File,
    left: Left,
}

/// How long SQLite itself tries again where another process holds a lock.
const BUSY: Duration = Duration::from_millis(20);

impl Store {
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            open: None,
            damage: None,
            changes: 0,
            #[cfg(test)]
            room: std::sync::Arc::default(),
        }
    }

    /// Adds a book to the file, all of it or nothing; but for entries that the file refuses, which are given
    /// back, each with the reason: one of them keeps out no other.
    pub fn write(&mut self, book: &Book) -> Result<Vec<(Entry, String)>, Failure> {
        self.with(|connection| {
            let mut refused = Vec::new();
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut add = transaction.prepare(&format!("INSERT INTO usage {VALUES} {ADD_TO_KNOWN}"))?;
                for entry in book.entries() {
                    match add_entry(&mut add, &entry) {
                        Err(error) if is_about_the_entry(&error) => refused.push((entry, error.to_string())),
                        done => done?,
                    }
                }
            }
            transaction.commit()?;
            Ok(refused)
        })
    }

    /// Answers a question from what is written, while nothing else is done.
    pub fn read(&mut self, question: &Question) -> Result<Vec<Row>, Failure> {
        self.with(|connection| Ok(read::report(connection, question, &|| true)?.unwrap_or_default()))
    }

    /// The same where the file cannot be opened as usual, and it is known why.
    pub fn read_all_the_same(&self, question: &Question, why: String) -> Result<Vec<Row>, Failure> {
        if identity(&self.path).is_none() {
            return Err(Failure::Unwritable(why));
        }
        reading::read(&self.path, BUSY, why, &|connection| {
            schema::is_own(schema::TABLE, connection, schema::ELSE)?;
            Ok(read::report(connection, question, &|| true)?.unwrap_or_default())
        })
    }

    /// What is written now, to be read elsewhere while more is written; `None` where no further connection can
    /// be had.
    pub fn view(&mut self) -> Result<Option<View>, Failure> {
        // The connection that writes opens the file, and finds out whether it can be read.
        self.with(|connection| Ok(connection.query_row(ANY, [], |_| Ok(()))?))?;
        Ok(View::of(&self.path).ok())
    }

    /// Whether the file can be written.
    pub fn can_write(&mut self) -> bool {
        self.with(|connection| {
            connection.transaction_with_behavior(TransactionBehavior::Immediate)?.rollback()?;
            Ok(())
        })
        .is_ok()
    }

    /// Whether the file is what it was left as. It is only looked at where it was opened before.
    pub fn look(&mut self) -> Result<(), Failure> {
        if self.open.is_none() {
            return Ok(());
        }
        self.with(|_| Ok(()))
    }

    /// Adds up a little of what lies long past; see [`fold::step`].
    pub fn fold(&mut self, now: Duration, from: u64) -> Result<Option<u64>, Failure> {
        self.with(|connection| fold::step(connection, now, from))
    }

    /// Does something with the open file. A damaged one is set aside and a new one taken, once.
    fn with<T>(&mut self, act: impl Fn(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.try_with(&act) {
            Err(Failure::Damaged(why)) => {
                self.is_damaged(identity(&self.path), &why)?;
                self.try_with(&act)
            }
            done => done,
        }
        .inspect_err(|_| self.try_anew())
    }

    /// A connection may be at fault itself, as when a file system has come back. But where no new one can be
    /// had, as on a full disk, the old one can still be read from.
    fn try_anew(&mut self) {
        let is_other = |open: &Open| {
            open.file.is_some() && (open.file != identity(&self.path) || open.left.is_changed(&self.path))
        };
        if self.open.as_ref().is_some_and(is_other) {
            // It was removed, replaced or overwritten: what is open may be all that is left of it.
            return;
        }
        if let Ok(fresh) = open(&self.path) {
            self.open = Some(fresh);
        }
    }

    fn try_with<T>(&mut self, act: impl Fn(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        // A file that somebody removed or replaced would go on being written without ever being read.
        if self.open.as_ref().is_some_and(|open| open.file.is_none() || open.file != identity(&self.path)) {
            self.leave_the_old()?;
        }
        self.see_to_changes()?;
        let open = match self.open.take() {
            Some(open) => open,
            None => open(&self.path)?,
        };
        let open = self.open.insert(open);
        let connection = &mut open.connection;
        #[cfg(test)]
        {
            let room = self.room.load(std::sync::atomic::Ordering::Relaxed);
            let most = if room == 0 { u32::MAX - 1 } else { room };
            connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
        }
        let done = act(connection);
        open.left = Left::now(&self.path, &open.connection);
        done
    }

    fn tell(&mut self, what: &str) {
        tracing::warn!(file = %self.path.display(), "{what}");
        Damage::note(&mut self.damage, Clock.wall(), what.to_owned());
    }

    /// Where somebody else has written into the file that is open: what SQLite finds sound is taken as it is. Of another
    /// one, emptied or overwritten, all is written anew that was in it, if that can still be read; else it is set aside.
    fn see_to_changes(&mut self) -> Result<(), Failure> {
        let now = Shape::of(&self.path);
        let Some(open) = self.open.as_ref().filter(|open| open.file.is_some()) else { return Ok(()) };
        if !open.left.has_lost_its_log(&self.path, &open.connection)? {
            if open.left.shape() == now {
                return Ok(());
            }
            if now.is_some_and(|now| !now.is_empty()) && is_sound(&self.path, schema::TABLE)? {
                // What the connection remembers of the file may be none of it any more.
                self.open = None;
                self.changes += 1;
                return Ok(());
            }
        }
        match write_anew(&open.connection, &self.path, schema::TABLE) {
            Ok(()) => {
                self.open = None;
                self.changes += 1;
                self.tell("the usage ledger was overwritten while in use: it is written anew, with all that was in it");
                Ok(())
            }
            Err(Failure::Damaged(why)) => {
                self.is_damaged(identity(&self.path), &format!("it was overwritten while in use: {why}"))
            }
            Err(failure) => {
                let (file, what) = (self.path.display(), failure.what());
                Err(Failure::Trouble(format!("{file} was overwritten, and cannot be written anew: {what}")))
            }
        }
    }

    /// What was open is not the file of this name any more. Where there is none, what was in it is written anew: quotas
    /// count by it after a restart. One that somebody has put in its place is taken as it is.
    fn leave_the_old(&mut self) -> Result<(), Failure> {
        let Some(old) = self.open.take() else { return Ok(()) };
        if old.file.is_none() {
            return Ok(());
        }
        if identity(&self.path).is_some() {
            self.changes += 1;
            self.tell(
                "the usage ledger was replaced while in use: what is used from now on is written to the one that is \
                 there now, and so is what quotas have counted in the periods that run and it lacks",
            );
            return Ok(());
        }
        match write_anew(&old.connection, &self.path, schema::TABLE) {
            Ok(()) => self.tell(
                "the usage ledger was removed while in use: it is written anew, with all that was in it. To begin with \
                 an empty one, stop the gateway before the file is removed",
            ),
            Err(Failure::Damaged(why)) => {
                self.changes += 1;
                self.tell(&format!(
                    "the usage ledger was removed while in use, and not all of it is left ({why}): it begins anew with \
                     what quotas have counted in the periods that run"
                ));
            }
            Err(failure) => {
                self.open = Some(old);
                let (file, what) = (self.path.display(), failure.what());
                return Err(Failure::Trouble(format!("{file} was removed, and cannot be written anew: {what}")));
            }
        }
        Ok(())
    }

    /// Sets the file aside, which somebody has found damaged, unless another one has taken its place.
    pub fn is_damaged(&mut self, file: File, why: &str) -> Result<(), Failure> {
        if file != identity(&self.path) {
            return Ok(());
        }
        self.open = None;
        // Where so much can still be read of it that it is seen to be another's, it is not ours to move.
        if let Ok(connection) = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            && let Err(Failure::Trouble(what)) = schema::is_own(schema::TABLE, &connection, schema::ELSE)
        {
            return Err(Failure::Trouble(what));
        }
        self.set_aside(why)
    }

    fn set_aside(&mut self, why: &str) -> Result<(), Failure> {
        let suffix = format!(".damaged-{}", Clock.wall().as_secs());
        for part in PARTS {
            let (from, to) = (with_suffix(&self.path, part), with_suffix(&self.path, &format!("{suffix}{part}")));
            match fs::rename(&from, &to) {
                Err(error) if part.is_empty() => {
                    return Err(Failure::Trouble(format!(
                        "the database is damaged ({why}) and cannot be set aside: {error}"
                    )));
                }
                _ => {}
            }
        }
        let kept = with_suffix(&self.path, &suffix);
        self.changes += 1;
        self.tell(&format!(
            "the database was damaged ({why}): it is set aside as {} and a new one begun; of what was used before it \
             holds what this process has counted for quotas",
            kept.display()
        ));
        Ok(())
    }
}

/// What is written at one moment, on a connection of its own: what is written later is not in it.
#[derive(Debug)]
pub(super) struct View {
    connection: Connection,
    pub file: File,
}

impl View {
    fn of(path: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        // A transaction sees the file as it was at its first reading, to its end.
        connection.execute_batch("BEGIN")?;
        connection.query_row(ANY, [], |_| Ok(()))?;
        Ok(Self { connection, file: identity(path) })
    }

    /// Answers a question; `None` once the answer is not wanted any more.
    pub fn report(&self, question: &Question, is_wanted: &dyn Fn() -> bool) -> Result<Option<Vec<Row>>, Failure> {
        read::report(&self.connection, question, is_wanted)
    }
}

/// Reads as little as a reading can.
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM usage)";

fn open(path: &Path) -> Result<Open, Failure> {
    let mut connection = connect(path, BUSY)?;
    schema::migrate(&mut connection)?;
    close_to_others(path);
    remember(&connection);
    let left = Left::now(path, &connection);
    Ok(Open { connection, file: identity(path), left })
}

/// Reads all of a small file: what is in the connection's memory is left where the file comes to harm.
fn remember(connection: &Connection) {
    /// Fewer than a connection remembers.
    const MOST_PAGES: i64 = 400;
    let pages = connection.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0));
    if pages.is_ok_and(|pages| pages <= MOST_PAGES) {
        for table in [schema::TABLE, "kb_versions"] {
            // Damage is found, and told, by whoever needs what is damaged.
            let _ = connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |_| Ok(()));
        }
        // The log says how large the file is, once there is something in it: this says what the file said before.
        let _ = schema::version(connection).and_then(|version| connection.pragma_update(None, "user_version", version));
    }
}

/// A connection to the file, which is made where it is missing, for nobody else to read. SQLite itself tries again for `busy` where another
/// process holds a lock.
pub(crate) fn connect(path: &Path, busy: Duration) -> Result<Connection, Failure> {
    make(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let named = |error: rusqlite::Error| Failure::from(error).of(path);
    let connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(busy).map_err(named)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(named)?;
    Ok(connection)
}

fn add_entry(add: &mut Statement<'_>, entry: &Entry) -> rusqlite::Result<()> {
    let Sums { requests, tokens_in, tokens_out, tokens_cached, cost, .. } = entry.sums;
    let Sums { unpriced, cache_hits, tokens_saved, cost_saved, ms_saved, .. } = entry.sums;
    let changed = add.execute((
        whole(entry.at.as_secs() / QUARTER),
        &*entry.client,
        &*entry.route,
        &*entry.upstream,
        &*entry.model,
        &*entry.currency,
        whole(requests),
        whole(tokens_in),
        whole(tokens_out),
        whole(tokens_cached),
        whole(cost),
        whole(unpriced),
        whole(cache_hits),
        whole(tokens_saved),
        whole(cost_saved),
        whole(ms_saved),
    ));
    changed.map(|_| ())
}

/// Whether an error is about one entry, and the transaction goes on without it.
fn is_about_the_entry(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig))
}

const VALUES: &str = "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
