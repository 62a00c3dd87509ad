//! Issued keys by what callers show.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::{KeyHasher, KeyId, ObjectKind};
use foldhash::HashMap;
use state::objects::{Change, IssuedKey};

/// Uses are told apart to the hour, so that a key in steady use is written to once an hour.
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);

/// All of them. It is copied to be changed; the keys themselves are shared by the copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(HashMap<KeyId, Arc<Entry>>);

/// One of them.
#[derive(Debug)]
pub(super) struct Entry {
    pub id: Arc<str>,
    pub client: Arc<str>,
    /// From then on it is good no more, from the Unix epoch.
    pub expires: Option<Duration>,
    note: Box<str>,
    by: Box<str>,
    created: Duration,
    /// In which hour it was used last, from the Unix epoch; 0 is never.
    used: AtomicU32,
    /// The same as far as it is written down.
    pub written: AtomicU32,
}

/// A key as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Names it.
    pub id: Arc<str>,
    /// What the operator wrote about it; may be empty.
    pub note: Box<str>,
    /// Who issued it.
    pub by: Box<str>,
    /// When it was issued, from the Unix epoch.
    pub created: Duration,
    /// From when on it is not good any more, from the Unix epoch.
    pub expires: Option<Duration>,
    /// When it was used last, from the Unix epoch, to the hour.
    pub last_used: Option<Duration>,
}

impl Entry {
    fn of(key: IssuedKey) -> Self {
        let used = key.last_used.map_or(0, hour);
        Self {
            id: key.id,
            client: key.client,
            expires: key.expires,
            note: key.note,
            by: key.by,
            created: key.created,
            used: AtomicU32::new(used),
            written: AtomicU32::new(used),
        }
    }

    /// A caller has shown it. Cores that use one key write to shared memory once an hour.
    pub fn is_used(&self, now: Duration) {
        let hour = hour(now);
        if self.used.load(Relaxed) < hour {
            self.used.fetch_max(hour, Relaxed);
        }
    }

    fn shown(&self) -> Shown {
        let used = self.used.load(Relaxed);
        Shown {
            id: self.id.clone(),
            note: self.note.clone(),
            by: self.by.clone(),
            created: self.created,
            expires: self.expires,
            last_used: (used > 0).then(|| HOUR * used),
        }
    }
}

/// Hours from the Unix epoch.
fn hour(time: Duration) -> u32 {
    u32::try_from(time.as_secs() / HOUR.as_secs()).unwrap_or(u32::MAX)
}

impl Table {
    pub fn of(keys: Vec<IssuedKey>, hasher: &KeyHasher) -> Self {
        let by_id = |key: IssuedKey| (hasher.of_sha256(&key.digest.0), Arc::new(Entry::of(key)));
        Self(keys.into_iter().map(by_id).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, key: &KeyId) -> Option<&Entry> {
        self.0.get(key).map(|entry| &**entry)
    }

    /// A client's, the oldest first.
    pub fn of_client(&self, client: &str) -> Vec<Shown> {
        let of_client = self.0.values().filter(|entry| *entry.client == *client);
        let mut shown: Vec<Shown> = of_client.map(|entry| entry.shown()).collect();
        shown.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        shown
    }

    /// How many each client has.
    pub fn counts(&self) -> std::collections::HashMap<Arc<str>, usize> {
        let mut counts = std::collections::HashMap::new();
        self.0.values().for_each(|entry| *counts.entry(entry.client.clone()).or_default() += 1);
        counts
    }

    /// Those whose last use is not written down yet, with its hour.
    pub fn unwritten(&self) -> Vec<(Arc<Entry>, u32)> {
        let used = self.0.values().map(|entry| (entry, entry.used.load(Relaxed)));
        let unwritten = used.filter(|(entry, used)| *used > entry.written.load(Relaxed));
        unwritten.map(|(entry, used)| (entry.clone(), used)).collect()
    }

    /// Does what has been done to what is kept.
    pub fn change(&mut self, change: &Change, hasher: &KeyHasher) {
        match change {
            Change::Issue(key) => {
                self.0.insert(hasher.of_sha256(&key.digest.0), Arc::new(Entry::of(key.clone())));
            }
            Change::Revoke(id) => self.0.retain(|_, entry| entry.id != *id),
            Change::Remove(ObjectKind::Client, name) => self.0.retain(|_, entry| entry.client != *name),
            Change::Remove(..) | Change::Put(_) => {}
        }
    }
}
