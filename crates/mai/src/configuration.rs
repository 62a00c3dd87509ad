//! Holds the configuration: the last sound state of its files, and what the admin API adds to it. One thing is
//! changed at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin::{Changed, Configuring, Doing, Export, LastReload, NotChanged, Reloaded, Told, Wish};
use base::KeyHasher;
use config::{
    Added, ClientKey, ConfigErrors, Disk, Files, Loaded, Overrides, Problem, Snapshot, Source, Whole, Written,
};
use gateway::live::Live;
use state::objects::{Change, Deed, IssuedKey, Kept};
use state::{Objects, Unreadable};
use tokio::sync::MutexGuard;
use tokio::task::JoinError;

use crate::check;
use crate::holdings::{Holdings, news, places};
use crate::logging::{Level, Mask};
use crate::shared::Shared;
use crate::watched::Watched;

/// A share of it.
#[derive(Clone)]
pub struct Configuration(Arc<Inner>);

struct Inner {
    origin: Origin,
    parts: Parts,
    /// The ports, the ledger's file and the data folder as they were opened.
    opened: Opened,
    /// What is in force, for whoever looks at it.
    shown: Mutex<Shown>,
    /// Held while something is changed, and so across waits. Each of those has a deadline.
    changing: tokio::sync::Mutex<State>,
}

/// Where a configuration comes from.
#[derive(Clone)]
pub struct Origin {
    /// Where its files are.
    pub source: Source,
    /// What beats them.
    pub overrides: Overrides,
    /// Hashes its keys.
    pub hasher: KeyHasher,
    /// Reads them, and the files that they name.
    pub disk: Disk,
}

/// Who is told of another configuration.
pub struct Parts {
    /// Learns its secrets.
    pub mask: Mask,
    /// Takes it into force.
    pub live: Arc<Live>,
    /// Certificates and names.
    pub shared: Arc<Shared>,
    /// Shown by `/readyz`.
    pub last: LastReload,
    /// What is watched.
    pub watched: Watched,
    /// How much is logged.
    pub level: Level,
}

/// What takes a restart to change.
#[derive(PartialEq, Eq)]
struct Opened {
    ports: (std::net::SocketAddr, std::net::SocketAddr),
    stores: (std::path::PathBuf, std::path::PathBuf),
}

impl Opened {
    fn of(snapshot: &Snapshot) -> Self {
        let general = &snapshot.general;
        Self {
            ports: (general.listen, general.admin_listen),
            stores: (general.database.clone(), general.data_dir.clone()),
        }
    }
}

#[derive(Clone)]
struct Shown {
    written: Arc<Written>,
    whole: Whole,
}

/// What the next change begins with.
struct State {
    sound: Files,
    held: Holdings,
    /// A change was asked of the store and not answered in time, so that it may have been made; or it was made and has
    /// not come into force. It stays so until what is kept is in force.
    is_uncertain: bool,
    /// Somebody is finding out.
    is_sought: bool,
    /// Why nobody has found out.
    trouble: Option<String>,
    /// What kept the last reload from being made.
    refused: Vec<String>,
    /// Those in force.
    warnings: Vec<Problem>,
}

/// A configuration that was compiled, and is not in force yet.
pub struct Compiled {
    /// What it means.
    pub loaded: Loaded,
    held: Holdings,
    shown: Shown,
}

/// What is held first.
pub struct First {
    opened: Opened,
    shown: Shown,
    state: State,
}

impl Compiled {
    /// The first configuration is taken into force by whoever makes the process's state.
    #[must_use]
    pub fn first(self) -> (Snapshot, First) {
        let Self { loaded: Loaded { snapshot, warnings, sound, .. }, held, shown } = self;
        let state =
            State { sound, held, warnings, is_uncertain: false, is_sought: false, trouble: None, refused: Vec::new() };
        let first = First { opened: Opened::of(&snapshot), shown, state };
        (snapshot, first)
    }
}

/// The store may think about one question so long. SQLite itself waits five seconds for a lock.
const PATIENCE: Duration = Duration::from_secs(10);

impl Origin {
    /// Reads its files.
    ///
    /// # Errors
    /// What keeps them from being read.
    pub fn read(&self) -> Result<Files, ConfigErrors> {
        Files::read_from(&self.disk, &self.source, self.overrides.clone(), &check::env)
    }

    /// Puts to files what the admin API has made.
    ///
    /// # Errors
    /// Every problem at once.
    pub fn compile(&self, files: &Files, held: Holdings) -> Result<Compiled, ConfigErrors> {
        let objects = held.objects();
        let loaded = files.with(Added { objects: &objects }, &self.hasher)?;
        let shown = Shown { written: Arc::new(loaded.whole.written()), whole: loaded.whole.clone() };
        Ok(Compiled { loaded, held, shown })
    }
}

/// Everything that is kept, for a start: what is put to the files, and issued keys.
///
/// # Errors
/// A sentence. Without what was made there, the gateway would refuse callers that it knows.
pub async fn kept(objects: &dyn Objects) -> Result<(Holdings, Vec<IssuedKey>), String> {
    let told = match ask(objects).await {
        Ok(mut kept) => {
            let keys = std::mem::take(&mut kept.keys);
            return Ok((Holdings::from(kept), keys));
        }
        Err(Unreadable(told)) => told,
    };
    Err(format!(
        "what was made through the admin API cannot be read: {told}. Without it callers that are known would be \
         refused: mend that, or name another data folder (`data_dir`, --data-dir)"
    ))
}

async fn all(objects: &dyn Objects) -> Result<Holdings, Unreadable> {
    ask(objects).await.map(Holdings::from)
}

async fn ask(objects: &dyn Objects) -> Result<Kept, Unreadable> {
    tokio::time::timeout(PATIENCE, objects.all()).await.unwrap_or_else(|_| Err(silent()))
}

fn hashed(key: IssuedKey) -> ClientKey {
    ClientKey { client: key.client, sha256: key.digest.0, expires: key.expires }
}

fn silent() -> Unreadable {
    Unreadable(format!("the store has not answered within {} s", PATIENCE.as_secs()))
}

/// Reading and checking a configuration may take so long.
const READING: Duration = Duration::from_secs(60);

/// Work that takes long, on a thread of its own.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unreadable> {
    tokio::task::spawn_blocking(work).await.map_err(|error| fault(&error))
}

/// The same for work that reads files. One that lies on a disk that does not answer is not waited for without end: its
/// thread is left behind.
async fn read_aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unreadable> {
    tokio::time::timeout(READING, aside(work)).await.unwrap_or_else(|_| {
        Err(Unreadable(format!(
            "the configuration was not read within {} s; a file that it names (`ca`, `tokenizer`, `tls`, `prices`) may \
             lie on a disk that does not answer",
            READING.as_secs()
        )))
    })
}

impl Configuration {
    /// Holds what was compiled first and is in force already.
    #[must_use]
    pub fn new(origin: Origin, parts: Parts, first: First) -> Self {
        let First { opened, shown, state } = first;
        let inner = Inner { origin, parts, opened, shown: Mutex::new(shown), changing: tokio::sync::Mutex::new(state) };
        Self(Arc::new(inner))
    }

    /// What is watched.
    #[must_use]
    pub fn watched(&self) -> &Watched {
        &self.0.parts.watched
    }

    /// Reads the files again. What has begun is brought to its end.
    ///
    /// # Errors
    /// Every problem; the old configuration keeps serving.
    pub fn reload(&self) -> Doing<Reloaded> {
        let this = self.clone();
        let reloading = tokio::spawn(async move { this.do_reload().await });
        Box::pin(
            async move { reloading.await.unwrap_or_else(|error| Err(vec![Told::general(fault(&error).to_string())])) },
        )
    }

    async fn do_reload(&self) -> Reloaded {
        let mut state = self.0.changing.lock().await;
        // Where it cannot be known now what is kept, what was known is put to the files.
        let kept = if state.is_uncertain { all(&*self.0.parts.live.objects).await.ok() } else { None };
        let is_known = kept.is_some();
        let held = kept.unwrap_or_else(|| state.held.clone());
        let reloaded = self.try_reload(&mut state, held).await;
        if is_known {
            match &reloaded {
                Ok(_) => state.is_uncertain = false,
                // With the files as they were it may be sound. Else whoever finds out says why it is not.
                Err(_) => drop(self.settle(&mut state).await),
            }
        }
        let parts = &self.0.parts;
        parts.live.metrics.reloaded(reloaded.is_ok());
        match &reloaded {
            Ok(summary) => {
                tracing::info!("reloaded: {summary}");
                state.refused.clear();
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!("not reloaded, the old configuration keeps serving: {problem}");
                }
                state.refused = problems.iter().map(ToString::to_string).collect();
            }
        }
        self.tell(&state);
        reloaded
    }

    async fn try_reload(&self, state: &mut MutexGuard<'_, State>, held: Holdings) -> Reloaded {
        let this = self.clone();
        let read = move || {
            let Inner { origin, parts, .. } = &*this.0;
            let before = parts.watched.look();
            let compiled = origin.read().and_then(|files| origin.compile(&files, held));
            let files = match &compiled {
                Ok(compiled) => &compiled.loaded.files,
                Err(errors) => &errors.files,
            };
            parts.watched.read(files.clone(), before);
            compiled
        };
        let compiled = read_aside(read).await.map_err(|Unreadable(fault)| vec![Told::general(fault)])?;
        let compiled = compiled.map_err(|errors| {
            log_causes(&errors.problems);
            errors.problems.iter().map(Told::from).collect::<Vec<_>>()
        })?;
        self.0.parts.shared.refresh(&compiled.loaded.snapshot).map_err(|problem| vec![Told::general(problem)])?;
        for warning in &compiled.loaded.warnings {
            tracing::warn!("{warning}");
        }
        let snapshot = &compiled.loaded.snapshot;
        self.0.parts.level.set(&snapshot.general.log_level);
        let wanted = Opened::of(snapshot);
        if wanted.ports != self.0.opened.ports {
            tracing::warn!("`listen` or `admin.listen` has changed: that takes a restart");
        }
        if wanted.stores != self.0.opened.stores {
            tracing::warn!("`database` or `data_dir` has changed: that takes a restart");
        }
        let summary = config::summary(snapshot);
        self.put_in_force(state, compiled).await.map_err(|Unreadable(fault)| vec![Told::general(fault)])?;
        Ok(summary)
    }

    /// Takes a configuration into force.
    async fn put_in_force(&self, state: &mut MutexGuard<'_, State>, compiled: Compiled) -> Result<(), Unreadable> {
        let Compiled { loaded, held, shown } = compiled;
        let Loaded { snapshot, warnings, sound, .. } = loaded;
        let this = self.clone();
        aside(move || {
            let Parts { mask, live, shared, .. } = &this.0.parts;
            mask.set(snapshot.secrets());
            shared.places.come_under(&snapshot.providers);
            live.put_in_force(snapshot);
            *this.0.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        })
        .await?;
        (state.sound, state.held, state.warnings) = (sound, held, warnings);
        Ok(())
    }

    async fn do_change(&self, wish: Wish) -> Result<Changed, NotChanged> {
        let mut state = self.0.changing.lock().await;
        let settled = self.settle(&mut state).await.map_err(NotChanged::Unkept);
        let (this, sound, mut held) = (self.clone(), state.sound.clone(), state.held.clone());
        let now = base::Clock.wall();
        let (changes, mut deed) = (wish.changes, wish.deed);
        deed.at = if deed.at.is_zero() { now } else { deed.at };
        if !changes.is_empty() && changes.iter().all(|(_, change)| is_of_a_key(change)) {
            // Issued keys stand beside the configuration: nothing is compiled for them, and one is taken back whatever
            // else is not settled.
            let written = self.written();
            let made = held.make(changes, &written, now)?;
            if !wish.dry_run {
                self.keep(&mut state, made, vec![deed]).await?;
                state.held = held;
            }
            return Ok(Changed { before: written.clone(), written, warnings: Vec::new() });
        }
        settled?;
        let put = places(&changes);
        let compile = move || {
            let before = this.written();
            let issued = &this.0.parts.live.issued;
            let made = held.make(changes, &before, now)?;
            if made.is_empty() {
                return Ok(None);
            }
            let owned = owned::warnings(issued, &made, &before);
            let compiled = this.0.origin.compile(&sound, held).map_err(|errors| {
                log_causes(&errors.problems);
                NotChanged::Unsound(errors.problems)
            })?;
            let deeds = rows::of(deed, &made, (&before, &compiled.shown.written), issued);
            Ok(Some((before, (made, deeds), owned, compiled)))
        };
        let compiled = read_aside(compile).await.map_err(NotChanged::Unkept)??;
        let Some((before, (made, deeds), owned, compiled)) = compiled else {
            // All of it is so already: nothing to keep, to write down or to put in force.
            let (written, warnings) = (self.written(), news(&state.warnings, &state.warnings, &put));
            return Ok(Changed { before: written.clone(), written, warnings });
        };
        let warnings = [owned, news(&compiled.loaded.warnings, &state.warnings, &put)].concat();
        let changed = Changed { before, written: compiled.shown.written.clone(), warnings };
        if wish.dry_run {
            return Ok(changed);
        }
        let told = deeds.last().map(|deed| format!("{} {} by {}", deed.action, deed.object, deed.who));
        self.keep(&mut state, made, deeds).await?;
        if let Err(fault) = self.put_to_files_in_force(&mut state, compiled).await {
            return Err(self.lose_sight(&mut state, fault));
        }
        tracing::info!("changed: {}", told.unwrap_or_default());
        for warning in &changed.warnings {
            tracing::warn!("{warning}");
        }
        Ok(changed)
    }

    /// Has changes kept, with the deeds.
    async fn keep(
        &self,
        state: &mut MutexGuard<'_, State>,
        made: Vec<Change>,
        deeds: Vec<Deed>,
    ) -> Result<(), NotChanged> {
        let keeping = self.0.parts.live.objects.change(made, deeds);
        match tokio::time::timeout(PATIENCE, keeping).await {
            Ok(kept) => kept.map_err(NotChanged::Unkept),
            Err(_) => Err(self.lose_sight(state, silent())),
        }
    }

    /// Finds out as soon as that can be, however long it takes.
    fn find_out(&self, state: &mut MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.is_sought, true) {
            return;
        }
        let this = self.clone();
        drop(tokio::spawn(async move {
            loop {
                tokio::time::sleep(settling::AGAIN).await;
                let mut state = this.0.changing.lock().await;
                let trouble = this.settle(&mut state).await.err().map(|Unreadable(why)| {
                    format!("a change through the admin API may have been kept, and is not in force: {why}")
                });
                state.is_sought = trouble.is_some();
                if trouble != state.trouble {
                    match &trouble {
                        Some(trouble) => tracing::error!("{trouble}"),
                        None => tracing::info!("what was changed through the admin API is in force again"),
                    }
                    state.trouble = trouble;
                    this.tell(&state);
                }
                if !state.is_sought {
                    return;
                }
            }
        }));
    }
}

/// What the log alone is told of problems.
fn log_causes(problems: &[Problem]) {
    for problem in problems {
        if let Some(cause) = &problem.cause {
            tracing::warn!("{problem}: {cause}");
        }
    }
}

const fn is_of_a_key(change: &Change) -> bool {
    matches!(change, Change::Issue(_) | Change::Revoke(_))
}

impl Configuring for Configuration {
    fn written(&self) -> Arc<Written> {
        self.0.shown.lock().unwrap_or_else(PoisonError::into_inner).written.clone()
    }

    fn change(&self, wish: Wish) -> Doing<Result<Changed, NotChanged>> {
        let this = self.clone();
        let changing = tokio::spawn(async move { Box::pin(this.do_change(wish)).await });
        Box::pin(async move { changing.await.unwrap_or_else(|error| Err(NotChanged::Unkept(fault(&error)))) })
    }

    fn export(&self, with_key_hashes: bool) -> Doing<Result<Export, Unreadable>> {
        let this = self.clone();
        Box::pin(async move {
            let keys = if with_key_hashes { ask(&*this.0.parts.live.objects).await?.keys } else { Vec::new() };
            let keys: Vec<ClientKey> = keys.into_iter().map(hashed).collect();
            let whole = this.0.shown.lock().unwrap_or_else(PoisonError::into_inner).whole.clone();
            Ok(Box::new(move || whole.export(&keys)) as Export)
        })
    }
}

fn fault(error: &JoinError) -> Unreadable {
    Unreadable(format!("this is a fault of the gateway: {error}"))
}

mod owned;
mod rows;
mod settling;
#[cfg(test)]
mod tests;
