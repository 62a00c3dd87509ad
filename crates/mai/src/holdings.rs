//! What the admin API has made so far, and what becomes of it by a change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use admin::{Expected, NotChanged};
use base::{Object, ObjectKind};
use config::{Home, Problem, Written};
use state::objects::{Change, Kept, MOST_GONE};

/// An object's kind and name.
type Named = (ObjectKind, Arc<str>);

/// Objects at most.
const MOST_OBJECTS: usize = 20_000;
/// Bytes of what they say, of all together, at most.
const MOST_BYTES: usize = 64 << 20;

/// Objects as they are kept. Issued keys come and go beside them.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    objects: BTreeMap<Named, Object>,
    /// The last revision of objects that were removed.
    gone: BTreeMap<Named, u64>,
}

impl From<Kept> for Holdings {
    fn from(kept: Kept) -> Self {
        let objects = kept.objects.into_iter().map(|object| ((object.kind, object.name.clone()), object));
        let gone = kept.gone.into_iter().map(|(kind, name, revision)| ((kind, name), revision));
        Self { objects: objects.collect(), gone: gone.collect() }
    }
}

impl Holdings {
    /// Objects, by kind and name.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        self.objects.values().cloned().collect()
    }

    /// Makes changes, in their order, and counts and dates what is put: what is to be kept then. Masks of secrets are
    /// filled in. What is put as it was is no change, and stays as it was counted and dated.
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
        let (count, bytes) = (self.objects.len(), self.bytes());
        let mut made = Vec::with_capacity(changes.len());
        for (expected, change) in changes {
            made.push(match change {
                Change::Put(object) => {
                    free(object.kind, &object.name)?;
                    let Some(object) = self.put(expected, object, now)? else { continue };
                    Change::Put(object)
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
                    Change::Issue(key)
                }
                Change::Revoke(id) => Change::Revoke(id),
            });
        }
        // Everything is compiled, shown and copied as a whole.
        if self.objects.len() > count.max(MOST_OBJECTS) || self.bytes() > bytes.max(MOST_BYTES) {
            let most = format!("{MOST_OBJECTS} objects, or {} MiB of them, are kept at most", MOST_BYTES >> 20);
            return Err(NotChanged::Unsound(vec![Problem::general(format!("{most}: remove some first"))]));
        }
        Ok(made)
    }

    fn bytes(&self) -> usize {
        self.objects.values().map(|object| object.written.expose().len()).sum()
    }

    /// What is to be kept; nothing where it says what was said before.
    fn put(&mut self, expected: Expected, mut object: Object, now: Duration) -> Result<Option<Object>, NotChanged> {
        let named = (object.kind, object.name.clone());
        let before = self.objects.get(&named);
        expect(expected, before)?;
        object.written = config::unmask(&object, before).map_err(NotChanged::Unsound)?;
        if before.is_some_and(|before| config::says_the_same(before, &object.written)) {
            return Ok(None);
        }
        let last = before.map(|before| before.revision).or_else(|| self.gone.get(&named).copied());
        object.revision = last.unwrap_or_default() + 1;
        object.changed = now;
        self.gone.remove(&named);
        self.objects.insert(named, object.clone());
        Ok(Some(object))
    }

    fn remove(&mut self, expected: Expected, named: Named) -> Result<(), NotChanged> {
        expect(expected, self.objects.get(&named))?;
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

/// Where that stands which changes put.
#[must_use]
pub fn places(changes: &[(Expected, Change)]) -> HashSet<String> {
    let place = |(_, change): &(Expected, Change)| match change {
        Change::Put(object) => Some(config::place_of(object.kind, &object.name)),
        _ => None,
    };
    changes.iter().filter_map(place).collect()
}

/// Warnings that a change brings, or that are about what it puts: others were told before.
#[must_use]
pub fn news(warnings: &[Problem], before: &[Problem], put: &HashSet<String>) -> Vec<Problem> {
    let before: HashSet<&Problem> = before.iter().collect();
    warnings.iter().filter(|warning| !before.contains(warning) || put.contains(&*warning.place.file)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use base::Secret;
    use config::{Added, Files, Overrides, Source};
    use state::objects::{IssuedKey, KeyDigest};

    use super::*;

    fn object(kind: ObjectKind, name: &str, written: &str) -> Object {
        Object { kind, name: name.into(), written: Secret::new(written), revision: 0, changed: Duration::ZERO }
    }

    fn put(expected: Expected, name: &str) -> Vec<(Expected, Change)> {
        put_as(expected, name, "{}")
    }

    fn put_as(expected: Expected, name: &str, written: &str) -> Vec<(Expected, Change)> {
        vec![(expected, Change::Put(object(ObjectKind::Client, name, written)))]
    }

    const OTHER: &str = r#"{"routes": ["*"]}"#;

    fn remove(expected: Expected, name: &str) -> Vec<(Expected, Change)> {
        vec![(expected, Change::Remove(ObjectKind::Client, name.into()))]
    }

    fn issue(id: &str, client: &str) -> Vec<(Expected, Change)> {
        let key = IssuedKey {
            id: id.into(),
            client: client.into(),
            digest: KeyDigest([0; 32]),
            note: "".into(),
            by: "ops".into(),
            created: Duration::ZERO,
            expires: None,
            last_used: None,
        };
        vec![(Expected::Absent, Change::Issue(key))]
    }

    /// A file with one client in it.
    fn filed() -> Written {
        let source = Source::Text { name: "gateway.yaml".into(), text: "clients: [{ name: filed }]".into() };
        let files = Files::read(&source, Overrides::default(), &|_| None).unwrap();
        files.with(Added::default(), &base::KeyHasher::new(&[0; 64])).unwrap().whole.written()
    }

    const NOW: Duration = Duration::from_secs(1_796_000_000);

    /// Makes a change and says which revision came of it.
    fn revision(held: &mut Holdings, changes: Vec<(Expected, Change)>) -> u64 {
        match held.make(changes, &filed(), NOW).unwrap().pop().unwrap() {
            Change::Put(object) => {
                assert_eq!(object.changed, NOW);
                object.revision
            }
            _ => 0,
        }
    }

    #[test]
    fn revisions_count_over_all_objects_of_a_name() {
        let mut held = Holdings::default();
        assert_eq!(revision(&mut held, put(Expected::Absent, "a")), 1);
        assert_eq!(revision(&mut held, put_as(Expected::Revision(1), "a", OTHER)), 2);
        revision(&mut held, remove(Expected::Present, "a"));
        assert_eq!(revision(&mut held, put(Expected::Absent, "a")), 3);
        assert_eq!(revision(&mut held, put(Expected::Whatever, "b")), 1);
        let gone = vec![(ObjectKind::Client, "c".into(), 7)];
        let mut held = Holdings::from(Kept { gone, ..Kept::default() });
        assert_eq!(revision(&mut held, put(Expected::Absent, "c")), 8, "also of those removed before the start");
    }

    #[test]
    fn what_is_put_as_it_was_is_no_change() {
        let mut held = Holdings::default();
        let first = r#"{"keys": ["sk-secret"], "routes": ["*"]}"#;
        revision(&mut held, put_as(Expected::Absent, "a", first));
        let now = NOW + Duration::from_secs(1);
        for same in [
            first,
            r#"{ "routes": ["*"], "name": "a", "keys": ["sk-secret"] }"#,
            r#"{"keys": ["[secret]"], "routes": ["*"]}"#,
        ] {
            for expected in [Expected::Whatever, Expected::Present, Expected::Revision(1)] {
                assert!(held.make(put_as(expected, "a", same), &filed(), now).unwrap().is_empty(), "{same}");
                assert_eq!((held.objects()[0].revision, held.objects()[0].changed), (1, NOW));
            }
            let refused = held.clone().make(put_as(Expected::Absent, "a", same), &filed(), now);
            assert!(matches!(refused, Err(NotChanged::Unexpected(Expected::Absent))), "{refused:?}");
        }
        for other in [r#"{"keys": ["sk-other"], "routes": ["*"]}"#, r#"{"keys": ["sk-secret"], "routes": ["*", "*"]}"#]
        {
            assert_eq!(held.clone().make(put_as(Expected::Whatever, "a", other), &filed(), now).unwrap().len(), 1);
        }
    }

    #[test]
    fn there_are_so_many_objects_and_no_more() {
        let puts = |names: std::ops::Range<usize>, written: &str| -> Vec<_> {
            let put = |name: usize| Change::Put(object(ObjectKind::Client, &name.to_string(), written));
            names.map(|name| (Expected::Whatever, put(name))).collect()
        };
        let is_full = |held: &Holdings, changes| matches!(held.clone().make(changes, &filed(), NOW), Err(NotChanged::Unsound(why)) if why[0].text.contains("remove some"));
        let mut held = Holdings::default();
        revision(&mut held, puts(0..MOST_OBJECTS, "{}"));
        assert!(is_full(&held, puts(MOST_OBJECTS..MOST_OBJECTS + 1, "{}")));
        assert!(!is_full(&held, puts(7..8, "{}")), "one in the place of another fits");
        assert!(!is_full(
            &held,
            [remove(Expected::Whatever, "7"), puts(MOST_OBJECTS..MOST_OBJECTS + 1, "{}")].concat()
        ));
        let long = " ".repeat(MOST_BYTES / 16);
        assert!(is_full(&Holdings::default(), puts(0..17, &long)));
        assert!(!is_full(&Holdings::default(), puts(0..16, &long)));
    }

    #[test]
    fn what_was_expected_must_be_so() {
        let mut held = Holdings::default();
        revision(&mut held, put(Expected::Absent, "a"));
        for changes in [
            put(Expected::Absent, "a"),
            put(Expected::Revision(2), "a"),
            put(Expected::Present, "b"),
            put(Expected::Revision(1), "b"),
            remove(Expected::Present, "b"),
            remove(Expected::Revision(9), "a"),
        ] {
            let refused = held.clone().make(changes.clone(), &filed(), NOW);
            assert!(matches!(refused, Err(NotChanged::Unexpected(_))), "{changes:?}: {refused:?}");
        }
        assert!(held.clone().make(remove(Expected::Whatever, "b"), &filed(), NOW).is_ok());
    }

    #[test]
    fn what_stands_in_a_file_is_changed_there() {
        for changes in [put(Expected::Whatever, "filed"), remove(Expected::Whatever, "filed")] {
            let refused = Holdings::default().make(changes, &filed(), NOW);
            assert!(matches!(refused, Err(NotChanged::InFile(place)) if place == "gateway.yaml:1:11"));
        }
    }

    #[test]
    fn keys_are_issued_for_clients_that_there_are() {
        let mut held = Holdings::default();
        assert!(matches!(
            held.clone().make(issue("k", "nobody"), &filed(), NOW),
            Err(NotChanged::Unexpected(Expected::Present))
        ));
        revision(&mut held, issue("one", "filed"));
        revision(&mut held, put(Expected::Absent, "a"));
        revision(&mut held, issue("two", "a"));
        revision(&mut held, vec![(Expected::Present, Change::Revoke("one".into()))]);
    }

    #[test]
    fn later_changes_of_a_wish_see_earlier_ones() {
        let changes = [put(Expected::Absent, "a"), issue("k", "a"), put_as(Expected::Revision(1), "a", OTHER)].concat();
        assert_eq!(revision(&mut Holdings::default(), changes), 2);
    }
}
