//! Versions of knowledge bases that operators have set while the gateway ran.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Answer, Unreadable};

/// By route.
pub type Versioned = BTreeMap<Arc<str>, Arc<str>>;

/// Where they are kept. While the store is out nothing can be set, and what is set is not known.
pub trait Versions: std::fmt::Debug + Send + Sync {
    /// All that are set. Give an answer that comes later a deadline.
    fn all(&self) -> Answer<Result<Versioned, Unreadable>>;

    /// Sets a route's, or with `None` forgets it, and gives all that are set then. When the answer is here it is
    /// kept; an error says that nothing has changed. A question that is dropped may still be carried out.
    fn set(&self, route: Arc<str>, version: Option<Arc<str>>) -> Answer<Result<Versioned, Unreadable>>;

    /// Sees to it that the store holds these, which it was the last to tell, and no others: what it has lost is written
    /// anew. Says what was wrong, where something was. A store that loses nothing has nothing to do.
    fn keep(&self, _: Versioned) -> Answer<Result<Option<String>, Unreadable>> {
        Answer::Ready(Ok(None))
    }
}

/// In this process's memory alone: forgotten with it.
#[derive(Debug, Default)]
pub struct InProcessVersions(Mutex<Versioned>);

impl Versions for InProcessVersions {
    fn all(&self) -> Answer<Result<Versioned, Unreadable>> {
        Answer::Ready(Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }

    fn set(&self, route: Arc<str>, version: Option<Arc<str>>) -> Answer<Result<Versioned, Unreadable>> {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match version {
            Some(version) => set.insert(route, version),
            None => set.remove(&route),
        };
        Answer::Ready(Ok(set.clone()))
    }
}
