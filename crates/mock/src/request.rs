//! One request of HTTP/1.1 as it arrived, and how it is read from bytes.

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;

/// The most bytes that a request's head may have.
const HEAD: usize = 256 * 1024;
/// The most header fields that a request may have.
const FIELDS: usize = 256;
/// The most bytes that a request's body may have.
pub(crate) const BODY: usize = 256 * 1024 * 1024;

/// A request, whole.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `POST`, …
    pub method: String,
    /// The path as written, without the query.
    pub path: String,
    /// The query as written, without its question mark.
    pub query: Option<String>,
    /// The header fields as written, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, its transfer coding removed.
    pub body: Bytes,
    /// The body as JSON, where it is.
    pub json: Option<Value>,
    /// True for HTTP/1.0, whose connections end with the answer.
    pub(crate) is_old: bool,
}

impl Request {
    /// The value of the first header field of that name, where it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// A member of the JSON body.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.json.as_ref()?.get(name).filter(|value| !value.is_null())
    }

    /// The `model` that the body names, else an empty text.
    #[must_use]
    pub fn model(&self) -> &str {
        self.field("model").and_then(Value::as_str).unwrap_or("")
    }

    /// True where the body asks for a stream.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.field("stream").and_then(Value::as_bool).unwrap_or(false)
    }

    /// True where the caller will not reuse the connection.
    pub(crate) fn closes(&self) -> bool {
        let wish = self.header("connection").unwrap_or("").to_ascii_lowercase();
        wish.contains("close") || (self.is_old && !wish.contains("keep-alive"))
    }
}

/// How the body's end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// Reads one request from bytes that come in any pieces: first its head, then its body.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    head: Option<(Request, Framing)>,
    body: BytesMut,
    chunk: Chunk,
    /// True once any byte has come.
    pub(crate) has_begun: bool,
    /// True while the caller waits to be told to go on with its body.
    pub(crate) owes_continue: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Chunk {
    #[default]
    Size,
    Data(usize),
    End,
    Trailer,
}

/// Why bytes are not a request, for the 400.
pub(crate) type Malformed = &'static str;

impl Reader {
    /// Takes the head from `buf`; true once it is whole.
    pub(crate) fn read_head(&mut self, buf: &mut BytesMut) -> Result<bool, Malformed> {
        if self.head.is_none() {
            self.head = read_head(buf)?;
            if let Some((request, framing)) = &self.head {
                let expects = request.header("expect").is_some_and(|what| what.eq_ignore_ascii_case("100-continue"));
                self.owes_continue = expects && *framing != Framing::Length(0);
            }
        }
        Ok(self.head.is_some())
    }

    /// What the head says; the body is empty as yet.
    pub(crate) fn head(&self) -> Option<&Request> {
        self.head.as_ref().map(|(request, _)| request)
    }

    /// Takes from `buf` what belongs to the body; gives the request once it is whole.
    pub(crate) fn read_body(&mut self, buf: &mut BytesMut) -> Result<Option<Request>, Malformed> {
        let Some((_, framing)) = self.head else { return Ok(None) };
        let is_whole = match framing {
            Framing::Length(length) => {
                let missing = length.saturating_sub(self.body.len());
                self.body.unsplit(buf.split_to(missing.min(buf.len())));
                self.body.len() == length
            }
            Framing::Chunked => self.dechunk(buf)?,
        };
        if !is_whole {
            return Ok(None);
        }
        self.owes_continue = false;
        Ok(self.head.take().map(|(mut request, _)| {
            request.body = std::mem::take(&mut self.body).freeze();
            request.json = serde_json::from_slice(&request.body).ok();
            request
        }))
    }

    fn dechunk(&mut self, buf: &mut BytesMut) -> Result<bool, Malformed> {
        loop {
            match self.chunk {
                Chunk::Size => {
                    let Some(line) = take_line(buf)? else { return Ok(false) };
                    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                    let digits = std::str::from_utf8(digits).map_err(|_| "bad chunk size")?;
                    let size = usize::from_str_radix(digits, 16).map_err(|_| "bad chunk size")?;
                    if size > BODY - self.body.len().min(BODY) {
                        return Err("body too large");
                    }
                    self.chunk = if size == 0 { Chunk::Trailer } else { Chunk::Data(size) };
                }
                Chunk::Data(missing) => {
                    let ready = buf.split_to(missing.min(buf.len()));
                    let missing = missing - ready.len();
                    self.body.unsplit(ready);
                    self.chunk = if missing == 0 { Chunk::End } else { Chunk::Data(missing) };
                    if missing > 0 {
                        return Ok(false);
                    }
                }
                Chunk::End => {
                    let Some(line) = take_line(buf)? else { return Ok(false) };
                    if !line.is_empty() {
                        return Err("a chunk is longer than its size");
                    }
                    self.chunk = Chunk::Size;
                }
                Chunk::Trailer => {
                    let Some(line) = take_line(buf)? else { return Ok(false) };
                    if line.is_empty() {
                        self.chunk = Chunk::Size;
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// One line without its ending.
fn take_line(buf: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let Some(end) = buf.iter().position(|byte| *byte == b'\n') else {
        return if buf.len() > HEAD { Err("line too long") } else { Ok(None) };
    };
    let mut line = buf.split_to(end).freeze();
    buf.advance(1);
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    Ok(Some(line))
}

fn read_head(buf: &mut BytesMut) -> Result<Option<(Request, Framing)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(buf) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if buf.len() > HEAD => return Err("head too large"),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("not a request of HTTP/1.1"),
    };
    let target = parsed.path.unwrap_or("/");
    // The absolute form, as sent to a forward proxy, names the host before the path.
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("/")
        }
        _ => target,
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let request = Request {
        method: parsed.method.unwrap_or("").to_owned(),
        path: path.to_owned(),
        query,
        headers: parsed.headers.iter().map(|field| (field.name.to_owned(), field.value.to_vec())).collect(),
        is_old: parsed.version == Some(0),
        ..Request::default()
    };
    buf.advance(length);
    let framing = framing(&request)?;
    Ok(Some((request, framing)))
}

fn framing(request: &Request) -> Result<Framing, Malformed> {
    let coding = request.header("transfer-encoding").map(str::to_ascii_lowercase);
    match (coding.as_deref().map(str::trim), request.header("content-length")) {
        (Some("chunked"), None) => Ok(Framing::Chunked),
        (Some(_), _) => Err("a transfer coding that is not chunked alone"),
        (None, Some(length)) => match length.trim().parse() {
            Ok(length) if length <= BODY => Ok(Framing::Length(length)),
            Ok(_) => Err("body too large"),
            Err(_) => Err("bad content-length"),
        },
        (None, None) => Ok(Framing::Length(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] =
        b"POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\n{\"a\r\n5\r\n\": 1}\r\n0\r\nT: 1\r\n\r\nGET /";

    #[test]
    fn a_request_is_the_same_in_any_pieces() {
        for step in 1..CHUNKED.len() {
            let (mut reader, mut buf, mut found) = (Reader::default(), BytesMut::new(), None);
            for piece in CHUNKED.chunks(step) {
                buf.extend_from_slice(piece);
                if found.is_none() && reader.read_head(&mut buf).unwrap() {
                    found = reader.read_body(&mut buf).unwrap();
                }
            }
            let request = found.unwrap();
            assert_eq!((request.path.as_str(), request.query.as_deref()), ("/v1/x", Some("y=1")));
            assert_eq!(&request.body[..], b"{\"a\": 1}");
            assert_eq!(request.field("a").unwrap(), 1);
            assert_eq!(&buf[..], b"GET /", "what follows stays");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bad in [
            "hello\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Request>, Malformed> {
        let (mut reader, mut buf) = (Reader::default(), BytesMut::from(bytes));
        if reader.read_head(&mut buf)? { reader.read_body(&mut buf) } else { Ok(None) }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let dice = base::Dice::loaded(3);
        for _ in 0..20_000 {
            let mut bytes = CHUNKED.to_vec();
            for _ in 0..=dice.below(4) {
                let at = dice.below(bytes.len());
                bytes[at] = dice.below(256) as u8;
            }
            bytes.truncate(dice.below(bytes.len()) + 1);
            let _ = read(&bytes);
        }
    }
}
