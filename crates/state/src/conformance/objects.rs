//! What is asked of whoever keeps objects, issued keys and the audit log.

use std::sync::Arc;
use std::time::Duration;

use base::{Object, ObjectKind, Secret};

use crate::objects::{Change, Deed, Deeds, IssuedKey, Kept, KeyDigest};
use crate::{Objects, Unreadable};

/// A text that nobody may read in what is kept: a test of a store looks for it there.
pub const SECRET: &str = "sk-of-a-provider-3f81d07c";
/// What key number `n` is known by, which nobody may read there either.
#[must_use]
pub fn digest(n: u8) -> KeyDigest {
    let mut digest = [0x5c; 32];
    let [.., last] = &mut digest;
    *last = n;
    KeyDigest(digest)
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(1_796_000_000 + seconds)
}

fn object(kind: ObjectKind, name: &str, revision: u64) -> Object {
    let written = Secret::new(format!(r#"{{"name":"{name}","api_key":"{SECRET}","revision":{revision}}}"#));
    Object { kind, name: name.into(), written, revision, changed: at(revision) }
}

fn key(n: u8, client: &str) -> IssuedKey {
    IssuedKey {
        id: id(n),
        client: client.into(),
        digest: digest(n),
        note: format!("note {n}").into(),
        by: "ops".into(),
        created: at(n.into()),
        expires: n.is_multiple_of(2).then(|| at(1_000_000)),
        last_used: None,
    }
}

fn id(n: u8) -> Arc<str> {
    format!("key_{n}").into()
}

fn deed(who: &str, action: &str, object: &str, seconds: u64) -> Deed {
    let after = (action != "delete").then(|| r#"{"note":"after"}"#.into());
    Deed {
        id: 0,
        at: at(seconds),
        who: who.into(),
        role: "operator".into(),
        action: action.into(),
        object: object.into(),
        before: None,
        after,
    }
}

async fn all(objects: &dyn Objects) -> Kept {
    objects.all().await.unwrap_or_else(|Unreadable(why)| {
        assert_eq!(why, "", "a store that is well answers");
        Kept::default()
    })
}

async fn done(objects: &dyn Objects, changes: Vec<Change>, deed: Deed) {
    assert_eq!(objects.change(changes, vec![deed]).await, Ok(()));
}

async fn deeds(objects: &dyn Objects, which: Deeds) -> Vec<u64> {
    let told = objects.deeds(which).await;
    assert!(told.is_ok(), "{told:?}");
    told.unwrap_or_default().iter().map(|deed| deed.id).collect()
}

fn names(kept: &Kept) -> Vec<(ObjectKind, &str, u64)> {
    kept.objects.iter().map(|object| (object.kind, &*object.name, object.revision)).collect()
}

fn ids(kept: &Kept) -> Vec<&str> {
    kept.keys.iter().map(|key| &*key.id).collect()
}

/// A store in which nothing is kept yet keeps all its promises. Afterwards it holds a provider with [`SECRET`] in it
/// and a key that is known by [`digest`] 1.
pub async fn objects(objects: &dyn Objects) {
    assert_eq!(all(objects).await, Kept::default());
    assert_eq!(deeds(objects, Deeds { limit: 10, ..Deeds::default() }).await, [0; 0]);
    assert_eq!(objects.used(vec![(id(1), at(0))]).await, Ok(()), "nobody knows the key, and nothing is wrong");
    what_is_put_is_there_and_goes_on_counting(objects).await;
    keys_go_with_their_client(objects).await;
    all_is_changed_or_nothing(objects).await;
    keys_remember_their_last_use(objects).await;
    deeds_are_found_by_what_is_asked(objects).await;
    one_change_may_leave_several_deeds(objects).await;
}

use ObjectKind::{Client, Provider, Route};

async fn what_is_put_is_there_and_goes_on_counting(objects: &dyn Objects) {
    let first = [object(Route, "rag", 1), object(Client, "rag", 1), object(Provider, "b", 1), object(Provider, "a", 1)];
    done(objects, first.map(Change::Put).to_vec(), deed("root", "import", "import", 1)).await;
    let kept = all(objects).await;
    assert_eq!(names(&kept), [(Provider, "a", 1), (Provider, "b", 1), (Route, "rag", 1), (Client, "rag", 1)]);
    assert_eq!(kept.objects.first(), Some(&object(Provider, "a", 1)), "with all that it says");
    done(objects, vec![Change::Put(object(Provider, "b", 2))], deed("ops", "replace", "providers/b", 2)).await;
    done(objects, vec![Change::Remove(Provider, "b".into())], deed("ops", "delete", "providers/b", 3)).await;
    done(objects, vec![Change::Remove(Provider, "nobody".into())], deed("ops", "delete", "providers/nobody", 3)).await;
    let kept = all(objects).await;
    assert_eq!(names(&kept), [(Provider, "a", 1), (Route, "rag", 1), (Client, "rag", 1)]);
    assert_eq!(kept.gone, [(Provider, "b".into(), 2)]);
    done(objects, vec![Change::Put(object(Provider, "b", 3))], deed("ops", "create", "providers/b", 4)).await;
    let kept = all(objects).await;
    assert_eq!((kept.gone.as_slice(), kept.objects.get(1)), ([].as_slice(), Some(&object(Provider, "b", 3))));
}

async fn keys_go_with_their_client(objects: &dyn Objects) {
    for n in [3, 1, 2] {
        let client = if n == 2 { "of-a-file" } else { "rag" };
        done(objects, vec![Change::Issue(key(n, client))], deed("ops", "issue", "clients/rag/keys", 5)).await;
    }
    assert_eq!(all(objects).await.keys, [key(3, "rag"), key(1, "rag"), key(2, "of-a-file")], "in order of issue");
    done(objects, vec![Change::Remove(Route, "rag".into())], deed("ops", "delete", "routes/rag", 6)).await;
    assert_eq!(ids(&all(objects).await), ["key_3", "key_1", "key_2"], "a route is no client");
    done(objects, vec![Change::Remove(Client, "rag".into())], deed("ops", "delete", "clients/rag", 6)).await;
    assert_eq!(ids(&all(objects).await), ["key_2"]);
    done(objects, vec![Change::Remove(Client, "of-a-file".into())], deed("ops", "delete", "clients/of-a-file", 6))
        .await;
    assert_eq!(ids(&all(objects).await), [""; 0], "also where the client itself is no object");
    for n in [1, 2] {
        done(objects, vec![Change::Issue(key(n, "rag"))], deed("ops", "issue", "clients/rag/keys", 7)).await;
    }
    done(objects, vec![Change::Revoke(id(2))], deed("ops", "revoke", "clients/rag/keys/key_2", 7)).await;
    done(objects, vec![Change::Revoke(id(2))], deed("ops", "revoke", "clients/rag/keys/key_2", 7)).await;
    assert_eq!(ids(&all(objects).await), ["key_1"]);
}

async fn all_is_changed_or_nothing(objects: &dyn Objects) {
    let before = (all(objects).await, deeds(objects, Deeds { limit: 1, ..Deeds::default() }).await);
    for twice in [key(1, "b"), IssuedKey { id: id(9), ..key(1, "b") }, IssuedKey { digest: digest(9), ..key(1, "b") }] {
        let changes = vec![
            Change::Put(object(Provider, "c", 1)),
            Change::Remove(Provider, "a".into()),
            Change::Issue(key(8, "b")),
            Change::Issue(twice),
        ];
        let told = [deed("ops", "issue", "clients/b/keys", 8), deed("ops", "issue", "clients/b/keys", 8)];
        assert!(objects.change(changes, told.to_vec()).await.is_err(), "it is there");
    }
    let after = (all(objects).await, deeds(objects, Deeds { limit: 1, ..Deeds::default() }).await);
    assert_eq!(before, after);
}

async fn keys_remember_their_last_use(objects: &dyn Objects) {
    let used = async || all(objects).await.keys.first().and_then(|key| key.last_used);
    assert_eq!(used().await, None);
    for (n, time, known) in [(1, 7_200, 7_200), (1, 3_600, 7_200), (77, 9_000, 7_200), (1, 9_000, 9_000)] {
        assert_eq!(objects.used(vec![(id(n), at(time))]).await, Ok(()));
        assert_eq!(used().await, Some(at(known)));
    }
}

async fn deeds_are_found_by_what_is_asked(objects: &dyn Objects) {
    let which = |limit| Deeds { limit, ..Deeds::default() };
    let newest = deeds(objects, which(1_000)).await;
    let count = newest.len() as u64;
    assert_eq!(newest, (1..=count).rev().collect::<Vec<_>>(), "they are counted without gaps, the newest first");
    assert_eq!(deeds(objects, which(2)).await, [count, count - 1]);
    assert_eq!(deeds(objects, Deeds { before: Some(3), ..which(1_000) }).await, [2, 1]);
    assert_eq!(deeds(objects, Deeds { who: Some("root".into()), ..which(9) }).await, [1]);
    assert_eq!(deeds(objects, Deeds { object: Some("providers/b".into()), ..which(9) }).await, [5, 3, 2]);
    assert_eq!(deeds(objects, Deeds { object: Some("providers".into()), ..which(9) }).await, [5, 4, 3, 2]);
    assert_eq!(deeds(objects, Deeds { object: Some("provider".into()), ..which(9) }).await, [0; 0]);
    let (since, until) = (Some(at(2)), Some(at(4)));
    assert_eq!(deeds(objects, Deeds { since, until, ..which(9) }).await, [4, 3, 2], "`until` is not in it");
    let first = objects.deeds(Deeds { before: Some(4), limit: 2, ..Deeds::default() }).await;
    let mut told = first.unwrap_or_default().into_iter();
    assert_eq!(told.next(), Some(Deed { id: 3, ..deed("ops", "delete", "providers/b", 3) }));
    assert_eq!(told.next(), Some(Deed { id: 2, ..deed("ops", "replace", "providers/b", 2) }));
}

async fn one_change_may_leave_several_deeds(objects: &dyn Objects) {
    let before = deeds(objects, Deeds { limit: 1, ..Deeds::default() }).await;
    let last = before.first().copied().unwrap_or_default();
    let told = [deed("ops", "import", "routes/one", 9), deed("ops", "import", "routes/two", 9)];
    assert_eq!(objects.change(vec![Change::Put(object(Route, "one", 1))], told.to_vec()).await, Ok(()));
    for (name, id) in [("routes/one", last + 1), ("routes/two", last + 2)] {
        assert_eq!(deeds(objects, Deeds { object: Some(name.into()), limit: 9, ..Deeds::default() }).await, [id]);
    }
    done(objects, vec![Change::Remove(Route, "one".into())], deed("ops", "delete", "routes/one", 9)).await;
}
