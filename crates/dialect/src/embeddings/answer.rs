//! Judging an answer, and giving it back in the encoding that was asked for.

use std::borrow::Cow;
use std::ops::Range;

use base::{Class, Code, Fault, Kind, Told, Usage};
use bytes::Bytes;
use smallvec::SmallVec;

use super::vectors::{self, Flaw};
use super::walk::Walk;
use super::{Encoding, View};
use crate::errors::{self, bad_response as bad, is_nothing};
use crate::json::Value;
use crate::{Answer, json};

/// What becomes of an answer's `usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It stays as the upstream wrote it.
    AsWritten,
    /// A missing `prompt_tokens` is filled in from `total_tokens`, which is all that some write.
    Completed,
}

/// Judges an answer in OpenAI's form: as many vectors as inputs, each index once, one dimension, the
/// dimension asked for, numbers only. Without need nothing is changed and the same bytes come back.
///
/// # Errors
/// [`Kind::BadResponse`]; [`Kind::Dimension`] for vectors of another length; the caller's fault for
/// floats in the place of an encoding that the upstream does not know.
pub fn like_openai(view: &View, body: Bytes, counted: Counted) -> Result<Answer, Fault> {
    let envelope = Envelope::locate(&body, view.encoding).ok_or_else(|| not_ours(&body))?;
    let order = envelope.order(view.inputs)?;
    if envelope.items.iter().any(|item| item.vector.is_floats_instead(&body)) {
        return Err(floats_instead());
    }
    let mut dimension = Dimension::of(view);
    let mut others = Vec::new();
    for item in &envelope.items {
        let (length, other) = item.vector.judge(&body, view.encoding).map_err(|Flaw(why)| bad(why))?;
        dimension.take(length)?;
        others.push(other);
    }
    let mut edits: Vec<(Range<usize>, Vec<u8>)> = match order {
        Some(order) => vec![(envelope.inside.clone(), sorted(&body, &envelope, &order, &others))],
        None => {
            let places = envelope.items.iter().map(|item| item.vector.place());
            places.zip(others).filter_map(|(place, other)| Some((place, other?))).collect()
        }
    };
    let usage = envelope.usage.as_ref().and_then(|place| read_usage(body.get(place.clone())?));
    if counted == Counted::Completed
        && let Some(edit) = complete_usage(&body, &envelope)
    {
        edits.push(edit);
    }
    let body = splice(body, edits);
    Ok(Answer { body, usage, is_stream: false, dimension: dimension.known })
}

/// The fault of a body that is no list of embeddings: what an error object in it says, if it is one.
fn not_ours(body: &[u8]) -> Fault {
    match json::parse(body) {
        Ok(root)
            if ["error", "message", "detail"].iter().any(|name| root.get(name).is_some_and(|said| !said.is_null())) =>
        {
            errors::inside_success(root)
        }
        _ => bad("the answer is not a list of embeddings"),
    }
}

/// The caller's fault: it asked for an encoding that this upstream took for floats, and would read
/// them as something else.
fn floats_instead() -> Fault {
    let message =
        "the model's provider does not know this 'encoding_format' and gave floats; ask for 'float' or 'base64'";
    let told = Told {
        status: 400,
        message: message.to_owned(),
        kind: Some("invalid_request_error".to_owned()),
        param: Some("encoding_format".to_owned()),
        code: Some(Code::InvalidRequest.row().code.to_owned()),
    };
    Fault { class: Class::Caller, told: Some(Box::new(told)), ..bad(message) }
}

/// The one length that all vectors of an answer have.
struct Dimension {
    asked: Option<usize>,
    known: Option<usize>,
}

impl Dimension {
    fn of(view: &View) -> Self {
        Self { asked: view.dimensions, known: None }
    }

    /// Takes the next vector's length, where it can be told.
    fn take(&mut self, length: Option<usize>) -> Result<(), Fault> {
        let Some(length) = length else { return Ok(()) };
        let wanted = self.known.or(self.asked).unwrap_or(length);
        if length != wanted {
            let message = format!("a vector has {length} numbers where {wanted} were due");
            return Err(Fault::upstream(Kind::Dimension, message));
        }
        self.known = Some(length);
        Ok(())
    }
}

/// Where the parts of an answer in OpenAI's form stand.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    /// Between the brackets of `data`.
    pub inside: Range<usize>,
    /// The elements of `data`.
    pub items: Vec<Item>,
    /// The value of `usage`.
    pub usage: Option<Range<usize>>,
    /// The value of `model`.
    pub model: Option<Range<usize>>,
}

/// One element of `data`.
#[derive(Debug)]
pub(super) struct Item {
    /// The whole object.
    pub all: Range<usize>,
    /// The number in `index` and where it stands.
    pub index: Option<(usize, Range<usize>)>,
    pub vector: Vector,
}

/// A vector as it stands in the body.
#[derive(Debug)]
pub(super) enum Vector {
    /// Between the brackets.
    Numbers(Range<usize>),
    /// Between the quotes.
    Base64(Range<usize>),
    /// In a form that only caller and upstream know: the whole value.
    Unknown(Range<usize>),
}

impl Envelope {
    pub(super) fn locate(body: &[u8], encoding: Encoding) -> Option<Self> {
        let mut found = Self::default();
        let mut lists = 0;
        let mut walk = Walk::new(body);
        walk.object(|key, walk| {
            match key {
                b"data" if walk.peek() == Some(b'[') => {
                    lists += 1;
                    let start = walk.here() + 1;
                    walk.array(|walk| {
                        found.items.push(Item::locate(walk, encoding)?);
                        Some(())
                    })?;
                    found.inside = start..walk.at() - 1;
                }
                b"usage" => found.usage = Some(walk.value()?),
                b"model" => found.model = Some(walk.value()?),
                // Vectors beside an error are none.
                b"error" => says_nothing(walk)?,
                _ => {
                    walk.value()?;
                }
            }
            Some(())
        })?;
        (lists == 1 && walk.is_done()).then_some(found)
    }

    /// The positions of the vectors by index, or `None` where they stand in order already.
    pub(super) fn order(&self, inputs: usize) -> Result<Option<Vec<usize>>, Fault> {
        if self.items.len() != inputs {
            return Err(bad(format!("the answer has {} vectors for {inputs} inputs", self.items.len())));
        }
        let place = |(at, item): (usize, &Item)| item.index.as_ref().map_or(at, |(index, _)| *index);
        if self.items.iter().enumerate().all(|(at, item)| place((at, item)) == at) {
            return Ok(None);
        }
        let mut order = vec![usize::MAX; inputs];
        for (at, item) in self.items.iter().enumerate() {
            let index = place((at, item));
            match order.get_mut(index) {
                Some(free) if *free == usize::MAX => *free = at,
                Some(_) => return Err(bad(format!("index {index} stands twice in the answer"))),
                None => return Err(bad(format!("index {index} is out of range in the answer"))),
            }
        }
        Ok(Some(order))
    }
}

/// Passes a value by that says nothing; nothing where it says something.
fn says_nothing(walk: &mut Walk<'_>) -> Option<()> {
    let said = walk.value()?;
    is_nothing(json::parse(walk.text(&said)).ok()?).then_some(())
}

impl Item {
    fn locate(walk: &mut Walk<'_>, encoding: Encoding) -> Option<Self> {
        let start = walk.here();
        let (mut index, mut vector) = (None, None);
        walk.object(|key, walk| {
            match key {
                b"embedding" if encoding == Encoding::Other => {
                    vector = Some(Vector::Unknown(walk.value()?));
                }
                b"embedding" if walk.peek() == Some(b'[') => vector = Some(Vector::Numbers(walk.numbers()?)),
                b"embedding" => vector = Some(Vector::Base64(walk.string()?)),
                b"index" => {
                    let place = walk.value()?;
                    let number = std::str::from_utf8(walk.text(&place)).ok()?.parse().ok()?;
                    index = Some((number, place));
                }
                _ => {
                    walk.value()?;
                }
            }
            Some(())
        })?;
        Some(Self { all: start..walk.at(), index, vector: vector? })
    }
}

impl Vector {
    /// With brackets or quotes.
    pub(super) fn place(&self) -> Range<usize> {
        match self {
            Self::Numbers(inside) | Self::Base64(inside) => inside.start - 1..inside.end + 1,
            Self::Unknown(whole) => whole.clone(),
        }
    }

    /// Its numbers as little-endian `f32`s, where they can be read.
    pub(super) fn bytes(&self, body: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Numbers(inside) => vectors::read_floats(body.get(inside.clone())?).ok(),
            Self::Base64(inside) => vectors::decode_base64(body.get(inside.clone())?).ok(),
            Self::Unknown(_) => None,
        }
    }

    /// Whether the upstream gave plain floats where something else was asked for.
    fn is_floats_instead(&self, body: &[u8]) -> bool {
        match self {
            Self::Unknown(whole) => {
                let text = body.get(whole.clone()).unwrap_or_default();
                text.starts_with(b"[") && memchr::memchr2(b'.', b'e', text).is_some()
            }
            Self::Numbers(_) | Self::Base64(_) => false,
        }
    }

    /// The vector's length, and its text in the other form where that was asked for.
    fn judge(&self, body: &[u8], asked: Encoding) -> Result<(Option<usize>, Option<Vec<u8>>), Flaw> {
        let text = |inside: &Range<usize>| body.get(inside.clone()).unwrap_or_default();
        match self {
            Self::Unknown(_) => Ok((None, None)),
            Self::Numbers(inside) => {
                let length = vectors::count_numbers(text(inside))?;
                let mut other = None;
                if asked == Encoding::Base64 {
                    vectors::append_base64(text(inside), other.insert(Vec::new()))?;
                }
                Ok((Some(length), other))
            }
            Self::Base64(inside) => {
                let bytes = vectors::decode_base64(text(inside))?;
                let mut other = None;
                if asked == Encoding::Float {
                    vectors::append_floats(&bytes, other.insert(Vec::with_capacity(bytes.len() * 3)));
                }
                Ok((Some(bytes.len() / 4), other))
            }
        }
    }
}

/// The elements of `data` in the order of their indexes, vectors in the other form where there is one.
fn sorted(body: &[u8], envelope: &Envelope, order: &[usize], others: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut list = Vec::with_capacity(envelope.inside.len());
    for at in order {
        let Some(item) = envelope.items.get(*at) else { continue };
        if !list.is_empty() {
            list.push(b',');
        }
        let place = item.vector.place();
        match others.get(*at).and_then(Option::as_ref) {
            Some(other) => {
                list.extend_from_slice(body.get(item.all.start..place.start).unwrap_or_default());
                list.extend_from_slice(other);
                list.extend_from_slice(body.get(place.end..item.all.end).unwrap_or_default());
            }
            None => list.extend_from_slice(body.get(item.all.clone()).unwrap_or_default()),
        }
    }
    list
}

/// Puts other text in some places of a body. Places do not overlap.
pub(super) fn splice(body: Bytes, mut edits: Vec<(Range<usize>, Vec<u8>)>) -> Bytes {
    if edits.is_empty() {
        return body;
    }
    edits.sort_by_key(|(place, _)| place.start);
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = Vec::with_capacity(body.len() + added);
    let mut at = 0;
    for (place, text) in edits {
        out.extend_from_slice(body.get(at..place.start).unwrap_or_default());
        out.extend_from_slice(&text);
        at = place.end;
    }
    out.extend_from_slice(body.get(at..).unwrap_or_default());
    Bytes::from(out)
}

/// Reads an embeddings `usage`; `prompt_tokens` counts, or else `total_tokens`.
pub(super) fn read_usage(text: &[u8]) -> Option<Usage> {
    let usage = json::parse(text).ok()?;
    let prompt = ["prompt_tokens", "total_tokens"].iter().find_map(|name| usage.get(name)?.as_u64())?;
    (prompt <= Usage::CEILING).then(|| Usage { prompt, ..Usage::default() })
}

/// The edit that puts a missing `prompt_tokens` in front of `total_tokens`.
fn complete_usage(body: &[u8], envelope: &Envelope) -> Option<(Range<usize>, Vec<u8>)> {
    let place = envelope.usage.clone()?;
    let usage = json::parse(body.get(place.clone())?).ok()?;
    if usage.get("prompt_tokens").is_some() {
        return None;
    }
    let total = usage.get("total_tokens")?.as_u64()?;
    Some((place.start + 1..place.start + 1, format!("\"prompt_tokens\":{total},").into_bytes()))
}

/// Where an answer that is no OpenAI answer keeps its vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `[[…], …]`
    Bare,
    /// `{"embeddings": [[…], …]}` or `{"embeddings": {"float": [[…], …]}}`
    Embeddings,
}

/// What the answer made of bare vectors says beside them.
#[derive(Clone, Debug)]
pub(crate) struct Made<'a> {
    /// The model's name.
    pub model: Cow<'a, str>,
    /// What was consumed.
    pub usage: Usage,
}

/// The top-level members of an answer beside its vectors.
#[derive(Debug, Default)]
pub(crate) struct Others<'a>(SmallVec<[(&'a [u8], &'a [u8]); 8]>);

impl<'a> Others<'a> {
    /// No provider has more; what comes behind is not kept.
    const MAX: usize = 32;

    /// A member's value, unless null.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        let (_, text) = self.0.iter().find(|(key, _)| *key == name.as_bytes())?;
        json::parse(text).ok().filter(|value| !value.is_null())
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.as_str()
    }

    fn keep(&mut self, key: &'a [u8], value: &'a [u8]) {
        if self.0.len() < Self::MAX {
            self.0.push((key, value));
        }
    }
}

/// Makes an answer in OpenAI's form of an upstream's bare lists of numbers, whose digits are kept.
/// `make` finds model and usage in what else the upstream said.
///
/// # Errors
/// As [`like_openai`].
pub(crate) fn from_lists<'a>(
    view: &View,
    body: &'a [u8],
    shape: Shape,
    make: impl FnOnce(&Others<'a>) -> Made<'a>,
) -> Result<Answer, Fault> {
    let (lists, others) = locate_lists(body, shape).ok_or_else(|| not_ours(body))?;
    if lists.len() != view.inputs {
        return Err(bad(format!("the answer has {} vectors for {} inputs", lists.len(), view.inputs)));
    }
    let mut dimension = Dimension::of(view);
    let mut out = Vec::with_capacity(body.len() + 64 * lists.len() + 128);
    out.extend_from_slice(b"{\"object\":\"list\",\"data\":");
    let mut digits = itoa::Buffer::new();
    for (index, vector) in lists.into_iter().map(Vector::Numbers).enumerate() {
        let (length, other) = vector.judge(body, view.encoding).map_err(|Flaw(why)| bad(why))?;
        dimension.take(length)?;
        out.push(if index > 0 { b',' } else { b'[' });
        out.extend_from_slice(b"{\"object\":\"embedding\",\"index\":");
        out.extend_from_slice(digits.format(index).as_bytes());
        out.extend_from_slice(b",\"embedding\":");
        out.extend_from_slice(other.as_deref().or_else(|| body.get(vector.place())).unwrap_or_default());
        out.push(b'}');
    }
    let made = make(&others);
    out.extend_from_slice(b"],\"model\":");
    json::push_quoted(&mut out, &made.model);
    let tokens = made.usage.prompt;
    out.extend_from_slice(format!(",\"usage\":{{\"prompt_tokens\":{tokens},\"total_tokens\":{tokens}}}}}").as_bytes());
    Ok(Answer { body: Bytes::from(out), usage: Some(made.usage), is_stream: false, dimension: dimension.known })
}

/// The vectors, and what else stands at the top.
fn locate_lists(body: &[u8], shape: Shape) -> Option<(Vec<Range<usize>>, Others<'_>)> {
    let mut walk = Walk::new(body);
    let (mut found, mut others) = (None, Others::default());
    match shape {
        Shape::Bare => found = Some(lists(&mut walk)?),
        Shape::Embeddings => walk.object(|key, walk| {
            match (key, walk.peek()?) {
                (b"embeddings", b'[') => found = Some(lists(walk)?),
                (b"embeddings", b'{') => found = Some(lists_by_type(walk)?),
                (b"error", _) => says_nothing(walk)?,
                _ => {
                    let value = walk.value()?;
                    others.keep(key, walk.text(&value));
                }
            }
            Some(())
        })?,
    }
    Some((found.filter(|_| walk.is_done())?, others))
}

/// Cohere's lists by type; only floats are ever asked for.
fn lists_by_type(walk: &mut Walk<'_>) -> Option<Vec<Range<usize>>> {
    let mut found = None;
    walk.object(|key, walk| {
        if key == b"float" {
            found = Some(lists(walk)?);
        } else {
            walk.value()?;
        }
        Some(())
    })?;
    found
}

fn lists(walk: &mut Walk<'_>) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    walk.array(|walk| {
        found.push(walk.numbers()?);
        Some(())
    })?;
    Some(found)
}
