//! A file of blocks: opened, written, read, emptied from its old end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};
use state::requests::block::Block;

use crate::file::{self, Failure, Form, Left, PARTS, Shape, connect, identities, identity, number};

/// The version of the tables and of what stands in them. A file of another one is replaced.
const VERSION: i64 = 1;
/// Says whose file it is, in the place that SQLite has for it: `mair`.
pub(super) const APPLICATION: i64 = 0x6d61_6972;
/// Bytes of a page: a block takes a few of these.
pub(super) const PAGE: u64 = 16 << 10;
/// What a body may unfold to; no block is that large.
const LARGEST: u32 = 256 << 20;
/// Blocks that go in one step.
const FEW: u32 = 32;

/// `blocks` is small, so that a walk over it reads little; what finding and reading takes stands apart. Times are
/// microseconds since the Unix epoch.
const TABLES: &str = "
    CREATE TABLE blocks (
        id INTEGER PRIMARY KEY,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        count INTEGER NOT NULL,
        summary BLOB NOT NULL
    ) STRICT;
    CREATE TABLE prints (id INTEGER PRIMARY KEY, prints BLOB NOT NULL) STRICT;
    CREATE TABLE bodies (id INTEGER PRIMARY KEY, checksum BLOB NOT NULL, body BLOB NOT NULL) STRICT;";

/// A block as it is written.
pub(super) struct Packed<'a> {
    block: &'a Block,
    body: Vec<u8>,
}

impl<'a> Packed<'a> {
    pub fn of(block: &'a Block) -> Self {
        Self { block, body: lz4_flex::block::compress_prepend_size(&block.body) }
    }

    /// Pages that it takes, about.
    pub fn pages(&self) -> u64 {
        (self.body.len() + self.block.prints.len() + self.block.summary.len()) as u64 / PAGE + 3
    }

    pub const fn id(&self) -> u64 {
        self.block.id
    }
}

/// A body that was packed; `None` where the bytes are not what was written.
fn unpacked(body: &[u8], checksum: &[u8]) -> Option<Vec<u8>> {
    let (size, _) = body.split_first_chunk::<4>()?;
    if *checksum != check(body) || u32::from_le_bytes(*size) > LARGEST {
        return None;
    }
    lz4_flex::block::decompress_size_prepended(body).ok()
}

fn check(body: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    blake3::Hasher::new().update(body).finalize_xof().fill(&mut check);
    check
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

fn id(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

fn last(connection: &Connection) -> Result<u64, Failure> {
    let last: Option<i64> = connection.query_row("SELECT max(id) FROM blocks", [], |row| row.get(0))?;
    Ok(u64::try_from(last.unwrap_or_default()).unwrap_or_default())
}

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    connection: Connection,
    path: PathBuf,
    /// Device and inode, of each part.
    identities: [Option<(u64, u64)>; PARTS.len()],
    left: Left,
}

impl File {
    /// Opens the file, and makes it where it is missing or of another version.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let form = Form { application: APPLICATION, version: VERSION, tables: TABLES, page: PAGE };
        let connection = file::open(path, &form)?;
        let left = Left::now(path, &connection);
        Ok(Self { connection, path: path.to_owned(), identities: identities(path), left })
    }

    /// Whether it still is the file of that name.
    pub fn is_there(&self) -> bool {
        let [own, ..] = self.identities;
        own.is_some() && own == identity(&self.path)
    }

    /// Remembers what it looks like: whoever changes it from now on is somebody else.
    pub fn leave(&mut self) {
        self.left = Left::now(&self.path, &self.connection);
    }

    /// Whether nobody else has written into it, or SQLite finds it sound still. Each body has a checksum of its own
    /// besides.
    pub fn is_whole(&mut self) -> Result<bool, Failure> {
        let now = Shape::of(&self.path);
        if self.left.has_lost_its_log(&self.path, &self.connection)? {
            return Ok(false);
        }
        if self.left.shape() == now {
            return Ok(true);
        }
        let is_whole = now.is_some_and(|now| !now.is_empty()) && file::is_sound(&self.path, "blocks")?;
        if is_whole {
            self.leave();
        }
        Ok(is_whole)
    }

    /// Writes all anew that was in it, as [`file::write_anew`] does.
    pub fn write_anew(&self) -> Result<(), Failure> {
        Ok(file::write_anew(&self.connection, &self.path, "blocks")?)
    }

    /// The file has so many pages at most, and writes its log back when that has so many.
    pub fn hold_within(&self, pages: u64, log: u64) -> Result<(), Failure> {
        let set = |name: &str, value: u64| self.connection.pragma_update_and_check(None, name, id(value), |_| Ok(()));
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

    /// The last block's id; 0 where there is none.
    pub fn last(&self) -> Result<u64, Failure> {
        last(&self.connection)
    }

    /// Writes blocks behind those that are there. Where another process has written some that are as new, it writes
    /// nothing, and gives the last one's id: no block ever has two ids.
    pub fn put(&mut self, packed: &[Packed<'_>]) -> Result<Option<u64>, Failure> {
        self.act(|transaction| {
            let last = last(transaction)?;
            if packed.first().is_some_and(|first| first.id() <= last) {
                return Ok(Some(last));
            }
            let mut block = transaction.prepare("INSERT INTO blocks VALUES (?1, ?2, ?3, ?4, ?5)")?;
            let mut prints = transaction.prepare("INSERT INTO prints VALUES (?1, ?2)")?;
            let mut body = transaction.prepare("INSERT INTO bodies VALUES (?1, ?2, ?3)")?;
            for one in packed {
                let (id, times) = (id(one.id()), (micros(one.block.first), micros(one.block.last)));
                block.execute((id, times.0, times.1, one.block.count, &one.block.summary))?;
                prints.execute((id, &one.block.prints))?;
                body.execute((id, check(&one.body), &one.body))?;
            }
            Ok(None)
        })
    }

    /// Removes a few of the oldest blocks; says how many went.
    pub fn remove_oldest(&mut self, most: u32) -> Result<usize, Failure> {
        self.remove(most, |_, _| Ok(true))
    }

    /// Removes a few of the blocks whose last request came before a time; says how many went. One that claims to be of
    /// the future was written while the clock was ahead: it is older than what was written after it.
    pub fn remove_old(&mut self, since: Duration, now: Duration) -> Result<usize, Failure> {
        let mut newest_old = None;
        self.remove(u32::MAX, |transaction, (id, last)| {
            if last < since || last <= now {
                return Ok(last < since);
            }
            if newest_old.is_none() {
                let select = "SELECT max(id) FROM blocks WHERE last < ?1";
                newest_old = Some(transaction.query_row(select, [micros(since)], |row| row.get::<_, Option<i64>>(0))?);
            }
            Ok(newest_old.flatten().is_some_and(|old| id < old))
        })
    }

    /// Removes the oldest blocks, a few at most, as long as they are `such` by id and last arrival.
    fn remove(
        &mut self,
        most: u32,
        mut such: impl FnMut(&Transaction<'_>, (i64, Duration)) -> Result<bool, Failure>,
    ) -> Result<usize, Failure> {
        self.act(|transaction| {
            let mut select = transaction.prepare("SELECT id, last FROM blocks ORDER BY id LIMIT ?1")?;
            let mut rows = select.query([most.min(FEW)])?;
            let mut old: Vec<i64> = Vec::new();
            while let Some(row) = rows.next()? {
                let id = row.get(0)?;
                if !such(transaction, (id, time(row.get(1)?)))? {
                    break;
                }
                old.push(id);
            }
            for one in &old {
                for table in ["blocks", "prints", "bodies"] {
                    transaction.prepare(&format!("DELETE FROM {table} WHERE id = ?1"))?.execute([one])?;
                }
            }
            Ok(old.len())
        })
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

/// A file being read, as it was when this began.
pub(super) struct Reading(Connection);

/// What a walk is told of each block.
pub(super) struct Seen {
    pub id: u64,
    pub times: (Duration, Duration),
    pub summary: Vec<u8>,
}

impl Reading {
    /// `None` where there is no file.
    pub fn open(path: &Path) -> Result<Option<Self>, Failure> {
        if !path.exists() {
            return Ok(None);
        }
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if (number(&connection, "application_id")?, number(&connection, "user_version")?) != (APPLICATION, VERSION) {
            return Ok(None);
        }
        // One view for all that is asked.
        connection.execute_batch("BEGIN")?;
        Ok(Some(Self(connection)))
    }

    /// The last block's id; 0 where there is none.
    pub fn last(&self) -> Result<u64, Failure> {
        last(&self.0)
    }

    /// Tells of blocks from the newest to the oldest, from this one on, as long as it is wished.
    pub fn walk(&self, from: u64, mut tell: impl FnMut(Seen) -> Result<bool, Failure>) -> Result<(), Failure> {
        let mut select =
            self.0.prepare("SELECT id, first, last, summary FROM blocks WHERE id <= ?1 ORDER BY id DESC")?;
        let mut rows = select.query([id(from)])?;
        while let Some(row) = rows.next()? {
            let seen = Seen {
                id: row.get::<_, i64>(0)?.cast_unsigned(),
                times: (time(row.get(1)?), time(row.get(2)?)),
                summary: row.get(3)?,
            };
            if !tell(seen)? {
                break;
            }
        }
        Ok(())
    }

    /// Tells of each block's prints, from the newest to the oldest, as long as it is wished.
    pub fn walk_prints(&self, mut tell: impl FnMut(u64, &[u8]) -> Result<bool, Failure>) -> Result<(), Failure> {
        let mut select = self.0.prepare("SELECT id, prints FROM prints ORDER BY id DESC")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let prints = row.get_ref(1)?.as_blob().unwrap_or_default();
            if !tell(row.get::<_, i64>(0)?.cast_unsigned(), prints)? {
                break;
            }
        }
        Ok(())
    }

    pub fn prints(&self, block: u64) -> Result<Vec<u8>, Failure> {
        let mut select = self.0.prepare("SELECT prints FROM prints WHERE id = ?1")?;
        Ok(select.query_row([id(block)], |row| row.get(0)).optional()?.unwrap_or_default())
    }

    pub fn summary(&self, block: u64) -> Result<Vec<u8>, Failure> {
        let mut select = self.0.prepare("SELECT summary FROM blocks WHERE id = ?1")?;
        Ok(select.query_row([id(block)], |row| row.get(0)).optional()?.unwrap_or_default())
    }

    /// A block's records; `None` where they are damaged.
    pub fn body(&self, block: u64) -> Result<Option<Vec<u8>>, Failure> {
        let mut select = self.0.prepare("SELECT checksum, body FROM bodies WHERE id = ?1")?;
        let read = |row: &rusqlite::Row<'_>| {
            let (checksum, body) = (row.get_ref(0)?, row.get_ref(1)?);
            Ok(unpacked(body.as_blob().unwrap_or_default(), checksum.as_blob().unwrap_or_default()))
        };
        Ok(select.query_row([id(block)], read).optional()?.flatten())
    }
}
