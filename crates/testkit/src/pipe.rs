//! Two ends of a connection inside the process, with what sockets have and in-memory streams
//! usually lack: resets, and a probe that asks whether the other end is open and silent.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes may be under way in one direction, like a socket's buffer.
const CAPACITY: usize = 256 * 1024;

/// One direction.
#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    /// The writer says that nothing more comes.
    ended: bool,
    /// The reader has gone.
    deaf: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug, Default)]
struct Both {
    ways: [Way; 2],
    /// Someone broke off: reads fail once the bytes under way are read, writes fail at once.
    reset: bool,
}

impl Both {
    fn wake(&mut self) {
        for way in &mut self.ways {
            for waker in [way.reader.take(), way.writer.take()].into_iter().flatten() {
                waker.wake();
            }
        }
    }

    fn reset(&mut self) {
        self.reset = true;
        self.wake();
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Stream {
    both: Arc<Mutex<Both>>,
    /// The way that this end writes to; it reads from the other.
    out: usize,
    resets: bool,
}

/// Both ends of a new connection.
#[must_use]
pub fn pair() -> (Stream, Stream) {
    let both = Arc::new(Mutex::new(Both::default()));
    let end = |out| Stream { both: Arc::clone(&both), out, resets: false };
    (end(0), end(1))
}

fn lock(both: &Mutex<Both>) -> MutexGuard<'_, Both> {
    both.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// Asks, without waiting, whether the other end is open and has sent nothing that is unread.
    #[must_use]
    pub fn probe(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let (both, from) = (Arc::clone(&self.both), 1 - self.out);
        Box::new(move || {
            let both = lock(&both);
            !both.reset && both.ways.get(from).is_some_and(|way| way.bytes.is_empty() && !way.ended)
        })
    }

    /// Breaks off: the other end reads what is under way, then a reset.
    pub fn reset(mut self) {
        self.resets = true;
    }

    /// Something that breaks the connection off from outside.
    pub(crate) fn scissors(&self) -> impl Fn() + Send + Sync + use<> {
        let both = Arc::downgrade(&self.both);
        move || {
            if let Some(both) = both.upgrade() {
                lock(&both).reset();
            }
        }
    }
}

impl mock::Link for Stream {
    fn arm_reset(&mut self) {
        self.resets = true;
    }

    fn settling(&self) -> Duration {
        Duration::ZERO
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut both = lock(&self.both);
        both.reset |= self.resets;
        both.ways[self.out].ended = true;
        both.ways[1 - self.out].deaf = true;
        both.wake();
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut both = lock(&self.both);
        let is_reset = both.reset;
        let way = &mut both.ways[1 - self.out];
        if way.bytes.is_empty() {
            return match (is_reset, way.ended) {
                (true, _) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                (false, true) => Poll::Ready(Ok(())),
                (false, false) => {
                    way.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        }
        let (front, _) = way.bytes.as_slices();
        let count = front.len().min(buf.remaining());
        buf.put_slice(&front[..count]);
        way.bytes.drain(..count);
        if let Some(waker) = way.writer.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut both = lock(&self.both);
        if both.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let way = &mut both.ways[self.out];
        if way.ended || way.deaf {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(CAPACITY - way.bytes.len().min(CAPACITY));
        if count == 0 && !bytes.is_empty() {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        way.bytes.extend(&bytes[..count]);
        if let Some(waker) = way.reader.take() {
            waker.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut both = lock(&self.both);
        let way = &mut both.ways[self.out];
        way.ended = true;
        if let Some(waker) = way.reader.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn bytes_end_and_reset_arrive_in_their_order() {
        crate::story(async {
            let (mut a, mut b) = pair();
            let probe = b.probe();
            assert!(probe());
            a.write_all(b"hello").await.expect("open");
            assert!(!probe(), "something lies unread");
            let mut buf = [0; 5];
            b.read_exact(&mut buf).await.expect("open");
            assert!(probe());
            a.write_all(b"x").await.expect("open");
            a.reset();
            assert!(!probe());
            assert_eq!(b.read(&mut buf).await.expect("what was under way"), 1);
            assert_eq!(b.read(&mut buf).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(b.write(b"y").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn a_dropped_end_reads_as_an_end_and_breaks_writes() {
        crate::story(async {
            let (a, mut b) = pair();
            drop(a);
            assert_eq!(b.read(&mut [0; 1]).await.expect("an end"), 0);
            assert_eq!(b.write(b"y").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn a_full_pipe_waits_for_its_reader_and_half_closed_still_hears() {
        crate::story(async {
            let (mut a, mut b) = pair();
            let sent = vec![7u8; 3 * CAPACITY];
            let send = async {
                a.write_all(&sent).await.expect("open");
                a.shutdown().await.expect("open");
                let mut heard = Vec::new();
                a.read_to_end(&mut heard).await.expect("half closed");
                heard
            };
            let receive = async {
                let mut got = Vec::new();
                b.read_to_end(&mut got).await.expect("open");
                b.write_all(b"thanks").await.expect("open");
                drop(b);
                got
            };
            let (heard, got) = tokio::join!(send, receive);
            assert_eq!((got.len(), heard.as_slice()), (3 * CAPACITY, b"thanks".as_slice()));
        });
    }
}
