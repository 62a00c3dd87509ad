//! Ollama's chat in OpenAI's words, streamed and whole.

use base::{Endpoint, Kind};
use bytes::Bytes;
use dialect::{Ask, Progress, Protocol, dialect};
use serde_json::{Value, json};

use crate::support::{answer, ask, sent, target, text, tree};

const TEXT: &str = "你好，世界🙂👨‍👩‍👧𠮷";

fn call(more: Value) -> Ask {
    let mut body = json!({"model": "c", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(Endpoint::Chat, &body.to_string())
}

fn streaming() -> Ask {
    call(json!({"stream": true}))
}

/// Feeds a stream in pieces and returns what came out, and the end state.
fn stream<'a>(ask: &Ask, pieces: impl IntoIterator<Item = &'a [u8]>) -> (String, Progress) {
    let mut decoder = dialect(Protocol::Ollama).decoder(ask, &target("/"));
    let mut out = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&decoder.feed(Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&decoder.finish());
    (String::from_utf8(out).unwrap(), decoder.progress().clone())
}

fn line(message: Value) -> String {
    json!({"model": "q", "created_at": "2024-02-29T12:00:00Z", "message": message, "done": false}).to_string() + "\n"
}

fn end() -> String {
    let end = json!({"model": "q", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 5});
    end.to_string() + "\n"
}

fn chunks(sse: &str) -> Vec<Value> {
    let data = sse.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| tree(data.as_bytes())).collect()
}

fn said(sse: &str) -> String {
    chunks(sse).iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

#[test]
fn characters_survive_every_cut() {
    let arguments = json!({"text": TEXT});
    let call = json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]});
    let whole = line(json!({"role": "assistant", "content": TEXT}))
        + &line(json!({"role": "assistant", "content": "!"}))
        + &line(call)
        + &end();
    let ask = streaming();
    let (at_once, progress) = stream(&ask, [whole.as_bytes()]);
    assert_eq!(said(&at_once), format!("{TEXT}!"));
    assert!(at_once.ends_with("data: [DONE]\n\n"));
    assert!(progress.finished && progress.done && progress.content && progress.fault.is_none());
    assert_eq!(progress.usage.map(|usage| (usage.prompt, usage.completion, usage.estimated)), Some((3, 5, false)));
    let function = json!({"name": "f", "arguments": arguments}).to_string();
    assert_eq!(progress.text_chars, (TEXT.chars().count() + 1 + function.chars().count()) as u64);
    let called = chunks(&at_once).iter().find_map(|chunk| {
        chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
    });
    assert_eq!(tree(called.unwrap().as_bytes()), arguments);
    for at in 0..whole.len() {
        let (before, behind) = whole.as_bytes().split_at(at);
        assert_eq!(stream(&ask, [before, behind]).0, at_once, "cut at {at}");
    }
    assert_eq!(stream(&ask, whole.as_bytes().chunks(1)).0, at_once);
    assert_eq!(stream(&ask, [whole.trim_end().as_bytes()]).0, at_once, "without the last newline");
}

#[test]
fn chunks_share_one_identity_and_the_role_comes_once() {
    let whole = line(json!({"content": ""})) + &line(json!({"content": "a"})) + &line(json!({"content": "b"})) + &end();
    let (sse, _) = stream(&streaming(), [whole.as_bytes()]);
    let chunks = chunks(&sse);
    assert_eq!(chunks.len(), 3);
    for chunk in &chunks {
        assert_eq!(
            (&chunk["id"], &chunk["created"], &chunk["model"]),
            (&chunks[0]["id"], &json!(1_709_208_000), &json!("q"))
        );
        assert_eq!(chunk["object"], json!("chat.completion.chunk"));
    }
    let roles: Vec<_> = chunks.iter().map(|chunk| chunk["choices"][0]["delta"].get("role").is_some()).collect();
    assert_eq!(roles, [true, false, false]);
    assert_eq!(chunks[2]["choices"][0]["finish_reason"], json!("stop"));
}

#[test]
fn usage_is_shown_to_callers_who_asked_only() {
    for (options, shown) in
        [(json!(null), false), (json!({"include_usage": false}), false), (json!({"include_usage": true}), true)]
    {
        let ask = call(json!({"stream": true, "stream_options": options}));
        let (sse, progress) = stream(&ask, [end().as_bytes()]);
        let chunks = chunks(&sse);
        assert_eq!(chunks.iter().any(|chunk| chunk.get("usage").is_some()), shown, "{options}");
        assert_eq!(chunks.iter().any(|chunk| chunk["choices"] == json!([])), shown);
        assert_eq!(progress.usage.unwrap().completion, 5);
    }
}

#[test]
fn a_stream_without_its_last_line_is_cut() {
    let (sse, progress) = stream(&streaming(), [line(json!({"content": "a"})).as_bytes()]);
    assert_eq!(said(&sse), "a");
    assert!(!sse.contains("[DONE]") && !sse.contains("\"stop\""));
    assert_eq!(progress.fault.unwrap().kind, Kind::Cut);
    let half = line(json!({"content": "a"})) + "{\"mess";
    assert_eq!(stream(&streaming(), [half.as_bytes()]).1.fault.unwrap().kind, Kind::Cut);
}

#[test]
fn an_error_line_and_garbage_end_the_stream_without_a_word() {
    for bad in [
        "{\"error\":\"model runner has unexpectedly stopped\"}\n",
        "not json\n",
        "{\"message\":\"\u{fffd}\"}\n",
        "[]\n",
    ] {
        let whole = line(json!({"content": "a"})) + bad + &line(json!({"content": "b"})) + &end();
        let (sse, progress) = stream(&streaming(), [whole.as_bytes()]);
        assert_eq!(said(&sse), "a", "{bad}");
        assert!(!sse.contains("[DONE]"));
        assert_eq!(progress.fault.unwrap().kind, Kind::BadResponse, "{bad}");
    }
    let invalid = [line(json!({"content": "a"})).as_bytes(), b"{\"message\":{\"content\":\"\xff\"}}\n"].concat();
    assert!(stream(&streaming(), [&invalid[..]]).1.fault.is_some());
}

#[test]
fn a_whole_answer_to_a_streaming_call_is_made_a_stream() {
    let whole = json!({"model": "q", "message": {"role": "assistant", "content": TEXT}, "done": true, "prompt_eval_count": 3, "eval_count": 5});
    let answer = answer(Protocol::Ollama, &streaming(), &format!("{whole:#}")).unwrap();
    assert!(answer.is_stream);
    assert_eq!(said(text(&answer)), TEXT);
    assert!(text(&answer).ends_with("data: [DONE]\n\n"));
    assert_eq!(answer.usage.unwrap().completion, 5);
}

#[test]
fn a_prompt_that_was_not_counted_is_guessed() {
    let whole = json!({"message": {"role": "assistant", "content": "a"}, "done": true, "eval_count": 5});
    let usage = answer(Protocol::Ollama, &call(json!({})), &whole.to_string()).unwrap().usage.unwrap();
    assert!(usage.estimated && usage.prompt > 0);
    assert_eq!(usage.completion, 5);
}

#[test]
fn an_image_is_guessed_as_an_image_and_not_as_text() {
    let url = format!("data:image/png;base64,{}", "A".repeat(400_000));
    let content = json!([{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]);
    let messages = json!({"messages": [{"role": "user", "content": content}]});
    let whole = json!({"message": {"role": "assistant", "content": "a"}, "done": true, "eval_count": 5}).to_string();
    for is_stream in [false, true] {
        let mut body = messages.clone();
        body["stream"] = is_stream.into();
        let usage = answer(Protocol::Ollama, &call(body), &whole).unwrap().usage.unwrap();
        assert!((1_600..1_800).contains(&usage.prompt), "{}", usage.prompt);
    }
}

#[test]
fn an_answer_that_was_not_counted_is_guessed() {
    let words = "word ".repeat(200);
    let message = json!({"role": "assistant", "content": words});
    let done = |message: &Value| json!({"message": message, "done": true, "prompt_eval_count": 3}).to_string();
    let whole = answer(Protocol::Ollama, &call(json!({})), &done(&message)).unwrap().usage.unwrap();
    let pieces = line(message) + &done(&json!({"role": "assistant", "content": ""}));
    let streamed = stream(&streaming(), [pieces.as_bytes()]).1.used(7);
    for usage in [whole, streamed] {
        assert_eq!((usage.prompt, usage.completion, usage.estimated), (3, 500, true));
    }
}

#[test]
fn a_tool_call_of_a_stream_that_is_cut_counts() {
    let function = json!({"name": "f", "arguments": {"q": "word ".repeat(200)}});
    let cut = line(json!({"role": "assistant", "content": "", "tool_calls": [{"function": function}]}));
    let used = stream(&streaming(), [cut.as_bytes()]).1.used(7);
    assert_eq!(used.prompt, 7);
    assert!((500..600).contains(&used.completion), "{}", used.completion);
}

#[test]
fn an_error_or_something_else_inside_a_200_is_a_fault() {
    for body in [r#"{"error":"model not found"}"#, r#"{"done":true}"#, "[]", "", "<html>"] {
        assert_eq!(answer(Protocol::Ollama, &call(json!({})), body).unwrap_err().kind, Kind::BadResponse, "{body}");
    }
}

#[test]
fn streaming_is_always_said_outright() {
    for (field, said) in [(json!(null), false), (json!(false), false), (json!(true), true)] {
        let body = tree(sent(Protocol::Ollama, &call(json!({ "stream": field }))).as_bytes());
        assert_eq!(body["stream"], json!(said));
    }
}

#[test]
fn what_ollama_has_no_word_for_stays_behind_and_nulls_too() {
    let body = sent(
        Protocol::Ollama,
        &call(json!({
            "user": "u", "store": true, "logit_bias": {"1": 1}, "parallel_tool_calls": false, "n": 1, "temperature": null,
            "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none", "max_tokens": 5,
        })),
    );
    assert_eq!(
        body,
        r#"{"model":"m-1","messages":[{"role":"user","content":"hi"}],"stream":false,"options":{"num_predict":5}}"#
    );
}

#[test]
fn an_answer_is_no_longer_than_the_field_and_the_option_allow() {
    for (fields, most) in [
        (json!({"max_tokens": 50, "options": {"num_predict": 99999}}), json!(50)),
        (json!({"max_tokens": 50, "options": {"num_predict": -1}}), json!(50)),
        (json!({"max_completion_tokens": 50, "options": {"num_predict": "many"}}), json!(50)),
        (json!({"max_tokens": 50, "options": {"num_predict": 20}}), json!(20)),
        (json!({"options": {"num_predict": 20}}), json!(20)),
    ] {
        let body = tree(sent(Protocol::Ollama, &call(fields.clone())).as_bytes());
        assert_eq!(body["options"]["num_predict"], most, "{fields}");
    }
}

#[test]
fn reasoning_effort_and_formats_are_mapped() {
    for (more, right) in [
        (json!({"reasoning_effort": "none"}), json!({"think": false})),
        (json!({"reasoning_effort": "minimal"}), json!({"think": "low"})),
        (json!({"reasoning_effort": "xhigh"}), json!({"think": "high"})),
        (json!({"reasoning_effort": "high", "think": true}), json!({"think": true})),
        (json!({"response_format": {"type": "json_object"}}), json!({"format": "json"})),
        (json!({"response_format": {"type": "text"}}), json!({})),
        (
            json!({"stop": ["a", "b"], "presence_penalty": 1}),
            json!({"options": {"stop": ["a", "b"], "presence_penalty": 1}}),
        ),
    ] {
        let mut expected = json!({"model": "m-1", "messages": [{"role": "user", "content": "hi"}], "stream": false});
        expected.as_object_mut().unwrap().extend(right.as_object().unwrap().clone());
        assert_eq!(tree(sent(Protocol::Ollama, &call(more.clone())).as_bytes()), expected, "{more}");
    }
}

#[test]
fn what_would_change_the_answer_is_refused_by_name() {
    let message = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    for (more, param) in [
        (json!({"n": 2}), "n"),
        (message(json!([{"type": "image_url", "image_url": {"url": "https://x/a.png"}}])), "messages[0].content"),
        (message(json!([{"type": "input_audio", "input_audio": {}}])), "messages[0].content"),
        (message(json!(5)), "messages[0].content"),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}),
            "messages[0].tool_calls",
        ),
        (json!({"messages": [{"content": "x"}]}), "messages[0].role"),
    ] {
        let refusal = dialect(Protocol::Ollama).encode(&call(more.clone()), &target("/")).unwrap_err();
        assert_eq!(refusal.param.as_deref(), Some(param), "{more}");
    }
}

#[test]
fn paths_take_the_bare_host_and_tolerate_more() {
    for base in ["/", "", "/v1", "/v1/", "/api", "/api/"] {
        let place = |endpoint| dialect::Place { endpoint, model: "m", api_version: None };
        assert_eq!(dialect(Protocol::Ollama).path(base, &place(Endpoint::Chat)).unwrap(), "/api/chat", "{base}");
        assert_eq!(dialect(Protocol::Ollama).path(base, &place(Endpoint::Embeddings)).unwrap(), "/api/embed");
        assert!(dialect(Protocol::Ollama).path(base, &place(Endpoint::Rerank)).is_err());
    }
}
