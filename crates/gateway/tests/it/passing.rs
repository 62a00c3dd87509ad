//! What passes through: endpoints whose bodies nobody reads, other protocols, old HTTP.

use std::time::Duration;

use serde_json::json;
use testkit::{Answer, At, Body, End, How, Reply, Scenario, Step, Strict, chat, story};

use crate::stage::{KEY, Stage, pleasant, without_breakers};

const CONFIG: &str = r#"
providers:
  - { name: a, protocol: openai, base_url: "http://a/v1", api_key: sk-a-secret }
  - { name: b, protocol: openai, base_url: "http://b/v1", api_key: sk-b-secret }
routes:
  - name: any
    match: { path: [/v1/responses, /v1/moderations, /v1/audio/speech, /v1/audio/transcriptions, /v1/images/generations] }
    upstreams: [{ provider: a, model: real }, { provider: b, model: real, tier: 1 }]
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#;

fn ask(path: &str) -> testkit::Ask {
    chat("any").path(path).with("input", "Hi")
}

#[test]
fn unread_endpoints_get_identity_failover_and_records() {
    story(async {
        for path in ["/v1/responses", "/v1/moderations", "/v1/audio/speech", "/v1/images/generations"] {
            let stage = Stage::set(CONFIG);
            let a = stage.host("a", Reply::status(500));
            let b = stage.host("b", Reply::json(json!({"id": "x", "any": ["thing"], "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}})));
            let answer = stage.ask(ask(path)).await;
            assert_eq!(
                (answer.status, answer.json()["any"][0].as_str()),
                (200, Some("thing")),
                "{path}: {}",
                answer.text()
            );
            assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
            assert_eq!((b.calls()[0].request.path.as_str(), b.calls()[0].request.model()), (path, "real"));
            assert_eq!(stage.caller().ask(&ask(path)).await.status, 401);
            assert_eq!(stage.log().len(), 2);
        }
    });
}

#[test]
fn bytes_pass_as_bytes_and_a_broken_body_is_no_whole_one() {
    story(async {
        let sound: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply { body: Body::Bytes("audio/mpeg", sound.clone().into()), ..Reply::default() });
        let answer = stage.ask(ask("/v1/audio/speech")).await;
        assert_eq!(
            (answer.status, answer.header("content-type"), answer.body == sound),
            (200, Some("audio/mpeg"), true)
        );
        assert!(answer.is_whole);
        a.play(
            Reply { body: Body::Bytes("audio/mpeg", sound.into()), ..Reply::default() }
                .cut(At::Bytes(100_000), How::Rst),
        );
        let mut caller = stage.caller();
        caller.begin(&ask("/v1/audio/speech").key(KEY)).await;
        // Whatever came is not a whole answer: a caller must see that something is missing.
        assert!(caller.answer().await.is_ok_and(|answer| !answer.is_whole) || caller.rest().await.0.is_empty());
        assert_eq!(stage.last_line().await["outcome"], "upstream_cut");
    });
}

/// A body under a label; none where that is empty.
fn labelled(label: &'static str, body: &str) -> Reply {
    let without = if label.is_empty() { vec!["content-type".to_owned()] } else { Vec::new() };
    Reply { body: Body::Bytes(label, body.to_owned().into()), without, ..Reply::default() }
}

const PAGE: &str = "<!doctype html><title>maintenance</title>";
const ERROR: &str = r#"{"error":{"message":"overloaded","type":"server_error"}}"#;

/// `b` has answered, for what `a` said was no answer.
async fn is_from_b(stage: &Stage, answer: &Answer, of: &str) {
    assert_eq!((answer.status, answer.json()["id"].as_str()), (200, Some("b")), "{of}: {}", answer.text());
    let line = stage.last_line().await;
    assert_eq!(line["attempts"][0]["outcome"], "bad_response", "{of}: {line}");
}

#[test]
fn what_should_be_json_is_judged_as_json_whatever_its_label_says() {
    story(async {
        let good = r#"{"id":"a","status":"completed","usage":{"input_tokens":900,"output_tokens":80}}"#;
        let failed = r#"{"id":"a","status":"failed","error":{"code":"server_error","message":"x"}}"#;
        for path in ["/v1/responses", "/v1/images/generations"] {
            for label in ["application/json", "text/plain; charset=utf-8", "text/html", "application/octet-stream", ""]
            {
                let stage = Stage::set(&without_breakers(CONFIG));
                let a = stage.host("a", pleasant());
                stage.host("b", Reply::json(json!({"id": "b"})));
                for body in [PAGE, ERROR, failed, good.get(..40).unwrap(), ""] {
                    a.play(labelled(label, body));
                    let answer = stage.ask(ask(path)).await;
                    is_from_b(&stage, &answer, &format!("{path} {label} {body}")).await;
                }
                a.play(labelled(label, good));
                let answer = stage.ask(ask(path)).await;
                assert_eq!((answer.status, answer.text().as_str()), (200, good), "{path} {label}");
                let line = stage.last_line().await;
                assert_eq!((&line["tokens_in"], &line["tokens_out"]), (&json!(900), &json!(80)), "{path} {label}");
            }
        }
    });
}

#[test]
fn what_is_neither_sound_nor_a_transcript_goes_on_to_the_next_upstream() {
    story(async {
        let both = ["/v1/audio/speech", "/v1/audio/transcriptions"];
        let speech = &both[..1];
        for (label, body, paths) in [
            ("text/html", PAGE, &both[..]),
            ("text/plain", PAGE, speech),
            ("", PAGE, &both),
            ("application/json", ERROR, &both),
            ("text/plain", ERROR, &both),
            ("", ERROR, &both),
            ("application/json", "{\"text\":", &both),
            ("application/json", "", &both),
            ("audio/mpeg", "", &both),
            ("text/plain", "", speech),
            ("", "", &both),
        ] {
            for path in paths {
                for stream in [false, true] {
                    let stage = Stage::set(CONFIG);
                    stage.host("a", labelled(label, body));
                    stage.host("b", Reply::json(json!({"id": "b"})));
                    let answer = stage.ask(ask(path).with("stream", stream)).await;
                    is_from_b(&stage, &answer, &format!("{path} {label} {body}")).await;
                }
            }
        }
    });
}

#[test]
fn a_transcript_is_text_under_whatever_label_also_where_nobody_spoke() {
    story(async {
        for (label, body) in [
            ("text/plain; charset=utf-8", "hello world\n"),
            ("text/html; charset=utf-8", "hello world\n"),
            ("text/plain", "<cough> hello"),
            ("text/vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\ndata: hello\n\n"),
            ("text/plain", ""),
            ("", "hello"),
        ] {
            for stream in [false, true] {
                let stage = Stage::set(CONFIG);
                stage.host("a", labelled(label, body));
                let answer = stage.ask(ask("/v1/audio/transcriptions").with("stream", stream)).await;
                assert_eq!((answer.status, answer.text().as_str()), (200, body), "{label} {stream}");
                assert_eq!(stage.last_line().await["outcome"], "ok");
            }
        }
    });
}

#[test]
fn sound_that_is_asked_for_bit_by_bit_comes_as_sound_or_as_events() {
    story(async {
        let sound = [b"ID3".to_vec(), b"\n\ndata: x\n\n".to_vec(), (0..=255).collect()];
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", {
            let steps = sound.iter().map(|piece| Step::Send(piece.clone().into())).collect();
            Reply { body: Body::Stream("audio/mpeg", steps), ..Reply::default() }
        });
        let answer = stage.ask(ask("/v1/audio/speech").stream()).await;
        assert_eq!(
            (answer.status, answer.header("content-type"), answer.body == sound.concat()),
            (200, Some("audio/mpeg"), true),
            "{}",
            answer.text()
        );
        assert_eq!(stage.last_line().await["outcome"], "ok");
        let done = r#"{"type":"speech.audio.done","usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"#;
        a.play(Reply::sse([r#"{"type":"speech.audio.delta","audio":"SUQz"}"#, done]));
        let answer = stage.ask(ask("/v1/audio/speech").stream()).await;
        assert_eq!((answer.status, answer.events().events.len()), (200, 2), "{}", answer.text());
        assert_eq!(stage.last_line().await["tokens_out"], 4);
    });
}

#[test]
fn a_form_goes_out_as_it_came_but_for_its_model() {
    story(async {
        let form = "--xx\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\ncontent-type: audio/wav\r\n\r\nRIFF\u{0}\u{1}\r\n--xx\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nany\r\n--xx--\r\n";
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::json(json!({"text": "words"})));
        let mut wire = format!("POST /v1/audio/transcriptions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\ncontent-type: multipart/form-data; boundary=xx\r\ncontent-length: {}\r\n\r\n", form.len()).into_bytes();
        wire.extend_from_slice(form.as_bytes());
        let mut caller = stage.caller();
        caller.write(&wire).await;
        let answer = caller.answer().await.unwrap();
        assert_eq!((answer.status, answer.json()["text"].as_str()), (200, Some("words")), "{}", answer.text());
        let call = &a.calls()[0].request;
        assert_eq!(String::from_utf8_lossy(&call.body), form.replace("\r\n\r\nany\r\n", "\r\n\r\nreal\r\n"));
        assert_eq!(call.header("content-type"), Some("multipart/form-data; boundary=xx"));
        let line = stage.last_line().await;
        assert_eq!((&line["tokens_in"], &line["tokens_out"]), (&json!(0), &json!(0)), "sound is no text: {line}");
    });
}

#[test]
fn a_form_that_is_sent_again_with_another_boundary_gets_the_first_answer() {
    story(async {
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::json(json!({"text": "words"})));
        let send = async |boundary: &str, sound: &str| {
            let form = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nany\r\n--{boundary}\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n{sound}\r\n--{boundary}--\r\n"
            );
            let head = format!(
                "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\nidempotency-key: k-1\r\ncontent-type: multipart/form-data; boundary={boundary}\r\ncontent-length: {}\r\n\r\n",
                form.len()
            );
            let mut caller = stage.caller();
            caller.write((head + &form).as_bytes()).await;
            caller.answer().await.unwrap()
        };
        let (first, again) = (send("one", "RIFF").await, send("other", "RIFF").await);
        assert_eq!(
            (first.status, again.status, again.header("x-mai-cache")),
            (200, 200, Some("replay")),
            "{}",
            again.text()
        );
        assert_eq!(send("one", "another").await.status, 422);
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn responses_stream_event_by_event_and_end_in_one_state() {
    story(async {
        let event = |kind: &str, more: serde_json::Value| {
            let mut data = json!({"type": kind});
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            format!("event: {kind}\ndata: {data}\n\n")
        };
        let begun = [
            event("response.created", json!({"response": {"id": "r"}})),
            event("response.output_text.delta", json!({"delta": "你好"})),
        ]
        .concat();
        let completed = event(
            "response.completed",
            json!({"response": {"id": "r", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}}),
        );
        let stage = Stage::set(CONFIG);
        let a = stage.host("a", Reply::pieces([format!("{begun}{completed}")]));
        let b = stage.host("b", pleasant());
        let answer = stage.ask(ask("/v1/responses").stream()).await;
        assert_eq!(answer.events().events.len(), 3, "{}", answer.text());
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], &line["tokens_in"], &line["tokens_out"]), (&json!("ok"), &json!(3), &json!(4)));
        a.play(Reply::pieces([begun]));
        let answer = stage.ask(ask("/v1/responses").stream()).await;
        assert!(answer.events().events.iter().any(|event| event.json().get("error").is_some()), "{}", answer.text());
        assert_eq!(stage.last_line().await["outcome"], "upstream_cut");
        assert_eq!(b.calls().len(), 0);
    });
}

#[test]
fn every_protocol_that_chats_gives_the_same_conversation() {
    story(async {
        for (protocol, base, strict) in [
            ("openai", "http://a/v1", Strict::OpenAi),
            ("azure-openai", "http://a", Strict::Azure),
            ("ollama", "http://a", Strict::Ollama),
        ] {
            let config = format!(
                "providers: [{{ name: a, protocol: {protocol}, base_url: \"{base}\", api_key: k }}]\n\
                 routes: [{{ name: chat, match: {{ path: /v1/chat/completions }}, upstreams: [{{ provider: a, model: m }}] }}]\n\
                 clients: [{{ name: app, keys: [sk-app], routes: [\"*\"] }}]"
            );
            let stage = Stage::set(&config);
            let a = stage.host("a", Scenario::from(Reply::say(["你好，", "世界🙂"])).strict(strict));
            for stream in [false, true] {
                let answer = stage.ask(chat("chat").system("Be brief").user("Hi").with("stream", stream)).await;
                assert_eq!(
                    (answer.status, answer.said().as_str()),
                    (200, "你好，世界🙂"),
                    "{protocol}: {}",
                    answer.text()
                );
                if stream {
                    let events = answer.events();
                    assert!(events.is_done() && events.usages().is_empty(), "{protocol}: {}", answer.text());
                    assert!(events.chunks().iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "stop"));
                } else {
                    assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
                    assert_eq!(answer.json()["object"], "chat.completion");
                }
                let line = stage.last_line().await;
                assert!(
                    line["tokens_in"].as_u64() > Some(0) && line["tokens_out"].as_u64() > Some(0),
                    "{protocol}: {line}"
                );
            }
            let usage = stage.ask(chat("chat").user("Hi").stream().usage()).await.events();
            assert_eq!(usage.usages().len(), 1, "{protocol}");
            a.play(Scenario::from(Reply::say(["你好，", "世界🙂"]).cut(At::Events(2), How::Fin)).strict(strict));
            let cut = stage.ask(chat("chat").user("Hi").stream()).await;
            assert!(
                cut.code().is_some() && (cut.status == 502 || !cut.events().is_done()),
                "{protocol}: {}",
                cut.text()
            );
        }
    });
}

#[test]
fn old_http_gets_plain_answers_and_streams_that_end_with_the_connection() {
    story(async {
        for stream in [false, true] {
            let stage = Stage::usual();
            stage.host("a", Reply::say(["Hel", "lo!"]).after(Duration::from_secs(1)));
            let wire = chat("chat").user("Hi").with("stream", stream).key(KEY).wire();
            let wire = String::from_utf8(wire).unwrap().replacen("HTTP/1.1", "HTTP/1.0", 1);
            let mut caller = stage.caller();
            caller.write(wire.as_bytes()).await;
            let text = String::from_utf8(caller.rest().await.0).unwrap();
            assert!(text.starts_with("HTTP/1.0 200") || text.starts_with("HTTP/1.1 200"), "{text}");
            assert!(!text.to_ascii_lowercase().contains("transfer-encoding"), "{text}");
            assert_eq!(text.contains("data: [DONE]"), stream);
            assert_eq!(stage.last_line().await["outcome"], "ok");
            // Old HTTP knows no interim answer that could ask who stopped sending, so that is the end.
            let mut caller = stage.caller();
            caller.write(wire.as_bytes()).await;
            caller.half_close().await;
            assert!(caller.rest().await.0.is_empty());
            assert_eq!(stage.last_line().await["outcome"], "caller_gone");
        }
    });
}

#[test]
fn interim_answers_of_an_upstream_are_skipped() {
    story(async {
        let body =
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}]}"#;
        let wire = format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let stage = Stage::usual();
        stage.host("a", Reply::raw([wire]));
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!((answer.said().as_str(), answer.header("x-mai-attempts")), ("Hello!", Some("1")));
    });
}

#[test]
fn every_status_has_its_class() {
    story(async {
        for status in [300, 301, 304, 407, 408, 424, 425, 429, 499, 500, 501, 502, 503, 504, 507, 520, 529, 599] {
            let stage = Stage::usual();
            let a = stage.host("a", Reply::status(status));
            stage.host("b", Reply::say(["from b"]));
            let answer = stage.ask(chat("chat").user("Hi")).await;
            assert_eq!((answer.said().as_str(), a.calls().len()), ("from b", 1), "{status}");
            assert_ne!(a.ending_of(1).await, End::Running);
        }
        for status in [400, 404, 405, 406, 409, 410, 413, 414, 415, 416, 422, 431] {
            let stage = Stage::usual();
            stage.host("a", Reply::status(status));
            let b = stage.host("b", pleasant());
            assert_eq!((stage.ask(chat("chat").user("Hi")).await.status, b.calls().len()), (status, 0));
        }
    });
}
