//! The ledger in real files, in real time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use state::{Columns, Entry, Ledger, Question, Sums};

use super::SqliteLedger;

const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of a test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mai-ledger-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("gateway.db")
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn entry(client: &str) -> Entry {
    Entry {
        at: Duration::from_secs(1_796_000_000),
        client: client.into(),
        route: "chat".into(),
        upstream: "a/m".into(),
        model: "m".into(),
        currency: "USD".into(),
        sums: Sums { requests: 1, tokens_in: 10, cost: 7, ..Sums::default() },
    }
}

fn ledger(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path.to_owned()).unwrap()
}

async fn requests(ledger: &SqliteLedger) -> u64 {
    let rows = tokio::time::timeout(PATIENCE, ledger.report(Question::default()).into_future()).await.unwrap().unwrap();
    rows.iter().map(|row| row.sums.requests).sum()
}

/// Waits for what the ledger's thread is about to do.
async fn comes_to(ledger: &SqliteLedger, what: impl Fn(&state::Health) -> bool) {
    for _ in 0..3000 {
        if what(&ledger.health()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", ledger.health());
}

#[tokio::test]
async fn it_conforms() {
    let folder = Folder::new();
    state::conformance::ledger(&ledger(&folder.file())).await;
}

#[tokio::test]
async fn what_was_booked_is_there_after_a_restart() {
    let folder = Folder::new();
    for count in 1..=3 {
        let ledger = ledger(&folder.file());
        ledger.book(vec![entry("a")]);
        assert!(ledger.flush(PATIENCE));
        assert_eq!(requests(&ledger).await, count);
    }
}

#[tokio::test]
async fn entries_are_committed_within_a_tenth_of_a_second_by_themselves() {
    let folder = Folder::new();
    let ledger = ledger(&folder.file());
    assert_eq!(requests(&ledger).await, 0);
    ledger.book(vec![entry("a")]);
    comes_to(&ledger, |health| health.waiting == 0).await;
    let other = Connection::open(folder.file()).unwrap();
    assert_eq!(other.query_row("SELECT SUM(requests) FROM usage", [], |row| row.get::<_, i64>(0)), Ok(1));
}

#[tokio::test]
async fn two_processes_may_write_to_one_file() {
    let folder = Folder::new();
    let (one, other) = (ledger(&folder.file()), ledger(&folder.file()));
    for _ in 0..50 {
        one.book(vec![entry("a")]);
        other.book(vec![entry("a")]);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(one.flush(PATIENCE) && other.flush(PATIENCE));
    assert_eq!(requests(&one).await, 100);
}

#[tokio::test]
async fn a_locked_file_makes_entries_wait_and_loses_none() {
    let folder = Folder::new();
    let ledger = ledger(&folder.file());
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..10 {
        ledger.book(vec![entry("a"), entry("b")]);
    }
    comes_to(&ledger, |health| health.trouble.is_some()).await;
    let health = ledger.health();
    assert!(health.trouble.unwrap().what.contains("another process holds the database locked"));
    assert_eq!((health.waiting, health.lost), (2, 0), "entries alike are one");
    // A reader is not locked out, and sees what waits.
    assert_eq!(requests(&ledger).await, 21);
    assert!(!ledger.flush(Duration::from_millis(50)));
    other.execute_batch("COMMIT").unwrap();
    comes_to(&ledger, |health| health.trouble.is_none() && health.waiting == 0).await;
    assert_eq!(requests(&ledger).await, 21);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_answers_when_it_can_and_never_twice() {
    let folder = Folder::new();
    drop(ledger(&folder.file()));
    let first = ledger(&folder.file());
    first.book(vec![entry("a")]);
    assert!(first.flush(PATIENCE));
    drop(first);
    let other = Connection::open(folder.file()).unwrap();
    // Readers are locked out too: as when another program has the file open for itself alone.
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM usage WHERE 0; COMMIT").unwrap();
    let locked = ledger(&folder.file());
    locked.book(vec![entry("a")]);
    let asked = locked.report(Question::default()).into_future();
    locked.book(vec![entry("a")]);
    comes_to(&locked, |health| health.trouble.is_some()).await;
    drop(other);
    let rows = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
    assert_eq!(rows.iter().map(|row| row.sums.requests).sum::<u64>(), 2, "what was booked afterwards is not in it");
    assert!(locked.flush(PATIENCE));
    assert_eq!(requests(&locked).await, 3);
}

#[tokio::test]
async fn a_damaged_file_is_set_aside() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "this is no database, but long enough to be taken for a page. ".repeat(100)).unwrap();
    let ledger = ledger(&folder.file());
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    assert_eq!(requests(&ledger).await, 1);
    assert!(folder.names().iter().any(|name| name.starts_with("gateway.db.damaged-")), "{:?}", folder.names());
}

#[tokio::test]
async fn a_file_that_is_damaged_or_removed_while_it_is_used_is_begun_anew() {
    let folder = Folder::new();
    let ledger = ledger(&folder.file());
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    for part in ["gateway.db", "gateway.db-wal", "gateway.db-shm"] {
        let _ = std::fs::remove_file(folder.0.join(part));
    }
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    assert!(folder.file().exists());
    assert_eq!(requests(&ledger).await, 1);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_left_alone() {
    let folder = Folder::new();
    Connection::open(folder.file()).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    let ledger = ledger(&folder.file());
    ledger.book(vec![entry("a")]);
    comes_to(&ledger, |health| health.trouble.is_some()).await;
    assert!(ledger.health().trouble.unwrap().what.contains("newer version"));
    assert!(!folder.names().iter().any(|name| name.contains("damaged")));
}

#[tokio::test]
async fn a_place_where_no_file_can_be_is_a_trouble_and_no_crash() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("file"), "").unwrap();
    let ledger = ledger(&folder.0.join("file/gateway.db"));
    ledger.book(vec![entry("a")]);
    comes_to(&ledger, |health| health.trouble.is_some()).await;
    assert_eq!(ledger.health().waiting, 1);
}

#[tokio::test]
async fn memory_is_bounded_and_what_does_not_fit_is_counted() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("file"), "").unwrap();
    let ledger = ledger(&folder.0.join("file/gateway.db"));
    for from in (0..200_000).step_by(5_000) {
        ledger.book((from..from + 5_000).map(|number| entry(&format!("client-{number}"))).collect());
        // What is on its way comes to the thread.
        assert!(!ledger.flush(Duration::from_millis(10)));
    }
    let is_full = |health: &state::Health| health.waiting == 100_000 && health.lost == 100_000;
    comes_to(&ledger, is_full).await;
    // What is alike what waits is still added.
    ledger.book(vec![entry("client-0")]);
    assert!(!ledger.flush(Duration::from_millis(10)));
    comes_to(&ledger, is_full).await;
}

#[tokio::test]
async fn reports_are_by_day_and_client() {
    let folder = Folder::new();
    let ledger = ledger(&folder.file());
    ledger.book(vec![entry("a"), entry("b"), entry("b")]);
    let by = Columns { client: true, day: true, ..Columns::default() };
    let mut rows = ledger.report(Question { by, ..Question::default() }).await.unwrap();
    rows.sort_by_key(|row| row.client.clone());
    let seen: Vec<_> = rows.iter().map(|row| (row.day, &*row.client, row.sums.requests, row.sums.cost)).collect();
    assert_eq!(seen, [(Some(20_787), "a", 1, 7), (Some(20_787), "b", 2, 14)]);
}
