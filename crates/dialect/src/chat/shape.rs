//! Most chunks of a stream differ from the one before in nothing but the text of one delta.
//!
//! What was learned from reading one such chunk holds for every chunk with the same bytes around
//! one JSON string, so that those need not be read again.

use crate::json::{self, Kind, Span, Value};

/// The bytes around the text of a chunk that has been read.
#[derive(Debug, Default)]
pub(super) struct Shape {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// What to leave out of it: distances from the data's end, or from its beginning.
    cut: Option<(bool, Span)>,
}

impl Shape {
    /// Takes the shape of a chunk with its text at `text`, of which `cut` is not passed on.
    pub(super) fn learn(&mut self, data: &[u8], text: Span, cut: Option<Span>) {
        self.head.clear();
        self.head.extend_from_slice(data.get(..text.start).unwrap_or_default());
        self.tail.clear();
        self.tail.extend_from_slice(data.get(text.end..).unwrap_or_default());
        let from_end = |at: usize| data.len().saturating_sub(at);
        self.cut = cut.map(|cut| {
            if cut.start >= text.end {
                (true, Span { start: from_end(cut.start), end: from_end(cut.end) })
            } else {
                (false, cut)
            }
        });
    }

    /// The text of a chunk of this very shape.
    pub(super) fn fit<'a>(&self, data: &'a [u8]) -> Option<Value<'a>> {
        if self.head.is_empty() {
            return None;
        }
        let text = data.strip_prefix(self.head.as_slice())?.strip_suffix(self.tail.as_slice())?;
        // No white space around it, or it would not be the same chunk with another text.
        let is_bare = text.first() == Some(&b'"') && text.last() == Some(&b'"');
        json::parse(text).ok().filter(|text| is_bare && text.kind() == Kind::String)
    }

    /// What is not passed on of a chunk of this shape.
    pub(super) fn cut(&self, data: &[u8]) -> Option<Span> {
        let from_end = |distance: usize| data.len().saturating_sub(distance);
        self.cut.map(|(is_from_end, cut)| match is_from_end {
            true => Span { start: from_end(cut.start), end: from_end(cut.end) },
            false => cut,
        })
    }
}
