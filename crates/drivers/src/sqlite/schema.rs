//! The tables, version by version, and how sums are added to them.

use rusqlite::Connection;

use crate::failure::Failure;

/// Each leads from the version that is its index to the next one, and is never changed once released.
/// `PRAGMA user_version` says which one a file is of; SQLite's own default of 0 is an empty file.
const MIGRATIONS: &[&str] = &[
    // 1: what was used, by quarter of an hour (since the Unix epoch, in UTC) and names; a name that is
    // not known is empty. `cost` is in billionths of the currency's unit.
    "CREATE TABLE usage (
         quarter INTEGER NOT NULL,
         client TEXT NOT NULL,
         route TEXT NOT NULL,
         upstream TEXT NOT NULL,
         model TEXT NOT NULL,
         currency TEXT NOT NULL,
         requests INTEGER NOT NULL,
         tokens_in INTEGER NOT NULL,
         tokens_out INTEGER NOT NULL,
         tokens_cached INTEGER NOT NULL,
         cost INTEGER NOT NULL,
         unpriced INTEGER NOT NULL,
         cache_hits INTEGER NOT NULL,
         tokens_saved INTEGER NOT NULL,
         PRIMARY KEY (quarter, client, route, upstream, model, currency)
     ) STRICT, WITHOUT ROWID",
    // 2: the versions of knowledge bases that operators have set, by route. They have a file of their own now, since
    // a damaged ledger would take them with it.
    "CREATE TABLE kb_versions (route TEXT PRIMARY KEY, version TEXT NOT NULL) STRICT, WITHOUT ROWID",
    // 3: what caches have saved, in billionths of the currency's unit and in milliseconds.
    "ALTER TABLE usage ADD COLUMN cost_saved INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE usage ADD COLUMN ms_saved INTEGER NOT NULL DEFAULT 0",
];

/// A file that has this table is a ledger's.
pub(super) const TABLE: &str = "usage";

/// What an operator may do where the file cannot be a ledger.
pub(super) const ELSE: &str = "give `database` another file";

/// Sums stop at the largest number that there is: one beyond it would be no whole number any more, and refused.
pub(super) const ADD_TO_KNOWN: &str = "
    ON CONFLICT DO UPDATE SET
        requests = MIN(requests, 9223372036854775807 - excluded.requests) + excluded.requests,
        tokens_in = MIN(tokens_in, 9223372036854775807 - excluded.tokens_in) + excluded.tokens_in,
        tokens_out = MIN(tokens_out, 9223372036854775807 - excluded.tokens_out) + excluded.tokens_out,
        tokens_cached = MIN(tokens_cached, 9223372036854775807 - excluded.tokens_cached) + excluded.tokens_cached,
        cost = MIN(cost, 9223372036854775807 - excluded.cost) + excluded.cost,
        unpriced = MIN(unpriced, 9223372036854775807 - excluded.unpriced) + excluded.unpriced,
        cache_hits = MIN(cache_hits, 9223372036854775807 - excluded.cache_hits) + excluded.cache_hits,
        tokens_saved = MIN(tokens_saved, 9223372036854775807 - excluded.tokens_saved) + excluded.tokens_saved,
        cost_saved = MIN(cost_saved, 9223372036854775807 - excluded.cost_saved) + excluded.cost_saved,
        ms_saved = MIN(ms_saved, 9223372036854775807 - excluded.ms_saved) + excluded.ms_saved";

/// A count as SQLite has it.
pub(crate) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Brings a ledger's file to the newest version.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    migrate_by(MIGRATIONS, TABLE, connection, ELSE)
}

/// Refuses a file that holds something, but not this table: it is another program's, or another file of ours.
pub(crate) fn is_own(table: &str, connection: &Connection, else_: &str) -> Result<(), Failure> {
    let count = "SELECT COUNT(*), COUNT(*) FILTER (WHERE name = ?1) FROM sqlite_schema WHERE type = 'table'";
    let (all, own) = connection.query_row(count, [table], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if all > 0 && own == 0 {
        return Err(Failure::Trouble(format!("the file is another program's database: move it away, or {else_}")));
    }
    Ok(())
}

/// What a file says of its version.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Which version a file of ours is of; 0 is an empty one.
pub(crate) fn known_version(
    migrations: &[&str],
    table: &str,
    connection: &Connection,
    else_: &str,
) -> Result<usize, Failure> {
    is_own(table, connection, else_)?;
    let version = version(connection)?;
    let known = usize::try_from(version).ok().filter(|version| *version <= migrations.len());
    known.ok_or_else(|| {
        Failure::Trouble(format!(
            "the database was written by a newer version of the gateway; run that one, or {else_}"
        ))
    })
}

/// Brings a file that has this table to the newest version, each step in a transaction of its own. Where a newer gateway wrote it, the
/// operator may also do something `else_`.
pub(crate) fn migrate_by(
    migrations: &[&str],
    table: &str,
    connection: &mut Connection,
    else_: &str,
) -> Result<(), Failure> {
    known_version(migrations, table, connection, else_)?;
    for (at, migration) in (0_i64..).zip(migrations) {
        if version(connection)? > at {
            continue;
        }
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Another process may have come first.
        if version(&transaction)? == at {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", at + 1)?;
        }
        transaction.commit()?;
    }
    Ok(())
}
