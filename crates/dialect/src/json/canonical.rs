//! A document in the one form that all its spellings share, for whoever compares or hashes them.
//!
//! Members are sorted by name (where their order says nothing, see [`Canonical::ordered_in`]), strings
//! are unescaped, white space is dropped, numbers are exact decimals (`0.5`, `0.50` and `5e-1` are one,
//! and no double ever rounds them). The order of arrays stays, and so does every member, be it null. The form is for hashing, not for reading: each value
//! says by its first byte what it is and where it ends, so that two documents of one form are equal.
//!
//! A document is walked twice in linear time: once for where its members stand, once in their order.

use std::borrow::Cow;
use std::fmt;

use super::scan::Scanner;
use super::{Error, Kind, Span, Value, text};

/// How deeply a document may nest to have this form: a quarter of what is passed on.
pub const CANONICAL_DEPTH: usize = 128;

/// Members, and arrays or objects in arrays, that a document may have in all: 3.5 MiB to remember, and some
/// 15 ms to put in order.
pub const CANONICAL_MEMBERS: usize = 1 << 16;

/// How much is gathered before it is handed on, bytes: as much as BLAKE3 needs to hash side by side.
const PIECE: usize = 32 << 10;

/// Room for so many members is made at once: more than the call of a short chat has.
const USUAL: usize = 32;

/// Behind a string: no byte of UTF-8.
const END: u8 = 0xff;

/// Why a document has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not JSON.
    Invalid,
    /// A member stands twice, and readers would not agree about which one counts.
    Doubled,
    /// A string with half a surrogate pair, which is no text.
    NotText,
    /// A number whose exponent no machine would count to.
    Number,
    /// It nests more deeply than [`CANONICAL_DEPTH`].
    TooDeep,
    /// It has more than [`CANONICAL_MEMBERS`] members.
    TooMany,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "it is not JSON",
            Self::Doubled => "a member stands twice in one object",
            Self::NotText => "a string is not valid text",
            Self::Number => "a number's exponent is out of all bounds",
            Self::TooDeep => "it nests too deeply",
            Self::TooMany => "it has too many members",
        })
    }
}

impl std::error::Error for Unfit {}

impl From<Error> for Unfit {
    fn from(_: Error) -> Self {
        Self::Invalid
    }
}

/// Hands documents on in their canonical form.
pub struct Canonical<'s> {
    sink: &'s mut dyn FnMut(&[u8]),
    piece: Vec<u8>,
    /// In which members of a document the order of what they hold is part of it.
    is_ordered: fn(&str) -> bool,
}

impl fmt::Debug for Canonical<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canonical").finish_non_exhaustive()
    }
}

impl<'s> Canonical<'s> {
    /// Hands on to `sink`, in pieces of any size.
    pub fn new(sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Self { sink, piece: Vec::with_capacity(512), is_ordered: |_| false }
    }

    /// In objects beneath these members of a document the order counts in which members stand: a model that answers
    /// by a schema writes what the schema names in its order.
    #[must_use]
    pub fn ordered_in(self, is_ordered: fn(&str) -> bool) -> Self {
        Self { is_ordered, ..self }
    }

    /// One whole document, but for the members of its top-level object that `leaves_out` names.
    ///
    /// # Errors
    /// Where it has no canonical form. What was handed on of it is then to be forgotten.
    pub fn document(&mut self, bytes: &[u8], leaves_out: impl Fn(&str) -> bool) -> Result<(), Unfit> {
        let text = simdutf8::basic::from_utf8(bytes).map_err(|_| Unfit::Invalid)?;
        let mut scanner = Scanner::new(text, if text.starts_with('\u{feff}') { 3 } else { 0 });
        scanner.skip_space();
        let start = scanner.at();
        let mut places = Places { text, nodes: Vec::with_capacity(USUAL) };
        if is_nested(&scanner) {
            places.gather(&mut scanner, 0, &leaves_out)?;
        } else {
            scanner.value()?;
        }
        let end = scanner.at();
        scanner.skip_space();
        if scanner.peek().is_some() {
            return Err(Unfit::Invalid);
        }
        let mut writer = Writer { out: self, places: &places, order: Vec::with_capacity(USUAL) };
        writer.value(Span { start, end }, 0, places.nodes.len(), Level::Top)
    }

    /// A whole number that stands in no document.
    pub fn number(&mut self, number: u64) {
        self.put(b"n");
        self.put(&number.to_be_bytes());
    }

    /// A text that stands in no document.
    pub fn text(&mut self, text: &str) {
        self.put(b"s");
        self.put(text.as_bytes());
        self.put(&[END]);
    }

    /// Hands on what is still held.
    pub fn finish(mut self) {
        self.flush();
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.piece.len() + bytes.len() > PIECE {
            self.flush();
        }
        if bytes.len() > PIECE { (self.sink)(bytes) } else { self.piece.extend_from_slice(bytes) }
    }

    fn flush(&mut self) {
        if !self.piece.is_empty() {
            (self.sink)(&self.piece);
            self.piece.clear();
        }
    }

    fn scalar(&mut self, value: Value<'_>) -> Result<(), Unfit> {
        match value.kind() {
            Kind::Null => self.put(b"z"),
            Kind::Bool => self.put(if value.as_bool() == Some(true) { b"t" } else { b"f" }),
            Kind::Number => return self.decimal(value.raw()),
            Kind::String => self.text(&value.as_str().ok_or(Unfit::NotText)?),
            Kind::Array | Kind::Object => return Err(Unfit::Invalid),
        }
        Ok(())
    }

    /// A number as its sign, its digits without zeros at either end, and the power of ten that they
    /// are to be taken with.
    fn decimal(&mut self, raw: &str) -> Result<(), Unfit> {
        let (sign, rest) = raw.strip_prefix('-').map_or((b"d+", raw), |rest| (b"d-", rest));
        let (mantissa, written) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (mut whole, mut fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let mut shift = -i64::try_from(fraction.len()).map_err(|_| Unfit::Number)?;
        if whole.is_empty() {
            fraction = fraction.trim_start_matches('0');
        }
        if fraction.is_empty() {
            let digits = whole.trim_end_matches('0');
            shift = i64::try_from(whole.len() - digits.len()).map_err(|_| Unfit::Number)?;
            whole = digits;
        }
        if whole.is_empty() && fraction.is_empty() {
            // However it is written: also with a sign, which no parameter knows.
            self.put(b"d+0");
            return Ok(());
        }
        let power = written.parse::<i64>().ok().and_then(|written| written.checked_add(shift)).ok_or(Unfit::Number)?;
        self.put(sign);
        self.put(whole.as_bytes());
        self.put(fraction.as_bytes());
        self.put(b"e");
        self.put(&power.to_be_bytes());
        Ok(())
    }
}

fn is_nested(scanner: &Scanner<'_>) -> bool {
    matches!(scanner.peek(), Some(b'{' | b'['))
}

/// Where a member stands, or an array or object that is the element of an array. Plain elements need
/// no place: they are read on the way.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The name with its quotes; nothing for an element.
    name: Span,
    /// Whether it has escapes.
    is_escaped: bool,
    /// What most names are told apart by.
    beginning: u64,
    value: Span,
    /// Behind the last node inside of the value.
    next: usize,
}

/// Where the members of a document stand, in its own order.
struct Places<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Places<'a> {
    /// From an opening bracket to behind its closing one, everything inside included.
    fn gather(
        &mut self,
        scanner: &mut Scanner<'a>,
        depth: usize,
        leaves_out: &dyn Fn(&str) -> bool,
    ) -> Result<(), Unfit> {
        if depth == CANONICAL_DEPTH {
            return Err(Unfit::TooDeep);
        }
        let is_object = scanner.peek() == Some(b'{');
        scanner.step();
        let mut first = true;
        loop {
            let (mut name, mut is_escaped, mut beginning) = (Span::default(), false, 0);
            if is_object {
                let Some((key, span)) = scanner.next_name(std::mem::take(&mut first))? else { return Ok(()) };
                if depth == 0 && leaves_out(&key) {
                    scanner.value()?;
                    continue;
                }
                (name, is_escaped, beginning) = (span, matches!(key, Cow::Owned(_)), self::beginning(&key));
            } else if scanner.ends(std::mem::take(&mut first), b']', "expected a comma or ']'")? {
                return Ok(());
            } else if !is_nested(scanner) {
                scanner.value()?;
                continue;
            }
            let (at, start) = (self.nodes.len(), scanner.at());
            if at == CANONICAL_MEMBERS {
                return Err(Unfit::TooMany);
            }
            let value = Span { start, end: start };
            self.nodes.push(Node { name, is_escaped, beginning, value, next: at + 1 });
            if is_nested(scanner) {
                self.gather(scanner, depth + 1, leaves_out)?;
            } else {
                scanner.value()?;
            }
            let (end, next) = (scanner.at(), self.nodes.len());
            if let Some(node) = self.nodes.get_mut(at) {
                (node.value.end, node.next) = (end, next);
            }
        }
    }

    fn node(&self, at: usize) -> Result<Node, Unfit> {
        self.nodes.get(at).copied().ok_or(Unfit::Invalid)
    }

    fn name(&self, node: Node) -> Result<Cow<'a, str>, Unfit> {
        let inside = self.text.get(node.name.start + 1..node.name.end.saturating_sub(1)).ok_or(Unfit::Invalid)?;
        if !node.is_escaped {
            return Ok(Cow::Borrowed(inside));
        }
        text::unescape(inside).map_err(|text::LoneSurrogate| Unfit::NotText)
    }
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    /// It is the document.
    Top,
    /// The order of its members says nothing.
    Free,
    /// It is part of what it says.
    Ordered,
}

/// Writes the members of a document in the order of their names, or in their own.
struct Writer<'w, 's, 'a> {
    out: &'w mut Canonical<'s>,
    places: &'w Places<'a>,
    /// The members of all objects that are open, each with the first bytes of its name, by which most
    /// are told apart.
    order: Vec<(u64, usize)>,
}

impl Writer<'_, '_, '_> {
    /// The value that stands there, whose nodes are those from `first` up to `last`.
    fn value(&mut self, span: Span, first: usize, last: usize, level: Level) -> Result<(), Unfit> {
        match self.places.text.as_bytes().get(span.start) {
            Some(b'{') => self.object(first, last, level),
            Some(b'[') => self.array(span, first, level),
            Some(first) => {
                let kind = match first {
                    b'"' => Kind::String,
                    b'n' => Kind::Null,
                    b't' | b'f' => Kind::Bool,
                    _ => Kind::Number,
                };
                self.out.scalar(Value { text: self.places.text, span, kind })
            }
            None => Err(Unfit::Invalid),
        }
    }

    fn object(&mut self, first: usize, last: usize, level: Level) -> Result<(), Unfit> {
        let places = self.places;
        let base = self.order.len();
        let mut at = first;
        while at < last {
            let node = places.node(at)?;
            self.order.push((node.beginning, at));
            at = node.next;
        }
        let name = |at: usize| places.node(at).and_then(|node| places.name(node)).unwrap_or_default();
        let members = self.order.get_mut(base..).unwrap_or_default();
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0).then_with(|| name(one.1).cmp(&name(other.1))));
        let mut neighbours = members.iter().zip(members.iter().skip(1));
        if neighbours.any(|(one, other)| one.0 == other.0 && name(one.1) == name(other.1)) {
            return Err(Unfit::Doubled);
        }
        if level == Level::Ordered {
            members.sort_unstable_by_key(|(_, at)| *at);
        }
        self.out.put(b"{");
        for place in base..self.order.len() {
            let Some((_, at)) = self.order.get(place).copied() else { break };
            let node = places.node(at)?;
            let name = places.name(node)?;
            let within = match level {
                Level::Top if (self.out.is_ordered)(&name) => Level::Ordered,
                Level::Top => Level::Free,
                level => level,
            };
            self.out.text(&name);
            self.value(node.value, at + 1, node.next, within)?;
        }
        self.order.truncate(base);
        self.out.put(b"}");
        Ok(())
    }

    fn array(&mut self, span: Span, first: usize, level: Level) -> Result<(), Unfit> {
        let within = if level == Level::Top { Level::Free } else { level };
        let mut scanner = Scanner::new(self.places.text, span.start + 1);
        let (mut at, mut is_first) = (first, true);
        self.out.put(b"[");
        while !scanner.ends(std::mem::take(&mut is_first), b']', "expected a comma or ']'")? {
            if is_nested(&scanner) {
                let node = self.places.node(at)?;
                self.value(node.value, at + 1, node.next, within)?;
                scanner = Scanner::new(self.places.text, node.value.end);
                at = node.next;
            } else {
                let scalar = scanner.value()?;
                self.out.scalar(scalar)?;
            }
        }
        self.out.put(b"]");
        Ok(())
    }
}

/// The first eight bytes of a name, which order as the name does.
fn beginning(name: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests;
