//! The versions of knowledge bases that operators have set, in a small file of their own.
//!
//! It never begins anew without what was in it: a version that is forgotten would have old answers served. What is wrong with
//! it at a start is told, and nothing stored before is served until somebody has seen to it. What befalls it while it is
//! in use is made good with what is known of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use state::{Answer, Unreadable, Versioned, Versions};

use super::asking::Asking;
use super::schema::is_own;
use super::{reading, store};
use crate::failure::Failure;
use crate::file::{PARTS, close_to_others, with_suffix};

/// How long SQLite itself tries again where the ledger or another process holds a lock.
const BUSY: Duration = Duration::from_secs(2);
/// Questions at a time: they are asked at a start, and by operators.
const QUESTIONS: usize = 8;

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS kb_versions (route TEXT PRIMARY KEY, version TEXT NOT NULL) STRICT, WITHOUT ROWID";

/// What an operator may do where the file is none of ours.
const ELSE: &str = "purge the cache and set every version again";

type Told = Result<Versioned, Unreadable>;

/// The versions in the file at a path.
#[derive(Debug)]
pub struct SqliteVersions {
    path: Arc<PathBuf>,
    asking: Asking,
}

impl SqliteVersions {
    /// Those in the file at `path`, which is made when the first one is set.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path: Arc::new(path), asking: Asking::named("kb-versions", QUESTIONS) }
    }

    /// Does something with the file on a thread of its own.
    fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Path) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<Result<T, Unreadable>> {
        let path = self.path.clone();
        self.asking.ask(move || {
            act(&path).map_err(|failure| match failure {
                Failure::Damaged(what) => Unreadable(format!(
                    "{} is damaged ({what}): put a copy of it back, or purge the cache, remove the file, and set every \
                     version again",
                    path.display()
                )),
                other => Unreadable(other.what()),
            })
        })
    }
}

impl Versions for SqliteVersions {
    fn all(&self) -> Answer<Told> {
        // Where there is no file nothing was ever set.
        self.ask(|path| if path.exists() { found(path) } else { Ok(Versioned::new()) })
    }

    fn set(&self, route: Arc<str>, version: Option<Arc<str>>) -> Answer<Told> {
        self.ask(move |path| {
            let connection = open(path)?;
            match &version {
                Some(version) => connection.execute(
                    "INSERT INTO kb_versions VALUES (?1, ?2) ON CONFLICT DO UPDATE SET version = excluded.version",
                    [&*route, &**version],
                )?,
                None => connection.execute("DELETE FROM kb_versions WHERE route = ?1", [&*route])?,
            };
            all(&connection)
        })
    }

    fn keep(&self, known: Versioned) -> Answer<Result<Option<String>, Unreadable>> {
        self.ask(move |path| {
            if known.is_empty() && !path.exists() {
                return Ok(None);
            }
            let what = match found(path) {
                Ok(found) if found == known => return Ok(None),
                Ok(_) => "it was removed, emptied or replaced: what is set is written anew".to_owned(),
                Err(Failure::Damaged(why)) => {
                    let kept = set_aside(path)?;
                    format!(
                        "it was damaged ({why}): it is set aside as {}, and what is set written anew",
                        kept.display()
                    )
                }
                Err(failure) => return Err(failure),
            };
            write(path, &known)?;
            Ok(Some(what))
        })
    }
}

/// All that is in the file, be it that it cannot be written.
fn found(path: &Path) -> Result<Versioned, Failure> {
    let why = match open(path) {
        Err(Failure::Unwritable(why)) => why,
        opened => return all(&opened?),
    };
    reading::read(path, BUSY, why, &|connection| {
        is_own("kb_versions", connection, ELSE)?;
        if connection.table_exists(None, "kb_versions")? { all(connection) } else { Ok(Versioned::new()) }
    })
}

/// Writes these in the place of what is there.
fn write(path: &Path, known: &Versioned) -> Result<(), Failure> {
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("DELETE FROM kb_versions", [])?;
    for (route, version) in known {
        transaction.execute("INSERT INTO kb_versions VALUES (?1, ?2)", [&**route, &**version])?;
    }
    Ok(transaction.commit()?)
}

/// Sets a damaged file aside, in the place of one that was set aside before. Another program's is none: it is sound.
fn set_aside(path: &Path) -> Result<PathBuf, Failure> {
    let kept = with_suffix(path, ".damaged");
    for part in PARTS {
        match std::fs::rename(with_suffix(path, part), with_suffix(&kept, part)) {
            Err(error) if part.is_empty() => {
                return Err(Failure::Trouble(format!(
                    "{} is damaged, and cannot be set aside: {error}",
                    path.display()
                )));
            }
            _ => {}
        }
    }
    Ok(kept)
}

fn open(path: &Path) -> Result<Connection, Failure> {
    let connection = store::connect(path, BUSY)?;
    is_own("kb_versions", &connection, ELSE)?;
    connection.execute_batch(TABLE)?;
    close_to_others(path);
    Ok(connection)
}

fn all(connection: &Connection) -> Result<Versioned, Failure> {
    let mut select = connection.prepare("SELECT route, version FROM kb_versions")?;
    let name = |row: &rusqlite::Row<'_>, at| row.get::<_, String>(at).map(Arc::from);
    let rows = select.query_map([], |row| Ok((name(row, 0)?, name(row, 1)?)))?;
    Ok(rows.collect::<Result<Versioned, _>>()?)
}
