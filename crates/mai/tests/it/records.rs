//! Records of requests as operators meet them: searched, told and kept from viewers over HTTP, whatever their disk does.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use testkit::{Answer, get};

use crate::process::{ADMIN, Dir, Gateway, KEY, PROVIDER_KEY, VIEWER, chat, program, soon, until, upstream, usual};

const SECOND: &str = "sk-second-client-81e4";

/// Two clients; on `far` an upstream that fails stands before one that answers, and `chat` has a cache.
fn two_upstreams(url: &str, failing: &str) -> String {
    format!(
        r#"
admin:
  tokens:
    - {{ name: root, role: admin, token: {ADMIN} }}
    - {{ name: eye, role: viewer, token: {VIEWER} }}
providers:
  - {{ name: bad, base_url: "{failing}/v1", api_key: {PROVIDER_KEY} }}
  - {{ name: up, base_url: "{url}/v1", api_key: {PROVIDER_KEY} }}
routes:
  - name: far
    upstreams: [{{ provider: bad, model: m }}, {{ provider: up, model: m, tier: 1 }}]
    retry: {{ server_error: [] }}
  - {{ name: chat, upstreams: [{{ provider: up, model: m }}], cache: {{ mode: exact }} }}
clients:
  - {{ name: app, keys: [{KEY}], routes: ["*"] }}
  - {{ name: second, keys: [{SECOND}], routes: ["*"] }}
"#
    )
}

async fn told(gateway: &Gateway, tail: &str, token: &str) -> Answer {
    let answer = gateway.ask_admin(&get(&format!("/admin/v1/requests{tail}")).key(token)).await;
    for secret in [KEY, SECOND, PROVIDER_KEY, ADMIN, VIEWER] {
        assert!(!answer.text().contains(secret), "{tail} shows {secret}: {}", answer.text());
    }
    answer
}

/// Ids of those that are like that.
async fn found(gateway: &Gateway, query: &str) -> BTreeSet<String> {
    let page = told(gateway, query, VIEWER).await;
    assert_eq!(page.status, 200, "{query}: {}", page.text());
    let page = page.json();
    let ids = page["data"].as_array().unwrap().iter().map(|one| one["request_id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

const FIVE: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// One call that fails over, one that is stored, its like out of the cache, another client's, and one to a route that is
/// not there.
async fn five_calls(gateway: &Gateway) {
    for (id, ask, status) in [
        ("first", testkit::chat("far").user("Hi").key(KEY), 200),
        ("second", chat(), 200),
        ("third", chat(), 200),
        ("fourth", testkit::chat("chat").user("Hello").key(SECOND), 200),
        ("fifth", testkit::chat("nowhere").user("Hi").key(KEY), 404),
    ] {
        assert_eq!(gateway.ask(&ask.header("x-request-id", id)).await.status, status, "{id}");
        if id == "second" {
            gateway.metric_is("mai_cache_entries", "memory", 1.0).await;
        }
    }
}

#[tokio::test]
async fn a_request_is_found_by_everything_that_is_known_of_it() {
    let (up, bad) = (upstream("").await, upstream("rules: [{ reply: { status: 503 } }]").await);
    let gateway = Gateway::serve(&two_upstreams(&up.url(), &bad.url())).await;
    five_calls(&gateway).await;
    for (query, ids) in [
        ("", &FIVE[..]),
        ("?request_id=first", &["first"]),
        ("?client=second", &["fourth"]),
        ("?client=nobody", &[]),
        ("?route=chat", &["second", "third", "fourth"]),
        ("?status=404", &["fifth"]),
        ("?status=4xx", &["fifth"]),
        ("?status=2xx&client=app", &["first", "second", "third"]),
        ("?status=5xx", &[]),
        ("?upstream=bad/m", &["first"]),
        ("?upstream=up%2Fm&route=far", &["first"]),
        ("?cache=hit", &["third"]),
        ("?outcome=ok&cache=miss", &["second", "fourth"]),
        ("?since=2001-01-01&until=2001-02-01", &[]),
    ] {
        assert_eq!(found(&gateway, query).await, set(ids), "{query}");
    }
    // By time: from one of them on, and before it.
    let all = told(&gateway, "", VIEWER).await.json()["data"].clone();
    let fourth = told(&gateway, "/fourth", VIEWER).await.json()["time"].as_str().unwrap().to_owned();
    let (mut later, mut earlier) = (BTreeSet::new(), BTreeSet::new());
    for one in all.as_array().unwrap() {
        let side = if one["time"].as_str().unwrap() >= fourth.as_str() { &mut later } else { &mut earlier };
        side.insert(one["request_id"].as_str().unwrap().to_owned());
    }
    assert!(later.contains("fourth") && earlier.contains("first"), "{all}");
    assert_eq!(found(&gateway, &format!("?since={fourth}")).await, later);
    assert_eq!(found(&gateway, &format!("?until={fourth}")).await, earlier);
    let (wrong, stranger) = (told(&gateway, "?status=high", VIEWER).await, told(&gateway, "?colour=red", VIEWER).await);
    assert_eq!((wrong.status, &wrong.json()["error"]["param"]), (400, &"status".into()));
    assert_eq!((stranger.status, told(&gateway, "", "adm-wrong").await.status), (400, 401));
}

#[tokio::test]
async fn what_a_shadow_would_have_served_is_found() {
    let up = upstream("").await;
    let shadow = "{ name: chat, cache: { mode: semantic, semantic: { route: embedding, threshold: 0.5, timeout: 5s, shadow: true } },";
    let gateway = Gateway::serve(&usual(&up.url()).replace("{ name: chat,", shadow)).await;
    for (id, question) in [("first", "How do I reset my password?"), ("second", "How can I reset my password?")] {
        let asked = testkit::chat("chat").user(question).key(KEY).header("x-request-id", id);
        assert_eq!(gateway.ask(&asked).await.header("x-mai-cache"), Some("miss"));
        gateway.metric_is("mai_cache_questions", "\"chat\"", if id == "first" { 1.0 } else { 2.0 }).await;
    }
    assert_eq!(found(&gateway, "?cache=shadow").await, set(&["second"]));
    assert_eq!(found(&gateway, "?cache=miss").await, set(&["first", "second"]), "it is one of these all the same");
}

#[tokio::test]
async fn pages_have_each_request_once_while_it_is_written() {
    let (up, bad) = (upstream("").await, upstream("rules: [{ reply: { status: 503 } }]").await);
    let gateway = Gateway::serve(&two_upstreams(&up.url(), &bad.url())).await;
    five_calls(&gateway).await;
    let (mut ids, mut tail) = (Vec::new(), "?limit=1".to_owned());
    loop {
        let page = told(&gateway, &tail, VIEWER).await.json();
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= 1, "{page}");
        ids.extend(data.iter().map(|one| one["request_id"].as_str().unwrap().to_owned()));
        if ids.len() == 2 {
            // They go to the disk between two pages.
            until("they are written", || gateway.dir.path("data/requests.db").exists()).await;
            requests_are(&gateway, "ok", 0).await;
        }
        match page["next"].as_str() {
            Some(next) => tail = format!("?limit=1&after={next}"),
            None => break,
        }
    }
    assert_eq!((ids.len(), ids.into_iter().collect()), (5, set(&FIVE)));
    let wrong = told(&gateway, "?after=yesterday", VIEWER).await;
    assert_eq!((wrong.status, &wrong.json()["error"]["param"]), (400, &"after".into()));
}

#[tokio::test]
async fn one_request_is_told_with_its_attempts_and_decisions_in_order() {
    let (up, bad) = (upstream("").await, upstream("rules: [{ reply: { status: 503 } }]").await);
    let gateway = Gateway::serve(&two_upstreams(&up.url(), &bad.url())).await;
    five_calls(&gateway).await;
    let first = told(&gateway, "/first", VIEWER).await.json();
    assert_eq!((&first["client"], &first["route"], &first["upstream"]), (&"app".into(), &"far".into(), &"up/m".into()));
    assert_eq!(
        (&first["status"], &first["outcome"], &first["endpoint"]),
        (&200.into(), &"ok".into(), &"chat/completions".into())
    );
    let tries = first["attempts"].as_array().unwrap();
    let ways: Vec<_> = tries.iter().map(|one| (one["upstream"].as_str().unwrap(), one["status"].as_u64())).collect();
    assert_eq!(ways, [("bad/m", Some(503)), ("up/m", Some(200))]);
    let [second, third] =
        [told(&gateway, "/second", VIEWER).await.json(), told(&gateway, "/third", VIEWER).await.json()];
    for one in [&first, &second, &third] {
        for list in ["attempts", "decisions"] {
            let at: Vec<_> = one[list].as_array().unwrap().iter().map(|step| step["at_ms"].as_f64().unwrap()).collect();
            assert!(at.is_sorted() && at.iter().all(|at| *at <= one["ms"].as_f64().unwrap()), "{one}");
        }
    }
    for (one, came_to, tries) in [(&second, "miss", 1), (&third, "hit", 0)] {
        assert_eq!((&one["cache"], one["attempts"].as_array().unwrap().len()), (&came_to.into(), tries));
        let decision = one["decisions"].as_array().unwrap().iter().find(|step| step["what"] == "cache");
        assert_eq!(decision.map(|step| &step["result"]), Some(&came_to.into()), "{one}");
    }
    let none = told(&gateway, "/nobody", VIEWER).await;
    assert_eq!((none.status, none.code().as_deref()), (404, Some("not_found")));
    let unkept = told(&gateway, "/first/content", ADMIN).await;
    assert!(unkept.status == 404 && unkept.text().contains("records.content"), "{}", unkept.text());
}

#[tokio::test]
async fn texts_are_for_admins_masked_and_gone_once_they_are_turned_off() {
    let up = upstream("").await;
    let config = usual(&up.url());
    let kept = format!("records: {{ content: true, mask: ['\\d{{6}}'] }}\n{config}");
    let gateway = Gateway::serve(&kept).await;
    let text = format!("my number is 492817, my key {KEY}, theirs {PROVIDER_KEY}");
    let ask = testkit::chat("chat").user(&text).key(KEY).header("x-request-id", "told");
    assert_eq!(gateway.ask(&ask).await.status, 200);
    let content = told(&gateway, "/told/content", ADMIN).await;
    assert_eq!(content.status, 200, "{}", content.text());
    let prompt = content.json()["prompt"].as_str().unwrap().to_owned();
    assert!(prompt.contains("my number is [masked], my key [masked], theirs [masked]"), "{prompt}");
    assert!(!content.json()["answer"].as_str().unwrap().is_empty(), "{}", content.text());
    let viewer = told(&gateway, "/told/content", VIEWER).await;
    assert_eq!((viewer.status, viewer.code().as_deref()), (403, Some("role_not_allowed")));
    assert_eq!(told(&gateway, "/told/content", "adm-wrong").await.status, 401);
    assert_eq!(told(&gateway, "/nobody/content", ADMIN).await.status, 404);
    for page in ["", "/told"] {
        assert!(!told(&gateway, page, ADMIN).await.text().contains("my number"), "texts are kept apart from records");
    }
    until("texts are written", || gateway.dir.path("data/contents.db").exists()).await;
    gateway.rewrite(&config);
    gateway.reloads(1, 0).await;
    assert_eq!(told(&gateway, "/told/content", ADMIN).await.status, 404);
    assert_eq!(told(&gateway, "/told", ADMIN).await.status, 200, "what is known of the request stays");
    until("what was kept is removed", || !gateway.dir.path("data/contents.db").exists()).await;
    gateway.ask(&chat().header("x-request-id", "later")).await;
    assert_eq!(told(&gateway, "/later/content", ADMIN).await.status, 404);
}

/// How the records do, once they do so and so many wait to be written.
async fn requests_are(gateway: &Gateway, status: &str, waiting: u64) -> Value {
    let mut requests = Value::Null;
    let waiting = async {
        while requests["status"] != status || requests["waiting"] != waiting {
            tokio::time::sleep(Duration::from_millis(20)).await;
            requests = gateway.ask_admin(&get("/readyz")).await.json()["requests"].clone();
        }
    };
    soon(&format!("records that are {status}"), waiting).await;
    requests
}

async fn stopped(mut gateway: Gateway) -> Dir {
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await, Some(0));
    gateway.dir
}

#[tokio::test]
async fn a_limit_on_the_size_of_files_makes_records_wait_and_ends_no_process() {
    let up = upstream("").await;
    let dir = Dir::new();
    let config = dir.write("gateway.yaml", usual(&up.url()));
    // The default action of the signal, even if whoever runs the tests ignores it.
    let mut command = Command::new("/usr/bin/env");
    command.env_clear().stdin(Stdio::null()).arg("--default-signal=XFSZ").arg(program().get_program());
    command.arg("serve").arg("--config").arg(config);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "2"]);
    let gateway = Gateway::start(dir, &mut command).await;
    let room = |bytes: &str| {
        let pid = gateway.process.id().to_string();
        let limit = format!("--fsize={bytes}:unlimited");
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    let ask = async |id: &str| assert_eq!(gateway.ask(&chat().header("x-request-id", id)).await.status, 200);
    ask("before").await;
    until("it is written", || gateway.dir.path("data/requests.db").exists()).await;
    requests_are(&gateway, "ok", 0).await;
    room("1");
    let began = base::Clock.now();
    for at in 0..20 {
        ask(&format!("full-{at}")).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let requests = requests_are(&gateway, "behind", 20).await;
    assert!(requests["why"].as_str().unwrap().contains("disk") && requests["since"].is_u64(), "{requests}");
    assert_eq!(requests["lost"], 0);
    assert_eq!(gateway.metric("mai_request_records_lost_total", "").await, 0.0);
    assert_eq!(told(&gateway, "/full-7", VIEWER).await.status, 200, "what waits is found");
    assert_eq!(gateway.ask(&get("/readyz")).await.status, 200, "the gateway is ready all the same");
    room("unlimited");
    requests_are(&gateway, "ok", 0).await;
    until("the log says so", || gateway.process.err.has("the file of request records is written again")).await;
    let gateway = Gateway::serve_in(stopped(gateway).await, "gateway.yaml").await;
    assert_eq!(found(&gateway, "?limit=500").await.len(), 21);
}

#[tokio::test]
async fn a_locked_file_of_records_slows_neither_calls_nor_a_start() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.ask(&chat().header("x-request-id", "first")).await.status, 200);
    let dir = stopped(gateway).await;
    let other = Connection::open(dir.path("data/requests.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    assert_eq!(gateway.ask(&chat().header("x-request-id", "second")).await.status, 200);
    let requests = requests_are(&gateway, "behind", 1).await;
    assert!(requests["why"].as_str().unwrap().contains("locked"), "{requests}");
    assert_eq!(found(&gateway, "").await, set(&["first", "second"]), "what is locked for writing is read");
    other.execute_batch("ROLLBACK").unwrap();
    requests_are(&gateway, "ok", 0).await;
    assert_eq!(found(&gateway, "").await, set(&["first", "second"]));
}

#[tokio::test]
async fn a_stop_says_how_many_texts_could_not_be_written() {
    let up = upstream("").await;
    let dir = Dir::new();
    dir.write("gateway.yaml", format!("records: {{ content: true }}\n{}", usual(&up.url())));
    // Nobody can make the file, not even root.
    std::fs::create_dir_all(dir.path("data")).unwrap();
    std::os::unix::fs::symlink("/proc/nowhere/contents.db", dir.path("data/contents.db")).unwrap();
    let mut gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    assert_eq!(gateway.ask(&chat().header("x-request-id", "first")).await.status, 200);
    requests_are(&gateway, "behind", 0).await;
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await, Some(0));
    let told = "stopping without having written these request records and recorded texts";
    until("the log says so", || gateway.process.err.has(told)).await;
    assert!(gateway.process.err.has("records=0 texts=1"));
}
