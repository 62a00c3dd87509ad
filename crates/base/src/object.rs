//! What operators configure piece by piece: a provider, a route or a client of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::Secret;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A provider: where models are asked.
    Provider,
    /// A model name that callers write.
    Route,
    /// Who may call.
    Client,
}

impl ObjectKind {
    /// Every kind, in the order in which the configuration is read: what is named comes before who names it.
    pub const ALL: [Self; 3] = [Self::Provider, Self::Route, Self::Client];

    /// The configuration's list of them, which is also their path in the admin API.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Self::Provider => "providers",
            Self::Route => "routes",
            Self::Client => "clients",
        }
    }

    /// One of them, in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Route => "route",
            Self::Client => "client",
        }
    }
}

/// An object that was made through the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name, the only one among objects of its kind, files' included.
    pub name: Arc<str>,
    /// What it says, as one JSON object in the configuration's own form. Credentials stand in it as they are.
    pub written: Secret,
    /// Counts its changes from 1 on, over all objects of this name: one that is removed and made again goes on counting.
    pub revision: u64,
    /// When it was changed last, from the Unix epoch.
    pub changed: Duration,
}
