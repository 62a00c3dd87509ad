//! What outlives requests and reloads.

pub mod issued_keys;
pub mod levers;
pub mod per_worker;
mod reconcile;
mod reload;
pub mod resources;
mod time;
pub mod tokenizers;
mod versions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base::{Clock, Dice, Record};
use config::Snapshot;
use rules::shares::Priority;
use state::answers::{Bounds, Key, Stored, Which};
use state::requests::Bounds as RecordBounds;
use state::{Answer, Answers, Objects, Requests, Unreadable};
use tokio::sync::Notify;

use crate::alerts::{Alert, Alerts};
use crate::cache::flights::Flights;
use crate::cache::kb_versions::KbVersions;
use crate::cache::purges::Purges;
use crate::caller::headers::Blanks;
use crate::embeddings::digits::DigitsCache;
use crate::embeddings::input_flights::InputFlights;
use crate::embeddings::joining::JointCalls;
use crate::live::issued_keys::IssuedKeys;
use crate::live::per_worker::PerWorker;
use crate::live::resources::Resources;
use crate::live::tokenizers::Tokenizers;
use crate::quota::ledger::{self, Stores, UsageLedger};
use crate::quota::quotas::{KeptQuotas, TellsBefore as _};
use crate::records::access_log::AccessLog;
use crate::records::content::Contents;
use crate::records::metrics::Metrics;
use crate::records::pending::{PendingRecords, Put};
use crate::records::repeats::{Fingerprints, RepeatDetector};
use crate::records::telemetry::{OwnCall, Telemetry};
use crate::running::{Counts, Kept, Pulled, Running};
use crate::semantic_cache::questions::{self, Questions};
use crate::semantic_cache::verdicts::Verdicts;
use crate::upstream::drills::Drills;
use crate::upstream::standing::Shown;
use crate::webhooks::Webhooks;

/// The process's state: the configuration in force, and what survives its change.
#[derive(Debug)]
pub struct Live {
    /// Time.
    pub clock: Clock,
    /// Forms of the heads of answers.
    pub blanks: Blanks,
    /// When the process began.
    began: Instant,
    /// The same by the wall clock.
    began_wall: Duration,
    /// Chance.
    pub dice: Dice,
    /// Counters.
    pub metrics: Metrics,
    /// What the gateway itself has.
    pub resources: Resources,
    /// One line per request.
    pub log: AccessLog,
    /// Traces and metrics for a collector.
    pub telemetry: Telemetry,
    running: ArcSwap<Running>,
    kept: Mutex<Kept>,
    /// Held for a moment by whoever pulls a lever, and by a reload as it takes force.
    pub(crate) pulled: Mutex<Pulled>,
    /// One for each worker.
    workers: Mutex<Vec<Arc<PerWorker>>>,
    /// Tells calls apart.
    pub fingerprints: Fingerprints,
    /// OpenAI's encodings, for counting.
    pub tokenizers: Tokenizers,
    /// Held by whoever gathers.
    gathering: Mutex<Gathering>,
    /// Held by whoever shows metrics: some are emptied and filled again, and losses brought up to what they are. Two at
    /// a time would tell half of it, and count losses twice.
    showing: Mutex<()>,
    /// What was used.
    pub usage_ledger: Arc<UsageLedger>,
    /// What was answered before.
    pub answers: Arc<dyn Answers>,
    /// Questions that were answered before.
    pub questions: Questions,
    /// What was purged lately.
    pub purges: Arc<Purges>,
    /// Calls that others may wait for too.
    pub flights: Flights,
    /// Digits of vectors that were written lately.
    pub digits: DigitsCache,
    /// Small embeddings calls that wait for others to join them.
    pub joint_calls: JointCalls,
    /// Inputs of embeddings calls that others may wait for too.
    pub input_flights: Arc<InputFlights>,
    /// Verdicts on questions in flight.
    pub verdicts: Arc<Verdicts>,
    /// Versions of knowledge bases that operators have set.
    pub kb_versions: Arc<KbVersions>,
    /// Objects made through the admin API, keys issued there, and who has done what.
    pub objects: Arc<dyn Objects>,
    /// Faults that operators inject.
    pub drills: Arc<Drills>,
    /// What operators must hear of.
    pub alerts: Arc<Alerts>,
    /// Webhooks, which are told of alerts too.
    pub webhooks: Webhooks,
    /// Keys of clients that were issued through the admin API: what is changed in `objects` is in force here.
    pub issued: IssuedKeys,
    /// What became of single requests.
    pub records: Arc<dyn Requests>,
    /// What was said in them.
    pub contents: Contents,
    something_to_gather: Notify,
    unwritten: Arc<AtomicUsize>,
    draining: AtomicBool,
}

/// What gathering needs.
#[derive(Debug, Default)]
struct Gathering {
    /// Memory that goes around between the workers' lists.
    pending: Vec<Record>,
    /// Those of all workers.
    records: Vec<Record>,
    repeats: RepeatDetector,
}

/// Records wait on their worker's list so long at most.
const GATHER: Duration = Duration::from_millis(20);

impl Live {
    /// A process that starts with this configuration.
    ///
    /// # Errors
    /// Only when the table of metrics is unsound, which a test rules out.
    pub fn new(snapshot: Snapshot, dice: Dice, log: AccessLog) -> Result<Arc<Self>, prometheus::Error> {
        Self::keeping(snapshot, dice, log, Stores::default())
    }

    /// A process that starts with this configuration, and keeps in `stores` what outlives it.
    ///
    /// # Errors
    /// As of [`Live::new`].
    pub fn keeping(
        snapshot: Snapshot,
        dice: Dice,
        log: AccessLog,
        stores: Stores,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let metrics = Metrics::new()?;
        metrics.come_into_force(&snapshot, Clock.now());
        let usage_ledger = Arc::new(UsageLedger::new(stores.ledger));
        let mut kept = Kept::with(KeptQuotas::new(stores.accounts).told_by(usage_ledger.clone()));
        let running = kept.bind(snapshot, &|_| Counts::default());
        let issued = IssuedKeys::new(stores.objects, stores.keys, running.snapshot.keys.hasher().clone());
        let kb_versions = Arc::new(KbVersions::new(stores.versions, &dice));
        usage_ledger.open(kept.quotas.unknown(&running.snapshot, Clock.wall()));
        stores.answers.bound(bounds(&running.snapshot));
        stores.records.bound(record_bounds(&running.snapshot));
        let purges = Arc::<Purges>::default();
        let questions = Questions::new(stores.answers.clone(), purges.clone());
        questions.bind(&running.snapshot);
        Ok(Arc::new(Self {
            clock: Clock,
            blanks: Blanks::default(),
            began: Clock.now(),
            began_wall: Clock.wall(),
            telemetry: Telemetry::new(&dice, Clock.wall()),
            dice,
            metrics,
            resources: Resources::default(),
            log,
            usage_ledger,
            answers: stores.answers,
            questions,
            purges,
            flights: Flights::default(),
            digits: DigitsCache::default(),
            joint_calls: JointCalls::default(),
            input_flights: Arc::default(),
            verdicts: Arc::default(),
            kb_versions,
            drills: Arc::default(),
            objects: Arc::new(issued.clone()),
            issued,
            contents: Contents::new(stores.records.clone(), running.snapshot.general.records.content),
            records: stores.records,
            alerts: kept.quotas.alerts(),
            webhooks: Webhooks::default(),
            running: ArcSwap::from_pointee(running),
            kept: Mutex::new(kept),
            pulled: Mutex::default(),
            workers: Mutex::default(),
            fingerprints: Fingerprints::default(),
            tokenizers: Tokenizers::default(),
            gathering: Mutex::default(),
            showing: Mutex::default(),
            something_to_gather: Notify::new(),
            unwritten: Arc::default(),
            draining: AtomicBool::new(false),
        }))
    }

    /// What one more worker has to itself, with a twin of the configuration in force.
    #[must_use]
    pub fn add_worker(&self) -> Arc<PerWorker> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let per_worker = PerWorker::with(|counts| kept.bind(self.running().snapshot.twin(), counts));
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(per_worker.clone());
        per_worker
    }

    fn workers(&self) -> Vec<Arc<PerWorker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The configuration in force now.
    #[must_use]
    pub fn running(&self) -> Arc<Running> {
        self.running.load_full()
    }

    /// Drops what is cached, and what of it calls under way would store. Says how much was stored. It looks at
    /// everything: not for workers.
    pub fn purge(&self, which: &Which) -> Answer<Result<u64, Unreadable>> {
        // First, so that whoever stores something meanwhile either finds this out or is found below.
        self.purges.note(which);
        self.questions.purge(which);
        let purged = self.answers.purge(which);
        // And again, for whoever has looked in between, and would serve later what was found.
        self.purges.note(which);
        purged
    }

    /// Drops what is cached under a key, also where a call has found it and would serve it when the upstreams fail. Says
    /// whether there was something.
    pub fn remove(&self, key: &Key) -> Answer<Result<bool, Unreadable>> {
        let removed = self.answers.remove(key);
        self.purges.note_one(key);
        removed
    }

    /// Stores something that was asked for after so many purges; false where it has been purged since.
    pub fn store(&self, key: Key, stored: Arc<Stored>, purges: u64) -> bool {
        if !self.purges.spare(&stored, purges) {
            return false;
        }
        self.answers.put(key, stored.clone());
        let is_spared = self.purges.spare(&stored, purges);
        if !is_spared {
            drop(self.answers.remove(&key));
        }
        is_spared
    }

    /// New calls are refused from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether new calls are refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The grace is over: what still runs ends with an error event.
    pub fn cut_short(&self) {
        for per_worker in self.workers() {
            per_worker.cut_short();
        }
    }

    /// Requests whose answer has not ended.
    #[must_use]
    pub fn requests(&self) -> i64 {
        self.workers().iter().map(|per_worker| per_worker.pending.running()).sum()
    }

    /// Connections whose caller is slower than the answer that is being written to it.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.unwritten.load(Ordering::Relaxed)
    }

    pub(crate) fn count_of_unwritten(&self) -> Arc<AtomicUsize> {
        self.unwritten.clone()
    }

    /// A request has ended: its record goes to its worker's pending ones.
    pub(crate) fn put_down(&self, pending: &PendingRecords, record: Record) {
        match pending.put(record) {
            Put::First => self.something_to_gather.notify_one(),
            Put::Further => {}
            Put::Full => self.gather(),
        }
    }

    /// Counts, logs and books every request that has ended so far.
    pub fn gather(&self) {
        self.gather_into(&mut self.gathering.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn gather_into(&self, gathering: &mut Gathering) {
        let Gathering { pending, records, repeats } = gathering;
        let running = self.running.load();
        let mut entries = Vec::new();
        let age = self.clock.now().saturating_duration_since(self.began);
        let mut lists = 0;
        for per_worker in self.workers() {
            per_worker.pending.swap(pending);
            lists += usize::from(!pending.is_empty());
            if records.is_empty() {
                std::mem::swap(records, pending);
            } else {
                records.append(pending);
            }
        }
        // Those of one worker lie in the order in which they ended; those of several are brought into it.
        if lists > 1 {
            records.sort_by_key(|record| record.time + record.took);
        }
        if !running.snapshot.general.records.keep.is_zero() {
            self.records.note(records);
        }
        // Where they lie: each is half a kilobyte.
        for record in records.iter_mut() {
            self.metrics.count(record);
            // Records lie here for a moment only: they ended now.
            repeats.note(record, age.saturating_sub(record.took), &self.metrics);
            self.log.append(record);
            self.metrics.count_cost(record, &running.snapshot.currency);
            self.metrics.caches.count(record, &running.snapshot.currency);
            charge(&running, record, &self.metrics);
            self.telemetry.note(&running, record, &self.metrics);
            ledger::enter(record, &mut entries);
        }
        records.clear();
        self.usage_ledger.book(entries);
        self.tell_alerts(&running);
        // A burst's memory is given back.
        pending.shrink_to(1024);
        records.shrink_to(1024);
    }

    /// Tells what has been raised to log and metrics, and to webhooks where there are any.
    fn tell_alerts(&self, running: &Running) {
        let alerts = self.alerts.take();
        for (_, alert) in &alerts {
            // Those of upstreams stand in the log already, by who raised them.
            if let Alert::Quota { client, kind, share, per, until } = alert {
                self.metrics.quota_warned(client, kind);
                let percent = share * 100.0;
                tracing::warn!(client = &**client, kind, "{percent}% of the quota is used; the {per} ends {until}");
            }
        }
        if !running.snapshot.webhooks.is_empty() {
            self.webhooks.hear(alerts);
        }
    }

    /// A call of the gateway's own has ended: counts, tells and books it, to no client.
    pub(crate) fn book_own(&self, own: &OwnCall<'_>, home: &str) {
        self.metrics.count_own(own.route, own.attempts, own.spending, home);
        self.telemetry.note_own(&self.running.load(), own, &self.metrics);
        let mut entries = Vec::new();
        ledger::enter_own(self.clock.wall(), own.route, own.spending.clone(), &mut entries);
        if !entries.is_empty() {
            self.usage_ledger.book(entries);
        }
    }

    /// Gathers for ever, soon after there is something to gather.
    pub async fn keep_gathering(&self) {
        loop {
            tokio::select! {
                () = self.something_to_gather.notified() => {}
                () = self.alerts.raised() => {}
            }
            tokio::time::sleep(GATHER).await;
            self.gather();
        }
    }

    /// The metrics of every request that has ended, as Prometheus reads them. One at a time: not for workers.
    #[must_use]
    pub fn metrics_text(&self) -> Vec<u8> {
        let _showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        self.gather();
        self.metrics.forget_gone(self.clock.now());
        let running = self.running();
        let mut sums = running.snapshot.routes.iter().map(|route| (route.name.clone(), 0)).collect();
        for per_worker in self.workers() {
            per_worker.add_inflight(&mut sums);
        }
        self.show_upstreams(&running);
        self.show_queues(&running);
        self.show_quotas(&running);
        self.metrics.caches.show(&self.answers.stats());
        self.metrics.webhooks.show(self.webhooks.shown().iter().map(|hook| (&*hook.name, hook.waiting)));
        let questions =
            running.snapshot.routes.iter().filter_map(|route| Some((&*route.name, self.questions.count(&route.name)?)));
        self.metrics.caches.show_questions(questions, self.questions.lost());
        self.show_stores();
        self.metrics.text(&sums, self.log.lost())
    }

    /// Brings the depths of the queues up to date.
    fn show_queues(&self, running: &Running) {
        let mut depths: BTreeMap<(Arc<str>, &'static str), usize> = BTreeMap::new();
        for route in &running.snapshot.routes {
            for priority in Priority::ALL {
                depths.insert((route.name.clone(), priority.as_str()), 0);
            }
        }
        for (route, depth) in running.batch_queue.depths() {
            *depths.entry((route, Priority::Batch.as_str())).or_default() += depth;
        }
        for slots in running.slots_by_provider().values().cloned().chain(running.closed_slots()) {
            slots.add_depths(&mut depths);
        }
        let slots_by_provider =
            running.slots_by_provider().iter().map(|(provider, slots)| (&**provider, slots.shown()));
        self.metrics.show_concurrency(slots_by_provider);
        self.metrics.show_queues(depths.iter().map(|((route, priority), depth)| (&**route, *priority, *depth)));
    }

    fn show_quotas(&self, running: &Running) {
        let now = self.clock.wall();
        let shares = running.quotas.all().flat_map(|(client, quota)| {
            let kinds = ["tokens", "cost"].into_iter().zip(quota.shares(now));
            kinds.filter_map(|(kind, share)| Some((&**client, kind, share?)))
        });
        self.metrics.show_quotas(shares);
        self.metrics.show_unread_quotas(self.usage_ledger.unopened());
    }

    /// Brings the gauges of the upstreams up to date. An upstream that several routes share under one
    /// label shows the worst of them.
    fn show_upstreams(&self, running: &Running) {
        let now = self.clock.now();
        let mut shown: BTreeMap<&Arc<str>, (Shown, bool, bool)> = BTreeMap::new();
        for (label, standing) in running.standings() {
            let (worst, rests, is_held) = shown.entry(label).or_default();
            let glance = standing.glance(now);
            *worst = glance.shown.max(*worst);
            *rests |= glance.rests_until.is_some();
            *is_held |= glance.held.is_some();
            for (state, count) in standing.take_changes() {
                self.metrics.breaker_changed(label, state.as_str(), count);
            }
        }
        let values =
            shown.into_iter().map(|(label, (worst, rests, is_held))| (&**label, worst.value(), rests, is_held));
        self.metrics.show_upstreams(values);
        self.metrics.show_drills(self.drills.under_way(now).len());
    }
}

/// What cached answers may take.
fn bounds(snapshot: &Snapshot) -> Bounds {
    let cache = snapshot.general.cache;
    Bounds { memory: cache.memory - questions::share(snapshot), disk: cache.disk }
}

/// What is kept of single requests.
#[must_use]
pub fn record_bounds(snapshot: &Snapshot) -> RecordBounds {
    let records = &snapshot.general.records;
    RecordBounds { keep: records.keep, size: records.max_size, contents: records.content }
}

/// Charges a quota with a call that was settled with none, or with one that a reload has put out of force:
/// it began before that. Counts what a quota of money could not.
fn charge(running: &Running, record: &Record, metrics: &Metrics) {
    let (Some(client), Some(usage)) = (&record.client, record.usage) else { return };
    let Some(quota) = running.quotas.named(client) else { return };
    let is_counted = record.cost.as_ref().is_some_and(|cost| cost.currency == quota.terms.currency);
    if quota.terms.cost.is_some() && !is_counted {
        metrics.quota_uncounted(client);
    }
    if quota.id() != record.settled_in {
        let used = quota.weigh(usage, record.costs());
        quota.settle(quota.period(record.time), state::Amounts::default(), used);
    }
}
