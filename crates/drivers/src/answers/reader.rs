//! The thread that looks things up in the file, on a connection of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, Statement};
use state::answers::{Key, Stored};
use tokio::sync::oneshot;

use super::desk::{Desk, Order};
use super::file::{self, Failure};
use super::row::{self, Found, READ};

/// Look-ups that may wait; who comes later gets a miss.
pub(super) const MOST_LOOKUPS: usize = 256;
/// After a failed reading the file is left alone for so long.
const REST: Duration = Duration::from_millis(200);

/// How often it is looked whether the file has gone.
const LOOK: Duration = Duration::from_secs(1);

/// Keys that are not in memory and may be on disk.
#[derive(Debug)]
pub(super) struct Lookup {
    /// None of them is a mere wake-up.
    pub keys: Vec<Key>,
    /// How often something had been removed when it began.
    pub removals: u64,
    pub reply: oneshot::Sender<Vec<Option<Arc<Stored>>>>,
}

/// Answers until nobody is left who asks.
pub(super) fn read_out(desk: &Desk, path: &Path, asked: &Receiver<Lookup>) {
    let mut carried = None;
    while let Some(lookup) = carried.take().or_else(|| asked.recv().ok()) {
        // Without a file there is nothing to find.
        if !lookup.is_wanted() || !path.exists() {
            continue;
        }
        desk.is_reading(true);
        let epoch = desk.epoch();
        carried = match file::open_to_read(path) {
            Ok(connection) => Reader { desk, epoch }.answer_all(&connection, lookup, asked),
            Err(failure) => {
                fail(desk, epoch, failure);
                None
            }
        };
        desk.is_reading(false);
    }
}

fn fail(desk: &Desk, epoch: u64, failure: Failure) {
    match failure {
        Failure::Damaged(why) => desk.report_damage(epoch, why),
        Failure::Full(_) | Failure::Trouble(_) => desk.rest(REST),
    }
}

impl Lookup {
    fn is_wanted(&self) -> bool {
        !self.keys.is_empty() && !self.reply.is_closed()
    }
}

struct Reader<'a> {
    desk: &'a Desk,
    epoch: u64,
}

impl Reader<'_> {
    /// Answers with one connection for as long as it is good, and gives back the look-up that needs another.
    fn answer_all(&self, connection: &Connection, first: Lookup, asked: &Receiver<Lookup>) -> Option<Lookup> {
        let mut select = match connection.prepare(READ) {
            Ok(select) => select,
            Err(error) => {
                fail(self.desk, self.epoch, error.into());
                return None;
            }
        };
        let mut next = Some(first);
        loop {
            let lookup = match next.take() {
                Some(lookup) => lookup,
                None => {
                    self.desk.is_reading(false);
                    let lookup = match asked.recv_timeout(LOOK) {
                        Ok(lookup) => lookup,
                        Err(RecvTimeoutError::Timeout) if self.desk.epoch() == self.epoch => continue,
                        // A file that is gone takes its room on the disk until it is closed.
                        Err(_) => return None,
                    };
                    self.desk.is_reading(true);
                    lookup
                }
            };
            if self.desk.epoch() != self.epoch {
                return Some(lookup);
            }
            if let Err(failure) = self.answer(&mut select, lookup) {
                fail(self.desk, self.epoch, failure);
                return None;
            }
        }
    }

    fn answer(&self, select: &mut Statement<'_>, lookup: Lookup) -> Result<(), Failure> {
        let mut found = Vec::with_capacity(lookup.keys.len());
        for key in &lookup.keys {
            // Whoever asked may have had enough of waiting.
            if !lookup.is_wanted() {
                return Ok(());
            }
            #[cfg(test)]
            self.desk.trial.be_slow();
            found.push(self.find(select, key, lookup.removals)?);
        }
        let _ = lookup.reply.send(found);
        Ok(())
    }

    fn find(&self, select: &mut Statement<'_>, key: &Key, removals: u64) -> Result<Option<Arc<Stored>>, Failure> {
        let mut rows = select.query([row::print(key)])?;
        let Some(found) = rows.next()?.map(|row| row::stored(key, row)) else { return Ok(None) };
        drop(rows);
        match found {
            Found::Stored(stored) if Clock.wall() >= stored.keep_until => Ok(None),
            Found::Stored(stored) => {
                let stored = self.desk.admit(*key, stored, removals);
                if stored.is_some() {
                    self.desk.index.hit(key.print());
                }
                Ok(stored)
            }
            Found::Another => Ok(None),
            Found::Damaged => {
                self.desk.counts.damaged.fetch_add(1, Relaxed);
                // It is found damaged again where there is no room for the order.
                let _ = self.desk.order(Order::Forget(key.print()));
                Ok(None)
            }
        }
    }
}
