//! Objects by their names.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::List;

/// Objects in the order in which they came, found by their names. Of several of one name the first is found.
pub(super) struct Directory<T> {
    pub all: List<Arc<T>>,
    places: IndexMap<Arc<str>, usize>,
}

impl<T> Default for Directory<T> {
    fn default() -> Self {
        Self { all: List::default(), places: IndexMap::new() }
    }
}

impl<T> Directory<T> {
    pub fn add(&mut self, name: &Arc<str>, object: Arc<T>) {
        self.places.entry(name.clone()).or_insert(self.all.len());
        self.all.push(object);
    }

    pub fn named(&self, name: &str) -> Option<&Arc<T>> {
        self.places.get(name).and_then(|place| self.all.get(*place))
    }

    /// Every name once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(|name| &**name)
    }
}
