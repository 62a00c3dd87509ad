//! The usage ledger and quotas across restarts, kills and bad disks.

use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use testkit::get;

use crate::process::{ADMIN, Dir, Gateway, KEY, VIEWER, chat, program, run, until, upstream, usual};

/// One client with a quota, each of whose calls uses 30 tokens.
const SCENARIO: &str = "rules: [{ reply: { say: [Hi], usage: { prompt_tokens: 20, completion_tokens: 10 } } }]";

fn with_quota(url: &str, quota: &str) -> String {
    let app = format!("  - {{ name: app, keys: [{KEY}], routes: [\"*\"]");
    usual(url)
        .replace(&app, &format!("{app}, quota: {quota}"))
        .replace("model: m }", "model: m, prices: { prompt: 1, completion: 2 } }")
}

/// Requests and tokens that the ledger has.
async fn totals(gateway: &Gateway) -> (u64, u64) {
    let answer = gateway.ask_admin(&get("/admin/v1/usage?group_by=").key(VIEWER)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = answer.json();
    let row = &told["rows"][0];
    let count = |name: &str| row[name].as_u64().unwrap_or_default();
    (count("requests"), count("tokens_in") + count("tokens_out"))
}

/// How many quotas do not know yet what was used before.
async fn unread(gateway: &Gateway) -> Value {
    ledger(gateway).await["quotas_unread"].clone()
}

async fn ledger(gateway: &Gateway) -> Value {
    gateway.ask_admin(&get("/readyz")).await.json()["ledger"].clone()
}

/// Waits until the admin port says so of the ledger.
async fn ledger_is(gateway: &Gateway, status: &str) -> Value {
    for _ in 0..1000 {
        let told = ledger(gateway).await;
        if told["status"] == status {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the ledger never was {status}: {}", ledger(gateway).await);
}

async fn stopped(mut gateway: Gateway) -> Dir {
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await, Some(0));
    gateway.dir
}

#[tokio::test]
async fn a_quota_that_is_spent_stays_spent_after_a_restart() {
    let up = upstream(SCENARIO).await;
    let gateway = Gateway::serve(&with_quota(&up.url(), "{ tokens: 100 }")).await;
    let ask = || chat().with("max_tokens", 10);
    assert_eq!(gateway.ask(&ask()).await.status, 200);
    assert_eq!(gateway.ask(&ask()).await.status, 200);
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(totals(&gateway).await, (2, 60));
    gateway.metric_is("mai_quota_used_ratio", "\"tokens\"", 0.6).await;
    let refused = gateway.ask(&chat().with("max_tokens", 50)).await;
    assert_eq!((refused.status, refused.code().as_deref()), (429, Some("insufficient_quota")));
}

#[tokio::test]
async fn a_ledger_that_is_removed_while_in_use_resets_no_quota_not_even_by_a_restart() {
    let up = upstream(SCENARIO).await;
    let gateway = Gateway::serve(&with_quota(&up.url(), "{ tokens: 100 }")).await;
    let ask = || chat().with("max_tokens", 10);
    assert_eq!(gateway.ask(&ask()).await.status, 200);
    assert_eq!(totals(&gateway).await, (1, 30));
    for part in ["gateway.db", "gateway.db-wal", "gateway.db-shm"] {
        std::fs::remove_file(gateway.dir.path("data").join(part)).unwrap();
    }
    assert_eq!(gateway.ask(&ask()).await.status, 200);
    assert_eq!(totals(&gateway).await, (2, 60));
    until("the log says so", || gateway.process.err.has("the usage ledger was removed while in use")).await;
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(totals(&gateway).await, (2, 60));
    assert_eq!(gateway.ask(&chat().with("max_tokens", 50)).await.status, 429);
}

#[tokio::test]
async fn a_ledger_that_is_gone_at_the_start_is_told_unless_it_is_the_first() {
    let up = upstream(SCENARIO).await;
    let told = "there is no usage ledger, but the gateway has run here before";
    let gateway = Gateway::serve(&with_quota(&up.url(), "{ tokens: 100 }")).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    assert!(!gateway.process.err.has(told), "{}", gateway.process.err.text());
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert!(!gateway.process.err.has(told), "it is there: {}", gateway.process.err.text());
    let dir = stopped(gateway).await;
    std::fs::remove_file(dir.path("data/gateway.db")).unwrap();
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    assert!(gateway.process.err.has(told), "{}", gateway.process.err.text());
}

/// What the admin port says has befallen a store's file, once something has.
async fn damage(gateway: &Gateway, store: &str) -> Value {
    for _ in 0..1000 {
        let told = gateway.ask_admin(&get("/readyz")).await.json()[store]["damage"].clone();
        if !told.is_null() {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing has befallen the {store}: {}", gateway.process.err.text());
}

#[tokio::test]
async fn a_ledger_that_is_emptied_or_overwritten_while_in_use_resets_no_quota_not_even_by_a_restart() {
    let up = upstream(SCENARIO).await;
    // Of a small one everything is left in its log and in memory; of a large one it is not.
    for (others, garbage) in [(0, 0), (0, 16_384), (60_000, 0), (60_000, 8_000_000)] {
        let gateway = Gateway::serve(&with_quota(&up.url(), "{ tokens: 100 }")).await;
        let ask = || chat().with("max_tokens", 10);
        assert_eq!(gateway.ask(&ask()).await.status, 200);
        let dir = stopped(gateway).await;
        assert!(!dir.path("data/gateway.db-wal").exists(), "a clean stop leaves whole files");
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
            INSERT INTO usage SELECT 900 * i, 'other' || i, 'r', 'u', 'm', '', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0 FROM n WHERE ?1 > 0";
        Connection::open(dir.path("data/gateway.db")).unwrap().execute(rows, [others]).unwrap();
        let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
        assert_eq!(gateway.ask(&ask()).await.status, 200);
        gateway.metric_is("mai_quota_used_ratio", "\"tokens\"", 0.6).await;
        // In place: it stays the same file.
        std::fs::write(gateway.dir.path("data/gateway.db"), "no database. ".repeat(garbage / 13)).unwrap();
        // Whoever reads it finds out sooner than the look that is taken every few seconds.
        totals(&gateway).await;
        let told = damage(&gateway, "ledger").await;
        gateway.metric_is("mai_store_damages_total", "\"ledger\"", 1.0).await;
        let is_set_aside = told["what"].as_str().unwrap().contains("set aside");
        assert_eq!(is_set_aside, others > 0, "{told}");
        let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
        gateway.metric_is("mai_quota_used_ratio", "\"tokens\"", 0.6).await;
        assert_eq!(gateway.ask(&chat().with("max_tokens", 50)).await.status, 429, "{others} {garbage}");
    }
}

#[tokio::test]
async fn killed_it_has_lost_nothing_that_ended_a_tenth_of_a_second_before() {
    let up = upstream(SCENARIO).await;
    let mut gateway = Gateway::serve(&with_quota(&up.url(), "{ tokens: 100000 }")).await;
    let mut ended = Vec::new();
    let mut caller = gateway.caller().await;
    let began = base::Clock.now();
    while began.elapsed() < Duration::from_secs(1) {
        assert_eq!(caller.ask(&chat()).await.status, 200);
        ended.push(base::Clock.now());
    }
    let killed = base::Clock.now();
    gateway.process.signal("KILL");
    assert_eq!(gateway.process.exit().await, None);
    let Gateway { dir, .. } = gateway;
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    let (requests, tokens) = totals(&gateway).await;
    let before = ended.iter().filter(|end| killed.duration_since(**end) > Duration::from_millis(100)).count();
    assert!(before > 10, "{before}");
    assert!(requests >= before as u64, "{requests} of {before}, of {} in all", ended.len());
    assert!(requests <= ended.len() as u64, "nothing twice");
    assert_eq!(tokens, requests * 30);
    gateway.metric_is("mai_quota_used_ratio", "\"tokens\"", tokens as f64 / 100_000.0).await;
}

#[tokio::test]
async fn a_disk_that_takes_nothing_slows_no_call_and_all_is_written_once_it_has_room() {
    let up = upstream(SCENARIO).await;
    let dir = Dir::new();
    dir.write("gateway.yaml", usual(&up.url()));
    // A write beyond the largest size of a file fails, as on a full disk, instead of ending the process.
    let mut command = Command::new("sh");
    command.env_clear().current_dir(dir.path(".")).args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(program().get_program()).args(["serve", "--config", "gateway.yaml", "--workers", "2"]);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let gateway = Gateway::start(dir, &mut command).await;
    let room = |bytes: &str| {
        let pid = gateway.process.id().to_string();
        let limit = format!("--fsize={bytes}:unlimited");
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    assert_eq!(totals(&gateway).await, (1, 30));
    room("1");
    let began = base::Clock.now();
    for _ in 0..20 {
        assert_eq!(gateway.ask(&chat()).await.status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let told = ledger_is(&gateway, "behind").await;
    assert!(told["why"].as_str().unwrap().contains("disk"), "{told}");
    assert_eq!((&told["entries_waiting"], &told["requests_lost"]), (&1.into(), &0.into()));
    assert_eq!(totals(&gateway).await, (21, 630), "what waits is in the report");
    until("it says so once", || gateway.process.err.has("usage waits in memory")).await;
    room("unlimited");
    let told = ledger_is(&gateway, "ok").await;
    assert_eq!(told["entries_waiting"], 0);
    assert_eq!(gateway.process.err.text().matches("usage waits in memory").count(), 1);
    assert!(gateway.process.err.has("the usage ledger is written again"));
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(totals(&gateway).await, (21, 630));
}

#[tokio::test]
async fn a_locked_database_slows_neither_calls_nor_a_start() {
    let up = upstream(SCENARIO).await;
    let gateway = Gateway::serve(&with_quota(&up.url(), "{ tokens: 1000 }")).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    assert_eq!(totals(&gateway).await, (1, 30));
    let dir = stopped(gateway).await;
    let other = Connection::open(dir.path("data/gateway.db")).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    assert!(gateway.process.err.has("quotas begin without what was used before"));
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let told = ledger_is(&gateway, "behind").await;
    assert!(told["why"].as_str().unwrap().contains("locked"), "{told}");
    assert_eq!(unread(&gateway).await, 1);
    drop(other);
    ledger_is(&gateway, "ok").await;
    assert_eq!(totals(&gateway).await, (2, 60));
    gateway.metric_is("mai_quota_used_ratio", "\"tokens\"", 0.06).await;
    assert_eq!(unread(&gateway).await, 0);
}

#[tokio::test]
async fn a_damaged_database_is_set_aside_and_a_new_one_begun() {
    let up = upstream(SCENARIO).await;
    let dir = Dir::new();
    dir.write("gateway.yaml", with_quota(&up.url(), "{ tokens: 1000 }"));
    dir.write("data/gateway.db", "no database at all, but long enough for a page of one. ".repeat(200));
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    assert_eq!(totals(&gateway).await, (1, 30));
    assert!(gateway.process.err.has("the database was damaged"));
    let names = std::fs::read_dir(gateway.dir.path("data")).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("gateway.db.damaged-")), "{names:?}");
}

#[tokio::test]
async fn usage_is_reported_to_viewers_as_json_and_as_csv() {
    let up = upstream(SCENARIO).await;
    let gateway = Gateway::serve(&with_quota(&up.url(), "{ cost: 5 }")).await;
    for _ in 0..3 {
        assert_eq!(gateway.ask(&chat()).await.status, 200);
    }
    let asked =
        async |query: &str, token: &str| gateway.ask_admin(&get(&format!("/admin/v1/usage{query}")).key(token)).await;
    let told = asked("?group_by=client,route,model,day", VIEWER).await.json();
    let row = &told["rows"][0];
    assert_eq!((&row["client"], &row["route"], &row["model"]), (&"app".into(), &"chat".into(), &"m".into()));
    assert_eq!((&row["requests"], &row["tokens_in"], &row["tokens_out"]), (&3.into(), &60.into(), &30.into()));
    assert_eq!((row["cost"].to_string(), &row["currency"]), ("0.00012".to_owned(), &"USD".into()));
    assert_eq!((&row["cache_hits"], &row["tokens_saved"]), (&0.into(), &0.into()));
    assert_eq!(told["rows"].as_array().unwrap().len(), 1);
    gateway.metric_is("mai_cost_total", "client=\"app\"", 0.00012).await;
    assert_eq!(asked("?to=2020-01-01", VIEWER).await.json()["rows"], Value::Array(vec![]));
    let csv = asked("?group_by=client&format=csv", ADMIN).await;
    assert!(csv.header("content-type").unwrap().starts_with("text/csv"));
    assert!(csv.text().contains("\r\napp,3,60,30,0,0,0,0,0,0.00012,USD,"), "{}", csv.text());
    assert_eq!(asked("", "wrong").await.status, 401);
    let wrong = asked("?group_by=colour", VIEWER).await;
    assert_eq!((wrong.status, wrong.code().as_deref()), (400, Some("invalid_request")));
    assert_eq!(wrong.json()["error"]["param"], "group_by");
    let wrong = asked("?client=a&client=%FF", VIEWER).await;
    assert_eq!((wrong.status, &wrong.json()["error"]["param"]), (400, &"client".into()));
}

#[tokio::test]
async fn the_command_prints_what_a_running_gateway_has() {
    let up = upstream(SCENARIO).await;
    let gateway = Gateway::serve(&with_quota(&up.url(), "{ cost: 5 }")).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let url = format!("http://{}", gateway.admin);
    let ran = spawned(&url, &["--by", "client,model"], Some(VIEWER)).await;
    assert_eq!(ran.0, 0, "{}", ran.2);
    let lines: Vec<Vec<&str>> = ran.1.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["client", "model", "requests"]);
    assert_eq!(lines[1], ["app", "m", "1", "20", "10", "0", "0", "0.00004", "USD", "-"]);
    let told: Value = serde_json::from_str(&spawned(&url, &["--json"], Some(ADMIN)).await.1).unwrap();
    assert_eq!(told["rows"][0]["tokens_in"], 20);
    assert!(spawned(&url, &["--csv"], Some(ADMIN)).await.1.starts_with("client,requests,"));
    for (flags, token, words) in [
        (&["--by", "client"][..], None, "no admin token"),
        (&["--by", "client"][..], Some("wrong-token"), "answers 401"),
        (&["--by", "colour"][..], Some(VIEWER), "`--by` has `colour`"),
        (&["--from", "yesterday"][..], Some(VIEWER), "`--from` is `yesterday`"),
    ] {
        let (code, _, told) = spawned(&url, flags, token).await;
        assert!(code == 1 && told.contains(words), "{code} {told}");
    }
    let (code, _, told) = spawned("http://127.0.0.1:9", &[], Some(VIEWER)).await;
    assert!(code == 1 && told.contains("is it running"), "{told}");
    let (code, _, told) = spawned(&url.replace("http", "https"), &[], Some(VIEWER)).await;
    assert!(code == 1 && told.contains("no gateway answers"), "an admin port without TLS: {told}");
}

/// Exit code, output and complaints of `usage`.
async fn spawned(url: &str, flags: &[&str], token: Option<&str>) -> (i32, String, String) {
    let mut command = program();
    command.args(["usage", "--admin", url]).args(flags);
    if let Some(token) = token {
        command.env("MAI_ADMIN_TOKEN", token);
    }
    let ran = tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap();
    (ran.code, ran.out, ran.err)
}
