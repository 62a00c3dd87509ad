//! The body of an answer that comes from a flight, for one of those who ride.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use base::{Code, Outcome, Refusal, Saved};
use bytes::Bytes;
use dialect::sse::error_event;

use crate::cache::flights::{End, Landed, Next, Rider, broken_off};
use crate::caller::socket::Presence;
use crate::trail::Trail;

/// An answer on its way from a flight to one caller. Dropped before its end, the caller has left.
pub struct FlightBody {
    rider: Rider,
    /// Of a follower. The leader's is with the flight.
    trail: Option<Trail>,
    presence: Presence,
    is_events: bool,
    has_probed: bool,
    is_over: bool,
}

impl std::fmt::Debug for FlightBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlightBody").field("trail", &self.trail).finish_non_exhaustive()
    }
}

impl FlightBody {
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
                self.end(&end);
                match end {
                    End::Landed(_) => Poll::Ready(None),
                    _ if !self.is_events => {
                        Poll::Ready(Some(Err(std::io::Error::other("the upstream's answer broke off"))))
                    }
                    // Its last piece has said so.
                    End::Broken(_) => Poll::Ready(None),
                    End::Refused(_) | End::PassedOn => Poll::Ready(Some(Ok(error_event(&unfinished())))),
                }
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
            // Of a flight whose answer has begun, only where its task was lost.
            End::Refused(_) | End::PassedOn => {
                trail.record.code = Some(unfinished().code.row().code.into());
                trail.end(Outcome::GatewayFailed);
            }
        }
    }
}

/// An answer that has begun, and that nobody will end.
fn unfinished() -> Refusal {
    broken_off(Code::InternalError)
}

/// What one who follows has saved.
#[must_use]
pub fn saved(landed: &Landed) -> Box<Saved> {
    let usage = landed.usage.unwrap_or_default();
    Box::new(Saved { usage, cost: landed.cost.clone(), took: landed.took })
}

impl Drop for FlightBody {
    fn drop(&mut self) {
        // Callers close at `[DONE]`, with which the end comes.
        if let Some(end) = self.rider.end() {
            self.end(&end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use http::HeaderValue;
    use rules::shares::Priority;
    use state::answers::Key;

    use super::*;
    use crate::cache::flights::{Boarded, Flights, Form, Head, Names, Passenger};

    async fn taken(is_events: bool) -> Vec<std::io::Result<Bytes>> {
        let passenger = Passenger {
            client: "app".into(),
            priority: Priority::Online,
            form: Form::Stream { shows_usage: false },
            allotted: Duration::from_secs(60),
            is_idempotent: true,
            body: Bytes::new(),
            purges: 0,
        };
        let names = Names { answer: Some(Key([1; 32])), replay: None };
        let Boarded::Leads(rider) = Flights::default().board(&names, &passenger, |_| true) else { panic!("it leads") };
        let content_type = HeaderValue::from_static("text/event-stream");
        rider.flight.begin(Head { shown: HeaderValue::from_static("a/model-a"), content_type, is_events, id: None });
        rider.flight.push(b"data: {}\n\n");
        rider.flight.land(End::PassedOn);
        let mut ride = FlightBody::new(rider, None, Presence::default(), is_events);
        let mut taken = Vec::new();
        while let Some(piece) = poll_fn(|cx| ride.poll_bytes(cx)).await {
            taken.push(piece);
        }
        taken
    }

    #[tokio::test]
    async fn a_stream_whose_flight_is_lost_does_not_end_as_if_it_were_whole() {
        let pieces: Vec<Bytes> = taken(true).await.into_iter().map(Result::unwrap).collect();
        let [first, last] = &pieces[..] else { panic!("{pieces:?}") };
        assert_eq!(first, "data: {}\n\n");
        let last = std::str::from_utf8(last).unwrap();
        assert!(last.starts_with("data: ") && last.contains("internal_error") && last.ends_with("\n\n"), "{last}");
        assert!(taken(false).await.last().unwrap().is_err());
    }
}
