//! What it costs to put large configurations in force.

use std::fmt::Write as _;

use base::steps;

use crate::stage::{Stage, snapshot};

/// So many of each kind, all of which name another and are limited. No name begins another one, so that no pattern fits
/// more than one route.
fn configuration(count: usize) -> String {
    let mut text = String::from("providers:\n");
    let numbers = 1_000..1_000 + count;
    for number in numbers.clone() {
        let _ = writeln!(text, "- {{ name: p{number}, base_url: \"http://a/v1\", concurrency: {{ max: 5 }} }}");
    }
    text.push_str("routes:\n");
    for number in numbers.clone() {
        let upstreams = format!("upstreams: [{{ provider: p{number}, model: m, space: v }}]");
        let semantic = format!("cache: {{ mode: semantic, semantic: {{ route: e{number}, threshold: 0.9 }} }}");
        let _ = writeln!(text, "- {{ name: r{number}, {upstreams}, limit: {{ qps: 5 }}, {semantic} }}");
        let _ = writeln!(text, "- {{ name: e{number}, {upstreams}, match: {{ path: /v1/embeddings }} }}");
    }
    text.push_str("clients:\n");
    for number in numbers {
        let routes = format!("routes: [e{number}, {{ name: \"r{number}*\", limit: {{ qps: 1 }} }}]");
        let priority = if number % 2 == 0 { "online" } else { "batch" };
        let _ = writeln!(
            text,
            "- {{ name: c{number}, keys: [k{number}], {routes}, priority: {priority}, limit: {{ qps: 2 }}, quota: {{ tokens: 9 }} }}"
        );
    }
    text
}

/// Steps to put a configuration in force, and to put the same in force again.
fn steps_of_reloads(text: &str) -> (usize, usize) {
    let (stage, first, again) = (Stage::set(&configuration(1)), snapshot(text), snapshot(text));
    (steps::of(|| stage.live.put_in_force(first)), steps::of(|| stage.live.put_in_force(again)))
}

#[tokio::test(start_paused = true)]
async fn to_put_twice_as_many_objects_in_force_is_twice_the_work() {
    let [less, more] = [50, 100].map(|count| steps_of_reloads(&configuration(count)));
    assert!(less.0 > 50 && less.1 > 50, "{less:?} steps: every object is bound");
    assert!(more.0 <= 2 * less.0 && more.1 <= 2 * less.1, "{less:?} and {more:?} steps");
}

#[tokio::test(start_paused = true)]
async fn many_patterns_that_fit_one_route_are_held_against_it_once_each() {
    let [one, many] = [1, 50].map(|patterns| {
        let pattern = |stars: usize| format!("{{ name: \"r{}\", limit: {{ qps: 1 }} }}", "*".repeat(stars));
        let patterns: Vec<String> = (1..=patterns).map(pattern).collect();
        let client = format!("- {{ name: d, keys: [d], routes: [{}] }}\n", patterns.join(", "));
        steps_of_reloads(&(configuration(20) + &client))
    });
    // For each worker, and for places and limits, it is asked who comes on a route.
    assert!(many.0 - one.0 <= 20 * 49 * 8, "{one:?} and {many:?} steps");
}
