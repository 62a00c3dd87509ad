//! Levers: what they do, and the rows that they leave.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use state::answers::{Key, Kind, Stored};
use state::objects::{Change, Deed, Deeds, Kept};
use state::{Answer, InProcessObjects, Objects, Unreadable, Versioned, Versions};

use crate::desk::{OPERATOR, Out, Port, VIEWER, delete, get, post, put};

#[tokio::test]
async fn each_lever_leaves_a_row() {
    let port = Port::open();
    port.ask(OPERATOR, post("/cache/purge", r#"{"route": "chat"}"#)).await.is(200);
    port.ask(OPERATOR, put("/cache/routes/chat/kb-version", r#"{"kb_version": "2026-11"}"#)).await.is(204);
    port.ask(OPERATOR, post("/reload", "")).await.is(200);
    port.ask(OPERATOR, delete("/cache/entries/nothing")).await.refused(404, "not_found");
    let told = port.ask(VIEWER, get("/audit")).await.is(200);
    let rows: Vec<_> =
        told.json["data"].as_array().unwrap().iter().map(|row| (&row["action"], &row["object"])).collect();
    let [reload, set, purge] = [("reload", "config"), ("set", "cache/routes/chat/kb-version"), ("purge", "cache")]
        .map(|(action, object)| (json!(action), json!(object)));
    assert_eq!(rows, [(&reload.0, &reload.1), (&set.0, &set.1), (&purge.0, &purge.1)]);
    assert_eq!(told.json["data"][1]["after"], json!({ "kb_version": "2026-11" }));
}

#[tokio::test]
async fn a_version_that_is_set_already_is_no_change_and_leaves_no_row() {
    let port = Port::open();
    let asked = |version: serde_json::Value| put("/cache/routes/chat/kb-version", json!({ "kb_version": version }));
    // Null comes first, where nothing is set.
    for version in [json!(null), json!("7"), json!("7"), json!("8"), json!("7"), json!(null), json!(null)] {
        port.ask(OPERATOR, asked(version)).await.is(204);
    }
    let told = port.ask(VIEWER, get("/audit")).await.is(200);
    let rows: Vec<_> = told.json["data"].as_array().unwrap().iter().map(|row| &row["after"]["kb_version"]).collect();
    assert_eq!(rows, [&json!(null), &json!("7"), &json!("8"), &json!("7")]);
}

#[tokio::test]
async fn an_entry_goes_with_what_idempotency_keys_of_its_route_are_answered_with() {
    let port = Port::open();
    let answers = &port.desk.live.answers;
    let put = |at: u8, kind: Kind, route: &str, client: Option<&str>| {
        let long = base::Clock.wall() + std::time::Duration::from_secs(60);
        let stored = Stored {
            kind,
            route: route.into(),
            client: client.map(Arc::from),
            kb_version: None,
            stored: base::Clock.wall(),
            expires: long,
            keep_until: long,
            body: Box::default(),
        };
        answers.put(Key([at; 32]), Arc::new(stored));
        Key([at; 32])
    };
    let answer = put(1, Kind::Answer, "chat", None);
    let (replayed, other) = (put(2, Kind::Replay, "chat", Some("app")), put(3, Kind::Replay, "other", Some("app")));
    port.ask(OPERATOR, delete(&format!("/cache/entries/{answer}"))).await.is(204);
    let is_there = [answer, replayed, other].map(|key| answers.peek(&key).is_some());
    assert_eq!(is_there, [false, false, true]);
    port.ask(OPERATOR, delete(&format!("/cache/entries/{answer}"))).await.refused(404, "not_found");
}

/// Nobody has lost a row for good.
fn rows_lost(port: &Port) -> bool {
    let metrics = String::from_utf8_lossy(&port.desk.live.metrics_text()).into_owned();
    !metrics.contains("\nmai_audit_rows_lost_total 0\n")
}

#[tokio::test(start_paused = true)]
async fn a_lever_works_while_its_row_cannot_be_written_and_a_row_that_never_is_is_counted() {
    let port = Port::with(gateway::quota::ledger::Stores { objects: std::sync::Arc::new(Out), ..Default::default() });
    let began = base::Clock.now();
    port.ask(OPERATOR, post("/cache/purge", "")).await.is(200);
    let took = base::Clock.now() - began;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert_eq!((port.desk.late_rows.count(), rows_lost(&port)), (1, false));
    tokio::time::sleep(Duration::from_secs(660)).await;
    let metrics = String::from_utf8(port.desk.live.metrics_text()).unwrap();
    assert!(metrics.contains("\nmai_audit_rows_lost_total 1\n"), "{metrics}");
    assert_eq!(port.desk.late_rows.count(), 0);
}

/// A store that another process holds locked until then: whoever asks is told so after its patience.
#[derive(Debug)]
struct Locked {
    store: Arc<InProcessObjects>,
    until: std::time::Instant,
    patience: Duration,
}

impl Locked {
    fn until(until: std::time::Instant) -> Self {
        Self { store: Arc::default(), until, patience: Duration::from_secs(5) }
    }
}

impl Objects for Locked {
    fn all(&self) -> Answer<Result<Kept, Unreadable>> {
        self.store.all()
    }

    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
        let (store, left) = (self.store.clone(), self.until.saturating_duration_since(base::Clock.now()));
        let patience = self.patience;
        Answer::Later(Box::pin(async move {
            tokio::time::sleep(left.min(patience)).await;
            if left > patience {
                Err(Unreadable("it is locked".to_owned()))
            } else {
                store.change(changes, deeds).await
            }
        }))
    }

    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
        self.store.used(keys)
    }

    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
        self.store.deeds(which)
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_disk_keeps_waiting_without_end_is_given_up_and_counted() {
    let locked = base::Clock.now() + Duration::from_secs(86_400);
    let store = Locked { patience: Duration::MAX, ..Locked::until(locked) };
    let port = Port::with(gateway::quota::ledger::Stores { objects: Arc::new(store), ..Default::default() });
    port.ask(OPERATOR, post("/breakers/cloud%2Fm/open", "")).await.is(200);
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!((port.desk.late_rows.count(), rows_lost(&port)), (1, false));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((port.desk.late_rows.count(), rows_lost(&port)), (0, true));
}

#[tokio::test(start_paused = true)]
async fn a_lever_answers_at_once_while_the_store_is_locked_and_its_row_is_written_once_it_is_not() {
    for locked in [3, 60] {
        let began = base::Clock.now();
        let store = Locked::until(began + Duration::from_secs(locked));
        let port = Port::with(gateway::quota::ledger::Stores { objects: Arc::new(store), ..Default::default() });
        port.ask(OPERATOR, post("/breakers/cloud%2Fm/open", "")).await.is(200);
        let took = base::Clock.now() - began;
        assert!(took <= Duration::from_secs(1), "{took:?}");
        let rows = async || {
            let told = port.ask(VIEWER, get("/audit")).await.is(200);
            let rows = told.json["data"].as_array().unwrap().clone();
            rows.iter().map(|row| row["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!((rows().await, port.desk.late_rows.count()), (Vec::new(), 1), "{locked} s");
        tokio::time::sleep(Duration::from_secs(locked + 30)).await;
        assert_eq!((rows().await, port.desk.late_rows.count()), (vec!["open".to_owned()], 0), "once, {locked} s");
        assert!(!rows_lost(&port));
    }
}

#[tokio::test]
async fn breakers_and_drills_leave_rows_too() {
    let port = Port::open();
    let enabled = port.desk.live.running().snapshot.general.drills;
    assert!(!enabled, "this configuration says nothing of drills");
    port.ask(OPERATOR, post("/breakers/cloud%2Fm/open", r#"{"for": "90s"}"#)).await.is(200);
    port.ask(OPERATOR, post("/breakers/cloud%2Fm/close", "")).await.is(200);
    port.ask(OPERATOR, post("/breakers/cloud%2Fn/close", "")).await.refused(404, "not_found");
    port.ask(OPERATOR, post("/drills", r#"{"upstream": "cloud/m", "reset": true, "for": "5m"}"#))
        .await
        .refused(409, "drills_disabled");
    let told = port.ask(VIEWER, get("/audit")).await.is(200);
    let rows: Vec<_> = told.json["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["action"], row["object"], row["after"]]))
        .collect();
    let opened = json!(["open", "breakers/cloud/m", { "route": null, "for": "90s" }]);
    assert_eq!(rows, [json!(["close", "breakers/cloud/m", { "route": null }]), opened]);
}

/// A store that never says whether it has done what it was asked.
#[derive(Debug)]
struct Silent;

impl Versions for Silent {
    fn all(&self) -> Answer<Result<Versioned, Unreadable>> {
        Answer::Ready(Ok(Versioned::new()))
    }

    fn set(&self, _: Arc<str>, _: Option<Arc<str>>) -> Answer<Result<Versioned, Unreadable>> {
        Answer::Later(Box::pin(std::future::pending()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_of_which_nobody_knows_whether_it_is_set_leaves_a_row_that_says_so() {
    let port = Port::with(gateway::quota::ledger::Stores { versions: Arc::new(Silent), ..Default::default() });
    let asked = put("/cache/routes/chat/kb-version", r#"{"kb_version": "2026-11"}"#);
    let told = port.ask(OPERATOR, asked).await.refused(503, "cache_unavailable");
    assert!(told.message().contains("whether this was set is not known"), "{}", told.text);
    let told = port.ask(VIEWER, get("/audit")).await.is(200);
    assert_eq!(told.json["data"][0]["after"], json!({ "kb_version": "2026-11", "known": false }));
}

#[tokio::test]
async fn a_version_that_no_header_could_say_is_refused() {
    let port = Port::open();
    for version in ["\u{0}", "\n", " ", "a\nb", " a", "\u{200b}", ""] {
        let asked = put("/cache/routes/chat/kb-version", json!({ "kb_version": version }));
        let told = port.ask(OPERATOR, asked).await.refused(400, "invalid_request");
        assert_eq!(told.json["error"]["param"], "kb_version", "{version:?}");
    }
    port.ask(OPERATOR, put("/cache/routes/chat/kb-version", json!({ "kb_version": "版本 7" }))).await.is(204);
}

#[tokio::test]
async fn drills_are_listed_and_ended_also_where_none_may_begin() {
    let port = Port::open();
    assert!(!port.desk.live.running().snapshot.general.drills, "this configuration says nothing of drills");
    let told = port.ask(VIEWER, get("/drills")).await.is(200);
    assert_eq!(told.json["data"], json!([]));
    port.ask(OPERATOR, delete("/drills/d-1")).await.refused(404, "not_found");
}
