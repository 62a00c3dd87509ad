//! One call as several, where a provider takes fewer inputs than the caller sent.

use base::{Fault, Kind};
use bytes::Bytes;

use super::answer::{Envelope, read_usage, splice};
use super::{Encoding, View};
use crate::errors::bad_response as bad;
use crate::json::{self, Patch};
use crate::{Answer, Ask, ask};

/// Cuts a call into calls of at most `max_inputs` inputs, in order; each is the caller's body with
/// fewer inputs and nothing else changed.
///
/// A call that is small enough, that is not about embeddings, or whose inputs must stay together
/// (Jina's `late_chunking` makes one document of them) comes back alone.
#[must_use]
pub fn split(ask: &Ask, max_inputs: usize) -> Vec<Ask> {
    let ask::View::Embeddings(view) = &ask.view else { return vec![ask.clone()] };
    if view.inputs <= max_inputs || max_inputs == 0 {
        return vec![ask.clone()];
    }
    parts(ask, view, max_inputs).unwrap_or_else(|| vec![ask.clone()])
}

fn parts(ask: &Ask, view: &View, max_inputs: usize) -> Option<Vec<Ask>> {
    let root = json::parse(&ask.body).ok()?;
    if root.get("late_chunking").and_then(json::Value::as_bool) == Some(true) {
        return None;
    }
    let inputs: Vec<_> = root.get("input")?.elements().map(json::Value::span).collect();
    let mut parts = Vec::with_capacity(inputs.len().div_ceil(max_inputs));
    for part in inputs.chunks(max_inputs) {
        let texts = ask.body.get(part.first()?.start..part.last()?.end)?;
        let mut patch = Patch::new();
        patch.replace(view.input, format!("[{}]", std::str::from_utf8(texts).ok()?));
        let part = Ask::read(ask.endpoint, None, patch.apply(&ask.body)).ok()?;
        parts.push(Ask { tag: ask.tag.clone(), query: ask.query.clone(), ..part });
    }
    Some(parts)
}

/// Puts the answers to the parts of a call together again: vectors in the order of the parts,
/// `index` from 0 in one row, `usage` summed, everything else as the first answer has it.
///
/// # Errors
/// [`Kind::Dimension`] where the parts have vectors of different length; [`Kind::BadResponse`] for
/// an answer that did not come from [`crate::Dialect::answer`].
pub fn join(answers: Vec<Answer>) -> Result<Answer, Fault> {
    let mut first = None;
    let mut list = Vec::with_capacity(answers.iter().map(|answer| answer.body.len()).sum());
    let (mut count, mut usage, mut dimension) = (0, None, None);
    let (mut prompt, mut total) = (0_u64, 0_u64);
    for answer in answers {
        let envelope = Envelope::locate(&answer.body, Encoding::Other).ok_or_else(|| bad("no list of embeddings"))?;
        match (dimension, answer.dimension) {
            (Some(one), Some(other)) if one != other => {
                let message = format!("parts of one call have vectors of {one} and of {other} numbers");
                return Err(Fault::upstream(Kind::Dimension, message));
            }
            (None, known) => dimension = known,
            _ => {}
        }
        append_items(&answer.body, &envelope, &mut count, &mut list);
        usage = match (usage, answer.usage) {
            (Some(sum), Some(more)) => Some(base::Usage::plus(sum, more)),
            (sum, more) => sum.or(more),
        };
        let (part_prompt, part_total) = counted(&answer.body, &envelope);
        prompt = prompt.saturating_add(part_prompt);
        total = total.saturating_add(part_total);
        first.get_or_insert((answer.body, envelope));
    }
    let (body, envelope) = first.ok_or_else(|| bad("no answers to join"))?;
    let mut edits = vec![(envelope.inside.clone(), list)];
    edits.extend(sum_usage(&body, &envelope, prompt, total));
    Ok(Answer { body: splice(body, edits), usage, is_stream: false, dimension })
}

/// Appends an answer's vectors, numbered on from `count`.
fn append_items(body: &Bytes, envelope: &Envelope, count: &mut usize, list: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    for item in &envelope.items {
        if *count > 0 {
            list.push(b',');
        }
        let number = digits.format(*count).as_bytes();
        let (before, behind) = match &item.index {
            Some((_, place)) => (item.all.start..place.start, place.end..item.all.end),
            None => (item.all.start..item.all.start + 1, item.all.start + 1..item.all.end),
        };
        list.extend_from_slice(body.get(before).unwrap_or_default());
        if item.index.is_none() {
            list.extend_from_slice(b"\"index\":");
        }
        list.extend_from_slice(number);
        if item.index.is_none() {
            list.push(b',');
        }
        list.extend_from_slice(body.get(behind).unwrap_or_default());
        *count += 1;
    }
}

/// `prompt_tokens` and `total_tokens` as an answer has them.
fn counted(body: &Bytes, envelope: &Envelope) -> (u64, u64) {
    let text = envelope.usage.as_ref().and_then(|place| body.get(place.clone())).unwrap_or_default();
    let prompt = read_usage(text).map_or(0, |usage| usage.prompt);
    let total = json::parse(text).ok().and_then(|usage| usage.get("total_tokens")?.as_u64());
    (prompt, total.unwrap_or(prompt))
}

/// The edits that put the sums in the place of the first answer's counts.
fn sum_usage(body: &Bytes, envelope: &Envelope, prompt: u64, total: u64) -> Option<(std::ops::Range<usize>, Vec<u8>)> {
    let place = envelope.usage.clone()?;
    let text = body.slice(place.clone());
    let usage = json::parse(&text).ok()?;
    let mut patch = Patch::new();
    for (name, sum) in [("prompt_tokens", prompt), ("total_tokens", total)] {
        if let Some(value) = usage.get(name) {
            patch.replace(value.span(), sum.to_string());
        }
    }
    Some((place, patch.apply(&text).to_vec()))
}
