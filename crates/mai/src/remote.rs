//! Commands that talk to a running gateway: its admin port, asked over plain HTTP.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use base::Secret;
use mai::args::AdminAt;
use serde_json::Value;

/// An answer larger than this is none of a gateway's.
const MOST: u64 = 256 << 20;
/// How long a connection, and then each part of an answer, may take.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// What the admin API answers to a `GET`.
///
/// # Errors
/// A sentence that says what is wrong and what to do.
pub fn get(at: &AdminAt, path: &str) -> Result<String, String> {
    let url = at.admin.trim_end_matches('/');
    let host = url.strip_prefix("http://").ok_or_else(|| {
        format!("--admin {url}: the admin port speaks plain HTTP; write its address as `http://HOST:PORT`")
    })?;
    let (host, base) = host.split_once('/').map_or((host, String::new()), |(host, base)| (host, format!("/{base}")));
    let token = at.token.as_deref().filter(|token| !token.is_empty()).ok_or(
        "no admin token: give one with --token or in MAI_ADMIN_TOKEN (one of `admin.tokens`, or what the gateway has in MAI_ADMIN_TOKEN)",
    )?;
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the admin token holds characters that cannot be sent in a header".to_owned());
    }
    let unreachable = |error: std::io::Error| {
        format!("no gateway answers at {url}: {error}; is it running, and is `--admin` the address of its admin port?")
    };
    // HTTP/1.0 keeps the answer plain: a head, and a body to the end of the connection.
    let request = format!("GET {base}{path} HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n");
    let answer = exchange(host, &request).map_err(unreachable)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("what answers at {url} speaks no HTTP"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(body.to_owned());
    }
    let told = serde_json::from_str::<Value>(body).ok();
    let message = told.as_ref().and_then(|told| told.pointer("/error/message")?.as_str());
    match (status, message) {
        (_, Some(message)) => Err(format!("{url} answers {status}: {message}")),
        (_, None) => Err(format!("{url} answers {status}, but not as a gateway's admin port does")),
    }
}

/// What a data port answers to a `POST` of JSON.
///
/// # Errors
/// A sentence that says what is wrong and what to do.
pub fn post(url: &str, path: &str, key: Option<&Secret>, body: &str) -> Result<String, String> {
    let host = url.trim_start_matches("http://");
    let (host, base) = host.split_once('/').map_or((host, String::new()), |(host, base)| (host, format!("/{base}")));
    let key = key.map(Secret::expose).filter(|key| !key.is_empty());
    if key.is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err("the key holds characters that cannot be sent in a header".to_owned());
    }
    let bearer = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "POST {base}{path} HTTP/1.0\r\nhost: {host}\r\n{bearer}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(host, &request)
        .map_err(|error| format!("nobody answers at {url}: {error}; is a gateway running there (`--url`)?"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("what answers at {url} speaks no HTTP"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(body.to_owned());
    }
    let told = serde_json::from_str::<Value>(body).ok();
    let message = told.as_ref().and_then(|told| told.pointer("/error/message")?.as_str());
    Err(format!("{url}{path} answers {status}: {}", message.unwrap_or("without a reason")))
}

fn exchange(host: &str, request: &str) -> std::io::Result<String> {
    let named = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for addr in named.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, PATIENCE.0) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE.1))?;
                stream.set_write_timeout(Some(PATIENCE.1))?;
                stream.write_all(request.as_bytes())?;
                let mut answer = Vec::new();
                stream.take(MOST).read_to_end(&mut answer)?;
                return String::from_utf8(answer).map_err(|_| std::io::ErrorKind::InvalidData.into());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
