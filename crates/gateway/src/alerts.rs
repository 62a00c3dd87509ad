//! What operators must hear of at once. Raised anywhere, also where nothing may wait; taken where records
//! are gathered, and told from there: in the log, in the metrics and to webhooks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::Clock;
use tokio::sync::Notify;

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Alert {
    /// A client has used a share of its quota.
    Quota {
        /// The client's name.
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
        /// The route's name.
        route: Arc<str>,
        /// The label of its upstream.
        upstream: Arc<str>,
        /// Whether it is open now.
        is_open: bool,
        /// Whether an operator holds it.
        is_held: bool,
    },
    /// Vectors of another dimension than the route's were withheld.
    Dimension {
        /// The route's name.
        route: Arc<str>,
        /// The label of the upstream that made them.
        upstream: Arc<str>,
        /// Both dimensions, in words.
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
    /// Where among them those of dimensions stand, by route and upstream.
    dimensions: HashMap<(Arc<str>, Arc<str>), usize>,
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
        let Waiting { alerts, dimensions, .. } = &mut *waiting;
        let at = (route.clone(), upstream.clone());
        let known = dimensions.get(&at).and_then(|place| alerts.get_mut(*place));
        if let Some((_, Alert::Dimension { count, .. })) = known {
            *count += 1;
            return;
        }
        if alerts.len() < BOUND {
            dimensions.insert(at, alerts.len());
        }
        let (route, upstream) = (route.clone(), upstream.clone());
        waiting.put(Alert::Dimension { route, upstream, why: why.to_owned(), count: 1 });
        drop(waiting);
        self.raised.notify_one();
    }

    /// Waits until something is raised.
    pub async fn raised(&self) {
        self.raised.notified().await;
    }

    /// What has happened since this was last called.
    #[must_use]
    pub fn take(&self) -> Vec<Raised> {
        let Waiting { alerts, lost, .. } =
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_dimensions_of_one_upstream_are_one_alert_until_it_is_told() {
        let alerts = Alerts::default();
        let [route, a, b]: [Arc<str>; 3] = ["chat", "a/m", "b/m"].map(Into::into);
        let counts = |alerts: &Alerts| {
            let taken = alerts.take().into_iter();
            let counts = taken.filter_map(|(_, alert)| match alert {
                Alert::Dimension { upstream, count, .. } => Some((upstream.to_string(), count)),
                _ => None,
            });
            counts.collect::<Vec<_>>()
        };
        for _ in 0..2 {
            alerts.mismatch(&route, &a, "8 where 16");
            alerts.raise(Alert::Breaker { route: route.clone(), upstream: a.clone(), is_open: true, is_held: false });
            alerts.mismatch(&route, &b, "8 where 16");
            alerts.mismatch(&route, &a, "8 where 16");
            assert_eq!(counts(&alerts), [("a/m".to_owned(), 2), ("b/m".to_owned(), 1)]);
        }
        let many: Vec<Arc<str>> = (0..BOUND + 5).map(|at| at.to_string().into()).collect();
        many.iter().for_each(|upstream| alerts.mismatch(&route, upstream, "8 where 16"));
        many.iter().rev().take(10).for_each(|upstream| alerts.mismatch(&route, upstream, "8 where 16"));
        let told = counts(&alerts);
        assert_eq!((told.len(), told.iter().map(|(_, count)| count).sum::<u64>()), (BOUND, BOUND as u64 + 5));
    }
}
