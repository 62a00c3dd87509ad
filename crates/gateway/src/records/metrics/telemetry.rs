//! What becomes of spans.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::{TELEMETRY_DROPPED, TELEMETRY_SENT};

/// Why spans do not come to the collector.
const REASONS: [&str; 4] = ["queue_full", "given_up", "refused", "rejected"];

/// The counters of telemetry.
#[derive(Debug)]
pub struct Telemetry {
    sent: IntCounter,
    dropped: IntCounterVec,
}

impl Telemetry {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let sent = IntCounter::with_opts(Opts::new(TELEMETRY_SENT.name, TELEMETRY_SENT.meaning))?;
        registry.register(Box::new(sent.clone()))?;
        let row = &TELEMETRY_DROPPED;
        let dropped = IntCounterVec::new(Opts::new(row.name, row.meaning), row.labels)?;
        registry.register(Box::new(dropped.clone()))?;
        // From nothing on: of a series that begins with its first event nobody sees that event.
        REASONS.iter().for_each(|reason| drop(dropped.with_label_values(&[reason])));
        Ok(Self { sent, dropped })
    }

    /// The collector has taken so many spans.
    pub fn sent(&self, count: usize) {
        self.sent.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// So many spans have not come to the collector.
    pub fn dropped(&self, reason: &str, count: usize) {
        if count > 0 {
            self.dropped.with_label_values(&[reason]).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}
