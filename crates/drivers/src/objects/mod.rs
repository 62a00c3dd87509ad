//! Objects of the admin API, issued keys and the audit log, in an SQLite file of their own.
//!
//! **What is promised.** What was changed is on the disk when it is told to be: every commit waits for `fsync` (WAL with
//! `synchronous = FULL`). A full disk, a lock held for longer than five seconds or a damaged file is an error, and
//! nothing has changed. The file is never set aside or begun anew: what is wrong with it is told. One that cannot be
//! written is still read. Secrets stand in
//! it sealed alone (see [`seal`]); names, notes and the audit log, which hold none, stand in the open.

mod newest;
mod rows;
mod schema;
mod seal;
mod secret_key;
mod standing;
#[cfg(test)]
mod tests;
mod write;

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::ObjectKind;
use rusqlite::{Connection, MAIN_DB, OptionalExtension as _, TransactionBehavior};
use state::objects::{Change, Deed, Deeds, Kept};
use state::{Answer, Objects, Trouble, Unreadable};

use crate::file::{close_to_others, identity};
use crate::sqlite::{Asking, Failure, connect, known_version, migrate_by, read_all_the_same};
use newest::Newest;
use rows::{deeds, gone, keys, objects};
use seal::{Key, Seal};
use standing::{OUT, Standing, Wanted};

pub use secret_key::SecretKey;

/// How long SQLite itself tries again where another process holds a lock.
const BUSY: Duration = Duration::from_secs(5);
/// Bytes of a new file, at least.
const FIRST_PAGE: usize = 4096;
/// Questions at a time: they are asked at a start, every few minutes, and by operators.
const QUESTIONS: usize = 8;
/// Readings of the audit log at a time. Each may walk over all of it, so they have places of their own: whoever reads
/// takes none from those who change something.
const READINGS: usize = 4;

/// Those in the file at a path.
#[derive(Debug)]
pub struct SqliteObjects {
    place: Arc<Place>,
    asking: Asking,
    auditing: Asking,
    looking: Asking,
}

/// Where it is.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    key: SecretKey,
    busy: Duration,
    /// The file as it was opened first: what another one lacks would be lost without a word.
    known: OnceLock<(u64, u64)>,
    /// It has had its tables.
    is_filled: AtomicBool,
    /// What was written into it last.
    newest: Newest,
    standing: Standing,
    /// Nothing was found that is sealed, when everything was read last.
    is_lonely: AtomicBool,
    /// The disk is full when the file has so many pages; 0 is no bound.
    #[cfg(test)]
    room: std::sync::atomic::AtomicU32,
}

impl SqliteObjects {
    /// Those in the file at `path`, which is made when something is kept for the first time; so is its folder.
    #[must_use]
    pub fn at(path: PathBuf, key: SecretKey) -> Self {
        Self::patient(path, key, BUSY)
    }

    fn patient(path: PathBuf, key: SecretKey, busy: Duration) -> Self {
        let place = Place {
            path,
            key,
            busy,
            known: OnceLock::new(),
            is_filled: AtomicBool::new(false),
            newest: Newest::default(),
            standing: Standing::default(),
            is_lonely: AtomicBool::new(false),
            #[cfg(test)]
            room: std::sync::atomic::AtomicU32::new(0),
        };
        Self {
            place: Arc::new(place),
            asking: Asking::named("objects", QUESTIONS),
            auditing: Asking::named("objects", READINGS),
            looking: Asking::named("objects", 1),
        }
    }

    /// Says in the log what the first reading has met that operators must know: at a start there is no log before that.
    pub fn tell(&self) {
        if let Some(trouble) = self.health() {
            tracing::warn!("{OUT}: {}", trouble.what);
        }
        if self.place.key.is_open_to_others() {
            tracing::warn!(
                file = %self.place.key.path().display(),
                "everybody on this machine may read the key of secrets: close the file to them (chmod 600)"
            );
        }
        // A key of secrets is made when the first one is kept: where it stands alone, what was kept is missing.
        if self.place.is_lonely.load(Relaxed) && self.place.key.has_file() {
            tracing::warn!(
                file = %self.place.path.display(),
                "there is a key of secrets (secrets.key), but nothing that was made through the admin API: if something \
                 was, put a copy of the file back and start again"
            );
        }
    }

    /// Reads something; `None` where nothing was ever kept.
    fn read<T: Send + 'static>(
        &self,
        asking: &Asking,
        act: impl Fn(&Place, &mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<Result<Option<T>, Unreadable>> {
        let place = self.place.clone();
        asking.ask(move || match place.read(&|connection| act(&place, connection)) {
            Ok((read, None)) => {
                place.standing.is_well(Wanted::Reading);
                Ok(read)
            }
            Ok((read, Some(why))) => {
                place.standing.is_out(&why);
                Ok(read)
            }
            Err(failure) => Err(place.told(Wanted::Reading, failure)),
        })
    }

    fn write<T: Send + 'static>(
        &self,
        asking: &Asking,
        act: impl FnOnce(&Place) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<Result<T, Unreadable>> {
        let place = self.place.clone();
        asking.ask(move || {
            let done = act(&place).map_err(|failure| place.told(Wanted::Writing, failure))?;
            place.standing.is_well(Wanted::Writing);
            Ok(done)
        })
    }
}

impl Objects for SqliteObjects {
    fn all(&self) -> Answer<Result<Kept, Unreadable>> {
        let (place, reading) = (self.place.clone(), self.read(&self.asking, Place::all));
        Answer::Later(Box::pin(async move {
            let kept = reading.await?;
            place.is_lonely.store(kept.as_ref().is_none_or(|(_, has_seal)| !has_seal), Relaxed);
            Ok(kept.map(|(kept, _)| kept).unwrap_or_default())
        }))
    }

    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
        self.write(&self.asking, move |place| {
            let mut connection = place.open_or_make()?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            write::change(place, &transaction, changes, &deeds)?;
            place.newest.commit(transaction)
        })
    }

    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
        self.write(&self.asking, move |place| {
            let Some(mut connection) = place.open()? else { return Ok(()) };
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            write::used(&transaction, &keys)?;
            Ok(transaction.commit()?)
        })
    }

    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
        let reading = self.read(&self.auditing, move |_, connection| deeds(connection, &which));
        Answer::Later(Box::pin(async move { Ok(reading.await?.unwrap_or_default()) }))
    }

    fn health(&self) -> Option<Trouble> {
        self.place.standing.trouble()
    }

    fn look(&self) -> Answer<()> {
        let place = self.place.clone();
        let looking = self.looking.ask(move || {
            let Err(failure) = place.look() else { return Ok(()) };
            Err(place.told(Wanted::Writing, failure))
        });
        // What was found is told by the health.
        Answer::Later(Box::pin(async move { drop(looking.await) }))
    }
}

impl Place {
    /// Which file there is; `None` where nothing was ever kept.
    fn identity(&self) -> Result<Option<(u64, u64)>, Failure> {
        let is_there = self.path.try_exists().map_err(|error| self.trouble(&error))?;
        if !is_there && self.known.get().is_none() {
            return Ok(None);
        }
        let now = identity(&self.path).ok_or_else(|| self.is_gone())?;
        if self.known.get().is_some_and(|known| *known != now) {
            return Err(self.is_gone());
        }
        // Looked at before it is opened, which writes into an empty file.
        let is_empty = std::fs::metadata(&self.path).is_ok_and(|file| file.len() == 0);
        if is_empty && self.is_filled.load(Relaxed) {
            return Err(self.is_gone());
        }
        Ok(Some(now))
    }

    /// The file; `None` where nothing was ever kept.
    fn open(&self) -> Result<Option<Connection>, Failure> {
        let Some(now) = self.identity()? else { return Ok(None) };
        if self.known.get().is_none() {
            // It may come from a copy that others may read.
            close_to_others(&self.path);
        }
        let mut connection = connect(&self.path, self.busy)?;
        #[cfg(test)]
        {
            let room = self.room.load(std::sync::atomic::Ordering::Relaxed);
            let most = if room == 0 { u32::MAX - 1 } else { room };
            connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
        }
        migrate_by(schema::MIGRATIONS, TABLE, &mut connection, ELSE)?;
        self.is_known_as(now)?;
        self.is_as_left(&connection)?;
        Ok(Some(connection))
    }

    /// Another file may have been copied over it, in its very place: as whoever puts a copy back does it.
    fn is_as_left(&self, connection: &Connection) -> Result<(), Failure> {
        if self.newest.is_in(connection) { Ok(()) } else { Err(self.is_gone()) }
    }

    /// It is known from here on alone: what could not be opened (a folder, another program's file) was never the one.
    fn is_known_as(&self, now: (u64, u64)) -> Result<(), Failure> {
        if *self.known.get_or_init(|| now) != now {
            return Err(self.is_gone());
        }
        self.is_filled.store(true, Relaxed);
        Ok(())
    }

    /// Reads something, be it that the file cannot be written: why it cannot comes along. `None` where nothing was ever
    /// kept.
    fn read<T>(&self, act: Reading<'_, T>) -> Result<(Option<T>, Option<String>), Failure> {
        let read = self.open().and_then(|opened| {
            let Some(mut connection) = opened else { return Ok((None, None)) };
            let is_frozen = connection.is_readonly(MAIN_DB)?;
            Ok((Some(act(&mut connection)?), is_frozen.then(|| self.may_not_be_written())))
        });
        let why = match read {
            Err(Failure::Unwritable(why)) => why,
            read => return read,
        };
        let Some(now) = self.identity()? else { return Err(Failure::Unwritable(why)) };
        let read = read_all_the_same(&self.path, self.busy, why.clone(), &|connection| {
            let version = known_version(schema::MIGRATIONS, TABLE, connection, ELSE)?;
            if version == 0 { Ok(None) } else { act(connection).map(Some) }
        })?;
        if read.is_some() {
            self.is_known_as(now)?;
        }
        Ok((read, Some(why)))
    }

    /// Whether it is the file that was opened; and whether something can be written, where that is not known or could not
    /// be done.
    fn look(&self) -> Result<(), Failure> {
        let is_there = self.identity()?.is_some();
        if self.standing.is_proven() {
            // What cannot be opened just now may be written all the same when it is wanted.
            let opened = if is_there { connect(&self.path, self.busy).ok() } else { None };
            return opened.map_or(Ok(()), |connection| self.is_as_left(&connection));
        }
        if !is_there {
            return self.try_beside();
        }
        let Some(mut connection) = self.open()? else { return Ok(()) };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.seal(&transaction)?;
        // It says what it said before; but it is written.
        transaction.execute("UPDATE deeds_size SET bytes = bytes", [])?;
        transaction.commit()?;
        self.standing.is_well(Wanted::Writing);
        Ok(())
    }

    /// Whether a file could be made, and has room.
    fn try_beside(&self) -> Result<(), Failure> {
        let beside = self.path.with_extension("db.try");
        // What a process left behind that ended half way.
        let _ = std::fs::remove_file(&beside);
        let made = self.path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(&[0; FIRST_PAGE])
        });
        let _ = std::fs::remove_file(&beside);
        made.map_err(|error| self.trouble(&error))?;
        self.standing.is_well(Wanted::Writing);
        Ok(())
    }

    /// The file, which is made where it is missing, for nobody else to read.
    fn open_or_make(&self) -> Result<Connection, Failure> {
        if let Some(connection) = self.open()? {
            return Ok(connection);
        }
        let folder = self.path.parent();
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|error| self.trouble(&error))?;
        }
        // What SQLite makes beside it has the same mode.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path) {
            Ok(_) => {
                let made = folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all());
                made.map_err(|error| self.trouble(&error))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.trouble(&error)),
        }
        self.open()?.ok_or_else(|| Failure::Trouble("the database has just been removed; try again".to_owned()))
    }

    fn is_gone(&self) -> Failure {
        Failure::Trouble(format!(
            "{} was removed or replaced while the gateway ran: nothing is changed, since what the file lacks would be \
             lost. Put it back and start the gateway anew, or start it anew to go on with what is there",
            self.path.display()
        ))
    }

    fn may_not_be_written(&self) -> String {
        format!("{} may not be written", self.path.display())
    }

    fn trouble(&self, error: &std::io::Error) -> Failure {
        Failure::Trouble(format!("{}: {error}", self.path.display()))
    }

    /// What went wrong, in words; it is noted, but where the file has nothing to do with it.
    fn told(&self, wanted: Wanted, failure: Failure) -> Unreadable {
        let told = match failure {
            Failure::Refused(what) => return Unreadable(what),
            Failure::Damaged(what) => format!(
                "{} is damaged ({what}): put a copy of it back; until then nothing can be changed, and what is in force \
                 stays so",
                self.path.display()
            ),
            Failure::Unwritable(what) | Failure::Trouble(what) => what,
        };
        match wanted {
            Wanted::Writing => self.standing.is_out(&told),
            Wanted::Reading => self.standing.is_unread(&told),
        }
        Unreadable(told)
    }

    /// Everything, and whether there is something that was sealed.
    fn all(&self, connection: &mut Connection) -> Result<(Kept, bool), Failure> {
        // All of it as it was at one moment.
        let view = connection.transaction()?;
        let Some(seal) = self.seal(&view)? else {
            return Ok((Kept { gone: gone(&view)?, ..Kept::default() }, false));
        };
        let kept = Kept { objects: objects(&view, &seal)?, keys: keys(&view, &seal)?, gone: gone(&view)? };
        Ok((kept, true))
    }

    /// What secrets are sealed with; `None` where there are none.
    fn seal(&self, connection: &Connection) -> Result<Option<Seal>, Failure> {
        let proof = connection.query_row("SELECT proof FROM seal", [], |row| row.get::<_, Vec<u8>>(0)).optional()?;
        let Some(proof) = proof else { return Ok(None) };
        let key = self.key.find()?.ok_or_else(|| self.key.does_not_open(&self.path, false))?;
        let seal = Seal::with(&key)?;
        match seal.open(PROOF, &proof) {
            Some(_) => Ok(Some(seal)),
            None => Err(self.key.does_not_open(&self.path, true)),
        }
    }

    /// The same, made where there is none; within the transaction that seals something.
    fn make_seal(&self, connection: &Connection) -> Result<Seal, Failure> {
        if let Some(seal) = self.seal(connection)? {
            return Ok(seal);
        }
        let key: Key = self.key.find()?.map_or_else(|| self.key.make(), Ok)?;
        let seal = Seal::with(&key)?;
        connection.execute("INSERT INTO seal VALUES (1, ?1)", [seal.seal(PROOF, PROOF.as_bytes())?])?;
        Ok(seal)
    }
}

/// What reads something of an open file.
type Reading<'a, T> = &'a dyn Fn(&mut Connection) -> Result<T, Failure>;

/// A file that has this table is one of these.
const TABLE: &str = "objects";
/// What an operator may do where the file is none, or of a newer version.
const ELSE: &str = "put a copy of an older one back";

/// What is sealed to know a key by.
const PROOF: &str = "proof";

/// What the text of an object belongs to.
fn of_object(kind: ObjectKind, name: &str) -> String {
    format!("{} {name}", kind.word())
}

/// What the digest of a key belongs to.
fn of_key(id: &str, client: &str) -> String {
    // An id holds no blank.
    format!("key {id} {client}")
}
