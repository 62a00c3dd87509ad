//! Webhooks: who is told of what, how it is signed, tried again, bounded and given up.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::{Ask, Door, Host, Reply, Script, chat, embeddings, story};

use crate::stage::{Stage, pleasant};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// One upstream whose breaker opens at the first failure, a quota, and these webhooks.
fn config(webhooks: &str) -> String {
    format!(
        r#"
environment: staging
providers: [{{ name: a, base_url: "http://a/v1", api_key: sk-a }}]
routes:
  - name: chat
    upstreams: [{{ provider: a, model: m }}]
    retry: {{ server_error: [], throttled: [] }}
    breaker: {{ failures: 1, window: 10s, hold: 30s }}
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: a, model: e }}]
    dimensions: 16
    retry: {{ server_error: [], throttled: [] }}
    breaker: {{ failures: 100000 }}
clients: [{{ name: app, keys: [sk-app], routes: ["*"], quota: {{ tokens: 1000000000, warn: [0.3, 0.5] }} }}]
webhooks: {webhooks}
"#
    )
}

/// One webhook, at the host `hook`.
fn alone() -> String {
    config(&format!("[{{ url: 'http://hook/services/T0?x=1', secret: {SECRET} }}]"))
}

fn stage(config: &str) -> Stage {
    let stage = Stage::set(config);
    stage.tell_webhooks();
    stage
}

/// A receiver that takes what it is told.
fn takes() -> Reply {
    Reply::text("thank you")
}

fn ask() -> Ask {
    chat("chat").user("Hi")
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The breaker opens.
async fn open(stage: &Stage, a: &Host) {
    a.play(Reply::status(500));
    assert_eq!(stage.ask(ask()).await.status, 502);
}

/// The breaker closes: its hold is over, one call finds it well, and then its share grows back by itself.
async fn close(stage: &Stage, a: &Host) {
    a.play(pleasant());
    seconds(31).await;
    assert_eq!(stage.ask(ask()).await.status, 200);
    seconds(20).await;
}

/// The bodies of what a host was told, without their times.
fn told(host: &Host) -> Vec<Value> {
    let body = |call: testkit::Call| {
        let mut body = call.request.json.clone().expect("it is JSON");
        let time = body.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(time.as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{time}");
        body
    };
    host.calls().into_iter().map(body).collect()
}

fn kinds(host: &Host) -> Vec<(String, u64)> {
    let shown = |body: &Value| (body["type"].as_str().unwrap().to_owned(), body["data"]["count"].as_u64().unwrap());
    told(host).iter().map(shown).collect()
}

fn deliveries(stage: &Stage, event: &str, result: &str) -> f64 {
    stage.metric(&format!("mai_webhook_deliveries_total{{event=\"{event}\",hook=\"0\",result=\"{result}\"}}"))
}

fn waiting(stage: &Stage) -> f64 {
    stage.metric("mai_webhook_deliveries_waiting{hook=\"0\"}")
}

/// HMAC-SHA-256 as RFC 2104 says it, apart from the code that signs.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let padded = |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::digest([padded(0x36), text.to_vec()].concat());
    Sha256::digest([padded(0x5c), inner.to_vec()].concat()).to_vec()
}

#[test]
fn a_breaker_that_opens_and_closes_is_told_and_signed() {
    story(async {
        let stage = stage(&alone());
        let (a, hook) = (stage.host("a", pleasant()), stage.host("hook", takes()));
        open(&stage, &a).await;
        hook.has_calls(1).await;
        close(&stage, &a).await;
        let data =
            |state: &str| json!({ "route": "chat", "upstream": "a/m", "state": state, "held": false, "count": 1 });
        assert_eq!(
            told(&hook),
            [
                json!({ "type": "breaker.opened", "environment": "staging", "data": data("open") }),
                json!({ "type": "breaker.closed", "environment": "staging", "data": data("closed") }),
            ]
        );
        let key = BASE64_STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
        let mut ids = Vec::new();
        for call in hook.calls() {
            let request = &call.request;
            assert_eq!(
                (&*request.method, &*request.path, request.query.as_deref()),
                ("POST", "/services/T0", Some("x=1"))
            );
            assert_eq!(request.header("content-type"), Some("application/json"));
            let (id, time) = (request.header("webhook-id").unwrap(), request.header("webhook-timestamp").unwrap());
            let now = base::Clock.wall().as_secs();
            assert!(time.parse::<u64>().unwrap().abs_diff(now) < 60, "{time}");
            let signed = [format!("{id}.{time}.").as_bytes(), &request.body].concat();
            let signature = format!("v1,{}", BASE64_STANDARD.encode(hmac(&key, &signed)));
            assert_eq!(request.header("webhook-signature"), Some(&*signature));
            ids.push(id.to_owned());
        }
        assert!(ids[0] != ids[1] && ids[0].starts_with("msg_"), "{ids:?}");
        assert_eq!((deliveries(&stage, "breaker.opened", "delivered"), waiting(&stage)), (1.0, 0.0));
    });
}

#[test]
fn failed_trials_of_an_open_breaker_are_no_news() {
    story(async {
        let stage = stage(&alone());
        let (a, hook) = (stage.host("a", pleasant()), stage.host("hook", takes()));
        open(&stage, &a).await;
        for _ in 0..300 {
            seconds(1).await;
            stage.ask(ask()).await;
        }
        assert_eq!(kinds(&hook), [("breaker.opened".to_owned(), 1)]);
    });
}

#[test]
fn a_share_of_a_quota_is_told_at_once_each_time() {
    story(async {
        let stage = stage(&alone().replace("1000000000", "1000"));
        let usage = json!({ "prompt_tokens": 50, "completion_tokens": 50, "total_tokens": 100 });
        stage.host("a", Reply::say(["Hi"]).usage(usage));
        let hook = stage.host("hook", takes());
        for _ in 0..6 {
            assert_eq!(stage.ask(ask().with("max_tokens", 10)).await.status, 200);
        }
        seconds(1).await;
        let told = told(&hook);
        let shares: Vec<&Value> = told.iter().map(|body| &body["data"]["share"]).collect();
        assert_eq!(shares, [&json!(0.3), &json!(0.5)]);
        assert_eq!(told[0]["type"], "quota.warning");
        let data = &told[0]["data"];
        assert_eq!((&data["client"], &data["kind"], &data["per"]), (&json!("app"), &json!("tokens"), &json!("month")));
    });
}

#[test]
fn each_of_the_shares_that_one_call_comes_to_is_told() {
    story(async {
        let stage = stage(&alone().replace("1000000000", "1000"));
        let usage = json!({ "prompt_tokens": 300, "completion_tokens": 300, "total_tokens": 600 });
        stage.host("a", Reply::say(["Hi"]).usage(usage));
        let hook = stage.host("hook", takes());
        assert_eq!(stage.ask(ask().with("max_tokens", 10)).await.status, 200);
        seconds(1).await;
        let shares: Vec<Value> = told(&hook).iter().map(|body| body["data"]["share"].clone()).collect();
        assert_eq!(shares, [json!(0.3), json!(0.5)]);
        assert_eq!(stage.metric("mai_quota_warnings_total{client=\"app\",kind=\"tokens\"}"), 2.0);
    });
}

#[test]
fn vectors_of_another_dimension_are_told_once_a_minute_with_their_number() {
    story(async {
        let stage = stage(&alone());
        stage.host("a", Script::always(Reply::default().with(|knobs| knobs.dimensions = Some(8))));
        let hook = stage.host("hook", takes());
        for _ in 0..100 {
            assert_eq!(stage.ask(embeddings("embedding", "abc")).await.status, 502);
            seconds(1).await;
        }
        seconds(60).await;
        let counts: Vec<u64> = kinds(&hook).into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts.len(), 3, "{counts:?}");
        assert_eq!((counts[0], counts.iter().sum::<u64>()), (1, 100));
        let first = &told(&hook)[0];
        assert_eq!(first["type"], "embedding.dimension_mismatch");
        let why = "vectors of 8 dimensions where route `embedding` has 16";
        assert_eq!(first["data"], json!({ "route": "embedding", "upstream": "a/e", "message": why, "count": 1 }));
    });
}

#[test]
fn a_breaker_that_flaps_makes_no_storm_and_its_last_state_is_told() {
    story(async {
        let flapping = alone().replace("hold: 30s", "hold: 100ms, max_rest: 100ms");
        let stage = stage(&flapping);
        let (a, hook) = (stage.host("a", pleasant()), stage.host("hook", takes()));
        for _ in 0..20 {
            open(&stage, &a).await;
            a.play(pleasant());
            for _ in 0..11 {
                seconds(1).await;
                stage.ask(ask()).await;
            }
        }
        seconds(60).await;
        let kinds = kinds(&hook);
        assert_eq!(kinds.iter().map(|(_, count)| count).sum::<u64>(), 40, "{kinds:?}");
        assert!(kinds.len() <= 10, "in five minutes: {kinds:?}");
        assert_eq!(kinds.last().unwrap().0, "breaker.closed");
    });
}

#[test]
fn a_delivery_that_fails_is_tried_again_under_the_same_id_at_growing_distances() {
    story(async {
        let stage = stage(&alone());
        let a = stage.host("a", pleasant());
        let asks = Reply::status(429).header("retry-after", "300");
        let script = Script::replies([Reply::status(500), Reply::reset(), Reply::hang(), asks, takes()]);
        let hook = stage.host("hook", script);
        open(&stage, &a).await;
        hook.has_calls(5).await;
        seconds(1).await;
        let calls = hook.calls();
        let apart: Vec<u64> = calls.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
        // The third one was waited for 10 s.
        for (apart, about) in apart.iter().zip([5, 12, 41, 300]) {
            assert!(apart.abs_diff(about) <= about / 4, "{apart} s where about {about} were due");
        }
        let ids: Vec<_> = calls.iter().map(|call| call.request.header("webhook-id").unwrap()).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert!(calls.iter().all(|call| call.request.body == calls[0].request.body));
        let of = |result| deliveries(&stage, "breaker.opened", result);
        assert_eq!((of("retried"), of("delivered"), waiting(&stage)), (4.0, 1.0, 0.0));
        assert_eq!(stage.live.webhooks.shown()[0].trouble, None);
    });
}

#[test]
fn a_receiver_that_asks_to_be_left_alone_is_told_of_nothing_else_meanwhile() {
    story(async {
        let stage = stage(&alone());
        let a = stage.host("a", pleasant());
        let asks = Reply::status(429).header("retry-after", "600");
        let hook = stage.host("hook", Script::replies([asks, takes()]));
        open(&stage, &a).await;
        hook.has_calls(1).await;
        // Another object, which has nothing to wait for.
        a.play(Script::always(Reply::default().with(|knobs| knobs.dimensions = Some(8))));
        assert_eq!(stage.ask(embeddings("embedding", "abc")).await.status, 502);
        seconds(590).await;
        assert_eq!((hook.calls().len(), waiting(&stage)), (1, 2.0));
        seconds(30).await;
        assert_eq!((hook.calls().len(), waiting(&stage)), (3, 0.0));
    });
}

#[test]
fn a_receiver_that_asks_for_hours_is_told_within_the_life_of_the_event() {
    story(async {
        let stage = stage(&alone());
        let a = stage.host("a", pleasant());
        let asks = Reply::status(503).header("retry-after", "86400");
        let hook = stage.host("hook", Script::replies([asks, takes()]));
        open(&stage, &a).await;
        hook.has_calls(1).await;
        seconds(1_190).await;
        assert_eq!((hook.calls().len(), waiting(&stage)), (1, 1.0), "it is left alone for a while");
        seconds(30).await;
        let of = |result| deliveries(&stage, "breaker.opened", result);
        assert_eq!((of("delivered"), of("expired"), waiting(&stage)), (1.0, 0.0, 0.0));
    });
}

#[test]
fn a_receiver_that_never_answers_is_given_up_within_the_hour() {
    story(async {
        let stage = stage(&alone());
        let (a, hook) = (stage.host("a", pleasant()), stage.host("hook", Reply::status(503)));
        open(&stage, &a).await;
        seconds(600).await;
        assert_eq!(waiting(&stage), 1.0);
        assert_eq!(stage.live.webhooks.shown()[0].trouble.as_deref(), Some("status 503"));
        seconds(3000).await;
        assert_eq!((hook.calls().len(), waiting(&stage)), (8, 0.0));
        assert_eq!(deliveries(&stage, "breaker.opened", "expired"), 1.0);
    });
}

#[test]
fn what_a_receiver_refuses_or_sends_elsewhere_is_given_up_at_once() {
    for reply in [Reply::status(410), Reply::status(400), Reply::status(307).header("location", "http://elsewhere/")] {
        story(async {
            let stage = stage(&alone());
            let (a, elsewhere) = (stage.host("a", pleasant()), stage.host("elsewhere", pleasant()));
            let hook = stage.host("hook", reply);
            open(&stage, &a).await;
            seconds(3600).await;
            assert_eq!((hook.calls().len(), elsewhere.calls().len(), waiting(&stage)), (1, 0, 0.0));
            assert_eq!(deliveries(&stage, "breaker.opened", "refused"), 1.0);
        });
    }
}

#[test]
fn a_receiver_that_hangs_holds_up_no_call_and_no_other_webhook() {
    story(async {
        let both = "[{ url: 'http://hook/', secret: s }, { name: other, url: 'http://other/', secret: s, on: [breaker] }, \
                    { name: quota, url: 'http://quota/', secret: s, on: [quota] }]";
        let stage = stage(&config(both));
        let a = stage.host("a", pleasant());
        let [hook, other, quota] = ["hook", "other", "quota"].map(|name| stage.host(name, takes()));
        hook.set_door(Door::Hang);
        open(&stage, &a).await;
        other.has_calls(1).await;
        tokio::time::timeout(Duration::from_secs(1), stage.ask(ask())).await.expect("no call waits");
        seconds(60).await;
        assert_eq!((hook.calls().len(), quota.calls().len()), (0, 0));
        hook.set_door(Door::Open);
        hook.has_calls(1).await;
        assert_eq!(other.calls().len(), 1, "what was delivered is not delivered again");
        let name = "mai_webhook_deliveries_total{event=\"breaker.opened\",hook=\"other\",result=\"delivered\"}";
        assert_eq!(stage.metric(name), 1.0);
    });
}

#[test]
fn a_hold_that_goes_on_through_reloads_is_told_once() {
    story(async {
        let stage = stage(&alone());
        let (_a, hook) = (stage.host("a", pleasant()), stage.host("hook", takes()));
        let held = gateway::live::levers::Which { upstream: "a/m", route: Some("chat") };
        stage.live.hold_open(held, None);
        hook.has_calls(1).await;
        stage.reload(&alone().replace("sk-a", "sk-b"));
        seconds(120).await;
        stage.reload(&alone().replace("model: m", "model: m, name: main"));
        seconds(120).await;
        assert_eq!(kinds(&hook), [("breaker.opened".to_owned(), 1)]);
        stage.live.close_breakers(held);
        seconds(120).await;
        assert_eq!(kinds(&hook)[1..], [("breaker.closed".to_owned(), 1)]);
    });
}

#[test]
fn a_closed_breaker_is_not_told_before_it_has_opened() {
    story(async {
        let stage = stage(&alone());
        let (a, hook) = (stage.host("a", pleasant()), stage.host("hook", Reply::status(503)));
        open(&stage, &a).await;
        close(&stage, &a).await;
        assert!(kinds(&hook).iter().all(|(kind, _)| kind == "breaker.opened"));
        assert_eq!(waiting(&stage), 2.0);
        hook.play(takes());
        seconds(600).await;
        let order: Vec<String> = kinds(&hook).into_iter().map(|(kind, _)| kind).rev().take(2).collect();
        assert_eq!(order, ["breaker.closed", "breaker.opened"]);
    });
}

#[test]
fn a_reload_takes_webhooks_into_force_and_drops_what_waits_for_removed_ones() {
    story(async {
        let stage = stage(&config("[]"));
        let a = stage.host("a", pleasant());
        let [hook, new] = ["hook", "new"].map(|name| stage.host(name, Reply::status(503)));
        open(&stage, &a).await;
        stage.reload(&alone());
        close(&stage, &a).await;
        assert!(kinds(&hook).iter().all(|(kind, _)| kind == "breaker.closed"), "nobody was there to be told before");
        assert_eq!(waiting(&stage), 1.0);
        // The same address under another secret keeps what waits.
        stage.reload(&alone().replace(SECRET, "another"));
        assert_eq!(waiting(&stage), 1.0);
        let so_far = hook.calls().len();
        stage.reload(&alone().replace("http://hook", "http://new"));
        seconds(3600).await;
        assert_eq!((hook.calls().len(), new.calls().len(), waiting(&stage)), (so_far, 0, 0.0));
        assert_eq!(deliveries(&stage, "breaker.closed", "dropped"), 1.0);
        new.play(takes());
        open(&stage, &a).await;
        new.has_calls(1).await;
        // An open breaker that a reload forgets is one no longer.
        stage.reload(&alone().replace("http://hook", "http://new").replace("sk-a", "sk-b"));
        seconds(60).await;
        assert_eq!(kinds(&new).last(), Some(&("breaker.closed".to_owned(), 1)));
    });
}
