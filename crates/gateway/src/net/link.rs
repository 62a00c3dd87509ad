//! One HTTP/1.1 connection to an upstream, driven by whoever uses it.
//!
//! hyper splits a client connection into a handle that sends and a future that does the I/O. The
//! usual way spawns that future as a task of its own, and every byte then costs a hop between two
//! tasks. Here the call polls it itself: one task carries a request from the caller's socket to the
//! upstream's and back, and dropping a [`Flow`] closes the upstream connection at once, which is
//! how a caller who leaves cancels the upstream.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use base::{Fault, Kind};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::{Dialed, Io};
use super::places::Place;
use crate::caller::waker::QuietWaker;

/// What goes out: a whole body.
pub type Outgoing = Request<Full<Bytes>>;

/// Why a request got no answer.
#[derive(Debug)]
pub enum SendFault {
    /// The connection was closed before a byte of the request left: nothing can have happened.
    NotSent,
    /// The connection ended after bytes may have left and before the answer's head came.
    NoAnswer(hyper::Error),
    /// What came is not HTTP, or its head has no end.
    NotHttp(hyper::Error),
}

impl SendFault {
    /// What it says of the upstream.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotSent => Fault {
                maybe_processed: false,
                ..Fault::upstream(Kind::Reset, "the connection was closed before the call")
            },
            Self::NoAnswer(_) => Fault::upstream(Kind::Reset, "the upstream closed the connection without an answer"),
            Self::NotHttp(error) if error.is_parse_too_large() || is_endless(error) => {
                Fault::upstream(Kind::BadResponse, "the head of the upstream's answer is too large")
            }
            Self::NotHttp(_) => Fault::upstream(Kind::BadResponse, "the upstream's answer is not HTTP"),
        }
    }
}

type Wire = Pin<Box<Connection<TokioIo<Heard>, Full<Bytes>>>>;

/// Bytes that are read at most before an answer's head is whole: that head, and interim responses (RFC 9110, section
/// 15.2) before it. hyper skips those one after the other in one turn, so that an upstream which never ends
/// them would keep a worker from all its other calls.
const HEAD_BOUND: usize = 2 * READ_BUFFER;

/// A byte stream of which no more is read than may be.
struct Heard {
    io: Box<dyn Io>,
    /// Bytes that may still be read; `usize::MAX` while an answer's body comes.
    left: Arc<AtomicUsize>,
}

impl AsyncRead for Heard {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "an answer's head without end")));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if left != usize::MAX {
            let read = buf.filled().len().saturating_sub(before);
            self.left.store(left.saturating_sub(read), Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Heard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A connection that carries one call at a time.
pub struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once hyper is through with it.
    wire: Option<Wire>,
    /// Bytes that may still be read of it, see [`Heard`].
    left: Arc<AtomicUsize>,
    quiet_waker: QuietWaker,
    probe: Probe,
    /// The address it leads to; `None` through a proxy and in tests.
    pub peer: Option<IpAddr>,
    /// When it was opened.
    pub born: Instant,
    /// The count of the resolver's answers up to which `peer` was found to be the provider's still.
    pub(super) confirmed: u64,
    /// When its last answer ended.
    pub idle_since: Instant,
    /// True once it has carried a call: the other side may close it any moment.
    pub reused: bool,
    /// Its place in the provider's `max_connections`.
    pub(super) place: Place,
}

type Probe = Box<dyn Fn() -> bool + Send + Sync>;

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("peer", &self.peer).field("reused", &self.reused).finish_non_exhaustive()
    }
}

impl Link {
    /// Starts HTTP/1.1 on an open socket.
    ///
    /// # Errors
    /// Never in practice: HTTP/1.1 has no handshake; hyper's signature says it may.
    pub async fn start(dialed: Dialed, place: Place, now: Instant) -> Result<Box<Self>, hyper::Error> {
        let Dialed { io, probe, peer } = dialed;
        let left = Arc::new(AtomicUsize::new(HEAD_BOUND));
        let io = TokioIo::new(Heard { io, left: left.clone() });
        let (sender, wire) = hyper::client::conn::http1::Builder::new().max_buf_size(READ_BUFFER).handshake(io).await?;
        Ok(Box::new(Self {
            sender,
            wire: Some(Box::pin(wire)),
            left,
            quiet_waker: QuietWaker::default(),
            probe,
            peer,
            born: now,
            confirmed: 0,
            idle_since: now,
            reused: false,
            place,
        }))
    }

    /// True when the other side has neither closed the connection nor sent anything unasked.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.wire.is_some() && !self.sender.is_closed() && (self.probe)()
    }

    /// Sends one request and waits for the head of its answer.
    ///
    /// # Errors
    /// See [`SendFault`]; the connection is of no further use then.
    pub fn send(
        mut self: Box<Self>,
        request: Outgoing,
    ) -> impl Future<Output = Result<(Response<()>, Flow), SendFault>> + Send {
        self.left.store(HEAD_BOUND, Ordering::Relaxed);
        // The request is with hyper before the first poll: the future need not hold it.
        let sent = self.sender.try_send_request(request);
        self.answered(sent)
    }

    async fn answered(
        mut self: Box<Self>,
        sent: impl Future<Output = Result<Response<Incoming>, TrySendError<Outgoing>>>,
    ) -> Result<(Response<()>, Flow), SendFault> {
        let answer = {
            let (wire, quiet_waker) = (&mut self.wire, &self.quiet_waker);
            let mut sent = pin!(sent);
            poll_fn(|cx| {
                // What is waited for here comes from `drive` alone and is looked at right after it,
                // so it needs no waker: one would only have this very task polled once more.
                let mut quiet = Context::from_waker(Waker::noop());
                if let Poll::Ready(answer) = sent.as_mut().poll(&mut quiet) {
                    return Poll::Ready(answer);
                }
                drive(wire, quiet_waker, cx);
                sent.as_mut().poll(&mut quiet)
            })
            .await
        };
        match answer {
            Ok(response) => {
                self.left.store(usize::MAX, Ordering::Relaxed);
                let (head, body) = response.into_parts();
                Ok((Response::from_parts(head, ()), Flow { link: Some(self), body, ended: false }))
            }
            Err(mut failed) => {
                if failed.take_message().is_some() {
                    return Err(SendFault::NotSent);
                }
                let error = failed.into_error();
                if error.is_parse() || error.is_parse_status() || error.is_parse_too_large() || is_endless(&error) {
                    Err(SendFault::NotHttp(error))
                } else {
                    Err(SendFault::NoAnswer(error))
                }
            }
        }
    }
}

/// Whether more came before an answer's head than [`Heard`] lets through.
fn is_endless(error: &hyper::Error) -> bool {
    let below = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    below.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

/// Lets the connection do what I/O it can.
fn drive(wire: &mut Option<Wire>, quiet_waker: &QuietWaker, cx: &Context<'_>) {
    if let Some(connection) = wire
        && quiet_waker.through(cx, |cx| connection.as_mut().poll(cx)).is_ready()
    {
        // Whatever it ended with, the request's own future has been told.
        *wire = None;
    }
}

/// Read in pieces of at most this: large bodies in few system calls, many streams in little memory
/// (hyper starts at 8 KiB and grows to this only where reads fill it).
const READ_BUFFER: usize = 256 * 1024;

/// An answer's body on its connection.
#[derive(Debug)]
pub struct Flow {
    link: Option<Box<Link>>,
    body: Incoming,
    ended: bool,
}

impl Flow {
    /// The next piece as it came; `None` at the clean end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            if self.body.is_end_stream() {
                // Its length was known: waiting for its end would be one more turn of the connection.
                self.ended = true;
                return Poll::Ready(None);
            }
            if let Poll::Ready(frame) = self.poll_body(cx) {
                match frame {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => return Poll::Ready(Some(Ok(data))),
                        Err(_trailers) => continue,
                    },
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => {
                        self.ended = true;
                        return Poll::Ready(None);
                    }
                }
            }
            return Poll::Pending;
        }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        let Some(link) = self.link.as_mut() else { return Pin::new(&mut self.body).poll_frame(cx) };
        let mut quiet = Context::from_waker(Waker::noop());
        let body = &mut self.body;
        if let Poll::Ready(frame) = link.quiet_waker.held_still(|| Pin::new(&mut *body).poll_frame(&mut quiet)) {
            return Poll::Ready(frame);
        }
        drive(&mut link.wire, &link.quiet_waker, cx);
        link.quiet_waker.held_still(|| Pin::new(body).poll_frame(&mut quiet))
    }

    /// The next piece; `None` at the clean end.
    pub async fn piece(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        poll_fn(|cx| self.poll_piece(cx)).await
    }

    /// What the head said about the body's length.
    #[must_use]
    pub fn size_hint(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The connection, when the answer has been read to its end and another call may follow.
    pub fn into_link(mut self, now: Instant) -> Option<Box<Link>> {
        if !self.ended && !self.body.is_end_stream() {
            return None;
        }
        let mut link = self.link.take()?;
        if !link.sender.is_ready() {
            // Mostly the turn that brought the answer's end has also made it ready for the next request.
            drive(&mut link.wire, &link.quiet_waker, &Context::from_waker(Waker::noop()));
        }
        if link.wire.is_none() || !link.sender.is_ready() {
            return None;
        }
        // What happens to an idle connection must not wake whoever used it last.
        link.quiet_waker.forget();
        link.reused = true;
        link.idle_since = now;
        Some(link)
    }
}
