//! Streams: however the network cuts them, whatever stands between the words, however they end.

use std::time::Duration;

use serde_json::json;
use testkit::sse::Parsed;
use testkit::{Answer, At, Body, End, How, Reply, Script, chat, story};

use crate::chunks::{bytes, choices, delta, finish, hello, role, usage, usage_beside};
use crate::stage::{KEY, Stage, USUAL, alone, pleasant, without_breakers};

fn ask() -> testkit::Ask {
    chat("chat").user("Hi").stream()
}

/// `Hello!` in full, as a caller who did not ask for usage sees it.
fn is_hello(answer: &Answer) {
    let events = answer.events();
    assert_eq!((answer.status, answer.is_whole, events.said().as_str()), (200, true, "Hello!"), "{}", answer.text());
    assert!(events.is_done(), "{}", answer.text());
    assert_eq!(events.chunks().len(), 5, "every chunk but the one with usage: {}", answer.text());
    assert!(finishes(&events));
    assert_eq!(events.unfinished, "");
}

fn finishes(events: &Parsed) -> bool {
    events.chunks().iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "stop")
}

#[test]
fn a_stream_cut_at_any_place_arrives_whole_and_is_counted() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let whole = bytes(&hello());
        for cut in 1..whole.len() {
            a.play(Reply::pieces([whole[..cut].to_vec(), whole[cut..].to_vec()]).every(Duration::from_millis(1)));
            is_hello(&stage.ask(ask()).await);
        }
        let count = (whole.len() - 1) as f64;
        stage.comes_to_rest().await;
        let tokens = |kind| stage.metric(&format!(r#"mai_tokens_total{{client="app",kind="{kind}",route="chat"}}"#));
        assert_eq!((tokens("prompt"), tokens("completion")), (11.0 * count, 3.0 * count));
    });
}

#[test]
fn one_byte_a_write_and_everything_in_one_write_are_the_same() {
    story(async {
        let whole = bytes(&hello());
        let crlf = String::from_utf8(whole.clone()).unwrap().replace('\n', "\r\n").into_bytes();
        let mut bom = b"\xef\xbb\xbf".to_vec();
        bom.extend_from_slice(&whole);
        for text in [whole, crlf, bom] {
            let single = Reply::pieces(text.iter().map(|byte| vec![*byte])).every(Duration::from_millis(1));
            let at_once = Reply::pieces([text.clone()]);
            let until_closed = Reply { framing: Some(framing_close()), ..Reply::pieces([text.clone()]) };
            for reply in [single, at_once, until_closed] {
                let stage = Stage::usual();
                stage.host("a", Script::always(reply));
                is_hello(&stage.ask(ask()).await);
                let line = stage.last_line().await;
                assert_eq!((&line["tokens_in"], &line["tokens_out"]), (&json!(11), &json!(3)));
                assert_eq!(line["outcome"], "ok");
            }
        }
    });
}

fn framing_close() -> mock::Framing {
    mock::Framing::Close
}

#[test]
fn a_stream_that_ends_early_is_never_taken_for_a_whole_one() {
    story(async {
        let stage = Stage::set(&without_breakers(USUAL));
        let a = stage.host("a", pleasant());
        stage.host("b", Script::always(Reply::say(["from b"])));
        let whole = bytes(&hello());
        let finished = bytes(&hello()[..5]).len() - 2;
        let begun = bytes(&hello()[..2]).len();
        for cut in 1..whole.len() {
            // Once with a proper end of the body, once with the connection's end in the middle.
            for reply in
                [Reply::pieces([whole[..cut].to_vec()]), Reply::pieces([whole.clone()]).cut(At::Bytes(cut), How::Fin)]
            {
                let clean = reply.cut.is_none();
                a.play(reply);
                let answer = stage.ask(ask()).await;
                let events = answer.events();
                let (said, line) = (events.said(), stage.last_line().await);
                if said == "from b" {
                    assert!(!clean || cut < begun, "{cut}");
                    assert_eq!(line["attempts"].as_array().unwrap().len(), 2);
                    continue;
                }
                if events.error().is_some() {
                    assert!(!events.is_done(), "{cut}: {}", answer.text());
                    assert!("Hello!".starts_with(&said) && !said.is_empty(), "{cut}: {said}");
                    assert_eq!(line["outcome"], "upstream_cut");
                    assert!(!clean || cut < finished, "{cut}: {}", answer.text());
                } else {
                    assert!(clean || cut >= finished, "{cut}: {}", answer.text());
                    assert!(events.is_done() && finishes(&events) && said == "Hello!", "{cut}: {}", answer.text());
                    assert_eq!(line["outcome"], "ok");
                }
            }
        }
    });
}

#[test]
fn comments_and_broken_keep_alives_never_reach_a_parser_of_data() {
    story(async {
        let stage = Stage::usual();
        let events = [
            ": PROCESSING".to_owned(),
            ": PROCESSING".to_owned(),
            ":".to_owned(),
            delta("Hel"),
            ": PROCESSING".to_owned(),
            ": keepalive".to_owned(),
            delta("lo!"),
            finish(),
            "[DONE]".to_owned(),
        ];
        let mut text = bytes(&[]);
        for event in &events {
            let line = if event.starts_with(':') { format!("{event}\n\n") } else { format!("data: {event}\n\n") };
            text.extend_from_slice(line.as_bytes());
            text.extend_from_slice(b"data: : keepalive\n\ndata:\n\n");
        }
        stage.host("a", Script::always(Reply::pieces([text])));
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.events().said().as_str(), answer.events().is_done()), ("Hello!", true), "{}", answer.text());
        assert_eq!(stage.last_line().await["outcome"], "ok");
    });
}

#[test]
fn a_comment_is_not_content_so_another_upstream_may_still_answer() {
    story(async {
        let comments = |then| Reply::sse([": PROCESSING", ": PROCESSING", ": PROCESSING"]).cut(At::Events(3), then);
        for then in [How::Rst, How::Fin, How::Hang] {
            let stage = Stage::usual();
            stage.host("a", Script::always(comments(then)));
            stage.host("b", Script::always(Reply::say(["from b"])));
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.said().as_str(), answer.header("x-mai-attempts")), ("from b", Some("2")));
        }
    });
}

#[test]
fn a_stream_that_only_comments_is_bounded_by_its_first_byte_clock() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::sse(vec![": ping"; 600]).every(Duration::from_secs(1))));
        stage.host("b", Script::always(Reply::say(["from b"])));
        let began = base::Clock.now();
        assert_eq!(stage.ask(ask()).await.said(), "from b");
        let took = base::Clock.now() - began;
        assert!(took >= Duration::from_secs(9) && took <= Duration::from_secs(11), "{took:?}");
        assert_eq!(a.ending_of(1).await, End::Gone);
        assert_eq!(stage.last_line().await["attempts"][0]["outcome"], "first_byte_timeout");
    });
}

#[test]
fn comments_keep_a_running_stream_alive_and_silence_ends_it() {
    story(async {
        let mut events = vec![delta("Hel")];
        events.extend(vec![": ping".to_owned(); 8]);
        events.extend([delta("lo!"), finish(), "[DONE]".to_owned()]);
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::sse(&events).every(Duration::from_secs(10))));
        assert_eq!(stage.ask(ask()).await.said(), "Hello!");
        a.play(Reply::sse([delta("Hel"), delta("lo!")]).every(Duration::from_secs(100)));
        let answer = stage.ask(ask()).await;
        assert_eq!(answer.code().as_deref(), Some("upstream_timeout"), "{}", answer.text());
        assert!(answer.is_whole && !answer.events().is_done());
        let line = stage.last_line().await;
        assert_eq!(
            (&line["outcome"], &line["attempts"][0]["outcome"]),
            (&json!("upstream_cut"), &json!("stream_timeout"))
        );
        assert_eq!(a.ending_of(2).await, End::Gone);
    });
}

#[test]
fn a_stream_that_never_ends_is_ended() {
    story(async {
        let stage = Stage::usual();
        let words = vec![delta("w "); 2000];
        let a = stage.host("a", Script::always(Reply::sse(words).every(Duration::from_secs(1))));
        let began = base::Clock.now();
        let answer = stage.ask(ask()).await;
        let took = base::Clock.now() - began;
        assert_eq!(answer.code().as_deref(), Some("upstream_timeout"));
        assert!(took < Duration::from_secs(616), "stream_total is ten minutes: {took:?}");
        assert_eq!(a.ending_of(1).await, End::Gone);
    });
}

#[test]
fn usage_that_the_caller_did_not_ask_for_is_counted_and_not_shown() {
    story(async {
        let quiet = ask();
        let declined = ask().with("stream_options", json!({"include_usage": false}));
        let null = ask().with("stream_options", serde_json::Value::Null);
        for ask in [quiet, declined, null] {
            let stage = Stage::usual();
            let a = stage.host("a", Script::always(Reply::say(["Hel", "lo!"])));
            let answer = stage.ask(ask).await;
            assert_eq!(answer.said(), "Hello!");
            for chunk in answer.events().chunks() {
                assert!(!chunk["choices"].as_array().unwrap().is_empty(), "{chunk}");
                assert!(chunk.get("usage").is_none(), "{chunk}");
            }
            assert_eq!(a.calls()[0].request.json.as_ref().unwrap()["stream_options"]["include_usage"], true);
            let line = stage.last_line().await;
            assert_eq!(line["tokens_out"], 2);
            assert!(line["tokens_in"].as_u64().unwrap() > 0);
        }
    });
}

#[test]
fn usage_that_the_caller_asked_for_comes_once_between_finish_and_done() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::say(["Hel", "lo!"])));
        let events = stage.ask(ask().usage()).await.events();
        let chunks = events.chunks();
        let places: Vec<usize> =
            (0..chunks.len()).filter(|at| chunks[*at]["choices"].as_array().unwrap().is_empty()).collect();
        assert_eq!(places, [chunks.len() - 1]);
        assert_eq!(chunks[chunks.len() - 1]["usage"]["completion_tokens"], 2);
        assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
        assert_eq!(events.usages().len(), 1);
        assert!(events.is_done());
    });
}

#[test]
fn usage_beside_an_empty_delta_is_counted() {
    story(async {
        let stage = Stage::usual();
        let usage = usage_beside(json!([{"index": 0, "delta": {}}]));
        let events = [delta("Hello!"), finish(), usage, "[DONE]".to_owned()];
        stage.host("a", Script::always(Reply::sse(events)));
        assert_eq!(stage.ask(ask()).await.said(), "Hello!");
        let line = stage.last_line().await;
        assert_eq!((&line["tokens_in"], &line["tokens_out"]), (&json!(11), &json!(3)));
    });
}

#[test]
fn an_upstream_that_refuses_stream_options_is_asked_without_once_and_never_again() {
    story(async {
        let stage = Stage::usual();
        let refuse_options = |request: &testkit::Request| {
            if request.field("stream_options").is_some() {
                return Reply {
                    status: Some(400),
                    ..Reply::json(
                        json!({"error": {"message": "Unrecognized request argument supplied: stream_options", "type": "invalid_request_error", "param": null, "code": null}}),
                    )
                };
            }
            Reply::say(["Hello!"])
        };
        let a = stage.host("a", Script::by(refuse_options));
        for calls in [2, 3, 4] {
            assert_eq!(stage.ask(ask()).await.said(), "Hello!");
            assert_eq!(a.calls().len(), calls);
            let line = stage.last_line().await;
            assert!(line["tokens_out"].as_u64().unwrap() > 0, "estimated");
        }
        let refused = stage.ask(ask().usage()).await;
        assert_eq!(refused.status, 400, "what the caller wrote itself is its own affair");
    });
}

#[test]
fn empty_choices_without_usage_in_mid_stream_are_harmless() {
    story(async {
        let stage = Stage::usual();
        let events =
            [role(), choices(json!([])), delta("Hel"), choices(json!([])), delta("lo!"), finish(), "[DONE]".to_owned()];
        stage.host("a", Script::always(Reply::sse(events)));
        let answer = stage.ask(ask()).await;
        assert_eq!(answer.said(), "Hello!");
        assert!(answer.events().chunks().iter().all(|chunk| !chunk["choices"].as_array().unwrap().is_empty()));
    });
}

#[test]
fn nonsense_in_usage_is_not_counted() {
    story(async {
        for nonsense in [
            json!({"prompt_tokens": -1, "completion_tokens": 3}),
            json!({"prompt_tokens": "7", "completion_tokens": "x"}),
            json!({"prompt_tokens": 1e18, "completion_tokens": 1e18}),
            json!("much"),
        ] {
            let stage = Stage::usual();
            stage.host("a", Script::always(Reply::say(["Hello!"]).usage(nonsense.clone())));
            for ask in [ask(), chat("chat").user("Hi")] {
                assert_eq!(stage.ask(ask).await.said(), "Hello!");
                let line = stage.last_line().await;
                assert!((1..1000).contains(&line["tokens_in"].as_u64().unwrap()), "{nonsense}: {line}");
                assert!((1..1000).contains(&line["tokens_out"].as_u64().unwrap()), "{nonsense}: {line}");
            }
        }
    });
}

#[test]
fn a_missing_done_is_supplied_and_a_done_without_finish_is_passed_on() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::sse([delta("Hello!"), finish()])));
        let answer = stage.ask(ask()).await;
        assert!(answer.events().is_done() && answer.said() == "Hello!", "{}", answer.text());
        a.play(Reply::sse([delta("Hello!"), "[DONE]".to_owned()]));
        let answer = stage.ask(ask()).await;
        assert!(answer.events().is_done() && answer.said() == "Hello!", "{}", answer.text());
        assert_eq!(stage.last_line().await["outcome"], "ok");
    });
}

#[test]
fn every_choice_needs_its_finish_reason() {
    story(async {
        let second = choices(json!([{"index": 1, "delta": {"content": "two"}, "finish_reason": null}]));
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::sse([delta("one"), second, finish()])));
        let answer = stage.ask(ask().with("n", 2)).await;
        assert!(answer.events().error().is_some() && !answer.events().is_done(), "{}", answer.text());
        assert_eq!(stage.last_line().await["outcome"], "upstream_cut");
    });
}

#[test]
fn what_the_connection_does_after_done_is_nothing_to_the_caller() {
    story(async {
        for how in [How::Hang, How::Rst, How::Fin] {
            let (one_by_one, at_once) = (Reply::sse(hello()), Reply::pieces([bytes(&hello())]));
            for reply in [one_by_one.every(Duration::from_millis(1)), at_once] {
                let stage = Stage::usual();
                let a = stage.host("a", Script::always(reply.cut(At::End, how)));
                let began = base::Clock.now();
                is_hello(&stage.ask(ask()).await);
                assert!(base::Clock.now() - began < Duration::from_secs(2), "soon");
                assert_eq!(stage.last_line().await["outcome"], "ok");
                a.ending_of(1).await;
            }
        }
    });
}

#[test]
fn a_caller_who_closes_at_done_has_been_answered() {
    story(async {
        let stage = Stage::usual();
        // The end of the body comes half a second behind `[DONE]`.
        let text = bytes(&hello());
        stage.host("a", Script::always(Reply::pieces([text, Vec::new()]).every(Duration::from_millis(500))));
        let mut caller = stage.caller();
        caller.begin(&ask().key(KEY)).await;
        caller.head().await.unwrap();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("[DONE]") {
            seen.extend(caller.more().await.unwrap().unwrap());
        }
        drop(caller);
        assert_eq!(stage.last_line().await["outcome"], "ok");
    });
}

#[test]
fn an_error_in_mid_stream_reaches_the_caller_as_an_error_and_never_fails_over() {
    story(async {
        let error = json!({"error": {"message": "the worker died", "type": "server_error", "code": 500}}).to_string();
        let failed = choices(json!([{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]));
        for broken in [error, failed, "{not json".to_owned()] {
            let stage = Stage::usual();
            stage.host("a", Script::always(Reply::sse([delta("Hel"), broken.clone(), "[DONE]".to_owned()])));
            let b = stage.host("b", pleasant());
            let answer = stage.ask(ask()).await;
            let events = answer.events();
            assert_eq!((answer.status, events.said().as_str()), (200, "Hel"), "{broken}: {}", answer.text());
            assert!(events.error().is_some() && !events.is_done(), "{broken}: {}", answer.text());
            assert!(events.error().unwrap()["message"].is_string() && events.error().unwrap()["type"].is_string());
            assert_eq!(b.calls().len(), 0);
            let line = stage.last_line().await;
            assert_eq!((&line["outcome"], &line["status"]), (&json!("upstream_cut"), &json!(200)));
        }
    });
}

#[test]
fn an_error_as_the_first_event_fails_over() {
    story(async {
        let error = json!({"error": {"message": "no capacity", "code": 503}});
        let first = Reply::sse([error.to_string()]);
        let behind_the_role = Reply::sse([role(), error.to_string()]);
        for reply in [
            first,
            behind_the_role,
            Reply::json(error.clone()),
            Reply::sse([role(), "[DONE]".to_owned()].into_iter().take(1)),
        ] {
            let stage = Stage::usual();
            stage.host("a", Script::always(reply));
            stage.host("b", Script::always(Reply::say(["from b"])));
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, answer.said().as_str()), (200, "from b"), "{}", answer.text());
        }
    });
}

#[test]
fn a_whole_body_in_place_of_a_stream_is_relayed_as_one() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::say(["Hel", "lo!"]).with(|knobs| knobs.stream = Some(false))));
        let answer = stage.ask(ask().usage()).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
        let events = answer.events();
        assert_eq!((events.said().as_str(), events.is_done(), events.usages().len()), ("Hello!", true, 1));
        let quiet = stage.ask(ask()).await.events();
        assert!(quiet.usages().is_empty() && finishes(&quiet) && quiet.is_done());
    });
}

#[test]
fn tool_calls_and_reasoning_are_content() {
    story(async {
        let tools = Reply::default().with(|knobs| knobs.tool_calls = vec![("find".into(), r#"{"q": "世界"}"#.into())]);
        let thinks = Reply::say(["Hello!"]).with(|knobs| knobs.reasoning = Some("let me think about it".into()));
        for reply in [tools, thinks] {
            let stage = Stage::usual();
            stage.host(
                "a",
                Script::always(Reply { cut: Some(mock::Cut { at: At::Events(4), how: How::Rst }), ..reply }),
            );
            let b = stage.host("b", pleasant());
            let answer = stage.ask(ask()).await;
            assert!(answer.events().error().is_some(), "{}", answer.text());
            assert_eq!(b.calls().len(), 0, "the caller has seen something");
        }
    });
}

#[test]
fn a_slow_reader_slows_the_upstream_and_loses_nothing() {
    story(async {
        let word = "x".repeat(4000);
        let mut events = vec![delta(&word); 1000];
        events.extend([finish(), "[DONE]".to_owned()]);
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::sse(events)));
        let mut caller = stage.caller();
        caller.begin(&ask().key(KEY)).await;
        caller.head().await.unwrap();
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(a.calls()[0].end, End::Running, "nothing is read ahead without bound");
        let mut body = Vec::new();
        while let Some(more) = caller.more().await.unwrap() {
            body.extend(more);
        }
        let events = testkit::sse::parse(&body);
        assert_eq!((events.said().len(), events.is_done()), (4_000_000, true));
    });
}

#[test]
fn a_slow_reader_cannot_stretch_a_stream_beyond_its_time() {
    story(async {
        let stage = Stage::usual();
        let word = "x".repeat(4000);
        let a = stage.host("a", Script::always(Reply::sse(vec![delta(&word); 5000])));
        let mut caller = stage.caller();
        caller.begin(&ask().key(KEY)).await;
        caller.head().await.unwrap();
        let mut body = Vec::new();
        while let Some(more) = caller.more().await.unwrap() {
            body.extend(more);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let events = testkit::sse::parse(&body);
        assert!(!events.is_done() && events.said().len() < 20_000_000);
        let line = stage.last_line().await;
        assert_eq!(line["code"], "upstream_timeout");
        let minutes = line["ms"].as_f64().unwrap() / 60_000.0;
        assert!((10.0..11.0).contains(&minutes), "{minutes}");
        assert_ne!(a.calls()[0].end, End::Running);
    });
}

#[test]
fn a_caller_who_stops_reading_is_let_go_after_a_while() {
    story(async {
        let stage = Stage::usual();
        let word = "x".repeat(4000);
        let a = stage.host("a", Script::always(Reply::sse(vec![delta(&word); 1000])));
        let mut caller = stage.caller();
        caller.begin(&ask().key(KEY)).await;
        a.has_calls(1).await;
        let began = base::Clock.now();
        assert_eq!(a.ending_of(1).await, End::Gone);
        assert!(base::Clock.now() - began < Duration::from_secs(120));
        assert_eq!(stage.last_line().await["outcome"], "caller_gone");
        drop(caller);
    });
}

#[test]
fn a_stream_of_nothing_but_openings_is_bounded() {
    story(async {
        let stage = Stage::set(&alone("openai", "http://a/v1"));
        let filler = choices(
            json!([{"index": 0, "delta": {"role": "assistant", "content": ""}, "padding": "x".repeat(60_000)}]),
        );
        let a = stage.host("a", Script::always(Reply::sse(vec![filler; 3000])));
        let answer = stage.ask(ask()).await;
        assert_eq!(
            (answer.status, answer.code().as_deref()),
            (502, Some("upstream_bad_response")),
            "{} bytes",
            answer.body.len()
        );
        assert_eq!(a.ending_of(1).await, End::Gone);
    });
}

#[test]
fn legacy_completions_stream_under_the_same_rules() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(Reply::say(["Hel", "lo!"])));
        let ask = || chat("chat").path("/v1/completions").with("prompt", "Say hello").stream();
        let answer = stage.ask(ask()).await;
        let events = answer.events();
        let text: String = events
            .chunks()
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["text"].as_str().map(str::to_owned))
            .collect();
        assert_eq!((text.as_str(), events.is_done(), events.usages().len()), ("Hello!", true, 0), "{}", answer.text());
        assert_eq!(a.calls()[0].request.path, "/v1/completions");
        a.play(Reply::say(["Hel", "lo!"]).cut(At::Events(1), How::Fin));
        assert!(stage.ask(ask()).await.events().error().is_some());
    });
}

#[test]
fn error_events_have_the_form_of_errors() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::sse([delta("Hel")])));
        let answer = stage.ask(ask()).await;
        let error = answer.events().error().unwrap();
        for field in ["message", "type", "param", "code"] {
            assert!(error.get(field).is_some(), "{error}");
        }
        assert!(answer.is_whole, "an error event ends the body properly");
    });
}

#[test]
fn an_event_without_end_is_refused_in_bounded_memory() {
    story(async {
        let stage = Stage::usual();
        let mut pieces = vec![format!("data: {}\n\ndata: ", delta("Hel")).into_bytes()];
        pieces.extend(vec![vec![b'x'; 1 << 20]; 64]);
        let a = stage.host("a", Reply::pieces(pieces).every(Duration::from_millis(1)));
        let answer = stage.ask(ask()).await;
        assert_eq!(answer.code().as_deref(), Some("upstream_bad_response"), "{} bytes", answer.body.len());
        assert_eq!(a.ending_of(1).await, End::Gone);
    });
}

#[test]
fn a_stream_that_breaks_behind_its_finish_reason_is_whole_and_is_sealed() {
    story(async {
        for how in [How::Rst, How::Fin] {
            let stage = Stage::usual();
            let delta = r#"{"id":"x","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}"#;
            let finish = r#"{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
            stage.host("a", Script::always(Reply::sse([delta, finish]).cut(At::Events(2), how)));
            let answer = stage.ask(chat("chat").user("Hi").stream()).await;
            assert_eq!(answer.said(), "Hello");
            assert!(answer.events().is_done() && answer.events().error().is_none(), "{}", answer.text());
            assert_eq!(stage.last_line().await["outcome"], "ok");
        }
    });
}

#[test]
fn a_whole_answer_to_a_streaming_call_is_relayed_as_a_stream_whatever_its_label_says() {
    story(async {
        for label in ["text/html", "text/event-stream", "text/plain; charset=utf-8", "application/json"] {
            let stage = Stage::usual();
            let whole = json!({ "id": "x", "choices": [{ "index": 0, "message": { "role": "assistant", "content": "Hello" }, "finish_reason": "stop" }] });
            stage.host("a", Script::always(Reply::text(format!("\n {whole}")).header("content-type", label)));
            let answer = stage.ask(chat("chat").user("Hi").stream()).await;
            assert_eq!((answer.status, answer.said().as_str()), (200, "Hello"), "{label}: {}", answer.text());
            assert!(answer.events().is_done(), "{label}");
        }
    });
}

#[test]
fn an_upstream_that_falls_silent_behind_its_finish_reason_has_answered() {
    story(async {
        let pings = vec![": ping".to_owned(); 600];
        for (behind, soon) in [(vec![usage()], 5), (vec![], 10), (pings, 10)] {
            let stage = Stage::usual();
            let events = [vec![delta("Hel"), delta("lo!"), finish()], behind].concat();
            let all = events.len();
            let reply = Reply::sse(events).every(Duration::from_millis(500)).cut(At::Events(all), How::Hang);
            let a = stage.host("a", Script::always(reply));
            let b = stage.host("b", pleasant());
            // More calls than failures open a breaker.
            for call in 1..=6 {
                let began = base::Clock.now();
                let answer = stage.ask(ask()).await;
                let took = base::Clock.now() - began;
                assert!(took < Duration::from_secs(soon), "the caller does not wait for silence: {took:?}");
                assert!(answer.is_whole && answer.events().is_done() && answer.said() == "Hello!", "{}", answer.text());
                let line = stage.last_line().await;
                assert_eq!((&line["outcome"], &line["attempts"][0]["outcome"]), (&json!("ok"), &json!("ok")));
                assert_eq!(a.ending_of(call).await, End::Gone);
            }
            assert_eq!(b.calls().len(), 0);
        }
    });
}

#[test]
fn an_answer_that_has_finished_is_whole_also_where_the_gateway_stops() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Script::always(Reply::sse([delta("Hello!"), finish()]).cut(At::Events(2), How::Hang)));
        let mut caller = stage.caller();
        caller.begin(&ask().key(KEY)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.live.drain();
        stage.live.cut_short();
        let answer = caller.answer().await.unwrap();
        assert!(answer.is_whole && answer.events().is_done() && answer.said() == "Hello!", "{}", answer.text());
        assert_eq!(stage.last_line().await["outcome"], "ok");
    });
}

#[test]
fn usage_that_comes_a_little_behind_the_finish_reason_is_waited_for() {
    story(async {
        let stage = Stage::usual();
        let events = [delta("Hello!"), finish(), usage(), "[DONE]".to_owned()];
        stage.host("a", Script::always(Reply::sse(events).every(Duration::from_secs(5))));
        let events = stage.ask(ask().usage()).await.events();
        assert_eq!((events.usages().len(), events.is_done()), (1, true));
        assert_eq!(stage.last_line().await["tokens_in"], 11);
    });
}

#[test]
fn what_is_no_stream_is_a_bad_response_that_says_what_came() {
    story(async {
        let page = Reply::text("<!doctype html><title>maintenance</title>").header("content-type", "text/html");
        let nothing = Reply { status: Some(204), body: Body::Empty, ..Reply::default() };
        for (reply, what) in [(page, "text/html"), (nothing, "without a content-type")] {
            for path in ["/v1/chat/completions", "/v1/completions"] {
                let stage = Stage::set(&alone("openai", "http://a/v1").replace("/v1/chat/completions", path));
                stage.host("a", Script::always(reply.clone()));
                let answer = stage.ask(ask().path(path).with("prompt", "Hi")).await;
                assert_eq!(
                    (answer.status, answer.code().as_deref()),
                    (502, Some("upstream_bad_response")),
                    "{}",
                    answer.text()
                );
                assert!(answer.text().contains(what), "{}", answer.text());
            }
        }
    });
}
