//! The thread that looks things up in the file, on a connection of its own.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use base::Clock;
use rusqlite::{Connection, Statement};
use state::answers::{Key, Kind, Page, Stored, Which};
use tokio::sync::oneshot;

use super::desk::{Desk, Order};
use super::file::{self, Failure};
use super::removals::Moment;
use super::row::{self, Found, READ};

/// Look-ups that may wait; who comes later gets a miss.
pub(super) const MOST_LOOKUPS: usize = 256;
/// After a failed reading the file is left alone for so long.
const REST: Duration = Duration::from_millis(200);

/// A look-up of many keys lets others have their turn after so long.
const TURN: Duration = Duration::from_millis(1);
/// Rows that are counted at a time.
const COUNTED: u32 = 512;
/// How often it is looked whether the file has gone.
const LOOK: Duration = Duration::from_secs(1);

/// What is to be found.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Keys that are not in memory and may be on disk. None of them is a mere wake-up.
    Keys {
        keys: Vec<Key>,
        /// What has been found for the first of them.
        found: Vec<Option<Arc<Stored>>>,
        /// When it began, in the order of removals.
        since: Moment,
        reply: oneshot::Sender<Vec<Option<Arc<Stored>>>>,
    },
    /// Everything of a kind, page by page.
    Scan { kind: Kind, from: Option<u64>, reply: oneshot::Sender<Page> },
    /// How much there is, here and elsewhere.
    Count {
        which: Which,
        /// The last row that was counted.
        after: Option<i64>,
        /// What is in memory, or waits to be written: it is counted once.
        elsewhere: HashSet<u64>,
        /// What is in the file alone.
        here: u64,
        reply: oneshot::Sender<u64>,
    },
}

/// Answers until nobody is left who asks.
pub(super) fn read_out(desk: &Desk, path: &Path, asked: &Receiver<Lookup>) {
    let mut line = Line { asked, waiting: VecDeque::new() };
    while line.wait() {
        // Without a file there is nothing to find.
        if !path.exists() {
            line.waiting.drain(..).for_each(Lookup::find_nothing);
            continue;
        }
        desk.is_reading(true);
        let epoch = desk.epoch();
        let done = match file::open_to_read(path) {
            Ok(Some(connection)) => Reader { desk, epoch }.answer_all(&connection, &mut line),
            Ok(None) => {
                line.waiting.drain(..).for_each(Lookup::find_nothing);
                Ok(())
            }
            Err(failure) => line.give_up_first(failure),
        };
        if let Err(failure) = done {
            fail(desk, epoch, failure);
        }
        desk.is_reading(false);
    }
}

fn fail(desk: &Desk, epoch: u64, failure: Failure) {
    match failure {
        Failure::Damaged(why) => desk.report_damage(epoch, why),
        Failure::Full(why) | Failure::Trouble(why) => desk.rest(REST, why),
    }
}

impl Lookup {
    fn is_wanted(&self) -> bool {
        match self {
            Self::Keys { keys, reply, .. } => !keys.is_empty() && !reply.is_closed(),
            Self::Scan { reply, .. } => !reply.is_closed(),
            Self::Count { reply, .. } => !reply.is_closed(),
        }
    }

    fn find_nothing(self) {
        match self {
            Self::Keys { .. } => {}
            Self::Scan { reply, .. } => drop(reply.send(Page::default())),
            Self::Count { elsewhere, reply, .. } => drop(reply.send(elsewhere.len() as u64)),
        }
    }
}

/// Those who ask. They are answered in turns, so that nobody with one key waits for thousands of another's.
struct Line<'a> {
    asked: &'a Receiver<Lookup>,
    waiting: VecDeque<Lookup>,
}

impl Line<'_> {
    fn join(&mut self, lookup: Lookup) {
        if lookup.is_wanted() {
            self.waiting.push_back(lookup);
        }
    }

    /// Takes those in who have come meanwhile.
    fn take_in(&mut self) {
        while self.waiting.len() < MOST_LOOKUPS
            && let Ok(lookup) = self.asked.try_recv()
        {
            self.join(lookup);
        }
    }

    /// Waits for somebody; false once nobody will come any more.
    fn wait(&mut self) -> bool {
        while self.waiting.is_empty() {
            match self.asked.recv() {
                Ok(lookup) => self.join(lookup),
                Err(_) => return false,
            }
        }
        true
    }

    /// One look-up is lost to a failure; those behind it may have better luck.
    fn give_up_first(&mut self, failure: Failure) -> Result<(), Failure> {
        self.waiting.pop_front();
        Err(failure)
    }
}

struct Reader<'a> {
    desk: &'a Desk,
    epoch: u64,
}

impl Reader<'_> {
    /// Answers with one connection for as long as it is good.
    fn answer_all(&self, connection: &Connection, line: &mut Line<'_>) -> Result<(), Failure> {
        let mut select = match connection.prepare(READ) {
            Ok(select) => select,
            Err(error) => return line.give_up_first(error.into()),
        };
        loop {
            line.take_in();
            if line.waiting.is_empty() {
                self.desk.is_reading(false);
                match line.asked.recv_timeout(LOOK) {
                    Ok(lookup) => line.join(lookup),
                    Err(RecvTimeoutError::Timeout) if self.desk.epoch() == self.epoch => {}
                    // A file that is gone takes its room on the disk until it is closed.
                    Err(_) => return Ok(()),
                }
                continue;
            }
            if self.desk.epoch() != self.epoch {
                return Ok(());
            }
            self.desk.is_reading(true);
            if let Some(first) = line.waiting.pop_front()
                && let Some(rest) = self.answer_some((connection, &mut select), first)?
            {
                line.waiting.push_back(rest);
            }
        }
    }

    /// Answers a look-up as far as fits into a turn, and gives it back if there is more to find.
    fn answer_some(
        &self,
        (connection, select): (&Connection, &mut Statement<'_>),
        mut lookup: Lookup,
    ) -> Result<Option<Lookup>, Failure> {
        let began = Clock.now();
        loop {
            // Whoever asked may have had enough of waiting.
            if !lookup.is_wanted() {
                return Ok(None);
            }
            match &mut lookup {
                Lookup::Keys { keys, found, since, .. } => {
                    if let Some(key) = keys.get(found.len()) {
                        self.desk.is_reading(true);
                        found.push(self.find(select, key, *since)?);
                    }
                    if found.len() == keys.len() {
                        break;
                    }
                    if Clock.now().saturating_duration_since(began) >= TURN {
                        return Ok(Some(lookup));
                    }
                }
                Lookup::Scan { .. } => break,
                Lookup::Count { which, after, elsewhere, here, .. } => {
                    let (such, more) = row::such(connection, which, *after, COUNTED)?;
                    *here += such.iter().filter(|print| !elsewhere.contains(print)).count() as u64;
                    *after = more;
                    if more.is_none() {
                        break;
                    }
                    if Clock.now().saturating_duration_since(began) >= TURN {
                        return Ok(Some(lookup));
                    }
                }
            }
        }
        match lookup {
            Lookup::Keys { found, reply, .. } => drop(reply.send(found)),
            Lookup::Scan { kind, from, reply } => drop(reply.send(row::page(connection, kind, from)?)),
            Lookup::Count { elsewhere, here, reply, .. } => drop(reply.send(elsewhere.len() as u64 + here)),
        }
        Ok(None)
    }

    fn find(&self, select: &mut Statement<'_>, key: &Key, since: Moment) -> Result<Option<Arc<Stored>>, Failure> {
        let sought = self.desk.unwritten.seek(key);
        #[cfg(test)]
        self.desk.trial.be_slow();
        if sought.is_some() {
            return Ok(sought);
        }
        let mut rows = select.query([row::print(key)])?;
        let Some(found) = rows.next()?.map(|row| row::stored(key, row)) else { return Ok(None) };
        drop(rows);
        match found {
            Found::Stored(stored) if Clock.wall() >= stored.keep_until => Ok(None),
            Found::Stored(stored) => {
                let stored = self.desk.admit(*key, stored, since);
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
