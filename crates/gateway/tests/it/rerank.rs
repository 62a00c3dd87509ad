//! Rerank: documents in and out, and every provider's own dialect.

use serde_json::{Value, json};
use testkit::{Ask, Reply, Scenario, Script, Strict, get, rerank, story};

use crate::stage::Stage;

fn forms() -> Vec<Vec<Value>> {
    let (sky, apple) = ("blue sky", "red apples are sweet");
    vec![
        vec![sky.into(), apple.into()],
        vec![json!({"text": sky}), json!({"text": apple})],
        vec![sky.into(), json!({"text": apple})],
        vec![json!({"text": sky, "id": 1, "meta": {"page": 2}}), json!({"id": 2, "text": apple, "tags": []})],
    ]
}

/// How upstreams are known to give documents back, whatever was asked.
fn answers() -> Vec<Reply> {
    let with = |document: Option<Value>| {
        let mut result = json!({"index": 1, "relevance_score": 0.75});
        if let Some(document) = document {
            result["document"] = document;
        }
        let other = json!({"index": 0, "relevance_score": 0.25, "document": null});
        Reply::json(json!({"id": "r-1", "model": "m", "results": [result, other], "usage": {"total_tokens": 9}}))
    };
    vec![
        with(Some(json!({"text": "red apples are sweet"}))),
        with(Some(json!("red apples are sweet"))),
        with(Some(Value::Null)),
        with(None),
    ]
}

#[test]
fn documents_come_back_as_the_caller_wrote_them_when_asked_for_and_never_otherwise() {
    story(async {
        for reply in answers() {
            for documents in forms() {
                let stage = Stage::usual();
                stage.host("a", Script::always(reply.clone()));
                let ask = || rerank("rerank", "red apples", documents.clone());
                for quiet in [ask(), ask().with("return_documents", false), ask().with("return_documents", Value::Null)]
                {
                    let answer = stage.ask(quiet).await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    for result in answer.json()["results"].as_array().unwrap() {
                        assert!(result.get("document").is_none(), "{result}");
                    }
                }
                let answer = stage.ask(ask().with("return_documents", true)).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                let results = answer.json()["results"].clone();
                assert_eq!((&results[0]["index"], &results[1]["index"]), (&json!(1), &json!(0)));
                for result in results.as_array().unwrap() {
                    let own = &documents[usize::try_from(result["index"].as_u64().unwrap()).unwrap()];
                    let text = own.as_str().map_or_else(|| own["text"].clone(), Into::into);
                    assert_eq!(result["document"]["text"], text, "{result}");
                }
                assert_eq!(stage.last_line().await["tokens_in"], 9);
            }
        }
    });
}

/// Protocol, base URL, what the mock stands for, and the path that must be called.
const DIALECTS: [(&str, &str, Strict, &str); 17] = [
    ("cohere", "http://a", Strict::CohereV2, "/v2/rerank"),
    ("cohere", "http://a/", Strict::CohereV2, "/v2/rerank"),
    ("cohere", "http://a/v2", Strict::CohereV2, "/v2/rerank"),
    ("cohere", "http://a/v2/", Strict::CohereV2, "/v2/rerank"),
    ("cohere", "http://a/v1", Strict::CohereV1, "/v1/rerank"),
    ("cohere", "http://a/v1/", Strict::CohereV1, "/v1/rerank"),
    ("jina", "http://a/v1", Strict::Jina, "/v1/rerank"),
    ("jina", "http://a/v1/", Strict::Jina, "/v1/rerank"),
    ("openai", "http://a/v1", Strict::Jina, "/v1/rerank"),
    ("openai", "http://a/v1/", Strict::Jina, "/v1/rerank"),
    ("voyage", "http://a/v1", Strict::Voyage, "/v1/rerank"),
    ("voyage", "http://a/v1/", Strict::Voyage, "/v1/rerank"),
    ("tei", "http://a", Strict::Tei, "/rerank"),
    ("tei", "http://a/", Strict::Tei, "/rerank"),
    ("tei", "http://a/v1", Strict::Tei, "/rerank"),
    ("cohere", "http://a/v2/rerank", Strict::CohereV2, "/v2/rerank"),
    ("jina", "http://a/v1/rerank", Strict::Jina, "/v1/rerank"),
];

/// The route `rerank` over one provider.
fn ranker(protocol: &str, base: &str) -> String {
    format!(
        r#"
providers: [{{ name: a, protocol: {protocol}, base_url: "{base}", api_key: sk-a-secret }}]
routes: [{{ name: rerank, match: {{ path: /v1/rerank }}, upstreams: [{{ provider: a, model: rank }}] }}]
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
    )
}

fn ask() -> Ask {
    let documents = ["blue sky", "red apples are sweet", "红苹果很甜", "nothing of the kind"];
    rerank("rerank", "red apples", documents).with("top_n", 3).with("return_documents", true)
}

/// The answer without what no two providers share.
fn common(mut answer: Value) -> String {
    let object = answer.as_object_mut().unwrap();
    for own in ["id", "usage", "meta", "model"] {
        object.remove(own);
    }
    answer.to_string()
}

#[test]
fn one_request_gets_one_answer_whatever_the_provider_speaks() {
    story(async {
        let mut first: Option<String> = None;
        for (protocol, base, strict, path) in DIALECTS {
            let stage = Stage::set(&ranker(protocol, base));
            let a = stage.host("a", Scenario::of([]).strict(strict));
            let answer = stage.ask(ask()).await;
            assert_eq!(answer.status, 200, "{protocol} {base}: {}", answer.text());
            let calls = a.calls();
            assert_eq!((calls.len(), calls[0].request.path.as_str()), (1, path), "{protocol} {base}");
            let common = common(answer.json());
            assert_eq!(first.get_or_insert_with(|| common.clone()), &common, "{protocol} {base}");
            assert!(answer.json()["id"].is_string() && answer.json()["model"].is_string(), "{}", answer.text());
            assert!(stage.last_line().await["tokens_in"].as_u64().unwrap() > 0, "{protocol}");
        }
    });
}

#[test]
fn clients_of_every_provider_are_understood() {
    story(async {
        // Cohere's client in v2 and v1 mode, Jina's, Voyage's, and one for text-embeddings-inference.
        let documents = || json!(["blue sky", "red apples are sweet"]);
        let bodies = [
            (
                "/v2/rerank",
                json!({"model": "rerank", "query": "red apples", "documents": documents(), "top_n": 1, "max_tokens_per_doc": 4096}),
            ),
            (
                "/v1/rerank",
                json!({"model": "rerank", "query": "red apples", "documents": documents(), "top_n": 1, "return_documents": false, "max_chunks_per_doc": 10}),
            ),
            (
                "/rerank",
                json!({"model": "rerank", "query": "red apples", "documents": documents(), "top_n": 1, "truncation": true}),
            ),
            ("/v1/rerank", json!({"model": "rerank", "query": "red apples", "documents": documents(), "top_k": 1})),
            ("/v1/reranks", json!({"model": "rerank", "query": "red apples", "documents": documents(), "top_n": 1})),
        ];
        // OpenAI-like servers differ in their options, which they get as the caller wrote them.
        for (protocol, base, strict, _) in DIALECTS.into_iter().filter(|(protocol, ..)| *protocol != "openai") {
            let stage = Stage::set(&ranker(protocol, base));
            stage.host("a", Scenario::of([]).strict(strict));
            for (path, body) in &bodies {
                let answer = stage.ask(rerank("", "", [""; 0]).path(path).body(body.to_string())).await;
                assert_eq!(answer.status, 200, "{protocol} {body}: {}", answer.text());
                let results = answer.json()["results"].clone();
                assert_eq!(
                    (results.as_array().unwrap().len(), &results[0]["index"]),
                    (1, &json!(1)),
                    "{}",
                    answer.text()
                );
            }
            let tei = json!({"model": "rerank", "query": "red apples", "texts": documents()});
            let answer = stage.ask(rerank("", "", [""; 0]).path("/rerank").body(tei.to_string())).await;
            assert_eq!((answer.status, &answer.json()[0]["index"]), (200, &json!(1)), "{}", answer.text());
        }
    });
}

#[test]
fn a_ranking_that_is_none_is_no_answer() {
    story(async {
        let ranking = |results: Value| Reply::json(json!({"results": results}));
        let wrong = [
            ranking(json!([{"index": 7, "relevance_score": 0.5}])),
            ranking(json!([{"index": 0, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.4}])),
            ranking(json!([{"index": -1, "relevance_score": 0.5}])),
            ranking(json!([{"relevance_score": 0.5}])),
            ranking(json!([{"index": 0, "relevance_score": "high"}])),
            ranking(json!("none")),
            Reply::json(json!({"error": {"message": "the model is not loaded", "code": 503}})),
            Reply::text("<html>maintenance</html>"),
        ];
        for reply in wrong {
            let stage = Stage::usual();
            stage.host("a", Script::always(reply.clone()));
            stage.host("b", Script::new());
            let answer = stage.ask(rerank("rerank", "red apples", ["blue sky", "red apples"])).await;
            assert_eq!(
                (answer.status, answer.header("x-mai-upstream")),
                (200, Some("b/rank")),
                "{reply:?}: {}",
                answer.text()
            );
        }
    });
}

#[test]
fn requests_that_are_none_are_refused_by_name() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Script::new());
        let usual = || rerank("rerank", "red apples", ["blue sky"]);
        let wrong = [
            (usual().with("documents", json!([])), "documents"),
            (usual().with("documents", json!(["a", 5])), "documents"),
            (usual().with("documents", json!([null])), "documents"),
            (usual().with("documents", json!([{"id": 1}])), "documents"),
            (usual().with("documents", "blue sky"), "documents"),
            (usual().with("query", ""), "query"),
            (usual().with("query", Value::Null), "query"),
            (usual().with("top_n", "many"), "top_n"),
            (usual().with("return_documents", "yes"), "return_documents"),
        ];
        for (ask, field) in wrong {
            let answer = stage.ask(ask).await;
            assert_eq!(
                (answer.status, answer.code().as_deref()),
                (400, Some("invalid_request")),
                "{field}: {}",
                answer.text()
            );
            assert!(answer.json()["error"]["param"].as_str().unwrap().starts_with(field), "{}", answer.text());
        }
        assert_eq!(a.calls().len(), 0);
    });
}

#[test]
fn more_documents_than_a_server_takes_go_in_parts_and_come_back_as_one_ranking() {
    story(async {
        let documents: Vec<String> = (0..70).map(|n| format!("a text {}about apples", "very ".repeat(n % 7))).collect();
        let ask = || rerank("rerank", "apples", documents.clone()).with("top_n", 5).with("return_documents", true);
        let stage = Stage::set(&ranker("tei", "http://a"));
        let a = stage.host("a", Scenario::of([]).strict(Strict::Tei));
        let answer = stage.ask(ask()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!((a.calls().len(), answer.header("x-mai-attempts")), (3, Some("3")));
        let whole = Stage::set(&ranker("jina", "http://a/v1"));
        whole.host("a", Scenario::of([]).strict(Strict::Jina));
        assert_eq!(common(answer.json()), common(whole.ask(ask()).await.json()));
    });
}

/// LlamaIndex's reranker for text-embeddings-inference, and LiteLLM's, send `query` and `texts` and nothing else.
#[test]
fn a_client_of_tei_that_names_no_model_means_the_only_ranking_its_key_may_use() {
    story(async {
        let config = r#"
providers: [{ name: a, protocol: jina, base_url: "http://a/v1" }]
routes:
  - { name: vectors, match: { path: /v1/embeddings }, upstreams: [{ provider: a, model: m }] }
  - { name: one, match: { path: /v1/rerank, model: ranking }, upstreams: [{ provider: a, model: rank }], cache: { mode: exact } }
  - { name: two, match: { path: /v1/rerank }, upstreams: [{ provider: a, model: other }] }
clients:
  - { name: app, keys: [sk-app], routes: [one, vectors] }
  - { name: both, keys: [sk-both], routes: ["*"] }
  - { name: none, keys: [sk-none], routes: [vectors] }
"#;
        let stage = Stage::set(config);
        let a = stage.host("a", Scenario::of([]).strict(Strict::Jina));
        let texts = json!(["blue sky", "red apples are sweet"]);
        let post = |path: &str, body: Value| get(path).method("POST").body(body.to_string());
        let unnamed = || post("/rerank", json!({"query": "red apples", "texts": texts}));
        let answer = stage.ask(unnamed()).await;
        assert_eq!((answer.status, answer.header("x-mai-route")), (200, Some("one")), "{}", answer.text());
        assert_eq!(answer.json()[0]["index"], 1, "TEI's own list, the best first: {}", answer.text());
        assert_eq!(a.calls()[0].request.json.as_ref().unwrap()["model"], "rank");
        let named = post("/rerank", json!({"model": "ranking", "query": "red apples", "texts": texts}));
        let named = stage.ask(named).await;
        assert_eq!((named.header("x-mai-cache"), named.text()), (Some("hit"), answer.text()), "it is the same call");
        let snapshot = &stage.live.running().snapshot;
        let told = gateway::explain::explain(snapshot, "app", base::Endpoint::Rerank, unnamed().bytes());
        assert_eq!(told.unwrap()["route"], "one");
        for (unclear, key) in [
            (unnamed(), "sk-both"),
            (unnamed(), "sk-none"),
            (post("/rerank", json!({"model": null, "query": "q", "texts": ["a"]})), "sk-app"),
            (post("/rerank", json!({"query": "q", "documents": ["a"]})), "sk-app"),
            (post("/v1/embeddings", json!({"input": "a", "texts": ["a"]})), "sk-app"),
        ] {
            let refused = stage.caller().ask(&unclear.key(key)).await;
            assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (400, Some("model")), "{key}");
        }
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn scores_of_two_models_never_stand_in_one_ranking() {
    story(async {
        let documents: Vec<String> = (0..70).map(|n| format!("a text {}about apples", "very ".repeat(n % 7))).collect();
        let ask = || rerank("rerank", "apples", documents.clone());
        for (model, calls) in [("another", (3, 3)), ("rank", (3, 1))] {
            let two = format!(
                r#"
providers:
  - {{ name: a, protocol: tei, base_url: "http://a" }}
  - {{ name: b, protocol: tei, base_url: "http://b" }}
routes:
  - name: rerank
    match: {{ path: /v1/rerank }}
    upstreams: [{{ provider: a, model: rank }}, {{ provider: b, model: {model}, tier: 1 }}]
clients: [{{ name: app, keys: [sk-app], routes: ["*"] }}]
"#
            );
            let stage = Stage::set(&two);
            let a = stage.host("a", Script::from(Scenario::of([]).strict(Strict::Tei)).on_call(2, Reply::status(500)));
            let b = stage.host("b", Scenario::of([]).strict(Strict::Tei));
            let answer = stage.ask(ask()).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.json()["results"].as_array().unwrap().len(), 70);
            assert_eq!((a.calls().len(), b.calls().len()), calls, "{model}");
        }
    });
}

#[test]
fn a_call_of_more_documents_than_anybody_ranks_is_refused_before_it_costs_memory() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::say(["no"]));
        let documents: Vec<&str> = vec!["a"; 20_001];
        let answer = stage.ask(rerank("rerank", "q", documents)).await;
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("invalid_request")), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], "documents");
        assert_eq!(a.calls().len(), 0);
    });
}
