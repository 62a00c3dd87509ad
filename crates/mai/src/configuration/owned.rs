//! What becomes of issued keys where their clients come and go.

use base::{Object, ObjectKind};
use config::{Problem, Written};
use gateway::live::issued_keys::IssuedKeys;
use serde_json::{Value, json};
use state::objects::Change;

/// Ids that the audit log names at most of one client.
const MOST_NAMED: usize = 100;

/// What it is well to know of the keys of clients that go, or that are new.
pub(super) fn warnings(issued: &IssuedKeys, made: &[Change], before: &Written) -> Vec<Problem> {
    let is_of_a_client = |change: &Change| {
        matches!(change, Change::Remove(ObjectKind::Client, _) | Change::Put(Object { kind: ObjectKind::Client, .. }))
    };
    if !made.iter().any(is_of_a_client) {
        return Vec::new();
    }
    let counts = issued.counts();
    let told = |change: &Change| {
        let (Change::Remove(ObjectKind::Client, name) | Change::Put(Object { kind: ObjectKind::Client, name, .. })) =
            change
        else {
            return None;
        };
        let keys = match counts.get(name)? {
            1 => "1 issued key".to_owned(),
            count => format!("{count} issued keys"),
        };
        let text = match change {
            Change::Remove(..) => format!("takes {keys} with it: revoked for good, also where it is made again"),
            _ if before.object(ObjectKind::Client, name).is_some() => return None,
            _ => format!("is opened by {keys} of an earlier client of this name: revoke what is not meant for it"),
        };
        Some(Problem::of_object(ObjectKind::Client, name, text))
    };
    made.iter().filter_map(told).collect()
}

/// What was there, and for a client which keys go with it.
pub(super) fn with_keys(mut was: Value, issued: &IssuedKeys, (kind, name): (ObjectKind, &str)) -> Value {
    let ids = if kind == ObjectKind::Client { ids(issued, name) } else { Vec::new() };
    if let (Value::Object(was), false) = (&mut was, ids.is_empty()) {
        let named = &ids[..ids.len().min(MOST_NAMED)];
        was.insert("issued_keys".to_owned(), json!({ "count": ids.len(), "ids": named }));
    }
    was
}

fn ids(issued: &IssuedKeys, client: &str) -> Vec<String> {
    issued.of(client).iter().map(|key| key.id.to_string()).collect()
}
