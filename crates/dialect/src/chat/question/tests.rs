//! Where questions stand, what stands around them, and what is no question at all.

use super::*;

fn ask(messages: &str, more: &str) -> Ask {
    let body = format!(r#"{{"model":"m","messages":[{messages}]{more}}}"#);
    Ask::read(Endpoint::Chat, None, Bytes::from(body)).unwrap()
}

fn say(role: &str, text: &str) -> String {
    format!(r#"{{"role":"{role}","content":{}}}"#, json::quoted(text))
}

fn tag() -> Retrieval {
    Retrieval::Tag("context".into())
}

fn asked(messages: &str) -> Result<Question, NoQuestion> {
    question(&ask(messages, ""), None, None, Some(&tag()))
}

/// What decides beside the question.
fn around(ask: &Ask, question: &Question) -> Vec<u8> {
    let mut out = Vec::new();
    ask.around_question(question, &mut |piece| out.extend_from_slice(piece)).unwrap();
    out
}

fn around_last(messages: &str, more: &str) -> Vec<u8> {
    let ask = ask(messages, more);
    around(&ask, &question(&ask, None, None, Some(&tag())).unwrap())
}

#[test]
fn the_last_user_message_is_the_question() {
    let found = asked(&[say("system", "Be brief."), say("user", " Why?\n")].join(",")).unwrap();
    assert_eq!((found.text.as_str(), found.source, found.has_other_turns), ("Why?", Source::Message, false));
    let parts =
        r#"{"role":"user","content":[{"type":"text","text":"<context>a</context>"},{"type":"text","text":"Why?"}]}"#;
    assert_eq!(asked(parts).unwrap().text, "Why?");
    assert_eq!(asked(&say("user", "<context>a</context>\n<context>b</context>\n为什么?")).unwrap().text, "为什么?");
    // A message of passages alone asks nothing.
    let behind = [say("user", "Why?"), say("user", "<context>a</context>")].join(",");
    assert_eq!(asked(&behind).unwrap().text, "Why?");
}

#[test]
fn what_the_caller_says_is_the_question_goes_first() {
    let ask = ask(&say("user", "Use this: lorem ipsum\n\nQuestion: Why?"), "");
    let pattern = Pattern::new(r"Question:\s*(.+)$").unwrap();
    let found = question(&ask, Some(" Why? "), Some(&pattern), None).unwrap();
    assert_eq!((found.text.as_str(), found.source), ("Why?", Source::Explicit));
    let found = question(&ask, None, Some(&pattern), None).unwrap();
    assert_eq!((found.text.as_str(), found.source), ("Why?", Source::Extracted));
    let other = Pattern::new(r"Frage: (.+)$").unwrap();
    let found = question(&ask, None, Some(&other), None).unwrap();
    assert_eq!(found.source, Source::Message);
    assert_eq!(question(&ask, Some("  "), None, None).unwrap().source, Source::Message);
}

#[test]
fn the_message_of_an_explicit_or_extracted_question_is_left_out_whole() {
    let with = |passage: &str, question: &str| {
        ask(&[say("system", "Be brief."), say("user", &format!("{passage}\nQ: {question}"))].join(","), "")
    };
    let (one, other) = (with("lorem", "Why?"), with("ipsum dolor", "What for?"));
    let pattern = Pattern::new("Q: (.+)").unwrap();
    let explicit = |ask: &Ask, text: &str| around(ask, &question(ask, Some(text), None, None).unwrap());
    let extracted = |ask: &Ask| around(ask, &question(ask, None, Some(&pattern), None).unwrap());
    assert_eq!(explicit(&one, "Why?"), explicit(&other, "What for?"));
    assert_eq!(extracted(&one), extracted(&other));
    // A question that nobody asks leaves nothing out, and says so.
    assert_ne!(explicit(&one, "Who?"), explicit(&other, "Who?"));
    let stands = |text: Option<&str>| question(&one, text, None, None).unwrap().is_in_message;
    assert_eq!([stands(Some("Why?")), stands(None), stands(Some("why?"))], [true, true, false]);
}

#[test]
fn everything_around_the_question_decides() {
    let user = say("user", "Why?");
    let calls = [
        around_last(&user, ""),
        around_last(&user, r#","temperature":0.1"#),
        around_last(&user, r#","max_tokens":5"#),
        around_last(&user, r#","tools":[{"type":"function"}]"#),
        around_last(&user, r#","response_format":{"type":"json_object"}"#),
        around_last(&[say("system", "Be brief."), user.clone()].join(","), ""),
        around_last(&[say("system", "Be long."), user.clone()].join(","), ""),
        around_last(&[say("user", "Hi"), say("assistant", "Hello"), user.clone()].join(","), ""),
        around_last(&[say("user", "Hi"), say("assistant", "Hey"), user.clone()].join(","), ""),
        around_last(r#"{"role":"user","content":"Why?","name":"bob"}"#, ""),
    ];
    for (at, one) in calls.iter().enumerate() {
        assert!(calls.iter().skip(at + 1).all(|other| other != one), "{at}");
    }
    // The question itself, who asks, and spelling do not.
    assert_eq!(around_last(&say("user", "What is the reason?"), r#","user":"alice","stream":true"#), calls[0]);
    assert_eq!(around_last(&say("user", "Why?"), r#", "temperature" : 1e-1"#), calls[1]);
    assert_eq!(around_last(r#"{"content":[{"type":"text","text":"Why?"}],"role":"user"}"#, ""), calls[0]);
}

#[test]
fn passages_leave_no_trace_however_many_there_are() {
    let passages = |count: usize| "<context id=\"1\">p</context>\n".repeat(count);
    let inline = |count: usize| {
        let system = say("system", &format!("Answer from this:\n{}Be brief.", passages(count)));
        around_last(&[system, say("user", "Why?")].join(","), "")
    };
    assert_eq!(inline(1), inline(2));
    assert_eq!(inline(1), inline(7));
    let parts = |count: usize| {
        let part = r#"{"type":"text","text":"<context>p</context>"},"#.repeat(count);
        let system = format!(r#"{{"role":"system","content":[{part}{{"type":"text","text":"Be brief."}}]}}"#);
        around_last(&[system, say("user", "Why?")].join(","), "")
    };
    assert_eq!(parts(1), parts(3));
    assert_eq!(parts(0), parts(1));
    let messages = |count: usize| {
        let mut all = vec![say("user", &passages(1)); count];
        all.push(say("user", "Why?"));
        around_last(&all.join(","), "")
    };
    assert_eq!(messages(1), messages(3));
    assert_eq!(messages(0), messages(1));
    // What stands between them stays.
    let with = |between: &str| {
        let system = say("system", &format!("<context>a</context>{between}<context>b</context>"));
        around_last(&[system, say("user", "Why?")].join(","), "")
    };
    assert_ne!(with("and"), with("or"));
    assert_eq!(with(" \u{3000}"), with("\n"));
}

#[test]
fn passages_are_known_by_role_or_name_too() {
    for (retrieval, passage) in [
        (Retrieval::Role("context".into()), r#"{"role":"context","content":"p"}"#),
        (Retrieval::Name("kb".into()), r#"{"role":"user","name":"kb","content":"p"}"#),
    ] {
        let with = |messages: &[&str]| {
            let ask = ask(&messages.join(","), "");
            let found = question(&ask, None, None, Some(&retrieval)).unwrap();
            assert_eq!((found.text.as_str(), found.has_other_turns), ("Why?", false));
            around(&ask, &found)
        };
        let user = say("user", "Why?");
        assert_eq!(with(&[&user]), with(&[passage, &user, passage]), "{passage}");
    }
    // A tool's result keeps its place, and the conversation is more than a question.
    let tool = Retrieval::Role("tool".into());
    let with = |result: &str| {
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}"#;
        let result = format!(r#"{{"role":"tool","tool_call_id":"a","content":"{result}"}}"#);
        let ask = ask(&[&say("user", "Why?"), call, &result].join(","), "");
        let found = question(&ask, None, None, Some(&tool)).unwrap();
        assert!(found.has_other_turns);
        around(&ask, &found)
    };
    assert_eq!(with("found"), with("found more"));
}

#[test]
fn other_turns_are_seen() {
    for other in [say("user", "Hi"), say("assistant", "Hello"), say("tool", "1"), say("", "1")] {
        assert!(asked(&[other.clone(), say("user", "Why?")].join(",")).unwrap().has_other_turns, "{other}");
    }
    for other in [say("system", "Hi"), say("developer", "Hi"), say("user", "<context>a</context>")] {
        assert!(!asked(&[other.clone(), say("user", "Why?")].join(",")).unwrap().has_other_turns, "{other}");
    }
    assert!(asked(&[say("user", "Why?"), say("assistant", "Because")].join(",")).unwrap().has_other_turns);
}

#[test]
fn the_temperature_is_the_written_one() {
    let with = |more: &str| question(&ask(&say("user", "Why?"), more), None, None, None).unwrap().temperature;
    assert_eq!(with(""), None);
    assert_eq!(with(r#","temperature":null"#), None);
    assert_eq!(with(r#","temperature":0"#), Some(0.0));
    assert_eq!(with(r#","temperature":3e-1"#), Some(0.3));
    assert_eq!(with(r#","temperature":"0.1""#), Some(f64::INFINITY));
}

#[test]
fn more_than_text_is_no_question() {
    for messages in [
        r#"{"role":"user","content":[{"type":"text","text":"Why?"},{"type":"image_url","image_url":{"url":"a"}}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"Why?"},{"type":"input_audio"}]}"#,
        r#"{"role":"user","content":[{"type":"never_heard_of","text":"Why?"}]}"#,
        r#"{"role":"user","content":[{"type":"image_url"}]},{"role":"user","content":"Why?"}"#,
        r#"{"role":"user","content":{"text":"Why?"}}"#,
    ] {
        assert_eq!(asked(messages).unwrap_err(), NoQuestion::Parts, "{messages}");
    }
    let spoken = ask(&say("user", "Why?"), r#","modalities":["audio"]"#);
    assert_eq!(question(&spoken, None, None, None).unwrap_err(), NoQuestion::Parts);
}

#[test]
fn nothing_said_is_no_question() {
    for messages in [
        say("system", "Why?"),
        say("user", " "),
        say("user", "<context>a</context>"),
        r#"{"role":"user","content":null}"#.into(),
        "{}".into(),
    ] {
        assert_eq!(asked(&messages).unwrap_err(), NoQuestion::Nothing, "{messages}");
    }
    let long = say("user", &"a".repeat(QUESTION_MAX + 1));
    assert_eq!(asked(&long).unwrap_err(), NoQuestion::TooLong);
    let embeddings = Ask::read(Endpoint::Embeddings, None, Bytes::from(r#"{"model":"m","input":"a"}"#)).unwrap();
    assert_eq!(question(&embeddings, None, None, None).unwrap_err(), NoQuestion::Endpoint);
}

#[test]
fn a_completion_of_one_text_asks_it() {
    let completion = |prompt: &str| {
        let body = format!(r#"{{"model":"m","prompt":{prompt},"max_tokens":5}}"#);
        Ask::read(Endpoint::Completions, None, Bytes::from(body)).unwrap()
    };
    let (one, other) = (completion(r#""Why?""#), completion(r#""What for?""#));
    let found = |ask: &Ask| question(ask, None, None, None).unwrap();
    assert_eq!((found(&one).text.as_str(), found(&one).has_other_turns), ("Why?", false));
    assert_eq!(around(&one, &found(&one)), around(&other, &found(&other)));
    assert_eq!(question(&completion(r#"["a","b"]"#), None, None, None).unwrap_err(), NoQuestion::Parts);
    assert_eq!(question(&completion("[1,2]"), None, None, None).unwrap_err(), NoQuestion::Parts);
}

proptest::proptest! {
    #[test]
    fn no_prompt_is_too_strange(text in r#"(<context>|</context>|\\n|\\u003c|<| |[a-z🙂知]){0,20}"#, parts in proptest::prelude::any::<bool>()) {
        let content = if parts { format!(r#"[{{"type":"text","text":"{text}"}},"{text}"]"#) } else { format!("\"{text}\"") };
        let ask = ask(&format!(r#"{{"role":"system","content":{content}}},{{"role":"user","content":{content}}}, {}"#, say("user", "Why?")), "");
        let found = question(&ask, None, None, Some(&tag())).unwrap();
        proptest::prop_assert!(json::parse(found.around()).is_ok(), "{:?}", found.around());
        around(&ask, &found);
    }
}
