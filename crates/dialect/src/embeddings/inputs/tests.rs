//! Which inputs share a vector, and which never do.

use base::Endpoint;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn ask(body: &str) -> Ask {
    Ask::read(Endpoint::Embeddings, None, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn with(input: &str, more: &str) -> Ask {
    ask(&format!(r#"{{"model":"bge-m3","input":{input}{more}}}"#))
}

fn gathered(feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), NotKeyed>) -> Result<Vec<u8>, NotKeyed> {
    let mut out = Vec::new();
    feed(&mut |piece| out.extend_from_slice(piece)).map(|()| out)
}

/// What decides each vector of a call.
fn keys(input: &str, spelling: Spelling) -> Vec<Result<Vec<u8>, NotKeyed>> {
    inputs(&with(input, "")).iter().map(|input| gathered(|sink| input.deciding(spelling, sink))).collect()
}

fn call(more: &str) -> Result<Vec<u8>, NotKeyed> {
    gathered(|sink| deciding(&with(r#"["a","b"]"#, more), sink))
}

#[test]
fn a_text_is_the_same_in_any_batch() {
    let alone = keys(r#""a""#, Spelling::Exact);
    assert_eq!(keys(r#"["a"]"#, Spelling::Exact), alone);
    let three = keys(r#"["b","a","\u0061"]"#, Spelling::Exact);
    assert_eq!((&three[1], &three[2]), (&alone[0], &alone[0]));
    assert_ne!(three[0], alone[0]);
}

#[test]
fn token_ids_are_the_same_in_any_batch_and_never_a_text() {
    let alone = keys("[101, 202]", Spelling::Normalized);
    assert_eq!(keys("[[7],[101,202]]", Spelling::Normalized)[1], alone[0]);
    for other in ["[101]", "[202,101]", "[101,202,0]", r#""101, 202""#, r#""[101,202]""#, "[[101202]]"] {
        assert_ne!(keys(other, Spelling::Normalized)[0], alone[0], "{other}");
    }
}

#[test]
fn texts_that_look_the_same_share_a_vector_unless_told_otherwise() {
    for (one, other) in [
        ("café", "cafe\u{301}"),
        ("知识库", " 知识库\n"),
        ("知识库", "\u{3000}知识\u{200b}库\u{feff}"),
        ("word", "wo\u{ad}rd"),
        ("word", "\u{2060}word\u{2060} "),
        ("한", "\u{1112}\u{1161}\u{11ab}"),
    ] {
        let pair = format!("[{},{}]", json::quoted(one), json::quoted(other));
        let normalized = keys(&pair, Spelling::Normalized);
        assert_eq!(normalized[0], normalized[1], "{one}");
        let exact = keys(&pair, Spelling::Exact);
        assert_ne!(exact[0], exact[1], "{one}");
    }
}

#[test]
fn what_means_something_keeps_texts_apart() {
    for (one, other) in [
        // A joiner makes another word (Persian), or another emoji.
        ("می\u{200c}خواهم", "میخواهم"),
        ("👩\u{200d}🚀", "👩🚀"),
        ("US", "us"),
        ("a b", "ab"),
        ("a  b", "a b"),
        // Compatibility forms are other characters: 10² is not 102.
        ("10²", "102"),
        ("ﬁ", "fi"),
        ("Ａ", "A"),
    ] {
        let pair = keys(&format!("[{},{}]", json::quoted(one), json::quoted(other)), Spelling::Normalized);
        assert_ne!(pair[0], pair[1], "{one}");
    }
}

#[test]
fn a_text_of_which_nothing_is_left_has_no_key() {
    for text in ["", " \n\u{3000}", "\u{200b}\u{feff}", " \u{ad} \u{2060} "] {
        let key = keys(&json::quoted(text), Spelling::Normalized);
        assert_eq!(key, [Err(NotKeyed::Empty)], "{text:?}");
    }
    assert_eq!(keys(r#"["",""]"#, Spelling::Exact), [Err(NotKeyed::Empty), Err(NotKeyed::Empty)]);
    assert!(keys(r#"[" "]"#, Spelling::Exact)[0].is_ok());
    assert_eq!(keys(r#"["a","\ud800"]"#, Spelling::Exact)[1], Err(NotKeyed::Body(Unfit::NotText)));
}

#[test]
fn every_field_that_decides_is_in_the_calls_part() {
    let calls = [
        "",
        r#","dimensions":256"#,
        r#","dimensions":512"#,
        r#","input_type":"query""#,
        r#","input_type":"document""#,
        r#","task":"retrieval.query""#,
        r#","truncate":"END""#,
        r#","never_heard_of":null"#,
    ];
    for (at, one) in calls.iter().enumerate() {
        calls[at + 1..].iter().for_each(|other| assert_ne!(call(one), call(other), "{one} and {other}"));
    }
    for same in
        [r#","encoding_format":"base64""#, r#","encoding_format":"float""#, r#","user":"u""#, r#","metadata":{}"#]
    {
        assert_eq!(call(same), call(""), "{same}");
    }
    let of_model =
        |model: &str| gathered(|sink| deciding(&ask(&format!(r#"{{"model":"{model}","input":"a"}}"#)), sink));
    assert_ne!(of_model("bge-m3"), of_model("bge-m3:latest"));
    assert_eq!(gathered(|sink| deciding(&with("[[1],[2]]", ""), sink)), call(""));
}

#[test]
fn vectors_that_are_not_one_texts_own_are_not_keyed() {
    assert_eq!(call(r#","encoding_format":"int8""#), Err(NotKeyed::Encoding));
    assert_eq!(call(r#","late_chunking":true"#), Err(NotKeyed::Together));
    assert_eq!(call(r#","late_chunking":"yes""#), Err(NotKeyed::Together));
    assert!(call(r#","late_chunking":false"#).is_ok());
    assert_eq!(call(r#","x":1,"x":2"#), Err(NotKeyed::Body(Unfit::Doubled)));
}

#[test]
fn calls_in_company_agree_in_everything_but_their_inputs() {
    let joint_call = |input: &str, more: &str| gathered(|sink| joint_call(&with(input, more), sink)).unwrap();
    assert_eq!(joint_call(r#""a""#, ""), joint_call(r#"["b","c"]"#, r#","encoding_format":"base64""#));
    assert_ne!(joint_call(r#""a""#, ""), joint_call("[1,2]", ""));
    // An upstream is told one caller's name only.
    assert_ne!(joint_call(r#""a""#, r#","user":"x""#), joint_call(r#""a""#, r#","user":"y""#));
}

proptest! {
    #[test]
    fn to_normalize_twice_is_to_normalize_once(text in "[a-zé知\u{301}\u{ad}\u{200b}\u{200d}\u{feff}\u{3000} \n가ᄀ\u{1161}]{0,12}") {
        let once = normalized(&text).into_owned();
        let twice = normalized(&once).into_owned();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn exact_keys_are_equal_for_equal_texts_alone(one in ".{0,4}", other in ".{0,4}") {
        let pair = keys(&format!("[{},{}]", json::quoted(&one), json::quoted(&other)), Spelling::Exact);
        prop_assert_eq!(one == other, pair[0] == pair[1]);
    }
}
