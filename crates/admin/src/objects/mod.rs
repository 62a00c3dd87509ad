//! Providers, routes and clients: shown wherever they are written, and changed where they were made here.

mod bulk;
mod endpoints;
mod write;

use base::ObjectKind;
use config::{Home, WrittenObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::configuring::NotChanged;
use crate::error::{Error, Store, Told};
use crate::listing::{Limit, time};

pub(crate) use bulk::*;
pub(crate) use endpoints::*;

/// A provider, a route or a client.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Configured)]
pub(crate) struct Shown {
    name: String,
    /// `file` where it is written in a file, and changed there; `admin` where it was made here.
    #[schema(pattern = "^(file|admin)$")]
    managed_by: &'static str,
    /// Of one of a file: where it stands, as `FILE:LINE:COL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    file: Option<String>,
    /// Of one that was made here: counts its changes from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    revision: Option<u64>,
    /// Of one that was made here: when it was changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    changed_at: Option<String>,
    /// What it says, as a file writes it: secrets are `[secret]`, and what is left to defaults is left out.
    #[schema(value_type = Object)]
    config: Value,
}

impl From<&WrittenObject> for Shown {
    fn from(object: &WrittenObject) -> Self {
        let (file, revision, changed) = match &object.home {
            Home::File(place) => (Some(place.clone()), None, None),
            Home::Admin { revision, changed } => (None, Some(*revision), Some(*changed)),
        };
        Self {
            name: object.name.to_string(),
            managed_by: if file.is_some() { "file" } else { "admin" },
            file,
            revision,
            changed_at: changed.map(time),
            config: object.shown.clone(),
        }
    }
}

/// An object that was written.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Changed)]
pub(crate) struct Made {
    #[serde(flatten)]
    object: Shown,
    /// What it is well to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Told>,
}

/// What a change would come to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DryRun)]
pub(crate) struct WouldBe {
    /// `create`, `replace` or `delete`.
    would: &'static str,
    /// What would be there; of a `delete` what would be removed.
    object: Shown,
    /// What it is well to know.
    warnings: Vec<Told>,
}

/// What comes of a change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ChangedOrDryRun)]
pub(crate) enum Outcome {
    /// It is in force.
    Made(Made),
    /// It would be.
    WouldBe(WouldBe),
}

/// Which part of a list is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// So many at most.
    #[serde(default)]
    #[param(inline, required = false)]
    pub(crate) limit: Limit,
    /// Those behind this one: `next` of the page before.
    pub(crate) after: Option<String>,
}

/// How a change is made.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Changing {
    /// Only say what would become of it; nothing changes.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// An object's path below `/admin/v1`, as the audit log names it.
fn path(kind: ObjectKind, name: &str) -> String {
    format!("{}/{name}", kind.list())
}

/// Why a change was not made, for the caller.
pub(crate) fn refused(why: NotChanged, kind: ObjectKind, name: &str) -> Error {
    use crate::configuring::Expected;
    let word = kind.word();
    match why {
        NotChanged::InFile(place) => {
            Error::ManagedByFile(format!("the {word} `{name}` is written at {place}; change it there"))
        }
        NotChanged::Unexpected(Expected::Absent) => {
            Error::AlreadyExists(format!("there is a {word} `{name}` already; PUT replaces it"))
        }
        NotChanged::Unexpected(Expected::Present) => absent(kind, name),
        NotChanged::Unexpected(_) => Error::PreconditionFailed(format!(
            "the {word} `{name}` has been changed since: read it again, and make the change to what it says now"
        )),
        NotChanged::Unsound(problems) => Error::InvalidConfig {
            message: "the configuration that would come of it is not sound; nothing has changed".to_owned(),
            problems: problems.iter().map(Told::from).collect(),
        },
        NotChanged::Unkept(why) => {
            Error::Unavailable(Store::Objects, format!("nothing has changed, for it cannot be kept: {why}"))
        }
        NotChanged::Unknown(why) => Error::Unavailable(
            Store::Objects,
            format!("whether this was kept is not known; it comes into force where it was, so read it again: {why}"),
        ),
    }
}

pub(crate) fn absent(kind: ObjectKind, name: &str) -> Error {
    Error::NotFound(format!("there is no {} `{name}`", kind.word()))
}
