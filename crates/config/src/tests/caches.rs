//! What is cached, as it is compiled.

use std::sync::Arc;
use std::time::Duration;

use dialect::chat::Pattern;

use super::{problems, sound};
use crate::{CacheBounds, CacheMode, CacheScope, MultiTurn, Overruled, Verify};

const ROUTES: &str = "providers: [{ name: cloud, base_url: http://p/v1 }]
routes:
  - { name: e, match: { path: /v1/embeddings }, upstreams: [{ provider: cloud }] }
  - { name: r, match: { path: /v1/rerank }, upstreams: [{ provider: cloud }] }
  - { name: plain, upstreams: [{ provider: cloud }] }
  - name: chat
    upstreams: [{ provider: cloud }]
    cache: ";

#[test]
fn a_route_caches_nothing_unless_it_says_so() {
    let loaded = sound(&format!("{ROUTES}{{ ttl: 5m }}\n"));
    for route in &loaded.snapshot.routes {
        assert!(!route.cache.is_on() && route.cache.semantic.is_none(), "{}", route.name);
        assert_eq!((route.cache.scope, route.cache.normalize), (CacheScope::Client, true));
    }
    assert_eq!(loaded.snapshot.routes[2].cache.ttl, Duration::from_secs(3600));
    assert_eq!(loaded.snapshot.routes[3].cache.ttl, Duration::from_secs(300));
}

#[test]
fn all_caches_together_have_bounds() {
    let bounds = |text: &str| sound(text).snapshot.general.cache;
    assert_eq!(bounds("{}\n"), CacheBounds { memory: 256 << 20, disk: 2 << 30 });
    assert_eq!(bounds("cache: { memory: 1MiB, disk: 0 }\n"), CacheBounds { memory: 1 << 20, disk: 0 });
    assert_eq!(
        problems("cache: { disk: 1000KiB }\n"),
        "gateway.yaml:1:16: cache.disk: is too little; write at least `1MiB`, or 0 to keep what is cached in memory alone"
    );
}

#[test]
fn a_client_may_have_a_scope_of_its_own() {
    let text = format!(
        "{ROUTES}{{ mode: exact, scope: route, kb_version: 2026-11, normalize: false }}\nclients: [{{ name: a, cache: {{ scope: client }} }}, {{ name: b }}]\n"
    );
    let loaded = sound(&text);
    let cache = &loaded.snapshot.routes[3].cache;
    assert_eq!((cache.mode, cache.scope, cache.normalize), (CacheMode::Exact, CacheScope::Route, false));
    assert_eq!(cache.kb_version.as_deref(), Some("2026-11"));
    let scopes: Vec<_> = loaded.snapshot.clients.iter().map(|client| client.cache_scope).collect();
    assert_eq!(scopes, [Some(CacheScope::Client), None]);
}

#[test]
fn questions_need_a_pattern_that_can_be_searched_for_and_vectors_that_can_be_compared() {
    let of = |terms: &str| problems(&format!("{ROUTES}{{ mode: semantic, semantic: {{ {terms} }} }}\n"));
    let pattern = of("route: e, threshold: 0.9, question: '(?=a)(b)'");
    assert!(
        pattern.contains("cache.semantic.question: is no regular expression that can be searched for: "),
        "{pattern}"
    );
    let several = "  - { name: e2, match: { path: /v1/embeddings }, vector_space: any, upstreams: [{ provider: cloud, model: a }, { provider: cloud, name: b, model: b }] }\n";
    let text = format!("{ROUTES}{{ mode: semantic, semantic: {{ route: e2, threshold: 0.9 }} }}\n{several}");
    let spaces = problems(&text);
    assert!(spaces.contains("cache.semantic.route: `e2` has upstreams of several vector spaces"), "{spaces}");
}

#[test]
fn the_semantic_cache_has_its_terms_with_its_mode_alone() {
    let terms = "semantic: { route: e, threshold: 0.93";
    let of = |mode: &str, more: &str| {
        let loaded = sound(&format!("{ROUTES}{{ mode: {mode}, {terms}{more} }} }}\n"));
        loaded.snapshot.routes[3].cache.semantic.clone()
    };
    assert_eq!(of("exact", ""), None);
    let usual = of("semantic", "").unwrap();
    assert_eq!((&*usual.route, usual.threshold, usual.margin, usual.max_temperature), ("e", 0.93, 0.02, 0.3));
    assert_eq!((usual.timeout, usual.multi_turn, usual.shadow), (Duration::from_millis(300), MultiTurn::Bypass, false));
    assert_eq!((usual.question.as_ref(), usual.verify.as_ref()), (None, None));
    let own = of("semantic", ", question: 'Q: (.*)', multi_turn: exact, shadow: true, verify: { route: r }").unwrap();
    assert_eq!(
        (own.question.clone(), own.multi_turn, own.shadow),
        (Pattern::new("Q: (.*)").ok(), MultiTurn::Exact, true)
    );
    assert_eq!(own.verify, Some(Verify { route: "r".into(), min_score: 0.9, overrules: Arc::default() }));
    let own = of("semantic", ", verify: { route: r, min_score: 0.5, overrules: [entity, scope] }").unwrap();
    let overrules = [Overruled::Entity, Overruled::Scope].into();
    assert_eq!(own.verify, Some(Verify { route: "r".into(), min_score: 0.5, overrules }));
}
