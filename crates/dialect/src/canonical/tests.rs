//! Field by field: what makes another answer of it, and what does not.

use base::Endpoint;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn ask(endpoint: Endpoint, body: &str) -> Ask {
    Ask::read(endpoint, None, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn decides(ask: &Ask) -> Result<Vec<u8>, NotKeyed> {
    let mut out = Vec::new();
    ask.deciding(&mut |piece| out.extend_from_slice(piece)).map(|()| out)
}

fn of(endpoint: Endpoint, body: &str) -> Vec<u8> {
    decides(&ask(endpoint, body)).unwrap()
}

const QUESTION: &str =
    r#""model":"rag-chat","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why?"}]"#;

fn chat(more: &str) -> Vec<u8> {
    of(Endpoint::Chat, &format!("{{{QUESTION}{more}}}"))
}

#[test]
fn each_parameter_that_decides_makes_another_answer() {
    let calls = [
        "",
        r#","max_tokens":16"#,
        r#","max_tokens":4000"#,
        r#","max_completion_tokens":16"#,
        r#","max_completion_tokens":4000"#,
        r#","temperature":0"#,
        r#","temperature":1"#,
        r#","temperature":null"#,
        r#","top_p":0.5"#,
        r#","top_p":0.50001"#,
        r#","stop":"a""#,
        r#","stop":["a"]"#,
        r#","stop":["a","b"]"#,
        r#","stop":["b","a"]"#,
        r#","n":1"#,
        r#","n":2"#,
        r#","seed":1"#,
        r#","seed":2"#,
        r#","presence_penalty":0.1"#,
        r#","frequency_penalty":0.1"#,
        r#","logit_bias":{"50256":-100}"#,
        r#","logit_bias":{"50256":100}"#,
        r#","logit_bias":{"50257":-100}"#,
        r#","tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]"#,
        r#","tools":[{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a"}}]"#,
        r#","tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"none""#,
        r#","tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"auto""#,
        r#","tools":[{"type":"function","function":{"name":"a"}}],"parallel_tool_calls":false"#,
        r#","tools":[{"type":"function","function":{"name":"a"}}],"parallel_tool_calls":true"#,
        r#","response_format":{"type":"json_object"}"#,
        r#","response_format":{"type":"text"}"#,
        r#","logprobs":true"#,
        r#","logprobs":true,"top_logprobs":2"#,
        r#","reasoning_effort":"low""#,
        r#","reasoning_effort":"high""#,
        r#","never_heard_of":1"#,
        r#","never_heard_of":{"deep":[1]}"#,
        r#","never_heard_of":{"deep":[1,2]}"#,
    ];
    for (at, one) in calls.iter().enumerate() {
        for other in &calls[at + 1..] {
            assert_ne!(chat(one), chat(other), "{one} and {other}");
        }
    }
}

#[test]
fn each_word_of_the_conversation_makes_another_answer() {
    let with = |messages: &str| of(Endpoint::Chat, &format!(r#"{{"model":"m","messages":{messages}}}"#));
    let calls = [
        r#"[{"role":"user","content":"Why?"}]"#,
        r#"[{"role":"user","content":"Why? "}]"#,
        r#"[{"role":"user","content":"why?"}]"#,
        r#"[{"role":"system","content":"Why?"}]"#,
        r#"[{"role":"user","content":"Why?","name":"a"}]"#,
        r#"[{"role":"user","content":[{"type":"text","text":"Why?"}]}]"#,
        r#"[{"role":"user","content":[{"type":"text","text":"Why?"},{"type":"image_url","image_url":{"url":"a"}}]}]"#,
        r#"[{"role":"user","content":[{"type":"text","text":"Why?"},{"type":"image_url","image_url":{"url":"b"}}]}]"#,
        r#"[{"role":"user","content":"Why?"},{"role":"user","content":"Why?"}]"#,
        r#"[{"role":"user","content":"Why"},{"role":"user","content":"?"}]"#,
    ];
    for (at, one) in calls.iter().enumerate() {
        for other in &calls[at + 1..] {
            assert_ne!(with(one), with(other), "{one} and {other}");
        }
    }
    let of_model = |model: &str| of(Endpoint::Chat, &format!(r#"{{"model":"{model}","messages":[{{}}]}}"#));
    assert_ne!(of_model("gpt-4o"), of_model("gpt-4o-mini"));
}

#[test]
fn who_asks_and_how_the_answer_travels_make_none() {
    let plain = chat("");
    for more in [
        r#","user":"alice""#,
        r#","safety_identifier":"x""#,
        r#","prompt_cache_key":"y""#,
        r#","metadata":{"trace":"1"}"#,
        r#","metadata":{"mai_tag":"eval"}"#,
        r#","metadata":{"mai_tag":"eval","trace":1,"trace":2}"#,
        r#","mai":{"query":"Why?"}"#,
        r#","stream":true"#,
        r#","stream":false"#,
        r#","stream":true,"stream_options":{"include_usage":true}"#,
        r#","stream_options":null"#,
    ] {
        assert_eq!(chat(more), plain, "{more}");
    }
}

#[test]
fn the_spelling_of_a_call_makes_none() {
    let one = r#"{"model":"m","messages":[{"role":"user","content":"é"}],"temperature":0.5,"max_tokens":100,"tools":[{"a":1,"b":2}]}"#;
    let other = "\u{feff} {\n \"tools\" : [ {\"\\u0061\":1, \"b\":2.0} ], \"max_tokens\":1e2,\"temperature\": 5e-1 ,\
                 \"messages\":[{\"content\":\"\\u00e9\",\"role\":\"user\"}],\"model\":\"m\"} ";
    assert_eq!(of(Endpoint::Chat, one), of(Endpoint::Chat, other));
}

#[test]
fn a_schema_s_members_in_another_order_make_another_answer() {
    let schema =
        |first: &str, second: &str| format!(r#"{{"type":"object","properties":{{"{first}":{{}},"{second}":{{}}}}}}"#);
    let (one, other) = (schema("reasoning", "answer"), schema("answer", "reasoning"));
    for field in [
        r#""response_format":{"type":"json_schema","json_schema":{"schema":SCHEMA}}"#,
        r#""tools":[{"type":"function","function":{"name":"f","parameters":SCHEMA}}]"#,
        r#""guided_json":SCHEMA"#,
    ] {
        let with = |schema: &str| chat(&format!(",{}", field.replace("SCHEMA", schema)));
        assert_ne!(with(&one), with(&other), "{field}");
        assert_eq!(with(&one), with(&one.replace(':', " : ")), "{field}");
    }
    assert_eq!(chat(r#","logit_bias":{"1":2,"3":4}"#), chat(r#","logit_bias":{"3":4,"1":2}"#));
}

#[test]
fn endpoints_are_kept_apart() {
    let body = r#"{"model":"m","messages":[{}],"prompt":"a"}"#;
    assert_ne!(of(Endpoint::Chat, body), of(Endpoint::Completions, body));
}

#[test]
fn vectors_are_the_same_in_either_encoding() {
    let with = |more: &str| of(Endpoint::Embeddings, &format!(r#"{{"model":"e","input":["a","b"]{more}}}"#));
    assert_eq!(with(r#","encoding_format":"base64""#), with(r#","encoding_format":"float""#));
    assert_eq!(with(r#","encoding_format":"base64""#), with(""));
    let calls = [
        "",
        r#","dimensions":256"#,
        r#","dimensions":512"#,
        r#","input_type":"query""#,
        r#","task":"retrieval.query""#,
        r#","encoding_format":"int8""#,
        r#","encoding_format":"binary""#,
        r#","never_heard_of":true"#,
    ];
    for (at, one) in calls.iter().enumerate() {
        calls[at + 1..].iter().for_each(|other| assert_ne!(with(one), with(other), "{one} and {other}"));
    }
}

#[test]
fn a_ranking_is_decided_by_what_is_ranked_and_how() {
    let with = |more: &str| of(Endpoint::Rerank, &format!(r#"{{"model":"r","query":"q"{more}}}"#));
    let calls = [
        r#","documents":["a","b"]"#,
        r#","documents":["b","a"]"#,
        r#","documents":["a","b",""]"#,
        r#","documents":["ab"]"#,
        r#","documents":["a","b"],"top_n":1"#,
        r#","documents":["a","b"],"top_k":1"#,
        r#","documents":["a","b"],"return_documents":true"#,
        r#","documents":[{"text":"a"},"b"],"return_documents":true"#,
        r#","documents":[{"text":"a","id":1},"b"],"return_documents":true"#,
        r#","documents":["a","b"],"raw_scores":true"#,
        r#","documents":["a","b"],"max_tokens_per_doc":1"#,
        r#","documents":["a","b"],"max_chunks_per_doc":1"#,
        r#","documents":["a","b"],"overlap_tokens":1"#,
        r#","documents":["a","b"],"overlap_tokens":0"#,
        r#","documents":["a","b"],"truncate":false"#,
        r#","documents":["a","b"],"truncate":"START""#,
        r#","documents":["a","b"],"truncate":"END""#,
        r#","documents":["a","b"],"instruction":"i""#,
        r#","documents":["a","b"],"instruction":"j""#,
        r#","documents":["a","b"],"never_heard_of":1"#,
        r#","documents":[{"a":"x"}],"rank_fields":["a"]"#,
        r#","documents":[{"a":"x"}],"rank_fields":["a"],"return_documents":true"#,
        r#","texts":["a","b"]"#,
    ];
    for (at, one) in calls.iter().enumerate() {
        calls[at + 1..].iter().for_each(|other| assert_ne!(with(one), with(other), "{one} and {other}"));
    }
    let plain = with(r#","documents":["a","b"]"#);
    for same in [
        r#","documents":["\u0061","b"],"user":"alice""#,
        r#","documents":[{"text":"a","id":1},"b"]"#,
        r#","documents":["a","b"],"top_n":2"#,
        r#","documents":["a","b"],"top_n":99,"return_text":false"#,
    ] {
        assert_eq!(with(same), plain, "{same}");
    }
    let of_query = |query: &str| of(Endpoint::Rerank, &format!(r#"{{"model":"r","query":{query},"documents":["a"]}}"#));
    assert_eq!(of_query(r#""q""#), of_query(r#"{"text":"q"}"#));
    assert_ne!(of_query(r#""q""#), of_query(r#""Q""#));
}

#[test]
fn the_parts_of_one_ranking_are_not_each_other() {
    let whole = ask(Endpoint::Rerank, r#"{"model":"r","query":"q","documents":["a","b","c","d"]}"#);
    let parts: Vec<_> = rerank::split(&whole, 2).iter().map(|part| decides(part).unwrap()).collect();
    assert_ne!(parts[0], parts[1]);
    assert_eq!(parts[0], of(Endpoint::Rerank, r#"{"model":"r","query":"q","documents":["a","b"]}"#));
}

#[test]
fn what_is_ambiguous_or_unknown_is_not_keyed() {
    let refused = |endpoint, body: &str| decides(&ask(endpoint, body)).unwrap_err();
    let doubled = |more: &str| refused(Endpoint::Chat, &format!("{{{QUESTION}{more}}}"));
    assert_eq!(doubled(r#","top_p":1,"top_p":0"#), NotKeyed::Body(Unfit::Doubled));
    assert_eq!(doubled(r#","a":[{"b":1,"b":1}]"#), NotKeyed::Body(Unfit::Doubled));
    assert_eq!(doubled(r#","a":"\ud800""#), NotKeyed::Body(Unfit::NotText));
    assert_eq!(doubled(r#","seed":1e123456789012345678901"#), NotKeyed::Body(Unfit::Number));
    assert_eq!(doubled(&format!(r#","a":{}{}"#, "[".repeat(300), "]".repeat(300))), NotKeyed::Body(Unfit::TooDeep));
    assert_eq!(refused(Endpoint::Responses, r#"{"model":"m","input":"a"}"#), NotKeyed::Endpoint);
    let form = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n";
    let kind = http::HeaderValue::from_static("multipart/form-data; boundary=b");
    let upload = Ask::read(Endpoint::AudioTranscriptions, Some(&kind), Bytes::from(form)).unwrap();
    assert_eq!(decides(&upload), Err(NotKeyed::Endpoint));
}

proptest! {
    #[test]
    fn any_order_of_fields_is_one_call(order in Just([0, 1, 2, 3, 4, 5]).prop_shuffle(), space in " {0,3}") {
        let fields = [r#""model":"m""#, r#""messages":[{"role":"user","content":"a"}]"#, r#""temperature":0.5"#,
            r#""stop":["a","b"]"#, r#""user":"u""#, r#""x":{"a":1,"b":[2]}"#];
        let body = order.map(|at| format!("{space}{}", fields[at])).join(",");
        let first = of(Endpoint::Chat, &format!("{{{}}}", fields.join(",")));
        prop_assert_eq!(of(Endpoint::Chat, &format!("{{{body}{space}}}")), first);
    }

    #[test]
    fn any_other_text_is_another_call(one in ".{0,12}", other in ".{0,12}") {
        let with = |text: &str| {
            let text = crate::json::quoted(text);
            of(Endpoint::Chat, &format!(r#"{{"model":"m","messages":[{{"role":"user","content":{text}}}]}}"#))
        };
        prop_assert_eq!(one == other, with(&one) == with(&other));
    }
}
