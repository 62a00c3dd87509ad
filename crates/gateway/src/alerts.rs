//! What operators must hear of at once. Raised anywhere, also where nothing may wait; taken where records
//! are gathered, and told from there: in the log, in the metrics and to webhooks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::Clock;
use tokio::sync::Notify;

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
    /// A breaker has opened, or an open one has closed again.
    Breaker {
        /// Whose upstream.
        route: Arc<str>,
        /// Its label.
        upstream: Arc<str>,
        /// Whether it is open now.
        is_open: bool,
        /// Whether an operator holds it.
        is_held: bool,
    },
    /// Vectors of another dimension than the route's were withheld.
    Dimension {
        /// Whose.
        route: Arc<str>,
        /// Who made them.
        upstream: Arc<str>,
        /// Which they were, in words.
        why: String,
        /// So many answers.
        count: u64,
    },
}

/// When something happened, since the Unix epoch, and what.
pub type Raised = (Duration, Alert);

/// Alerts that wait to be told.
#[derive(Debug, Default)]
pub struct Alerts {
    waiting: Mutex<Waiting>,
    raised: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    alerts: Vec<Raised>,
    /// For want of room.
    lost: u64,
}

/// Waiting at most: they are told many times a second.
const BOUND: usize = 10_000;

impl Alerts {
    /// Something has happened.
    pub fn raise(&self, alert: Alert) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.put(alert);
        drop(waiting);
        self.raised.notify_one();
    }

    /// An answer was withheld for its vectors' dimension. Those of one upstream that have not been told become
    /// one alert: a model that was exchanged fails with every call.
    pub fn mismatch(&self, route: &Arc<str>, upstream: &Arc<str>, why: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let known = waiting.alerts.iter_mut().find_map(|(_, alert)| match alert {
            Alert::Dimension { route: of, upstream: at, count, .. } if of == route && at == upstream => Some(count),
            _ => None,
        });
        match known {
            Some(count) => *count += 1,
            None => {
                let (route, upstream) = (route.clone(), upstream.clone());
                waiting.put(Alert::Dimension { route, upstream, why: why.to_owned(), count: 1 });
                drop(waiting);
                self.raised.notify_one();
            }
        }
    }

    /// Waits until something is raised.
    pub async fn raised(&self) {
        self.raised.notified().await;
    }

    /// What has happened since this was last called.
    #[must_use]
    pub fn take(&self) -> Vec<Raised> {
        let Waiting { alerts, lost } =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if lost > 0 {
            tracing::error!(lost, "more alerts at a time than can wait to be told");
        }
        alerts
    }
}

impl Waiting {
    fn put(&mut self, alert: Alert) {
        if self.alerts.len() < BOUND {
            self.alerts.push((Clock.wall(), alert));
        } else {
            self.lost += 1;
        }
    }
}
