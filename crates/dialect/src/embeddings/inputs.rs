//! The inputs of a call one by one: what decides the vector of each.
//!
//! A vector depends on its own input and on what the call says about all of them, never on the
//! neighbours, their order or their number. The two are handed over apart, so that a call's part is
//! worked out once.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::{Encoding, Form, View};
use crate::Ask;
use crate::ask;
use crate::json::{self, Canonical, Kind, Unfit, Value};
use crate::keyed::{NotKeyed, VOLATILE, is_ordered};

/// Characters that are not seen and mean nothing: soft hyphen, zero-width space, word joiner, byte
/// order mark. The joiners U+200C and U+200D mean something (Persian, Indic scripts, emoji) and stay.
const UNSEEN: [char; 4] = ['\u{ad}', '\u{200b}', '\u{2060}', '\u{feff}'];

/// How an input's text becomes part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Texts that look the same are the same: see [`normalized`].
    Normalized,
    /// To the last character (`cache.normalize: false`).
    Exact,
}

/// One input of a call.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A text; none where it has half a surrogate pair, which is no text.
    Text(Option<Cow<'a, str>>),
    /// An array of token ids.
    Ids(Value<'a>),
}

/// The inputs of a call in its order; none for a call that is not about embeddings.
#[must_use]
pub fn inputs(ask: &Ask) -> Vec<Input<'_>> {
    let ask::View::Embeddings(view) = &ask.view else { return Vec::new() };
    let Some(input) = ask.body.get(view.input.range()).and_then(|text| json::parse(text).ok()) else {
        return Vec::new();
    };
    match view.form {
        Form::Text => vec![Input::Text(input.as_str())],
        Form::Texts => input.elements().map(|text| Input::Text(text.as_str())).collect(),
        Form::Ids => vec![Input::Ids(input)],
        Form::IdArrays => input.elements().map(Input::Ids).collect(),
    }
}

impl Input<'_> {
    /// Its tokens, roughly: what its share of a count for many is measured by.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Text(text) => base::estimate(text.as_deref().unwrap_or_default().as_bytes()),
            Self::Ids(ids) => ids.elements().count() as u64,
        }
    }

    /// Hands to `sink` what decides this input's vector beside [`deciding`]. A text and token ids are
    /// never the same, also where the ids are those of the text: which tokens a model makes of a text
    /// is its own business.
    ///
    /// # Errors
    /// For a text that is none, or of which nothing is left: upstreams disagree about the vector of
    /// nothing.
    pub fn deciding(&self, spelling: Spelling, sink: &mut dyn FnMut(&[u8])) -> Result<(), NotKeyed> {
        let mut out = Canonical::new(sink);
        match self {
            Self::Text(text) => {
                let text = text.as_deref().ok_or(Unfit::NotText)?;
                let text = match spelling {
                    Spelling::Normalized => normalized(text),
                    Spelling::Exact => Cow::Borrowed(text),
                };
                if text.is_empty() {
                    return Err(NotKeyed::Empty);
                }
                out.text(&text);
            }
            Self::Ids(ids) => out.document(ids.raw().as_bytes(), |_| false)?,
        }
        out.finish();
        Ok(())
    }
}

/// A text as it is compared with others: in Unicode's composed form (NFC), without characters that
/// are not seen and without white space at either end. For keys alone; what goes to an upstream is
/// what the caller wrote.
#[must_use]
pub fn normalized(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let is_plain = text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes && !text.contains(UNSEEN);
    if is_plain {
        return Cow::Borrowed(text);
    }
    let seen: String = text.chars().filter(|letter| !UNSEEN.contains(letter)).nfc().collect();
    // White space may have stood within what was not seen.
    Cow::Owned(seen.trim().to_owned())
}

/// Hands to `sink` all that decides the vectors of a call beside the inputs themselves: the endpoint,
/// the model's name as written, `dimensions`, and every other field that is not known to decide
/// nothing. `encoding_format` is not in it.
///
/// # Errors
/// Where the vectors of this call must not be stored one by one: another form of vector than the
/// gateway can read was asked for, or the inputs are read together.
pub fn deciding(ask: &Ask, sink: &mut dyn FnMut(&[u8])) -> Result<(), NotKeyed> {
    beside_inputs(ask, &VOLATILE, sink)
}

/// Hands to `sink` all that calls have in common which may become one call, so that calls of which
/// it is equal may be merged (see [`super::merge`]): as [`deciding`], with every other field, too,
/// for an upstream is told only one caller's.
///
/// # Errors
/// As [`deciding`].
pub fn joint_call(ask: &Ask, sink: &mut dyn FnMut(&[u8])) -> Result<(), NotKeyed> {
    // Texts and token ids do not go into one array.
    let is_ids = matches!(&ask.view, ask::View::Embeddings(view) if view.form.is_ids());
    sink(&[u8::from(is_ids)]);
    beside_inputs(ask, &[], sink)
}

fn beside_inputs(ask: &Ask, left_out: &[&str], sink: &mut dyn FnMut(&[u8])) -> Result<(), NotKeyed> {
    let view = separable(ask).ok_or(NotKeyed::Together)?;
    if view.encoding == Encoding::Other {
        return Err(NotKeyed::Encoding);
    }
    let mut out = Canonical::new(sink).ordered_in(is_ordered);
    out.text(ask.endpoint.tail());
    out.document(&ask.body, |name| matches!(name, "input" | "encoding_format") || left_out.contains(&name))?;
    out.finish();
    Ok(())
}

/// The view of a call whose inputs are read one by one: Jina's `late_chunking` makes one document of
/// them.
pub(super) fn separable(ask: &Ask) -> Option<&View> {
    let ask::View::Embeddings(view) = &ask.view else { return None };
    let mut is_together = false;
    json::scan(&ask.body, |member| {
        if member.key == "late_chunking" {
            is_together |= !(member.value.kind() == Kind::Null || member.value.as_bool() == Some(false));
        }
    })
    .ok()?;
    (!is_together).then_some(view)
}

#[cfg(test)]
mod tests;
