//! Rates, tokens and concurrency: whom they bind, what they cost nobody else, and how they are told.

use std::time::Duration;

use serde_json::json;
use testkit::{Answer, Ask, At, How, Reply, Script, Storm, chat, embeddings, storms, story};

use crate::stage::{KEY, Stage, pleasant, snapshot, usual_but, without_breakers};

const OTHER: &str = "sk-other";

/// The usual gateway, its first client limited so, and a second one without a limit.
fn limited(limit: &str) -> String {
    usual_but(
        "  - { name: app, keys: [sk-app], routes: [\"*\"] }",
        &format!(
            "  - {{ name: app, keys: [sk-app, sk-app-too], routes: [\"*\"], limit: {limit} }}\n  - {{ name: other, keys: [{OTHER}], routes: [\"*\"] }}"
        ),
    )
}

fn hello() -> Ask {
    chat("chat").user("Hi")
}

async fn asks(stage: &Stage, ask: Ask, key: &str) -> Answer {
    stage.caller().ask(&ask.key(key)).await
}

/// Seconds of `retry-after`.
fn wait_of(answer: &Answer) -> u64 {
    answer.header("retry-after").expect("a refusal says when to come back").parse().expect("whole seconds")
}

#[test]
fn a_refusal_names_the_limit_says_when_to_come_back_and_costs_no_call() {
    story(async {
        let stage = Stage::set(&limited("{ qps: 0.2 }"));
        let a = stage.host("a", pleasant());
        let first = stage.ask(hello()).await;
        assert_eq!(first.status, 200);
        assert_eq!(first.header("x-ratelimit-limit-requests"), Some("1"));
        assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("0"));
        assert_eq!(first.header("x-ratelimit-reset-requests"), Some("5s"));
        assert_eq!(first.header("x-ratelimit-limit-tokens"), None);
        let refused = stage.ask(hello()).await;
        assert_eq!((refused.status, refused.code().as_deref()), (429, Some("rate_limit_exceeded")));
        assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("client `app`: 0.2 requests per second"), "{message}");
        assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"));
        assert_eq!(refused.header("x-should-retry"), None);
        assert_eq!(a.calls().len(), 1);
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], &line["attempts"]), (&json!("policy_limited"), &json!([])));
        assert_eq!(stage.metric("mai_rejected_total{client=\"app\",reason=\"policy_limited\"}"), 1.0);
    });
}

#[test]
fn a_refusal_names_the_slowest_limit_also_where_the_clients_own_is_used_up_too() {
    story(async {
        let config = limited("{ qps: 1 }").replace("  - name: chat\n", "  - name: chat\n    limit: { qps: 0.05 }\n");
        let stage = Stage::set(&config);
        stage.host("a", pleasant());
        assert_eq!(stage.ask(hello()).await.status, 200);
        let refused = stage.ask(hello()).await;
        assert!(refused.text().contains("route `chat`: 0.05 requests per second"), "{}", refused.text());
        assert_eq!(wait_of(&refused), 20);
        assert_eq!(stage.last_line().await["route"], "chat");
        // A large body is not read for it.
        let large = stage.ask(chat("chat").user(&"word ".repeat(20_000))).await;
        assert!(large.text().contains("client `app`: 1 requests per second"), "{}", large.text());
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(stage.ask(hello()).await.status, 200, "it was the truth");
    });
}

#[test]
fn who_comes_early_is_refused_again_and_who_waits_as_told_is_not() {
    story(async {
        let stage = Stage::set(&limited("{ qps: 0.1 }"));
        stage.host("a", pleasant());
        assert_eq!(stage.ask(hello()).await.status, 200);
        let wait = Duration::from_secs(wait_of(&stage.ask(hello()).await));
        assert_eq!(wait.as_secs(), 10);
        let told = base::Clock.now();
        tokio::time::sleep(wait.mul_f64(0.8)).await;
        for _ in 0..5 {
            assert_eq!(stage.ask(hello()).await.status, 429, "early, and to ask again prolongs nothing");
        }
        tokio::time::sleep_until((told + wait).into()).await;
        assert_eq!(stage.ask(hello()).await.status, 200);
    });
}

#[test]
fn a_limit_is_the_clients_whichever_key_it_uses_and_nobody_elses() {
    story(async {
        let stage = Stage::set(&limited("{ qps: 1 }"));
        stage.host("a", pleasant());
        assert_eq!(asks(&stage, hello(), KEY).await.status, 200);
        assert_eq!(asks(&stage, hello(), "sk-app-too").await.status, 429);
        assert_eq!(asks(&stage, hello(), OTHER).await.status, 200);
    });
}

#[test]
fn ten_at_the_end_of_a_second_leave_nothing_for_the_begin_of_the_next() {
    story(async {
        let stage = Stage::set(&limited("{ qps: 10 }"));
        let a = stage.host("a", pleasant());
        tokio::time::sleep(Duration::from_millis(950)).await;
        for _ in 0..10 {
            assert_eq!(stage.ask(hello()).await.status, 200);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..10 {
            stage.ask(hello()).await;
        }
        assert!(a.calls().len() <= 12, "{}", a.calls().len());
    });
}

#[test]
fn every_scope_binds_and_the_one_that_refuses_takes_nothing_of_the_others() {
    story(async {
        let config = limited("{ qps: 0.01, burst: 3 }")
            .replace("routes:\n", "limit: { qps: 0.01, burst: 8 }\nroutes:\n")
            .replace("  - name: rerank\n", "  - name: rerank\n    limit: { qps: 0.01, burst: 1 }\n")
            .replace(
                "keys: [sk-other], routes: [\"*\"]",
                "keys: [sk-other], routes: [{ name: \"emb*\", limit: { qps: 0.01, burst: 2 } }, \"*\"]",
            );
        let stage = Stage::set(&config);
        stage.host("a", pleasant());
        let rerank = || testkit::rerank("rerank", "q", ["d"]);
        let embed = || embeddings("embedding", "abc");
        let told = |answer: &Answer| answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(asks(&stage, rerank(), KEY).await.status, 200);
        for _ in 0..5 {
            // The route is used up; the client loses nothing by it.
            let refused = asks(&stage, rerank(), KEY).await;
            assert!(told(&refused).contains("route `rerank`: 0.01 requests per second"), "{}", told(&refused));
        }
        assert_eq!(asks(&stage, hello(), KEY).await.status, 200);
        assert_eq!(asks(&stage, hello(), KEY).await.status, 200);
        assert!(told(&asks(&stage, hello(), KEY).await).contains("client `app`: "));
        for _ in 0..2 {
            assert_eq!(asks(&stage, embed(), OTHER).await.status, 200);
        }
        let refused = asks(&stage, embed(), OTHER).await;
        assert!(told(&refused).contains("client `other` on route `embedding`: "), "{}", told(&refused));
        for _ in 0..3 {
            assert_eq!(asks(&stage, hello(), OTHER).await.status, 200);
        }
        assert!(told(&asks(&stage, hello(), OTHER).await).contains("the whole gateway: 0.01 requests per second"));
    });
}

#[test]
fn who_has_plainly_used_up_its_rate_is_refused_before_its_body_is_read() {
    story(async {
        let stage = Stage::set(&limited("{ qps: 0.01 }"));
        let a = stage.host("a", pleasant());
        assert_eq!(stage.ask(hello()).await.status, 200);
        let mut caller = stage.caller();
        let mut head = hello().key(KEY).head();
        head.extend_from_slice(b"content-length: 5000\r\nexpect: 100-continue\r\n\r\n");
        caller.write(&head).await;
        assert_eq!(caller.head().await.unwrap().status, 429);
        assert_eq!(a.calls().len(), 1);
        let models = asks(&stage, testkit::get("/v1/models"), KEY).await;
        assert_eq!(models.status, 200, "asking for the list of models counts nowhere");
    });
}

#[test]
fn tokens_are_put_aside_by_guess_and_settled_by_use() {
    story(async {
        let stage = Stage::set(&limited("{ tokens_per_minute: 6000 }"));
        let usage = json!({"prompt_tokens": 100, "completion_tokens": 400, "total_tokens": 500});
        stage.host("a", Script::always(Reply::say(["ok"]).usage(usage)));
        let ask = || hello().with("max_tokens", 3000);
        let left = |answer: &Answer| answer.header("x-ratelimit-remaining-tokens").unwrap().parse::<u64>().unwrap();
        let first = stage.ask(ask()).await;
        assert!(left(&first) < 3000, "it might write 3000");
        let second = stage.ask(ask().stream()).await;
        assert_eq!(second.status, 200);
        assert!((2400..2510).contains(&left(&second)), "the first has used 500: {}", left(&second));
        stage.comes_to_rest().await;
        let third = stage.ask(ask()).await;
        assert!((1900..2010).contains(&left(&third)), "the second as much: {}", left(&third));
        assert_eq!(stage.ask(hello().with("max_tokens", 1)).await.status, 200);
        let refused = stage.ask(hello().with("max_tokens", 6000)).await;
        assert!(refused.text().contains("client `app`: 6000 tokens per minute"), "{}", refused.text());
        tokio::time::sleep(Duration::from_secs(wait_of(&refused))).await;
        assert_eq!(stage.ask(hello().with("max_tokens", 6000)).await.status, 200);
    });
}

#[test]
fn tokens_that_nobody_used_come_back() {
    story(async {
        let stage = Stage::set(&limited("{ tokens_per_minute: 1000 }"));
        let a = stage.host("a", Reply::status(400));
        for _ in 0..20 {
            assert_eq!(stage.ask(hello().with("max_tokens", 900)).await.status, 400);
        }
        assert_eq!(a.calls().len(), 20);
    });
}

#[test]
fn a_lower_limit_holds_for_the_next_call_and_what_was_used_stays_used() {
    story(async {
        let stage = Stage::set(&limited("{ qps: 0.01, burst: 4 }"));
        stage.host("a", pleasant());
        for _ in 0..3 {
            assert_eq!(stage.ask(hello()).await.status, 200);
        }
        stage.reload(&limited("{ qps: 0.01, burst: 4 }").replace("model: model-b", "model: model-c"));
        assert_eq!(stage.ask(hello()).await.status, 200);
        assert_eq!(stage.ask(hello()).await.status, 429, "a reload forgives nothing");
        stage.reload(&limited("{ qps: 0.01, burst: 5 }"));
        assert_eq!(stage.ask(hello()).await.status, 200);
        stage.reload(&limited("{ qps: 0.01, burst: 1 }"));
        assert_eq!(stage.ask(hello()).await.status, 429);
        stage.reload(&limited("{ qps: 1000 }"));
        assert_eq!(stage.ask(hello()).await.status, 200);
    });
}

#[test]
fn calls_under_way_stay_counted_while_their_limit_is_gone_and_back() {
    story(async {
        let (bounded, free) = (limited("{ concurrency: 2 }"), limited("{ }").replace(", limit: { }", ""));
        let stage = Stage::set(&bounded);
        stage.host("a", Reply::say(["ok"]).after(Duration::from_secs(1)));
        let (mut one, mut other) = (stage.caller(), stage.caller());
        for caller in [&mut one, &mut other] {
            caller.begin(&hello().key(KEY)).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        stage.reload(&free);
        stage.reload(&bounded);
        assert_eq!(stage.ask(hello()).await.status, 429);
        assert_eq!((one.answer().await.unwrap().status, other.answer().await.unwrap().status), (200, 200));
        two_pass(&stage).await;
    });
}

fn two_at_a_time() -> String {
    without_breakers(&limited("{ concurrency: 2 }"))
}

/// Two calls of the client side by side are answered.
async fn two_pass(stage: &Stage) {
    let (mut one, mut other) = (stage.caller(), stage.caller());
    one.begin(&hello().key(KEY)).await;
    other.begin(&hello().key(KEY)).await;
    assert_eq!((one.answer().await.unwrap().status, other.answer().await.unwrap().status), (200, 200));
    stage.comes_to_rest().await;
}

/// A host that answers by what the question says.
fn moody() -> Script {
    Script::by(|request| {
        let asked = String::from_utf8_lossy(&request.body).into_owned();
        let slow = || Reply::say(["a", "b", "c"]).after(Duration::from_millis(50)).every(Duration::from_secs(2));
        match () {
            () if asked.contains("hang") => Reply::hang(),
            () if asked.contains("reset") => Reply::default().cut(At::Head, How::Rst),
            () if asked.contains("slow") => slow(),
            () => Reply::say(["ok"]).after(Duration::from_millis(20)),
        }
    })
}

/// Ways for a call to end that are not a good answer.
const ENDS: [&str; 9] = [
    "abort mid-stream",
    "abort before the first token",
    "hang",
    "reset",
    "unknown model",
    "broken json",
    "half a body",
    "too large",
    "reload",
];

/// A call that ends so. Half of them end sooner than what they began.
async fn ends(stage: &Stage, how: &str, patience: Duration) {
    let mut caller = stage.caller();
    let slow = || chat("chat").user("slow").stream().key(KEY);
    match how {
        "abort mid-stream" => {
            caller.begin(&slow()).await;
            if let Ok(head) = caller.head().await
                && head.status == 200
            {
                let _ = caller.more().await;
            }
        }
        "abort before the first token" => {
            caller.begin(&chat("chat").user("hang").stream().key(KEY)).await;
            tokio::time::sleep(patience).await;
        }
        "hang" | "reset" => {
            let ask = chat("chat").user(how).header("x-mai-timeout-ms", "700").key(KEY);
            assert!(caller.ask(&ask).await.status >= 429);
        }
        "unknown model" => assert!(caller.ask(&chat("nobody").user("Hi").key(KEY)).await.status >= 404),
        "broken json" => assert!(caller.ask(&chat("chat").body("{\"model\":").key(KEY)).await.status >= 400),
        "half a body" => {
            let wire = hello().key(KEY).wire();
            caller.write(&wire[..wire.len() - 10]).await;
            tokio::time::sleep(patience).await;
        }
        "too large" => {
            let mut head = hello().key(KEY).head();
            head.extend_from_slice(b"content-length: 99999999\r\n\r\n");
            caller.write(&head).await;
            assert!(caller.head().await.unwrap().status >= 413);
        }
        _ => {
            caller.begin(&slow()).await;
            tokio::time::sleep(patience).await;
            stage.reload(&two_at_a_time().replace("model: model-b", "model: model-c"));
            assert!(caller.answer().await.unwrap().status >= 200);
        }
    }
}

#[test]
fn a_place_comes_back_however_the_call_ends() {
    for how in ENDS {
        story(async {
            let stage = Stage::set(&two_at_a_time());
            stage.host("a", moody());
            stage.host("b", moody());
            for n in 0..10 {
                ends(&stage, how, Duration::from_millis(30 * n)).await;
            }
            two_pass(&stage).await;
        });
    }
}

#[test]
fn places_come_back_when_all_kinds_of_ends_are_mixed() {
    storms(0..20, |storm: Storm| async move {
        let stage = std::rc::Rc::new(Stage::set(&two_at_a_time()));
        stage.host("a", moody());
        stage.host("b", moody());
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut callers = tokio::task::JoinSet::new();
                for _ in 0..50 {
                    let (how, begin, patience) = (*storm.one_of(&ENDS), storm.ms(0..4000), storm.ms(0..600));
                    let stage = stage.clone();
                    callers.spawn_local(async move {
                        tokio::time::sleep(begin).await;
                        ends(&stage, how, patience).await;
                    });
                }
                while let Some(ended) = callers.join_next().await {
                    ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
                }
            })
            .await;
        stage.comes_to_rest().await;
        two_pass(&stage).await;
    });
}

#[test]
fn a_third_call_at_a_time_is_refused_and_names_the_limit() {
    story(async {
        let stage = Stage::set(&limited("{ concurrency: 2 }"));
        let a = stage.host("a", Reply::say(["ok"]).after(Duration::from_secs(1)));
        let mut callers = [stage.caller(), stage.caller()];
        for caller in &mut callers {
            caller.begin(&hello().key(KEY)).await;
        }
        a.has_calls(2).await;
        let refused = stage.ask(hello()).await;
        assert_eq!((refused.status, wait_of(&refused)), (429, 1));
        assert!(refused.text().contains("client `app`: 2 concurrent requests"), "{}", refused.text());
        for caller in &mut callers {
            assert_eq!(caller.answer().await.unwrap().status, 200);
        }
        two_pass(&stage).await;
    });
}

#[test]
fn explain_tells_every_limit_that_applies() {
    let config = limited("{ qps: 2.5 }").replace("routes:\n", "limit: { concurrency: 7 }\nroutes:\n");
    let body = r#"{"model":"chat","messages":[{"role":"user","content":"Hi"}]}"#;
    let told = gateway::explain::explain(&snapshot(&config), "app", base::Endpoint::Chat, body.into()).unwrap();
    let limit = |scope, qps: Option<f64>, burst: Option<u32>, concurrency: Option<u32>| json!({"scope": scope, "qps": qps, "burst": burst, "tokens_per_minute": null, "concurrency": concurrency});
    let expected = [limit("the whole gateway", None, None, Some(7)), limit("client `app`", Some(2.5), Some(2), None)];
    assert_eq!((&told["priority"], &told["limits"]), (&json!("online"), &json!(expected)));
}

/// Calls side by side that a limit of so many tokens a minute lets in.
async fn side_by_side(config: &str, ask: impl Fn() -> Ask) -> usize {
    let stage = Stage::set(config);
    let a = stage.host("a", Reply::say(["ok"]).after(Duration::from_secs(1)));
    let mut callers = Vec::new();
    for _ in 0..10 {
        let mut caller = stage.caller();
        caller.begin(&ask().key(KEY)).await;
        callers.push(caller);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for caller in &mut callers {
        caller.answer().await.unwrap();
    }
    stage.comes_to_rest().await;
    a.calls().len()
}

#[test]
fn tokens_are_put_aside_of_the_call_as_it_goes_out_and_not_as_it_came() {
    story(async {
        let config = limited("{ tokens_per_minute: 1000 }");
        let with = |keys: &str| config.replace("  - name: chat\n", &format!("  - name: chat\n    {keys}\n"));
        // Whoever writes a limit beyond the policy's gets the policy's, and whoever writes none too.
        let policy = with("params: { max: { max_tokens: 150 } }");
        assert_eq!(side_by_side(&config, || hello().with("max_tokens", 100_000)).await, 1);
        assert_eq!(side_by_side(&policy, || hello().with("max_tokens", 100_000)).await, 5);
        assert_eq!(side_by_side(&policy, hello).await, 5);
        // A history that is cut is not waited for, nor are passages that are left out.
        let long = "word ".repeat(3000);
        let history = || chat("chat").user(&long).message(json!({"role": "assistant", "content": "ok"})).user("And?");
        assert_eq!(side_by_side(&config, history).await, 1);
        assert_eq!(side_by_side(&with("context: { budget: 200 }"), history).await, 10, "one word is left of each");
        // The budget bounds each prompt of a list by itself.
        let bounded = with("context: { budget: 300 }");
        let list = |many: usize| {
            chat("chat")
                .path("/v1/completions")
                .body(json!({"model": "chat", "prompt": vec!["word ".repeat(150); many], "max_tokens": 1}).to_string())
        };
        assert_eq!(side_by_side(&bounded, || list(1)).await, 3);
        assert_eq!(side_by_side(&bounded, || list(2)).await, 1);
        let passages = format!("Why?{}", "<context>some words of it</context>".repeat(60));
        let retrieved = || chat("chat").user(&passages);
        let route = with("context: { budget: 900, retrieval_share: 0.05, retrieval: { tag: context } }");
        let let_in = side_by_side(&route, retrieved).await;
        assert!(let_in >= 5, "what is left out is there again for the next call at once: {let_in}");
    });
}

#[test]
fn an_upstream_that_reports_absurd_usage_shuts_no_limit_for_long() {
    story(async {
        let stage = Stage::set(&limited("{ tokens_per_minute: 1000 }"));
        let usage = json!({ "prompt_tokens": 9_000_000, "completion_tokens": 1, "total_tokens": 9_000_001 });
        stage.host("a", Reply::say(["ok"]).usage(usage));
        assert_eq!(stage.ask(hello()).await.status, 200);
        stage.comes_to_rest().await;
        let refused = stage.ask(hello()).await;
        assert!(refused.status == 429 && wait_of(&refused) <= 70, "{}", wait_of(&refused));
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(stage.ask(hello()).await.status, 200);
    });
}
