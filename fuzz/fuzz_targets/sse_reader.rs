//! Any bytes, cut anywhere, give the events that they give in one piece, and a decoder that reads
//! them says the same of them.
#![no_main]

use bytes::Bytes;
use dialect::sse::{Output, Reader};
use dialect::{Ask, Protocol, Score, Target, dialect};
use libfuzzer_sys::fuzz_target;

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut reader = Reader::new();
    let (mut seen, mut passed) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let chunk = Bytes::copy_from_slice(chunk);
        reader.push(chunk.clone());
        let mut output = Output::new(chunk);
        while let Some(event) = reader.next().expect("shorter than the bound") {
            seen.push(event.data.to_vec());
            output.pass(&event);
        }
        passed.extend_from_slice(&output.into_bytes());
    }
    if let Some(event) = reader.finish() {
        seen.push(event.data.to_vec());
    }
    (seen, passed)
}

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, String) {
    let body = Bytes::from_static(br#"{"model":"m","messages":[1],"stream":true}"#);
    let ask = Ask::read(base::Endpoint::Chat, None, body).expect("a sound request");
    let target = Target { model: "m", score: Score::Probability, ask_usage: true, decode_tokens: false, base_path: "" };
    let mut decoder = dialect(Protocol::OpenAi).decoder(&ask, &target);
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(&decoder.feed(Bytes::copy_from_slice(chunk)));
    }
    out.extend_from_slice(&decoder.finish());
    (out, format!("{:?}", decoder.progress()))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, stream) = input;
    let step = usize::from(step).max(1);
    let whole = read(std::iter::once(stream));
    assert_eq!(read(stream.chunks(step)), whole);
    assert_eq!(read(stream.chunks(1)), whole);
    let whole = decode(std::iter::once(stream));
    assert_eq!(decode(stream.chunks(step)), whole);
    assert_eq!(decode(stream.chunks(1)), whole);
    // What reaches the caller is text, whatever came.
    assert!(std::str::from_utf8(&whole.0).is_ok());
});
