//! JSON as bytes: validated in one pass, read by borrowing, edited by splicing.
//!
//! No tree is ever built. [`scan`] checks a whole document against the grammar of RFC 8259 and
//! shows the members of its top-level object on the way; what lies deeper is read by walking a
//! [`Value`] again. [`Patch`] splices edits into the original bytes, so that key order, white
//! space, nulls and the digits of numbers survive where nothing was edited.
//!
//! Accepted is exactly what `serde_json` accepts, but for: a leading byte order mark (skipped),
//! `\u` escapes of lone surrogates (valid by the grammar, passed on unchanged), nesting up to
//! [`DEPTH`], and numbers of any size. Duplicate keys are the reader's business.

mod canonical;
mod patch;
mod paths;
mod scan;
mod text;

use std::borrow::Cow;
use std::fmt;

pub use canonical::{CANONICAL_DEPTH, CANONICAL_MEMBERS, Canonical, Unfit};
pub use patch::{Patch, cut};
pub use paths::{Ambiguous, Found, Paths};
use scan::Scanner;
pub use text::{push_quoted, quoted, unescaped};

/// How deeply arrays and objects may nest.
pub const DEPTH: usize = 512;

/// Where a piece of JSON stands in its document: byte offsets, the end excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte.
    pub end: usize,
}

impl Span {
    /// As the standard library's range.
    #[must_use]
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start..self.end
    }
}

/// Why bytes are not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Offset of the byte at fault; the length of the document where it ended too early.
    pub at: usize,
    /// What was wrong there, for people.
    pub reason: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.at)
    }
}

impl std::error::Error for Error {}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true`, `false`
    Bool,
    /// A number of any size.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// With its article, for sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// One value of a validated document.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    text: &'a str,
    span: Span,
    kind: Kind,
}

/// One member of an object.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Its name, unescaped (lone surrogates replaced by U+FFFD).
    pub key: Cow<'a, str>,
    /// Where the name stands, quotes included.
    pub key_span: Span,
    /// Its value.
    pub value: Value<'a>,
}

impl Member<'_> {
    /// Name, colon and value.
    #[must_use]
    pub const fn span(&self) -> Span {
        Span { start: self.key_span.start, end: self.value.span.end }
    }
}

/// Validates a whole document and shows `each` member of its top-level object on the way.
///
/// # Errors
/// The first byte at fault. Members shown before it have to be forgotten.
pub fn scan<'a>(bytes: &'a [u8], mut each: impl FnMut(Member<'a>)) -> Result<Value<'a>, Error> {
    scan_opening(bytes, &[], |_, member| each(member))
}

/// The same, and shows on the way also what is inside of members whose names are in `opens`: the
/// members of an object, and those of all objects in an array, with the name that they are inside of.
/// They come before the member that holds them.
///
/// # Errors
/// The first byte at fault. Members shown before it have to be forgotten.
pub fn scan_opening<'a>(
    bytes: &'a [u8],
    opens: &[&'static str],
    mut each: impl FnMut(Option<&'static str>, Member<'a>),
) -> Result<Value<'a>, Error> {
    let text = simdutf8::basic::from_utf8(bytes).map_err(|_| invalid_utf8(bytes))?;
    let mut scanner = Scanner::new(text, if text.starts_with('\u{feff}') { 3 } else { 0 });
    scanner.skip_space();
    let start = scanner.at();
    let root = if scanner.peek() == Some(b'{') {
        scanner.step();
        while let Some((key, key_span)) = scanner.next_name(scanner.at() == start + 1)? {
            let value = match opens.iter().find(|name| **name == key) {
                Some(name) => scanner.opened(&mut |member| each(Some(name), member))?,
                None => scanner.value()?,
            };
            each(None, Member { key, key_span, value });
        }
        Value { text, span: Span { start, end: scanner.at() }, kind: Kind::Object }
    } else {
        scanner.value()?
    };
    scanner.skip_space();
    if scanner.peek().is_some() { Err(scanner.error("something follows the document")) } else { Ok(root) }
}

/// Only the slower check knows where.
#[cold]
fn invalid_utf8(bytes: &[u8]) -> Error {
    let at = simdutf8::compat::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    Error { at, reason: "invalid UTF-8" }
}

/// Validates a whole document.
///
/// # Errors
/// The first byte at fault.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, Error> {
    scan(bytes, |_| {})
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

impl<'a> Value<'a> {
    /// What it is.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// Where it stands in the document.
    #[must_use]
    pub const fn span(self) -> Span {
        self.span
    }

    /// Its text as it stands in the document.
    #[must_use]
    pub fn raw(self) -> &'a str {
        self.text.get(self.span.range()).unwrap_or_default()
    }

    /// True for `null`.
    #[must_use]
    pub const fn is_null(self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// True for `""`, `[]` and `{}`, white space inside or not.
    #[must_use]
    pub fn is_empty(self) -> bool {
        match self.kind {
            Kind::String => self.span.end - self.span.start == 2,
            Kind::Array | Kind::Object => {
                let inside = self.text.as_bytes().get(self.span.start + 1..self.span.end - 1).unwrap_or_default();
                inside.trim_ascii_start().is_empty()
            }
            _ => false,
        }
    }

    /// A boolean's value.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        (self.kind == Kind::Bool).then(|| self.raw() == "true")
    }

    /// The value of a number that is written as a whole, non-negative one (no fraction, no
    /// exponent) and fits.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        if self.kind == Kind::Number { self.raw().parse().ok() } else { None }
    }

    /// A number's value, rounded to the nearest double; infinite where it is too large.
    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        if self.kind == Kind::Number { self.raw().parse().ok() } else { None }
    }

    /// What stands between a string's quotes, escapes as written.
    #[must_use]
    pub fn as_escaped(self) -> Option<&'a str> {
        match self.kind {
            Kind::String => self.text.get(self.span.start + 1..self.span.end - 1),
            _ => None,
        }
    }

    /// A string's text. `None` also for one with a lone surrogate escape, which is no text.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        text::unescape(self.as_escaped()?).ok()
    }

    /// A string's text, lone surrogate escapes replaced by U+FFFD.
    #[must_use]
    pub fn as_str_lossy(self) -> Option<Cow<'a, str>> {
        self.as_escaped().map(text::unescape_lossy)
    }

    /// The members of an object, in order, duplicates included; none for other values.
    #[must_use]
    pub fn members(self) -> Members<'a> {
        Members { scanner: self.inside(Kind::Object), first: true }
    }

    /// The elements of an array, in order; none for other values.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements { scanner: self.inside(Kind::Array), first: true }
    }

    /// The first member of that name in an object.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.members().find(|member| member.key == key).map(|member| member.value)
    }

    fn inside(self, kind: Kind) -> Option<Scanner<'a>> {
        (self.kind == kind).then(|| Scanner::new(self.text, self.span.start + 1))
    }
}

/// Iterator over the members of an object.
#[derive(Debug)]
pub struct Members<'a> {
    scanner: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        // The document was validated: an error cannot come, and would only end the walk.
        let next = self.scanner.as_mut()?.next_member(self.first).ok().flatten();
        self.first = false;
        if next.is_none() {
            self.scanner = None;
        }
        next
    }
}

/// Iterator over the elements of an array.
#[derive(Debug)]
pub struct Elements<'a> {
    scanner: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let next = self.scanner.as_mut()?.next_element(self.first).ok().flatten();
        self.first = false;
        if next.is_none() {
            self.scanner = None;
        }
        next
    }
}

#[cfg(test)]
mod tests;
