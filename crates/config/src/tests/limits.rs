//! Limits, priorities, queues and places, from text to terms.

use std::time::Duration;

use rules::limits::{Limit, Rate};
use rules::queue::Patience;
use rules::shares::Priority;
use rules::slots::Terms;

use super::{assert_problems, sound, warnings};

const SOUND: &str = "limit: { qps: 200 }
providers:
  - { name: a, base_url: http://a/v1, concurrency: { max: 64, adaptive: true }, queue: { max_wait: 2s, max_depth: 7 } }
  - { name: b, base_url: http://b/v1, concurrency: { adaptive: true, headroom: 0.5 } }
  - { name: c, base_url: http://c/v1 }
routes: [{ name: chat, upstreams: [{ provider: a }], limit: { qps: 0.5, concurrency: 3 } }]
clients:
  - { name: day, routes: [{ name: 'c*', limit: { qps: 9, burst: 2 } }, { name: chat, limit: { qps: 5, concurrency: 4 } }] }
  - { name: night, priority: batch, routes: ['*'], limit: { tokens_per_minute: 1000 }, queue: { max_depth: 0 } }
";

#[test]
fn what_is_written_is_what_holds_in_the_twin_too() {
    let original = sound(SOUND).snapshot;
    for snapshot in [original.twin(), original] {
        let rate = |qps, burst| Limit { rate: Some(Rate { qps, burst }), ..Limit::default() };
        assert_eq!(snapshot.general.limit, rate(200.0, 200));
        let route = &snapshot.routes[0];
        assert_eq!(route.limit, Limit { concurrency: Some(3), ..rate(0.5, 1) });
        let [day, night] = &*snapshot.clients else { panic!("two clients") };
        assert_eq!((day.priority, night.priority), (Priority::Online, Priority::Batch));
        assert_eq!(
            (day.limit, day.limit_on(route)),
            (Limit::default(), Limit { concurrency: Some(4), ..rate(5.0, 5) })
        );
        assert_eq!(night.limit.tokens_per_minute, Some(1000));
        assert_eq!(night.queue, Patience { max_wait: None, max_depth: Some(0) });
        let [a, b, c] = &*snapshot.providers else { panic!("three providers") };
        assert_eq!(a.queue, Patience { max_wait: Some(Duration::from_secs(2)), max_depth: Some(7) });
        assert_eq!(a.concurrency, Some(Terms { max: 64, adaptive: true, headroom: 0.3 }));
        assert_eq!(b.concurrency, Some(Terms { max: 65_535, adaptive: true, headroom: 0.5 }));
        assert_eq!((c.concurrency, snapshot.not_in_force.len()), (None, 0));
    }
}

#[test]
fn what_bounds_nothing_is_pointed_out() {
    assert_problems(
        "providers:
  - { name: a, base_url: http://a/v1, concurrency: { headroom: 0.5 } }
limit: {}
clients: [{ name: c, limit: { burst: 5 } }]
",
        "gateway.yaml:2:52: providers[a].concurrency: bounds nothing; write `max`, or `adaptive: true`\n\
         gateway.yaml:2:64: providers[a].concurrency.headroom: is about `adaptive: true`, which is not written\n\
         gateway.yaml:3:8: limit: limits nothing; write `qps`, `concurrency` or `tokens_per_minute`, or remove it\n\
         gateway.yaml:4:38: clients[c].limit.burst: is about `qps`, which is not written",
    );
}

#[test]
fn a_patience_beyond_the_deadline_is_pointed_out() {
    let text = "clients: [{ name: c, priority: batch, deadline: 5s, queue: { max_wait: 10s } }]";
    assert_eq!(
        warnings(text),
        "gateway.yaml:1:72: clients[c].queue.max_wait: is longer than the client's `deadline`, which holds for the wait too"
    );
}
