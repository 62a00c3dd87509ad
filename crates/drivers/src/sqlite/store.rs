//! The file: opened, migrated, written, read, and set aside where it is damaged.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, OpenFlags, ToSql, TransactionBehavior};
use state::{Book, QUARTER, Question, Row, Sums};

use super::failure::Failure;
use super::schema;

/// A database file; opened when it is first needed, and again after every failure if that can be.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    /// Which file it is: device and inode.
    file: Option<(u64, u64)>,
}

/// How long SQLite itself tries again where another process holds a lock.
const BUSY: Duration = Duration::from_millis(20);

impl Store {
    pub fn at(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Adds a book to the file, all of it or nothing.
    pub fn write(&mut self, book: &Book) -> Result<(), Failure> {
        self.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut add = transaction.prepare(ADD)?;
                for entry in book.entries() {
                    let Sums { requests, tokens_in, tokens_out, tokens_cached, cost, .. } = entry.sums;
                    let Sums { unpriced, cache_hits, tokens_saved, .. } = entry.sums;
                    add.execute((
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
                    ))?;
                }
            }
            transaction.commit()?;
            Ok(())
        })
    }

    /// Answers a question from what is written.
    pub fn read(&mut self, question: &Question) -> Result<Vec<Row>, Failure> {
        self.with(|connection| {
            let mut select = connection.prepare(&select(question))?;
            let (from, to) = question.quarters();
            let bounds: [&dyn ToSql; 3] = [&whole(from), &whole(to), &question.client.as_deref()];
            let rows = select.query_map(bounds, row)?;
            Ok(rows.collect::<Result<Vec<Row>, _>>()?)
        })
    }

    /// Does something with the open file. A damaged one is set aside and a new one taken, once.
    fn with<T>(&mut self, act: impl Fn(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.try_with(&act) {
            Err(Failure::Damaged(why)) => {
                self.open = None;
                self.set_aside(&why)?;
                self.try_with(&act)
            }
            done => done,
        }
        .inspect_err(|_| self.try_anew())
    }

    /// A connection may be at fault itself, as when a file system has come back. But where no new one can be
    /// had, as on a full disk, the old one can still be read from.
    fn try_anew(&mut self) {
        if let Ok(fresh) = open(&self.path) {
            self.open = Some(fresh);
        }
    }

    fn try_with<T>(&mut self, act: impl Fn(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        // A file that somebody removed or replaced would go on being written without ever being read.
        if self.open.as_ref().is_some_and(|open| open.file.is_none() || open.file != identity(&self.path)) {
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => open(&self.path)?,
        };
        act(&mut self.open.insert(open).connection)
    }

    fn set_aside(&self, why: &str) -> Result<(), Failure> {
        let suffix = format!(".damaged-{}", Clock.wall().as_secs());
        for part in ["", "-wal", "-shm"] {
            let (from, to) = (with_suffix(&self.path, part), with_suffix(&self.path, &format!("{suffix}{part}")));
            match std::fs::rename(&from, &to) {
                Err(error) if part.is_empty() => {
                    return Err(Failure::Trouble(format!(
                        "the database is damaged ({why}) and cannot be set aside: {error}"
                    )));
                }
                _ => {}
            }
        }
        let kept = with_suffix(&self.path, &suffix);
        tracing::warn!(
            file = %self.path.display(), kept = %kept.display(), why,
            "the database was damaged: it is set aside and a new one begun; what was used before is not in it"
        );
        Ok(())
    }
}

fn open(path: &Path) -> Result<Open, Failure> {
    if let Some(folder) = path.parent() {
        // What cannot be made is told by the opening.
        let _ = std::fs::create_dir_all(folder);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let named = |error: rusqlite::Error| match Failure::from(error) {
        Failure::Trouble(what) => Failure::Trouble(format!("{}: {what}", path.display())),
        damaged @ Failure::Damaged(_) => damaged,
    };
    let mut connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(BUSY).map_err(named)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(named)?;
    schema::migrate(&mut connection)?;
    Ok(Open { connection, file: identity(path) })
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A count as SQLite has it.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

const ADD: &str = "
    INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT DO UPDATE SET
        requests = requests + excluded.requests, tokens_in = tokens_in + excluded.tokens_in,
        tokens_out = tokens_out + excluded.tokens_out, tokens_cached = tokens_cached + excluded.tokens_cached,
        cost = cost + excluded.cost, unpriced = unpriced + excluded.unpriced,
        cache_hits = cache_hits + excluded.cache_hits, tokens_saved = tokens_saved + excluded.tokens_saved";

/// `SUM` of whole numbers is an error where it overflows; nothing real comes near.
fn select(question: &Question) -> String {
    let by = question.by;
    let column = |wanted: bool, name: &'static str| if wanted { name } else { "''" };
    let day = if by.day { "quarter / 96" } else { "NULL" };
    let (client, route, upstream, model) = (
        column(by.client, "client"),
        column(by.route, "route"),
        column(by.upstream, "upstream"),
        column(by.model, "model"),
    );
    format!(
        "SELECT {day}, {client}, {route}, {upstream}, {model}, currency, SUM(requests), SUM(tokens_in), SUM(tokens_out),
             SUM(tokens_cached), SUM(cost), SUM(unpriced), SUM(cache_hits), SUM(tokens_saved)
         FROM usage WHERE quarter >= ?1 AND quarter < ?2 AND (?3 IS NULL OR client = ?3)
         GROUP BY 1, 2, 3, 4, 5, 6"
    )
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let name = |at: usize| row.get::<_, String>(at).map(Arc::from);
    // None of them was ever negative.
    let count = |at: usize| row.get::<_, i64>(at).map(|count| u64::try_from(count).unwrap_or_default());
    let sums = Sums {
        requests: count(6)?,
        tokens_in: count(7)?,
        tokens_out: count(8)?,
        tokens_cached: count(9)?,
        cost: count(10)?,
        unpriced: count(11)?,
        cache_hits: count(12)?,
        tokens_saved: count(13)?,
    };
    Ok(Row {
        day: row.get(0)?,
        client: name(1)?,
        route: name(2)?,
        upstream: name(3)?,
        model: name(4)?,
        currency: name(5)?,
        sums,
    })
}
