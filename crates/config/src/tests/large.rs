//! What large configurations cost, and what is too large.

use std::fmt::Write as _;

use base::steps;
use rules::shares::Priority;

use super::{problems, sound, warnings};

/// So many of each kind, all of which names another.
fn configuration(count: usize) -> String {
    let mut text = String::from("providers:\n");
    // No name begins another one: no pattern fits more than one route.
    for number in 1_000..1_000 + count {
        let _ = writeln!(text, "- {{ name: p{number}, base_url: \"http://h/v1\", concurrency: {{ max: 5 }} }}");
    }
    text.push_str("routes:\n");
    for number in 1_000..1_000 + count {
        let split = format!("split: [{{ when: {{ client: c{number} }}, to: p{number} }}]");
        let upstreams = format!("upstreams: [{{ provider: p{number}, model: m }}]");
        let _ = writeln!(text, "- {{ name: r{number}, {upstreams}, {split}, cache: {{ mode: exact }} }}");
        let _ = writeln!(text, "- {{ name: s{number}, upstream: {{ url: \"http://h/v1/chat/completions\" }} }}");
    }
    text.push_str("clients:\n");
    for number in 1_000..1_000 + count {
        let routes = format!("routes: [r{number}, {{ name: \"s{number}*\", limit: {{ qps: 1 }} }}]");
        let _ = writeln!(text, "- {{ name: c{number}, keys: [k{number}], {routes}, quota: {{ cost: 1 }} }}");
    }
    text
}

#[test]
fn twice_as_many_objects_are_twice_the_work() {
    let work = |count| steps::of(|| drop(sound(&configuration(count))));
    let (less, more) = (work(50), work(100));
    assert!(more <= 2 * less, "{less} and {more} steps");
}

#[test]
fn a_pattern_that_many_clients_have_and_no_route_fits_is_looked_for_once() {
    let work = |clients: usize| {
        let mut text = limited(1_000, 0, 0);
        for number in 0..clients {
            let _ = writeln!(text, "- {{ name: c{number}, keys: [k{number}], routes: [\"*-none\"] }}");
        }
        steps::of(|| drop(sound(&text)))
    };
    let (less, more) = (work(1), work(21));
    let of_each = (more - less) / 20;
    assert!(of_each < 800, "{of_each} steps for a client, though the pattern is known to fit none of 1,000 routes");
}

/// Routes, and clients that limit each of them by so many patterns.
fn limited(routes: usize, clients: usize, patterns: usize) -> String {
    let mut text = String::from("providers: [{ name: p, base_url: \"http://h/v1\" }]\nroutes:\n");
    for number in 0..routes {
        let _ = writeln!(text, "- {{ name: r{number}, upstreams: [{{ provider: p, model: m }}] }}");
    }
    let pattern = |number| format!("{{ name: \"r{}\", limit: {{ qps: {} }} }}", "*".repeat(number), 10 + number);
    let patterns: Vec<String> = (1..=patterns).map(pattern).collect();
    text.push_str("clients:\n");
    for number in 0..clients {
        let _ = writeln!(text, "- {{ name: c{number}, keys: [k{number}], routes: [{}] }}", patterns.join(", "));
    }
    text
}

#[test]
fn a_route_that_several_patterns_fit_is_limited_once_and_by_the_tightest() {
    // 1,000 pairs of a client and a route, each by three patterns.
    let loaded = sound(&limited(100, 10, 3));
    for client in &loaded.snapshot.clients {
        assert_eq!(client.limits_on.len(), 100);
        let rates = loaded.snapshot.routes.iter().map(|route| client.limit_on(route).rate.unwrap().qps);
        assert!(rates.into_iter().all(|qps| (qps - 11.0).abs() < f64::EPSILON));
    }
}

#[test]
fn limits_of_too_many_pairs_are_refused_once_and_looked_at_no_further() {
    let told = problems(&limited(101, 10, 1));
    assert!(told.contains("clients[c9].routes: limits so many routes that all clients together limit more than 1000;"));
    assert_eq!(told.lines().count(), 1, "{told}");
    let work = |clients| steps::of(|| drop(problems(&limited(500, clients, 4))));
    let (less, more) = (work(3), work(23));
    let of_each = (more - less) / 20;
    assert!(of_each < 500, "{of_each} steps for a client, though nothing is left to be limited");
}

#[test]
fn twice_as_many_patterns_of_one_client_are_twice_the_work() {
    let work = |patterns| steps::of(|| drop(sound(&limited(100, 1, patterns))));
    let (none, less, more) = (work(0), work(20), work(40));
    assert!(more - none <= 2 * (less - none), "{none}, {less} and {more} steps");
}

#[test]
fn clients_whose_quota_cannot_count_an_upstream_are_told_by_the_first_of_them() {
    let text = "
providers: [{ name: p, base_url: \"http://h/v1\" }]
routes:
- { name: free, upstreams: [{ provider: p, model: m }] }
- { name: paid, upstreams: [{ provider: p, model: m, prices: { prompt: 1, completion: 1, currency: EUR } }] }
clients:
- { name: a, keys: [a], routes: [paid], quota: { cost: 1, currency: EUR } }
- { name: b, keys: [b], routes: [\"p*\", free], quota: { cost: 1, currency: USD } }
- { name: c, keys: [c], routes: [\"*\"], quota: { cost: 1, currency: USD } }
";
    let told = warnings(text);
    assert!(told.contains("routes[free].name: `p/m` has no known price: what it answers does not count against `quota.cost` of client `b`"), "{told}");
    assert!(told.contains("routes[paid].name: `p/m` is priced in EUR, and not in USD: what it answers does not count against `quota.cost` of client `b`"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn callers_come_where_they_may() {
    let text = "
providers: [{ name: p, base_url: \"http://h/v1\" }]
routes:
- { name: both, upstreams: [{ provider: p }] }
- { name: batch-a, upstreams: [{ provider: p }] }
- { name: online, upstreams: [{ provider: p }] }
- { name: nobody, upstreams: [{ provider: p }] }
clients:
- { name: a, keys: [a], routes: [\"b*\"], priority: batch }
- { name: b, keys: [b], routes: [both, online] }
- { name: c, keys: [c], routes: [both, \"*h\"], priority: batch }
";
    let snapshot = sound(text).snapshot;
    let callers = snapshot.callers();
    for route in &snapshot.routes {
        let comes =
            |priority| snapshot.clients.iter().any(|client| client.priority == priority && client.may_use(route));
        let are_of_all = Priority::ALL.into_iter().all(comes);
        assert_eq!(callers.on(route).are_of_all_priorities(), are_of_all, "{}", route.name);
    }
    assert!(callers.on(&snapshot.routes[0]).are_of_all_priorities() && callers.anywhere().are_of_all_priorities());
}

#[test]
fn what_every_call_is_held_against_is_bounded() {
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(", ");
    let provider = |more: &str| format!("providers: [{{ name: p, base_url: \"http://h/v1\"{more} }}]\n");
    let route = |upstreams: &str, more: &str| format!("routes: [{{ name: r, upstreams: [{upstreams}]{more} }}]\n");
    let upstream = "{ provider: p, model: m }";
    let headers = |count| many(count, &|number| format!("x-h{number}: a"));
    let keys = |count| many(count, &|number| format!("k{number}"));
    let upstreams = |count| many(count, &|number| format!("{{ provider: p, model: m{number} }}"));
    let rules = |count| many(count, &|number| format!("f{number}: 1"));
    let with = |provider: String, route: String| provider + &route;
    let texts = |more: usize| {
        [
            with(provider(&format!(", headers: {{ {} }}", headers(100 + more))), route(upstream, "")),
            with(provider(&format!(", api_keys: [{}]", keys(1_000 + more))), route(upstream, "")),
            with(provider(""), route(&upstreams(1_000 + more), "")),
            with(provider(""), route(upstream, &format!(", params: {{ default: {{ {} }} }}", rules(500 + more)))),
            with(
                provider(""),
                route(upstream, &format!(", split: [{{ when: {{ header: {{ {} }} }}, to: p }}]", headers(100 + more))),
            ),
        ]
    };
    for (most, beyond) in texts(0).iter().zip(texts(1)) {
        drop(sound(most));
        let told = problems(&beyond);
        assert!(told.contains("holds more than") && told.lines().count() == 1, "{told}");
    }
}

#[test]
fn upstreams_of_all_routes_are_bounded() {
    let mut text = String::from("providers: [{ name: p, base_url: \"http://h/v1\" }]\nroutes:\n");
    let upstreams: Vec<String> = (0..1_000).map(|number| format!("{{ provider: p, model: m{number} }}")).collect();
    let _ = writeln!(text, "- {{ name: a, upstreams: [{}] }}", upstreams.join(", "));
    let _ = writeln!(text, "- {{ name: b, upstreams: [{}] }}", upstreams.join(", "));
    drop(sound(&text));
    text.push_str(
        "- { name: c, upstreams: [{ provider: p, model: m }] }\n- { name: d, upstreams: [{ provider: p }] }\n",
    );
    let told = problems(&text);
    assert!(told.contains("routes[c]: brings the upstreams of all routes to more than 2000"), "{told}");
    assert_eq!(told.lines().count(), 1, "told once");
}
