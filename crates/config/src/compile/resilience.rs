//! What decides between upstreams and after failures.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Endpoint, Family, nearest};
use indexmap::IndexMap;
use rules::breaker;
use rules::order::Strategy;
use rules::pursuit::{LEAST, Repeats, Retry};
use rules::split::{Branch, Mirror, Share};

use super::{Compiler, small};
use crate::snapshot::{OnFailure, Route, Upstream};
use crate::view::View;

/// Retries of one kind at most: more would outlast every deadline and help no caller.
const MOST_RETRIES: usize = 10;

/// Branches of one split at most: each call may have to be held against all of them.
const MOST_BRANCHES: usize = 100;

/// Headers of one branch at most; a call has hardly more.
const MOST_HEADERS: usize = 100;

pub(super) fn strategy(route: &View<'_>) -> Strategy {
    match route.at("strategy").text_or_preset() {
        "weighted" => Strategy::Weighted,
        "least_busy" => Strategy::LeastBusy,
        "fastest" => Strategy::Fastest,
        _ => Strategy::Ordered,
    }
}

pub(super) fn retry(route: &View<'_>) -> Retry {
    let retry = route.at("retry");
    Retry {
        when: match retry.at("when").text_or_preset() {
            "always" => Repeats::Always,
            "never" => Repeats::Never,
            _ => Repeats::Idempotent,
        },
        server_error: retry.at("server_error").durations(),
        throttled: retry.at("throttled").durations(),
        budget: retry.at("budget").number().unwrap_or_default(),
    }
}

pub(super) fn breaker(route: &View<'_>) -> breaker::Terms {
    let breaker = route.at("breaker");
    breaker::Terms {
        failures: small(&breaker.at("failures")),
        window: breaker.at("window").duration(Family::Chat),
        hold: breaker.at("hold").duration(Family::Chat),
        max_rest: breaker.at("max_rest").duration(Family::Chat),
    }
}

/// `on_failure` of a route or of a client.
pub(super) fn on_failure(owner: &View<'_>) -> Option<OnFailure> {
    match owner.at("on_failure").text_or_preset() {
        "error" => Some(OnFailure::Error),
        "degrade" => Some(OnFailure::Degrade),
        "stale" => Some(OnFailure::Stale),
        _ => None,
    }
}

/// `mirror`; what it names is checked with the whole.
pub(super) fn mirror(route: &View<'_>, upstreams: &[Arc<Upstream>]) -> Option<Mirror> {
    let mirror = route.at("mirror");
    Some(Mirror { to: named(&mirror.at("to"), upstreams)?, share: share(&mirror)? })
}

/// `split`; what it names is checked with the whole.
pub(super) fn split(compiler: &mut Compiler<'_>, route: &View<'_>, upstreams: &[Arc<Upstream>]) -> Vec<Branch> {
    let mut branches: Vec<Branch> = Vec::new();
    let views = route.at("split").items();
    if views.len() > MOST_BRANCHES {
        compiler.report(&route.at("split"), format!("holds more than {MOST_BRANCHES} branches"));
    }
    for view in views.into_iter().take(MOST_BRANCHES) {
        let when = view.at("when");
        let headers = headers(compiler, &when.at("header"));
        let Some(to) = named(&view.at("to"), upstreams) else { continue };
        let branch = Branch {
            headers,
            client: when.at("client").text().map(Into::into),
            share: if when.at("percent").is_written() { share(&when) } else { None },
            quota_used: when.at("quota_used").number(),
            to,
        };
        if let Some(before) = branches.iter().position(|before| covers(before, &branch)) {
            let first = format!("{}.split[{before}]", route.path());
            compiler.warn(&view, format!("is never reached: whatever meets it meets {first} before"));
        }
        branches.push(branch);
    }
    branches
}

/// An upstream's place among those of the route, which stand by tier.
fn named(view: &View<'_>, upstreams: &[Arc<Upstream>]) -> Option<usize> {
    let wanted = view.text()?;
    upstreams.iter().position(|upstream| &*upstream.name == wanted)
}

fn share(view: &View<'_>) -> Option<Share> {
    Some(Share { percent: view.at("percent").number()?, sticky: view.at("sticky").is_written() })
}

/// Whether every call that meets `later` meets `before` too.
fn covers(before: &Branch, later: &Branch) -> bool {
    before.share.is_none_or(|share| share.percent >= 100.0)
        && before.headers.iter().all(|header| later.headers.contains(header))
        && (before.client.is_none() || before.client == later.client)
        && before.quota_used.is_none_or(|least| later.quota_used.is_some_and(|used| used >= least))
}

fn headers(compiler: &mut Compiler<'_>, view: &View<'_>) -> Vec<(Box<str>, Box<str>)> {
    if view.is_empty_mapping() {
        compiler.report(view, "names no header; write one, or remove it");
    }
    let mut headers: Vec<(Box<str>, Box<str>)> = Vec::new();
    let entries = view.entries();
    if entries.len() > MOST_HEADERS {
        compiler.report(view, format!("holds more than {MOST_HEADERS} headers"));
        return headers;
    }
    for (written, view) in entries {
        let Ok(name) = http::HeaderName::try_from(written) else {
            compiler.report(&view, "is not the name of a header");
            continue;
        };
        if headers.iter().any(|(known, _)| **known == *name.as_str()) {
            compiler.report(&view, "is written twice (header names do not tell case); keep one");
            continue;
        }
        let Some(text) = view.text() else { continue };
        if text.trim() != text || http::HeaderValue::from_bytes(text.as_bytes()).is_err() {
            compiler.report(&view, "is a value that no header has (blanks around it, or line ends)");
        }
        headers.push((name.as_str().into(), text.into()));
    }
    headers
}

pub(super) fn check(compiler: &mut Compiler<'_>, route: &View<'_>, clients: &HashSet<&str>) {
    let names = upstream_names(route);
    for branch in route.at("split").items().iter().take(MOST_BRANCHES) {
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

/// Weights are about some strategies, and for those somebody of each tier must have one.
pub(super) fn check_weights(compiler: &mut Compiler<'_>, route: &View<'_>, strategy: Strategy) {
    let upstreams = route.at("upstreams").items();
    if !matches!(strategy, Strategy::Weighted | Strategy::LeastBusy) {
        // 1 is what it would be unwritten, and the first of several says it for all.
        let weights = upstreams.iter().map(|upstream| upstream.at("weight"));
        if let Some(weight) = weights.into_iter().find(|weight| weight.integer().is_some_and(|weight| weight != 1)) {
            compiler.warn(&weight, "has no effect without `strategy: weighted` or `strategy: least_busy`");
        }
        return;
    }
    let mut tiers: IndexMap<Option<u64>, (&View<'_>, bool)> = IndexMap::new();
    for upstream in &upstreams {
        let (_, is_chosen) = tiers.entry(upstream.at("tier").integer()).or_insert((upstream, false));
        *is_chosen |= upstream.at("weight").integer() != Some(0);
    }
    for (tier, (upstream, is_chosen)) in tiers {
        if !is_chosen {
            let tier = tier.unwrap_or_default();
            compiler
                .report(&upstream.at("weight"), format!("every weight of tier {tier} is 0, so nobody of it is chosen"));
        }
    }
}

/// A wait that was written and ends behind the deadline.
pub(super) fn check_waits(compiler: &mut Compiler<'_>, route: &View<'_>, deadline: Duration) {
    let retry = route.at("retry");
    let mut waited = Duration::ZERO;
    for wait in retry.at("server_error").items() {
        waited = waited.saturating_add(wait.written_duration().unwrap_or_default());
        if waited.saturating_add(LEAST) > deadline {
            compiler.warn(&wait, "can never happen: with the waits before it, it ends after the route's `deadline`");
            break;
        }
    }
    let wait = route.at("batch").at("wait");
    if wait.written_duration().is_some_and(|wait| wait.saturating_add(LEAST) > deadline) {
        compiler.warn(&wait, "is as long as the route's `deadline`: no call waits for others");
    }
    for wait in retry.at("throttled").items() {
        if wait.written_duration().is_some_and(|wait| wait.saturating_add(LEAST) > deadline) {
            compiler.warn(
                &wait,
                "can never happen, but where the upstream asks for less: it ends after the route's `deadline`",
            );
        }
    }
}

/// Only what generates text from a prompt that the gateway reads has one to bound.
pub(super) fn check_context(compiler: &mut Compiler<'_>, view: &View<'_>, route: &Route) {
    let context = view.at("context");
    let is_read = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Chat | Endpoint::Completions);
    if context.is_written() && !route.endpoints.iter().any(is_read) {
        compiler.report(
            &context,
            "bounds prompts of /v1/chat/completions and /v1/completions, which `match.path` does not name; remove it",
        );
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
fn upstream_names<'a>(route: &View<'a>) -> IndexMap<&'a str, usize> {
    let mut names = IndexMap::new();
    let add = |name| *names.entry(name).or_default() += 1;
    if route.at("upstream").is_written() {
        route.at("name").text().into_iter().for_each(add);
        return names;
    }
    let name = |item: &View<'a>| item.at("name").text().or_else(|| item.at("provider").text());
    route.at("upstreams").items().iter().filter_map(name).for_each(add);
    names
}

fn target(compiler: &mut Compiler<'_>, view: &View<'_>, names: &IndexMap<&str, usize>) {
    let Some(wanted) = view.text().filter(|_| !compiler.is_full()) else { return };
    let shown = view.shown();
    match names.get(wanted).copied().unwrap_or_default() {
        0 => {
            let hint = match nearest(wanted, names.keys().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("they are {}", names.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
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

fn conditions(compiler: &mut Compiler<'_>, when: &View<'_>, clients: &HashSet<&str>) {
    if when.is_empty_mapping() {
        compiler.report(when, "holds no condition; write one of `header`, `client`, `percent`, `quota_used`");
    }
    if when.at("sticky").is_written() && !when.at("percent").is_written() {
        compiler.report(&when.at("sticky"), "is about `percent`, which is not written");
    }
    let client = when.at("client");
    if client.text().is_some_and(|client| !clients.contains(client)) {
        compiler.warn(&client, "is no client of this configuration");
    }
}
