//! Every credential there is, and every place where one could be seen: all of them are looked through.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::Digest as _;
use testkit::{Ask, chat as ask_chat, get};

use crate::process::{ADMIN, Dir, Gateway, KEY, VIEWER, chat, program, reload, run, until, upstream};

/// Providers' own keys, in the file.
const FIRST: &str = "sk-first-71c0aa9e5d";
const SECOND: &str = "sk-second-b83f20d6c4";
/// A header and a proxy's password that stand for keys too.
const TENANT: &str = "tenant-9a04e7f1c38b";
/// What webhooks are signed with.
const HOOK: &str = "hook-5c1b20e94d7f";
/// What comes in through the admin API: a provider's key, and a client's.
const LATER: &str = "sk-later-4de8810b7f";
const TEAM: &str = "sk-team-c5f9d2663a";
/// Keys that nobody has.
const WRONG: &str = "sk-wrong-02e6b97fd1";
const WRONG_ADMIN: &str = "adm-wrong-e81d44c07a";

fn sha256(text: &str) -> [u8; 32] {
    sha2::Sha256::digest(text).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Asserts that some bytes hold none of these secrets: as they are, percent-encoded, or by their hash.
fn is_clean(what: &str, bytes: &[u8], secrets: &[String]) {
    let text = String::from_utf8_lossy(bytes);
    for secret in secrets {
        let digest = sha256(secret);
        let (lower, upper) = (secret.replace('-', "%2d"), secret.replace('-', "%2D"));
        let hex = hex(&digest);
        let forms = [secret, &lower, &upper, secret.rsplit('-').next().unwrap(), hex.get(..9).unwrap()];
        for form in forms {
            assert!(!text.contains(form), "{what} shows {form} of {secret}");
        }
        assert!(!bytes.windows(8).any(|window| *window == digest[..8]), "{what} holds the digest of {secret}");
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    found
}

fn config([url, second, gone, collector]: [&str; 4]) -> String {
    format!(
        r#"
log_level: trace
telemetry: {{ otlp: "{collector}" }}
webhooks: [{{ url: "{collector}/hook", secret: {HOOK}, on: [quota, breaker] }}]
admin:
  tokens:
    - {{ name: root, role: admin, token: {ADMIN} }}
    - {{ name: eye, role: viewer, token: {VIEWER} }}
providers:
  - {{ name: first, base_url: "{url}/v1", api_key: {FIRST}, headers: {{ x-tenant: {TENANT} }}, health: {{ path: /models, every: 1s }} }}
  - {{ name: second, base_url: "{second}/v1", api_key: {SECOND} }}
  - {{ name: bare, base_url: "{second}/v1" }}
  - {{ name: gone, base_url: "{gone}/v1", api_key: {SECOND}, health: {{ path: /models, every: 1s }} }}
routes:
  - name: chat
    upstreams: [{{ provider: first, model: m }}, {{ provider: second, model: m, tier: 1 }}]
    mirror: {{ to: second }}
    retry: {{ server_error: [], throttled: [] }}
    breaker: {{ failures: 100000 }}
  - {{ name: moved, upstreams: [{{ provider: first, model: moved }}], retry: {{ server_error: [] }} }}
  - {{ name: bare, upstreams: [{{ provider: bare, model: m }}] }}
  - {{ name: gone, upstreams: [{{ provider: gone, model: m }}], retry: {{ server_error: [] }} }}
  - {{ name: shut, upstreams: [{{ provider: first, model: m }}] }}
clients:
  - {{ name: app, keys: [{KEY}], routes: [chat, moved, bare, gone, later] }}
  - {{ name: slow, keys: [sk-slow], routes: [chat], limit: {{ qps: 0.001, burst: 1 }} }}
"#
    )
}

fn scenario(elsewhere: &str) -> String {
    format!(
        "
rules:
  - when: {{ body: '\"moved\"' }}
    reply: {{ status: 302, headers: {{ location: \"{elsewhere}/v1/chat/completions\" }} }}
  - when: {{ body: please-fail }}
    reply: {{ status: 500, text: \"authorization: Bearer {FIRST}, x-tenant {TENANT}\" }}
  - when: {{ body: please-refuse }}
    reply: {{ status: 400, json: {{ error: {{ message: \"bad key {FIRST}\" }} }} }}
"
    )
}

fn write(method: &'static str, path: &str, body: &Value) -> Ask {
    let ask = get(&format!("/admin/v1/{path}")).method(method).key(ADMIN);
    if body.is_null() { ask } else { ask.header("content-type", "application/json").body(body.to_string()) }
}

/// Calls of every kind that show these keys: good ones, a wrong one, and all of them where they are no credentials.
fn calls(good: &[&str]) -> Vec<Ask> {
    let mut calls = Vec::new();
    for key in good {
        let percent = key.replace('-', "%2D");
        let say = |text: &str| ask_chat("chat").user(text).key(key);
        calls.extend([
            say("Hi"),
            say("Hi").stream(),
            ask_chat("chat").user("Hi").header("api-key", *key),
            ask_chat("chat").user("Hi").header("x-api-key", *key),
            ask_chat("chat").user("Hi").header("x-goog-api-key", *key).header("cookie", format!("key={key}")),
            say("Hi").path(&format!("/v1/chat/completions?key={key}&api_key={percent}")),
            ask_chat("chat").user("Hi").path(&format!("/v1/chat/completions?api_key={percent}")),
            get(&format!("/v1/{key}/chat/{percent}")).key(key),
            get(&format!("/v1/models/{percent}")).key(key),
            say("please-fail"),
            say("please-refuse"),
            say("Hi").with("user", *key),
            ask_chat(key).user("Hi").key(key),
            ask_chat("shut").user("Hi").key(key),
            ask_chat("moved").user("Hi").key(key),
            ask_chat("bare").user("Hi").key(key),
            ask_chat("gone").user("Hi").key(key),
            say("Hi").body(format!("{{\"model\": \"{key}\" \"")),
            say("Hi").header("x-mai-timeout-ms", *key),
            say("Hi").header("x-mai-tag", *key).header("traceparent", *key),
            say("Hi").key(WRONG),
            ask_chat("chat").user("Hi").header("api-key", WRONG).header("authorization", format!("Basic {key}")),
        ]);
    }
    calls.extend([ask_chat("chat").user("Hi").key("sk-slow"), ask_chat("chat").user("Hi").key("sk-slow")]);
    calls
}

/// Every GET of the admin API, as its document has them. Hashes of keys are told by an export that asks for them, alone.
async fn gets(gateway: &Gateway, issued: &str) -> Vec<String> {
    let document = gateway.ask_admin(&get("/admin/v1/openapi.json")).await.json();
    let mut paths = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        if item.get("get").is_none() {
            continue;
        }
        let names: &[&str] = match path.as_str() {
            path if path.contains("/providers/") => &["first", "later"],
            path if path.contains("/routes/") => &["chat", "later"],
            path if path.contains("/clients/") => &["app", "team"],
            _ => &[issued],
        };
        paths.extend(
            names.iter().map(|name| path.replace("{name}", name).replace("{id}", name).replace("{request_id}", name)),
        );
    }
    paths
}

#[tokio::test]
async fn no_credential_is_written_down_or_shown_anywhere() {
    let (first, second, gone) = (upstream("").await, upstream("").await, upstream("").await);
    let collector = upstream("").await;
    first.mock().play(testkit::Scenario::read(&scenario(&second.url())).unwrap());
    let config = config([&first.url(), &second.url(), &gone.url(), &collector.url()]);
    gone.stop().await;
    let gateway = Gateway::serve(&config).await;
    let asked = async |method, path: &str, body: Value| gateway.ask_admin(&write(method, path, &body)).await;
    // What comes in while it runs, by every door.
    let later = json!({ "name": "later", "base_url": format!("{}/v1", second.url()), "api_key": LATER });
    assert_eq!(asked("POST", "providers", later).await.status, 201);
    let route = json!({ "name": "later", "upstreams": [{ "provider": "later", "model": "m" }] });
    assert_eq!(asked("POST", "routes", route).await.status, 201);
    let team = json!({ "name": "team", "keys": [TEAM], "routes": ["*"] });
    assert_eq!(asked("POST", "clients", team).await.status, 201);
    let made = asked("POST", "clients/app/keys", json!({ "note": "a night's work" })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let (id, issued) =
        (made.json()["id"].as_str().unwrap().to_owned(), made.json()["key"].as_str().unwrap().to_owned());
    let calls = calls(&[KEY, TEAM, &issued]);
    for ask in calls.iter().chain([&ask_chat("later").user("Hi").key(&issued)]) {
        let answer = gateway.ask(ask).await;
        let shown = format!("{:?} {}", answer.headers, answer.text());
        is_clean("an answer", shown.as_bytes(), &[FIRST, SECOND, LATER, TENANT, ADMIN].map(str::to_owned));
    }
    // Mistakes of operators.
    let wrong = [
        reload(WRONG_ADMIN),
        reload(VIEWER),
        get(&format!("/admin/v1/clients?token={ADMIN}")).key(ADMIN),
        get(&format!("/admin/v1/clients/{WRONG}")).key(ADMIN),
        write("POST", "providers", &json!({ "name": "x", "base_url": "no url", "api_key": LATER })),
        write("POST", "clients", &json!({ "name": "y", "keys": [TEAM] })),
        write("POST", "clients", &json!({ "name": "y", "keyz": [TEAM] })),
        write("POST", "clients/app/keys", &json!({ "note": "n", "key": issued })),
        write(
            "POST",
            "explain",
            &json!({ "client": "app", "request": { "model": "chat", "messages": [], "user": issued } }),
        ),
    ];
    let secrets =
        [FIRST, SECOND, TENANT, HOOK, LATER, TEAM, WRONG, WRONG_ADMIN, ADMIN, VIEWER, KEY, &issued].map(str::to_owned);
    for (number, ask) in wrong.iter().enumerate() {
        let answer = gateway.ask_admin(ask).await;
        let shown: Vec<String> =
            secrets.iter().filter(|secret| **secret != WRONG && **secret != ADMIN).cloned().collect();
        is_clean(&format!("mistake {number}"), answer.text().as_bytes(), &shown);
    }
    // A file that is broken where a key stands, and then whole again.
    gateway.rewrite(&config.replace(&format!("keys: [{KEY}]"), &format!("keys: [{KEY}, {KEY}")));
    gateway.reloads(0, 1).await;
    gateway.rewrite(&config);
    gateway.reloads(1, 1).await;
    until("a health probe has failed", || gateway.process.err.has("health probes fail")).await;
    gateway.lines(calls.len()).await;
    for path in gets(&gateway, &id).await {
        let answer = gateway.ask_admin(&get(&path).key(ADMIN)).await;
        assert!(answer.status < 500, "{path}: {}", answer.text());
        is_clean(&path, answer.text().as_bytes(), &secrets);
    }
    for (file, bytes) in files(&gateway.dir.path("data")) {
        is_clean(&file, &bytes, &secrets);
    }
    for (host, others) in [(&first, [SECOND, LATER]), (&second, [FIRST, TENANT])] {
        for call in host.log().calls() {
            let shown = format!("{:?} {:?} {:?}", call.request.path, call.request.query, call.request.headers);
            for secret in others.iter().copied().chain([WRONG, ADMIN, KEY, TEAM, &issued]) {
                assert!(!shown.contains(secret), "{secret} went to the wrong place: {shown}");
            }
        }
    }
    // With the process goes what it still had to write.
    let Gateway { mut process, dir, .. } = gateway;
    process.signal("TERM");
    assert_eq!(process.exit().await, Some(0));
    for (file, bytes) in files(&dir.path("data")) {
        is_clean(&file, &bytes, &secrets);
    }
    assert!(collector.log().calls().iter().any(|call| call.request.path == "/v1/traces"), "spans were sent");
    for call in collector.log().calls() {
        let head = format!("{:?} {:?}", call.request.path, call.request.headers);
        is_clean("the collector", &[head.as_bytes(), &call.request.body].concat(), &secrets);
    }
    is_clean("the operator's log", process.err.text().as_bytes(), &secrets);
    is_clean("the access log", process.out.text().as_bytes(), &secrets);
    commands_are_clean(&dir, &config, &secrets);
}

/// `check` and `explain` show nothing either.
fn commands_are_clean(dir: &Dir, config: &str, secrets: &[String]) {
    let (sound, request) = (dir.write("sound.yaml", config), dir.write("request.json", chat().bytes()));
    let broken = dir.write("broken.yaml", config.replace("api_key:", "api_kye:").replace("keys: [", "keys: [[ "));
    for (file, code) in [(&sound, 0), (&broken, 1)] {
        let ran = run(program().arg("check").arg("-c").arg(file));
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        is_clean("check", format!("{}{}", ran.out, ran.err).as_bytes(), secrets);
    }
    let ran = run(program().args(["explain", "--client", "app", "--request"]).arg(&request).arg("-c").arg(&sound));
    assert_eq!(ran.code, 0, "{}", ran.err);
    is_clean("explain", format!("{}{}", ran.out, ran.err).as_bytes(), secrets);
}
