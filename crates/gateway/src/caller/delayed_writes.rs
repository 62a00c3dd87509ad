//! Short writes of one worker, put off to the end of its turn.
//!
//! A write between the work for two connections drives the one's code and data out of the caches for
//! the kernel's and back, and a reader on the same machine is woken for every single one. A worker
//! therefore does first what there is to do for all connections that have something, and then writes for all
//! of them. What is put off is on its way before the worker waits for anything again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// What is put off of one connection at most, bytes.
const SHORT: usize = 4 << 10;

/// What one worker is to write at the end of its turn; at most one letter for each connection.
#[derive(Clone, Debug, Default)]
pub struct DelayedWrites(Arc<Mutex<Due>>);

#[derive(Debug, Default)]
struct Due {
    letters: Vec<Arc<Mutex<Letter>>>,
    carrier: Option<Waker>,
}

/// One connection's way out.
#[derive(Debug)]
struct Letter {
    /// There until it is dropped.
    half: Option<OwnedWriteHalf>,
    /// Written by its owner and not yet to the socket.
    text: Vec<u8>,
    /// How much of it the socket has taken.
    sent: usize,
    /// It is among the delayed writes.
    is_due: bool,
    /// The socket did not take all that it was given: nothing more is put off until it has.
    is_slow: bool,
    /// Of the connection, for what the socket does not take.
    owner: Option<Waker>,
    failed: Option<io::Error>,
}

impl Letter {
    /// Writes what is put off, as far as the socket takes it.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(failed) = self.failed.take() {
            return Poll::Ready(Err(failed));
        }
        let Some(half) = &mut self.half else { return Poll::Ready(Ok(())) };
        while self.sent < self.text.len() {
            let rest = self.text.get(self.sent..).unwrap_or_default();
            self.sent += ready!(Pin::new(&mut *half).poll_write(cx, rest))?;
        }
        self.text.clear();
        self.sent = 0;
        self.is_slow = false;
        Poll::Ready(Ok(()))
    }

    /// Writes it at the end of a turn. What the socket does not take is its owner's again.
    fn carry(&mut self) {
        self.is_due = false;
        let rest = self.text.get(self.sent..).unwrap_or_default();
        let Some(half) = self.half.as_ref().filter(|_| !rest.is_empty()) else { return };
        match half.try_write(rest) {
            Ok(count) if count == rest.len() => {
                self.text.clear();
                self.sent = 0;
                return;
            }
            Ok(count) => self.sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.failed = Some(error),
        }
        self.is_slow = true;
        if let Some(owner) = self.owner.take() {
            owner.wake();
        }
    }
}

impl Drop for Letter {
    fn drop(&mut self) {
        // Closing is enough: without this each connection would be shut down before.
        if let Some(half) = self.half.take() {
            half.forget();
        }
    }
}

impl DelayedWrites {
    fn post(&self, letter: &Arc<Mutex<Letter>>) {
        let mut due = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        due.letters.push(letter.clone());
        if let Some(carrier) = due.carrier.take() {
            carrier.wake();
        }
    }

    /// Carries letters for ever. The task is woken by the first letter of a turn, behind all those that
    /// have something to do in it already.
    pub async fn carry(self) {
        let mut letters = Vec::new();
        std::future::poll_fn(|cx| {
            {
                let mut due = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::swap(&mut due.letters, &mut letters);
                due.carrier = Some(cx.waker().clone());
            }
            for letter in letters.drain(..) {
                letter.lock().unwrap_or_else(PoisonError::into_inner).carry();
            }
            Poll::<()>::Pending
        })
        .await;
    }
}

/// A socket whose short writes wait for the end of the turn.
#[derive(Debug)]
pub struct DelayedSocket {
    half: OwnedReadHalf,
    letter: Arc<Mutex<Letter>>,
    delayed_writes: DelayedWrites,
}

impl DelayedSocket {
    /// A connected socket, from now on written through `delayed_writes`.
    #[must_use]
    pub fn new(stream: TcpStream, delayed_writes: DelayedWrites) -> Self {
        let (read, half) = stream.into_split();
        let half = Some(half);
        let letter =
            Letter { half, text: Vec::new(), sent: 0, is_due: false, is_slow: false, owner: None, failed: None };
        Self { half: read, letter: Arc::new(Mutex::new(letter)), delayed_writes }
    }

    fn poll_put(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut letter = self.letter.lock().unwrap_or_else(PoisonError::into_inner);
        let length: usize = bufs.iter().map(|buf| buf.len()).sum();
        let is_put_off = (1..=SHORT).contains(&length) && !letter.is_slow;
        if !is_put_off || letter.text.len() + length > SHORT {
            let is_slow = letter.is_slow;
            ready!(letter.poll_sent(cx))?;
            letter.is_slow = is_slow;
        }
        if let Some(failed) = letter.failed.take() {
            return Poll::Ready(Err(failed));
        }
        if !is_put_off {
            let Some(half) = &mut letter.half else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
            let taken = match bufs {
                // Not as a list: the kernel does not even look at an empty one, and would not tell of a reset.
                [one] => Pin::new(half).poll_write(cx, one),
                many => Pin::new(half).poll_write_vectored(cx, many),
            };
            letter.is_slow |= !matches!(taken, Poll::Ready(Ok(count)) if count == length);
            return taken;
        }
        for buf in bufs {
            letter.text.extend_from_slice(buf);
        }
        if !letter.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            letter.owner = Some(cx.waker().clone());
        }
        if !std::mem::replace(&mut letter.is_due, true) {
            self.delayed_writes.post(&self.letter);
        }
        Poll::Ready(Ok(length))
    }
}

impl AsyncRead for DelayedSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_read(cx, buf)
    }
}

impl AsyncWrite for DelayedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_put(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_put(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut letter = self.letter.lock().unwrap_or_else(PoisonError::into_inner);
        if letter.is_due { Poll::Ready(Ok(())) } else { letter.poll_sent(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut letter = self.letter.lock().unwrap_or_else(PoisonError::into_inner);
        ready!(letter.poll_sent(cx))?;
        letter.half.as_mut().map_or(Poll::Ready(Ok(())), |half| Pin::new(half).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair(delayed_writes: &DelayedWrites) -> (DelayedSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (DelayedSocket::new(listener.accept().await.unwrap().0, delayed_writes.clone()), there)
    }

    #[tokio::test]
    async fn short_writes_leave_at_the_end_of_the_turn_in_their_order() {
        let delayed_writes = DelayedWrites::default();
        let (mut here, mut there) = pair(&delayed_writes).await;
        tokio::spawn(delayed_writes.carry());
        here.write_all(b"one ").await.unwrap();
        here.write_all(b"two ").await.unwrap();
        here.flush().await.unwrap();
        assert_eq!(there.try_read(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "not yet");
        here.write_all(&vec![b'x'; 3 * SHORT]).await.unwrap();
        here.write_all(b" end").await.unwrap();
        here.shutdown().await.unwrap();
        let mut seen = String::new();
        there.read_to_string(&mut seen).await.unwrap();
        assert_eq!(seen, format!("one two {} end", "x".repeat(3 * SHORT)));
    }

    #[tokio::test]
    async fn what_a_slow_reader_leaves_is_written_by_the_owner() {
        let delayed_writes = DelayedWrites::default();
        let (mut here, mut there) = pair(&delayed_writes).await;
        tokio::spawn(delayed_writes.carry());
        let much = 16 << 20;
        let writing = async {
            for _ in 0..much / 1024 {
                here.write_all(&[b'x'; 1024]).await.unwrap();
                // As one of many: the delayed writes are carried while the owner does other things.
                tokio::task::yield_now().await;
            }
            here.flush().await.unwrap();
            drop(here);
        };
        let reading = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut seen = Vec::new();
            there.read_to_end(&mut seen).await.map(|_| seen.len())
        };
        assert_eq!(tokio::join!(writing, reading).1.unwrap(), much);
    }

    #[tokio::test]
    async fn a_reset_is_told_to_the_owner() {
        let delayed_writes = DelayedWrites::default();
        let (mut here, there) = pair(&delayed_writes).await;
        tokio::spawn(delayed_writes.carry());
        drop(there);
        let told = async {
            loop {
                if let Err(error) = here.write_all(b"anybody?").await {
                    return error.kind();
                }
                tokio::task::yield_now().await;
            }
        };
        let kind = tokio::time::timeout(Duration::from_secs(5), told).await.unwrap();
        assert!(matches!(kind, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset), "{kind:?}");
    }
}
