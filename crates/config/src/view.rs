//! What was written, seen through the table: a missing key shows its default.
//!
//! Reading is lenient, because the check has reported what is wrong already: a value of the wrong
//! form reads as if it were not written, so that one pass finds every problem.

use std::borrow::Cow;
use std::time::Duration;

use base::{Family, ObjectKind, steps};

use crate::node::{Node, Scalar, item_path, join};
use crate::problem::Place;
use crate::shape::Branch;
use crate::table::preset_items;
use crate::units;

/// One place of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    branch: &'a Branch,
    node: Option<&'a Node>,
    /// Of the value, or of the nearest thing around it that is written.
    place: &'a Place,
    path: String,
    /// The provider, route or client that it stands in.
    object: Option<(ObjectKind, &'a str)>,
}

impl<'a> View<'a> {
    pub fn root(branch: &'a Branch, node: &'a Node) -> Self {
        Self { branch, node: Some(node), place: &node.place, path: String::new(), object: None }
    }

    /// One key of a table. The table of keys must have a row for it.
    pub fn at(&self, name: &str) -> Self {
        steps::count();
        let branch = self.branch.child(name);
        debug_assert!(branch.is_some(), "{}.{name} has no row in the table of keys", self.path);
        let node = self.node.and_then(|node| node.get(name));
        Self {
            branch: branch.unwrap_or(self.branch),
            node,
            place: node.map_or(self.place, |node| &node.place),
            path: join(&self.path, name),
            object: self.object,
        }
    }

    /// The items of a list; none where it is not one.
    pub fn items(&self) -> Vec<Self> {
        let branch = self.branch.item.as_deref().unwrap_or(self.branch);
        let items = self.node.and_then(Node::list).unwrap_or_default();
        // Only the lists of the top level have such paths.
        let kind = ObjectKind::ALL.into_iter().find(|kind| self.path == kind.list());
        let item = |(index, node): (usize, &'a Node)| {
            steps::count();
            let name = || node.get("name").and_then(Node::scalar).and_then(Scalar::as_text);
            let object = self.object.or_else(|| Some((kind?, name()?)));
            Self { branch, node: Some(node), place: &node.place, path: item_path(&self.path, node, index), object }
        };
        items.iter().enumerate().map(item).collect()
    }

    /// An item of a list that is not written, for its defaults.
    pub fn one(&self) -> Self {
        Self { branch: self.branch.item.as_deref().unwrap_or(self.branch), node: None, ..self.clone() }
    }

    /// The entries of a mapping with free keys.
    pub fn entries(&self) -> Vec<(&'a str, Self)> {
        let Some(entries) = self.node.and_then(Node::map) else { return Vec::new() };
        let view = |node: &'a Node, key: &str| Self {
            branch: self.branch,
            node: Some(node),
            place: &node.place,
            path: join(&self.path, key),
            object: self.object,
        };
        entries.iter().map(|(key, entry)| (key.as_str(), view(&entry.node, key))).collect()
    }

    pub fn is_written(&self) -> bool {
        self.node.is_some()
    }

    pub fn place(&self) -> &'a Place {
        self.place
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The provider, route or client that it stands in, by its name.
    pub fn object(&self) -> Option<(ObjectKind, &'a str)> {
        self.object
    }

    pub fn node(&self) -> Option<&'a Node> {
        self.node
    }

    /// The scalar as written.
    pub fn scalar(&self) -> Option<&'a Scalar> {
        self.node.and_then(Node::scalar)
    }

    /// True for a mapping that is written but holds nothing.
    pub fn is_empty_mapping(&self) -> bool {
        self.node.and_then(Node::map).is_some_and(|map| map.is_empty())
    }

    /// What is written, fit for a message.
    pub fn shown(&self) -> Cow<'static, str> {
        self.scalar().map(Scalar::shown).unwrap_or_default()
    }

    /// Text as written; none where it is not written, or empty.
    pub fn text(&self) -> Option<&'a str> {
        self.scalar().and_then(Scalar::as_text).filter(|text| !text.is_empty())
    }

    /// Text as written, else the default.
    pub fn text_or_preset(&self) -> &'a str {
        self.text().or_else(|| self.preset(Family::Chat)).unwrap_or_default()
    }

    /// A length of time; the default is zero where the table has none.
    pub fn duration(&self, family: Family) -> Duration {
        self.written_duration().or_else(|| units::duration(self.preset(family)?)).unwrap_or_default()
    }

    pub fn written_duration(&self) -> Option<Duration> {
        self.scalar()?.as_quantity(units::duration)
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        let size = self.read(|scalar| scalar.as_quantity(units::size)).unwrap_or_default();
        usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// A list of lengths of time.
    pub fn durations(&self) -> Vec<Duration> {
        match self.node.and_then(Node::list) {
            Some(items) => items.iter().filter_map(|item| item.scalar()?.as_quantity(units::duration)).collect(),
            None => preset_items(self.preset(Family::Chat).unwrap_or_default()).filter_map(units::duration).collect(),
        }
    }

    pub fn integer(&self) -> Option<u64> {
        self.read(Scalar::as_integer)
    }

    pub fn number(&self) -> Option<f64> {
        self.read(Scalar::as_number)
    }

    /// A yes or no; no where the table has no default.
    pub fn flag(&self) -> bool {
        self.read(Scalar::as_bool).unwrap_or_default()
    }

    /// A list of numbers, rising.
    pub fn numbers(&self) -> Vec<f64> {
        let mut numbers: Vec<f64> = match self.node.and_then(Node::list) {
            Some(items) => items.iter().filter_map(|item| item.scalar()?.as_number()).collect(),
            None => preset_items(self.preset(Family::Chat).unwrap_or_default())
                .filter_map(|item| Scalar::preset(item).as_number())
                .collect(),
        };
        numbers.sort_by(f64::total_cmp);
        numbers
    }

    fn read<T>(&self, read: impl Fn(&Scalar) -> Option<T>) -> Option<T> {
        self.scalar().and_then(&read).or_else(|| read(&Scalar::preset(self.preset(Family::Chat)?)))
    }

    fn preset(&self, family: Family) -> Option<&'static str> {
        self.branch.key?.preset.value(family)
    }
}
