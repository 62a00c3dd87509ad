//! What leaves for the upstream.

use super::*;

fn encoded(ask: &Ask, asked: bool) -> (String, bool) {
    let encoded = dialect(Protocol::OpenAi).encode(ask, &target(asked)).unwrap();
    (String::from_utf8(encoded.body.to_vec()).unwrap(), encoded.added.stream_options)
}

#[test]
fn only_the_model_changes_and_everything_else_stays_to_the_byte() {
    let body = r#"{ "model" : "m", "messages":[{"role":"user","content":"\u4f60","vendor":{"x":[]}}],
        "temperature":0.20, "seed":12345678901234567890, "extra_body":{}, "tools":[], "stop":null }"#;
    let ask = ask(Endpoint::Chat, body);
    assert_eq!(encoded(&ask, true), (body.replace("\"m\"", "\"up\""), false));
}

#[test]
fn a_body_that_needs_no_change_is_not_copied() {
    let ask = ask(Endpoint::Chat, r#"{"model":"up","messages":[1]}"#);
    let encoded = dialect(Protocol::OpenAi).encode(&ask, &target(true)).unwrap();
    assert_eq!(encoded.body.as_ptr(), ask.body.as_ptr());
}

#[test]
fn usage_of_streams_is_asked_for_where_the_caller_did_not() {
    for (fields, sent) in [
        ("", Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":null"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{}"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (
            r#","stream_options":{"include_obfuscation": false}"#,
            Some(r#","stream_options":{"include_obfuscation": false,"include_usage":true}"#),
        ),
        (r#","stream_options":{"include_usage":false}"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{"include_usage":null}"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{"include_usage":true}"#, None),
        (r#","stream_options":"odd""#, None),
    ] {
        let ask = streaming(fields);
        let expected = format!(r#"{{"model":"up","messages":[{{}}],"stream":true{}}}"#, sent.unwrap_or(fields));
        assert_eq!(encoded(&ask, true), (expected, sent.is_some()), "{fields}");
        assert!(!encoded(&ask, false).1);
    }
    assert!(!encoded(&ask(Endpoint::Chat, r#"{"model":"m","messages":[1],"stream":null}"#), true).1);
    assert!(encoded(&ask(Endpoint::Completions, r#"{"model":"m","prompt":"x","stream":true}"#), true).1);
    assert!(!encoded(&ask(Endpoint::Responses, r#"{"model":"m","input":"x","stream":true}"#), true).1);
}

#[test]
fn a_stream_is_the_same_with_both_edits_at_once() {
    let ask =
        ask(Endpoint::Chat, r#"{"stream":true,"stream_options":{"include_usage":false},"model":"m","messages":[1]}"#);
    let expected = r#"{"stream":true,"stream_options":{"include_usage":true},"model":"up","messages":[1]}"#;
    assert_eq!(encoded(&ask, true).0, expected);
}
