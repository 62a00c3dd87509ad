//! The file: opened, written, looked through, emptied, and set aside where it is damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};
use state::answers::{Key, Kind, Stored, Which};

use super::index::Known;
use super::row;
use crate::file::{self as shared, Form, PARTS, anothers, connect, identities, identity, number, with_suffix};
pub(super) use crate::file::{Failure, PAGE, remove};

/// The version of the tables and of what stands in them. A file of another one is replaced.
const VERSION: i64 = 1;
/// Says whose file it is, in the place that SQLite has for it: `maic`.
pub(super) const APPLICATION: i64 = 0x6d61_6963;
/// `answers` is small and found by key; `bodies` only ever grows at its end, so that a body is written where
/// the last one was. Times are nanoseconds since the Unix epoch, `used` is a turn of the index, `turns` has one
/// row, the turn that it is.
const TABLES: &str = "
    CREATE TABLE answers (
        print INTEGER PRIMARY KEY,
        key BLOB NOT NULL,
        kind INTEGER NOT NULL,
        route TEXT NOT NULL,
        client TEXT,
        kb_version TEXT,
        stored INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        keep_until INTEGER NOT NULL,
        used INTEGER NOT NULL,
        size INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        body INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE turns (turn INTEGER NOT NULL) STRICT;
    INSERT INTO turns VALUES (0);";

/// A row that has been written or removed.
#[derive(Debug)]
pub(super) struct Touched {
    pub print: u64,
    pub kind: Kind,
    pub route: Arc<str>,
    pub size: u32,
}

/// What a transaction has changed, to be told to the index once it is committed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub gone: Vec<Touched>,
    pub come: Vec<(Touched, u32)>,
}

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    connection: Connection,
    path: PathBuf,
    /// Device and inode, of each part.
    identities: [Option<(u64, u64)>; PARTS.len()],
}

impl File {
    /// Opens the file, and makes it where it is missing or of another version.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let form = Form { application: APPLICATION, version: VERSION, tables: TABLES, page: PAGE };
        let connection = shared::open(path, &form)?;
        Ok(Self { connection, path: path.to_owned(), identities: identities(path) })
    }

    /// Whether it still is the file of that name.
    pub fn is_there(&self) -> bool {
        let [own, ..] = self.identities;
        own.is_some() && own == identity(&self.path)
    }

    /// Closes it once it is there no more, and takes its log and the log's index along: whatever stands in its place
    /// must not be read by them, nor by who still reads the old one.
    pub fn leave(self) {
        for (part, own) in PARTS.into_iter().zip(self.identities).skip(1) {
            let path = with_suffix(&self.path, part);
            // What another file has brought along stays.
            if own.is_some() && own == identity(&path) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// The file has so many pages at most, and writes its log back when that has so many.
    pub fn hold_within(&self, pages: u64, log: u64) -> Result<(), Failure> {
        let set = |name: &str, value: u64| {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            self.connection.pragma_update_and_check(None, name, value, |_| Ok(()))
        };
        set("max_page_count", pages.min(u64::from(u32::MAX - 1)))?;
        set("wal_autocheckpoint", log)?;
        set("journal_size_limit", log * PAGE)?;
        Ok(())
    }

    /// Pages there are, and those of them that are free.
    pub fn pages(&self) -> Result<(u64, u64), Failure> {
        let count = |name| number(&self.connection, name).map(|count| u64::try_from(count).unwrap_or_default());
        Ok((count("page_count")?, count("freelist_count")?))
    }

    fn act<T>(&mut self, act: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = act(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Writes things in the place of what was under their keys, as of a turn of the index.
    pub fn put<'a>(
        &mut self,
        things: impl Iterator<Item = (&'a Key, &'a Stored)>,
        turn: u32,
    ) -> Result<Changes, Failure> {
        let now = Clock.wall();
        self.act(|transaction| {
            let mut changes = Changes::default();
            let mut body = transaction.prepare("INSERT INTO bodies (body) VALUES (?1)")?;
            let mut answer = transaction
                .prepare("INSERT INTO answers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")?;
            let mut remove = Remove::of(transaction)?;
            for (key, stored) in things {
                let (print, size) = (row::print(key), row::size(stored));
                changes.gone.extend(remove.one(print)?);
                // What is over before it is written need not be.
                if stored.keep_until <= now {
                    continue;
                }
                body.execute([&*stored.body])?;
                answer.execute(rusqlite::params![
                    print,
                    key.0,
                    stored.kind.number(),
                    &*stored.route,
                    stored.client.as_deref(),
                    stored.kb_version.as_deref(),
                    row::nanos(stored.stored),
                    row::nanos(stored.expires),
                    row::nanos(stored.keep_until),
                    turn,
                    size,
                    row::checksum(key, stored),
                    transaction.last_insert_rowid(),
                ])?;
                let touched = Touched { print: key.print(), kind: stored.kind, route: stored.route.clone(), size };
                changes.come.push((touched, row::seconds(stored.keep_until)));
            }
            Ok(changes)
        })
    }

    /// Removes rows, as far as they are there.
    pub fn remove(&mut self, prints: &[u64]) -> Result<Changes, Failure> {
        self.act(|transaction| {
            let mut remove = Remove::of(transaction)?;
            let mut changes = Changes::default();
            for print in prints {
                changes.gone.extend(remove.one(print.cast_signed())?);
            }
            Ok(changes)
        })
    }

    /// The rows behind one, in the order of their numbers, `most` of them at most.
    pub fn after(&self, print: Option<i64>, most: u32) -> Result<Vec<(Touched, Known)>, Failure> {
        let mut select = self.connection.prepare(
            "SELECT print, kind, route, size, used, keep_until FROM answers
             WHERE ?1 IS NULL OR print > ?1 ORDER BY print LIMIT ?2",
        )?;
        let mut rows = select.query((print, most))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let touched = touched(row)?;
            let keep_until = Duration::from_nanos(u64::try_from(row.get::<_, i64>(5)?).unwrap_or_default());
            let used = u32::try_from(row.get::<_, i64>(4)?).unwrap_or_default();
            let known = Known { used, until: row::seconds(keep_until), size: touched.size };
            found.push((touched, known));
        }
        Ok(found)
    }

    /// As of [`row::such`].
    pub fn such(&self, which: &Which, after: Option<i64>, most: u32) -> Result<(Vec<u64>, Option<i64>), Failure> {
        Ok(row::such(&self.connection, which, after, most)?)
    }

    /// Writes down when things were used last.
    pub fn note_used(&mut self, used: &[(u64, u32)]) -> Result<(), Failure> {
        self.act(|transaction| {
            let mut update = transaction.prepare("UPDATE answers SET used = ?2 WHERE print = ?1")?;
            for (print, turn) in used {
                update.execute((print.cast_signed(), turn))?;
            }
            Ok(())
        })
    }

    pub fn turn(&self) -> Result<u32, Failure> {
        let turn: Option<i64> = self.connection.query_row("SELECT turn FROM turns", [], |row| row.get(0)).optional()?;
        Ok(turn.and_then(|turn| u32::try_from(turn).ok()).unwrap_or_default())
    }

    pub fn set_turn(&mut self, turn: u32) -> Result<(), Failure> {
        self.connection.execute("UPDATE turns SET turn = ?1", [turn])?;
        Ok(())
    }

    /// Gives free pages back to the disk.
    pub fn shrink(&self, pages: u64) -> Result<(), Failure> {
        // It yields a row for each page.
        let mut vacuum = self.connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Writes the log back, and gives its room back to the disk if nobody reads.
    pub fn fold_log(&self) {
        // It is tried again by and by.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// What removes one row.
struct Remove<'a> {
    answer: rusqlite::Statement<'a>,
    body: rusqlite::Statement<'a>,
}

impl<'a> Remove<'a> {
    fn of(connection: &'a Connection) -> Result<Self, Failure> {
        Ok(Self {
            answer: connection
                .prepare("DELETE FROM answers WHERE print = ?1 RETURNING print, kind, route, size, body")?,
            body: connection.prepare("DELETE FROM bodies WHERE id = ?1")?,
        })
    }

    fn one(&mut self, print: i64) -> Result<Option<Touched>, Failure> {
        let gone = self.answer.query_row([print], |row| Ok((touched(row)?, row.get::<_, i64>(4)?))).optional()?;
        let Some((gone, body)) = gone else { return Ok(None) };
        self.body.execute([body])?;
        Ok(Some(gone))
    }
}

fn touched(row: &rusqlite::Row<'_>) -> rusqlite::Result<Touched> {
    Ok(Touched {
        print: row.get::<_, i64>(0)?.cast_unsigned(),
        // A number that nobody wrote; the row is never given back, for its checksum.
        kind: Kind::numbered(row.get(1)?).unwrap_or(Kind::Answer),
        route: row.get::<_, String>(2)?.into(),
        size: row.get(3)?,
    })
}

/// A connection that only reads; `None` where there are no tables yet, or those of another version, which are about to
/// be replaced.
pub(super) fn open_to_read(path: &Path) -> Result<Option<Connection>, Failure> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // As of one moment: the tables may be being made.
    let view = connection.transaction()?;
    let is_empty = number(&view, "schema_version")? == 0;
    let (application, version) = (number(&view, "application_id")?, number(&view, "user_version")?);
    view.finish()?;
    match (application, version) {
        _ if is_empty => Ok(None),
        (APPLICATION, VERSION) => Ok(Some(connection)),
        (APPLICATION, _) => Ok(None),
        _ => Err(anothers(path)),
    }
}
