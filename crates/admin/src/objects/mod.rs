//! Providers, routes and clients: shown wherever they are written, and changed where they were made here.

mod bulk;
mod endpoints;
mod refusals;
mod write;

use base::ObjectKind;
use config::{Home, WrittenObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::error::Told;
use crate::listing::{Limit, time};

pub(crate) use bulk::*;
pub(crate) use endpoints::*;
pub(crate) use refusals::{absent, refused};

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

impl Shown {
    /// Bytes of what it says.
    fn size(&self) -> usize {
        let mut bytes = Bytes(0);
        // Nothing keeps them from being counted.
        let _ = serde_json::to_writer(&mut bytes, &self.config);
        bytes.0
    }
}

/// Counts what is written.
struct Bytes(usize);

impl std::io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
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
    /// `create`, `replace` or `delete`; `nothing` where it says that already.
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
