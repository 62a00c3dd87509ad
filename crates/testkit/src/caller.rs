//! A client that sees every byte, every event and how a connection ends.

use std::io;

use bytes::{Buf, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::ask::Ask;
use crate::sse;

/// How the other side ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Closed it.
    Closed,
    /// Reset it.
    Reset,
}

/// A connection from the caller's side. Dropping it is the caller's leaving.
#[derive(Debug)]
pub struct Caller<S> {
    stream: S,
    ahead: BytesMut,
    framing: Framing,
}

/// How the body that is being read ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClosed,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// True where the body's end came, false where the connection ended before.
    pub is_whole: bool,
}

impl Answer {
    /// The first header field of that name, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// Where it is not.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as events.
    #[must_use]
    pub fn events(&self) -> sse::Parsed {
        sse::parse(&self.body)
    }

    /// The chat text, from a stream or a whole answer.
    #[must_use]
    pub fn said(&self) -> String {
        if self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self.events().said();
        }
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    /// `error.code` of the body, or of an event in it.
    #[must_use]
    pub fn code(&self) -> Option<String> {
        let error = match serde_json::from_slice::<Value>(&self.body) {
            Ok(body) => body["error"].clone(),
            Err(_) => self.events().error().unwrap_or_default(),
        };
        error["code"].as_str().map(str::to_owned)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    /// A caller on this connection.
    #[must_use]
    pub fn on(stream: S) -> Self {
        Self { stream, ahead: BytesMut::new(), framing: Framing::Length(0) }
    }

    /// Asks and waits for the whole answer.
    ///
    /// # Panics
    /// Where no answer comes.
    pub async fn ask(&mut self, ask: &Ask) -> Answer {
        self.begin(ask).await;
        self.answer().await.expect("an answer")
    }

    /// Sends the request and does not wait.
    pub async fn begin(&mut self, ask: &Ask) {
        self.write(&ask.wire()).await;
    }

    /// Writes raw bytes. A connection that is gone shows itself in what is read.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// Says that nothing more will be sent, and goes on listening.
    pub async fn half_close(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// One answer, its body as far as it comes.
    ///
    /// # Errors
    /// Where the connection ends before the head's end, or it is not HTTP.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head().await?;
        loop {
            match self.more().await {
                Ok(Some(bytes)) => answer.body.extend(bytes),
                Ok(None) => {
                    answer.is_whole = true;
                    return Ok(answer);
                }
                Err(_) => return Ok(answer),
            }
        }
    }

    /// The head of an answer; interim answers are skipped. The body is then read by [`Self::more`].
    ///
    /// # Errors
    /// Where the connection ends before the head's end, or it is not HTTP.
    pub async fn head(&mut self) -> io::Result<Answer> {
        loop {
            let start = self.line().await?;
            let status = start.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
            let status: u16 = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, start))?;
            let mut answer = Answer { status, ..Answer::default() };
            loop {
                let line = self.line().await?;
                let Some((name, value)) = line.split_once(':') else { break };
                answer.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            if !(100..200).contains(&status) {
                self.framing = framing(&answer);
                return Ok(answer);
            }
        }
    }

    /// The next bytes of the body as they come (a chunk where it is chunked); `None` at its end.
    ///
    /// # Errors
    /// Where the connection ends before the body does.
    pub async fn more(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.framing {
            Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                if self.ahead.is_empty() {
                    self.fill().await?;
                }
                let bytes = self.ahead.split_to(left.min(self.ahead.len()));
                self.framing = Framing::Length(left - bytes.len());
                Ok(Some(bytes.to_vec()))
            }
            Framing::Chunked => {
                let line = self.line().await?;
                let size = line.split(';').next().and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok());
                let size = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, line))?;
                if size == 0 {
                    while !self.line().await?.is_empty() {}
                    self.framing = Framing::Length(0);
                    return Ok(None);
                }
                while self.ahead.len() < size + 2 {
                    self.fill().await?;
                }
                let chunk = self.ahead.split_to(size).to_vec();
                self.ahead.advance(2);
                Ok(Some(chunk))
            }
            Framing::UntilClosed => {
                if self.ahead.is_empty() && self.receive().await? == 0 {
                    return Ok(None);
                }
                Ok(Some(self.ahead.split().to_vec()))
            }
        }
    }

    /// Everything up to the connection's end, raw, and how it ended.
    pub async fn rest(&mut self) -> (Vec<u8>, Ended) {
        loop {
            match self.receive().await {
                Ok(1..) => {}
                Ok(0) => return (self.ahead.split().to_vec(), Ended::Closed),
                Err(_) => return (self.ahead.split().to_vec(), Ended::Reset),
            }
        }
    }

    /// Waits until something has come, and then for the whole answer; nothing is lost when dropped
    /// before the first byte.
    ///
    /// # Panics
    /// Where the connection ends without an answer.
    pub async fn peek(&mut self) -> Answer {
        if self.ahead.is_empty() {
            let _ = self.receive().await;
        }
        self.answer().await.expect("an answer")
    }

    /// What one read gives; empty at the end.
    pub async fn read(&mut self) -> Vec<u8> {
        if self.ahead.is_empty() {
            let _ = self.receive().await;
        }
        self.ahead.split().to_vec()
    }

    async fn receive(&mut self) -> io::Result<usize> {
        self.ahead.reserve(64 * 1024);
        self.stream.read_buf(&mut self.ahead).await
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.receive().await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let line = self.ahead.split_to(end);
                self.ahead.advance(2);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.fill().await?;
        }
    }
}

fn framing(answer: &Answer) -> Framing {
    if matches!(answer.status, 204 | 304) {
        return Framing::Length(0);
    }
    if answer.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Framing::Chunked;
    }
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    length.map_or(Framing::UntilClosed, Framing::Length)
}
