//! Credentials: where they must never be seen, whatever the log level and however calls fail.

use std::fmt::Write as _;

use sha2::Digest as _;
use testkit::{chat as ask_chat, embeddings, get};

use crate::process::{ADMIN, Gateway, KEY, PROVIDER_KEY, VIEWER, chat, program, reload, run, soon, upstream, usual};

/// SHA-256 of this module's credentials, as `sha256sum` prints them.
fn digests() -> Vec<String> {
    [KEY, PROVIDER_KEY, ADMIN, VIEWER, WRONG].iter().map(|secret| sha256(secret)).collect()
}

const WRONG: &str = "sk-wrong-9d81c4a6f0";

fn sha256(text: &str) -> String {
    sha2::Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Asserts that a text shows none of them, nor more than eight digits of their hashes.
fn is_clean(what: &str, text: &str) {
    for secret in [KEY, PROVIDER_KEY, ADMIN, VIEWER, WRONG] {
        assert!(!text.contains(secret), "{what} shows {secret}: {text}");
        let bare = secret.rsplit('-').next().unwrap();
        assert!(!text.contains(bare), "{what} shows {bare}: {text}");
    }
    for digest in digests() {
        assert!(!text.contains(digest.get(..9).unwrap()), "{what} shows a hash: {text}");
    }
}

const UPSTREAM: &str = "
rules:
  - when: { body: please-400 }
    reply: { status: 400, json: { error: { message: \"bad call with key sk-provider-77d0e3a95c at http://127.0.0.1:PORT\" } } }
  - when: { body: please-401 }
    reply: { status: 401, json: { error: { message: \"Incorrect API key provided: sk-provider-77d0e3a95c\" } } }
  - when: { body: please-500 }
    reply: { status: 500, text: \"trace: authorization=Bearer sk-provider-77d0e3a95c\" }
  - when: { body: please-429 }
    reply: { status: 429, json: { error: { message: \"slow down sk-provider-77d0e3a95c\" } } }
  - when: { body: please-header }
    reply: { status: 400, json: { error: { message: \"no such tenant: tenant-secret-55c1d0\" } } }
  - when: { body: please-200 }
    reply: { json: { error: { message: \"key sk-provider-77d0e3a95c is spent\", type: invalid_request_error } } }
  - when: { body: please-middle }
    reply: { sse: [{ choices: [{ index: 0, delta: { content: Hel } }] }, { error: { message: \"key sk-provider-77d0e3a95c at http://127.0.0.1:PORT\" } }] }
  - when: { body: please-garbage }
    reply: garbage
  - when: { body: please-event }
    reply: { sse: [{ error: { message: \"key sk-provider-77d0e3a95c is spent\", code: 500 } }] }
";

#[tokio::test]
async fn no_credential_is_seen_in_any_answer_log_or_metric() {
    let up = upstream("").await;
    let address = up.addr().to_string();
    up.mock().play(testkit::Scenario::read(&UPSTREAM.replace("127.0.0.1:PORT", &address)).unwrap());
    let config = usual(&up.url())
        .replace("retry: { server_error: [10ms, 20ms] }", "retry: { server_error: [], throttled: [] }")
        .replace("protocol: openai,", "protocol: openai, headers: { x-tenant: tenant-secret-55c1d0 },");
    let gateway = Gateway::serve(&format!("log_level: trace\n{config}")).await;
    let say = |text: &str| ask_chat("chat").user(text).key(KEY);
    let percent = KEY.replace('-', "%2D");
    let asks = [
        chat(),
        chat().stream(),
        embeddings("embedding", "x").key(KEY),
        say("please-400"),
        say("please-401"),
        say("please-500"),
        say("please-429"),
        say("please-garbage"),
        say("please-event").stream(),
        say("please-header"),
        say("please-200"),
        say("please-200").stream(),
        say("please-middle").stream(),
        say(KEY).with("user", KEY),
        say("x").path(&format!("/v1/chat/completions?key={KEY}&api_key={percent}")),
        ask_chat("chat").user("x").key(WRONG),
        ask_chat("chat").user("x").header("api-key", WRONG),
        ask_chat("chat").user("x").header("x-api-key", WRONG).header("cookie", KEY).header("x-goog-api-key", KEY),
        ask_chat("chat").user("x").header("authorization", format!("Basic {WRONG}")),
        ask_chat("chat").user("x").path(&format!("/v1/chat/completions?key={KEY}")),
        get(&format!("/v1/{WRONG}")).key(KEY),
        get(&format!("/v1/models/{WRONG}")).key(KEY),
        say("x").body("{ not json ").header("x-mai-tag", KEY),
    ];
    for ask in &asks {
        let answer = gateway.ask(ask).await;
        let shown = format!("{:?} {}", answer.headers, answer.text());
        assert!(!shown.contains(PROVIDER_KEY) && !shown.contains(&address), "{shown}");
        assert!(!shown.contains("tenant-secret"), "{shown}");
        // What a caller wrote itself may be answered to it: the mock quotes the question.
        if !String::from_utf8_lossy(&ask.bytes()).contains(KEY) && !shown.contains("models/") {
            assert!(!shown.contains(KEY), "{shown}");
        }
    }
    // A key in the URL is no credential.
    assert_eq!(
        gateway.ask(&ask_chat("chat").user("x").path(&format!("/v1/chat/completions?key={KEY}"))).await.status,
        401
    );
    let named = gateway.ask(&ask_chat(WRONG).user("x").key(KEY)).await;
    assert_eq!(named.status, 404);

    gateway.ask_admin(&reload(WRONG)).await;
    gateway.ask_admin(&reload(VIEWER)).await;
    gateway.ask_admin(&reload(ADMIN)).await;
    // A line with keys in it is broken in many ways.
    for (from, to) in [
        (format!("keys: [{KEY}]"), format!("keys: [{KEY}")),
        (format!("keys: [{KEY}]"), format!("keys: [{KEY}, {KEY}]")),
        (format!("keys: [{KEY}]"), format!("keys: {{ a: {KEY} }}")),
        (format!("keys: [{KEY}]"), format!("keys: \"{KEY} {KEY}\"")),
        (format!("keys: [{KEY}]"), format!("key: [{KEY}]")),
        (format!("keys: [{KEY}]"), format!("keys: [\"sha256:{KEY}\"]")),
        (format!("keys: [{KEY}]"), format!("keys: [\"${{{KEY}}}\"]")),
        (format!("api_key: {PROVIDER_KEY}"), format!("api_kye: {PROVIDER_KEY}")),
        (format!("api_key: {PROVIDER_KEY}"), format!("api_key: {{ {PROVIDER_KEY}: 1 }}")),
        (format!("api_key: {PROVIDER_KEY}"), format!("api_key: \"{PROVIDER_KEY}\\n\"")),
        (format!("token: {ADMIN}"), format!("token: [{ADMIN}]")),
        (format!("token: {VIEWER}"), format!("token: {ADMIN}")),
        (format!("token: {VIEWER}"), format!("token: {VIEWER}: {VIEWER}")),
    ] {
        let broken = config.replace(&from, &to);
        assert_ne!(broken, config);
        let file = gateway.dir.write("gateway.yaml", &broken);
        let answer = gateway.ask_admin(&reload(ADMIN)).await;
        assert_eq!(answer.status, 422, "{to}: {}", answer.text());
        is_clean(&to, &answer.text());
        is_clean(&to, &gateway.ask_admin(&get("/readyz")).await.text());
        let check = run(program().arg("check").arg("-c").arg(&file));
        assert_eq!(check.code, 1);
        is_clean(&to, &format!("{}{}", check.out, check.err));
    }
    let metrics = gateway.ask_admin(&get("/metrics")).await.text();
    gateway.lines(asks.len()).await;
    let request = gateway.dir.write("request.json", chat().bytes());
    let config = gateway.dir.write("sound.yaml", &config);
    for json in [&[][..], &["--json"]] {
        let mut program = program();
        program.args(["explain", "--client", "app", "--request"]).arg(&request).arg("-c").arg(&config);
        let ran = run(program.args(json));
        assert_eq!(ran.code, 0, "{}", ran.err);
        is_clean("explain", &ran.out);
    }
    assert!(!gateway.process.err.has("tenant-secret"));
    is_clean("the metrics", &metrics);
    is_clean("the operator's log", &gateway.process.err.text());
    is_clean("the access log", &gateway.process.out.text());
    for call in up.log().calls() {
        let shown = format!("{:?}", call.request.headers);
        assert!(!shown.contains(KEY) && !shown.contains(WRONG), "a caller's key went upstream");
        assert!(call.request.query.is_none());
    }
}

#[tokio::test]
async fn an_upstream_that_refuses_connections_is_not_told() {
    let gone = upstream("").await;
    let (url, address) = (gone.url(), gone.addr().to_string());
    soon("it stops", gone.stop()).await;
    let gateway = Gateway::serve(&format!("log_level: trace\n{}", usual(&url))).await;
    for ask in [chat(), chat().stream(), embeddings("embedding", "x").key(KEY)] {
        let answer = gateway.ask(&ask).await;
        assert_eq!(answer.status, 502);
        let shown = format!("{:?} {}", answer.headers, answer.text());
        assert!(!shown.contains(&address) && !shown.contains("127.0.0.1"), "{shown}");
    }
    is_clean("the operator's log", &gateway.process.err.text());
}
