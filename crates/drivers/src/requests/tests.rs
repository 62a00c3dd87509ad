//! What is promised of records on disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::{Clock, Record};
use rusqlite::Connection;
use state::conformance::{self, record};
use state::requests::{Bounds, Content, Request, Requests, Search};

use super::desk::{Desk, Which};
use super::reader::Question;
use super::{SqliteRequests, reader};
use crate::file::Failure;
use crate::scratch::Folder;

/// What a test does to the disk.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// It is full.
    full: AtomicBool,
    /// The same for texts alone.
    full_for_contents: AtomicBool,
    /// It has room for so many blocks at once, where that is not 0.
    room: AtomicUsize,
    /// It is so slow that the time of each page is over before it has begun.
    slow: AtomicBool,
    /// How often it was asked to write, and how many blocks were packed for that.
    tries: AtomicUsize,
    packed: AtomicUsize,
}

impl Trial {
    pub fn pack(&self) {
        self.packed.fetch_add(1, Relaxed);
    }

    pub fn be_full(&self, which: Which, blocks: usize) -> Result<(), Failure> {
        self.tries.fetch_add(1, Relaxed);
        let is_full = self.full.load(Relaxed)
            || (which == Which::Contents && self.full_for_contents.load(Relaxed))
            || (1..blocks).contains(&self.room.load(Relaxed));
        if is_full { Err(Failure::Full("the disk is full".to_owned())) } else { Ok(()) }
    }

    pub fn hurry(&self, until: &mut Instant) {
        if self.slow.load(Relaxed) {
            *until = Clock.now();
        }
    }
}

/// A test fails after so long.
const PATIENCE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

impl Folder {
    fn records(&self) -> PathBuf {
        self.0.join("requests.db")
    }

    fn open(&self) -> SqliteRequests {
        self.within(64 << 20)
    }

    fn within(&self, size: u64) -> SqliteRequests {
        SqliteRequests::open(&self.0, Bounds { keep: DAY, size, contents: false }).unwrap()
    }
}

async fn find(requests: &SqliteRequests, id: &str) -> Option<Box<Request>> {
    tokio::time::timeout(PATIENCE, requests.find(id)).await.unwrap().unwrap()
}

async fn search(requests: &SqliteRequests, search: Search) -> Vec<Request> {
    tokio::time::timeout(PATIENCE, requests.search(search)).await.unwrap().unwrap().requests
}

/// All that is asked for, page by page, and how many pages that took.
async fn pages(requests: &SqliteRequests, limit: usize) -> (Vec<String>, usize) {
    let (mut asked, mut found, mut count) = (Search { limit, ..Search::default() }, Vec::new(), 0);
    loop {
        let page = tokio::time::timeout(PATIENCE, requests.search(asked.clone())).await.unwrap().unwrap();
        count += 1;
        found.extend(page.requests.into_iter().map(|request| request.request_id.into_string()));
        let Some(next) = page.next else { return (found, count) };
        assert!(asked.after.is_none_or(|after| next < after), "{next:?} is no progress from {:?}", asked.after);
        asked.after = Some(next);
    }
}

/// Ids of blocks, from the first on.
fn ids(folder: &Folder) -> Vec<i64> {
    let other = Connection::open(folder.records()).unwrap();
    let mut select = other.prepare("SELECT id FROM blocks ORDER BY id").unwrap();
    let ids = select.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

/// What is there was written by a clock that was a day ahead of this one.
fn set_clock_back(folder: &Folder) {
    let other = Connection::open(folder.records()).unwrap();
    for table in ["blocks", "prints", "bodies"] {
        other.execute(&format!("UPDATE {table} SET id = id + 86400000000"), []).unwrap();
    }
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
    assert!(folder.bytes() <= 1 << 20, "{} bytes after a smaller bound", folder.bytes());
}

#[tokio::test]
async fn what_was_noted_while_the_clock_was_ahead_goes_with_what_was_noted_after_it() {
    let folder = Folder::new();
    let requests = folder.open();
    for (id, time) in [("ahead", Clock.wall() + 365 * DAY), ("old", Clock.wall() - 2 * DAY), ("new", Clock.wall())] {
        requests.note(&[Record { time, ..record(id) }]);
        assert!(requests.flush(PATIENCE));
    }
    assert!(requests.flush(PATIENCE));
    assert_eq!(find(&requests, "ahead").await, None);
    assert_eq!(find(&requests, "old").await, None);
    assert!(find(&requests, "new").await.is_some());
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

const NONE: Bounds = Bounds { keep: Duration::ZERO, size: 64 << 20, contents: false };

#[tokio::test]
async fn what_is_kept_no_more_is_found_by_nobody_while_its_file_is_being_removed() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&[record("one")]);
    assert!(requests.close(PATIENCE));
    for harm in [None, Some("half of it is removed already")] {
        if let Some(harm) = harm {
            std::fs::write(folder.records(), harm.repeat(400)).unwrap();
        }
        // Nobody writes: the file stays where it is.
        let desk = Desk::new(Bounds { keep: DAY, ..NONE });
        for (bounds, is_kept) in [(Bounds { keep: DAY, ..NONE }, true), (NONE, false)] {
            desk.bound(bounds);
            let (asks, asked) = std::sync::mpsc::sync_channel(2);
            let ((tells, told), (lists, listed)) = (tokio::sync::oneshot::channel(), tokio::sync::oneshot::channel());
            asks.send(Question::Find("one".into(), tells)).unwrap();
            asks.send(Question::Search(Box::new(Search { limit: 10, ..Search::default() }), lists)).unwrap();
            drop(asks);
            reader::read_out(&desk, &[folder.records(), folder.0.join("contents.db")], &asked);
            let found = told.await.unwrap().map(|found| found.is_some());
            let listed = listed.await.unwrap().map(|page| page.requests.len());
            match (is_kept, harm) {
                (true, None) => assert_eq!((found, listed), (Ok(true), Ok(1))),
                (true, Some(_)) => {
                    assert!(found.is_err() && listed.is_err() && desk.take_damage(Which::Records).is_some())
                }
                (false, _) => assert_eq!((found, listed, desk.take_damage(Which::Records)), (Ok(false), Ok(0), None)),
            }
        }
    }
}

#[tokio::test]
async fn where_no_record_is_kept_the_file_goes_and_what_was_set_aside_of_it() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&many("before", 5_000));
    assert!(requests.flush(PATIENCE));
    std::fs::write(folder.0.join("requests.db.damaged-1"), "records of a year ago").unwrap();
    assert!(folder.names().contains(&"requests.db".to_owned()));
    requests.bound(NONE);
    assert!(requests.flush(PATIENCE));
    assert_eq!(folder.names(), [""; 0]);
    requests.note(&[record("meanwhile")]);
    assert!(requests.flush(PATIENCE));
    assert_eq!(folder.names(), [""; 0]);
    requests.bound(Bounds { keep: DAY, ..NONE });
    requests.note(&[record("after")]);
    assert!(requests.flush(PATIENCE));
    assert_eq!(pages(&requests, 10).await.0, ["after"]);
    assert_eq!(requests.health().lost, 0);
    drop(requests);
    // The same at a start.
    let requests = SqliteRequests::open(&folder.0, NONE).unwrap();
    assert!(requests.flush(PATIENCE));
    assert_eq!(folder.names(), [""; 0]);
}

#[tokio::test]
async fn where_no_record_is_kept_another_programs_file_stays() {
    let folder = Folder::new();
    let other = Connection::open(folder.records()).unwrap();
    other.execute_batch("CREATE TABLE usage (sum INTEGER); INSERT INTO usage VALUES (7)").unwrap();
    let requests = SqliteRequests::open(&folder.0, NONE).unwrap();
    assert!(requests.flush(PATIENCE));
    assert_eq!(folder.names(), ["requests.db"]);
    assert_eq!(requests.health().trouble, None);
}

#[test]
fn what_is_kept_anew_is_not_taken_for_what_was_being_written() {
    let desk = Desk::new(Bounds { keep: DAY, ..NONE });
    desk.note(&[record("before")]);
    let being_written = desk.due(Which::Records, true);
    desk.bound(NONE);
    desk.bound(Bounds { keep: DAY, ..NONE });
    desk.note(&[record("after")]);
    assert!(desk.is_to_go(Which::Records), "what is written by now goes first");
    assert_eq!(desk.due(Which::Records, true), []);
    desk.has_gone(Which::Records);
    let after = desk.due(Which::Records, true);
    desk.written(Which::Records, being_written[0].id, false);
    assert_eq!(desk.due(Which::Records, true), after);
    desk.written(Which::Records, after[0].id, true);
    assert_eq!((desk.health().waiting, desk.health().lost), (0, 1));
}

#[tokio::test]
async fn what_cannot_be_written_is_not_packed_at_each_try() {
    let folder = Folder::new();
    let requests = folder.open();
    let trial = &requests.desk.trial;
    trial.full.store(true, Relaxed);
    requests.note(&many("many", 40_000));
    while requests.health().trouble.is_none() {
        assert!(!requests.flush(Duration::from_millis(50)), "nothing can be written");
    }
    let (packed, tries) = (trial.packed.load(Relaxed), trial.tries.load(Relaxed));
    while trial.tries.load(Relaxed) < tries + 3 {
        assert!(!requests.flush(Duration::from_millis(50)), "nothing can be written");
    }
    let more = (trial.packed.load(Relaxed) - packed, trial.tries.load(Relaxed) - tries);
    // One may be packed, and not be tried yet.
    assert!(more.0 <= more.1 + 1, "{} blocks packed for {} tries", more.0, more.1);
    trial.full.store(false, Relaxed);
    assert!(requests.flush(PATIENCE));
    assert!(trial.packed.load(Relaxed) - packed >= 8, "enough waited to tell one from all");
    assert_eq!(requests.health().lost, 0);
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
    requests.desk.report_damage(Which::Records, "a reader thinks so".to_owned());
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

#[tokio::test]
async fn a_backlog_is_written_whatever_the_file_may_hold() {
    let folder = Folder::new();
    let desk = Desk::new(Bounds { keep: DAY, size: 1 << 20, contents: false });
    let requests = SqliteRequests::with(&folder.0, desk).unwrap();
    requests.desk.trial.full.store(true, Relaxed);
    for round in 0..20 {
        requests.note(&many(&format!("round-{round}"), 5_000));
    }
    requests.note(&[record("the last of all")]);
    requests.desk.trial.full.store(false, Relaxed);
    assert!(requests.flush(PATIENCE), "{:?}", requests.health());
    assert_eq!(requests.health().lost, 0, "the oldest made room");
    assert!(find(&requests, "the last of all").await.is_some());
    assert!(folder.bytes() <= 1 << 20, "{} bytes", folder.bytes());
}

#[tokio::test]
async fn where_the_disk_has_little_room_little_is_written_at_a_time() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.desk.trial.full.store(true, Relaxed);
    requests.note(&many("many", 30_000));
    requests.desk.trial.room.store(1, Relaxed);
    requests.desk.trial.full.store(false, Relaxed);
    assert!(requests.flush(PATIENCE), "{:?}", requests.health());
    assert!(ids(&folder).len() > 8);
    assert_eq!(pages(&requests, 10_000).await.0.len(), 30_000, "nothing went for it");
}

#[tokio::test]
async fn however_slow_the_disk_is_whoever_follows_the_pages_comes_to_the_end() {
    let folder = Folder::new();
    let requests = folder.open();
    for at in 0..6 {
        requests.note(&[record(&format!("{at}"))]);
        assert!(requests.flush(PATIENCE));
    }
    requests.desk.trial.slow.store(true, Relaxed);
    let (found, count) = pages(&requests, 10).await;
    assert_eq!(found, ["5", "4", "3", "2", "1", "0"]);
    assert_eq!(count, 6, "each page is cut at once");
}

#[tokio::test]
async fn after_a_clock_was_set_back_pages_have_each_request_once_and_no_block_two_ids() {
    let folder = Folder::new();
    let requests = folder.open();
    for id in ["a", "b"] {
        requests.note(&[record(id)]);
        assert!(requests.flush(PATIENCE));
    }
    drop(requests);
    set_clock_back(&folder);
    let before = ids(&folder);
    let requests = folder.open();
    requests.desk.trial.full.store(true, Relaxed);
    requests.note(&[record("c"), record("d")]);
    assert_eq!(pages(&requests, 1).await.0, ["d", "c", "b", "a"]);
    // A page is asked for, what waits is written, and the page goes on.
    let first = requests.search(Search { limit: 1, ..Search::default() }).await.unwrap();
    requests.desk.trial.full.store(false, Relaxed);
    assert!(requests.flush(PATIENCE));
    let rest = search(&requests, Search { limit: 10, after: first.next, ..Search::default() }).await;
    assert_eq!(rest.iter().map(|request| &*request.request_id).collect::<Vec<_>>(), ["c", "b", "a"]);
    requests.note(&[record("e")]);
    assert!(requests.flush(PATIENCE));
    let last = *before.last().unwrap();
    assert!(
        ids(&folder)[2..].iter().all(|id| (last..last + 1_000).contains(id)),
        "{:?} after {before:?}",
        ids(&folder)
    );
    assert_eq!(pages(&requests, 1).await.0, ["e", "d", "c", "b", "a"]);
}

#[tokio::test]
async fn what_another_process_writes_meanwhile_comes_before_what_waits() {
    let folder = Folder::new();
    let requests = folder.open();
    requests.note(&[record("a")]);
    assert!(requests.flush(PATIENCE));
    requests.note(&[record("b")]);
    set_clock_back(&folder);
    assert!(requests.flush(PATIENCE));
    requests.note(&[record("c")]);
    assert_eq!(pages(&requests, 1).await.0, ["c", "b", "a"]);
    assert!(requests.flush(PATIENCE));
    assert_eq!(pages(&requests, 1).await.0, ["c", "b", "a"]);
}

#[tokio::test]
async fn texts_that_cannot_be_written_hold_no_record_up() {
    let folder = Folder::new();
    let bounds = Bounds { keep: DAY, size: 64 << 20, contents: true };
    let requests = SqliteRequests::open(&folder.0, bounds).unwrap();
    requests.desk.trial.full_for_contents.store(true, Relaxed);
    let text = |id: &str| Content { request_id: id.into(), time: Clock.wall(), ..Content::default() };
    requests.keep(vec![text("a")]);
    while requests.health().trouble.is_none() {
        assert!(!requests.flush(Duration::from_millis(50)), "texts cannot be written");
    }
    let told = requests.health().trouble.unwrap().what;
    assert!(told.starts_with("the file of recorded texts: "), "{told}");
    assert_eq!((requests.health().waiting, requests.health().contents_waiting), (0, 1));
    // By now it is tried again every few seconds.
    for round in 0..3 {
        let began = Clock.now();
        requests.note(&[record(&format!("{round}"))]);
        while requests.health().waiting > 0 {
            assert!(began.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?} in round {round}", began.elapsed());
    }
    requests.desk.trial.full_for_contents.store(false, Relaxed);
    assert!(requests.flush(PATIENCE));
    assert_eq!(requests.health().trouble, None);
}

#[tokio::test]
async fn records_that_stand_in_a_log_alone_that_is_removed_or_emptied_are_written_anew() {
    for is_removed in [true, false] {
        let folder = Folder::new();
        let requests = folder.open();
        requests.note(&[record("old")]);
        assert!(requests.flush(PATIENCE));
        let log = folder.0.join("requests.db-wal");
        if is_removed {
            std::fs::remove_file(log).unwrap()
        } else {
            std::fs::write(log, "").unwrap()
        }
        requests.note(&[record("new")]);
        assert!(requests.flush(PATIENCE));
        let damage = requests.health().damage.unwrap();
        assert!(damage.times == 1 && damage.what.contains("with all that was in it"), "{damage:?}");
        assert!(requests.close(PATIENCE));
        let again = folder.open();
        assert!(find(&again, "old").await.is_some() && find(&again, "new").await.is_some(), "{is_removed}");
    }
}

#[tokio::test]
async fn records_of_a_file_that_is_emptied_or_overwritten_are_written_anew_or_begin_anew_and_that_is_told() {
    // Of a small file all is left in its log and in memory, of a large one it is not.
    for (count, garbage) in [(3, 0), (3, 50_000), (20_000, 0)] {
        let folder = Folder::new();
        let first = folder.open();
        first.note(&many("old", count));
        assert!(first.close(PATIENCE));
        assert_eq!(folder.names(), ["requests.db"], "a clean end leaves one whole file");
        let second = folder.open();
        second.note(&[record("kept")]);
        assert!(second.flush(PATIENCE));
        assert_eq!(second.health().damage, None);
        std::fs::write(folder.records(), vec![b'x'; garbage]).unwrap();
        second.note(&[record("new")]);
        assert!(second.flush(PATIENCE));
        let damage = second.health().damage.map(|damage| damage.what).unwrap_or_default();
        assert!(find(&second, "new").await.is_some());
        let is_left =
            find(&second, "kept").await.is_some() && find(&second, &many("old", 1)[0].request_id).await.is_some();
        let told = if count == 3 { "with all that was in it" } else { "set aside" };
        assert_eq!((is_left, damage.contains(told)), (count == 3, true), "{count} {garbage}: {damage:?}");
    }
}
