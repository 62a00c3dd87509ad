//! The one pass over a document: iterative, with a bounded stack of one bit a level.

use std::borrow::Cow;

use super::{DEPTH, Error, Kind, Member, Span, Value, text};

/// A position in a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Where the window begins whose special bytes are known; none at first.
    window: usize,
    /// The special bytes of that window. Kept, so that a string of many escapes costs a shift for each
    /// and not a new search.
    special: u64,
    /// Arrays and objects around what is read now whose inside is shown.
    outer: usize,
}

/// The open arrays and objects of a value: one bit each, set for an object.
struct Nest {
    bits: [u64; DEPTH / 64],
    depth: usize,
    /// The depth at which the value itself stands.
    outer: usize,
}

impl Nest {
    fn push(&mut self, is_object: bool) -> bool {
        let Some(word) = self.bits.get_mut(self.depth / 64) else { return false };
        let bit = 1 << (self.depth % 64);
        *word = if is_object { *word | bit } else { *word & !bit };
        self.depth += 1;
        true
    }

    /// Whether the innermost is an object; `None` outside of everything.
    fn top(&self) -> Option<bool> {
        let level = self.depth.checked_sub(1).filter(|level| *level >= self.outer)?;
        self.bits.get(level / 64).map(|word| word >> (level % 64) & 1 == 1)
    }
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(text: &'a str, at: usize) -> Self {
        // So far from any place that none is in it.
        Self { text, at, window: usize::MAX / 2, special: 0, outer: 0 }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) const fn error(&self, reason: &'static str) -> Error {
        Error { at: self.at, reason }
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The next member of an object whose `{` (or the previous member) is behind; `None` behind
    /// its `}`.
    pub(super) fn next_member(&mut self, first: bool) -> Result<Option<Member<'a>>, Error> {
        let Some((key, key_span)) = self.next_name(first)? else { return Ok(None) };
        let value = self.value()?;
        Ok(Some(Member { key, key_span, value }))
    }

    /// The name of the next member and where it stands, up to the first byte of its value.
    #[inline(always)]
    pub(super) fn next_name(&mut self, first: bool) -> Result<Option<(Cow<'a, str>, Span)>, Error> {
        if self.ends(first, b'}', "expected a comma or '}'")? {
            return Ok(None);
        }
        let (span, has_escapes) = self.key()?;
        let inner = self.text.get(span.start + 1..span.end - 1).unwrap_or_default();
        let key = if has_escapes { text::unescape_lossy(inner) } else { Cow::Borrowed(inner) };
        Ok(Some((key, span)))
    }

    /// The value that begins here; of an object, and of the objects in an array, `each` member is shown.
    pub(super) fn opened(&mut self, each: &mut impl FnMut(Member<'a>)) -> Result<Value<'a>, Error> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => {
                self.inside(each)?;
                Kind::Object
            }
            Some(b'[') => {
                self.outer += 1;
                self.at += 1;
                let mut first = true;
                while !self.ends(std::mem::take(&mut first), b']', "expected a comma or ']'")? {
                    if self.peek() == Some(b'{') {
                        self.inside(each)?;
                    } else {
                        self.value()?;
                    }
                }
                self.outer -= 1;
                Kind::Array
            }
            _ => return self.value(),
        };
        Ok(Value { text: self.text, span: Span { start, end: self.at }, kind })
    }

    /// An object from its `{` to behind its `}`.
    fn inside(&mut self, each: &mut impl FnMut(Member<'a>)) -> Result<(), Error> {
        self.at += 1;
        self.outer += 1;
        let mut first = true;
        while let Some(member) = self.next_member(std::mem::take(&mut first))? {
            each(member);
        }
        self.outer -= 1;
        Ok(())
    }

    /// The next element of an array whose `[` (or the previous element) is behind; `None` behind
    /// its `]`.
    pub(super) fn next_element(&mut self, first: bool) -> Result<Option<Value<'a>>, Error> {
        if self.ends(first, b']', "expected a comma or ']'")? { Ok(None) } else { self.value().map(Some) }
    }

    /// Steps over what separates members or elements; true when the container has ended.
    #[inline]
    pub(super) fn ends(&mut self, first: bool, close: u8, reason: &'static str) -> Result<bool, Error> {
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                return Ok(true);
            }
            Some(b',') if !first => {
                self.at += 1;
                self.skip_space();
            }
            Some(_) if first => {}
            _ => return Err(self.error(reason)),
        }
        Ok(false)
    }

    /// The value that begins here, nested ones skipped without recursion.
    #[inline]
    pub(super) fn value(&mut self) -> Result<Value<'a>, Error> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => self.string().map(|_| Kind::String),
            Some(b'{') => self.container().map(|()| Kind::Object),
            Some(b'[') => self.container().map(|()| Kind::Array),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Kind::Number),
            Some(b'n') => self.literal("null").map(|()| Kind::Null),
            Some(b't') => self.literal("true").map(|()| Kind::Bool),
            Some(b'f') => self.literal("false").map(|()| Kind::Bool),
            _ => Err(self.error("expected a value")),
        }?;
        Ok(Value { text: self.text, span: Span { start, end: self.at }, kind })
    }

    fn container(&mut self) -> Result<(), Error> {
        let mut nest = Nest { bits: [0; DEPTH / 64], depth: self.outer, outer: self.outer };
        loop {
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    let is_object = open == b'{';
                    if !nest.push(is_object) {
                        return Err(self.error("nested too deeply"));
                    }
                    self.at += 1;
                    self.skip_space();
                    if self.peek() != Some(if is_object { b'}' } else { b']' }) {
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b'n') => self.literal("null")?,
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                _ => return Err(self.error("expected a value")),
            }
            if self.close(&mut nest)? {
                return Ok(());
            }
        }
    }

    /// Behind a value: closes what ends here and steps to the next value; true when everything is
    /// closed.
    #[inline]
    fn close(&mut self, nest: &mut Nest) -> Result<bool, Error> {
        while let Some(is_object) = nest.top() {
            self.skip_space();
            match (self.peek(), is_object) {
                (Some(b','), true) => {
                    self.at += 1;
                    self.skip_space();
                    self.key()?;
                    return Ok(false);
                }
                (Some(b','), false) => {
                    self.at += 1;
                    self.skip_space();
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    nest.depth -= 1;
                    self.at += 1;
                }
                (_, true) => return Err(self.error("expected a comma or '}'")),
                (_, false) => return Err(self.error("expected a comma or ']'")),
            }
        }
        Ok(true)
    }

    /// A member's name and its colon, up to the first byte of the value; whether the name has
    /// escapes.
    #[inline]
    fn key(&mut self) -> Result<(Span, bool), Error> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a member's name in double quotes"));
        }
        let start = self.at;
        let has_escapes = self.string()?;
        let span = Span { start, end: self.at };
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("expected a colon"));
        }
        self.at += 1;
        self.skip_space();
        Ok((span, has_escapes))
    }

    fn literal(&mut self, word: &'static str) -> Result<(), Error> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Error> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if let Some(b'0'..=b'9') = self.peek() {
                return Err(self.error("a number must not begin with 0"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.error("expected a digit")) } else { Ok(()) }
    }

    /// A string, from its opening quote to behind its closing one; whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, Error> {
        self.at += 1;
        // Most strings are short, and end within the window that is known already.
        let into = self.at.wrapping_sub(self.window);
        if into < text::WINDOW {
            let end = self.at + (self.special >> into).trailing_zeros() as usize;
            if self.text.as_bytes().get(end) == Some(&b'"') && end < self.window + text::WINDOW {
                self.at = end + 1;
                return Ok(false);
            }
        }
        self.rest_of_string()
    }

    fn rest_of_string(&mut self) -> Result<bool, Error> {
        let mut has_escapes = false;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => return Err(self.error("a control character inside a string must be escaped")),
                None => return Err(self.error("the string does not end")),
            }
        }
    }

    /// Steps to the next quote, backslash or control character, else to the end.
    #[inline]
    fn skip_plain(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            let into = self.at.wrapping_sub(self.window);
            if into < text::WINDOW {
                let ahead = self.special >> into;
                if ahead != 0 {
                    self.at += ahead.trailing_zeros() as usize;
                    return;
                }
                self.at = self.window + text::WINDOW;
            }
            if self.at >= bytes.len() {
                self.at = bytes.len();
                return;
            }
            self.window = self.at;
            self.special = text::special_bits(bytes, self.at);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                let digits = self.text.as_bytes().get(self.at..).and_then(|rest| rest.first_chunk::<4>());
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    // The slow way, for the place of the fault.
                    while self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        self.at += 1;
                    }
                    return Err(self.error("expected four hexadecimal digits"));
                }
                self.at += 4;
            }
            Some(_) => return Err(self.error("unknown escape")),
            None => return Err(self.error("the string does not end")),
        }
        Ok(())
    }
}
