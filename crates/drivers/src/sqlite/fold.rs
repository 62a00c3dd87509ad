//! What lies long past is added up, so that the file grows by a few rows a month and not with every quarter
//! of an hour: quarters to days, days to months, in UTC. Sums stay what they were; only when something was
//! used is known less exactly, the longer ago it is.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use state::QUARTER;

use super::schema::{ADD_TO_KNOWN, whole};
use crate::failure::Failure;

/// Quarters are kept so long: what any client's month is, and the one before it, whatever its time zone.
pub(super) const QUARTERS_KEPT: Duration = Duration::from_secs(64 * 24 * 60 * 60);
/// Days are kept so long, and to the end of their month: a year and a month to compare it with.
pub(super) const DAYS_KEPT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Quarters of an hour in a day.
const DAY: u64 = 96;
/// Quarters looked at in one step, each by one look into the index.
const LOOKS: usize = 1_000;

/// Adds one quarter of an hour, at or after the quarter `from`, to the day or the month that it lies in, in
/// one transaction which is as short as that; gives the quarter to go on with, and `None` when there is
/// nothing left to add up before `now`.
pub(super) fn step(connection: &mut Connection, now: Duration, from: u64) -> Result<Option<u64>, Failure> {
    let quarter = |age: Duration| now.saturating_sub(age).as_secs() / QUARTER;
    let days = quarter(QUARTERS_KEPT) / DAY * DAY;
    let months = month_of(connection, quarter(DAYS_KEPT))?;
    let mut from = from;
    for _ in 0..LOOKS {
        let next: Option<i64> = connection
            .query_row("SELECT MIN(quarter) FROM usage WHERE quarter >= ?1", [whole(from)], |row| row.get(0))
            .optional()?
            .flatten();
        let Some(next) = next.and_then(|next| u64::try_from(next).ok()).filter(|next| *next < days) else {
            return Ok(None);
        };
        let into = if next < months { month_of(connection, next)? } else { next / DAY * DAY };
        from = next + 1;
        if into != next {
            fold(connection, next, into)?;
            break;
        }
    }
    Ok(Some(from))
}

/// The quarter with which a month begins.
fn month_of(connection: &Connection, quarter: u64) -> Result<u64, Failure> {
    let begins = "SELECT CAST(strftime('%s', ?1, 'unixepoch', 'start of month') AS INTEGER)";
    let seconds: i64 = connection.query_row(begins, [whole(quarter * QUARTER)], |row| row.get(0))?;
    Ok(u64::try_from(seconds).unwrap_or_default() / QUARTER)
}

fn fold(connection: &mut Connection, quarter: u64, into: u64) -> Result<(), Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let add = format!(
        "INSERT INTO usage SELECT ?2, client, route, upstream, model, currency, requests, tokens_in, tokens_out,
             tokens_cached, cost, unpriced, cache_hits, tokens_saved, cost_saved, ms_saved
         FROM usage WHERE quarter = ?1 {ADD_TO_KNOWN}"
    );
    transaction.execute(&add, [whole(quarter), whole(into)])?;
    transaction.execute("DELETE FROM usage WHERE quarter = ?1", [whole(quarter)])?;
    transaction.commit()?;
    Ok(())
}
