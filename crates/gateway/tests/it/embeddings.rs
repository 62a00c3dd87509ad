//! Embeddings: every encoding, every form of input, batches in parts.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, End, Reply, Scenario, Script, Strict, embeddings, story};

use crate::stage::{KEY, Stage, alone, pleasant, usual_but, without_waits};

/// The little-endian float32 of `[0.5, -0.25, 3.0]`.
const PACKED: &str = "AAAAPwAAgL4AAEBA";

fn one(vector: Value) -> Reply {
    Reply::json(
        json!({"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": vector}], "usage": {"prompt_tokens": 2, "total_tokens": 2}}),
    )
}

fn vector(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["data"][0]["embedding"].clone()
}

#[test]
fn the_encoding_is_the_callers_whatever_the_upstream_answers() {
    story(async {
        let floats = || one(json!([0.5, -0.25, 3.0]));
        let packed = || one(json!(PACKED));
        for reply in [floats(), packed()] {
            let stage = Stage::usual();
            stage.host("a", Script::always(reply));
            let ask = |encoding: &str| embeddings("embedding", "abc").with("encoding_format", encoding);
            assert_eq!(vector(&stage.ask(ask("base64")).await), PACKED);
            for ask in [
                ask("float"),
                embeddings("embedding", "abc"),
                embeddings("embedding", "abc").with("encoding_format", Value::Null),
            ] {
                assert_eq!(vector(&stage.ask(ask).await), json!([0.5, -0.25, 3.0]));
            }
        }
    });
}

#[test]
fn an_encoding_of_the_upstreams_own_passes_or_is_refused_but_never_turned_into_floats() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::always(one(json!([1, -2, 127]))));
        let answer = stage.ask(embeddings("embedding", "abc").with("encoding_format", "int8")).await;
        if answer.status == 200 {
            assert_eq!(a.calls()[0].request.json.as_ref().unwrap()["encoding_format"], "int8");
            assert!(answer.text().contains("[1,-2,127]"), "{}", answer.text());
        } else {
            assert_eq!((answer.status, a.calls().len() <= 1), (400, true), "{}", answer.text());
        }
    });
}

#[test]
fn every_digit_of_an_upstreams_floats_arrives() {
    story(async {
        let stage = Stage::usual();
        let body = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.12345678901234567890, -1e-30,3]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1},"extra":{"kept":1.000}}"#;
        stage.host(
            "a",
            Script::always(Reply { body: testkit::Body::Bytes("application/json", body.into()), ..Reply::default() }),
        );
        assert_eq!(stage.ask(embeddings("embedding", "abc")).await.text(), body);
    });
}

#[test]
fn every_form_of_input_gets_as_many_vectors_as_it_has_inputs() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let forms =
            [(json!("abc"), 1), (json!(["abc"]), 1), (json!([101, 202, 303]), 1), (json!([[101, 202], [303]]), 2)];
        for (calls, (input, count)) in forms.into_iter().enumerate() {
            let answer = stage.ask(embeddings("embedding", input.clone())).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let data = answer.json()["data"].clone();
            assert_eq!(data.as_array().unwrap().len(), count, "{input}");
            for (at, item) in data.as_array().unwrap().iter().enumerate() {
                assert_eq!((&item["index"], &item["object"]), (&json!(at), &json!("embedding")));
            }
            assert_eq!(a.calls()[calls].request.json.as_ref().unwrap()["input"], input, "integers stay integers");
        }
    });
}

#[test]
fn inputs_that_are_none_are_refused_by_name_and_reach_nobody() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        for input in [
            json!([]),
            json!(["a", 5]),
            json!([[]]),
            json!([[1], []]),
            json!([1, "a"]),
            json!({"text": "a"}),
            json!(5),
            Value::Null,
            json!([1.5]),
            json!([-1]),
        ] {
            let answer = stage.ask(embeddings("embedding", input.clone())).await;
            assert_eq!(
                (answer.status, answer.code().as_deref()),
                (400, Some("invalid_request")),
                "{input}: {}",
                answer.text()
            );
            let error = answer.json()["error"].clone();
            assert!(
                error["param"].as_str().unwrap().contains("input")
                    && error["message"].as_str().unwrap().contains("input"),
                "{error}"
            );
            assert_eq!(answer.header("x-should-retry"), Some("false"));
        }
        assert_eq!(a.calls().len(), 0);
    });
}

#[test]
fn an_empty_text_is_neither_replaced_nor_dropped() {
    story(async {
        let strict = || Scenario::of([]).strict(Strict::OpenAi);
        for input in [json!(""), json!(["a", ""])] {
            let stage = Stage::set(&alone("openai", "http://a/v1"));
            let a = stage.host("a", strict());
            let answer = stage.ask(embeddings("embedding", input.clone())).await;
            assert_eq!((answer.status, a.calls().len()), (400, 1), "{}", answer.text());
            assert!(answer.text().contains("'$.input' is invalid."), "its own words: {}", answer.text());
            let tolerant = Stage::usual();
            let a = tolerant.host("a", pleasant());
            let answer = tolerant.ask(embeddings("embedding", input.clone())).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(a.calls()[0].request.json.as_ref().unwrap()["input"], input);
        }
    });
}

/// A server that takes texts only.
fn texts_only(request: &testkit::Request) -> Reply {
    let is_text = |value: &Value| value.is_string();
    let input = request.field("input").cloned().unwrap_or_default();
    if is_text(&input) || input.as_array().is_some_and(|list| list.iter().all(is_text)) {
        return Reply::default();
    }
    let detail =
        json!({"detail": [{"loc": ["body", "input"], "msg": "Input should be a valid string", "type": "string_type"}]});
    Reply { status: Some(422), ..Reply::json(detail) }
}

#[test]
fn token_arrays_are_decoded_for_servers_that_take_texts_only_and_from_then_on_at_once() {
    story(async {
        let stage = Stage::set(&alone("openai", "http://a/v1"));
        let a = stage.host("a", Script::by(texts_only));
        // "hello world" in cl100k_base, as LangChain sends it.
        let ids = json!([[15339, 1917], [15339]]);
        let answer = stage.ask(embeddings("embedding", ids.clone())).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2);
        assert_eq!(a.calls()[1].request.json.as_ref().unwrap()["input"], json!(["hello world", "hello"]));
        assert_eq!(answer.header("x-mai-attempts"), Some("2"));
        assert_eq!(stage.ask(embeddings("embedding", ids)).await.status, 200);
        assert_eq!(a.calls().len(), 3, "it is known now");
    });
}

#[test]
fn token_arrays_that_nobody_may_decode_come_back_with_the_upstreams_words() {
    story(async {
        let config =
            alone("openai", "http://a/v1").replace("api_key: sk-a-secret", "api_key: sk-a-secret, token_arrays: pass");
        let stage = Stage::set(&config);
        let a = stage.host("a", Script::by(texts_only));
        let answer = stage.ask(embeddings("embedding", json!([1, 2]))).await;
        assert_eq!((answer.status, a.calls().len()), (422, 1));
        assert!(answer.text().contains("Input should be a valid string"), "{}", answer.text());
    });
}

fn limited(most: usize) -> impl Fn(&testkit::Request) -> Reply + Clone {
    move |request| {
        let count = request.field("input").and_then(Value::as_array).map_or(1, Vec::len);
        if count > most {
            return Reply {
                status: Some(413),
                ..Reply::json(json!({"error": {"message": format!("batch size {count} > {most}")}}))
            };
        }
        Reply::default()
    }
}

fn batches() -> String {
    usual_but("match: { path: /v1/embeddings }", "match: { path: /v1/embeddings }\n    batch: { max_inputs: 32 }")
}

fn texts(count: usize) -> Value {
    (0..count).map(|n| format!("text number {n}")).collect()
}

#[test]
fn a_large_call_goes_in_parts_and_comes_back_as_one() {
    story(async {
        let stage = Stage::set(&batches());
        let a = stage.host("a", Script::by(limited(32)));
        let b = stage.host("b", pleasant());
        let single = |n: usize| embeddings("embedding", format!("text number {n}")).with("encoding_format", "base64");
        for encoding in ["base64", "float"] {
            let answer = stage.ask(embeddings("embedding", texts(70)).with("encoding_format", encoding)).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let body = answer.json();
            let data = body["data"].as_array().unwrap();
            let indexes: Vec<u64> = data.iter().map(|item| item["index"].as_u64().unwrap()).collect();
            assert_eq!(indexes, (0..70).collect::<Vec<u64>>());
            assert_eq!(answer.header("x-mai-attempts"), Some("3"));
            // The mock counts words.
            let sum = 70 * 3;
            assert_eq!(body["usage"]["prompt_tokens"], sum);
            let line = stage.last_line().await;
            assert_eq!(line["tokens_in"], sum);
            let outcomes: Vec<&Value> =
                line["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["outcome"]).collect();
            assert_eq!(outcomes, [&json!("ok"); 3], "{line}");
            if encoding == "base64" {
                for n in [0, 31, 32, 69] {
                    assert_eq!(
                        data[n]["embedding"],
                        vector(&stage.ask(single(n)).await),
                        "text {n} has its own vector"
                    );
                }
            }
        }
        let sizes: Vec<usize> =
            a.calls().iter().map(|call| call.request.field("input").unwrap().as_array().map_or(1, Vec::len)).collect();
        assert!(sizes.iter().all(|size| *size <= 32), "{sizes:?}");
        assert_eq!(b.calls().len(), 0);
    });
}

#[test]
fn only_the_part_that_failed_is_tried_again() {
    story(async {
        let stage = Stage::set(&batches());
        let a = stage.host("a", Script::by(limited(32)));
        a.play(Script::by(|request| {
            if request.body.windows(14).any(|part| part == b"text number 33") {
                Reply::status(500)
            } else {
                Reply::default()
            }
        }));
        let b = stage.host("b", pleasant());
        let answer = stage.ask(embeddings("embedding", texts(70))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!((a.calls().len(), b.calls().len()), (3, 1));
        assert_eq!(answer.header("x-mai-attempts"), Some("4"));
        assert_eq!(b.calls()[0].request.field("input").unwrap()[0], "text number 32");
    });
}

#[test]
fn a_part_that_fails_for_good_fails_the_call_and_there_is_no_half_answer() {
    story(async {
        let stage = Stage::set(&without_waits(&batches()));
        let failing = |request: &testkit::Request| {
            if request.body.windows(14).any(|part| part == b"text number 33") {
                Reply::status(500)
            } else {
                Reply::default().after(Duration::from_millis(500))
            }
        };
        let a = stage.host("a", Script::by(failing));
        stage.host("b", Script::by(failing));
        let answer = stage.ask(embeddings("embedding", texts(70))).await;
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_error")), "{}", answer.text());
        let line = stage.last_line().await;
        assert_eq!(line["attempts"].as_array().unwrap().len(), stage.net.dialed().len(), "{line}");
        assert_eq!(answer.header("x-mai-attempts"), Some("4"), "the cancelled ones are counted too");
        let cancelled = line["attempts"].as_array().unwrap().iter().filter(|attempt| attempt["outcome"] == "cancelled");
        assert_eq!(cancelled.count(), 2, "{line}");
        assert_ne!(a.ending_of(1).await, End::Running);
    });
}

#[test]
fn parts_of_different_dimensions_are_never_put_together() {
    story(async {
        let stage = Stage::set(&batches());
        let odd = |request: &testkit::Request| {
            let dimensions = if request.body.windows(14).any(|part| part == b"text number 33") { 8 } else { 16 };
            Reply::default().with(|knobs| knobs.dimensions = Some(dimensions))
        };
        stage.host("a", Script::by(odd));
        stage.host("b", Script::by(odd));
        let answer = stage.ask(embeddings("embedding", texts(70))).await;
        assert_eq!(
            (answer.status, answer.code().as_deref()),
            (502, Some("embedding_dimension_mismatch")),
            "{}",
            answer.text()
        );
        let line = stage.last_line().await;
        assert_eq!(line["outcome"], "upstream_bad_response");
    });
}

#[test]
fn vectors_of_another_dimension_are_withheld_counted_and_looked_for_elsewhere() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        stage.host("b", Script::always(Reply::default().with(|knobs| knobs.dimensions = Some(384))));
        assert_eq!(stage.ask(embeddings("embedding", "abc")).await.status, 200);
        a.play(Reply::default().with(|knobs| knobs.dimensions = Some(8)));
        let answer = stage.ask(embeddings("embedding", "abc")).await;
        assert_eq!((answer.status, vector(&answer).as_array().unwrap().len()), (200, 384));
        assert_eq!(answer.header("x-mai-upstream"), Some("b/embed"));
        stage.comes_to_rest().await;
        assert_eq!(
            stage.metric(r#"mai_embedding_dimension_mismatch_total{route="embedding",upstream="a/embed"}"#),
            1.0
        );
    });
}

#[test]
fn the_dimension_asked_for_is_the_one_that_counts() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        stage.host("b", pleasant());
        assert_eq!(vector(&stage.ask(embeddings("embedding", "abc")).await).as_array().unwrap().len(), 384);
        let small = || embeddings("embedding", "abc").with("dimensions", 64);
        assert_eq!(vector(&stage.ask(small()).await).as_array().unwrap().len(), 64);
        assert_eq!(vector(&stage.ask(embeddings("embedding", "abc")).await).as_array().unwrap().len(), 384);
        // One that ignores `dimensions` is no answer to it.
        a.play(Reply::default().with(|knobs| knobs.dimensions = Some(384)));
        for encoding in ["float", "base64"] {
            let answer = stage.ask(small().with("encoding_format", encoding)).await;
            assert_eq!((answer.status, answer.header("x-mai-upstream")), (200, Some("b/embed")), "{}", answer.text());
        }
    });
}

#[test]
fn answers_with_the_wrong_count_or_places_are_no_answers() {
    story(async {
        let item = |index: u64| json!({"object": "embedding", "index": index, "embedding": [0.5, 0.5]});
        let list = |items: Value| {
            Reply::json(
                json!({"object": "list", "model": "m", "data": items, "usage": {"prompt_tokens": 2, "total_tokens": 2}}),
            )
        };
        for wrong in [
            json!([item(0)]),
            json!([item(0), item(0)]),
            json!([item(0), item(2)]),
            json!([item(0), item(1), item(2)]),
            json!([]),
            json!({}),
        ] {
            let stage = Stage::usual();
            stage.host("a", Script::always(list(wrong.clone())));
            stage.host("b", pleasant());
            let answer = stage.ask(embeddings("embedding", json!(["one", "two"]))).await;
            assert_eq!(
                (answer.status, answer.header("x-mai-upstream")),
                (200, Some("b/embed")),
                "{wrong}: {}",
                answer.text()
            );
        }
        let stage = Stage::usual();
        stage.host("a", Script::always(list(json!([item(1), item(0)]))));
        let answer = stage.ask(embeddings("embedding", json!(["one", "two"]))).await.json();
        let indexes = [&answer["data"][0]["index"], &answer["data"][1]["index"]];
        assert!(
            indexes == [&json!(0), &json!(1)] || indexes == [&json!(1), &json!(0)],
            "each keeps its place: {answer}"
        );
    });
}

#[test]
fn a_large_answer_in_small_writes_is_counted_exactly() {
    story(async {
        let stage = Stage::usual();
        let numbers: Vec<f64> = (0..150_000).map(|n| f64::from(n) / 1e6).collect();
        let mut body = serde_json::to_vec(&json!({"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": numbers}], "usage": {"prompt_tokens": 400, "total_tokens": 400}})).unwrap();
        body.push(b'\n');
        let reply = Reply {
            body: testkit::Body::Bytes("application/json", body.clone().into()),
            slices: Some(mock::Slices::Of(1024, Duration::from_micros(100))),
            ..Reply::default()
        };
        stage.host("a", Script::always(reply));
        let answer = stage.ask(embeddings("embedding", "abc")).await;
        assert_eq!((answer.status, answer.body.len()), (200, body.len()));
        assert_eq!(stage.last_line().await["tokens_in"], 400);
    });
}

#[test]
fn a_caller_who_leaves_in_the_middle_of_a_batch_stops_every_part() {
    story(async {
        let stage = Stage::set(&batches());
        let a = stage.host("a", Script::always(Reply::hang()));
        let mut caller = stage.caller();
        caller.begin(&embeddings("embedding", texts(320)).key(KEY)).await;
        a.has_calls(4).await;
        drop(caller);
        for call in 1..=4 {
            assert_eq!(a.ending_of(call).await, End::Gone);
        }
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], a.calls().len()), (&json!("caller_gone"), 4), "nothing further starts");
        assert_eq!(line["attempts"].as_array().unwrap().len(), 4, "{line}");
    });
}

#[test]
fn more_inputs_than_openai_takes_are_split_without_a_word_in_the_configuration() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
        let small = embeddings("embedding", texts(2049)).with("dimensions", 2);
        let answer = stage.ask(small).await;
        assert_eq!((answer.status, a.calls().len()), (200, 2), "{}", answer.text());
        assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2049);
    });
}

#[test]
fn a_call_that_would_become_too_many_parts_is_refused() {
    story(async {
        let stage = Stage::set(
            &crate::stage::USUAL
                .replace("path: /v1/embeddings }", "path: /v1/embeddings }\n    batch: { max_inputs: 2 }"),
        );
        let a = stage.host("a", pleasant());
        let texts: Vec<&str> = vec!["a"; 1_025];
        let answer = stage.ask(embeddings("embedding", json!(texts))).await;
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("invalid_request")), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], "input");
        assert_eq!(a.calls().len(), 0);
    });
}

#[test]
fn where_spaces_may_be_mixed_each_one_learns_a_dimension_of_its_own() {
    story(async {
        let stage = Stage::set(
            r#"
providers:
  - { name: a, base_url: "http://a/v1", api_key: sk-a }
  - { name: b, base_url: "http://b/v1", api_key: sk-b }
routes:
  - name: embedding
    match: { path: /v1/embeddings }
    upstreams: [{ provider: a, model: large, space: l }, { provider: b, model: small, space: s, tier: 1 }]
    vector_space: any
    retry: { server_error: [] }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#,
        );
        let of = |dimensions| Reply::default().with(|knobs| knobs.dimensions = Some(dimensions));
        let [a, b] = [("a", 32), ("b", 8)].map(|(name, dimensions)| stage.host(name, of(dimensions)));
        let dimension = async || vector(&stage.ask(embeddings("embedding", "abc")).await).as_array().unwrap().len();
        assert_eq!(dimension().await, 32);
        a.play(Reply::status(500));
        assert_eq!(dimension().await, 8, "the other space is another one");
        a.play(of(16));
        assert_eq!(dimension().await, 8, "in its own space it is not what it was");
        let mismatches = "mai_embedding_dimension_mismatch_total{route=\"embedding\",upstream=\"a/large\"}";
        assert_eq!((stage.metric(mismatches), a.calls().len(), b.calls().len()), (1.0, 3, 2));
        let line = stage.last_line().await;
        assert_eq!((&line["attempts"][0]["outcome"], &line["outcome"]), (&json!("dimension_mismatch"), &json!("ok")));
        b.play(of(4));
        let answer = stage.ask(embeddings("embedding", "abc")).await;
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("embedding_dimension_mismatch")));
        assert_eq!(answer.header("x-mai-attempts"), Some("2"), "nor is it repeated");
        // Who asks for a dimension of its own gets it, and nobody learns from that.
        let asked = stage.ask(embeddings("embedding", "abc").with("dimensions", 4)).await;
        assert_eq!(asked.status, 200);
        stage.reload(&crate::stage::USUAL.replace("sk-a-secret", "sk-a"));
        a.play(of(32));
        assert_eq!(dimension().await, 32);
    });
}
