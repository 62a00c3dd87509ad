//! What becomes of webhooks.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::families::Families;
use super::{WEBHOOKS, WEBHOOKS_WAITING};

/// The counters of webhooks.
#[derive(Debug)]
pub struct Webhooks {
    deliveries: IntCounterVec,
    waiting: IntGaugeVec,
}

impl Webhooks {
    pub(super) fn new(of: &mut Families) -> Result<Self, prometheus::Error> {
        Ok(Self { deliveries: of.counter(&WEBHOOKS)?, waiting: of.gauge(&WEBHOOKS_WAITING)? })
    }

    /// A try of an event, or its waiting, has ended so.
    pub fn ended(&self, hook: &str, event: &str, result: &str) {
        self.deliveries.with_label_values(&[hook, event, result]).inc();
    }

    /// How many events wait for each webhook.
    pub fn show<'a>(&self, hooks: impl Iterator<Item = (&'a str, usize)>) {
        self.waiting.reset();
        for (hook, waiting) in hooks {
            self.waiting.with_label_values(&[hook]).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
    }
}
