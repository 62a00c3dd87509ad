//! How another configuration takes force.

use std::sync::{Arc, MutexGuard, PoisonError};

use config::Snapshot;

use super::{Counts, Kept, Live, PerWorker, Running, bounds, record_bounds};
use crate::quota::quotas::TellsBefore as _;

/// A configuration that is bound to the state of its objects, and not in force yet.
struct Bound {
    running: Running,
    /// One for each worker.
    twins: Vec<(Arc<PerWorker>, Arc<Running>)>,
}

impl Live {
    /// Takes a new configuration into force. State of objects that stay is kept, of others dropped.
    pub fn put_in_force(&self, snapshot: Snapshot) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.note_levers();
        let bound = self.bind(&mut kept, snapshot);
        self.take_force(&mut kept, bound);
    }

    fn bind(&self, kept: &mut MutexGuard<'_, Kept>, snapshot: Snapshot) -> Bound {
        let twin = |per_worker: Arc<PerWorker>| {
            let running = kept.bind(snapshot.twin(), &|route| per_worker.counts(route));
            (per_worker, Arc::new(running))
        };
        let twins = self.workers().into_iter().map(twin).collect();
        Bound { running: kept.bind(snapshot, &|_| Counts::default()), twins }
    }

    fn take_force(&self, kept: &mut MutexGuard<'_, Kept>, Bound { running, twins }: Bound) {
        let now = self.clock.wall();
        let running = Arc::new(running);
        // The ledger tells what was used before, and from then on the accounts count: nothing may be gathered
        // in between. Whoever gathers waits meanwhile, so all that takes long is done before and after.
        let mut gathering = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        self.gather_into(&mut gathering);
        self.usage_ledger.open(kept.quotas.unknown(&running.snapshot, now));
        let old: Vec<_> = twins.into_iter().map(|(per_worker, twin)| per_worker.put_in_force(twin)).collect();
        let before = self.replace(running);
        drop(gathering);
        let running = self.running.load();
        self.answers.bound(bounds(&running.snapshot));
        self.records.bound(record_bounds(&running.snapshot));
        self.contents.turn(running.snapshot.general.records.content);
        self.questions.bind(&running.snapshot);
        kept.quotas.look(now);
        self.drills.keep_to(&running.snapshot);
        running.batch_queue.reloaded(self.clock.now());
        self.webhooks.reloaded();
        self.metrics.come_into_force(&running.snapshot, self.clock.now());
        drop((old, before));
    }

    /// Swaps what is in force, and pulls the levers again that were pulled while the new one was being bound: it
    /// may have taken over what was before.
    fn replace(&self, running: Arc<Running>) -> Arc<Running> {
        let mut pulled = self.pulled.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.running.swap(running.clone());
        pulled.again(&before, &running, self.clock.now());
        before
    }

    /// From here on whoever pulls a lever is remembered until the new configuration is in force.
    fn note_levers(&self) {
        self.pulled.lock().unwrap_or_else(PoisonError::into_inner).begin();
    }
}

#[cfg(test)]
mod tests {
    use base::{Dice, KeyHasher};
    use config::Source;

    use super::*;
    use crate::records::access_log::AccessLog;
    use crate::running::Which;
    use crate::upstream::standing::Shown;

    const TEXT: &str = r#"
providers: [{ name: a, base_url: "http://a/v1", api_key: sk-one }]
routes:
  - { name: chat, upstreams: [{ provider: a, model: m }] }
  - { name: other, upstreams: [{ provider: a, model: m }] }
"#;

    fn snapshot(key: &str) -> Snapshot {
        let source = Source::Text { name: "reload.yaml".to_owned(), text: TEXT.replace("sk-one", key) };
        config::load(&source, &|_| None, &KeyHasher::new(&[0; 64])).unwrap().snapshot
    }

    /// How the breakers of both routes stand, where `lever` is pulled while a reload binds another key.
    fn pulled_between(before: impl FnOnce(&Live), lever: impl FnOnce(&Live)) -> Vec<(Shown, bool)> {
        let live = Live::new(snapshot("sk-one"), Dice::loaded(7), AccessLog::default()).unwrap();
        before(&live);
        let mut kept = live.kept.lock().unwrap();
        live.note_levers();
        let bound = live.bind(&mut kept, snapshot("sk-two"));
        lever(&live);
        live.take_force(&mut kept, bound);
        live.breakers().iter().map(|breaker| (breaker.shown, breaker.is_held)).collect()
    }

    const ALL: Which<'_> = Which { upstream: "a/m", route: None };
    const CHAT: Which<'_> = Which { upstream: "a/m", route: Some("chat") };

    #[test]
    fn a_hold_while_a_reload_binds_is_in_force_after_it() {
        let stand = pulled_between(|_| {}, |live| assert_eq!(live.hold_open(CHAT, None).len(), 1));
        assert_eq!(stand, [(Shown::Open, true), (Shown::Closed, false)]);
    }

    #[test]
    fn a_close_while_a_reload_binds_is_in_force_after_it() {
        let hold = |live: &Live| drop(live.hold_open(ALL, None));
        let stand = pulled_between(hold, |live| drop(live.close_breakers(CHAT)));
        assert_eq!(stand, [(Shown::Closed, false), (Shown::Open, true)]);
    }

    #[test]
    fn a_route_is_counted_that_a_scrape_has_not_found_in_force_yet() {
        let live = Live::new(snapshot("sk-one"), Dice::loaded(7), AccessLog::default()).unwrap();
        let worker = live.add_worker();
        let mut kept = live.kept.lock().unwrap();
        let text = TEXT.replace("name: other", "name: new");
        let source = Source::Text { name: "reload.yaml".to_owned(), text };
        let snapshot = config::load(&source, &|_| None, &KeyHasher::new(&[0; 64])).unwrap().snapshot;
        let bound = live.bind(&mut kept, snapshot);
        let inflight = |route: &str| {
            let mut sums = std::collections::HashMap::new();
            worker.add_inflight(&mut sums);
            sums.get(route).copied()
        };
        inflight("new");
        live.take_force(&mut kept, bound);
        let running = worker.running();
        let route = running.snapshot.routes.iter().find(|route| &*route.name == "new").unwrap();
        running.state(route).unwrap().counts.inflight.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(inflight("new"), Some(1));
        inflight("other");
        assert_eq!(inflight("other"), None, "what is gone and idle is forgotten");
    }

    #[test]
    fn of_several_levers_the_last_one_holds() {
        let levers = |live: &Live| {
            live.close_breakers(ALL);
            live.hold_open(CHAT, None);
            live.close_breakers(ALL);
            live.hold_open(ALL, None);
            live.close_breakers(CHAT);
        };
        assert_eq!(pulled_between(|_| {}, levers), [(Shown::Closed, false), (Shown::Open, true)]);
    }
}
