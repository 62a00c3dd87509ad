//! When the machine has too little of something.

use std::process::Command;

use serde_json::json;
use testkit::get;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::process::{ADMIN, Dir, Gateway, KEY, Program, chat, program, until, upstream, usual};

fn serve(dir: &Dir, config: &str) -> Command {
    let path = dir.write("gateway.yaml", config);
    let mut command = program();
    command.arg("serve").arg("-c").arg(path).env("MAI_DATA_DIR", dir.path("data"));
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "2"]);
    command
}

/// The same command, once a shell has done something to its own limits.
fn after(limits: &str, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.env_clear().args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    limited
}

#[tokio::test]
async fn as_many_descriptors_are_taken_as_the_system_gives() {
    let up = upstream("").await;
    let dir = Dir::new();
    let serve = serve(&dir, &usual(&up.url()));
    let gateway = Gateway::start(dir, &mut after("ulimit -Sn 100; ulimit -Hn 900", &serve)).await;
    let log = gateway.process.err.text();
    assert!(log.contains("limit=900") && log.contains("few file descriptors"), "{log}");
    let mut held = Vec::new();
    for _ in 0..150 {
        held.push(TcpStream::connect(gateway.data).await.unwrap());
    }
    assert_eq!(gateway.ask(&chat()).await.status, 200, "more than the soft limit was");
}

#[tokio::test]
async fn a_disk_that_is_full_at_the_start_costs_what_would_be_written_and_no_call() {
    let up = upstream("").await;
    let dir = Dir::new();
    let serve = serve(&dir, &usual(&up.url()));
    let gateway = Gateway::start(dir, &mut after(":", &serve)).await;
    let put = |name: &str| {
        let route = json!({ "name": name, "upstreams": [{ "provider": "up", "model": "m" }] });
        let ask = get(&format!("/admin/v1/routes/{name}")).method("PUT").header("content-type", "application/json");
        ask.key(ADMIN).body(route.to_string())
    };
    assert_eq!(gateway.ask_admin(&put("made")).await.status, 201);
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let Gateway { mut process, dir, .. } = gateway;
    process.signal("KILL");
    process.exit().await;
    // A write beyond the largest size of a file fails as on a full disk, whoever writes.
    let gateway = Gateway::start(dir, &mut after("trap '' XFSZ; ulimit -f 0", &serve)).await;
    assert_eq!(gateway.ask(&testkit::chat("made").user("Hi").key(KEY)).await.status, 200);
    let refused = gateway.ask_admin(&put("more")).await;
    assert_eq!((refused.status, refused.code().as_deref()), (503, Some("objects_unavailable")), "{}", refused.text());
    let ready = gateway.ask_admin(&get("/readyz")).await;
    assert_eq!((ready.status, &ready.json()["objects"]["status"]), (200, &json!("out")), "{}", ready.text());
    gateway.metric_is("mai_objects_out", "", 1.0).await;
    until("the log says so", || gateway.process.err.has("nothing can be made or changed through the admin API")).await;
    let audit = gateway.ask_admin(&get("/admin/v1/audit").key(ADMIN)).await;
    assert_eq!(audit.status, 200, "{}", audit.text());
}

#[tokio::test]
async fn callers_beyond_the_descriptors_wait_and_take_none_from_admin_port_stores_and_upstreams() {
    let up = upstream("").await;
    let dir = Dir::new();
    let serve = serve(&dir, &usual(&up.url()));
    let gateway = Gateway::start(dir, &mut after("ulimit -n 200", &serve)).await;
    let log = gateway.process.err.text();
    let most = gateway.metric("mai_connections_max", "").await;
    assert!((10.0..100.0).contains(&most) && log.contains(&format!("callers={most}")), "{most}: {log}");
    assert!(log.contains("`pool.max_connections` of provider `up` is 512"), "{log}");
    let mut first = gateway.caller().await;
    assert_eq!(first.ask(&chat()).await.status, 200);
    let mut held = Vec::new();
    for _ in 0..250 {
        held.push(TcpStream::connect(gateway.data).await.unwrap());
    }
    until("it says so", || gateway.process.err.has("callers are connected, and more may not be")).await;
    gateway.metric_is("mai_connections", "", most).await;
    for _ in 0..20 {
        assert_eq!(gateway.ask_admin(&get("/healthz")).await.status, 200);
    }
    let put = get("/admin/v1/clients/made").method("PUT").header("content-type", "application/json").key(ADMIN);
    let made = gateway.ask_admin(&put.body(r#"{"routes":["*"]}"#)).await;
    assert_eq!(made.status, 201, "the store has files to open: {}", made.text());
    assert_eq!(first.ask(&chat()).await.status, 200, "upstreams are reached");
    drop(held);
    assert_eq!(gateway.ask(&chat()).await.status, 200, "there is room again");
    let log = gateway.process.err.text();
    assert!(!log.contains("could not be accepted") && log.lines().count() < 20, "{log}");
}

#[tokio::test]
async fn with_hardly_any_descriptors_it_waits_and_recovers() {
    let up = upstream("").await;
    let dir = Dir::new();
    let serve = serve(&dir, &usual(&up.url()));
    let gateway = Gateway::start(dir, &mut after("ulimit -n 64", &serve)).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(TcpStream::connect(gateway.data).await.unwrap());
    }
    until("it says so", || gateway.process.err.has("callers are connected, and more may not be")).await;
    assert_eq!(gateway.ask_admin(&get("/healthz")).await.status, 200);
    drop(held);
    for ask in [chat(), chat().stream()] {
        assert_eq!(gateway.ask(&ask).await.status, 200, "it has recovered");
    }
    assert!(gateway.process.err.text().lines().count() < 10, "it does not flood its log");
}

/// Whether the process may open more descriptors than it has now.
fn may_open_more(process: &Program, more: bool) {
    let held: Vec<u32> = std::fs::read_dir(format!("/proc/{}/fd", process.id()))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    let most = if more { 1024 } else { (0..).find(|number| !held.contains(number)).unwrap() };
    let pid = process.id().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={most}:")]).status();
    assert!(done.unwrap().success());
}

#[tokio::test]
async fn a_gateway_without_descriptors_says_so_and_blames_no_upstream() {
    let up = upstream("").await;
    // A resolver that can open nothing does not say so.
    for url in [up.url(), up.url().replace("127.0.0.1", "localhost")] {
        let gateway = Gateway::serve(&usual(&url)).await;
        let mut caller = gateway.caller().await;
        assert_eq!(caller.ask(&get("/healthz")).await.status, 200);
        may_open_more(&gateway.process, false);
        for _ in 0..6 {
            let answer = caller.ask(&chat()).await;
            let told = (answer.status, answer.code());
            assert_eq!(told, (503, Some("gateway_overloaded".to_owned())), "{}", answer.text());
            assert!(answer.text().contains("`ulimit -n`"), "{}", answer.text());
        }
        may_open_more(&gateway.process, true);
        assert_eq!(caller.ask(&chat()).await.status, 200, "at once: no breaker is open");
        assert_eq!(gateway.process.err.text().matches("no file descriptors left").count(), 1, "the log has it once");
        assert_eq!(gateway.metric("mai_breaker_transitions_total", "").await, 0.0);
    }
}

#[tokio::test]
async fn a_pipe_where_a_file_of_the_data_folder_belongs_is_named_and_the_start_ends() {
    for name in ["objects.db", "gateway.db", "requests.db", "kb-versions.db", "cache.db", "secrets.key", "gateway.lock"]
    {
        let dir = Dir::new();
        let mut serve = serve(&dir, &usual("http://127.0.0.1:9"));
        let pipe = dir.path("data").join(name);
        std::fs::create_dir_all(dir.path("data")).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut process = Program::start(&mut serve);
        assert_eq!(process.exit().await, Some(1), "{name}");
        let told = format!("{} is not a regular file", pipe.display());
        until("it says why", || process.err.has(&told)).await;
    }
}

#[tokio::test]
async fn connections_that_send_half_a_head_keep_nobody_from_the_admin_port() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut halves = Vec::new();
    for _ in 0..700 {
        let mut half = TcpStream::connect(gateway.admin).await.unwrap();
        // It may be closed again by now.
        let _ = half.write_all(b"GET /heal").await;
        halves.push(half);
    }
    let began = base::Clock.now();
    assert_eq!(gateway.ask_admin(&get("/healthz")).await.status, 200);
    let took = base::Clock.now().duration_since(began);
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn an_access_log_that_nobody_reads_holds_up_nobody() {
    let up = upstream("").await;
    for is_closed in [true, false] {
        let dir = Dir::new();
        let process = Program::start_unheard(&mut serve(&dir, &usual(&up.url())), is_closed);
        let mut gateway = Gateway::of(dir, process).await;
        let mut caller = gateway.caller().await;
        // More lines than a pipe holds.
        for _ in 0..300 {
            let ask = chat().header("x-request-id", "i".repeat(120));
            assert_eq!(caller.ask(&ask).await.status, 200);
        }
        if is_closed {
            assert!(gateway.metric("mai_log_lines_lost", "").await > 0.0, "it is counted");
        }
        gateway.process.signal("TERM");
        assert_eq!(gateway.process.exit().await, Some(0));
    }
}
