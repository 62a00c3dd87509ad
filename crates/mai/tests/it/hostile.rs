//! Bytes that are no proper HTTP: refused, never passed on, never fatal.

use testkit::get;

use crate::process::{Gateway, KEY, chat, soon, upstream, usual};

/// Everything that comes back for these bytes.
async fn sent(gateway: &Gateway, bytes: &[u8]) -> String {
    let mut caller = gateway.caller().await;
    caller.write(bytes).await;
    caller.half_close().await;
    String::from_utf8_lossy(&soon("the end", caller.rest()).await.0).into_owned()
}

#[tokio::test]
async fn garbage_is_refused_and_the_gateway_lives() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let head = String::from_utf8(chat().head()).unwrap();
    let tls_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
    let garbage: Vec<Vec<u8>> = vec![
        b"\0\0\0\0\r\n\r\n".to_vec(),
        tls_hello,
        b"GET\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET /v1/models HTTP/9.9\r\n\r\n".to_vec(),
        format!("{head}content-length: -1\r\n\r\n").into_bytes(),
        format!("{head}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!").into_bytes(),
        format!("{head}content-length: 99999999999999999999999\r\n\r\n").into_bytes(),
        format!("{head}transfer-encoding: gzip\r\n\r\n").into_bytes(),
        format!("{head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n").into_bytes(),
        format!("{head}bad header: x\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        format!("{head}x: a\0b\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        format!("{head} folded: x\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        format!("{head}x-big: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(1 << 20)).into_bytes(),
        format!("{head}{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(5000)).into_bytes(),
        format!("GET /{} HTTP/1.1\r\nhost: g\r\n\r\n", "p".repeat(300_000)).into_bytes(),
    ];
    for bytes in &garbage {
        let shown = String::from_utf8_lossy(bytes.get(..bytes.len().min(200)).unwrap()).into_owned();
        let answer = sent(&gateway, bytes).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(answer.is_empty() || status.starts_with('4') || status.starts_with("50"), "{shown}: {answer}");
    }
    for (bytes, why) in [("zz\r\nhello\r\n0\r\n\r\n", "no number"), ("fffffffffffffffff\r\nx", "too large a number")] {
        let answer = sent(&gateway, format!("{head}transfer-encoding: chunked\r\n\r\n{bytes}").as_bytes()).await;
        assert!(!answer.contains(" 200 "), "{why}: {answer}");
    }
    assert_eq!(up.log().total(), 0);
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    assert!(!gateway.process.err.has("panicked"));
}

#[tokio::test]
async fn nothing_is_smuggled_behind_a_body_of_two_lengths() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let head = String::from_utf8(chat().head()).unwrap();
    let smuggled = String::from_utf8(get("/v1/models").key(KEY).wire()).unwrap();
    let body = String::from_utf8(chat().bytes().to_vec()).unwrap();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let long = chunked.len() + smuggled.len();
    for framing in [
        format!("content-length: {long}\r\ntransfer-encoding: chunked\r\n"),
        format!("transfer-encoding: chunked\r\ncontent-length: {long}\r\n"),
        format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", chunked.len()),
    ] {
        let answer = sent(&gateway, format!("{head}{framing}\r\n{chunked}{smuggled}").as_bytes()).await;
        assert!(answer.matches("HTTP/1.1 ").count() - answer.matches("HTTP/1.1 100").count() <= 1, "{answer}");
        assert!(!answer.contains("\"object\":\"list\""), "{answer}");
    }
    // Line ends in what a caller writes stay data: upstream there is one request with one path.
    let tricky = testkit::chat("chat").user("x\r\n\r\nGET /evil HTTP/1.1\r\nhost: e\r\n\r\n").key(KEY);
    assert_eq!(gateway.ask(&tricky.header("x-request-id", "a%0d%0ab")).await.status, 200);
    assert!(up.log().calls().iter().all(|call| call.request.path == "/v1/chat/completions"));
}

#[tokio::test]
async fn heads_that_trickle_in_hold_up_nobody() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut caller = gateway.caller().await;
        caller.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-a: ").await;
        slow.push(caller);
    }
    for caller in &mut slow {
        caller.write(b"y").await;
    }
    assert_eq!(gateway.ask(&chat()).await.status, 200);
    // One that goes on is served, however slow its head was.
    let late = slow.first_mut().unwrap();
    let wire = String::from_utf8(chat().wire()).unwrap();
    late.write(format!("\r\n{}", wire.split_once("\r\n").unwrap().1).as_bytes()).await;
    assert!(matches!(soon("an answer", late.answer()).await.unwrap().status, 200 | 400));
}

#[tokio::test]
async fn methods_and_targets_of_proxies_lead_nowhere() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    for line in ["CONNECT 127.0.0.1:9 HTTP/1.1", "OPTIONS * HTTP/1.1", "GET http://127.0.0.1:9/ HTTP/1.1"] {
        let head = format!("{line}\r\nhost: g\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n\r\n");
        let answer = sent(&gateway, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("\"not_found\""), "{line}: {answer}");
    }
    let upgrade = String::from_utf8(chat().head()).unwrap() + "connection: upgrade, http2-settings\r\nupgrade: h2c\r\n";
    let body = String::from_utf8(chat().bytes().to_vec()).unwrap();
    let whole = format!("{upgrade}http2-settings: AAMAAABk\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer = sent(&gateway, whole.as_bytes()).await;
    assert!(answer.contains("HTTP/1.1 200 "), "an upgrade that is not taken is a plain call: {answer}");
    assert_eq!(up.log().total(), 1);
}

#[tokio::test]
async fn a_thousand_requests_in_one_write_are_answered_in_order() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let mut caller = gateway.caller().await;
    let many: Vec<u8> = (0..1000)
        .flat_map(|number| get("/v1/models").key(KEY).header("x-request-id", format!("n{number}")).wire())
        .collect();
    caller.write(&many).await;
    for number in 0..1000 {
        let answer = soon("an answer", caller.answer()).await.unwrap();
        assert_eq!((answer.status, answer.header("x-request-id")), (200, Some(format!("n{number}").as_str())));
    }
}
