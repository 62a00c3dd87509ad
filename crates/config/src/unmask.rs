//! Objects as people were shown them, with their secrets put back.

use base::{Object, ObjectKind, Secret};

use crate::address;
use crate::check::fits;
use crate::node::{Core, Node, Scalar, Value, item_path, join};
use crate::objects;
use crate::problem::{Place, Problem};
use crate::shape::Branch;
use crate::shown::{Secrets, Url, json, masked};
use crate::snapshot::Origin;
use crate::table::Kind;
use crate::written::MASKED;

/// What an object says, where [`MASKED`] stands for the secret that stood at its place before.
///
/// # Errors
/// What cannot be read, and every mask at whose place no secret stood. In a list of keys a mask stands for the key of
/// its number, and so in none that has become shorter. Nor is a secret kept that would be sent to another address than
/// before: whoever may not see it could have it sent to a host of their own.
pub fn unmask(object: &Object, before: Option<&Object>) -> Result<Secret, Vec<Problem>> {
    if !object.written.expose().contains(MASKED) {
        return Ok(object.written.clone());
    }
    let mut node = objects::read(object)?;
    let before = before.and_then(|before| objects::read(before).ok());
    let tree = Branch::root();
    let branch = of_kind(&tree, object.kind);
    let mut unmasking = Unmasking { problems: Vec::new(), kept: Vec::new() };
    let path = item_path(object.kind.list(), &node, 0);
    unmasking.value((branch, Kind::Table), &mut node, before.as_ref(), &path);
    if let Some(before) = &before {
        unmasking.refuse_sent_elsewhere(&Way::of(before), &Way::of(&node));
    }
    if !unmasking.problems.is_empty() {
        return Err(unmasking.problems);
    }
    Ok(Secret::new(json(branch, Kind::Table, &node, Secrets::Told).to_string()))
}

const ELSEWHERE: &str = "write the key itself: a key that is kept is not sent to another address";

/// The table of an object's keys.
pub(crate) fn of_kind(tree: &Branch, kind: ObjectKind) -> &Branch {
    let list = tree.child(kind.list()).unwrap_or(tree);
    list.item.as_deref().unwrap_or(list)
}

struct Unmasking {
    problems: Vec<Problem>,
    /// Every secret that was put back, and whether it goes to the proxy alone.
    kept: Vec<(Place, String, bool)>,
}

/// Where an object's secrets are sent.
#[derive(PartialEq, Eq)]
struct Way {
    to: Option<Origin>,
    proxy: Option<Origin>,
    /// Whoever has its key can say that they are the host.
    ca: Option<String>,
}

impl Way {
    fn of(node: &Node) -> Self {
        let text = |node: Option<&Node>| {
            let scalar = node.and_then(Node::scalar).filter(|scalar| scalar.core() != Core::Null)?;
            Some(scalar.text.clone())
        };
        // One that cannot be read is none of those before.
        let origin = |node| Some(address::parse(&text(node)?, &["http", "https"]).ok()?.origin);
        let url = node.get("base_url").or_else(|| node.get("upstream")?.get("url"));
        Self { to: origin(url), proxy: origin(node.get("proxy")), ca: text(node.get("ca")) }
    }
}

impl Unmasking {
    fn refuse_sent_elsewhere(&mut self, before: &Way, now: &Way) {
        for (place, path, is_for_proxy) in &self.kept {
            let is_sent_there = if *is_for_proxy { before.proxy == now.proxy } else { before == now };
            if !is_sent_there {
                self.problems.push(Problem::new(place, path.as_str(), ELSEWHERE));
            }
        }
    }

    fn value(&mut self, (branch, kind): (&Branch, Kind), node: &mut Node, before: Option<&Node>, path: &str) {
        if let Kind::Either(kinds) = kind {
            if let Some(kind) = kinds.iter().find(|kind| fits(**kind, node)) {
                self.value((branch, *kind), node, before, path);
            }
            return;
        }
        match &mut node.value {
            Value::Scalar(scalar) => self.scalar((branch, kind), scalar, before, (&node.place, path)),
            Value::List(items) => {
                let Kind::List(inner) = kind else { return };
                let below = branch.item.as_deref().unwrap_or(branch);
                let before = before.and_then(Node::list).unwrap_or_default();
                // Of fewer than there were nobody can tell which ones they are.
                let before = if items.len() < before.len() { &[] } else { before };
                for (index, item) in items.iter_mut().enumerate() {
                    let path = item_path(path, item, index);
                    self.value((below, *inner), item, before.get(index), &path);
                }
            }
            Value::Map(entries) => {
                for (key, entry) in entries {
                    let path = join(path, key);
                    let before = before.and_then(|before| before.get(key));
                    let below = match kind {
                        Kind::Map(inner) => Some((branch, *inner)),
                        Kind::Table => branch.child(key).map(|child| (child, child.kind())),
                        _ => None,
                    };
                    if let Some(below) = below {
                        self.value(below, &mut entry.node, before, &path);
                    }
                }
            }
        }
    }

    fn scalar(
        &mut self,
        (branch, kind): (&Branch, Kind),
        scalar: &mut Scalar,
        before: Option<&Node>,
        (place, path): (&Place, &str),
    ) {
        let holds_mask = match kind {
            Kind::Secret => scalar.text == MASKED,
            Kind::Url(_) | Kind::Text => scalar.text.contains(MASKED) && masked(branch, kind, scalar).is_some(),
            _ => false,
        };
        if !holds_mask {
            return;
        }
        let before = before.and_then(Node::scalar);
        match before.and_then(|before| put_back((branch, kind), &scalar.text, before)) {
            Some(text) => {
                scalar.text = text;
                self.kept.push((place.clone(), path.to_owned(), branch.name == "proxy"));
            }
            None => {
                let text = format!("`{MASKED}` stands for a secret that stood here before, and none did; write it out");
                self.problems.push(Problem::new(place, path, text));
            }
        }
    }
}

/// The text with the secrets of the one before.
fn put_back((branch, kind): (&Branch, Kind), text: &str, before: &Scalar) -> Option<String> {
    if matches!(kind, Kind::Secret) {
        return Some(before.text.clone());
    }
    // Neither address is sound in this form before it is put together again: only its parts are looked at.
    if let Kind::Url(_) = kind {
        let (mut url, before) = (Url::of(text), Url::of(&before.text));
        for (part, before) in [(&mut url.user, before.user), (&mut url.query, before.query)] {
            if *part == Some(MASKED) {
                *part = Some(before?);
            }
        }
        let whole = url.to_string();
        return (!whole.contains(MASKED)).then_some(whole);
    }
    masked(branch, kind, before)?;
    let (path, query) = text.split_once('?')?;
    let (_, before) = before.text.split_once('?')?;
    (query == MASKED).then(|| format!("{path}?{before}"))
}
