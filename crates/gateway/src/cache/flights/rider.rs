//! One caller's place in a flight.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::flight::{Seat, State};
use super::{End, Flight, Head, Passenger};

/// One who rides. Dropped before the end, it has left.
#[derive(Debug)]
pub struct Rider {
    /// The flight that it waits for.
    pub flight: Arc<Flight>,
    at: usize,
    leads: bool,
    is_live: bool,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// More of the answer.
    Frame(Bytes),
    /// No more.
    End(End),
}

/// What a flight has come to, for one who waits.
#[derive(Debug)]
pub enum Arrival {
    /// Its answer has begun, and goes on as it comes.
    Begun(Head),
    /// It is over.
    Over(End),
}

impl Rider {
    /// Takes a place in a flight, as its leader or as one of those who follow; `None` where nobody may board any more.
    pub(super) fn board(flight: &Arc<Flight>, passenger: &Passenger, leads: bool) -> Option<Self> {
        let mut state = flight.lock();
        if !state.may_board() {
            return None;
        }
        let is_live = leads || flight.is_live_for(passenger.form);
        let seat = Some(Seat { wants_whole: !is_live, ..Seat::default() });
        let free = state.seats.iter().position(Option::is_none);
        let at = free.unwrap_or(state.seats.len());
        match state.seats.get_mut(at) {
            Some(place) => *place = seat,
            None => state.seats.push(seat),
        }
        state.aboard += 1;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Some(Self { flight: flight.clone(), at, leads, is_live })
    }

    /// Waits for the beginning of the answer where it is taken as it comes, else for its end.
    pub async fn arrival(&mut self) -> Arrival {
        poll_fn(|cx| {
            let mut state = self.flight.lock();
            if let (Some(head), true) = (&state.head, self.is_live) {
                return Poll::Ready(Arrival::Begun(head.clone()));
            }
            if let Some(end) = &state.end {
                return Poll::Ready(Arrival::Over(end.clone()));
            }
            if state.is_too_long() && !self.is_live {
                return Poll::Ready(Arrival::Over(End::PassedOn));
            }
            self.wait(&mut state, cx);
            Poll::Pending
        })
        .await
    }

    /// Waits for the end, whatever it is; of an answer that is longer than is held for nothing more, as those who read
    /// it would wait for who does not.
    pub async fn over(&mut self) {
        poll_fn(|cx| {
            let mut state = self.flight.lock();
            if state.end.is_some() || state.is_too_long() {
                return Poll::Ready(());
            }
            self.wait(&mut state, cx);
            Poll::Pending
        })
        .await;
    }

    /// The next piece, or the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.flight.lock();
        let dropped = state.dropped;
        let taken = state.seats.get(self.at).and_then(Option::as_ref).map_or(0, |seat| seat.frames);
        let Some(frame) = state.frames.get(taken.saturating_sub(dropped)).cloned() else {
            if let Some(end) = &state.end {
                return Poll::Ready(Next::End(end.clone()));
            }
            self.wait(&mut state, cx);
            return Poll::Pending;
        };
        if let Some(Some(seat)) = state.seats.get_mut(self.at) {
            seat.frames += 1;
            seat.bytes += frame.len() as u64;
        }
        if state.is_too_long() {
            state.drop_taken();
        }
        let task = if state.is_paused && state.is_wanted() { state.task.take() } else { None };
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Poll::Ready(Next::Frame(frame))
    }

    /// The end, where everything has been taken.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        let state = self.flight.lock();
        let taken = state.seats.get(self.at).and_then(Option::as_ref).map_or(0, |seat| seat.frames);
        state.end.clone().filter(|_| taken >= state.dropped + state.frames.len())
    }

    fn wait(&self, state: &mut State, cx: &mut Context<'_>) {
        if let Some(Some(seat)) = state.seats.get_mut(self.at) {
            seat.waker = Some(cx.waker().clone());
        }
    }
}

impl Drop for Rider {
    fn drop(&mut self) {
        let mut state = self.flight.lock();
        if let Some(place) = state.seats.get_mut(self.at)
            && place.take().is_some()
        {
            state.aboard -= 1;
        }
        if state.end.is_none() {
            if self.leads {
                self.flight.departed.store(true, Relaxed);
            }
            state.is_abandoned = state.aboard == 0;
        }
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}
