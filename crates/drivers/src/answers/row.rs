//! A row of the file: what is stored, with a checksum.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, Row};
use state::answers::{Key, Kind, Page, Stored, Which};

/// What is read of a row; see [`stored`].
pub(super) const READ: &str = "
    SELECT a.key, a.kind, a.route, a.client, a.kb_version, a.stored, a.expires, a.keep_until, a.checksum, b.body
    FROM answers a JOIN bodies b ON b.id = a.body WHERE a.print = ?1";

/// Rows that are looked at for one page, so that no look-up waits long behind it.
const LOOKED_AT: u32 = 256;

/// What is read of a page's rows; the bodies of other kinds are let alone.
const SCAN: &str = "
    SELECT a.key, a.kind, a.route, a.client, a.kb_version, a.stored, a.expires, a.keep_until, a.checksum, b.body, a.print
    FROM answers a LEFT JOIN bodies b ON b.id = a.body AND a.kind = ?3
    WHERE ?1 IS NULL OR a.print > ?1 ORDER BY a.print LIMIT ?2";

/// Reads a page of one kind. What is damaged is passed over: it is found by whoever asks for it.
pub(super) fn page(connection: &Connection, kind: Kind, from: Option<u64>) -> rusqlite::Result<Page> {
    let mut select = connection.prepare(SCAN)?;
    let mut rows = select.query((from.map(u64::cast_signed), LOOKED_AT, kind.number()))?;
    let (mut page, mut last, mut seen) = (Page::default(), None, 0);
    let now = Clock.wall();
    while let Some(row) = rows.next()? {
        (last, seen) = (Some(row.get::<_, i64>(10)?.cast_unsigned()), seen + 1);
        if row.get::<_, u8>(1)? != kind.number() {
            continue;
        }
        let Ok((key, checksum_there, Some(stored))) = columns(row) else { continue };
        if checksum(&key, &stored) == checksum_there && now < stored.keep_until {
            page.found.push((key, Arc::new(stored)));
        }
    }
    page.next = last.filter(|_| seen == LOOKED_AT);
    Ok(page)
}

/// Of the rows behind one, those that are such: their numbers; and the last row that was looked at, where there are
/// more.
pub(super) fn such(
    connection: &Connection,
    which: &Which,
    after: Option<i64>,
    most: u32,
) -> rusqlite::Result<(Vec<u64>, Option<i64>)> {
    let mut select = connection.prepare(
        "SELECT print, (?3 IS NULL OR route = ?3) AND (?4 IS NULL OR client IS ?4) AND (?5 IS NULL OR kind = ?5)
         FROM answers WHERE ?1 IS NULL OR print > ?1 ORDER BY print LIMIT ?2",
    )?;
    let kind = which.kind.map(Kind::number);
    let mut rows = select.query((after, most, which.route.as_deref(), which.client.as_deref(), kind))?;
    let (mut such, mut last, mut seen) = (Vec::new(), None, 0);
    while let Some(row) = rows.next()? {
        let print: i64 = row.get(0)?;
        if row.get(1)? {
            such.push(print.cast_unsigned());
        }
        (last, seen) = (Some(print), seen + 1);
    }
    Ok((such, last.filter(|_| seen == most)))
}

/// The row of a key, in a file.
pub(super) const fn print(key: &Key) -> i64 {
    key.print().cast_signed()
}

/// A time as nanoseconds, which reach to the year 2262.
pub(super) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Seconds, which reach to the year 2106.
pub(super) fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// What a row takes in the file, about: itself and its page's share.
pub(super) fn size(stored: &Stored) -> u32 {
    const ROW: usize = 256;
    u32::try_from(stored.body.len() + ROW).unwrap_or(u32::MAX)
}

/// A checksum over everything that is given back, of 64 bits: a file's errors are no adversaries.
pub(super) fn checksum(key: &Key, stored: &Stored) -> i64 {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(&key.0);
    add(&[stored.kind.number(), u8::from(stored.client.is_some()), u8::from(stored.kb_version.is_some())]);
    add(stored.route.as_bytes());
    add(stored.client.as_deref().unwrap_or_default().as_bytes());
    add(stored.kb_version.as_deref().unwrap_or_default().as_bytes());
    for time in [stored.stored, stored.expires, stored.keep_until] {
        add(&nanos(time).to_le_bytes());
    }
    add(&stored.body);
    let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// What came out of the file for a key.
pub(super) enum Found {
    Stored(Stored),
    /// Another key's, of the same first 64 bits.
    Another,
    /// Something that was never written.
    Damaged,
}

/// What a row of [`READ`] says.
pub(super) fn stored(key: &Key, row: &Row<'_>) -> Found {
    // Columns of another type than they were written with.
    let Ok((their_key, their_checksum, stored)) = columns(row) else { return Found::Damaged };
    let Some(stored) = stored else { return Found::Damaged };
    if checksum(&their_key, &stored) != their_checksum {
        return Found::Damaged;
    }
    if their_key == *key { Found::Stored(stored) } else { Found::Another }
}

fn columns(row: &Row<'_>) -> rusqlite::Result<(Key, i64, Option<Stored>)> {
    let name = |at: usize| row.get::<_, Option<String>>(at).map(|name| name.map(Arc::from));
    let time =
        |at: usize| row.get::<_, i64>(at).map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default()));
    let key = Key(row.get(0)?);
    let Some(kind) = Kind::numbered(row.get(1)?) else { return Ok((key, 0, None)) };
    let stored = Stored {
        kind,
        route: row.get::<_, String>(2)?.into(),
        client: name(3)?,
        kb_version: name(4)?,
        stored: time(5)?,
        expires: time(6)?,
        keep_until: time(7)?,
        body: row.get::<_, Vec<u8>>(9)?.into_boxed_slice(),
    };
    Ok((key, row.get(8)?, Some(stored)))
}
