//! Exact caches: what is the same call, who sees what, what is stored, and what a hit costs.

use std::time::Duration;

use mock::{At, How};
use serde_json::{Value, json};
use testkit::{Ask, Reply, chat, rerank, story};

use crate::chunks::{choices, delta, finish, hello, role};
use crate::stage::{KEY, Stage, answers, begun, cache, pleasant};

/// One upstream, and a cache on every route.
fn config(cache: &str, more: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }}]
routes:
  - name: chat
    match: {{ path: [/v1/chat/completions, /v1/completions] }}
    upstreams: [{{ provider: a, model: model-a }}]
    cache: {{ mode: exact{cache} }}
    {more}
  - name: rerank
    match: {{ path: /v1/rerank }}
    upstreams: [{{ provider: a, model: rank }}]
    cache: {{ mode: exact{cache} }}
  - name: plain
    upstreams: [{{ provider: a, model: model-a }}]
clients:
  - {{ name: app, keys: [sk-app], routes: ["*"] }}
  - {{ name: other, keys: [sk-other], routes: ["*"] }}
"#
    )
}

fn stage() -> Stage {
    Stage::set(&config("", ""))
}

fn ask() -> Ask {
    chat("chat").user("Hi")
}

/// What the cache comes to for a call behind another one.
async fn second(stage: &Stage, first: Ask, second: Ask) -> String {
    assert_eq!(cache(&stage.ask(first).await), "miss");
    cache(&stage.ask(second).await).to_owned()
}

#[test]
fn the_same_call_is_answered_by_what_was_stored() {
    story(async {
        let stage = stage();
        let a = stage.host(
            "a",
            Reply::say(["from a"]).usage(json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14})),
        );
        let first = stage.ask(ask()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let second = stage.ask(ask()).await;
        assert_eq!(first.body, second.body);
        assert_eq!((cache(&first), cache(&second)), ("miss", "hit"));
        assert_eq!((first.header("age"), second.header("age")), (None, Some("5")));
        assert_eq!(first.header("x-mai-cache-id").map(str::len), Some(43));
        for name in ["x-mai-cache-id", "x-mai-upstream", "x-mai-route", "content-type"] {
            assert_eq!(first.header(name), second.header(name), "{name}");
        }
        assert_eq!((first.header("x-mai-attempts"), second.header("x-mai-attempts")), (Some("1"), Some("0")));
        assert_eq!(a.calls().len(), 1);
        let line = stage.last_line().await;
        assert_eq!((&line["cache"], &line["tokens_in"], &line["outcome"]), (&json!("hit"), &Value::Null, &json!("ok")));
        assert_eq!(line["attempts"], json!([]));
    });
}

#[test]
fn what_decides_the_answer_is_in_the_key_and_what_does_not_is_not() {
    for (field, value) in [
        ("max_tokens", json!(16)),
        ("max_completion_tokens", json!(16)),
        ("top_p", json!(0.5)),
        ("stop", json!(["x"])),
        ("n", json!(2)),
        ("seed", json!(7)),
        ("presence_penalty", json!(1)),
        ("logit_bias", json!({"5": 1})),
        ("tool_choice", json!("none")),
        ("parallel_tool_calls", json!(false)),
        ("response_format", json!({"type": "json_object"})),
        ("logprobs", json!(true)),
        ("reasoning_effort", json!("low")),
        ("a_field_of_tomorrow", json!(1)),
        ("temperature", json!(0)),
    ] {
        story(async {
            let stage = stage();
            stage.host("a", pleasant());
            assert_eq!(second(&stage, ask(), ask().with(field, value.clone())).await, "miss", "{field}");
        });
    }
    let body = r#"{ "messages" : [{"content": "Hi", "role":"user"}], "temperature":5e-1,"model":"chat"}"#;
    for same in [
        ask().with("temperature", 0.5).with("user", "u"),
        ask().with("temperature", 0.5).with("metadata", json!({"a": "b"})),
        ask().with("temperature", 0.5).header("x-request-id", "r-2"),
        ask().body(body),
    ] {
        story(async {
            let stage = stage();
            stage.host("a", pleasant());
            assert_eq!(second(&stage, ask().with("temperature", 0.5), same.clone()).await, "hit", "{same:?}");
        });
    }
}

#[test]
fn a_body_that_has_come_often_is_still_another_call_for_another_owner_or_version() {
    story(async {
        let stage = Stage::set(&config(", scope: client", ""));
        let a = stage.host("a", pleasant());
        let with = |key, version| ask().key(key).header("x-mai-kb-version", version);
        let all = [with("sk-app", "1"), with("sk-other", "1"), with("sk-app", "2"), with("sk-other", "2")];
        let mut ids: [Vec<String>; 4] = Default::default();
        for _ in 0..5 {
            for (asked, ids) in all.iter().zip(&mut ids) {
                let answer = stage.ask(asked.clone()).await;
                ids.push(answer.header("x-mai-cache-id").unwrap().to_owned());
            }
        }
        assert_eq!(a.calls().len(), 4, "one for each");
        ids.iter_mut().for_each(Vec::dedup);
        assert!(ids.iter().all(|ids| ids.len() == 1), "{ids:?}");
        let ids = ids.concat();
        assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "{ids:?}");
    });
}

#[test]
fn the_key_is_made_of_what_goes_upstream() {
    story(async {
        let stage = Stage::set(&config("", "params: { force: { temperature: 0.2 } }"));
        stage.host("a", pleasant());
        assert_eq!(second(&stage, ask().with("temperature", 0.9), ask().with("temperature", 0.1)).await, "hit");
        stage.reload(&config("", "params: { force: { temperature: 0.3 } }"));
        assert_eq!(cache(&stage.ask(ask().with("temperature", 0.9)).await), "miss");
    });
}

#[test]
fn a_client_sees_what_another_caused_to_be_stored_only_where_both_share() {
    for (scope, seen) in [("", "miss"), (", scope: route", "hit")] {
        story(async {
            let stage = Stage::set(&config(scope, ""));
            stage.host("a", pleasant());
            stage.ask(ask()).await;
            let other = stage.caller().ask(&ask().key("sk-other")).await;
            assert_eq!(cache(&other), seen);
        });
    }
}

#[test]
fn an_answer_is_served_until_its_time_is_over() {
    story(async {
        let stage = Stage::set(&config(", ttl: 60s", ""));
        let a = stage.host("a", pleasant());
        stage.ask(ask()).await;
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(cache(&stage.ask(ask()).await), "miss");
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn a_shorter_time_holds_for_what_is_stored_already() {
    story(async {
        let stage = Stage::set(&config(", ttl: 1h", ""));
        let a = stage.host("a", pleasant());
        let ranking = || rerank("rerank", "q", ["one", "two"]);
        for ask in [ask(), ranking()] {
            stage.ask(ask).await;
        }
        tokio::time::sleep(Duration::from_secs(61)).await;
        stage.reload(&config(", ttl: 5m", ""));
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
        stage.reload(&config(", ttl: 60s", ""));
        for ask in [ask(), ranking()] {
            assert_eq!(second(&stage, ask.clone(), ask).await, "hit");
        }
        assert_eq!(a.calls().len(), 4);
    });
}

#[test]
fn what_a_shorter_time_has_ended_serves_as_any_expired_answer_does() {
    story(async {
        let stage = Stage::set(&config(", ttl: 1h", "on_failure: stale"));
        let a = stage.host("a", pleasant());
        stage.ask(ask()).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        stage.reload(&config(", ttl: 60s", "on_failure: stale"));
        a.play(Reply::status(500));
        let old = stage.ask(ask()).await;
        assert_eq!((old.status, cache(&old)), (200, "stale"));
    });
}

#[test]
fn another_knowledge_base_has_other_answers() {
    story(async {
        let stage = Stage::set(&config(", kb_version: '1'", ""));
        stage.host("a", pleasant());
        let of = |version: &str| ask().header("x-mai-kb-version", version);
        assert_eq!(second(&stage, ask(), of("1")).await, "hit");
        assert_eq!(second(&stage, of("2"), of("2")).await, "hit");
        stage.live.kb_versions.set("chat".into(), Some("3".into())).await.unwrap();
        assert_eq!(second(&stage, ask(), of("3")).await, "hit");
        stage.live.kb_versions.set("chat".into(), None).await.unwrap();
        assert_eq!(cache(&stage.ask(ask()).await), "hit", "the file's again");
        let refused = stage.ask(of(&"x".repeat(300))).await;
        assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (400, Some("x-mai-kb-version")));
    });
}

#[test]
fn callers_may_wish_for_a_new_answer_or_for_none_to_be_stored() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let wish = |wish: &str| ask().header("cache-control", wish);
        assert_eq!(cache(&stage.ask(wish("no-store")).await), "bypass");
        assert_eq!(cache(&stage.ask(ask()).await), "miss", "nothing was stored");
        assert_eq!(cache(&stage.ask(wish("max-age=5, No-Cache")).await), "bypass");
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
        assert_eq!(cache(&stage.ask(wish("no-store")).await), "bypass", "nothing is looked for either");
        assert_eq!(a.calls().len(), 4);
    });
}

#[test]
fn a_route_without_a_cache_says_nothing_of_one() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        for _ in 0..2 {
            let answer = stage.ask(chat("plain").user("Hi")).await;
            assert_eq!((answer.header("x-mai-cache"), answer.header("x-mai-cache-id")), (None, None));
        }
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn a_ranking_is_the_same_by_whatever_names_it_is_asked_for() {
    story(async {
        let stage = stage();
        let a = stage.host("a", pleasant());
        let ask = || rerank("rerank", "q", ["one", "two"]);
        let first = stage.ask(ask().with("top_n", 1)).await;
        let again = stage.ask(ask().with("top_n", 1).with("user", "u")).await;
        assert_eq!((cache(&first), cache(&again)), ("miss", "hit"));
        assert_eq!(first.body, again.body);
        assert_eq!(cache(&stage.ask(ask().with("top_n", 2)).await), "miss");
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn failures_are_not_stored() {
    for reply in [Reply::status(500), Reply::status(400), Reply::json(json!({"error": {"message": "no"}}))] {
        story(async {
            let stage = Stage::set(&config("", "retry: { server_error: [] }"));
            let a = stage.host("a", reply.clone());
            assert!(stage.ask(ask()).await.status >= 400);
            a.play(pleasant());
            assert_eq!(second(&stage, ask(), ask()).await, "hit");
        });
    }
}

#[test]
fn a_hit_is_served_when_the_quota_is_spent() {
    story(async {
        let config = config("", "").replace("routes: [\"*\"] }", "routes: [\"*\"], quota: { tokens: 100 } }");
        let stage = Stage::set(&config);
        stage.host(
            "a",
            Reply::say(["x"]).usage(json!({"prompt_tokens": 90, "completion_tokens": 9, "total_tokens": 99})),
        );
        stage.ask(ask()).await;
        stage.comes_to_rest().await;
        stage.live.gather();
        let refused = stage.ask(ask().user("more")).await;
        assert_eq!(refused.code().as_deref(), Some("insufficient_quota"));
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
        assert_eq!(KEY, "sk-app");
    });
}

#[test]
fn what_the_last_resort_answered_is_not_kept_for_the_first() {
    story(async {
        let stage = Stage::set(
            r#"
providers:
  - { name: a, base_url: "http://a/v1", api_key: sk-a-secret }
  - { name: b, base_url: "http://b/v1", api_key: sk-b-secret }
routes:
  - name: chat
    upstreams: [{ provider: a, model: strong }, { provider: b, model: weak, tier: 1 }]
    retry: { server_error: [] }
    cache: { mode: exact }
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
"#,
        );
        let a = stage.host("a", Reply::status(500));
        let b = stage.host("b", Reply::say(["from b"]));
        for ask in [ask(), ask().stream(), ask().header("idempotency-key", "k-1")] {
            let first = stage.ask(ask).await;
            assert_eq!((first.said().as_str(), cache(&first)), ("from b", "miss"));
            assert_eq!(first.header("x-mai-cache-id"), None, "nothing is stored");
        }
        b.play(Reply::status(500));
        assert_eq!(stage.ask(ask()).await.header("x-mai-cache-id"), None);
        a.play(Reply::say(["from a"]));
        let again = stage.ask(ask().header("idempotency-key", "k-1")).await;
        assert_eq!((again.said().as_str(), cache(&again)), ("from b", "replay"), "a repeat gets what it got");
        assert_eq!(again.header("x-mai-cache-id"), None, "which is no stored answer for others");
        for seen in ["miss", "hit"] {
            let answer = stage.ask(ask()).await;
            assert_eq!((answer.said().as_str(), cache(&answer)), ("from a", seen));
        }
        assert_eq!(b.calls().len(), 4);
    });
}

#[test]
fn who_shares_an_answer_that_is_not_stored_is_told_of_no_id_either() {
    story(async {
        let stage = stage();
        let a = stage.host(
            "a",
            Reply::say(["cut"]).with(|knobs| knobs.finish = Some(json!("length"))).after(Duration::from_secs(1)),
        );
        let callers = vec![begun(&stage, ask()).await, begun(&stage, ask()).await];
        let both = answers(callers).await;
        assert_eq!(a.calls().len(), 1);
        assert_eq!([cache(&both[0]), cache(&both[1])], ["miss", "shared"]);
        assert!(both.iter().all(|answer| answer.status == 200 && answer.header("x-mai-cache-id").is_none()));
    });
}

#[test]
fn a_call_with_side_effects_has_them() {
    story(async {
        let stage = stage();
        let a = stage.host("a", Reply::say(["x"]).after(Duration::from_secs(1)));
        let acting = || ask().header("x-mai-side-effects", "true").key(KEY);
        assert_eq!(cache(&stage.ask(ask()).await), "miss");
        let mut first = stage.caller();
        first.begin(&acting()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(cache(&stage.ask(acting()).await), "bypass");
        assert_eq!(cache(&first.answer().await.unwrap()), "bypass");
        assert_eq!(a.calls().len(), 3, "neither is answered by what is stored, nor by the other");
        assert_eq!(cache(&stage.ask(ask()).await), "hit");
        for seen in ["bypass", "replay"] {
            assert_eq!(cache(&stage.ask(acting().header("idempotency-key", "k-1")).await), seen);
        }
    });
}

#[test]
fn a_stored_answer_serves_both_forms_whichever_filled_it() {
    let told = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
    for (first, says_usage) in [(ask(), true), (ask().stream(), false), (ask().stream().usage(), true)] {
        story(async {
            let stage = stage();
            let a = stage.host("a", Reply::say(["Hel", "lo"]).usage(told.clone()));
            let filled = stage.ask(first.clone()).await;
            assert_eq!((cache(&filled), filled.said()), ("miss", "Hello".to_owned()));
            stage.comes_to_rest().await;
            let whole = stage.ask(ask()).await;
            assert_eq!((cache(&whole), whole.said()), ("hit", "Hello".to_owned()));
            assert_eq!(whole.json()["usage"]["total_tokens"], 14, "{says_usage}: {}", whole.text());
            let stream = stage.ask(ask().stream()).await;
            assert_eq!((cache(&stream), stream.said()), ("hit", "Hello".to_owned()));
            assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
            assert_eq!(stream.header("cache-control"), Some("no-cache"));
            assert!(stream.events().is_done() && !stream.text().contains("total_tokens"), "{}", stream.text());
            let with_usage = stage.ask(ask().stream().usage()).await;
            assert_eq!(cache(&with_usage), "hit");
            assert!(with_usage.text().contains("\"total_tokens\":14"), "{}", with_usage.text());
            assert_eq!(a.calls().len(), 1);
        });
    }
}

#[test]
fn every_word_about_usage_is_stored_also_where_the_caller_who_filled_the_cache_was_not_shown_it() {
    story(async {
        let stage = stage();
        let told = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14,
            "completion_tokens_details": {"reasoning_tokens": 2}, "queue_time": 0.25});
        stage.host("a", Reply::say(["Hel", "lo"]).usage(told.clone()));
        let first = stage.ask(ask().stream()).await;
        assert!(!first.text().contains("total_tokens"), "{}", first.text());
        let whole = stage.ask(ask()).await;
        assert_eq!((cache(&whole), &whole.json()["usage"]), ("hit", &told));
        let stream = stage.ask(ask().stream().usage()).await;
        assert!(
            stream.text().contains("\"reasoning_tokens\":2") && stream.text().contains("0.25"),
            "{}",
            stream.text()
        );
    });
}

#[test]
fn what_is_not_complete_is_not_stored() {
    let say = || Reply::sse([role(), delta("Hello"), finish(), "[DONE]".to_owned()]);
    let cut = |at, how| Reply::sse([role(), delta("Hello"), finish(), "[DONE]".to_owned()]).cut(At::Events(at), how);
    let ends = |reason: Value| choices(json!([{"index": 0, "delta": {}, "finish_reason": reason}]));
    for (what, reply) in [
        ("cut", cut(2, How::Rst)),
        ("ended early", cut(2, How::Fin)),
        ("without a finish reason", Reply::sse([role(), delta("Hello"), "[DONE]".to_owned()])),
        ("cut at its length", Reply::sse([role(), delta("Hello"), ends(json!("length")), "[DONE]".to_owned()])),
        ("without content", Reply::sse([role(), finish(), "[DONE]".to_owned()])),
        ("an error", Reply::sse([role(), delta("Hello"), json!({"error": {"message": "no"}}).to_string()])),
    ] {
        story(async {
            let stage = stage();
            let a = stage.host("a", reply.clone());
            let first = stage.ask(ask().stream()).await;
            assert_eq!(cache(&first), "miss", "{what}");
            stage.comes_to_rest().await;
            a.play(say());
            assert_eq!(cache(&stage.ask(ask().stream()).await), "miss", "{what}");
            assert_eq!(cache(&stage.ask(ask().stream()).await), "hit", "{what}");
        });
    }
}

#[test]
fn a_caller_who_leaves_at_the_end_has_filled_the_cache_and_one_who_leaves_before_has_not() {
    for (read, seen) in [("[DONE]", "hit"), ("lo", "miss")] {
        story(async {
            let stage = stage();
            stage.host("a", Reply::sse(hello()).every(Duration::from_millis(50)));
            let mut caller = stage.caller();
            caller.begin(&ask().stream().key(KEY)).await;
            caller.head().await.unwrap();
            loop {
                let more = caller.more().await.unwrap().unwrap();
                if String::from_utf8(more).unwrap().contains(read) {
                    break;
                }
            }
            drop(caller);
            stage.comes_to_rest().await;
            assert_eq!(cache(&stage.ask(ask()).await), seen, "{read}");
        });
    }
}

#[test]
fn an_expired_answer_is_better_than_none_where_that_is_wished() {
    let config = config(", ttl: 60s", "on_failure: stale\n    retry: { server_error: [] }");
    story(async {
        let stage = Stage::set(&config);
        let a = stage.host("a", pleasant());
        let first = stage.ask(ask()).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        a.play(Reply::status(500));
        for ask in [ask(), ask().stream()] {
            let answer = stage.ask(ask).await;
            assert_eq!((answer.status, cache(&answer), answer.said()), (200, "stale", first.said()));
            assert_eq!(answer.header("x-mai-degraded"), Some("upstream_error"));
            assert_eq!(answer.header("age"), Some("61"));
        }
        let line = stage.last_line().await;
        assert_eq!(
            (&line["outcome"], &line["cache"], &line["degraded"]),
            (&json!("ok"), &json!("stale"), &json!("upstream_error"))
        );
        let fresh = stage.ask(ask().header("cache-control", "no-cache")).await;
        assert_eq!(fresh.status, 502, "no stored answer at all");
        assert_eq!(stage.ask(ask().user("another")).await.status, 502);
        tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
        assert_eq!(stage.ask(ask()).await.status, 502, "a day is long enough");
    });
}

#[test]
fn what_was_saved_is_counted_and_nothing_else_of_a_hit() {
    story(async {
        let stage = stage();
        let told = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
        stage.host("a", Reply::say(["x"]).usage(told).after(Duration::from_secs(2)));
        for _ in 0..3 {
            stage.ask(ask()).await;
        }
        stage.comes_to_rest().await;
        let of = |name: &str| stage.metric(&format!("{name}{{client=\"app\",route=\"chat\"}}"));
        assert_eq!(of("mai_tokens_saved_total"), 28.0);
        assert!((3.9..4.1).contains(&of("mai_seconds_saved_total")));
        let looked = |result| {
            stage.metric(&format!("mai_cache_lookups_total{{cache=\"exact\",result=\"{result}\",route=\"chat\"}}"))
        };
        assert_eq!((looked("hit"), looked("miss")), (2.0, 1.0));
        let series = "mai_requests_total{cache=\"hit\",client=\"app\",outcome=\"ok\",route=\"chat\",status=\"200\"}";
        assert_eq!(stage.metric(series), 2.0);
        assert_eq!(stage.metric("mai_tokens_total{client=\"app\",kind=\"prompt\",route=\"chat\"}"), 11.0);
        let report = stage.live.usage_ledger.store.report(state::Question::default()).await.unwrap();
        let sums = report[0].sums;
        assert_eq!((sums.requests, sums.cache_hits, sums.tokens_saved, sums.tokens_in), (3, 2, 28, 11));
        assert!((3900..=4000).contains(&sums.ms_saved), "{}", sums.ms_saved);
    });
}

#[test]
fn what_is_explained_is_the_key_that_is_used() {
    story(async {
        let stage = Stage::set(&config(", kb_version: '1'", ""));
        stage.host("a", pleasant());
        let ask = ask().with("temperature", 0.5);
        let body = ask.bytes();
        let answer = stage.ask(ask).await;
        let snapshot = &stage.live.running().snapshot;
        let told = gateway::explain::explain(snapshot, "app", base::Endpoint::Chat, body).unwrap();
        assert_eq!(told["cache"]["key"].as_str(), answer.header("x-mai-cache-id"));
        assert_eq!((&told["cache"]["mode"], &told["cache"]["scope"]), (&json!("exact"), &json!("client")));
    });
}
