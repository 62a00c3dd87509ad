//! The model names that callers write, and what stands behind each.

use std::sync::Arc;

use base::{Endpoint, Family, ObjectKind, nearest};
use dialect::{Place as Where, Protocol, Score, TokenArrays};
use foldhash::{HashMap, HashMapExt as _};
use http::uri::PathAndQuery;
use rules::queue::Patience;

use super::provider::{base_url, pool};
use super::{Compiler, Directory, Names, caches, context, limits, params, prices, resilience, small};
use crate::address::Address;
use crate::problem::Place;
use crate::snapshot::{Pool, Provider, Route, Timeouts, Upstream};
use crate::view::View;

/// Upstreams of one route at most.
const MOST_UPSTREAMS: usize = 1_000;

/// Upstreams of all routes together at most: each has a breaker, and series of its own in the metrics.
const MOST_OF_ALL: usize = if cfg!(test) { 2_000 } else { 100_000 };

/// Routes, and how they are found.
#[derive(Default)]
pub(super) struct Table {
    pub routes: Directory<Route>,
    pub by_model: HashMap<Endpoint, HashMap<String, usize>>,
}

/// What a route's upstreams are checked against.
struct Scope<'a> {
    endpoints: &'a [Endpoint],
    model: &'a str,
    /// Of a provider that the short form makes.
    pool: Pool,
}

pub(super) fn compile(compiler: &mut Compiler<'_>, root: &View<'_>, providers: &mut Directory<Provider>) -> Table {
    let pool = pool(&root.at("providers").one().at("pool"));
    let mut names = Names::of("route");
    let mut table = Table::default();
    let mut matched: HashMap<(Endpoint, String), Place> = HashMap::new();
    let mut count = 0;
    for view in root.at("routes").items() {
        let name = view.at("name");
        if let Some(text) = name.text() {
            names.take(compiler, &name, text);
        }
        let Some(route) = route(compiler, &view, pool, providers) else { continue };
        count += route.upstreams.len();
        if count > MOST_OF_ALL && count - route.upstreams.len() <= MOST_OF_ALL {
            compiler.report(&view, format!("brings the upstreams of all routes to more than {MOST_OF_ALL}"));
        }
        for endpoint in &route.endpoints {
            let model = view.at("match").at("model");
            match matched.insert((*endpoint, route.model.clone()), model.place().clone()) {
                Some(first) => {
                    let text =
                        format!("another route takes model `{}` on /v1/{} ({first})", route.model, endpoint.tail());
                    compiler.report(&model, text);
                }
                None => {
                    table.by_model.entry(*endpoint).or_default().insert(route.model.clone(), table.routes.all.len());
                }
            }
        }
        table.routes.add(&route.name.clone(), Arc::new(route));
    }
    table
}

fn route(
    compiler: &mut Compiler<'_>,
    view: &View<'_>,
    pool: Pool,
    providers: &mut Directory<Provider>,
) -> Option<Route> {
    let endpoints = endpoints(compiler, &view.at("match").at("path"));
    let name = view.at("name").text()?;
    let model = view.at("match").at("model").text().unwrap_or(name);
    let scope = Scope { endpoints: &endpoints, model, pool };
    let mut upstreams = upstreams(compiler, view, &scope, providers);
    upstreams.sort_by_key(|upstream| upstream.tier);
    let family = endpoints.first().map_or(Family::Chat, |endpoint| endpoint.family());
    let split = resilience::split(compiler, view, &upstreams);
    Some(Route {
        name: name.into(),
        model: model.to_owned(),
        strategy: resilience::strategy(view),
        split,
        mirror: resilience::mirror(view, &upstreams),
        retry: resilience::retry(view),
        breaker: resilience::breaker(view),
        on_failure: resilience::on_failure(view).unwrap_or_default(),
        params: params::policy(compiler, &view.at("params")),
        context: context::context(compiler, &view.at("context")),
        cache: caches::caching(&view.at("cache")),
        limit: limits::limit(view),
        upstreams,
        timeout: timeouts(compiler, view, family),
        deadline: view.at("deadline").duration(family),
        body_timeout: view.at("body_timeout").duration(family),
        dimensions: count(&view.at("dimensions")),
        max_inputs: count(&view.at("batch").at("max_inputs")),
        wait: view.at("batch").at("wait").duration(family),
        endpoints,
    })
}

fn count(view: &View<'_>) -> Option<usize> {
    view.integer().and_then(|count| usize::try_from(count).ok())
}

/// Endpoints of `match.path`: one path or a list of them.
fn endpoints(compiler: &mut Compiler<'_>, view: &View<'_>) -> Vec<Endpoint> {
    let items = view.items();
    if items.is_empty() && view.node().is_some_and(|node| node.list().is_some()) {
        compiler.report(view, "is an empty list; name at least one endpoint");
    }
    let paths: Vec<(View<'_>, &str)> = if items.is_empty() {
        vec![(view.clone(), view.text_or_preset())]
    } else {
        items.into_iter().filter_map(|item| item.text().map(|text| (item, text))).collect()
    };
    let mut endpoints = Vec::new();
    for (view, path) in paths {
        match Endpoint::of_path(path) {
            Some(endpoint) if !path.contains(['?', '#']) => {
                if !endpoints.contains(&endpoint) {
                    endpoints.push(endpoint);
                }
            }
            _ => {
                let text = no_endpoint(&view, path);
                compiler.report(&view, text);
            }
        }
    }
    endpoints
}

fn no_endpoint(view: &View<'_>, path: &str) -> String {
    let known = Endpoint::ALL.map(|endpoint| format!("/v1/{}", endpoint.tail()));
    let shown = view.shown();
    match nearest(path, known.iter().map(String::as_str)) {
        Some(near) => format!("{shown} is no endpoint; did you mean `{near}`?"),
        None => format!("{shown} is no endpoint; the endpoints are {}", known.join(", ")),
    }
}

fn timeouts(compiler: &mut Compiler<'_>, view: &View<'_>, family: Family) -> Timeouts {
    let timeout = view.at("timeout");
    let short = view.at("upstream").at("timeout");
    let (bare, attempt) = (timeout.written_duration(), timeout.at("attempt"));
    if short.is_written() && (bare.is_some() || attempt.is_written()) {
        compiler.report(&short, "is written beside the route's `timeout`; keep one of the two");
    }
    Timeouts {
        attempt: bare.or_else(|| short.written_duration()).unwrap_or_else(|| attempt.duration(family)),
        first_byte: timeout.at("first_byte").duration(family),
        stream_idle: timeout.at("stream_idle").duration(family),
        stream_total: timeout.at("stream_total").duration(family),
    }
}

fn upstreams(
    compiler: &mut Compiler<'_>,
    view: &View<'_>,
    scope: &Scope<'_>,
    providers: &mut Directory<Provider>,
) -> Vec<Arc<Upstream>> {
    let (short, list) = (view.at("upstream"), view.at("upstreams"));
    match (short.is_written(), list.is_written()) {
        (true, true) => compiler.report(&short, "is written beside `upstreams`; keep one of the two"),
        (false, false) => {
            compiler.report(&list, "is missing; write `upstreams: [{ provider: … }]`, or `upstream: { url: … }`")
        }
        (true, false) => return short_form(compiler, view, scope, providers).into_iter().map(Arc::new).collect(),
        (false, true) => {}
    }
    let items = list.items();
    if items.is_empty() && list.node().is_some_and(|node| node.list().is_some()) {
        compiler.report(&list, "is an empty list; name at least one upstream");
    }
    if items.len() > MOST_UPSTREAMS {
        compiler.report(&list, format!("holds more than {MOST_UPSTREAMS} upstreams; every call puts them in order"));
        return Vec::new();
    }
    let mut known: HashMap<(String, String), Place> = HashMap::new();
    let mut upstreams = Vec::new();
    for item in items {
        let Some(upstream) = upstream(compiler, &item, scope, providers) else { continue };
        let identity = (upstream.name.to_string(), upstream.label.to_string());
        if let Some(first) = known.insert(identity, item.place().clone()) {
            compiler.report(
                &item,
                format!("the same provider and model as at {first}; remove one, or give them a `name` each"),
            );
        }
        upstreams.push(Arc::new(upstream));
    }
    upstreams
}

fn upstream(
    compiler: &mut Compiler<'_>,
    view: &View<'_>,
    scope: &Scope<'_>,
    providers: &Directory<Provider>,
) -> Option<Upstream> {
    let provider_view = view.at("provider");
    let wanted = provider_view.text()?;
    let Some(provider) = providers.named(wanted).cloned() else {
        if compiler.is_full() {
            return None;
        }
        let near = nearest(wanted, providers.names());
        compiler.report_missing(&provider_view, (ObjectKind::Provider, wanted), near);
        return None;
    };
    let model = view.at("model").text();
    let is_embedding = scope.endpoints.contains(&Endpoint::Embeddings);
    let space = view.at("space").text().or_else(|| is_embedding.then_some(model.unwrap_or(scope.model)));
    Some(Upstream {
        name: view.at("name").text().unwrap_or(wanted).into(),
        label: label(&provider, model),
        paths: paths(compiler, view, scope, &provider),
        model: model.map(str::to_owned),
        tier: small(&view.at("tier")),
        weight: small(&view.at("weight")),
        space: space.map(str::to_owned),
        is_space_written: view.at("space").is_written(),
        price: prices::of_upstream(&compiler.prices, Some(view), &provider, model.unwrap_or(scope.model)).map(Arc::new),
        sent: model.unwrap_or(scope.model).into(),
        context_window: context::window(&view.at("context_window"), model.unwrap_or(scope.model)),
        tokenizer: context::tokenizer(compiler, &view.at("tokenizer"), model.unwrap_or(scope.model)),
        provider,
    })
}

fn label(provider: &Provider, model: Option<&str>) -> Arc<str> {
    model.map_or_else(|| Arc::clone(&provider.name), |model| format!("{}/{model}", provider.name).into())
}

/// Where each endpoint of the route is at the provider.
fn paths(
    compiler: &mut Compiler<'_>,
    view: &View<'_>,
    scope: &Scope<'_>,
    provider: &Provider,
) -> HashMap<Endpoint, PathAndQuery> {
    let mut paths = HashMap::new();
    // A provider whose address was refused has a stand-in, of which nothing more can be said.
    if provider.origin.host.is_empty() {
        return paths;
    }
    let model = view.at("model").text().unwrap_or(scope.model);
    for endpoint in scope.endpoints.iter().copied() {
        if !provider.dialect.speaks(endpoint) {
            compiler.report(view, speechless(provider, endpoint));
            continue;
        }
        let place = Where { endpoint, model, api_version: provider.api_version.as_deref() };
        let path = provider.dialect.path(&provider.base_path, &place);
        match path.map(|path| path.parse::<PathAndQuery>()) {
            Ok(Ok(path)) => {
                paths.insert(endpoint, path);
            }
            Ok(Err(_)) => compiler.report(view, "makes a path that HTTP cannot carry; percent-encode the model's name"),
            Err(reason) => compiler.report(
                view,
                format!("cannot reach /v1/{} at provider `{}`: {reason}", endpoint.tail(), provider.name),
            ),
        }
    }
    paths
}

fn speechless(provider: &Provider, endpoint: Endpoint) -> String {
    let speaks: Vec<String> = Endpoint::ALL
        .into_iter()
        .filter(|known| provider.dialect.speaks(*known))
        .map(|known| format!("/v1/{}", known.tail()))
        .collect();
    format!(
        "provider `{}` speaks `{}`, which has no /v1/{}; it has {}",
        provider.name,
        provider.protocol.as_str(),
        endpoint.tail(),
        speaks.join(", ")
    )
}

/// `upstream: { url }` makes a provider named after the route; the address is used as written.
fn short_form(
    compiler: &mut Compiler<'_>,
    view: &View<'_>,
    scope: &Scope<'_>,
    providers: &mut Directory<Provider>,
) -> Option<Upstream> {
    let (short, name) = (view.at("upstream"), view.at("name").text()?);
    let url = short.at("url");
    let base = base_url(compiler, &url);
    if base.origin.host.is_empty() {
        return None;
    }
    let bare_path = base.path.split('?').next().unwrap_or_default();
    if bare_path == "/" {
        compiler
            .report(&url, "has no path; write the endpoint's whole address, such as `http://host:8000/v1/embeddings`");
    } else if bare_path.contains("//") {
        compiler.report(&url, "has a doubled slash in its path; write one");
    }
    if scope.endpoints.len() > 1 {
        compiler.report(
            &url,
            "is the address of one endpoint, but `match.path` names several; use a provider with a `base_url`",
        );
    }
    if let Some(known) = providers.named(name) {
        let text =
            format!("makes a provider named after the route, but `{}` is one already; rename either", known.name);
        compiler.report(&short, text);
    }
    let paths = scope.endpoints.iter().filter_map(|endpoint| Some((*endpoint, base.path.parse().ok()?))).collect();
    let provider = Arc::new(short_provider(name, base, scope.pool));
    providers.add(&provider.name, Arc::clone(&provider));
    let model = short.at("model").text();
    Some(Upstream {
        name: name.into(),
        label: label(&provider, model),
        price: prices::of_upstream(&compiler.prices, None, &provider, model.unwrap_or(scope.model)).map(Arc::new),
        sent: model.unwrap_or(scope.model).into(),
        provider,
        tier: 0,
        weight: 1,
        paths,
        space: scope.endpoints.contains(&Endpoint::Embeddings).then(|| model.unwrap_or(scope.model).to_owned()),
        is_space_written: false,
        context_window: context::known_window(model.unwrap_or(scope.model)),
        tokenizer: context::known_tokenizer(model.unwrap_or(scope.model)),
        model: model.map(str::to_owned),
    })
}

fn short_provider(name: &str, base: Address, pool: Pool) -> Provider {
    Provider {
        name: name.into(),
        protocol: Protocol::OpenAi,
        dialect: dialect::dialect(Protocol::OpenAi),
        origin: base.origin,
        base_path: base.path,
        keys: Vec::new(),
        headers: Vec::new(),
        pool,
        proxy: None,
        ca: None,
        api_version: None,
        score: Score::default(),
        token_arrays: TokenArrays::default(),
        health: None,
        concurrency: None,
        queue: Patience::default(),
    }
}
