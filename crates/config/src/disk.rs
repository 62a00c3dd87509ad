//! Reading files that may lie on a disk that does not answer.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A file is waited for so long. It is some megabytes at most, and whoever changes the configuration waits with it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Files that are still being read after that, at most.
const MOST_READING: usize = 16;
const SILENT: &str = "cannot be read: the disk that it lies on has not answered";

/// Reads files, each on a thread of its own: one that does not come is left to its thread, and not asked for again
/// before that has ended.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<HashSet<PathBuf>>>);

impl Disk {
    fn reading(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A whole regular file, up to a bound.
    ///
    /// # Errors
    /// Why not, to be put behind the file's name.
    pub(crate) fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, String> {
        self.within(PATIENCE, path, move |path| read_capped(path, most))
    }

    fn within(
        &self,
        patience: Duration,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Vec<u8>, String> {
        let mut reading = self.reading();
        if reading.len() >= MOST_READING || !reading.insert(path.to_owned()) {
            return Err(SILENT.to_owned());
        }
        drop(reading);
        let (told, heard) = sync_channel(1);
        let (this, of) = (self.clone(), path.to_owned());
        let reads = move || {
            let read = read(&of);
            this.reading().remove(&of);
            let _ = told.send(read);
        };
        if let Err(error) = std::thread::Builder::new().name("file".to_owned()).spawn(reads) {
            self.reading().remove(path);
            return Err(format!("cannot be read: no thread for that: {error}"));
        }
        let late = |_| Err(format!("{SILENT} within {} s", patience.as_secs()));
        heard.recv_timeout(patience).unwrap_or_else(late)
    }
}

/// Why a file cannot be read and what to do, to be put behind its name.
#[must_use]
pub fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "is not there; check its path".to_owned(),
        ErrorKind::NotADirectory => "is not there: a part of its path is a file; check its path".to_owned(),
        ErrorKind::IsADirectory => "is a folder; name a file in it".to_owned(),
        ErrorKind::PermissionDenied => "may not be read by this user; give it the right to (chmod, chown)".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

fn read_capped(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    const IRREGULAR: &str = "cannot be read: it is not a regular file; put one, or a link to one, in its place";
    let unreadable = |error: std::io::Error| match error.kind() {
        // Some of /proc look like regular files, and have no end.
        ErrorKind::WouldBlock => IRREGULAR.to_owned(),
        ErrorKind::NotFound if path.is_symlink() => "is a link that leads nowhere; mend it or remove it".to_owned(),
        _ => unreadable(&error),
    };
    // A pipe or a device would be waited for without end; to open one may be more than to look at it.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(IRREGULAR.to_owned());
    }
    let file = open(path).map_err(unreadable)?;
    // It may be another one by now.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(IRREGULAR.to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(format!("is larger than {} MiB", most >> 20));
    }
    Ok(bytes)
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::SyncSender;

    use super::*;

    const NOW: Duration = Duration::from_millis(20);

    /// Somebody reads a file that does not come before the sender is dropped.
    fn hang(disk: &Disk, path: &str) -> (SyncSender<()>, Result<Vec<u8>, String>) {
        let (released, release) = sync_channel::<()>(1);
        let read = move |_: &Path| {
            let _ = release.recv();
            Ok(Vec::new())
        };
        (released, disk.within(NOW, Path::new(path), read))
    }

    #[test]
    fn a_file_that_does_not_come_is_not_waited_for_and_not_asked_for_again_until_it_has_come() {
        let disk = Disk::default();
        let (released, read) = hang(&disk, "slow");
        assert_eq!(read.unwrap_err(), format!("{SILENT} within 0 s"));
        let again = disk.within(Duration::MAX, Path::new("slow"), |_| unreachable!("it is still being read"));
        assert_eq!(again.unwrap_err(), SILENT);
        assert_eq!(disk.within(Duration::MAX, Path::new("other"), |_| Ok(vec![1])), Ok(vec![1]));
        drop(released);
        while !disk.reading().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(disk.within(Duration::MAX, Path::new("slow"), |_| Ok(vec![2])), Ok(vec![2]));
    }

    #[test]
    fn so_many_threads_are_left_behind_and_no_more() {
        let disk = Disk::default();
        let hangs: Vec<_> = (0..MOST_READING).map(|count| hang(&disk, &count.to_string())).collect();
        let one_more = disk.within(Duration::MAX, Path::new("one more"), |_| Ok(Vec::new()));
        assert_eq!(one_more.unwrap_err(), SILENT);
        drop(hangs);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        for path in ["/dev/zero", "/dev/null", "/"] {
            assert_eq!(
                Disk::default().read(Path::new(path), 1).unwrap_err(),
                "cannot be read: it is not a regular file; put one, or a link to one, in its place"
            );
        }
    }
}
