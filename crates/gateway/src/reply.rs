//! An answer's body on its way to the caller, written without copies.

pub mod flight_body;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::records::content::Listener;
use crate::relay::Relay;

use flight_body::FlightBody;

/// An answer's body on its way to the caller.
#[derive(Debug)]
pub enum Reply {
    /// Known whole.
    Whole(Option<Bytes>),
    /// As it comes.
    Stream(Box<Relay>),
    /// As it comes, to several callers.
    Flight(Box<FlightBody>),
    /// As it comes, and its text is kept.
    Heard(Box<Self>, Box<Listener>),
}

impl Reply {
    /// A whole body.
    #[must_use]
    pub fn whole(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self::Whole((!body.is_empty()).then_some(body))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Stream(relay) => relay.poll_bytes(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Self::Flight(ride) => ride.poll_bytes(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Self::Heard(reply, listener) => {
                let polled = Pin::new(&mut **reply).poll_frame(cx);
                if let Poll::Ready(Some(Ok(frame))) = &polled {
                    frame.data_ref().into_iter().for_each(|piece| listener.hear(piece));
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Stream(_) | Self::Flight(_) | Self::Heard(..) => SizeHint::default(),
        }
    }
}
