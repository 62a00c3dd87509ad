//! Streams put together, and whole answers taken apart again: of each stream in `golden/whole` the
//! answer that it is of (`*.json`), to the byte.

use std::path::PathBuf;

use base::{Endpoint, Usage};
use bytes::Bytes;
use dialect::chat::{self, Assembly, Broken};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::tree;

const MOST: usize = 1 << 20;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn file(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/golden/whole", name].iter().collect();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.trim_end().to_owned()
}

/// What a stream comes to, fed in chunks of that size.
fn assembled(endpoint: Endpoint, stream: &[u8], size: usize) -> Result<Bytes, Broken> {
    let mut assembly = Assembly::new(endpoint, MOST);
    stream.chunks(size.max(1)).for_each(|chunk| assembly.feed(Bytes::copy_from_slice(chunk)));
    assembly.finish(None)
}

fn check(endpoint: Endpoint, case: &str) {
    let stream = format!("{}\n\n", file(&format!("{case}.sse")));
    let whole = assembled(endpoint, stream.as_bytes(), stream.len()).unwrap();
    assert_eq!(text(&whole), file(&format!("{case}.json")), "{case}");
    assert_eq!(assembled(endpoint, stream.as_bytes(), 1).unwrap(), whole, "{case}, byte by byte");
    let again = chat::events(endpoint, &whole, true).unwrap();
    assert_eq!(text(&assembled(endpoint, &again, 7).unwrap()), text(&whole), "{case}, taken apart and put together");
    chat::is_storable(&whole).unwrap_or_else(|why| panic!("{case}: {why}"));
}

#[test]
fn a_text_is_joined_and_padding_is_dropped() {
    check(Endpoint::Chat, "text");
}

#[test]
fn tool_calls_of_several_choices_come_back_in_order() {
    check(Endpoint::Chat, "tools");
}

#[test]
fn tool_calls_without_numbers_of_their_own_are_told_apart_by_their_ids() {
    check(Endpoint::Chat, "calls-numbered-alike");
}

#[test]
fn a_deprecated_function_call_is_joined() {
    check(Endpoint::Chat, "function-call");
}

#[test]
fn reasoning_comes_back_under_its_own_name() {
    check(Endpoint::Chat, "reasoning");
}

#[test]
fn log_probabilities_are_strung_together_to_the_digit() {
    check(Endpoint::Chat, "logprobs");
}

#[test]
fn of_several_usages_the_last_one_counts() {
    check(Endpoint::Chat, "usage-twice");
}

#[test]
fn what_every_chunk_says_anew_is_not_strung_together() {
    check(Endpoint::Chat, "azure");
}

#[test]
fn fields_that_nobody_knows_are_joined_by_their_kind() {
    check(Endpoint::Chat, "unknown");
}

#[test]
fn a_character_that_was_cut_in_two_is_one_again() {
    check(Endpoint::Chat, "emoji");
    let whole = tree(file("emoji.json").as_bytes());
    assert_eq!(whole["choices"][0]["message"]["content"], "你 🙂 🙂👩\u{200d}🚀");
}

#[test]
fn parts_of_a_content_go_on_where_the_last_one_ended() {
    check(Endpoint::Chat, "parts");
}

#[test]
fn legacy_completions_are_joined_choice_by_choice() {
    check(Endpoint::Completions, "completions");
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// A chunk with this delta.
fn delta(delta: &str) -> String {
    event(&format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#))
}

#[test]
fn usage_that_the_stream_did_not_show_is_put_in() {
    let with = |more: &str, usage| {
        let mut assembly = Assembly::new(Endpoint::Chat, MOST);
        assembly.feed(Bytes::from(delta(r#"{"content":"a"}"#) + more));
        tree(&assembly.finish(usage).unwrap())["usage"].clone()
    };
    let known = Usage { prompt: 9, completion: 2, cached: 4, ..Usage::default() };
    let written = json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 4}});
    assert_eq!(with("", Some(known)), written);
    assert_eq!(with("", None), Value::Null);
    let shown = event(r#"{"choices":[],"usage":{"total_tokens":5}}"#);
    assert_eq!(with(&shown, Some(known)), json!({"total_tokens": 5}));
    // Moonshot's place for it.
    let in_choice = event(r#"{"choices":[{"index":0,"delta":{},"usage":{"total_tokens":6}}]}"#);
    assert_eq!(with(&in_choice, Some(known)), json!({"total_tokens": 6}));
}

#[test]
fn usage_is_shown_to_whom_it_was_asked_for() {
    let whole = file("usage-twice.json");
    let shown = chat::events(Endpoint::Chat, whole.as_bytes(), true).unwrap();
    let hidden = chat::events(Endpoint::Chat, whole.as_bytes(), false).unwrap();
    assert!(text(&shown).contains(r#""choices":[],"usage":{"#));
    assert!(!text(&hidden).contains("usage"));
    assert!(text(&hidden).ends_with("data: [DONE]\n\n"));
    assert!(chat::events(Endpoint::Chat, b"{}", true).is_none());
    assert!(chat::events(Endpoint::Chat, b"[", true).is_none());
}

#[test]
fn a_stream_with_an_error_comes_to_nothing() {
    let begin = delta(r#"{"content":"a"}"#);
    for end in [
        event(r#"{"error":{"message":"gone"}}"#),
        event(r#"{"choices":[{"index":0,"error":"gone","delta":{}}]}"#),
        "event: error\ndata: {\"a\":1}\n\n".to_owned(),
        event("not JSON"),
        event("[1]"),
    ] {
        let stream = format!("{begin}{end}{begin}");
        assert_eq!(assembled(Endpoint::Chat, stream.as_bytes(), 5), Err(Broken::Failed), "{end}");
    }
    assert_eq!(assembled(Endpoint::Chat, b"", 1), Err(Broken::Empty));
    assert_eq!(assembled(Endpoint::Chat, b"data: [DONE]\n\n", 1), Err(Broken::Empty));
}

#[test]
fn memory_has_a_bound() {
    let grows = |piece: &dyn Fn(usize) -> String| {
        let mut assembly = Assembly::new(Endpoint::Chat, 16 << 10);
        let fed = (0..4_000).take_while(|at| {
            assembly.feed(Bytes::from(piece(*at)));
            assembly.broken().is_none()
        });
        (fed.count(), assembly.finish(None))
    };
    let (fed, broken) = grows(&|_| delta(r#"{"content":"0123456789"}"#));
    assert!((1_500..1_640).contains(&fed) && broken == Err(Broken::TooLarge), "{fed}");
    for piece in [
        &(|at| delta(&format!(r#"{{"x{at}":1}}"#))) as &dyn Fn(usize) -> String,
        &|at| event(&format!(r#"{{"x{at}":1}}"#)),
        &|at| event(&format!(r#"{{"choices":[{{"index":{at}}}]}}"#)),
        &|_| delta(r#"{"x":[1]}"#),
        &|at| delta(&format!(r#"{{"x":[{{"index":{at}}}]}}"#)),
        &|at| delta(&format!(r#"{{"tool_calls":[{{"index":{at}}}]}}"#)),
        &|_| event(r#"{"choices":[{"index":0,"logprobs":{"content":[1]}}]}"#),
    ] {
        assert_eq!(grows(piece).1, Err(Broken::TooLarge), "{}", piece(7));
    }
    // What only replaces what was there costs nothing more.
    for piece in [
        &(|at| {
            event(&format!(
                r#"{{"id":"{at}","choices":[{{"index":0,"x":{{"y":"{at}","z":[]}}}}],"usage":{{"a":{at}}}}}"#
            ))
        }) as &dyn Fn(usize) -> String,
        &|at| delta(&format!(r#"{{"role":"role-{at}","content":null,"x":{at}}}"#)),
    ] {
        assert_eq!(grows(piece).0, 4_000, "{}", piece(7));
    }
}

#[test]
fn long_texts_are_cut_for_clients_that_read_by_lines() {
    for content in ["知识🙂".repeat(9_000), "\u{1}\"".repeat(20_000), "a".repeat(50_000)] {
        let whole = json!({"id": "a", "created": 1, "model": "m", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]});
        let escaped = ascii(&whole.to_string());
        for whole in [whole.to_string(), escaped] {
            let stream = chat::events(Endpoint::Chat, whole.as_bytes(), false).unwrap();
            assert!(text(&stream).lines().all(|line| line.len() < 17_000));
            let again = tree(&assembled(Endpoint::Chat, &stream, 1000).unwrap());
            assert_eq!(again["choices"][0]["message"]["content"], content.as_str());
        }
    }
}

#[test]
fn long_arguments_lists_and_log_probabilities_are_cut_too() {
    let long = json!({"text": "知识\"🙂".repeat(2_500)}).to_string();
    let call = |name: &str, arguments: &str| json!({"id": name, "type": "function", "function": {"name": name, "arguments": arguments}});
    let entry = |at: u32| json!({"token": format!("t{at}"), "logprob": -0.5, "bytes": null, "top_logprobs": [{"token": "x", "logprob": -1.5}]});
    let short: Vec<Value> = (0..100).map(|at| call(&format!("f{at}"), &"{\"a\":1}".repeat(40))).collect();
    let part = json!([{"type": "text", "text": "a".repeat(40_000)}]);
    let annotations: Vec<Value> =
        (0..1_000).map(|at| json!({"type": "url", "url": format!("https://a/{at}")})).collect();
    let entries: Vec<Value> = (0..400).map(entry).collect();
    for message in [
        json!({"tool_calls": [call("f", "{}"), call("g", &long), call("h", &long), call("i", "{}")]}),
        json!({"content": "b".repeat(50_000), "reasoning_content": "c".repeat(50_000), "tool_calls": [call("g", &long)]}),
        json!({"tool_calls": short}),
        json!({"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "d".repeat(50_000)}}]}),
        json!({"function_call": {"name": "f", "arguments": long}}),
        json!({"content": part}),
        json!({"content": "a", "annotations": annotations}),
        json!({"content": "a".repeat(15_000), "reasoning_content": "b".repeat(15_000), "refusal": "c".repeat(15_000)}),
    ] {
        let whole = json!({"id": "a", "choices": [{"index": 0, "message": message,
            "logprobs": {"content": entries, "refusal": null}, "finish_reason": "stop"}]});
        comes_again_in_short_lines(Endpoint::Chat, &whole);
    }
    let numbers: Vec<u32> = (0..5_000).collect();
    let whole = json!({"id": "a", "choices": [{"index": 0, "text": "a".repeat(40_000), "logprobs": {"tokens": numbers, "x": 1,
        "token_logprobs": numbers, "top_logprobs": entries}, "finish_reason": "stop"}]});
    comes_again_in_short_lines(Endpoint::Completions, &whole);
}

/// As a stream it has no line that is long, and put together again it says the same.
fn comes_again_in_short_lines(endpoint: Endpoint, whole: &Value) {
    let stream = chat::events(endpoint, whole.to_string().as_bytes(), false).unwrap();
    let longest = text(&stream).lines().map(str::len).max().unwrap();
    assert!(longest < 40_000, "{longest}");
    let again = tree(&assembled(endpoint, &stream, 1000).unwrap());
    let (again, whole) = (&again["choices"][0], &whole["choices"][0]);
    for (name, value) in whole.as_object().unwrap() {
        if name != "message" {
            assert_eq!(&again[name], value, "{name}");
        }
    }
    for (name, value) in whole["message"].as_object().into_iter().flatten() {
        assert_eq!(&again["message"][name], value, "{name}");
    }
}

/// The tool calls that these deltas come to, by name and arguments.
fn calls(deltas: &[Value]) -> Result<Vec<(String, String)>, Broken> {
    let stream: String = deltas.iter().map(|calls| delta(&json!({ "tool_calls": calls }).to_string())).collect();
    let whole = tree(&assembled(Endpoint::Chat, stream.as_bytes(), 100)?);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = |call: &Value| (word(&call["function"]["name"]), word(&call["function"]["arguments"]));
    Ok(whole["choices"][0]["message"]["tool_calls"].as_array().unwrap().iter().map(said).collect())
}

#[test]
fn tool_calls_without_numbers_and_ids_begin_with_their_names() {
    let say =
        |name: &str, arguments: &str| json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    let more = |arguments: &str| json!({"function": {"arguments": arguments}});
    let pair = |one: (&str, &str), other: (&str, &str)| {
        Ok(vec![(one.0.to_owned(), one.1.to_owned()), (other.0.to_owned(), other.1.to_owned())])
    };
    let both = pair(("f", "{\"a\":1}"), ("f", "{\"b\":1}"));
    assert_eq!(calls(&[json!([say("f", "{\"a\":1}"), say("f", "{\"b\":1}")])]), both, "two elements of one list");
    assert_eq!(calls(&[json!([say("f", "{\"a\":1}")]), json!([say("f", "{\"b\":1}")])]), both);
    assert_eq!(
        calls(&[json!([say("f", "{\"a\"")]), json!([more(":1}")]), json!([say("f", "")]), json!([more("{\"b\":1}")])]),
        Err(Broken::Unclear),
        "the name was said anew, or another call of it began"
    );
    assert_eq!(
        calls(&[json!([say("f", "{}")]), json!([say("g", "")]), json!([more("{\"b\"")]), json!([more(":1}")])]),
        pair(("f", "{}"), ("g", "{\"b\":1}"))
    );
    let empty = |name: &str| json!([{"id": "", "type": "function", "function": {"name": name, "arguments": "{}"}}]);
    assert_eq!(calls(&[empty("f"), empty("g")]), pair(("f", "{}"), ("g", "{}")));
    let numbered = |name: &str| json!([{"index": 0, "function": {"name": name, "arguments": "{}"}}]);
    assert_eq!(calls(&[numbered("f"), numbered("g")]), pair(("f", "{}"), ("g", "{}")), "all numbered alike");
    // One call or two?
    assert_eq!(calls(&[json!([say("f", "{\"a\"")]), json!([say("g", ":1}")])]), Err(Broken::Unclear));
    assert_eq!(calls(&[json!([say("f", "")]), json!([say("g", "{}")])]), Err(Broken::Unclear));
}

#[test]
fn a_call_whose_pieces_have_an_id_each_is_one_call() {
    let piece = |id: &str, function: Value| json!([{"index": 0, "id": id, "type": "function", "function": function}]);
    let begin = piece("a1", json!({"name": "f", "arguments": "{\"x\""}));
    let end = piece("a2", json!({"arguments": ":1}"}));
    assert_eq!(calls(&[begin.clone(), end.clone()]), Ok(vec![("f".to_owned(), "{\"x\":1}".to_owned())]));
    let stream = [&begin, &end].map(|calls| delta(&json!({ "tool_calls": calls }).to_string())).concat();
    let whole = tree(&assembled(Endpoint::Chat, stream.as_bytes(), 100).unwrap());
    assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["id"], "a1");
    assert_eq!(calls(&[begin, end.clone(), end]), Err(Broken::Unclear));
}

/// The same document with everything beyond ASCII as escapes.
fn ascii(json: &str) -> String {
    let escape = |letter: char| match letter.is_ascii() {
        true => letter.to_string(),
        false => letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    json.chars().map(escape).collect()
}

/// What a delta may hold.
fn any_delta() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u8>().prop_map(Value::from),
        "[a-z\"\\\\知🙂]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(
                prop_oneof![
                    Just("index"),
                    Just("type"),
                    Just("id"),
                    Just("content"),
                    Just("text"),
                    Just("tool_calls"),
                    Just("function"),
                    Just("name"),
                    Just("x")
                ],
                inner,
                0..5
            )
            .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_text_cut_anywhere_is_the_text(content in "[a-z\"\\\\\n知🙂\u{200d}]{0,40}", cuts in proptest::collection::vec(0..40_usize, 0..5),
        size in 1..50_usize, escaped in any::<bool>()) {
        let quoted = Value::from(content.clone()).to_string();
        // Between the UTF-16 units of the escaped form, as servers that count in those cut.
        let units: Vec<String> = if escaped {
            content.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
        } else {
            content.chars().map(|letter| Value::from(letter.to_string()).to_string().trim_matches('"').to_owned()).collect()
        };
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(units.len())).collect();
        cuts.extend([0, units.len()]);
        cuts.sort_unstable();
        let is_quote = quoted.contains("\\\"");
        prop_assume!(escaped || !is_quote);
        let stream: String =
            cuts.windows(2).map(|pair| delta(&format!(r#"{{"content":"{}"}}"#, units[pair[0]..pair[1]].concat()))).collect();
        let whole = tree(&assembled(Endpoint::Chat, stream.as_bytes(), size).unwrap());
        prop_assert_eq!(&whole["choices"][0]["message"]["content"], content.as_str());
    }

    #[test]
    fn whatever_comes_is_put_together_to_json_that_stays_itself(
        deltas in proptest::collection::vec((any_delta(), 0..3_u8, any_delta()), 1..8),
    ) {
        let stream: String = deltas.iter().map(|(delta, index, beside)| {
            let delta = if delta.is_object() { delta.clone() } else { json!({"content": delta}) };
            event(&json!({"id": "a", "choices": [{"index": index, "delta": delta, "y": beside}], "z": beside}).to_string())
        }).collect();
        let Ok(whole) = assembled(Endpoint::Chat, stream.as_bytes(), 11) else { return Ok(()) };
        prop_assert!(serde_json::from_slice::<Value>(&whole).is_ok(), "{}", text(&whole));
        let again = chat::events(Endpoint::Chat, &whole, true).unwrap();
        prop_assert!(assembled(Endpoint::Chat, &again, 5).is_ok());
    }

    #[test]
    fn nothing_that_arrives_makes_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = assembled(Endpoint::Chat, &bytes, 3);
        let _ = chat::events(Endpoint::Chat, &bytes, true);
        let _ = chat::is_storable(&bytes);
    }
}
