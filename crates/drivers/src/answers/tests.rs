//! Cached answers in real files, in real time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use state::conformance;

use super::*;
use crate::scratch::Folder;

const PATIENCE: Duration = Duration::from_secs(30);

/// What tests do to a disk.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Milliseconds that each look-up takes.
    slow: AtomicU64,
    /// Pages for which the disk has room; 0 is no bound.
    room: AtomicU64,
    /// Nothing can be written at all.
    full: AtomicBool,
}

impl Trial {
    pub fn be_slow(&self) {
        let slow = self.slow.load(Relaxed);
        if slow > 0 {
            std::thread::park_timeout(Duration::from_millis(slow));
        }
    }

    pub fn be_full(&self) -> Result<(), file::Failure> {
        if self.full.load(Relaxed) { Err(file::Failure::Full("the disk is full".to_owned())) } else { Ok(()) }
    }

    pub fn pages(&self, pages: u64) -> u64 {
        match self.room.load(Relaxed) {
            0 => pages,
            room => room,
        }
    }
}

const MIB: u64 = 1 << 20;

fn bounds(memory: u64, disk: u64) -> Bounds {
    Bounds { memory: memory * MIB, disk: disk * MIB }
}

fn open(path: &Path, bounds: Bounds) -> TieredAnswers {
    TieredAnswers::open(path.to_owned(), bounds).unwrap()
}

/// One that knows all that it has, and has made room for more.
async fn open_wholly(path: &Path, bounds: Bounds) -> TieredAnswers {
    let answers = open(path, bounds);
    let began = base::Clock.now();
    while !answers.desk.index.is_whole() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(answers.flush(PATIENCE));
    answers
}

/// Closed as a process ends that was told to stop.
fn close(answers: TieredAnswers) {
    assert!(answers.flush(PATIENCE), "{:?}", answers.stats());
    drop(answers);
}

pub(super) fn key(number: u64) -> Key {
    Key(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

/// Something of `bytes` bytes that no other number has.
pub(super) fn stored(number: u64, bytes: usize) -> Arc<Stored> {
    let now = base::Clock.wall();
    let mut body = vec![0; bytes];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut body);
    Arc::new(Stored {
        kind: Kind::Vector,
        route: "embedding".into(),
        client: Some("a".into()),
        kb_version: None,
        stored: now,
        expires: now + Duration::from_secs(3_600),
        keep_until: now + Duration::from_secs(3_600),
        body: body.into(),
    })
}

async fn get(answers: &TieredAnswers, number: u64) -> Option<Arc<Stored>> {
    // On a machine with much else to do a disk may seem slow.
    while answers.desk.is_stuck() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::timeout(PATIENCE, answers.get(&key(number)).into_future()).await.unwrap()
}

/// Which of them are there, each as it was put.
async fn there(answers: &TieredAnswers, numbers: std::ops::Range<u64>, bytes: usize) -> Vec<u64> {
    let mut there = Vec::new();
    for number in numbers {
        if let Some(found) = get(answers, number).await {
            assert_eq!(found.body, stored(number, bytes).body);
            there.push(number);
        }
    }
    there
}

fn disk(answers: &TieredAnswers) -> state::answers::Tier {
    answers.stats().disk.unwrap()
}

#[tokio::test]
async fn answers_on_disk_conform() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(8, 64));
    tokio::time::timeout(PATIENCE, conformance::answers(&answers)).await.unwrap();
}

#[tokio::test]
async fn answers_without_a_disk_conform() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(8, 0));
    tokio::time::timeout(PATIENCE, conformance::answers(&answers)).await.unwrap();
    assert_eq!(answers.stats().disk, None);
    drop(answers);
    assert_eq!(folder.names(), [""; 0], "and leave no file");
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(8, 64));
    let first = stored(1, 10_000);
    answers.put(key(1), first.clone());
    answers.put(key(2), stored(2, 0));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(8, 64)).await;
    assert_eq!(answers.peek(&key(1)), None, "a glance asks no disk");
    assert_eq!(get(&answers, 1).await, Some(first.clone()));
    assert_eq!(answers.peek(&key(1)), Some(first));
    let found = answers.get_many(&[key(3), key(2), key(1)]).await;
    assert_eq!(
        found.iter().map(|found| found.as_ref().map(|found| found.body.len())).collect::<Vec<_>>(),
        [None, Some(0), Some(10_000)]
    );
    let holdings = answers.holdings();
    assert_eq!((holdings.len(), holdings[0].disk.0), (1, 2));
    let mode = std::fs::metadata(folder.at("cache.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is nobody else's business");
    assert!(matches!(answers.get(&key(1)), Answer::Ready(Some(_))), "what was read once is in memory");
    assert!(matches!(answers.get(&key(3)), Answer::Ready(None)), "what is nowhere asks no disk");
}

#[tokio::test]
async fn what_was_removed_does_not_come_back_with_a_restart() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(8, 64));
    for number in 0..4 {
        answers.put(key(number), stored(number, 100));
    }
    assert_eq!(answers.remove(&key(1)).await, Ok(true));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(8, 64)).await;
    assert_eq!(answers.remove(&key(2)).await, Ok(true), "also where it is on disk alone");
    assert_eq!(there(&answers, 0..4, 100).await, [0, 3]);
    let which = Which { client: Some("a".into()), ..Which::default() };
    assert_eq!(answers.purge(&which).await, Ok(2));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(8, 64)).await;
    assert_eq!(there(&answers, 0..4, 100).await, [0; 0]);
    answers.put(key(5), stored(5, 100));
    assert_eq!(answers.purge(&Which::default()).await, Ok(1));
    answers.put(key(6), stored(6, 100));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(8, 64)).await;
    assert_eq!(there(&answers, 0..10, 100).await, [6], "what comes behind a purge is kept");
}

#[tokio::test]
async fn memory_and_disk_stay_within_their_bounds_and_keep_what_is_used() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 8));
    let (bytes, used) = (4_096, 0..200);
    for number in 0..4_000 {
        answers.put(key(number), stored(number, bytes));
        if number % 100 == 0 {
            assert!(answers.flush(PATIENCE));
            assert!(folder.bytes() <= 8 * MIB, "{} bytes after {number}", folder.bytes());
            assert!(answers.stats().memory.bytes <= MIB);
            let _ = there(&answers, used.clone(), bytes).await;
        }
    }
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(1, 8)).await;
    let left = there(&answers, 0..4_000, bytes).await;
    let tier = disk(&answers);
    assert!(left.len().abs_diff(tier.entries as usize) < 200, "{} {tier:?}", left.len());
    assert!((1_000..2_000).contains(&left.len()), "{tier:?}");
    assert_eq!(left.iter().filter(|number| used.contains(number)).count(), 200, "what was used is all there");
    let others = left.iter().filter(|number| !used.contains(number)).min();
    assert!(others.is_some_and(|oldest| *oldest > 2_000), "of the rest, what was written last: from {others:?} on");
}

#[tokio::test]
async fn what_is_past_its_time_goes() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    let over = base::Clock.wall() + Duration::from_millis(300);
    for number in 0..3_000 {
        let short = Stored { expires: over, keep_until: over, ..Stored::clone(&stored(number, 100)) };
        answers.put(key(number), Arc::new(short));
    }
    answers.put(key(9_999), stored(9_999, 100));
    let began = base::Clock.now();
    while disk(&answers).entries != 1 || disk(&answers).waiting > 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", disk(&answers));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(answers.flush(PATIENCE), "which makes the thread look again at once");
    }
    assert_eq!(disk(&answers).evicted, 0);
}

#[tokio::test]
async fn a_damaged_file_is_set_aside() {
    for damage in ["garbage", "truncated", "no header"] {
        let folder = Folder::new();
        let answers = open(&folder.at("cache.db"), bounds(1, 64));
        (0..500).for_each(|number| answers.put(key(number), stored(number, 3_000)));
        close(answers);
        // The last one to close the file writes its log back.
        let began = base::Clock.now();
        while folder.names() != ["cache.db"] {
            assert!(began.elapsed() < PATIENCE, "{:?}", folder.names());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut bytes = std::fs::read(folder.at("cache.db")).unwrap();
        match damage {
            "garbage" => bytes = b"this is no database, whatever its name says. ".repeat(500),
            "truncated" => bytes.truncate(bytes.len() / 3),
            _ => bytes[..100].fill(0),
        }
        std::fs::write(folder.at("cache.db"), bytes).unwrap();
        let answers = open(&folder.at("cache.db"), bounds(1, 64));
        let _ = there(&answers, 0..500, 3_000).await;
        answers.put(key(1_000), stored(1_000, 10));
        close(answers);
        let names = folder.names();
        assert!(names.iter().any(|name| name.starts_with("cache.db.damaged-")), "{damage}: {names:?}");
        let answers = open_wholly(&folder.at("cache.db"), bounds(1, 64)).await;
        assert_eq!(there(&answers, 1_000..1_001, 10).await, [1_000], "{damage}");
    }
}

/// Does to a file what only damage does.
fn harm(file: &Path, sql: &str) {
    let lenient = "PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(replace(sql, 'NOT NULL', ''), 'STRICT', '')";
    for harm in [lenient, sql] {
        rusqlite::Connection::open(file).unwrap().execute_batch(harm).unwrap();
    }
}

#[tokio::test]
async fn a_file_that_has_lost_a_value_or_a_table_is_set_aside() {
    for loss in ["UPDATE answers SET used = NULL", "UPDATE turns SET turn = NULL", "DROP TABLE turns"] {
        let folder = Folder::new();
        let answers = open(&folder.at("cache.db"), bounds(1, 64));
        answers.put(key(1), stored(1, 100));
        close(answers);
        harm(&folder.at("cache.db"), loss);
        let answers = open(&folder.at("cache.db"), bounds(1, 64));
        answers.put(key(2), stored(2, 100));
        assert!(answers.flush(PATIENCE), "{loss}: {:?}", disk(&answers));
        let names = folder.names();
        assert!(names.iter().any(|name| name.starts_with("cache.db.damaged-")), "{loss}: {names:?}");
        assert!(get(&answers, 2).await.is_some(), "{loss}");
    }
}

#[tokio::test]
async fn flipped_bits_are_misses_and_never_wrong_answers() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    (0..300).for_each(|number| answers.put(key(number), stored(number, 2_000)));
    close(answers);
    while folder.names() != ["cache.db"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let whole = std::fs::read(folder.at("cache.db")).unwrap();
    for seed in 0..24_u64 {
        let mut bytes = whole.clone();
        let page = (key(seed).print() as usize % (bytes.len() / 4_096 - 1) + 1) * 4_096;
        // Half a page; at other times a single bit.
        if seed % 2 == 0 {
            bytes[page + 1_024..page + 3_072].iter_mut().for_each(|byte| *byte ^= 0x55);
        } else {
            bytes[page + 2_000] ^= 0x10;
        }
        let folder = Folder::new();
        std::fs::write(folder.at("cache.db"), bytes).unwrap();
        let answers = open(&folder.at("cache.db"), bounds(1, 64));
        // Whatever is there is as it was put.
        let _ = there(&answers, 0..300, 2_000).await;
        answers.put(key(1_000), stored(1_000, 10));
        assert!(answers.flush(PATIENCE));
        assert!(get(&answers, 1_000).await.is_some());
    }
}

#[tokio::test]
async fn a_file_of_another_version_is_replaced() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    close(answers);
    rusqlite::Connection::open(folder.at("cache.db")).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    assert_eq!(get(&answers, 1).await, None);
    answers.put(key(2), stored(2, 100));
    close(answers);
    assert!(!folder.names().iter().any(|name| name.contains("damaged")));
    assert_eq!(there(&open_wholly(&folder.at("cache.db"), bounds(1, 64)).await, 1..3, 100).await, [2]);
}

#[tokio::test]
async fn another_programs_file_is_told_and_left_as_it_is() {
    let folder = Folder::new();
    let other = rusqlite::Connection::open(folder.at("cache.db")).unwrap();
    other.execute_batch("CREATE TABLE usage (sum INTEGER); INSERT INTO usage VALUES (7)").unwrap();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    comes("it is told", || disk(&answers).trouble.is_some()).await;
    let told = disk(&answers).trouble.unwrap().what;
    assert!(told.contains("another program's database: move it away"), "{told}");
    assert!(get(&answers, 1).await.is_some(), "memory has it");
    answers.desk.report_damage(answers.desk.epoch(), "a reader thinks so".to_owned());
    assert!(!answers.flush(Duration::from_millis(50)));
    assert_eq!(folder.names(), ["cache.db"]);
    assert_eq!(other.query_row("SELECT sum FROM usage", [], |row| row.get::<_, i64>(0)), Ok(7));
}

#[test]
fn a_reader_finds_nothing_where_the_tables_are_still_being_made() {
    let folder = Folder::new();
    std::fs::write(folder.at("cache.db"), "").unwrap();
    assert!(file::open_to_read(&folder.at("cache.db")).unwrap().is_none());
    let writer = rusqlite::Connection::open(folder.at("cache.db")).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    assert!(file::open_to_read(&folder.at("cache.db")).unwrap().is_none());
    drop(writer);
    drop(file::File::open(&folder.at("cache.db")).unwrap());
    assert!(file::open_to_read(&folder.at("cache.db")).unwrap().is_some());
}

#[tokio::test]
async fn a_full_disk_costs_what_is_new_and_nothing_else() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    for number in 0..1_000 {
        answers.put(key(number), stored(number, 4_000));
    }
    assert!(answers.flush(PATIENCE));
    answers.desk.trial.full.store(true, Relaxed);
    let began = base::Clock.now();
    while disk(&answers).trouble.is_none() {
        assert!(began.elapsed() < PATIENCE, "{:?}", disk(&answers));
        answers.put(key(1), stored(1, 4_000));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let tier = disk(&answers);
    assert!(tier.trouble.unwrap().what.contains("full"));
    assert!(tier.refused > 0);
    assert!(!there(&answers, 0..400, 4_000).await.is_empty(), "what was written is still read");
    answers.desk.trial.full.store(false, Relaxed);
    answers.put(key(2_000), stored(2_000, 4_000));
    assert!(answers.flush(PATIENCE));
    assert_eq!(disk(&answers).trouble, None, "it is written again as soon as there is room");
}

#[tokio::test]
async fn on_a_disk_with_less_room_than_the_bound_the_oldest_make_way() {
    let folder = Folder::new();
    let desk = Desk::new(bounds(1, 64));
    desk.trial.room.store(1_000, Relaxed);
    let answers = TieredAnswers::with(folder.at("cache.db"), desk).unwrap();
    for number in 0..3_000 {
        answers.put(key(number), stored(number, 4_000));
        if number % 20 == 0 {
            let _ = answers.flush(PATIENCE);
        }
    }
    assert!(answers.flush(PATIENCE));
    let tier = disk(&answers);
    assert_eq!((tier.trouble.clone(), tier.refused), (None, 0), "{tier:?}");
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(1, 64)).await;
    let left = there(&answers, 0..3_000, 4_000).await;
    assert!((400..1_000).contains(&left.len()) && left.iter().all(|number| *number > 1_500), "{tier:?} {left:?}");
}

#[tokio::test]
async fn what_keeps_a_file_from_being_read_is_told_from_the_first_word() {
    let folder = Folder::new();
    let other = rusqlite::Connection::open(folder.at("cache.db")).unwrap();
    other.execute_batch("CREATE TABLE usage (sum INTEGER)").unwrap();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    assert_eq!(get(&answers, 1).await, None);
    comes("it is told", || disk(&answers).trouble.is_some()).await;
    let told = disk(&answers).trouble.unwrap().what;
    assert!(told.contains("another program's database"), "{told}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_costs_hits_alone() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("file"), "x").unwrap();
    let answers = open(&folder.0.join("file/cache.db"), bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    assert!(matches!(answers.get(&key(1)), Answer::Ready(Some(_))));
    let began = base::Clock.now();
    while disk(&answers).trouble.is_none() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(get(&answers, 2).await, None);
    assert!(!answers.flush(Duration::from_millis(50)), "what waits still waits");
    for number in 0..20_000 {
        answers.put(key(number), stored(number, 100));
    }
    assert!(disk(&answers).refused > 0 && disk(&answers).waiting <= 20_000);
}

#[tokio::test]
async fn a_slow_disk_makes_misses_of_hits_and_slows_nobody() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    (0..1_000).for_each(|number| answers.put(key(number), stored(number, 4_000)));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(1, 64)).await;
    answers.desk.trial.slow.store(60_000, Relaxed);
    let slow = answers.get(&key(1));
    assert!(matches!(slow, Answer::Later(_)));
    let began = base::Clock.now();
    while !answers.desk.is_stuck() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!((2..1_000).all(|number| matches!(answers.get(&key(number)), Answer::Ready(None))), "nobody waits for it");
    assert!(matches!(answers.get_many(&[key(1), key(2)]), Answer::Ready(_)));
    assert!(disk(&answers).trouble.is_some_and(|trouble| trouble.what.contains("slow")));
    answers.put(key(5_000), stored(5_000, 10));
    assert!(answers.flush(PATIENCE), "writing goes on");
    assert!(matches!(answers.get(&key(5_000)), Answer::Ready(Some(_))));
}

#[tokio::test]
async fn bounds_can_change_while_it_runs() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    for number in 0..2_000 {
        answers.put(key(number), stored(number, 4_000));
        if number % 500 == 499 {
            assert!(answers.flush(PATIENCE));
        }
    }
    assert!(folder.bytes() > 8 * MIB);
    answers.bound(bounds(1, 4));
    let began = base::Clock.now();
    while folder.bytes() > 4 * MIB {
        assert!(began.elapsed() < PATIENCE, "{} {:?}", folder.bytes(), disk(&answers));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = there(&answers, 0..2_000, 4_000).await;
    assert!(left.len() > 500 && left.len() < 1_100, "{}", left.len());
    answers.bound(bounds(1, 0));
    while !folder.names().is_empty() {
        assert!(began.elapsed() < PATIENCE, "{:?}", folder.names());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answers.put(key(1), stored(1, 100));
    assert!(matches!(answers.get(&key(1)), Answer::Ready(Some(_))), "memory goes on");
    assert_eq!(answers.remove(&key(1)).await, Ok(true));
    answers.bound(bounds(1, 64));
    answers.put(key(2), stored(2, 100));
    close(answers);
    assert_eq!(there(&open_wholly(&folder.at("cache.db"), bounds(1, 64)).await, 0..4_000, 100).await, [2]);
}

#[tokio::test]
async fn a_file_that_somebody_removed_is_made_again() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    assert!(answers.flush(PATIENCE));
    for name in folder.names() {
        std::fs::remove_file(folder.0.join(name)).unwrap();
    }
    answers.put(key(2), stored(2, 100));
    close(answers);
    assert_eq!(there(&open_wholly(&folder.at("cache.db"), bounds(1, 64)).await, 0..3, 100).await, [2]);
}

/// Waits until that is so.
async fn comes(what: &str, is_so: impl Fn() -> bool) {
    let began = base::Clock.now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "never so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_file_that_goes_is_missed_though_nothing_is_asked_and_made_again_without_what_is_left_of_it() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    for number in 0..100 {
        answers.put(key(number), stored(number, 1_000));
    }
    assert!(answers.flush(PATIENCE));
    for is_emptied in [false, true] {
        if is_emptied {
            assert_eq!(answers.remove(&key(100)).await, Ok(true));
            assert_eq!(disk(&answers).entries, 0);
        }
        std::fs::remove_file(folder.at("cache.db")).unwrap();
        comes("another file", || folder.at("cache.db").exists()).await;
        comes("all is well", || disk(&answers).trouble.is_none()).await;
        assert_eq!(disk(&answers).entries, 0, "nothing of the old one is in it");
        answers.put(key(100), stored(100, 100));
        assert!(answers.flush(PATIENCE));
    }
    close(answers);
    assert_eq!(there(&open_wholly(&folder.at("cache.db"), bounds(1, 64)).await, 0..101, 100).await, [100]);
    assert_eq!(folder.names().iter().filter(|name| name.contains("damaged")).count(), 0);
}

#[tokio::test]
async fn while_a_file_that_went_cannot_be_made_again_the_disk_is_out() {
    let folder = Folder::new();
    let inner = folder.0.join("inner");
    let path = inner.join("cache.db");
    let answers = open(&path, bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    assert!(answers.flush(PATIENCE));
    std::fs::remove_dir_all(&inner).unwrap();
    std::fs::write(&inner, "a file where the folder was").unwrap();
    comes("the disk is out", || disk(&answers).trouble.is_some()).await;
    assert_eq!(get(&answers, 1).await.unwrap().body, stored(1, 100).body, "memory has it");
    std::fs::remove_file(&inner).unwrap();
    comes("all is well", || disk(&answers).trouble.is_none()).await;
    assert!(path.exists());
    std::fs::remove_dir_all(&inner).unwrap();
    drop(answers);
}

#[tokio::test]
async fn a_file_that_takes_the_place_of_another_is_read_as_it_is() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let answers = open(&elsewhere.at("cache.db"), bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    close(answers);
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    for number in 2..100 {
        answers.put(key(number), stored(number, 1_000));
    }
    assert!(answers.flush(PATIENCE));
    // Closed by its last connection, the other is in one piece.
    comes("one piece", || elsewhere.names() == ["cache.db"]).await;
    std::fs::rename(elsewhere.at("cache.db"), folder.at("cache.db")).unwrap();
    comes("the other is read", || disk(&answers).entries == 1).await;
    comes("all is well", || disk(&answers).trouble.is_none()).await;
    assert_eq!(get(&answers, 1).await.unwrap().body, stored(1, 100).body);
    assert_eq!(disk(&answers).damaged, 0);
}

#[tokio::test]
async fn what_is_too_large_for_the_disk_is_in_memory_alone() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(8, 4));
    answers.put(key(1), stored(1, 1 << 20));
    assert!(matches!(answers.get(&key(1)), Answer::Ready(Some(_))));
    assert!(answers.flush(PATIENCE));
    assert_eq!((disk(&answers).refused, disk(&answers).entries), (1, 0));
}

#[tokio::test]
async fn a_lookup_under_way_finds_its_own_while_others_are_removed() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    (0..10).for_each(|number| answers.put(key(number), stored(number, 100)));
    close(answers);
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.desk.trial.slow.store(40, Relaxed);
    let under_way = answers.get(&key(1));
    for number in 2..10 {
        assert_eq!(answers.remove(&key(number)).await, Ok(true));
    }
    assert!(under_way.await.is_some());
}

#[tokio::test]
async fn a_lookup_under_way_does_not_bring_back_what_is_removed_meanwhile() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    (0..100).for_each(|number| answers.put(key(number), stored(number, 100)));
    close(answers);
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.desk.trial.slow.store(40, Relaxed);
    for number in [1, 2, 3] {
        let under_way = answers.get(&key(number));
        let removed = if number == 1 { None } else { Some(answers.remove(&key(number))) };
        let purged = if number == 1 {
            Some(answers.purge(&Which { kind: Some(Kind::Vector), ..Which::default() }))
        } else {
            None
        };
        assert_eq!(under_way.await, None);
        if let Some(removed) = removed {
            let _ = removed.await;
        }
        if let Some(purged) = purged {
            assert_eq!(purged.await, Ok(100));
            (0..100).for_each(|number| answers.put(key(number), stored(number, 100)));
            assert!(answers.flush(PATIENCE));
            // Out of memory again.
            (0..100).for_each(|number| drop(answers.memory().take(&key(number))));
        }
        assert_eq!(get(&answers, number).await.is_some(), number == 1);
    }
}

#[tokio::test]
async fn questions_are_on_disk_alone_and_read_back_page_by_page() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(8, 8));
    let question = |number| Arc::new(Stored { kind: Kind::Question, ..(*stored(number, 100)).clone() });
    for number in 0..600 {
        answers.put(key(number), if number % 6 == 0 { question(number) } else { stored(number, 100) });
    }
    assert_eq!(answers.stats().memory.entries, 500);
    close(answers);
    let answers = open(&folder.at("cache.db"), bounds(8, 8));
    let (mut found, mut from, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = answers.scan(Kind::Question, from).await.unwrap();
        found.extend(page.found);
        (from, pages) = (page.next, pages + 1);
        if from.is_none() {
            break;
        }
    }
    assert!(pages > 1);
    found.sort_by_key(|(key, _)| *key);
    let mut all: Vec<_> = (0..600).step_by(6).map(|number| (key(number), question(number).body.clone())).collect();
    all.sort();
    assert_eq!(found.into_iter().map(|(key, stored)| (key, stored.body.clone())).collect::<Vec<_>>(), all);
    close(answers);
}

#[tokio::test]
async fn a_lookup_of_many_keys_holds_up_no_other() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    (0..600).for_each(|number| answers.put(key(number), stored(number, 100)));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(1, 64)).await;
    answers.desk.trial.slow.store(5, Relaxed);
    let keys: Vec<Key> = (0..500).map(key).collect();
    let mut many = std::pin::pin!(answers.get_many(&keys).into_future());
    for number in 500..510 {
        let asked = get(&answers, number);
        tokio::select! {
            biased;
            _ = &mut many => panic!("it takes two seconds and more"),
            one = asked => assert!(one.is_some(), "a disk that answers is no slow disk"),
        }
    }
    answers.desk.trial.slow.store(0, Relaxed);
    assert!(many.await.iter().all(Option::is_some));
}

#[tokio::test]
async fn who_has_patience_waits_for_a_slow_disk() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    (0..3).for_each(|number| answers.put(key(number), stored(number, 100)));
    close(answers);
    let answers = open_wholly(&folder.at("cache.db"), bounds(1, 64)).await;
    answers.desk.trial.slow.store(300, Relaxed);
    let slow = answers.get(&key(1));
    while !answers.desk.is_stuck() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let patient = answers.get_patiently(&key(2));
    assert!(matches!(answers.get(&key(2)), Answer::Ready(None)));
    assert!(patient.await.is_some());
    assert!(slow.await.is_some());
}

#[tokio::test]
async fn what_memory_drops_before_it_is_written_leaves_no_room_for_what_it_replaced() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    let bodies = |found: Option<Arc<Stored>>| found.map(|stored| stored.body.len());
    for round in 0..20 {
        answers.put(key(1), stored(1, 100));
        assert!(answers.flush(PATIENCE));
        answers.memory().take(&key(1));
        // On even rounds a look-up for the old one is under way.
        answers.desk.trial.slow.store(if round % 2 == 0 { 5 } else { 0 }, Relaxed);
        let under_way = (round % 2 == 0).then(|| answers.get(&key(1)));
        if under_way.is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        answers.put(key(1), stored(1, 200));
        answers.memory().take(&key(1));
        if let Some(under_way) = under_way {
            let _ = under_way.await;
        }
        assert_eq!(bodies(get(&answers, 1).await), Some(200), "round {round}, before it is written");
        assert!(answers.flush(PATIENCE));
        assert_eq!(bodies(get(&answers, 1).await), Some(200), "round {round}, and behind it");
    }
}

#[tokio::test]
async fn a_file_that_takes_anothers_place_is_nobody_elses_business_either() {
    let folder = Folder::new();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.put(key(1), stored(1, 100));
    close(answers);
    rusqlite::Connection::open(folder.at("cache.db")).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let answers = open(&folder.at("cache.db"), bounds(1, 64));
    answers.put(key(2), stored(2, 100));
    assert!(answers.flush(PATIENCE));
    let names = folder.names();
    assert_eq!(names, ["cache.db", "cache.db-shm", "cache.db-wal"]);
    for name in names {
        let mode = std::fs::metadata(folder.0.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
