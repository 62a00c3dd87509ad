//! The ledger's file may come to harm while quotas count: what they have counted goes on.

use std::sync::PoisonError;
use std::time::Duration;

use super::Live;
use crate::quota::quotas::Counted;

/// How soon it is looked for.
const SOON: Duration = Duration::from_millis(500);
/// A call's quota counts it this long before its record is put down, at most.
const PUT_DOWN: Duration = Duration::from_millis(20);

impl Live {
    /// Gives the ledger what it has lost of what quotas have counted, for ever.
    pub async fn keep_ledger_whole(&self) {
        let mut is_told = false;
        loop {
            tokio::time::sleep(SOON).await;
            if !self.usage_ledger.is_changed() {
                continue;
            }
            let before = self.counted().0;
            tokio::time::sleep(PUT_DOWN).await;
            self.gather();
            let (counted, now) = self.counted();
            match self.usage_ledger.reconcile(&before, counted, now).await {
                Ok(()) => is_told = false,
                Err(error) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!("the usage ledger may lack what quotas have counted, until it can be read: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// What quotas have counted, now.
    fn counted(&self) -> (Vec<Counted>, Duration) {
        let now = self.clock.wall();
        (self.kept.lock().unwrap_or_else(PoisonError::into_inner).quotas.counted(now), now)
    }

    /// Waits until that is done, where there is something to do.
    pub async fn ledger_is_whole(&self) {
        while self.usage_ledger.is_changed() {
            tokio::time::sleep(SOON / 20).await;
        }
    }

    /// Brings up to date what metrics tell of the stores.
    pub(super) fn show_stores(&self) {
        self.metrics.show_objects(self.objects.health().is_some());
        let (ledger, records) = (self.usage_ledger.store.health(), self.records.health());
        self.metrics.show_ledger(ledger.waiting, ledger.lost);
        self.metrics.show_records(&records, self.contents.lost());
        for (store, damage) in [
            ("ledger", ledger.damage),
            ("records", records.damage),
            ("contents", records.contents_damage),
            ("kb_versions", self.kb_versions.damage()),
        ] {
            let counter = self.metrics.store_damages.with_label_values(&[store]);
            counter.inc_by(damage.map_or(0, |damage| damage.times).saturating_sub(counter.get()));
        }
    }
}
