//! The versions of knowledge bases that operators have set, which go before those of the configuration.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base::Dice;
use state::{Answer, Unreadable, Versioned, Versions};

/// What is set, as cache keys read it.
#[derive(Debug)]
pub struct KbVersions {
    store: Arc<dyn Versions>,
    /// `None` until the store has told.
    set: ArcSwap<Option<Versioned>>,
    /// Stands for every version while the store has not told: what was stored under another is not served then.
    unknown: Arc<str>,
}

/// How often a store that is out is asked again.
const AGAIN: Duration = Duration::from_secs(1);

impl KbVersions {
    pub(crate) fn new(store: Arc<dyn Versions>, dice: &Dice) -> Self {
        // What is there without waiting is known from the start.
        let set = match store.all() {
            Answer::Ready(told) => told.ok(),
            Answer::Later(_) => None,
        };
        let unknown = format!("not known yet {:016x}{:016x}", dice.bits(), dice.bits()).into();
        Self { store, set: ArcSwap::from_pointee(set), unknown }
    }

    /// What is set for a route; `None` where its configuration decides.
    #[must_use]
    pub fn of(&self, route: &str) -> Option<Arc<str>> {
        match &**self.set.load() {
            Some(set) => set.get(route).cloned(),
            None => Some(self.unknown.clone()),
        }
    }

    /// All that are set; `None` while that is not known.
    #[must_use]
    pub fn all(&self) -> Option<Versioned> {
        Option::clone(&self.set.load())
    }

    /// Sets a route's, or with `None` leaves it to the configuration again.
    ///
    /// # Errors
    /// What keeps the store from it; nothing has changed then.
    pub async fn set(&self, route: Arc<str>, version: Option<Arc<str>>) -> Result<(), Unreadable> {
        let set = self.store.set(route, version).await?;
        self.set.store(Arc::new(Some(set)));
        Ok(())
    }

    /// Asks the store for what is set until it tells.
    pub async fn open(&self) {
        let mut is_told = false;
        while self.set.load().is_none() {
            match self.store.all().await {
                Ok(set) => self.set.store(Arc::new(Some(set))),
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(
                            "nothing stored before is served until it is known which `kb_version` is set: {error}"
                        );
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}
