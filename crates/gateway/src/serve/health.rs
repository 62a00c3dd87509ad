//! What is answered before everything else.

use http::{Method, Request, Response, header};
use hyper::body::Incoming;

use super::JSON;
use crate::reply::Reply;

/// `/healthz` and `/readyz`: no key, no record, nothing of the configuration.
pub fn answer(draining: bool, request: &Request<Incoming>) -> Option<Response<Reply>> {
    let body = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => r#"{"status":"alive"}"#,
        (&Method::GET | &Method::HEAD, "/readyz") if draining => r#"{"status":"draining"}"#,
        (&Method::GET | &Method::HEAD, "/readyz") => r#"{"status":"ready"}"#,
        _ => return None,
    };
    let mut response = Response::new(Reply::whole(body));
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    if request.uri().path() == "/readyz" && draining {
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    }
    Some(response)
}
