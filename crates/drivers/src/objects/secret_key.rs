//! Where the key is from that secrets are sealed under.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::seal::Key;
use crate::sqlite::Failure;

/// In the data folder, where the environment gives none.
const FILE: &str = "secrets.key";

/// Where the key is from that secrets are sealed under: the environment, else a file in the data folder, which is made
/// when the first secret is sealed.
#[derive(Clone, Debug)]
pub struct SecretKey {
    given: Option<Key>,
    file: PathBuf,
}

impl SecretKey {
    /// The key that `MAI_SECRET_KEY` gives, else the one of `secrets.key` in `folder`.
    ///
    /// # Errors
    /// A sentence where what is given is no key.
    pub fn of(given: Option<&str>, folder: &Path) -> Result<Self, String> {
        let read = |text| {
            Key::read(text).ok_or_else(|| {
                "MAI_SECRET_KEY must be 64 hex digits, as `openssl rand -hex 32` makes them; set it right, or leave it \
                 unset to have a key made in the data folder"
                    .to_owned()
            })
        };
        Ok(Self { given: given.map(read).transpose()?, file: folder.join(FILE) })
    }

    /// The key, where there is one.
    pub(super) fn find(&self) -> Result<Option<Key>, Failure> {
        if let Some(given) = &self.given {
            return Ok(Some(given.clone()));
        }
        let text = match std::fs::read(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::Trouble(format!(
                    "{}, the key of secrets, cannot be read: {error}",
                    self.file.display()
                )));
            }
        };
        let key = std::str::from_utf8(&text).ok().and_then(Key::read);
        let damaged = || {
            Failure::Trouble(format!(
                "{} holds no key of secrets (64 hex digits): put a copy of it back, or remove it where nothing was kept \
                 with it yet",
                self.file.display()
            ))
        };
        key.map(Some).ok_or_else(damaged)
    }

    /// Whether there is a key in a file, be it used or not.
    pub(super) fn has_file(&self) -> bool {
        self.file.exists()
    }

    /// Where the file is, or would be.
    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// Whether it is from a file that others than its owner and group may read.
    pub(super) fn is_open_to_others(&self) -> bool {
        let mode = || std::fs::metadata(&self.file).map(|file| file.permissions().mode());
        self.given.is_none() && mode().is_ok_and(|mode| mode & 0o004 != 0)
    }

    /// Makes the file with a new key. One that is there already is left as it is, and its key taken.
    pub(super) fn make(&self) -> Result<Key, Failure> {
        let key = Key::random()?;
        match self.write(&key) {
            Ok(()) => Ok(key),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.find()?.ok_or_else(|| self.cannot_make(&error))
            }
            Err(error) => Err(self.cannot_make(&error)),
        }
    }

    fn cannot_make(&self, error: &io::Error) -> Failure {
        Failure::Trouble(format!(
            "{}, the key of secrets, cannot be made: {error}; mend that, or set MAI_SECRET_KEY to 64 hex digits",
            self.file.display()
        ))
    }

    /// Writes it whole and for good, or not at all: it gets its name once it is on the disk.
    fn write(&self, key: &Key) -> io::Result<()> {
        let beside = self.file.with_extension("key.new");
        // What a process left behind that ended half way.
        let _ = std::fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let written = writeln!(file, "{}", key.written())
            .and_then(|()| file.sync_all())
            // Unlike a renaming it never replaces what is there.
            .and_then(|()| std::fs::hard_link(&beside, &self.file));
        let _ = std::fs::remove_file(&beside);
        written?;
        self.file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    /// Why what was sealed cannot be opened with the key that is there, or without any, and what to do.
    pub(super) fn does_not_open(&self, database: &Path, is_there: bool) -> Failure {
        let (database, file) = (database.display(), self.file.display());
        Failure::Trouble(match (&self.given, is_there) {
            (Some(_), _) => format!(
                "MAI_SECRET_KEY is not the key that the secrets in {database} are sealed with: set the right one, or leave \
                 it unset where they were sealed with {file}; nothing is lost"
            ),
            (None, true) => format!(
                "{file} is not the key that the secrets in {database} are sealed with: put the right file back, or set \
                 MAI_SECRET_KEY where they were sealed with that; nothing is lost"
            ),
            (None, false) => format!(
                "{file}, the key that the secrets in {database} are sealed with, is missing: put that file back, or set \
                 MAI_SECRET_KEY where they were sealed with that; nothing is lost"
            ),
        })
    }
}
