//! Reloads: a bad configuration changes nothing, the next good one is taken, calls in flight end as
//! they began.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use testkit::get;

use crate::process::{ADMIN, Dir, Gateway, KEY, chat, reload, soon, until, upstream, usual};

/// The usual configuration with one more route, by which one tells that it is in force.
fn with_route(url: &str, name: &str) -> String {
    usual(url).replace(
        "clients:",
        &format!("  - {{ name: {name}, match: {{ path: /v1/chat/completions }}, upstreams: [{{ provider: up, model: m }}] }}\nclients:"),
    )
}

impl Gateway {
    async fn serves(&self, model: &str) -> bool {
        self.ask(&testkit::chat(model).user("Hi").key(KEY)).await.status == 200
    }

    async fn comes_to_serve(&self, model: &str) {
        let serving = async {
            while !self.serves(model).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        soon(&format!("a configuration with `{model}`"), serving).await;
    }

    async fn problems(&self) -> String {
        self.ask_admin(&get("/readyz")).await.json()["last_reload"].to_string()
    }
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_the_next_good_one_is_taken() {
    let up = upstream("").await;
    let url = up.url();
    let gateway = Gateway::serve(&usual(&url)).await;
    // Somebody calls all the while, and never meets an error.
    let address = gateway.data;
    let calling = tokio::spawn(async move {
        let mut caller = testkit::Caller::on(tokio::net::TcpStream::connect(address).await.unwrap());
        loop {
            assert_eq!(caller.ask(&chat()).await.status, 200);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let bad = [
        ("routes: [".to_owned(), "gateway.yaml:"),
        (usual(&url).replace("provider: up, model: m", "provider: nobody, model: m"), "nobody"),
        (usual(&url).replace(KEY, "\"${NO_SUCH_VARIABLE}\""), "NO_SUCH_VARIABLE"),
        (String::new(), "gateway.yaml"),
    ];
    for (at, (text, word)) in bad.iter().enumerate() {
        let times = u32::try_from(at).unwrap();
        gateway.rewrite(text);
        gateway.reloads(times, times + 1).await;
        assert!(gateway.serves("chat").await, "{text}");
        assert!(gateway.problems().await.contains(word), "{}", gateway.problems().await);
        assert!(gateway.process.err.has(word), "the log names it");
        assert_eq!(gateway.ask(&get("/readyz")).await.status, 200);

        let name = format!("more-{at}");
        gateway.rewrite(&with_route(&url, &name));
        gateway.reloads(times + 1, times + 1).await;
        assert!(gateway.serves(&name).await);
        assert_eq!(gateway.problems().await, "[]");
    }
    assert!(!calling.is_finished());
    calling.abort();
}

#[tokio::test]
async fn the_log_level_changes_with_the_file() {
    let up = upstream("rules: [{ reply: 500 }]").await;
    let config = usual(&up.url()).replace("[10ms, 20ms]", "[]");
    let gateway = Gateway::serve(&config).await;
    assert_eq!(gateway.ask(&chat()).await.status, 502);
    gateway.rewrite(&format!("log_level: debug\n{config}"));
    gateway.reloads(1, 0).await;
    assert!(!gateway.process.err.has("a try failed"));
    assert_eq!(gateway.ask(&chat()).await.status, 502);
    until("it is logged", || gateway.process.err.has("a try failed")).await;
}

#[tokio::test]
async fn a_missing_folder_in_its_place_or_unreadable_file_is_a_bad_one() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let path = gateway.dir.path("gateway.yaml");
    fs::remove_file(&path).unwrap();
    gateway.reloads(0, 1).await;
    fs::create_dir(&path).unwrap();
    gateway.reloads(0, 2).await;
    fs::remove_dir(&path).unwrap();
    fs::write(&path, with_route(&up.url(), "again")).unwrap();
    gateway.reloads(1, 2).await;
    assert!(gateway.serves("again").await);

    // Whoever runs as root reads everything; bytes that are no text cannot be read by anybody.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    }
    gateway.reloads(1, 3).await;
    assert!(gateway.serves("again").await);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, with_route(&up.url(), "readable")).unwrap();
    gateway.reloads(2, 3).await;
    assert!(gateway.serves("readable").await);
}

/// What stands there in between may be read too, where this machine is so busy that it is still for long: what is there in
/// the end counts. That nothing is read before it is still is tested beside the code, by a clock that no load holds up.
#[tokio::test]
async fn a_file_is_taken_as_it_is_in_the_end_however_it_was_written() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let whole = with_route(&up.url(), "late");
    let (half, _) = whole.split_at(whole.len() / 2);
    gateway.dir.write("gateway.yaml", half);
    tokio::time::sleep(Duration::from_millis(150)).await;
    gateway.dir.write("gateway.yaml", &whole);
    gateway.comes_to_serve("late").await;

    // A hundred changes in a second, half of them broken.
    for turn in 0..100 {
        gateway.dir.write("gateway.yaml", if turn % 2 == 0 { "routes: [" } else { &whole });
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gateway.rewrite(&with_route(&up.url(), "last"));
    gateway.comes_to_serve("last").await;

    // Deleted and written again by an editor.
    fs::remove_file(gateway.dir.path("gateway.yaml")).unwrap();
    gateway.rewrite(&with_route(&up.url(), "edited"));
    gateway.comes_to_serve("edited").await;

    // Written beside it and renamed onto it.
    let beside = gateway.dir.write("beside.tmp", with_route(&up.url(), "renamed"));
    fs::rename(beside, gateway.dir.path("gateway.yaml")).unwrap();
    gateway.comes_to_serve("renamed").await;
    assert!(!gateway.serves("edited").await);
}

#[tokio::test]
async fn the_symlinks_of_a_config_map_are_followed() {
    let up = upstream("").await;
    for watched in ["config/gateway.yaml", "config"] {
        let dir = Dir::new();
        dir.write("config/..one/gateway.yaml", usual(&up.url()));
        symlink("..one", dir.path("config/..data")).unwrap();
        symlink("..data/gateway.yaml", dir.path("config/gateway.yaml")).unwrap();
        let gateway = Gateway::serve_in(dir, watched).await;
        for (at, version) in ["..two", "..three"].into_iter().enumerate() {
            let name = format!("map-{at}");
            gateway.dir.write(&format!("config/{version}/gateway.yaml"), with_route(&up.url(), &name));
            symlink(version, gateway.dir.path("config/..data_tmp")).unwrap();
            fs::rename(gateway.dir.path("config/..data_tmp"), gateway.dir.path("config/..data")).unwrap();
            gateway.reloads(u32::try_from(at).unwrap() + 1, 0).await;
            assert!(gateway.serves(&name).await, "{watched}");
        }
    }
}

#[tokio::test]
async fn files_come_and_go_in_a_folder() {
    let up = upstream("").await;
    let dir = Dir::new();
    dir.write("config/main.yaml", usual(&up.url()));
    let gateway = Gateway::serve_in(dir, "config").await;
    let more =
        "routes: [{ name: more, match: { path: /v1/chat/completions }, upstreams: [{ provider: up, model: m }] }]";
    gateway.dir.write("config/more.yaml", more);
    gateway.reloads(1, 0).await;
    assert!(gateway.serves("more").await);
    // The new file is watched from now on as well.
    gateway.dir.write("config/more.yaml", more.replace("name: more", "name: other"));
    gateway.reloads(2, 0).await;
    assert!(gateway.serves("other").await && !gateway.serves("more").await);
    fs::remove_file(gateway.dir.path("config/more.yaml")).unwrap();
    gateway.reloads(3, 0).await;
    assert!(!gateway.serves("other").await && gateway.serves("chat").await);
}

#[tokio::test]
async fn a_file_that_a_bad_configuration_names_may_come_later() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let ca = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    gateway.rewrite(&with_route(&up.url(), "late").replace("protocol: openai,", "protocol: openai, ca: ca.pem,"));
    gateway.reloads(0, 1).await;
    gateway.dir.write("ca.pem", ca);
    gateway.reloads(1, 1).await;
    assert!(gateway.serves("late").await);
}

#[tokio::test]
async fn signal_and_admin_call_reload_once_and_a_changed_port_is_told() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    gateway.process.signal("HUP");
    gateway.reloads(1, 0).await;
    gateway.rewrite(&with_route(&up.url(), "posted"));
    assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
    assert!(gateway.serves("posted").await, "at once, without the wait for stillness");
    gateway.rewrite("routes: [");
    let answer = gateway.ask_admin(&reload(ADMIN)).await;
    assert!(answer.text().contains("gateway.yaml:2:1\""), "{}", answer.text());
    // What was read on demand is not read again by the watcher.
    tokio::time::sleep(Duration::from_millis(700)).await;
    gateway.reloads(2, 1).await;
    gateway.rewrite(&usual(&up.url()));
    gateway.reloads(3, 1).await;
}

#[tokio::test]
async fn a_changed_port_takes_a_restart_and_says_so() {
    let up = upstream("").await;
    let dir = Dir::new();
    let ports = "listen: 127.0.0.1:0\n";
    let text = usual(&up.url()).replacen("admin:", "admin:\n  listen: 127.0.0.1:0", 1);
    let path = dir.write("gateway.yaml", format!("{ports}{text}"));
    let gateway = Gateway::start(dir, crate::process::program().arg("serve").arg("-c").arg(path)).await;
    assert!(!gateway.process.err.has("restart"));
    gateway.rewrite(&format!("listen: 127.0.0.1:9\n{text}"));
    gateway.reloads(1, 0).await;
    until("the log says so", || gateway.process.err.has("takes a restart")).await;
    assert!(gateway.serves("chat").await, "on the port as it was");
    // As long as the restart is due, every reload says so; no longer when it is not.
    gateway.rewrite(&format!("listen: 127.0.0.1:9\n{text}\n"));
    gateway.reloads(2, 0).await;
    until("it is said again", || gateway.process.err.text().matches("takes a restart").count() == 2).await;
    gateway.rewrite(&format!("{ports}{text}"));
    gateway.reloads(3, 0).await;
    assert_eq!(gateway.process.err.text().matches("takes a restart").count(), 2);
}

#[tokio::test]
async fn calls_in_flight_end_as_they_began() {
    const STREAM: &str = "rules: [{ when: { stream: true }, reply: { say: [one, two, three, four], every: 400ms } }, \
                          { when: { stream: false }, reply: { say: slow, latency: 1500ms } }]";
    let up = upstream(STREAM).await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut caller = gateway.caller().await;
        caller.begin(&chat().stream()).await;
        streams.push(caller);
    }
    let mut slow = Vec::new();
    for _ in 0..5 {
        let mut caller = gateway.caller().await;
        caller.begin(&chat()).await;
        slow.push(caller);
    }
    soon("they run", up.log().until(|calls| calls.len() == 15)).await;
    // The provider, the route and the key go, and what is new has the shortest of clocks.
    let other = upstream("").await;
    let changed = usual(&other.url())
        .replace("name: up,", "name: other,")
        .replace("provider: up", "provider: other")
        .replace("name: chat,", "name: talk, timeout: 50ms, deadline: 60ms,")
        .replace(KEY, "sk-fresh-000000000");
    gateway.rewrite(&changed);
    assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
    assert_eq!(gateway.ask(&chat()).await.status, 401, "the key is revoked for new calls");
    let ask = |model| testkit::chat(model).user("Hi").key("sk-fresh-000000000");
    assert_eq!(gateway.ask(&ask("chat")).await.status, 404);
    assert_eq!(gateway.ask(&ask("talk")).await.header("x-mai-upstream"), Some("other/m"));
    for _ in 0..3 {
        assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
    }
    for mut caller in streams {
        let answer = soon("a stream's end", caller.answer()).await.unwrap();
        assert_eq!(answer.said(), "onetwothreefour");
        assert!(answer.is_whole && answer.events().is_done());
        caller.begin(&chat()).await;
        assert_eq!(soon("an answer", caller.answer()).await.unwrap().status, 401, "on the same connection too");
    }
    for mut caller in slow {
        assert_eq!(soon("an answer", caller.answer()).await.unwrap().said(), "slow");
    }
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
}
