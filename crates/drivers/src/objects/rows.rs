//! What stands in the tables, read.

use std::sync::Arc;
use std::time::Duration;

use base::{Object, ObjectKind, Secret};
use rusqlite::{Connection, Row};
use state::objects::{Deed, Deeds, Filling, IssuedKey, KeyDigest};

use super::seal::Seal;
use super::{of_key, of_object};
use crate::sqlite::{Failure, whole};

pub(super) fn objects(connection: &Connection, seal: &Seal) -> Result<Vec<Object>, Failure> {
    let mut select = connection.prepare("SELECT kind, name, written, revision, changed FROM objects")?;
    let mut rows = select.query([])?;
    let mut objects = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, name) = (kind(row, 0)?, row.get::<_, String>(1)?);
        let written = seal.open(&of_object(kind, &name), &row.get::<_, Vec<u8>>(2)?);
        let written = written.and_then(|text| String::from_utf8(text).ok());
        let written = written.ok_or_else(|| Failure::Damaged(format!("what {} `{name}` says", kind.word())))?;
        let (revision, changed) = (count(row, 3)?, time(row, 4)?);
        objects.push(Object { kind, name: name.into(), written: Secret::new(written), revision, changed });
    }
    objects.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    Ok(objects)
}

pub(super) fn keys(connection: &Connection, seal: &Seal) -> Result<Vec<IssuedKey>, Failure> {
    let mut select = connection
        .prepare("SELECT id, client, digest, note, issued_by, created, expires, last_used FROM keys ORDER BY at")?;
    let mut rows = select.query([])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, client) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let digest = seal.open(&of_key(&id, &client), &row.get::<_, Vec<u8>>(2)?);
        let digest = digest.and_then(|digest| <[u8; 32]>::try_from(digest).ok());
        keys.push(IssuedKey {
            digest: KeyDigest(digest.ok_or_else(|| Failure::Damaged(format!("the digest of key `{id}`")))?),
            id: id.into(),
            client: client.into(),
            note: row.get::<_, String>(3)?.into(),
            by: row.get::<_, String>(4)?.into(),
            created: time(row, 5)?,
            expires: row.get::<_, Option<i64>>(6)?.map(millis),
            last_used: row.get::<_, Option<i64>>(7)?.map(millis),
        });
    }
    Ok(keys)
}

pub(super) fn gone(connection: &Connection) -> Result<Vec<(ObjectKind, Arc<str>, u64)>, Failure> {
    let mut select = connection.prepare("SELECT kind, name, revision FROM gone")?;
    let mut rows = select.query([])?;
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        gone.push((kind(row, 0)?, Arc::from(row.get::<_, String>(1)?), count(row, 2)?));
    }
    gone.sort();
    Ok(gone)
}

pub(super) fn deeds(connection: &Connection, which: &Deeds) -> Result<Vec<Deed>, Failure> {
    let mut select = connection
        .prepare("SELECT id, at, who, role, action, object, before, after FROM deeds WHERE id < ?1 ORDER BY id DESC")?;
    let mut rows = select.query([which.before.map_or(i64::MAX, whole)])?;
    let mut deeds = Vec::new();
    let mut filling = Filling::default();
    while deeds.len() < which.limit
        && !filling.is_over()
        && let Some(row) = rows.next()?
    {
        let text = |at| row.get::<_, String>(at).map(Box::from);
        let deed = Deed {
            id: count(row, 0)?,
            at: time(row, 1)?,
            who: text(2)?,
            role: text(3)?,
            action: text(4)?,
            object: text(5)?,
            before: None,
            after: None,
        };
        if which.want(&deed) {
            // What is long is read where it is wanted alone.
            let text = |at| row.get::<_, Option<String>>(at).map(|text| text.map(Box::from));
            let deed = Deed { before: text(6)?, after: text(7)?, ..deed };
            filling.takes(&deed);
            deeds.push(deed);
        }
    }
    Ok(deeds)
}

fn kind(row: &Row<'_>, at: usize) -> Result<ObjectKind, Failure> {
    let written: String = row.get(at)?;
    let kind = ObjectKind::ALL.into_iter().find(|kind| kind.word() == written);
    kind.ok_or_else(|| Failure::Damaged(format!("there are no objects of kind `{written}`")))
}

fn count(row: &Row<'_>, at: usize) -> Result<u64, Failure> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or_default())
}

fn time(row: &Row<'_>, at: usize) -> Result<Duration, Failure> {
    Ok(millis(row.get(at)?))
}

/// A time as the tables have it, from the Unix epoch.
fn millis(written: i64) -> Duration {
    Duration::from_millis(u64::try_from(written).unwrap_or_default())
}
