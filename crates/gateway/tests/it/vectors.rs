//! The cache of embeddings: each text has a vector of its own, whoever asks for it and with what.

use std::time::Duration;

use base::Clock;
use serde_json::{Value, json};
use testkit::{Answer, Ask, Host, Reply, Request, Script, embeddings, rerank, story};
use tokio::task::JoinSet;

use crate::stage::{Stage, answers, begun, cache, millis, pleasant};

/// Two upstreams of one space, without waits, and a cache.
fn config(cache: &str, more: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }}, {{ name: b, base_url: "http://b/v1" }}]
routes:
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: embed }}, {{ provider: b, model: embed, tier: 1 }}]
    retry: {{ server_error: [], throttled: [] }}
    cache: {{ mode: exact{cache} }}
    {more}
clients:
  - {{ name: app, keys: [sk-app], routes: ["*"] }}
  - {{ name: other, keys: [sk-other], routes: ["*"] }}
"#
    )
}

fn stage() -> Stage {
    Stage::set(&config("", ""))
}

fn ask(input: impl Into<Value>) -> Ask {
    embeddings("embedding", input)
}

/// The vectors of an answer, which are numbered in one row.
fn vectors(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let data = body["data"].as_array().expect("a list");
    for (at, item) in data.iter().enumerate() {
        assert_eq!((&item["index"], &item["object"]), (&json!(at), &json!("embedding")));
    }
    data.iter().map(|item| item["embedding"].clone()).collect()
}

/// What each call asked the upstream for.
fn inputs(host: &Host) -> Vec<Value> {
    host.calls().iter().map(|call| call.request.json.as_ref().unwrap()["input"].clone()).collect()
}

async fn rests(stage: &Stage, host: &Host) {
    stage.comes_to_rest().await;
    millis(300).await;
    assert_eq!(stage.live.input_flights.count(), 0);
    assert_eq!(host.log().in_flight().0, 0);
}

#[test]
fn only_what_is_missing_goes_upstream() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let first = stage.ask(ask(json!(["one", "two"]))).await;
        let second = stage.ask(ask(json!(["three", "two", "four", "one", "three"]))).await;
        let third = stage.ask(ask(json!(["four", "three"]))).await;
        assert_eq!([cache(&first), cache(&second), cache(&third)], ["miss", "partial", "hit"]);
        assert_eq!(inputs(&a), [json!(["one", "two"]), json!(["three", "four"])]);
        let (first, second, third) = (vectors(&first), vectors(&second), vectors(&third));
        assert_eq!([&second[1], &second[3]], [&first[1], &first[0]]);
        assert_eq!(second[0], second[4]);
        assert_eq!([&third[0], &third[1]], [&second[2], &second[0]]);
        let all = [&first[0], &first[1], &second[0], &second[2]];
        assert!((0..4).all(|one| (0..one).all(|other| all[one] != all[other])), "four texts, four vectors");
    });
}

#[test]
fn an_answer_of_which_nothing_was_stored_comes_as_the_upstream_wrote_it() {
    story(async {
        let stage = stage();
        let body = r#"{"data":[{"embedding":[0.12345678901234567890, -1e-30,3],"index":0}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7},"extra":1.000}"#;
        stage.host(
            "a",
            Script::always(Reply { body: testkit::Body::Bytes("application/json", body.into()), ..Reply::default() }),
        );
        assert_eq!(stage.ask(ask("abc")).await.text(), body);
        millis(2500).await;
        let again = stage.ask(ask(json!(["abc"]))).await;
        let due = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.12345679,-1e-30,3.0]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        assert_eq!(again.text(), due);
        assert_eq!((cache(&again), again.header("age")), ("hit", Some("2")));
    });
}

#[test]
fn a_hit_is_told_as_one_and_uses_nothing() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let first = stage.ask(ask(json!(["one", "two"]))).await;
        let again = stage.ask(ask(json!(["two", "one"]))).await;
        assert_eq!(again.header("x-mai-attempts"), Some("0"));
        for name in ["x-mai-upstream", "x-mai-route", "content-type"] {
            assert_eq!(first.header(name), again.header(name), "{name}");
        }
        assert_eq!(first.json()["usage"], again.json()["usage"], "as if it had come from there");
        assert_eq!(first.json()["model"], again.json()["model"]);
        let line = stage.last_line().await;
        assert_eq!((&line["cache"], &line["tokens_in"], &line["attempts"]), (&json!("hit"), &Value::Null, &json!([])));
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn of_a_partial_hit_only_what_went_upstream_is_used() {
    story(async {
        let stage = stage();
        stage.host("a", pleasant());
        stage.ask(ask(json!(["one two three"]))).await;
        let partial = stage.ask(ask(json!(["one two three", "four"]))).await;
        let alone = stage.ask(ask(json!(["four"]))).await;
        let tokens = |answer: &Answer| answer.json()["usage"]["prompt_tokens"].as_u64().unwrap();
        stage.comes_to_rest().await;
        let log = stage.log();
        let used: Vec<&Value> = log.iter().map(|line| &line["tokens_in"]).collect();
        assert_eq!(used[1], &json!(tokens(&alone)));
        assert_eq!(tokens(&partial), used[0].as_u64().unwrap() + tokens(&alone));
        assert_eq!((&log[1]["cache"], log[1]["attempts"].as_array().unwrap().len()), (&json!("partial"), 1));
    });
}

#[test]
fn a_stored_vector_has_the_form_that_is_asked_for() {
    story(async {
        for (written, first, second) in
            [(json!([0.5, -0.25, 3.0]), "float", "base64"), (json!("AAAAPwAAgL4AAEBA"), "base64", "float")]
        {
            let stage = stage();
            let a = stage.host("a", Script::always(Reply::json(json!({"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": written}], "usage": {"prompt_tokens": 2, "total_tokens": 2}}))));
            for encoding in [first, second, first] {
                let answer = stage.ask(ask("abc").with("encoding_format", encoding)).await;
                let due = if encoding == "float" { json!([0.5, -0.25, 3.0]) } else { json!("AAAAPwAAgL4AAEBA") };
                assert_eq!(vectors(&answer), [due]);
            }
            assert_eq!(a.calls().len(), 1);
        }
    });
}

#[test]
fn all_that_decides_a_vector_is_in_its_key() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let second = async |second: Ask| cache(&stage.ask(second).await).to_owned();
        stage.ask(ask(json!(["caf\u{e9} au lait"]))).await;
        for same in [
            ask("caf\u{e9} au lait"),
            ask("cafe\u{301} au lait"),
            ask("  caf\u{e9} au lait\n"),
            ask("\u{feff}caf\u{e9} \u{200b}au lait"),
            ask("caf\u{e9} au lait").with("user", "u").with("encoding_format", "base64"),
        ] {
            assert_eq!(second(same.clone()).await, "hit", "{same:?}");
        }
        for other in [
            ask("CAF\u{c9} au lait"),
            ask("caf\u{e9} au  lait"),
            ask("caf\u{e9} au lait").with("dimensions", 8),
            ask("caf\u{e9} au lait").with("input_type", "query"),
            ask(json!([1, 2])),
        ] {
            assert_eq!(second(other.clone()).await, "miss", "{other:?}");
        }
        assert_eq!(second(ask(json!([[1, 2]]))).await, "hit");
        assert_eq!(a.calls().len(), 6);
        let exact = Stage::set(&config(", normalize: false", ""));
        exact.host("a", pleasant());
        exact.ask(ask("abc")).await;
        assert_eq!(cache(&exact.ask(ask("abc ")).await), "miss");
    });
}

#[test]
fn what_is_empty_or_read_together_is_not_stored() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        for _ in 0..2 {
            stage.ask(ask(json!(["a", "\u{200b}", ""]))).await;
        }
        assert_eq!(inputs(&a), [json!(["a", "\u{200b}", ""]), json!(["\u{200b}", ""])]);
        for _ in 0..2 {
            assert_eq!(cache(&stage.ask(ask(json!(["x", "y"])).with("late_chunking", true)).await), "bypass");
        }
        assert_eq!(a.calls().len(), 4);
    });
}

#[test]
fn callers_may_wish_for_new_vectors_or_for_none_to_be_stored() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let wish = |wish: &str| ask("abc").header("cache-control", wish);
        assert_eq!(cache(&stage.ask(wish("no-store")).await), "bypass");
        assert_eq!(cache(&stage.ask(wish("no-cache")).await), "bypass");
        assert_eq!(cache(&stage.ask(ask("abc")).await), "hit");
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn a_client_sees_what_another_caused_to_be_stored_only_where_both_share() {
    for (scope, seen) in [("", "miss"), (", scope: route", "hit")] {
        story(async {
            let stage = Stage::set(&config(scope, ""));
            stage.host("a", pleasant());
            stage.ask(ask("abc")).await;
            assert_eq!(cache(&stage.caller().ask(&ask("abc").key("sk-other")).await), seen);
        });
    }
}

#[test]
fn a_vector_is_served_until_its_time_is_over() {
    story(async {
        let stage = Stage::set(&config(", ttl: 60s", ""));
        stage.host("a", pleasant());
        stage.ask(ask("abc")).await;
        millis(59_000).await;
        assert_eq!(cache(&stage.ask(ask("abc")).await), "hit");
        millis(2_000).await;
        assert_eq!(cache(&stage.ask(ask("abc")).await), "miss");
    });
}

#[test]
fn a_shorter_time_holds_for_vectors_that_are_stored_already() {
    story(async {
        let stage = Stage::set(&config(", ttl: 1h", ""));
        stage.host("a", pleasant());
        stage.ask(ask("abc")).await;
        millis(61_000).await;
        stage.reload(&config(", ttl: 5m", ""));
        assert_eq!(cache(&stage.ask(ask("abc")).await), "hit");
        stage.reload(&config(", ttl: 60s", ""));
        assert_eq!(cache(&stage.ask(ask("abc")).await), "miss");
        assert_eq!(cache(&stage.ask(ask("abc")).await), "hit");
    });
}

#[test]
fn an_expired_vector_serves_when_the_upstreams_fail_where_that_is_wished() {
    story(async {
        let stage = Stage::set(&config(", ttl: 60s", "on_failure: stale"));
        let (a, b) = (stage.host("a", pleasant()), stage.host("b", pleasant()));
        let first = vectors(&stage.ask(ask(json!(["one", "two"]))).await);
        millis(61_500).await;
        a.play(Reply::status(500));
        b.play(Reply::status(500));
        let old = stage.ask(ask(json!(["two", "one"]))).await;
        assert_eq!(
            (cache(&old), old.header("age"), old.header("x-mai-degraded")),
            ("stale", Some("61"), Some("upstream_error"))
        );
        assert_eq!(vectors(&old), [first[1].clone(), first[0].clone()]);
        let none = stage.ask(ask(json!(["two", "three"]))).await;
        assert_eq!(none.status, 502);
    });
}

#[test]
fn vectors_of_two_dimensions_never_stand_in_one_answer() {
    story(async {
        let stage = stage();
        let of = |dimensions| Script::always(Reply::default().with(|knobs| knobs.dimensions = Some(dimensions)));
        let a = stage.host("a", of(8));
        stage.ask(ask("old").with("x", 1)).await;
        // The model behind the name has changed, and so has what the configuration says of it.
        a.play(Reply::default().with(|knobs| knobs.dimensions = Some(16)));
        stage.reload(&config("", "dimensions: 16"));
        let answer = stage.ask(ask(json!(["new", "old"])).with("x", 1)).await;
        assert_eq!(cache(&answer), "miss");
        assert!(vectors(&answer).iter().all(|vector| vector.as_array().unwrap().len() == 16));
        assert_eq!(cache(&stage.ask(ask("old").with("x", 1)).await), "hit");
    });
}

#[test]
fn stored_vectors_of_another_dimension_are_asked_for_anew_also_where_nobody_remembers_the_right_one() {
    story(async {
        let stage = stage();
        let of = |dimensions| Reply::default().with(|knobs| knobs.dimensions = Some(dimensions));
        let length = |answer: &Answer| {
            let lengths: Vec<_> = vectors(answer).iter().map(|vector| vector.as_array().unwrap().len()).collect();
            assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
            lengths[0]
        };
        let forget = || {
            stage.reload(&config("", "").replace("name: embedding", "name: another"));
            stage.reload(&config("", ""));
        };
        let a = stage.host("a", Script::always(of(8)));
        stage.ask(ask(json!(["old", "older"]))).await;
        a.play(of(16));
        forget();
        assert_eq!(length(&stage.ask(ask(json!(["old", "new"]))).await), 16);
        assert_eq!(inputs(&a)[1..], [json!(["new"]), json!(["old"])]);
        // Now there are stored ones of both, and nothing comes that would tell which are right.
        forget();
        assert_eq!(length(&stage.ask(ask(json!(["older", "new"]))).await), 16);
        assert_eq!(cache(&stage.ask(ask(json!(["older", "old", "new"]))).await), "hit");
    });
}

#[test]
fn vectors_that_no_32_bits_hold_are_passed_on_and_never_said_to_have_been_stored() {
    story(async {
        let stage = stage();
        let body =
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1e39,0.5]}],"model":"embed"}"#;
        let a = stage.host("a", Script::always(Reply::text(body)));
        for _ in 0..2 {
            let answer = stage.ask(ask("vast")).await;
            assert_eq!((cache(&answer), answer.header("x-mai-cache-id")), ("miss", None), "{}", answer.text());
        }
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn vectors_and_scores_beside_an_error_are_failures_as_texts_are() {
    story(async {
        let error = json!({"message": "overloaded", "code": 500});
        let data = json!([{"object": "embedding", "index": 0, "embedding": [1.0]}]);
        let results = json!([{"index": 0, "relevance_score": 0.5}]);
        for (said, status) in [(error, 502), (Value::Null, 200), (json!({}), 200)] {
            let answers = [
                (embeddings("embedding", "a"), json!({"data": data, "model": "m", "error": said})),
                (rerank("rerank", "q", ["d"]), json!({"results": results, "error": said})),
            ];
            for (ask, body) in answers {
                let stage = Stage::usual();
                stage.host("a", Reply::json(body));
                let answer = stage.ask(ask).await;
                assert_eq!(answer.status, status, "{said}: {}", answer.text());
            }
        }
    });
}

#[test]
fn parts_that_two_spaces_answered_come_from_one_in_the_end() {
    story(async {
        let config = config("", "vector_space: any\n    batch: { max_inputs: 2 }")
            .replace("provider: b, model: embed", "provider: b, model: other");
        let stage = Stage::set(&config);
        let of = |dimensions| Reply::default().with(|knobs| knobs.dimensions = Some(dimensions));
        let b = stage.host("b", Script::always(of(8)));
        let a = stage.host(
            "a",
            Script::by(move |request| {
                if String::from_utf8_lossy(&request.body).contains("three") { Reply::status(500) } else { of(16) }
            }),
        );
        let answer = stage.ask(ask(json!(["one", "two", "three", "four", "five", "six"]))).await;
        let lengths: Vec<_> = vectors(&answer).iter().map(|vector| vector.as_array().unwrap().len()).collect();
        assert_eq!(lengths, [8; 6]);
        assert_eq!((a.calls().len(), b.calls().len()), (3, 3));
        assert_eq!(answer.header("x-mai-upstream"), Some("b/other"));
    });
}

#[test]
fn the_parts_of_a_space_that_has_failed_are_told_as_cancelled() {
    story(async {
        let config = config("", "vector_space: any\n    batch: { max_inputs: 2 }")
            .replace("provider: b, model: embed", "provider: b, model: other");
        let stage = Stage::set(&config);
        stage.host("b", pleasant());
        let a = stage.host(
            "a",
            Script::by(move |request| {
                let is_failing = String::from_utf8_lossy(&request.body).contains("three");
                if is_failing { Reply::status(500).after(Duration::from_millis(100)) } else { Reply::hang() }
            }),
        );
        let answer = stage.ask(ask(json!(["one", "two", "three", "four", "five", "six"]))).await;
        assert_eq!((answer.status, answer.header("x-mai-attempts")), (200, Some("6")), "{}", answer.text());
        assert_eq!(a.calls().len(), 3);
        let line = stage.last_line().await;
        let count = |outcome: &str| {
            let attempts = line["attempts"].as_array().unwrap().iter();
            attempts.filter(|attempt| attempt["outcome"] == outcome).count()
        };
        assert_eq!([count("status"), count("cancelled"), count("ok")], [1, 2, 3], "{line}");
        let tries = r#"mai_upstream_attempts_total{outcome="cancelled",route="embedding",upstream="a/embed"}"#;
        assert_eq!(stage.metric(tries), 2.0);
    });
}

#[test]
fn a_route_of_several_spaces_stores_nothing() {
    story(async {
        let config = config("", "vector_space: any").replace("provider: b, model: embed", "provider: b, model: other");
        let stage = Stage::set(&config);
        let a = stage.host("a", pleasant());
        for _ in 0..2 {
            assert_eq!(cache(&stage.ask(ask("abc")).await), "bypass");
        }
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn a_vector_of_the_upstream_that_stood_in_is_as_good() {
    story(async {
        let stage = stage();
        let (a, b) = (stage.host("a", Reply::status(500)), stage.host("b", pleasant()));
        stage.ask(ask("abc")).await;
        let again = stage.ask(ask("abc")).await;
        assert_eq!((cache(&again), again.header("x-mai-upstream")), ("hit", Some("b/embed")));
        assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
    });
}

#[test]
fn a_failed_call_stores_nothing_and_forgets_nothing() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let b = stage.host("b", pleasant());
        stage.ask(ask(json!(["one", "two"]))).await;
        for reply in [Reply::status(500), Reply::status(400)] {
            a.play(reply.clone());
            b.play(reply);
            assert!(stage.ask(ask(json!(["one", "three"]))).await.status >= 400);
            assert_eq!(cache(&stage.ask(ask(json!(["two", "one"]))).await), "hit");
        }
        a.play(pleasant());
        assert_eq!(cache(&stage.ask(ask("three")).await), "miss");
    });
}

#[test]
fn a_large_call_is_split_and_its_parts_are_stored() {
    story(async {
        let stage = Stage::set(&config("", "batch: { max_inputs: 32 }"));
        let a = stage.host("a", pleasant());
        let texts = |range: std::ops::Range<usize>| json!(range.map(|at| format!("text {at}")).collect::<Vec<_>>());
        let first = stage.ask(ask(texts(0..70))).await;
        assert_eq!(cache(&first), "miss");
        let second = stage.ask(ask(texts(30..110))).await;
        assert_eq!(cache(&second), "partial");
        let sizes: Vec<usize> = inputs(&a).iter().map(|input| input.as_array().unwrap().len()).collect();
        assert_eq!(sizes, [32, 32, 6, 32, 8]);
        assert_eq!(vectors(&first)[30..], vectors(&second)[..40]);
        let log = stage.log();
        let used: u64 = log.iter().map(|line| line["tokens_in"].as_u64().unwrap()).sum();
        assert_eq!(used, stage.ask(ask(texts(0..110))).await.json()["usage"]["prompt_tokens"].as_u64().unwrap());
    });
}

#[test]
fn calls_that_miss_the_same_text_share_one_call_whatever_else_they_ask_for() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::default().after(Duration::from_secs(1)));
        let began = Clock.now();
        let mut callers = Vec::new();
        for input in [json!(["one", "two"]), json!(["two", "three"]), json!(["three", "one"]), json!("two")] {
            callers.push(begun(&stage, ask(input)).await);
            millis(10).await;
        }
        let answers = answers(callers).await;
        assert!(Clock.now() - began < Duration::from_millis(1100));
        assert_eq!(inputs(&a), [json!(["one", "two"]), json!(["three"])]);
        let all: Vec<Vec<Value>> = answers.iter().map(vectors).collect();
        assert_eq!([&all[1][0], &all[2][1], &all[3][0]], [&all[0][1], &all[0][0], &all[0][1]]);
        assert_eq!(all[1][1], all[2][0]);
        assert_eq!(answers.iter().map(cache).collect::<Vec<_>>(), ["miss", "partial", "shared", "shared"]);
        rests(&stage, &a).await;
        let log = stage.log();
        let tokens: Vec<&Value> = log.iter().map(|line| &line["tokens_in"]).collect();
        assert_eq!(tokens.iter().filter(|tokens| tokens.is_null()).count(), 2, "who shares uses nothing: {tokens:?}");
    });
}

#[test]
fn a_caller_who_leaves_takes_nobody_down() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::default().after(Duration::from_secs(1)));
        let leader = begun(&stage, ask(json!(["one", "two"]))).await;
        millis(10).await;
        let followers = vec![begun(&stage, ask(json!(["two", "three"]))).await, begun(&stage, ask("one")).await];
        millis(200).await;
        drop(leader);
        for answer in answers(followers).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        assert_eq!(a.calls().len(), 2);
        rests(&stage, &a).await;
        let log = stage.log();
        let gone: Vec<_> = log.iter().filter(|line| line["outcome"] == "caller_gone").collect();
        assert_eq!(
            (gone.len(), &gone[0]["status"], &gone[0]["attempts"][0]["outcome"]),
            (1, &json!(499), &json!("ok"))
        );
        assert!(gone[0]["tokens_in"].as_u64().unwrap() > 0, "what it began is its own to pay");
        assert_eq!(cache(&stage.ask(ask(json!(["one", "two", "three"]))).await), "hit");
    });
}

#[test]
fn the_last_to_leave_ends_the_call() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::default().after(Duration::from_secs(2)));
        let leader = begun(&stage, ask(json!(["one", "two"]))).await;
        millis(10).await;
        let follower = begun(&stage, ask("one")).await;
        millis(100).await;
        drop(leader);
        millis(100).await;
        assert_eq!(a.log().in_flight().0, 1, "somebody waits");
        drop(follower);
        millis(300).await;
        assert_eq!(a.log().in_flight().0, 0);
        rests(&stage, &a).await;
        assert!(stage.log().iter().all(|line| line["outcome"] == "caller_gone"));
    });
}

#[test]
fn a_failure_goes_to_those_who_wait_and_is_forgotten() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::status(500).after(Duration::from_secs(1)));
        let b = stage.host("b", Reply::status(500));
        let mut callers = Vec::new();
        for _ in 0..3 {
            callers.push(begun(&stage, ask(json!(["one", "two"]))).await);
            millis(10).await;
        }
        for answer in answers(callers).await {
            assert_eq!(answer.status, 502, "{}", answer.text());
        }
        assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
        rests(&stage, &a).await;
        a.play(pleasant());
        assert_eq!(cache(&stage.ask(ask("two")).await), "miss");
    });
}

#[test]
fn a_text_is_not_to_blame_for_another_that_was_refused_with_it() {
    story(async {
        let stage = stage();
        let refusing = |request: &Request| {
            let is_bad = request.body.windows(5).any(|part| part == b"\"bad\"");
            let status = is_bad.then_some(400);
            Reply { status, ..Reply::default() }.after(Duration::from_secs(1))
        };
        let a = stage.host("a", Script::by(refusing));
        let mut callers = Vec::new();
        for input in [json!(["good", "bad"]), json!("good"), json!("bad"), json!("bad")] {
            callers.push(begun(&stage, ask(input)).await);
            millis(10).await;
        }
        let statuses: Vec<u16> = answers(callers).await.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [400, 200, 400, 400]);
        let mut again = inputs(&a).split_off(1);
        again.sort_by_key(Value::to_string);
        assert_eq!(again, [json!("bad"), json!("good")], "who asks the same shares its refusal");
        rests(&stage, &a).await;
    });
}

#[test]
fn what_fails_for_one_call_fails_for_its_repeats_alone() {
    story(async {
        for status in [400, 500, 429, 401] {
            let stage = Stage::set(&config(", scope: route", ""));
            // At either upstream.
            let refusing = move |request: &Request| {
                let is_bad = request.body.windows(6).any(|part| part == b"secret");
                Reply { status: is_bad.then_some(status), ..Reply::default() }.after(Duration::from_secs(1))
            };
            let a = stage.host("a", Script::by(refusing));
            stage.host("b", Script::by(refusing));
            let mut callers = Vec::new();
            for input in [json!(["secret", "two"]), json!("two"), json!(["secret", "two"]), json!(["two", "three"])] {
                callers.push(begun(&stage, ask(input)).await);
                millis(10).await;
            }
            let answers = answers(callers).await;
            let failed: Vec<bool> = answers.iter().map(|answer| answer.status >= 400).collect();
            assert_eq!(failed, [true, false, true, false], "{status}");
            assert_eq!(answers[0].status, answers[2].status);
            let asked = inputs(&a).iter().filter(|input| **input == json!(["secret", "two"])).count();
            assert_eq!(asked, 1, "{status}: a repeat fails with what it repeats");
            rests(&stage, &a).await;
        }
    });
}

#[test]
fn who_wants_one_text_does_not_wait_for_a_library() {
    story(async {
        let stage = Stage::set(&config("", "batch: { max_inputs: 4 }"));
        let a = stage.host("a", Reply::default().after(Duration::from_secs(1)));
        let library = json!((0..80).map(|at| format!("text {at}")).collect::<Vec<_>>());
        let large = begun(&stage, ask(library.clone())).await;
        millis(10).await;
        let again = begun(&stage, ask(library)).await;
        let began = Clock.now();
        let small = stage.ask(ask("text 70")).await;
        assert_eq!(small.status, 200);
        assert!(Clock.now() - began < Duration::from_millis(1500), "{:?}", Clock.now() - began);
        let answers = answers(vec![large, again]).await;
        assert_eq!(vectors(&answers[0]), vectors(&answers[1]));
        assert_eq!(vectors(&answers[0])[70], vectors(&small)[0]);
        assert_eq!(a.calls().len(), 21, "a call that is made again meanwhile is the same one");
        rests(&stage, &a).await;
    });
}

#[test]
fn each_who_waits_has_a_deadline_of_its_own() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::default().after(Duration::from_secs(2)));
        let leader = begun(&stage, ask(json!(["one", "two"]))).await;
        millis(10).await;
        let hasty = begun(&stage, ask("one").header("x-mai-timeout-ms", "500")).await;
        let answers = answers(vec![leader, hasty]).await;
        assert_eq!((answers[0].status, answers[1].status), (200, 504));
        assert_eq!(answers[1].code().as_deref(), Some("deadline_exceeded"));
        assert_eq!(a.calls().len(), 1);
        rests(&stage, &a).await;
    });
}

#[test]
fn who_waits_for_a_caller_of_less_patience_asks_again_by_itself() {
    story(async {
        let stage = stage();
        stage.host("b", Reply::default().after(Duration::from_millis(1500)));
        let a = stage.host("a", Reply::default().after(Duration::from_millis(1500)));
        let hasty = begun(&stage, ask(json!(["one"])).header("x-mai-timeout-ms", "500")).await;
        millis(10).await;
        let patient = begun(&stage, ask(json!(["one"]))).await;
        let answers = answers(vec![hasty, patient]).await;
        assert_eq!((answers[0].status, answers[1].status), (504, 200), "{}", answers[1].text());
        rests(&stage, &a).await;
    });
}

#[test]
fn an_idempotency_key_answers_from_the_cache_too() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        stage.ask(ask(json!(["one"]))).await;
        let keyed = || ask(json!(["one", "two"])).header("idempotency-key", "k-1");
        let first = stage.ask(keyed()).await;
        let again = stage.ask(keyed()).await;
        assert_eq!((cache(&first), cache(&again)), ("partial", "replay"));
        assert_eq!(first.body, again.body);
        assert_eq!(inputs(&a), [json!(["one"]), json!(["two"])]);
        rests(&stage, &a).await;
    });
}

#[test]
fn a_hit_is_served_when_the_quota_is_spent() {
    story(async {
        let config = config("", "").replace(
            "app, keys: [sk-app], routes: [\"*\"]",
            "app, keys: [sk-app], routes: [\"*\"], quota: { tokens: 100 }",
        );
        let stage = Stage::set(&config);
        stage.host(
            "a",
            Reply::default().with(|knobs| knobs.usage = Some(json!({"prompt_tokens": 100, "total_tokens": 100}))),
        );
        stage.ask(ask("abc")).await;
        stage.comes_to_rest().await;
        assert_eq!(stage.ask(ask("else")).await.code().as_deref(), Some("insufficient_quota"));
        assert_eq!(cache(&stage.ask(ask("abc")).await), "hit");
    });
}

/// A text of one of few, so that batches overlap, and an upstream that answers in an order of its own.
fn shuffled(request: &Request) -> Reply {
    let texts = request.json.as_ref().unwrap()["input"].clone();
    let texts: Vec<String> = texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let turn = request.body.len() % texts.len().max(1);
    let mut data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| json!({"object": "embedding", "index": at, "embedding": own(text)}))
        .collect();
    data.rotate_left(turn);
    let tokens: u64 = texts.iter().map(|text| text.len() as u64).sum();
    Reply::json(
        json!({"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}),
    )
}

/// A vector that only this text has.
fn own(text: &str) -> Value {
    let number: f32 = text.trim().trim_start_matches("text ").parse().unwrap();
    json!([number, number / 2.0, 1.0])
}

#[test]
fn every_text_gets_its_own_vector_whatever_happens() {
    for seed in 0..60 {
        story(async move {
            let dice = base::Dice::loaded(seed);
            let max_inputs = 1 + dice.below(7);
            let stage = Stage::set(&config("", &format!("batch: {{ max_inputs: {max_inputs} }}")));
            let fails = dice.below(3);
            let script = move |request: &Request| {
                if fails > 0 && request.body.len().is_multiple_of(7 + fails) {
                    return Reply::status(500);
                }
                shuffled(request).after(Duration::from_millis(20 + request.body.len() as u64 % 50))
            };
            let a = stage.host("a", Script::by(script));
            stage.host("b", Script::by(move |request: &Request| shuffled(request).after(Duration::from_millis(30))));
            let mut waiting = JoinSet::new();
            for _ in 0..40 {
                let texts: Vec<String> = (0..1 + dice.below(9)).map(|_| format!("text {}", dice.below(30))).collect();
                let encoding = if dice.below(2) == 0 { "float" } else { "base64" };
                let leaves = dice.below(6) == 0;
                let pause = dice.below(40) as u64;
                let mut caller = begun(&stage, ask(texts.clone()).with("encoding_format", encoding)).await;
                waiting.spawn(async move {
                    if leaves {
                        millis(pause).await;
                        return;
                    }
                    let answer = caller.answer().await.expect("an answer");
                    let found = vectors(&answer);
                    assert_eq!(found.len(), texts.len());
                    for (text, found) in texts.iter().zip(found) {
                        match &found {
                            Value::String(_) => assert_eq!(found, packed(&own(text)), "{text}, seed {seed}"),
                            _ => assert_eq!(found, own(text), "{text}, seed {seed}"),
                        }
                    }
                });
                millis(dice.below(30) as u64).await;
            }
            while let Some(ended) = waiting.join_next().await {
                ended.unwrap();
            }
            rests(&stage, &a).await;
        });
    }
}

fn packed(vector: &Value) -> Value {
    use base64::Engine as _;
    let bytes: Vec<u8> =
        vector.as_array().unwrap().iter().flat_map(|number| (number.as_f64().unwrap() as f32).to_le_bytes()).collect();
    json!(base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[test]
fn vectors_that_were_asked_for_before_a_purge_are_not_stored_after_it() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        a.play(Script::by(|_| Reply::default().after(Duration::from_secs(1))));
        let caller = begun(&stage, ask("one")).await;
        a.has_calls(1).await;
        let kind = Some(state::answers::Kind::Vector);
        assert!(stage.live.purge(&state::answers::Which { kind, ..Default::default() }).await.is_ok());
        assert_eq!(answers(vec![caller]).await[0].status, 200);
        assert_eq!(cache(&stage.ask(ask("one")).await), "miss");
        assert_eq!(cache(&stage.ask(ask("one")).await), "hit");
    });
}

/// A story in which one thing at a time is done beside the worker.
fn held_story<T>(story: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).max_blocking_threads(1).build();
    runtime.unwrap().block_on(story)
}

#[test]
fn an_answer_is_paid_though_its_caller_leaves_while_it_is_read() {
    for is_part in [false, true] {
        held_story(async move {
            let stage = stage();
            let numbers = vec![0.123_456_789; 1 << 17];
            let usage = json!({"prompt_tokens": 5, "total_tokens": 5});
            let data = json!([{"object": "embedding", "index": 0, "embedding": numbers}]);
            let reply = Reply::json(json!({"object": "list", "model": "m", "data": data, "usage": usage}));
            let a = stage.host("a", Script::always(reply));
            let input = if is_part {
                assert_eq!(stage.ask(ask(json!(["one"]))).await.status, 200);
                json!(["one", "two"])
            } else {
                json!(["two"])
            };
            stage.comes_to_rest().await;
            let before = stage.log().len();
            let (release, held) = std::sync::mpsc::sync_channel::<()>(0);
            tokio::task::spawn_blocking(move || held.recv());
            let caller = begun(&stage, ask(input)).await;
            a.ending_of(1 + usize::from(is_part)).await;
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(stage.log().len(), before, "its answer is being read");
            drop(caller);
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            drop(release);
            let line = stage.last_line().await;
            assert_eq!((&line["outcome"], &line["tokens_in"]), (&json!("caller_gone"), &json!(5)), "{line}");
            let paid = r#"mai_tokens_total{client="app",kind="prompt",route="embedding"}"#;
            assert_eq!(stage.metric(paid), 5.0 * (1.0 + f64::from(u8::from(is_part))), "{}", stage.metrics());
        });
    }
}

#[test]
fn a_call_that_asks_again_for_what_another_did_not_bring_holds_all_that_it_uses_of_its_quota() {
    story(async {
        let texts = ["one", "two", "three", "four"].map(|name| format!("{name:8}").repeat(50));
        let [one, two, three, four] = &texts;
        let of_one = base::estimate(one.as_bytes());
        // Room for two of them, and half of a third one.
        let quota =
            format!("{{ name: app, keys: [sk-app], routes: [\"*\"], quota: {{ tokens: {} }} }}", of_one * 5 / 2);
        let config = config("", "").replace("{ name: app, keys: [sk-app], routes: [\"*\"] }", &quota);
        let stage = Stage::set(&config.replace("mode: exact", "mode: exact, scope: route"));
        stage.host("b", Reply::status(500));
        let a = stage.host(
            "a",
            Script::by(move |request: &Request| {
                let input = request.field("input").unwrap().to_string();
                let usage = json!({"prompt_tokens": of_one, "total_tokens": of_one});
                let data = json!([{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]);
                let brought = Reply::json(json!({"object": "list", "model": "m", "data": data, "usage": usage}));
                match () {
                    () if input.contains("bad") => Reply::status(500).after(Duration::from_millis(100)),
                    () if input.contains("two") => brought.after(Duration::from_secs(1)),
                    () => brought,
                }
            }),
        );
        let mut fails = crate::stage::begun_by(&stage, ask(json!([two, "bad"])).key("sk-other")).await;
        a.has_calls(1).await;
        let mut asks_again = begun(&stage, ask(json!([one, two]))).await;
        assert_eq!(fails.answer().await.unwrap().status, 502);
        a.has_calls(3).await;
        millis(100).await;
        let refused = stage.ask(ask(json!([three]))).await;
        assert_eq!(refused.code().as_deref(), Some("insufficient_quota"), "{}", refused.text());
        assert_eq!(asks_again.answer().await.unwrap().status, 200);
        assert_eq!(inputs(&a), [json!([two, "bad"]), json!([one]), json!([two])]);
        rests(&stage, &a).await;
        assert_eq!(stage.metric(r#"mai_quota_used_ratio{client="app",kind="tokens"}"#), {
            let limit = of_one * 5 / 2;
            (of_one * 2) as f64 / limit as f64
        });
        assert_eq!(stage.ask(ask(json!([four]))).await.code().as_deref(), Some("insufficient_quota"));
        assert_eq!(stage.ask(ask("4")).await.status, 200, "what was put aside and not used is there again");
    });
}
