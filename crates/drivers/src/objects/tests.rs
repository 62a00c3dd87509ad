//! Objects in real files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Object, ObjectKind, Secret};
use rusqlite::Connection;
use state::objects::{Change, Deed, Deeds, IssuedKey, KeyDigest, MOST_ANSWERED, MOST_DEED_BYTES, MOST_DEEDS};
use state::{Objects as _, Unreadable, conformance};

use super::{SecretKey, SqliteObjects};
use crate::scratch::Folder;

impl Folder {
    fn objects(&self) -> SqliteObjects {
        self.objects_with(None)
    }

    fn objects_with(&self, given: Option<&str>) -> SqliteObjects {
        SqliteObjects::patient(self.at("objects.db"), SecretKey::of(given, &self.0).unwrap(), Duration::from_millis(50))
    }

    /// Every byte of every file but the key of secrets.
    fn all_bytes(&self) -> Vec<u8> {
        let files = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| !path.ends_with("secrets.key"));
        files.flat_map(|path| std::fs::read(path).unwrap()).collect()
    }
}

fn provider(name: &str) -> Change {
    let written = Secret::new(format!(r#"{{"name":"{name}","api_key":"{}"}}"#, conformance::SECRET));
    Change::Put(Object {
        kind: ObjectKind::Provider,
        name: name.into(),
        written,
        revision: 1,
        changed: Duration::from_secs(5),
    })
}

fn key(id: &str, digest: [u8; 32]) -> Change {
    Change::Issue(IssuedKey {
        id: id.into(),
        client: "app".into(),
        digest: KeyDigest(digest),
        note: "of a test".into(),
        by: "ops".into(),
        created: Duration::from_secs(5),
        expires: None,
        last_used: None,
    })
}

async fn change(objects: &SqliteObjects, changes: Vec<Change>) -> Result<(), String> {
    objects.change(changes, vec![Deed::default()]).await.map_err(|Unreadable(why)| why)
}

async fn names(objects: &SqliteObjects) -> Result<Vec<String>, String> {
    let kept = objects.all().await.map_err(|Unreadable(why)| why)?;
    Ok(kept.objects.iter().map(|object| object.name.to_string()).collect())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn they_conform_and_no_secret_stands_in_any_file() {
    let folder = Folder::new();
    // A reader that stays keeps the log from being taken into the file: what was written is in both.
    conformance::objects(&folder.objects()).await;
    let reader = Connection::open(folder.at("objects.db")).unwrap();
    reader.query_row("SELECT COUNT(*) FROM keys", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(change(&folder.objects(), vec![provider("late")]).await, Ok(()));
    assert!(folder.at("objects.db-wal").metadata().unwrap().len() > 0);
    let bytes = folder.all_bytes();
    assert!(holds(&bytes, b"note 1") && holds(&bytes, b"clients/rag/keys"), "it is the right file");
    let digest = conformance::digest(1).0;
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for secret in [conformance::SECRET.as_bytes(), b"api_key", &digest[..], hex.as_bytes(), &digest[..8]] {
        assert!(!holds(&bytes, secret), "{}", String::from_utf8_lossy(secret));
    }
    let kept = folder.objects().all().await.unwrap();
    assert!(kept.objects.iter().any(|object| object.written.expose().contains(conformance::SECRET)));
    assert_eq!(kept.keys[0].digest, conformance::digest(1));
}

#[tokio::test]
async fn nothing_is_made_before_something_is_kept_and_then_for_nobody_else_to_read() {
    let folder = Folder::new();
    let objects = SqliteObjects::at(folder.at("a/b/objects.db"), SecretKey::of(None, &folder.0).unwrap());
    assert!(objects.all().await.is_ok() && objects.deeds(Deeds::default()).await.is_ok());
    assert_eq!(objects.used(vec![("key_1".into(), Duration::from_secs(1))]).await, Ok(()));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    assert_eq!((mode(&folder.at("a/b/objects.db")), mode(&folder.at("secrets.key"))), (0o600, 0o600));
    let written = std::fs::read_to_string(folder.at("secrets.key")).unwrap();
    assert!(written.len() == 65 && written.ends_with('\n'), "64 hex digits");
    assert!(!folder.at("secrets.key.new").exists());
    assert_eq!(change(&objects, vec![provider("b")]).await, Ok(()));
    assert_eq!(std::fs::read_to_string(folder.at("secrets.key")).unwrap(), written, "it is made once");
    // The same key may come from the environment instead.
    std::fs::remove_file(folder.at("secrets.key")).unwrap();
    let given = SecretKey::of(Some(written.trim()), &folder.0).unwrap();
    assert_eq!(names(&SqliteObjects::at(folder.at("a/b/objects.db"), given)).await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn without_the_right_key_it_is_told_and_nothing_is_lost() {
    let folder = Folder::new();
    let file = folder.at("secrets.key");
    assert_eq!(change(&folder.objects(), vec![provider("a"), key("key_1", [1; 32])]).await, Ok(()));
    let right = std::fs::read(&file).unwrap();
    let before = folder.all_bytes();
    let (other, wrong) = ("77".repeat(32), |text: &str| std::fs::write(&file, text).unwrap());
    let told = async |given: Option<&str>, says: &[&str]| {
        let objects = folder.objects_with(given);
        for told in [names(&objects).await.map(drop), change(&objects, vec![provider("b")]).await] {
            let why = told.unwrap_err();
            assert!(says.iter().all(|part| why.contains(part)), "{why}");
        }
    };
    let path = file.display().to_string();
    std::fs::remove_file(&file).unwrap();
    told(None, &[&path, "is missing", "put that file back", "nothing is lost"]).await;
    assert!(!file.exists(), "no other key is made");
    wrong(&other);
    told(None, &[&path, "is not the key", "put the right file back"]).await;
    for text in ["", "77", "no key at all", "\u{0}"] {
        wrong(text);
        told(None, &[&path, "64 hex digits", "put a copy of it back"]).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "what is there is left as it is");
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    told(None, &[&path, "cannot be read"]).await;
    std::fs::remove_dir(&file).unwrap();
    told(Some(&other), &["MAI_SECRET_KEY is not the key", "set the right one", &path]).await;
    assert!(SecretKey::of(Some("77"), &folder.0).unwrap_err().contains("MAI_SECRET_KEY must be 64 hex digits"));
    // What needs no secret can still be done: a key that leaked is taken back.
    assert_eq!(folder.all_bytes(), before);
    assert_eq!(change(&folder.objects(), vec![Change::Revoke("key_1".into())]).await, Ok(()));
    assert!(folder.objects().deeds(Deeds { limit: 1, ..Deeds::default() }).await.is_ok());
    std::fs::write(&file, right).unwrap();
    let kept = folder.objects().all().await.unwrap();
    assert_eq!((kept.objects.len(), kept.keys.len()), (1, 0));
}

#[tokio::test]
async fn a_damaged_file_is_told_and_left_as_it_is() {
    for garbage in [&b"no database, but a text of some length"[..], &[0xff; 8192]] {
        let folder = Folder::new();
        std::fs::write(folder.at("objects.db"), garbage).unwrap();
        let objects = folder.objects();
        for told in [names(&objects).await.map(drop), change(&objects, vec![provider("a")]).await] {
            let why = told.unwrap_err();
            assert!(why.contains("objects.db is damaged") && why.contains("put a copy of it back"), "{why}");
        }
        assert_eq!(std::fs::read(folder.at("objects.db")).unwrap(), garbage);
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is set aside, and no key made");
    }
}

#[tokio::test]
async fn a_value_that_nobody_wrote_is_damage_and_its_file_is_named() {
    let folder = Folder::new();
    assert_eq!(change(&folder.objects(), vec![provider("a")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    // Bytes of a name that are no text any more.
    assert_eq!(other.execute("UPDATE objects SET name = CAST(x'ff' AS TEXT)", []), Ok(1));
    let why = names(&folder.objects()).await.unwrap_err();
    assert!(why.contains("objects.db is damaged") && why.contains("put a copy of it back"), "{why}");
}

#[tokio::test]
async fn a_sealed_text_is_good_in_its_own_row_alone() {
    let folder = Folder::new();
    let objects = folder.objects();
    assert_eq!(change(&objects, vec![provider("a"), provider("b")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    let swap = "UPDATE objects SET written = (SELECT written FROM objects WHERE name = 'a') WHERE name = 'b'";
    assert_eq!(other.execute(swap, []), Ok(1));
    let why = names(&objects).await.unwrap_err();
    assert!(why.contains("is damaged (what provider `b` says)"), "{why}");
}

#[tokio::test]
async fn the_file_of_a_newer_gateway_is_refused() {
    let folder = Folder::new();
    let objects = folder.objects();
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    Connection::open(folder.at("objects.db")).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    for told in [names(&objects).await.map(drop), change(&objects, vec![provider("b")]).await] {
        let why = told.unwrap_err();
        assert!(why.contains("newer version of the gateway; run that one"), "{why}");
    }
}

#[tokio::test]
async fn a_locked_file_and_a_full_disk_are_errors_and_change_nothing() {
    let folder = Folder::new();
    let objects = folder.objects();
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let why = change(&objects, vec![provider("b")]).await.unwrap_err();
    assert!(why.contains("another process holds the database locked"), "{why}");
    assert_eq!(names(&objects).await.unwrap(), ["a"], "it can still be read");
    other.execute_batch("COMMIT").unwrap();
    objects.place.room.store(2, Ordering::Relaxed);
    let many = (0..500).map(|n| provider(&format!("many-{n}"))).collect();
    let why = change(&objects, many).await.unwrap_err();
    assert!(why.contains("the disk is full"), "{why}");
    assert_eq!(names(&objects).await.unwrap(), ["a"]);
    objects.place.room.store(0, Ordering::Relaxed);
    assert_eq!(change(&objects, vec![provider("b")]).await, Ok(()));
    assert_eq!(names(&objects).await.unwrap(), ["a", "b"]);
    assert_eq!(
        objects.deeds(Deeds { limit: 9, ..Deeds::default() }).await.unwrap().len(),
        2,
        "what failed left no deed"
    );
}

#[tokio::test]
async fn two_processes_may_share_a_file_from_the_first_secret_on() {
    let folder = Folder::new();
    let patient = || SqliteObjects::at(folder.at("objects.db"), SecretKey::of(None, &folder.0).unwrap());
    let (one, other) = (patient(), patient());
    let (first, second) = tokio::join!(change(&one, vec![provider("a")]), change(&other, vec![provider("b")]));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(names(&one).await.unwrap(), ["a", "b"]);
    assert_eq!(names(&other).await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn the_oldest_deeds_go_first() {
    let folder = Folder::new();
    let objects = folder.objects();
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    let fill = "WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
                INSERT INTO deeds SELECT n, 0, '', '', 'fill', '', NULL, NULL FROM n";
    other.execute(fill, [MOST_DEEDS as i64]).unwrap();
    for _ in 0..2 {
        assert_eq!(change(&objects, vec![]).await, Ok(()));
    }
    let all = objects.deeds(Deeds { limit: usize::MAX, ..Deeds::default() }).await.unwrap();
    let ends = (all.first().unwrap().id, all.last().unwrap().id, all.len());
    assert_eq!(ends, (MOST_DEEDS as u64 + 2, 3, MOST_DEEDS));
}

#[tokio::test]
async fn no_more_than_a_few_questions_are_asked_at_a_time() {
    let folder = Folder::new();
    let objects = SqliteObjects::at(folder.at("objects.db"), SecretKey::of(None, &folder.0).unwrap());
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting: Vec<_> = (0..8).map(|_| objects.change(vec![], vec![Deed::default()])).collect();
    let why = names(&objects).await.unwrap_err();
    assert!(why.contains("too many"), "{why}");
    other.execute_batch("COMMIT").unwrap();
    for answer in waiting {
        assert_eq!(answer.await, Ok(()), "what waited for a lock is done once it is free");
    }
    assert_eq!(names(&objects).await.unwrap(), ["a"]);
}

#[tokio::test]
async fn whoever_reads_the_audit_log_takes_no_place_from_those_who_change_something() {
    let folder = Folder::new();
    let objects = SqliteObjects::at(folder.at("objects.db"), SecretKey::of(None, &folder.0).unwrap());
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    // Readers are locked out too.
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM deeds WHERE 0; COMMIT").unwrap();
    let reading: Vec<_> = (0..20).map(|_| objects.deeds(Deeds { limit: 9, ..Deeds::default() })).collect();
    let changing = objects.change(vec![provider("b")], vec![Deed::default()]);
    drop(other);
    assert_eq!(changing.await, Ok(()));
    let mut refused = 0;
    for answer in reading {
        refused += usize::from(answer.await.is_err_and(|Unreadable(why)| why.contains("too many")));
    }
    assert_eq!(refused, 16);
}

#[tokio::test]
async fn the_oldest_deeds_make_room_for_the_texts_of_new_ones() {
    let folder = Folder::new();
    let objects = folder.objects();
    let deed = |bytes| Deed { after: Some("x".repeat(bytes).into()), ..Deed::default() };
    for _ in 0..3 {
        assert_eq!(objects.change(vec![], vec![deed(1_000)]).await, Ok(()));
    }
    let other = Connection::open(folder.at("objects.db")).unwrap();
    let size = || other.query_row("SELECT bytes FROM deeds_size", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(size(), 3_000);
    // As if others had filled it.
    let full = MOST_DEED_BYTES as i64 - 100;
    assert_eq!(other.execute("UPDATE deeds_size SET bytes = ?1", [full]), Ok(1));
    assert_eq!(objects.change(vec![], vec![deed(1_500)]).await, Ok(()));
    let left = objects.deeds(Deeds { limit: 9, ..Deeds::default() }).await.unwrap();
    assert_eq!(left.iter().map(|deed| deed.id).collect::<Vec<_>>(), [4, 3]);
    assert_eq!(size(), full - 500);
}

#[tokio::test]
async fn an_answer_about_deeds_ends_with_the_first_one_that_has_no_room() {
    let folder = Folder::new();
    let (disk, memory) = (folder.objects(), state::objects::InProcessObjects::default());
    for objects in [&disk as &dyn state::Objects, &memory] {
        for bytes in [100, MOST_ANSWERED - 10, 5, 5, 5] {
            let deed = Deed { before: Some("x".repeat(bytes).into()), ..Deed::default() };
            assert_eq!(objects.change(vec![], vec![deed]).await, Ok(()));
        }
        let found = async |before| {
            let found = objects.deeds(Deeds { before, limit: 9, ..Deeds::default() }).await.unwrap();
            found.iter().map(|deed| deed.id).collect::<Vec<_>>()
        };
        assert_eq!(found(None).await, [5, 4, 3, 2], "the last of them is one too many");
        assert_eq!(found(Some(3)).await, [2, 1], "one is given out however long it is");
        assert_eq!(found(Some(2)).await, [1]);
    }
}

#[tokio::test]
async fn a_file_of_another_kind_is_told_and_left_as_it_is() {
    let folder = Folder::new();
    Connection::open(folder.at("objects.db")).unwrap().execute_batch("CREATE TABLE usage (quarter INTEGER)").unwrap();
    let why = change(&folder.objects(), vec![provider("a")]).await.unwrap_err();
    assert!(why.contains("another program's database: move it away"), "{why}");
    let tables = "SELECT group_concat(name) FROM sqlite_schema";
    let tables =
        Connection::open(folder.at("objects.db")).unwrap().query_row(tables, [], |row| row.get::<_, String>(0));
    assert_eq!(tables.unwrap(), "usage");
}

#[tokio::test]
async fn a_file_that_is_removed_replaced_or_emptied_while_in_use_is_told_and_nothing_begins_anew() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 4] = [
        ("removed", |file| std::fs::remove_file(file).unwrap()),
        ("replaced", |file| {
            let other = file.with_extension("other");
            std::fs::copy(file, &other).unwrap();
            std::fs::rename(&other, file).unwrap();
        }),
        ("emptied", |file| std::fs::write(file, []).unwrap()),
        // As `cp` does it, which leaves the file where it is.
        ("overwritten", |file| assert!(std::fs::copy(file.with_extension("copy"), file).unwrap() > 0)),
    ];
    for (harm, act) in harms {
        let folder = Folder::new();
        let objects = folder.objects();
        assert_eq!(change(&objects, vec![provider("zero")]).await, Ok(()));
        std::fs::copy(folder.at("objects.db"), folder.at("objects.copy")).unwrap();
        assert_eq!(change(&objects, vec![provider("one")]).await, Ok(()));
        for part in ["objects.db-wal", "objects.db-shm"] {
            let _ = std::fs::remove_file(folder.at(part));
        }
        act(&folder.at("objects.db"));
        let before = std::fs::read(folder.at("objects.db")).ok();
        objects.look().await;
        assert!(objects.health().is_some(), "{harm}: also where nobody changes anything");
        for _ in 0..2 {
            let told = change(&objects, vec![provider("two")]).await.unwrap_err();
            assert!(told.contains("was removed or replaced while the gateway ran"), "{harm}: {told}");
        }
        assert_eq!(std::fs::read(folder.at("objects.db")).ok(), before, "{harm}: it is left as it is");
        if harm == "removed" {
            assert_eq!(change(&folder.objects(), vec![provider("two")]).await, Ok(()), "a new start goes on");
        }
    }
}

#[tokio::test]
async fn what_is_kept_is_read_where_nothing_can_be_written_and_that_is_told_until_something_can() {
    let folder = Folder::new();
    assert_eq!(change(&folder.objects(), vec![provider("a"), key("key_1", [1; 32])]).await, Ok(()));
    // Nobody can make what SQLite needs beside the file, not even root: as on a full disk.
    let index = folder.at("objects.db-shm");
    std::os::unix::fs::symlink(&index, &index).unwrap();
    let objects = folder.objects();
    let kept = objects.all().await.unwrap();
    assert_eq!((kept.objects.len(), kept.keys.len()), (1, 1));
    let trouble = objects.health().unwrap();
    assert!(trouble.what.contains("cannot be opened"), "{trouble:?}");
    assert!(change(&objects, vec![provider("b")]).await.is_err());
    assert_eq!(objects.deeds(Deeds { limit: 9, ..Deeds::default() }).await.unwrap().len(), 1);
    let late = folder.objects();
    late.look().await;
    assert!(late.health().is_some(), "also where nothing was asked yet");
    objects.look().await;
    assert_eq!(objects.health().map(|still| still.since), Some(trouble.since));
    std::fs::remove_file(&index).unwrap();
    objects.look().await;
    assert_eq!(objects.health(), None);
    assert_eq!(change(&objects, vec![provider("b")]).await, Ok(()));
    assert_eq!(names(&objects).await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn how_the_store_does_is_known_from_what_was_asked_last_and_from_a_look() {
    let folder = Folder::new();
    let objects = folder.objects();
    assert_eq!(change(&objects, vec![provider("a"), key("key_1", [1; 32])]).await, Ok(()));
    assert!(change(&objects, vec![key("key_1", [1; 32])]).await.is_err());
    assert_eq!(objects.health(), None, "who asks for what cannot be is no trouble of the store");
    let aside = folder.at("aside.db");
    std::fs::rename(folder.at("objects.db"), &aside).unwrap();
    objects.look().await;
    assert!(objects.health().unwrap().what.contains("was removed or replaced"));
    std::fs::rename(&aside, folder.at("objects.db")).unwrap();
    objects.look().await;
    assert_eq!(objects.health(), None);
    objects.place.room.store(2, Ordering::Relaxed);
    let many = (0..500).map(|n| provider(&format!("many-{n}"))).collect();
    assert!(change(&objects, many).await.is_err());
    assert!(names(&objects).await.is_ok());
    assert!(objects.health().is_some(), "that it can be read does not say that it can be written");
    objects.place.room.store(0, Ordering::Relaxed);
    assert_eq!(change(&objects, vec![provider("b")]).await, Ok(()));
    assert_eq!(objects.health(), None);
}

#[tokio::test]
async fn a_folder_in_which_nothing_can_be_made_is_told_before_anything_is_kept() {
    let folder = Folder::new();
    let objects = folder.objects();
    objects.look().await;
    assert_eq!(objects.health(), None);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left of the look");
    // Nobody can make it, not even root.
    std::os::unix::fs::symlink(folder.at("nowhere/b"), folder.at("a")).unwrap();
    let objects = SqliteObjects::at(folder.at("a/objects.db"), SecretKey::of(None, &folder.0).unwrap());
    objects.look().await;
    assert!(objects.health().is_some());
    std::fs::create_dir_all(folder.at("nowhere/b")).unwrap();
    objects.look().await;
    assert_eq!(objects.health(), None);
}

#[tokio::test]
async fn what_cannot_be_read_for_a_while_can_be_written_all_the_same_and_is_not_called_out() {
    let folder = Folder::new();
    let objects = folder.objects();
    assert_eq!(change(&objects, vec![provider("a")]).await, Ok(()));
    let other = Connection::open(folder.at("objects.db")).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    assert!(objects.deeds(Deeds { limit: 9, ..Deeds::default() }).await.is_err());
    assert_eq!(objects.health(), None, "nobody wanted to write");
    objects.look().await;
    assert!(objects.health().is_some(), "but the next look finds out whether anything can be written");
    drop(other);
    objects.look().await;
    assert_eq!(objects.health(), None);
    assert!(objects.deeds(Deeds { limit: 9, ..Deeds::default() }).await.is_ok());
}

#[tokio::test]
async fn a_file_that_comes_from_a_copy_is_closed_to_others_and_an_open_key_is_noticed() {
    let folder = Folder::new();
    assert_eq!(change(&folder.objects(), vec![provider("a")]).await, Ok(()));
    for file in ["objects.db", "secrets.key"] {
        std::fs::set_permissions(folder.at(file), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let objects = folder.objects();
    assert!(objects.all().await.is_ok());
    assert_eq!(mode(&folder.at("objects.db")) & 0o777, 0o640);
    assert!(objects.place.key.is_open_to_others(), "the log says so");
    std::fs::set_permissions(folder.at("secrets.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!objects.place.key.is_open_to_others());
}
