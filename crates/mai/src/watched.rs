//! The files and folders behind the configuration, as they were when they were read.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every file and folder behind the configuration, as it was when it was last read.
#[derive(Debug, Default)]
pub struct Watched(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    /// Those of the files.
    read: HashMap<PathBuf, Look>,
    /// Those that objects of the admin API name besides.
    named: HashMap<PathBuf, Look>,
}

impl Looks {
    fn all(&self) -> impl Iterator<Item = (&PathBuf, &Look)> {
        self.read.iter().chain(&self.named)
    }
}

impl Watched {
    /// These, as they are now.
    #[must_use]
    pub fn now(files: Vec<PathBuf>) -> Self {
        let watched = Self::default();
        watched.read(files, HashMap::new());
        watched
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each of them as it is now.
    #[must_use]
    pub fn look(&self) -> HashMap<PathBuf, Look> {
        let paths: Vec<PathBuf> = self.looks().all().map(|(path, _)| path.clone()).collect();
        paths.into_iter().map(|path| (path.clone(), Look::at(&path))).collect()
    }

    /// These were read after that look was taken: a change since then is a change.
    pub fn read(&self, files: Vec<PathBuf>, mut before: HashMap<PathBuf, Look>) {
        let look = |path: PathBuf| {
            let look = before.remove(&path).unwrap_or_else(|| Look::at(&path));
            (path, look)
        };
        let read = files.into_iter().map(look).collect();
        *self.looks() = Looks { read, named: HashMap::new() };
    }

    /// Of these, those that were not read with the files are watched too, from now on, instead of others of their
    /// kind. What is watched already is not looked at: a change of it may be waiting to be read.
    pub fn also(&self, files: &[PathBuf]) {
        let mut looks = self.looks();
        let mut known = std::mem::take(&mut looks.named);
        let named = files.iter().filter(|path| !looks.read.contains_key(*path));
        let named = named.map(|path| (path.clone(), known.remove(path).unwrap_or_else(|| Look::at(path))));
        looks.named = named.collect();
    }

    /// Whether they still look like this.
    #[must_use]
    pub fn are(&self, seen: &HashMap<PathBuf, Look>) -> bool {
        let looks = self.looks();
        looks.all().count() == seen.len() && looks.all().all(|(path, look)| seen.get(path) == Some(look))
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
