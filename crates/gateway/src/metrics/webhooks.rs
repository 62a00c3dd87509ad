//! What becomes of webhooks.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::{WEBHOOKS, WEBHOOKS_WAITING};

/// The counters of webhooks.
#[derive(Debug)]
pub struct Webhooks {
    deliveries: IntCounterVec,
    waiting: IntGaugeVec,
}

impl Webhooks {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let deliveries = IntCounterVec::new(Opts::new(WEBHOOKS.name, WEBHOOKS.meaning), WEBHOOKS.labels)?;
        registry.register(Box::new(deliveries.clone()))?;
        let row = &WEBHOOKS_WAITING;
        let waiting = IntGaugeVec::new(Opts::new(row.name, row.meaning), row.labels)?;
        registry.register(Box::new(waiting.clone()))?;
        Ok(Self { deliveries, waiting })
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
