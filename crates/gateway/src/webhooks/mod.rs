//! Webhooks: what they are to be told, and how that is said, signed, folded and tried again.
//!
//! An alert is raised where nothing may wait, and comes here when records are gathered. What happens to one
//! object again and again is folded, each event becomes one message, and each webhook has a line of its own,
//! so that a slow one holds up nobody else. Nothing of it outlives the process. `background::webhook_delivery` delivers.

mod event;
mod folding;
mod line;
mod signature;
mod verdict;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::alerts::Raised;

pub(crate) use event::{Event, Message};
pub(crate) use folding::Folding;
pub use line::Shown;
pub(crate) use line::{Line, Next};
pub(crate) use signature::signature;
pub(crate) use verdict::{Ended, Verdict, verdict};

/// Alerts that wait to be looked at, at most.
const BOUND: usize = 10_000;

/// What the process knows of its webhooks.
#[derive(Debug, Default)]
pub struct Webhooks {
    heard: Mutex<Vec<Raised>>,
    news: Notify,
    /// Those of the configuration that was looked at last.
    lines: Mutex<Vec<Arc<Line>>>,
}

impl Webhooks {
    /// Alerts have been raised.
    pub(crate) fn hear(&self, alerts: Vec<Raised>) {
        if alerts.is_empty() {
            return;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let room = BOUND - heard.len().min(BOUND);
        if alerts.len() > room {
            tracing::error!(lost = alerts.len() - room, "more alerts at a time than webhooks can be told of");
        }
        heard.extend(alerts.into_iter().take(room));
        drop(heard);
        self.news.notify_one();
    }

    /// Another configuration is in force.
    pub(crate) fn reloaded(&self) {
        self.news.notify_one();
    }

    /// Waits for alerts, or another configuration.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// The alerts since this was last called.
    pub(crate) fn take(&self) -> Vec<Raised> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// These are the lines of the configuration in force.
    pub(crate) fn keep(&self, lines: Vec<Arc<Line>>) {
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// How each does, in the order of the configuration.
    #[must_use]
    pub fn shown(&self) -> Vec<Shown> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|line| line.shown()).collect()
    }
}
