//! A configuration of its own for each core.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderValue;
use http::uri::PathAndQuery;
use rules::prices::Price;
use rules::split::Branch;

use crate::{ApiKey, Caching, Client, Health, KeyTable, List, Provider, Proxy, Route, Snapshot, Upstream};

impl Snapshot {
    /// The same configuration in memory of its own, down to the last name and header value.
    ///
    /// What is counted by reference is written to by whoever takes a share of it. Where two cores take
    /// shares of the same things on every call, that costs more than most of what the call does; each
    /// worker therefore has a twin.
    #[must_use]
    pub fn twin(&self) -> Self {
        let providers: List<Arc<Provider>> = self.providers.iter().map(|provider| Arc::new(provider.twin())).collect();
        let of_name: HashMap<&str, &Arc<Provider>> =
            providers.iter().map(|provider| (&*provider.name, provider)).collect();
        Self {
            general: self.general.clone(),
            routes: self.routes.iter().map(|route| Arc::new(route.twin(&of_name))).collect(),
            clients: self.clients.iter().map(|client| Arc::new(client.twin())).collect(),
            webhooks: self.webhooks.clone(),
            keys: KeyTable {
                hasher: self.keys.hasher.clone(),
                by_id: self.keys.by_id.clone(),
                by_name: self.keys.by_name.clone(),
            },
            currency: name(&self.currency),
            not_in_force: self.not_in_force.clone(),
            by_model: self.by_model.clone(),
            by_name: self.by_name.clone(),
            providers,
        }
    }
}

fn name(name: &Arc<str>) -> Arc<str> {
    Arc::from(&**name)
}

fn value(value: &HeaderValue) -> HeaderValue {
    // It was one, so it is one.
    let mut twin = HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone());
    twin.set_sensitive(value.is_sensitive());
    twin
}

fn twin_price(price: &Price) -> Price {
    Price { currency: name(&price.currency), ..price.clone() }
}

fn path(path: &PathAndQuery) -> PathAndQuery {
    path.as_str().parse().unwrap_or_else(|_| path.clone())
}

impl Provider {
    fn twin(&self) -> Self {
        Self {
            name: name(&self.name),
            protocol: self.protocol,
            dialect: self.dialect,
            origin: self.origin.clone(),
            base_path: self.base_path.clone(),
            keys: self.keys.iter().map(|key| ApiKey { value: value(&key.value), ..key.clone() }).collect(),
            headers: self.headers.iter().map(|(name, written)| (name.clone(), value(written))).collect(),
            pool: self.pool,
            proxy: self.proxy.as_ref().map(|proxy| Proxy {
                origin: proxy.origin.clone(),
                authorization: proxy.authorization.as_ref().map(value),
            }),
            ca: self.ca.clone(),
            api_version: self.api_version.clone(),
            score: self.score,
            token_arrays: self.token_arrays,
            health: self.health.as_ref().map(|health| Health { path: path(&health.path), every: health.every }),
            concurrency: self.concurrency,
            queue: self.queue,
        }
    }
}

impl Route {
    fn twin(&self, providers: &HashMap<&str, &Arc<Provider>>) -> Self {
        let upstream = |upstream: &Arc<Upstream>| {
            let known = providers.get(&*upstream.provider.name).map(|provider| Arc::clone(provider));
            // The short form's provider stands in the list too; a share of the original would do as well.
            let provider = known.unwrap_or_else(|| upstream.provider.clone());
            Arc::new(Upstream {
                name: name(&upstream.name),
                label: name(&upstream.label),
                provider,
                model: upstream.model.clone(),
                tier: upstream.tier,
                weight: upstream.weight,
                paths: upstream.paths.iter().map(|(endpoint, written)| (*endpoint, path(written))).collect(),
                space: upstream.space.clone(),
                is_space_written: upstream.is_space_written,
                sent: name(&upstream.sent),
                price: upstream.price.as_ref().map(|price| Arc::new(twin_price(price))),
                context_window: upstream.context_window,
                tokenizer: upstream.tokenizer.clone(),
            })
        };
        Self {
            name: name(&self.name),
            endpoints: self.endpoints.clone(),
            model: self.model.clone(),
            upstreams: self.upstreams.iter().map(upstream).collect(),
            timeout: self.timeout,
            deadline: self.deadline,
            body_timeout: self.body_timeout,
            dimensions: self.dimensions,
            max_inputs: self.max_inputs,
            wait: self.wait,
            strategy: self.strategy,
            split: self
                .split
                .iter()
                .map(|branch| Branch { client: branch.client.as_ref().map(name), ..branch.clone() })
                .collect(),
            mirror: self.mirror,
            retry: self.retry.clone(),
            breaker: self.breaker,
            on_failure: self.on_failure,
            params: self.params.clone(),
            context: self.context.clone(),
            cache: Caching {
                kb_version: self.cache.kb_version.as_ref().map(name),
                semantic: self.cache.semantic.as_ref().map(|terms| Arc::new((**terms).clone())),
                ..self.cache
            },
            limit: self.limit,
        }
    }
}

impl Client {
    fn twin(&self) -> Self {
        Self {
            name: name(&self.name),
            routes: self.routes.clone(),
            deadline: self.deadline,
            on_failure: self.on_failure,
            quota: self.quota.as_ref().map(|terms| Arc::new((**terms).clone())),
            params: self.params.clone(),
            priority: self.priority,
            limit: self.limit,
            limits_on: self.limits_on.clone(),
            queue: self.queue,
            cache_scope: self.cache_scope,
        }
    }
}
