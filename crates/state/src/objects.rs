//! Objects made through the admin API, keys issued there, and who has done what.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Object, ObjectKind};

use crate::{Answer, Trouble, Unreadable};

/// A client's key that was issued through the admin API. The key itself is known to nobody but its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedKey {
    /// Names it; says nothing of the key.
    pub id: Arc<str>,
    /// Whose it is, by name: a client of a file or of the admin API.
    pub client: Arc<str>,
    /// By which it is known.
    pub digest: KeyDigest,
    /// What the operator wrote about it; may be empty.
    pub note: Box<str>,
    /// Who issued it: the name of the token.
    pub by: Box<str>,
    /// When it was issued, from the Unix epoch.
    pub created: Duration,
    /// From when on it is not good any more, from the Unix epoch.
    pub expires: Option<Duration>,
    /// When it was used last, from the Unix epoch, to the hour.
    pub last_used: Option<Duration>,
}

/// The SHA-256 of a key. It is printed by nothing: whoever has it could tell whether a key that was found somewhere is
/// good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest(pub [u8; 32]);

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key digest]")
    }
}

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// By kind, then by name.
    pub objects: Vec<Object>,
    /// In the order in which they were issued.
    pub keys: Vec<IssuedKey>,
    /// Objects that were removed, each with its last revision, from which it goes on where it is made again; by kind,
    /// then by name. [`MOST_GONE`] at most.
    pub gone: Vec<(ObjectKind, Arc<str>, u64)>,
}

/// One change of what is kept.
#[derive(Clone, Debug)]
pub enum Change {
    /// Makes an object, or puts it in the place of the one of its name.
    Put(Object),
    /// Removes an object; a client's keys go with it.
    Remove(ObjectKind, Arc<str>),
    /// Issues a key.
    Issue(IssuedKey),
    /// Takes a key back for good.
    Revoke(Arc<str>),
}

/// What somebody has done: one row of the audit log. Holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// Counts deeds from 1 on; 0 before it is written down.
    pub id: u64,
    /// When, from the Unix epoch.
    pub at: Duration,
    /// Who: the name of the token.
    pub who: Box<str>,
    /// The token's role.
    pub role: Box<str>,
    /// What was done: one word, such as `create`, `replace`, `delete`, `issue`, `revoke`, `purge`.
    pub action: Box<str>,
    /// To what, as its path below `/admin/v1`: `routes/rag-chat`.
    pub object: Box<str>,
    /// What was there before, as JSON without secrets.
    pub before: Option<Box<str>>,
    /// What is there now, as JSON without secrets.
    pub after: Option<Box<str>>,
}

impl Deed {
    /// Bytes that its texts take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.before.as_deref().map_or(0, str::len) + self.after.as_deref().map_or(0, str::len)
    }
}

/// How far an answer is filled with deeds: there is room for one, however long it is, and for [`MOST_ANSWERED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filling {
    deeds: usize,
    bytes: usize,
}

impl Filling {
    /// Takes one more; false where there was no room for it.
    pub fn takes(&mut self, deed: &Deed) -> bool {
        self.deeds += 1;
        self.bytes = self.bytes.saturating_add(deed.size());
        !self.is_over()
    }

    /// Whether there was no room for the last one: it says that there are more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        self.deeds > 1 && self.bytes > MOST_ANSWERED
    }
}

/// Which deeds are asked for; the newest come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Older than this one.
    pub before: Option<u64>,
    /// So many at most.
    pub limit: usize,
    /// Of this one alone.
    pub who: Option<Box<str>>,
    /// Done to this, or to what lies below it: `routes`, `routes/rag-chat`.
    pub object: Option<Box<str>>,
    /// At this time or later, from the Unix epoch.
    pub since: Option<Duration>,
    /// Before this time, from the Unix epoch.
    pub until: Option<Duration>,
}

impl Deeds {
    /// Whether this one is asked for, apart from how many are.
    #[must_use]
    pub fn want(&self, deed: &Deed) -> bool {
        let is_below = |of: &str| {
            deed.object.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || of.is_empty())
        };
        self.before.is_none_or(|before| deed.id < before)
            && self.who.as_deref().is_none_or(|who| who == &*deed.who)
            && self.object.as_deref().is_none_or(is_below)
            && self.since.is_none_or(|since| deed.at >= since)
            && self.until.is_none_or(|until| deed.at < until)
    }
}

/// Deeds kept at most; the oldest go first.
pub const MOST_DEEDS: usize = 100_000;
/// Bytes that the texts of one deed take at most.
pub const MOST_DEED: usize = 128 << 10;
/// Bytes that the texts of all deeds take at most; the oldest go first.
pub const MOST_DEED_BYTES: usize = 256 << 20;
/// Bytes of texts in one answer, which ends with the first deed beyond.
pub const MOST_ANSWERED: usize = 4 << 20;
/// Removed objects of which the revision is still known, at most; those removed first go first.
pub const MOST_GONE: usize = 10_000;

/// Where they are kept. While the store is out nothing can be changed and nothing is forgotten: what is in force stays so.
pub trait Objects: std::fmt::Debug + Send + Sync {
    /// Everything. Give an answer that comes later a deadline.
    fn all(&self) -> Answer<Result<Kept, Unreadable>>;

    /// Makes all of these changes and writes down who has done it, in this order, or does nothing. When the answer is here it is kept;
    /// an error says that nothing has changed. A question that is dropped may still be carried out. A key whose id or
    /// digest is there already is an error; to remove or revoke what is not there is none. Times are kept to the
    /// millisecond.
    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>>;

    /// When keys were used last: each one's id, and the time from the Unix epoch. An earlier time than is known changes
    /// nothing, nor does an id that nobody knows.
    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>>;

    /// What has been done, the newest first; fewer than are asked for where their texts are long, and then one more than
    /// there is room for, as of [`Filling`].
    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>>;

    /// How the store does, as far as is known from what was asked of it: `None` where what was asked was done. Never
    /// waits. One that is memory alone does always well.
    fn health(&self) -> Option<Trouble> {
        None
    }

    /// Finds out how it does, for [`Objects::health`]: whether what was opened is still in its place, and where something
    /// was wrong, whether it still is. Nothing of what is kept changes. Give an answer that comes later a deadline.
    fn look(&self) -> Answer<()> {
        Answer::Ready(())
    }
}

/// In this process's memory alone: forgotten with it.
#[derive(Debug, Default)]
pub struct InProcessObjects(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    now: State,
    deeds: VecDeque<Deed>,
    count: u64,
    /// What their texts take.
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct State {
    objects: BTreeMap<(ObjectKind, Arc<str>), Object>,
    keys: Vec<IssuedKey>,
    /// With the last revision of each, and which removal it was.
    gone: BTreeMap<(ObjectKind, Arc<str>), (u64, u64)>,
    removals: u64,
}

impl State {
    fn make(&mut self, change: Change) -> Result<(), Unreadable> {
        match change {
            Change::Put(object) => {
                let name = (object.kind, object.name.clone());
                self.gone.remove(&name);
                self.objects.insert(name, object);
            }
            Change::Remove(kind, name) => self.remove(kind, name),
            Change::Issue(key) => {
                if self.keys.iter().any(|known| known.id == key.id || known.digest == key.digest) {
                    return Err(Unreadable("this key is there already".to_owned()));
                }
                self.keys.push(key);
            }
            Change::Revoke(id) => self.keys.retain(|key| key.id != id),
        }
        Ok(())
    }

    fn remove(&mut self, kind: ObjectKind, name: Arc<str>) {
        if kind == ObjectKind::Client {
            self.keys.retain(|key| key.client != name);
        }
        let name = (kind, name);
        let Some(object) = self.objects.remove(&name) else { return };
        self.removals += 1;
        self.gone.insert(name, (object.revision, self.removals));
        let longest = self.gone.iter().min_by_key(|(_, (_, removal))| *removal).map(|(name, _)| name.clone());
        if let Some(longest) = longest.filter(|_| self.gone.len() > MOST_GONE) {
            self.gone.remove(&longest);
        }
    }
}

impl InProcessObjects {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for InProcessObjects {
    fn all(&self) -> Answer<Result<Kept, Unreadable>> {
        let State { objects, keys, gone, .. } = &self.memory().now;
        let gone = gone.iter().map(|((kind, name), (revision, _))| (*kind, name.clone(), *revision));
        Answer::Ready(Ok(Kept {
            objects: objects.values().cloned().collect(),
            keys: keys.clone(),
            gone: gone.collect(),
        }))
    }

    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
        let mut memory = self.memory();
        // All or nothing: what fails half way leaves no trace.
        let mut changed = memory.now.clone();
        if let Err(error) = changes.into_iter().try_for_each(|change| changed.make(change)) {
            return Answer::Ready(Err(error));
        }
        memory.now = changed;
        for deed in deeds {
            memory.count += 1;
            let id = memory.count;
            memory.bytes += deed.size();
            memory.deeds.push_back(Deed { id, ..deed });
        }
        while memory.deeds.len() > MOST_DEEDS || memory.bytes > MOST_DEED_BYTES {
            let Some(oldest) = memory.deeds.pop_front() else { break };
            memory.bytes -= oldest.size();
        }
        Answer::Ready(Ok(()))
    }

    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
        let mut memory = self.memory();
        for (id, at) in keys {
            if let Some(key) = memory.now.keys.iter_mut().find(|key| key.id == id) {
                key.last_used = key.last_used.max(Some(at));
            }
        }
        Answer::Ready(Ok(()))
    }

    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
        let memory = self.memory();
        let wanted = memory.deeds.iter().rev().filter(|deed| which.want(deed));
        let mut filling = Filling::default();
        let mut is_over = false;
        let some = wanted.take(which.limit).take_while(|deed| !std::mem::replace(&mut is_over, !filling.takes(deed)));
        Answer::Ready(Ok(some.cloned().collect()))
    }
}
