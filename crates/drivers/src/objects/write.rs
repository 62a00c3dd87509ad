//! What is changed, within one transaction.

use std::sync::Arc;
use std::time::Duration;

use base::{Object, ObjectKind};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use state::objects::{Change, Deed, IssuedKey, MOST_DEED_BYTES, MOST_DEEDS, MOST_GONE};

use super::seal::Seal;
use super::{Place, of_key, of_object};
use crate::sqlite::{Failure, whole};

/// Deeds that are dropped for each new one, at most, for what their texts take.
const DROPPED: usize = 64;

/// Makes all of these changes, and writes down who has done it.
pub(super) fn change(
    place: &Place,
    transaction: &Connection,
    changes: Vec<Change>,
    deeds: &[Deed],
) -> Result<(), Failure> {
    let mut seal = None;
    for change in changes {
        match change {
            Change::Put(object) => put(transaction, seal_of(&mut seal, place, transaction)?, &object)?,
            Change::Issue(key) => issue(transaction, seal_of(&mut seal, place, transaction)?, &key)?,
            Change::Remove(kind, name) => remove(transaction, kind, &name)?,
            Change::Revoke(id) => {
                transaction.execute("DELETE FROM keys WHERE id = ?1", [&*id])?;
            }
        }
    }
    deeds.iter().try_for_each(|deed| write_down(transaction, deed))
}

/// Only what is sealed needs the key: without it things can still be removed.
fn seal_of<'a>(seal: &'a mut Option<Seal>, place: &Place, transaction: &Connection) -> Result<&'a Seal, Failure> {
    match seal {
        Some(seal) => Ok(seal),
        None => Ok(seal.insert(place.make_seal(transaction)?)),
    }
}

fn put(transaction: &Connection, seal: &Seal, object: &Object) -> Result<(), Failure> {
    let (kind, name) = (object.kind.word(), &*object.name);
    let written = seal.seal(&of_object(object.kind, name), object.written.expose().as_bytes())?;
    transaction.execute(
        "INSERT INTO objects VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET
             written = excluded.written, revision = excluded.revision, changed = excluded.changed",
        (kind, name, written, whole(object.revision), millis(object.changed)),
    )?;
    transaction.execute("DELETE FROM gone WHERE kind = ?1 AND name = ?2", [kind, name])?;
    Ok(())
}

fn remove(transaction: &Connection, kind: ObjectKind, name: &str) -> Result<(), Failure> {
    if kind == ObjectKind::Client {
        transaction.execute("DELETE FROM keys WHERE client = ?1", [name])?;
    }
    let delete = "DELETE FROM objects WHERE kind = ?1 AND name = ?2 RETURNING revision";
    let revision = transaction.query_row(delete, [kind.word(), name], |row| row.get::<_, i64>(0)).optional()?;
    let Some(revision) = revision else { return Ok(()) };
    transaction
        .execute("INSERT INTO gone (kind, name, revision) VALUES (?1, ?2, ?3)", (kind.word(), name, revision))?;
    let most = whole(MOST_GONE as u64);
    transaction.execute(
        "DELETE FROM gone WHERE removal IN (SELECT removal FROM gone ORDER BY removal DESC LIMIT -1 OFFSET ?1)",
        [most],
    )?;
    Ok(())
}

fn issue(transaction: &Connection, seal: &Seal, key: &IssuedKey) -> Result<(), Failure> {
    let digest = seal.seal(&of_key(&key.id, &key.client), &key.digest.0)?;
    let inserted = transaction.execute(
        "INSERT INTO keys (id, mark, client, digest, note, issued_by, created, expires, last_used)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        (
            &*key.id,
            seal.mark(&key.digest.0),
            &*key.client,
            digest,
            &*key.note,
            &*key.by,
            millis(key.created),
            key.expires.map(millis),
            key.last_used.map(millis),
        ),
    );
    match inserted {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(Failure::Refused("this key is there already".to_owned()))
        }
        inserted => Ok(inserted.map(drop)?),
    }
}

fn write_down(transaction: &Connection, deed: &Deed) -> Result<(), Failure> {
    transaction.execute(
        "INSERT INTO deeds (at, who, role, action, object, before, after) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (
            millis(deed.at),
            &*deed.who,
            &*deed.role,
            &*deed.action,
            &*deed.object,
            deed.before.as_deref(),
            deed.after.as_deref(),
        ),
    )?;
    // They are counted without gaps.
    let oldest = transaction.last_insert_rowid() - whole(MOST_DEEDS as u64);
    transaction.execute("DELETE FROM deeds WHERE id <= ?1", [oldest])?;
    // One deed makes room for another; a few more where a file came with too much, so that no change waits for long.
    for _ in 0..DROPPED {
        let bytes: i64 = transaction.query_row("SELECT bytes FROM deeds_size", [], |row| row.get(0))?;
        if bytes <= whole(MOST_DEED_BYTES as u64) {
            break;
        }
        transaction.execute("DELETE FROM deeds WHERE id = (SELECT MIN(id) FROM deeds)", [])?;
    }
    Ok(())
}

/// Notes when keys were used last.
pub(super) fn used(transaction: &Connection, keys: &[(Arc<str>, Duration)]) -> Result<(), Failure> {
    let mut update =
        transaction.prepare("UPDATE keys SET last_used = MAX(COALESCE(last_used, 0), ?2) WHERE id = ?1")?;
    for (id, at) in keys {
        update.execute((&**id, millis(*at)))?;
    }
    Ok(())
}

/// A time as the tables have it.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
