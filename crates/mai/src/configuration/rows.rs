//! What the audit log says of a change: a row for each object.

use admin::bounded;
use base::{Object, ObjectKind};
use config::Written;
use gateway::live::issued_keys::IssuedKeys;
use serde_json::json;
use state::objects::{Change, Deed, MOST_DEED};

use super::owned;

/// Bytes that the texts of one change take together, about: of objects that come by the thousand, what is long is cut.
const MOST_TOGETHER: usize = 16 << 20;
/// Bytes that one text may have anyhow.
const LEAST: usize = 512;

/// The rows of a change, as of what was in force before and what is after. Each object has one, with what was done; a
/// deed that names something itself, such as an import, gives them its own action and stands behind them, with what
/// came of which.
pub(super) fn of(deed: Deed, made: &[Change], (before, after): (&Written, &Written), issued: &IssuedKeys) -> Vec<Deed> {
    let most = longest(made.iter().filter_map(named).count());
    let text = |value: serde_json::Value| bounded(value.to_string(), most).into();
    let row = |change: &Change| {
        let (kind, name) = named(change)?;
        let was = before.object(kind, name).map(|object| object.shown.clone());
        let is = after.object(kind, name).map(|object| object.shown.clone());
        let action = match (&is, &was) {
            _ if !deed.object.is_empty() => &*deed.action,
            (None, _) => "delete",
            (Some(_), Some(_)) => "replace",
            (Some(_), None) => "create",
        };
        let was = if is.is_none() { was.map(|was| owned::with_keys(was, issued, (kind, name))) } else { was };
        let (action, object) = (action.into(), format!("{}/{name}", kind.list()).into());
        Some(Deed { action, object, before: was.map(text), after: is.map(text), ..deed.clone() })
    };
    let mut rows: Vec<Deed> = made.iter().filter_map(row).collect();
    if !deed.object.is_empty() {
        let (replaced, created): (Vec<&Deed>, Vec<&Deed>) = rows.iter().partition(|row| row.before.is_some());
        let names = |rows: Vec<&Deed>| rows.into_iter().map(|row| row.object.to_string()).collect::<Vec<_>>();
        let after = json!({ "created": names(created), "replaced": names(replaced) }).to_string();
        rows.push(Deed { after: Some(bounded(after, MOST_DEED / 2).into()), ..deed });
    }
    rows
}

fn named(change: &Change) -> Option<(ObjectKind, &str)> {
    match change {
        Change::Put(Object { kind, name, .. }) | Change::Remove(kind, name) => Some((*kind, name)),
        Change::Issue(_) | Change::Revoke(_) => None,
    }
}

/// Bytes of each text where so many objects are changed at once: a row has two.
fn longest(objects: usize) -> usize {
    (MOST_TOGETHER / (2 * objects.max(1))).clamp(LEAST, MOST_DEED / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shorter_where_many_objects_are_changed_at_once() {
        assert_eq!((longest(0), longest(1), longest(128)), (MOST_DEED / 2, MOST_DEED / 2, MOST_DEED / 2));
        assert_eq!(longest(10_000), 838);
        assert_eq!(longest(1_000_000), LEAST);
        assert!(20_000 * 2 * longest(20_000) <= state::objects::MOST_DEED_BYTES / 10, "most of the log stays");
    }
}
