//! Reloads: by signal, by a change of a watched file, by the admin API. A bad new configuration
//! changes nothing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin::{LastReload, Reloaded};
use base::KeyHasher;
use config::{Overrides, Source};
use gateway::live::Live;
use tokio::signal::unix::Signal;

use crate::check;
use crate::logging::{Level, Mask};
use crate::shared::{Shared, secrets};

/// What is needed to read the configuration again.
pub struct Reloader {
    /// Where it is.
    pub source: Source,
    /// What beats it.
    pub overrides: Overrides,
    /// Hashes its keys.
    pub hasher: KeyHasher,
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
    /// The ports as they were opened: data, admin.
    pub ports: (SocketAddr, SocketAddr),
    /// The ledger's file as it was opened.
    pub database: PathBuf,
    /// How much is logged.
    pub level: Level,
}

/// Every file and folder behind the configuration, as it was when it was last read.
#[derive(Debug)]
pub struct Watched(Mutex<HashMap<PathBuf, Look>>);

impl Watched {
    /// These, as they are now.
    #[must_use]
    pub fn now(files: Vec<PathBuf>) -> Self {
        let watched = Self(Mutex::default());
        watched.read(files, HashMap::new());
        watched
    }

    fn look(&self) -> HashMap<PathBuf, Look> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.keys().map(|path| (path.clone(), Look::at(path))).collect()
    }

    /// These were read after that look was taken: a change since then is a change.
    fn read(&self, files: Vec<PathBuf>, mut before: HashMap<PathBuf, Look>) {
        let look = |path: PathBuf| {
            let look = before.remove(&path).unwrap_or_else(|| Look::at(&path));
            (path, look)
        };
        let looks = files.into_iter().map(look).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = looks;
    }

    fn are(&self, looks: &HashMap<PathBuf, Look>) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == *looks
    }
}

/// Files are looked at this often: polling sees what inotify does not (network and overlay file
/// systems, the symlink swaps of Kubernetes) and costs a few system calls a second.
const LOOK: Duration = Duration::from_millis(100);
/// A change is read once it has been still for so long.
const STILL: Duration = Duration::from_millis(300);

impl Reloader {
    /// Reads the configuration again.
    ///
    /// # Errors
    /// Every problem; the old configuration keeps serving.
    pub fn reload(&self) -> Reloaded {
        let before = self.watched.look();
        let reloaded = self.try_reload(before);
        self.live.metrics.reloaded(reloaded.is_ok());
        match &reloaded {
            Ok(summary) => {
                tracing::info!("reloaded: {summary}");
                self.last.note(Vec::new());
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!("not reloaded, the old configuration keeps serving: {problem}");
                }
                self.last.note(problems.clone());
            }
        }
        reloaded
    }

    fn try_reload(&self, before: HashMap<PathBuf, Look>) -> Reloaded {
        let loaded = config::load_with(&self.source, self.overrides.clone(), &check::env, &self.hasher);
        let files = match &loaded {
            Ok(loaded) => &loaded.files,
            Err(errors) => &errors.files,
        };
        self.watched.read(files.clone(), before);
        let loaded = loaded.map_err(|errors| errors.problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        self.shared.refresh(&loaded.snapshot).map_err(|problem| vec![problem])?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let general = &loaded.snapshot.general;
        self.level.set(&general.log_level);
        if self.ports != (general.listen, general.admin_listen) {
            tracing::warn!("`listen` or `admin.listen` has changed: that takes a restart");
        }
        if self.database != general.database {
            tracing::warn!("`database` or `data_dir` has changed: that takes a restart");
        }
        let summary = config::summary(&loaded.snapshot);
        self.mask.set(secrets(&loaded.snapshot));
        self.live.put_in_force(loaded.snapshot);
        Ok(summary)
    }

    /// Reloads on SIGHUP and on changes of the watched files, for ever.
    pub async fn watch(&self, mut hangup: Signal) {
        let mut last = self.watched.look();
        let mut still_since = base::Clock.now();
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = hangup.recv() => drop(self.reload()),
                _ = tick.tick() => {
                    let now = base::Clock.now();
                    let looks = self.watched.look();
                    if looks != last {
                        last = looks;
                        still_since = now;
                    } else if now.duration_since(still_since) >= STILL && !self.watched.are(&looks) {
                        drop(self.reload());
                    }
                }
            }
        }
    }
}

/// What tells one state of a file or folder from another without reading it.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    /// Of what the path leads to: device, inode, size, change time; `None` where nothing is.
    target: Option<(u64, u64, u64, i64, i64)>,
    /// Where a symbolic link points.
    link: Option<PathBuf>,
    /// The names in a folder.
    names: Vec<PathBuf>,
}

impl Look {
    fn at(path: &Path) -> Self {
        let target = std::fs::metadata(path).ok().map(|meta| {
            // A folder's change time moves with every file in it that is not ours.
            let time = if meta.is_dir() { (0, 0) } else { (meta.ctime(), meta.ctime_nsec()) };
            (meta.dev(), meta.ino(), meta.len(), time.0, time.1)
        });
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        names.sort();
        Self { target, link: std::fs::read_link(path).ok(), names }
    }
}
