//! One request, one answer, whatever the provider.

use base::{Endpoint, Kind, Refusal};
use bytes::Bytes;
use dialect::{Ask, Protocol, Score, Target, dialect, rerank};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{answer, ask, read, sent, target, text, tree};

const PROTOCOLS: [Protocol; 5] = [Protocol::Cohere, Protocol::Jina, Protocol::Voyage, Protocol::Tei, Protocol::OpenAi];

fn call(body: &Value) -> Ask {
    ask(Endpoint::Rerank, &body.to_string())
}

fn refused(body: &Value) -> Refusal {
    read(Endpoint::Rerank, &body.to_string()).unwrap_err()
}

/// An answer with these `(index, score)`, as the provider writes it.
fn reply(protocol: Protocol, results: &[(usize, f64)]) -> String {
    let list =
        |score: &str| results.iter().map(|(index, value)| json!({"index": index, score: value})).collect::<Vec<_>>();
    match protocol {
        Protocol::Tei => json!(list("score")),
        Protocol::Voyage => {
            json!({"object": "list", "data": list("relevance_score"), "model": "m-1", "usage": {"total_tokens": 12}})
        }
        Protocol::Jina | Protocol::OpenAi => {
            json!({"model": "m-1", "results": list("relevance_score"), "usage": {"total_tokens": 12}})
        }
        _ => json!({"id": "c", "results": list("relevance_score"), "meta": {"tokens": {"input_tokens": 12}}}),
    }
    .to_string()
}

fn results(protocol: Protocol, ask: &Ask, upstream: &str) -> Vec<(u64, f64)> {
    let answer = answer(protocol, ask, upstream).unwrap();
    let list = tree(&answer.body)["results"].as_array().unwrap().clone();
    list.iter().map(|one| (one["index"].as_u64().unwrap(), one["relevance_score"].as_f64().unwrap())).collect()
}

#[test]
fn every_provider_gives_the_caller_the_same_bytes() {
    let ask = call(
        &json!({"model": "r", "query": "q", "documents": ["a", {"text": "b", "id": 1}, "c"], "top_n": 2, "return_documents": true}),
    );
    let mut headers = HeaderMap::new();
    headers.insert("x-compute-tokens", HeaderValue::from_static("12"));
    let answers: Vec<String> = PROTOCOLS
        .iter()
        .map(|protocol| {
            let body = Bytes::from(reply(*protocol, &[(2, 0.25), (1, 0.75), (0, 0.125)]));
            let answer = dialect(*protocol).answer(&ask, &target("/"), &headers, body).unwrap();
            assert_eq!(answer.usage.unwrap().prompt, 12);
            let (_, behind_the_id) = text(&answer).split_once("\"object\"").unwrap();
            behind_the_id.to_owned()
        })
        .collect();
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
    assert!(answers[0].contains(r#"[{"index":1,"relevance_score":0.75,"document":{"text":"b","id":1}},{"index":2,"#));
}

#[test]
fn nothing_goes_out_that_a_provider_does_not_know() {
    let full = call(&json!({
        "model": "r", "query": {"text": "q"}, "documents": ["a", {"text": "b", "image": "x"}], "rank_fields": ["text"],
        "top_n": 1, "return_documents": true, "max_tokens_per_doc": 7, "max_chunks_per_doc": 3, "overlap_tokens": 2,
        "truncate": "START", "instruct": "i", "raw_scores": true, "user": "u", "priority": 0, "extra": {"a": 1}, "top_k": null,
    }));
    for (protocol, known) in [
        (Protocol::Cohere, &["model", "query", "documents", "top_n", "max_tokens_per_doc"][..]),
        (Protocol::Jina, &["model", "query", "documents", "top_n", "return_documents", "truncation"]),
        (Protocol::Voyage, &["model", "query", "documents", "top_k", "return_documents", "truncation"]),
        (Protocol::Tei, &["query", "texts", "truncate", "truncation_direction", "raw_scores"]),
    ] {
        let body = tree(sent(protocol, &full).as_bytes());
        for (name, value) in body.as_object().unwrap() {
            assert!(known.contains(&name.as_str()) && !value.is_null(), "{protocol:?} {name}");
        }
        let texts = body.get("documents").or_else(|| body.get("texts")).unwrap();
        assert_eq!(texts, &json!(["a", "b"]), "{protocol:?}");
    }
    let bare =
        call(&json!({"model": "r", "query": "q", "documents": ["a"], "top_n": null, "max_tokens_per_doc": null}));
    assert_eq!(sent(Protocol::Cohere, &bare), r#"{"model":"m-1","query":"q","documents":["a"]}"#);
    assert_eq!(sent(Protocol::Tei, &bare), r#"{"query":"q","texts":["a"],"truncate":true}"#);
}

#[test]
fn servers_beside_openai_get_what_the_caller_gave_and_nothing_else() {
    let bare = call(&json!({"model": "r", "query": "q", "documents": [{"text": "a"}]}));
    let encode = |ask: &Ask| {
        let dialect::View::Rerank(view) = &ask.view else { panic!() };
        String::from_utf8(rerank::encode(ask, view, &target("/v1"), rerank::Wire::OpenAi).unwrap().body.to_vec())
            .unwrap()
    };
    assert_eq!(encode(&bare), r#"{"model":"m-1","query":"q","documents":["a"],"return_documents":false}"#);
    let full = call(&json!({"model": "r", "query": "q", "documents": ["a"], "instruction": "i", "overlap_tokens": 0}));
    assert_eq!(
        encode(&full),
        r#"{"model":"m-1","query":"q","documents":["a"],"return_documents":false,"overlap_tokens":0,"instruction":"i"}"#
    );
}

#[test]
fn documents_come_back_as_the_caller_wrote_them_only_when_asked_for() {
    let documents = json!(["plain", {"text": "t"}, {"text": "more", "id": 9, "tags": ["x"]}]);
    for theirs in [json!("other"), json!({"text": "other"}), json!(null), json!("absent")] {
        let list: Vec<Value> = (0..3)
            .map(|index| match theirs.as_str() {
                Some("absent") => json!({"index": index, "relevance_score": 0.5}),
                _ => json!({"index": index, "relevance_score": 0.5, "document": theirs}),
            })
            .collect();
        let upstream = json!({ "results": list }).to_string();
        for asked in [json!(null), json!(false), json!(true)] {
            let ask = call(&json!({"model": "r", "query": "q", "documents": documents, "return_documents": asked}));
            let body = tree(&answer(Protocol::Jina, &ask, &upstream).unwrap().body);
            let got: Vec<_> =
                body["results"].as_array().unwrap().iter().map(|one| one.get("document").cloned()).collect();
            if asked == json!(true) {
                let own = [json!({"text": "plain"}), documents[1].clone(), documents[2].clone()];
                assert_eq!(got, own.map(Some), "{theirs}");
            } else {
                assert_eq!(got, [None, None, None], "{theirs} {asked}");
            }
        }
    }
    let written =
        r#"{"model":"r","query":"q","documents":[{ "text" : "\u4f60" , "n": 1.50 }],"return_documents":true}"#;
    let answer =
        answer(Protocol::Jina, &ask(Endpoint::Rerank, written), r#"{"results":[{"index":0,"relevance_score":1}]}"#);
    assert!(text(&answer.unwrap()).contains(r#""document":{ "text" : "\u4f60" , "n": 1.50 }"#));
}

#[test]
fn what_cannot_be_ranked_is_refused_by_name() {
    let good = json!({"model": "r", "query": "q", "documents": ["a", "b"]});
    for (field, value, param) in [
        ("query", json!(""), "query"),
        ("query", json!(null), "query"),
        ("query", json!(5), "query"),
        ("query", json!({"image": "x"}), "query"),
        ("documents", json!([]), "documents"),
        ("documents", json!("a"), "documents"),
        ("documents", json!(null), "documents"),
        ("documents", json!(["a", null]), "documents[1]"),
        ("documents", json!(["a", {"image": "x"}]), "documents[1]"),
        ("top_n", json!(0), "top_n"),
        ("top_n", json!(-1), "top_n"),
        ("top_n", json!(1.5), "top_n"),
        ("top_n", json!("2"), "top_n"),
        ("top_k", json!(0), "top_k"),
        ("return_documents", json!("yes"), "return_documents"),
        ("max_tokens_per_doc", json!(0), "max_tokens_per_doc"),
        ("truncate", json!("MIDDLE"), "truncate"),
        ("rank_fields", json!("title"), "rank_fields"),
        ("rank_fields", json!(vec!["x"; 17]), "rank_fields"),
    ] {
        let mut body = good.clone();
        body[field] = value.clone();
        assert_eq!(refused(&body).param.as_deref(), Some(param), "{field} {value}");
    }
}

#[test]
fn top_n_is_cut_to_the_documents_and_holds_for_providers_that_ignore_it() {
    for (given, left) in [(json!(1), 1), (json!(2), 2), (json!(99), 3), (json!(null), 3)] {
        let ask = call(&json!({"model": "r", "query": "q", "documents": ["a", "b", "c"], "top_n": given}));
        for protocol in PROTOCOLS {
            let got = results(protocol, &ask, &reply(protocol, &[(0, 0.1), (1, 0.3), (2, 0.2)]));
            assert_eq!(got, [(1, 0.3), (2, 0.2), (0, 0.1)][..left], "{protocol:?} {given}");
        }
    }
    let huge = r#"{"model":"r","query":"q","documents":["a"],"top_n":100000000000000000000000}"#;
    assert!(sent(Protocol::Jina, &ask(Endpoint::Rerank, huge)).contains(r#""top_n":1"#));
}

#[test]
fn equal_scores_stand_in_the_callers_order() {
    let ask = call(&json!({"model": "r", "query": "q", "documents": ["a", "b", "c"]}));
    assert_eq!(
        results(Protocol::Tei, &ask, &reply(Protocol::Tei, &[(2, 0.5), (0, 0.5), (1, 0.5)])),
        [(0, 0.5), (1, 0.5), (2, 0.5)]
    );
}

#[test]
fn answers_that_do_not_fit_the_documents_are_the_upstreams_fault() {
    let ask = call(&json!({"model": "r", "query": "q", "documents": ["a", "b"]}));
    for upstream in [
        r#"[{"index":2,"score":0.1}]"#,
        r#"[{"index":0,"score":0.1},{"index":0,"score":0.2}]"#,
        r#"[{"index":-1,"score":0.1}]"#,
        r#"[{"score":0.1}]"#,
        r#"[{"index":0}]"#,
        r#"[{"index":0,"score":NaN}]"#,
        r#"[{"index":0,"score":"0.1"}]"#,
        r#"[{"index":0,"score":null}]"#,
        r#"[{"index":0,"score":1e999}]"#,
        r#"[]"#,
        r#"{"results":[]}"#,
        r#"{"results":null}"#,
        r#"{}"#,
        r#"null"#,
        r#"<html>"#,
        "",
    ] {
        let fault = answer(Protocol::Tei, &ask, upstream).unwrap_err();
        assert_eq!(fault.kind, Kind::BadResponse, "{upstream}");
    }
}

#[test]
fn scores_pass_to_the_last_digit_unless_they_are_logits() {
    let body = json!({"model": "r", "query": "q", "documents": ["a", "b"]});
    let upstream = r#"[{"index":0,"score":-3.50},{"index":1,"score":0.000}]"#;
    let logit = Target { score: Score::Logit, ..target("/") };
    let scores = |ask: &Ask, target: &Target<'_>| {
        let answer = dialect(Protocol::Tei).answer(ask, target, &HeaderMap::new(), Bytes::from(upstream)).unwrap();
        text(&answer).to_owned()
    };
    assert!(
        scores(&call(&body), &target("/"))
            .contains(r#"{"index":1,"relevance_score":0.000},{"index":0,"relevance_score":-3.50}"#)
    );
    let squeezed = scores(&call(&body), &logit);
    assert!(
        squeezed.contains(r#"{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.0293"#),
        "{squeezed}"
    );
    let mut raw = body;
    raw["raw_scores"] = json!(true);
    assert!(scores(&call(&raw), &logit).contains(r#"{"index":0,"relevance_score":-3.50}"#));
}

#[test]
fn a_caller_who_writes_texts_gets_a_bare_array() {
    let ask = ask(Endpoint::Rerank, r#"{"model":"r","query":"q","texts":["a","b"],"return_text":true}"#);
    let answer = answer(Protocol::Voyage, &ask, &reply(Protocol::Voyage, &[(1, 0.5), (0, 0.25)])).unwrap();
    assert_eq!(text(&answer), r#"[{"index":1,"score":0.5,"text":"b"},{"index":0,"score":0.25,"text":"a"}]"#);
}

#[test]
fn a_caller_who_writes_top_k_gets_data_too() {
    let body = r#"{"model":"r","query":"q","documents":["a",{"text":"b"}],"top_k":1,"return_documents":true}"#;
    let upstream = reply(Protocol::Tei, &[(1, 0.5), (0, 0.25)]);
    let got = tree(&answer(Protocol::Tei, &ask(Endpoint::Rerank, body), &upstream).unwrap().body);
    assert_eq!(got["data"], json!([{"index": 1, "relevance_score": 0.5, "document": "b"}]));
    assert_eq!(got["results"], json!([{"index": 1, "relevance_score": 0.5, "document": {"text": "b"}}]));
    let both = body.replace("\"top_k\":1", "\"top_k\":1,\"top_n\":2");
    assert!(tree(&answer(Protocol::Tei, &ask(Endpoint::Rerank, &both), &upstream).unwrap().body).get("data").is_none());
}

#[test]
fn usage_is_always_there_and_says_when_it_is_a_guess() {
    let ask = call(&json!({"model": "r", "query": "你好", "documents": ["a", "b"]}));
    let guessed = answer(Protocol::Tei, &ask, &reply(Protocol::Tei, &[(0, 0.5), (1, 0.5)])).unwrap();
    assert!(guessed.usage.unwrap().estimated);
    let body = tree(&guessed.body);
    assert!(body["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(body["meta"]["warnings"].as_array().unwrap().len(), 1);
    for told in [
        json!({"usage": {"prompt_tokens": 7}}),
        json!({"usage": {"total_tokens": 7, "prompt_tokens": 5}}),
        json!({"meta": {"billed_units": {"input_tokens": 7.0}}}),
        json!({"meta": {"tokens": {"input_tokens": 7, "output_tokens": null}}}),
        json!({"tokens": {"input_tokens": 7}}),
    ] {
        let mut upstream = told.clone();
        upstream["results"] = json!([{"index": 0, "relevance_score": 1}]);
        let counted = answer(Protocol::Cohere, &ask, &upstream.to_string()).unwrap();
        assert_eq!(counted.usage.unwrap().prompt, 7, "{told}");
        assert_eq!(tree(&counted.body)["meta"]["warnings"], json!([]));
    }
}

#[test]
fn a_large_call_is_split_and_ranked_as_one() {
    let documents: Vec<String> = (0..70).map(|at| format!("d{at}")).collect();
    let ask = call(&json!({"model": "r", "query": "q", "documents": documents, "top_k": 3, "return_documents": true}));
    let most = dialect(Protocol::Tei).max_inputs(Endpoint::Rerank).unwrap();
    let parts = rerank::split(&ask, most);
    let answers: Vec<_> = parts
        .iter()
        .map(|part| {
            let texts = tree(sent(Protocol::Tei, part).as_bytes())["texts"].as_array().unwrap().clone();
            assert!(texts.len() <= 32);
            // The farther back in the whole call, the better.
            let score = |text: &Value| text.as_str().unwrap().trim_start_matches('d').parse::<f64>().unwrap() / 100.0;
            let list: Vec<_> =
                texts.iter().enumerate().map(|(at, text)| json!({"index": at, "score": score(text)})).collect();
            answer(Protocol::Tei, part, &json!(list).to_string()).unwrap()
        })
        .collect();
    assert_eq!(answers.len(), 3);
    let joined = rerank::join(&ask, &answers).unwrap();
    let body = tree(&joined.body);
    let results = json!([
        {"index": 69, "relevance_score": 0.69, "document": {"text": "d69"}},
        {"index": 68, "relevance_score": 0.68, "document": {"text": "d68"}},
        {"index": 67, "relevance_score": 0.67, "document": {"text": "d67"}},
    ]);
    assert_eq!(body["results"], results);
    assert_eq!(body["data"][0]["document"], json!("d69"));
    let prompt: u64 = answers.iter().map(|answer| answer.usage.unwrap().prompt).sum();
    assert_eq!(body["usage"]["total_tokens"], json!(prompt));
    assert_eq!(body["meta"]["warnings"].as_array().unwrap().len(), 1);
    assert!(rerank::join(&ask, &answers[1..]).is_err());
    assert_eq!(rerank::split(&ask, 70).len(), 1);
}

#[test]
fn a_degraded_answer_keeps_the_given_order() {
    let ask =
        call(&json!({"model": "r", "query": "q", "documents": ["a", "b", "c"], "top_n": 2, "return_documents": true}));
    let body = tree(&rerank::degraded(&ask));
    assert_eq!(body["degraded"], json!(true));
    assert_eq!(
        body["results"],
        json!([{"index": 0, "relevance_score": 0, "document": {"text": "a"}}, {"index": 1, "relevance_score": 0, "document": {"text": "b"}}])
    );
    assert_eq!(body["usage"]["total_tokens"], json!(0));
}

#[test]
fn only_a_whole_ranking_is_stored() {
    for more in [json!({}), json!({"top_n": 2}), json!({"top_k": 2})] {
        let mut body = json!({"model": "r", "query": "q", "documents": ["a", "b", "c"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let ask = call(&body);
        let dialect::View::Rerank(view) = &ask.view else { panic!("{ask:?}") };
        let whole = answer(Protocol::Cohere, &ask, &reply(Protocol::Cohere, &[(2, 0.9), (0, 0.5), (1, 0.1)])).unwrap();
        assert!(rerank::is_storable(view, &whole.body), "{more}");
        let part = answer(Protocol::Cohere, &ask, &reply(Protocol::Cohere, &[(2, 0.9)])).unwrap();
        assert!(!rerank::is_storable(view, &part.body), "{more}");
        assert!(!rerank::is_storable(view, &rerank::degraded(&ask)), "{more}");
    }
    let ask = call(&json!({"model": "r", "query": "q", "texts": ["a"]}));
    let dialect::View::Rerank(view) = &ask.view else { panic!("{ask:?}") };
    assert!(rerank::is_storable(view, br#"[{"index":0,"score":0.5}]"#));
    assert!(!rerank::is_storable(view, b"[]"));
    assert!(!rerank::is_storable(view, b"["));
}

#[test]
fn an_error_inside_a_200_is_classed_by_what_it_says() {
    let ask = call(&json!({"model": "r", "query": "q", "documents": ["a"]}));
    let throttled = r#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    assert_eq!(answer(Protocol::Jina, &ask, throttled).unwrap_err().class, base::Class::Throttle);
    let vague = answer(Protocol::Jina, &ask, r#"{"code":"X","message":"engine down"}"#).unwrap_err();
    assert_eq!((vague.class, vague.kind), (base::Class::Upstream, Kind::BadResponse));
}

#[test]
fn paths_take_bases_with_and_without_version_and_slash() {
    let path = |protocol: Protocol, base: &str| {
        let place = dialect::Place { endpoint: Endpoint::Rerank, model: "m", api_version: None };
        dialect(protocol).path(base, &place).unwrap()
    };
    for (protocol, base, right) in [
        (Protocol::Cohere, "/", "/v2/rerank"),
        (Protocol::Cohere, "", "/v2/rerank"),
        (Protocol::Cohere, "/v1", "/v1/rerank"),
        (Protocol::Cohere, "/v1/", "/v1/rerank"),
        (Protocol::Cohere, "/v2/", "/v2/rerank"),
        (Protocol::Cohere, "/providers/cohere/v2?x=1", "/providers/cohere/v2/rerank?x=1"),
        (Protocol::Jina, "/v1", "/v1/rerank"),
        (Protocol::Jina, "/v1/", "/v1/rerank"),
        (Protocol::Voyage, "//v1//", "/v1/rerank"),
        (Protocol::Tei, "/", "/rerank"),
        (Protocol::Tei, "/v1", "/rerank"),
        (Protocol::Tei, "/tei/v1/", "/tei/rerank"),
        (Protocol::Tei, "/rerank", "/rerank"),
        (Protocol::Cohere, "/v1/rerank", "/v1/rerank"),
    ] {
        assert_eq!(path(protocol, base), right, "{protocol:?} {base}");
    }
    let place = dialect::Place { endpoint: Endpoint::Rerank, model: "m", api_version: None };
    assert!(dialect(Protocol::Tei).path("/a b", &place).is_err());
}

proptest! {
    #[test]
    fn every_document_keeps_its_own_score(order in Just((0..30usize).collect::<Vec<_>>()).prop_shuffle(), top_n in 1..40usize) {
        let documents: Vec<String> = (0..30).map(|at| format!("d{at}")).collect();
        let ask = call(&json!({"model": "r", "query": "q", "documents": documents, "top_n": top_n}));
        let scored: Vec<(usize, f64)> = order.iter().map(|at| (*at, 1.0 / (*at as f64 + 1.0))).collect();
        for protocol in PROTOCOLS {
            let got = results(protocol, &ask, &reply(protocol, &scored));
            prop_assert_eq!(got.len(), top_n.min(30));
            for (at, (index, score)) in got.iter().enumerate() {
                prop_assert_eq!(*index, at as u64);
                prop_assert_eq!(*score, 1.0 / (at as f64 + 1.0));
            }
        }
    }
}
