//! What operators must hear of at once. Raised anywhere, also where nothing may wait; told where records
//! are gathered: in the log and in the metrics.

use std::sync::{Arc, Mutex, PoisonError};

use crate::metrics::Metrics;

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Alert {
    /// A client has used a share of its quota.
    Quota {
        /// Whose.
        client: Arc<str>,
        /// `tokens` or `cost`.
        kind: &'static str,
        /// Which of the shares in `quota.warn`.
        share: f64,
        /// `day` or `month`.
        per: &'static str,
        /// When the period ends, in the client's time.
        until: String,
    },
}

/// Alerts that wait to be told.
#[derive(Debug, Default)]
pub struct Alerts(Mutex<Vec<Alert>>);

/// Waiting at most: they are told many times a second.
const BOUND: usize = 10_000;

impl Alerts {
    /// Something has happened.
    pub fn raise(&self, alert: Alert) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < BOUND {
            waiting.push(alert);
        }
    }

    /// What has happened since this was last called.
    #[must_use]
    pub fn take(&self) -> Vec<Alert> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells what has happened since this was last called.
    pub fn tell(&self, metrics: &Metrics) {
        for Alert::Quota { client, kind, share, per, until } in self.take() {
            metrics.quota_warned(&client, kind);
            let percent = share * 100.0;
            tracing::warn!(client = &*client, kind, "{percent}% of the quota is used; the {per} ends {until}");
        }
    }
}
