//! One call in flight: what has come of its answer, and who has taken how much of it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::{Bytes, BytesMut};
use rules::shares::Priority;
use smallvec::SmallVec;
use state::answers::Key;

use super::{Admits, End, Form, Head, LONGEST, Passenger, Promise};

/// So many bytes an upstream may be ahead of the fastest reader.
const AHEAD: u64 = 64 << 10;
/// Pieces are gathered into blocks of this size: as slices of what was read from a socket they would keep all of
/// that.
const BLOCK: usize = 16 << 10;

/// One call in flight.
#[derive(Debug)]
pub struct Flight {
    /// Who leads it.
    pub leader: Passenger,
    /// The leader has left.
    pub departed: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) head: Option<Head>,
    pub(super) frames: VecDeque<Bytes>,
    /// Frames that everybody has taken and that are held no more.
    pub(super) dropped: usize,
    /// Bytes that came.
    pub(super) total: u64,
    pub(super) block: BytesMut,
    pub(super) end: Option<End>,
    pub(super) seats: Vec<Option<Seat>>,
    pub(super) aboard: usize,
    pub(super) is_abandoned: bool,
    /// Of the task.
    pub(super) task: Option<Waker>,
    /// The task waits until more is wanted.
    pub(super) is_paused: bool,
    pub(super) names: SmallVec<[Key; 2]>,
    pub(super) promises: SmallVec<[Promised; 1]>,
    /// What answers them is being kept: no more are taken.
    pub(super) is_settled: bool,
}

/// An idempotency key that a flight answers.
#[derive(Clone, Debug)]
pub struct Promised {
    /// The key.
    pub promise: Promise,
    /// Its call came with the leader's body, so that it would be refused as that is.
    pub is_leaders: bool,
}

/// Where one of the riders is.
#[derive(Default)]
pub(super) struct Seat {
    /// Frames taken, those dropped included.
    pub(super) frames: usize,
    /// Bytes taken.
    pub(super) bytes: u64,
    /// It waits for the whole.
    pub(super) wants_whole: bool,
    pub(super) waker: Option<Waker>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, aboard, is_abandoned, end, .. } = self;
        f.debug_struct("State")
            .field("bytes", total)
            .field("aboard", aboard)
            .field("end", end)
            .field("is_abandoned", is_abandoned)
            .finish_non_exhaustive()
    }
}

type Wakers = SmallVec<[Waker; 4]>;

fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(Waker::wake);
}

impl State {
    pub(super) fn may_board(&self) -> bool {
        self.end.is_none() && !self.is_abandoned && !self.is_too_long()
    }

    pub(super) const fn is_too_long(&self) -> bool {
        self.total > LONGEST
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().flatten()
    }

    fn everybody(&mut self) -> Wakers {
        self.seats.iter_mut().flatten().filter_map(|seat| seat.waker.take()).collect()
    }

    /// Whether more may be read of the upstream.
    pub(super) fn is_wanted(&self) -> bool {
        let fastest = self.seats().map(|seat| seat.bytes).max().unwrap_or(self.total);
        let slowest = self.seats().map(|seat| seat.bytes).min().unwrap_or(self.total);
        if self.is_too_long() {
            return self.total - slowest < LONGEST && self.total - fastest < AHEAD;
        }
        self.total - fastest < AHEAD || self.seats().any(|seat| seat.wants_whole)
    }

    fn take(&mut self, piece: &[u8]) {
        if self.block.capacity() < piece.len() {
            self.block = BytesMut::with_capacity(piece.len().max(BLOCK));
        }
        self.block.extend_from_slice(piece);
        let frame = self.block.split().freeze();
        self.frames.push_back(frame);
        self.total += piece.len() as u64;
        if self.is_too_long() {
            self.drop_taken();
        }
    }

    pub(super) fn drop_taken(&mut self) {
        let first = self.seats().map(|seat| seat.frames).min().unwrap_or(self.dropped + self.frames.len());
        while self.dropped < first && self.frames.pop_front().is_some() {
            self.dropped += 1;
        }
    }
}

impl Flight {
    pub(super) fn new(leader: Passenger) -> Self {
        Self { leader, departed: Arc::default(), state: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody may ride along.
    pub(super) fn admits(&self, passenger: &Passenger) -> Admits {
        let state = self.lock();
        if !state.may_board() {
            return Admits::No;
        }
        // A call of `batch` waits longer for its place at an upstream: what waits with it would be passed by.
        if self.leader.priority == Priority::Batch && passenger.priority == Priority::Online && state.head.is_none() {
            return Admits::No;
        }
        match (self.leader.form, passenger.form) {
            (Form::Stream { shows_usage: there }, Form::Stream { shows_usage: here }) if there != here => Admits::Never,
            _ => Admits::Yes,
        }
    }

    /// Whether a caller takes what comes as it comes.
    pub(super) fn is_live_for(&self, form: Form) -> bool {
        self.leader.form == form && form != Form::Whole
    }

    /// The answer has begun, and goes on as it comes.
    pub fn begin(&self, head: Head) {
        let mut state = self.lock();
        state.head = Some(head);
        let wakers = state.everybody();
        drop(state);
        wake(wakers);
    }

    /// More of the answer.
    pub fn push(&self, piece: &[u8]) {
        self.pass_on(piece, None);
    }

    /// The last piece of it.
    pub fn push_last(&self, piece: &[u8], end: End) {
        self.pass_on(piece, Some(end));
    }

    fn pass_on(&self, piece: &[u8], end: Option<End>) {
        let mut state = self.lock();
        if !piece.is_empty() {
            state.take(piece);
        }
        if let Some(end) = end {
            state.end.get_or_insert(end);
        }
        let wakers = state.everybody();
        drop(state);
        wake(wakers);
    }

    /// It is over. Only the first word counts.
    pub fn land(&self, end: End) {
        self.pass_on(&[], Some(end));
    }

    /// The whole answer as it came, with this piece at its end; `None` where that is more than is held.
    #[must_use]
    pub fn gathered(&self, last: &[u8]) -> Option<Bytes> {
        let state = self.lock();
        let length = state.total + last.len() as u64;
        if length > LONGEST {
            return None;
        }
        let mut whole = BytesMut::with_capacity(usize::try_from(length).unwrap_or_default());
        state.frames.iter().for_each(|frame| whole.extend_from_slice(frame));
        whole.extend_from_slice(last);
        Some(whole.freeze())
    }

    /// Bytes held now, for tests.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.lock().frames.iter().map(Bytes::len).sum()
    }

    /// Whether more came than is held.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.lock().is_too_long()
    }

    /// Takes one more idempotency key to answer; not where it is too late.
    pub(super) fn promise(&self, promise: Promise, is_leaders: bool) -> bool {
        let mut state = self.lock();
        let may = state.may_board() && !state.is_settled;
        if may {
            state.names.push(promise.key);
            state.promises.push(Promised { promise, is_leaders });
        }
        may
    }

    /// The idempotency keys that its end answers. No more are taken from now on.
    #[must_use]
    pub fn settle(&self) -> SmallVec<[Promised; 1]> {
        let mut state = self.lock();
        state.is_settled = true;
        state.promises.clone()
    }

    /// Waits until more of the answer is wanted.
    pub async fn demand(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            state.is_paused = !state.is_wanted();
            if !state.is_paused {
                return Poll::Ready(());
            }
            state.task = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Ends when nobody rides any more.
    pub async fn abandoned(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_abandoned {
                return Poll::Ready(());
            }
            match &mut state.task {
                Some(known) => known.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
        .await;
    }
}
