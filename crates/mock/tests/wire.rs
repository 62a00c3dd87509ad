//! The mock over real sockets, as any caller sees it.

#[cfg(test)]
mod client;

use std::time::Duration;

use client::{Client, chat, events, said, start, start_yaml, streaming};
use mock::{At, End, How, Reply, Rule, Scenario, Strict};
use serde_json::{Value, json};
use testkit::Ended;

#[tokio::test]
async fn a_chat_is_answered_and_its_usage_adds_up() {
    let mock = start(Scenario::of([])).await;
    let answer = Client::connect(&mock).await.post("/v1/chat/completions", &chat()).await;
    let body = answer.json();
    assert_eq!(answer.status, 200);
    assert!(body["choices"][0]["message"]["content"].as_str().unwrap().contains("How are you?"));
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    let usage = |field: &str| body["usage"][field].as_u64().unwrap();
    assert_eq!(usage("prompt_tokens") + usage("completion_tokens"), usage("total_tokens"));
}

#[tokio::test]
async fn a_stream_says_the_same_as_the_whole_answer_word_by_word() {
    let mock = start(Scenario::of([])).await;
    let mut client = Client::connect(&mock).await;
    let whole = client.post("/v1/chat/completions", &chat()).await.json();
    let answer = client.post("/v1/chat/completions", &streaming()).await;
    let events = events(&answer.body);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(events.last().unwrap(), "[DONE]");
    assert_eq!(said(&events), whole["choices"][0]["message"]["content"].as_str().unwrap());
    assert!(!String::from_utf8_lossy(&answer.body).contains("usage"), "nobody asked for usage");
}

#[tokio::test]
async fn usage_on_a_stream_comes_once_after_the_finish_where_asked() {
    let mock = start(Scenario::of([])).await;
    let mut body = streaming();
    body["stream_options"] = json!({"include_usage": true});
    body["max_tokens"] = 3.into();
    body["n"] = 2.into();
    let answer = Client::connect(&mock).await.post("/v1/chat/completions", &body).await;
    let events = events(&answer.body);
    let parsed: Vec<Value> = events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    let usage = &parsed.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], 6);
    assert_eq!(parsed.iter().filter(|chunk| !chunk["usage"].is_null()).count(), 1);
    let finishes = parsed.iter().filter(|chunk| chunk["choices"][0]["finish_reason"] == "length");
    assert_eq!(finishes.count(), 2);
}

#[tokio::test]
async fn stop_and_legacy_completions_are_honoured() {
    let mock = start(Scenario::of([Rule::always(Reply::say(["one ", "two ", "three"]))])).await;
    let mut client = Client::connect(&mock).await;
    let mut body = chat();
    body["stop"] = "two".into();
    let answer = client.post("/v1/chat/completions", &body).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "one ");
    let answer = client.post("/v1/completions", &json!({"model": "m", "prompt": "x", "max_tokens": 2})).await.json();
    assert_eq!(answer["choices"][0]["text"], "one two ");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    for (prompt, choices) in [(json!(["x", "y"]), 4), (json!([[1, 2], [3]]), 4), (json!([1, 2]), 2), (json!("x"), 2)] {
        let answer = client.post("/v1/completions", &json!({"model": "m", "prompt": prompt, "n": 2})).await.json();
        assert_eq!(answer["choices"].as_array().unwrap().len(), choices, "`n` for each prompt of {prompt}");
    }
}

#[tokio::test]
async fn embeddings_are_unit_vectors_in_the_form_asked_for() {
    let mock = start(Scenario::of([])).await;
    let mut client = Client::connect(&mock).await;
    let floats =
        client.post("/v1/embeddings", &json!({"model": "e", "input": ["a", "b"], "dimensions": 8})).await.json();
    let vector: Vec<f64> =
        floats["data"][1]["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert_eq!(vector.len(), 8);
    assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
    let coded = json!({"model": "e", "input": "b", "dimensions": 8, "encoding_format": "base64"});
    let coded = client.post("/v1/embeddings", &coded).await.json();
    assert_eq!(coded["data"][0]["embedding"].as_str().unwrap().len(), 44, "8 float32 in base64");
    for (input, count) in [(json!([1, 2, 3]), 1), (json!([[1, 2], [3]]), 2), (json!("x"), 1)] {
        let answer = client.post("/v1/embeddings", &json!({"model": "e", "input": input})).await.json();
        assert_eq!(answer["data"].as_array().unwrap().len(), count);
        assert_eq!(answer["data"][0]["embedding"].as_array().unwrap().len(), 384);
    }
    for input in [json!([]), json!([[]]), json!(["a", 5]), json!(5)] {
        assert_eq!(client.post("/v1/embeddings", &json!({"model": "e", "input": input})).await.status, 400);
    }
}

#[tokio::test]
async fn rerank_answers_in_the_form_of_the_path_and_the_fields() {
    let mock = start(Scenario::of([])).await;
    let mut client = Client::connect(&mock).await;
    let documents = json!(["年假申请流程", "差旅报销流程如下", {"text": "lunch"}]);
    let body = json!({"model": "r", "query": "差旅报销", "documents": documents, "top_n": 2, "return_documents": true});
    let answer = client.post("/v1/rerank", &body).await.json();
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    assert_eq!(answer["results"][0]["index"], 1);
    assert_eq!(answer["results"][0]["document"]["text"], "差旅报销流程如下");
    let tei = client.post("/rerank", &json!({"query": "q", "texts": ["q", "z"]})).await.json();
    assert_eq!((&tei[0]["index"], tei[0].get("score").is_some()), (&json!(0), true));
    let cohere = client.post("/v2/rerank", &body).await.json();
    assert_eq!(cohere["meta"]["api_version"]["version"], "2");
    let voyage = client.post("/v1/rerank", &json!({"model": "r", "query": "q", "documents": ["a"], "top_k": 1})).await;
    assert!(voyage.json()["data"].is_array());
}

#[tokio::test]
async fn ollama_streams_lines_unless_told_not_to() {
    let mock = start(Scenario::of([Rule::always(Reply::say(["a", "b"]))])).await;
    let mut client = Client::connect(&mock).await;
    let answer = client.post("/api/chat", &chat()).await;
    let lines: Vec<Value> =
        String::from_utf8(answer.body).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[2]["done"], &lines[2]["eval_count"]), (&json!(true), &json!(2)));
    let mut body = chat();
    body["stream"] = false.into();
    assert_eq!(client.post("/api/chat", &body).await.json()["message"]["content"], "ab");
    let vectors = client.post("/api/embed", &json!({"model": "e", "input": ["x", "y"]})).await.json();
    assert_eq!(vectors["embeddings"].as_array().unwrap().len(), 2);
    assert_eq!(client.post("/api/embed", &json!({"model": "e", "input": [1]})).await.status, 400);
}

#[tokio::test]
async fn models_and_health_answer_and_unknown_paths_do_not() {
    let mock = start_yaml("models: [a, org/b]").await;
    let mut client = Client::connect(&mock).await;
    assert_eq!(client.get("/v1/models").await.json()["data"].as_array().unwrap().len(), 2);
    assert_eq!(client.get("/v1/models/org%2Fb").await.json()["id"], "org/b");
    assert_eq!(client.get("/v1/models/c").await.json()["error"]["code"], "model_not_found");
    assert_eq!(client.get("/health").await.status, 200);
    assert_eq!(client.get("/nope").await.status, 404);
    assert_eq!(client.get("/v1/chat/completions").await.status, 405);
}

#[tokio::test]
async fn the_first_matching_rule_answers_and_counts_its_own_calls() {
    let mock = start_yaml(
        "rules:
          - {when: {model: 'rag-*', nth: [1, 3]}, reply: 503}
          - {when: {headers: {x-team: red}}, reply: {json: {team: red}}}
          - {when: {model: 'rag-*', after: 1}, reply: {say: late}}",
    )
    .await;
    let mut client = Client::connect(&mock).await;
    let mut body = chat();
    body["model"] = "rag-chat".into();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(client.post("/v1/chat/completions", &body).await.status);
    }
    assert_eq!(statuses, [503, 200, 503, 200]);
    let rules: Vec<Option<usize>> = mock.log().calls().iter().map(|call| call.rule).collect();
    assert_eq!(rules, [Some(1), None, Some(1), Some(3)]);
    let answer = client.send("POST", "/x", &[("x-team", "red")], b"{}").await;
    assert_eq!(answer.json()["team"], "red");
}

#[tokio::test]
async fn every_kth_and_a_seeded_chance_fall_the_same_way_each_time() {
    let scenario = "seed: 5\nrules:\n  - {when: {every: 3}, reply: 500}\n  - {when: {chance: 0.5}, reply: 502}";
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mock = start_yaml(scenario).await;
        let mut client = Client::connect(&mock).await;
        let mut statuses = Vec::new();
        for _ in 0..12 {
            statuses.push(client.post("/v1/chat/completions", &chat()).await.status);
        }
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].iter().skip(2).step_by(3).all(|status| *status == 500));
    assert!(runs[0].contains(&200) && runs[0].contains(&502));
}

#[tokio::test]
async fn breaks_happen_where_and_how_they_are_written() {
    for (cut, how, expected, ended) in [
        (At::Request, How::Rst, 0, Ended::Reset),
        (At::Request, How::Fin, 0, Ended::Closed),
        (At::Head, How::Rst, 0, Ended::Reset),
        (At::Events(2), How::Fin, 2, Ended::Closed),
        (At::Events(1), How::Rst, 1, Ended::Reset),
        (At::End, How::Fin, 3, Ended::Closed),
    ] {
        let mock = start(Scenario::of([Rule::always(Reply::sse(["a", "b", "c"]).cut(cut, how))])).await;
        let (bytes, how) = Client::connect(&mock).await.post_raw("/v1/chat/completions", &streaming()).await;
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("data: ").count(), expected, "{cut:?}");
        assert_eq!(how, ended, "{cut:?}");
        assert!(!text.contains("0\r\n\r\n"), "the body must not look complete");
        mock.log().until(|calls| calls.iter().all(|call| call.end == End::Cut)).await;
    }
}

#[tokio::test]
async fn bytes_before_a_cut_are_counted_in_the_body_alone() {
    let mock = start_yaml("rules: [{reply: {text: 0123456789, cut: {bytes: 4, how: fin}}}]").await;
    let (bytes, ended) = Client::connect(&mock).await.post_raw("/", &json!({})).await;
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("content-length: 10") && text.ends_with("\r\n\r\n0123"));
    assert_eq!(ended, Ended::Closed);
}

#[tokio::test]
async fn pieces_arrive_each_in_a_read_of_its_own() {
    let mock = start_yaml("rules: [{reply: {pieces: ['da', 'ta: x', \"\\n\\n\"], every: 15ms, framing: close}}]").await;
    let reads = Client::connect(&mock).await.post_reads("/v1/chat/completions", &streaming()).await;
    let reads: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
    let head = reads[0];
    assert!(head.ends_with(b"da") || reads[1] == b"da", "{reads:?}");
    assert!(reads.ends_with(&[b"ta: x", b"\n\n"]), "{reads:?}");
}

#[tokio::test]
async fn the_log_tells_when_an_answer_began_and_when_it_ended() {
    let slow = Reply::sse(["a"; 3]).every(Duration::from_millis(20));
    let mock = start(Scenario::of([Rule::nth(1, Reply::hang()), Rule::always(slow)])).await;
    let mut hung = Client::connect(&mock).await;
    hung.begin("POST", "/v1/chat/completions", &[], streaming().to_string().as_bytes()).await;
    mock.log().until(|calls| calls.len() == 1).await;
    Client::connect(&mock).await.post("/v1/chat/completions", &streaming()).await;
    mock.log().until(|calls| calls.len() == 2 && calls[1].ended_at.is_some()).await;
    let calls = mock.log().calls();
    assert_eq!(calls[0].first_byte_at, None, "it has said nothing");
    let (began, ended) = (calls[1].first_byte_at.unwrap(), calls[1].ended_at.unwrap());
    assert!(calls[1].at <= began && began + Duration::from_millis(40) <= ended, "{began:?} {ended:?}");
}

#[tokio::test]
async fn a_caller_who_leaves_a_hanging_or_streaming_call_is_noticed() {
    let slow = Reply::sse(["a"; 100]).every(Duration::from_millis(50));
    let mock = start(Scenario::of([Rule::nth(1, Reply::hang()), Rule::always(slow)])).await;
    for turn in 1..=2 {
        let mut client = Client::connect(&mock).await;
        client.begin("POST", "/v1/chat/completions", &[], streaming().to_string().as_bytes()).await;
        mock.log().until(|calls| calls.len() == turn).await;
        drop(client);
        mock.log().until(|calls| calls[turn - 1].end == End::Gone).await;
        assert_eq!(mock.log().in_flight(), (0, 1));
    }
    assert!(mock.log().calls().iter().all(|call| call.ended_at >= Some(call.at)));
}

#[tokio::test]
async fn idle_connections_close_as_told() {
    for (how, ended) in [("fin", Ended::Closed), ("rst", Ended::Reset)] {
        let mock = start_yaml(&format!("connections: {{idle: 30ms, how: {how}}}")).await;
        let mut client = Client::connect(&mock).await;
        assert_eq!(client.get("/health").await.status, 200);
        assert_eq!(client.rest().await, (Vec::new(), ended));
    }
}

#[tokio::test]
async fn a_connection_that_is_not_to_be_reused_dies_at_the_second_request() {
    let mock = start(Scenario::of([]).no_reuse(How::Fin)).await;
    let mut client = Client::connect(&mock).await;
    assert_eq!(client.get("/health").await.status, 200);
    client.begin("GET", "/health", &[], b"").await;
    let (bytes, _) = client.rest().await;
    assert!(bytes.is_empty());
    assert_eq!(mock.log().total(), 1);
}

#[tokio::test]
async fn connection_close_may_be_said_and_not_done() {
    let mock = start_yaml("rules: [{reply: {headers: {connection: close}, keep_open: true, text: x}}]").await;
    let mut client = Client::connect(&mock).await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.header("connection"), Some("close"));
    }
    assert_eq!(mock.log().connections(), (1, 1));
}

#[tokio::test]
async fn a_rate_limit_serves_what_fits_and_says_when_to_come_back() {
    let mock = start_yaml("rules: [{limit: {calls: 2, per: 10s}}]").await;
    let mut client = Client::connect(&mock).await;
    let first = client.post("/v1/chat/completions", &chat()).await;
    assert_eq!((first.status, first.header("x-ratelimit-remaining-requests")), (200, Some("1")));
    assert_eq!(client.post("/v1/chat/completions", &chat()).await.status, 200);
    let third = client.post("/v1/chat/completions", &chat()).await;
    assert_eq!((third.status, third.header("retry-after")), (429, Some("5")));
    assert_eq!(third.json()["error"]["code"], "rate_limit_exceeded");
    assert_eq!(third.headers.iter().filter(|(name, _)| name == "retry-after").count(), 1);
}

#[tokio::test]
async fn slots_make_calls_wait_for_each_other() {
    let mock = start_yaml("slots: 1\nrules: [{reply: {latency: 40ms, text: x}}]").await;
    let one = async { Client::connect(&mock).await.get("/").await.status };
    let two = async { Client::connect(&mock).await.get("/").await.status };
    assert_eq!(tokio::join!(one, two), (200, 200));
    let ends: Vec<Duration> = mock.log().calls().iter().filter_map(|call| call.ended_at).collect();
    assert!(ends[0].abs_diff(ends[1]) >= Duration::from_millis(35), "{ends:?}");
}

#[tokio::test]
async fn strict_providers_refuse_what_they_do_not_document_in_their_own_words() {
    let rerank = json!({"model": "r", "query": "q", "documents": ["a"]});
    let with = |body: &Value, field: &str, value: Value| {
        let mut body = body.clone();
        body[field] = value;
        body
    };
    for (strict, path, good, bad, form) in [
        (Strict::CohereV1, "/v1/rerank", with(&rerank, "top_n", 1.into()), with(&rerank, "top_k", 1.into()), "message"),
        (Strict::CohereV2, "/v2/rerank", rerank.clone(), with(&rerank, "return_documents", true.into()), "message"),
        (Strict::CohereV2, "/v2/rerank", rerank.clone(), with(&rerank, "documents", json!([{"text": "a"}])), "message"),
        (Strict::Jina, "/v1/rerank", rerank.clone(), with(&rerank, "top_n", Value::Null), "detail"),
        (Strict::Voyage, "/v1/rerank", with(&rerank, "top_k", 1.into()), with(&rerank, "top_n", 1.into()), "detail"),
        (Strict::Tei, "/rerank", json!({"query": "q", "texts": ["a"]}), rerank.clone(), "error_type"),
        (
            Strict::Tei,
            "/rerank",
            json!({"query": "q", "texts": ["a"]}),
            json!({"query": "q", "texts": vec!["a"; 33]}),
            "error",
        ),
        (Strict::OpenAi, "/v1/chat/completions", chat(), with(&chat(), "mai", json!({})), "error"),
        (Strict::OpenAi, "/v1/chat/completions", chat(), with(&chat(), "stream_options", json!({})), "error"),
        (
            Strict::OpenAi,
            "/v1/embeddings",
            json!({"model": "e", "input": "a"}),
            json!({"model": "e", "input": ["a", ""]}),
            "error",
        ),
        (Strict::Ollama, "/api/chat", chat(), with(&chat(), "max_tokens", 1.into()), "error"),
        (
            Strict::Ollama,
            "/api/embed",
            json!({"model": "e", "input": "a"}),
            json!({"model": "e", "input": [[1]]}),
            "error",
        ),
    ] {
        let mock = start(Scenario::of([]).strict(strict)).await;
        let mut client = Client::connect(&mock).await;
        assert_eq!(client.post(path, &good).await.status, 200, "{strict:?} {good}");
        let refused = client.post(path, &bad).await;
        assert!(matches!(refused.status, 400 | 422), "{strict:?} {bad}");
        assert!(refused.json().get(form).is_some(), "{strict:?} {}", refused.json());
        assert_eq!(client.post(&format!("/v1{path}"), &good).await.status, 404, "{strict:?} takes its own path alone");
    }
}

#[tokio::test]
async fn azure_wants_its_deployment_its_version_and_its_header() {
    let mock = start(Scenario::of([]).strict(Strict::Azure).key("P1")).await;
    let mut client = Client::connect(&mock).await;
    let body = json!({"messages": []}).to_string();
    let path = "/openai/deployments/d/chat/completions";
    let key = [("api-key", "P1")];
    let with_version = format!("{path}?api-version=2024-10-21");
    assert_eq!(client.send("POST", &with_version, &key, body.as_bytes()).await.status, 200);
    assert_eq!(client.send("POST", path, &key, body.as_bytes()).await.status, 404);
    assert_eq!(client.send("POST", &with_version, &[], body.as_bytes()).await.status, 401);
}

#[tokio::test]
async fn tool_messages_must_answer_calls_where_openai_is_strict() {
    let mock = start(Scenario::of([]).strict(Strict::OpenAi)).await;
    let mut client = Client::connect(&mock).await;
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let answer = json!({"role": "tool", "tool_call_id": "c1", "content": "1"});
    for (messages, status) in [
        (json!([call, answer]), 200),
        (json!([answer]), 400),
        (json!([call]), 400),
        (json!([call, {"role": "user", "content": "x"}]), 400),
        (json!([call, answer, answer]), 400),
    ] {
        let body = json!({"model": "m", "messages": messages});
        assert_eq!(client.post("/v1/chat/completions", &body).await.status, status, "{messages}");
    }
}

#[tokio::test]
async fn knobs_edit_the_built_in_answer() {
    let mock = start_yaml(
        "rules:
          - {when: {path: '*/embeddings'}, reply: {dimensions: 3, vectors: float, usage: null}}
          - {when: {body: tools}, reply: {tool_calls: [{name: f, arguments: {x: 1}}]}}
          - {when: {body: odd}, reply: {usage: {prompt_tokens: -1, total_tokens: '1e18'}, finish: null, model: other}}
          - {when: {stream: true}, reply: {stream: false}}",
    )
    .await;
    let mut client = Client::connect(&mock).await;
    let vectors = json!({"model": "e", "input": "a", "encoding_format": "base64"});
    let vectors = client.post("/v1/embeddings", &vectors).await.json();
    assert_eq!(vectors["data"][0]["embedding"].as_array().unwrap().len(), 3);
    assert!(vectors.get("usage").is_none());
    let mut body = streaming();
    assert_eq!(client.post("/v1/chat/completions", &body).await.json()["object"], "chat.completion");
    body["tools"] = json!([]);
    let events = events(&client.post("/v1/chat/completions", &body).await.body);
    assert!(events.iter().any(|event| event.contains("tool_calls") && event.contains("\"name\":\"f\"")));
    assert!(events[events.len() - 2].contains("\"finish_reason\":\"tool_calls\""));
    let odd = json!({"model": "m", "messages": [{"role": "user", "content": "odd"}]});
    let odd = client.post("/v1/chat/completions", &odd).await.json();
    assert_eq!((&odd["usage"]["prompt_tokens"], &odd["model"]), (&json!(-1), &json!("other")));
    assert!(odd["choices"][0]["finish_reason"].is_null());
}

#[tokio::test]
async fn what_reached_the_mock_can_be_read_over_http_and_forgotten() {
    let mock = start_yaml("inspect: true\nrules: [{when: {path: /x}, reply: echo}]").await;
    let mut client = Client::connect(&mock).await;
    let echoed = client.send("POST", "/x?a=1", &[("X-Key", "v")], b"{\"n\": 1.50}").await.json();
    assert_eq!((&echoed["query"], &echoed["method"]), (&json!("a=1"), &json!("POST")));
    assert_eq!(echoed["body"].to_string(), "{\"n\":1.50}");
    client.send("POST", "/x", &[], &[0xff, 0xfe]).await;
    let seen = client.get("/__mock/calls").await.json();
    assert_eq!(seen["total"], 2);
    assert_eq!(seen["calls"][0]["json"]["n"].to_string(), "1.50");
    assert!(seen["calls"][0]["headers"].as_array().unwrap().contains(&json!(["x-key", "v"])));
    assert_eq!(seen["calls"][1]["base64"], "//4=");
    assert_eq!(client.send("POST", "/__mock/reset", &[], b"").await.status, 200);
    assert_eq!(client.get("/__mock/calls").await.json()["total"], 0);
    assert_eq!(client.send("PUT", "/__mock/scenario", &[], b"rules: [{reply: 418}]").await.status, 200);
    assert_eq!(client.get("/x").await.status, 418);
    assert_eq!(client.send("PUT", "/__mock/scenario", &[], b"rules: [{reply: {staus: 1}}]").await.status, 400);
    let closed = start(Scenario::default()).await;
    assert_eq!(Client::connect(&closed).await.get("/__mock/calls").await.status, 404);
}

#[tokio::test]
async fn a_chunked_body_and_expect_are_understood() {
    let mock = start_yaml("rules: [{reply: echo}]").await;
    let mut client = Client::connect(&mock).await;
    client.write(b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n").await;
    assert_eq!(client.read().await, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write(b"2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().json()["body"], json!([1]));
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_a_stopped_mock_is_gone() {
    let mock = start(Scenario::default()).await;
    let mut client = Client::connect(&mock).await;
    client.write(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").await;
    assert!(client.rest().await.0.starts_with(b"HTTP/1.1 400"));
    let addr = mock.addr();
    mock.stop().await;
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn a_coded_stream_still_comes_event_by_event() {
    use std::io::Read as _;
    let mock = start_yaml("rules: [{reply: {encoding: gzip, sse: [a, b], every: 15ms}}]").await;
    let mut client = Client::connect(&mock).await;
    client.begin("POST", "/v1/chat/completions", &[], b"{}").await;
    assert_eq!(client.head().await.unwrap().header("content-encoding"), Some("gzip"));
    let first = client.more().await.unwrap().unwrap();
    let mut text = vec![0; 9];
    flate2::read::GzDecoder::new(first.as_slice()).read_exact(&mut text).unwrap();
    assert_eq!(text, b"data: a\n\n");
    assert!(client.more().await.unwrap().is_some());
}

#[tokio::test]
async fn a_body_can_be_dripped_cut_anew_and_framed_otherwise() {
    let mock = start_yaml(
        "rules:
          - {when: {path: /drip}, reply: {text: 'abcdef', slices: {bytes: 2, every: 10ms}}}
          - {when: {path: /at}, reply: {sse: [abc], slices: {at: [3, 8], every: 10ms}}}
          - {when: {path: /close}, reply: {json: {a: 1}, framing: close}}
          - {when: {path: /chunked}, reply: {json: {a: 1}, framing: chunked}}
          - {when: {path: /lie}, reply: {text: abc, headers: {content-length: 10}, cut: {at: end, how: fin}}}",
    )
    .await;
    let mut client = Client::connect(&mock).await;
    client.begin("GET", "/drip", &[], b"").await;
    client.head().await.unwrap();
    for piece in ["ab", "cd", "ef"] {
        assert_eq!(client.more().await.unwrap().unwrap(), piece.as_bytes());
    }
    client.begin("GET", "/at", &[], b"").await;
    client.head().await.unwrap();
    for piece in ["dat", "a: ab", "c\n\n"] {
        assert_eq!(client.more().await.unwrap().unwrap(), piece.as_bytes());
    }
    assert_eq!(client.more().await.unwrap(), None);
    let answer = client.get("/chunked").await;
    assert_eq!((answer.header("content-length"), answer.json()), (None, json!({"a": 1})));
    let answer = client.get("/close").await;
    assert_eq!((answer.header("connection"), answer.is_whole), (Some("close"), true));
    let answer = Client::connect(&mock).await.get("/lie").await;
    assert_eq!((answer.text().as_str(), answer.is_whole), ("abc", false));
}

#[tokio::test]
async fn a_caller_of_http_1_0_reads_to_the_end() {
    let mock = start(Scenario::of([Rule::always(Reply::sse(["a"]))])).await;
    let mut client = Client::connect(&mock).await;
    client.write(b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}").await;
    let (bytes, ended) = client.rest().await;
    assert!(String::from_utf8(bytes).unwrap().ends_with("connection: close\r\n\r\ndata: a\n\n"));
    assert_eq!(ended, Ended::Closed);
}

#[tokio::test]
async fn an_early_answer_comes_before_the_body_and_ends_the_connection() {
    let mock = start_yaml("rules: [{when: {path: /big}, reply: {status: 413, early: true}}]").await;
    let mut client = Client::connect(&mock).await;
    client.write(b"POST /big HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n").await;
    client.write(&[b'x'; 200_000]).await;
    assert_eq!(client.answer().await.unwrap().status, 413);
    client.write(&[b'x'; 200_000]).await;
    assert_eq!(client.rest().await.1, Ended::Closed);
    assert_eq!(Client::connect(&mock).await.get("/health").await.status, 200);
    assert_eq!(mock.log().calls()[0].rule, Some(1));
}

#[tokio::test]
async fn whoever_inspects_is_not_counted() {
    let mock = start(Scenario::of([]).inspect()).await;
    Client::connect(&mock).await.get("/health").await;
    let seen = Client::connect(&mock).await.get("/__mock/calls").await.json();
    assert_eq!((&seen["connections"], &seen["total"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn the_first_connections_can_be_reset_as_they_come() {
    let mock = start_yaml("connections: {reset_first: 1}").await;
    let (bytes, _) = Client::connect(&mock).await.post_raw("/", &json!({})).await;
    assert!(bytes.is_empty());
    assert_eq!(Client::connect(&mock).await.get("/health").await.status, 200);
}

#[tokio::test]
async fn connections_are_refused_for_a_time_and_then_taken_again() {
    let mock = start(Scenario::default()).await;
    let mut client = Client::connect(&mock).await;
    assert_eq!(client.get("/health").await.status, 200);
    mock.mock().play(Scenario::read("connections: {refuse: {until: 1h}}").unwrap());
    // What was open breaks off.
    assert_eq!(client.rest().await.1, Ended::Closed);
    let refused = tokio::net::TcpStream::connect(mock.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    mock.mock().play(Scenario::read("connections: {refuse: {until: 30ms}}").unwrap());
    loop {
        match tokio::net::TcpStream::connect(mock.addr()).await {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused),
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(Client::connect(&mock).await.get("/health").await.status, 200);
    mock.stop().await;
}

#[tokio::test]
async fn a_rule_may_hold_for_a_time() {
    let mock = start_yaml("rules: [{when: {until: 1h}, reply: 503}, {when: {from: 1h}, reply: 500}]").await;
    let mut client = Client::connect(&mock).await;
    assert_eq!(client.get("/health").await.status, 503);
    mock.mock().play(Scenario::read("rules: [{when: {from: 1h, until: 2h}, reply: 500}]").unwrap());
    assert_eq!(client.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_header_may_name_a_moment() {
    let rules =
        "rules: [{reply: {status: 429, headers: {retry-after: {in: 2s}, x-ratelimit-reset: {in: 1h, as: unix}}}}]";
    let mock = start_yaml(rules).await;
    let answer = Client::connect(&mock).await.post("/v1/chat/completions", &chat()).await;
    let date = answer.header("retry-after").unwrap();
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    assert_eq!(answer.headers.iter().filter(|(name, _)| name == "retry-after").count(), 1);
    let reset: u64 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
    let now = base::Clock.wall().as_secs();
    assert!((now + 3599..=now + 3601).contains(&reset), "{reset}");
}

#[tokio::test]
async fn a_header_of_the_built_in_answer_may_be_left_out() {
    let rules = "rules: [{when: {nth: 1}, reply: {status: 429, headers: {Retry-After: null}}}, {reply: 429}]";
    let mock = start_yaml(rules).await;
    let mut client = Client::connect(&mock).await;
    assert_eq!(client.post("/v1/chat/completions", &chat()).await.header("retry-after"), None);
    assert_eq!(client.post("/v1/chat/completions", &chat()).await.header("retry-after"), Some("1"));
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_with_its_place() {
    for (text, what) in [
        ("rules: [", "line 2, column 1"),
        ("rulez: []", "unknown field `rulez`"),
        ("rules: [{reply: {staus: 1}}]", "rule 1: unknown field `staus`"),
        ("rules: [{reply: ok}]", "rule 1: `reply: ok` is not known"),
        ("rules: [{reply: 200}, {when: {nth: x}}]", "rule 2: `when.nth`"),
        ("rules: [{when: {chance: 2}}]", "rule 1: `when.every` is at least 1"),
        ("rules: [{limit: {}}]", "`limit` is"),
        ("rules: [{reply: 99}]", "not a status"),
        ("rules: [{reply: {latency: 3x}}]", "not a duration"),
        ("rules: [{reply: {latency: {p50: 3s}}}]", "`latency` is"),
        ("rules: [{reply: {cut: {how: rst}}}]", "`cut` is"),
        ("rules: [{reply: {slices: {bytes: 0}}}]", "`slices` is"),
        ("rules: [{reply: {json: 1, text: x}}]", "not several"),
        ("rules: [{reply: {base64: '!'}}]", "not base64"),
        ("rules: [{reply: {encoding: lzma}}]", "`encoding: lzma`"),
        ("rules: [{reply: {framing: x}}]", "`framing: x`"),
        ("rules: [{reply: {headers: {a: \"b\\r\\nc: d\"}}}]", "line break"),
        ("rules: [{reply: {pieces: [{times: 3}]}}]", "a piece is"),
        ("strict: nobody", "`strict: nobody`"),
        ("dimensions: 0", "`dimensions`"),
        ("connections: {how: hang}", "`connections.how: hang`"),
        ("connections: {refuse: {from: 2s, until: 2s}}", "`connections.refuse`: `until` is later"),
        ("rules: [{when: {from: 2s, until: 1s}}]", "rule 1: `until` is later"),
        ("rules: [{reply: {headers: {a: {at: 2s}}}}]", "header `a` is"),
        ("rules: [{reply: {headers: {a: {in: 2s, as: iso}}}}]", "header `a` is"),
    ] {
        let error = Scenario::read(text).unwrap_err().to_string();
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn every_example_is_a_sound_scenario() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mock");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(Scenario::read(&text).is_ok(), "{}: {}", path.display(), Scenario::read(&text).unwrap_err());
        count += 1;
    }
    assert!(count >= 8, "the examples have moved");
}

#[test]
fn every_scenario_in_the_handbook_is_sound() {
    let handbook = include_str!("../README.md");
    let blocks: Vec<&str> =
        handbook.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("yaml\n")).collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        assert!(Scenario::read(block).is_ok(), "{}\n{block}", Scenario::read(block).unwrap_err());
    }
}
