//! The caller's socket, as hyper sees it: tells a caller who left from one who merely stopped
//! sending, and bounds how long a write may stall.
//!
//! Both send the same FIN. A half-closed caller still reads and must get its answer; one who left
//! answers the next byte with a reset. While no answer has begun, `100 Continue` is such a byte: an
//! interim response that HTTP/1.1 clients skip (RFC 9110, section 15.2). Once a stream runs, its
//! own next event does the same.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::caller::waker::QuietWaker;

const IDLE: u8 = 0;
const READING: u8 = 1;
const BUSY: u8 = 2;
const ANSWERING: u8 = 3;
const STAGE: u8 = 0b0011;
const FIN: u8 = 0b0100;
/// The caller speaks HTTP/1.0, which knows no interim responses.
const OLD: u8 = 0b1000;
/// The gateway waits no longer for answers to end.
const CUT: u8 = 0b1_0000;

/// What the request's story and the socket tell each other about one connection.
#[derive(Clone, Debug, Default)]
pub struct Presence {
    stage: Arc<AtomicU8>,
    /// What the connection's wakes go through.
    pub quiet_waker: QuietWaker,
}

impl Presence {
    /// The head of a request of this version has been read, its body may still be on its way.
    pub fn reading(&self, version: http::Version) {
        if version < http::Version::HTTP_11 {
            self.stage.fetch_or(OLD, Ordering::Relaxed);
        }
        self.set(READING);
    }

    /// A request has been read whole; no byte of its answer has left.
    pub fn busy(&self) {
        self.set(BUSY);
    }

    /// The head of the answer is on its way.
    pub fn answering(&self) {
        self.set(ANSWERING);
    }

    /// Between two requests.
    pub fn idle(&self) {
        self.set(IDLE);
    }

    /// True when the caller has stopped sending: gone, or half-closed.
    #[must_use]
    pub fn has_stopped_sending(&self) -> bool {
        self.stage.load(Ordering::Relaxed) & FIN != 0
    }

    /// The gateway waits no longer for answers to end. Whoever says so polls the connection afterwards.
    pub fn cut(&self) {
        self.stage.fetch_or(CUT, Ordering::Relaxed);
    }

    /// True when the gateway waits no longer for answers to end.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.stage.load(Ordering::Relaxed) & CUT != 0
    }

    /// Ends when the gateway waits no longer for answers to end. It wakes nobody: the connection is
    /// polled when it is time to look.
    pub async fn cut_short(&self) {
        std::future::poll_fn(|_| if self.is_cut() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn set(&self, stage: u8) {
        let kept = self.stage.load(Ordering::Relaxed) & !STAGE;
        self.stage.store(kept | stage, Ordering::Relaxed);
    }

    fn knows_interim(&self) -> bool {
        self.stage.load(Ordering::Relaxed) & OLD == 0
    }

    fn now(&self) -> u8 {
        self.stage.load(Ordering::Relaxed) & STAGE
    }
}

/// An interim response, the one byte string that every HTTP/1.1 client skips.
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How often a caller that has stopped sending is looked at again.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// A caller that still sends when its answer is written and the connection is to close is listened
/// to for so long, and for so many bytes. Closing at once would reset the connection, and the reset may overtake the answer.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 64 << 20;

/// The caller's byte stream.
pub struct CallerSocket<T> {
    inner: T,
    presence: Presence,
    half_close: bool,
    probed: bool,
    looks: usize,
    look: Option<Pin<Box<Sleep>>>,
    stall: Duration,
    /// Runs while a write makes no progress.
    stalled: Option<Pin<Box<Sleep>>>,
    /// From the first write that had to wait until everything is written.
    unwritten: Option<Counted>,
    counter: Arc<AtomicUsize>,
    has_ended: bool,
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

/// Counts for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn by(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> CallerSocket<T> {
    /// Watches `inner`; a write that makes no progress for `stall` fails.
    pub fn new(inner: T, presence: Presence, stall: Duration) -> Self {
        Self {
            inner,
            presence,
            half_close: true,
            probed: false,
            looks: 0,
            look: None,
            stall,
            stalled: None,
            unwritten: None,
            counter: Arc::default(),
            has_ended: false,
            linger: None,
        }
    }

    /// Adds 1 to this counter from the first write that waits for the caller until all is flushed.
    #[must_use]
    pub fn counted(self, counter: Arc<AtomicUsize>) -> Self {
        Self { counter, ..self }
    }

    /// Takes the end of sending for the end: over TLS nobody half-closes, and an empty write would
    /// not reach the socket.
    #[must_use]
    pub fn without_half_close(self) -> Self {
        Self { half_close: false, ..self }
    }

    /// The caller has sent FIN in the middle of a call.
    fn stopped_sending(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        // HTTP/1.0 has no interim response to ask with, and whoever speaks it today is nginx in front
        // of us, whose own caller has left.
        if !self.half_close || !self.presence.knows_interim() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let first = !self.presence.has_stopped_sending();
        self.presence.stage.fetch_or(FIN, Ordering::Relaxed);
        if !self.probed && self.presence.now() == BUSY {
            self.probed = true;
            // Nothing of an answer has been written, so the socket's buffer takes these few bytes.
            let sent = ready_or_none(Pin::new(&mut self.inner).poll_write(cx, PROBE));
            if let Some(sent) = sent {
                let _ = ready_or_none(Pin::new(&mut self.inner).poll_flush(cx));
                if sent? < PROBE.len() {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
        }
        // An empty write sends nothing and tells of a reset that reading no longer reports.
        if let Poll::Ready(Err(gone)) = Pin::new(&mut self.inner).poll_write(cx, &[]) {
            return Err(gone);
        }
        self.look_again(cx);
        if first {
            // The story sees the flag on its next poll, in this very task.
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    fn look_again(&mut self, cx: &mut Context<'_>) {
        loop {
            let look = self.look.get_or_insert_with(|| {
                let wait = LOOKS.get(self.looks).or(LOOKS.last()).copied().unwrap_or_default();
                self.looks += 1;
                Box::pin(tokio::time::sleep(wait))
            });
            if look.as_mut().poll(cx).is_pending() {
                return;
            }
            self.look = None;
        }
    }

    /// Keeps the stall clock: runs while writes make no progress.
    fn timed<R>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stall = self.stall;
        self.unwritten.get_or_insert_with(|| Counted::by(&self.counter));
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the caller does not read")))
    }
}

fn ready_or_none<R>(polled: Poll<R>) -> Option<R> {
    match polled {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for CallerSocket<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        // While the end of an answer waits for a slow reader, the call is not over yet.
        let is_idle = self.presence.now() == IDLE && self.unwritten.is_none();
        if buf.filled().len() > before || buf.remaining() == 0 || is_idle {
            return Poll::Ready(Ok(()));
        }
        self.stopped_sending(cx)?;
        Poll::Pending
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CallerSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.timed(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.timed(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        let flushed = self.timed(cx, polled);
        if flushed.is_ready() {
            // Not sooner: between two writes to a slow reader nothing is over.
            self.unwritten = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        }
        let mut thrown_away = [std::mem::MaybeUninit::uninit(); 8 * 1024];
        while !self.has_ended {
            let this = &mut *self;
            let (patience, bytes) =
                this.linger.get_or_insert_with(|| (Box::pin(tokio::time::sleep(LINGER)), LINGER_BYTES));
            if patience.as_mut().poll(cx).is_ready() || *bytes == 0 {
                break;
            }
            let mut buf = ReadBuf::uninit(&mut thrown_away);
            let read = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buf));
            *bytes = bytes.saturating_sub(buf.filled().len());
            this.has_ended = read.is_err() || buf.filled().is_empty();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, there)
    }

    #[tokio::test]
    async fn a_caller_who_left_in_the_middle_of_a_call_is_found_out() {
        let (here, there) = pair().await;
        let presence = Presence::default();
        presence.busy();
        let mut io = CallerSocket::new(here, presence, Duration::from_secs(5));
        drop(there);
        let read = tokio::time::timeout(Duration::from_secs(5), io.read_u8()).await;
        assert!(read.expect("found out in time").is_err());
    }

    #[tokio::test]
    async fn a_caller_who_only_stopped_sending_still_gets_its_answer() {
        let (here, mut there) = pair().await;
        let presence = Presence::default();
        presence.busy();
        let mut io = CallerSocket::new(here, presence.clone(), Duration::from_secs(5));
        there.shutdown().await.unwrap();
        let read = tokio::time::timeout(Duration::from_millis(300), io.read_u8()).await;
        assert!(read.is_err(), "the end of sending is not the end of the call");
        assert!(presence.has_stopped_sending());
        io.write_all(b"answer").await.unwrap();
        drop(io);
        let mut seen = Vec::new();
        there.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, [PROBE, b"answer"].concat());
    }

    #[tokio::test]
    async fn a_caller_who_is_still_sending_can_read_its_answer() {
        let (here, mut there) = pair().await;
        let mut io = CallerSocket::new(here, Presence::default(), Duration::from_secs(5));
        let closing = async {
            io.write_all(b"too large").await.unwrap();
            io.shutdown().await.unwrap();
            drop(io);
        };
        let sending = async {
            there.write_all(&vec![0; 8 << 20]).await.expect("no reset while it sends");
            let mut seen = Vec::new();
            there.read_to_end(&mut seen).await.unwrap();
            drop(there);
            seen
        };
        let ((), seen) = tokio::join!(closing, sending);
        assert_eq!(seen, b"too large");
    }

    #[tokio::test]
    async fn between_two_calls_the_end_is_the_end() {
        let (here, there) = pair().await;
        let mut io = CallerSocket::new(here, Presence::default(), Duration::from_secs(5));
        drop(there);
        assert!(io.read_u8().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_as_unwritten_until_its_last_byte_is_out() {
        let (here, mut there) = tokio::io::duplex(4);
        let counter = Arc::new(AtomicUsize::new(0));
        let mut io = CallerSocket::new(here, Presence::default(), Duration::from_secs(5)).counted(counter.clone());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut write = |io: &mut CallerSocket<_>| Pin::new(io).poll_write(&mut cx, b"12345678").is_ready();
        assert!(write(&mut io));
        assert!(!write(&mut io), "the reader is slow");
        let mut seen = [0; 4];
        there.read_exact(&mut seen).await.unwrap();
        assert!(write(&mut io), "there is room again");
        assert_eq!(counter.load(Ordering::Relaxed), 1, "and more to write");
        io.flush().await.unwrap();
        assert_eq!(counter.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_caller_who_does_not_read_is_let_go() {
        let (here, _there) = pair().await;
        let mut io = CallerSocket::new(here, Presence::default(), Duration::from_millis(50));
        let flood = vec![0; 64 << 20];
        let error = io.write_all(&flood).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
