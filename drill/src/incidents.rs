//! The incidents. README.md tells each of them in words.

use std::time::Duration;

use crate::incident::{Call, Expect, Fault, Group, Incident, Promise, Upstream};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Clocks of a route, ten to thirty times shorter than the defaults. A sound answer takes 60 ms at most, so that a busy machine may
/// stand still for a second before it looks like a fault, and enough is left of the deadline for another try.
const CLOCKS: &str = "
    timeout: { attempt: 1500ms, first_byte: 1500ms }
    deadline: 5s
    retry: { server_error: [100ms, 300ms], throttled: [500ms] }
    breaker: { failures: 5, window: 1s, hold: 1s, max_rest: 10s }";

/// An upstream that always answers, in a time that leaves room for calls side by side.
const SOUND: &str = "
dimensions: 8
word_delay: 1ms
rules: [{ reply: { latency: { uniform: [20ms, 60ms] } } }]";

const fn upstream(name: &'static str, scenario: &'static str, tier: u32) -> Upstream {
    Upstream { name, scenario, provider: "", tier, weight: 1 }
}

/// Some forty calls a second.
const ASSISTANTS: Group = Group {
    client: "assistant",
    callers: 20,
    every: ms(500),
    in_step: false,
    has_side_effects: false,
    repeats: 0,
    leaves_after: None,
    expects: Expect::Answer,
};

/// Eight callers that ask at the same moment and are silent in between.
const BURSTS: Group = Group { callers: 8, every: ms(1500), in_step: true, ..ASSISTANTS };

/// What a broken upstream with a sound one beside it must not do to callers.
const FAILOVER: &[Promise] = &[
    Promise::Failures { per_mille: 0 },
    Promise::Tries(2),
    Promise::Switch(s(4)),
    Promise::OneTrial,
    Promise::LeftAlone { hold: s(1) },
    Promise::BackWithin(s(4)),
    Promise::GrowsBack,
    Promise::Met { least: 5 },
];

/// Where failures are a share of the calls.
const SHARE_OF_CALLS: Promise = Promise::Failures { per_mille: 1 };

/// All of them; they run side by side.
pub(crate) const ALL: &[Incident] = &[
    ERRORS, OUTAGE, SEESAW, ALONE, THROTTLED, FLAKY, HUNG, LEAVERS, PROBED, RERANK, STALE_FIN, STALE_RST, FORGOTTEN,
    STORM,
];

const ERRORS: Incident = Incident {
    name: "errors",
    title: "5xx for five minutes",
    factor: 30,
    upstreams: &[
        upstream(
            "first",
            "
dimensions: 8
word_delay: 1ms
seed: 1
rules:
  - when: { from: 2s, until: 12s, chance: 0.5 }
    reply: 503
  - when: { from: 2s, until: 12s }
    reply: { status: 500, latency: { uniform: [5ms, 80ms] } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
            0,
        ),
        upstream("second", SOUND, 1),
    ],
    route: CLOCKS,
    call: Call::Chat,
    groups: &[ASSISTANTS],
    fault: Some(Fault { from: s(2), until: s(12) }),
    length: s(30),
    full_share: 1.0,
    promises: FAILOVER,
};

const OUTAGE: Incident = Incident {
    name: "outage",
    title: "a provider's twenty-minute outage",
    factor: 60,
    upstreams: &[
        Upstream {
            weight: 2,
            ..upstream(
                "first",
                "
dimensions: 8
word_delay: 1ms
connections: { refuse: { from: 2s, until: 12s } }
rules:
  - when: { from: 12s, until: 22s }
    reply: hang
  - reply: { latency: { uniform: [20ms, 60ms] } }",
                0,
            )
        },
        upstream("second", SOUND, 0),
        upstream("third", SOUND, 0),
    ],
    route: "
    strategy: weighted
    timeout: { attempt: 1500ms, first_byte: 1500ms }
    deadline: 5s
    retry: { server_error: [100ms, 300ms], throttled: [500ms] }
    breaker: { failures: 5, window: 1s, hold: 1s, max_rest: 10s }",
    call: Call::Embeddings,
    groups: &[Group { callers: 25, ..ASSISTANTS }],
    fault: Some(Fault { from: s(2), until: s(22) }),
    length: s(40),
    full_share: 0.5,
    promises: FAILOVER,
};

const SEESAW: Incident = Incident {
    name: "seesaw",
    title: "the fallback fails while the first comes back",
    upstreams: &[
        upstream(
            "first",
            "
word_delay: 1ms
rules:
  - when: { from: 2s, until: 8s }
    reply: { status: 502, latency: { uniform: [5ms, 80ms] } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
            0,
        ),
        upstream(
            "second",
            "
word_delay: 1ms
rules:
  - when: { from: 13s, until: 19s }
    reply: { status: 502, latency: { uniform: [5ms, 80ms] } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
            1,
        ),
    ],
    fault: Some(Fault { from: s(2), until: s(8) }),
    length: s(24),
    // No growth here: the first one must take everything at 13 s, ready or not.
    promises: &[
        Promise::Failures { per_mille: 0 },
        Promise::Tries(2),
        Promise::Switch(s(4)),
        Promise::OneTrial,
        Promise::LeftAlone { hold: s(1) },
        Promise::BackWithin(s(4)),
        Promise::Met { least: 5 },
    ],
    ..ERRORS
};

const ALONE: Incident = Incident {
    name: "alone",
    title: "the only one comes back and stumbles",
    upstreams: &[upstream(
        "first",
        "
word_delay: 1ms
rules:
  - when: { from: 2s, until: 8s }
    reply: { status: 502, latency: { uniform: [5ms, 80ms] } }
  - when: { from: 13s, first: 1 }
    reply: { status: 502, latency: { uniform: [5ms, 80ms] } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
        0,
    )],
    // While there is none they are told so; afterwards one call that fails must not take it from the others.
    groups: &[Group { expects: Expect::Refused, ..ASSISTANTS }],
    fault: Some(Fault { from: s(2), until: s(8) }),
    length: s(20),
    promises: &[
        Promise::Failures { per_mille: 0 },
        Promise::OneTrial,
        Promise::LeftAlone { hold: s(1) },
        Promise::BackWithin(s(4)),
        Promise::Met { least: 5 },
    ],
    ..ERRORS
};

const THROTTLED: Incident = Incident {
    name: "throttled",
    title: "throttled embeddings, 4.8 %",
    factor: 1,
    upstreams: &[
        upstream(
            "first",
            "
dimensions: 8
seed: 7
rules:
  - when: { path: '*/embeddings', chance: 0.012 }
    reply: { status: 429, headers: { retry-after: 1 } }
  - when: { path: '*/embeddings', chance: 0.012 }
    reply: { status: 429, headers: { retry-after: { in: 2s } } }
  - when: { path: '*/embeddings', chance: 0.012 }
    reply: { status: 429, headers: { retry-after-ms: 1100 } }
  - when: { path: '*/embeddings', chance: 0.012 }
    reply: { status: 429, headers: { retry-after: null, x-ratelimit-remaining-requests: 0, x-ratelimit-reset-requests: 1.2s } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
            0,
        ),
        upstream("second", SOUND, 1),
    ],
    route: CLOCKS,
    call: Call::Embeddings,
    groups: &[Group { callers: 30, ..ASSISTANTS }],
    fault: None,
    length: s(36),
    full_share: 1.0,
    promises: &[
        SHARE_OF_CALLS,
        Promise::Tries(2),
        Promise::Switch(s(4)),
        Promise::Met { least: 4 },
        Promise::RestsKept(&[s(1), s(1), ms(1100), ms(1200)]),
    ],
};

const FLAKY: Incident = Incident {
    name: "flaky",
    title: "a failing chat model, 2.1 %",
    factor: 1,
    upstreams: &[
        upstream(
            "first",
            "
word_delay: 1ms
seed: 3
rules:
  - when: { path: '*/completions', chance: 0.005 }
    reply: 500
  - when: { path: '*/completions', chance: 0.005 }
    reply: reset
  - when: { path: '*/completions', chance: 0.005 }
    reply: { cut: { at: head, how: rst } }
  # A stream has sent its empty first delta by then, a whole answer half of itself.
  - when: { stream: true, chance: 0.006 }
    reply: { cut: { events: 1, how: rst } }
  - when: { stream: false, chance: 0.006 }
    reply: { cut: { bytes: 100, how: fin } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
            0,
        ),
        upstream("second", SOUND, 1),
    ],
    route: CLOCKS,
    call: Call::Chat,
    groups: &[Group { callers: 30, ..ASSISTANTS }],
    fault: None,
    length: s(36),
    full_share: 1.0,
    promises: &[SHARE_OF_CALLS, Promise::Tries(2), Promise::Switch(s(4)), Promise::Met { least: 5 }],
};

const HANGS: &str = "
word_delay: 1ms
rules:
  - when: { from: 2s, until: 12s }
    reply: hang
  - reply: { latency: { uniform: [20ms, 60ms] } }";

const HUNG: Incident = Incident {
    name: "hung",
    title: "a hung local model, found by calls",
    factor: 30,
    upstreams: &[upstream("first", HANGS, 0), upstream("second", SOUND, 1)],
    route: CLOCKS,
    call: Call::Chat,
    groups: &[ASSISTANTS],
    fault: Some(Fault { from: s(2), until: s(12) }),
    length: s(30),
    full_share: 1.0,
    promises: FAILOVER,
};

const PROBED: Incident = Incident {
    name: "probed",
    title: "a hung local model, found by probes",
    upstreams: &[
        Upstream {
            provider: "
    health: { path: /models, every: 1s }",
            ..upstream("first", HANGS, 0)
        },
        upstream("second", SOUND, 1),
    ],
    // Probes come at most once a second, and the hold must outlast the wait for the next: by default it is three times as long.
    route: "
    timeout: { attempt: 1500ms, first_byte: 1500ms }
    deadline: 5s
    retry: { server_error: [100ms, 300ms], throttled: [500ms] }
    breaker: { failures: 5, window: 1s, hold: 3s, max_rest: 10s }",
    length: s(34),
    // A probe that is answered takes the place of the trial, so that calls may come back two at a time.
    promises: &[
        Promise::Failures { per_mille: 0 },
        Promise::Tries(2),
        Promise::Switch(s(4)),
        Promise::Spared { trials: 2 },
        Promise::BackWithin(s(7)),
        Promise::GrowsBack,
        Promise::Met { least: 5 },
    ],
    ..HUNG
};

const LEAVERS: Incident = Incident {
    name: "leavers",
    title: "a hung local model, and callers leave",
    groups: &[Group { callers: 10, ..ASSISTANTS }, Group { callers: 10, leaves_after: Some(ms(300)), ..ASSISTANTS }],
    // Who leaves says nothing about the upstream, so that the next call may be a trial at once.
    promises: &[
        Promise::Failures { per_mille: 0 },
        Promise::Tries(2),
        Promise::Switch(s(4)),
        Promise::OneTrial,
        Promise::BackWithin(s(4)),
        Promise::GrowsBack,
        Promise::Met { least: 5 },
    ],
    ..HUNG
};

const RERANK: Incident = Incident {
    name: "rerank",
    title: "a rerank timeout, degraded",
    factor: 30,
    upstreams: &[Upstream {
        provider: "
    protocol: jina",
        ..upstream(
            "first",
            "
rules:
  - when: { from: 2s, until: 10s }
    reply: { latency: 30s }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
            0,
        )
    }],
    route: "
    timeout: { attempt: 1s }
    deadline: 5s
    retry: { server_error: [100ms], throttled: [500ms] }
    breaker: { failures: 5, window: 1s, hold: 1s, max_rest: 10s }
    on_failure: degrade",
    call: Call::Rerank,
    groups: &[
        Group { callers: 14, expects: Expect::Degraded, ..ASSISTANTS },
        Group { client: "clinic", callers: 6, expects: Expect::Refused, ..ASSISTANTS },
    ],
    fault: Some(Fault { from: s(2), until: s(10) }),
    length: s(18),
    full_share: 1.0,
    promises: &[
        Promise::Failures { per_mille: 0 },
        Promise::OneTrial,
        Promise::LeftAlone { hold: s(1) },
        Promise::BackWithin(s(4)),
        Promise::Met { least: 5 },
        Promise::Degrades { least: 20 },
    ],
};

const STALE_FIN: Incident = Incident {
    name: "stale-fin",
    title: "connections gone stale, closed",
    factor: 20_000,
    upstreams: &[upstream(
        "first",
        "
word_delay: 1ms
connections: { idle: 1480ms, how: fin }
rules: [{ reply: { latency: { uniform: [5ms, 15ms] } } }]",
        0,
    )],
    route: CLOCKS,
    call: Call::Chat,
    groups: &[BURSTS, Group { callers: 4, has_side_effects: true, ..BURSTS }],
    fault: None,
    length: s(30),
    full_share: 1.0,
    promises: &[Promise::Failures { per_mille: 0 }, Promise::Tries(2)],
};

const STALE_RST: Incident = Incident {
    name: "stale-rst",
    title: "connections gone stale, reset",
    upstreams: &[upstream(
        "first",
        "
word_delay: 1ms
connections: { idle: 1480ms, how: rst }
rules: [{ reply: { latency: { uniform: [5ms, 15ms] } } }]",
        0,
    )],
    ..STALE_FIN
};

const FORGOTTEN: Incident = Incident {
    name: "forgotten",
    title: "connections that a firewall forgot",
    upstreams: &[upstream(
        "first",
        "
word_delay: 1ms
connections: { reuse: false, how: rst }
rules: [{ reply: { latency: { uniform: [5ms, 15ms] } } }]",
        0,
    )],
    ..STALE_FIN
};

const STORM: Incident = Incident {
    name: "storm",
    title: "a retry storm",
    factor: 20,
    upstreams: &[upstream(
        "first",
        "
word_delay: 1ms
rules:
  - when: { from: 2s, until: 22s }
    reply: { status: 500, latency: { uniform: [5ms, 15ms] } }
  - reply: { latency: { uniform: [20ms, 60ms] } }",
        0,
    )],
    // A breaker would end the storm by itself; here the budget must.
    route: "
    timeout: { attempt: 1500ms, first_byte: 1500ms }
    deadline: 5s
    retry: { server_error: [50ms, 150ms], throttled: [500ms], budget: 0.2 }
    breaker: { failures: 10000, window: 1s, hold: 1s }",
    call: Call::Chat,
    groups: &[Group { client: "impatient-sdk", callers: 6, repeats: 3, expects: Expect::Refused, ..ASSISTANTS }],
    fault: Some(Fault { from: s(2), until: s(22) }),
    length: s(26),
    full_share: 1.0,
    promises: &[
        Promise::Failures { per_mille: 0 },
        Promise::Met { least: 50 },
        Promise::RepeatsBounded,
        Promise::RepeatsCounted { client: "impatient-sdk" },
        Promise::NamedOnce { client: "impatient-sdk" },
    ],
};
