//! Streams of chunks.

use base::{Class, Kind, Usage};

use super::*;

fn plain() -> Ask {
    streaming("")
}

fn wanting_usage() -> Ask {
    streaming(r#","stream_options":{"include_usage":true}"#)
}

fn hello() -> String {
    [
        delta(r#"{"role":"assistant","content":""}"#),
        delta(r#"{"content":"Hel"}"#),
        delta(r#"{"content":"lo"}"#),
        delta(r#"{"content":"!"}"#),
        finish(),
    ]
    .concat()
}

#[test]
fn an_untouched_stream_is_passed_on_without_a_copy() {
    let chunk = Bytes::from(hello() + &done());
    let mut decoder = dialect(Protocol::OpenAi).decoder(&plain(), &target(true));
    let out = decoder.feed(chunk.clone());
    assert_eq!((out.as_ptr(), out.len()), (chunk.as_ptr(), chunk.len()));
    assert!(decoder.progress().finished && decoder.progress().done);
    assert_eq!(decoder.progress().text_chars, 6);
}

#[test]
fn every_cut_of_a_stream_gives_the_same() {
    let stream = hello().replace("lo", "你好，世界🙂👨‍👩‍👧𠮷\\ud83d\\ude42") + &usage(3, 4) + &done();
    for ask in [plain(), wanting_usage()] {
        let whole = read(&ask, true, stream.as_bytes());
        assert_eq!((whole.end(), whole.text().as_str()), ("complete", "Hel你好，世界🙂👨‍👩‍👧𠮷🙂!"));
        for cut in 0..stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            let parts = feed(&ask, true, [head, tail].into_iter());
            assert_eq!((&parts.out, parts.progress.usage), (&whole.out, whole.progress.usage), "cut at {cut}");
        }
    }
}

#[test]
fn a_stream_ends_in_exactly_one_way() {
    let unfinished = delta(r#"{"content":"Hel"}"#);
    for (stream, end) in [
        (hello() + &done(), "complete"),
        (hello(), "complete"),
        (hello() + "data: [DONE]", "complete"),
        (hello() + "data: [DONE]   \n\n", "complete"),
        (unfinished.clone() + &done(), "done"),
        (unfinished.clone(), "cut"),
        (unfinished.clone() + "data: {\"choices\":[{\"del", "cut"),
        (unfinished.clone() + "data: [DON", "cut"),
        (unfinished.clone() + finish().trim_end(), "complete"),
        (String::new(), "cut"),
        (": ping\n\n".to_owned(), "cut"),
        (done(), "done"),
    ] {
        let read = read(&plain(), true, stream.as_bytes());
        assert_eq!(read.end(), end, "{stream}");
        assert_eq!(
            read.data().last().is_some_and(|last| last == "[DONE]"),
            matches!(end, "complete" | "done"),
            "{stream}"
        );
    }
}

#[test]
fn nothing_follows_the_end() {
    let stream = hello() + &done() + &delta(r#"{"content":"more"}"#) + &event(r#"{"error":"late"}"#);
    let read = read(&plain(), true, stream.as_bytes());
    assert_eq!((read.end(), read.text().as_str()), ("complete", "Hello!"));
}

#[test]
fn comments_and_keepalives_are_dropped_and_are_no_content() {
    let noise = ": PROCESSING\n\n:\n\ndata: : keepalive\n\ndata:\n\ndata:   \n\n";
    let quiet = read(&plain(), true, noise.as_bytes());
    assert!(!quiet.progress.content);
    assert_eq!(quiet.out, "");
    let stream = noise.to_owned() + &hello() + noise + &done();
    assert_eq!(read(&plain(), true, stream.as_bytes()).out, hello() + &done());
}

#[test]
fn only_what_says_something_is_content() {
    for (delta_text, is_content) in [
        (r#"{"role":"assistant","content":""}"#, false),
        (r#"{"role":"assistant","content":null,"refusal":null}"#, false),
        (r#"{"tool_calls":[]}"#, false),
        ("{}", false),
        ("null", false),
        (r#"{"content":" "}"#, true),
        (r#"{"content":[{"type":"text","text":"x"}]}"#, true),
        (r#"{"reasoning_content":"x"}"#, true),
        (r#"{"reasoning":"x","content":null}"#, true),
        (r#"{"refusal":"x"}"#, true),
        (r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#, true),
        (r#"{"function_call":{"name":"f"}}"#, true),
        (r#"{"audio":{"id":"a"}}"#, true),
    ] {
        let read = read(&plain(), true, delta(delta_text).as_bytes());
        assert_eq!(read.progress.content, is_content, "{delta_text}");
    }
    assert!(read(&plain(), true, finish().as_bytes()).progress.content);
    let azure = event(r#"{"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#);
    let filtered = read(&plain(), true, azure.as_bytes());
    assert!(!filtered.progress.content);
    assert_eq!(filtered.out, azure);
}

#[test]
fn usage_is_hidden_from_callers_who_did_not_ask_and_counted() {
    let asked_for = hello().replace("}]}", r#"}],"usage":null}"#) + &usage(3, 4) + &done();
    let hidden = read(&plain(), true, asked_for.as_bytes());
    assert_eq!(hidden.out, hello() + &done());
    assert_eq!(hidden.progress.usage, Some(Usage { prompt: 3, completion: 4, ..Usage::default() }));
    let explicit = streaming(r#","stream_options":{"include_usage":false}"#);
    assert_eq!(read(&explicit, true, asked_for.as_bytes()).out, hello() + &done());
    let on_finish = hello()
        + &event(r#"{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":3,"completion_tokens":4}, "x":1}"#);
    let hidden = read(&plain(), true, on_finish.as_bytes());
    assert_eq!(hidden.out, hello() + &event(r#"{"choices":[{"index":0,"delta":{}}],"x":1}"#) + &done());
    assert_eq!(hidden.progress.usage.unwrap().prompt, 3);
}

#[test]
fn usage_is_shown_once_before_the_end_to_callers_who_asked() {
    let early = usage(1, 1) + &hello() + &usage(3, 4) + &done();
    for stream in [hello() + &usage(3, 4) + &done(), early, hello() + &usage(3, 4)] {
        let shown = read(&wanting_usage(), true, stream.as_bytes());
        assert_eq!(shown.out, hello() + &usage(3, 4) + &done());
        assert_eq!(shown.progress.usage.unwrap().completion, 4);
    }
    let on_finish =
        hello().replace(r#""stop"}]"#, r#""stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}"#) + &done();
    assert_eq!(read(&wanting_usage(), true, on_finish.as_bytes()).out, on_finish);
}

#[test]
fn usage_in_odd_places_is_counted_and_shown_where_sdks_look() {
    let moonshot = hello().replace(
        r#""finish_reason":"stop""#,
        r#""finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":4}"#,
    );
    let groq =
        hello().replace(r#""stop"}]"#, r#""stop"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":4}}"#);
    for stream in [moonshot + &done(), groq + &done()] {
        let quiet = read(&plain(), true, stream.as_bytes());
        assert_eq!((quiet.progress.usage.unwrap().prompt, &quiet.out), (3, &stream));
        let shown = read(&wanting_usage(), true, stream.as_bytes());
        let chunks = shown.chunks();
        let last = chunks.last().unwrap();
        assert_eq!(
            (&last["choices"], &last["usage"]["completion_tokens"], &last["id"]),
            (&serde_json::json!([]), &4.into(), &"c".into())
        );
        let doubled = stream.replace("data: [DONE]", (usage(3, 4) + "data: [DONE]").trim_end());
        assert_eq!(read(&wanting_usage(), true, doubled.as_bytes()).chunks().len(), chunks.len());
    }
}

#[test]
fn what_comes_after_the_last_word_on_usage_is_guessed() {
    let told = |stream: &str| read(&plain(), true, stream.as_bytes()).progress.used(7);
    let guess = told(&hello());
    assert_eq!((guess.prompt, guess.completion > 0, guess.estimated), (7, true, true));
    let early = told(&(usage(3, 1) + &hello()));
    assert_eq!((early.prompt, early.completion, early.estimated), (3, 1 + guess.completion, true));
    let last = told(&(usage(3, 1) + &hello() + &usage(3, 4)));
    assert_eq!((last.completion, last.estimated), (4, false));
    let prompt_alone = usage(3, 1).replace(",\"completion_tokens\":1", "");
    let half = told(&(hello() + &prompt_alone));
    assert_eq!((half.prompt, half.completion, half.estimated), (3, guess.completion, true));
}

#[test]
fn the_last_usage_counts_and_nonsense_does_not() {
    let running = usage(3, 1)
        + &hello()
        + &usage(3, 9)
        + &event(r#"{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":"x"}}"#);
    assert_eq!(read(&plain(), true, running.as_bytes()).progress.usage.unwrap().completion, 9);
}

#[test]
fn a_chunk_without_choices_in_mid_stream_is_harmless() {
    let empty = event(r#"{"id":"c","object":"chat.completion.chunk","choices":[]}"#);
    let stream = delta(r#"{"content":"Hello!"}"#) + &empty + &finish() + &done();
    assert_eq!(read(&plain(), true, stream.as_bytes()).out, stream.replace(&empty, ""));
    assert_eq!(read(&wanting_usage(), true, stream.as_bytes()).out, stream);
}

#[test]
fn each_choice_has_to_end() {
    let finish_of =
        |index: u64| event(&format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}"#));
    let piece_of = |index: u64| event(&format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"x"}}}}]}}"#));
    let two = streaming(r#","n":2"#);
    for (stream, end) in [
        (piece_of(0) + &piece_of(1) + &finish_of(1) + &finish_of(0), "complete"),
        (piece_of(0) + &piece_of(1) + &finish_of(1), "cut"),
        (piece_of(0) + &finish_of(0), "cut"),
        (piece_of(0) + &finish_of(0) + &done(), "complete"),
        (piece_of(0) + &piece_of(1) + &finish_of(0) + &done(), "done"),
        (event(r#"{"choices":[{"delta":{},"finish_reason":"stop"},{"delta":{},"finish_reason":"stop"}]}"#), "complete"),
        (finish_of(u64::MAX) + &finish_of(0), "complete"),
    ] {
        assert_eq!(read(&two, true, stream.as_bytes()).end(), end, "{stream}");
    }
    let prompts = ask(Endpoint::Completions, r#"{"model":"m","prompt":["a","b"],"n":2,"stream":true}"#);
    assert_eq!(prompts.chat().unwrap().choices, 4);
}

#[test]
fn legacy_completions_are_read_by_their_text() {
    let asked = ask(Endpoint::Completions, r#"{"model":"m","prompt":[1,2],"stream":true}"#);
    let stream = event(r#"{"choices":[{"text":"","index":0}]}"#)
        + &event(r#"{"choices":[{"text":"好的","index":0,"finish_reason":"length"}]}"#)
        + &done();
    let read = read(&asked, true, stream.as_bytes());
    assert_eq!((read.end(), read.progress.text_chars, read.out), ("complete", 2, stream));
}

#[test]
fn an_error_in_a_stream_is_classed_by_what_it_says_and_nothing_follows() {
    let tail = delta(r#"{"content":"x"}"#) + &done();
    for (error, class) in [
        (event(r#"{"error":{"message":"boom","code":500}}"#), Class::Upstream),
        (event(r#"{"error":"boom"}"#), Class::Upstream),
        (
            event(
                r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":502,"message":"down"}}"#,
            ),
            Class::Upstream,
        ),
        (event(r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#), Class::Upstream),
        (
            event(r#"{"object":"error","message":"This model's maximum context length is 10 tokens","code":400}"#),
            Class::Caller,
        ),
        (event(r#"{"error":{"message":"x","type":"exceed_context_size_error","code":400}}"#), Class::Caller),
        (event(r#"{"error":{"message":"slow down","code":429}}"#), Class::Throttle),
        (event(r#"{"detail":"gone"}"#), Class::Upstream),
        ("event: error\ndata: the engine died\n\n".to_owned(), Class::Upstream),
        ("event: error\ndata: {\"message\":\"the engine died\"}\n\n".to_owned(), Class::Upstream),
        (event("<html>"), Class::Upstream),
        (event("[1]"), Class::Upstream),
        (event("null"), Class::Upstream),
    ] {
        let failed = read(&plain(), true, (hello() + &error + &tail).as_bytes());
        assert_eq!((failed.end(), failed.out.as_str()), ("failed", hello().as_str()), "{error}");
        let fault = failed.progress.fault.unwrap();
        assert_eq!((fault.class, fault.kind), (class, Kind::BadResponse), "{error}");
        assert!(!read(&plain(), true, error.as_bytes()).progress.content, "{error}");
    }
}

#[test]
fn invalid_text_fails_a_stream_and_is_never_repaired() {
    let stream = [hello().as_bytes(), b"data: {\"choices\":[{\"delta\":{\"content\":\"\xe4\xbd\"}}]}\n\n"].concat();
    let failed = read(&plain(), true, &stream);
    assert_eq!((failed.end(), failed.out), ("failed", hello()));
}

#[test]
fn an_endless_event_fails_a_stream() {
    let stream = [b"data: ".as_slice(), &vec![b'x'; crate::sse::EVENT_MAX]].concat();
    assert_eq!(feed(&plain(), true, stream.chunks(65_536)).end(), "failed");
}

#[test]
fn events_with_carriage_returns_come_out_plain() {
    let stream = (hello() + &done()).replace('\n', "\r\n");
    assert_eq!(read(&plain(), true, stream.as_bytes()).out, hello() + &done());
}

#[test]
fn the_arguments_of_tool_calls_are_counted_as_text() {
    let stream =
        delta(r#"{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{\"city\":\"北京\"}"}}]}"#);
    assert_eq!(read(&plain(), true, stream.as_bytes()).progress.text_chars, 13);
}

#[test]
fn chunks_of_one_shape_are_told_from_chunks_that_only_look_alike() {
    let piece = |text: &str| delta(&format!(r#"{{"content":{text}}}"#));
    let stream = |odd: &str| piece("\"a\"") + &piece("\"好\\n\"") + &piece(odd) + &finish() + &done();
    let plain_one = read(&plain(), true, stream(r#""""#).as_bytes());
    assert_eq!((plain_one.end(), plain_one.progress.text_chars, plain_one.out), ("complete", 3, stream(r#""""#)));
    // Between the same bytes stands more than one text: a second choice's end among it.
    let smuggled = r#""x"},"finish_reason":"stop"},{"index":0,"delta":{"content":"y""#;
    let read_smuggled = read(&plain(), true, (piece("\"a\"") + &piece(smuggled)).as_bytes());
    assert_eq!((read_smuggled.end(), read_smuggled.progress.text_chars), ("complete", 3));
    for garbage in ["\"\\x\"", "\"\u{1}\"", "\"a\" \"b\"", "x", ""] {
        assert_eq!(read(&plain(), true, stream(garbage).as_bytes()).end(), "failed", "{garbage}");
    }
    let usage_before =
        |text: &str| event(&format!(r#"{{"usage":null,"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#));
    let hidden = read(&plain(), true, (usage_before("a") + &usage_before("bcd") + &usage_before("好")).as_bytes());
    assert_eq!(
        hidden.out,
        (usage_before("a") + &usage_before("bcd") + &usage_before("好")).replace("\"usage\":null,", "")
    );
}
