//! HTTP as it comes over real sockets: large bodies, odd methods, callers who leave.

use std::time::Duration;

use testkit::{Answer, Caller, End, Ended, chat as ask_chat, embeddings, get};
use tokio::net::TcpStream;

use crate::process::{Gateway, KEY, chat, soon, until, upstream, usual};

/// A chat body of exactly so many bytes.
fn sized(bytes: usize) -> String {
    let frame = r#"{"model":"chat","messages":[{"role":"user","content":""}]}"#;
    let text = "x".repeat(bytes - frame.len());
    frame.replace(r#""content":"""#, &format!(r#""content":"{text}""#))
}

fn large(bytes: usize) -> testkit::Ask {
    ask_chat("chat").body(sized(bytes)).key(KEY)
}

fn is_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{}", answer.text());
    assert!(answer.header("content-type").unwrap().starts_with("application/json"));
    assert!(answer.header("x-request-id").is_some());
}

#[tokio::test]
async fn bodies_are_taken_up_to_the_limit_and_not_a_byte_more() {
    let up = upstream("log: { body: 100 }\nrules: [{ reply: { say: fine } }]").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for bytes in [6_000_000, 9_900_000, 10 << 20] {
        assert_eq!(gateway.ask(&large(bytes)).await.status, 200, "{bytes}");
        assert_eq!(up.log().calls().last().unwrap().body_bytes, bytes - 3, "`chat` has become `m`");
    }
    is_refused(&gateway.ask(&large((10 << 20) + 1)).await, 413, "request_too_large");
    assert_eq!(up.log().total(), 3);
    let lines = gateway.lines(4).await;
    assert_eq!((lines[3]["status"].as_u64(), lines[3]["code"].as_str()), (Some(413), Some("request_too_large")));
    assert!(gateway.metric("mai_requests_total", "status=\"413\"").await >= 1.0);
}

/// Writes a chunked body without end until the connection takes no more; what is answered.
async fn flood(gateway: &Gateway, pause: Duration) -> (u16, usize) {
    let stream = TcpStream::connect(gateway.data).await.unwrap();
    let (read, mut write) = stream.into_split();
    let head = String::from_utf8(chat().head()).unwrap();
    let writing = async move {
        use tokio::io::AsyncWriteExt as _;
        let piece = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
        write.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
        let mut written = 0;
        while written < 200 && write.write_all(&piece).await.is_ok() {
            written += 1;
            tokio::time::sleep(pause).await;
        }
        written << 20
    };
    let reading = async move {
        use tokio::io::AsyncReadExt as _;
        let mut read = read;
        let mut seen = Vec::new();
        let _ = read.read_to_end(&mut seen).await;
        String::from_utf8_lossy(&seen).into_owned()
    };
    let (written, seen) = soon("a refusal", async { tokio::join!(writing, reading) }).await;
    assert!(seen.contains("request_too_large"), "{seen}");
    (seen.split(' ').nth(1).unwrap().parse().unwrap(), written)
}

#[tokio::test]
async fn a_body_without_end_is_refused_in_bounded_memory() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.ask(&large(9_900_000)).await.status, 200);
    let before = gateway.process.memory();
    for pause in [Duration::ZERO, Duration::from_millis(5)] {
        let (status, written) = flood(&gateway, pause).await;
        assert_eq!(status, 413);
        assert!(written < 200 << 20, "it was stopped");
    }
    let grown = gateway.process.memory().saturating_sub(before);
    assert!(grown < 48 << 20, "grew by {} MiB", grown >> 20);
    assert_eq!(up.log().total(), 1);
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
}

#[tokio::test]
async fn a_caller_who_sends_all_before_it_reads_sees_the_refusal() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for (key, status) in [(KEY, "413"), ("sk-wrong", "401")] {
        let mut stream = TcpStream::connect(gateway.data).await.unwrap();
        let head = String::from_utf8(ask_chat("chat").key(key).head()).unwrap();
        let length = 30 << 20;
        stream.write_all(format!("{head}content-length: {length}\r\n\r\n").as_bytes()).await.unwrap();
        // So slow that the gateway has answered long before the last byte.
        for _ in 0..30 {
            stream.write_all(&vec![b'x'; 1 << 20]).await.expect("no reset while it sends");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let mut seen = String::new();
        soon("the end", stream.read_to_string(&mut seen)).await.unwrap();
        assert!(seen.starts_with(&format!("HTTP/1.1 {status} ")), "{seen}");
        assert!(seen.contains("\"error\""), "{seen}");
    }
}

#[tokio::test]
async fn who_asks_before_sending_is_answered_at_once() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let body = sized(2048);
    let expecting = |key: &str, length: usize| {
        let head = ask_chat("chat").key(key).header("expect", "100-continue").head();
        [head, format!("content-length: {length}\r\n\r\n").into_bytes()].concat()
    };
    let mut caller = gateway.caller().await;
    caller.write(&expecting(KEY, body.len())).await;
    let interim = soon("leave to send", caller.read()).await;
    assert!(interim.starts_with(b"HTTP/1.1 100 Continue\r\n"), "{}", String::from_utf8_lossy(&interim));
    caller.write(body.as_bytes()).await;
    assert_eq!(soon("an answer", caller.answer()).await.unwrap().status, 200);
    assert!(up.log().calls()[0].request.headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("expect")));

    for (key, length, status) in [("sk-wrong", 2048, 401), (KEY, 11 << 20, 413)] {
        let mut caller = gateway.caller().await;
        caller.write(&expecting(key, length)).await;
        let answer = soon("a final answer", caller.read()).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "no leave to send: {text}");
    }
}

#[tokio::test]
async fn a_body_that_stops_half_way_is_408_and_frees_its_place() {
    let up = upstream("").await;
    let config = usual(&up.url()).replace("name: chat,", "name: chat, body_timeout: 300ms,");
    let gateway = Gateway::serve(&config).await;
    let head = String::from_utf8(chat().head()).unwrap();
    let mut caller = gateway.caller().await;
    caller.write(format!("{head}content-length: 1000\r\n\r\n{{\"model\"").as_bytes()).await;
    let answer = soon("an answer", caller.answer()).await.unwrap();
    is_refused(&answer, 408, "request_timeout");
    assert!(soon("the end", caller.rest()).await.0.is_empty(), "the connection is closed");
    assert_eq!(up.log().total(), 0);
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
}

#[tokio::test]
async fn calls_sent_ahead_are_answered_in_order() {
    let up =
        upstream("rules: [{ when: { body: first }, reply: { say: one, latency: 100ms } }, { reply: { say: two } }]")
            .await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut caller = gateway.caller().await;
    let both = [ask_chat("chat").user("first").key(KEY).wire(), ask_chat("chat").user("then").key(KEY).wire()].concat();
    caller.write(&both).await;
    assert_eq!(soon("one", caller.answer()).await.unwrap().said(), "one");
    assert_eq!(soon("two", caller.answer()).await.unwrap().said(), "two");
}

#[tokio::test]
async fn http_1_0_is_answered_plainly() {
    let up = upstream("rules: [{ reply: { say: [one, two], latency: 300ms } }]").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for ask in [chat(), chat().stream()] {
        let mut caller = gateway.caller().await;
        let wire = String::from_utf8(ask.wire()).unwrap().replace("HTTP/1.1", "HTTP/1.0");
        caller.write(wire.as_bytes()).await;
        let (bytes, ended) = soon("the end", caller.rest()).await;
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(ended, Ended::Closed);
        assert!(text.starts_with("HTTP/1.0 200") || text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(!text.to_lowercase().contains("transfer-encoding"), "{text}");
        assert!(text.contains("one") && text.contains("two"), "{text}");
    }
}

#[tokio::test]
async fn over_http_1_0_the_end_of_sending_is_the_end_of_the_call() {
    let up = upstream("rules: [{ reply: hang }]").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut caller = gateway.caller().await;
    let wire = String::from_utf8(chat().wire()).unwrap().replace("HTTP/1.1", "HTTP/1.0");
    caller.write(wire.as_bytes()).await;
    up.log().until(|calls| calls.len() == 1).await;
    drop(caller);
    soon("the upstream hears of it", up.log().until(|calls| calls[0].end == End::Gone)).await;
}

#[tokio::test]
async fn other_methods_are_405_in_json() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let answer = gateway.ask(&chat().method(method)).await;
        is_refused(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    let answer = gateway.ask(&get("/v1/models").method("POST").key(KEY)).await;
    is_refused(&answer, 405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET"));
    let mut caller = gateway.caller().await;
    caller.write(&get("/v1/chat/completions").method("HEAD").key(KEY).wire()).await;
    let head = soon("a head", caller.head()).await.unwrap();
    assert_eq!(head.status, 405);
    caller.write(&get("/healthz").method("HEAD").wire()).await;
    assert_eq!(soon("a head", caller.head()).await.unwrap().status, 200, "a HEAD has no body, the connection goes on");
}

#[tokio::test]
async fn a_refusal_keeps_the_connection() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut caller = gateway.caller().await;
    for (ask, status) in [
        (ask_chat("chat").user("x"), 401),
        (ask_chat("nobody").user("x").key(KEY), 404),
        (chat().path("/nowhere"), 404),
        (chat().body("{"), 400),
        (chat().method("PUT"), 405),
        (chat(), 200),
        (chat().stream(), 200),
        (chat(), 200),
    ] {
        assert_eq!(soon("an answer", caller.ask(&ask)).await.status, status);
    }
    gateway.metric_is("mai_connections", "", 1.0).await;
}

#[tokio::test]
async fn paths_are_forgiven_what_clients_get_wrong_without_redirects() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for path in [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1//chat///completions",
        "/v1/v1/chat/completions",
        "/chat/completions",
        "/v1/chat/completions?x=1",
        "http://gateway/v1/chat/completions",
    ] {
        assert_eq!(gateway.ask(&chat().path(path)).await.status, 200, "{path}");
    }
    let reached = up.log().calls();
    assert!(reached.iter().all(|call| call.request.path == "/v1/chat/completions" && call.request.query.is_none()));
    for path in ["/v1/ch%61t/completions", "/V1/chat/completions", "/v1/chat/completions%00", "/v1/chat/./completions"]
    {
        let answer = gateway.ask(&chat().path(path)).await;
        assert!(matches!(answer.status, 200 | 404), "{path}: {}", answer.status);
    }
}

#[tokio::test]
async fn a_caller_who_leaves_frees_the_upstream_at_once() {
    const HANG: &str = "rules: [{ when: { stream: true }, reply: { say: [one, two], cut: { events: 3, how: hang } } }, \
                        { reply: hang }]";
    let up = upstream(HANG).await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut count = 0;
    for ask in [chat(), chat().stream(), embeddings("embedding", "x").key(KEY)] {
        for reset in [false, true] {
            let stream = TcpStream::connect(gateway.data).await.unwrap();
            if reset {
                stream.set_zero_linger().unwrap();
            }
            let mut caller = Caller::on(stream);
            caller.begin(&ask).await;
            count += 1;
            soon("it reaches the upstream", up.log().until(|calls| calls.len() == count)).await;
            drop(caller);
            let gone = up.log().until(|calls| calls[count - 1].end == End::Gone);
            assert!(tokio::time::timeout(Duration::from_secs(2), gone).await.is_ok(), "call {count}, reset: {reset}");
        }
    }
    // In the middle of a stream.
    let mut caller = gateway.caller().await;
    caller.begin(&chat().stream()).await;
    assert_eq!(soon("the head", caller.head()).await.unwrap().status, 200);
    count += 1;
    drop(caller);
    let gone = up.log().until(|calls| calls[count - 1].end == End::Gone);
    assert!(tokio::time::timeout(Duration::from_secs(2), gone).await.is_ok(), "in mid-stream");
    // In the middle of the head, and of the body.
    for part in [20, 200] {
        let mut caller = gateway.caller().await;
        let wire = chat().wire();
        caller.write(wire.get(..part.min(wire.len() - 1)).unwrap()).await;
        drop(caller);
    }
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
    until("every ending is written down", || gateway.log().len() >= count).await;
    let log = gateway.log();
    assert!(log.iter().take(count).all(|line| line["outcome"] == "caller_gone"), "{log:?}");
    assert_eq!(up.log().total(), count as u64, "nobody who left is tried for again");
}

#[tokio::test]
async fn a_caller_who_only_stops_sending_gets_its_answer() {
    let up = upstream("rules: [{ reply: { say: [one, two], latency: 300ms, every: 100ms } }]").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for ask in [chat(), chat().stream()] {
        let mut caller = gateway.caller().await;
        caller.begin(&ask).await;
        caller.half_close().await;
        let answer = soon("an answer", caller.answer()).await.unwrap();
        assert!(answer.status == 200 && answer.is_whole);
        assert_eq!(answer.said(), "onetwo");
        assert!(soon("the end", caller.rest()).await.0.is_empty());
    }
}

#[tokio::test]
async fn a_slow_reader_slows_its_stream_and_nobody_else() {
    const FLOOD: &str = r#"
rules:
  - when: { stream: true }
    reply:
      headers: { content-type: text/event-stream }
      pieces: [{ repeat: "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abcdefghijklmnopqrstuvwxyz\"}}]}\n\n", times: 1000000 }]
"#;
    let up = upstream(FLOOD).await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let before = gateway.process.memory();
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut caller = gateway.caller().await;
        caller.begin(&chat().stream()).await;
        assert_eq!(soon("the head", caller.head()).await.unwrap().status, 200);
        slow.push(caller);
    }
    for _ in 0..20 {
        assert_eq!(gateway.ask(&chat()).await.status, 200);
    }
    let grown = gateway.process.memory().saturating_sub(before);
    assert!(grown < 64 << 20, "grew by {} MiB", grown >> 20);
    drop(slow);
    soon("the upstream is let go", up.log().until(|calls| calls.iter().all(|call| call.end != End::Running))).await;
    gateway.metric_is("mai_inflight_requests", "", 0.0).await;
}

#[tokio::test]
async fn a_thousand_idle_connections_cost_little() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let before = gateway.process.memory();
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(TcpStream::connect(gateway.data).await.unwrap());
    }
    gateway.metric_is("mai_connections", "", 1000.0).await;
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    let grown = gateway.process.memory().saturating_sub(before);
    assert!(grown < 32 << 20, "grew by {} MiB", grown >> 20);
    drop(idle);
    gateway.metric_is("mai_connections", "", 0.0).await;
}
