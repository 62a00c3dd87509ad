//! What was written, for people to look at: secrets are masked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::ObjectKind;
use serde_json::Value;

/// What stands in the place of a secret.
pub const MASKED: &str = "[secret]";

/// A configuration as it was written, files and objects of the admin API together. Secrets, and whatever came out of a
/// variable, are [`MASKED`]; so are user and password, the query and, of webhooks, the path of an address.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Everything beside the objects, in the form of a file.
    pub general: Value,
    /// Its providers, routes and clients, each by itself, by kind and in the order written.
    pub objects: Vec<WrittenObject>,
    /// Where each of them stands, by kind and name.
    places: [HashMap<Arc<str>, usize>; ObjectKind::ALL.len()],
}

impl Written {
    pub(crate) fn new(general: Value, mut objects: Vec<WrittenObject>) -> Self {
        objects.sort_by_key(|object| object.kind);
        let mut written = Self { general, objects, ..Self::default() };
        for (place, object) in written.objects.iter().enumerate() {
            written.places[object.kind as usize].insert(object.name.clone(), place);
        }
        written
    }

    /// The object of that kind and name.
    #[must_use]
    pub fn object(&self, kind: ObjectKind, name: &str) -> Option<&WrittenObject> {
        self.places[kind as usize].get(name).and_then(|place| self.objects.get(*place))
    }

    /// The objects of a kind, in the order written: those of files first.
    pub fn of(&self, kind: ObjectKind) -> impl Iterator<Item = &WrittenObject> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }

    /// All of it, in the form of a file.
    #[must_use]
    pub fn config(&self) -> Value {
        let mut config = self.general.as_object().cloned().unwrap_or_default();
        for kind in ObjectKind::ALL {
            let objects: Vec<Value> = self.of(kind).map(|object| object.shown.clone()).collect();
            if !objects.is_empty() {
                config.insert(kind.list().to_owned(), objects.into());
            }
        }
        Value::Object(config)
    }
}

/// One provider, route or client.
#[derive(Clone, Debug)]
pub struct WrittenObject {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name.
    pub name: Arc<str>,
    /// Who may change it.
    pub home: Home,
    /// What it says, secrets masked, without what is left to defaults.
    pub shown: Value,
}

/// Where an object is kept, and so where it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a file, at this place (`FILE:LINE:COL`).
    File(String),
    /// With the admin API.
    Admin {
        /// Counts its changes from 1 on.
        revision: u64,
        /// When it was changed last, from the Unix epoch.
        changed: Duration,
    },
}
