//! Everything that was written, files and objects of the admin API together.

use std::sync::Arc;

use base::ObjectKind;
use serde_json::{Map, Value};

use crate::node::{Node, Scalar};
use crate::objects::Homes;
use crate::shape::Branch;
use crate::shown::{Secrets, json};
use crate::table::Kind;
use crate::written::{Home, Written, WrittenObject};

/// A sound configuration as it was written, secrets and all.
#[derive(Clone)]
pub struct Whole {
    pub(crate) root: Arc<Node>,
    pub(crate) homes: Arc<Homes>,
}

/// It holds secrets.
impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Whole")
    }
}

impl Whole {
    /// For people to look at.
    #[must_use]
    pub fn written(&self) -> Written {
        let tree = Branch::root();
        let mut general = Map::new();
        let mut objects = Vec::new();
        for (key, entry) in self.root.map().into_iter().flatten() {
            let Some(branch) = tree.child(key) else { continue };
            match ObjectKind::ALL.into_iter().find(|kind| kind.list() == key) {
                Some(kind) => objects.extend(self.objects(kind, branch, &entry.node)),
                None => {
                    general.insert(key.clone(), json(branch, branch.kind(), &entry.node, Secrets::Masked));
                }
            }
        }
        Written::new(Value::Object(general), objects)
    }

    fn objects(&self, kind: ObjectKind, list: &Branch, node: &Node) -> Vec<WrittenObject> {
        let branch = list.item.as_deref().unwrap_or(list);
        let object = |(index, node): (usize, &Node)| {
            let name = node.get("name").and_then(Node::scalar).and_then(Scalar::as_text)?;
            let home = match self.homes.of(kind, index) {
                Some((revision, changed)) => Home::Admin { revision, changed },
                None => Home::File(node.place.to_string()),
            };
            Some(WrittenObject {
                kind,
                name: name.into(),
                home,
                shown: json(branch, Kind::Table, node, Secrets::Masked),
            })
        };
        node.list().unwrap_or_default().iter().enumerate().filter_map(object).collect()
    }
}
