//! Streams of typed events.

use base::Class;

use super::*;

fn responses() -> Ask {
    ask(Endpoint::Responses, r#"{"model":"m","input":"x","stream":true}"#)
}

fn typed(kind: &str, rest: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n")
}

fn begun() -> String {
    typed("response.created", r#","response":{"error":null,"usage":null}"#) + &typed("response.in_progress", "")
}

#[test]
fn a_response_passes_untouched_and_is_known() {
    let usage = r#""usage":{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}"#;
    let stream = begun()
        + &typed("response.output_text.delta", r#","delta":"好的""#)
        + &typed("response.completed", &format!(r#","response":{{"status":"completed",{usage}}}"#));
    let read = read(&responses(), true, stream.as_bytes());
    assert_eq!((read.end(), &read.out), ("complete", &stream));
    assert_eq!((read.progress.text_chars, read.progress.usage.unwrap().cached), (2, 1));
}

#[test]
fn a_response_ends_in_exactly_one_way() {
    let text = typed("response.output_text.delta", r#","delta":"x""#);
    for (stream, end) in [
        (begun() + &text + &typed("response.incomplete", r#","response":{}"#), "complete"),
        (begun() + &text + typed("response.completed", "").trim_end(), "complete"),
        (begun() + &text, "cut"),
        (
            begun()
                + &text
                + &typed("response.failed", r#","response":{"error":{"code":"server_error","message":"x"}}"#),
            "failed",
        ),
        (begun() + &typed("error", r#","code":"x","message":"y""#), "failed"),
        (begun() + &event(r#"{"error":{"message":"y"}}"#), "failed"),
        (begun() + &event("<html>"), "failed"),
    ] {
        assert_eq!(read(&responses(), true, stream.as_bytes()).end(), end, "{stream}");
    }
    let overflow =
        typed("response.failed", r#","response":{"error":{"code":"context_length_exceeded","message":"x"}}"#);
    assert_eq!(read(&responses(), true, overflow.as_bytes()).progress.fault.unwrap().class, Class::Caller);
}

#[test]
fn the_frame_of_a_response_is_no_content() {
    for (stream, is_content) in [
        (begun(), false),
        (typed("response.output_item.added", r#","item":{"type":"message"}"#), false),
        (typed("response.content_part.added", r#","part":{}"#), false),
        (typed("response.output_text.delta", r#","delta":"""#), false),
        (typed("response.output_item.added", r#","item":{"type":"function_call"}"#), true),
        (typed("response.reasoning_summary_text.delta", r#","delta":"x""#), true),
    ] {
        assert_eq!(read(&responses(), true, stream.as_bytes()).progress.content, is_content, "{stream}");
    }
}

#[test]
fn a_streamed_transcript_ends_with_its_last_event() {
    let asked = ask(Endpoint::AudioTranscriptions, r#"{"model":"m","stream":true}"#);
    let stream = event(r#"{"type":"transcript.text.delta","delta":"hi"}"#)
        + &event(r#"{"type":"transcript.text.done","text":"hi","usage":{"input_tokens":9,"output_tokens":1}}"#)
        + &done();
    let read = read(&asked, true, stream.as_bytes());
    assert_eq!((read.end(), read.progress.usage.unwrap().prompt, read.out), ("complete", 9, stream));
}
