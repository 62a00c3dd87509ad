//! One connection: bytes out in exactly the writes that were asked for, while watching whether the
//! other side is still there.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::request::{Reader, Request};

/// How far the other side may run ahead while it waits for an answer, in bytes.
const AHEAD: usize = 1024 * 1024;

/// A connection that can be broken off: TCP, or a wire inside a test.
pub trait Link: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// From now on, dropping the connection resets it instead of ending it.
    fn arm_reset(&mut self);

    /// How long a reset is to wait so that bytes written before it arrive.
    fn settling(&self) -> Duration {
        Duration::from_millis(5)
    }
}

impl Link for tokio::net::TcpStream {
    fn arm_reset(&mut self) {
        // Lingering for zero seconds makes the kernel send RST in place of FIN on close.
        drop(self.set_zero_linger());
    }
}

/// The other side closed or broke the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// What came instead of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRequest {
    /// The other side closed the connection.
    Gone,
    /// Nothing came for as long as an idle connection is kept.
    Idle,
    /// Bytes that are no request.
    Malformed(&'static str),
    /// The first bytes came on a connection that serves no second request.
    Unwanted,
}

/// A connection and what was read from it ahead of time.
#[derive(Debug)]
pub(crate) struct Conn<S> {
    stream: S,
    ahead: BytesMut,
}

impl<S: Link> Conn<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, ahead: BytesMut::new() }
    }

    /// The next request. `idle` bounds the wait for its first byte; `unwanted` gives up at the
    /// first byte.
    pub(crate) async fn request(&mut self, idle: Option<Duration>, unwanted: bool) -> Result<Request, NoRequest> {
        let mut reader = Reader::default();
        loop {
            if unwanted && !self.ahead.is_empty() {
                return Err(NoRequest::Unwanted);
            }
            if let Some(request) = reader.advance(&mut self.ahead).map_err(NoRequest::Malformed)? {
                return Ok(request);
            }
            if std::mem::take(&mut reader.owes_continue) {
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|Gone| NoRequest::Gone)?;
            }
            let is_idle = self.ahead.is_empty() && !reader.has_begun();
            self.ahead.reserve(64 * 1024);
            let read = self.stream.read_buf(&mut self.ahead);
            let count = match idle.filter(|_| is_idle) {
                Some(limit) => tokio::time::timeout(limit, read).await.map_err(|_| NoRequest::Idle)?,
                None => read.await,
            };
            if !matches!(count, Ok(1..)) {
                return Err(NoRequest::Gone);
            }
        }
    }

    /// Writes all of it, at once.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let written: io::Result<()> = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        }
        .await;
        written.map_err(|_| Gone)
    }

    /// Waits, but not longer than the other side does.
    pub(crate) async fn pause(&mut self, wait: Duration) -> Result<(), Gone> {
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.departure() => Err(Gone),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// Ends when the other side has closed or broken the connection.
    pub(crate) async fn departure(&mut self) {
        while self.ahead.len() < AHEAD {
            if !matches!(self.stream.read_buf(&mut self.ahead).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Says that nothing more comes, and closes.
    pub(crate) async fn close(mut self) {
        drop(self.stream.shutdown().await);
    }

    /// Lets what was written arrive, as far as the other side waits for it.
    pub(crate) async fn settle(&mut self) {
        let wait = self.stream.settling();
        let _ = self.pause(wait).await;
    }

    /// Breaks off.
    pub(crate) fn reset(mut self) {
        self.stream.arm_reset();
    }
}
