//! What callers may send, what is refused, and by what name.

use super::*;
use crate::images::ATTACHMENT;

fn read(endpoint: Endpoint, body: &str) -> Result<Ask, Refusal> {
    Ask::read(endpoint, None, Bytes::copy_from_slice(body.as_bytes()))
}

fn refused(endpoint: Endpoint, body: &str) -> (Code, Option<String>) {
    let refusal = read(endpoint, body).unwrap_err();
    (refusal.code, refusal.param.map(Cow::into_owned))
}

/// JSON tells names by case: another spelling is a field like any that the gateway does not know.
#[test]
fn a_field_that_some_servers_would_take_for_the_model_is_refused() {
    for name in ["Model", "MODEL", "Messages", "Stream", "\u{17f}tream", "\\u017ftream", "N"] {
        let body = format!(r#"{{"model":"a","messages":[{{}}],"{name}":1}}"#);
        let refusal = Ask::read(Endpoint::Chat, None, body.into()).unwrap_err();
        let param = refusal.param.unwrap();
        assert!(param.eq_ignore_ascii_case(name) || param == "stream", "{param}");
        assert!(refusal.message.contains("write '"), "{}", refusal.message);
    }
    for name in ["models", "streams", "Mode", "Nn", "mod\u{e9}l"] {
        let body = format!(r#"{{"model":"a","messages":[{{}}],"{name}":1}}"#);
        let ask = Ask::read(Endpoint::Chat, None, body.clone().into()).unwrap();
        assert_eq!(ask.with_model("b"), body.replace("\"a\"", "\"b\""), "unknown fields pass");
    }
}

#[test]
fn a_chat_is_known_by_what_the_gateway_needs() {
    let body =
        r#"{"model":"m","messages":[{}],"n":2,"stream":true,"stream_options":{"include_usage":true},"tools":[1]}"#;
    let ask = read(Endpoint::Chat, body).unwrap();
    assert_eq!((ask.model.as_str(), ask.stream), ("m", true));
    let chat = ask.chat().unwrap();
    assert_eq!((chat.choices, chat.include_usage, chat.has_tools), (2, Some(true), true));
    assert_eq!(body.get(chat.stream_options.unwrap().range()).unwrap(), r#"{"include_usage":true}"#);
}

#[test]
fn nulls_and_odd_numbers_are_the_upstreams_business() {
    let body = r#"{"model":"m","messages":[{}],"stream":null,"stream_options":null,"n":null,"tools":null,"stop":null,
        "temperature":null,"max_tokens":"100","max_completion_tokens":-1}"#;
    let ask = read(Endpoint::Chat, body).unwrap();
    assert!(!ask.stream);
    assert_eq!(ask.body, body);
    assert_eq!((ask.chat().unwrap().choices, ask.chat().unwrap().include_usage), (1, None));
}

#[test]
fn a_wrong_field_is_refused_by_its_name() {
    for (body, name) in [
        (r#"{"messages":[1]}"#, "model"),
        (r#"{"model":null,"messages":[1]}"#, "model"),
        (r#"{"model":"","messages":[1]}"#, "model"),
        (r#"{"model":7,"messages":[1]}"#, "model"),
        (r#"{"model":"\ud83d","messages":[1]}"#, "model"),
        (r#"{"model":"a","model":"b","messages":[1]}"#, "model"),
        (r#"{"model":"a","mod\u0065l":"b","messages":[1]}"#, "model"),
        (r#"{"model":"a"}"#, "messages"),
        (r#"{"model":"a","messages":[ ]}"#, "messages"),
        (r#"{"model":"a","messages":"hi"}"#, "messages"),
        (r#"{"model":"a","messages":null}"#, "messages"),
        (r#"{"model":"a","messages":[1],"messages":[1]}"#, "messages"),
        (r#"{"model":"a","messages":[1],"stream":"yes"}"#, "stream"),
        (r#"{"model":"a","messages":[1],"mai":"q"}"#, "mai"),
        (r#"{"model":"a","messages":[1],"mai":["query"]}"#, "mai"),
        (r#"{"model":"a","messages":[1],"mai":{"query":1}}"#, "mai.query"),
        (r#"{"model":"a","messages":[1],"mai":{"query":{"text":"q"}}}"#, "mai.query"),
        (r#"{"model":"a","messages":[1],"mai":{"query":"q","query":"r"}}"#, "mai.query"),
        (r#"{"model":"a","messages":[1],"mai":{"question":"q"}}"#, "mai.question"),
        (r#"{"model":"a","messages":[1],"mai":{"query":"q","threshold":null}}"#, "mai.threshold"),
        (r#"{"model":"a","messages":[1],"metadata":{"mai_tag":[]}}"#, "metadata.mai_tag"),
    ] {
        assert_eq!(refused(Endpoint::Chat, body), (Code::InvalidRequest, Some(name.into())), "{body}");
    }
    let long = format!(r#"{{"model":"{}","messages":[1]}}"#, "x".repeat(MODEL_MAX + 1));
    assert_eq!(refused(Endpoint::Chat, &long).1.unwrap(), "model");
    assert_eq!(refused(Endpoint::Completions, r#"{"model":"a"}"#).1.unwrap(), "prompt");
    assert_eq!(refused(Endpoint::Responses, r#"{"input":"a"}"#).1.unwrap(), "model");
}

#[test]
fn what_is_no_json_object_is_refused() {
    for body in ["", "{", "model=a", "{'model':1}", "\u{fffe}"] {
        assert_eq!(refused(Endpoint::Chat, body), (Code::InvalidJson, None), "{body}");
    }
    for body in ["[]", "null", "\"model\""] {
        assert_eq!(refused(Endpoint::Chat, body), (Code::InvalidRequest, None), "{body}");
    }
    let utf16 = Bytes::from_static(b"\xff\xfe{\0}\0");
    assert_eq!(Ask::read(Endpoint::Chat, None, utf16).unwrap_err().code, Code::InvalidJson);
}

#[test]
fn gateway_only_fields_leave_and_the_rest_stays_to_the_byte() {
    for (before, after) in [
        (
            r#"{"mai":{"query":"q"},"model":"m", "messages":[1],"metadata":{"mai_tag":"t"}}"#,
            r#"{"model":"m", "messages":[1]}"#,
        ),
        (
            r#"{"model":"m","metadata":{"a":"1", "mai_tag":"t"},"messages":[1.0],"mai":{ "query" :"q"} }"#,
            r#"{"model":"m","metadata":{"a":"1"},"messages":[1.0] }"#,
        ),
    ] {
        let ask = read(Endpoint::Chat, before).unwrap();
        assert_eq!((ask.tag.as_deref(), ask.query.as_deref()), (Some("t"), Some("q")));
        assert_eq!(ask.body, after);
        assert_eq!(ask.with_model("other"), after.replace("\"m\"", "\"other\""));
    }
    let plain = r#"{"model":"m","metadata":{},"messages":[1],"extra_body":{"mai":1}}"#;
    assert_eq!(read(Endpoint::Chat, plain).unwrap().body, plain);
}

#[test]
fn an_unknown_member_of_mai_is_answered_with_those_that_there_are_on_every_endpoint() {
    let told = |key: &str| {
        let body = format!(r#"{{"model":"m","mai":{{{key}:"q"}},"input":"x"}}"#);
        let refusal = Ask::read(Endpoint::Embeddings, None, body.into()).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidRequest);
        (refusal.param.unwrap().into_owned(), refusal.message.into_owned())
    };
    let (param, message) = told(r#""question""#);
    assert_eq!((&*param, &*message), ("mai.question", "'mai' has no member 'question'; it may hold: query"));
    assert_eq!(told(r#""Querry""#).1, "'mai' has no member 'Querry'; did you mean 'query'?");
    let (param, message) = told(&format!(r#""\u0007\u202e{}""#, "x".repeat(500)));
    assert!(param.chars().all(|letter| base::unseen(letter).is_none()), "{param}");
    assert!(message.len() < 200, "{message}");
    for endpoint in Endpoint::ALL {
        let body = r#"{"model":"m","mai":{"question":"q"},"messages":[1],"prompt":"x","input":"x","query":"x","documents":["x"]}"#;
        assert_eq!(refused(endpoint, body), (Code::InvalidRequest, Some("mai.question".into())), "{endpoint:?}");
    }
}

#[test]
fn a_byte_order_mark_is_tolerated() {
    let ask = read(Endpoint::Chat, "\u{feff}{\"model\":\"m\",\"messages\":[1]}").unwrap();
    assert_eq!(ask.with_model("你好"), "{\"model\":\"你好\",\"messages\":[1]}");
}

#[test]
fn the_same_model_name_is_no_copy() {
    let ask = read(Endpoint::Chat, r#"{"model":"m","messages":[1]}"#).unwrap();
    assert_eq!(ask.with_model("m").as_ptr(), ask.body.as_ptr());
}

#[test]
fn a_form_is_read_for_its_model_alone() {
    let form = |model: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\n\0\u{1}\r\n--X\r\n\r\n\
             --XX\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--XX\r\n\
             Content-Disposition: form-data; name=stream\r\n\r\ntrue\r\n--XX--\r\n"
        )
    };
    let kind = http::HeaderValue::from_static("multipart/form-data; charset=utf-8; boundary=\"XX\"");
    let ask = Ask::read(Endpoint::AudioTranscriptions, Some(&kind), form("whisper").into()).unwrap();
    assert_eq!((ask.model.as_str(), ask.stream), ("whisper", true));
    assert_eq!(ask.content_type.as_ref(), Some(&kind));
    assert_eq!(ask.with_model("other-one"), form("other-one"));
    let none = Ask::read(Endpoint::AudioTranscriptions, Some(&kind), Bytes::from_static(b"--XX--\r\n")).unwrap_err();
    assert_eq!(none.param.unwrap(), "model");
}

#[test]
fn a_form_says_the_same_whatever_its_boundary_is() {
    let said = |boundary: &str, model: &str, file: &str| {
        let kind = http::HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}")).unwrap();
        let head = "content-disposition: form-data; name=";
        let form = format!(
            "--{boundary}\r\n{head}model\r\n\r\n{model}\r\n--{boundary}\r\n{head}file\r\n\r\n{file}\r\n--{boundary}--\r\n"
        );
        let ask = Ask::read(Endpoint::AudioTranscriptions, Some(&kind), form.into()).unwrap();
        let mut said = Vec::new();
        assert!(ask.feed_form(&mut |piece| said.extend_from_slice(piece)));
        said
    };
    let first = said("one", "whisper", "RIFF");
    assert_eq!(first, said("another-one", "whisper", "RIFF"));
    for other in
        [said("one", "whisper", "riff"), said("one", "whispe", "rRIFF"), said("one", "whisper", "RI\r\n--anFF")]
    {
        assert_ne!(first, other);
    }
    let json = Bytes::from_static(br#"{"model":"tts","input":"hi"}"#);
    assert!(!Ask::read(Endpoint::AudioSpeech, None, json).unwrap().feed_form(&mut |_| {}));
}

#[test]
fn json_of_any_declared_type_is_read_as_json() {
    let kind = http::HeaderValue::from_static("text/plain");
    let body = Bytes::from_static(br#"{"model":"tts","input":"hi"}"#);
    assert_eq!(Ask::read(Endpoint::AudioSpeech, Some(&kind), body).unwrap().model, "tts");
}

#[test]
fn an_image_in_the_body_weighs_what_an_image_weighs_and_not_what_its_bytes_do() {
    let estimate = |bytes: usize| {
        let url = format!("data:image/png;base64,{}", "A".repeat(bytes));
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"What is this?"}},{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#
        );
        Ask::read(Endpoint::Chat, None, body.into()).unwrap().prompt_estimate(|| ATTACHMENT)
    };
    assert_eq!(estimate(10), estimate(1_000_000));
    assert!((ATTACHMENT..ATTACHMENT + 100).contains(&estimate(1_000_000)));
}

#[test]
fn a_text_that_only_speaks_of_a_data_url_weighs_what_it_does_without_it() {
    let weigh = |text: &str| {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}{}"}}]}}"#, "word ".repeat(20_000));
        Ask::read(Endpoint::Chat, None, body.into()).unwrap().prompt_estimate(|| ATTACHMENT)
    };
    let plain = weigh("");
    for text in ["see ;base64,", "data:text/plain;base64,", r"![logo](data:image/png;base64,iVBORw0KGgo=)\n"] {
        assert!((plain..plain + 100).contains(&weigh(text)), "{text}");
    }
}

fn written(endpoint: Endpoint, fields: &str) -> Written {
    read(endpoint, &format!(r#"{{"model":"m",{fields}}}"#)).unwrap().estimate(|| ATTACHMENT).written
}

#[test]
fn what_may_be_written_is_what_the_caller_allows_under_whichever_name() {
    for (fields, most) in [
        (r#""max_tokens":10"#, 10),
        (r#""max_tokens":10,"n":3"#, 30),
        (r#""max_tokens":10,"n":null,"best_of":null"#, 10),
        (r#""max_tokens":10,"n":3,"best_of":5"#, 50),
        (r#""max_tokens":10,"n":3,"best_of":2"#, 30),
        (r#""max_tokens":10,"thinking_budget":100"#, 110),
        (r#""max_tokens":10,"thinking_budget":100,"n":2"#, 220),
        (r#""max_tokens":18446744073709551615,"n":2"#, u64::MAX),
        (r#""max_tokens":1e1,"n":3.0"#, 30),
        (r#""max_tokens":"10","n":"3""#, 30),
        (r#""max_tokens":1e30"#, u64::MAX),
    ] {
        let chat = format!(r#""messages":[{{}}],{fields}"#);
        assert_eq!(written(Endpoint::Chat, &chat), Written::AtMost(most), "{fields}");
        let several = format!(r#""prompt":["a","b"],{fields}"#);
        assert_eq!(written(Endpoint::Completions, &several), Written::AtMost(most.saturating_mul(2)), "{fields}");
    }
    assert_eq!(written(Endpoint::Chat, r#""messages":[{}],"max_completion_tokens":10"#), Written::AtMost(10));
    for fields in [r#""max_tokens":10,"max_completion_tokens":20"#, r#""max_tokens":20,"max_completion_tokens":10"#] {
        assert_eq!(written(Endpoint::Chat, &format!(r#""messages":[{{}}],{fields}"#)), Written::AtMost(20), "{fields}");
    }
    let unknown_here = r#""prompt":"a","max_tokens":5000,"max_completion_tokens":1"#;
    assert_eq!(written(Endpoint::Completions, unknown_here), Written::AtMost(5000));
    assert_eq!(written(Endpoint::Responses, r#""input":"a","max_output_tokens":300"#), Written::AtMost(300));
    for unbounded in [r#""max_output_tokens":null"#, r#""max_output_tokens":"many""#, r#""max_tokens":7"#] {
        assert_eq!(written(Endpoint::Responses, unbounded), Written::Unbounded, "{unbounded}");
    }
    assert_eq!(written(Endpoint::Chat, r#""messages":[{}],"thinking_budget":100"#), Written::Unbounded);
    for (endpoint, fields) in [
        (Endpoint::Embeddings, r#""input":"a""#),
        (Endpoint::Rerank, r#""query":"a","documents":["b"]"#),
        (Endpoint::Moderations, r#""input":"a""#),
        (Endpoint::ImagesGenerations, r#""prompt":"a","n":4"#),
    ] {
        assert_eq!(written(endpoint, fields), Written::Nothing, "{fields}");
    }
}

#[test]
fn a_reranker_reads_the_query_with_each_document() {
    let query = "x".repeat(300);
    let estimate = |documents: usize| {
        let documents = serde_json::json!(vec!["y".repeat(30); documents]);
        read(Endpoint::Rerank, &format!(r#"{{"model":"m","query":"{query}","documents":{documents}}}"#))
            .unwrap()
            .estimate(|| ATTACHMENT)
    };
    // With their quotes a third of a token for each character.
    assert_eq!((estimate(1).prompt, estimate(1).units), (101 + 11, 1));
    assert_eq!((estimate(100).prompt, estimate(100).units), (100 * (101 + 11), 1));
    assert_eq!(estimate(101).units, 2);
    let parts = estimate(60).plus(estimate(41));
    assert_eq!((parts.prompt, parts.units), (estimate(101).prompt, 2), "each part is a call of its own");
}
