//! `calibrate`, against a gateway that runs.

use std::time::Duration;

use serde_json::Value;
use testkit::get;

use crate::process::{ADMIN, Dir, Gateway, KEY, Ran, VIEWER, program, run, soon, upstream, usual};

const PAIRS: &str = r#"{"a": "How do I get a refund?", "b": "how do i get a refund", "same": true}
{"a": "报销流程是什么", "b": "请问报销流程是什么？", "same": true, "lang": "zh", "kind": "surface"}
{"a": "How do I open an account?", "b": "How do I close an account?", "same": false}
{"a": "请假3天需要谁批准", "b": "请假30天需要谁批准", "same": false}
"#;

/// Runs it beside whatever this test serves.
async fn calibrated(args: Vec<String>) -> Ran {
    calibrated_by(ADMIN, args).await
}

async fn calibrated_by(token: &'static str, args: Vec<String>) -> Ran {
    let mut command = program();
    command.arg("calibrate").args(args).env("MAI_KEY", KEY).env("MAI_ADMIN_TOKEN", token);
    tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
}

#[tokio::test]
async fn a_threshold_is_recommended_from_labelled_pairs() {
    let up = upstream("").await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let dir = Dir::new();
    let (pairs, svg) = (dir.write("pairs.jsonl", PAIRS), dir.path("curve.svg"));
    let url = format!("http://{}", gateway.data);
    let args = ["--route", "embedding", "--url", &url, "--store", "--svg"].map(str::to_owned).to_vec();
    let files = [svg.display().to_string(), pairs.display().to_string()];

    let shown = calibrated([args.clone(), files.to_vec()].concat()).await;
    assert_eq!(shown.code, 0, "{}{}", shown.out, shown.err);
    // Where nothing is hit, no precision is told.
    for told in
        ["zh: 1 pairs that are the same, 1 that are not", "with the guards", "one store", "Threshold: ", "-/0.00"]
    {
        assert!(shown.out.contains(told), "{told}: {}", shown.out);
    }
    assert!(!shown.out.contains("1.00/0.00"), "{}", shown.out);
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.matches("<polyline").count() == 8, "{drawn}");
    let refused = async || {
        let refused = calibrated([args.clone(), files.to_vec(), vec!["--key".into(), "none".into()]].concat()).await;
        assert!(refused.code == 1 && refused.err.contains("--key or MAI_KEY"), "{}", refused.err);
    };
    refused().await;
    assert_eq!(std::fs::read_to_string(&svg).unwrap(), drawn, "what was drawn before stays");
    std::fs::remove_file(&svg).unwrap();
    refused().await;
    assert!(!svg.exists(), "what is not drawn leaves no file");

    let told = calibrated([args, files.to_vec(), vec!["--json".to_owned()]].concat()).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["pairs"], 4);
    assert_eq!(told["languages"][0]["best"]["precision"], 1.0);
    assert!(told["threshold"].as_f64().unwrap() > 0.5, "{told}");
    let guess = |lang: &str| shown.out.contains(&format!("{lang}: a guess from 1 hits"));
    assert!(guess("zh") && guess("en") && shown.out.contains("more without a false one are needed"), "{}", shown.out);
    assert_eq!((&told["threshold_is_sure"], &told["doubts"][0]["hits"]), (&Value::Bool(false), &Value::from(1)));
}

#[tokio::test]
async fn a_verifier_is_measured_by_its_word_on_what_the_guards_leave_open() {
    let said = r#"{ choices: [{ index: 0, finish_reason: stop, message: { role: assistant, content: "Yes." } }] }"#;
    let up = upstream(&format!("rules: [{{ when: {{ path: /v1/chat/* }}, reply: {{ json: {said} }} }}]")).await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let dir = Dir::new();
    let free = r#"{"a": "How do I open an account?", "b": "Where may I register as a new customer?", "same": true}"#;
    let pairs = dir.write("pairs.jsonl", format!("{PAIRS}{free}\n")).display().to_string();
    let url = format!("http://{}", gateway.data);
    let args = |more: &[&str]| {
        [&["--route", "embedding", "--url", &url, &pairs][..], more].concat().into_iter().map(str::to_owned).collect()
    };
    let shown = calibrated(args(&["--verify", "chat"])).await;
    for told in ["with the verifier", "behind the guards", "overruling words"] {
        assert!(shown.out.contains(told), "{told}: {}{}", shown.out, shown.err);
    }
    let told = calibrated(args(&["--verify", "chat", "--json"])).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    let english = &told["languages"].as_array().unwrap().iter().find(|told| told["lang"] == "en").unwrap()["verifier"];
    let lowest = |points: &Value| (points[0]["hits"].as_u64().unwrap(), points[0]["false"].as_u64().unwrap());
    assert_eq!(lowest(&english["behind_guards"]), (1, 0), "{english}");

    let nobody = calibrated(args(&["--verify", "nobody"])).await;
    assert!(nobody.code == 1 && nobody.err.contains("--verify nobody: "), "{}", nobody.err);
}

#[tokio::test]
async fn a_verifier_that_fails_after_its_first_word_gives_no_figures() {
    let said = r#"{ choices: [{ index: 0, finish_reason: stop, message: { role: assistant, content: "Yes." } }] }"#;
    let first = format!("{{ when: {{ path: /v1/chat/*, first: 1 }}, reply: {{ json: {said} }} }}");
    let up = upstream(&format!("rules: [{first}, {{ when: {{ path: /v1/chat/* }}, reply: 400 }}]")).await;
    let gateway = Gateway::serve(&usual(&up.url())).await;
    let pairs = gateway.dir.write("pairs.jsonl", PAIRS).display().to_string();
    let url = format!("http://{}", gateway.data);
    let args = ["--route", "embedding", "--url", &url, "--verify", "chat", &pairs].map(str::to_owned);
    let ran = calibrated(args.to_vec()).await;
    assert!(
        ran.code == 1 && ran.err.contains("pairs came to no verdict; figures of the others would mislead"),
        "{}",
        ran.err
    );
    assert_eq!(ran.out, "");
}

#[tokio::test]
async fn what_stands_in_its_way_is_said() {
    let dir = Dir::new();
    let pairs = dir.write("pairs.jsonl", PAIRS).display().to_string();
    let bad = dir.write("bad.jsonl", "{\"a\": \"x\"}\n").display().to_string();
    for (args, told) in [
        (vec![pairs.clone(), "--url".into(), "http://127.0.0.1:1".into()], "is a gateway running there"),
        (vec![pairs.clone(), "--url".into(), "up.example".into()], "http://HOST:PORT"),
        (vec![bad, "--url".into(), "http://127.0.0.1:1".into()], "bad.jsonl: line 1: needs `b`"),
        (vec![pairs.clone(), "--precision".into(), "95".into()], "above 0 and up to 1"),
        (vec![pairs, "--verify".into(), "judge".into(), "--min-score".into(), "90".into()], "--min-score 90: a number"),
    ] {
        let ran = calibrated([vec!["--route".to_owned(), "embedding".to_owned()], args].concat()).await;
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[tokio::test]
async fn reading_of_requests_ends_after_so_many_pages_and_says_how_far_back_it_came() {
    // A list that never ends.
    let endless = r#"
rules:
  - when: { path: /admin/v1/requests }
    reply: { json: { data: [{ request_id: one, time: "2026-11-01T10:00:00Z", decisions: [] }], next: "on" } }
"#;
    let up = upstream(endless).await;
    let args = ["--route", "embedding", "--url", &up.url(), "--admin", &up.url(), "--from-requests"];
    let ran = calibrated(args.map(str::to_owned).to_vec()).await;
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let told = "400 pages of requests are read, back to 2026-11-01T10:00:00Z; older ones are left out";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert_eq!(up.log().total(), 400);
}

/// Answers that tell one question from another.
const ANSWERS: &str = r#"
rules:
  - when: { path: /v1/chat/completions, body: username }
    reply: { say: "Ask the help desk in building four; they change names on request every Tuesday." }
  - when: { path: /v1/chat/completions }
    reply: { say: "Open the portal, choose reset, and follow the link that is sent to you." }
"#;

/// Asks a question, and waits until it stands among the others and its text is kept.
async fn asked(gateway: &Gateway, question: &str, count: f64) {
    let answer = gateway.ask(&testkit::chat("chat").user(question).key(KEY)).await;
    assert_eq!((answer.status, answer.header("x-mai-cache")), (200, Some("miss")), "{}", answer.text());
    gateway.metric_is("mai_cache_questions", "\"chat\"", count).await;
    let id = answer.header("x-request-id").unwrap();
    let content = get(&format!("/admin/v1/requests/{id}/content")).key(ADMIN);
    let kept = async {
        while gateway.ask_admin(&content).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the text is kept", kept).await;
}

#[tokio::test]
async fn pairs_that_callers_have_asked_come_from_shadow_records() {
    let up = upstream(ANSWERS).await;
    let shadow = "{ name: chat, cache: { mode: semantic, semantic: { route: embedding, threshold: 0.3, margin: 0, timeout: 5s, shadow: true } },";
    let config = format!("records: {{ content: true }}\n{}", usual(&up.url()).replace("{ name: chat,", shadow));
    let gateway = Gateway::serve(&config).await;
    asked(&gateway, "How do I reset my password?", 1.0).await;
    let admin = vec!["--admin".to_owned(), format!("http://{}", gateway.admin)];
    let data = ["--route", "embedding", "--url", &format!("http://{}", gateway.data)].map(str::to_owned).to_vec();
    let from = |more: &[&str]| [&["--from-requests"], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();

    let none = calibrated([from(&[]), admin.clone(), data.clone()].concat()).await;
    assert!(none.code == 1 && none.err.contains("records: { content: true }"), "{}", none.err);
    asked(&gateway, "How can I reset my password?", 2.0).await;
    asked(&gateway, "How do I change my username?", 3.0).await;

    let dir = Dir::new();
    let (pairs, svg) = (dir.path("pairs.jsonl"), dir.path("curve.svg").display().to_string());
    let write = [from(&["--write-pairs", &pairs.display().to_string(), "--of-route", "chat"]), admin.clone()].concat();
    let written = calibrated(write.clone()).await;
    assert_eq!(written.code, 0, "{}", written.err);
    let told = "2 pairs from requests: by their answers 1 are the same, 1 are not, and of 0 nothing can be said";
    assert!(written.out.starts_with(told), "{}", written.out);
    let lines = std::fs::read_to_string(&pairs).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines[0]["a"].as_str(), lines[0]["same"].as_bool()), (Some("How do I reset my password?"), Some(true)));
    assert_eq!((lines[0]["b"].as_str(), &lines[0]["withheld"]), (Some("How can I reset my password?"), &Value::Null));
    assert_eq!((lines[1]["same"].as_bool(), lines[1]["withheld"].is_string()), (Some(false), true), "{lines:?}");
    let again = calibrated(write).await;
    assert!(
        again.code == 1 && again.err.contains("pairs.jsonl"),
        "what is labelled is not written over: {}",
        again.err
    );

    let labelled = calibrated([data.clone(), vec![pairs.display().to_string()]].concat()).await;
    assert!(labelled.code == 0 && labelled.out.contains("Threshold: "), "{}{}", labelled.out, labelled.err);
    assert!(!labelled.out.contains("labelled by a guess"), "{}", labelled.out);
    let guessed = calibrated([from(&["--svg", &svg, "--false-hits", "0"]), admin.clone(), data.clone()].concat()).await;
    assert!(guessed.code == 0 && guessed.out.contains("labelled by a guess"), "{}{}", guessed.out, guessed.err);
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let refused = calibrated_by(VIEWER, [from(&[]), admin, data].concat()).await;
    assert!(refused.code == 1 && refused.err.contains("role"), "{}", refused.err);
}
