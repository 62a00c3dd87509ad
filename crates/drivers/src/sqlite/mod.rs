//! The usage ledger in an SQLite file, written behind the traffic by one thread, and read by another.
//!
//! **What is promised.** An entry is committed at most 50 ms after it was booked, as long as the disk
//! takes a commit in a few milliseconds. What is committed survives the process whatever ends it, and,
//! since every commit waits for `fsync` (WAL with `synchronous = FULL`), a power cut too, as far as the
//! disk keeps its word. A disk that is slow, full or gone and a file that another process holds locked
//! make entries wait in memory, added up by quarter of an hour and names, and tried again at least once
//! a second; one that the file refuses keeps out no other. A damaged file is set aside under another name,
//! and a new one begun. What lies long past is added up by day and then by month, so that the file grows
//! with what is configured and hardly with time.

mod asking;
mod desk;
mod fold;
mod read;
mod reader;
mod reading;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod versions;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use state::{Answer, Entry, Health, Ledger, Question, Row, Unreadable};
use tokio::sync::oneshot;

pub(crate) use crate::failure::Failure;
pub(crate) use asking::Asking;
pub(crate) use reading::read as read_all_the_same;
pub(crate) use schema::{known_version, migrate_by, whole};
pub(crate) use store::connect;
pub use versions::SqliteVersions;

use desk::{Desk, MOST_QUESTIONS};
use store::Store;

use crate::thread::Thread;

/// The ledger. Dropped, it writes what it still has, if that can be written at once.
#[derive(Debug)]
pub struct SqliteLedger {
    desk: Arc<Desk>,
    thread: Thread,
}

impl SqliteLedger {
    /// A ledger in the file at `path`, which is made where it is missing; so is its folder. The file is
    /// opened by the ledger's own thread: whatever is wrong with it is told by [`Ledger::health`].
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        Self::with(Store::at(path))
    }

    fn with(store: Store) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (readers, sittings) = std::sync::mpsc::sync_channel(MOST_QUESTIONS);
        let (writing, reading) = (desk.clone(), desk.clone());
        std::thread::Builder::new()
            .name("ledger-reader".to_owned())
            .spawn(move || reader::read_out(&reading, &sittings))?;
        let thread = Thread::begin("ledger", move || writer::write_out(&writing, store, readers))?;
        Ok(Self { desk, thread })
    }
}

impl Ledger for SqliteLedger {
    fn book(&self, entries: Vec<Entry>) {
        self.desk.book(entries);
    }

    fn report(&self, question: Question) -> Answer<Result<Vec<Row>, Unreadable>> {
        let (reply, answer) = oneshot::channel();
        if let Err(refused) = self.desk.ask(question, reply) {
            return Answer::Ready(Err(refused));
        }
        Answer::Later(Box::pin(async move {
            let gone = || Unreadable("the ledger's thread has ended; please report this".to_owned());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }))
    }

    fn health(&self) -> Health {
        self.desk.health()
    }

    fn flush(&self, patience: Duration) -> bool {
        self.desk.flush(patience)
    }

    fn close(&self, patience: Duration) -> bool {
        self.desk.close();
        self.thread.has_ended(patience)
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        self.desk.close();
    }
}
