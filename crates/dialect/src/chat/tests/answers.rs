//! Whole answers.

use base::{Class, Kind, Usage};

use super::*;

fn plain() -> Ask {
    ask(Endpoint::Chat, r#"{"model":"m","messages":[1]}"#)
}

fn used(usage: &str) -> Option<Usage> {
    let body = format!(r#"{{"choices":[{{"message":{{"content":"x"}}}}],"usage":{usage}}}"#);
    answer(&plain(), body.leak()).unwrap().usage
}

#[test]
fn a_sound_answer_is_returned_as_it_came() {
    let body = r#"{"id":"c", "choices":[{"index":0,"message":{"role":"assistant","content":"你好","vendor":0.50},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5},"timings":{} }"#;
    let answer = answer(&plain(), body).unwrap();
    assert_eq!((answer.body.as_ptr(), answer.body.len()), (body.as_ptr(), body.len()));
    assert_eq!(answer.usage, Some(Usage { prompt: 3, completion: 2, ..Usage::default() }));
    assert!(!answer.is_stream);
}

#[test]
fn blank_lines_before_the_body_are_skipped() {
    let answer = answer(&plain(), "\n\n \r\n{\"choices\":[]}").unwrap();
    assert_eq!(answer.body, "{\"choices\":[]}");
}

#[test]
fn what_is_no_completion_is_a_fault() {
    for (body, class) in [
        ("", Class::Upstream),
        ("<html>", Class::Upstream),
        ("{\"choices\":[", Class::Upstream),
        ("[]", Class::Upstream),
        ("\"ok\"", Class::Upstream),
        ("{}", Class::Upstream),
        (r#"{"choices":null}"#, Class::Upstream),
        (r#"{"error":"Unexpected endpoint or method."}"#, Class::Upstream),
        (r#"{"error":{"message":"provider down","code":502}}"#, Class::Upstream),
        (r#"{"choices":[],"error":{"message":"boom"}}"#, Class::Upstream),
        (r#"{"choices":[{"finish_reason":"error","message":{}}]}"#, Class::Upstream),
        (r#"{"choices":[{"finish_reason":"insufficient_system_resource"}]}"#, Class::Upstream),
        (r#"{"choices":[{"error":{"code":429,"message":"slow down"}}]}"#, Class::Throttle),
        (r#"{"code":20012,"message":"maximum context length is 10","data":null}"#, Class::Caller),
        (r#"{"error":{"message":"insufficient balance"}}"#, Class::Credential),
    ] {
        let fault = answer(&plain(), body).unwrap_err();
        assert_eq!((fault.class, fault.kind), (class, Kind::BadResponse), "{body}");
    }
    let invalid = Bytes::from_static(b"{\"choices\":[\"\xe4\xbd\"]}");
    let fault =
        dialect(Protocol::OpenAi).answer(&plain(), &target(true), &http::HeaderMap::new(), invalid).unwrap_err();
    assert_eq!(fault.kind, Kind::BadResponse);
}

#[test]
fn errors_that_say_nothing_are_none() {
    for error in ["null", "{}", "\"\"", "false"] {
        assert!(answer(&plain(), format!(r#"{{"choices":[],"error":{error}}}"#).leak()).is_ok(), "{error}");
    }
}

#[test]
fn usage_is_read_by_every_name_and_nonsense_is_ignored() {
    let known = |prompt, completion, cached| Some(Usage { prompt, completion, cached, units: 0, estimated: false });
    for (usage, expected) in [
        (r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}"#, known(10, 2, 4)),
        (r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":null}"#, known(10, 2, 0)),
        (
            r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":4}"#,
            known(10, 2, 6),
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":5,"prompt_tokens_details":{"cached_tokens":5}}"#,
            known(10, 2, 5),
        ),
        (r#"{"input_tokens":7,"output_tokens":1,"input_tokens_details":{"cached_tokens":99}}"#, known(7, 1, 7)),
        (r#"{"total_tokens":8}"#, known(8, 0, 0)),
        // xAI's own example: what was thought stands in the total alone.
        (
            r#"{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}"#,
            known(32, 103, 0),
        ),
        (r#"{"prompt_tokens":10,"total_tokens":12}"#, known(10, 2, 0)),
        (r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":3}"#, known(10, 2, 0)),
        (r#"{"prompt_tokens":-1,"completion_tokens":2}"#, None),
        (r#"{"prompt_tokens":"10","completion_tokens":2}"#, None),
        (r#"{"prompt_tokens":1e18,"completion_tokens":2}"#, None),
        (r#"{"prompt_tokens":10,"completion_tokens":1000000000000000000}"#, None),
        (r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":-3}}"#, known(10, 2, 0)),
        ("{}", None),
        ("null", None),
        ("[1]", None),
        ("7", None),
    ] {
        assert_eq!(used(usage), expected, "{usage}");
    }
    let apart = answer(&plain(), r#"{"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":2}}]}"#).unwrap();
    assert_eq!(apart.usage, known(1, 2, 0));
    let alone = r#"{"choices":[{"message":{"content":"a word or two of it"}}],"usage":{"prompt_tokens":3}}"#;
    for alone in [alone.to_owned(), alone.replace(":3}", ":3,\"completion_tokens\":null}")] {
        let guess = answer(&plain(), alone.leak()).unwrap().usage.unwrap();
        assert_eq!((guess.prompt, guess.completion > 5, guess.estimated), (3, true, true), "of what was written");
    }
    let none = alone.replace("\"prompt_tokens\":3", "\"prompt_tokens\":3,\"total_tokens\":3");
    assert_eq!(answer(&plain(), none.leak()).unwrap().usage, known(3, 0, 0), "so it is said");
    let twice = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9},"usage":{"completion_tokens":2,"prompt_tokens":1}}"#;
    assert_eq!(answer(&plain(), twice).unwrap().usage, known(1, 2, 0), "the last one counts");
    let groq =
        answer(&plain(), r#"{"choices":[],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}"#).unwrap();
    assert_eq!(groq.usage, known(1, 2, 0));
}

#[test]
fn a_whole_answer_to_a_streaming_call_becomes_the_stream_it_would_have_been() {
    let body = r#"{"id":"c","object":"chat.completion","created":7,"model":"u","service_tier":"x",
        "choices":[
            {"index":0,"message":{"role":"assistant","content":"你好\n🙂","reasoning_content":"hm","refusal":null,"vendor":1.0},
             "finish_reason":"stop","logprobs":{"content":[]},"content_filter_results":{"a":1}},
            {"index":1,"message":{"role":"assistant","content":null,
             "tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"s"},{}]},
             "finish_reason":"tool_calls"}],
        "usage":{"prompt_tokens":3,"completion_tokens":2},"timings":{"ms":1.50}}"#;
    for (fields, shows) in [("", false), (r#","n":2,"stream_options":{"include_usage":true}"#, true)] {
        let asked = streaming(fields);
        let answer = answer(&asked, body).unwrap();
        assert!(answer.is_stream);
        assert_eq!(answer.usage.unwrap().prompt, 3);
        let read = read(&asked, false, &answer.body);
        assert_eq!(read.end(), "complete");
        assert_eq!(read.text(), "你好\n🙂");
        let chunks = read.chunks();
        assert_eq!(chunks.len(), if shows { 5 } else { 4 });
        assert!(chunks.iter().all(|chunk| chunk["id"] == "c" && chunk["created"] == 7 && chunk["service_tier"] == "x"));
        assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
        let first = &chunks[0]["choices"][0];
        assert_eq!(
            (&first["delta"]["role"], &first["delta"]["reasoning_content"]),
            (&"assistant".into(), &"hm".into())
        );
        assert_eq!(
            (first["delta"]["vendor"].to_string(), first["logprobs"].to_string()),
            ("1.0".into(), "{\"content\":[]}".into())
        );
        assert_eq!(
            (&chunks[1]["choices"][0]["finish_reason"], &chunks[1]["choices"][0]["content_filter_results"]["a"]),
            (&"stop".into(), &1.into())
        );
        let calls = &chunks[2]["choices"][0]["delta"]["tool_calls"];
        assert_eq!((&calls[0]["index"], &calls[0]["id"], &calls[1]["index"]), (&0.into(), &"t".into(), &1.into()));
        assert_eq!(calls[2].to_string(), "{\"index\":2}");
        assert_eq!(chunks[3]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[3]["timings"]["ms"].to_string(), "1.50");
        if shows {
            assert_eq!(
                (&chunks[4]["choices"], &chunks[4]["usage"]["prompt_tokens"]),
                (&serde_json::json!([]), &3.into())
            );
        }
    }
}

#[test]
fn a_whole_legacy_completion_becomes_a_stream_of_its_own_form() {
    let asked = ask(Endpoint::Completions, r#"{"model":"m","prompt":"x","stream":true}"#);
    let answer =
        answer(&asked, r#"{"object":"text_completion","choices":[{"text":"hi","finish_reason":"length"}]}"#).unwrap();
    let read = read(&asked, false, &answer.body);
    assert_eq!(read.end(), "complete");
    let chunks = read.chunks();
    assert_eq!(
        chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect::<Vec<_>>(),
        ["hi", ""]
    );
    assert!(chunks.iter().all(|chunk| chunk["object"] == "text_completion"));
    assert_eq!(chunks[1]["choices"][0]["finish_reason"], "length");
}

#[test]
fn other_endpoints_pass_through() {
    let speech = ask(Endpoint::AudioSpeech, r#"{"model":"m","input":"x"}"#);
    let headers =
        http::HeaderMap::from_iter([(http::header::CONTENT_TYPE, http::HeaderValue::from_static("audio/mpeg"))]);
    let sound = Bytes::from_static(b"{\xff\xfb");
    let answer_of = |ask: &Ask, headers: &http::HeaderMap, body: &Bytes| {
        dialect(Protocol::OpenAi).answer(ask, &target(true), headers, body.clone())
    };
    assert_eq!(answer_of(&speech, &headers, &sound).unwrap().body.as_ptr(), sound.as_ptr());
    let text = Bytes::from_static(b"1\n00:00:01 --> 00:00:02\nhi");
    assert!(answer_of(&speech, &http::HeaderMap::new(), &text).is_ok());
    let responses = ask(Endpoint::Responses, r#"{"model":"m","input":"x"}"#);
    let done = r#"{"object":"response","error":null,"usage":{"input_tokens":4,"output_tokens":1,"input_tokens_details":{"cached_tokens":2}}}"#;
    let known = answer(&responses, done).unwrap();
    assert_eq!(known.usage, Some(Usage { prompt: 4, completion: 1, cached: 2, units: 0, estimated: false }));
    assert_eq!(known.body, done);
    assert!(answer(&responses, "<html>").is_err());
    assert_eq!(
        answer(&responses, r#"{"status":"failed","error":{"code":"server_error","message":"x"}}"#).unwrap_err().class,
        Class::Upstream
    );
    let images = ask(Endpoint::ImagesGenerations, r#"{"model":"m","prompt":"x"}"#);
    assert_eq!(
        answer(&images, r#"{"error":{"code":"content_policy_violation","message":"x"}}"#).unwrap_err().class,
        Class::Caller
    );
    for nothing in ["<html>", r#"{"created":1,"data":[{"url"#, ""] {
        let body = Bytes::from(nothing);
        assert!(answer_of(&images, &headers, &body).is_err(), "{nothing}");
    }
    for nothing in [r#"{"text":"#, ""] {
        assert!(answer_of(&speech, &http::HeaderMap::new(), &Bytes::from(nothing)).is_err(), "{nothing}");
    }
}

#[test]
fn a_whole_response_to_a_streaming_call_becomes_its_last_event() {
    let asked = ask(Endpoint::Responses, r#"{"model":"m","input":"x","stream":true}"#);
    let answer = answer(
        &asked,
        "{\"object\":\"response\",\n\"status\":\"completed\",\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}",
    )
    .unwrap();
    assert!(answer.is_stream);
    let read = read(&asked, false, &answer.body);
    assert_eq!((read.end(), read.progress.usage.unwrap().prompt), ("complete", 4));
    assert!(read.out.starts_with("event: response.completed\n"));
}
