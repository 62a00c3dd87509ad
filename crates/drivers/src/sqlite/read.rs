//! Reports: rows are added up as they are read, in the order in which they lie in the file. So memory is
//! bounded by the answer, nothing is sorted on the disk, and no sum can overflow.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use state::{Question, Row, Sums};

use super::schema::whole;
use crate::failure::Failure;

const SELECT: &str = "
    SELECT quarter, client, route, upstream, model, currency, requests, tokens_in, tokens_out, tokens_cached, cost,
        unpriced, cache_hits, tokens_saved, cost_saved, ms_saved
    FROM usage WHERE quarter >= ?1 AND quarter < ?2 AND (?3 IS NULL OR client = ?3)";

/// Quarters of an hour in a day.
const DAY: u64 = 96;
/// Rows read before it is asked again whether the answer is wanted.
const PATIENCE: usize = 4096;

/// Answers a question from what is in the file; `None` once the answer is not wanted any more.
pub(super) fn report(
    connection: &Connection,
    question: &Question,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Vec<Row>>, Failure> {
    let mut select = connection.prepare(SELECT)?;
    let (from, to) = question.quarters();
    let mut found = select.query((whole(from), whole(to), question.client.as_deref()))?;
    let by = question.by;
    let columns = [(1, by.client), (2, by.route), (3, by.upstream), (4, by.model), (5, true)];
    let mut answer = HashMap::<Vec<u8>, Row>::new();
    let mut key = Vec::new();
    for count in 1_usize.. {
        let Some(row) = found.next()? else { break };
        if count.is_multiple_of(PATIENCE) && !is_wanted() {
            return Ok(None);
        }
        let day = by.day.then_some(unsigned(row.get_ref(0)?) / DAY);
        key.clear();
        key.extend_from_slice(&day.unwrap_or_default().to_le_bytes());
        for (at, _) in columns.iter().filter(|(_, is_asked_for)| *is_asked_for) {
            let name = bytes(row.get_ref(*at)?);
            key.extend_from_slice(&name.len().to_le_bytes());
            key.extend_from_slice(name);
        }
        let sums = sums(row)?;
        match answer.get_mut(&key) {
            Some(known) => known.sums = known.sums.plus(sums),
            None => {
                let name = |at: usize, is_asked_for: bool| -> rusqlite::Result<Arc<str>> {
                    if is_asked_for {
                        Ok(String::from_utf8_lossy(bytes(row.get_ref(at)?)).into())
                    } else {
                        Ok(Arc::default())
                    }
                };
                let first = Row {
                    day: day.map(|day| u32::try_from(day).unwrap_or(u32::MAX)),
                    client: name(1, by.client)?,
                    route: name(2, by.route)?,
                    upstream: name(3, by.upstream)?,
                    model: name(4, by.model)?,
                    currency: name(5, true)?,
                    sums,
                };
                answer.insert(key.clone(), first);
            }
        }
    }
    Ok(Some(answer.into_values().collect()))
}

fn sums(row: &rusqlite::Row<'_>) -> rusqlite::Result<Sums> {
    let count = |at: usize| row.get_ref(at).map(unsigned);
    Ok(Sums {
        requests: count(6)?,
        tokens_in: count(7)?,
        tokens_out: count(8)?,
        tokens_cached: count(9)?,
        cost: count(10)?,
        unpriced: count(11)?,
        cache_hits: count(12)?,
        tokens_saved: count(13)?,
        cost_saved: count(14)?,
        ms_saved: count(15)?,
    })
}

/// A count; none of them was ever negative.
fn unsigned(value: ValueRef<'_>) -> u64 {
    value.as_i64().ok().and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
}

fn bytes(value: ValueRef<'_>) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}
