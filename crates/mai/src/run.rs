//! `serve`: opens the ports, starts the workers, reloads, drains.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use admin::LastReload;
use base::{Dice, KeyHasher};
use config::{Overrides, Problem, Snapshot};
use drivers::{
    DataFolder, SecretKey, SqliteLedger, SqliteObjects, SqliteRequests, SqliteVersions, TieredAnswers,
    is_file_or_missing,
};
use gateway::caller::delayed_writes::DelayedWrites;
use gateway::live::{Live, record_bounds};
use gateway::quota::ledger::Stores;
use gateway::records::access_log::AccessLog;
use gateway::worker::{Desk, Worker, desk};
use state::Objects;
use state::answers::Bounds;
use state::objects::IssuedKey;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::configuration::{self, Configuration, Origin, Parts};
use crate::descriptors::{self, Shares};
use crate::logging::{self, Mask};
use crate::shared::Shared;
use crate::watched::Watched;
use crate::{BAD_CONFIG, CLEAN, check, complain, listen, zero};
use mai::args::ServeFlags;

/// `mai-gateway serve`
pub fn serve(flags: ServeFlags) -> ExitCode {
    let descriptors = descriptors::raise();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no runtime: {error}")),
    };
    let ended = runtime.block_on(async {
        // Before anything is written.
        if let Err(error) = outlive_file_limits() {
            return failed(&format!("signals cannot be watched for: {error}"));
        }
        match start(flags, descriptors).await {
            Ok(gateway) => gateway.run().await,
            Err(message) => failed(&message),
        }
    });
    // Whatever still waits for a disk that does not answer is not waited for.
    runtime.shutdown_background();
    ended
}

/// Whoever writes beyond a limit on the size of files (`ulimit -f`) is sent SIGXFSZ, which ends a process that
/// has not asked for it. Once asked for it never does so again, and the write fails with EFBIG, as on a full disk:
/// that costs what was to be written, and no call.
fn outlive_file_limits() -> io::Result<()> {
    /// Alike on Linux (signal(7)) and macOS, except on MIPS.
    const SIGXFSZ: i32 = 25;
    signal(SignalKind::from_raw(SIGXFSZ)).map(drop)
}

fn failed(message: &str) -> ExitCode {
    complain(message);
    BAD_CONFIG.into()
}

/// A gateway whose ports are open.
struct Gateway {
    live: Arc<Live>,
    shares: Shares,
    data: std::net::TcpListener,
    admin: TcpListener,
    desks: Vec<Desk>,
    configuration: Configuration,
    shared: Arc<Shared>,
    last_reload: LastReload,
    hasher: KeyHasher,
    banner: Option<zero::Banner>,
    /// Let go with the end.
    _folder: DataFolder,
    /// The built-in mock of zero configuration, for as long as the gateway runs.
    _mock: Option<mock::Running>,
}

async fn start(flags: ServeFlags, descriptors: Option<u64>) -> Result<Gateway, String> {
    let hasher = KeyHasher::new(&random::<64>()?);
    // A variable that is set to nothing counts as not set.
    let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let overrides = Overrides {
        listen: given(&flags.listen),
        admin_listen: given(&flags.admin_listen),
        data_dir: given(&flags.data_dir),
        log_level: given(&flags.log_level),
        admin_token: None,
    };
    let (source, found) = match check::source(&flags.at) {
        Some(source) => (source, None),
        None => {
            let secrets = [u128::from_ne_bytes(random()?), u128::from_ne_bytes(random()?)];
            let found = zero::find(&check::env, secrets).await?;
            (found.source.clone(), Some(found))
        }
    };
    let origin = Origin { source, overrides, hasher: hasher.clone(), disk: config::Disk::default() };
    let files = origin.read().map_err(|errors| errors.to_string())?;
    let folder = DataFolder::take(&files.data_dir())?;
    let objects = objects(&files.data_dir())?;
    let (held, keys) = configuration::kept(&*objects).await?;
    let compiled = origin.compile(&files, held).map_err(|errors| errors.with_causes())?;
    let loaded = &compiled.loaded;
    is_file_or_missing(&loaded.snapshot.general.database)?;
    let mask = Mask::default();
    mask.set(loaded.snapshot.secrets());
    let level = logging::start(&loaded.snapshot.general.log_level, mask.clone());
    let count = flags.workers.map_or_else(cores, usize::from);
    let shares = Shares::of(descriptors, count);
    shares.tell(&loaded.snapshot);
    tell(&folder, &objects, &loaded.warnings, !loaded.snapshot.general.admin_tokens.is_empty());
    let watched = Watched::now(loaded.files.clone());
    let (snapshot, first) = compiled.first();
    let (live, shared) = live(snapshot, objects, keys, shares)?;
    live.resources.buffered.bound(crate::memory::for_answers());
    live.metrics.connections_max.set(i64::try_from(shares.callers).unwrap_or(i64::MAX));
    open_quotas(&live).await;
    open_kb_versions(&live).await;
    live.questions.employ().map_err(|error| format!("no thread for the semantic cache: {error}"))?;
    live.contents.employ().map_err(|error| format!("no thread for recorded texts: {error}"))?;
    let general = &live.running().snapshot.general;
    let data = listen::open(general.listen).map_err(|error| taken("data", "listen", general.listen, &error))?;
    let admin = listen::open(general.admin_listen)
        .and_then(TcpListener::from_std)
        .map_err(|error| taken("admin", "admin.listen", general.admin_listen, &error))?;
    let desks = workers(&live, &shared, count)?;
    let last_reload = LastReload::default();
    let parts = Parts { mask, live: live.clone(), shared: shared.clone(), last: last_reload.clone(), watched, level };
    let configuration = Configuration::new(origin, parts, first);
    let (banner, mock) = found.map_or((None, None), |found| (Some(found.banner), found.mock));
    Ok(Gateway {
        live,
        shared,
        shares,
        data,
        admin,
        desks,
        configuration,
        last_reload,
        hasher,
        banner,
        _folder: folder,
        _mock: mock,
    })
}

/// What it is well to know of a start.
fn tell(folder: &DataFolder, objects: &SqliteObjects, warnings: &[Problem], has_tokens: bool) {
    if let Some(why) = folder.unlocked() {
        // What it keeps says more, once it cannot be written: calls do not depend on it.
        tracing::warn!("the data folder cannot be locked, so that a second gateway on it would not be noticed: {why}");
    }
    objects.tell();
    if !has_tokens {
        tracing::info!(
            "nobody may use the admin API: there is no token in `admin.tokens`, nor was one in MAI_ADMIN_TOKEN at the start"
        );
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

fn taken(what: &str, key: &str, addr: std::net::SocketAddr, error: &io::Error) -> String {
    let flag = key.replace('.', "-");
    let todo = match error.kind() {
        io::ErrorKind::PermissionDenied if addr.port() < 1024 => {
            "one from 1024 on, or give the program CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "an address of this machine, or to 0.0.0.0 for all of them",
        _ => "a free one",
    };
    format!("cannot open the {what} port {addr}: {error}; set `{key}` or `--{flag}` to {todo}")
}

/// Where objects of the admin API are kept.
fn objects(folder: &Path) -> Result<Arc<SqliteObjects>, String> {
    let given = check::env("MAI_SECRET_KEY").filter(|given| !given.is_empty());
    let secret_key = SecretKey::of(given.as_deref(), folder)?;
    Ok(Arc::new(SqliteObjects::at(folder.join(OBJECTS), secret_key)))
}

fn live(
    snapshot: Snapshot,
    objects: Arc<dyn Objects>,
    keys: Vec<IssuedKey>,
    shares: Shares,
) -> Result<(Arc<Live>, Arc<Shared>), String> {
    let shared = Shared::of(&snapshot, shares.upstreams)?;
    let log = AccessLog::to(io::stdout()).map_err(|error| format!("no thread for the access log: {error}"))?;
    tell_a_lost_ledger(&snapshot.general);
    let ledger = SqliteLedger::open(snapshot.general.database.clone());
    let ledger = ledger.map_err(|error| format!("no thread for the usage ledger: {error}"))?;
    let general = &snapshot.general;
    let bounds = Bounds { memory: general.cache.memory, disk: general.cache.disk };
    let answers = TieredAnswers::open(general.data_dir.join(CACHE), bounds);
    let answers = answers.map_err(|error| format!("no thread for the cache: {error}"))?;
    let versions = SqliteVersions::at(general.data_dir.join(KB_VERSIONS));
    let records = SqliteRequests::open(&general.data_dir, record_bounds(&snapshot));
    let records = records.map_err(|error| format!("no thread for the request records: {error}"))?;
    let stores = Stores {
        ledger: Arc::new(ledger),
        answers: Arc::new(answers),
        versions: Arc::new(versions),
        objects,
        keys,
        records: Arc::new(records),
        ..Stores::default()
    };
    let live = Live::keeping(snapshot, Dice::fair(), log, stores).map_err(|error| error.to_string())?;
    Ok((live, Arc::new(shared)))
}

/// Says that the usage ledger is gone, where the gateway has run before: nothing is known of what was used then.
fn tell_a_lost_ledger(general: &config::General) {
    let is_gone = std::fs::metadata(&general.database).map_or(true, |file| file.len() == 0);
    // These come about with the first call, the ledger with the first that is let in: of who was only refused there is none.
    if is_gone && [CACHE, RECORDS].iter().any(|file| general.data_dir.join(file).exists()) {
        let ledger = general.database.display();
        tracing::warn!(%ledger, "there is no usage ledger, but the gateway has run here before: unless no call was let in so far, its file is gone, quotas begin anew, and usage until now is not known; stop, put the file back and start again where that is not meant");
    }
}

/// What is cached on disk, in `data_dir`.
const CACHE: &str = "cache.db";
/// Records of requests, there too.
const RECORDS: &str = "requests.db";
/// Which versions of knowledge bases are set, there too.
const KB_VERSIONS: &str = "kb-versions.db";
/// Objects of the admin API, issued keys and the audit log, there too.
const OBJECTS: &str = "objects.db";

/// A start waits so long for what the ledger knows of quotas, and no longer: the gateway is worth more.
const OPENING: Duration = Duration::from_secs(3);

/// What was used before this start counts against quotas from the first call on, if the ledger can be read.
async fn open_quotas(live: &Arc<Live>) {
    let opening = live.clone();
    background(async move { opening.usage_ledger.keep_opening().await });
    if !live.usage_ledger.opened(OPENING).await {
        tracing::warn!("quotas begin without what was used before, until the usage ledger can be read");
    }
}

/// Which versions of knowledge bases are set is known before the first call, if their file can be read. Until
/// it can nothing stored before is served.
async fn open_kb_versions(live: &Arc<Live>) {
    if tokio::time::timeout(OPENING, live.kb_versions.open()).await.is_err() {
        let opening = live.clone();
        background(async move { opening.kb_versions.open().await });
    }
}

/// One worker for each, unless `--workers` says otherwise.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Starts so many threads, each with a runtime and connections of its own.
fn workers(live: &Arc<Live>, shared: &Arc<Shared>, count: usize) -> Result<Vec<Desk>, String> {
    let mut desks = Vec::with_capacity(count);
    for number in 0..count {
        let (desk, handed, open) = desk();
        let (live, shared) = (live.clone(), shared.clone());
        let run = move || {
            let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = built else { return tracing::error!("a worker got no runtime") };
            let delayed_writes = DelayedWrites::default();
            let transport = shared.transport(shared.places.clone(), Some(delayed_writes.clone()));
            let worker = Arc::new(Worker::new(live, transport));
            runtime.block_on(worker.run(handed, open, shared.tls.clone(), delayed_writes));
        };
        std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(run)
            .map_err(|error| format!("no thread for a worker: {error}"))?;
        desks.push(desk);
    }
    Ok(desks)
}

impl Gateway {
    async fn run(self) -> ExitCode {
        let general = self.live.running().snapshot.general.clone();
        let late_rows = admin::LateRows::default();
        let desk = admin::Desk {
            live: self.live.clone(),
            hasher: self.hasher.clone(),
            last_reload: self.last_reload.clone(),
            reload: {
                let configuration = self.configuration.clone();
                Arc::new(move || configuration.reload())
            },
            configuring: Arc::new(self.configuration.clone()),
            objects: self.live.objects.clone(),
            late_rows: late_rows.clone(),
            attempts: admin::Attempts::default(),
            aside: admin::Aside::default(),
        };
        // Before anybody is told that it serves: a signal that nobody watches for ends the process.
        let (Some(mut stop), Ok(hangup)) = (Stop::watch(), signal(SignalKind::hangup())) else {
            return failed("signals cannot be watched for");
        };
        let data = self.data.local_addr().unwrap_or(general.listen);
        let admin = self.admin.local_addr().unwrap_or(general.admin_listen);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), %data, %admin, workers = self.desks.len(), "serving");
        if let Some(banner) = &self.banner {
            complain(banner.text((data, admin), &self.live.running().snapshot));
        }
        background(admin::serve(self.admin, desk, self.shares.admin));
        if let Err(error) = listen::keep_dealing(self.data, self.desks, self.shares.callers) {
            return failed(&format!("no thread for the acceptor: {error}"));
        }
        let gathering = self.live.clone();
        background(async move { gathering.keep_gathering().await });
        let usage_ledger = self.live.clone();
        background(async move { usage_ledger.keep_ledger_whole().await });
        let versions = self.live.kb_versions.clone();
        background(async move { versions.keep_looking().await });
        let questions = self.live.clone();
        background(async move { questions.questions.keep_taking_up().await });
        let issued = self.live.issued.clone();
        background(async move { issued.keep_writing_down().await });
        let looking = self.live.issued.clone();
        background(async move { looking.keep_looking().await });
        // Probes have places of their own: they take none from calls.
        background(gateway::background::probe::keep_probing(
            self.live.clone(),
            self.shared.transport(Arc::default(), None),
        ));
        let deliveries = self.shared.transport(Arc::default(), None);
        background(gateway::background::webhook_delivery::keep_delivering(self.live.clone(), deliveries));
        background(gateway::background::telemetry_export::keep_exporting(
            self.live.clone(),
            self.shared.transport(Arc::default(), None),
        ));
        let watching = self.configuration.clone();
        background(async move { watching.watch(hangup).await });
        stop.asked().await;
        let grace = self.live.running().snapshot.general.shutdown_grace;
        drain(&self.live, grace, &mut stop).await;
        late_rows.written(CLOSING).await;
        if late_rows.count() > 0 {
            tracing::warn!(rows = late_rows.count(), "stopping without these rows of the audit log: this log has them");
        }
        tracing::info!("stopped");
        CLEAN.into()
    }
}

/// A file that is closed at the end is waited for so long.
const CLOSING: Duration = Duration::from_secs(1);

/// Refuses new calls, lets running ones end, tells the last ones, flushes.
async fn drain(live: &Live, grace: Duration, again: &mut Stop) {
    tracing::info!(running = live.requests(), grace_s = grace.as_secs(), "draining");
    live.drain();
    let ended = async {
        // At two looks in a row: between a write that is put off and one that waits, a worker shows neither for a moment.
        let mut quiet = 0;
        while quiet < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            quiet = if live.requests() > 0 || live.unwritten() > 0 { 0 } else { quiet + 1 };
        }
    };
    let done = tokio::select! {
        done = tokio::time::timeout(grace, ended) => done.is_ok(),
        () = again.asked() => false,
    };
    if !done {
        tracing::warn!(running = live.requests(), "stopping with calls still running; they are told");
        live.cut_short();
        let told = async {
            while live.requests() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
    }
    // Answers are with hyper; a moment lets the workers write them out.
    tokio::time::sleep(Duration::from_millis(50)).await;
    write_out(live).await;
}

/// Sends and writes all that is in memory alone, and closes what it is written into. Each has its own patience.
async fn write_out(live: &Live) {
    live.gather();
    if !live.telemetry.flush(Duration::from_secs(3)).await {
        tracing::warn!("stopping without having sent all telemetry");
    }
    live.log.flush(Duration::from_secs(2));
    let ledger = &live.usage_ledger.store;
    let mut is_written = ledger.flush(Duration::from_secs(3));
    if live.usage_ledger.is_changed() {
        // Its file has come to harm just now.
        let _ = tokio::time::timeout(Duration::from_secs(3), live.ledger_is_whole()).await;
        is_written = ledger.flush(Duration::from_secs(3));
    }
    if !is_written {
        let health = ledger.health();
        let why = health.trouble.map_or_else(|| "it is slow".to_owned(), |trouble| trouble.what);
        tracing::error!(entries = health.waiting, "stopping without having written these entries of usage: {why}");
    }
    match tokio::time::timeout(Duration::from_secs(2), live.issued.write_down()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("stopping without having written down when keys were used last: {error}"),
        Err(_) => tracing::warn!("stopping without having written down when keys were used last"),
    }
    let versions = tokio::time::timeout(Duration::from_secs(2), live.kb_versions.look()).await;
    if !matches!(versions, Ok(Ok(()))) {
        tracing::warn!("stopping without knowing whether the `kb_version` that is set is written down");
    }
    if !live.answers.flush(Duration::from_secs(2)) {
        tracing::warn!("stopping without having written all that is cached");
    }
    let untold: usize = live.webhooks.shown().iter().map(|hook| hook.waiting).sum();
    if untold > 0 {
        tracing::warn!(events = untold, "stopping with events that webhooks have not been told of");
    }
    live.contents.work_off();
    if !live.records.flush(Duration::from_secs(2)) {
        let health = live.records.health();
        let (records, texts) = (health.waiting, health.contents_waiting);
        tracing::warn!(records, texts, "stopping without having written these request records and recorded texts");
    }
    // Each takes its log up, so that a folder that is copied now holds all in whole files.
    let closed =
        [ledger.close(CLOSING), live.answers.close(CLOSING), live.records.close(CLOSING)].into_iter().all(|done| done);
    if !closed {
        tracing::warn!("stopping before all files were closed: the next start takes up their logs (`-wal`)");
    }
}

/// SIGTERM and SIGINT, none of which is missed once they are watched for.
pub struct Stop {
    term: Signal,
    int: Signal,
}

impl Stop {
    /// Watches for them; `None` where the system does not let it.
    pub fn watch() -> Option<Self> {
        Some(Self { term: signal(SignalKind::terminate()).ok()?, int: signal(SignalKind::interrupt()).ok()? })
    }

    /// Waits for the next one.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

/// Starts a task of the control runtime.
fn background(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Bytes that nobody else knows: the key of this process's hashes, the secrets that it makes.
fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err("the system gives no random bytes".to_owned()),
    }
}
