//! Finds things in large JSON bodies without reading what lies between.
//!
//! Unlike [`crate::json`] this neither validates nor decodes: strings are leapt over with `memchr`,
//! and whoever needs a value judges its bytes. Malformed input yields `None`, never a panic.

use std::ops::Range;

/// A place in a body.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// At the start of a body; a byte order mark is stepped over.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 } }
    }

    /// The bytes of a range.
    pub(crate) fn text(&self, range: &Range<usize>) -> &'a [u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// Where it stands: right behind what it stepped over last.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Where it stands, white space in front skipped.
    pub(crate) fn here(&mut self) -> usize {
        let _ = self.peek();
        self.at
    }

    /// The next byte that is not white space; stays before it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = self.bytes.get(self.at..)?;
        let space = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.at += space;
        rest.get(space).copied()
    }

    /// Steps over `byte` if it is next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
        }
        found
    }

    /// Steps over a string and returns what stands between its quotes, escapes as written.
    pub(crate) fn string(&mut self) -> Option<Range<usize>> {
        if !self.eat(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let stop = memchr::memchr2(b'"', b'\\', rest)?;
            let escape = rest.get(stop) == Some(&b'\\');
            self.at += stop + if escape { 2 } else { 1 };
            if !escape {
                return Some(start..self.at - 1);
            }
        }
    }

    /// Steps over an array of numbers and returns what stands between its brackets. Whatever else
    /// stands there is for the judge of those bytes; a nested array ends at its first bracket.
    pub(crate) fn numbers(&mut self) -> Option<Range<usize>> {
        if !self.eat(b'[') {
            return None;
        }
        let start = self.at;
        let length = memchr::memchr(b']', self.bytes.get(start..)?)?;
        self.at = start + length + 1;
        Some(start..start + length)
    }

    /// Steps over any value and returns where it stands.
    pub(crate) fn value(&mut self) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'[' | b'{' => self.nest()?,
            _ => {
                let rest = self.bytes.get(start..)?;
                let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b'"') || byte.is_ascii_whitespace();
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        (self.at > start).then_some(start..self.at)
    }

    /// Steps over an array or object, however deep, without recursion.
    fn nest(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Walks an object: `each` gets a key and must step over its value.
    pub(crate) fn object(&mut self, mut each: impl FnMut(&'a [u8], &mut Self) -> Option<()>) -> Option<()> {
        if !self.eat(b'{') {
            return None;
        }
        if self.eat(b'}') {
            return Some(());
        }
        loop {
            let key = self.string()?;
            if !self.eat(b':') {
                return None;
            }
            each(self.text(&key), self)?;
            if self.eat(b'}') {
                return Some(());
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    /// Walks an array: `each` must step over one element.
    pub(crate) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if !self.eat(b'[') {
            return None;
        }
        if self.eat(b']') {
            return Some(());
        }
        loop {
            each(self)?;
            if self.eat(b']') {
                return Some(());
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    /// Whether nothing but white space is left.
    pub(crate) fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_leapt_over_whatever_their_strings_look_like() {
        let body = br#" {"a":"\"}]{[\\","b":{"input":[1,{"x":"]"}]}, "input" : [ "x" ] , "c":null}"#;
        let mut found = Vec::new();
        let walked = Walk::new(body).object(|key, walk| {
            let value = walk.value()?;
            found.push((key, walk.text(&value)));
            Some(())
        });
        assert_eq!(walked, Some(()));
        assert_eq!(found.len(), 4);
        assert_eq!(found[2], (&b"input"[..], &br#"[ "x" ]"#[..]));
        assert_eq!(found[3], (&b"c"[..], &b"null"[..]));
    }

    #[test]
    fn every_prefix_of_a_body_is_survived() {
        let body = br#"{"data":[{"index":0,"embedding":[1,2]},{"e":"\\\"x"}],"usage":{"a":1}}"#;
        for end in 0..body.len() {
            assert!(Walk::new(&body[..end]).value().is_none_or(|value| value.end <= end));
        }
    }
}
