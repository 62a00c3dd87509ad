//! The way out: new calls are refused, running ones end, nothing is lost.

use std::time::Duration;

use testkit::{Caller, get};
use tokio::net::TcpStream;

use crate::process::{ADMIN, Gateway, chat, reload, soon, until, upstream, usual};

/// Streams of about a second, slow calls of about as much.
const SLOW: &str = "rules: [{ when: { stream: true }, reply: { say: [one, two, three], every: 400ms } }, \
                    { when: { stream: false }, reply: { say: slow, latency: 1s } }]";
/// Streams that go on, calls that never end.
const ENDLESS: &str = "rules: [{ when: { stream: true }, reply: { say: [one, two], cut: { events: 3, how: hang } } }, \
                       { when: { stream: false }, reply: hang }]";

/// One long answer.
const LONG: &str = r#"
rules:
  - reply:
      headers: { content-type: application/json }
      pieces:
        - '{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"'
        - { repeat: a, times: 16000000 }
        - '"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
"#;

impl Gateway {
    async fn begin(&self, ask: &testkit::Ask) -> Caller<TcpStream> {
        let mut caller = self.caller().await;
        caller.begin(ask).await;
        caller
    }

    async fn drains(&self) {
        until("it drains", || self.process.err.has("draining")).await;
    }
}

#[tokio::test]
async fn running_calls_end_new_ones_are_refused_and_every_line_is_written() {
    let up = upstream(SLOW).await;
    let mut gateway = Gateway::serve(&usual(&up.url())).await;
    let mut kept = gateway.caller().await;
    assert_eq!(soon("ready", kept.ask(&get("/readyz"))).await.status, 200);
    let mut running = Vec::new();
    for _ in 0..8 {
        running.push((gateway.begin(&chat().stream()).await, "onetwothree"));
        running.push((gateway.begin(&chat()).await, "slow"));
    }
    soon("they run", up.log().until(|calls| calls.len() == 16)).await;
    gateway.process.signal("TERM");
    gateway.drains().await;
    assert_eq!(gateway.ask(&get("/readyz")).await.status, 503);
    assert_eq!(gateway.ask_admin(&get("/readyz")).await.status, 503);
    assert_eq!(gateway.ask(&get("/healthz")).await.status, 200, "it is alive");
    for refused in [gateway.ask(&chat()).await, soon("an answer", kept.ask(&chat().stream())).await] {
        assert_eq!((refused.status, refused.code().as_deref()), (503, Some("shutting_down")));
        assert!(refused.header("retry-after").is_some() && refused.header("x-request-id").is_some());
        assert_eq!(refused.header("x-should-retry"), None, "another replica answers");
    }
    for (caller, said) in &mut running {
        let answer = soon("an answer", caller.answer()).await.unwrap();
        assert!(answer.status == 200 && answer.is_whole);
        assert_eq!(&answer.said(), said);
    }
    assert_eq!(gateway.process.exit().await, Some(0));
    until("the pipe's end", || gateway.log().len() == 18).await;
    let log = gateway.log();
    let count = |status: u64| log.iter().filter(|line| line["status"] == status).count();
    assert_eq!((count(200), count(503)), (16, 2));
}

#[tokio::test]
async fn the_grace_is_the_one_in_force_when_it_stops() {
    let up = upstream(ENDLESS).await;
    let mut gateway = Gateway::serve(&usual(&up.url())).await;
    gateway.rewrite(&format!("shutdown_grace: 300ms\n{}", usual(&up.url())));
    assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
    let mut caller = gateway.begin(&chat()).await;
    soon("it runs", up.log().until(|calls| calls.len() == 1)).await;
    gateway.process.signal("TERM");
    assert_eq!(soon("the end", gateway.process.exit()).await, Some(0));
    assert_eq!(soon("an answer", caller.answer()).await.unwrap().status, 503);
}

#[tokio::test]
async fn beyond_the_grace_calls_are_told_and_it_still_ends_cleanly() {
    let up = upstream(ENDLESS).await;
    let mut gateway = Gateway::serve(&format!("shutdown_grace: 300ms\n{}", usual(&up.url()))).await;
    let mut stream = gateway.begin(&chat().stream()).await;
    let mut waiting = gateway.begin(&chat()).await;
    let mut half = gateway.caller().await;
    let head = String::from_utf8(chat().head()).unwrap();
    half.write(format!("{head}content-length: 100\r\n\r\n{{").as_bytes()).await;
    let begun = soon("the head", stream.head()).await.unwrap();
    assert_eq!(begun.status, 200);
    soon("they run", up.log().until(|calls| calls.len() == 2)).await;
    gateway.process.signal("TERM");
    let (rest, _) = soon("the stream's end", stream.rest()).await;
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("data: {\"error\"") && rest.contains("shutting_down"), "{rest}");
    assert!(!rest.contains("[DONE]"), "{rest}");
    let told = soon("an answer", waiting.answer()).await.unwrap();
    assert_eq!((told.status, told.code().as_deref()), (503, Some("shutting_down")));
    assert!(told.header("retry-after").is_some());
    assert_eq!(soon("an answer", half.answer()).await.unwrap().status, 503);
    assert_eq!(gateway.process.exit().await, Some(0));
    until("the pipe's end", || gateway.log().len() == 3).await;
    for line in gateway.log() {
        assert_eq!(line["outcome"], "gateway_shutdown", "{line}");
    }
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let up = upstream(ENDLESS).await;
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM")] {
        let mut gateway = Gateway::serve(&usual(&up.url())).await;
        let mut stream = gateway.begin(&chat().stream()).await;
        soon("the head", stream.head()).await.unwrap();
        gateway.process.signal(first);
        gateway.drains().await;
        gateway.process.signal(second);
        let (rest, _) = soon("the stream's end", stream.rest()).await;
        assert!(String::from_utf8_lossy(&rest).contains("shutting_down"));
        assert_eq!(tokio::time::timeout(Duration::from_secs(3), gateway.process.exit()).await, Ok(Some(0)));
    }
}

#[tokio::test]
async fn an_answer_on_its_way_to_a_slow_reader_arrives_whole() {
    let up = upstream(LONG).await;
    let mut gateway = Gateway::serve(&usual(&up.url())).await;
    let mut caller = gateway.begin(&chat()).await;
    let head = soon("the head", caller.head()).await.unwrap();
    let length: usize = head.header("content-length").unwrap().parse().unwrap();
    assert!(length > 12 << 20, "more than sockets hold: {length}");
    gateway.process.signal("TERM");
    gateway.drains().await;
    let mut got = 0;
    while let Some(piece) = soon("more", caller.more()).await.expect("not cut off") {
        got += piece.len();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(got, length);
    assert_eq!(gateway.process.exit().await, Some(0));
}

#[tokio::test]
async fn a_caller_who_never_reads_does_not_hold_it_up_beyond_the_grace() {
    let up = upstream(LONG).await;
    let mut gateway = Gateway::serve(&format!("shutdown_grace: 300ms\n{}", usual(&up.url()))).await;
    let mut caller = gateway.begin(&chat()).await;
    assert_eq!(soon("the head", caller.head()).await.unwrap().status, 200);
    gateway.process.signal("TERM");
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), gateway.process.exit()).await, Ok(Some(0)));
}
