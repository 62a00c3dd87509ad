//! What callers may ask of a model, by route and by client.

use serde_json::{Value, json};
use testkit::{Host, Scenario, Strict, chat, story};

use crate::stage::{Stage, USUAL, pleasant, snapshot};

/// The usual configuration with these parameters of its chat route and of its first client.
fn configured(route: &str, client: &str) -> String {
    USUAL
        .replace("  - name: chat\n", &format!("  - name: chat\n    params: {route}\n"))
        .replace("routes: [\"*\"] }", &format!("routes: [\"*\"], params: {client} }}"))
}

/// The usual gateway with these parameters of its chat route and of its first client.
fn ruled(route: &str, client: &str) -> Stage {
    Stage::set(&configured(route, client))
}

const HI: &str = r#""messages":[{"role":"user","content":"Hi"}]"#;

/// What the upstream sees of a chat call with these fields, `model` and messages apart.
async fn seen(stage: &Stage, a: &Host, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { "," };
    let before = a.calls().len();
    let answer = stage.ask(chat("chat").body(format!(r#"{{"model":"chat",{HI}{comma}{fields}}}"#))).await;
    if answer.status != 200 {
        assert_eq!(a.calls().len(), before, "what is refused reaches no upstream");
        let error = answer.json()["error"].clone();
        return format!(
            "{} {} {}",
            answer.status,
            error["code"].as_str().unwrap(),
            error["param"].as_str().unwrap_or("-")
        );
    }
    let body = String::from_utf8(a.calls()[before].request.body.to_vec()).unwrap();
    let seen = body.strip_prefix(&format!(r#"{{"model":"model-a",{HI}"#)).expect("nothing before is touched");
    seen.strip_prefix(',').unwrap_or(seen).strip_suffix('}').unwrap().to_owned()
}

#[test]
fn a_policy_changes_what_it_names_and_no_byte_besides() {
    story(async {
        let stage = ruled(
            "{ force: { temperature: 0.2 }, default: { top_p: 0.90 }, max: { n: 2 }, min: { presence_penalty: -1.5 }, deny: [logit_bias] }",
            "{}",
        );
        let a = stage.host("a", pleasant());
        for (written, sent) in [
            (r#""top_p":1.0"#, r#""top_p":1.0,"temperature":0.2"#),
            (r#""temperature":1.9, "x" : [ 1.0 ],"top_p":null"#, r#""temperature":0.2, "x" : [ 1.0 ],"top_p":0.90"#),
            (r#""temperature":0.20,"top_p":0.1,"n":2"#, r#""temperature":0.20,"top_p":0.1,"n":2"#),
            (r#""temperature":null,"top_p":0.1,"n":7"#, r#""temperature":0.2,"top_p":0.1,"n":2"#),
            (r#""top_p":1,"n":1e400"#, r#""top_p":1,"n":2,"temperature":0.2"#),
            (r#""top_p":1,"presence_penalty":-2"#, r#""top_p":1,"presence_penalty":-1.5,"temperature":0.2"#),
            (r#""top_p":1,"n":null"#, r#""top_p":1,"n":null,"temperature":0.2"#),
            (r#""logit_bias":null,"top_p":1"#, r#""top_p":1,"temperature":0.2"#),
            (r#""logit_bias":{}"#, "400 parameter_denied logit_bias"),
            (r#""logit\u005fbias":{}"#, "400 parameter_denied logit_bias"),
            (r#""n":"7""#, "400 invalid_request n"),
            (r#""n":[7]"#, "400 invalid_request n"),
        ] {
            assert_eq!(seen(&stage, &a, written).await, sent, "{written}");
        }
        let line = stage.last_line().await;
        assert_eq!(
            (&line["outcome"], &line["route"], &line["attempts"]),
            (&json!("caller_invalid"), &json!("chat"), &json!([]))
        );
        assert_eq!(stage.metric(r#"mai_rejected_total{client="app",reason="policy_denied"}"#), 2.0);
    });
}

#[test]
fn a_denied_call_says_that_no_repeat_helps() {
    story(async {
        let stage = ruled("{ deny: [logit_bias] }", "{}");
        let answer = stage.ask(chat("chat").user("Hi").with("logit_bias", json!({}))).await;
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("parameter_denied")));
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.header("x-mai-route"), Some("chat"));
        assert_eq!(stage.last_line().await["outcome"], "policy_denied");
    });
}

#[test]
fn paths_reach_into_objects_and_make_what_is_missing() {
    story(async {
        let stage = ruled(
            "{ force: { response_format.type: json_object, thinking.budget.tokens: 5 }, deny: [chat_template_kwargs.enable_thinking] }",
            "{ default: { thinking.type: on }, max: { options.num_ctx: 100 } }",
        );
        let a = stage.host("a", pleasant());
        let made = r#""response_format":{"type":"json_object"},"thinking":{"type":"on","budget":{"tokens":5}}"#;
        for (written, sent) in [
            ("", made.to_owned()),
            (r#""response_format":null,"thinking":{}"#, made.to_owned()),
            (
                r#""response_format":"text","thinking":{"budget":7}"#,
                r#""response_format":{"type":"json_object"},"thinking":{"budget":{"tokens":5},"type":"on"}"#.to_owned(),
            ),
            (
                r#""response_format":{ "type":"text", "y":1.50 },"thinking":{"type":"off","budget":{"tokens":5}}"#,
                r#""response_format":{ "type":"json_object", "y":1.50 },"thinking":{"type":"off","budget":{"tokens":5}}"#.to_owned(),
            ),
            (r#""options":{"num_ctx":101}"#, format!(r#""options":{{"num_ctx":100}},{made}"#)),
            (r#""options":{}"#, format!(r#""options":{{}},{made}"#)),
            (r#""options":[{"num_ctx":101}]"#, format!(r#""options":[{{"num_ctx":101}}],{made}"#)),
            (r#""chat_template_kwargs":{}"#, format!(r#""chat_template_kwargs":{{}},{made}"#)),
            (
                r#""chat_template_kwargs":{"enable_thinking":false}"#,
                "400 parameter_denied chat_template_kwargs.enable_thinking".to_owned(),
            ),
        ] {
            assert_eq!(seen(&stage, &a, written).await, sent, "{written}");
        }
    });
}

#[test]
fn two_names_for_one_limit_are_one_field() {
    story(async {
        let stage = ruled("{ max: { max_tokens: 500 } }", "{}");
        let a = stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
        for (written, sent) in [
            ("", r#""max_tokens":500"#),
            (r#""max_tokens":400"#, r#""max_tokens":400"#),
            (r#""max_tokens":4000"#, r#""max_tokens":500"#),
            (r#""max_completion_tokens":4000"#, r#""max_completion_tokens":500"#),
            (r#""max_completion_tokens":7"#, r#""max_completion_tokens":7"#),
            (r#""max_completion_tokens":null"#, r#""max_completion_tokens":500"#),
            (r#""max_completion_tokens":null,"max_tokens":null"#, r#""max_tokens":500"#),
            (r#""max_tokens":0"#, r#""max_tokens":500"#),
            (r#""max_tokens":-1"#, r#""max_tokens":500"#),
            (r#""max_tokens":"100""#, "400 invalid_request max_tokens"),
            (r#""max_completion_tokens":true"#, "400 invalid_request max_completion_tokens"),
        ] {
            assert_eq!(seen(&stage, &a, written).await, sent, "{written}");
        }
        // Where the caller wrote both, both are bounded and both go out: the upstream judges.
        stage.ask(chat("chat").user("Hi").with("max_tokens", 9000).with("max_completion_tokens", 8000)).await;
        let both = a.calls().last().unwrap().request.json.clone().unwrap();
        assert_eq!((&both["max_tokens"], &both["max_completion_tokens"]), (&json!(500), &json!(500)));
    });
}

#[test]
fn what_is_forced_or_filled_in_takes_the_name_that_the_caller_used() {
    story(async {
        for (rule, by_default) in [("force", 4000), ("default", 7)] {
            let stage = ruled(&format!("{{ {rule}: {{ max_tokens: 500 }} }}"), "{}");
            let a = stage.host("a", Scenario::of([]).strict(Strict::OpenAi));
            let kept = if rule == "force" { 500 } else { by_default };
            assert_eq!(seen(&stage, &a, "").await, r#""max_tokens":500"#);
            assert_eq!(
                seen(&stage, &a, &format!(r#""max_completion_tokens":{by_default}"#)).await,
                format!(r#""max_completion_tokens":{kept}"#)
            );
        }
        let stage = ruled("{ deny: [max_completion_tokens] }", "{}");
        let a = stage.host("a", pleasant());
        assert_eq!(seen(&stage, &a, r#""max_tokens":1"#).await, "400 parameter_denied max_tokens");
    });
}

#[test]
fn of_a_route_and_a_client_the_stricter_rules() {
    story(async {
        let stage = ruled(
            "{ max: { max_tokens: 500, n: 1 }, force: { seed: 9 }, default: { temperature: 0.7 } }",
            "{ max: { max_completion_tokens: 200, n: 3, seed: 5 }, deny: [stop], default: { temperature: 0.3 } }",
        );
        let a = stage.host("a", pleasant());
        assert_eq!(
            seen(&stage, &a, r#""max_tokens":400,"n":2"#).await,
            r#""max_tokens":200,"n":1,"temperature":0.3,"seed":5"#
        );
        assert_eq!(seen(&stage, &a, r#""stop":["x"]"#).await, "400 parameter_denied stop");
        // The other client has no policy of its own, and the other routes have none.
        let narrow = chat("chat").body(format!(r#"{{"model":"chat",{HI}}}"#)).key("sk-narrow");
        assert_eq!(stage.caller().ask(&narrow).await.status, 403);
    });
}

#[test]
fn what_callers_write_in_ollamas_own_words_is_ruled_too() {
    story(async {
        let policy = "{ force: { temperature: 0.2, reasoning_effort: none }, max: { top_k: 5 }, default: { top_p: 0.9, min_p: 0.1 }, deny: [response_format, seed] }";
        let stage = ruled(policy, "{}");
        let a = stage.host("a", pleasant());
        let rest = r#","reasoning_effort":"none""#;
        for (written, sent) in [
            (
                r#""options":{"temperature":2,"top_k":99,"top_p":1,"num_ctx":8}"#,
                r#""options":{"top_k":5,"top_p":1,"num_ctx":8},"temperature":0.2,"min_p":0.1"#,
            ),
            (
                r#""think":"high","options":{"min_p":0,"top_p":null}"#,
                r#""options":{"min_p":0},"temperature":0.2,"top_p":0.9"#,
            ),
            (
                r#""top_k":9,"options":{"top_k":4}"#,
                r#""top_k":5,"options":{"top_k":4},"temperature":0.2,"top_p":0.9,"min_p":0.1"#,
            ),
        ] {
            let got = seen(&stage, &a, written).await;
            let (mut got, mut sent): (Vec<_>, Vec<_>) = (
                got.split(',').collect(),
                sent.split(',').chain(rest.split(',')).filter(|part| !part.is_empty()).collect(),
            );
            got.sort_unstable();
            sent.sort_unstable();
            assert_eq!(got, sent, "{written}");
        }
        for (written, told) in [
            (r#""format":"json""#, "400 parameter_denied format"),
            (r#""options":{"seed":1}"#, "400 parameter_denied options.seed"),
            (r#""options":{"top_k":"9"}"#, "400 invalid_request options.top_k"),
        ] {
            assert_eq!(seen(&stage, &a, written).await, told, "{written}");
        }
        let stage = ruled("{ force: { reasoning_effort: low, think: false } }", "{}");
        let a = stage.host("a", pleasant());
        let sent = r#""think":false,"reasoning_effort":"low""#;
        assert_eq!(seen(&stage, &a, r#""think":true"#).await, sent, "who rules both by name means both");
        let stage = ruled("{ max: { top_k: 5, options.top_k: 50 } }", "{}");
        let a = stage.host("a", pleasant());
        let written = r#""top_k":9,"options":{"top_k":40}"#;
        assert_eq!(
            seen(&stage, &a, written).await,
            r#""top_k":5,"options":{"top_k":40}"#,
            "who rules options means them"
        );
    });
}

#[test]
fn a_ruled_field_that_stands_twice_has_no_reading() {
    story(async {
        let stage = ruled("{ max: { n: 1, options.num_predict: 5 } }", "{}");
        let a = stage.host("a", pleasant());
        for (written, told) in [
            (r#""n":1,"n":50"#, "400 invalid_request n"),
            (r#""n":1,"N":50"#, "400 invalid_request n"),
            (r#""N":50"#, "400 invalid_request n"),
            (r#""options":{"num_predict":1,"num_predict":9}"#, "400 invalid_request options.num_predict"),
            (r#""options":{},"options":{"num_predict":9}"#, "400 invalid_request options"),
            (r#""x":1,"x":2"#, r#""x":1,"x":2"#),
        ] {
            assert_eq!(seen(&stage, &a, written).await, told, "{written}");
        }
    });
}

#[test]
fn every_endpoint_has_its_policy() {
    story(async {
        let policy =
            "params: { max: { max_tokens: 5, top_n: 1, dimensions: 8 }, default: { user: team }, deny: [secret] }";
        let config = USUAL.replace("    match: {", &format!("    {policy}\n    match: {{")).replace(
            "[/v1/chat/completions, /v1/completions]",
            "[/v1/chat/completions, /v1/completions, /v1/responses, /v1/moderations]",
        );
        let stage = Stage::set(&config);
        let a = stage.host("a", pleasant());
        let calls = [
            ("/v1/completions", json!({"model": "chat", "prompt": "Hi", "max_tokens": 9}), json!({"max_tokens": 5})),
            (
                "/v1/responses",
                json!({"model": "chat", "input": "Hi"}),
                json!({"max_output_tokens": 5, "max_tokens": null}),
            ),
            ("/v1/moderations", json!({"model": "chat", "input": "Hi"}), json!({"max_tokens": null})),
            (
                "/v1/embeddings",
                json!({"model": "embedding", "input": "Hi", "dimensions": 99}),
                json!({"dimensions": 8, "max_tokens": null}),
            ),
            (
                "/v1/rerank",
                json!({"model": "rerank", "query": "q", "documents": ["a", "b"], "top_n": 2}),
                json!({"top_n": 1, "max_tokens": null}),
            ),
        ];
        for (path, body, sent) in calls {
            let before = a.calls().len();
            stage.ask(chat("").path(path).body(body.to_string())).await;
            let call =
                a.calls().get(before).unwrap_or_else(|| panic!("{path} reached nobody")).request.json.clone().unwrap();
            assert_eq!(call["user"], "team", "{path}: {call}");
            for (name, value) in sent.as_object().unwrap() {
                assert_eq!(call.get(name).unwrap_or(&Value::Null), value, "{path}: {name} of {call}");
            }
            let mut body = body;
            body["secret"] = json!(1);
            let denied = stage.ask(chat("").path(path).body(body.to_string())).await;
            assert_eq!((denied.status, denied.code().as_deref()), (400, Some("parameter_denied")), "{path}");
        }
    });
}

#[test]
fn a_rule_for_a_field_of_rerank_holds_for_its_other_names() {
    story(async {
        let of = |policy: &str| {
            let stage =
                Stage::set(&USUAL.replace("  - name: rerank\n", &format!("  - name: rerank\n    params: {policy}\n")));
            stage.host("a", pleasant());
            stage
        };
        let asked = async |stage: &Stage, fields: &str| {
            let body = format!(r#"{{"model":"rerank","query":"q","documents":["a","b","c"],{fields}}}"#);
            let answer = stage.ask(chat("").path("/v1/rerank").body(body)).await;
            if answer.status != 200 {
                let error = answer.json()["error"].clone();
                return format!("{} {}", error["code"].as_str().unwrap(), error["param"].as_str().unwrap());
            }
            let (json, shown) = (answer.json(), |result: &Value| result.get("document").is_some());
            let results = json["results"].as_array().unwrap();
            format!(
                "{} {}{}",
                results.len(),
                results.iter().any(shown),
                if json["data"].is_array() { " voyage" } else { "" }
            )
        };
        let stage = of("{ max: { top_n: 2 }, force: { return_documents: false } }");
        for (fields, told) in [
            (r#""top_n":500"#, "2 false"),
            (r#""top_k":500"#, "2 false voyage"),
            (r#""top_n":null,"top_k":500,"return_text":true"#, "2 false voyage"),
            (r#""top_k":1,"return_documents":true"#, "1 false voyage"),
            (r#""top_n":500,"top_k":500"#, "2 false"),
            (r#""Top_K":500"#, "invalid_request top_k"),
        ] {
            assert_eq!(asked(&stage, fields).await, told, "{fields}");
        }
        let stage = of("{ default: { top_k: 2, return_text: true }, deny: [instruct] }");
        for (fields, told) in [
            (r#""x":1"#, "2 true"),
            (r#""top_k":1"#, "1 true voyage"),
            (r#""top_n":3,"return_documents":false"#, "3 false"),
            (r#""instruction":"i""#, "parameter_denied instruction"),
        ] {
            assert_eq!(asked(&stage, fields).await, told, "{fields}");
        }
    });
}

#[test]
fn explain_tells_what_would_be_changed() {
    let snapshot = snapshot(&configured(
        "{ max: { max_tokens: 500 }, force: { response_format.type: text } }",
        "{ deny: [seed], default: { top_p: 0.90 } }",
    ));
    let explain = |fields: &str| {
        let body = format!(r#"{{"model":"chat",{HI},{fields}}}"#);
        gateway::explain::explain(&snapshot, "app", base::Endpoint::Chat, body.into()).unwrap()
    };
    let told = explain(r#""max_completion_tokens":4000,"seed":null"#);
    let change = |field, by, written, sent| json!({"field": field, "by": by, "written": written, "sent": sent});
    let expected = json!([
        change("seed", "deny", Value::Null, Value::Null),
        change("top_p", "default", Value::Null, json!(0.9)),
        change("max_completion_tokens", "max", json!(4000), json!(500)),
        change("response_format.type", "force", Value::Null, json!("text")),
    ]);
    let mut found = told["params"].as_array().unwrap().clone();
    found.sort_by_key(|change| expected.as_array().unwrap().iter().position(|other| other["field"] == change["field"]));
    assert_eq!(serde_json::to_string(&found).unwrap().replace("0.90", "0.9"), expected.to_string());
    assert_eq!(explain(r#""seed":1"#)["refused"]["code"], "parameter_denied");
}
