//! URLs and HTTP: paths, compressed and large bodies, connections that close at a bad moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mock::{Coding, Slices};
use serde_json::{Value, json};
use testkit::{At, Body, End, How, Reply, Rule, Scenario, Script, chat, embeddings, get, story};

use crate::chunks::{bytes, hello};
use crate::stage::{KEY, Stage, alone, pleasant, usual_but, without_waits};

#[test]
fn a_base_url_in_any_spelling_leads_to_one_exact_path() {
    story(async {
        let bases = [
            ("http://a", "a", "/chat/completions", None),
            ("http://a/", "a", "/chat/completions", None),
            ("http://a/v1", "a", "/v1/chat/completions", None),
            ("http://a/v1/", "a", "/v1/chat/completions", None),
            ("http://a//v1//", "a", "/v1/chat/completions", None),
            ("http://a/api/openai", "a", "/api/openai/chat/completions", None),
            ("http://a/v1beta/openai/", "a", "/v1beta/openai/chat/completions", None),
            ("http://a/x?api-version=2", "a", "/x/chat/completions", Some("api-version=2")),
            ("http://A/v1", "a", "/v1/chat/completions", None),
            ("http://a:8000/v1", "a:8000", "/v1/chat/completions", None),
            ("http://[::1]:8000/v1", "[::1]:8000", "/v1/chat/completions", None),
            ("http://a/v1/chat/completions", "a", "/v1/chat/completions", None),
        ];
        for (base, host, path, query) in bases {
            let chat_only = format!(
                "providers: [{{ name: a, protocol: openai, base_url: \"{base}\", api_key: k }}]\n\
                 routes: [{{ name: chat, match: {{ path: /v1/chat/completions }}, upstreams: [{{ provider: a }}] }}]\n\
                 clients: [{{ name: app, keys: [sk-app], routes: [\"*\"] }}]"
            );
            let stage = Stage::set(&chat_only);
            let a = stage.host(host, pleasant());
            let answer = stage.ask(chat("chat").user("Hi")).await;
            assert_eq!(answer.status, 200, "{base}: {} {:?}", answer.text(), stage.net.dialed());
            let call = &a.calls()[0];
            assert_eq!((call.request.path.as_str(), call.request.query.as_deref()), (path, query), "{base}");
            assert_eq!(call.request.header("host"), Some(host), "{base}");
        }
    });
}

#[test]
fn the_whole_url_of_an_upstream_is_called_as_it_stands() {
    story(async {
        let config = r#"
routes:
  - name: rag-embedding
    match: { path: /v1/embeddings, model: rag-embedding }
    upstream: { url: "http://embedding-service:8000/v1/embeddings", timeout: 3000 }
    limit: { qps: 100, burst: 20 }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;
        let stage = Stage::set(config);
        let host = stage.host("embedding-service:8000", pleasant());
        let answer = stage.ask(embeddings("rag-embedding", "abc")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let call = &host.calls()[0];
        assert_eq!((call.request.path.as_str(), call.request.model()), ("/v1/embeddings", "rag-embedding"));
        assert_eq!(call.request.header("authorization"), None);
    });
}

#[test]
fn callers_may_err_in_slashes_and_versions() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        for path in [
            "/v1/chat/completions/",
            "//v1/chat/completions",
            "/v1/chat/completions?x=1",
            "/chat/completions",
            "/v1/v1/chat/completions",
            "/v1//chat//completions",
        ] {
            let answer = stage.ask(chat("chat").user("Hi").path(path)).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
        for call in a.calls() {
            assert_eq!((call.request.path.as_str(), call.request.query.as_deref()), ("/v1/chat/completions", None));
        }
        let absolute = stage.ask(chat("chat").user("Hi").path("http://gateway/v1/chat/completions")).await;
        assert_eq!(absolute.status, 200, "{}", absolute.text());
        for path in ["/v1/%63hat/completions", "/v1/chat%2Fcompletions"] {
            let answer = stage.ask(chat("chat").user("Hi").path(path)).await;
            assert!(answer.status == 200 || (answer.status, answer.code().as_deref()) == (404, Some("not_found")));
        }
    });
}

#[test]
fn other_paths_and_methods_are_told_apart() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        for path in ["/", "/v1", "/metrics", "/admin/v1/routes", "/v1/files", "/v1/chat", "/healthz/x"] {
            let answer = stage.ask(chat("chat").user("Hi").path(path)).await;
            assert_eq!((answer.status, answer.code().as_deref()), (404, Some("not_found")), "{path}");
            assert!(answer.header("x-request-id").is_some());
        }
        let whole_address = "/v1/chat/completions/chat/completions"; // where the SDK's base URL should have been
        let answer = stage.ask(chat("chat").user("Hi").path(whole_address)).await;
        assert!(answer.text().contains("base URL ends with /v1"), "{}", answer.text());
        for (method, path, allowed) in [
            ("GET", "/v1/chat/completions", "POST"),
            ("PUT", "/v1/embeddings", "POST"),
            ("DELETE", "/v1/rerank", "POST"),
            ("POST", "/v1/models", "GET"),
        ] {
            let answer = stage.ask(chat("chat").user("Hi").path(path).method(method)).await;
            assert_eq!((answer.status, answer.code().as_deref()), (405, Some("method_not_allowed")), "{method} {path}");
            assert_eq!(answer.header("allow"), Some(allowed), "RFC 9110, section 15.5.6");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(stage.caller().ask(&get(path)).await.status, 200);
        }
    });
}

#[test]
fn compressed_answers_are_readable_whatever_the_caller_or_the_gateway_asked_for() {
    story(async {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let packed = |reply: Reply| Reply { coding: Some(coding), ..reply };
            for accepts in [Some("gzip, br"), Some("identity"), None] {
                let with = |ask: testkit::Ask| match accepts {
                    Some(accepts) => ask.header("accept-encoding", accepts),
                    None => ask,
                };
                let stage = Stage::usual();
                let a = stage.host("a", packed(Reply::say(["Hel", "lo, 世界!"])));
                let answer = stage.ask(with(chat("chat").user("Hi"))).await;
                assert_eq!((answer.status, answer.said().as_str()), (200, "Hello, 世界!"), "{coding:?}");
                assert_eq!((answer.header("content-encoding"), answer.is_whole), (None, true));
                assert!(stage.last_line().await["tokens_out"].as_u64().unwrap() > 0);
                assert_eq!(a.calls()[0].request.header("accept-encoding"), Some("identity"));
                let answer = stage.ask(with(chat("chat").user("Hi").stream())).await;
                assert_eq!((answer.said().as_str(), answer.events().is_done()), ("Hello, 世界!", true), "{coding:?}");
                assert_eq!(stage.last_line().await["tokens_out"], 2);
                let refusal = json!({"error": {"message": "the prompt offends", "type": "invalid_request_error", "code": "bad_prompt", "param": "messages"}});
                a.play(packed(Reply { status: Some(400), ..Reply::json(refusal) }));
                let answer = stage.ask(with(chat("chat").user("Hi"))).await;
                assert_eq!(
                    (answer.status, answer.code().as_deref()),
                    (400, Some("bad_prompt")),
                    "{coding:?}: {}",
                    answer.text()
                );
                assert!(answer.text().contains("the prompt offends"));
                a.play(packed(Reply::status(500)));
                stage.host("b", Reply::say(["from b"]));
                assert_eq!(stage.ask(with(chat("chat").user("Hi"))).await.said(), "from b");
            }
        }
    });
}

#[test]
fn a_compressed_stream_is_not_delayed() {
    story(async {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let stage = Stage::usual();
            let words = Reply { coding: Some(coding), ..Reply::say(["Hel", "lo", "!"]).every(Duration::from_secs(5)) };
            stage.host("a", words);
            let mut caller = stage.caller();
            let began = base::Clock.now();
            caller.begin(&chat("chat").user("Hi").stream().key(KEY)).await;
            caller.head().await.unwrap();
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains("Hel") {
                seen.extend(caller.more().await.unwrap().unwrap());
            }
            assert!(base::Clock.now() - began < Duration::from_secs(6), "{coding:?}");
        }
    });
}

#[test]
fn a_compressed_stream_survives_every_cut_of_its_bytes() {
    story(async {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            for size in [1, 7, 100] {
                let stage = Stage::usual();
                let reply = Reply {
                    coding: Some(coding),
                    slices: Some(Slices::Of(size, Duration::from_millis(1))),
                    ..Reply::pieces([bytes(&hello())])
                };
                stage.host("a", reply);
                let answer = stage.ask(chat("chat").user("Hi").stream()).await;
                assert_eq!((answer.said().as_str(), answer.events().is_done()), ("Hello!", true), "{coding:?} {size}");
            }
        }
    });
}

#[test]
fn a_body_that_belies_its_coding_is_no_answer() {
    story(async {
        let broken = [
            Reply::say(["plain"]).header("content-encoding", "gzip"),
            Reply::say(["plain"]).header("content-encoding", "zstd"),
            Reply::say(["plain"]).header("content-encoding", "br"),
            Reply::say(["plain"]).header("content-encoding", "compress"),
            Reply { coding: Some(Coding::Gzip), ..Reply::say(["cut"]) }.cut(At::Bytes(40), How::Fin),
        ];
        for reply in broken {
            let stage = Stage::usual();
            stage.host("a", reply.clone());
            stage.host("b", Reply::say(["from b"]));
            for ask in [chat("chat").user("Hi"), chat("chat").user("Hi").stream()] {
                let answer = stage.ask(ask).await;
                assert_eq!((answer.status, answer.said().as_str()), (200, "from b"), "{reply:?}: {}", answer.text());
            }
        }
    });
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_gzipped_request_is_read_and_a_bomb_is_refused() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let plain = chat("chat").user("你好").bytes();
        let answer = stage.ask(chat("chat").body(gzipped(&plain)).header("content-encoding", "gzip")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let call = &a.calls()[0].request;
        assert_eq!((call.model(), call.header("content-encoding")), ("model-a", None));
        let zeros = gzipped(&vec![b' '; 64 << 20]);
        let answer = stage.ask(chat("chat").body(zeros).header("content-encoding", "gzip")).await;
        assert_eq!((answer.status, answer.code().as_deref()), (413, Some("request_too_large")), "{}", answer.text());
        let answer = stage.ask(chat("chat").body(plain.clone()).header("content-encoding", "gzip")).await;
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("invalid_request")), "{}", answer.text());
        let answer = stage.ask(chat("chat").body(plain).header("content-encoding", "lzw")).await;
        assert_eq!((answer.status, answer.code().as_deref()), (415, Some("unsupported_encoding")), "{}", answer.text());
        assert_eq!(a.calls().len(), 1);
        assert!(stage.log().iter().all(|line| line["client"] == "app"), "all are logged");
    });
}

#[test]
fn a_body_that_is_laborious_to_unfold_keeps_nobody_else_waiting() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        let ask = chat("chat").user("laborious").key(KEY);
        let mut members = gzipped(b"").repeat(20_000);
        members.extend(gzipped(&ask.bytes()));
        let laborious = ask.header("content-encoding", "gzip").header("x-request-id", "laborious").body(members);
        let mut caller = stage.caller();
        let (answer, other) = tokio::join!(caller.ask(&laborious), async {
            tokio::task::yield_now().await;
            stage.ask(chat("chat").user("Hi").key(KEY).header("x-request-id", "other")).await
        });
        assert_eq!((answer.status, other.status), (200, 200));
        stage.comes_to_rest().await;
        let order: Vec<_> = stage.log().iter().map(|line| line["request_id"].clone()).collect();
        assert_eq!(order, ["other", "laborious"]);
    });
}

fn long(length: usize) -> testkit::Ask {
    let empty = chat("chat").user("").bytes().len();
    chat("chat").user(&"x".repeat(length - empty))
}

#[test]
fn bodies_up_to_the_limit_pass_and_one_byte_more_does_not() {
    story(async {
        const MOST: usize = 10 << 20;
        let stage = Stage::usual();
        let a = stage.host("a", Reply::say(["read"]));
        for length in [6 << 20, 9_900_000, MOST] {
            let answer = stage.ask(long(length)).await;
            assert_eq!(answer.status, 200, "{length}: {}", answer.text());
        }
        assert_eq!(a.calls()[2].body_bytes, MOST + "model-a".len() - "chat".len());
        let answer = stage.ask(long(MOST + 1)).await;
        assert_eq!((answer.status, answer.code().as_deref()), (413, Some("request_too_large")), "{}", answer.text());
        assert_eq!((a.calls().len(), answer.header("x-should-retry")), (3, Some("false")));
        let line = stage.last_line().await;
        assert_eq!((&line["status"], &line["code"]), (&json!(413), &json!("request_too_large")));
        assert!(
            stage
                .metrics()
                .lines()
                .any(|line| line.starts_with("mai_requests_total{") && line.contains("status=\"413\""))
        );
    });
}

fn chunked(ask: &testkit::Ask) -> Vec<u8> {
    let mut head = ask.head();
    head.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    head
}

#[test]
fn a_chunked_body_without_end_is_refused_before_it_has_all_come() {
    story(async {
        for pause in [Duration::ZERO, Duration::from_millis(20)] {
            let stage = Stage::usual();
            let a = stage.host("a", pleasant());
            let mut caller = stage.caller();
            caller.write(&chunked(&chat("chat").key(KEY))).await;
            let mut piece = format!("{:x}\r\n", 1 << 20).into_bytes();
            piece.extend(vec![b' '; 1 << 20]);
            piece.extend_from_slice(b"\r\n");
            let mut sent = 0;
            let answer = loop {
                tokio::select! {
                    biased;
                    answer = caller.peek() => break answer,
                    () = tokio::time::sleep(pause) => {}
                }
                if sent >= 200 {
                    break caller.answer().await.unwrap();
                }
                sent += 1;
                caller.write(&piece).await;
            };
            assert_eq!((answer.status, answer.code().as_deref()), (413, Some("request_too_large")));
            assert!(sent <= 64, "{sent} MiB were taken");
            assert_eq!(a.calls().len(), 0);
            assert_eq!(stage.last_line().await["code"], "request_too_large");
        }
    });
}

#[test]
fn a_chunked_body_is_read_and_sent_on_with_a_length() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let mut caller = stage.caller();
        let ask = chat("chat").user("Hi").key(KEY);
        caller.write(&chunked(&ask)).await;
        for part in ask.bytes().chunks(10) {
            caller.write(format!("{:x};ext=1\r\n", part.len()).as_bytes()).await;
            caller.write(part).await;
            caller.write(b"\r\n").await;
        }
        caller.write(b"0\r\ntrailer: x\r\n\r\n").await;
        assert_eq!(caller.answer().await.unwrap().status, 200);
        let call = &a.calls()[0].request;
        assert_eq!((call.header("transfer-encoding"), call.header("content-length").is_some()), (None, true));
    });
}

#[test]
fn expect_is_answered_at_once_and_goes_no_further() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let body = "x".repeat(2048);
        let ask = chat("chat").user(&body).header("expect", "100-continue");
        let (head, length) = (
            |ask: &testkit::Ask, length: usize| {
                let mut head = ask.head();
                head.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
                head
            },
            ask.bytes().len(),
        );
        let began = base::Clock.now();
        let mut caller = stage.caller();
        caller.write(&head(&ask.clone().key(KEY), length)).await;
        let interim = caller.read().await;
        assert!(interim.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&interim));
        caller.write(&ask.bytes()).await;
        assert_eq!(caller.answer().await.unwrap().status, 200);
        assert_eq!(a.calls()[0].request.header("expect"), None);
        for (ask, length, status) in [(ask.clone().key("sk-wrong"), length, 401), (ask.key(KEY), 11 << 20, 413)] {
            let mut caller = stage.caller();
            caller.write(&head(&ask, length)).await;
            assert_eq!(caller.answer().await.unwrap().status, status, "without a byte of the body");
        }
        assert!(base::Clock.now() - began < Duration::from_millis(300), "at once");
    });
}

#[test]
fn a_body_that_stops_half_way_ends_by_the_clock() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let wire = long(9 << 20).key(KEY).wire();
        let mut caller = stage.caller();
        caller.write(&wire[..wire.len() / 2]).await;
        let answer = caller.answer().await.unwrap();
        assert_eq!((answer.status, answer.code().as_deref()), (408, Some("request_timeout")), "{}", answer.text());
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], a.calls().len()), (&json!("caller_timeout"), 0));
        // A caller who leaves instead is just gone.
        let mut caller = stage.caller();
        caller.write(&wire[..wire.len() / 2]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(caller);
        assert_eq!(stage.last_line().await["outcome"], "caller_gone");
        let mut caller = stage.caller();
        caller.write(&wire[..wire.len() / 2]).await;
        caller.half_close().await;
        assert!(caller.answer().await.is_err(), "half a request has no answer");
        assert_eq!(stage.last_line().await["outcome"], "caller_gone");
    });
}

#[test]
fn many_large_bodies_at_once_are_all_answered() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Reply::say(["read"]));
        let wire: std::sync::Arc<[u8]> = long(1 << 20).key(KEY).wire().into();
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..30 {
            let (mut caller, wire) = (stage.caller(), wire.clone());
            callers.spawn(async move {
                caller.write(&wire).await;
                caller.answer().await.unwrap().status
            });
        }
        while let Some(status) = callers.join_next().await {
            assert_eq!(status.unwrap(), 200);
        }
        stage.comes_to_rest().await;
    });
}

/// 30 calls with pauses between them, one connection of the caller's own.
async fn paused_calls(stage: &Stage, ask: &testkit::Ask, pause: Duration) {
    let mut caller = stage.caller();
    for call in 0..30 {
        let answer = caller.ask(ask).await;
        assert_eq!(answer.status, 200, "call {call}: {}", answer.text());
        tokio::time::sleep(pause).await;
    }
}

fn asks() -> [testkit::Ask; 4] {
    let chat = chat("chat").user("Hi").key(KEY);
    [
        chat.clone(),
        chat.clone().stream(),
        chat.header("x-mai-side-effects", "true"),
        embeddings("embedding", "abc").key(KEY),
    ]
}

#[test]
fn connections_that_the_upstream_closes_between_calls_hurt_nobody() {
    story(async {
        let idle = |how| Scenario::of([]).idle(Duration::from_secs(1), how);
        let closing = || Scenario::from(Reply { keep_open: true, ..Reply::default() }.header("connection", "close"));
        for ask in asks() {
            for scenario in [
                idle(How::Fin),
                idle(How::Rst),
                Scenario::of([]).no_reuse(How::Fin),
                Scenario::of([]).no_reuse(How::Rst),
                closing(),
            ] {
                for pause in [0, 990, 1000, 1010, 3000] {
                    let stage = Stage::set(&alone("openai", "http://a/v1"));
                    let a = stage.host("a", scenario.clone());
                    paused_calls(&stage, &ask, Duration::from_millis(pause)).await;
                    stage.comes_to_rest().await;
                    assert!(a.connections_open() <= 1, "{} are open: {scenario:?} {pause}", a.connections_open());
                    assert!(stage.log().iter().all(|line| line["outcome"] == "ok"));
                }
            }
        }
    });
}

#[test]
fn a_request_that_was_read_and_not_answered_is_repeated_once_unless_it_has_side_effects() {
    story(async {
        for ask in asks() {
            let stage = Stage::set(&alone("openai", "http://a/v1"));
            // Every second call on a connection is read whole and met with its end.
            let drops = |request: &testkit::Request| {
                if request.header("x-request-id") == Some("drop-me") { Reply::close() } else { Reply::default() }
            };
            let a = stage.host("a", Script::by(drops));
            let has_effects = ask.head().windows(12).any(|part| part == b"side-effects");
            let mut caller = stage.caller();
            assert_eq!(caller.ask(&ask).await.status, 200);
            a.play(Scenario::of([Rule::nth(1, Reply::close())]));
            let answer = caller.ask(&ask).await;
            if has_effects {
                assert_eq!((answer.status, answer.header("x-mai-attempts")), (502, Some("1")), "{}", answer.text());
                assert_eq!(a.calls().len(), 2);
            } else {
                assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("2")), "{}", answer.text());
                assert_eq!(a.calls().len(), 3);
                assert_eq!(a.calls()[2].turn, 1, "on a fresh connection");
            }
        }
    });
}

#[test]
fn a_connection_is_used_again_after_every_kind_of_answer() {
    story(async {
        let stage = Stage::set(&alone("openai", "http://a/v1"));
        let a = stage.host(
            "a",
            Script::replies([
                Reply::default(),
                Reply::status(400),
                Reply::default(),
                Reply::status(500),
                Reply::default(),
            ]),
        );
        for ask in [
            chat("chat").user("Hi"),
            chat("chat").user("Hi"),
            chat("chat").user("Hi").stream(),
            chat("chat").user("Hi"),
            chat("chat").user("Hi"),
        ] {
            stage.ask(ask).await;
        }
        let turns: Vec<u64> = a.calls().iter().map(|call| call.turn).collect();
        assert_eq!(turns, [1, 2, 3, 4, 5, 6], "the one that failed comes again");
    });
}

#[test]
fn redirects_are_never_followed() {
    story(async {
        for (status, location) in [
            (302, "http://b/v1/chat/completions"),
            (307, "https://b/v1/chat/completions"),
            (301, "/v2/chat/completions"),
            (308, "http://a/v1/chat/completions"),
        ] {
            let stage = Stage::set(&alone("openai", "http://a/v1"));
            let a = stage.host(
                "a",
                Reply { status: Some(status), body: Body::Empty, ..Reply::default() }.header("location", location),
            );
            let b = stage.host("b", pleasant());
            let answer = stage.ask(chat("chat").user("Hi")).await;
            assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_error")), "{}", answer.text());
            assert_eq!((a.calls().len(), b.calls().len()), (1, 0));
            assert_eq!(answer.header("location"), None);
        }
    });
}

#[test]
fn an_upstream_that_refuses_before_it_has_read_is_heard() {
    story(async {
        let refusal = json!({"error": {"message": "payload too large for this server", "code": "too_large"}});
        for length in [1000, 4 << 20] {
            let stage = Stage::set(&alone("openai", "http://a/v1"));
            let a = stage.host("a", Reply { status: Some(413), early: true, ..Reply::json(refusal.clone()) });
            let answer = stage.ask(long(length)).await;
            assert_eq!((answer.status, a.calls().len()), (413, 1), "{length}: {}", answer.text());
            assert!(answer.text().contains("payload too large for this server"), "{}", answer.text());
        }
    });
}

#[test]
fn a_long_refusal_still_says_what_is_wrong() {
    story(async {
        let stage = Stage::set(&alone("openai", "http://a/v1"));
        let message = format!("Input should be a valid string: {}", "x".repeat(300_000));
        stage.host(
            "a",
            Reply { status: Some(422), ..Reply::json(json!({"error": {"message": message, "code": "bad"}})) },
        );
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(answer.status, 422);
        assert!(answer.text().contains("Input should be a valid string"), "{}", answer.text());
        assert!(answer.body.len() < 10_000);
    });
}

#[test]
fn a_half_closed_caller_gets_a_large_answer_whole() {
    story(async {
        let word = "x".repeat(2000);
        for stream in [false, true] {
            let stage = Stage::usual();
            stage.host("a", Reply::say(vec![word.clone(); 1000]).after(Duration::from_secs(1)));
            let mut caller = stage.caller();
            caller.begin(&chat("chat").user("Hi").with("stream", stream).key(KEY)).await;
            caller.half_close().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let answer = caller.answer().await.unwrap();
            assert_eq!((answer.status, answer.is_whole), (200, true), "stream: {stream}, {} bytes", answer.body.len());
            assert_eq!(answer.said().len(), 2_000_000);
            assert_eq!(stage.last_line().await["outcome"], "ok");
        }
    });
}

#[test]
fn answers_that_are_no_http_or_no_json_are_upstream_faults() {
    story(async {
        let wrong = [
            Reply::raw(["SSH-2.0-OpenSSH_9.6\r\n"]),
            Reply::raw(["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"]),
            Reply::raw(["HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"]),
            Reply::raw(["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"]),
            Reply::raw(["HTTP/1.1 abc\r\n\r\n"]),
            Reply::text("<html>It works!</html>"),
            Reply::json(Value::Null),
            Reply::json(json!([])),
            Reply { status: Some(204), body: Body::Empty, ..Reply::default() },
            Reply::json(json!({"id": 1})).header("content-length", "100").cut(At::End, How::Fin),
        ];
        for reply in wrong {
            for stream in [false, true] {
                let stage = Stage::set(&without_waits(&alone("openai", "http://a/v1")));
                let a = stage.host("a", reply.clone());
                let answer = stage.ask(chat("chat").user("Hi").with("stream", stream)).await;
                assert!(
                    matches!(answer.code().as_deref(), Some("upstream_bad_response" | "upstream_error")),
                    "{reply:?}: {}",
                    answer.text()
                );
                assert_eq!((answer.status, a.calls().len()), (502, 1), "{reply:?}");
                assert_eq!(answer.header("x-should-retry"), Some("false"));
                assert_ne!(a.ending_of(1).await, End::Running);
            }
        }
    });
}

#[test]
fn several_calls_on_one_connection_also_pipelined_are_answered_in_order() {
    story(async {
        let stage = Stage::usual();
        stage.host(
            "a",
            Script::by(|request| {
                Reply::say([request.header("x-request-id").unwrap_or_default()]).after(Duration::from_millis(50))
            }),
        );
        let mut caller = stage.caller();
        for number in 0..5 {
            caller.begin(&chat("chat").user("Hi").key(KEY).header("x-request-id", number.to_string())).await;
        }
        for number in 0..5 {
            assert_eq!(caller.answer().await.unwrap().said(), number.to_string());
        }
        stage.comes_to_rest().await;
        assert_eq!(stage.log().len(), 5);
    });
}

#[test]
fn the_pool_never_holds_more_than_it_may() {
    story(async {
        let config = usual_but(
            "api_key: sk-a-secret",
            "api_key: sk-a-secret, pool: { max_connections: 4, connect_timeout: 60s }",
        );
        let stage = Stage::set(&config);
        let a = stage.host("a", Reply::say(["ok"]).after(Duration::from_millis(100)));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let mut caller = stage.caller();
            callers.spawn(async move { caller.ask(&chat("chat").user("Hi").key(KEY)).await.status });
        }
        while let Some(status) = callers.join_next().await {
            assert_eq!(status.unwrap(), 200);
        }
        assert!(a.most_in_flight() <= 4, "{}", a.most_in_flight());
    });
}

#[test]
fn a_body_whose_chunks_are_no_chunks_is_refused_and_not_taken_for_a_departure() {
    story(async {
        for garbage in ["zz\r\n{}\r\n", "-1\r\n", "2\r\n{}XX"] {
            let stage = Stage::usual();
            let a = stage.host("a", Reply::say(["no"]));
            let mut caller = stage.caller();
            let head = format!(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ntransfer-encoding: chunked\r\n\r\n"
            );
            caller.write(format!("{head}{garbage}").as_bytes()).await;
            let text = String::from_utf8_lossy(&caller.rest().await.0).into_owned();
            assert!(text.starts_with("HTTP/1.1 400") && text.contains("invalid_request"), "{garbage:?}: {text}");
            assert_eq!(stage.last_line().await["outcome"], "caller_invalid", "{garbage:?}");
            assert_eq!(a.calls().len(), 0);
        }
    });
}

#[test]
fn a_connection_on_which_no_request_comes_is_closed_after_90_seconds() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        let mut caller = stage.caller();
        for written in ["", "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n"] {
            tokio::time::sleep(Duration::from_secs(80)).await;
            assert_eq!(caller.ask(&chat("chat").user("Hi").key(KEY)).await.status, 200);
            caller.write(written.as_bytes()).await;
            let began = base::Clock.now();
            caller.rest().await;
            assert_eq!(base::Clock.now().duration_since(began).as_secs(), 90, "{written:?}");
            caller = stage.caller();
        }
    });
}

#[test]
fn interim_responses_without_end_are_no_answer() {
    story(async {
        let stage = Stage::set(&without_waits(&alone("openai", "http://a/v1")));
        let few = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
        let many = few.repeat(40);
        let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}"#;
        let answer = format!("{few}HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{whole}", whole.len());
        let a = stage.host("a", Script::new().on_call(1, Reply::raw([answer])).then(Reply::raw([many])));
        assert_eq!(stage.ask(chat("chat").user("Hi")).await.said(), "Hi");
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(
            (answer.status, answer.code().as_deref()),
            (502, Some("upstream_bad_response")),
            "{}",
            answer.text()
        );
        assert!(a.calls().len() >= 2);
        stage.comes_to_rest().await;
    });
}

#[test]
fn a_head_that_is_too_large_is_told_from_what_is_not_http() {
    story(async {
        let stage = Stage::set(&without_waits(&alone("openai", "http://a/v1")));
        let field = format!("x-big: {}\r\n", "x".repeat(1 << 20));
        let heads = ["x-small: x\r\n".repeat(150), field].map(|fields| format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        let garbage = "SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned();
        let told = ["too large", "too large", "is not HTTP"];
        for (head, told) in heads.into_iter().chain([garbage]).zip(told) {
            stage.host("a", Script::always(Reply::raw([head])));
            let answer = stage.ask(chat("chat").user("Hi")).await;
            assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_bad_response")));
            assert!(answer.text().contains(told), "{}", answer.text());
        }
        stage.comes_to_rest().await;
    });
}

#[test]
fn answers_in_tiny_pieces_leave_turns_to_others() {
    const PIECES: usize = 40_000;
    story(async {
        let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}"#;
        let events = |events: &[String]| String::from_utf8(bytes(events)).unwrap();
        let answers = [
            ("application/json", String::new(), "1\r\n \r\n", whole.to_owned()),
            ("text/event-stream", String::new(), "3\r\n:\n\n\r\n", events(&hello())),
            ("text/event-stream", events(&hello()[..2]), "3\r\n:\n\n\r\n", events(&hello()[2..])),
        ];
        for (kind, first, tiny, last) in answers {
            let stage = Stage::set(&without_waits(&alone("openai", "http://a/v1")));
            let chunk = |text: String| if text.is_empty() { text } else { format!("{:x}\r\n{text}\r\n", text.len()) };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
            let text = [head, chunk(first), tiny.repeat(PIECES), chunk(last), "0\r\n\r\n".to_owned()].concat();
            stage.host("a", Reply::raw([text]));
            let turns = Arc::new(AtomicUsize::new(0));
            let counted = turns.clone();
            let other = tokio::spawn(async move {
                loop {
                    counted.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
            let ask = chat("chat").user("Hi");
            let answer = stage.ask(if kind == "application/json" { ask } else { ask.stream() }).await;
            other.abort();
            assert!(answer.said().starts_with('H'), "{}", answer.text());
            let turns = turns.load(Ordering::Relaxed);
            assert!(turns >= PIECES / 256, "{kind}: {turns}");
        }
    });
}
