//! How much of a prompt goes out: the token budget, and the windows of upstreams.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use base::Endpoint;
use dialect::{Encoding, Tokenizer};
use serde_json::{Value, json};
use testkit::{Ask, Host, Reply, Request, Scenario, chat, story};

use crate::stage::{KEY, Stage, pleasant, snapshot};

/// A gateway with one provider and these routes over it.
fn stage(routes: &str) -> Stage {
    Stage::set(&config(routes))
}

fn config(routes: &str) -> String {
    format!(
        "providers: [{{ name: a, protocol: openai, base_url: \"http://a/v1\" }}, {{ name: b, protocol: openai, base_url: \"http://b/v1\" }}]\nroutes:\n{routes}\nclients: [{{ name: app, keys: [{KEY}], routes: [\"*\"] }}]\n"
    )
}

fn route(name: &str, model: &str, context: &str) -> String {
    format!("  - {{ name: {name}, upstreams: [{{ provider: a, model: {model} }}], context: {context} }}\n")
}

fn tokenizer() -> Arc<Tokenizer> {
    O200K.clone()
}

static O200K: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| Arc::new(Tokenizer::openai(Encoding::O200k).unwrap()));

/// What a model counts, by OpenAI's rule: three and the role around each message, three for the answer.
fn count(tokenizer: &Tokenizer, body: &Value) -> u64 {
    let text = |value: &Value| value.as_str().map_or(0, |text| tokenizer.count(text));
    let message = |message: &Value| {
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        let calls: u64 =
            calls.iter().map(|call| text(&call["function"]["name"]) + text(&call["function"]["arguments"])).sum();
        4 + text(&message["content"]) + calls
    };
    3 + body["messages"].as_array().unwrap().iter().map(message).sum::<u64>()
}

/// Why a strict upstream would not take a conversation: each result follows a call of that id, each
/// call has its result before anybody else speaks.
fn fault(body: &Value) -> Option<String> {
    let mut owed: BTreeSet<&str> = BTreeSet::new();
    for message in body["messages"].as_array()? {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str()?;
            if !owed.remove(id) {
                return Some(format!("a result of {id}, which nobody called"));
            }
            continue;
        }
        if let Some(id) = owed.first() {
            return Some(format!("no result of {id}"));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            owed.insert(call["id"].as_str()?);
        }
    }
    owed.first().map(|id| format!("no result of {id}"))
}

/// A model that tells its usage and, where it is strict, takes no broken conversation.
fn model(tokenizer: Arc<Tokenizer>, is_strict: bool) -> Scenario {
    Scenario::of([]).improvise(move |request: &Request| {
        let body = request.json.clone().unwrap();
        if let Some(fault) = fault(&body).filter(|_| is_strict) {
            let mut refusal = Reply::status(400);
            refusal.body = Reply::json(json!({"error": {"message": fault, "type": "invalid_request_error"}})).body;
            return refusal;
        }
        let prompt = count(&tokenizer, &body);
        Reply::json(json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1},
        }))
    })
}

fn ask(name: &str, messages: &[Value]) -> Ask {
    messages.iter().cloned().fold(chat(name), Ask::message)
}

fn says(role: &str, text: impl Into<String>) -> Value {
    json!({"role": role, "content": text.into()})
}

fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "search", "arguments": "{\"q\":\"差旅报销\"}"}});
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str, text: impl Into<String>) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text.into()})
}

const SENTENCE: &str = "公司差旅报销需要在出差结束后三十天内提交发票和行程单，逾期由部门主管审批。";

fn last(host: &Host) -> Value {
    host.calls().last().unwrap().request.json.clone().unwrap()
}

/// Conversations in which a careless cut would separate a call from its result.
fn conversations() -> Vec<(&'static str, Vec<Value>)> {
    let long = SENTENCE.repeat(12);
    let open = [says("system", "Answer briefly."), says("user", long.clone()), says("assistant", long.clone())];
    let with = |more: Vec<Value>| open.iter().cloned().chain(more).collect::<Vec<_>>();
    let one = vec![
        says("user", "Search."),
        calls(&["a"]),
        result("a", long.clone()),
        says("assistant", long.clone()),
        says("user", "And now?"),
    ];
    let two = vec![
        says("user", "Search twice."),
        calls(&["a", "b"]),
        result("b", long.clone()),
        result("a", SENTENCE),
        says("assistant", SENTENCE),
        says("user", "And now?"),
    ];
    let agent = vec![
        says("user", "Search until you know."),
        calls(&["a"]),
        result("a", long.clone()),
        calls(&["b", "c"]),
        result("b", SENTENCE),
        result("c", SENTENCE),
    ];
    let huge =
        vec![says("user", "Search."), calls(&["a"]), result("a", SENTENCE.repeat(120)), says("user", "And now?")];
    let developer = [
        says("developer", "Answer briefly."),
        says("user", long.clone()),
        says("assistant", long),
        says("user", "And?"),
    ];
    vec![
        ("one call", with(one)),
        ("two calls side by side", with(two)),
        ("an agent's last result", with(agent)),
        ("a huge result", with(huge)),
        ("a developer's word", developer.to_vec()),
    ]
}

#[test]
fn at_every_budget_a_strict_upstream_takes_what_is_left() {
    story(async {
        let budgets: Vec<u64> = (50..=5000).step_by(150).collect();
        let routes: String = budgets
            .iter()
            .map(|budget| route(&format!("b{budget}"), "gpt-4o", &format!("{{ budget: {budget} }}")))
            .collect();
        let stage = stage(&routes);
        let tokenizer = tokenizer();
        let a = stage.host("a", model(tokenizer.clone(), true));
        for (what, messages) in conversations() {
            let whole = count(&tokenizer, &json!({"messages": messages}));
            let question = messages.iter().rposition(|message| message["role"] == "user").unwrap();
            let mut least_fit = None;
            for budget in &budgets {
                let before = a.calls().len();
                let answer = stage.ask(ask(&format!("b{budget}"), &messages)).await;
                if answer.status == 400 {
                    assert_eq!(answer.code().as_deref(), Some("context_length_exceeded"), "{what}: {}", answer.text());
                    assert_eq!((a.calls().len(), least_fit), (before, None), "{what} at {budget}");
                    continue;
                }
                assert_eq!(answer.status, 200, "{what} at {budget}: {}", answer.text());
                least_fit.get_or_insert(*budget);
                let sent = last(&a);
                let left = sent["messages"].as_array().unwrap();
                assert!(count(&tokenizer, &sent) <= *budget, "{what} at {budget}");
                assert!(left.contains(&messages[0]) && left.contains(&messages[question]), "{what} at {budget}");
                assert_eq!(left.last(), messages.last(), "{what} at {budget}");
                assert_eq!(
                    left.len() == messages.len(),
                    whole <= *budget,
                    "{what} at {budget}: no more goes than must"
                );
                assert_eq!(answer.header("x-mai-truncated").is_some(), whole > *budget);
            }
            assert!(least_fit.is_some_and(|least| least < 1000), "{what}: {least_fit:?}");
        }
    });
}

#[test]
fn a_list_that_was_broken_before_is_not_mended() {
    story(async {
        let stage = stage(&route("chat", "gpt-4o", "{ budget: 300 }"));
        let a = stage.host("a", pleasant());
        let broken =
            [says("user", SENTENCE.repeat(9)), calls(&["a", "b"]), result("a", SENTENCE), says("user", "And now?")];
        let tail = [says("user", "Search."), calls(&["a", "b"]), result("a", SENTENCE)];
        assert_eq!(stage.ask(ask("chat", &broken)).await.status, 200);
        assert_eq!(last(&a)["messages"], json!([says("user", "And now?")]));
        assert_eq!(stage.ask(ask("chat", &tail)).await.status, 200);
        assert_eq!(last(&a)["messages"], json!(tail));
    });
}

#[test]
fn what_fits_goes_out_as_it_came() {
    story(async {
        let stage = stage(&route("chat", "gpt-4o", "{ budget: 500, retrieval: { tag: context } }"));
        let a = stage.host("a", pleasant());
        let body = r#"{ "messages":[ {"role":"user","content":"<context>你\u597d</context> Hi","vendor":1.50 } ,{"role":"assistant","content":null}], "model":"chat","x":{} }"#;
        assert_eq!(stage.ask(chat("chat").body(body)).await.status, 200);
        let sent = String::from_utf8(a.calls()[0].request.body.to_vec()).unwrap();
        assert_eq!(sent, body.replace("\"model\":\"chat\"", "\"model\":\"gpt-4o\""));
        assert_eq!(stage.last_line().await["truncated"], Value::Null);
    });
}

#[test]
fn retrieved_passages_keep_to_their_share_however_they_are_marked() {
    story(async {
        let routes = [
            route("tag", "gpt-4o", "{ budget: 500, retrieval_share: 0.5, retrieval: { tag: context } }"),
            route("role", "gpt-4o", "{ budget: 500, retrieval_share: 0.5, retrieval: { role: context } }"),
            route("name", "gpt-4o", "{ budget: 500, retrieval_share: 0.5, retrieval: { name: kb } }"),
            route("tool", "gpt-4o", "{ budget: 500, retrieval_share: 0.5, retrieval: { role: tool } }"),
        ];
        let stage = stage(&routes.concat());
        let tokenizer = tokenizer();
        let a = stage.host("a", model(tokenizer.clone(), true));
        let passage = |at: usize| format!("{at}: {}", SENTENCE.repeat(2));
        let each = tokenizer.count(&passage(1));
        assert!((60..66).contains(&each), "three of {each} tokens and their tags are within the share, four are not");

        let mut text = String::from("Question? ");
        (1..=5).for_each(|at| write!(text, "<context id=\"{at}\">{}</context>", passage(at)).unwrap());
        let parts =
            json!({"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": "Why?"}]});
        for message in [says("user", text), parts] {
            let answer = stage.ask(ask("tag", std::slice::from_ref(&message))).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let sent = last(&a).to_string();
            for at in 1..=5 {
                assert_eq!(sent.contains(&format!("{at}: ")), at <= 3, "{sent}");
            }
            assert!(sent.contains("Question? ") && !sent.contains("id=\\\"4\\\""), "{sent}");
            assert!(answer.header("x-mai-truncated").unwrap().starts_with("history=0,retrieval=2,tokens="));
        }

        let messages = |mark: &dyn Fn(Value) -> Value| -> Vec<Value> {
            let passages = (1..=5).map(|at| mark(says("user", passage(at))));
            passages.chain([says("user", "Question?")]).collect()
        };
        let of_role = messages(&|message| json!({"role": "context", "content": message["content"]}));
        let of_name = messages(&|message| json!({"role": "user", "name": "kb", "content": message["content"]}));
        for (name, messages) in [("role", of_role), ("name", of_name)] {
            assert_eq!(stage.ask(ask(name, &messages)).await.status, 200);
            let left: Vec<Value> = messages[..3].iter().chain(messages.last()).cloned().collect();
            assert_eq!(last(&a)["messages"], json!(left), "{name}");
        }

        // A call has its result, be it empty.
        let found = [
            says("user", "Search."),
            calls(&["a", "b"]),
            result("a", SENTENCE.repeat(7)),
            result("b", SENTENCE.repeat(7)),
        ];
        assert_eq!(stage.ask(ask("tool", &found)).await.status, 200);
        assert_eq!(last(&a)["messages"][3], result("b", ""));
        assert_eq!(last(&a)["messages"][2], found[2]);
    });
}

#[test]
fn what_was_left_out_is_told_logged_and_counted() {
    story(async {
        let stage = stage(&route("chat", "gpt-4o", "{ budget: 200 }"));
        let tokenizer = tokenizer();
        let a = stage.host("a", model(tokenizer.clone(), true));
        let messages = [says("user", SENTENCE.repeat(9)), says("assistant", SENTENCE), says("user", "And now?")];
        let answer = stage.ask(ask("chat", &messages)).await;
        let saved = count(&tokenizer, &json!({"messages": messages})) - count(&tokenizer, &last(&a));
        let told = format!("history=2,retrieval=0,tokens={saved}");
        assert_eq!(answer.header("x-mai-truncated"), Some(told.as_str()));
        assert_eq!(stage.last_line().await["truncated"], told.as_str());
        assert_eq!(stage.metric(r#"mai_truncated_tokens_total{route="chat"}"#), saved as f64);

        let refused = stage.ask(ask("chat", &[says("user", SENTENCE.repeat(20))])).await;
        assert_eq!((refused.status, refused.header("x-should-retry")), (400, Some("false")));
        assert_eq!(refused.json()["error"]["param"], "messages");
        assert!(refused.text().contains("200"), "{}", refused.text());
        let line = stage.last_line().await;
        assert_eq!((&line["outcome"], &line["attempts"]), (&json!("caller_invalid"), &json!([])));
    });
}

#[test]
fn a_model_of_unknown_tokens_is_learned_from_its_usage() {
    story(async {
        let stage = stage(&route("chat", "qwen-plus", "{ budget: 2000 }"));
        let tokenizer = tokenizer();
        let a = stage.host("a", model(tokenizer.clone(), false));
        let english = "The committee that investigated the failures recommended a series of inspections, which nobody had asked for before. ";
        let japanese = "知識ベースのゲートウェイは、検索で拡張された質問をモデルに転送し、使用量を集計します。";
        let korean = "지식 기반 게이트웨이는 검색으로 보강된 질문을 모델에 전달하고 사용량을 집계합니다. ";
        let turns = |text: &str, letters: usize| -> Vec<Value> {
            let text: String = text.chars().cycle().take(letters).collect();
            (0..80).map(|at| says(["user", "assistant"][at % 2], text.clone())).chain([says("user", "And?")]).collect()
        };
        for text in [english, SENTENCE, japanese, korean, &format!("{english}{SENTENCE}")] {
            let messages = turns(text, 150);
            let whole = count(&tokenizer, &json!({"messages": messages}));
            assert!(whole > 2000);
            let mut sent = Vec::new();
            for _ in 0..4 {
                let answer = stage.ask(ask("chat", &messages)).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                sent.push(count(&tokenizer, &last(&a)));
            }
            assert!(sent.iter().all(|sent| *sent <= 2200), "{text}: {sent:?}");
            // A turn is about a tenth of the budget, and goes as a whole.
            assert!(sent[3] >= 1600, "{text}: {sent:?}");
            if text == english {
                assert!(sent[0] >= 1200, "{sent:?}");
            }
        }
    });
}

#[test]
fn awkward_texts_keep_to_the_budget_too() {
    story(async {
        let stage =
            stage(&[route("known", "gpt-4o", "{ budget: 2000 }"), route("unknown", "m", "{ budget: 2000 }")].concat());
        let tokenizer = tokenizer();
        let a = stage.host("a", model(tokenizer.clone(), false));
        let base64: String =
            (0..9000u32).map(|at| char::from(b"aB3dE6gH9jK2mN5pQ8sT1vW4yZ0+/"[(at * at % 29) as usize])).collect();
        let emoji = "🙂🚀👩‍👩‍👧‍👦🎉😂🔥".repeat(100);
        for text in [base64, emoji, " ".repeat(10_000), "\u{301}e\u{200d}".repeat(400)] {
            for (name, most) in [("known", 2000), ("unknown", 2200)] {
                let messages = [says("user", text.clone()), says("assistant", "Well."), says("user", "And now?")];
                let answer = stage.ask(ask(name, &messages)).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                assert!(count(&tokenizer, &last(&a)) <= most, "{name}");
            }
        }
    });
}

#[test]
fn images_and_tools_count_and_an_images_bytes_do_not() {
    story(async {
        let stage = stage(&route("chat", "gpt-4o", "{ budget: 1000 }"));
        let a = stage.host("a", pleasant());
        let image = |bytes: usize| {
            let url = format!("data:image/png;base64,{}", "A".repeat(bytes));
            json!({"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]})
        };
        let messages = [says("user", "Hello."), says("assistant", "Hello!"), image(100_000)];
        assert_eq!(stage.ask(ask("chat", &messages)).await.status, 200);
        assert_eq!(last(&a)["messages"].as_array().unwrap().len(), 3, "765 tokens, not 100,000");
        let twice = [image(10), says("assistant", "A cat."), image(10)];
        assert_eq!(stage.ask(ask("chat", &twice)).await.status, 200);
        assert_eq!(last(&a)["messages"].as_array().unwrap().len(), 1);
        let tools = json!([{"type": "function", "function": {"name": "f", "description": SENTENCE.repeat(50)}}]);
        let refused = stage.ask(ask("chat", &[says("user", "Hi")]).with("tools", tools.clone())).await;
        assert_eq!((refused.status, refused.code().as_deref()), (400, Some("context_length_exceeded")));
        assert_eq!(refused.json()["error"]["param"], "tools", "{}", refused.text());
        let few = json!([{"type": "function", "function": {"name": "f"}}]);
        let refused = stage.ask(ask("chat", &[says("user", SENTENCE.repeat(50))]).with("tools", few)).await;
        assert_eq!(refused.json()["error"]["param"], "messages", "{}", refused.text());
    });
}

#[test]
fn an_upstream_that_is_too_small_is_passed_over() {
    story(async {
        let stage = stage(
            "  - name: chat\n    upstreams: [{ provider: a, model: gpt-4o, context_window: 500 }, { provider: b, model: gpt-4o, tier: 1, context_window: 2000 }]\n",
        );
        let a = stage.host("a", pleasant());
        let b = stage.host("b", pleasant());
        for (times, status, calls) in [(1, 200, (1, 0)), (20, 200, (1, 1)), (40, 200, (1, 2)), (100, 400, (1, 2))] {
            let answer = stage.ask(chat("chat").user(&SENTENCE.repeat(times))).await;
            assert_eq!(answer.status, status, "{times}: {}", answer.text());
            assert_eq!((a.calls().len(), b.calls().len()), calls, "{times}");
            if status == 400 {
                assert_eq!(answer.code().as_deref(), Some("context_length_exceeded"));
                assert!(answer.text().contains("2000"), "{}", answer.text());
                assert_eq!(answer.json()["error"]["param"], "messages");
            }
        }
        assert_eq!(stage.last_line().await["attempts"], json!([]));
        let tools = json!([{"type": "function", "function": {"name": "f", "description": SENTENCE.repeat(100)}}]);
        let answer = stage.ask(chat("chat").user("Hi").with("tools", tools)).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("tools")), "{}", answer.text());
    });
}

#[test]
fn an_image_by_url_may_be_too_much_for_a_window_that_its_url_is_not() {
    story(async {
        let stage = stage(
            "  - name: chat\n    upstreams: [{ provider: a, model: gpt-4o-mini, context_window: 4096 }, { provider: b, model: gpt-4o-mini, tier: 1 }]\n",
        );
        let (a, b) = (stage.host("a", pleasant()), stage.host("b", pleasant()));
        let image =
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/cat.png"}}]});
        assert_eq!(stage.ask(ask("chat", &[image])).await.status, 200);
        assert_eq!((a.calls().len(), b.calls().len()), (0, 1));
    });
}

#[test]
fn each_prompt_of_a_list_keeps_to_the_budget_by_itself() {
    story(async {
        let stage = stage(
            "  - { name: chat, match: { path: /v1/completions }, upstreams: [{ provider: a, model: gpt-4o }], context: { budget: 150, retrieval: { tag: c } } }\n",
        );
        let a = stage.host("a", pleasant());
        let complete = |prompts: Value| {
            let body = json!({"model": "chat", "prompt": prompts, "suffix": "The end."});
            chat("chat").path("/v1/completions").body(body.to_string())
        };
        let list = json!(vec![SENTENCE; 20]);
        let answer = stage.ask(complete(list.clone())).await;
        assert_eq!((answer.status, &last(&a)["prompt"]), (200, &list), "{}", answer.text());
        let passages = |count| format!("Why? {}", format!("<c>{SENTENCE}</c>").repeat(count));
        let answer = stage.ask(complete(json!([passages(1), passages(8)]))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let kept = last(&a)["prompt"].clone();
        assert_eq!(kept[0], passages(1), "what fits stays whole, whatever stands beside it");
        assert!(kept[1].as_str().unwrap().starts_with("Why? <c>") && kept[1] != passages(8), "{kept}");
        let answer = stage.ask(complete(json!([SENTENCE, SENTENCE.repeat(20)]))).await;
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("context_length_exceeded")));
    });
}

#[test]
fn a_prompt_of_very_many_parts_is_cut_in_time() {
    story(async {
        let stage = stage(&route("chat", "unknown", "{ budget: 1000, retrieval: { tag: c } }"));
        let a = stage.host("a", pleasant());
        let passages = says("user", format!("Why? {}", "<c>x</c>".repeat(20_000)));
        let mut turns: Vec<Value> = (0..5_000).flat_map(|_| [says("user", "a"), says("assistant", "b")]).collect();
        turns.push(says("user", "Why?"));
        let mut calls: Vec<Value> = (0..3_000).flat_map(|_| [self::calls(&["a"]), result("a", "b")]).collect();
        calls.insert(0, says("user", "Why?"));
        for messages in [vec![passages], turns, calls] {
            let answer = stage.ask(ask("chat", &messages)).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.header("x-mai-truncated").is_some());
        }
        assert_eq!(a.calls().len(), 3);
    });
}

#[test]
fn explain_tells_what_would_be_left_out() {
    let routes = route("chat", "gpt-4o", "{ budget: 200 }");
    let snapshot = snapshot(&config(&routes));
    let explain = |messages: &[Value]| {
        let body = json!({"model": "chat", "messages": messages}).to_string();
        gateway::explain::explain(&snapshot, "app", Endpoint::Chat, body.into()).unwrap()
    };
    let told = explain(&[says("user", SENTENCE.repeat(9)), says("assistant", SENTENCE), says("user", "And now?")]);
    assert_eq!((&told["context"]["budget"], &told["context"]["history"]), (&json!(200), &json!(2)));
    assert!(told["context"]["prompt_tokens"].as_u64() > told["context"]["left_out_tokens"].as_u64());
    let refused = explain(&[says("user", SENTENCE.repeat(20))]);
    assert_eq!(refused["refused"]["code"], "context_length_exceeded");
}

/// A conversation of forty turns as a knowledge base's users have it: each call repeats all that was
/// said, with the passages that were found for the last question.
fn long_conversation() -> Vec<Vec<Value>> {
    let mut said = vec![says("system", "Answer from the passages. Say so where they do not tell.")];
    let mut calls = Vec::new();
    for turn in 0..40 {
        let mut question = format!("Question {turn}: {}", SENTENCE.repeat(1 + turn % 2));
        let mut call = said.clone();
        said.push(says("user", question.clone()));
        for passage in 0..5 {
            write!(question, "<context>{turn}.{passage} {}</context>", SENTENCE.repeat(2 + passage % 3)).unwrap();
        }
        call.push(says("user", question));
        calls.push(call);
        said.push(says("assistant", format!("{turn}: {}", SENTENCE.repeat(2 + turn % 3))));
    }
    calls
}

#[test]
fn a_long_conversation_spends_a_third_less_with_a_budget() {
    story(async {
        let stage = stage(
            &[
                route("bounded", "gpt-4o", "{ budget: 2000, retrieval: { tag: context } }"),
                route("unbounded", "gpt-4o", "{ retrieval: { tag: context } }"),
            ]
            .concat(),
        );
        let a = stage.host("a", model(tokenizer(), true));
        let mut spent = [0.0, 0.0];
        for messages in long_conversation() {
            for (name, spent) in ["bounded", "unbounded"].into_iter().zip(&mut spent) {
                let answer = stage.ask(ask(name, &messages)).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                *spent += answer.json()["usage"]["prompt_tokens"].as_f64().unwrap();
            }
        }
        assert_eq!(a.calls().len(), 80);
        let saved = 1.0 - spent[0] / spent[1];
        assert!(saved >= 0.35, "{:.1} % of {} tokens", saved * 100.0, spent[1]);
        // What was saved is what the gateway says that it saved.
        stage.comes_to_rest().await;
        assert_eq!(stage.metric(r#"mai_truncated_tokens_total{route="bounded"}"#), spent[1] - spent[0]);
        println!("{:.1} % of {} prompt tokens saved", saved * 100.0, spent[1]);
    });
}
