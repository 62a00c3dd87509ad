//! The body of an answer that comes from a flight, for one of those who ride.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use base::{Outcome, Saved};
use bytes::Bytes;

use crate::caller_io::Presence;
use crate::flights::{End, Landed, Next, Rider};
use crate::trail::Trail;

/// An answer on its way from a flight to one caller. Dropped before its end, the caller has left.
pub struct Ride {
    rider: Rider,
    /// Of a follower. The leader's is with the flight.
    trail: Option<Trail>,
    presence: Presence,
    is_events: bool,
    has_probed: bool,
    is_over: bool,
}

impl std::fmt::Debug for Ride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ride").field("trail", &self.trail).finish_non_exhaustive()
    }
}

impl Ride {
    /// Takes what comes, up to the end.
    #[must_use]
    pub fn new(rider: Rider, trail: Option<Trail>, presence: Presence, is_events: bool) -> Self {
        Self { rider, trail, presence, is_events, has_probed: false, is_over: false }
    }

    /// The next bytes for the caller; `None` after the last.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Bytes>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        // All of it may be at hand: the worker's other calls come in between.
        ready!(pin!(tokio::task::consume_budget()).poll(cx));
        match self.rider.poll_next(cx) {
            Poll::Ready(Next::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Next::End(end)) => {
                let is_broken = !matches!(end, End::Landed(_));
                self.end(&end);
                if is_broken && !self.is_events {
                    return Poll::Ready(Some(Err(std::io::Error::other("the upstream's answer broke off"))));
                }
                Poll::Ready(None)
            }
            Poll::Pending if !self.has_probed && self.is_events && self.presence.has_stopped_sending() => {
                // A comment is nothing to a caller who still reads, and finds out one who left.
                self.has_probed = true;
                Poll::Ready(Some(Ok(Bytes::from_static(b":\n\n"))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn end(&mut self, end: &End) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.presence.idle();
        let Some(mut trail) = self.trail.take() else { return };
        match end {
            End::Landed(landed) => {
                trail.record.saved = Some(saved(landed));
                trail.end(Outcome::Ok);
            }
            End::Broken(broken) => {
                trail.record.code = Some(broken.refusal.code.row().code.into());
                trail.end(broken.outcome);
            }
            // Not of a flight whose answer has begun.
            End::Refused(_) | End::PassedOn => trail.end(Outcome::GatewayFailed),
        }
    }
}

/// What one who follows has saved.
#[must_use]
pub fn saved(landed: &Landed) -> Box<Saved> {
    let usage = landed.usage.unwrap_or_default();
    Box::new(Saved { usage, cost: landed.cost.clone(), took: landed.took })
}

impl Drop for Ride {
    fn drop(&mut self) {
        // Callers close at `[DONE]`, with which the end comes.
        if let Some(end) = self.rider.end() {
            self.end(&end);
        }
    }
}
