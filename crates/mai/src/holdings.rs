//! What the admin API has made so far, and what becomes of it by a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use admin::{Expected, NotChanged};
use base::{Object, ObjectKind};
use config::{ClientKey, Home, Problem, Written};
use state::objects::{Change, IssuedKey, Kept, MOST_GONE};

/// An object's kind and name.
type Named = (ObjectKind, Arc<str>);

/// Objects and issued keys as they are kept.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    objects: BTreeMap<Named, Object>,
    keys: Vec<IssuedKey>,
    /// The last revision of objects that were removed.
    gone: BTreeMap<Named, u64>,
}

impl From<Kept> for Holdings {
    fn from(kept: Kept) -> Self {
        let objects = kept.objects.into_iter().map(|object| ((object.kind, object.name.clone()), object));
        let gone = kept.gone.into_iter().map(|(kind, name, revision)| ((kind, name), revision));
        Self { objects: objects.collect(), keys: kept.keys, gone: gone.collect() }
    }
}

impl Holdings {
    /// Objects, by kind and name.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        self.objects.values().cloned().collect()
    }

    /// Keys, in the order in which they were issued.
    #[must_use]
    pub fn keys(&self) -> Vec<ClientKey> {
        let key =
            |key: &IssuedKey| ClientKey { client: key.client.clone(), sha256: key.digest.0, expires: key.expires };
        self.keys.iter().map(key).collect()
    }

    /// Makes changes, in their order, and counts and dates what is put: what is to be kept then. Masks of secrets are
    /// filled in.
    ///
    /// # Errors
    /// Why one of them cannot be made; what was held is of no use then.
    pub fn make(
        &mut self,
        changes: Vec<(Expected, Change)>,
        in_force: &Written,
        now: Duration,
    ) -> Result<Vec<Change>, NotChanged> {
        let in_files = in_force.objects.iter().filter_map(|object| match &object.home {
            Home::File(place) => Some(((object.kind, &*object.name), &**place)),
            Home::Admin { .. } => None,
        });
        let in_files: HashMap<(ObjectKind, &str), &str> = in_files.collect();
        let free = |kind: ObjectKind, name: &str| match in_files.get(&(kind, name)) {
            Some(place) => Err(NotChanged::InFile((*place).to_owned())),
            None => Ok(()),
        };
        let mut made = Vec::with_capacity(changes.len());
        for (expected, change) in changes {
            made.push(match change {
                Change::Put(object) => {
                    free(object.kind, &object.name)?;
                    Change::Put(self.put(expected, object, now)?)
                }
                Change::Remove(kind, name) => {
                    free(kind, &name)?;
                    self.remove(expected, (kind, name.clone()))?;
                    Change::Remove(kind, name)
                }
                Change::Issue(key) => {
                    let is_there = self.objects.contains_key(&(ObjectKind::Client, key.client.clone()));
                    if !is_there && !in_files.contains_key(&(ObjectKind::Client, &*key.client)) {
                        return Err(NotChanged::Unexpected(Expected::Present));
                    }
                    self.keys.push(key.clone());
                    Change::Issue(key)
                }
                Change::Revoke(id) => {
                    if expected == Expected::Present && !self.keys.iter().any(|key| key.id == id) {
                        return Err(NotChanged::Unexpected(expected));
                    }
                    self.keys.retain(|key| key.id != id);
                    Change::Revoke(id)
                }
            });
        }
        Ok(made)
    }

    fn put(&mut self, expected: Expected, mut object: Object, now: Duration) -> Result<Object, NotChanged> {
        let named = (object.kind, object.name.clone());
        let before = self.objects.get(&named);
        expect(expected, before)?;
        object.written = config::unmask(&object, before).map_err(NotChanged::Unsound)?;
        let last = before.map(|before| before.revision).or_else(|| self.gone.get(&named).copied());
        object.revision = last.unwrap_or_default() + 1;
        object.changed = now;
        self.gone.remove(&named);
        self.objects.insert(named, object.clone());
        Ok(object)
    }

    fn remove(&mut self, expected: Expected, named: Named) -> Result<(), NotChanged> {
        expect(expected, self.objects.get(&named))?;
        if named.0 == ObjectKind::Client {
            self.keys.retain(|key| key.client != named.1);
        }
        if let Some(object) = self.objects.remove(&named) {
            // The store forgets those that were removed first; here any will do, until the next start.
            if self.gone.len() >= MOST_GONE {
                self.gone.pop_first();
            }
            self.gone.insert(named, object.revision);
        }
        Ok(())
    }
}

fn expect(expected: Expected, before: Option<&Object>) -> Result<(), NotChanged> {
    let is_so = match expected {
        Expected::Whatever => true,
        Expected::Absent => before.is_none(),
        Expected::Present => before.is_some(),
        Expected::Revision(revision) => before.is_some_and(|before| before.revision == revision),
    };
    if is_so { Ok(()) } else { Err(NotChanged::Unexpected(expected)) }
}

/// Warnings that a change brings, or that are about what it puts: others were told before.
#[must_use]
pub fn news(warnings: &[Problem], before: &[Problem], made: &[Change]) -> Vec<Problem> {
    let is_put = |problem: &Problem| {
        made.iter().any(|change| match change {
            Change::Put(object) => problem.is_about(object.kind, &object.name),
            _ => false,
        })
    };
    warnings.iter().filter(|warning| !before.contains(warning) || is_put(warning)).cloned().collect()
}
