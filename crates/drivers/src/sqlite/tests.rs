//! The ledger in real files, in real time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use state::{Columns, Entry, Ledger, Question, Sums, Versioned, Versions as _};

use super::store::Store;
use super::{SqliteLedger, SqliteVersions, fold};
use crate::scratch::Folder;

const PATIENCE: Duration = Duration::from_secs(30);

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
    state::conformance::ledger(&ledger(&folder.at("gateway.db"))).await;
}

#[tokio::test]
async fn what_was_booked_is_there_after_a_restart() {
    let folder = Folder::new();
    for count in 1..=3 {
        let ledger = ledger(&folder.at("gateway.db"));
        ledger.book(vec![entry("a")]);
        assert!(ledger.flush(PATIENCE));
        assert_eq!(requests(&ledger).await, count);
    }
}

#[tokio::test]
async fn entries_are_committed_within_a_tenth_of_a_second_by_themselves() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    assert_eq!(requests(&ledger).await, 0);
    ledger.book(vec![entry("a")]);
    comes_to(&ledger, |health| health.waiting == 0).await;
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    assert_eq!(other.query_row("SELECT SUM(requests) FROM usage", [], |row| row.get::<_, i64>(0)), Ok(1));
}

#[tokio::test]
async fn two_processes_may_write_to_one_file() {
    let folder = Folder::new();
    let (one, other) = (ledger(&folder.at("gateway.db")), ledger(&folder.at("gateway.db")));
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
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    let other = Connection::open(folder.at("gateway.db")).unwrap();
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
    drop(ledger(&folder.at("gateway.db")));
    let first = ledger(&folder.at("gateway.db"));
    first.book(vec![entry("a")]);
    assert!(first.flush(PATIENCE));
    drop(first);
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    // Readers are locked out too: as when another program has the file open for itself alone.
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM usage WHERE 0; COMMIT").unwrap();
    let locked = ledger(&folder.at("gateway.db"));
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
    std::fs::write(
        folder.at("gateway.db"),
        "this is no database, but long enough to be taken for a page. ".repeat(100),
    )
    .unwrap();
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    assert_eq!(requests(&ledger).await, 1);
    assert!(folder.names().iter().any(|name| name.starts_with("gateway.db.damaged-")), "{:?}", folder.names());
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_used_is_written_anew_with_all_that_was_in_it() {
    for parts in [&["gateway.db", "gateway.db-wal", "gateway.db-shm"][..], &["gateway.db"]] {
        let folder = Folder::new();
        let first = ledger(&folder.at("gateway.db"));
        first.book(vec![entry("a"), entry("b")]);
        assert!(first.flush(PATIENCE));
        for part in parts {
            std::fs::remove_file(folder.0.join(part)).unwrap();
        }
        first.book(vec![entry("a")]);
        assert!(first.flush(PATIENCE));
        assert_eq!(requests(&first).await, 3);
        drop(first);
        let again = ledger(&folder.at("gateway.db"));
        assert_eq!(requests(&again).await, 3, "also for whoever opens it next");
        assert!(!folder.names().iter().any(|name| name.contains("anew")), "{:?}", folder.names());
    }
}

#[tokio::test]
async fn what_is_left_of_a_file_that_is_emptied_or_overwritten_while_it_is_used_is_written_anew() {
    for garbage in [0, 20_000] {
        let folder = Folder::new();
        let first = ledger(&folder.at("gateway.db"));
        first.book(vec![entry("a"), entry("b")]);
        assert!(first.close(PATIENCE));
        let second = ledger(&folder.at("gateway.db"));
        // Nothing is written before it comes to harm.
        assert_eq!(requests(&second).await, 2);
        std::fs::write(folder.at("gateway.db"), vec![b'x'; garbage]).unwrap();
        second.book(vec![entry("a"), entry("a")]);
        assert!(second.flush(PATIENCE));
        assert_eq!(requests(&second).await, 4);
        comes_to(&second, |health| health.damage.is_some()).await;
        let damage = second.health().damage.unwrap();
        assert!(damage.times == 1 && damage.what.contains("with all that was in it"), "{damage:?}");
        drop(second);
        assert_eq!(requests(&ledger(&folder.at("gateway.db"))).await, 4, "also for whoever opens it next");
    }
}

#[tokio::test]
async fn what_stands_in_a_log_alone_that_is_removed_or_emptied_is_written_anew() {
    for is_removed in [true, false] {
        let folder = Folder::new();
        let first = ledger(&folder.at("gateway.db"));
        first.book(vec![entry("a"), entry("b")]);
        assert!(first.flush(PATIENCE));
        let log = folder.0.join("gateway.db-wal");
        if is_removed {
            std::fs::remove_file(log).unwrap()
        } else {
            std::fs::write(log, "").unwrap()
        }
        first.book(vec![entry("a")]);
        assert!(first.flush(PATIENCE));
        let damage = first.health().damage.unwrap();
        assert!(damage.times == 1 && damage.what.contains("with all that was in it"), "{damage:?}");
        assert_eq!(requests(&first).await, 3);
        // What the next start finds where this process is killed.
        for name in folder.names() {
            std::fs::copy(folder.0.join(&name), folder.0.join(format!("killed-{name}"))).unwrap();
        }
        assert_eq!(requests(&ledger(&folder.at("killed-gateway.db"))).await, 3, "{is_removed}");
    }
}

#[tokio::test]
async fn a_log_that_is_cut_off_before_all_of_it_is_known_otherwise_is_told() {
    let folder = Folder::new();
    let first = ledger(&folder.at("gateway.db"));
    // More than a connection remembers.
    first.book((0..9_000).map(|number| entry(&format!("client-{number:0>200}"))).collect());
    first.book(vec![entry("a")]);
    assert!(first.flush(PATIENCE));
    std::fs::write(folder.0.join("gateway.db-wal"), "").unwrap();
    first.book(vec![entry("a")]);
    assert!(first.flush(PATIENCE));
    let health = first.health();
    assert!(health.changes > 0 && health.damage.is_some_and(|damage| damage.what.contains("set aside")));
    assert_eq!(requests(&first).await, 1);
}

#[tokio::test]
async fn a_log_that_another_program_takes_up_is_no_damage() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    for number in 1..4 {
        ledger.book(vec![entry("a")]);
        assert!(ledger.flush(PATIENCE));
        // The second finds everything taken up, and only cuts the log off.
        for mode in ["PASSIVE", "TRUNCATE"] {
            other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        }
        assert_eq!(std::fs::metadata(folder.0.join("gateway.db-wal")).unwrap().len(), 0);
        assert_eq!(requests(&ledger).await, number);
    }
    assert!(ledger.flush(PATIENCE));
    assert_eq!(ledger.health().damage, None);
}

#[tokio::test]
async fn a_file_of_which_not_all_is_left_is_set_aside_and_that_is_told_while_nobody_calls() {
    let folder = Folder::new();
    let first = ledger(&folder.at("gateway.db"));
    // More than a connection remembers.
    first.book((0..9_000).map(|number| entry(&format!("client-{number:0>200}"))).collect());
    assert!(first.close(PATIENCE));
    let second = ledger(&folder.at("gateway.db"));
    second.book(vec![entry("a")]);
    assert!(second.flush(PATIENCE));
    assert_eq!(second.health(), state::Health::default());
    std::fs::write(folder.at("gateway.db"), "").unwrap();
    comes_to(&second, |health| health.damage.is_some()).await;
    let health = second.health();
    assert!(health.damage.unwrap().what.contains("set aside"));
    assert_eq!(health.changes, 1);
    assert_eq!(requests(&second).await, 0, "it says what it has");
    assert!(folder.names().iter().any(|name| name.starts_with("gateway.db.damaged-")), "{:?}", folder.names());
}

#[tokio::test]
async fn what_another_program_writes_as_it_should_is_no_damage() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    other.execute("UPDATE usage SET requests = 5", []).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(requests(&ledger).await, 5);
    // Quotas are compared with it.
    comes_to(&ledger, |health| health.changes == 1).await;
    assert_eq!(ledger.health().damage, None);
}

#[tokio::test]
async fn an_older_file_that_is_written_over_one_in_use_is_taken_as_it_is_and_nothing_of_the_other_is_mixed_in() {
    let folder = Folder::new();
    let first = ledger(&folder.at("gateway.db"));
    first.book(vec![entry("a")]);
    assert!(first.close(PATIENCE));
    let older = std::fs::read(folder.at("gateway.db")).unwrap();
    let second = ledger(&folder.at("gateway.db"));
    second.book(vec![entry("a"); 4]);
    assert!(second.close(PATIENCE));
    let third = ledger(&folder.at("gateway.db"));
    assert_eq!(requests(&third).await, 5);
    // Written over in one piece, as a program does that copies into it.
    let file = std::fs::OpenOptions::new().write(true).open(folder.at("gateway.db")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &older, 0).unwrap();
    file.set_len(older.len() as u64).unwrap();
    third.book(vec![entry("a")]);
    assert!(third.flush(PATIENCE));
    assert_eq!((requests(&third).await, third.health().changes), (2, 1));
    drop(third);
    assert_eq!(requests(&ledger(&folder.at("gateway.db"))).await, 2);
}

#[tokio::test]
async fn a_ledger_that_is_closed_leaves_one_whole_file() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert_eq!(requests(&ledger).await, 1);
    assert!(ledger.close(PATIENCE));
    assert_eq!(folder.names(), ["gateway.db"]);
}

#[tokio::test]
async fn versions_that_are_set_are_written_anew_where_their_file_is_removed_emptied_or_overwritten() {
    let folder = Folder::new();
    let file = folder.0.join("kb-versions.db");
    let versions = SqliteVersions::at(file.clone());
    assert_eq!(versions.keep(Versioned::new()).await.unwrap(), None);
    assert!(!file.exists(), "nothing was ever set");
    let set = versions.set("chat".into(), Some("2026-11".into())).await.unwrap();
    assert_eq!(versions.keep(set.clone()).await.unwrap(), None);
    for (harm, told) in [(None, "removed"), (Some(0), "emptied"), (Some(9_000), "damaged")] {
        match harm {
            None => std::fs::remove_file(&file).unwrap(),
            Some(garbage) => std::fs::write(&file, vec![b'x'; garbage]).unwrap(),
        }
        let what = versions.keep(set.clone()).await.unwrap().unwrap();
        assert!(what.contains(told), "{what}");
        assert_eq!(versions.all().await.unwrap(), set, "{told}");
        assert_eq!(versions.keep(set.clone()).await.unwrap(), None, "{told}");
    }
    assert!(folder.names().iter().any(|name| name == "kb-versions.db.damaged"), "{:?}", folder.names());
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_used_is_taken_as_it_is() {
    let folder = Folder::new();
    let other = ledger(&folder.0.join("other.db"));
    other.book(vec![entry("a"); 5]);
    assert!(other.flush(PATIENCE));
    drop(other);
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    std::fs::rename(folder.0.join("other.db"), folder.at("gateway.db")).unwrap();
    for part in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.0.join(format!("gateway.db{part}")));
    }
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    assert_eq!(requests(&ledger).await, 6);
}

#[tokio::test]
async fn where_nothing_can_be_written_what_was_used_and_set_before_is_known_all_the_same() {
    let folder = Folder::new();
    let first = ledger(&folder.at("gateway.db"));
    first.book(vec![entry("a")]);
    assert!(first.flush(PATIENCE));
    drop(first);
    let versions = SqliteVersions::at(folder.0.join("kb-versions.db"));
    let set = versions.set("chat".into(), Some("2026-11".into())).await.unwrap();
    // Nobody can make what SQLite needs beside a file, not even root: as on a full disk.
    for file in ["gateway.db-shm", "kb-versions.db-shm"] {
        let index = folder.0.join(file);
        let _ = std::fs::remove_file(&index);
        std::os::unix::fs::symlink(&index, &index).unwrap();
    }
    let again = ledger(&folder.at("gateway.db"));
    assert_eq!(requests(&again).await, 1);
    assert_eq!(SqliteVersions::at(folder.0.join("kb-versions.db")).all().await.unwrap(), set);
    again.book(vec![entry("a")]);
    comes_to(&again, |health| health.trouble.is_some() && health.waiting == 1).await;
}

#[tokio::test]
async fn files_are_for_nobody_else_to_read_also_those_that_were() {
    let folder = Folder::new();
    let mode = |name: &str| std::fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777;
    let first = ledger(&folder.at("gateway.db"));
    first.book(vec![entry("a")]);
    assert!(first.flush(PATIENCE));
    let versions = SqliteVersions::at(folder.0.join("kb-versions.db"));
    versions.set("chat".into(), Some("1".into())).await.unwrap();
    for file in ["gateway.db", "gateway.db-wal", "gateway.db-shm", "kb-versions.db"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    drop(first);
    for file in ["gateway.db", "kb-versions.db"] {
        std::fs::set_permissions(folder.0.join(file), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let again = ledger(&folder.at("gateway.db"));
    assert_eq!(requests(&again).await, 1);
    versions.set("chat".into(), None).await.unwrap();
    for file in ["gateway.db", "kb-versions.db"] {
        assert_eq!(mode(file), 0o640, "{file}: its group, which the owner may have let in, stays in");
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_left_alone() {
    let folder = Folder::new();
    Connection::open(folder.at("gateway.db")).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    let ledger = ledger(&folder.at("gateway.db"));
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
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a"), entry("b"), entry("b")]);
    let by = Columns { client: true, day: true, ..Columns::default() };
    let mut rows = ledger.report(Question { by, ..Question::default() }).await.unwrap();
    rows.sort_by_key(|row| row.client.clone());
    let seen: Vec<_> = rows.iter().map(|row| (row.day, &*row.client, row.sums.requests, row.sums.cost)).collect();
    assert_eq!(seen, [(Some(20_787), "a", 1, 7), (Some(20_787), "b", 2, 14)]);
}

/// What the file itself has of a column, summed up.
fn written(file: &Path, column: &str) -> i64 {
    let other = Connection::open(file).unwrap();
    other.query_row(&format!("SELECT TOTAL({column}) FROM usage"), [], |row| row.get::<_, f64>(0)).unwrap() as i64
}

#[tokio::test]
async fn sums_stop_at_the_largest_number_and_keep_out_no_other_entry() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    let huge = |client: &str, model: &str| Entry {
        model: model.into(),
        sums: Sums { requests: 1, cost: u64::MAX, tokens_in: i64::MAX as u64, ..Sums::default() },
        ..entry(client)
    };
    // In the file it is added to what is there already, and in a report to other rows.
    for _ in 0..2 {
        ledger.book(vec![huge("a", "m"), huge("a", "n"), entry("b")]);
        assert!(ledger.flush(PATIENCE));
    }
    let by = Columns { client: true, ..Columns::default() };
    let asked = ledger.report(Question { by, ..Question::default() }).into_future();
    let mut rows = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
    rows.sort_by_key(|row| row.client.clone());
    let seen: Vec<_> = rows.iter().map(|row| (&*row.client, row.sums.requests, row.sums.cost)).collect();
    assert_eq!((seen[0].1, seen[1]), (4, ("b", 2, 14)));
    assert!(seen[0].2 >= i64::MAX as u64);
    assert_eq!(ledger.health(), state::Health::default());
}

#[tokio::test]
async fn an_entry_that_the_file_refuses_waits_and_keeps_out_no_other() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    let refuse =
        "CREATE TRIGGER refuse BEFORE INSERT ON usage WHEN new.client = 'odd' BEGIN SELECT RAISE(ABORT, 'odd'); END";
    other.execute_batch(refuse).unwrap();
    for _ in 0..3 {
        ledger.book(vec![entry("odd"), entry("a")]);
        comes_to(&ledger, |health| health.waiting == 1 && health.trouble.is_some()).await;
    }
    assert_eq!(written(&folder.at("gateway.db"), "requests"), 4, "the others are written");
    assert_eq!(requests(&ledger).await, 7, "and a report has what waits too");
    assert!(ledger.health().trouble.unwrap().what.contains("refuses 1 entries: odd"));
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    assert!(ledger.flush(PATIENCE), "it is tried again");
    assert_eq!((written(&folder.at("gateway.db"), "requests"), ledger.health()), (7, state::Health::default()));
}

/// A file with so many rows, of all days of a year.
fn large(file: &Path, rows: u64) {
    drop(ledger(file));
    comes_to_exist(file);
    let other = Connection::open(file).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {rows})
         INSERT INTO usage SELECT 1900000 + i, 'client-' || (i % 50), 'chat', 'a/m', 'm', 'USD', 1, 10, 0, 0, 7, 0, 0, 0, 0, 0
         FROM n"
    );
    other.execute_batch(&fill).unwrap();
}

fn comes_to_exist(file: &Path) {
    let ledger = ledger(file);
    ledger.book(vec![entry("first")]);
    assert!(ledger.flush(PATIENCE));
}

#[tokio::test]
async fn commits_go_on_while_a_long_report_is_read() {
    let folder = Folder::new();
    large(&folder.at("gateway.db"), 100_000);
    let ledger = ledger(&folder.at("gateway.db"));
    assert_eq!(requests(&ledger).await, 100_001);
    let question = Question { by: Columns { client: true, day: true, ..Columns::default() }, ..Question::default() };
    let report = tokio::spawn(ledger.report(question).into_future());
    let mut commits = 0;
    while !report.is_finished() {
        ledger.book(vec![entry("a")]);
        comes_to(&ledger, |health| health.waiting == 0).await;
        commits += 1;
    }
    let sum: u64 = report.await.unwrap().unwrap().iter().map(|row| row.sums.requests).sum();
    assert_eq!(sum, 100_001, "what was booked afterwards is not in it");
    assert!(commits > 1, "{commits}");
    assert_eq!(requests(&ledger).await, 100_001 + commits);
}

#[tokio::test]
async fn a_report_that_nobody_waits_for_makes_room_for_others() {
    let folder = Folder::new();
    large(&folder.at("gateway.db"), 100_000);
    let ledger = ledger(&folder.at("gateway.db"));
    let ask = || ledger.report(Question::default()).into_future();
    let mut asked: Vec<_> = (0..64).map(|_| ask()).collect();
    let refused = ask().await.unwrap_err();
    assert!(refused.0.contains("64 questions wait for the usage ledger already"), "{refused}");
    let last = asked.pop().unwrap();
    asked.clear();
    assert_eq!(tokio::time::timeout(PATIENCE, last).await.unwrap().unwrap().len(), 1);
    assert_eq!(requests(&ledger).await, 100_001);
}

#[tokio::test]
async fn a_disk_that_is_full_loses_nothing_and_takes_all_when_it_has_room() {
    let folder = Folder::new();
    let store = Store::at(folder.at("gateway.db"));
    let room: std::sync::Arc<AtomicU32> = store.room.clone();
    let ledger = SqliteLedger::with(store).unwrap();
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    room.store(1, Ordering::Relaxed);
    // More than the pages that there are can take.
    ledger.book((0..500).map(|number| entry(&format!("client-{number}"))).collect());
    comes_to(&ledger, |health| health.trouble.is_some()).await;
    let health = ledger.health();
    assert!(health.trouble.unwrap().what.contains("the disk is full"));
    assert_eq!((health.waiting, health.lost), (500, 0));
    assert_eq!(written(&folder.at("gateway.db"), "requests"), 1, "all of a commit, or nothing");
    assert_eq!(requests(&ledger).await, 501, "what waits is in the report");
    let began = base::Clock.now();
    for _ in 0..1000 {
        ledger.book(vec![entry("client-7")]);
    }
    assert!(began.elapsed() < Duration::from_secs(1), "nobody who books waits for the disk");
    room.store(0, Ordering::Relaxed);
    comes_to(&ledger, |health| *health == state::Health::default()).await;
    assert_eq!(written(&folder.at("gateway.db"), "requests"), 1501);
}

#[tokio::test]
async fn a_file_that_can_be_written_but_not_read_says_so_and_is_written() {
    let folder = Folder::new();
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    // A table of that name which can be added to, and is no longer what it was.
    other.execute_batch("ALTER TABLE usage RENAME TO kept; CREATE VIEW usage AS SELECT missing() AS quarter").unwrap();
    let asked = tokio::time::timeout(PATIENCE, ledger.report(Question::default()).into_future()).await.unwrap();
    assert!(asked.unwrap_err().0.contains("can be written, but not read"));
    ledger.book(vec![entry("a")]);
    other.execute_batch("DROP VIEW usage; ALTER TABLE kept RENAME TO usage").unwrap();
    assert_eq!(requests(&ledger).await, 2);
}

#[test]
fn what_lies_long_past_is_added_up_by_day_and_then_by_month() {
    const DAY: u64 = 24 * 60 * 60;
    let folder = Folder::new();
    let mut store = Store::at(folder.at("gateway.db"));
    // 2026-11-30T14:00:00Z, and 2025-10-26, before which whole months lie.
    let now = 1_796_047_200;
    let day_of = |ago: u64| (now - ago * DAY) / DAY * DAY;
    let mut book = state::Book::default();
    for ago in (0..800).step_by(4) {
        for quarter in [0, 1, 50, 95] {
            let at = Duration::from_secs(day_of(ago) + quarter * state::QUARTER);
            for client in ["a", "b"] {
                assert_eq!(book.add(Entry { at, ..entry(client) }, 100_000), 0);
            }
        }
    }
    assert!(store.write(&book).unwrap().is_empty());
    let report = |store: &mut Store, by: Columns, from: u64, to: u64| {
        let (from, to) = (Duration::from_secs(from), Some(Duration::from_secs(to)));
        let mut rows = store.read(&Question { from, to, by, client: Some("a".into()) }).unwrap();
        rows.sort_by_key(|row| row.day);
        rows.iter().map(|row| row.sums.requests).collect::<Vec<_>>()
    };
    let by_day = Columns { day: true, ..Columns::default() };
    let recent = (day_of(390), now + DAY);
    let before = report(&mut store, by_day, recent.0, recent.1);
    let mut from = 0;
    let mut steps = 0;
    while let Some(next) = store.fold(Duration::from_secs(now), from).unwrap() {
        assert!(next > from, "it comes to an end");
        (from, steps) = (next, steps + 1);
    }
    assert!(steps > 150, "each step is a short transaction: {steps}");
    assert_eq!(report(&mut store, by_day, recent.0, recent.1), before, "days are what they were");
    assert_eq!(report(&mut store, Columns::default(), 0, now + DAY), [800], "and so is the sum");
    let half_a_day = report(&mut store, Columns::default(), day_of(60), day_of(60) + DAY / 2);
    assert_eq!(half_a_day, [2], "what is not long past is known to the quarter");
    // October 2025 is the first month that is kept by day: of those before it a row for each client is left.
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    let count = |sql: &str| other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let october = 1_759_276_800 / 900;
    assert_eq!(count(&format!("SELECT COUNT(*) FROM usage WHERE quarter < {october}")), 13 * 2);
    let days = count(&format!(
        "SELECT COUNT(*) FROM usage WHERE quarter >= {october} AND quarter < {}",
        (now - fold::QUARTERS_KEPT.as_secs()) / DAY * 96
    ));
    assert_eq!(days % 2, 0);
    assert!((75..=100).contains(&(days / 2)), "{days}");
    // Again there is nothing to do, and what comes late is added to what is there.
    assert!(store.fold(Duration::from_secs(now), 0).unwrap().is_none_or(|from| from > 0));
    let mut late = state::Book::default();
    assert_eq!(late.add(Entry { at: Duration::from_secs(day_of(700) + 3600), ..entry("a") }, 1), 0);
    assert!(store.write(&late).unwrap().is_empty());
    let mut from = 0;
    while let Some(next) = store.fold(Duration::from_secs(now), from).unwrap() {
        from = next;
    }
    assert_eq!(report(&mut store, Columns::default(), 0, now + DAY), [801]);
    assert_eq!(count(&format!("SELECT COUNT(*) FROM usage WHERE quarter < {october}")), 13 * 2);
}

#[tokio::test]
async fn versions_of_knowledge_bases_survive_a_restart_and_the_ledger() {
    let folder = Folder::new();
    let versions = || SqliteVersions::at(folder.0.join("kb-versions.db"));
    assert_eq!(versions().all().await, Ok(Versioned::new()));
    assert_eq!(folder.names(), [""; 0], "asking makes no file");
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    let set = |route: &str, version: Option<&str>| versions().set(route.into(), version.map(Into::into));
    assert_eq!(set("chat", Some("1")).await.map(|all| all.len()), Ok(1));
    assert_eq!(set("other", Some("x")).await.map(|all| all.len()), Ok(2));
    assert_eq!(set("chat", Some("2")).await.map(|all| all.len()), Ok(2));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE));
    assert_eq!(requests(&ledger).await, 2);
    drop(ledger);
    std::fs::write(folder.at("gateway.db"), "no database any more".repeat(1_000)).unwrap();
    let ledger = self::ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    assert!(ledger.flush(PATIENCE), "the damaged one is set aside");
    drop(ledger);
    let all = versions().all().await.unwrap();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [("chat".into(), "2".into()), ("other".into(), "x".into())]);
    assert_eq!(set("chat", None).await.map(|all| all.into_keys().collect()), Ok(vec!["other".into()]));
    let nowhere = SqliteVersions::at(folder.at("gateway.db").join("file.db"));
    assert!(nowhere.set("chat".into(), Some("3".into())).await.is_err());
}

#[tokio::test]
async fn versions_that_cannot_be_read_are_told_of_and_left_alone() {
    let folder = Folder::new();
    let file = folder.0.join("kb-versions.db");
    std::fs::write(&file, "no database".repeat(1_000)).unwrap();
    let versions = SqliteVersions::at(file.clone());
    assert!(versions.all().await.unwrap_err().0.contains("kb-versions.db is damaged"));
    assert!(versions.set("chat".into(), Some("1".into())).await.is_err());
    assert!(std::fs::read(&file).unwrap().starts_with(b"no database"), "nothing is begun anew in its place");
}

#[tokio::test]
async fn another_programs_file_is_told_and_left_as_it_is() {
    let folder = Folder::new();
    let other = Connection::open(folder.at("gateway.db")).unwrap();
    other.execute_batch("CREATE TABLE objects (sum INTEGER); INSERT INTO objects VALUES (7)").unwrap();
    let ledger = ledger(&folder.at("gateway.db"));
    ledger.book(vec![entry("a")]);
    comes_to(&ledger, |health| health.trouble.is_some()).await;
    let told = ledger.health().trouble.unwrap().what;
    assert!(told.contains("another program's database") && told.contains("give `database` another file"), "{told}");
    ledger.desk.report_damage(crate::file::identity(&folder.at("gateway.db")), "a reader thinks so".to_owned());
    assert!(!ledger.flush(Duration::from_millis(50)));
    assert!(folder.names().iter().all(|name| !name.contains("damaged")), "{:?}", folder.names());
    let (sum, tables) = ("SELECT sum FROM objects", "SELECT COUNT(*) FROM sqlite_schema");
    let number = |select| other.query_row(select, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((number(sum), number(tables)), (7, 1));
}
