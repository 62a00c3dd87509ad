//! What the gateway itself sends that is no call.

use std::time::Duration;

use base::{Fault, Kind};
use bytes::{Bytes, BytesMut};
use config::Destination;
use http::{HeaderMap, Method, Response};
use http_body_util::Full;

use super::{Checkout, Line, Outgoing, Transport, request_target};
use crate::running::heads;

/// Bytes of an answer's body that are kept; what comes behind them is left unread.
const LARGEST_BODY: usize = 64 << 10;

/// Posts `body` on a connection of its own, and reads the answer, within `patience` altogether. A redirect is
/// an answer like any other: nothing follows it. `headers` go before the usual ones, whose `content-type` is
/// JSON's.
///
/// `transport` should have places of its own, so that no call waits for this one.
///
/// # Errors
/// Why no answer came. Its words name the destination by its name, never by its address.
pub async fn post(
    transport: &Transport,
    to: &Destination,
    headers: HeaderMap,
    body: Bytes,
    patience: Duration,
) -> Result<Response<Bytes>, Fault> {
    let posted = exchange(transport, to, headers, body);
    tokio::time::timeout(patience, posted).await.unwrap_or_else(|_elapsed| {
        Err(Fault::upstream(Kind::Timeout, format!("no answer within {} ms", patience.as_millis())))
    })
}

async fn exchange(
    transport: &Transport,
    to: &Destination,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Bytes>, Fault> {
    let mut request = Outgoing::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = request_target(&to.provider, to.path.clone())?;
    let written = request.headers_mut();
    *written = heads(&to.provider).into_iter().next().unwrap_or_default();
    written.extend(headers);
    let link = transport.checkout(&to.provider, Checkout::Fresh, &mut Line::default()).await?;
    let (response, mut flow) = link.send(request).await.map_err(|fault| fault.fault())?;
    let mut read = BytesMut::new();
    while read.len() < LARGEST_BODY {
        match flow.piece().await {
            Some(Ok(piece)) => read.extend_from_slice(piece.get(..LARGEST_BODY - read.len()).unwrap_or(&piece)),
            Some(Err(_broken)) => return Err(Fault::upstream(Kind::Reset, "the answer broke off")),
            None => break,
        }
    }
    Ok(response.map(|()| read.freeze()))
}
