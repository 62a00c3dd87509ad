//! Chinese, emoji, escapes, and bytes that are no text at all.

use std::time::Duration;

use mock::Slices;
use serde_json::json;
use testkit::{Body, Reply, chat, embeddings, get, rerank, story};

use crate::chunks::{bytes, choices, delta, finish};
use crate::stage::{Stage, alone, pleasant};

const TEXT: &str = "你好，世界🙂👨\u{200d}👩\u{200d}👧𠮷";

/// A JSON string in `\u` escapes throughout.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn said_in_tools(answer: &testkit::Answer) -> String {
    let chunks = answer.events().chunks();
    let texts = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str());
    texts.collect()
}

#[test]
fn characters_survive_every_cut_of_a_stream() {
    story(async {
        let call = json!([{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": format!("{{\"q\":\"{TEXT}\"}}")}}]}}]);
        let in_escapes = format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":"{}"}}}}]}}"#, escaped(TEXT));
        let events = [delta(TEXT), in_escapes, choices(call), finish(), "[DONE]".to_owned()];
        let mut whole = format!(": 注释 {TEXT}\n\n").into_bytes();
        whole.extend(bytes(&events));
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let cuts = (1..whole.len()).map(|cut| Slices::At(vec![cut], Duration::from_millis(1)));
        for slices in cuts.chain([Slices::Of(1, Duration::from_millis(1)), Slices::Of(2, Duration::from_millis(1))]) {
            a.play(Reply { slices: Some(slices.clone()), ..Reply::pieces([whole.clone()]) });
            let answer = stage.ask(chat("chat").user(TEXT).stream()).await;
            assert_eq!(answer.said(), format!("{TEXT}{TEXT}"), "{slices:?}");
            assert_eq!(said_in_tools(&answer), format!("{{\"q\":\"{TEXT}\"}}"));
            assert!(!answer.text().contains('\u{fffd}'));
        }
    });
}

#[test]
fn characters_survive_in_whole_answers_and_in_error_messages() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        for slices in [Slices::Of(1, Duration::from_millis(1)), Slices::Of(5, Duration::from_millis(1))] {
            a.play(Reply { slices: Some(slices.clone()), ..Reply::say([TEXT]) });
            assert_eq!(stage.ask(chat("chat").user(TEXT)).await.said(), TEXT);
            let refusal = json!({"error": {"message": format!("不允许：{TEXT}"), "type": "invalid_request_error", "param": "消息", "code": "错误"}});
            a.play(Reply { slices: Some(slices), status: Some(400), ..Reply::json(refusal) });
            let answer = stage.ask(chat("chat").user(TEXT)).await;
            assert_eq!(answer.json()["error"]["message"], format!("不允许：{TEXT}"), "{}", answer.text());
            assert_eq!(answer.json()["error"]["code"], "错误");
        }
        let call = a.calls().pop().unwrap();
        assert_eq!(call.request.json.as_ref().unwrap()["messages"][0]["content"], TEXT);
        assert_eq!(stage.last_line().await["code"], "错误");
    });
}

#[test]
fn bytes_that_are_no_text_never_break_the_gateway() {
    story(async {
        let bad = b"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xff\xfeb\"},\"message\":{\"content\":\"a\xff\xfeb\"},\"finish_reason\":\"stop\"}]}";
        let event = [b"data: ".as_slice(), bad, b"\n\ndata: [DONE]\n\n"].concat();
        let later = [b"data: ".as_slice(), delta("good").as_bytes(), b"\n\n", &event].concat();
        let whole = Reply { body: Body::Bytes("application/json", bad.to_vec().into()), ..Reply::default() };
        for (reply, stream) in [(Reply::pieces([event]), true), (Reply::pieces([later]), true), (whole, false)] {
            let stage = Stage::set(&alone("openai", "http://a/v1"));
            stage.host("a", reply);
            let answer = stage.ask(chat("chat").user("Hi").with("stream", stream)).await;
            let holds = |part: &[u8]| answer.body.windows(part.len()).any(|window| window == part);
            let fails = answer.status == 502 || holds(b"\"error\"");
            assert!(holds(b"a\xff\xfeb") || fails, "{} {}", answer.status, answer.text());
            assert!(!answer.text().contains("\\ufffd"));
        }
        let stage = Stage::set(&alone("openai", "http://a/v1"));
        stage.host(
            "a",
            Reply {
                status: Some(400),
                body: Body::Bytes("text/plain", b"bad \xff\xfe words".to_vec().into()),
                ..Reply::default()
            },
        );
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(answer.status, 400);
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("bad"));
    });
}

const CHINESE: &str = r#"
providers: [{ name: 云端, protocol: openai, base_url: "http://a/v1", api_key: k }]
routes:
  - { name: 问答, match: { path: /v1/chat/completions, model: 问答/模型 v1 }, upstreams: [{ provider: 云端, model: 模型 }] }
clients: [{ name: 业务一, keys: [sk-app], routes: ["*"] }]
"#;

#[test]
fn names_in_chinese_work_everywhere() {
    story(async {
        let stage = Stage::set(CHINESE);
        let a = stage.host("a", pleasant());
        let answer = stage.ask(chat("问答/模型 v1").user("Hi")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("x-mai-route"), Some("%E9%97%AE%E7%AD%94"));
        for (name, value) in &answer.headers {
            assert!(value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{name}: {value}");
        }
        assert_eq!(a.calls()[0].request.model(), "模型");
        let line = stage.last_line().await;
        assert_eq!(
            (&line["client"], &line["route"], &line["upstream"]),
            (&json!("业务一"), &json!("问答"), &json!("云端/模型"))
        );
        assert!(stage.metrics().contains("route=\"问答\""));
        let id = "%E9%97%AE%E7%AD%94%2F%E6%A8%A1%E5%9E%8B%20v1";
        let model = stage.ask(get(&format!("/v1/models/{id}"))).await;
        assert_eq!((model.status, &model.json()["id"]), (200, &json!("问答/模型 v1")));
    });
}

#[test]
fn odd_bytes_in_headers_are_never_the_gateways_fault() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        for value in ["请求-1".as_bytes(), b"\xff\xfe", b"", b"a b", b"%zz%", "\u{200b}".as_bytes(), &[b'x'; 5000]] {
            for name in [
                "x-request-id",
                "x-mai-tag",
                "user-agent",
                "x-mai-query",
                "x-mai-kb-version",
                "traceparent",
                "idempotency-key",
            ] {
                let answer = stage.ask(chat("chat").user("Hi").header(name, value)).await;
                assert!(answer.status < 500, "{name}: {}", answer.text());
                let id = answer.header("x-request-id").unwrap();
                assert!(!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{id}");
                if name == "idempotency-key" && value.len() > 255 {
                    assert_eq!(answer.json()["error"]["param"], "idempotency-key");
                    continue;
                }
                let call = a.calls().pop().unwrap();
                assert_eq!(call.request.header("x-request-id"), Some(id));
            }
        }
        stage.comes_to_rest().await;
        assert!(!stage.log().is_empty(), "every line is JSON");
    });
}

#[test]
fn lone_surrogates_are_refused_or_passed_unchanged() {
    story(async {
        for text in [r"\ud83d", r"\ude00x", r"\ud83d\ud83d", r"\ud83d\ude00", r"\u0000"] {
            for (path, body) in [
                (
                    "/v1/chat/completions",
                    format!(r#"{{"model":"chat","messages":[{{"role":"user","content":"{text}"}}]}}"#),
                ),
                ("/v1/embeddings", format!(r#"{{"model":"embedding","input":["{text}"]}}"#)),
                ("/v1/rerank", format!(r#"{{"model":"rerank","query":"q","documents":["{text}"]}}"#)),
                (
                    "/v1/chat/completions",
                    format!(r#"{{"model":"chat","messages":[{{"role":"user","content":"Hi"}}],"{text}":1}}"#),
                ),
                (
                    "/v1/chat/completions",
                    format!(r#"{{"model":"chat{text}","messages":[{{"role":"user","content":"Hi"}}]}}"#),
                ),
            ] {
                let stage = Stage::usual();
                let a = stage.host(
                    "a",
                    Reply {
                        body: Body::Json(
                            json!({"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}),
                        ),
                        ..Reply::default()
                    },
                );
                if path != "/v1/chat/completions" {
                    a.play(pleasant());
                }
                let answer = stage.ask(chat("").path(path).body(body.clone())).await;
                assert!(
                    answer.status == 200 || (400..500).contains(&answer.status),
                    "{path} {body}: {} {}",
                    answer.status,
                    answer.text()
                );
                if answer.status == 400 && a.calls().is_empty() {
                    assert!(
                        matches!(answer.code().as_deref(), Some("invalid_json" | "invalid_request")),
                        "{}",
                        answer.text()
                    );
                } else if let Some(call) = a.calls().first() {
                    assert!(String::from_utf8_lossy(&call.request.body).contains(text), "{body}");
                }
            }
        }
    });
}

#[test]
fn bodies_that_are_no_json_are_told_so() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let sound = chat("chat").user("Hi").bytes();
        let utf16: Vec<u8> =
            String::from_utf8(sound.to_vec()).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
        let brackets =
            |count: usize| format!("{{\"model\":\"chat\",\"messages\":{}{}}}", "[".repeat(count), "]".repeat(count));
        let wrong: Vec<Vec<u8>> = vec![
            b"".to_vec(),
            b"null".to_vec(),
            b"[]".to_vec(),
            b"\"chat\"".to_vec(),
            b"{".to_vec(),
            b"{\"model\":\"chat\",}".to_vec(),
            b"{'model':'chat'}".to_vec(),
            b"model=chat".to_vec(),
            [sound.as_ref(), b"x"].concat(),
            [sound.as_ref(), sound.as_ref()].concat(),
            b"{\"model\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}".to_vec(),
            b"{\"model\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"a\nb\"}]}".to_vec(),
            utf16,
            brackets(100_000).into_bytes(),
            "[".repeat(1_000_000).into_bytes(),
            "{\"a\":".repeat(200_000).into_bytes(),
        ];
        for body in wrong {
            let shown = String::from_utf8_lossy(&body).chars().take(60).collect::<String>();
            let answer = stage.ask(chat("chat").body(body)).await;
            assert_eq!(answer.status, 400, "{shown}: {}", answer.text());
            assert!(
                matches!(answer.code().as_deref(), Some("invalid_json" | "invalid_request")),
                "{shown}: {}",
                answer.text()
            );
        }
        assert_eq!(a.calls().len(), 0);
        let bom = [b"\xef\xbb\xbf".as_slice(), &sound].concat();
        assert_eq!(stage.ask(chat("chat").body(bom)).await.status, 200);
    });
}

#[test]
fn ten_megabytes_of_nothing_take_bounded_time() {
    story(async {
        let nothing = "\u{200b}".repeat(3_400_000);
        let less = "\u{200b}".repeat(500_000);
        let said = json!({"choices": [{"index": 0, "message": {"content": "read"}, "finish_reason": "stop"}]});
        let asks = [
            (chat("chat").user(&nothing), said),
            (embeddings("embedding", less.as_str()), json!({"data": [{"index": 0, "embedding": [1.0]}]})),
            (rerank("rerank", "q", [less.as_str()]), json!({"results": [{"index": 0, "relevance_score": 0.5}]})),
        ];
        for (ask, answer) in asks {
            let stage = Stage::usual();
            stage.host("a", Reply::json(answer));
            let began = base::Clock.wall();
            let answer = stage.ask(ask).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let took = base::Clock.wall() - began;
            assert!(took < Duration::from_secs(10), "{took:?}");
        }
    });
}
