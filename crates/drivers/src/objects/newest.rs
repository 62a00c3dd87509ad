//! Whether the file holds what was written into it last. One that was copied over it stands in the same place on the disk, and
//! lacks without a word what was changed since the copy was made: a client that was removed would come back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Transaction};

use crate::sqlite::Failure;

/// A row of the audit log, of which every change writes one: its number, and when it was written.
type Row = Option<(i64, i64)>;

/// The newest row of the audit log; `None` while it is not known.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Option<Row>>);

impl Newest {
    /// Whether it is still in the file, which may have newer ones: another process may write it too. What is in the file
    /// is taken as it is where none is known.
    pub fn is_in(&self, connection: &Connection) -> bool {
        let mut known = self.known();
        // Whoever needs what cannot be read tells why.
        let Ok(there) = newest(connection) else { return true };
        let is_there = known.flatten().is_none_or(|row| has(connection, row).unwrap_or(true));
        if is_there {
            *known = Some(there);
        }
        is_there
    }

    /// Ends a change. Nobody looks meanwhile, who would find what is not known yet.
    pub fn commit(&self, transaction: Transaction<'_>) -> Result<(), Failure> {
        let there = newest(&transaction)?;
        let mut known = self.known();
        // Where this fails nobody knows what is in the file.
        *known = None;
        transaction.commit()?;
        *known = Some(there);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Option<Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn newest(connection: &Connection) -> rusqlite::Result<Row> {
    let newest = "SELECT id, at FROM deeds ORDER BY id DESC LIMIT 1";
    connection.query_row(newest, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// The oldest rows make room for new ones.
fn has(connection: &Connection, row: (i64, i64)) -> rusqlite::Result<bool> {
    let has = "SELECT COALESCE((SELECT at = ?2 FROM deeds WHERE id = ?1), (SELECT MIN(id) > ?1 FROM deeds), 0)";
    connection.query_row(has, row, |row| row.get(0))
}
