//! What was written, for people to look at: secrets are masked.

use std::sync::Arc;
use std::time::Duration;

use base::ObjectKind;
use serde_json::Value;

/// What stands in the place of a secret.
pub const MASKED: &str = "[secret]";

/// A configuration as it was written, files and objects of the admin API together.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// All of it, in the form of a file. Secrets, and whatever came out of a variable, are [`MASKED`].
    pub config: Value,
    /// Its providers, routes and clients, each by itself, by kind and in the order written.
    pub objects: Vec<WrittenObject>,
}

impl Written {
    /// The object of that kind and name.
    #[must_use]
    pub fn object(&self, kind: ObjectKind, name: &str) -> Option<&WrittenObject> {
        self.objects.iter().find(|object| object.kind == kind && &*object.name == name)
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
