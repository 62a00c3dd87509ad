//! The grammar, however the stream is cut.

use base::{Code, Refusal};
use proptest::prelude::*;

use super::*;

type Seen = Vec<(Option<String>, String)>;

/// Events, and what passing all of them on gives.
fn read(chunks: &[&[u8]]) -> (Seen, Vec<u8>) {
    let mut reader = Reader::new();
    let (mut seen, mut passed) = (Seen::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for chunk in chunks {
        let chunk = Bytes::copy_from_slice(chunk);
        reader.push(chunk.clone());
        let mut output = Output::new(chunk);
        while let Some(event) = reader.next().unwrap() {
            seen.push((event.name.map(text), text(event.data)));
            output.pass(&event);
        }
        passed.extend_from_slice(&output.into_bytes());
    }
    if let Some(event) = reader.finish() {
        seen.push((event.name.map(text), text(event.data)));
        let mut output = Output::new(Bytes::new());
        output.pass(&event);
        passed.extend_from_slice(&output.into_bytes());
    }
    (seen, passed)
}

fn data(stream: &str) -> Vec<String> {
    read(&[stream.as_bytes()]).0.into_iter().map(|(_, data)| data).collect()
}

#[test]
fn every_form_of_line_and_field_is_read() {
    for (stream, expected) in [
        ("data: a\n\ndata:b\n\n", ["a", "b"].as_slice()),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("data: a\r\rdata: b\r\r", &["a", "b"]),
        ("data: a\n\r\ndata: b\r\n\n", &["a", "b"]),
        ("\u{feff}data: a\n\n", &["a"]),
        ("data: \u{feff}a\n\n", &["\u{feff}a"]),
        (":\n\n: PROCESSING\n\n:x\ndata: a\n:y\n\n:\n", &["a"]),
        ("data: a\ndata:\ndata:  b\n\n", &["a\n\n b"]),
        ("data\n\ndata:\n\ndata: \n\nevent: ping\n\nid: 1\n\n\n\n\n", &[]),
        ("id: 7\nretry: 5\nfoo: bar\nfoo\ndata: a\n\n", &["a"]),
        ("data: a: b\n\n", &["a: b"]),
        ("\n\u{feff}data: x\ndata: a\n\n", &["a"]),
        ("datum: x\nDATA: y\n data: z\n\n", &[]),
        ("data: a\n\ndata: b", &["a", "b"]),
        ("data: a\n\ndata: b\n", &["a", "b"]),
        ("data: : keepalive\n\n", &[": keepalive"]),
    ] {
        assert_eq!(data(stream), expected, "{stream:?}");
    }
}

#[test]
fn the_last_event_field_names_the_event() {
    let (seen, _) = read(&[b"event: a\nevent:error\ndata: 1\n\ndata: 2\n\n"]);
    assert_eq!(seen, [(Some("error".into()), "1".into()), (None, "2".into())]);
}

#[test]
fn a_chunk_of_whole_plain_events_is_passed_on_as_it_is() {
    let chunk = Bytes::from_static(b"data: 1\n\nevent: x\nid: 3\ndata:2\n\n");
    let mut reader = Reader::new();
    reader.push(chunk.clone());
    let mut output = Output::new(chunk.clone());
    while let Some(event) = reader.next().unwrap() {
        output.pass(&event);
    }
    let passed = output.into_bytes();
    assert_eq!((passed.as_ptr(), passed.len()), (chunk.as_ptr(), chunk.len()));
}

#[test]
fn comments_marks_and_carriage_returns_do_not_pass() {
    let (_, passed) =
        read(&[b"\xef\xbb\xbfdata: 1\n\n: c\n\ndata: 2\r\n\r\n:c\nevent: e\ndata: 3\ndata: 4\n\ndata: 5\n\n"]);
    // In mid-stream a mark is part of an unknown field; it must not come to stand in front.
    assert_eq!(read(&["\n\u{feff}data: x\nid: 1\ndata: a\n\n".as_bytes()]).1, b"data: a\n\n");
    assert_eq!(passed, b"data: 1\n\ndata: 2\n\nevent: e\ndata: 3\ndata: 4\n\ndata: 5\n\n");
}

#[test]
fn every_cut_gives_the_same() {
    let stream = "\u{feff}data: {\"t\":\"你好，世界🙂👨‍👩‍👧𠮷\"}\r\n\r\nevent: e\r: c\ndata: 1\rdata: 2\r\r\n\ndata: [DONE]\n\ndata: x";
    let whole = read(&[stream.as_bytes()]);
    assert_eq!(whole.0.len(), 4);
    for cut in 0..stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(read(&[head, tail]), whole, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes), whole);
}

#[test]
fn an_event_without_end_is_bounded() {
    let mut reader = Reader::new();
    let mut pushed = 0;
    let refused = loop {
        reader.push(Bytes::from(vec![b'x'; 1 << 20]));
        pushed += 1;
        match reader.next() {
            Ok(event) => assert!(event.is_none()),
            Err(TooLong) => break pushed,
        }
    };
    assert_eq!(refused, 5);
    let mut reader = Reader::new();
    reader.push(Bytes::from([b"data: ".as_slice(), &vec![b'x'; EVENT_MAX], b"\n\n"].concat()));
    assert!(reader.next().is_err());
}

#[test]
fn an_error_event_is_one_line_of_json() {
    let event = error_event(&Refusal::new(Code::UpstreamError, "a\nb\r\rdata: [DONE]\n\n"));
    let (seen, _) = read(&[&event]);
    assert_eq!(seen.len(), 1);
    let tree: serde_json::Value = serde_json::from_str(&seen[0].1).unwrap();
    assert_eq!(tree["error"]["message"], "a\nb\r\rdata: [DONE]\n\n");
    assert_eq!(tree["error"]["code"], "upstream_error");
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("data: {\"a\":1}"),
        Just("data:"),
        Just("data"),
        Just("data: [DONE]"),
        Just(": c"),
        Just(":"),
        Just("event: e"),
        Just("id: 1"),
        Just("\n"),
        Just("\n\n"),
        Just("\r"),
        Just("\r\n"),
        Just("\r\n\r\n"),
        Just("é🙂"),
        Just("\u{feff}"),
        Just(" "),
        Just("\u{0}"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_do_not_matter(stream in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let whole = read(&[&stream]);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(&read(&bytes), &whole);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&read(&chunks), &whole);
        // What is passed on reads as what was read.
        prop_assert_eq!(&read(&[&whole.1]).0, &whole.0);
    }
}
