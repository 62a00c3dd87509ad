//! Budgets of tokens and money: what they let in, what each ending counts, and what it costs.

use std::time::Duration;

use serde_json::{Value, json};
use state::{Columns, Question, Sums};
use testkit::{Answer, Ask, At, How, Reply, Scenario, Script, Storm, chat, embeddings, rerank, storms, story};

use crate::stage::{KEY, Stage, answers, begun, pleasant, usual_but, without_breakers, without_waits};

/// The usual gateway, whose first client has this quota.
fn with_quota(quota: &str) -> String {
    let app = "  - { name: app, keys: [sk-app], routes: [\"*\"] }";
    without_breakers(&without_waits(&usual_but(
        app,
        &format!("  - {{ name: app, keys: [sk-app], routes: [\"*\"], quota: {quota} }}"),
    )))
}

/// A chat call whose answer may have so many tokens.
fn hello(most: u64) -> Ask {
    chat("chat").user("Hi").with("max_tokens", most)
}

/// Tokens that the gateway expects of its prompt.
fn prompt_of(ask: &Ask) -> u64 {
    base::estimate(&ask.bytes())
}

fn used(prompt: u64, completion: u64) -> Value {
    json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
}

/// What the ledger has of the first client.
async fn ledger(stage: &Stage) -> Sums {
    stage.comes_to_rest().await;
    stage.live.gather();
    let question = Question { client: Some("app".into()), ..Question::default() };
    let rows = stage.live.usage_ledger.store.report(question).await.unwrap();
    rows.iter().fold(Sums::default(), |sums, row| sums.plus(row.sums))
}

/// The share of its quota that the first client has used.
fn ratio(stage: &Stage, kind: &str) -> f64 {
    stage.metric(&format!("mai_quota_used_ratio{{client=\"app\",kind=\"{kind}\"}}"))
}

fn refused(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.code().as_deref()), (429, Some("insufficient_quota")), "{}", answer.text());
    answer.json()["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_refusal_for_what_calls_under_way_have_put_aside_says_to_come_again() {
    story(async {
        let stage = Stage::set(&with_quota("{ tokens: 3000 }"));
        let a = stage.host("a", Reply::say(["Hi"]).usage(used(10, 5)).after(Duration::from_millis(500)));
        let first = begun(&stage, hello(2000)).await;
        a.has_calls(1).await;
        let second = stage.ask(hello(2000)).await;
        assert!(refused(&second).contains("put aside by calls under way"));
        assert_eq!((second.header("retry-after"), second.header("x-should-retry")), (Some("1"), None));
        assert_eq!(answers(vec![first]).await[0].status, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.ask(hello(2000)).await.status, 200);
        let never = stage.ask(hello(2000).user(&"word ".repeat(6_000))).await;
        refused(&never);
        assert_eq!((never.header("retry-after"), never.header("x-should-retry")), (None, Some("false")));
    });
}

#[test]
fn a_refusal_names_the_quota_says_when_it_begins_anew_and_costs_no_call() {
    story(async {
        let stage = Stage::set(&with_quota("{ tokens: 100, timezone: Asia/Shanghai }"));
        let a = stage.host("a", Reply::say(["Hi"]).usage(used(60, 60)));
        assert_eq!(stage.ask(hello(10)).await.status, 200);
        let answer = stage.ask(hello(10)).await;
        let message = refused(&answer);
        assert!(message.contains("the quota of client `app`"), "{message}");
        assert!(message.contains("of 100 tokens a month, 120 tokens used"), "{message}");
        assert!(message.contains("-01T00:00:00+08:00"), "{message}");
        assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.header("retry-after"), None, "nobody waits for a month");
        assert_eq!(a.calls().len(), 1);
        let line = stage.last_line().await;
        assert_eq!(
            (&line["outcome"], &line["attempts"], &line["tokens_in"]),
            (&json!("policy_quota"), &json!([]), &Value::Null)
        );
        assert_eq!(stage.metric("mai_rejected_total{client=\"app\",reason=\"policy_quota\"}"), 1.0);
        assert_eq!(ledger(&stage).await.requests, 1, "what was refused used nothing");
    });
}

#[test]
fn of_a_crowd_exactly_as_many_get_in_as_fit() {
    story(async {
        let each = prompt_of(&hello(80)) + 80;
        let stage = Stage::set(&with_quota(&format!("{{ tokens: {} }}", 50 * each + each - 1)));
        let a = stage.host("a", Reply::say(["Hi"]).usage(used(10, 10)).after(Duration::from_secs(1)));
        let crowd = async |count: usize| {
            let stage = &stage;
            let calls = (0..count).map(|_| async move { stage.ask(hello(80)).await.status });
            let statuses = futures(calls).await;
            statuses.iter().filter(|status| **status == 200).count()
        };
        assert_eq!(crowd(1000).await, 50);
        assert_eq!(a.calls().len(), 50);
        // They used less than they had put aside: 1,000 tokens are spent.
        let left = 51 * each - 1 - 1000;
        assert_eq!(crowd(1000).await, usize::try_from(left / each).unwrap());
    });
}

/// All of them side by side.
async fn futures<T>(calls: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut calls: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    std::future::poll_fn(|cx| {
        let mut is_done = true;
        for (call, done) in &mut calls {
            if done.is_none() {
                match call.as_mut().poll(cx) {
                    std::task::Poll::Ready(value) => *done = Some(value),
                    std::task::Poll::Pending => is_done = false,
                }
            }
        }
        if is_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    calls.into_iter().filter_map(|(_, done)| done).collect()
}

#[test]
fn a_client_without_quota_that_keeps_calling_takes_nothing_of_what_it_shares() {
    story(async {
        let config = with_quota("{ tokens: 100 }, limit: { qps: 3, burst: 3 }").replace(
            "name: narrow, keys: [sk-narrow], routes: [rerank]",
            "name: narrow, keys: [sk-narrow], routes: [chat]",
        );
        let stage = Stage::set(&format!("limit: {{ qps: 5, burst: 5 }}\n{config}"));
        stage.host("a", Reply::say(["Hi"]).usage(used(60, 60)));
        assert_eq!(stage.ask(hello(10)).await.status, 200);
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let mut codes = Vec::new();
        for _ in 0..6 {
            codes.push(stage.ask(hello(10)).await.code().unwrap());
        }
        assert_eq!(codes[..3], ["insufficient_quota"; 3]);
        assert_eq!(codes[3..], ["rate_limit_exceeded"; 3], "its own rate is spent all the same");
        for _ in 0..5 {
            let answer = stage.caller().ask(&hello(10).key("sk-narrow")).await;
            assert_eq!(answer.status, 200, "the gateway's is whole: {}", answer.text());
        }
    });
}

#[test]
fn a_caller_who_bounds_nothing_uses_a_small_quota_up() {
    story(async {
        let stage = Stage::set(&with_quota("{ tokens: 1000 }"));
        stage.host("a", Reply::say(["Hi"]).usage(used(100, 300)));
        for _ in 0..3 {
            assert_eq!(stage.ask(chat("chat").user("Hi")).await.status, 200);
        }
        refused(&stage.ask(chat("chat").user("Hi")).await);
        assert!((ratio(&stage, "tokens") - 1.2).abs() < 1e-9);
    });
}

#[test]
fn a_call_that_may_write_more_than_is_left_is_told_so() {
    story(async {
        let stage = Stage::set(&with_quota("{ tokens: 1000, per: day }"));
        stage.host("a", pleasant());
        let message = refused(&stage.ask(hello(5000)).await);
        assert!(message.contains("of 1000 tokens a day, 0 tokens used; it needs 50"), "{message}");
        assert_eq!(stage.ask(hello(500)).await.status, 200);
    });
}

/// One call of every way to end, and the tokens that it must count for the caller.
async fn ending(how: &str) -> (Stage, u64) {
    let stage = Stage::set(&with_quota("{ tokens: 1000000, cost: 5 }"));
    let words = || Reply::say(vec!["four"; 40]).usage(used(150, 250));
    let mut expected = 400;
    match how {
        "whole" => drop(stage.host("a", words())),
        "whole, nothing told" => {
            stage.host("a", words().usage(Value::Null));
            expected = 0;
        }
        "stream" | "stream, caller asks for usage" => drop(stage.host("a", words().every(Duration::from_millis(10)))),
        "stream, nothing told" => {
            stage.host("a", words().usage(Value::Null));
            expected = 0;
        }
        "nonsense" => {
            stage.host("a", words().usage(json!({ "prompt_tokens": -5, "completion_tokens": 1e18 })));
            expected = 0;
        }
        "failover" => {
            stage.host("a", words().cut(At::Events(0), How::Rst));
            stage.host("b", words());
        }
        "caller leaves" | "cut" => {
            let slow = words().every(Duration::from_secs(1));
            stage.host("a", if how == "cut" { slow.cut(At::Events(20), How::Rst) } else { slow });
            expected = 0;
        }
        "left before it began" => {
            stage.host("a", Reply::hang());
            expected = 1;
        }
        "failed" => {
            stage.host("a", Reply::status(500));
            stage.host("b", Reply::status(500));
            expected = 1;
        }
        _ => {
            stage.host("a", Reply::status(400));
            expected = 1;
        }
    }
    let is_stream =
        how.starts_with("stream") || matches!(how, "failover" | "caller leaves" | "cut" | "left before it began");
    let ask = if is_stream { hello(500).stream() } else { hello(500) };
    let ask = if how == "stream, caller asks for usage" { ask.usage() } else { ask };
    let mut caller = stage.caller();
    caller.begin(&ask.key(KEY)).await;
    match how {
        "caller leaves" => {
            caller.head().await.unwrap();
            for _ in 0..10 {
                let _ = caller.more().await;
            }
        }
        "left before it began" => tokio::time::sleep(Duration::from_secs(1)).await,
        _ => drop(caller.answer().await),
    }
    drop(caller);
    (stage, expected)
}

#[test]
fn ledger_metrics_log_and_quota_agree_however_a_call_ends() {
    for how in [
        "whole",
        "whole, nothing told",
        "stream",
        "stream, caller asks for usage",
        "stream, nothing told",
        "nonsense",
        "failover",
        "caller leaves",
        "cut",
        "left before it began",
        "failed",
        "refused",
    ] {
        story(async {
            let (stage, expected) = ending(how).await;
            let sums = ledger(&stage).await;
            let tokens = sums.tokens_in + sums.tokens_out;
            match expected {
                0 => assert!(tokens > 0, "{how}: an estimate above nothing"),
                1 => assert_eq!(tokens, 0, "{how}"),
                known => assert_eq!(tokens, known, "{how}"),
            }
            assert_eq!(sums.requests, 1, "{how}");
            let line = stage.last_line().await;
            let count = |name: &str| line[name].as_u64().unwrap_or_default();
            assert_eq!((count("tokens_in"), count("tokens_out")), (sums.tokens_in, sums.tokens_out), "{how}: {line}");
            let of_kind =
                |kind| stage.metric(&format!("mai_tokens_total{{client=\"app\",kind=\"{kind}\",route=\"chat\"}}"));
            assert_eq!(of_kind("prompt") + of_kind("completion"), tokens as f64, "{how}");
            assert!(
                (ratio(&stage, "tokens") - tokens as f64 / 1e6).abs() < 1e-12,
                "{how}: {}",
                ratio(&stage, "tokens")
            );
            // Nothing stays put aside: all that is left can be had at once.
            let left = 1_000_000 - tokens - prompt_of(&hello(900_000));
            stage.host("a", pleasant());
            stage.host("b", pleasant());
            tokio::time::sleep(Duration::from_secs(30)).await;
            stage.sweep();
            assert_eq!(stage.ask(hello(left)).await.status, 200, "{how}");
        });
    }
}

#[test]
fn a_large_answer_in_small_pieces_is_counted_whole_and_parts_are_counted_together() {
    story(async {
        let config = with_quota("{ tokens: 1000000 }").replace(
            "match: { path: /v1/embeddings }",
            "match: { path: /v1/embeddings }\n    batch: { max_inputs: 2 }",
        );
        let stage = Stage::set(&config);
        stage.host("a", Script::always(Reply::default().usage(json!({ "prompt_tokens": 70, "total_tokens": 70 }))));
        let answer = stage.ask(embeddings("embedding", json!(["a", "b", "c", "d", "e"]))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(ledger(&stage).await.tokens_in, 210, "three parts");
        assert!((ratio(&stage, "tokens") - 210e-6).abs() < 1e-12);
    });
}

/// The usual gateway with prices: what `a` answers costs dollars, what `b` answers yuan.
fn with_prices(quota: &str) -> String {
    with_quota(quota)
        .replace(
            "{ provider: a, model: model-a }",
            "{ provider: a, model: model-a, prices: { prompt: 1, cached: 0.5, completion: 10 } }",
        )
        .replace(
            "{ provider: b, model: model-b, tier: 1 }",
            "{ provider: b, model: model-b, tier: 1, prices: { prompt: 7, completion: 70, currency: CNY } }",
        )
        .replace("{ provider: a, model: rank }", "{ provider: a, model: rank, prices: { search_unit: 0.002 } }")
}

#[test]
fn what_a_call_costs_is_in_log_metrics_ledger_and_quota() {
    story(async {
        let stage = Stage::set(&with_prices("{ cost: 0.01 }"));
        let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": { "cached_tokens": 400 } });
        stage.host("a", Reply::say(["Hi"]).usage(usage));
        assert_eq!(stage.ask(hello(100)).await.status, 200);
        // 600 fresh ones, 400 cached at half the price, 100 written.
        let line = stage.last_line().await;
        assert_eq!(line["cost"].to_string(), "0.0018");
        assert_eq!(ledger(&stage).await.cost, 1_800_000);
        assert!((stage.metric("mai_cost_total{client=\"app\",route=\"chat\"}") - 0.0018).abs() < 1e-12);
        assert!((ratio(&stage, "cost") - 0.18).abs() < 1e-9);
        let message = refused(&stage.ask(hello(1000)).await);
        assert!(message.contains("of 0.01 USD a month, 0.0018 USD used; it needs 0.01"), "{message}");
        let ranked = stage.ask(rerank("rerank", "q", vec!["d"; 150])).await;
        assert_eq!(ranked.status, 200, "{}", ranked.text());
        assert_eq!(stage.last_line().await["cost"].to_string(), "0.004");
    });
}

#[test]
fn currencies_stand_apart_and_unknown_prices_are_not_zero() {
    story(async {
        let stage = Stage::set(&with_prices("{ cost: 0.01 }"));
        stage.host("b", Reply::say(["Hi"]).usage(used(1000, 100)));
        assert_eq!(stage.ask(hello(10)).await.status, 200, "`a` is not there: `b` answers");
        assert_eq!(stage.last_line().await["cost"].to_string(), "0.014");
        assert_eq!(stage.metric("mai_cost_total{client=\"app\",route=\"chat\"}"), 0.0);
        assert!(
            (stage.metric("mai_cost_other_total{client=\"app\",currency=\"CNY\",route=\"chat\"}") - 0.014).abs()
                < 1e-12
        );
        assert_eq!(ratio(&stage, "cost"), 0.0, "yuan are no dollars");
        assert_eq!(stage.ask(embeddings("embedding", "text")).await.status, 200);
        assert_eq!(stage.last_line().await["cost"], Value::Null);
        let question = Question { by: Columns { model: true, ..Columns::default() }, ..Question::default() };
        let mut rows = stage.live.usage_ledger.store.report(question).await.unwrap();
        rows.sort_by_key(|row| row.model.clone());
        let seen: Vec<_> =
            rows.iter().map(|row| (&*row.model, &*row.currency, row.sums.cost, row.sums.unpriced)).collect();
        assert_eq!(seen, [("embed", "", 0, 1), ("model-b", "CNY", 14_000_000, 0)]);
        assert_eq!(stage.metric("mai_quota_uncounted_total{client=\"app\"}"), 2.0, "neither counts for the quota");
    });
}

#[test]
fn of_a_split_call_that_is_paid_in_two_currencies_each_part_counts_in_its_own() {
    story(async {
        let config = with_prices("{ cost: 0.01 }")
            .replace("match: { path: /v1/embeddings }", "match: { path: /v1/embeddings }\n    batch: { max_inputs: 1 }")
            .replace("{ provider: a, model: embed }", "{ provider: a, model: embed, prices: { prompt: 1 } }")
            .replace(
                "{ provider: b, model: embed, tier: 1 }",
                "{ provider: b, model: embed, tier: 1, prices: { prompt: 7, currency: CNY } }",
            );
        let stage = Stage::set(&config);
        let part = || Reply::default().usage(json!({ "prompt_tokens": 1000, "total_tokens": 1000 }));
        stage.host("a", Script::replies([part(), Reply::status(500)]));
        stage.host("b", part());
        assert_eq!(stage.ask(embeddings("embedding", json!(["one", "two"]))).await.status, 200);
        let sums = ledger(&stage).await;
        assert_eq!((sums.requests, sums.tokens_in), (1, 2000));
        assert!((ratio(&stage, "cost") - 0.1).abs() < 1e-9, "a thousandth of a dollar: {}", ratio(&stage, "cost"));
        assert_eq!(stage.metric("mai_quota_uncounted_total{client=\"app\"}"), 1.0, "the yuan are not in it");
    });
}

#[test]
fn a_share_is_warned_of_once() {
    story(async {
        let stage = Stage::set(&with_quota("{ tokens: 1000, warn: [0.3, 0.5] }"));
        stage.host("a", Reply::say(["Hi"]).usage(used(50, 50)));
        let warnings = "mai_quota_warnings_total{client=\"app\",kind=\"tokens\"}";
        let mut seen = Vec::new();
        for _ in 0..8 {
            assert_eq!(stage.ask(hello(10)).await.status, 200);
            stage.comes_to_rest().await;
            seen.push(stage.metric(warnings));
        }
        assert_eq!(seen, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
    });
}

#[test]
fn a_share_that_a_lower_quota_is_come_to_by_is_warned_of_once() {
    story(async {
        let quota = |tokens: u64| with_quota(&format!("{{ tokens: {tokens}, warn: [0.3, 0.5, 0.9] }}"));
        let stage = Stage::set(&quota(1000));
        stage.host("a", Reply::say(["Hi"]).usage(used(200, 200)));
        assert_eq!(stage.ask(hello(10)).await.status, 200);
        stage.comes_to_rest().await;
        let warnings = || stage.metric("mai_quota_warnings_total{client=\"app\",kind=\"tokens\"}");
        let after = |tokens: u64| {
            stage.reload(&quota(tokens));
            warnings()
        };
        assert_eq!(warnings(), 1.0);
        assert_eq!(after(700), 2.0, "400 of 700 are more than half");
        assert_eq!((after(700), after(790)), (2.0, 2.0), "that was told");
        assert_eq!(after(410), 3.0);
        assert_eq!((after(10_000), after(9_000)), (3.0, 3.0), "more room is nothing to warn of");
        assert_eq!(after(1000), 4.0, "and what is less again is");
    });
}

#[test]
fn a_client_that_has_used_its_share_lands_softly_on_the_cheaper_model() {
    story(async {
        let config = with_quota("{ tokens: 1000 }").replace(
            "upstreams: [{ provider: a, model: model-a }, { provider: b, model: model-b, tier: 1 }]",
            "upstreams: [{ provider: a, model: model-a }, { provider: b, model: model-b, tier: 1 }]\n    split: [{ when: { quota_used: 0.4 }, to: b }]",
        );
        let stage = Stage::set(&config);
        let (a, b) = (stage.host("a", Reply::say(["Hi"]).usage(used(50, 150))), stage.host("b", pleasant()));
        for _ in 0..3 {
            assert_eq!(stage.ask(hello(10)).await.status, 200);
        }
        assert_eq!((a.calls().len(), b.calls().len()), (2, 1));
    });
}

#[test]
fn a_quota_that_a_reload_brings_counts_what_was_used_before_it_and_what_was_under_way() {
    story(async {
        let stage = Stage::set(&without_breakers(&without_waits(crate::stage::USUAL)));
        stage.host("a", Reply::say(["Hi", "you"]).every(Duration::from_secs(5)).usage(used(100, 200)));
        assert_eq!(stage.ask(hello(10).stream()).await.status, 200);
        let mut caller = stage.caller();
        caller.begin(&hello(10).stream().key(KEY)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        stage.reload(&with_quota("{ tokens: 1000 }"));
        assert!((ratio(&stage, "tokens") - 0.3).abs() < 1e-9);
        caller.answer().await.unwrap();
        stage.comes_to_rest().await;
        assert!((ratio(&stage, "tokens") - 0.6).abs() < 1e-9);
        // A change of its bounds keeps what it has counted, and counts nothing twice.
        stage.reload(&with_quota("{ tokens: 2000, cost: 1 }"));
        assert!((ratio(&stage, "tokens") - 0.3).abs() < 1e-9);
        stage.reload(&without_breakers(&without_waits(crate::stage::USUAL)));
        stage.reload(&with_quota("{ tokens: 2000 }"));
        assert!((ratio(&stage, "tokens") - 0.3).abs() < 1e-9);
    });
}

/// What a quota has counted, and what the ledger has of its client, period and currency.
async fn counted_and_booked(stage: &Stage) -> Option<(state::Standing, state::Amounts)> {
    stage.comes_to_rest().await;
    stage.live.gather();
    let quota = stage.live.running().quotas.named("app")?.clone();
    let period = quota.period(base::Clock.wall());
    let (from, to) = (Duration::from_secs(period.start), Some(Duration::from_secs(period.end)));
    let question = Question { from, to, client: Some("app".into()), ..Question::default() };
    let rows = stage.live.usage_ledger.store.report(question).await.unwrap();
    let own = rows.iter().filter(|row| row.currency == quota.terms.currency);
    let booked = state::Amounts {
        tokens: rows.iter().map(|row| row.sums.tokens_in + row.sums.tokens_out).sum(),
        cost: own.map(|row| row.sums.cost).sum(),
    };
    Some((quota.account().standing(period), booked))
}

#[test]
fn however_reloads_change_a_quota_nothing_spent_is_lost_or_counted_in_another_currency() {
    let quotas = [
        "{ tokens: 100000000 }",
        "{ tokens: 90000000, cost: 1000 }",
        "{ cost: 1000, currency: CNY }",
        "{ cost: 1000, per: day }",
        "{ tokens: 100000000, timezone: Asia/Shanghai }",
        "{ cost: 1000, currency: CNY, per: day, timezone: America/New_York }",
    ];
    storms(0..40, |storm: Storm| async move {
        let without = without_breakers(&without_waits(crate::stage::USUAL));
        let config = || match storm.number(0..quotas.len() + 1) {
            0 => without.clone(),
            one => with_prices(quotas[one - 1]),
        };
        let stage = std::rc::Rc::new(Stage::set(&config()));
        let slow = Reply::say(["Hi", "you"]).every(Duration::from_secs(2)).usage(used(100, 200));
        stage.host(
            "a",
            Script::replies((0..40).map(|_| match storm.chance(0.4) {
                true => Reply::status(500),
                false => slow.clone(),
            })),
        );
        stage.host("b", slow.clone());
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut callers = tokio::task::JoinSet::new();
                for _ in 0..12 {
                    for _ in 0..storm.number(0..3) {
                        let (stage, ask) = (stage.clone(), hello(500));
                        let ask = if storm.chance(0.7) { ask.stream() } else { ask };
                        let patience = storm.ms(100..20_000);
                        callers.spawn_local(async move {
                            let _ = tokio::time::timeout(patience, stage.ask(ask)).await;
                        });
                    }
                    tokio::time::sleep(storm.ms(0..6000)).await;
                    stage.reload(&config());
                    if storm.chance(0.2) {
                        while callers.join_next().await.is_some() {}
                        if let Some((standing, booked)) = counted_and_booked(&stage).await {
                            assert_eq!((standing.spent, standing.reserved), (booked, state::Amounts::default()));
                        }
                    }
                }
                stage.reload(&with_prices(quotas[storm.number(0..quotas.len())]));
                while callers.join_next().await.is_some() {}
            })
            .await;
        let (standing, booked) = counted_and_booked(&stage).await.unwrap();
        assert_eq!((standing.spent, standing.reserved), (booked, state::Amounts::default()));
    });
}

#[test]
fn in_any_storm_the_quota_has_what_the_ledger_has_and_nothing_stays_put_aside() {
    storms(0..40, |storm: Storm| async move {
        let stage = std::rc::Rc::new(Stage::set(&with_quota("{ tokens: 100000000, cost: 1000 }")));
        for host in ["a", "b"] {
            let replies: Vec<Reply> = (0..20).map(|_| storm.reply(0.6)).collect();
            stage.host(host, Scenario::from(Script::replies(replies)));
        }
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut callers = tokio::task::JoinSet::new();
                for _ in 0..30 {
                    let (stage, begin, patience) = (stage.clone(), storm.ms(0..3000), storm.ms(10..20_000));
                    let ask = if storm.chance(0.5) { hello(500).stream() } else { hello(500) };
                    callers.spawn_local(async move {
                        tokio::time::sleep(begin).await;
                        let _ = tokio::time::timeout(patience, stage.ask(ask)).await;
                    });
                }
                while callers.join_next().await.is_some() {}
            })
            .await;
        let sums = ledger(&stage).await;
        let quota = stage.live.running().quotas.named("app").unwrap().clone();
        let standing = quota.account().standing(quota.period(base::Clock.wall()));
        assert_eq!(standing.reserved, state::Amounts::default());
        assert_eq!(standing.spent.tokens, sums.tokens_in + sums.tokens_out);
    });
}

#[test]
fn what_a_call_would_put_aside_is_no_more_than_what_is_left() {
    story(async {
        let config = with_quota("{ tokens: 400 }");
        let stage = Stage::set(&config);
        stage.host("a", Reply::say(["Hi"]).usage(used(100, 50)));
        let body = || hello(1000).bytes();
        let aside = || {
            let told = gateway::explain::explain_live(&stage.live, "app", base::Endpoint::Chat, body()).unwrap();
            told["quota"]["aside_tokens"].clone()
        };
        let told = gateway::explain::explain(&crate::stage::snapshot(&config), "app", base::Endpoint::Chat, body());
        assert_eq!((&told.unwrap()["quota"]["aside_tokens"], aside()), (&json!(400), json!(400)));
        assert_eq!(stage.ask(hello(50)).await.status, 200);
        stage.comes_to_rest().await;
        assert_eq!(aside(), json!(250));
    });
}

/// Answers to so many calls at once.
async fn together(stage: &Stage, calls: usize, ask: &Ask) -> Vec<Answer> {
    let mut callers = Vec::new();
    for _ in 0..calls {
        callers.push(begun(stage, ask.clone()).await);
    }
    answers(callers).await
}

/// A question with an image that only its URL is known of.
fn picture() -> Ask {
    let image = json!({"type": "image_url", "image_url": {"url": "https://a/b.png"}});
    let ask = chat("chat").with("messages", json!([{"role": "user", "content": [image]}]));
    ask.with("max_tokens", 10)
}

#[test]
fn an_image_of_which_only_the_url_is_known_is_put_aside_by_what_the_model_takes_for_one() {
    story(async {
        let config = with_quota("{ tokens: 100000 }").replace("model: model-a", "model: gpt-4o-mini");
        assert!(config.contains("gpt-4o-mini"), "{config}");
        let stage = Stage::set(&config);
        let slow = Reply::say(["Hi"]).usage(used(25_520, 10)).after(Duration::from_secs(1));
        let a = stage.host("a", slow);
        let all = together(&stage, 10, &picture()).await;
        let served = all.iter().filter(|answer| answer.status == 200).count();
        assert_eq!((served, a.calls().len()), (3, 3), "three times 25,501 fit into 100,000");
    });
}

#[test]
fn a_policy_that_asks_for_more_answers_is_reckoned_with_before_the_call() {
    story(async {
        let app = "  - { name: app, keys: [sk-app], routes: [\"*\"] }";
        for rule in ["force", "default"] {
            let limited = format!(
                "  - {{ name: app, keys: [sk-app], routes: [\"*\"], limit: {{ tokens_per_minute: 1000 }}, params: {{ {rule}: {{ n: 50 }} }} }}"
            );
            let stage = Stage::set(&usual_but(app, &limited));
            stage.host("a", Reply::say(["Hi"]).usage(used(10, 10)).after(Duration::from_secs(1)));
            let both = together(&stage, 2, &hello(100)).await;
            let statuses: Vec<_> = both.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{rule}: {statuses:?}");
        }
    });
}
