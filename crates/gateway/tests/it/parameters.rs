//! What the caller wrote reaches the upstream as it was written.

use serde_json::{Value, json};
use testkit::{Reply, Scenario, Script, Strict, chat, story};

use crate::stage::{Stage, pleasant};

fn written(body: &str) -> testkit::Ask {
    chat("chat").body(body.to_owned())
}

#[test]
fn a_body_goes_out_as_it_came_but_for_its_model() {
    story(async {
        let body = r#"{ "chat_template_kwargs":{"enable_thinking":false}, "model" : "chat",
            "messages":[{"role":"user","content":[{"type":"text","text":"你好 \u4f60\ud83d\ude42 \/","vendor":{"x":[]}}],"vendor_note":null},
                        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"},"extra":{}}]},
                        {"role":"tool","tool_call_id":"c1","content":"42"}],
            "response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"type":"number","minimum":1.50}}}}},
            "tools":[{"type":"function","function":{"name":"f","parameters":{}},"cache_control":{"type":"ephemeral"}}],
            "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
            "extra_body":{"guided_json":{}}, "empty":{}, "list":[], "big":12345678901234567890123, "small":1.0000000000000000001e-400,
            "temperature":0.70, "seed":-0, "n":1 , "top_p" : 1e0 }"#;
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let answer = stage.ask(written(body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let expected = body.replace("\"model\" : \"chat\"", "\"model\" : \"model-a\"");
        assert_eq!(String::from_utf8_lossy(&a.calls()[0].request.body), expected);
    });
}

#[test]
fn the_same_name_on_both_sides_changes_no_byte() {
    story(async {
        let stage = Stage::set(&crate::stage::usual_but("{ provider: a, model: model-a }", "{ provider: a }"));
        let a = stage.host("a", pleasant());
        let body = "\t{\"messages\":[ {\"role\":\"user\",\"content\":\"Hi\"}],\"model\":\"ch\\u0061t\"}\r\n";
        assert_eq!(stage.ask(written(body)).await.status, 200);
        assert_eq!(String::from_utf8_lossy(&a.calls()[0].request.body), body);
    });
}

#[test]
fn fields_for_the_gateway_alone_are_taken_out() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
        let messages = r#""messages":[{"role":"user","content":"Hi"}]"#;
        let cases = [
            (
                format!(r#"{{"model":"chat","mai":{{"query":"什么"}},{messages}}}"#),
                format!(r#"{{"model":"model-a",{messages}}}"#),
            ),
            (format!(r#"{{"model":"chat",{messages},"mai":{{}}}}"#), format!(r#"{{"model":"model-a",{messages}}}"#)),
            (
                format!(r#"{{"model":"chat",{messages},"metadata":{{"mai_tag":"eval"}}}}"#),
                format!(r#"{{"model":"model-a",{messages}}}"#),
            ),
            (
                format!(r#"{{"model":"chat",{messages},"metadata":{{"a":"1","mai_tag":"eval"}}}}"#),
                format!(r#"{{"model":"model-a",{messages},"metadata":{{"a":"1"}}}}"#),
            ),
        ];
        for (at, (sent, expected)) in cases.into_iter().enumerate() {
            let answer = stage.ask(written(&sent)).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(String::from_utf8_lossy(&a.calls()[at].request.body), expected);
        }
    });
}

#[test]
fn unknown_fields_of_an_answer_reach_the_caller_in_both_forms() {
    story(async {
        let stage = Stage::usual();
        let body = r#"{"id":"x","object":"chat.completion","created":1,"model":"real-name","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!","annotations":[]},"finish_reason":"stop","vendor":{"a":1.0}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.10},"x_vendor":[1,{}]}"#;
        let a =
            stage.host("a", Reply { body: testkit::Body::Bytes("application/json", body.into()), ..Reply::default() });
        let answer = stage.ask(chat("chat").user("Hi")).await;
        assert_eq!(answer.text(), body);
        assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
        let event = r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"real-name","choices":[{"index":0,"delta":{"content":"Hello!","vendor":1.50},"finish_reason":"stop"}],"x_vendor":{"kept":true}}"#;
        a.play(Reply::sse([event, "[DONE]"]));
        let answer = stage.ask(chat("chat").user("Hi").stream()).await;
        assert_eq!(answer.events().events[0].data, event);
    });
}

#[test]
fn a_doubled_model_has_one_reading_for_permission_and_upstream() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let messages = r#""messages":[{"role":"user","content":"Hi"}]"#;
        for (first, second) in [("chat", "rerank"), ("rerank", "chat"), ("nobody", "chat"), ("chat", "chat")] {
            let body = format!(r#"{{"model":"{first}",{messages},"model":"{second}"}}"#);
            let before = a.calls().len();
            let answer = stage.ask(written(&body)).await;
            if answer.status == 200 {
                let call = &a.calls()[before];
                let text = String::from_utf8_lossy(&call.request.body).into_owned();
                assert_eq!(
                    text.matches("\"model\"").count(),
                    text.matches("model-a").count(),
                    "no other reading is left: {text}"
                );
            } else {
                assert_eq!((answer.status, a.calls().len()), (400, before), "{}", answer.text());
            }
        }
        for doubled in ["messages", "stream"] {
            let body = format!(
                r#"{{"model":"chat",{messages},"stream":false,"{doubled}":{}}}"#,
                if doubled == "stream" { "true" } else { "[]" }
            );
            let answer = stage.ask(written(&body)).await;
            assert_eq!(answer.status, 400, "{doubled}: {}", answer.text());
        }
    });
}

#[test]
fn the_upstream_sees_the_name_of_the_limit_that_the_caller_used() {
    story(async {
        for fields in [json!({"max_tokens": 7}), json!({"max_completion_tokens": 7}), json!({})] {
            let stage = Stage::usual();
            let a = stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
            for stream in [false, true] {
                let mut ask = chat("chat").user("Hi").with("stream", stream);
                for (name, value) in fields.as_object().unwrap() {
                    ask = ask.with(name, value.clone());
                }
                assert_eq!(stage.ask(ask).await.status, 200);
            }
            for call in a.calls() {
                for name in ["max_tokens", "max_completion_tokens"] {
                    assert_eq!(call.request.json.as_ref().unwrap().get(name), fields.get(name));
                }
            }
        }
        let stage = Stage::usual();
        let a = stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
        let both = chat("chat").user("Hi").with("max_tokens", 7).with("max_completion_tokens", 7);
        let answer = stage.ask(both).await;
        assert_eq!((answer.status, a.calls().len()), (400, 1), "both go out where both were written");
        assert!(answer.text().contains("not supported"), "{}", answer.text());
    });
}

#[test]
fn nonsense_in_limits_is_the_upstreams_to_judge() {
    story(async {
        for nonsense in [json!(0), json!(-1), json!("100")] {
            let stage = Stage::usual();
            let a = stage.host("a", pleasant());
            let b = stage.host("b", pleasant());
            let answer = stage.ask(chat("chat").user("Hi").with("max_tokens", nonsense.clone())).await;
            assert_eq!((answer.status, a.calls().len(), b.calls().len()), (400, 1, 0), "{nonsense}: {}", answer.text());
            assert!(answer.text().contains("max_tokens"));
        }
    });
}

#[test]
fn nulls_are_valid_and_none_are_added() {
    story(async {
        for field in
            ["max_tokens", "tools", "stop", "stream", "stream_options", "temperature", "metadata", "mai", "user"]
        {
            let stage = Stage::usual();
            let a = stage.host("a", pleasant());
            let answer = stage.ask(chat("chat").user("Hi").with(field, Value::Null)).await;
            assert_eq!((answer.status, answer.said().is_empty()), (200, false), "{field}: {}", answer.text());
            assert_eq!(answer.header("content-type"), Some("application/json"), "{field}");
            let sent = a.calls()[0].request.json.clone().unwrap();
            assert!(sent.get(field).is_none_or(Value::is_null), "{field}: {sent}");
            // And what is not written is not made up.
            let quiet = Stage::usual();
            quiet.host("a", Scenario::of([]).strict(Strict::OpenAi));
            assert_eq!(quiet.ask(chat("chat").user("Hi")).await.status, 200);
            assert_eq!(quiet.ask(chat("chat").user("Hi").stream()).await.status, 200);
        }
    });
}

#[test]
fn explicit_nulls_pass_a_server_that_takes_none() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
        for field in ["max_tokens", "tools", "stop", "stream", "stream_options", "temperature"] {
            let answer = stage.ask(chat("chat").user("Hi").with(field, Value::Null)).await;
            // Passed or left out, both are right; what is passed is judged by the upstream alone.
            assert!(matches!(answer.status, 200 | 400), "{field}: {}", answer.text());
        }
    });
}

#[test]
fn fields_of_the_wrong_kind_are_refused_by_name() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::new());
        let wrong = [
            (chat("chat"), "messages"),
            (chat("chat").with("messages", "Hi"), "messages"),
            (chat("chat").with("messages", Value::Null), "messages"),
            (chat("chat").user("Hi").with("stream", "true"), "stream"),
            (chat("chat").user("Hi").with("model", 5), "model"),
            (chat("chat").user("Hi").with("model", Value::Null), "model"),
            (chat("chat").user("Hi").with("model", ""), "model"),
            (chat("chat").user("Hi").with("model", "x".repeat(10_000)), "model"),
            (chat("chat").user("Hi").with("mai", "query"), "mai"),
            (chat("chat").user("Hi").with("mai", json!({"query": 1})), "mai.query"),
            (chat("chat").user("Hi").with("mai", json!({"question": "Hi"})), "mai.question"),
        ];
        for (ask, field) in wrong {
            let answer = stage.ask(ask).await;
            assert_eq!(
                (answer.status, answer.code().as_deref()),
                (400, Some("invalid_request")),
                "{field}: {}",
                answer.text()
            );
            assert_eq!(answer.json()["error"]["param"], field, "{}", answer.text());
        }
        assert_eq!(a.calls().len(), 0);
    });
}
