//! Vectors: the encoding asked for, each text its own, nothing touched without need.

use base::{Class, Endpoint, Kind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dialect::embeddings::{self, Counted};
use dialect::{Answer, Ask, Protocol, Target, View, dialect};
use http::{HeaderMap, HeaderValue, Response};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{answer, ask, sent, target, text, tree};

const OTHERS: [Protocol; 5] = [Protocol::Cohere, Protocol::Jina, Protocol::Voyage, Protocol::Tei, Protocol::Ollama];
const BASE64: &str = "AAAAPwAAgL4AAEBA";

fn call(input: Value, more: Value) -> Ask {
    let mut body = json!({"model": "bge-m3", "input": input});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(Endpoint::Embeddings, &body.to_string())
}

fn view(ask: &Ask) -> &embeddings::View {
    match &ask.view {
        View::Embeddings(view) => view,
        other => panic!("{other:?}"),
    }
}

fn judged(ask: &Ask, body: &str) -> Result<Answer, base::Fault> {
    embeddings::like_openai(view(ask), Bytes::copy_from_slice(body.as_bytes()), Counted::AsWritten)
}

/// An answer with one number a vector, `indexes` in this order.
fn numbered(indexes: &[usize]) -> String {
    let data: Vec<_> =
        indexes.iter().map(|at| json!({"object": "embedding", "index": at, "embedding": [at, -0.5]})).collect();
    json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 5, "total_tokens": 5}}).to_string()
}

/// The vectors of an answer to the caller, whatever their encoding.
fn vectors(answer: &Answer) -> Vec<Vec<f32>> {
    let body = tree(&answer.body);
    let vector = |item: &Value| match &item["embedding"] {
        Value::String(text) => {
            STANDARD.decode(text).unwrap().chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
        }
        list => list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect(),
    };
    let data = body["data"].as_array().unwrap();
    assert!(data.iter().enumerate().all(|(at, item)| item["index"].as_u64().is_none_or(|index| index == at as u64)));
    data.iter().map(vector).collect()
}

#[test]
fn the_encoding_asked_for_is_the_encoding_given() {
    let floats = r#"{"data":[{"index":0,"embedding":[0.5, -0.25, 3.0],"x":1.50}],"model":"m"}"#;
    let base64 = format!(r#"{{"data":[{{"index":0,"embedding":"{BASE64}","x":1.50}}],"model":"m"}}"#);
    for (format, upstream, right) in [
        (json!("base64"), floats, base64.as_str()),
        (json!("base64"), &base64, &base64),
        (json!("float"), &base64, r#"{"data":[{"index":0,"embedding":[0.5,-0.25,3.0],"x":1.50}],"model":"m"}"#),
        (json!(null), &base64, r#"{"data":[{"index":0,"embedding":[0.5,-0.25,3.0],"x":1.50}],"model":"m"}"#),
        (json!(null), floats, floats),
    ] {
        let answer = judged(&call(json!("a"), json!({ "encoding_format": format })), upstream).unwrap();
        assert_eq!(text(&answer), right, "{format} {upstream}");
        assert_eq!(answer.dimension, Some(3));
    }
}

#[test]
fn every_other_protocol_gives_both_encodings_too() {
    let numbers = "[0.5,-0.25,3.0]";
    for protocol in OTHERS {
        let upstream = match protocol {
            Protocol::Tei => format!("[{numbers}]"),
            Protocol::Ollama => format!(r#"{{"model":"x","embeddings":[{numbers}]}}"#),
            Protocol::Cohere => format!(r#"{{"embeddings":{{"float":[{numbers}]}}}}"#),
            _ => format!(r#"{{"data":[{{"index":0,"embedding":{numbers}}}]}}"#),
        };
        let item = |format: &str| {
            let ask = call(json!(["a"]), json!({ "encoding_format": format }));
            let answer = answer(protocol, &ask, &upstream).unwrap();
            assert_eq!(answer.dimension, Some(3));
            tree(&answer.body)["data"][0]["embedding"].clone()
        };
        assert_eq!(item("base64"), json!(BASE64), "{protocol:?}");
        assert_eq!(item("float"), json!([0.5, -0.25, 3.0]).to_string().parse::<Value>().unwrap(), "{protocol:?}");
    }
    let v1 = answer(
        Protocol::Cohere,
        &call(json!(["a"]), json!({})),
        r#"{"embeddings":[[0.50]],"response_type":"embeddings_floats"}"#,
    );
    assert!(text(&v1.unwrap()).contains(r#""embedding":[0.50]"#));
}

#[test]
fn what_nothing_edits_is_the_very_same_memory() {
    let body = Bytes::from(numbered(&[0, 1]));
    let ask = call(json!(["a", "b"]), json!({}));
    let answer = embeddings::like_openai(view(&ask), body.clone(), Counted::AsWritten).unwrap();
    assert_eq!(answer.body.as_ptr(), body.as_ptr());
    assert_eq!((answer.usage.unwrap().prompt, answer.dimension), (5, Some(2)));
}

#[test]
fn an_encoding_that_only_the_upstream_knows_is_passed_or_refused() {
    let ask = call(json!(["a", "b"]), json!({"encoding_format": "int8"}));
    let sent = embeddings::encode_openai(&ask, view(&ask), &target("/v1")).unwrap();
    assert_eq!(tree(&sent.body)["encoding_format"], json!("int8"));
    let upstream = r#"{"data":[{"index":0,"embedding":{"int8":[[1],[2]]}},{"index":1,"embedding":"QUI="}]}"#;
    assert_eq!(text(&judged(&ask, upstream).unwrap()), upstream);
    let floats = judged(&ask, r#"{"data":[{"embedding":[0.5]},{"embedding":[1]}]}"#).unwrap_err();
    assert_eq!((floats.class, floats.told.unwrap().param.as_deref()), (Class::Caller, Some("encoding_format")));
    assert!(judged(&ask, r#"{"data":[{"embedding":[5,-3]},{"embedding":[1,0]}]}"#).is_ok());
    assert!(judged(&ask, r#"{"data":[{"index":0,"embedding":[1]}]}"#).is_err());
    for protocol in OTHERS {
        let refusal = dialect(protocol).encode(&ask, &target("/")).unwrap_err();
        assert_eq!(refusal.param.as_deref(), Some("encoding_format"), "{protocol:?}");
    }
}

#[test]
fn answers_that_do_not_fit_the_inputs_are_the_upstreams_fault() {
    let item = |index: usize, vector: &str| format!(r#"{{"index":{index},"embedding":{vector}}}"#);
    let list = |items: &[String]| format!(r#"{{"data":[{}]}}"#, items.join(","));
    let two = call(json!(["a", "b"]), json!({}));
    for upstream in [
        list(&[item(0, "[1]")]),
        list(&[item(0, "[1]"), item(0, "[1]")]),
        list(&[item(1, "[1]"), item(2, "[1]")]),
        list(&[item(0, "[1]"), item(1, "[1]"), item(2, "[1]")]),
        list(&[item(0, "[NaN]"), item(1, "[1]")]),
        list(&[item(0, "[null]"), item(1, "[1]")]),
        list(&[item(0, "[\"1\"]"), item(1, "[1]")]),
        list(&[item(0, "[[1]]"), item(1, "[1]")]),
        list(&[item(0, "[]"), item(1, "[1]")]),
        list(&[item(0, "{\"1\":0.5}"), item(1, "[1]")]),
        list(&[item(0, "\"AAA=\""), item(1, "\"AAA=\"")]),
        list(&[item(0, "\"AADAfw==\""), item(1, "\"AADAfw==\"")]),
        list(&["{}".to_owned(), item(1, "[1]")]),
        list(&["[1]".to_owned(), "[2]".to_owned()]),
        r#"{"data":[]}"#.to_owned(),
        r#"{"data":null}"#.to_owned(),
        r#"{"data":[{"embedding":[1]},{"embedding":[2]}"#.to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        "<html>".to_owned(),
        String::new(),
    ] {
        assert_eq!(judged(&two, &upstream).unwrap_err().kind, Kind::BadResponse, "{upstream}");
    }
    let huge = list(&[item(0, "[1e99]"), item(1, "[1]")]);
    assert!(judged(&call(json!(["a", "b"]), json!({"encoding_format": "base64"})), &huge).is_err());
    let quota = r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#;
    assert_eq!(judged(&two, quota).unwrap_err().class, Class::Credential);
}

#[test]
fn a_missing_index_means_the_position() {
    let answer = judged(&call(json!(["a", "b"]), json!({})), r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#);
    assert_eq!(vectors(&answer.unwrap()), [[1.0], [2.0]]);
}

#[test]
fn vectors_have_one_dimension_and_the_one_asked_for() {
    let of = |lengths: &[usize]| {
        let data: Vec<_> = lengths.iter().map(|length| json!({ "embedding": vec![0.5; *length] })).collect();
        json!({ "data": data }).to_string()
    };
    let ask = |dimensions: Value| call(json!(["a", "b"]), json!({ "dimensions": dimensions }));
    assert_eq!(judged(&ask(json!(null)), &of(&[4, 4])).unwrap().dimension, Some(4));
    assert_eq!(judged(&ask(json!(4)), &of(&[4, 4])).unwrap().dimension, Some(4));
    assert_eq!(judged(&ask(json!(3)), &of(&[4, 4])).unwrap_err().kind, Kind::Dimension);
    assert_eq!(judged(&ask(json!(null)), &of(&[4, 5])).unwrap_err().kind, Kind::Dimension);
    let bare = answer(Protocol::Tei, &ask(json!(3)), "[[1,2],[1,2]]").unwrap_err();
    assert_eq!(bare.kind, Kind::Dimension);
}

#[test]
fn token_ids_pass_until_they_are_to_be_decoded() {
    let hello = json!([[15339, 1917], [57668]]);
    let encode = |ask: &Ask, decode_tokens: bool| {
        embeddings::encode_openai(ask, view(ask), &Target { decode_tokens, ..target("/v1") }).unwrap()
    };
    let ask = call(hello.clone(), json!({"user": "u"}));
    let passed = encode(&ask, false);
    assert_eq!(passed.body, r#"{"model":"m-1","input":[[15339,1917],[57668]],"user":"u"}"#);
    assert!(passed.added.token_arrays);
    let decoded = encode(&ask, true);
    assert_eq!(decoded.body, r#"{"model":"m-1","input":["hello world","你"],"user":"u"}"#);
    assert!(!decoded.added.token_arrays);
    assert_eq!(encode(&call(json!([15339, 1917]), json!({})), true).body, r#"{"model":"m-1","input":"hello world"}"#);
    assert!(!encode(&call(json!(["a"]), json!({})), false).added.token_arrays);
}

#[test]
fn providers_of_texts_never_see_token_ids() {
    let ask = call(json!([[15339, 1917]]), json!({}));
    for protocol in [Protocol::Cohere, Protocol::Jina, Protocol::Voyage, Protocol::Ollama] {
        let encoded = dialect(protocol).encode(&ask, &target("/")).unwrap();
        assert!(std::str::from_utf8(&encoded.body).unwrap().contains(r#":["hello world"]"#), "{protocol:?}");
        assert!(!encoded.added.token_arrays);
    }
    let encoded = dialect(Protocol::Tei).encode(&ask, &target("/")).unwrap();
    assert_eq!(encoded.body, r#"{"inputs":[[15339,1917]]}"#);
    assert!(encoded.added.token_arrays);
    let decode = Target { decode_tokens: true, ..target("/") };
    assert_eq!(dialect(Protocol::Tei).encode(&ask, &decode).unwrap().body, r#"{"inputs":["hello world"]}"#);
}

#[test]
fn ids_outside_the_vocabulary_are_the_callers_fault() {
    for input in [json!([[4_000_000_000_u64]]), json!([18_446_744_073_709_551_615_u64])] {
        let refusal = dialect(Protocol::Ollama).encode(&call(input, json!({})), &target("/")).unwrap_err();
        assert_eq!(refusal.param.as_deref(), Some("input"));
    }
}

#[test]
fn the_empty_text_is_neither_replaced_nor_dropped() {
    for (input, written) in [(json!(""), r#""""#), (json!(["a", ""]), r#"["a",""]"#)] {
        for protocol in OTHERS {
            let body = sent(protocol, &call(input.clone(), json!({})));
            assert!(body.contains(written), "{protocol:?} {body}");
        }
    }
}

#[test]
fn nothing_goes_out_that_a_provider_does_not_know() {
    let ask = call(
        json!(["a"]),
        json!({
            "dimensions": 8, "encoding_format": "base64", "input_type": "passage", "truncation": "START", "user": "u", "extra": {},
            "late_chunking": false, "normalized": true, "normalize": true, "prompt_name": "p", "keep_alive": "5m", "options": {"num_ctx": 5},
        }),
    );
    for (protocol, known) in [
        (Protocol::Cohere, &["model", "texts", "input_type", "embedding_types", "output_dimension", "truncate"][..]),
        (Protocol::Jina, &["model", "input", "task", "dimensions", "truncate", "normalized", "late_chunking"]),
        (Protocol::Voyage, &["model", "input", "input_type", "truncation", "output_dimension", "encoding_format"]),
        (Protocol::Tei, &["inputs", "normalize", "truncate", "truncation_direction", "prompt_name", "dimensions"]),
        (Protocol::Ollama, &["model", "input", "truncate", "dimensions", "keep_alive", "options"]),
    ] {
        let body = tree(sent(protocol, &ask).as_bytes());
        for (name, value) in body.as_object().unwrap() {
            assert!(known.contains(&name.as_str()) && !value.is_null(), "{protocol:?} {name}");
        }
    }
}

#[test]
fn the_purpose_is_said_in_each_providers_words() {
    for (given, cohere, voyage, jina) in [
        (json!({}), "search_document", None, None),
        (json!({"input_type": "query"}), "search_query", Some("query"), Some("retrieval.query")),
        (json!({"task": "retrieval.passage"}), "search_document", Some("document"), Some("retrieval.passage")),
        (json!({"input_type": "clustering"}), "clustering", None, Some("separation")),
        (json!({"task": "text-matching"}), "text-matching", Some("text-matching"), Some("text-matching")),
    ] {
        let ask = call(json!(["a"]), given.clone());
        let field = |protocol, name: &str| tree(sent(protocol, &ask).as_bytes()).get(name).cloned();
        assert_eq!(field(Protocol::Cohere, "input_type"), Some(json!(cohere)), "{given}");
        assert_eq!(field(Protocol::Voyage, "input_type"), voyage.map(|word| json!(word)), "{given}");
        assert_eq!(field(Protocol::Jina, "task"), jina.map(|word| json!(word)), "{given}");
    }
}

#[test]
fn the_count_of_tokens_comes_from_body_or_header_or_a_guess() {
    let ask = call(json!(["a", "b"]), json!({}));
    let (parts, ()) =
        Response::builder().header("x-compute-tokens", HeaderValue::from_static("9")).body(()).unwrap().into_parts();
    let counted = dialect(Protocol::Tei).answer(&ask, &target("/"), &parts.headers, Bytes::from("[[1],[2]]")).unwrap();
    assert_eq!(counted.usage.map(|usage| (usage.prompt, usage.estimated)), Some((9, false)));
    let guessed =
        dialect(Protocol::Tei).answer(&ask, &target("/"), &HeaderMap::new(), Bytes::from("[[1],[2]]")).unwrap();
    assert!(guessed.usage.unwrap().estimated);
    let voyage =
        answer(Protocol::Voyage, &ask, r#"{"data":[{"embedding":[1]},{"embedding":[2]}],"usage":{"total_tokens":3}}"#)
            .unwrap();
    assert_eq!(tree(&voyage.body)["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
}

#[test]
fn a_large_call_is_split_and_its_answers_join_in_order() {
    let inputs: Vec<String> = (0..70).map(|at| format!("text {at} 你好 \"[,]\"")).collect();
    let ask = call(json!(inputs), json!({"encoding_format": "base64", "user": "u"}));
    let parts = embeddings::split(&ask, 32);
    assert_eq!(parts.iter().map(|part| view(part).inputs).collect::<Vec<_>>(), [32, 32, 6]);
    let sent: Vec<Value> = parts.iter().map(|part| tree(&part.body)["input"].clone()).collect();
    assert_eq!(sent.concat_arrays(), inputs);
    assert!(parts.iter().all(|part| tree(&part.body)["user"] == json!("u")));

    let mut from = 0;
    let answers: Vec<Answer> = parts
        .iter()
        .map(|part| {
            let count = view(part).inputs;
            let data: Vec<_> = (0..count).map(|at| json!({"index": at, "embedding": [from + at]})).collect();
            from += count;
            let body = json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": count, "total_tokens": count + 1}});
            judged(part, &body.to_string()).unwrap()
        })
        .collect();
    let joined = embeddings::join(answers).unwrap();
    assert_eq!(vectors(&joined), (0..70).map(|at| vec![at as f32]).collect::<Vec<_>>());
    assert_eq!(tree(&joined.body)["usage"], json!({"prompt_tokens": 70, "total_tokens": 73}));
    assert_eq!((joined.usage.unwrap().prompt, joined.dimension), (70, Some(1)));
}

trait ConcatArrays {
    fn concat_arrays(&self) -> Vec<String>;
}

impl ConcatArrays for Vec<Value> {
    fn concat_arrays(&self) -> Vec<String> {
        self.iter().flat_map(|list| list.as_array().unwrap()).map(|text| text.as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn what_fits_or_must_stay_together_is_not_split() {
    for ask in [
        call(json!(["a", "b"]), json!({})),
        call(json!([1, 2, 3, 4]), json!({})),
        call(json!(["a", "b", "c", "d"]), json!({"late_chunking": true})),
    ] {
        let parts = embeddings::split(&ask, 2);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].body, ask.body);
    }
    assert_eq!(embeddings::split(&call(json!([[1], [2], [3]]), json!({})), 2).len(), 2);
}

#[test]
fn parts_of_different_dimension_do_not_join() {
    let part = |vector: &str| {
        judged(&call(json!("a"), json!({})), &format!(r#"{{"data":[{{"embedding":{vector}}}]}}"#)).unwrap()
    };
    assert_eq!(embeddings::join(vec![part("[1]"), part("[1,2]")]).unwrap_err().kind, Kind::Dimension);
    let joined = embeddings::join(vec![part("[1]"), part("[2]")]).unwrap();
    assert_eq!(text(&joined), r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}"#);
}

#[test]
fn providers_name_their_batch_limits() {
    let limit = |protocol| dialect(protocol).max_inputs(Endpoint::Embeddings);
    assert_eq!(OTHERS.map(limit), [Some(96), Some(2048), Some(1000), Some(32), None]);
}

proptest! {
    #[test]
    fn every_text_gets_its_own_vector(order in Just((0..40usize).collect::<Vec<_>>()).prop_shuffle(), base64: bool, theirs: bool) {
        let format = if base64 { "base64" } else { "float" };
        let ask = call(json!(vec!["x"; 40]), json!({ "encoding_format": format }));
        let mut body = tree(numbered(&order).as_bytes());
        if theirs {
            for item in body["data"].as_array_mut().unwrap() {
                let at = item["index"].as_u64().unwrap() as f32;
                item["embedding"] = json!(STANDARD.encode([at.to_le_bytes(), (-0.5_f32).to_le_bytes()].concat()));
            }
        }
        let answer = judged(&ask, &body.to_string()).unwrap();
        prop_assert_eq!(vectors(&answer), (0..40).map(|at| vec![at as f32, -0.5]).collect::<Vec<_>>());
        let is_text = tree(&answer.body)["data"][0]["embedding"].is_string();
        prop_assert_eq!(is_text, base64);
    }

    #[test]
    fn numbers_survive_the_way_to_base64_and_back(values in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO, 1..50)) {
        let upstream = json!({"data": [{"embedding": values}]}).to_string();
        let base64 = judged(&call(json!("a"), json!({"encoding_format": "base64"})), &upstream).unwrap();
        prop_assert_eq!(&vectors(&base64)[0], &values);
        let floats = judged(&call(json!("a"), json!({})), text(&base64)).unwrap();
        prop_assert_eq!(&vectors(&floats)[0], &values);
    }

    #[test]
    fn no_answer_panics(bytes in prop::collection::vec(prop::sample::select(br#"{}[]",:0.1-eE\ndatindexmbg "#.to_vec()), 0..80)) {
        let ask = call(json!(["a"]), json!({}));
        let body = Bytes::from([&br#"{"data":["#[..], &bytes].concat());
        for protocol in OTHERS {
            let _ = dialect(protocol).answer(&ask, &target("/"), &HeaderMap::new(), body.clone());
        }
    }
}
