//! A caller's body: read with a cap and a clock.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use base::{Code, Refusal};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};

use crate::caller::socket::Presence;

/// Why a caller's body could not be read.
#[derive(Debug)]
pub enum Unread {
    /// It is refused.
    Refused(Refusal),
    /// The caller left.
    Gone,
}

/// What may still be read and thrown away of a body that is refused, so that the refusal reaches a
/// caller who sends first and reads afterwards.
const THROWN_AWAY: u64 = 32 << 20;
const THROWING: Duration = Duration::from_millis(500);

/// Reads a caller's body of at most `most` bytes within `patience`.
///
/// # Errors
/// `request_too_large`, `request_timeout`, or a caller who left.
pub async fn read_body<B>(mut body: B, most: usize, patience: Duration, presence: &Presence) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let declared = body.size_hint().lower();
    if declared > most as u64 {
        throw_away(&mut body, declared, presence).await;
        return Err(Unread::Refused(too_large(most)));
    }
    let reading = collect(&mut body, most, presence);
    match tokio::time::timeout(patience, reading).await {
        Ok(Ok(Some(whole))) => Ok(whole),
        Ok(Ok(None)) => {
            throw_away(&mut body, THROWN_AWAY, presence).await;
            Err(Unread::Refused(too_large(most)))
        }
        Ok(Err(Lost::Gone)) => Err(Unread::Gone),
        Ok(Err(Lost::Garbled)) => Err(Unread::Refused(Refusal::new(
            Code::InvalidRequest,
            "the body's transfer coding is broken: a chunk's size or end is not what HTTP/1.1 has there",
        ))),
        Err(_elapsed) => Err(Unread::Refused(Refusal::new(
            Code::RequestTimeout,
            format!("the body did not arrive within {} s; send it faster or in one piece", patience.as_secs()),
        ))),
    }
}

/// The refusal of a body that is larger than `most` bytes.
#[must_use]
pub fn too_large(most: usize) -> Refusal {
    Refusal::new(Code::RequestTooLarge, format!("the body is larger than {most} bytes (max_body); send less at once"))
}

/// Why a body ended before its end.
enum Lost {
    /// The caller left.
    Gone,
    /// What came is no body: a chunk's size that is no number, a line that is no line.
    Garbled,
}

impl Lost {
    /// hyper says the one by the kind of the I/O error below it.
    fn by(error: &(dyn std::error::Error + 'static)) -> Self {
        let below = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        match below.map(std::io::Error::kind) {
            Some(std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData) => Self::Garbled,
            _ => Self::Gone,
        }
    }
}

/// The body, or `None` when it is longer than `most`.
async fn collect<B>(body: &mut B, most: usize, presence: &Presence) -> Result<Option<Bytes>, Lost>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let mut first: Option<Bytes> = None;
    let mut gathered = BytesMut::new();
    // A body of known length has ended with its last byte; to wait for its end would be one more
    // turn of the whole connection.
    while !body.is_end_stream()
        && let Some(piece) = piece(body, presence).await?
    {
        let so_far = first.as_ref().map_or(gathered.len(), Bytes::len);
        if so_far + piece.len() > most {
            return Ok(None);
        }
        match first.take() {
            // Most bodies come in one piece, and that piece is not copied.
            None if gathered.is_empty() => first = Some(piece),
            Some(begun) => {
                let rest = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(most);
                gathered.reserve(begun.len() + piece.len() + rest);
                gathered.extend_from_slice(&begun);
                gathered.extend_from_slice(&piece);
            }
            None => gathered.extend_from_slice(&piece),
        }
    }
    Ok(Some(first.unwrap_or_else(|| gathered.freeze())))
}

async fn piece<B>(body: &mut B, presence: &Presence) -> Result<Option<Bytes>, Lost>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    loop {
        // hyper tells the connection that its channel is wanted, and that it is empty again. Both
        // would have it polled once more; it is told only where more is to come.
        let mut wanted = false;
        let frame =
            std::future::poll_fn(|cx| match presence.quiet_waker.held_still(|| Pin::new(&mut *body).poll_frame(cx)) {
                // Everything sent before the FIN has been seen: what is missing will not come.
                Poll::Pending if presence.has_stopped_sending() => Poll::Ready(Err(Lost::Gone)),
                Poll::Pending => {
                    if !std::mem::replace(&mut wanted, true) {
                        presence.quiet_waker.wake();
                    }
                    Poll::Pending
                }
                Poll::Ready(None) => Poll::Ready(Ok(None)),
                Poll::Ready(Some(Ok(frame))) => Poll::Ready(Ok(Some(frame))),
                Poll::Ready(Some(Err(broken))) => Poll::Ready(Err(Lost::by(&broken))),
            })
            .await?;
        if frame.is_some() && !body.is_end_stream() {
            presence.quiet_waker.wake();
        }
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => return Ok(Some(data)),
            Some(Err(_trailers)) => {}
            None => return Ok(None),
        }
    }
}

/// Reads and drops what is left of a body, within bounds.
pub async fn throw_away<B>(body: &mut B, most: u64, presence: &Presence)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let most = most.min(THROWN_AWAY);
    let throwing = async {
        let mut thrown = 0;
        while thrown < most {
            match piece(body, presence).await {
                Ok(Some(piece)) => thrown += piece.len() as u64,
                Ok(None) | Err(_) => return,
            }
        }
    };
    // Running out of patience is fine: the connection is closed then.
    let _ = tokio::time::timeout(THROWING, throwing).await;
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Context;

    use super::*;

    struct Pieces(VecDeque<&'static [u8]>, bool);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            match self.0.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(piece))))),
                None if self.1 => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn body(pieces: &[&'static [u8]]) -> Pieces {
        Pieces(pieces.iter().copied().collect(), false)
    }

    #[tokio::test]
    async fn pieces_are_put_together() {
        let whole = read_body(body(&[b"ab", b"c", b"", b"de"]), 5, Duration::from_secs(1), &Presence::default()).await;
        assert_eq!(whole.unwrap(), "abcde");
    }

    #[tokio::test]
    async fn a_limit_binds_bodies_without_a_length() {
        let whole = read_body(body(&[b"ab", b"cd"]), 3, Duration::from_secs(1), &Presence::default()).await;
        assert!(matches!(whole, Err(Unread::Refused(refusal)) if refusal.code == Code::RequestTooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_half_way_ends_by_its_clock() {
        let stopped = Pieces([b"ab".as_slice()].into(), true);
        let whole = read_body(stopped, 9, Duration::from_secs(1), &Presence::default()).await;
        assert!(matches!(whole, Err(Unread::Refused(refusal)) if refusal.code == Code::RequestTimeout));
    }
}
