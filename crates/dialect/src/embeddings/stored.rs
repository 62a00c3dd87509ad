//! Vectors out of an answer and back into one: as they are stored, and as they are given to one of
//! several callers who shared a call.

use std::ops::Range;

use base::Usage;
use bytes::Bytes;

use super::answer::{Envelope, Item, splice};
use super::batch::{append_item, usage_edit};
use super::inputs::separable;
use super::{Encoding, View, vectors as numbers};
use crate::json;
use crate::{Answer, Ask};

/// The vectors of an answer, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// In the order of the inputs, each the little-endian bytes of its `f32`s. Each has its own memory, so
    /// that keeping one keeps no other.
    pub each: Vec<Bytes>,
    /// The model as the upstream named it; empty where it named none.
    pub model: String,
}

/// The vectors of an answer that [`crate::Dialect::answer`] has judged, rounded to the nearest `f32` where the
/// upstream wrote more digits.
///
/// `None` where they must not be stored: another number of them than of inputs, another length than
/// asked for or than each other's, a number that `f32` cannot hold, or a form that only caller and
/// upstream know.
#[must_use]
pub fn vectors(view: &View, answer: &Answer) -> Option<Vectors> {
    if view.encoding == Encoding::Other {
        return None;
    }
    let envelope = Envelope::locate(&answer.body, view.encoding)?;
    let order = envelope.order(view.inputs).ok()?;
    let mut length = view.dimensions.map(|dimensions| dimensions * 4);
    let mut read = |item: &Item| {
        let bytes = item.vector.bytes(&answer.body)?;
        (*length.get_or_insert(bytes.len()) == bytes.len()).then(|| Bytes::from(bytes))
    };
    let each: Option<Vec<Bytes>> = match order {
        None => envelope.items.iter().map(read).collect(),
        Some(order) => order.iter().map(|at| read(envelope.items.get(*at)?)).collect(),
    };
    let model = envelope.model.and_then(|place| json::parse(answer.body.get(place)?).ok()?.as_str());
    Some(Vectors { each: each?, model: model.map(Into::into).unwrap_or_default() })
}

/// An answer in OpenAI's form of vectors as [`vectors`] gives them: numbers in the shortest digits that
/// read back as the same `f32`, or base64 of their bytes.
#[must_use]
pub fn answer(model: &str, vectors: &[impl AsRef<[u8]>], encoding: Encoding, prompt_tokens: u64) -> Bytes {
    let size = vectors.iter().map(|vector| vector.as_ref().len() * 3).sum();
    put_together(model, vectors, size, prompt_tokens, |vector, out| numbers::append_as(vector, encoding, out))
}

/// The same of vectors that are JSON already, as [`spell`] makes it.
#[must_use]
pub fn answer_spelled(model: &str, vectors: &[impl AsRef<[u8]>], prompt_tokens: u64) -> Bytes {
    let size = vectors.iter().map(|vector| vector.as_ref().len()).sum();
    put_together(model, vectors, size, prompt_tokens, |vector, out| out.extend_from_slice(vector))
}

/// One vector, as [`vectors`] gives it, as JSON.
#[must_use]
pub fn spell(vector: &[u8], encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::with_capacity(vector.len() * 7 / 2);
    numbers::append_as(vector, encoding, &mut out);
    out
}

fn put_together(
    model: &str,
    vectors: &[impl AsRef<[u8]>],
    size: usize,
    prompt_tokens: u64,
    append: impl Fn(&[u8], &mut Vec<u8>),
) -> Bytes {
    let mut out = Vec::with_capacity(size + vectors.len() * 64 + model.len() + 128);
    out.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    let mut digits = itoa::Buffer::new();
    for (index, vector) in vectors.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"object\":\"embedding\",\"index\":");
        out.extend_from_slice(digits.format(index).as_bytes());
        out.extend_from_slice(b",\"embedding\":");
        append(vector.as_ref(), &mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"model\":");
    json::push_quoted(&mut out, model);
    let usage = format!(",\"usage\":{{\"prompt_tokens\":{prompt_tokens},\"total_tokens\":{prompt_tokens}}}}}");
    out.extend_from_slice(usage.as_bytes());
    Bytes::from(out)
}

/// One caller's answer out of the answer to a call that [`super::merge`] has made: the vectors of the
/// inputs in `range`, numbered from 0, in the encoding that this caller asked for, with its own
/// `usage`, and everything else as the upstream said it.
///
/// `None` where the answer has no such vectors, or has them in another form.
#[must_use]
pub fn piece(
    merged: &Ask,
    answer: &Answer,
    range: Range<usize>,
    encoding: Encoding,
    usage: Option<Usage>,
) -> Option<Answer> {
    let has = separable(merged)?.encoding;
    let body = &answer.body;
    let envelope = Envelope::locate(body, has)?;
    let mut list = Vec::with_capacity(range.len() * envelope.inside.len().div_ceil(envelope.items.len().max(1)));
    for (number, item) in envelope.items.get(range.clone())?.iter().enumerate() {
        let other = match has == encoding {
            true => None,
            false => {
                let mut other = Vec::new();
                numbers::append_as(&item.vector.bytes(body)?, encoding, &mut other);
                Some(other)
            }
        };
        append_item(body, item, number, other.as_deref(), &mut list);
    }
    let counted = usage.map(|usage| usage.prompt);
    let mut edits = vec![(envelope.inside.clone(), list)];
    edits.extend(counted.and_then(|prompt| usage_edit(body, &envelope, prompt, prompt)));
    Some(Answer { body: splice(body.clone(), edits), usage, is_stream: false, dimension: answer.dimension })
}

/// What each of several calls has to do with `total` tokens that were counted for all of them
/// together: by the size of their inputs, whole, and exactly `total` in sum.
#[must_use]
pub fn shares(asks: &[&Ask], total: u64) -> Vec<u64> {
    let weigh = |ask: &&Ask| match &ask.view {
        crate::View::Embeddings(view) => base::estimate(ask.body.get(view.input.range()).unwrap_or_default()),
        _ => 1,
    };
    share_out(total, &asks.iter().map(weigh).collect::<Vec<_>>())
}

/// `total` in shares by weight, whole, and exactly `total` in sum. Nothing weighs less than 1.
#[must_use]
pub fn share_out(total: u64, weights: &[u64]) -> Vec<u64> {
    let weights = || weights.iter().map(|weight| u128::from(*weight).max(1));
    let sum: u128 = weights().sum::<u128>().max(1);
    // Each gets what lies between two marks, so that nothing is lost to rounding.
    let (mut weight, mut given) = (0, 0);
    let share = |own: u128| {
        weight += own;
        let mark = u64::try_from(u128::from(total) * weight / sum).unwrap_or(total);
        let share = mark - given;
        given = mark;
        share
    };
    weights().map(share).collect()
}

#[cfg(test)]
mod tests;
