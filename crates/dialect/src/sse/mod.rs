//! Server-sent events, read by the grammar of the WHATWG HTML standard (section 9.2) and written
//! in its plainest form.
//!
//! Everything works on bytes: nothing is decoded per chunk, so no character is ever cut in two.
//! Feeding byte by byte and feeding all at once give the same events.

use std::ops::Range;

use base::Refusal;
use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};

use crate::errors::refusal_json;
use crate::json::Span;

/// The longest event that is read, bytes.
pub const EVENT_MAX: usize = 4 << 20;

/// The end of a stream in OpenAI's protocol.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// An event longer than [`EVENT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// One event that carries data.
#[derive(Debug)]
pub struct Event<'a> {
    /// Its data; several `data` lines are joined by line feeds.
    pub data: &'a [u8],
    /// Its `event` field.
    pub name: Option<&'a [u8]>,
    /// Its lines as they came, blank line included.
    raw: &'a [u8],
    /// Where these stand in the chunk that was pushed last, if nowhere else.
    place: Option<Range<usize>>,
    /// Its lines may be passed on as they came.
    is_plain: bool,
}

/// Reads events out of chunks: push one, take events until there is none, push the next.
#[derive(Debug)]
pub struct Reader {
    chunk: Bytes,
    /// Up to here the chunk has been read.
    at: usize,
    /// The beginning of an event whose end has not come; at most [`EVENT_MAX`].
    carry: BytesMut,
    /// The event in `carry` has been handed out.
    carry_is_spent: bool,
    /// The current line holds nothing so far.
    line_is_empty: bool,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_cr: bool,
    /// Nothing has been read: a byte order mark may come.
    is_first: bool,
    /// The data of an event that has several `data` lines.
    joined: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            chunk: Bytes::new(),
            at: 0,
            carry: BytesMut::new(),
            carry_is_spent: false,
            line_is_empty: true,
            after_cr: false,
            is_first: true,
            joined: Vec::new(),
        }
    }
}

/// Where an event's fields stand in its lines.
struct Parsed {
    /// `None` where several lines were joined.
    data: Option<Range<usize>>,
    name: Option<Range<usize>>,
    is_plain: bool,
}

impl Reader {
    /// A reader at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk. Every event of the one before must have been taken.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
        self.at = 0;
    }

    /// The next event that carries data; comments and empty events are passed over.
    ///
    /// # Errors
    /// An event grew too long; the stream cannot be read on.
    #[expect(clippy::should_implement_trait, reason = "an event borrows the reader, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, TooLong> {
        loop {
            if self.carry_is_spent {
                self.carry.clear();
                self.carry_is_spent = false;
            }
            let Some(place) = self.complete() else {
                self.carry.extend_from_slice(self.chunk.get(self.at..).unwrap_or_default());
                // Let go at once: whoever read the chunk can then use its memory for the next one.
                self.chunk = Bytes::new();
                self.at = 0;
                return if self.carry.len() > EVENT_MAX { Err(TooLong) } else { Ok(None) };
            };
            let from_chunk = self.carry.is_empty();
            if !from_chunk {
                self.carry.extend_from_slice(self.chunk.get(place.clone()).unwrap_or_default());
                self.carry_is_spent = true;
            }
            let raw = if from_chunk { self.chunk.get(place.clone()).unwrap_or_default() } else { &self.carry };
            if raw.len() > EVENT_MAX {
                return Err(TooLong);
            }
            if let Some(parsed) = parse(raw, std::mem::take(&mut self.is_first), &mut self.joined) {
                return Ok(Some(self.event(parsed, from_chunk.then_some(place))));
            }
        }
    }

    /// The stream has ended: what stands behind the last blank line, where it carries data. By the
    /// grammar it is no event; it is for the protocol to say whether it is a whole one.
    pub fn finish(&mut self) -> Option<Event<'_>> {
        if self.carry_is_spent {
            return None;
        }
        let parsed = parse(&self.carry, std::mem::take(&mut self.is_first), &mut self.joined)?;
        self.carry_is_spent = true;
        Some(self.event(Parsed { is_plain: false, ..parsed }, None))
    }

    fn event(&self, parsed: Parsed, place: Option<Range<usize>>) -> Event<'_> {
        let raw = place.clone().map_or(&self.carry[..], |place| self.chunk.get(place).unwrap_or_default());
        Event {
            data: parsed.data.map_or(&self.joined[..], |data| raw.get(data).unwrap_or_default()),
            name: parsed.name.and_then(|name| raw.get(name)),
            raw,
            place,
            is_plain: parsed.is_plain,
        }
    }

    /// Reads up to the next blank line: where in the chunk the event's rest stands. `None` when
    /// the chunk ends before.
    fn complete(&mut self) -> Option<Range<usize>> {
        if self.after_cr && self.at < self.chunk.len() {
            self.after_cr = false;
            if self.chunk.get(self.at) == Some(&b'\n') {
                self.at += 1;
            }
        }
        let start = self.at;
        let mut at = start;
        while let Some(length) = memchr2(b'\n', b'\r', self.chunk.get(at..)?) {
            let is_blank = self.line_is_empty && length == 0;
            let is_cr = self.chunk.get(at + length) == Some(&b'\r');
            at += length + 1;
            if is_cr {
                match self.chunk.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.line_is_empty = true;
            if is_blank {
                self.at = at;
                return Some(start..at);
            }
        }
        self.line_is_empty &= at == self.chunk.len();
        None
    }
}

/// Reads an event's lines; `None` where there is no data. Several `data` lines go into `joined`.
fn parse(raw: &[u8], is_first: bool, joined: &mut Vec<u8>) -> Option<Parsed> {
    let mut parsed = Parsed { data: None, name: None, is_plain: true };
    let mut lines = 0;
    let mut at = 0;
    if is_first && raw.starts_with(b"\xef\xbb\xbf") {
        parsed.is_plain = false;
        at = 3;
    }
    while let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) {
        let length = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        parsed.is_plain &= rest.get(length) != Some(&b'\r');
        let colon = memchr(b':', line);
        let field = line.get(..colon.unwrap_or(length)).unwrap_or_default();
        let value = colon.map_or(length, |colon| colon + 1 + usize::from(line.get(colon + 1) == Some(&b' ')));
        let value = at + value..at + length;
        match field {
            b"data" => {
                lines += 1;
                if lines == 1 {
                    parsed.data = Some(value);
                } else {
                    if let Some(first) = parsed.data.take() {
                        joined.clear();
                        joined.extend_from_slice(raw.get(first).unwrap_or_default());
                    }
                    joined.push(b'\n');
                    joined.extend_from_slice(raw.get(value).unwrap_or_default());
                }
            }
            b"event" => parsed.name = Some(value),
            b"id" | b"retry" => {}
            // Comments and fields that nobody knows are not for the caller.
            _ if length > 0 => parsed.is_plain = false,
            _ => {}
        }
        at += length + 1;
    }
    (lines > 0 && parsed.data.as_ref().is_none_or(|data| !data.is_empty())).then_some(parsed)
}

/// What goes to the caller out of one chunk. Events passed on side by side stay one slice of the
/// chunk; a chunk of which everything is passed on is that chunk.
#[derive(Debug)]
pub struct Output {
    chunk: Bytes,
    run: Range<usize>,
    built: BytesMut,
}

impl Output {
    /// Nothing yet, of the chunk that the reader was given.
    #[must_use]
    pub fn new(chunk: Bytes) -> Self {
        Self { chunk, run: 0..0, built: BytesMut::new() }
    }

    /// Passes an event on: as it came, or in plain form where it has comments, unknown fields, a byte
    /// order mark or carriage returns, whose form would depend on how the stream was cut.
    pub fn pass(&mut self, event: &Event<'_>) {
        match &event.place {
            _ if !event.is_plain => self.event(event.name, event.data),
            Some(place) if place.start == self.run.end && !self.run.is_empty() => self.run.end = place.end,
            Some(place) => {
                self.flush();
                self.run = place.clone();
            }
            None => self.bytes(event.raw),
        }
    }

    /// Passes an event on without a part of its data.
    pub fn pass_without(&mut self, event: &Event<'_>, cut: Span) {
        let head = event.data.get(..cut.start).unwrap_or_default();
        let tail = event.data.get(cut.end..).unwrap_or_default();
        if event.name.is_some() || memchr(b'\n', event.data).is_some() {
            return self.event(event.name, &[head, tail].concat());
        }
        self.flush();
        self.built.reserve(event.data.len() + 8);
        for part in [b"data: ", head, tail, b"\n\n"] {
            self.built.extend_from_slice(part);
        }
    }

    /// Writes an event.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) {
        self.flush();
        push_event(&mut self.built, name, data);
    }

    /// Writes whole events.
    pub fn bytes(&mut self, events: &[u8]) {
        self.flush();
        self.built.extend_from_slice(events);
    }

    fn flush(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.built.extend_from_slice(self.chunk.get(run).unwrap_or_default());
    }

    /// Everything, in order.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        if self.built.is_empty() {
            if self.run.len() == self.chunk.len() { self.chunk } else { self.chunk.slice(self.run) }
        } else {
            self.flush();
            self.built.freeze()
        }
    }
}

/// Appends an event in plain form.
pub fn push_event(out: &mut BytesMut, name: Option<&[u8]>, data: &[u8]) {
    out.reserve(data.len() + name.map_or(0, <[u8]>::len) + 16);
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name);
        out.extend_from_slice(b"\n");
    }
    for line in data.split(|byte| *byte == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"\n");
}

/// The event that ends a stream which failed: `data: {"error": …}`. No `[DONE]` follows it.
#[must_use]
pub fn error_event(refusal: &Refusal) -> Bytes {
    let mut out = BytesMut::new();
    push_event(&mut out, None, &refusal_json(refusal));
    out.freeze()
}

#[cfg(test)]
mod tests;
