//! Who has done what: every write leaves one row in the audit log.

use std::time::Duration;

use base::Clock;
use serde_json::Value;
use state::objects::Deed;

use crate::caller::{Caller, role};
use crate::desk::Desk;

/// A lever waits so long for its row to be written.
const PATIENCE: Duration = Duration::from_secs(5);

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
        let text = |value: Option<Value>| value.map(|value| value.to_string().into());
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

/// Writes down that a lever was pulled. Call it once that is done: a lever works also while the store is out, since
/// that may be the very reason to pull it. Then the process's log has the deed, and a metric counts it.
pub async fn audited<L>(desk: &Desk, caller: &Caller<L>, done: Done) {
    let (who, action, object) = (caller.name.clone(), done.action, done.object.clone());
    let deed = done.by(caller);
    let after = deed.after.clone();
    tracing::info!(by = who, action, object, after = after.as_deref(), "done over the admin API");
    let writing = tokio::time::timeout(PATIENCE, desk.objects.change(Vec::new(), deed).into_future());
    let error = match writing.await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.0,
        Err(_) => "the database does not answer".to_owned(),
    };
    desk.live.metrics.audit_rows_lost.inc();
    tracing::warn!(by = who, action, object, after = after.as_deref(), "this is missing in the audit log: {error}");
}
