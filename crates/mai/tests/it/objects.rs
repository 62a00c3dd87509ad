//! Objects made through the admin API, beside files that change, break and come back.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use testkit::{Answer, Ask, get};

use crate::process::{
    ADMIN, Dir, Gateway, KEY, PROVIDER_KEY, chat, program, reload, run, soon, until, upstream, usual,
};

fn write(method: &'static str, path: &str, body: &Value) -> Ask {
    get(&format!("/admin/v1/{path}"))
        .method(method)
        .header("content-type", "application/json")
        .key(ADMIN)
        .body(body.to_string())
}

/// A route over the usual provider.
fn route(name: &str) -> Value {
    json!({ "name": name, "upstreams": [{ "provider": "up", "model": "m" }] })
}

/// The usual file with one more route of its own.
fn with_route(url: &str, name: &str) -> String {
    usual(url).replace("clients:", &format!("  - {{ name: {name}, upstreams: [{{ provider: up }}] }}\nclients:"))
}

impl Gateway {
    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask_admin(&write("PUT", path, body)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.ask_admin(&write("DELETE", path, &Value::Null)).await
    }

    async fn answers(&self, model: &str) -> u16 {
        self.ask(&testkit::chat(model).user("Hi").key(KEY)).await.status
    }

    /// Ends it as a power cut would, and starts it again.
    async fn cut_and_start(self) -> Self {
        let Self { mut process, dir, .. } = self;
        process.signal("KILL");
        process.exit().await;
        Self::serve_in(dir, "gateway.yaml").await
    }
}

#[tokio::test]
async fn an_object_is_in_force_at_once_and_outlives_a_power_cut() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let short = json!({
        "name": "rag-embedding", "match": { "path": "/v1/embeddings", "model": "rag-embedding" },
        "upstream": { "url": format!("{}/v1/embeddings", up.url()), "timeout": 3000 }, "limit": { "qps": 100, "burst": 20 },
    });
    let made = gateway.ask_admin(&write("POST", "routes", &short)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let ask = testkit::embeddings("rag-embedding", "Hi").key(KEY);
    assert_eq!(gateway.ask(&ask).await.status, 200);
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201);
    let gateway = gateway.cut_and_start().await;
    assert_eq!((gateway.ask(&ask).await.status, gateway.answers("more").await), (200, 200));

    // What is removed is gone, and made again it goes on counting.
    let tag = |answer: &Answer| answer.header("etag").map(str::to_owned);
    let same = gateway.put("routes/more", &route("more")).await;
    assert_eq!((same.status, tag(&same).as_deref()), (200, Some("\"1\"")), "what is put as it was is no change");
    let mut other = route("more");
    other["deadline"] = json!("9s");
    let replaced = gateway.put("routes/more", &other).await;
    assert_eq!((replaced.status, tag(&replaced).as_deref()), (200, Some("\"2\"")));
    assert_eq!(gateway.delete("routes/more").await.status, 204);
    assert_eq!(gateway.answers("more").await, 404);
    let gateway = gateway.cut_and_start().await;
    assert_eq!(gateway.answers("more").await, 404);
    let again = gateway.put("routes/more", &route("more")).await;
    assert_eq!((again.status, tag(&again).as_deref()), (201, Some("\"3\"")));
}

#[tokio::test]
async fn a_broken_file_keeps_no_object_from_being_changed() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let path = gateway.dir.path("gateway.yaml");
    let whole = usual(&up.url());
    let breaks: [&dyn Fn(); 4] = [
        &|| gateway.rewrite("routes: ["),
        &|| gateway.rewrite(&whole.replace("provider: up", "provider: nobody")),
        &|| fs::remove_file(&path).unwrap(),
        &|| fs::create_dir(&path).unwrap(),
    ];
    for (at, breaking) in breaks.iter().enumerate() {
        breaking();
        gateway.reloads(0, u32::try_from(at).unwrap() + 1).await;
        let name = format!("more-{at}");
        let made = gateway.put(&format!("routes/{name}"), &route(&name)).await;
        assert_eq!((made.status, gateway.answers(&name).await), (201, 200), "{}", made.text());
        let readyz = gateway.ask_admin(&get("/readyz")).await.json();
        assert_ne!(readyz["last_reload"], json!([]), "it is still told that the file is broken");
    }
    fs::remove_dir(&path).unwrap();
    gateway.rewrite(&with_route(&up.url(), "mended"));
    gateway.reloads(1, 4).await;
    for name in ["mended", "more-0", "more-1", "more-2", "more-3"] {
        assert_eq!(gateway.answers(name).await, 200, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_takes_an_objects_name_is_rejected_and_both_places_are_named() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201);
    gateway.rewrite(&with_route(&up.url(), "more"));
    let answer = gateway.ask_admin(&reload(ADMIN)).await;
    assert_eq!(answer.status, 422);
    for word in ["admin API: routes/more:1:9", "gateway.yaml:12:13"] {
        assert!(answer.text().contains(word), "{word}: {}", answer.text());
    }
    assert_eq!(gateway.answers("more").await, 200);
    // The other way around the file was first.
    let taken = gateway.put("routes/chat", &route("chat")).await;
    assert_eq!((taken.status, taken.code().as_deref()), (409, Some("managed_by_file")), "{}", taken.text());
    assert!(taken.text().contains("gateway.yaml:"), "{}", taken.text());
    // Once the object is gone the file is as good as any.
    assert_eq!(gateway.delete("routes/more").await.status, 204);
    assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
    assert_eq!(gateway.answers("more").await, 200);
}

#[tokio::test]
async fn what_would_not_be_sound_changes_nothing() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let provider = json!({ "name": "own", "base_url": format!("{}/v1", up.url()), "api_key": "sk-own-6f0d2b9a41" });
    assert_eq!(gateway.put("providers/own", &provider).await.status, 201);
    let over = json!({ "name": "over", "upstreams": [{ "provider": "own", "model": "m" }] });
    assert_eq!(gateway.put("routes/over", &over).await.status, 201);
    let refused = gateway.delete("providers/own").await;
    assert_eq!((refused.status, refused.code().as_deref()), (422, Some("invalid_config")), "{}", refused.text());
    assert!(refused.text().contains("routes[over].upstreams[0].provider"), "{}", refused.text());
    let wrong = json!({ "name": "over", "upstreams": [{ "provider": "owm" }], "limit": { "qps": 0 } });
    let refused = gateway.put("routes/over", &wrong).await;
    let problems = refused.json()["error"]["problems"].clone();
    assert_eq!((refused.status, problems.as_array().unwrap().len()), (422, 2), "{problems}");
    let variable = json!({ "name": "own", "base_url": "http://own/v1", "api_key": "${PATH}" });
    assert!(gateway.put("providers/own", &variable).await.text().contains("environment is not read"));
    assert_eq!(gateway.answers("over").await, 200);
    // A dry run keeps nothing either.
    let dry = gateway.put("routes/dry?dry_run=true", &route("dry")).await;
    assert_eq!((dry.status, gateway.answers("dry").await), (200, 404), "{}", dry.text());
    // What was shown can be put as it was shown.
    let shown = gateway.ask_admin(&get("/admin/v1/providers/own").key(ADMIN)).await;
    assert!(!shown.text().contains("sk-own"), "{}", shown.text());
    let put = gateway.put("providers/own", &shown.json()["config"]).await;
    assert_eq!((put.status, gateway.answers("over").await), (200, 200), "{}", put.text());
    let sent = up.log().calls().last().unwrap().request.header("authorization").map(str::to_owned);
    assert_eq!(sent.as_deref(), Some("Bearer sk-own-6f0d2b9a41"));
    let gateway = gateway.cut_and_start().await;
    assert_eq!((gateway.answers("over").await, gateway.answers("dry").await), (200, 404));
    let said = gateway.process.err.text() + &gateway.process.out.text();
    assert!(!said.contains("sk-own-6f0d2b9a41") && !said.contains(PROVIDER_KEY));
}

#[tokio::test]
async fn a_store_that_is_out_costs_changes_alone() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    // Nobody can open a database where a folder stands.
    let store = gateway.dir.path("data/objects.db");
    fs::create_dir_all(&store).unwrap();
    let refused = gateway.put("routes/more", &route("more")).await;
    assert_eq!((refused.status, refused.code().as_deref()), (503, Some("objects_unavailable")), "{}", refused.text());
    assert_eq!((gateway.answers("more").await, gateway.answers("chat").await), (404, 200), "nothing is in force");
    gateway.rewrite(&with_route(&up.url(), "filed"));
    gateway.reloads(1, 0).await;
    assert_eq!(gateway.answers("filed").await, 200, "files need no store");
    fs::remove_dir(&store).unwrap();
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201);
    assert_eq!(gateway.answers("more").await, 200);
}

#[tokio::test]
async fn a_gateway_that_cannot_read_its_objects_does_not_start() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201);
    let Gateway { mut process, dir, .. } = gateway;
    process.signal("TERM");
    assert_eq!(process.exit().await, Some(0));
    let store = dir.path("data/objects.db");
    let good = fs::read(&store).unwrap();
    let serve = |dir: &Dir| {
        let mut command = program();
        command.arg("serve").arg("--config").arg(dir.path("gateway.yaml")).env("MAI_DATA_DIR", dir.path("data"));
        run(command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]))
    };
    let spoiled = |bytes: &[u8]| {
        for name in ["objects.db-wal", "objects.db-shm"] {
            let _ = fs::remove_file(dir.path("data").join(name));
        }
        fs::write(&store, bytes).unwrap();
    };
    spoiled(b"this is no database, and was never one; it is a text that somebody has put here by mistake");
    let ran = serve(&dir);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("objects.db") && ran.err.contains("admin API"), "{}", ran.err);
    spoiled(&good);
    // A file that has taken the name of an object meanwhile is as bad.
    dir.write("gateway.yaml", with_route(&up.url(), "more"));
    let ran = serve(&dir);
    assert!(ran.code == 1 && ran.err.contains("admin API: routes/more:1:9"), "{}", ran.err);
    dir.write("gateway.yaml", usual(&up.url()));
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    assert_eq!(gateway.answers("more").await, 200);
}

#[tokio::test]
async fn a_data_folder_is_one_gateways_until_that_ends_however_it_does() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut second = program();
    second
        .arg("serve")
        .arg("--config")
        .arg(gateway.dir.path("gateway.yaml"))
        .env("MAI_DATA_DIR", gateway.dir.path("data"));
    let ran = run(second.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]));
    assert_eq!(ran.code, 1, "{}", ran.err);
    let folder = gateway.dir.path("data").display().to_string();
    assert!(
        ran.err.contains(&folder) && ran.err.contains("another gateway's") && ran.err.contains("--data-dir"),
        "{}",
        ran.err
    );
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201, "the first goes on");
    let gateway = gateway.cut_and_start().await;
    assert_eq!(gateway.answers("more").await, 200);
}

#[tokio::test]
async fn a_key_of_secrets_without_anything_that_it_opens_is_told_at_the_start() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert!(!gateway.process.err.has("secrets.key"));
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201);
    let Gateway { mut process, dir, .. } = gateway;
    process.signal("TERM");
    assert_eq!(process.exit().await, Some(0));
    fs::remove_file(dir.path("data/objects.db")).unwrap();
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    until("the log says so", || gateway.process.err.has("there is a key of secrets (secrets.key), but nothing")).await;
}

/// Streams of a second and a half.
const STREAMS: &str = "rules: [{ when: { stream: true }, reply: { say: [one, two, three, four], every: 400ms } }]";

#[tokio::test]
async fn calls_in_flight_and_new_ones_are_served_through_a_storm_of_reloads_and_changes() {
    let up = upstream(STREAMS).await;
    let gateway = Arc::new(Gateway::serve(&usual(&up.url())).await);
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut caller = gateway.caller().await;
        caller.begin(&chat().stream()).await;
        streams.push(caller);
    }
    soon("they run", up.log().until(|calls| calls.len() == 10)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    // Somebody calls what is never changed.
    let calling = tokio::spawn({
        let (gateway, is_over) = (gateway.clone(), is_over.clone());
        async move {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(gateway.answers("chat").await, 200);
                count += 1;
            }
            count
        }
    });
    // The file changes all the time, and half of the time it is broken.
    let storming = tokio::spawn({
        let (gateway, is_over, url) = (gateway.clone(), is_over.clone(), up.url());
        async move {
            for turn in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                gateway.rewrite(&if turn % 2 == 0 { "routes: [".to_owned() } else { with_route(&url, "filed") });
                if turn % 10 == 0 {
                    gateway.process.signal("HUP");
                }
                let reloaded = gateway.ask_admin(&reload(ADMIN)).await;
                assert!(matches!(reloaded.status, 200 | 422), "{}", reloaded.text());
            }
        }
    });
    for turn in 0..20 {
        let name = format!("made-{turn}");
        let made = gateway.put(&format!("routes/{name}"), &route(&name)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(gateway.answers(&name).await, 200, "in force as soon as it is told to be");
        if turn % 2 == 0 {
            assert_eq!(gateway.delete(&format!("routes/{name}")).await.status, 204);
            assert_eq!(gateway.answers(&name).await, 404);
        }
    }
    for mut caller in streams {
        let answer = soon("a stream's end", caller.answer()).await.unwrap();
        assert!(answer.is_whole && answer.events().is_done(), "{}", answer.text());
        assert_eq!(answer.said(), "onetwothreefour");
    }
    is_over.store(true, Ordering::Relaxed);
    storming.await.unwrap();
    assert!(calling.await.unwrap() > 0);
    gateway.rewrite(&with_route(&up.url(), "filed"));
    let settled = gateway.ask_admin(&reload(ADMIN)).await;
    assert_eq!(settled.status, 200, "{}", settled.text());
    for turn in 0..20 {
        let status = if turn % 2 == 0 { 404 } else { 200 };
        assert_eq!(gateway.answers(&format!("made-{turn}")).await, status);
    }
    assert_eq!(gateway.answers("filed").await, 200);
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
}

#[tokio::test]
async fn a_file_that_an_object_names_is_watched() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let pem = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    let ca = gateway.dir.write("ca.pem", pem());
    let provider = json!({ "name": "own", "base_url": "https://localhost:1/v1", "ca": ca });
    let made = gateway.put("providers/own", &provider).await;
    assert_eq!(made.status, 201, "{}", made.text());
    gateway.dir.write("ca.pem", pem());
    gateway.reloads(1, 0).await;
    gateway.dir.write("ca.pem", "no certificate");
    gateway.reloads(1, 1).await;
    assert_eq!(gateway.put("routes/more", &route("more")).await.status, 201, "it was read when it was good");
    until("the log names the object", || gateway.process.err.has("admin API: providers/own:")).await;
}
