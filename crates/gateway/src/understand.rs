//! From bytes to a typed request: the body, read once, and the route behind its model name.

use std::sync::Arc;

use base::{Code, Endpoint, Refusal};
use bytes::{Bytes, BytesMut};
use config::{Client, Route, Snapshot};
use dialect::Ask;
use http::{HeaderMap, header};
use hyper::body::{Body as _, Incoming};

use crate::bodies::decompress::Decompress;
use crate::bodies::read::{Unread, read_body, too_large};
use crate::caller::socket::Presence;
use crate::running::Running;

/// What must be known of a call's body.
///
/// # Errors
/// A refusal that names the fault.
pub fn ask(
    snapshot: &Snapshot,
    client: &Client,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Ask, Refusal> {
    let only = || only_model(snapshot, client, endpoint);
    Ask::read_with(endpoint, headers.get(header::CONTENT_TYPE), body, only)
}

/// The model that this client must mean on an endpoint: that of the only route there that it may use.
pub fn only_model<'a>(snapshot: &'a Snapshot, client: &Client, endpoint: Endpoint) -> Option<&'a str> {
    let mut routes =
        snapshot.routes.iter().filter(|route| route.endpoints.contains(&endpoint) && client.may_use(route));
    let only = routes.next()?;
    routes.next().is_none().then_some(&*only.model)
}

/// The caller's whole body, unfolded.
///
/// # Errors
/// A refusal that names the fault, or a caller who left.
pub async fn body(
    running: &Running,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Incoming,
    presence: &Presence,
) -> Result<Bytes, Unread> {
    let most = running.snapshot.general.max_body;
    let mut inflate = Decompress::of(headers, most).map_err(|coding| {
        let coding = shown(&coding);
        let message = format!("content-encoding `{coding}` is not read here; send the body plain or gzipped");
        Unread::Refused(Refusal {
            param: Some("content-encoding".into()),
            ..Refusal::new(Code::UnsupportedEncoding, message)
        })
    })?;
    if headers.contains_key(header::EXPECT) && body.size_hint().lower() > most as u64 {
        // The caller waits with its body: asking for it to throw it away helps nobody.
        return Err(Unread::Refused(too_large(most)));
    }
    let patience = running.body_patience(endpoint);
    let mut body = read_body(body, most, patience, presence).await?;
    presence.busy();
    if let Some(inflate) = inflate.as_mut() {
        body = unfolded(inflate, &body, most).await.map_err(Unread::Refused)?;
    }
    Ok(body)
}

/// Of a compressed body so much is unfolded at a time; others have their turn in between, for a
/// body may be made of hundreds of thousands of tiny members, each of which is work.
const UNFOLDED_AT_ONCE: usize = 4 << 10;

async fn unfolded(inflate: &mut Decompress, body: &[u8], most: usize) -> Result<Bytes, Refusal> {
    let too_long =
        || Refusal::new(Code::RequestTooLarge, format!("the decompressed body is larger than {most} bytes (max_body)"));
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => too_long(),
        _ => Refusal::field("content-encoding", "the body is not what its content-encoding says"),
    };
    let mut whole = BytesMut::new();
    for piece in body.chunks(UNFOLDED_AT_ONCE) {
        whole.extend_from_slice(&inflate.feed(piece).map_err(refused)?);
        if whole.len() > most {
            return Err(too_long());
        }
        tokio::task::yield_now().await;
    }
    whole.extend_from_slice(&inflate.finish().map_err(refused)?);
    if whole.len() > most { Err(too_long()) } else { Ok(whole.freeze()) }
}

/// The route that the model name stands for, where this client may use it.
///
/// # Errors
/// `model_not_found` or `route_not_allowed`.
pub fn route<'a>(snapshot: &'a Snapshot, client: &Client, ask: &Ask) -> Result<&'a Arc<Route>, Refusal> {
    let Some(route) = snapshot.route(ask.endpoint, &ask.model) else {
        let message = not_here(snapshot, client, ask);
        return Err(Refusal { param: Some("model".into()), ..Refusal::new(Code::ModelNotFound, message) });
    };
    if client.may_use(route) {
        return Ok(route);
    }
    let (model, here) = (shown(&ask.model), ask.endpoint.tail());
    let message = format!("this key may not use model `{model}` on /v1/{here}; GET /v1/models lists what it may use");
    Err(Refusal { param: Some("model".into()), ..Refusal::new(Code::RouteNotAllowed, message) })
}

/// Why no route answers. Client libraries choose among OpenAI's endpoints on their own (responses in the place of chat,
/// completions where a setting is forgotten): a name that the key may use elsewhere is told with where that is.
fn not_here(snapshot: &Snapshot, client: &Client, ask: &Ask) -> String {
    let (model, here) = (shown(&ask.model), ask.endpoint.tail());
    let elsewhere = Endpoint::ALL
        .into_iter()
        .filter(|endpoint| snapshot.route(*endpoint, &ask.model).is_some_and(|route| client.may_use(route)));
    let paths: Vec<String> = elsewhere.map(|endpoint| format!("/v1/{}", endpoint.tail())).collect();
    if paths.is_empty() {
        return format!("no route answers model `{model}` on /v1/{here}; GET /v1/models lists what this key may use");
    }
    let paths = paths.join(", ");
    format!("model `{model}` is not offered on /v1/{here}, only on {paths}: have your client library call that")
}

/// A model name as far as an error message repeats it.
fn shown(model: &str) -> String {
    const MOST: usize = 80;
    let mut shown: String = model.chars().take(MOST).filter(|letter| !letter.is_control()).collect();
    if model.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
