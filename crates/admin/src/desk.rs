//! What the admin port shows and moves.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use base::KeyHasher;
use gateway::live::Live;
use state::Objects;

use crate::aside::Aside;
use crate::attempts::Attempts;
use crate::configuring::Configuring;
use crate::error::Told;
use crate::late::LateRows;

/// What the last reload came to, for `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct LastReload(Arc<Mutex<Vec<String>>>);

impl LastReload {
    /// Notes its problems; none where it went well.
    pub fn note(&self, problems: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    /// The problems of the last reload.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A reload's result: a summary, or every problem.
pub type Reloaded = Result<String, Vec<Told>>;
/// A reload under way.
pub type Reloading = Pin<Box<dyn Future<Output = Reloaded> + Send>>;

/// What the admin port shows and moves.
#[derive(Clone)]
pub struct Desk {
    /// The process's state.
    pub live: Arc<Live>,
    /// Hashes presented tokens.
    pub hasher: KeyHasher,
    /// What the last reload came to.
    pub last_reload: LastReload,
    /// Reads the configuration again.
    pub reload: Arc<dyn Fn() -> Reloading + Send + Sync>,
    /// Holds the configuration, and changes it.
    pub configuring: Arc<dyn Configuring>,
    /// Objects made here, keys issued here, and who has done what.
    pub objects: Arc<dyn Objects>,
    /// What of that its store has not taken yet.
    pub late_rows: LateRows,
    /// Who has sent wrong tokens lately.
    pub attempts: Attempts,
    /// Does what takes long.
    pub aside: Aside,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}
