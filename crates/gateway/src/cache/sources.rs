//! Whose answers are whose: what keys say of an upstream beside its name.

use base::Endpoint;
use config::Upstream;
use dialect::Score;
use rules::cache_key::KeyBuilder;

/// The version of an API that a path's query names (Azure's); others of its parts may hold keys.
const VERSION: &str = "api-version=";

/// Adds where an upstream's answers come from, and on which scale its scores are: another server behind the same name gives
/// other answers. No secret, and nothing else of a query.
#[must_use]
pub fn described(key: KeyBuilder, upstream: &Upstream, endpoint: Endpoint) -> KeyBuilder {
    let (origin, place) = (&upstream.provider.origin, upstream.paths.get(&endpoint));
    let version = place.and_then(|place| place.query()?.split('&').find_map(|part| part.strip_prefix(VERSION)));
    let is_raw = endpoint == Endpoint::Rerank && upstream.provider.score == Score::Logit;
    key.part(&[u8::from(origin.tls), u8::from(is_raw)])
        .part(origin.host.as_bytes())
        .part(&origin.port.to_le_bytes())
        .option(place.map(|place| place.path().as_bytes()))
        .option(version.map(str::as_bytes))
}

/// What a stored vector is known by to be of this upstream. Where its vector `space` is written, that is the operator's word
/// that vectors are the same wherever they come from, and nothing is known by.
#[must_use]
pub fn of_vectors(upstream: &Upstream) -> u64 {
    if upstream.is_space_written {
        return 0;
    }
    let digest = described(KeyBuilder::new("source"), upstream, Endpoint::Embeddings).finish();
    digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}
