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

    /// The head of the next request. `idle` bounds the wait for its first byte; `unwanted` gives up
    /// at that byte.
    pub(crate) async fn head(&mut self, idle: Option<Duration>, unwanted: bool) -> Result<Reader, NoRequest> {
        let mut reader = Reader::default();
        reader.has_begun = !self.ahead.is_empty();
        loop {
            if unwanted && !self.ahead.is_empty() {
                return Err(NoRequest::Unwanted);
            }
            if reader.read_head(&mut self.ahead).map_err(NoRequest::Malformed)? {
                return Ok(reader);
            }
            let fill = self.fill();
            match idle.filter(|_| !reader.has_begun) {
                Some(limit) => tokio::time::timeout(limit, fill).await.map_err(|_| NoRequest::Idle)??,
                None => fill.await?,
            }
            reader.has_begun = true;
        }
    }

    /// The request, whole.
    pub(crate) async fn body(&mut self, mut reader: Reader) -> Result<Request, NoRequest> {
        loop {
            if let Some(request) = reader.read_body(&mut self.ahead).map_err(NoRequest::Malformed)? {
                return Ok(request);
            }
            if std::mem::take(&mut reader.owes_continue) {
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|Gone| NoRequest::Gone)?;
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), NoRequest> {
        self.ahead.reserve(64 * 1024);
        match self.stream.read_buf(&mut self.ahead).await {
            Ok(1..) => Ok(()),
            _ => Err(NoRequest::Gone),
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

    /// Says that nothing more comes, and throws away what still does for a while: closing on unread
    /// bytes would make the kernel reset the connection and lose the answer.
    pub(crate) async fn linger(mut self) {
        const LONGEST: Duration = Duration::from_secs(2);
        drop(self.stream.shutdown().await);
        let drain = async {
            while matches!(self.stream.read_buf(&mut self.ahead).await, Ok(1..)) {
                self.ahead.clear();
            }
        };
        drop(tokio::time::timeout(LONGEST, drain).await);
    }

    /// Breaks off.
    pub(crate) fn reset(mut self) {
        self.stream.arm_reset();
    }
}
