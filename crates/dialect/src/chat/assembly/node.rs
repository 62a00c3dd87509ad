//! Values that grow by pieces.

use crate::json::{self, Kind, Member, Value};

/// How deeply pieces are joined; what lies deeper is taken as its last piece has it.
const DEPTH: usize = 16;

/// Members of one object, or numbered elements of one array, that pieces may bring.
const PLACES_MAX: usize = 1024;

/// Beside its text, what a value costs about.
const OVERHEAD: usize = 64;

/// The bound of an answer was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// What an answer may still take, bytes.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) const fn new(most: usize) -> Self {
        Self(most)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.0 = self.0.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// What was replaced is free again.
    pub(super) const fn give(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }

    /// For one more place among so many, all of which are looked through for each piece.
    pub(super) fn add_place(&mut self, known: usize, bytes: usize) -> Result<(), TooLarge> {
        if known >= PLACES_MAX { Err(TooLarge) } else { self.take(bytes) }
    }
}

/// What a second piece does to a first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Of a delta: texts go on where the last piece ended.
    Joined,
    /// Of what stands beside deltas and is said anew each time: the last text counts.
    Replaced,
}

/// A value.
#[derive(Debug)]
pub(super) enum Node {
    /// As it was written.
    Raw(String),
    /// What stands between a string's quotes, escapes as written.
    Text(String),
    /// An object of which several pieces came.
    Object(Fields),
    /// An array of which several pieces came, each element with its `index`, where it has one.
    Array(Vec<(Option<u64>, Node)>),
}

impl Node {
    pub(super) fn null() -> Self {
        Self::Raw("null".to_owned())
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw == "null")
    }

    /// The text of an object's member, escapes as written.
    pub(super) fn escaped_in(&self, name: &str) -> Option<&str> {
        match self {
            Self::Raw(raw) => json::parse(raw.as_bytes()).ok()?.get(name)?.as_escaped(),
            Self::Object(fields) => match fields.get(name)? {
                Self::Text(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    fn of(value: Value<'_>, budget: &mut Budget) -> Result<Self, TooLarge> {
        let (text, is_text) = value.as_escaped().map_or((value.raw(), false), |text| (text, true));
        budget.take(text.len() + OVERHEAD)?;
        Ok(if is_text { Self::Text(text.to_owned()) } else { Self::Raw(text.to_owned()) })
    }

    /// What it has taken of the budget.
    fn weight(&self) -> usize {
        match self {
            Self::Raw(text) | Self::Text(text) => text.len() + OVERHEAD,
            Self::Object(fields) => fields.iter().map(|(name, node)| name.len() + OVERHEAD + node.weight()).sum(),
            Self::Array(elements) => elements.iter().map(|(_, node)| node.weight()).sum(),
        }
    }

    /// Takes another value's place.
    fn replace(&mut self, value: Value<'_>, budget: &mut Budget) -> Result<(), TooLarge> {
        let is_same = match self {
            Self::Raw(known) => known == value.raw(),
            Self::Text(known) => value.as_escaped() == Some(known),
            Self::Object(_) | Self::Array(_) => false,
        };
        if !is_same {
            budget.give(self.weight());
            *self = Self::of(value, budget)?;
        }
        Ok(())
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(raw) => out.extend_from_slice(raw.as_bytes()),
            Self::Text(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            Self::Object(fields) => fields.write(out),
            Self::Array(elements) => {
                out.push(b'[');
                for (at, (_, element)) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
        }
    }

    /// Takes another piece of the member of that name.
    fn merge(&mut self, name: &str, value: Value<'_>, join: Join, budget: &mut Budget) -> Result<(), TooLarge> {
        if value.is_null() {
            return Ok(());
        }
        let join = Join { depth: join.depth + 1, ..join };
        if join.depth < DEPTH {
            self.open(value.kind(), budget)?;
            match (&mut *self, value.kind()) {
                (Self::Object(fields), Kind::Object) => {
                    return value.members().try_for_each(|member| fields.join(&member, join, budget));
                }
                (Self::Array(elements), Kind::Array) => return extend(elements, value, join, budget),
                (Self::Text(text), Kind::String) if join.how == How::Joined => {
                    let more = value.as_escaped().unwrap_or_default();
                    if more.is_empty() || (is_said_anew(name) && text == more) {
                        return Ok(());
                    }
                    if !is_named(name) {
                        budget.take(more.len())?;
                        text.push_str(more);
                        return Ok(());
                    }
                }
                // Mistral's content is a text or a list of parts, as it comes.
                (Self::Array(elements), Kind::String) if name == "content" => {
                    if value.is_empty() {
                        return Ok(());
                    }
                    let part = format!(r#"[{{"type":"text","text":{}}}]"#, value.raw());
                    return json::parse(part.as_bytes()).map_or(Ok(()), |part| extend(elements, part, join, budget));
                }
                (Self::Text(text), Kind::Array) if name == "content" && !text.is_empty() => {
                    let part = format!(r#"{{"type":"text","text":"{text}"}}"#);
                    budget.take(part.len())?;
                    let mut elements = vec![(None, Self::Raw(part))];
                    extend(&mut elements, value, join, budget)?;
                    *self = Self::Array(elements);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.replace(value, budget)
    }

    /// Takes apart what was kept as written, where another piece of its kind has come.
    fn open(&mut self, kind: Kind, budget: &mut Budget) -> Result<(), TooLarge> {
        let Self::Raw(raw) = self else { return Ok(()) };
        let Some(known) = json::parse(raw.as_bytes()).ok().filter(|known| known.kind() == kind) else { return Ok(()) };
        let opened = match kind {
            Kind::Object => {
                let mut fields = Fields::default();
                known.members().try_for_each(|member| fields.set(&member, budget))?;
                Self::Object(fields)
            }
            Kind::Array => {
                let element = |element: Value<'_>| Ok((index(element), Self::of(element, budget)?));
                Self::Array(known.elements().map(element).collect::<Result<_, TooLarge>>()?)
            }
            _ => return Ok(()),
        };
        budget.give(self.weight());
        *self = opened;
        Ok(())
    }

    /// What its `type` says.
    fn kind(&self) -> Option<&str> {
        match self {
            Self::Raw(raw) => json::parse(raw.as_bytes()).ok()?.get("type")?.as_escaped().map(known_kind),
            Self::Object(fields) => match fields.get("type")? {
                Self::Text(text) => Some(known_kind(text)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// How deep the pieces are that are joined.
#[derive(Clone, Copy, Debug)]
struct Join {
    how: How,
    depth: usize,
}

/// Names for what a thing is, said with every piece of it or once.
fn is_named(name: &str) -> bool {
    matches!(name, "role" | "type" | "id" | "format" | "index")
}

/// The same of a function's name, which some say in pieces.
fn is_said_anew(name: &str) -> bool {
    name == "name" || is_named(name)
}

/// The types of parts that go on from one piece to the next.
fn known_kind(kind: &str) -> &'static str {
    match kind {
        "text" => "text",
        "thinking" => "thinking",
        _ => "",
    }
}

fn index(element: Value<'_>) -> Option<u64> {
    element.get("index").and_then(Value::as_u64)
}

/// More elements: a piece of the one with the same index, or of the last text, or one behind the
/// others.
fn extend(
    elements: &mut Vec<(Option<u64>, Node)>,
    more: Value<'_>,
    join: Join,
    budget: &mut Budget,
) -> Result<(), TooLarge> {
    for element in more.elements() {
        let index = index(element);
        let known = match index {
            Some(_) => {
                // Only among the last ones, for each piece looks for its own.
                let first = elements.len().saturating_sub(PLACES_MAX);
                let behind = elements.get(first..).unwrap_or_default();
                behind.iter().rposition(|(known, _)| *known == index).map(|at| at + first)
            }
            None if join.how == How::Joined => {
                let kind = element.get("type").and_then(Value::as_escaped).map_or("", known_kind);
                let goes_on = |(_, last): &(Option<u64>, Node)| !kind.is_empty() && last.kind() == Some(kind);
                elements.last().is_some_and(goes_on).then(|| elements.len().saturating_sub(1))
            }
            None => None,
        };
        match known.and_then(|at| elements.get_mut(at)) {
            Some((_, node)) => node.merge("", element, join, budget)?,
            None => {
                if index.is_some() {
                    budget.add_place(elements.len(), 0)?;
                }
                elements.push((index, Node::of(element, budget)?));
            }
        }
    }
    Ok(())
}

/// Named values in the order in which they came first.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Node)>);

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, node)| node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// Puts a value in.
    fn set(&mut self, member: &Member<'_>, budget: &mut Budget) -> Result<(), TooLarge> {
        match self.0.iter_mut().find(|(known, _)| *known == member.key) {
            Some((_, known)) => known.replace(member.value, budget),
            None => {
                budget.add_place(self.0.len(), member.key.len() + OVERHEAD)?;
                self.0.push((member.key.clone().into_owned(), Node::of(member.value, budget)?));
                Ok(())
            }
        }
    }

    /// Takes a member that every chunk says anew: the last value that says something counts, or the
    /// first one. (The first chunk of Azure's has an empty id and a time of 0.)
    pub(super) fn update(&mut self, member: &Member<'_>, first: bool, budget: &mut Budget) -> Result<(), TooLarge> {
        let says_nothing = |text: &str| matches!(text, "null" | "\"\"" | "0" | "{}" | "[]");
        let is_settled = match self.get(&member.key) {
            None => false,
            Some(Node::Raw(known)) if says_nothing(known) => false,
            Some(known) => says_nothing(member.value.raw()) || (first && !known.is_empty()),
        };
        if is_settled { Ok(()) } else { self.set(member, budget) }
    }

    /// Takes a piece of a member.
    pub(super) fn merge(&mut self, member: &Member<'_>, how: How, budget: &mut Budget) -> Result<(), TooLarge> {
        self.join(member, Join { how, depth: 0 }, budget)
    }

    fn join(&mut self, member: &Member<'_>, join: Join, budget: &mut Budget) -> Result<(), TooLarge> {
        match self.0.iter_mut().find(|(known, _)| *known == member.key) {
            Some((name, known)) => known.merge(name, member.value, join, budget),
            None => self.set(member, budget),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.iter().for_each(|(name, node)| push_member(out, name, node));
        out.push(b'}');
    }
}

/// Takes a piece of a value that may not have begun.
pub(super) fn put(node: &mut Option<Node>, value: Value<'_>, how: How, budget: &mut Budget) -> Result<(), TooLarge> {
    match node {
        Some(node) => node.merge("", value, Join { how, depth: 0 }, budget),
        None => {
            *node = Some(Node::of(value, budget)?);
            Ok(())
        }
    }
}

/// Writes a member's name behind what stands in its object already.
pub(super) fn push_name(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    json::push_quoted(out, name);
    out.push(b':');
}

pub(super) fn push_member(out: &mut Vec<u8>, name: &str, node: &Node) {
    push_name(out, name);
    node.write(out);
}
