//! The data folder belongs to one gateway at a time: two would write over each other's changes without a word.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::file::{PARTS, with_suffix};

/// What is kept in the folder whatever the configuration says; the ledger may lie elsewhere.
const OWN: [&str; 7] = [LOCK, "secrets.key", "objects.db", "requests.db", "contents.db", "cache.db", "kb-versions.db"];

/// What is locked. It stays in the folder, empty, whether somebody has it locked or not.
const LOCK: &str = "gateway.lock";

/// A data folder that is this process's own until this is dropped or the process ends, however that comes.
#[derive(Debug)]
pub struct DataFolder {
    _locks: Vec<File>,
    unlocked: Option<String>,
}

impl DataFolder {
    /// Takes the folder, which is made where it is missing. Where that, or a lock, cannot be had for another reason
    /// than that somebody holds it (a disk that is full or may not be written, a file system that knows no locks), the
    /// folder is used all the same.
    ///
    /// # Errors
    /// Another gateway has it, or one of our files in it is none.
    pub fn take(folder: &Path) -> Result<Self, String> {
        OWN.iter().try_for_each(|own| is_file_or_missing(&folder.join(own)))?;
        // What cannot be made is told by the opening.
        let _ = std::fs::create_dir_all(folder);
        let path = folder.join(LOCK);
        // The folder itself is locked too, since anybody may remove the file; and the file, since older versions lock
        // that alone, and not every file system locks a folder.
        let (file, whole) = (lock(open(&path)), lock(File::open(folder)));
        if let (Err(TryLockError::WouldBlock), _) | (_, Err(TryLockError::WouldBlock)) = (&file, &whole) {
            return Err(format!(
                "the data folder {} is another gateway's, which runs: each would overwrite what the other keeps there. \
                 Stop that one, or give this one a folder of its own with `data_dir`, --data-dir or MAI_DATA_DIR",
                folder.display()
            ));
        }
        let unlocked = match &file {
            Err(TryLockError::Error(error)) => Some(format!("{}: {error}", path.display())),
            _ => None,
        };
        Ok(Self { _locks: file.into_iter().chain(whole).collect(), unlocked })
    }

    /// Why others are not kept out; `None` where they are.
    #[must_use]
    pub fn unlocked(&self) -> Option<&str> {
        self.unlocked.as_deref()
    }
}

/// Whether a file of ours, with what SQLite keeps beside it, is a regular one, or a link to one, or not there yet. To open
/// a pipe is to wait for whoever writes into it, without end.
///
/// # Errors
/// The name of what is something else, and what to do.
pub fn is_file_or_missing(path: &Path) -> Result<(), String> {
    for part in PARTS.map(|part| with_suffix(path, part)) {
        // What cannot be looked at is told by the opening.
        if std::fs::metadata(&part).is_ok_and(|found| !found.is_file()) {
            return Err(format!(
                "{} is not a regular file, but the gateway keeps one there: move it away, and a new one is made, or put \
                 the file back",
                part.display()
            ));
        }
    }
    Ok(())
}

fn lock(opened: io::Result<File>) -> Result<File, TryLockError> {
    let file = opened.map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

/// A lock needs no file that may be written; some network file systems want one.
fn open(path: &Path) -> io::Result<File> {
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    made.or_else(|error| File::open(path).map_err(|_| error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Folder;

    #[test]
    fn a_folder_is_one_gateways_until_it_lets_go() {
        let folder = std::env::temp_dir().join(format!("mai-folder-{}", std::process::id()));
        let one = DataFolder::take(&folder).unwrap();
        assert_eq!(one.unlocked(), None);
        let told = DataFolder::take(&folder).unwrap_err();
        assert!(told.contains(&folder.display().to_string()) && told.contains("--data-dir"), "{told}");
        std::fs::remove_file(folder.join(LOCK)).unwrap();
        assert!(DataFolder::take(&folder).is_err(), "also where somebody has removed the file");
        drop(one);
        drop(DataFolder::take(&folder).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_file_where_one_of_ours_belongs_is_named_and_not_opened() {
        let folder = Folder::new();
        for name in OWN.iter().flat_map(|own| PARTS.map(|part| format!("{own}{part}"))) {
            let file = folder.at(&name);
            std::os::unix::fs::symlink("/dev/null", &file).unwrap();
            let told = DataFolder::take(&folder.0).unwrap_err();
            assert!(told.starts_with(&format!("{} is not a regular file", file.display())), "{told}");
            std::fs::remove_file(&file).unwrap();
        }
        std::fs::write(folder.at("elsewhere.db"), "").unwrap();
        std::os::unix::fs::symlink(folder.at("elsewhere.db"), folder.at("objects.db")).unwrap();
        drop(DataFolder::take(&folder.0).expect("a link to a file will do"));
    }

    #[test]
    fn a_folder_that_cannot_be_locked_is_used_all_the_same() {
        let folder = std::env::temp_dir().join(format!("mai-unlocked-{}", std::process::id()));
        // Nothing can be made in a file, whoever tries.
        std::fs::write(&folder, "").unwrap();
        let taken = DataFolder::take(&folder).unwrap();
        assert!(taken.unlocked().unwrap().contains(LOCK));
        std::fs::remove_file(&folder).unwrap();
    }
}
