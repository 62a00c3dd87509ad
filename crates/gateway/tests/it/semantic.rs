//! The same question in other words: what is found by its meaning, what is not, and what that costs.

use std::time::Duration;

use base::Clock;
use serde_json::{Value, json};
use state::answers::{Kind, Which};
use testkit::{Ask, Caller, Host, Reply, Script, Stream, chat, embeddings, story};

use crate::stage::{Stage, cache, millis, pleasant};

/// A route that matches by meaning, its embedder at host `e`, a reranker at `r` and a judge at `j`.
fn config(semantic: &str, more: &str) -> String {
    format!(
        r#"
providers:
  - {{ name: a, base_url: "http://a/v1", api_key: sk-a-secret }}
  - {{ name: e, base_url: "http://e/v1" }}
  - {{ name: r, base_url: "http://r/v1", protocol: cohere }}
  - {{ name: j, base_url: "http://j/v1" }}
routes:
  - name: chat
    upstreams: [{{ provider: a, model: model-a }}]
    cache: {{ mode: semantic, semantic: {{ route: emb, threshold: 0.9{semantic} }} }}
    {more}
  - {{ name: emb, match: {{ path: /v1/embeddings }}, upstreams: [{{ provider: e, model: embed }}] }}
  - {{ name: rank, match: {{ path: /v1/rerank }}, upstreams: [{{ provider: r, model: rank }}] }}
  - {{ name: judge, upstreams: [{{ provider: j, model: small }}] }}
clients:
  - {{ name: app, keys: [sk-app], routes: [chat] }}
  - {{ name: other, keys: [sk-other], routes: [chat] }}
"#
    )
}

/// The same, with an embedding route that callers may use too, and that shares what it brings.
fn sharing() -> String {
    let open = config("", "").replace("routes: [chat]", "routes: ['*']");
    open.replace("model: embed }] }", "model: embed }], cache: { mode: exact } }")
}

/// An embedder for which every text is the same.
fn indifferent() -> Script {
    Script::by(|_| vector(&[1.0, 0.0]))
}

fn vector(numbers: &[f32]) -> Reply {
    Reply::json(json!({
        "object": "list", "model": "embed", "data": [{ "object": "embedding", "index": 0, "embedding": numbers }],
        "usage": { "prompt_tokens": 4, "total_tokens": 4 },
    }))
}

/// A unit vector so near to `[1, 0]`.
fn near(cosine: f32) -> Reply {
    vector(&[cosine, (1.0 - cosine * cosine).sqrt()])
}

/// A stage whose upstream says what it was asked.
fn stage(semantic: &str) -> (Stage, Host, Host) {
    let stage = Stage::set(&config(semantic, ""));
    let a = stage.host("a", pleasant());
    let e = stage.host("e", indifferent());
    (stage, a, e)
}

const ASKED: &str = "How do I reset my password?";
const AGAIN: &str = "How can I reset my password?";

/// What is retrieved stands in a call beside its question.
const PASSAGES: &str = "context: { retrieval: { tag: context } }";

fn ask(question: &str) -> Ask {
    chat("chat").system("Be brief.").user(question)
}

async fn caches(stage: &Stage, ask: Ask) -> String {
    let answer = stage.ask(ask).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    cache(&answer).to_owned()
}

fn looked_up(stage: &Stage, result: &str) -> f64 {
    stage.metric(&format!(r#"mai_cache_lookups_total{{cache="semantic",result="{result}",route="chat"}}"#))
}

fn refused(stage: &Stage, guard: &str) -> f64 {
    stage.metric(&format!(r#"mai_cache_guard_refusals_total{{guard="{guard}",route="chat"}}"#))
}

#[test]
fn the_same_question_in_other_words_is_answered_by_what_was_stored() {
    story(async {
        let (stage, a, e) = stage("");
        e.play(Script::by(|request| match request.field("input").and_then(Value::as_str) {
            Some(AGAIN) => near(0.97),
            _ => vector(&[1.0, 0.0]),
        }));
        let first = stage.ask(ask(ASKED)).await;
        assert_eq!((cache(&first), first.header("x-mai-cache-similarity")), ("miss", None));
        tokio::time::sleep(Duration::from_secs(7)).await;
        let second = stage.ask(ask(AGAIN)).await;
        assert_eq!((cache(&second), second.header("x-mai-cache-similarity")), ("semantic", Some("0.9700")));
        assert_eq!((second.header("age"), second.header("x-mai-attempts")), (Some("7"), Some("0")));
        assert_eq!((&first.body, first.header("x-mai-cache-id")), (&second.body, second.header("x-mai-cache-id")));
        assert_eq!(second.header("x-mai-upstream"), Some("a/model-a"));
        assert_eq!((a.calls().len(), e.calls().len()), (1, 2));
        let line = stage.last_line().await;
        assert_eq!(
            (&line["cache"], &line["tokens_in"], &line["attempts"]),
            (&json!("semantic"), &json!(null), &json!([]))
        );
        assert_eq!(line["matched"].as_str(), first.header("x-mai-cache-id"));
        assert_eq!(line["similarity"].to_string(), "0.9700");
        assert_eq!((looked_up(&stage, "hit"), looked_up(&stage, "miss")), (1.0, 1.0));
        assert!(stage.metric(r#"mai_tokens_saved_total{client="app",route="chat"}"#) > 0.0);
        assert_eq!(
            stage.metric(r#"mai_tokens_total{client="unknown",kind="prompt",route="emb"}"#),
            8.0,
            "to no client"
        );
        assert_eq!(stage.metric(r#"mai_upstream_attempts_total{outcome="ok",route="emb",upstream="e/embed"}"#), 2.0);
    });
}

#[test]
fn what_decides_beside_the_question_must_be_the_same() {
    let image = json!({"role": "user", "content": [
        {"type": "text", "text": AGAIN}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]});
    let again = || ask(AGAIN);
    let turned = chat("chat").system("Be brief.").user("Hello").message(json!({"role": "assistant", "content": "Hi"}));
    for (what, changed) in [
        ("system prompt", chat("chat").system("Be verbose.").user(AGAIN)),
        ("tools", again().with("tools", json!([{"type": "function", "function": {"name": "f"}}]))),
        ("tool_choice", again().with("tool_choice", "none")),
        ("response_format", again().with("response_format", json!({"type": "json_object"}))),
        ("temperature", again().with("temperature", 0.1)),
        ("max_tokens", again().with("max_tokens", 400)),
        ("an earlier turn", turned.user(AGAIN)),
        ("n", again().with("n", 2)),
        ("an unknown field", again().with("a_field_of_tomorrow", 1)),
        ("kb_version", again().header("x-mai-kb-version", "2")),
        ("an image", chat("chat").system("Be brief.").message(image.clone())),
    ] {
        story(async {
            let (stage, a, _) = stage("");
            stage.ask(ask(ASKED)).await;
            let answer = stage.ask(changed.clone()).await;
            assert_eq!((answer.status, cache(&answer)), (200, "miss"), "{what}");
            assert_eq!(a.calls().len(), 2, "{what}");
            assert_eq!(caches(&stage, again()).await, "semantic", "with nothing changed");
        });
    }
}

#[test]
fn callers_do_not_lower_the_threshold() {
    story(async {
        let (stage, _, e) = stage("");
        stage.ask(ask(ASKED)).await;
        e.play(near(0.89));
        let asked = ask(AGAIN).header("x-mai-cache-similarity", "0.1").header("x-mai-cache-threshold", "0.1");
        assert_eq!(caches(&stage, asked).await, "miss");
        let refused = stage.ask(ask(AGAIN).with("mai", json!({"threshold": 0.1}))).await;
        assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (400, Some("mai.threshold")));
    });
}

#[test]
fn different_questions_with_equal_vectors_are_refused_by_guards() {
    for (one, two, guard) in [
        ("How do I enable 2FA?", "How do I disable 2FA?", "negation"),
        ("如何启用双重验证?", "如何禁用双重验证?", "action"),
        ("从北京到上海的差旅标准是什么?", "从上海到北京的差旅标准是什么?", "direction"),
        ("可以报销打车费吗?", "不可以报销打车费吗?", "negation"),
        ("What changed in version 2.1?", "What changed in version 2.2?", "version"),
    ] {
        story(async {
            let (stage, a, _) = stage("");
            stage.ask(ask(one)).await;
            assert_eq!(caches(&stage, ask(two)).await, "miss", "{two}");
            assert_eq!(a.calls().len(), 2);
            assert_eq!(looked_up(&stage, "refused"), 1.0);
            let metrics = stage.metrics();
            let line = metrics.lines().find(|line| line.starts_with("mai_cache_guard_refusals_total{"));
            assert!(line.is_some_and(|line| line.contains(guard)), "{two}: {line:?}");
        });
    }
}

#[test]
fn a_match_stands_above_every_different_question_by_the_margin() {
    for (cosine, margin, found) in [
        (0.97, "", "semantic"),
        (0.99, "", "miss"),
        (0.99, ", margin: 0", "semantic"),
        (0.97, ", margin: 0.05", "miss"),
    ] {
        story(async {
            let (stage, _, e) = stage(margin);
            e.play(Script::by(move |request| match request.field("input").and_then(Value::as_str) {
                Some("How do I change my username?") => near(cosine),
                _ => vector(&[1.0, 0.0]),
            }));
            stage.ask(ask(ASKED)).await;
            stage.ask(ask("How do I change my username?")).await;
            assert_eq!(caches(&stage, ask(AGAIN)).await, found, "{cosine}{margin}");
            assert_eq!(refused(&stage, "margin"), f64::from(u8::from(found == "miss")));
        });
    }
}

#[test]
fn the_very_question_is_known_without_its_vector() {
    story(async {
        let stage = Stage::set(&config("", PASSAGES));
        let (a, e) = (stage.host("a", pleasant()), stage.host("e", indifferent()));
        let with = |passage: &str, question: &str| ask(&format!("<context>{passage}</context>{question}"));
        stage.ask(with("one", ASKED)).await;
        e.play(Reply::status(500));
        let answer = stage.ask(with("two", ASKED)).await;
        assert_eq!((cache(&answer), answer.header("x-mai-cache-similarity")), ("semantic", Some("1.0000")));
        assert_eq!((a.calls().len(), e.calls().len()), (1, 1));
    });
}

#[test]
fn callers_and_patterns_say_which_the_question_is() {
    story(async {
        let stage = Stage::set(&config(", question: 'Question: (.*)'", ""));
        let a = stage.host("a", pleasant());
        stage.host("e", indifferent());
        let prompt = |passage: &str, question: &str| ask(&format!("Read this: {passage}\n\nQuestion: {question}"));
        stage.ask(prompt("one", ASKED)).await;
        assert_eq!(caches(&stage, prompt("two", AGAIN)).await, "semantic");
        let told = prompt("three", AGAIN).with("mai", json!({"query": "How can I reset my password"}));
        assert_eq!(caches(&stage, told).await, "semantic");
        let header = prompt("four", AGAIN).header("x-mai-query", "How%20can%20I%20reset%20my%20password");
        assert_eq!(caches(&stage, header).await, "semantic");
        let other = prompt("five", AGAIN).header("x-mai-query", "How%20do%20I%20change%20my%20username%3F");
        assert_eq!(caches(&stage, other).await, "miss");
        let unread = stage.ask(prompt("six", AGAIN).header("x-mai-query", "%ff")).await;
        assert_eq!((unread.status, unread.json()["error"]["param"].as_str()), (400, Some("x-mai-query")));
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn a_match_serves_streaming_and_other_callers_alike() {
    story(async {
        let (stage, a, _) = stage("");
        let streamed = stage.ask(ask(ASKED).stream()).await;
        let whole = stage.ask(ask(AGAIN)).await;
        assert_eq!((cache(&whole), whole.said()), ("semantic", streamed.said()));
        let again = stage.ask(ask("How could I reset my password?").stream().usage()).await;
        assert_eq!((cache(&again), again.said()), ("semantic", streamed.said()));
        assert!(again.events().is_done());
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn a_client_matches_its_own_questions_alone_unless_it_shares() {
    for (scope, seen) in [("client", "miss"), ("route", "semantic")] {
        story(async {
            let shared = config("", "").replace("mode: semantic,", &format!("mode: semantic, scope: {scope},"));
            let stage = Stage::set(&shared);
            stage.host("a", pleasant());
            stage.host("e", indifferent());
            stage.ask(ask(ASKED)).await;
            let other = stage.caller().ask(&ask(AGAIN).key("sk-other")).await;
            assert_eq!(cache(&other), seen, "{scope}");
        });
    }
}

#[test]
fn a_shadow_serves_nothing_and_says_what_it_would_have() {
    story(async {
        let (stage, a, _) = stage(", shadow: true");
        let first = stage.ask(ask(ASKED)).await;
        let second = stage.ask(ask(AGAIN)).await;
        assert_eq!((cache(&second), second.header("x-mai-cache-similarity")), ("miss", None));
        assert_eq!(a.calls().len(), 2);
        assert_eq!((looked_up(&stage, "shadow"), looked_up(&stage, "hit")), (1.0, 0.0));
        let line = stage.last_line().await;
        assert_eq!((line["matched"].as_str(), &line["cache"]), (first.header("x-mai-cache-id"), &json!("miss")));
        assert!(!stage.log_text().contains("password"), "no text of anybody's");
    });
}

#[test]
fn another_model_may_be_asked_whether_a_match_is_one() {
    for (route, host, reply, found) in [
        ("rank", "r", score(0.95), "semantic"),
        ("rank", "r", score(0.5), "miss"),
        ("rank", "r", Reply::status(500), "miss"),
        ("judge", "j", Reply::say(["Yes", "."]), "semantic"),
        ("judge", "j", Reply::say(["no"]), "miss"),
        ("judge", "j", Reply::say(["yes and no"]), "miss"),
        ("judge", "j", Reply::hang(), "miss"),
    ] {
        story(async {
            let (stage, _, _) = stage(&format!(", verify: {{ route: {route} }}"));
            let verifier = stage.host(host, reply.clone());
            stage.ask(ask(ASKED)).await;
            assert!(verifier.calls().is_empty());
            assert_eq!(caches(&stage, ask(AGAIN)).await, found, "{route} {reply:?}");
            assert!(!verifier.calls().is_empty());
        });
    }
}

#[test]
fn a_sick_embedder_costs_no_more_than_the_timeout_and_nothing_for_long() {
    for sick in [Reply::hang(), Reply::status(500), Reply::json(json!({"data": []}))] {
        story(async {
            let (stage, a, e) = stage("");
            e.play(sick.clone());
            let began = Clock.now();
            for round in 0..10 {
                let answer = stage.ask(ask(&format!("How do I reset password {round}?"))).await;
                assert_eq!((answer.status, cache(&answer)), (200, "miss"));
            }
            let took = Clock.now() - began;
            assert!(took < Duration::from_millis(3 * 300 + 100), "{took:?} {sick:?}");
            assert_eq!((a.calls().len(), looked_up(&stage, "error")), (10, 10.0));
            e.play(indifferent());
            tokio::time::sleep(Duration::from_secs(61)).await;
            assert_eq!(caches(&stage, ask(ASKED)).await, "miss");
            assert_eq!(caches(&stage, ask(AGAIN)).await, "semantic", "well again");
        });
    }
}

#[test]
fn a_stall_that_many_wait_through_is_one_stall() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(Reply::hang());
        let mut callers = Vec::new();
        for round in 0..7 {
            let mut caller = stage.caller();
            caller.begin(&ask(&format!("How do I reset password {round}?")).key("sk-app")).await;
            callers.push(caller);
        }
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        e.play(indifferent());
        tokio::time::sleep(Duration::from_secs(5)).await;
        stage.ask(ask(ASKED)).await;
        assert_eq!(caches(&stage, ask(AGAIN)).await, "semantic", "well again");
    });
}

#[test]
fn a_look_up_that_nobody_waits_for_to_its_end_is_booked_all_the_same() {
    story(async {
        let (stage, _, e) = stage("");
        let tries = |outcome: &str| {
            let labels = format!(r#"outcome="{outcome}",route="emb",upstream="e/embed""#);
            stage.metric(&format!("mai_upstream_attempts_total{{{labels}}}"))
        };
        e.play(Reply::hang());
        stage.ask(ask(ASKED)).await;
        assert_eq!(tries("timeout") + tries("cancelled"), 1.0, "it took too long");
        let mut caller = stage.caller();
        caller.begin(&ask(AGAIN).key("sk-app")).await;
        e.has_calls(2).await;
        drop(caller);
        stage.comes_to_rest().await;
        assert_eq!(tries("timeout") + tries("cancelled"), 2.0, "its caller left");
    });
}

#[test]
fn a_judge_who_says_nothing_has_not_said_yes() {
    for content in [Value::Null, json!("")] {
        story(async {
            let (stage, _, _) = stage(", verify: { route: judge }");
            let message = json!({"role": "assistant", "content": content, "reasoning_content": "Let me see"});
            let choices = json!([{"index": 0, "finish_reason": "length", "message": message}]);
            stage.host("j", Reply::json(json!({"model": "small", "choices": choices})));
            stage.ask(ask(ASKED)).await;
            for round in 0..5 {
                assert_eq!(caches(&stage, ask(AGAIN).header("x-mai-kb-version", round.to_string())).await, "miss");
                assert_eq!(caches(&stage, ask(ASKED).header("x-mai-kb-version", round.to_string())).await, "miss");
            }
            assert_eq!((looked_up(&stage, "error"), refused(&stage, "verify")), (0.0, 5.0), "that is no fault");
        });
    }
}

#[test]
fn another_model_may_overrule_guards_that_compare_words_and_no_others() {
    const FREE: &str = "How do I get a new login secret?";
    const NOT: &str = "How do I not reset my password?";
    for (overrules, said, asked, found, withheld) in [
        ("", "yes", FREE, "miss", Some("entity")),
        (", overrules: [action, entity, scope]", "yes", FREE, "semantic", None),
        (", overrules: [action, entity, scope]", "no", FREE, "miss", Some("verify")),
        (", overrules: [scope]", "yes", FREE, "miss", Some("entity")),
        (", overrules: [action, entity, scope]", "yes", NOT, "miss", Some("negation")),
    ] {
        story(async {
            let (stage, _, _) = stage(&format!(", verify: {{ route: judge{overrules} }}"));
            let verifier = stage.host("j", Reply::say([said]));
            stage.ask(ask(ASKED)).await;
            assert_eq!(caches(&stage, ask(asked)).await, found, "{overrules} {said} {asked}");
            for guard in ["action", "entity", "negation", "scope", "verify"] {
                let expected = if withheld == Some(guard) { 1.0 } else { 0.0 };
                assert_eq!(refused(&stage, guard), expected, "{guard}: {overrules} {said} {asked}");
            }
            let overruled = r#"mai_cache_guards_overruled_total{guard="entity",route="chat"}"#;
            assert_eq!(stage.metric(overruled), f64::from(u8::from(found == "semantic")));
            let is_asked = found == "semantic" || withheld == Some("verify");
            assert_eq!(verifier.calls().len(), usize::from(is_asked), "{overrules} {said} {asked}");
        });
    }
}

#[test]
fn an_answer_that_is_removed_while_the_verifier_thinks_is_not_served() {
    story(async {
        let (stage, verifier) = verified(score(1.0).after(Duration::from_millis(200))).await;
        let mut caller = begun(&stage, vec![ask(AGAIN)]).await.remove(0);
        verifier.has_calls(1).await;
        assert!(stage.live.purge(&Which { route: Some("chat".into()), ..Which::default() }).await.is_ok());
        assert_eq!(cache(&caller.answer().await.unwrap()), "miss");
    });
}

#[test]
fn an_answer_whose_kb_version_is_raised_while_the_verifier_thinks_is_not_served() {
    for (told, found) in [(None, "miss"), (Some("1"), "semantic")] {
        story(async {
            let (stage, verifier) = verified(score(1.0).after(Duration::from_millis(200))).await;
            let asked = |question: &str| match told {
                Some(version) => ask(question).header("x-mai-kb-version", version),
                None => ask(question),
            };
            stage.ask(asked(ASKED)).await;
            let mut caller = begun(&stage, vec![asked(AGAIN)]).await.remove(0);
            verifier.has_calls(1).await;
            stage.live.kb_versions.set("chat".into(), Some("2".into())).await.unwrap();
            assert_eq!(cache(&caller.answer().await.unwrap()), found, "told {told:?}");
            assert_eq!(refused(&stage, "verify"), 0.0, "what was withheld was not the verifier's to withhold");
        });
    }
}

#[test]
fn an_answer_whose_kb_version_is_raised_while_its_question_is_embedded_is_not_served() {
    story(async {
        let (stage, _, e) = stage("");
        stage.ask(ask(ASKED)).await;
        e.play(vector(&[1.0, 0.0]).after(Duration::from_millis(200)));
        let mut caller = begun(&stage, vec![ask(AGAIN)]).await.remove(0);
        e.has_calls(2).await;
        stage.live.kb_versions.set("chat".into(), Some("2".into())).await.unwrap();
        assert_eq!(cache(&caller.answer().await.unwrap()), "miss");
    });
}

#[test]
fn a_caller_in_a_hurry_waits_no_longer_than_it_may() {
    story(async {
        let (stage, _, e) = stage("");
        stage.ask(ask(ASKED)).await;
        e.play(Reply::hang());
        let began = Clock.now();
        let answer = stage.ask(ask(AGAIN).header("x-mai-timeout-ms", "100")).await;
        assert_eq!(answer.status, 504);
        assert!(Clock.now() - began < Duration::from_millis(150));
        assert_eq!(looked_up(&stage, "error"), 0.0, "that says nothing about the embedder");
    });
}

#[test]
fn answers_that_are_gone_are_matched_no_more() {
    story(async {
        let ttl = config("", "").replace("mode: semantic,", "mode: semantic, ttl: 60s,");
        let stage = Stage::set(&ttl);
        let a = stage.host("a", pleasant());
        stage.host("e", indifferent());
        let id = stage.ask(ask(ASKED)).await.header("x-mai-cache-id").unwrap().to_owned();
        assert_eq!(stage.live.answers.remove(&id.parse().unwrap()).await, Ok(true));
        assert_eq!(caches(&stage, ask(AGAIN)).await, "miss", "removed");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(caches(&stage, ask("How could I reset my password?")).await, "miss", "expired");
        stage.live.kb_versions.set("chat".into(), Some("2".into())).await.unwrap();
        assert_eq!(caches(&stage, ask("How should I reset my password?")).await, "miss", "another knowledge base");
        assert_eq!(caches(&stage, ask("How could I reset my password?")).await, "semantic");
        assert_eq!(a.calls().len(), 4);
    });
}

#[test]
fn a_shorter_time_holds_for_answers_that_are_found_by_their_meaning() {
    story(async {
        let lasting = |ttl: &str| config("", "").replace("mode: semantic,", &format!("mode: semantic, ttl: {ttl},"));
        let stage = Stage::set(&lasting("1h"));
        stage.host("a", pleasant());
        stage.host("e", indifferent());
        assert_eq!(caches(&stage, ask(ASKED)).await, "miss");
        tokio::time::sleep(Duration::from_secs(61)).await;
        stage.reload(&lasting("5m"));
        assert_eq!(caches(&stage, ask(AGAIN)).await, "semantic");
        stage.reload(&lasting("60s"));
        assert_eq!(caches(&stage, ask("How could I reset my password?")).await, "miss");
        assert_eq!(caches(&stage, ask(AGAIN)).await, "semantic", "by what was answered just now");
    });
}

#[test]
fn what_is_too_old_for_a_while_is_found_again_where_the_time_is_longer_again() {
    story(async {
        let lasting = |ttl: &str| config("", "").replace("mode: semantic,", &format!("mode: semantic, ttl: {ttl},"));
        let stage = Stage::set(&lasting("1h"));
        let a = stage.host("a", pleasant());
        stage.host("e", indifferent());
        stage.ask(ask(ASKED)).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        stage.reload(&lasting("60s"));
        for question in [ASKED, AGAIN] {
            assert_eq!(stage.ask(lookup(question)).await.status, 404, "{question}");
        }
        stage.reload(&lasting("1h"));
        for (question, how) in [(AGAIN, "semantic"), (ASKED, "hit")] {
            let found = stage.ask(lookup(question)).await;
            assert_eq!((found.status, cache(&found)), (200, how), "{question}");
        }
        assert_eq!(a.calls().len(), 1);
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(stage.ask(lookup(AGAIN)).await.status, 404);
        assert_eq!(stage.live.questions.count("chat"), Some(0), "what is over is forgotten");
    });
}

#[test]
fn while_a_sick_verifier_rests_nothing_is_served_without_it_and_what_is_asked_stays_known() {
    story(async {
        let (stage, a, e) = stage(", verify: { route: judge }");
        const OTHER: &str = "How do I change my username?";
        e.play(Script::by(|request| match request.field("input").and_then(Value::as_str) {
            Some(text) if text.contains("username") => vector(&[0.0, 1.0]),
            _ => vector(&[1.0, 0.0]),
        }));
        let judge = stage.host("j", Reply::status(400));
        stage.ask(ask(ASKED)).await;
        for word in ["can", "could", "should"] {
            assert_eq!(caches(&stage, ask(&format!("How {word} I reset my password?"))).await, "miss");
        }
        assert_eq!((judge.calls().len(), looked_up(&stage, "error")), (3, 3.0));
        judge.play(Reply::say(["yes"]));
        assert_eq!(caches(&stage, ask("How would I reset my password?")).await, "miss");
        assert_eq!((judge.calls().len(), looked_up(&stage, "error")), (3, 4.0), "it is left alone");
        // What is like nothing needs no verdict.
        assert_eq!(caches(&stage, ask(OTHER)).await, "miss");
        assert_eq!((looked_up(&stage, "miss"), looked_up(&stage, "error")), (2.0, 4.0));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(caches(&stage, ask("How can I change my username?")).await, "semantic");
        assert_eq!((a.calls().len(), judge.calls().len()), (6, 4));
    });
}

#[test]
fn a_verifier_is_not_blamed_for_the_time_that_an_embedder_has_taken() {
    story(async {
        let (stage, _, e) = stage(", verify: { route: judge }, timeout: 300ms");
        let judge = stage.host("j", Reply::say(["yes"]).after(Duration::from_millis(120)));
        stage.ask(ask(ASKED)).await;
        let slow = || Script::by(|_| vector(&[1.0, 0.0]).after(Duration::from_millis(200)));
        let again = |word: &str| ask(&format!("How {word} I reset my password?"));
        e.play(slow());
        for word in ["can", "could"] {
            assert_eq!(caches(&stage, again(word)).await, "miss");
        }
        e.play(indifferent());
        judge.play(Reply::hang());
        assert_eq!(caches(&stage, again("should")).await, "miss");
        judge.play(Reply::say(["yes"]));
        assert_eq!(caches(&stage, again("would")).await, "semantic", "it has failed once");
        // Where that goes on, look-ups rest.
        e.play(slow());
        judge.play(Reply::hang());
        for word in ["might", "may", "must"] {
            assert_eq!(caches(&stage, again(word)).await, "miss");
        }
        let calls = e.calls().len();
        assert_eq!(caches(&stage, ask("How shall I reset my password?")).await, "miss");
        assert_eq!((e.calls().len(), judge.calls().len()), (calls, 7));
    });
}

#[test]
fn questions_that_are_purged_are_matched_no_more() {
    for which in [
        Which::default(),
        Which { kind: Some(Kind::Question), ..Which::default() },
        Which { route: Some("chat".into()), client: Some("app".into()), kind: Some(Kind::Question) },
    ] {
        story(async {
            let shared = config("", "").replace("mode: semantic,", "mode: semantic, scope: client,");
            let stage = Stage::set(&shared);
            stage.host("a", pleasant());
            stage.host("e", indifferent());
            let others = |question: &str| ask(question).key("sk-other");
            stage.ask(ask(ASKED)).await;
            stage.caller().ask(&others(ASKED)).await;
            assert_eq!(stage.live.questions.count("chat"), Some(2));
            assert!(stage.live.purge(&which).await.is_ok());
            let left = u8::from(which.client.is_some());
            assert_eq!(stage.live.questions.count("chat"), Some(left.into()), "{which:?}");
            assert_eq!(caches(&stage, ask(AGAIN)).await, "miss", "{which:?}");
            let other = stage.caller().ask(&others(AGAIN)).await;
            assert_eq!(cache(&other), if left == 1 { "semantic" } else { "miss" }, "{which:?}");
            let very = if which.kind.is_none() { "semantic" } else { "hit" };
            assert_eq!(caches(&stage, ask(ASKED)).await, very, "{which:?}");
        });
    }
}

#[test]
fn what_was_asked_before_a_purge_is_not_stored_after_it() {
    story(async {
        let (stage, a, _) = stage("");
        a.play(Reply::say(["old"]).after(Duration::from_secs(1)));
        let mut caller = stage.caller();
        caller.begin(&ask(ASKED).key("sk-app")).await;
        a.has_calls(1).await;
        let of_other = Which { route: Some("emb".into()), ..Which::default() };
        assert!(stage.live.purge(&Which { client: Some("app".into()), ..of_other }).await.is_ok());
        assert!(stage.live.purge(&Which { route: Some("chat".into()), ..Which::default() }).await.is_ok());
        assert_eq!(caller.answer().await.unwrap().said(), "old");
        a.play(Reply::say(["new"]));
        assert_eq!(stage.live.questions.count("chat"), Some(0));
        assert_eq!(caches(&stage, ask(ASKED)).await, "miss");
        assert_eq!(caches(&stage, ask(AGAIN)).await, "semantic");
    });
}

#[test]
fn questions_whose_vectors_cannot_be_compared_are_counted_as_lost() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(vector(&[0.0, 0.0]));
        stage.ask(ask(ASKED)).await;
        stage.ask(ask(AGAIN)).await;
        assert_eq!((stage.live.questions.count("chat"), stage.live.questions.lost()), (Some(0), 2));
        assert_eq!(stage.metric("mai_cache_questions_lost_total"), 2.0);
    });
}

#[test]
fn another_embedder_never_meets_the_old_ones_vectors() {
    story(async {
        let (stage, _, _) = stage("");
        stage.ask(ask(ASKED)).await;
        stage.reload(&config("", "").replace("model: embed", "model: embed-2"));
        assert_eq!(caches(&stage, ask(AGAIN)).await, "miss");
        assert_eq!(caches(&stage, ask("How could I reset my password?")).await, "semantic");
    });
}

#[test]
fn answers_that_call_tools_are_for_the_very_call_alone() {
    story(async {
        let (stage, a, _) = stage("");
        a.play(Reply::json(
            json!({"model": "model-a", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": null,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            }}]}),
        ));
        stage.ask(ask(ASKED)).await;
        assert_eq!(caches(&stage, ask(ASKED)).await, "hit");
        assert_eq!(caches(&stage, ask(AGAIN)).await, "miss");
    });
}

#[test]
fn an_answer_that_calls_tools_ends_what_its_question_was_answered_before() {
    story(async {
        let ttl = config("", "").replace("mode: semantic,", "mode: semantic, ttl: 60s,");
        let stage = Stage::set(&ttl);
        let a = stage.host("a", pleasant());
        stage.host("e", indifferent());
        stage.ask(ask(ASKED)).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        a.play(Reply::json(
            json!({"model": "model-a", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": null,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            }}]}),
        ));
        assert_eq!(caches(&stage, ask(ASKED)).await, "miss");
        assert_eq!(caches(&stage, ask(AGAIN)).await, "miss", "the same key, and yet not for others");
    });
}

#[test]
fn who_asks_anew_replaces_what_others_are_given() {
    story(async {
        let (stage, a, _) = stage("");
        let found = |passage: &str| {
            let prompt = format!("{passage} {ASKED}");
            chat("chat").system("Be brief.").user(&prompt).with("mai", json!({ "query": ASKED }))
        };
        stage.ask(found("The old way.")).await;
        assert_eq!(caches(&stage, ask(ASKED).header("cache-control", "no-cache")).await, "bypass");
        let anew = stage.ask(found("The new way.").header("cache-control", "no-cache")).await;
        assert_eq!(cache(&anew), "bypass");
        let calls = a.calls().len();
        let other = stage.ask(found("Another way.")).await;
        assert_eq!(cache(&other), "semantic");
        assert_eq!(other.header("x-mai-cache-id"), anew.header("x-mai-cache-id"), "the newest is found");
        assert_eq!(a.calls().len(), calls);
    });
}

#[test]
fn a_question_that_comes_with_other_passages_each_time_stays_known_in_a_shadow() {
    story(async {
        let (stage, a, e) = stage(", shadow: true");
        for (round, passage) in ["One way.", "Another way.", "A third way.", "A last way."].into_iter().enumerate() {
            let asked = chat("chat").user(&format!("{passage} {ASKED}")).with("mai", json!({ "query": ASKED }));
            assert_eq!(caches(&stage, asked).await, "miss");
            assert_eq!(looked_up(&stage, "shadow"), round as f64, "{passage}");
        }
        assert_eq!((a.calls().len(), e.calls().len()), (4, 1), "its words are known");
    });
}

#[test]
fn a_question_that_is_put_in_another_way_never_meets_the_old_vectors() {
    story(async {
        let (stage, _, _) = stage("");
        stage.ask(ask(ASKED)).await;
        let forced =
            config("", "").replace("model: embed }] }", "model: embed }], params: { force: { input_type: query } } }");
        assert!(forced.contains("input_type"));
        stage.reload(&forced);
        assert_eq!(caches(&stage, ask(AGAIN)).await, "miss");
        assert_eq!(caches(&stage, ask("How could I reset my password?")).await, "semantic");
    });
}

#[test]
fn calls_that_are_not_to_be_matched_are_not() {
    story(async {
        let (stage, _, e) = stage("");
        stage.ask(ask(ASKED)).await;
        let calls = e.calls().len();
        assert_eq!(caches(&stage, ask(AGAIN).with("temperature", 0.7)).await, "miss");
        assert_eq!(caches(&stage, ask(AGAIN).header("cache-control", "no-store")).await, "bypass");
        assert_eq!(caches(&stage, ask(AGAIN).header("cache-control", "no-cache")).await, "bypass");
        assert_eq!(e.calls().len(), calls, "nobody is asked for a vector");
    });
    story(async {
        let (stage, _, _) = stage(", multi_turn: exact, max_temperature: 1");
        let turned = |question: &str| {
            let before = chat("chat").user("Hello").message(json!({"role": "assistant", "content": "Hi"}));
            before.user(question).with("temperature", 0.7)
        };
        stage.ask(turned(ASKED)).await;
        assert_eq!(caches(&stage, turned(AGAIN)).await, "semantic");
    });
}

#[test]
fn a_match_is_served_to_a_client_whose_quota_is_spent() {
    story(async {
        let spent = config("", "").replace("keys: [sk-app],", "keys: [sk-app], quota: { tokens: 200, per: day },");
        let stage = Stage::set(&spent);
        stage.host(
            "a",
            Reply::say(["from a"]).usage(json!({"prompt_tokens": 150, "completion_tokens": 50, "total_tokens": 200})),
        );
        stage.host("e", indifferent());
        assert_eq!(caches(&stage, ask(ASKED).with("max_tokens", 20)).await, "miss");
        assert_eq!(caches(&stage, ask(AGAIN).with("max_tokens", 20)).await, "semantic");
        let refused = stage.ask(ask("How do I change my username?")).await;
        assert_eq!(refused.code().as_deref(), Some("insufficient_quota"));
    });
}

/// A look-up before a call.
fn lookup(query: &str) -> Ask {
    let body = json!({"model": "chat", "query": query, "messages": [{"role": "system", "content": "Be brief."}]});
    chat("chat").path("/v1/cache/lookup").body(body.to_string())
}

#[test]
fn an_application_asks_before_it_retrieves_and_finds_what_the_call_has_stored() {
    story(async {
        let stage = Stage::set(&config("", "limit: { qps: 100 }"));
        let (a, e) = (stage.host("a", pleasant()), stage.host("e", indifferent()));
        let before = stage.ask(lookup(ASKED)).await;
        assert_eq!((before.status, before.code().as_deref()), (404, Some("cache_miss")));
        assert_eq!((cache(&before), before.header("x-should-retry")), ("miss", Some("false")));
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], &line["code"]), (&json!("ok"), &json!("cache_miss")));
        // Then it retrieves, ranks, and makes the call, whose question it names.
        let prompt = format!("Answer from this: lorem ipsum\n\n{ASKED}");
        let call = stage.ask(ask(&prompt).with("mai", json!({"query": ASKED}))).await;
        assert_eq!((call.status, cache(&call)), (200, "miss"));
        assert_eq!(e.calls().len(), 1, "its vector was there already");
        let again = stage.ask(lookup(AGAIN)).await;
        assert_eq!((again.status, cache(&again)), (200, "semantic"));
        assert_eq!((&again.body, again.header("x-mai-cache-id")), (&call.body, call.header("x-mai-cache-id")));
        assert_eq!(again.header("x-ratelimit-limit-requests"), Some("100"));
        let very = stage.ask(lookup(ASKED)).await;
        assert_eq!((very.status, very.header("x-mai-cache-similarity")), (200, Some("1.0000")));
        let other = stage.ask(lookup("How do I change my username?")).await;
        assert_eq!(other.status, 404);
        assert_eq!(a.calls().len(), 1, "no look-up makes a call");
        let repeats = stage.metric(r#"mai_repeated_requests_total{client="app"}"#);
        assert_eq!(repeats, 0.0, "a look-up is no repeat of the call");
    });
}

#[test]
fn the_texts_of_look_ups_are_kept_as_those_of_calls_are() {
    story(async {
        let kept = format!("records: {{ content: true, mask: [password] }}\n{}", config(", shadow: true", ""));
        let stage = Stage::set(&kept);
        stage.host("a", Reply::say(["In the portal."]));
        stage.host("e", indifferent());
        stage.ask(ask(ASKED)).await;
        for (id, question) in [("very", ASKED), ("again", AGAIN), ("other", "How do I change my username?")] {
            stage.ask(lookup(question).header("x-request-id", id)).await;
        }
        let very = texts(&stage, "very").await.unwrap();
        assert_eq!(&*very.prompt, "system: Be brief.\nuser: How do I reset my [masked]?");
        assert_eq!((&*very.answer, very.near), ("In the portal.", None));
        let again = texts(&stage, "again").await.unwrap();
        let near = again.near.unwrap();
        assert_eq!((&*near.question, &*near.known), ("How can I reset my [masked]?", "How do I reset my [masked]?"));
        assert_eq!((&*near.answer, near.withheld), ("In the portal.", None));
        let other = texts(&stage, "other").await.unwrap().near.unwrap();
        assert!(other.withheld.is_some(), "{other:?}");
    });
}

#[test]
fn a_replay_of_an_answer_found_by_its_meaning_names_the_entry_that_it_came_from() {
    for said in ["In the portal.".to_owned(), "In the portal. ".repeat(50)] {
        story(async {
            let stage = Stage::set(&config("", ""));
            let a = stage.host("a", Reply::say([&*said]));
            stage.host("e", indifferent());
            let first = stage.ask(ask(ASKED)).await;
            let keyed = || ask(AGAIN).header("idempotency-key", "k-1");
            let [found, replayed] = [stage.ask(keyed()).await, stage.ask(keyed()).await];
            assert_eq!((cache(&found), cache(&replayed)), ("semantic", "replay"));
            let id = first.header("x-mai-cache-id");
            assert!(id.is_some());
            assert_eq!((found.header("x-mai-cache-id"), replayed.header("x-mai-cache-id")), (id, id));
            assert_eq!((&replayed.body, a.calls().len()), (&first.body, 1));
        });
    }
}

#[test]
fn a_replay_names_the_entry_of_its_answer_whatever_has_been_set_since() {
    story(async {
        let stage = Stage::set(&config("", ""));
        stage.host("a", pleasant());
        stage.host("e", indifferent());
        let keyed = || ask(ASKED).header("idempotency-key", "k-1");
        let first = stage.ask(keyed()).await;
        stage.reload(&config("", "").replace("mode: semantic,", "mode: semantic, kb_version: '2',"));
        let replayed = stage.ask(keyed()).await;
        assert_eq!(cache(&replayed), "replay");
        assert_eq!(replayed.header("x-mai-cache-id"), first.header("x-mai-cache-id"));
    });
}

#[test]
fn an_application_that_embeds_its_question_has_made_its_vector_known() {
    story(async {
        let open = config("", "").replace("routes: [chat]", "routes: ['*']");
        let stage = Stage::set(&open.replace("model: embed }] }", "model: embed }], cache: { mode: exact } }"));
        stage.host("a", pleasant());
        let e = stage.host("e", indifferent());
        stage.ask(embeddings("emb", ASKED)).await;
        assert_eq!(caches(&stage, ask(ASKED)).await, "miss");
        assert_eq!(e.calls().len(), 1);
        assert_eq!(caches(&stage, ask(AGAIN)).await, "semantic");
        let found = stage.ask(embeddings("emb", json!([AGAIN]))).await;
        assert_eq!((cache(&found), e.calls().len()), ("hit", 2));
    });
}

#[test]
fn a_look_up_streams_and_finds_the_very_call_too() {
    story(async {
        let (stage, _, _) = stage("");
        let call = stage.ask(ask(ASKED)).await;
        let body = json!({"model": "chat", "query": ASKED, "stream": true, "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": ASKED},
        ]});
        let found = stage.ask(chat("chat").path("/cache/lookup/").body(body.to_string())).await;
        assert_eq!((cache(&found), found.said()), ("hit", call.said()));
        assert!(found.events().is_done());
    });
}

#[test]
fn look_ups_are_refused_as_calls_are() {
    story(async {
        let (stage, _, e) = stage("");
        let refused = async |ask: Ask| {
            let answer = stage.ask(ask).await;
            (answer.status, answer.code().unwrap_or_default())
        };
        let body = |body: Value| chat("chat").path("/v1/cache/lookup").body(body.to_string());
        assert_eq!(refused(body(json!({"model": "chat"}))).await, (400, "invalid_request".to_owned()));
        assert_eq!(refused(body(json!({"model": "none", "query": "Why?"}))).await, (404, "model_not_found".to_owned()));
        assert_eq!(
            refused(body(json!({"model": "judge", "query": "Why?"}))).await,
            (403, "route_not_allowed".to_owned())
        );
        assert_eq!(refused(lookup(ASKED).method("GET")).await.0, 405);
        let nobody = stage.caller().ask(&lookup(ASKED).key("sk-nobody")).await;
        assert_eq!(nobody.status, 401);
        assert!(e.calls().is_empty());
    });
    story(async {
        let plain = config("", "").replace("cache: { mode: semantic", "cache: { mode: exact");
        let stage = Stage::set(&plain);
        stage.host("a", pleasant());
        stage.ask(ask(ASKED)).await;
        let missed = stage.ask(lookup(AGAIN)).await;
        assert_eq!(missed.status, 404, "without matching by meaning");
        assert!(!missed.text().contains("has no cache"), "{}", missed.text());
    });
    story(async {
        let stage = Stage::set(&config("", "").replace("cache: { mode: semantic", "cache: { mode: off"));
        for ask in [lookup(ASKED), lookup(ASKED).header("idempotency-key", "k-1")] {
            let missed = stage.ask(ask).await;
            assert_eq!((missed.status, missed.code().as_deref()), (404, Some("cache_miss")));
            assert!(missed.text().contains("route `chat` has no cache"), "{}", missed.text());
        }
    });
}

/// Calls that are under way at once, each with a connection of its own.
async fn begun(stage: &Stage, asks: impl IntoIterator<Item = Ask>) -> Vec<Caller<Stream>> {
    let mut callers = Vec::new();
    for ask in asks {
        let mut caller = stage.caller();
        caller.begin(&ask.key("sk-app")).await;
        callers.push(caller);
    }
    callers
}

/// The same question in calls that are no repeats of each other.
fn of_one_question(count: u64) -> impl Iterator<Item = Ask> {
    (0..count).map(|number| ask(ASKED).with("max_tokens", number / 2 + 100))
}

#[test]
fn callers_who_ask_one_new_question_at_once_have_it_embedded_once() {
    story(async {
        let (stage, a, e) = stage("");
        e.play(vector(&[1.0, 0.0]).after(Duration::from_millis(100)));
        for mut caller in begun(&stage, of_one_question(8)).await {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!((e.calls().len(), a.calls().len()), (1, 4), "every second call repeats another");
        assert_eq!(stage.metric(r#"mai_upstream_attempts_total{outcome="ok",route="emb",upstream="e/embed"}"#), 1.0);
        assert_eq!(
            caches(&stage, ask(AGAIN).with("max_tokens", 103)).await,
            "semantic",
            "each is kept with the vector"
        );
        assert_eq!(stage.live.input_flights.count(), 0);
    });
}

#[test]
fn who_asked_first_and_leaves_takes_nobodys_vector_along() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(vector(&[1.0, 0.0]).after(Duration::from_millis(100)));
        let mut callers = begun(&stage, of_one_question(5)).await;
        e.has_calls(1).await;
        drop(callers.remove(0));
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(e.calls().len(), 1);
        assert_eq!((looked_up(&stage, "error"), stage.live.input_flights.count()), (0.0, 0));
    });
}

#[test]
fn a_question_that_nobody_waits_for_any_more_is_embedded_no_further() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(Reply::hang());
        let callers = begun(&stage, of_one_question(3)).await;
        e.has_calls(1).await;
        drop(callers);
        stage.comes_to_rest().await;
        let cancelled = r#"mai_upstream_attempts_total{outcome="cancelled",route="emb",upstream="e/embed"}"#;
        assert_eq!((stage.metric(cancelled), stage.live.input_flights.count()), (1.0, 0));
    });
}

#[test]
fn an_application_that_embeds_its_question_while_it_asks_shares_that_too() {
    story(async {
        let stage = Stage::set(&sharing());
        stage.host("a", pleasant());
        let e = stage.host("e", vector(&[1.0, 0.0]).after(Duration::from_millis(100)));
        let mut callers = begun(&stage, [embeddings("emb", ASKED), ask(ASKED)]).await;
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(e.calls().len(), 1);
    });
}

#[test]
fn a_failure_that_many_have_shared_is_one_failure_of_the_embedder() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(Reply::status(400).after(Duration::from_millis(50)));
        for mut caller in begun(&stage, of_one_question(8)).await {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(e.calls().len(), 1);
        e.play(indifferent());
        stage.ask(ask(ASKED)).await;
        assert_eq!(e.calls().len(), 2, "nobody rests for it");
    });
}

/// A stage with a stored question and a verifier, whose word takes as long as that says.
async fn verified(reply: Reply) -> (Stage, Host) {
    let (stage, _, _) = stage(", verify: { route: rank }");
    let verifier = stage.host("r", reply);
    stage.ask(ask(ASKED)).await;
    (stage, verifier)
}

/// Calls at once that ask the stored question in other words, and are no repeats of each other.
async fn ask_again(stage: &Stage, count: usize) -> Vec<Caller<Stream>> {
    begun(stage, (0..count).map(|number| ask(AGAIN).with("user", number.to_string()))).await
}

fn score(score: f64) -> Reply {
    Reply::json(json!({"results": [{"index": 0, "relevance_score": score}]}))
}

#[test]
fn callers_who_ask_one_question_at_once_have_its_match_verified_once() {
    for (given, found) in [(0.95, "semantic"), (0.5, "miss")] {
        story(async {
            let (stage, verifier) = verified(score(given).after(Duration::from_millis(100))).await;
            let answers = async |callers: Vec<Caller<Stream>>| {
                for mut caller in callers {
                    let answer = caller.answer().await.unwrap();
                    let is_one = cache(&answer) == found || (found == "miss" && cache(&answer) == "shared");
                    assert!(answer.status == 200 && is_one, "{}", cache(&answer));
                }
            };
            answers(ask_again(&stage, 8).await).await;
            assert_eq!((verifier.calls().len(), stage.live.verdicts.count()), (1, 0));
            let booked = r#"mai_upstream_attempts_total{outcome="ok",route="rank",upstream="r/rank"}"#;
            assert_eq!(stage.metric(booked), 1.0);
            assert_eq!(looked_up(&stage, "error"), 0.0);
        });
    }
}

#[test]
fn who_has_a_match_verified_first_and_leaves_takes_nobodys_verdict_along() {
    story(async {
        let (stage, verifier) = verified(score(0.95).after(Duration::from_millis(100))).await;
        let mut callers = ask_again(&stage, 5).await;
        verifier.has_calls(1).await;
        drop(callers.remove(0));
        for caller in &mut callers {
            assert_eq!(cache(&caller.answer().await.unwrap()), "semantic");
        }
        assert_eq!((verifier.calls().len(), stage.live.verdicts.count()), (1, 0));
    });
}

#[test]
fn a_match_that_nobody_waits_for_any_more_is_verified_no_further() {
    story(async {
        let (stage, verifier) = verified(Reply::hang()).await;
        let callers = ask_again(&stage, 3).await;
        verifier.has_calls(1).await;
        drop(callers);
        stage.comes_to_rest().await;
        let cancelled = r#"mai_upstream_attempts_total{outcome="cancelled",route="rank",upstream="r/rank"}"#;
        assert_eq!((stage.metric(cancelled), stage.live.verdicts.count()), (1.0, 0));
    });
}

#[test]
fn a_verdict_that_many_have_waited_for_in_vain_is_one_failure() {
    story(async {
        let (stage, verifier) = verified(Reply::status(400).after(Duration::from_millis(50))).await;
        for mut caller in ask_again(&stage, 8).await {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(verifier.calls().len(), 1);
        verifier.play(score(0.95));
        assert_eq!(caches(&stage, ask("How could I reset my password?")).await, "semantic", "nobody rests for it");
    });
}

#[test]
fn a_verdict_is_shared_by_nobody_who_asks_another_question_or_of_another_match() {
    story(async {
        let (stage, verifier) = verified(score(0.95).after(Duration::from_millis(100))).await;
        let asks = [AGAIN, "How could I reset my password?"].map(ask);
        for mut caller in begun(&stage, asks).await {
            assert_eq!(cache(&caller.answer().await.unwrap()), "semantic");
        }
        assert_eq!(verifier.calls().len(), 2);
    });
}

#[test]
fn who_asks_later_is_not_told_the_failure_of_who_had_less_time_left() {
    for (later, bodies) in [(100, 1), (250, 2)] {
        story(async {
            let (stage, _, e) = stage("");
            e.play(Reply::hang());
            let mut callers = begun(&stage, of_one_question(1)).await;
            millis(later).await;
            callers.extend(begun(&stage, of_one_question(3).skip(2)).await);
            millis(290 - later).await;
            assert_eq!(e.calls().len(), bodies, "nobody waits for what ends before half of its time is over");
            e.play(indifferent());
            for caller in &mut callers {
                assert_eq!(caller.answer().await.unwrap().status, 200);
            }
            let results = (looked_up(&stage, "error"), looked_up(&stage, "miss"), e.calls().len());
            assert_eq!(results, if bodies == 1 { (1.0, 1.0, 2) } else { (2.0, 0.0, 2) });
        });
    }
}

#[test]
fn an_application_that_embeds_a_question_loses_nothing_to_the_short_patience_of_a_look_up() {
    story(async {
        let stage = Stage::set(&sharing());
        stage.host("a", pleasant());
        let e = stage.host("e", Reply::hang());
        let mut asking = begun(&stage, [ask(ASKED)]).await;
        e.has_calls(1).await;
        e.play(indifferent());
        let began = Clock.now();
        assert_eq!(stage.ask(embeddings("emb", ASKED)).await.status, 200);
        assert!(Clock.now() - began < Duration::from_millis(50), "{:?}", Clock.now() - began);
        assert_eq!(asking.remove(0).answer().await.unwrap().status, 200);
    });
}

/// Three look-ups of which each has failed, and whose call to the embedder nobody sees to its end who began it.
async fn fail_for_those_who_stay(stage: &Stage, e: &Host) {
    for round in 0..3 {
        let question = ask(&format!("How do I reset password {round}?"));
        let calls = e.calls().len();
        let hasty = question.clone().header("x-mai-timeout-ms", "100");
        let mut callers = begun(stage, [hasty]).await;
        e.has_calls(calls + 1).await;
        callers.extend(begun(stage, [question.with("max_tokens", 9)]).await);
        let [mut hasty, mut patient] = callers.try_into().ok().unwrap();
        assert_eq!((hasty.answer().await.unwrap().status, patient.answer().await.unwrap().status), (504, 200));
        assert_eq!(e.calls().len(), calls + 1);
    }
}

#[test]
fn a_failure_is_counted_by_who_stays_where_who_began_the_call_has_left() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(Reply::hang());
        fail_for_those_who_stay(&stage, &e).await;
        stage.ask(ask(ASKED)).await;
        assert_eq!(e.calls().len(), 3, "look-ups rest");
    });
}

#[test]
fn a_trial_that_waits_for_anothers_call_in_vain_has_failed() {
    story(async {
        let stage = Stage::set(&sharing());
        stage.host("a", pleasant());
        let e = stage.host("e", Reply::hang());
        for round in 0..3 {
            stage.ask(ask(&format!("How do I reset password {round}?"))).await;
        }
        millis(5_000).await;
        let embedding = begun(&stage, [embeddings("emb", ASKED)]).await;
        e.has_calls(4).await;
        for question in [ASKED, AGAIN] {
            assert_eq!(stage.ask(ask(question)).await.status, 200);
        }
        assert_eq!((e.calls().len(), looked_up(&stage, "error")), (4, 5.0), "the second look-up rests");
        drop(embedding);
    });
}

#[test]
fn a_trial_has_failed_also_where_another_route_has_told_of_the_call_that_failed_it() {
    story(async {
        let talk = "  - { name: talk, upstreams: [{ provider: a, model: model-a }], cache: { mode: semantic, semantic: { route: emb, threshold: 0.9 } } }\nclients:";
        let stage = Stage::set(&sharing().replace("clients:", talk));
        stage.host("a", pleasant());
        let e = stage.host("e", Reply::hang());
        for round in 0..3 {
            stage.ask(ask(&format!("How do I reset password {round}?"))).await;
        }
        millis(5_000).await;
        let mut told = begun(&stage, [chat("talk").system("Be brief.").user(ASKED)]).await;
        e.has_calls(4).await;
        assert_eq!(stage.ask(ask(ASKED)).await.status, 200);
        assert_eq!(told.remove(0).answer().await.unwrap().status, 200);
        assert_eq!(stage.ask(ask(AGAIN)).await.status, 200);
        assert_eq!((e.calls().len(), looked_up(&stage, "error")), (4, 5.0), "look-ups of `chat` rest on");
    });
}

#[test]
fn clients_who_do_not_share_vectors_wait_for_none_of_each_other() {
    story(async {
        let (stage, _, e) = stage("");
        e.play(vector(&[1.0, 0.0]).after(Duration::from_millis(100)));
        let mut callers = begun(&stage, [ask(ASKED)]).await;
        let mut other = stage.caller();
        other.begin(&ask(ASKED).key("sk-other")).await;
        callers.push(other);
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        assert_eq!(e.calls().len(), 2);
    });
}

/// The texts of a request, where they are kept.
async fn texts(stage: &Stage, id: &str) -> Option<state::requests::Content> {
    stage.comes_to_rest().await;
    stage.live.contents.work_off();
    stage.live.records.content(id).await.unwrap()
}

/// The nearest question of a request, where texts are kept.
async fn nearest(stage: &Stage, id: &str) -> Option<state::requests::Near> {
    texts(stage, id).await.and_then(|content| content.near).map(|near| *near)
}

#[test]
fn keys_of_other_clients_are_blanked_in_the_nearest_question() {
    story(async {
        let kept = format!("records: {{ content: true }}\n{}", config("", ""));
        let kept = kept.replace("mode: semantic,", "mode: semantic, scope: route,");
        let stage = Stage::set(&kept.replace("sk-other", "online-2026"));
        stage.host("a", Reply::say(["Yes, with \"online-2026\"."]));
        stage.host("e", indifferent());
        let other = ask("How do I log in with KEY=online-2026?").key("online-2026");
        assert_eq!(stage.caller().ask(&other).await.status, 200);
        stage.ask(ask("How can I log in?").header("x-request-id", "second")).await;
        let near = nearest(&stage, "second").await.unwrap();
        assert_eq!((&*near.known, &*near.answer), ("How do I log in with KEY=[masked]?", "Yes, with \"[masked]\"."));
    });
}

#[test]
fn to_keep_the_nearest_question_nothing_is_looked_up_twice() {
    let hits = [true, false].map(|keeps| {
        let (told, hits) = std::sync::mpsc::sync_channel(1);
        story(async move {
            let stage = Stage::set(&format!("records: {{ content: {keeps} }}\n{}", config("", "")));
            stage.host("a", pleasant());
            stage.host("e", indifferent());
            for question in [ASKED, AGAIN, "How do I change my username?"] {
                stage.ask(ask(question)).await;
            }
            assert!(told.send(stage.live.answers.stats().memory.hits).is_ok());
        });
        hits.recv().unwrap()
    });
    assert_eq!(hits[0], hits[1]);
    assert!(hits[0] > 0);
}

#[test]
fn where_texts_are_kept_the_nearest_question_is_kept_with_them() {
    story(async {
        let kept = format!("records: {{ content: true, mask: [password] }}\n{}", config(", shadow: true", PASSAGES));
        let stage = Stage::set(&kept);
        stage.host("a", Reply::say(["In the portal."]));
        stage.host("e", indifferent());
        for (id, question) in [("first", ASKED), ("second", AGAIN), ("third", "How do I change my username?")] {
            stage.ask(ask(question).header("x-request-id", id)).await;
        }
        assert_eq!(nearest(&stage, "first").await, None);
        let second = nearest(&stage, "second").await.unwrap();
        assert_eq!(
            (&*second.question, &*second.known),
            ("How can I reset my [masked]?", "How do I reset my [masked]?")
        );
        assert_eq!((&*second.answer, second.similarity, &second.withheld), ("In the portal.", 1.0, &None));
        let third = nearest(&stage, "third").await.unwrap();
        assert!(third.withheld.is_some() && &*third.answer == "In the portal.", "{third:?}");
        stage.ask(ask(&format!("<context>One.</context>{ASKED}")).header("x-request-id", "fourth")).await;
        let fourth = nearest(&stage, "fourth").await.unwrap();
        assert_eq!((fourth.question == fourth.known, fourth.similarity), (true, 1.0), "known by its very words");
        assert_eq!(&*fourth.answer, "In the portal.");
    });
    story(async {
        let (stage, _, _) = stage(", shadow: true");
        stage.ask(ask(ASKED)).await;
        stage.ask(ask(AGAIN).header("x-request-id", "second")).await;
        assert_eq!(nearest(&stage, "second").await, None, "nobody has asked for texts");
    });
}
