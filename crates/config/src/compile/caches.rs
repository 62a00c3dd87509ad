//! What is cached, and checks of it and of the routes that the semantic cache asks.

use std::sync::Arc;

use base::{Endpoint, Family, ObjectKind, nearest};
use dialect::chat::Pattern;

use super::{Compiler, Directory};
use crate::caching::{CacheBounds, CacheMode, CacheScope, Caching, MultiTurn, Overruled, Semantic, Verify};
use crate::snapshot::Route;
use crate::view::View;

/// Less is no room for a file of the cache.
const SMALLEST_DISK: u64 = 1 << 20;

/// `cache` of the process.
pub(super) fn bounds(compiler: &mut Compiler<'_>, cache: &View<'_>) -> CacheBounds {
    let disk = cache.at("disk");
    let bounds = CacheBounds { memory: cache.at("memory").size() as u64, disk: disk.size() as u64 };
    if (1..SMALLEST_DISK).contains(&bounds.disk) {
        compiler.report(&disk, "is too little; write at least `1MiB`, or 0 to keep what is cached in memory alone");
    }
    bounds
}

/// `cache` of a route.
pub(super) fn caching(cache: &View<'_>) -> Caching {
    let mode = match cache.at("mode").text_or_preset() {
        "exact" => CacheMode::Exact,
        "semantic" => CacheMode::Semantic,
        _ => CacheMode::Off,
    };
    let written = cache.at("semantic");
    Caching {
        mode,
        ttl: cache.at("ttl").duration(Family::Chat),
        scope: scope(cache).unwrap_or_default(),
        kb_version: cache.at("kb_version").text().map(Into::into),
        normalize: cache.at("normalize").flag(),
        semantic: semantic(&written).filter(|_| mode == CacheMode::Semantic).map(Arc::new),
    }
}

/// `cache.scope` of a route or of a client.
pub(super) fn scope(cache: &View<'_>) -> Option<CacheScope> {
    match cache.at("scope").text_or_preset() {
        "client" => Some(CacheScope::Client),
        "route" => Some(CacheScope::Route),
        _ => None,
    }
}

fn semantic(view: &View<'_>) -> Option<Semantic> {
    let verify = view.at("verify");
    let overrules = || verify.at("overrules").items().iter().filter_map(|word| Overruled::of(word.text()?)).collect();
    let verify = verify.at("route").text().map(|route| Verify {
        route: route.into(),
        min_score: verify.at("min_score").number().unwrap_or_default(),
        overrules: overrules(),
    });
    let number = |name: &str| view.at(name).number();
    Some(Semantic {
        route: view.at("route").text()?.into(),
        threshold: number("threshold")?,
        margin: number("margin").unwrap_or_default(),
        timeout: view.at("timeout").duration(Family::Chat),
        question: view.at("question").text().and_then(|text| Pattern::new(text).ok()),
        multi_turn: match view.at("multi_turn").text_or_preset() {
            "exact" => MultiTurn::Exact,
            _ => MultiTurn::Bypass,
        },
        max_temperature: number("max_temperature").unwrap_or_default(),
        verify,
        shadow: view.at("shadow").flag(),
    })
}

pub(super) fn check(compiler: &mut Compiler<'_>, view: &View<'_>, route: &Route, routes: &Directory<Route>) {
    let cache = view.at("cache");
    let version = cache.at("kb_version");
    if let Some(Err(why)) = version.text().map(base::kb_version) {
        compiler.report(&version, why);
    }
    let (mode, semantic) = (cache.at("mode"), cache.at("semantic"));
    if mode.text_or_preset() == "semantic" {
        if !semantic.is_written() {
            compiler.report(&mode, "needs `semantic: { route: …, threshold: … }` beside it");
        }
        if !route.endpoints.contains(&Endpoint::Chat) {
            compiler.report(&mode, "`semantic` works for /v1/chat/completions alone; write `exact`");
        }
    } else if semantic.is_written() {
        compiler.warn(&semantic, "has no effect without `mode: semantic`");
    }
    let question = semantic.at("question");
    if let Some(Err(why)) = question.text().map(Pattern::new) {
        compiler.report(&question, format!("is no regular expression that can be searched for: {why}"));
    }
    let by = semantic.at("route");
    ask(compiler, &by, routes, &[Endpoint::Embeddings]);
    let embedding = by.text().and_then(|name| routes.named(name));
    if embedding.is_some_and(|route| route.vector_space().is_none()) {
        let shown = by.shown();
        compiler.report(&by, format!("{shown} has upstreams of several vector spaces; questions need one"));
    }
    ask(compiler, &semantic.at("verify").at("route"), routes, &[Endpoint::Rerank, Endpoint::Chat]);
}

/// A route that is asked on the way must exist and have one of these endpoints.
fn ask(compiler: &mut Compiler<'_>, view: &View<'_>, routes: &Directory<Route>, endpoints: &[Endpoint]) {
    let Some(wanted) = view.text().filter(|_| !compiler.is_full()) else { return };
    let shown = view.shown();
    match routes.named(wanted) {
        Some(route) if endpoints.iter().any(|endpoint| route.endpoints.contains(endpoint)) => {}
        Some(_) => {
            let paths: Vec<String> = endpoints.iter().map(|endpoint| format!("/v1/{}", endpoint.tail())).collect();
            compiler.report(view, format!("{shown} is a route without {}", paths.join(" or ")));
        }
        None => compiler.report_missing(view, (ObjectKind::Route, wanted), nearest(wanted, routes.names())),
    }
}
