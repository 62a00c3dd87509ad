//! Moving on: to whom, after what, how often, and what the caller is told in the end.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, At, Door, End, How, Reply, Scenario, Script, chat, embeddings, rerank, story};

use crate::chunks::role;
use crate::stage::{Stage, alone, pleasant, usual_but, without_waits};

fn ask() -> testkit::Ask {
    chat("chat").user("Hi")
}

fn error(status: u16, error: Value) -> Reply {
    Reply { status: Some(status), ..Reply::json(json!({"error": error})) }
}

fn attempts(answer: &Answer) -> usize {
    answer.header("x-mai-attempts").unwrap().parse().unwrap()
}

#[test]
fn a_prompt_that_is_too_long_is_the_callers_affair_however_it_is_worded() {
    story(async {
        let words =
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
        let openai = json!({"message": words, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"});
        let vllm = Reply {
            status: Some(400),
            ..Reply::json(
                json!({"object": "error", "message": words, "type": "BadRequestError", "param": null, "code": 400}),
            )
        };
        let sglang = error(
            400,
            json!({"message": "The input (9000 tokens) is longer than the model's context length (8192 tokens).", "type": "BadRequestError", "code": 400}),
        );
        let in_stream = Reply::sse([role(), json!({"error": openai}).to_string()]);
        let in_success = Reply::json(json!({"error": openai}));
        for (refusal, stream) in [
            (error(400, openai.clone()), false),
            (vllm, false),
            (sglang, false),
            (in_stream, true),
            (in_success, false),
            (error(400, openai), true),
        ] {
            let stage = Stage::usual();
            let a = stage.host("a", refusal.clone());
            let b = stage.host("b", pleasant());
            for n in 1..=10 {
                let answer = stage.ask(ask().with("stream", stream)).await;
                assert_eq!(
                    (answer.status, answer.code().as_deref()),
                    (400, Some("context_length_exceeded")),
                    "{}",
                    answer.text()
                );
                assert!(answer.text().contains("context length"), "its own words: {}", answer.text());
                assert_eq!((a.calls().len(), b.calls().len()), (n, 0));
            }
            a.play(pleasant());
            assert_eq!(stage.ask(ask()).await.header("x-mai-upstream"), Some("a/model-a"));
        }
    });
}

#[test]
fn a_fallbacks_own_refusal_does_not_hide_the_first_failure() {
    story(async {
        let refusals = [
            error(400, json!({"message": "maximum context length is 10", "code": "context_length_exceeded"})),
            error(422, json!({"message": "no"})),
            Reply::status(404),
        ];
        for refusal in refusals {
            let stage = Stage::usual();
            let a = stage.host("a", Reply::status(503));
            let b = stage.host("b", refusal);
            let answer = stage.ask(ask()).await;
            assert!(matches!(answer.status, 502 | 503), "{}: {}", answer.status, answer.text());
            assert_eq!(answer.code().as_deref(), Some("upstream_error"));
            assert_eq!((a.calls().len(), b.calls().len(), attempts(&answer)), (3, 1, 4), "the first is waited for");
        }
    });
}

#[test]
fn what_a_fallback_alone_objects_to_another_may_still_answer() {
    story(async {
        let more = "  - { name: c, protocol: openai, base_url: \"http://c/v1\" }\nroutes:\n  - name: chat";
        let config = usual_but("routes:\n  - name: chat", more).replace(
            "model: model-b, tier: 1 }",
            "model: model-b, tier: 1 }, { provider: c, model: model-c, tier: 2 }",
        );
        let stage = Stage::set(&config);
        stage.host("a", Reply::status(500));
        stage.host(
            "b",
            error(400, json!({"message": "maximum context length is 10", "code": "context_length_exceeded"})),
        );
        stage.host("c", Reply::say(["from c"]));
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.said().as_str(), attempts(&answer)), ("from c", 3));
    });
}

#[test]
fn the_callers_mistakes_go_to_nobody_else_and_come_back_with_their_words() {
    story(async {
        for status in [400, 404, 409, 413, 415, 422, 431, 451] {
            let stage = Stage::usual();
            let a = stage.host("a", error(status, json!({"message": format!("mistake {status}"), "type": "weird_type", "param": "messages", "code": "odd"})));
            let b = stage.host("b", pleasant());
            for ask in [ask(), ask().stream(), embeddings("embedding", "abc"), rerank("rerank", "q", ["d"])] {
                for _ in 0..3 {
                    let answer = stage.ask(ask.clone()).await;
                    assert_eq!(
                        (answer.status, answer.json()["error"]["message"].as_str()),
                        (status, Some(format!("mistake {status}").as_str()))
                    );
                    assert_eq!(
                        (answer.code().as_deref(), answer.header("x-should-retry")),
                        (Some("odd"), Some("false"))
                    );
                }
            }
            assert_eq!((a.calls().len(), b.calls().len()), (12, 0));
            a.play(pleasant());
            assert_eq!(stage.ask(ask()).await.header("x-mai-upstream"), Some("a/model-a"));
        }
    });
}

#[test]
fn a_refusal_of_content_is_the_callers_affair() {
    story(async {
        let filters = [
            error(400, json!({"message": "The response was filtered", "code": "content_filter"})),
            error(403, json!({"message": "flagged for violence", "code": "content_policy_violation"})),
            error(
                400,
                json!({"message": "Input data may contain inappropriate content.", "code": "data_inspection_failed"}),
            ),
        ];
        for filter in filters {
            let stage = Stage::usual();
            stage.host("a", filter.clone());
            let b = stage.host("b", pleasant());
            let answer = stage.ask(ask()).await;
            assert!((400..500).contains(&answer.status), "{}", answer.text());
            assert_eq!(b.calls().len(), 0, "{filter:?}");
        }
    });
}

#[test]
fn what_a_proxy_is_shown_reaches_no_caller() {
    story(async {
        let config = alone("openai", "http://a/v1").replace("api_key:", "proxy: 'http://u:p@proxy:80', api_key:");
        let stage = Stage::set(&config);
        stage.host("a", error(400, json!({"message": "no tunnel for Basic dTpw"})));
        let answer = stage.ask(ask()).await;
        assert!(answer.text().contains("no tunnel for [secret]"), "{}", answer.text());
    });
}

#[test]
fn a_refusal_of_the_gateways_own_key_never_makes_the_caller_doubt_its_own() {
    story(async {
        let refusals = [
            error(401, json!({"message": "Incorrect API key provided: sk-a-secret", "code": "invalid_api_key"})),
            error(402, json!({"message": "Insufficient Balance"})),
            error(403, json!({"message": "you are not allowed to use this model"})),
            error(
                429,
                json!({"message": "You exceeded your current quota, please check your plan and billing details.", "code": "insufficient_quota"}),
            ),
            Reply::json(json!({"error": {"message": "invalid key", "code": "invalid_api_key"}})),
        ];
        for refusal in refusals {
            let stage = Stage::usual();
            let a = stage.host("a", refusal.clone());
            let b = stage.host("b", Reply::say(["from b"]));
            assert_eq!(stage.ask(ask()).await.said(), "from b", "{refusal:?}");
            assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
            let alone = Stage::set(&alone("openai", "http://a/v1"));
            alone.host("a", refusal);
            let answer = alone.ask(ask()).await;
            assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_error")), "{}", answer.text());
            assert!(!answer.text().contains("sk-a-secret"));
            let answer = alone.ask(ask()).await;
            assert_eq!(
                (answer.status, answer.code().as_deref(), answer.header("retry-after")),
                (503, Some("all_upstreams_unavailable"), Some("60")),
                "it rests: {}",
                answer.text()
            );
        }
    });
}

#[test]
fn a_refused_key_rests_a_minute_and_longer_each_time() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::status(401));
        stage.host("b", Reply::say(["from b"]));
        let mut calls = 0;
        for rest in [60, 120, 240, 300, 300] {
            assert_eq!(stage.ask(ask()).await.said(), "from b");
            calls += 1;
            assert_eq!(a.calls().len(), calls, "it is tried when its rest is over");
            tokio::time::sleep(Duration::from_secs(rest - 1)).await;
            assert_eq!(attempts(&stage.ask(ask()).await), 1);
            assert_eq!(a.calls().len(), calls, "and not before: {rest}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        a.play(Reply::say(["from a"]));
        assert_eq!(stage.ask(ask()).await.said(), "from a");
    });
}

/// Two keys for `a`, of which some get an answer.
fn two_keys() -> String {
    usual_but("api_key: sk-a-secret", "api_keys: [sk-one, sk-two]")
}

#[test]
fn one_key_that_is_refused_or_throttled_rests_alone() {
    story(async {
        let by_key = |status: u16| {
            Script::by(move |request| match request.header("authorization") {
                Some("Bearer sk-one") => Reply::status(status).header("retry-after", "7"),
                _ => Reply::say(["from two"]),
            })
        };
        for (status, rest) in [(401, 60), (429, 7), (503, 7)] {
            let stage = Stage::set(&two_keys());
            let a = stage.host("a", by_key(status));
            let b = stage.host("b", pleasant());
            for _ in 0..10 {
                assert_eq!(stage.ask(ask()).await.said(), "from two");
            }
            let ones = || {
                a.calls().iter().filter(|call| call.request.header("authorization") == Some("Bearer sk-one")).count()
            };
            assert_eq!((ones(), b.calls().len()), (1, 0), "{status}");
            tokio::time::sleep(Duration::from_secs(rest)).await;
            for _ in 0..2 {
                assert_eq!(stage.ask(ask()).await.said(), "from two");
            }
            assert_eq!(ones(), 2, "{status}");
        }
    });
}

#[test]
fn nonsense_in_retry_after_rests_a_key_for_the_usual_time_and_never_for_ever() {
    story(async {
        for (wait, least, most) in [
            ("-5", 1, 10),
            ("soon", 1, 10),
            ("1e9", 1, 300),
            ("3600", 299, 300),
            ("999999999999999999999", 1, 300),
            ("", 1, 10),
        ] {
            let stage = Stage::set(&two_keys());
            let wait = wait.to_owned();
            let throttled = wait.clone();
            let a = stage.host(
                "a",
                Script::by(move |request| match request.header("authorization") {
                    Some("Bearer sk-one") => Reply::status(429).header("retry-after", &throttled),
                    _ => Reply::say(["from two"]),
                }),
            );
            stage.host("b", pleasant());
            let ones = || {
                a.calls().iter().filter(|call| call.request.header("authorization") == Some("Bearer sk-one")).count()
            };
            for _ in 0..4 {
                stage.ask(ask()).await;
            }
            assert_eq!(ones(), 1, "{wait}");
            tokio::time::sleep(Duration::from_millis(least * 1000 - 500)).await;
            for _ in 0..2 {
                stage.ask(ask()).await;
            }
            assert_eq!(ones(), 1, "{wait}: too early");
            tokio::time::sleep(Duration::from_secs(most)).await;
            for _ in 0..2 {
                stage.ask(ask()).await;
            }
            assert_eq!(ones(), 2, "{wait}: too late");
        }
    });
}

#[test]
fn everything_throttled_is_told_with_the_shortest_wait() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::status(429).header("retry-after", "9"));
        let b = stage.host("b", Reply::status(503).header("retry-after", "4"));
        let answer = stage.ask(ask()).await;
        assert_eq!(
            (answer.status, answer.code().as_deref(), answer.header("retry-after")),
            (429, Some("upstream_throttled"), Some("4")),
            "{}",
            answer.text()
        );
        assert_eq!(answer.header("x-should-retry"), None, "waiting helps");
        assert_eq!((a.calls().len(), b.calls().len(), attempts(&answer)), (1, 2, 3), "the shorter rest was waited for");
    });
}

#[test]
fn keys_that_all_rest_are_told_with_the_shortest_rest_and_nobody_is_called() {
    story(async {
        let stage =
            Stage::set(&alone("openai", "http://a/v1").replace("api_key: sk-a-secret", "api_keys: [sk-one, sk-two]"));
        let a = stage.host(
            "a",
            Scenario::from(Script::replies([
                Reply::status(429).header("retry-after", "60"),
                Reply::status(429).header("retry-after", "50"),
            ])),
        );
        assert_eq!(stage.ask(ask()).await.status, 429);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let answer = stage.ask(ask()).await;
        assert_eq!(
            (answer.status, answer.code().as_deref(), answer.header("retry-after")),
            (429, Some("upstream_throttled"), Some("45")),
            "{}",
            answer.text()
        );
        assert_eq!((a.calls().len(), attempts(&answer)), (2, 0));
    });
}

#[test]
fn keys_take_turns() {
    story(async {
        let stage = Stage::set(&two_keys());
        let a = stage.host("a", pleasant());
        for _ in 0..10 {
            stage.ask(ask()).await;
        }
        let ones =
            a.calls().iter().filter(|call| call.request.header("authorization") == Some("Bearer sk-one")).count();
        assert_eq!(ones, 5);
    });
}

#[test]
fn tries_are_bounded_counted_and_never_two_at_a_time() {
    story(async {
        let hang = Reply::hang();
        for (reply, code) in [
            (Reply::status(500), "upstream_error"),
            (Reply::reset(), "upstream_error"),
            (hang, "upstream_timeout"),
            (Reply::json(json!("no")), "upstream_bad_response"),
        ] {
            for ask in [ask(), ask().stream(), embeddings("embedding", "abc"), rerank("rerank", "q", ["d"])] {
                let stage = Stage::set(&two_keys());
                let a = stage.host("a", reply.clone());
                let b = stage.host("b", reply.clone());
                let began = base::Clock.now();
                let answer = stage.ask(ask).await;
                let took = base::Clock.now() - began;
                assert!(
                    answer.code().as_deref() == Some(code) || answer.code().as_deref() == Some("deadline_exceeded"),
                    "{reply:?}: {}",
                    answer.text()
                );
                assert!(took <= Duration::from_millis(30_500), "{took:?}");
                let mut calls = a.calls();
                calls.extend(b.calls());
                // Each upstream once, whatever its keys, and once more for each wait that the deadline has room for.
                let least = if code == "upstream_timeout" { 2 } else { 4 };
                assert!(
                    (least..=4).contains(&calls.len()) && calls.len() == attempts(&answer),
                    "{reply:?}: {}",
                    calls.len()
                );
                let line = stage.last_line().await;
                assert_eq!(line["attempts"].as_array().unwrap().len(), calls.len());
                calls.sort_by_key(|call| call.at);
                for pair in calls.windows(2) {
                    let ended = pair[0].ended_at.unwrap();
                    assert!(ended <= pair[1].at + Duration::from_millis(1), "closed before the next starts");
                }
            }
        }
    });
}

#[test]
fn no_word_of_an_upstreams_error_tells_its_key_or_address() {
    story(async {
        let stage = Stage::usual();
        let told = json!({"message": "no", "type": "at http://a/v1", "param": "http://a/v1/x", "code": "sk-a-secret"});
        stage.host("a", error(400, told));
        let answer = stage.ask(ask()).await;
        assert_eq!(answer.status, 400);
        let line = stage.last_line().await.to_string();
        for text in [answer.text(), line] {
            assert!(!text.contains("sk-a-secret") && !text.contains("//a/"), "{text}");
        }
    });
}

#[test]
fn what_is_said_of_side_effects_must_be_understood() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::say(["Hi"]));
        for word in ["1", "yes", "", "true, true"] {
            let answer = stage.ask(ask().header("x-mai-side-effects", word)).await;
            assert_eq!((answer.status, answer.code().as_deref()), (400, Some("invalid_request")), "{word}");
            assert!(answer.text().contains("x-mai-side-effects"), "{}", answer.text());
        }
        let twice = ask().header("x-mai-side-effects", "false").header("x-mai-side-effects", "true");
        assert_eq!(stage.ask(twice).await.status, 400);
        assert_eq!(a.calls().len(), 0);
        for word in ["true", "TRUE", "false"] {
            assert_eq!(stage.ask(ask().header("x-mai-side-effects", word)).await.status, 200, "{word}");
        }
    });
}

#[test]
fn a_call_with_side_effects_is_not_sent_twice() {
    story(async {
        let once = ask().header("x-mai-side-effects", "true");
        for reply in [
            Reply::status(500),
            Reply::status(502),
            Reply::reset(),
            Reply::close(),
            Reply::hang(),
            Reply::default().cut(At::Bytes(5), How::Fin),
            Reply::text("no"),
        ] {
            for stream in [false, true] {
                let stage = Stage::usual();
                let a = stage.host("a", reply.clone());
                let b = stage.host("b", pleasant());
                let answer = stage.ask(once.clone().with("stream", stream)).await;
                assert!(matches!(answer.status, 502 | 504), "{reply:?}: {} {}", answer.status, answer.text());
                assert_eq!((a.calls().len(), b.calls().len(), attempts(&answer)), (1, 0, 1), "{reply:?}");
            }
        }
        for reply in [Reply::status(429), Reply::status(503).header("retry-after", "1"), Reply::status(401)] {
            let stage = Stage::usual();
            stage.host("a", reply);
            stage.host("b", Reply::say(["from b"]));
            assert_eq!(stage.ask(once.clone()).await.said(), "from b", "certainly not processed");
        }
        let stage = Stage::usual();
        stage.host("a", pleasant()).set_door(Door::Refuse);
        stage.host("b", Reply::say(["from b"]));
        assert_eq!(stage.ask(once.clone()).await.said(), "from b");
        // The deadline cuts the first try off before it has a connection.
        let stage = Stage::usual();
        stage.host("a", pleasant()).set_door(Door::Hang);
        stage.host("b", Reply::say(["from b"]));
        assert_eq!(stage.ask(once.header("x-mai-timeout-ms", "900")).await.said(), "from b", "it was never sent");
        let marked = embeddings("embedding", "abc").header("x-mai-side-effects", "true");
        let stage = Stage::usual();
        stage.host("a", Reply::status(500));
        stage.host("b", pleasant());
        assert_eq!(stage.ask(marked).await.status, 200, "embeddings have none");
    });
}

#[test]
fn while_another_is_left_a_try_gets_two_thirds_of_what_remains() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::hang());
        let b = stage.host("b", Reply::hang());
        for (ask, deadline) in [
            (ask().header("x-mai-timeout-ms", "3000"), 3000),
            (ask().stream().header("x-mai-timeout-ms", "3000"), 3000),
            (rerank("rerank", "q", ["d"]).header("x-mai-timeout-ms", "900"), 900),
        ] {
            let (before, began) = (b.calls().len(), base::Clock.now());
            let answer = stage.ask(ask).await;
            let took = base::Clock.now() - began;
            assert_eq!((answer.status, attempts(&answer)), (504, 2), "{}", answer.text());
            assert_eq!(answer.code().as_deref(), Some("deadline_exceeded"));
            assert!(took.as_millis().abs_diff(deadline) < 60, "{took:?}");
            let first = &a.calls()[before];
            let share = first.ended_at.unwrap() - first.at;
            assert!(share.as_millis().abs_diff(deadline * 2 / 3) < 30, "{share:?}");
        }
    });
}

#[test]
fn no_try_gets_less_than_its_least_time() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::hang());
        let b = stage.host("b", Reply::hang());
        // Two thirds would be 40 ms.
        let answer = stage.ask(ask().header("x-mai-timeout-ms", "60")).await;
        assert_eq!((answer.status, a.calls().len(), b.calls().len()), (504, 1, 0));
        let took = a.calls()[0].ended_at.unwrap() - a.calls()[0].at;
        assert!((45..60).contains(&took.as_millis()), "{took:?}");
    });
}

#[test]
fn a_callers_deadline_shortens_and_never_lengthens() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::hang());
        stage.host("b", Reply::hang());
        for (millis, most) in [("200", 300), ("3600000", 30_500), ("18446744073709551615", 30_500)] {
            let began = base::Clock.now();
            assert_eq!(stage.ask(ask().header("x-mai-timeout-ms", millis)).await.status, 504);
            assert!((base::Clock.now() - began).as_millis() <= most);
        }
        let calls = a.calls().len();
        let answer = stage.ask(ask().header("x-mai-timeout-ms", "49")).await;
        assert_eq!((answer.status, answer.code().as_deref(), attempts(&answer)), (504, Some("deadline_exceeded"), 0));
        for nonsense in ["0", "-1", "soon", "1.5", "", "99999999999999999999999"] {
            let answer = stage.ask(ask().header("x-mai-timeout-ms", nonsense)).await;
            assert_eq!((answer.status, answer.code().as_deref()), (400, Some("invalid_request")), "{nonsense}");
            assert_eq!(answer.json()["error"]["param"], "x-mai-timeout-ms");
        }
        assert_eq!(a.calls().len(), calls);
    });
}

#[test]
fn a_client_has_a_deadline_of_its_own() {
    story(async {
        let stage = Stage::set(&usual_but("keys: [sk-app],", "keys: [sk-app], deadline: 2s,"));
        stage.host("a", Reply::hang());
        stage.host("b", Reply::hang());
        let began = base::Clock.now();
        assert_eq!(stage.ask(ask()).await.status, 504);
        assert!((base::Clock.now() - began).as_millis().abs_diff(2000) < 60);
    });
}

#[test]
fn the_clock_of_a_try_bounds_a_body_that_never_ends() {
    story(async {
        let stage = Stage::set(&without_waits(&alone("openai", "http://a/v1")));
        let a = stage
            .host("a", Reply::json(json!({"choices": []})).header("content-length", "1000").cut(At::End, How::Hang));
        let began = base::Clock.now();
        let answer = stage.ask(ask()).await;
        assert_eq!((answer.status, answer.code().as_deref()), (504, Some("upstream_timeout")), "{}", answer.text());
        assert!((base::Clock.now() - began).as_secs() <= 20);
        assert_eq!(a.ending_of(1).await, End::Gone);
        assert_eq!(stage.last_line().await["outcome"], "upstream_timeout");
    });
}

#[test]
fn the_wait_that_the_caller_is_told_is_sane_whatever_the_upstream_says() {
    story(async {
        let date = "Fri, 31 Dec 2100 23:59:59 GMT";
        let past = "Sun, 06 Nov 1994 08:49:37 GMT";
        for wait in ["2", "0", "-5", "soon", "1e9", "3600", "99999999999999999999", "", "1.5", date, past] {
            let stage = Stage::usual();
            stage.host("a", Reply::status(429).header("retry-after", wait));
            stage.host("b", Reply::status(429).header("retry-after", wait));
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, answer.code().as_deref()), (429, Some("upstream_throttled")), "{wait}");
            let told: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=300).contains(&told), "{wait}: {told}");
            assert!(wait != "2" || told <= 2, "{told}");
        }
    });
}

#[test]
fn an_answer_that_the_gateway_has_no_room_for_is_asked_for_once_and_blames_nobody() {
    story(async {
        let stage = Stage::usual();
        let all = &stage.live.resources.buffered;
        all.bound(3 << 20);
        let large = |size: usize| Reply::say(["x".repeat(size)]);
        let a = stage.host("a", large(4 << 20));
        let b = stage.host("b", pleasant());
        for _ in 0..6 {
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.status, answer.code().as_deref()), (503, Some("gateway_overloaded")));
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        assert_eq!((a.calls().len(), b.calls().len()), (6, 0), "another answer would have no room either");
        assert_eq!(stage.metric("mai_breaker_state{upstream=\"a/m\"}"), 0.0);
        assert_eq!(all.bytes(), 0, "nothing of it is left");
        a.play(large(2 << 20));
        assert_eq!(stage.ask(ask()).await.said().len(), 2 << 20);
        stage.comes_to_rest().await;
        assert_eq!(all.bytes(), 0, "it is given back once the caller has it");
    });
}
