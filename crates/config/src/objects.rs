//! Objects of the admin API, put to what was written in files.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Object, ObjectKind, Secret};

use crate::node::{Entry, Map, Node, Scalar, Style, Value};
use crate::problem::{ADMIN_API, Place, Problem, clean, place_of};
use crate::{variables, yaml};

/// Which providers, routes and clients of a tree come from where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes([OfKind; ObjectKind::ALL.len()]);

/// The items of one list.
#[derive(Clone, Debug, Default)]
struct OfKind {
    /// So many of them, the first ones, stand in files.
    in_files: usize,
    /// Revision and time of the last change of each of the others.
    added: Vec<(u64, Duration)>,
}

impl Homes {
    /// Revision and time of the last change of an item that came through the admin API.
    pub fn of(&self, kind: ObjectKind, index: usize) -> Option<(u64, Duration)> {
        let OfKind { in_files, added } = &self.0[kind as usize];
        added.get(index.checked_sub(*in_files)?).copied()
    }
}

/// What was put before, for whoever puts the same again.
pub(crate) struct Known<'a>(HashMap<(ObjectKind, &'a str), (u64, Duration, &'a Node)>);

impl<'a> Known<'a> {
    /// Of a tree to which these were put.
    pub fn of(root: &'a Node, homes: &'a Homes) -> Self {
        let of_kind = |kind: ObjectKind| {
            let items = root.get(kind.list()).and_then(Node::list).unwrap_or_default();
            items.iter().enumerate().filter_map(move |(index, node)| {
                let (revision, changed) = homes.of(kind, index)?;
                let name = node.get("name")?.scalar()?.as_text()?;
                Some(((kind, name), (revision, changed, node)))
            })
        };
        Self(ObjectKind::ALL.into_iter().flat_map(of_kind).collect())
    }

    /// The object as it was read, where it has not been changed since.
    fn node(&self, object: &Object) -> Option<&'a Node> {
        let (revision, changed, node) = *self.0.get(&(object.kind, &*object.name))?;
        // Every change counts one on; the time besides, for a store that was put in the place of another.
        (revision > 0 && revision == object.revision && changed == object.changed).then_some(node)
    }
}

/// Puts objects behind those of the files. Whatever keeps one from being put is a problem. Those that are `known` are
/// not read again.
pub(crate) fn put(
    root: &mut Node,
    objects: &[Object],
    known: Option<&Known<'_>>,
    problems: &mut Vec<Problem>,
) -> Homes {
    let mut homes = Homes::default();
    // The check says what is wrong with a tree that is none.
    let Value::Map(entries) = &mut root.value else { return homes };
    for kind in ObjectKind::ALL {
        let of_kind = &mut homes.0[kind as usize];
        let mut objects = objects.iter().filter(|object| object.kind == kind).peekable();
        if objects.peek().is_none() && !entries.contains_key(kind.list()) {
            continue;
        }
        let place = Place::whole(ADMIN_API);
        let empty = || Entry { node: Node { value: Value::List(Vec::new()), place: place.clone() }, place };
        let Value::List(items) = &mut entries.entry(kind.list().to_owned()).or_insert_with(empty).node.value else {
            continue;
        };
        of_kind.in_files = items.len();
        for object in objects {
            let known = known.and_then(|known| known.node(object));
            match known.cloned().map_or_else(|| read(object), Ok) {
                Ok(node) => {
                    items.push(node);
                    of_kind.added.push((object.revision, object.changed));
                }
                Err(found) => problems.extend(found),
            }
        }
    }
    homes
}

/// What an object says, as a tree whose places are those of its own text.
///
/// # Errors
/// What is no JSON or YAML, another name than the object's, and variables.
pub(crate) fn read(object: &Object) -> Result<Node, Vec<Problem>> {
    let Object { kind, name, .. } = object;
    let file: Arc<str> = place_of(*kind, name).into();
    let mut node = yaml::parse(&without_surrogates(object.written.expose()), &file)?;
    let place = node.place.clone();
    let path = format!("{}[{}]", kind.list(), clean(name));
    let problem = |place: &Place, path: String, text: String| vec![Problem::new(place, path, text)];
    let mut problems = Vec::new();
    variables::refuse(&mut node, &path, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let form = node.form();
    let Value::Map(entries) = &mut node.value else {
        let text = format!("is {form}, but must be a mapping of a {}'s keys", kind.word());
        return Err(problem(&place, path, text));
    };
    match entries.get("name").map(|entry| &entry.node) {
        None => name_it(entries, name, &place),
        Some(written) if written.scalar().and_then(Scalar::as_text) == Some(name) => {}
        Some(written) => {
            let text = format!("is not the name of this {}, which is `{}`", kind.word(), clean(name));
            return Err(problem(&written.place, format!("{path}.name"), text));
        }
    }
    Ok(node)
}

/// Whether an object says what this text, which is JSON, says: whatever the order of its keys, and with its name or
/// without. A text that cannot be read is none that was put.
#[must_use]
pub fn says_the_same(before: &Object, written: &Secret) -> bool {
    let read = |text: &Secret| {
        let mut value: serde_json::Value = serde_json::from_str(text.expose()).ok()?;
        value.as_object_mut()?.remove("name");
        Some(value)
    };
    before.written.expose() == written.expose() || read(&before.written).is_some_and(|now| read(written) == Some(now))
}

/// The name may be left out: whoever puts an object says it beside it.
fn name_it(entries: &mut Map, name: &str, place: &Place) {
    let value = Value::Scalar(Scalar { text: name.to_owned(), style: Style::Quoted });
    let node = Node { value, place: place.clone() };
    entries.insert_before(0, "name".to_owned(), Entry { place: place.clone(), node });
}

/// JSON says letters beyond U+FFFF with two escapes, which YAML does not know: they become the letters themselves.
fn without_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let mut said = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        said.push_str(before);
        let units = [unit(escape), escape.get(6..).and_then(unit)];
        let letter = units.iter().flatten().copied().filter(|_| units.iter().all(Option::is_some));
        let (taken, after) = match char::decode_utf16(letter).next() {
            Some(Ok(letter)) if letter > '\u{ffff}' => {
                said.push(letter);
                ("", escape.get(12..))
            }
            // Together with what it escapes, which may be another backslash.
            _ => escape.split_at_checked(2).map_or((escape, None), |(escape, rest)| (escape, Some(rest))),
        };
        said.push_str(taken);
        rest = after.unwrap_or_default();
    }
    said.push_str(rest);
    Cow::Owned(said)
}
