//! Just enough HTTP/1.1 for both ends of the bench: heads, bodies by length or in chunks, and the events of a stream.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::workload::{STAMP_DIGITS, STAMP_MARK};

/// Bytes read at once.
const BUFFER: usize = 64 * 1024;

/// Bytes that an event may have before a stream counts as broken.
const MOST_EVENT_BYTES: usize = 64 * 1024;

/// The head of a request or an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the head, its empty line included.
    pub(crate) bytes: usize,
    /// The answer's status; 0 for a request.
    pub(crate) status: u16,
    /// The body's length; 0 where it comes in chunks.
    pub(crate) length: usize,
    pub(crate) chunked: bool,
}

impl Head {
    /// The head at the beginning of `bytes`, or `None` where it is not there whole yet.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
            return if bytes.len() >= BUFFER { Err(io::Error::other("a head without an end")) } else { Ok(None) };
        };
        let mut lines = bytes.get(..end).unwrap_or_default().split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let status = if first.starts_with(b"HTTP/1.1 ") { number(first.get(9..12)) } else { Some(0) };
        let mut head = Self {
            bytes: end + 4,
            status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(0),
            length: 0,
            chunked: false,
        };
        for line in lines {
            if let Some(value) = field(line, b"content-length:") {
                head.length = number(Some(value)).ok_or_else(|| io::Error::other("a length that is no number"))?;
            } else if let Some(value) = field(line, b"transfer-encoding:") {
                head.chunked = value.eq_ignore_ascii_case(b"chunked");
            }
        }
        Ok(Some(head))
    }
}

/// The value of `line` where its name, colon included, is `name`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (written, value) = line.split_at_checked(name.len())?;
    written.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: Option<&[u8]>) -> Option<usize> {
    std::str::from_utf8(digits?).ok()?.parse().ok()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Size,
    Extension,
    Data,
    DataEnd,
    /// The lines after the last chunk; `true` while the line is empty so far.
    Trailer(bool),
    Nothing,
}

/// Takes a chunked body apart, fed as it comes.
#[derive(Debug, Default)]
pub(crate) struct Chunked {
    expect: Expect,
    left: usize,
}

impl Chunked {
    /// Gives the body's bytes in `bytes` to `body`; true once the body has ended.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut body: impl FnMut(&[u8])) -> io::Result<bool> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.expect == Expect::Data {
                let (data, after) = bytes.split_at(self.left.min(bytes.len()));
                body(data);
                self.left -= data.len();
                bytes = after;
                if self.left == 0 {
                    self.expect = Expect::DataEnd;
                }
                continue;
            }
            self.step(*first)?;
            bytes = rest;
        }
        Ok(self.expect == Expect::Nothing)
    }

    fn step(&mut self, byte: u8) -> io::Result<()> {
        self.expect = match (self.expect, byte) {
            (Expect::Size, b'\r') => Expect::Size,
            (Expect::Size | Expect::Extension, b'\n') => match self.left {
                0 => Expect::Trailer(true),
                _ => Expect::Data,
            },
            (Expect::Size, b';') | (Expect::Extension, _) => Expect::Extension,
            (Expect::Size, digit) => {
                let value = char::from(digit).to_digit(16).ok_or_else(|| io::Error::other("a chunk without a size"))?;
                self.left = self.left.saturating_mul(16).saturating_add(value as usize);
                Expect::Size
            }
            (Expect::DataEnd, b'\n') => Expect::Size,
            (Expect::DataEnd, _) => Expect::DataEnd,
            (Expect::Trailer(true), b'\n') => Expect::Nothing,
            (Expect::Trailer(empty), b'\r') => Expect::Trailer(empty),
            (Expect::Trailer(_), byte) => Expect::Trailer(byte == b'\n'),
            (Expect::Data | Expect::Nothing, _) => return Err(io::Error::other("bytes after the end of a body")),
        };
        Ok(())
    }
}

/// Finds the stamps of content events in a stream's body.
#[derive(Debug, Default)]
pub(crate) struct Events {
    tail: Vec<u8>,
}

impl Events {
    /// Calls `event` with the time of sending of every content event that is whole with these bytes.
    pub(crate) fn feed(&mut self, body: &[u8], mut event: impl FnMut(u64)) -> io::Result<()> {
        self.tail.extend_from_slice(body);
        let Some(end) = memmem::rfind(&self.tail, b"\n\n").map(|at| at + 2) else {
            return if self.tail.len() > MOST_EVENT_BYTES {
                Err(io::Error::other("an event without an end"))
            } else {
                Ok(())
            };
        };
        let whole = self.tail.get(..end).unwrap_or_default();
        for at in memmem::find_iter(whole, STAMP_MARK) {
            let from = at + STAMP_MARK.len();
            let digits = whole.get(from..from + STAMP_DIGITS).unwrap_or_default();
            event(digits.iter().fold(0_u64, |value, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit & 15))));
        }
        self.tail.drain(..end);
        Ok(())
    }
}

/// A caller's connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a loopback port.
    pub(crate) async fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends a call and reads its answer whole: status and length of the body.
    pub(crate) async fn call(&mut self, request: &[u8]) -> io::Result<(u16, usize)> {
        let mut length = 0;
        let status = self.stream_call(request, |body| {
            length += body.len();
            Ok(())
        });
        let status = status.await?;
        Ok((status, length))
    }

    /// Sends a call and gives the answer's body to `body` as it comes; the status, once the body has ended.
    pub(crate) async fn stream_call(
        &mut self,
        request: &[u8],
        body: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u16> {
        self.headed_call(request, |_| (), body).await
    }

    /// The same, and gives the bytes of the answer's head to `seen` before.
    pub(crate) async fn headed_call(
        &mut self,
        request: &[u8],
        seen: impl FnOnce(&[u8]),
        mut body: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER, 0);
        }
        let mut filled = 0;
        let head = loop {
            filled += self.read(filled).await?;
            if let Some(head) = Head::parse(self.buffer.get(..filled).unwrap_or_default())? {
                break head;
            }
        };
        seen(self.buffer.get(..head.bytes).unwrap_or_default());
        let mut chunked = Chunked::default();
        let mut left = head.length;
        let mut bytes = self.buffer.get(head.bytes..filled).unwrap_or_default();
        loop {
            let mut failed = Ok(());
            let done = if head.chunked {
                chunked.feed(bytes, |data| {
                    if failed.is_ok() {
                        failed = body(data);
                    }
                })?
            } else {
                left = left.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("more bytes than announced"))?;
                body(bytes)?;
                left == 0
            };
            failed?;
            if done {
                return Ok(head.status);
            }
            let read = self.read(0).await?;
            bytes = self.buffer.get(..read).unwrap_or_default();
        }
    }

    async fn read(&mut self, from: usize) -> io::Result<usize> {
        match self.stream.read(self.buffer.get_mut(from..).unwrap_or_default()).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection closed within an answer")),
            read => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        for end in 0..bytes.len() {
            assert_eq!(Head::parse(bytes.get(..end).unwrap()).unwrap(), None);
        }
        let head = Head::parse(bytes).unwrap().unwrap();
        assert_eq!((head.bytes, head.status, head.length, head.chunked), (bytes.len(), 200, 12, false));
        let head = Head::parse(b"HTTP/1.1 502 Bad Gateway\r\ntransfer-encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.status, head.chunked), (502, true));
    }

    #[test]
    fn a_chunked_body_fed_byte_by_byte_equals_the_same_fed_at_once() {
        let bytes = b"5\r\nhello\r\n1;x=y\r\n \r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
        let mut whole = Vec::new();
        assert!(Chunked::default().feed(bytes, |data| whole.extend_from_slice(data)).unwrap());
        assert_eq!(whole, b"hello 0123456789");
        let (mut single, mut chunked, mut done) = (Vec::new(), Chunked::default(), false);
        for byte in bytes {
            assert!(!done);
            done = chunked.feed(&[*byte], |data| single.extend_from_slice(data)).unwrap();
        }
        assert!(done);
        assert_eq!(single, whole);
    }

    #[test]
    fn stamps_are_found_wherever_the_stream_is_cut() {
        let (event, _) = crate::workload::event();
        let twice = [event.clone(), event].concat();
        for cut in 0..twice.len() {
            let (left, right) = twice.split_at(cut);
            let (mut events, mut count) = (Events::default(), 0);
            for part in [left, right] {
                events.feed(part, |stamp| count += 1 + stamp).unwrap();
            }
            assert_eq!(count, 2, "cut at {cut}");
        }
    }
}
