//! What is promised of records on disk.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::file::Failure;

/// What a test does to the disk.
#[derive(Debug, Default)]
pub(super) struct Trial {
    full: AtomicBool,
}

impl Trial {
    pub fn be_full(&self) -> Result<(), Failure> {
        if self.full.load(Relaxed) { Err(Failure::Full("the disk is full".to_owned())) } else { Ok(()) }
    }
}

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use base::{Clock, Record};
use rusqlite::Connection;
use state::conformance::{self, record};
use state::requests::{Bounds, Request, Requests, Search};

use super::SqliteRequests;
use super::desk::Desk;

/// A test fails after so long.
const PATIENCE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// A folder of a test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("mai-requests-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn records(&self) -> PathBuf {
        self.0.join("requests.db")
    }

    fn open(&self) -> SqliteRequests {
        self.within(64 << 20)
    }

    fn within(&self, size: u64) -> SqliteRequests {
        SqliteRequests::open(&self.0, Bounds { keep: DAY, size, contents: false }).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn bytes(&self) -> u64 {
        std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn find(requests: &SqliteRequests, id: &str) -> Option<Box<Request>> {
    tokio::time::timeout(PATIENCE, requests.find(id)).await.unwrap().unwrap()
}

async fn search(requests: &SqliteRequests, search: Search) -> Vec<Request> {
    tokio::time::timeout(PATIENCE, requests.search(search)).await.unwrap().unwrap().requests
}

/// Records whose ids nobody can compress.
fn many(of: &str, count: u64) -> Vec<Record> {
    let id =
        |at: u64| format!("{of}-{at}-{:032x}", u128::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    (0..count).map(|at| record(&id(at))).collect()
}

#[tokio::test]
async fn records_on_disk_conform() {
    let folder = Folder::new();
    tokio::time::timeout(PATIENCE, conformance::requests(&folder.open())).await.unwrap();
}

#[tokio::test]
async fn records_outlive_the_process() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&[record("before")]);
    assert!(requests.flush(PATIENCE));
    drop(requests);
    let requests = folder.open();
    requests.note(&[record("after")]);
    assert!(find(&requests, "before").await.is_some());
    let found = search(&requests, Search { limit: 10, ..Search::default() }).await;
    assert_eq!(found.iter().map(|request| &*request.request_id).collect::<Vec<_>>(), ["after", "before"]);
}

#[tokio::test]
async fn without_traffic_there_is_no_file() {
    let folder = Folder::new();
    let requests = folder.open();
    assert!(requests.flush(PATIENCE));
    assert_eq!(find(&requests, "nobody").await, None);
    assert_eq!(folder.names(), [""; 0]);
}

#[tokio::test]
async fn the_oldest_records_go_first_and_the_file_stays_within_its_bound() {
    let folder = Folder::new();
    let requests = folder.within(2 << 20);
    let first = record("the first of all");
    requests.note(&[first]);
    for round in 0..40 {
        requests.note(&many(&format!("round-{round}"), 2_000));
        assert!(requests.flush(PATIENCE));
        assert!(folder.bytes() <= 2 << 20, "{} bytes in round {round}", folder.bytes());
    }
    requests.note(&[record("the last of all")]);
    assert!(requests.flush(PATIENCE));
    assert!(find(&requests, "the last of all").await.is_some());
    assert_eq!(find(&requests, "the first of all").await, None);
    assert_eq!(requests.health().lost, 0, "what was kept for its time is not lost");
    requests.bound(Bounds { keep: DAY, size: 1 << 20, contents: false });
    assert!(requests.flush(PATIENCE));
    drop(requests);
    assert!(folder.bytes() <= 1 << 20, "{} bytes after a smaller bound", folder.bytes());
}

#[tokio::test]
async fn what_is_past_its_time_goes() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&[Record { time: Clock.wall() - 2 * DAY, ..record("old") }]);
    assert!(requests.flush(PATIENCE));
    requests.note(&[record("new")]);
    assert!(requests.flush(PATIENCE));
    assert!(requests.flush(PATIENCE));
    assert_eq!(find(&requests, "old").await, None);
    assert!(find(&requests, "new").await.is_some());
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_a_new_one_begun() {
    let folder = Folder::new();
    std::fs::write(folder.records(), "this is no database, whatever it is called ".repeat(1_000)).unwrap();
    let requests = folder.open();
    requests.note(&[record("new")]);
    assert!(requests.flush(PATIENCE));
    assert!(find(&requests, "new").await.is_some());
    assert!(folder.names().iter().any(|name| name.starts_with("requests.db.damaged-")), "{:?}", folder.names());
    assert_eq!(requests.health().trouble, None);
}

#[tokio::test]
async fn another_programs_file_is_told_and_never_set_aside() {
    let folder = Folder::new();
    let other = Connection::open(folder.records()).unwrap();
    other.execute_batch("CREATE TABLE usage (sum INTEGER); INSERT INTO usage VALUES (7)").unwrap();
    let requests = folder.open();
    requests.note(&[record("new")]);
    while requests.health().trouble.is_none() {
        assert!(!requests.flush(Duration::from_millis(50)), "nothing can be written");
    }
    let told = requests.health().trouble.unwrap().what;
    assert!(told.contains("requests.db is another program's database: move it away"), "{told}");
    requests.desk.report_damage(super::desk::Which::Records, "a reader thinks so".to_owned());
    assert!(!requests.flush(Duration::from_millis(50)));
    assert_eq!(folder.names(), ["requests.db"]);
    assert_eq!(other.query_row("SELECT sum FROM usage", [], |row| row.get::<_, i64>(0)), Ok(7));
    assert!(find(&requests, "new").await.is_some(), "it waits in memory");
}

#[tokio::test]
async fn a_flipped_bit_costs_its_block_alone() {
    let folder = Folder::new();
    let requests = folder.open();
    for id in ["first", "second", "third"] {
        requests.note(&[record(id)]);
        assert!(requests.flush(PATIENCE));
    }
    let other = Connection::open(folder.records()).unwrap();
    other.execute("UPDATE bodies SET body = x'00ff00ff00ff' WHERE id = (SELECT min(id) + 0 FROM bodies)", []).unwrap();
    drop(other);
    assert_eq!(find(&requests, "first").await, None);
    let found = search(&requests, Search { limit: 10, ..Search::default() }).await;
    assert_eq!(found.iter().map(|request| &*request.request_id).collect::<Vec<_>>(), ["third", "second"]);
}

#[tokio::test]
async fn a_full_disk_makes_records_wait_and_costs_none_when_it_has_room_again() {
    let folder = Folder::new();
    let requests = SqliteRequests::with(&folder.0, Desk::new(Bounds { keep: DAY, size: 64 << 20, contents: false }));
    let requests = requests.unwrap();
    requests.desk.trial.full.store(true, Relaxed);
    requests.note(&many("waiting", 5_000));
    while requests.health().trouble.is_none() {
        assert!(!requests.flush(Duration::from_millis(50)), "nothing can be written");
    }
    let health = requests.health();
    assert_eq!((health.waiting, health.lost), (5_000, 0));
    assert_eq!(health.trouble.map(|trouble| trouble.what).as_deref(), Some("the disk is full"));
    assert_eq!(
        search(&requests, Search { limit: 10, ..Search::default() }).await.len(),
        10,
        "they are found meanwhile"
    );
    requests.desk.trial.full.store(false, Relaxed);
    assert!(requests.flush(PATIENCE));
    let health = requests.health();
    assert_eq!((health.waiting, health.lost, health.trouble), (0, 0, None));
}

#[tokio::test]
async fn what_does_not_fit_into_memory_is_lost_and_counted() {
    let folder = Folder::new();
    let requests = SqliteRequests::with(&folder.0, Desk::new(Bounds { keep: DAY, size: 64 << 20, contents: false }));
    let requests = requests.unwrap();
    requests.desk.trial.full.store(true, Relaxed);
    let some = many("many", 20_000);
    let mut noted = 0;
    while requests.health().lost == 0 {
        requests.note(&some);
        noted += some.len() as u64;
    }
    let health = requests.health();
    assert_eq!(health.waiting + health.lost, noted, "each record waits or is counted");
}

#[tokio::test]
async fn a_file_that_was_removed_is_begun_anew() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&[record("gone")]);
    assert!(requests.flush(PATIENCE));
    for name in folder.names() {
        std::fs::remove_file(folder.0.join(name)).unwrap();
    }
    requests.note(&[record("here")]);
    assert!(requests.flush(PATIENCE));
    assert!(find(&requests, "here").await.is_some());
    assert_eq!(find(&requests, "gone").await, None);
}

#[tokio::test]
async fn a_file_that_another_process_holds_locked_makes_records_wait() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&[record("first")]);
    assert!(requests.flush(PATIENCE));
    let other = Connection::open(folder.records()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    requests.note(&[record("second")]);
    assert!(!requests.flush(Duration::from_millis(100)));
    assert!(find(&requests, "second").await.is_some());
    other.execute_batch("COMMIT").unwrap();
    assert!(requests.flush(PATIENCE));
    assert_eq!(requests.health().lost, 0);
}
