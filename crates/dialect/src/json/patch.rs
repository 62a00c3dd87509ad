//! Edits of a document, spliced into its original bytes in one allocation.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::{Member, Span, Value, quoted};

/// A list of edits over one document. Edits may be added in any order; an edit inside something
/// that is removed or replaced is without effect.
#[derive(Clone, Debug, Default)]
pub struct Patch<'a> {
    replaced: SmallVec<[(Span, Cow<'a, str>); 4]>,
    removed: SmallVec<[Span; 2]>,
    inserted: SmallVec<[(Span, Cow<'a, str>); 2]>,
}

impl<'a> Patch<'a> {
    /// No edits yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True while applying would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.replaced.is_empty() && self.removed.is_empty() && self.inserted.is_empty()
    }

    /// Puts other JSON text in the place of a value.
    pub fn replace(&mut self, span: Span, json: impl Into<Cow<'a, str>>) {
        self.replaced.push((span, json.into()));
    }

    /// Takes a member out of its object, with the comma that goes with it.
    pub fn remove(&mut self, member: &Member<'_>) {
        self.removed.push(member.span());
    }

    /// The same where only the member's place is known: from its name's first quote to its value's
    /// last byte.
    pub fn remove_span(&mut self, member: Span) {
        self.removed.push(member);
    }

    /// Adds a member at the end of an object. `key` is the plain name, `json` the value's text.
    pub fn insert(&mut self, object: Span, key: &str, json: &str) {
        self.inserted.push((object, Cow::Owned(format!("{}:{json}", quoted(key)))));
    }

    /// The same for the object that a value is.
    pub fn insert_into(&mut self, object: Value<'_>, key: &str, json: &str) {
        self.insert(object.span(), key, json);
    }

    /// The edited document; without edits the very same bytes.
    #[must_use]
    pub fn apply(self, document: &Bytes) -> Bytes {
        if self.is_empty() {
            return document.clone();
        }
        let cuts = cuts(document, self.removed);
        let mut edits: SmallVec<[(Span, Cow<'_, str>); 8]> = SmallVec::new();
        for (index, (object, member)) in self.inserted.iter().enumerate() {
            let (at, is_empty) = tail(document, *object, &cuts);
            let is_first = !self.inserted.iter().take(index).any(|(other, _)| other == object);
            let text = if is_empty && is_first { member.clone() } else { Cow::Owned(format!(",{member}")) };
            edits.push((Span { start: at, end: at }, text));
        }
        edits.extend(self.replaced);
        edits.extend(cuts.into_iter().map(|cut| (cut, Cow::Borrowed(""))));
        // Stable: what is inserted where a cut begins stands before the cut.
        edits.sort_by_key(|(span, _)| span.start);
        splice(document, &edits)
    }
}

/// What to cut out of a document so that one member leaves with its comma.
#[must_use]
pub fn cut(document: &[u8], member: Span) -> Span {
    let mut span = member;
    widen(document, &mut span);
    span
}

fn splice(document: &[u8], edits: &[(Span, Cow<'_, str>)]) -> Bytes {
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = BytesMut::with_capacity(document.len() + added);
    let mut at = 0;
    for (span, text) in edits {
        let Some(kept) = document.get(at..span.start) else { continue };
        out.extend_from_slice(kept);
        out.extend_from_slice(text.as_bytes());
        at = span.end;
    }
    out.extend_from_slice(document.get(at..).unwrap_or_default());
    out.freeze()
}

/// What to cut out for removed members: neighbours as one run, with one comma a member.
fn cuts(document: &[u8], mut removed: SmallVec<[Span; 2]>) -> SmallVec<[Span; 4]> {
    removed.sort_by_key(|span| span.start);
    let mut runs: SmallVec<[Span; 4]> = SmallVec::new();
    for member in removed {
        match runs.last_mut() {
            Some(run) if member.start < run.end => {}
            Some(run) if comma_behind(document, run.end).is_some_and(|next| next == member.start) => {
                run.end = member.end
            }
            _ => runs.push(member),
        }
    }
    runs.iter_mut().for_each(|run| widen(document, run));
    runs
}

/// Adds the comma that goes with a run of members: the one behind it, else the one before it.
fn widen(document: &[u8], run: &mut Span) {
    if let Some(next) = comma_behind(document, run.end) {
        run.end = next;
    } else if let Some((comma, b',')) = last_visible(document, run.start) {
        run.start = comma;
    }
}

/// Where the next member begins when a comma follows.
fn comma_behind(document: &[u8], at: usize) -> Option<usize> {
    let comma = first_visible(document, at)?;
    if document.get(comma) == Some(&b',') { first_visible(document, comma + 1) } else { None }
}

fn first_visible(document: &[u8], at: usize) -> Option<usize> {
    document.get(at..)?.iter().position(|byte| !byte.is_ascii_whitespace()).map(|offset| at + offset)
}

fn last_visible(document: &[u8], before: usize) -> Option<(usize, u8)> {
    let at = document.get(..before)?.iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    document.get(at).map(|byte| (at, *byte))
}

/// Where a member is added to an object, and whether nothing is left in it.
fn tail(document: &[u8], object: Span, cuts: &[Span]) -> (usize, bool) {
    let mut before = object.end.saturating_sub(1);
    loop {
        let Some((last, byte)) = last_visible(document, before) else { return (before, true) };
        match cuts.iter().find(|cut| cut.start <= last && last < cut.end && object.start < cut.start) {
            Some(cut) => before = cut.start,
            None => return (last + 1, last == object.start && byte == b'{'),
        }
    }
}
