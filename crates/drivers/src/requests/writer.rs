//! The thread that writes.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use state::Trouble;
use state::requests::Bounds;
use state::requests::block::Block;

use super::blocks::{APPLICATION, File, PAGE, Packed};
use super::desk::{Desk, Which};
use crate::failing::Failing;
use crate::file::{Failure, remove_own, set_aside};

/// Without anything to write, what is past its time is looked for this often.
const TICK: Duration = Duration::from_secs(10);
/// Blocks written in one commit at most.
const BATCH: usize = 32;

/// Writes until the store is dropped.
pub(super) fn write_out(desk: &Desk, paths: [PathBuf; 2]) {
    let mut keepers =
        Which::BOTH.map(|which| Keeper { desk, which, path: paths[which.at()].clone(), file: None, failing: None });
    loop {
        let failing = keepers.iter().filter_map(|keeper| keeper.failing.as_ref()).map(|failing| failing.again).min();
        let wait = failing.map_or(TICK, |again| again.saturating_duration_since(Clock.now()).min(TICK));
        let fails = [0, 1].map(|at: usize| keepers.get(at).is_some_and(|keeper| keeper.failing.is_some()));
        let work = desk.next(wait, fails);
        for keeper in &mut keepers {
            let is_time = keeper.failing.as_ref().is_none_or(|failing| Clock.now() >= failing.again);
            if work.is_urgent || work.closed || is_time {
                keeper.turn(work.bounds, work.is_urgent || work.closed);
            }
        }
        if work.closed {
            // A search may have it open too: closing it alone would leave its log.
            keepers.iter().filter_map(|keeper| keeper.file.as_ref()).for_each(File::fold_log);
            return;
        }
    }
}

/// One of the files.
struct Keeper<'a> {
    desk: &'a Desk,
    which: Which,
    path: PathBuf,
    file: Option<File>,
    failing: Option<Failing>,
}

/// What a file's bound means.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Pages of the file at most.
    pages: u64,
    /// Pages of its log, after which that is written back.
    log: u64,
}

impl Room {
    /// The log may grow by a commit, and another one that waits for a reader, beyond what it should have.
    fn within(bytes: u64) -> Self {
        let log = (bytes / 16 / PAGE).clamp(2, 256);
        Self { pages: (bytes / PAGE).saturating_sub(3 * log).max(8), log }
    }

    /// Of them, those that may be in use when more is to come.
    fn high(self) -> u64 {
        self.pages - self.pages / 16
    }
}

/// Blocks that are to be written, each packed when its turn comes: what cannot be written now need not be packed.
struct Line<'a> {
    due: &'a [Arc<Block>],
    packed: VecDeque<Packed<'a>>,
    #[cfg(test)]
    trial: &'a super::tests::Trial,
}

impl<'a> Line<'a> {
    /// The first of them, which take so many pages together and are so many at most; one at least, where there is one.
    fn first(&mut self, most: usize, pages: u64) -> &[Packed<'a>] {
        let (mut count, mut left) = (0, pages);
        while count < most {
            if self.packed.len() == count {
                let Some((block, rest)) = self.due.split_first() else { break };
                #[cfg(test)]
                self.trial.pack();
                self.packed.push_back(Packed::of(block));
                self.due = rest;
            }
            let Some(after) = self.packed.get(count).and_then(|one| left.checked_sub(one.pages())) else { break };
            (count, left) = (count + 1, after);
        }
        let count = count.max(1).min(self.packed.len());
        self.packed.make_contiguous().get(..count).unwrap_or_default()
    }
}

impl Keeper<'_> {
    fn turn(&mut self, bounds: Bounds, is_urgent: bool) {
        let is_kept = self.which.is_kept(bounds);
        // What was to go goes, also where new things are kept again by now.
        if !is_kept || self.desk.is_to_go(self.which) {
            if let Err(failure) = self.leave() {
                return self.failed(failure);
            }
            if !is_kept {
                return;
            }
        }
        match self.work(bounds, is_urgent) {
            Ok(()) => self.succeeded(),
            Err(Failure::Damaged(why)) => {
                self.file = None;
                let began = set_aside(&self.path, APPLICATION, self.which.name(), &why).and_then(|()| {
                    self.desk.befell(self.which, format!("it was damaged ({why}): it is set aside and begins anew"));
                    self.work(bounds, is_urgent)
                });
                match began {
                    Ok(()) => self.succeeded(),
                    Err(failure) => self.failed(failure),
                }
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn work(&mut self, bounds: Bounds, is_urgent: bool) -> Result<(), Failure> {
        if let Some(why) = self.desk.take_damage(self.which) {
            return Err(Failure::Damaged(why));
        }
        self.look()?;
        let done = self.write_all(bounds, is_urgent);
        // Also where something failed: what was done before that is its own doing.
        if let Some(file) = &mut self.file {
            file.leave();
        }
        done
    }

    fn write_all(&mut self, bounds: Bounds, is_urgent: bool) -> Result<(), Failure> {
        let mut due = self.desk.due(self.which, is_urgent);
        if due.is_empty() && self.file.is_none() && !self.path.exists() {
            return Ok(());
        }
        let room = Room::within(bounds.size);
        if self.file.is_none() {
            let file = File::open(&self.path)?;
            self.desk.number_after(self.which, file.last()?);
            self.file = Some(file);
            due = self.desk.due(self.which, false);
        }
        self.drop_old(bounds.keep)?;
        if let Some(file) = &self.file {
            file.hold_within(room.pages, room.log)?;
        }
        while !due.is_empty() {
            due = self.write(&due, room)?;
        }
        self.make_room(0, room)?;
        self.shrink(room)
    }

    /// Whether the file is what it was left as. One that is removed or replaced begins anew; of one that was emptied or
    /// overwritten all is written anew that was in it, if that can still be read.
    fn look(&mut self) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let what = if !file.is_there() {
            "was removed or replaced while in use: it begins anew"
        } else if file.is_whole()? {
            return Ok(());
        } else {
            match file.write_anew() {
                Ok(()) => "was overwritten while in use: it is written anew, with all that was in it",
                Err(Failure::Damaged(why)) => {
                    return Err(Failure::Damaged(format!("it was overwritten while in use: {why}")));
                }
                Err(failure) => return Err(failure),
            }
        };
        tracing::warn!(file = %self.path.display(), "{} {what}", self.which.name());
        self.desk.befell(self.which, format!("it {what}"));
        self.file = None;
        Ok(())
    }

    /// Writes blocks, a few in one commit: as many as its log should hold, or one. Gives those that are left, where they
    /// were numbered anew.
    fn write(&mut self, due: &[Arc<Block>], room: Room) -> Result<Vec<Arc<Block>>, Failure> {
        let mut line = Line {
            due,
            packed: VecDeque::new(),
            #[cfg(test)]
            trial: &self.desk.trial,
        };
        // While nothing could be written, one is tried before others are made ready.
        let (mut most, mut has_room) = (if self.failing.is_some() { 1 } else { BATCH }, true);
        loop {
            let now = line.first(most, room.log);
            let Some(last) = now.last().map(Packed::id) else { return Ok(Vec::new()) };
            let count = now.len();
            match self.put(now, room) {
                Ok(None) => self.desk.written(self.which, last, false),
                Ok(Some(last)) => {
                    self.desk.number_after(self.which, last);
                    return Ok(self.desk.due(self.which, false));
                }
                // Where the disk is nearly full, less may still have room.
                Err(Failure::Full(_)) if count > 1 => {
                    (most, has_room) = (count / 2, false);
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            line.packed.drain(..count);
            most = if has_room { BATCH } else { most };
        }
    }

    /// Writes blocks in one commit, after room has been made for them; where the disk is fuller than the bound says, a
    /// little at a time goes for the last of them. Gives what [`File::put`] gives.
    fn put(&mut self, packed: &[Packed<'_>], room: Room) -> Result<Option<u64>, Failure> {
        #[cfg(test)]
        self.desk.trial.be_full(self.which, packed.len())?;
        let wanted = packed.iter().map(Packed::pages).sum();
        self.make_room(wanted, room)?;
        let Some(file) = &mut self.file else { return Ok(None) };
        let failure = match file.put(packed) {
            Err(Failure::Full(why)) if packed.len() == 1 => why,
            done => return done,
        };
        if file.remove_oldest(u32::MAX)? == 0 {
            let (all, free) = file.pages()?;
            if all.saturating_sub(free) + wanted > room.pages {
                // It is larger than the file may be, which holds nothing else.
                self.desk.written(self.which, packed.last().map_or(0, Packed::id), true);
            }
            return Err(Failure::Full(failure));
        }
        match file.put(packed) {
            Err(Failure::Full(why)) => {
                file.fold_log();
                Err(Failure::Full(why))
            }
            done => done,
        }
    }

    /// The oldest go until so many pages more have room.
    fn make_room(&mut self, wanted: u64, room: Room) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        loop {
            let (all, free) = file.pages()?;
            if all.saturating_sub(free) + wanted <= room.high() {
                return Ok(());
            }
            // A few at a time: no more than has to go.
            if file.remove_oldest(4)? == 0 {
                return Ok(());
            }
        }
    }

    fn drop_old(&mut self, keep: Duration) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let now = Clock.wall();
        while file.remove_old(now.saturating_sub(keep), now)? > 0 {}
        Ok(())
    }

    /// A file that had more room before gives back what is free, a step at a time that its log has room for. The log
    /// is folded after that: it would keep its size until something else is written.
    fn shrink(&self, room: Room) -> Result<(), Failure> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut has_shrunk = false;
        loop {
            let (all, free) = file.pages()?;
            if all <= room.pages || free == 0 {
                break;
            }
            file.shrink(room.log.min(free))?;
            has_shrunk = true;
            if file.pages()?.0 == all {
                break;
            }
        }
        if has_shrunk {
            file.fold_log();
        }
        Ok(())
    }

    /// What was kept in it goes: from the disk, too.
    fn leave(&mut self) -> Result<(), Failure> {
        self.file = None;
        if remove_own(&self.path, APPLICATION)? {
            tracing::info!(file = %self.path.display(), "{}", self.which.why_removed());
        }
        self.desk.has_gone(self.which);
        self.failing = None;
        self.desk.set_trouble(self.which, None);
        Ok(())
    }

    fn failed(&mut self, failure: Failure) {
        let (Failure::Damaged(what) | Failure::Full(what) | Failure::Trouble(what)) = failure;
        let failing = self.failing.get_or_insert_with(Failing::begin);
        let Some(is_news) = failing.failed() else { return };
        if is_news {
            tracing::warn!("{} cannot be written; what is new waits in memory: {what}", self.which.name());
        }
        self.desk.set_trouble(self.which, Some(Trouble { since: failing.since_wall, what }));
    }

    fn succeeded(&mut self) {
        if let Some(seconds) = self.failing.take().and_then(Failing::over) {
            tracing::info!(seconds, "{} is written again", self.which.name());
            self.desk.set_trouble(self.which, None);
        }
    }
}
