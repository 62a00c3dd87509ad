//! Who has done what: every write leaves one row in the audit log.

use std::time::Duration;

use base::Clock;
use serde_json::{Value, json};
use state::objects::{Deed, MOST_DEED};

use crate::caller::{Caller, role};
use crate::desk::Desk;

/// A lever waits so long for its row to be written; after that it is written down behind it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something that a caller does.
#[derive(Clone, Debug)]
pub struct Done {
    /// One word: `create`, `replace`, `delete`, `issue`, `revoke`, `purge`, `open`, …
    pub action: &'static str,
    /// To what, as its path below `/admin/v1`.
    pub object: String,
    /// What was there before, without secrets.
    pub before: Option<Value>,
    /// What is there now, without secrets.
    pub after: Option<Value>,
}

impl Done {
    /// Something that has neither a before nor an after.
    pub fn to(object: impl Into<String>, action: &'static str) -> Self {
        Self { action, object: object.into(), before: None, after: None }
    }

    /// With what is there now.
    #[must_use]
    pub fn with(mut self, after: Value) -> Self {
        self.after = Some(after);
        self
    }

    /// Its row in the audit log, as of now.
    #[must_use]
    pub fn by<L>(self, caller: &Caller<L>) -> Deed {
        let text = |value: Option<Value>| value.map(|value| bounded(value.to_string(), LONGEST).into());
        Deed {
            id: 0,
            at: Clock.wall(),
            who: caller.name.as_str().into(),
            role: role(caller.role).into(),
            action: self.action.into(),
            object: self.object.into(),
            before: text(self.before),
            after: text(self.after),
        }
    }
}

/// Who does something to objects. Which, and what they said before and say after, whoever makes the change writes down.
pub fn of_objects<L>(caller: &Caller<L>) -> Deed {
    Done::to("", "").by(caller)
}

/// Bytes of one text in the audit log at most.
const LONGEST: usize = MOST_DEED / 2;

/// A text of the audit log with at most so many bytes, 256 or more: one that is too long says how long it is, and how it
/// begins.
#[must_use]
pub fn bounded(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    // Quotation marks take twice as much where JSON stands in JSON.
    let begins = text.get(..text.floor_char_boundary((most / 2).saturating_sub(100))).unwrap_or_default();
    json!({ "cut": { "bytes": text.len(), "begins": begins } }).to_string()
}

/// Writes down that a lever was pulled. Call it once that is done: a lever works also while the store is out, since
/// that may be the very reason to pull it. Then the process's log has the deed, and its row is written as soon as the store
/// takes it; a metric counts those that never were.
pub async fn audited<L>(desk: &Desk, caller: &Caller<L>, done: Done) {
    let (who, action, object) = (caller.name.clone(), done.action, done.object.clone());
    let deed = done.by(caller);
    let after = deed.after.clone();
    tracing::info!(by = who, action, object, after = after.as_deref(), "done over the admin API");
    let Some(writing) = desk.late_rows.write(desk.live.clone(), desk.objects.clone(), deed) else {
        desk.live.metrics.audit_rows_lost.inc();
        let (after, why) = (after.as_deref(), "too many rows wait for the store");
        return tracing::warn!(by = who, action, object, after, "this is missing in the audit log: {why}");
    };
    // Dropped, it goes on.
    if tokio::time::timeout(PATIENCE, writing).await.is_err() {
        tracing::warn!(by = who, action, object, "this is written into the audit log once its store takes it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_too_long_for_the_audit_log_says_how_long_it_is_and_how_it_begins() {
        let short = json!({ "name": "a" }).to_string();
        assert_eq!(bounded(short.clone(), 256), short);
        for (part, most) in ["\"", "\\", "价", "\u{1}", "a"].into_iter().flat_map(|part| [(part, LONGEST), (part, 512)])
        {
            let long = json!({ "name": part.repeat(1 << 20) }).to_string();
            let cut = bounded(long.clone(), most);
            assert!(cut.len() <= most && cut.len() > most / 4, "{} bytes of {part:?}", cut.len());
            let cut: Value = serde_json::from_str(&cut).unwrap();
            assert_eq!(cut["cut"]["bytes"], long.len());
            assert!(long.starts_with(cut["cut"]["begins"].as_str().unwrap()));
        }
    }
}
