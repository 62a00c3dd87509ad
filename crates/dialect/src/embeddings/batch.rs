//! One call as several, where a provider takes fewer inputs than the caller sent.

use std::ops::Range;

use base::{Fault, Kind};
use bytes::Bytes;
use smallvec::SmallVec;

use super::answer::{Envelope, Item, read_usage, splice};
use super::inputs::{joint_call, separable};
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
    let input = json::parse(ask.body.get(view.input.range())?).ok()?;
    let inputs: Vec<_> = separable(ask)?.form.is_several().then(|| input.elements().map(json::Value::raw).collect())?;
    inputs.chunks(max_inputs).map(|part| with_inputs(ask, view, part.iter().copied())).collect()
}

/// The caller's body with other inputs, each as JSON, and nothing else changed.
fn with_inputs<'a>(ask: &Ask, view: &View, inputs: impl Iterator<Item = &'a str>) -> Option<Ask> {
    let mut list = String::with_capacity(view.input.end.saturating_sub(view.input.start));
    for input in inputs {
        list.push(if list.is_empty() { '[' } else { ',' });
        list.push_str(input);
    }
    list.push(']');
    let mut patch = Patch::new();
    patch.replace(view.input, list);
    let other = Ask::read(ask.endpoint, None, patch.apply(&ask.body)).ok()?;
    Some(Ask { tag: ask.tag.clone(), query: ask.query.clone(), ..other })
}

/// A call with just these inputs of another, by their places, in this order; nothing else is changed.
/// `None` for a place that there is not, for no place at all, and for a call whose inputs are read
/// together.
#[must_use]
pub fn subset(ask: &Ask, places: &[usize]) -> Option<Ask> {
    let view = separable(ask)?;
    if !view.form.is_several() {
        return (places == [0]).then(|| ask.clone());
    }
    let input = json::parse(ask.body.get(view.input.range())?).ok()?;
    let inputs: Vec<_> = input.elements().map(json::Value::raw).collect();
    let chosen: Vec<_> = places.iter().map(|place| inputs.get(*place).copied()).collect::<Option<_>>()?;
    if chosen.is_empty() { None } else { with_inputs(ask, view, chosen.into_iter()) }
}

/// One call with the inputs of several, in their order, where they differ in their inputs and in
/// `encoding_format` alone; `None` where they differ in more, or where there is none. Where some ask
/// for numbers the one call does, so that everybody's digits are the upstream's own. How many inputs
/// are too many is for the caller to know.
///
/// [`piece`] is the way back.
#[must_use]
pub fn merge(asks: &[&Ask]) -> Option<Ask> {
    let common = |ask: &Ask| {
        let mut bytes = Vec::new();
        joint_call(ask, &mut |piece| bytes.extend_from_slice(piece)).ok().map(|()| bytes)
    };
    let first = asks.first()?;
    if asks.len() == 1 {
        return separable(first).map(|_| (*first).clone());
    }
    let shared = common(first)?;
    let asks_numbers = |ask: &&&Ask| separable(ask).is_some_and(|view| view.encoding == Encoding::Float);
    let base = asks.iter().find(asks_numbers).unwrap_or(first);
    let mut inputs = Vec::new();
    for (at, ask) in asks.iter().enumerate() {
        let view = separable(ask)?;
        if at > 0 && common(ask)? != shared {
            return None;
        }
        let input = json::parse(ask.body.get(view.input.range())?).ok()?;
        if view.form.is_several() {
            inputs.extend(input.elements().map(json::Value::raw));
        } else {
            inputs.push(input.raw());
        }
    }
    with_inputs(base, separable(base)?, inputs.into_iter())
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
        for item in &envelope.items {
            append_item(&answer.body, item, count, None, &mut list);
            count += 1;
        }
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
    edits.extend(usage_edit(&body, &envelope, prompt, total));
    Ok(Answer { body: splice(body, edits), usage, is_stream: false, dimension })
}

/// Appends an element of `data` with another number, and with another vector where there is one.
pub(super) fn append_item(body: &[u8], item: &Item, number: usize, vector: Option<&[u8]>, list: &mut Vec<u8>) {
    if !list.is_empty() {
        list.push(b',');
    }
    let index = match &item.index {
        Some((_, place)) => (place.clone(), number.to_string()),
        None => (item.all.start + 1..item.all.start + 1, format!("\"index\":{number},")),
    };
    let mut edits: SmallVec<[(Range<usize>, &[u8]); 2]> = SmallVec::from_iter([(index.0, index.1.as_bytes())]);
    edits.extend(vector.map(|vector| (item.vector.place(), vector)));
    edits.sort_by_key(|(place, _)| place.start);
    let mut at = item.all.start;
    for (place, text) in edits {
        list.extend_from_slice(body.get(at..place.start).unwrap_or_default());
        list.extend_from_slice(text);
        at = place.end;
    }
    list.extend_from_slice(body.get(at..item.all.end).unwrap_or_default());
}

/// `prompt_tokens` and `total_tokens` as an answer has them.
fn counted(body: &Bytes, envelope: &Envelope) -> (u64, u64) {
    let text = envelope.usage.as_ref().and_then(|place| body.get(place.clone())).unwrap_or_default();
    let prompt = read_usage(text).map_or(0, |usage| usage.prompt);
    let total = json::parse(text).ok().and_then(|usage| usage.get("total_tokens")?.as_u64());
    (prompt, total.unwrap_or(prompt))
}

/// The edit that puts other counts in the place of an answer's own.
pub(super) fn usage_edit(
    body: &Bytes,
    envelope: &Envelope,
    prompt: u64,
    total: u64,
) -> Option<(Range<usize>, Vec<u8>)> {
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
