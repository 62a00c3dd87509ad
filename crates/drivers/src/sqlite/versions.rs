//! The versions of knowledge bases that operators have set, in a small file of their own.
//!
//! It is never set aside or begun anew: a version that is forgotten would have old answers served. What is wrong with
//! it is told, and nothing stored before is served until somebody has seen to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use state::{Answer, Unreadable, Versioned, Versions};
use tokio::sync::oneshot;

use super::failure::Failure;
use super::store;

/// Questions at a time, each with a thread of its own: they are asked at a start, and by operators.
const MOST: usize = 8;
/// How long SQLite itself tries again where the ledger or another process holds a lock.
const BUSY: Duration = Duration::from_secs(2);

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS kb_versions (route TEXT PRIMARY KEY, version TEXT NOT NULL) STRICT, WITHOUT ROWID";

type Told = Result<Versioned, Unreadable>;

/// The versions in the file at a path.
#[derive(Debug)]
pub struct SqliteVersions {
    path: Arc<PathBuf>,
    under_way: Arc<AtomicUsize>,
}

impl SqliteVersions {
    /// Those in the file at `path`, which is made when the first one is set.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path: Arc::new(path), under_way: Arc::default() }
    }

    /// Does something with the file on a thread of its own.
    fn ask(&self, act: impl FnOnce(&Path) -> Result<Versioned, Failure> + Send + 'static) -> Answer<Told> {
        let place = Place(self.under_way.clone());
        if place.0.fetch_add(1, Ordering::Relaxed) >= MOST {
            return Answer::Ready(Err(Unreadable("too many such questions wait for the database already".to_owned())));
        }
        let (reply, answer) = oneshot::channel();
        let path = self.path.clone();
        let work = move || {
            let done = act(&path).map_err(|failure| match failure {
                Failure::Damaged(what) => Unreadable(format!(
                    "{} is damaged ({what}): put a copy of it back, or purge the cache, remove the file, and set every \
                     version again",
                    path.display()
                )),
                Failure::Trouble(what) => Unreadable(what),
            });
            drop(place);
            // Whoever asked may have left.
            let _ = reply.send(done);
        };
        if let Err(error) = std::thread::Builder::new().name("kb-versions".to_owned()).spawn(work) {
            return Answer::Ready(Err(Unreadable(format!("no thread for the database: {error}"))));
        }
        Answer::Later(Box::pin(async move {
            let gone = || Unreadable("the thread for the database has ended; please report this".to_owned());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }))
    }
}

/// One of the questions that are under way.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Versions for SqliteVersions {
    fn all(&self) -> Answer<Told> {
        self.ask(|path| {
            // Nothing was ever set.
            if !path.exists() {
                return Ok(Versioned::new());
            }
            all(&open(path)?)
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
    let connection = store::connect(path)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(TABLE)?;
    Ok(connection)
}

fn all(connection: &Connection) -> Result<Versioned, Failure> {
    let mut select = connection.prepare("SELECT route, version FROM kb_versions")?;
    let name = |row: &rusqlite::Row<'_>, at| row.get::<_, String>(at).map(Arc::from);
    let rows = select.query_map([], |row| Ok((name(row, 0)?, name(row, 1)?)))?;
    Ok(rows.collect::<Result<Versioned, _>>()?)
}
