//! Where the gateway itself sends something that is no call.

use std::sync::Arc;
use std::time::Duration;

use dialect::{Protocol, Score, TokenArrays};
use http::header;
use rules::queue::Patience;

use super::Compiler;
use super::provider::basic;
use crate::address;
use crate::destination::Destination;
use crate::snapshot::{Pool, Provider, Proxy};
use crate::view::View;

/// Connections to one destination at a time, a little more than one sender needs.
const POOL: Pool = Pool {
    idle_timeout: Duration::from_secs(20),
    tcp_keepalive: Duration::from_secs(15),
    connect_timeout: Duration::from_secs(5),
    max_connections: 4,
};

/// The address that a key holds, as something to post to; none where the check has reported it. `name` is
/// what log and faults call it.
pub(super) fn destination(
    compiler: &mut Compiler<'_>,
    name: &str,
    view: &View<'_>,
    (proxy, ca): (Option<Proxy>, Option<Arc<[u8]>>),
) -> Option<Destination> {
    let address = address::parse(view.text()?, &["https", "http"]).ok()?;
    let Ok(path) = address.path.parse() else {
        compiler.report(view, "has a path that HTTP cannot carry; percent-encode it");
        return None;
    };
    let user = address.user.and_then(|user| basic(&user));
    let provider = Provider {
        name: name.into(),
        protocol: Protocol::OpenAi,
        dialect: dialect::dialect(Protocol::OpenAi),
        origin: address.origin,
        base_path: "/".to_owned(),
        keys: Vec::new(),
        headers: user.map(|user| (header::AUTHORIZATION, user)).into_iter().collect(),
        pool: POOL,
        proxy,
        ca,
        api_version: None,
        score: Score::default(),
        token_arrays: TokenArrays::default(),
        health: None,
        concurrency: None,
        queue: Patience::default(),
    };
    Some(Destination { provider: Arc::new(provider), path })
}
