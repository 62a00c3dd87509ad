//! What was put and is not in the file yet. It is found here where memory has no room for it, so that the file never
//! answers with what stood there before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use state::answers::{Key, Stored, Which};

/// By key; no more than what waits to be written.
#[derive(Debug, Default)]
pub(super) struct Unwritten(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    things: HashMap<Key, Arc<Stored>>,
    /// What the reader looks for in the file just now.
    sought: Option<Key>,
    /// Something was put under that since it began.
    is_overtaken: bool,
}

impl Unwritten {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits under a key.
    pub fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.waiting().things.get(key).cloned()
    }

    /// Something waits from now on.
    pub fn put(&self, key: Key, stored: Arc<Stored>) {
        let mut waiting = self.waiting();
        waiting.is_overtaken |= waiting.sought == Some(key);
        let before = waiting.things.insert(key, stored);
        drop(waiting);
        drop(before);
    }

    /// It is written, or never will be.
    pub fn let_go(&self, key: &Key, stored: &Arc<Stored>) {
        let mut waiting = self.waiting();
        if waiting.things.get(key).is_some_and(|there| Arc::ptr_eq(there, stored)) {
            waiting.things.remove(key);
        }
    }

    /// What was removed before it was written is not found any more.
    pub fn forget(&self, key: &Key) {
        self.waiting().things.remove(key);
    }

    /// The same of several.
    pub fn forget_all(&self, which: &Which) {
        self.waiting().things.retain(|_, stored| !which.has(stored));
    }

    /// The keys of some.
    pub fn keys(&self, which: &Which) -> Vec<Key> {
        self.waiting().things.iter().filter(|(_, stored)| which.has(stored)).map(|(key, _)| *key).collect()
    }

    /// The reader looks for this in the file, unless it is here.
    pub fn seek(&self, key: &Key) -> Option<Arc<Stored>> {
        let mut waiting = self.waiting();
        (waiting.sought, waiting.is_overtaken) = (Some(*key), false);
        waiting.things.get(key).cloned()
    }

    /// Whether something was put under what the reader looks for: what it has found is of yesterday.
    pub fn is_overtaken(&self) -> bool {
        self.waiting().is_overtaken
    }
}
