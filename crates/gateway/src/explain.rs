//! What would happen to a request: the same steps as [`crate::serve`], up to the plan, without
//! taking or sending anything.

use base::Endpoint;
use bytes::Bytes;
use config::{Client, Route, Snapshot, Upstream};
use dialect::Ask;
use dialect::images;
use rules::context::Terms;
use rules::limits::Limit;
use rules::prices::{Price, Rate};
use rules::quota::{self, Answer};
use rules::split::{Branch, Case};
use serde_json::{Value, json};
use state::Scope;

use crate::live::Live;
use crate::live::tokenizers::Tokenizers;
use crate::shape::context;
use crate::shape::params::{self, Change};
use crate::{recall, understand};

/// The endpoint of a path on the data port, or the one whose fields the body has.
///
/// # Errors
/// A sentence when there is no such path, or the body is not JSON or does not tell.
pub fn endpoint(path: Option<&str>, body: &[u8]) -> Result<Endpoint, String> {
    if let Some(path) = path {
        return Endpoint::of_path(path).ok_or_else(|| format!("`{path}` is no path on the data port"));
    }
    let fields: Value =
        serde_json::from_slice(body).map_err(|wrong| format!("the body is not valid JSON ({wrong}); mend it"))?;
    let has = |name: &str| fields.get(name).is_some();
    match () {
        () if has("messages") => Ok(Endpoint::Chat),
        () if has("documents") || has("texts") => Ok(Endpoint::Rerank),
        () if has("prompt") => Ok(Endpoint::Completions),
        () if has("input") => Ok(Endpoint::Embeddings),
        () => Err("the body does not tell its endpoint; name its path, such as /v1/chat/completions".to_owned()),
    }
}

/// The story, as far as it is told without an upstream.
///
/// # Errors
/// A sentence when there is no such client. A request that would be refused is no error: the
/// refusal is part of the story.
pub fn explain(snapshot: &Snapshot, client: &str, endpoint: Endpoint, body: Bytes) -> Result<Value, String> {
    story(snapshot, &Tokenizers::default(), client, endpoint, body)
}

/// The same under the configuration in force. It counts the prompt, and may load a vocabulary: not for workers.
///
/// # Errors
/// As of [`explain`].
pub fn explain_live(live: &Live, client: &str, endpoint: Endpoint, body: Bytes) -> Result<Value, String> {
    let running = live.running();
    let mut story = story(&running.snapshot, &live.tokenizers, client, endpoint, body)?;
    if let Some(aside) = story.pointer_mut("/quota/aside_tokens")
        && let Some(quota) = running.quotas.named(client)
    {
        let left = quota.left(live.clock.wall()).tokens;
        *aside = json!(aside.as_u64().unwrap_or_default().min(left));
    }
    Ok(story)
}

fn story(
    snapshot: &Snapshot,
    tokenizers: &Tokenizers,
    client: &str,
    endpoint: Endpoint,
    body: Bytes,
) -> Result<Value, String> {
    let Some(client) = snapshot.client_named(client) else {
        let known: Vec<&str> = snapshot.clients.iter().map(|client| &*client.name).collect();
        return Err(format!("no client `{client}` in this configuration; it has: {}", known.join(", ")));
    };
    let mut story = json!({ "client": &*client.name, "endpoint": format!("/v1/{}", endpoint.tail()) });
    let size = body.len();
    let mut changes = Vec::new();
    let only = || understand::only_model(snapshot, client, endpoint);
    let told = Ask::read_with(endpoint, None, body, only).and_then(|ask| {
        let route = understand::route(snapshot, client, &ask)?;
        let ask = params::apply(ask, &route.params, &client.params, &mut |change| changes.push(told_change(&change)))?;
        let job = context::Job::unlearned(ask, route);
        Ok((route.clone(), context::work(job, tokenizers)?))
    });
    match told {
        Err(refusal) => {
            story["refused"] = json!({
                "status": refusal.status(),
                "code": refusal.code.row().code,
                "param": refusal.param,
                "message": refusal.message,
            });
        }
        Ok((route, done)) => {
            story["body_bytes"] = json!(size);
            story["params"] = json!(changes);
            tell(&mut story, snapshot, client, &route, &done);
        }
    }
    if !snapshot.not_in_force.is_empty() {
        story["not_in_force"] = json!(snapshot.not_in_force);
    }
    Ok(story)
}

/// What would become of a request that is not refused.
fn tell(story: &mut Value, snapshot: &Snapshot, client: &Client, route: &Route, done: &context::Done) {
    let ask = &done.ask;
    let deadline = client.deadline.map_or(route.deadline, |own| own.min(route.deadline));
    story["route"] = json!(&*route.name);
    story["model"] = json!(ask.model);
    story["stream"] = json!(ask.stream);
    story["tag"] = json!(ask.tag);
    story["query"] = json!(ask.query);
    story["prompt_tokens_guess"] = json!(ask.prompt_estimate(|| image(route)));
    if let Some(terms) = route.context.as_ref().and_then(|context| context.terms) {
        story["context"] = budget(terms, done);
    }
    story["priority"] = json!(client.priority.as_str());
    story["limits"] = limits(snapshot, client, route);
    story["deadline_ms"] = json!(millis(deadline));
    story["attempt_ms"] = json!(millis(route.timeout.attempt));
    story["strategy"] = json!(route.strategy.as_str());
    story["on_failure"] = json!(client.on_failure.unwrap_or(route.on_failure).as_str());
    if !route.split.is_empty() {
        story["split"] = route.split.iter().map(|branch| fork(route, branch, client, ask)).collect();
    }
    if let Some(terms) = &client.quota {
        story["quota"] = quota(terms, route, ask);
    }
    story["cache"] = cache(snapshot, client, route, ask);
    if let Some(mirror) = &route.mirror {
        story["mirror"] = json!({ "to": label(route, mirror.to), "percent": mirror.share.percent });
    }
    story["waits_ms"] = json!({
        "server_error": route.retry.server_error.iter().map(|wait| millis(*wait)).collect::<Vec<_>>(),
        "throttled": route.retry.throttled.iter().map(|wait| millis(*wait)).collect::<Vec<_>>(),
    });
    let fits = route.upstreams.iter().enumerate().filter(|(at, _)| !done.too_small.contains(at));
    story["upstreams"] = fits.map(|(_, upstream)| shown(upstream, ask.endpoint)).collect();
    if !done.too_small.is_empty() {
        story["too_small"] = done.too_small.iter().map(|at| json!(label(route, *at))).collect();
    }
}

/// A parameter that would not go out as it was written.
fn told_change(change: &Change<'_>) -> Value {
    let written =
        |json: Option<&str>| json.map_or(Value::Null, |json| serde_json::from_str(json).unwrap_or(json!(json)));
    let field = change.name.map_or_else(|| change.path.join("."), str::to_owned);
    json!({ "field": field, "by": change.by.as_str(), "written": written(change.before), "sent": written(change.after) })
}

/// What a token budget comes to.
fn budget(terms: Terms, done: &context::Done) -> Value {
    let left_out = done.truncated.unwrap_or_default();
    json!({
        "budget": terms.budget,
        "prompt_tokens": done.counted,
        "history": left_out.history,
        "retrieval": left_out.retrieval,
        "left_out_tokens": left_out.tokens,
    })
}

/// Every limit that applies to a call of the client on the route.
fn limits(snapshot: &Snapshot, client: &Client, route: &Route) -> Value {
    let (of, at) = (client.name.clone(), route.name.clone());
    let scopes = [
        (Scope::Gateway, snapshot.general.limit),
        (Scope::Route(at.clone()), route.limit),
        (Scope::Client(of.clone()), client.limit),
        (Scope::ClientOn(of, at), client.limit_on(route)),
    ];
    let told = |(scope, limit): (Scope, Limit)| {
        json!({
            "scope": scope.to_string(),
            "qps": limit.rate.map(|rate| rate.qps),
            "burst": limit.rate.map(|rate| rate.burst),
            "tokens_per_minute": limit.tokens_per_minute,
            "concurrency": limit.concurrency,
        })
    };
    scopes.into_iter().filter(|(_, limit)| !limit.is_none()).map(told).collect()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn label(route: &Route, at: usize) -> Option<&str> {
    route.upstreams.get(at).map(|upstream| &*upstream.label)
}

/// One branch of a split: whether this request would take it, as far as its body and client tell.
fn fork(route: &Route, branch: &Branch, client: &Client, ask: &Ask) -> Value {
    let tag = ask.tag.as_deref();
    let case = Case { route: &route.name, header: &|_| None, tag, client: &client.name, quota_used: None };
    // The least and the greatest chance there is: where they agree, chance has no say.
    let met = [0.0, 1.0 - f64::EPSILON].map(|chance| branch.is_met(&case, &mut || chance));
    let taken = match met {
        [true, true] => "yes",
        // What is explained is a body; whoever sends it adds the headers.
        [false, false] if !branch.headers.is_empty() => "by header",
        [false, false] if branch.quota_used.is_some() && client.quota.is_some() => "by quota",
        [false, false] => "no",
        _ => "by chance",
    };
    let headers: Vec<&str> = branch.headers.iter().map(|(name, _)| &**name).collect();
    json!({ "to": label(route, branch.to), "taken": taken, "headers": headers })
}

fn shown(upstream: &Upstream, endpoint: Endpoint) -> Value {
    let provider = &upstream.provider;
    json!({
        "upstream": &*upstream.label,
        "tier": upstream.tier,
        "weight": upstream.weight,
        "protocol": provider.protocol.as_str(),
        "host": provider.origin.authority(),
        "path": upstream.paths.get(&endpoint).map(|path| path.as_str()),
        "keys": provider.keys.len(),
        "price": upstream.price.as_deref().map(price),
    })
}

/// What a model costs: a million tokens, or a search unit. Null is not known.
fn price(price: &Price) -> Value {
    let first = price.tiers.first().copied().unwrap_or_default();
    let million = |rate: Option<Rate>| rate.map(Rate::of_a_million);
    json!({
        "currency": &*price.currency,
        "prompt": million(first.prompt),
        "cached": million(first.cached.or(first.prompt)),
        "completion": million(first.completion),
        "search_unit": price.unit.map(Rate::of_one),
    })
}

/// What the call would be known by.
fn cache(snapshot: &Snapshot, client: &Client, route: &Route, ask: &Ask) -> Value {
    let caching = &route.cache;
    if !caching.is_on() {
        return Value::Null;
    }
    let mut told = json!({
        "mode": caching.mode.as_str(),
        "ttl_ms": millis(caching.ttl),
        "scope": client.cache_scope.unwrap_or(caching.scope).as_str(),
        "kb_version": caching.kb_version.as_deref(),
        "key": recall::key_by_body(snapshot, route, client, ask).map(|key| key.to_string()),
    });
    if let Some(is_there) = recall::is_query_in_message(route, ask) {
        told["query_in_user_message"] = json!(is_there);
    }
    told
}

/// What an image is worth to the models of a route.
fn image(route: &Route) -> u64 {
    images::worth(route.upstreams.iter().map(|upstream| &*upstream.sent))
}

/// What bounds the client, and what the call would put aside of it: no more than there is at the beginning.
fn quota(terms: &quota::Terms, route: &Route, ask: &Ask) -> Value {
    let estimate = ask.estimate(|| image(route));
    let answer = Answer::of(estimate.written.bound()).most;
    json!({
        "tokens": terms.tokens,
        "cost": terms.cost.map(base::decimal),
        "currency": &*terms.currency,
        "per": terms.per.as_str(),
        "aside_tokens": estimate.prompt.saturating_add(answer).min(terms.tokens.unwrap_or(u64::MAX)),
    })
}
