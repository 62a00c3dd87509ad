//! Checks of what is cached, and of the routes that the semantic cache asks.

use std::sync::Arc;

use base::Endpoint;

use super::Compiler;
use crate::problem::nearest;
use crate::snapshot::Route;
use crate::view::View;

pub(super) fn check(compiler: &mut Compiler<'_>, view: &View<'_>, route: &Route, routes: &[Arc<Route>]) {
    let cache = view.at("cache");
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
    ask(compiler, &semantic.at("route"), routes, &[Endpoint::Embeddings]);
    ask(compiler, &semantic.at("verify").at("route"), routes, &[Endpoint::Rerank, Endpoint::Chat]);
}

/// A route that is asked on the way must exist and have one of these endpoints.
fn ask(compiler: &mut Compiler<'_>, view: &View<'_>, routes: &[Arc<Route>], endpoints: &[Endpoint]) {
    let Some(wanted) = view.text() else { return };
    let shown = view.shown();
    match routes.iter().find(|route| &*route.name == wanted) {
        Some(route) if endpoints.iter().any(|endpoint| route.endpoints.contains(endpoint)) => {}
        Some(_) => {
            let paths: Vec<String> = endpoints.iter().map(|endpoint| format!("/v1/{}", endpoint.tail())).collect();
            compiler.report(view, format!("{shown} is a route without {}", paths.join(" or ")));
        }
        None => {
            let hint = match nearest(wanted, routes.iter().map(|route| &*route.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add it to `routes`".into(),
            };
            compiler.report(view, format!("{shown} is none of the routes; {hint}"));
        }
    }
}
