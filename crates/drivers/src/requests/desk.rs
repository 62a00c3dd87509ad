//! What those who note and ask have in common with the threads that write and read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{Clock, Record};
use state::requests::block::Block;
use state::requests::{Bounds, Content, Health, Writing};
use state::{Damage, Trouble};

/// Blocks wait until they are full, or for so long.
pub(super) const GATHER: Duration = Duration::from_millis(500);
/// Bytes of records that wait to be written at most: half a minute of a busy gateway.
const MOST_RECORDS: usize = 64 << 20;
/// The same of texts.
const MOST_CONTENTS: usize = 64 << 20;

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Records,
    Contents,
}

impl Which {
    pub const BOTH: [Self; 2] = [Self::Records, Self::Contents];

    pub const fn at(self) -> usize {
        self as usize
    }

    /// In a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "the file of request records",
            Self::Contents => "the file of recorded texts",
        }
    }

    /// Whether anything is kept in it.
    pub const fn is_kept(self, bounds: Bounds) -> bool {
        match self {
            Self::Records => !bounds.keep.is_zero(),
            Self::Contents => bounds.contents,
        }
    }

    /// Why it is removed.
    pub const fn why_removed(self) -> &'static str {
        match self {
            Self::Records => "`records.keep` is 0s: what was recorded of requests is removed",
            Self::Contents => "`records.content` is off: what was recorded of texts is removed",
        }
    }

    const fn most(self) -> usize {
        match self {
            Self::Records => MOST_RECORDS,
            Self::Contents => MOST_CONTENTS,
        }
    }
}

/// What comes to one file.
#[derive(Debug)]
struct Shelf {
    open: Writing,
    /// When the first of the open block came.
    since: Instant,
    /// Not written yet, from the oldest to the newest.
    sealed: VecDeque<Arc<Block>>,
    bytes: usize,
    lost: u64,
    trouble: Option<Trouble>,
    /// What befell the file last.
    befell: Option<Damage>,
    /// What the reader has found damaged, and why.
    damage: Option<String>,
    /// How often blocks were numbered anew. None before it is known what numbers the file has.
    numbering: Option<u64>,
    /// What is in the file is kept no more; nothing is written before it is gone.
    is_to_go: bool,
}

impl Shelf {
    fn new() -> Self {
        let open = Writing::new(now_as_id());
        let sealed = VecDeque::new();
        let (since, numbering, is_to_go) = (Clock.now(), None, false);
        Self { open, since, sealed, bytes: 0, lost: 0, trouble: None, befell: None, damage: None, numbering, is_to_go }
    }

    /// Adds something, where there is room; true where the thread must hear of it.
    fn add(&mut self, add: impl FnOnce(&mut Writing), most: usize) -> bool {
        if self.bytes > most {
            self.lost += 1;
            return false;
        }
        let is_first = self.open.count() == 0;
        if is_first {
            self.since = Clock.now();
        }
        add(&mut self.open);
        if self.open.is_full() {
            self.seal();
            return true;
        }
        is_first
    }

    /// Forgets what is not written, and has what is written removed; what comes after it is numbered on.
    fn clear(&mut self) {
        let open = Writing::new(now_as_id().max(self.open.id() + 1));
        let befell = self.befell.take();
        *self = Self { open, lost: self.lost, befell, numbering: self.numbering, is_to_go: true, ..Self::new() };
    }

    fn seal(&mut self) {
        if self.open.count() == 0 {
            return;
        }
        let next = Writing::new(now_as_id().max(self.open.id() + 1));
        let block = Arc::new(std::mem::replace(&mut self.open, next).sealed());
        self.bytes += block.size();
        self.sealed.push_back(block);
    }

    /// Everything here comes after a block of the file: the clock was set back since that was written, or another
    /// process writes too.
    fn number_after(&mut self, last: u64) {
        let first = self.sealed.front().map_or_else(|| self.open.id(), |block| block.id);
        let numbering = self.numbering.unwrap_or_default();
        self.numbering = Some(numbering);
        if first > last {
            return;
        }
        self.numbering = Some(numbering + 1);
        let mut next = last;
        for block in &mut self.sealed {
            next += 1;
            Arc::make_mut(block).id = next;
        }
        self.open.renumber(next + 1);
    }

    fn is_due(&self) -> bool {
        !self.sealed.is_empty() || (self.open.count() > 0 && self.since.elapsed() >= GATHER)
    }

    fn waiting(&self) -> u64 {
        u64::from(self.open.count()) + self.sealed.iter().map(|block| u64::from(block.count)).sum::<u64>()
    }
}

/// Blocks are numbered by the time at which they begin: also after a restart later ones are greater, unless the clock was
/// set back, which [`Desk::number_after`] sets right.
fn now_as_id() -> u64 {
    u64::try_from(Clock.wall().as_micros()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct State {
    shelves: [Shelf; 2],
    bounds: Bounds,
    /// There is news for the thread, or somebody waits for everything to be written.
    is_urgent: bool,
    at_work: bool,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    #[cfg(test)]
    pub trial: super::tests::Trial,
}

/// Why the thread wakes.
pub(super) struct Work {
    pub is_urgent: bool,
    pub closed: bool,
    pub bounds: Bounds,
}

impl Desk {
    pub fn new(bounds: Bounds) -> Self {
        let shelves = [Shelf::new(), Shelf::new()];
        let state = State { shelves, bounds, is_urgent: true, at_work: false, closed: false };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            #[cfg(test)]
            trial: super::tests::Trial::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, records: &[Record]) {
        self.add(Which::Records, records, |open, record| open.add(record));
    }

    pub fn keep(&self, contents: &[Content]) {
        self.add(Which::Contents, contents, |open, content| open.add_content(content));
    }

    fn add<T>(&self, which: Which, all: &[T], add: impl Fn(&mut Writing, &T)) {
        let mut state = self.state();
        if !which.is_kept(state.bounds) {
            return;
        }
        let [records, contents] = &mut state.shelves;
        let shelf = if which == Which::Records { records } else { contents };
        let mut is_news = false;
        for one in all {
            is_news |= shelf.add(|open| add(open, one), which.most());
        }
        drop(state);
        if is_news {
            self.changed.notify_all();
        }
    }

    pub fn bound(&self, bounds: Bounds) {
        let mut state = self.state();
        if state.bounds == bounds {
            return;
        }
        state.bounds = bounds;
        for (shelf, which) in state.shelves.iter_mut().zip(Which::BOTH) {
            if !which.is_kept(bounds) {
                shelf.clear();
            }
        }
        state.is_urgent = true;
        drop(state);
        self.changed.notify_all();
    }

    /// The thread waits until a block is due, at most so long, and for nothing of a file that `fails`.
    pub fn next(&self, wait: Duration, fails: [bool; 2]) -> Work {
        let mut state = self.state();
        state.at_work = false;
        self.changed.notify_all();
        let until = Clock.now() + wait;
        loop {
            let mut sound = state.shelves.iter().zip(fails).filter(|(_, fails)| !fails).map(|(shelf, _)| shelf);
            let is_due = sound.clone().any(Shelf::is_due);
            // A block that has begun is due soon.
            let has_begun = sound.any(|shelf| shelf.open.count() > 0);
            let left = until.saturating_duration_since(Clock.now());
            if is_due || state.is_urgent || state.closed || left.is_zero() {
                break;
            }
            let left = if has_begun { left.min(GATHER) } else { left };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.at_work = true;
        Work { is_urgent: std::mem::take(&mut state.is_urgent), closed: state.closed, bounds: state.bounds }
    }

    /// What is to be written now, from the oldest to the newest; it stays here until it is [`Desk::written`].
    pub fn due(&self, which: Which, is_urgent: bool) -> Vec<Arc<Block>> {
        let mut state = self.state();
        let Some(shelf) = state.shelves.get_mut(which.at()).filter(|shelf| !shelf.is_to_go) else { return Vec::new() };
        if is_urgent || shelf.since.elapsed() >= GATHER {
            shelf.seal();
        }
        shelf.sealed.iter().cloned().collect()
    }

    /// Whether what was written is to be removed before anything else is written.
    pub fn is_to_go(&self, which: Which) -> bool {
        self.state().shelves.get(which.at()).is_some_and(|shelf| shelf.is_to_go)
    }

    /// Whether what is in the file may be told: it is kept, and is not to be removed.
    pub fn may_tell(&self, which: Which) -> bool {
        let state = self.state();
        which.is_kept(state.bounds) && state.shelves.get(which.at()).is_some_and(|shelf| !shelf.is_to_go)
    }

    /// What was written is removed.
    pub fn has_gone(&self, which: Which) {
        if let Some(shelf) = self.state().shelves.get_mut(which.at()) {
            shelf.is_to_go = false;
        }
    }

    /// The oldest blocks up to the one of this number are in the file, or never will be. Those that came after these
    /// were forgotten have greater numbers, and stay.
    pub fn written(&self, which: Which, last: u64, is_lost: bool) {
        let mut state = self.state();
        let Some(shelf) = state.shelves.get_mut(which.at()) else { return };
        while shelf.sealed.front().is_some_and(|block| block.id <= last) {
            let Some(block) = shelf.sealed.pop_front() else { break };
            shelf.bytes = shelf.bytes.saturating_sub(block.size());
            if is_lost {
                shelf.lost += u64::from(block.count);
            }
        }
    }

    /// What is not in the file yet, from the newest to the oldest, and how often it was numbered anew; `None` before
    /// [`Desk::number_after`] was told of the file.
    pub fn unwritten(&self, which: Which) -> (Option<u64>, Vec<Arc<Block>>) {
        let state = self.state();
        let Some(shelf) = state.shelves.get(which.at()) else { return (None, Vec::new()) };
        let open = (shelf.open.count() > 0).then(|| Arc::new(shelf.open.so_far()));
        (shelf.numbering, open.into_iter().chain(shelf.sealed.iter().rev().cloned()).collect())
    }

    /// How often what is not in the file yet was numbered anew, as [`Desk::unwritten`] gives it.
    pub fn numbering(&self, which: Which) -> Option<u64> {
        self.state().shelves.get(which.at())?.numbering
    }

    /// The last block in the file has this number: all that comes is greater. For the thread that writes, between two
    /// commits.
    pub fn number_after(&self, which: Which, last: u64) {
        if let Some(shelf) = self.state().shelves.get_mut(which.at()) {
            shelf.number_after(last);
        }
    }

    /// The same before that thread has come to it; after that it knows better.
    pub fn number_first(&self, which: Which, last: u64) {
        if let Some(shelf) = self.state().shelves.get_mut(which.at()).filter(|shelf| shelf.numbering.is_none()) {
            shelf.number_after(last);
        }
    }

    pub fn report_damage(&self, which: Which, why: String) {
        let mut state = self.state();
        state.is_urgent = true;
        if let Some(shelf) = state.shelves.get_mut(which.at()) {
            shelf.damage = Some(why);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub fn take_damage(&self, which: Which) -> Option<String> {
        self.state().shelves.get_mut(which.at())?.damage.take()
    }

    /// Something has befallen the file.
    pub fn befell(&self, which: Which, what: String) {
        if let Some(shelf) = self.state().shelves.get_mut(which.at()) {
            Damage::note(&mut shelf.befell, Clock.wall(), what);
        }
    }

    pub fn set_trouble(&self, which: Which, trouble: Option<Trouble>) {
        if let Some(shelf) = self.state().shelves.get_mut(which.at()) {
            shelf.trouble = trouble;
        }
    }

    pub fn health(&self) -> Health {
        let state = self.state();
        let [records, contents] = &state.shelves;
        let of_contents = || {
            let Trouble { since, what } = contents.trouble.clone()?;
            Some(Trouble { since, what: format!("{}: {what}", Which::Contents.name()) })
        };
        Health {
            trouble: records.trouble.clone().or_else(of_contents),
            waiting: records.waiting(),
            contents_waiting: contents.waiting(),
            lost: records.lost,
            contents_lost: contents.lost,
            damage: records.befell.clone(),
            contents_damage: contents.befell.clone(),
        }
    }

    pub fn flush(&self, patience: Duration) -> bool {
        let mut state = self.state();
        state.is_urgent = true;
        self.changed.notify_all();
        let is_unwritten = |state: &mut State| {
            state.is_urgent || state.at_work || state.shelves.iter().any(|shelf| shelf.waiting() > 0)
        };
        let waited = self.changed.wait_timeout_while(state, patience, is_unwritten);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}
