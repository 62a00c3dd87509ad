//! The table of keys as the tree that a configuration is.

use crate::table::{Force, Key, Kind, SECTIONS};

/// One place of the tree: a key, the item of a list, or the root.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// The key's own name; empty for the root and for items.
    pub name: &'static str,
    /// Its row; none for the root and for items.
    pub key: Option<Key>,
    /// Keys below, in the table's order.
    pub children: Vec<Branch>,
    /// What each item is, for a list of tables.
    pub item: Option<Box<Branch>>,
}

impl Branch {
    const fn bare(name: &'static str) -> Self {
        Self { name, key: None, children: Vec::new(), item: None }
    }

    /// The whole tree.
    pub fn root() -> Self {
        let mut root = Self::bare("");
        for section in SECTIONS.iter().copied().flatten() {
            for prefix in section.under {
                for key in section.keys {
                    let place = root.grow(prefix).grow(key.path);
                    place.key = Some(*key);
                }
            }
        }
        root
    }

    /// The place of a dotted path, made where it is missing.
    fn grow(&mut self, path: &'static str) -> &mut Self {
        let mut place = self;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let (name, is_item) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
            let at = place.children.iter().position(|child| child.name == name).unwrap_or(place.children.len());
            if at == place.children.len() {
                place.children.push(Self::bare(name));
            }
            let child = &mut place.children[at];
            place = if is_item { child.item.get_or_insert_with(|| Box::new(Self::bare(""))) } else { child };
        }
        place
    }

    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    pub fn kind(&self) -> Kind {
        self.key.map_or(Kind::Table, |key| key.kind)
    }

    /// Whether the path of the address here is as good as a password.
    pub fn hides_path(&self) -> bool {
        self.key.is_some_and(|key| key.path == "webhooks[].url")
    }

    /// The capability that brings this key into force, where this version does not honour it.
    pub fn waits_for(&self) -> Option<&'static str> {
        match self.key?.force {
            Force::Now => None,
            Force::With(capability) => Some(capability),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(branch: &Branch, path: &str, see: &mut dyn FnMut(&Branch, &str)) {
        for child in &branch.children {
            let path = if path.is_empty() { child.name.to_owned() } else { format!("{path}.{}", child.name) };
            see(child, &path);
            visit(child, &path, see);
            if let Some(item) = &child.item {
                visit(item, &format!("{path}[]"), see);
            }
        }
    }

    #[test]
    fn every_place_has_its_row_and_only_tables_have_places_below() {
        fn holds_table(kind: Kind) -> bool {
            match kind {
                Kind::Table => true,
                Kind::Either(kinds) => kinds.iter().any(|kind| holds_table(*kind)),
                Kind::List(kind) => holds_table(*kind),
                _ => false,
            }
        }
        visit(&Branch::root(), "", &mut |branch, path| {
            let key = branch.key.unwrap_or_else(|| panic!("{path} has no row"));
            assert!(key.text.ends_with('.'), "{path}: its text is not a sentence");
            let has_below = !branch.children.is_empty() || branch.item.is_some();
            assert_eq!(holds_table(key.kind), has_below, "{path}");
        });
    }

    #[test]
    fn no_place_has_two_rows() {
        let mut seen = std::collections::HashSet::new();
        for section in SECTIONS.iter().copied().flatten() {
            for prefix in section.under {
                for key in section.keys {
                    assert!(seen.insert(format!("{prefix}{}", key.path)), "{prefix}{} stands twice", key.path);
                }
            }
        }
    }
}
