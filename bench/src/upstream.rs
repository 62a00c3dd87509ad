//! The scripted upstream: as cheap per call as it can be, so that the machine's time goes to what is measured.
//!
//! It answers by path, and streams by the script in the body's `user` field, which every target passes on untouched.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clock;
use crate::spread::spread;
use crate::wire::{Chunked, Head};
use crate::workload::{self, EVENT_BYTES, SCRIPT_MARK, STAMP_DIGITS};

/// Bytes read at once; a body larger than what is left is counted and dropped.
const BUFFER: usize = 64 * 1024;

/// Bytes of a body's beginning in which the script is looked for.
const SCRIPT_WITHIN: usize = 4096;

/// Chunks that one stream may have at most.
const MOST_CHUNKS: u64 = 10_000_000;

/// Hexadecimal length line before an event's bytes.
const CHUNK_HEAD: &[u8] = b"fa\r\n";

/// Every answer, rendered once.
struct Answers {
    chat: Vec<u8>,
    embeddings: Vec<u8>,
    embedding: Vec<u8>,
    empty: Vec<u8>,
    event: Vec<u8>,
    stamp: usize,
}

/// What a stream is to do.
#[derive(Clone, Copy)]
struct Script {
    chunks: u64,
    every_us: u64,
    with_usage: bool,
}

enum Wanted {
    Chat,
    /// Of many texts.
    Embeddings,
    /// Of one.
    Embedding,
    Stream(Script),
    Other,
}

/// Serves for ever.
pub(crate) fn serve(port: u16) -> io::Result<()> {
    spread(port, || {
        let answers = Rc::new(Answers::render());
        move |connection| {
            let answers = Rc::clone(&answers);
            async move {
                // A caller who leaves is part of the measures, not an error.
                let _ = converse(connection, &answers).await;
            }
        }
    })
}

impl Answers {
    fn render() -> Self {
        let (event, stamp) = workload::event();
        let mut framed = CHUNK_HEAD.to_vec();
        framed.extend_from_slice(&event);
        framed.extend_from_slice(b"\r\n");
        debug_assert_eq!(event.len(), EVENT_BYTES);
        Self {
            chat: json("200 OK", workload::chat_answer()),
            embeddings: json("200 OK", &workload::embeddings_answer()),
            embedding: json("200 OK", &workload::embedding_answer()),
            empty: json("404 Not Found", r#"{"error":{"message":"not scripted","type":"invalid_request_error"}}"#),
            event: framed,
            stamp: stamp + CHUNK_HEAD.len(),
        }
    }
}

fn json(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

async fn converse(mut connection: TcpStream, answers: &Answers) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match hear(&mut connection, &mut buffer).await? {
            None => return Ok(()),
            Some(Wanted::Chat) => connection.write_all(&answers.chat).await?,
            Some(Wanted::Embeddings) => connection.write_all(&answers.embeddings).await?,
            Some(Wanted::Embedding) => connection.write_all(&answers.embedding).await?,
            Some(Wanted::Stream(script)) => stream(&mut connection, answers, script).await?,
            Some(Wanted::Other) => connection.write_all(&answers.empty).await?,
        }
    }
}

/// Reads one request whole; `None` where the peer closed between two.
async fn hear(connection: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<Wanted>> {
    let mut filled = 0;
    let head = loop {
        let read = connection.read(buffer.get_mut(filled..).unwrap_or_default()).await?;
        if read == 0 {
            return Ok(None);
        }
        filled += read;
        if let Some(head) = Head::parse(buffer.get(..filled).unwrap_or_default())? {
            break head;
        }
    };
    // The script stands in the first bytes: enough of the body is kept for it, the rest is only counted.
    let kept = head.length.min(SCRIPT_WITHIN);
    while !head.chunked && filled < head.bytes + kept {
        let read = connection.read(buffer.get_mut(filled..).unwrap_or_default()).await?;
        if read == 0 {
            return Ok(None);
        }
        filled += read;
    }
    let seen = buffer.get(head.bytes..filled).unwrap_or_default();
    let wanted = wanted(buffer.get(..head.bytes).unwrap_or_default(), seen);
    let mut chunked = Chunked::default();
    let mut done = if head.chunked { chunked.feed(seen, |_| ())? } else { seen.len() >= head.length };
    let mut left = head.length.saturating_sub(seen.len());
    while !done {
        let read = connection.read(buffer).await?;
        if read == 0 {
            return Ok(None);
        }
        left = left.saturating_sub(read);
        done = if head.chunked { chunked.feed(buffer.get(..read).unwrap_or_default(), |_| ())? } else { left == 0 };
    }
    Ok(Some(wanted))
}

fn wanted(head: &[u8], body: &[u8]) -> Wanted {
    let start = body.get(..body.len().min(SCRIPT_WITHIN)).unwrap_or_default();
    if head.starts_with(b"POST /v1/embeddings") {
        if memmem::find(start, br#""input":["#).is_some() { Wanted::Embeddings } else { Wanted::Embedding }
    } else if !head.starts_with(b"POST /v1/chat/completions") {
        Wanted::Other
    } else {
        script(start).map_or(Wanted::Chat, Wanted::Stream)
    }
}

/// `CHUNKS every MICROSECONDS` after the mark.
fn script(body: &[u8]) -> Option<Script> {
    let at = memmem::find(body, SCRIPT_MARK)? + SCRIPT_MARK.len();
    let end = at + memchr::memchr(b'"', body.get(at..)?)?;
    let (chunks, every) = std::str::from_utf8(body.get(at..end)?).ok()?.split_once(" every ")?;
    let with_usage = memmem::find(body, b"include_usage").is_some();
    Some(Script { chunks: chunks.parse().ok()?, every_us: every.parse().ok()?, with_usage })
}

/// One write per event, as model servers do it.
async fn stream(connection: &mut TcpStream, answers: &Answers, script: Script) -> io::Result<()> {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.write_all(head).await?;
    let mut event = answers.event.clone();
    let mut beat = (script.every_us > 0).then(|| {
        let mut beat = tokio::time::interval(Duration::from_micros(script.every_us));
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        beat
    });
    for _ in 0..script.chunks.min(MOST_CHUNKS) {
        match &mut beat {
            Some(beat) => {
                beat.tick().await;
            }
            None => tokio::task::yield_now().await,
        }
        if let Some(digits) = event.get_mut(answers.stamp..answers.stamp + STAMP_DIGITS) {
            write_digits(digits, clock::now_ns());
        }
        connection.write_all(&event).await?;
    }
    let end = workload::stream_end(script.with_usage);
    connection.write_all(format!("{:x}\r\n{end}\r\n0\r\n\r\n", end.len()).as_bytes()).await
}

fn write_digits(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_from_the_user_field() {
        let call = workload::stream(150, 10_000);
        let found = script(&call.bytes).unwrap();
        assert_eq!((found.chunks, found.every_us, found.with_usage), (150, 10_000, false));
        assert!(script(&workload::short_chat().bytes).is_none());
    }

    #[test]
    fn the_length_line_of_an_event_is_its_length() {
        assert_eq!(CHUNK_HEAD, format!("{EVENT_BYTES:x}\r\n").as_bytes());
    }
}
