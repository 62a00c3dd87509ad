//! The thread that looks things up in the file, on a connection of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, Statement};
use state::answers::{Key, Kind, Page, Stored};
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

/// What is to be found.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Keys that are not in memory and may be on disk. None of them is a mere wake-up.
    Keys {
        keys: Vec<Key>,
        /// How often something had been removed when it began.
        removals: u64,
        reply: oneshot::Sender<Vec<Option<Arc<Stored>>>>,
    },
    /// Everything of a kind, page by page.
    Scan { kind: Kind, from: Option<u64>, reply: oneshot::Sender<Page> },
}

/// Answers until nobody is left who asks.
pub(super) fn read_out(desk: &Desk, path: &Path, asked: &Receiver<Lookup>) {
    let mut carried = None;
    while let Some(lookup) = carried.take().or_else(|| asked.recv().ok()) {
        // Without a file there is nothing to find.
        if !path.exists() {
            if let Lookup::Scan { reply, .. } = lookup {
                let _ = reply.send(Page::default());
            }
            continue;
        }
        if !lookup.is_wanted() {
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
        match self {
            Self::Keys { keys, reply, .. } => !keys.is_empty() && !reply.is_closed(),
            Self::Scan { reply, .. } => !reply.is_closed(),
        }
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
            let answered = match lookup {
                Lookup::Keys { keys, removals, reply } => self.answer(&mut select, &keys, removals, reply),
                Lookup::Scan { kind, from, reply } => {
                    row::page(connection, kind, from).map_err(Failure::from).map(|page| {
                        let _ = reply.send(page);
                    })
                }
            };
            if let Err(failure) = answered {
                fail(self.desk, self.epoch, failure);
                return None;
            }
        }
    }

    fn answer(
        &self,
        select: &mut Statement<'_>,
        keys: &[Key],
        removals: u64,
        reply: oneshot::Sender<Vec<Option<Arc<Stored>>>>,
    ) -> Result<(), Failure> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            // Whoever asked may have had enough of waiting.
            if reply.is_closed() {
                return Ok(());
            }
            #[cfg(test)]
            self.desk.trial.be_slow();
            found.push(self.find(select, key, removals)?);
        }
        let _ = reply.send(found);
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
