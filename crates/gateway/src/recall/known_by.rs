//! What a call is known by, where it may be answered as another one was.

use base::Family;
use config::{CacheScope, Client, Route, Snapshot};
use dialect::Ask;
use http::HeaderMap;
use rules::cache_key::{KeyBuilder, body_fingerprint};
use state::answers::Key;

use super::Wish;
use crate::cache::kb_versions::KbVersion;
use crate::cache::sources;
use crate::caller::headers;

/// By what a repeat under the same idempotency key is known: the body as it was sent, of a form all but its boundary. What
/// becomes of it may change with what is learned, and with a reload. `None` where there is no such key.
#[must_use]
pub fn fingerprint(ask: &Ask, headers: &HeaderMap) -> Option<[u8; 32]> {
    if !headers.contains_key(headers::IDEMPOTENCY_KEY) {
        return None;
    }
    let form = KeyBuilder::new("form").part(ask.endpoint.tail().as_bytes());
    let form = form.content(|sink| ask.feed_form(sink).then_some(()).ok_or(()));
    Some(form.map_or_else(|()| body_fingerprint(ask.endpoint.tail(), &ask.body), KeyBuilder::finish))
}

/// Whether the upstream of this name is one of those that the key of an answer names.
#[must_use]
pub fn is_of_key(route: &Route, first: Option<usize>, label: &str) -> bool {
    route.first_upstreams(first).any(|upstream| *upstream.label == *label)
}

/// All that decides a call's answer, `around` the call itself and in it; `None` where it cannot be told.
pub(super) fn key(around: KeyBuilder, ask: &Ask) -> Option<Key> {
    around.content(|sink| ask.deciding(sink)).ok().map(|builder| Key(builder.finish()))
}

/// All that decides an answer beside the call itself.
pub(super) fn surroundings(
    domain: &str,
    environment: &[u8],
    route: &Route,
    wish: &Wish,
    first: Option<usize>,
) -> KeyBuilder {
    let upstreams: smallvec::SmallVec<[&config::Upstream; 4]> =
        route.first_upstreams(first).map(|upstream| &**upstream).collect();
    let branch = first.and_then(|first| route.upstreams.get(first)).map(|upstream| upstream.name.as_bytes());
    let key = KeyBuilder::new(domain)
        .part(environment)
        .part(route.name.as_bytes())
        .option(wish.owner.as_ref().map(|owner| owner.as_bytes()))
        .option(wish.kb_version.name.as_ref().map(|version| version.as_bytes()))
        .option(branch)
        .list(upstreams.iter().map(|upstream| upstream.label.as_bytes()));
    upstreams.iter().fold(key, |key, upstream| sources::described(key, upstream, wish.endpoint))
}

/// The key of a call as its body and the configuration tell it; the caller's headers and an operator's version of
/// the knowledge base may make it another one.
#[must_use]
pub fn key_by_body(snapshot: &Snapshot, route: &Route, client: &Client, ask: &Ask) -> Option<Key> {
    if !route.cache.is_on() || ask.endpoint.family() == Family::Embeddings {
        return None;
    }
    let scope = client.cache_scope.unwrap_or(route.cache.scope);
    let owner = (scope == CacheScope::Client).then(|| client.name.clone());
    let wish = Wish { owner, kb_version: KbVersion::configured(route), ..Wish::nothing(route, client, ask) };
    let environment = snapshot.general.environment.as_bytes();
    key(surroundings(wish.kind.as_str(), environment, route, &wish, None), ask)
}
