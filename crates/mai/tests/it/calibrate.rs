//! `calibrate`, against a gateway that runs.

use serde_json::Value;

use crate::process::{Dir, Gateway, KEY, Ran, program, run, upstream, usual};

const PAIRS: &str = r#"{"a": "How do I get a refund?", "b": "how do i get a refund", "same": true}
{"a": "报销流程是什么", "b": "请问报销流程是什么？", "same": true, "lang": "zh", "kind": "surface"}
{"a": "How do I open an account?", "b": "How do I close an account?", "same": false}
{"a": "请假3天需要谁批准", "b": "请假30天需要谁批准", "same": false}
"#;

/// Runs it beside whatever this test serves.
async fn calibrated(args: Vec<String>) -> Ran {
    tokio::task::spawn_blocking(move || run(program().arg("calibrate").args(args).env("MAI_KEY", KEY))).await.unwrap()
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
    for told in ["zh: 1 pairs that are the same, 1 that are not", "with the guards", "one store", "Threshold: "] {
        assert!(shown.out.contains(told), "{told}: {}", shown.out);
    }
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.matches("<polyline").count() == 8, "{drawn}");

    let told = calibrated([args, files.to_vec(), vec!["--json".to_owned()]].concat()).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["pairs"], 4);
    assert_eq!(told["languages"][0]["best"]["precision"], 1.0);
    assert!(told["threshold"].as_f64().unwrap() > 0.5, "{told}");
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
        (vec![pairs, "--precision".into(), "95".into()], "above 0 and up to 1"),
    ] {
        let ran = calibrated([vec!["--route".to_owned(), "embedding".to_owned()], args].concat()).await;
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}
