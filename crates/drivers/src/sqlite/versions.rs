//! The versions of knowledge bases that operators have set, in a small file of their own.
//!
//! It is never set aside or begun anew: a version that is forgotten would have old answers served. What is wrong with
//! it is told, and nothing stored before is served until somebody has seen to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use state::{Answer, Unreadable, Versioned, Versions};

use super::asking::Asking;
use super::schema::is_own;
use super::{reading, store};
use crate::failure::Failure;
use crate::file::close_to_others;

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
    fn ask(&self, act: impl FnOnce(&Path) -> Result<Versioned, Failure> + Send + 'static) -> Answer<Told> {
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
        self.ask(|path| {
            // Nothing was ever set.
            if !path.exists() {
                return Ok(Versioned::new());
            }
            let why = match open(path) {
                Err(Failure::Unwritable(why)) => why,
                opened => return all(&opened?),
            };
            reading::read(path, BUSY, why, &|connection| {
                is_own("kb_versions", connection, ELSE)?;
                if connection.table_exists(None, "kb_versions")? { all(connection) } else { Ok(Versioned::new()) }
            })
        })
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
