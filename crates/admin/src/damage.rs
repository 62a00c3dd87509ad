//! What befell the file of a store, as `/readyz` shows it.

use serde::Serialize;
use utoipa::ToSchema;

/// What befell the file of a store: it was emptied, overwritten, replaced or removed while in use.
#[derive(Serialize, ToSchema)]
pub(crate) struct Damage {
    /// When it was found last, in seconds since the Unix epoch.
    at: u64,
    /// What was found then, and what was done about it.
    what: String,
    /// How often since the start.
    times: u64,
}

impl From<state::Damage> for Damage {
    fn from(state::Damage { at, what, times }: state::Damage) -> Self {
        Self { at: at.as_secs(), what, times }
    }
}
