//! Checks of what decides between upstreams and after failures.

use std::collections::HashSet;

use base::Endpoint;

use super::Compiler;
use crate::problem::nearest;
use crate::snapshot::Route;
use crate::view::View;

/// Retries of one kind at most: more would outlast every deadline and help no caller.
const MOST_RETRIES: usize = 10;

pub(super) fn check(compiler: &mut Compiler<'_>, route: &View<'_>, clients: &[&str]) {
    let names = upstream_names(route);
    for branch in route.at("split").items() {
        target(compiler, &branch.at("to"), &names);
        conditions(compiler, &branch.at("when"), clients);
    }
    target(compiler, &route.at("mirror").at("to"), &names);
    for waits in ["server_error", "throttled"] {
        let view = route.at("retry").at(waits);
        if view.items().len() > MOST_RETRIES {
            compiler
                .report(&view, format!("holds more than {MOST_RETRIES} waits; each is one more try of the same call"));
        }
    }
}

/// Embedding upstreams that may stand in for each other must mean the same by a vector.
pub(super) fn check_spaces(compiler: &mut Compiler<'_>, view: &View<'_>, route: &Route) {
    let is_embedding = route.endpoints.contains(&Endpoint::Embeddings);
    if !is_embedding {
        for key in ["dimensions", "vector_space", "batch"] {
            if view.at(key).is_written() {
                compiler.report(
                    &view.at(key),
                    "means something for /v1/embeddings alone, which `match.path` does not name; remove it",
                );
            }
        }
        return;
    }
    let spaces: HashSet<&str> = route.upstreams.iter().filter_map(|upstream| upstream.space.as_deref()).collect();
    if spaces.len() > 1 && !view.at("vector_space").is_written() {
        let mut spaces: Vec<String> =
            spaces.iter().map(|space| format!("`{}`", crate::problem::clean(space))).collect();
        spaces.sort();
        compiler.report(
            &view.at("upstreams"),
            format!(
                "have different vector spaces ({}), and vectors of two spaces cannot be compared: give the same `space` \
                 to upstreams of one model, keep one model, or accept the damage with `vector_space: any`",
                spaces.join(", ")
            ),
        );
    }
}

/// What `split.to` and `mirror.to` may name, as often as it is named.
fn upstream_names<'a>(route: &View<'a>) -> Vec<&'a str> {
    if route.at("upstream").is_written() {
        return route.at("name").text().into_iter().collect();
    }
    let name = |item: &View<'a>| item.at("name").text().or_else(|| item.at("provider").text());
    route.at("upstreams").items().iter().filter_map(name).collect()
}

fn target(compiler: &mut Compiler<'_>, view: &View<'_>, names: &[&str]) {
    let Some(wanted) = view.text() else { return };
    let shown = view.shown();
    match names.iter().filter(|name| **name == wanted).count() {
        0 => {
            let hint = match nearest(wanted, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("they are {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
                }
            };
            compiler.report(view, format!("{shown} is none of the route's upstreams; {hint}"));
        }
        1 => {}
        _ => {
            compiler.report(view, format!("several upstreams of the route are called {shown}; give them a `name` each"))
        }
    }
}

fn conditions(compiler: &mut Compiler<'_>, when: &View<'_>, clients: &[&str]) {
    if when.is_empty_mapping() {
        compiler.report(when, "holds no condition; write one of `header`, `client`, `percent`, `quota_used`");
    }
    if when.at("sticky").is_written() && !when.at("percent").is_written() {
        compiler.report(&when.at("sticky"), "is about `percent`, which is not written");
    }
    for (name, view) in when.at("header").entries() {
        if http::HeaderName::try_from(name).is_err() {
            compiler.report(&view, "is not the name of a header");
        }
    }
    let client = when.at("client");
    if client.text().is_some_and(|client| !clients.contains(&client)) {
        compiler.warn(&client, "is no client of this configuration");
    }
}
