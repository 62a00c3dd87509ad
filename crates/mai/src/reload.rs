//! Reloads: by signal, by a change of a watched file, by the admin API. A bad new configuration
//! changes nothing.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin::{LastReload, Reloaded};
use base::KeyHasher;
use config::{Overrides, Source};
use gateway::live::Live;
use tokio::signal::unix::{SignalKind, signal};

use crate::check;
use crate::logging::Mask;
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
    pub files: Mutex<Vec<PathBuf>>,
    /// Whether there is anything to watch.
    pub watches: bool,
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
        let reloaded = self.try_reload();
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

    fn try_reload(&self) -> Reloaded {
        let loaded = config::load_with(&self.source, self.overrides.clone(), &check::env, &self.hasher)
            .map_err(|errors| errors.problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        self.shared.refresh(&loaded.snapshot).map_err(|problem| vec![problem])?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let running = self.live.running();
        let (old, new) = (&running.snapshot.general, &loaded.snapshot.general);
        if (old.listen, old.admin_listen) != (new.listen, new.admin_listen) {
            tracing::warn!("`listen` or `admin.listen` has changed: that takes a restart");
        }
        let summary = config::summary(&loaded.snapshot);
        self.mask.set(secrets(&loaded.snapshot));
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = loaded.files;
        self.live.put_in_force(loaded.snapshot);
        Ok(summary)
    }

    /// Reloads on SIGHUP and on changes of the watched files, for ever.
    pub async fn watch(&self) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else {
            return tracing::error!("SIGHUP cannot be watched for");
        };
        let mut seen = self.look();
        let mut changed_at = None;
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    seen = self.look();
                    changed_at = None;
                    drop(self.reload());
                }
                _ = tick.tick(), if self.watches => {
                    let now = base::Clock.now();
                    let looks = self.look();
                    if looks != seen {
                        seen = looks;
                        changed_at = Some(now);
                    } else if changed_at.is_some_and(|at| now.duration_since(at) >= STILL) {
                        changed_at = None;
                        drop(self.reload());
                        seen = self.look();
                    }
                }
            }
        }
    }

    fn look(&self) -> Vec<Look> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|path| Look::at(path)).collect()
    }
}

/// What tells one state of a file or folder from another without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Look {
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
