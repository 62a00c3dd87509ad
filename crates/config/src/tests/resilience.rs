//! What decides between upstreams and after failures, from text to terms.

use std::time::Duration;

use rules::breaker::Terms;
use rules::order::Strategy;
use rules::pursuit::{Repeats, Retry};
use rules::split::{Branch, Mirror, Share};

use super::{assert_problems, sound, warnings};
use crate::{Health, OnFailure, Route};

const PROVIDERS: &str = "providers:
  - { name: cloud, base_url: http://a/v1 }
  - { name: other, base_url: http://b/v1 }
  - { name: local, base_url: http://c/v1 }
";

fn with_providers(rest: &str) -> String {
    format!("{PROVIDERS}{rest}")
}

/// The one route of text that must be sound.
fn route(rest: &str) -> std::sync::Arc<Route> {
    sound(&with_providers(rest)).snapshot.routes[0].clone()
}

const FULL: &str = "routes:
  - name: chat
    upstreams:
      - { provider: local, tier: 1 }
      - { provider: cloud, weight: 3 }
      - { provider: other }
    strategy: weighted
    split:
      - { when: { header: { X-Mai-Tag: 评测 } }, to: other }
      - { when: { client: pilot, percent: 10, sticky: client }, to: other }
      - { when: { quota_used: 0.8 }, to: local }
    mirror: { to: local, percent: 0.5 }
    retry: { when: always, server_error: [200ms], throttled: [], budget: 0.1 }
    breaker: { failures: 3, window: 20s, hold: 1m, max_rest: 10m }
    on_failure: degrade
clients: [{ name: pilot, on_failure: error }, { name: qa }]
";

#[test]
fn what_is_written_is_what_holds() {
    let loaded = sound(&with_providers(FULL));
    let route = &loaded.snapshot.routes[0];
    assert_eq!(route.strategy, Strategy::Weighted);
    assert_eq!(
        route.retry,
        Retry { when: Repeats::Always, server_error: vec![Duration::from_millis(200)], throttled: vec![], budget: 0.1 }
    );
    assert_eq!(
        route.breaker,
        Terms {
            failures: 3,
            window: Duration::from_secs(20),
            hold: Duration::from_secs(60),
            max_rest: Duration::from_secs(600)
        }
    );
    assert_eq!(route.on_failure, OnFailure::Degrade);
    let of_clients: Vec<_> = loaded.snapshot.clients.iter().map(|client| client.on_failure).collect();
    assert_eq!(of_clients, [Some(OnFailure::Error), None]);
    assert!(loaded.snapshot.not_in_force.is_empty());
}

#[test]
fn splits_and_mirrors_point_at_upstreams_as_they_stand_by_tier() {
    let route = route(FULL);
    let names: Vec<&str> = route.upstreams.iter().map(|upstream| &*upstream.name).collect();
    assert_eq!(names, ["cloud", "other", "local"]);
    let nothing = Branch { headers: vec![], client: None, share: None, quota_used: None, to: 0 };
    assert_eq!(
        route.split,
        [
            Branch { headers: vec![("x-mai-tag".into(), "评测".into())], to: 1, ..nothing.clone() },
            Branch {
                client: Some("pilot".into()),
                share: Some(Share { percent: 10.0, sticky: true }),
                to: 1,
                ..nothing.clone()
            },
            Branch { quota_used: Some(0.8), to: 2, ..nothing },
        ]
    );
    assert_eq!(route.mirror, Some(Mirror { to: 2, share: Share { percent: 0.5, sticky: false } }));
}

#[test]
fn both_forms_of_a_route_have_the_defaults_of_the_contract() {
    for rest in [
        "routes: [{ name: r, upstreams: [{ provider: cloud }] }]",
        "routes: [{ name: r, upstream: { url: 'http://h/v1/chat/completions' } }]",
    ] {
        let route = route(rest);
        assert_eq!((route.strategy, route.on_failure), (Strategy::Ordered, OnFailure::Error));
        assert_eq!((route.split.len(), route.mirror), (0, None));
        let seconds = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect::<Vec<_>>();
        assert_eq!(
            route.retry,
            Retry { when: Repeats::Idempotent, server_error: seconds(&[1, 3]), throttled: seconds(&[5]), budget: 0.2 }
        );
        let breaker = route.breaker;
        assert_eq!(
            (breaker.failures, breaker.window.as_secs(), breaker.hold.as_secs(), breaker.max_rest.as_secs()),
            (5, 10, 30, 300)
        );
        assert!(route.upstreams[0].provider.health.is_none());
    }
    let short = route("routes: [{ name: r, upstream: { url: 'http://h/v1/x' }, mirror: { to: r } }]");
    assert_eq!(short.mirror, Some(Mirror { to: 0, share: Share { percent: 100.0, sticky: false } }));
}

#[test]
fn a_probe_asks_below_the_base_url() {
    for (base, health, path, seconds) in [
        ("http://a/v1", "{}", "/v1/models", 10),
        ("http://a", "{ every: 1s }", "/models", 1),
        ("http://a/v1/", "{ path: /health, every: 1m }", "/v1/health", 60),
        ("http://a//v1//", "{ path: //health/ }", "/v1/health/", 10),
        ("http://a/x?api-version=2", "{}", "/x/models?api-version=2", 10),
        ("http://a/?api-version=2", "{ path: '/models?limit=1' }", "/models?limit=1&api-version=2", 10),
    ] {
        let loaded = sound(&format!("providers: [{{ name: p, base_url: '{base}', health: {health} }}]"));
        let expected = Health { path: path.parse().unwrap(), every: Duration::from_secs(seconds) };
        assert_eq!(loaded.snapshot.providers[0].health.as_ref(), Some(&expected), "{base} {health}");
        assert!(loaded.warnings.is_empty());
        assert_eq!(loaded.snapshot.twin().providers[0].health, Some(expected));
    }
    assert!(sound(PROVIDERS).snapshot.providers[0].health.is_none());
}

#[test]
fn probes_that_cannot_work_say_why() {
    assert_problems(
        "providers:\n  - { name: a, base_url: http://a, health: { path: models, every: 999ms } }\n  - { name: b, base_url: http://b, health: { path: '/models#top' } }\n  - { name: c, base_url: http://c, health: { path: /模型, every: 0 } }\n",
        "gateway.yaml:2:52: providers[a].health.path: must begin with `/`\n\
         gateway.yaml:2:67: providers[a].health.every: is below `1s`; probes that often are a load of their own\n\
         gateway.yaml:3:52: providers[b].health.path: is no path that HTTP can carry; percent-encode it, and leave out \
         what follows a `#`\n\
         gateway.yaml:4:52: providers[c].health.path: is no path that HTTP can carry; percent-encode it, and leave out \
         what follows a `#`\n\
         gateway.yaml:4:64: providers[c].health.every: `0` is not a duration above zero: `250ms`, `3s`, `5m`, `2h`, `7d`, \
         or a bare number of milliseconds",
    );
}

#[test]
fn a_twin_decides_as_the_original_does_and_shares_no_name_with_it() {
    let original = sound(&with_providers(FULL)).snapshot;
    let twin = original.twin();
    let (left, right) = (&original.routes[0], &twin.routes[0]);
    assert_eq!((&left.split, left.mirror, left.strategy), (&right.split, right.mirror, right.strategy));
    assert_eq!((&left.retry, left.breaker, left.on_failure), (&right.retry, right.breaker, right.on_failure));
    assert_eq!(original.clients[0].on_failure, twin.clients[0].on_failure);
    let client = |route: &Route| route.split[1].client.clone().unwrap();
    assert!(!std::sync::Arc::ptr_eq(&client(left), &client(right)));
}

#[test]
fn shares_must_be_shares() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    split: [{ when: { percent: 0 }, to: cloud }, { when: { percent: 101 }, to: cloud }]\n    mirror: { to: cloud, percent: -1 }\n    retry: { budget: 1.5 }\n",
        ),
        "gateway.yaml:8:32: routes[r].split[0].when.percent: `0` is not a number above 0 and up to 100\n\
         gateway.yaml:8:69: routes[r].split[1].when.percent: `101` is not a number above 0 and up to 100\n\
         gateway.yaml:9:35: routes[r].mirror.percent: `-1` is not a number above 0 and up to 100\n\
         gateway.yaml:10:22: routes[r].retry.budget: `1.5` is not a number from 0 to 1",
    );
}

#[test]
fn headers_of_a_split_are_ones_that_a_request_can_have() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    split:\n      - { when: { header: {} }, to: cloud }\n      - { when: { header: { 'a b': x, X-A: y, x-a: z, x-b: ' z', x-c: \"a\\nb\" } }, to: cloud }\n",
        ),
        "gateway.yaml:9:27: routes[r].split[0].when.header: names no header; write one, or remove it\n\
         gateway.yaml:10:36: routes[r].split[1].when.header.a b: is not the name of a header\n\
         gateway.yaml:10:52: routes[r].split[1].when.header.x-a: is written twice (header names do not tell case); keep one\n\
         gateway.yaml:10:60: routes[r].split[1].when.header.x-b: is a value that no header has (blanks around it, or line ends)\n\
         gateway.yaml:10:71: routes[r].split[1].when.header.x-c: is a value that no header has (blanks around it, or line ends)",
    );
}

#[test]
fn a_split_without_end_is_refused() {
    let branches = vec!["{ when: { percent: 1 }, to: cloud }"; 101].join(", ");
    assert_problems(
        &with_providers(&format!("routes: [{{ name: r, upstreams: [{{ provider: cloud }}], split: [{branches}] }}]")),
        "gateway.yaml:5:62: routes[r].split: holds more than 100 branches",
    );
}

#[test]
fn a_tier_of_weights_must_give_somebody_a_share() {
    for strategy in ["weighted", "least_busy"] {
        assert_problems(
            &with_providers(&format!(
                "routes:\n  - name: r\n    strategy: {strategy}\n    upstreams: [{{ provider: cloud, weight: 0 }}, {{ provider: local, tier: 1 }}, {{ provider: other, weight: 0 }}]\n"
            )),
            "gateway.yaml:8:44: routes[r].upstreams[0].weight: every weight of tier 0 is 0, so nobody of it is chosen",
        );
    }
    let sound =
        "routes: [{ name: r, strategy: weighted, upstreams: [{ provider: cloud, weight: 0 }, { provider: other }] }]";
    assert_eq!(warnings(&with_providers(sound)), "");
}

#[test]
fn weights_that_no_strategy_reads_are_pointed_out() {
    for strategy in ["ordered", "fastest"] {
        assert_eq!(
            warnings(&with_providers(&format!(
                "routes:\n  - name: r\n    strategy: {strategy}\n    upstreams: [{{ provider: cloud, weight: 0 }}]\n"
            ))),
            "gateway.yaml:8:44: routes[r].upstreams[0].weight: has no effect without `strategy: weighted` or \
             `strategy: least_busy`"
        );
    }
}

#[test]
fn waits_behind_the_deadline_are_pointed_out() {
    assert_eq!(
        warnings(&with_providers(
            "routes:\n  - name: r\n    deadline: 4s\n    upstreams: [{ provider: cloud }]\n    retry: { server_error: [1s, 3s, 1s], throttled: [3s, 3s, 4s] }\n"
        )),
        "gateway.yaml:9:33: routes[r].retry.server_error[1]: can never happen: with the waits before it, it ends after the \
         route's `deadline`\n\
         gateway.yaml:9:62: routes[r].retry.throttled[2]: can never happen, but where the upstream asks for less: it ends \
         after the route's `deadline`"
    );
    assert_eq!(
        warnings(&with_providers(
            "routes:\n  - name: r\n    match: { path: /v1/embeddings }\n    deadline: 4s\n    upstreams: [{ provider: cloud }]\n    batch: { wait: 4s }\n"
        )),
        "gateway.yaml:10:20: routes[r].batch.wait: is as long as the route's `deadline`: no call waits for others"
    );
    // The default waits are nobody's mistake.
    assert_eq!(warnings(&with_providers("routes: [{ name: r, deadline: 1s, upstreams: [{ provider: cloud }] }]")), "");
}

#[test]
fn branches_that_an_earlier_one_leaves_nothing_are_pointed_out() {
    let warned = |first: &str, second: &str| {
        warnings(&with_providers(&format!(
            "clients: [{{ name: a }}, {{ name: b }}]\nroutes:\n  - name: r\n    upstreams: [{{ provider: cloud }}]\n    \
             split:\n      - {{ to: cloud, when: {first} }}\n      - {{ to: cloud, when: {second} }}\n"
        )))
    };
    for (first, second) in [
        ("{ percent: 100 }", "{ client: a }"),
        ("{ client: a }", "{ client: a, percent: 5 }"),
        ("{ header: { a: b } }", "{ header: { c: d, A: b } }"),
        ("{ quota_used: 0.5 }", "{ quota_used: 0.8 }"),
    ] {
        let told = warned(first, second);
        let never = "gateway.yaml:11:9: routes[r].split[1]: is never reached: whatever meets it meets routes[r].split[0] before";
        assert!(told.lines().any(|line| line == never), "{told}");
    }
    for (first, second) in [
        ("{ percent: 50 }", "{ percent: 50 }"),
        ("{ client: a }", "{ client: b }"),
        ("{ client: a }", "{ percent: 100 }"),
        ("{ client: a, header: { x-a: b } }", "{ client: a }"),
        ("{ header: { x-a: b } }", "{ header: { x-a: c } }"),
    ] {
        assert_eq!(warned(first, second), "");
    }
}

#[test]
fn callers_may_be_given_an_expired_answer_instead_of_a_failure() {
    let text = with_providers(
        "routes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    on_failure: stale\n    split: [{ when: { quota_used: 0.5 }, to: cloud }]\nclients: [{ name: c, on_failure: stale }, { name: d, on_failure: degrade }]\n",
    );
    let snapshot = sound(&text).snapshot;
    assert!(snapshot.not_in_force.is_empty() && warnings(&text).is_empty());
    assert_eq!(
        (snapshot.routes[0].on_failure, snapshot.clients[0].on_failure),
        (OnFailure::Stale, Some(OnFailure::Stale))
    );
}
