//! Who answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Endpoint, Family, Secret};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use dialect::{Auth, Dialect, Place, Protocol, Score, TokenArrays};
use http::{HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;

use super::general::has_certificates;
use super::{Compiler, Directory, Names, is_header_token, limits};
use crate::address;
use crate::snapshot::{ApiKey, Health, Pool, Provider, Proxy};
use crate::view::View;

/// Between two probes of a provider at least.
const LEAST_BETWEEN_PROBES: Duration = Duration::from_secs(1);

/// Keys of one provider at most: every call's plan holds them all.
const MOST_KEYS: usize = 1_000;

/// Headers of one provider at most; servers take about as many of a call.
const MOST_HEADERS: usize = 100;

/// Headers that the gateway itself or the connection decides.
const OWN_HEADERS: [&str; 19] = [
    "authorization",
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
    "accept",
    "x-request-id",
    "traceparent",
    "tracestate",
];

pub(super) fn compile(compiler: &mut Compiler<'_>, list: &View<'_>) -> Directory<Provider> {
    let mut names = Names::of("provider");
    let mut providers = Directory::default();
    for view in list.items() {
        let Some(provider) = provider(compiler, &view, &mut names) else { continue };
        providers.add(&provider.name.clone(), Arc::new(provider));
    }
    providers
}

/// None where the name is missing: everything else has a stand-in, so that what names this provider
/// is not reported for its faults.
fn provider(compiler: &mut Compiler<'_>, view: &View<'_>, names: &mut Names) -> Option<Provider> {
    let protocol = view.at("protocol").text_or_preset();
    let protocol = Protocol::ALL.into_iter().find(|known| known.as_str() == protocol).unwrap_or(Protocol::OpenAi);
    let dialect = dialect::dialect(protocol);
    let mut base = base_url(compiler, &view.at("base_url"));
    let api_version = view.at("api_version").text();
    if let Some(reason) = unreachable_everywhere(dialect, &base.path, api_version)
        && !base.origin.host.is_empty()
    {
        compiler.report(&view.at("base_url"), format!("cannot work with `{}`: {reason}", protocol.as_str()));
        // Told once, here, and not again by every route.
        base.origin.host.clear();
    }
    let health = health(compiler, &view.at("health"), &base.path);
    let concurrency = limits::slots(compiler, view);
    let keys = keys(compiler, view, dialect.auth());
    let headers = headers(compiler, &view.at("headers"), Some(dialect.auth()));
    let proxy = proxy(compiler, &view.at("proxy"));
    let ca = ca(compiler, &view.at("ca"));
    let name = view.at("name").text()?;
    names.take(compiler, &view.at("name"), name);
    Some(Provider {
        name: name.into(),
        protocol,
        dialect,
        origin: base.origin,
        base_path: base.path,
        keys,
        headers,
        pool: pool(&view.at("pool")),
        proxy,
        ca,
        api_version: api_version.map(str::to_owned),
        score: if view.at("score").text_or_preset() == "logit" { Score::Logit } else { Score::Probability },
        token_arrays: match view.at("token_arrays").text_or_preset() {
            "pass" => TokenArrays::Pass,
            "decode" => TokenArrays::Decode,
            _ => TokenArrays::Auto,
        },
        health,
        concurrency,
        queue: limits::patience(view),
    })
}

/// `health`, where it is written.
fn health(compiler: &mut Compiler<'_>, view: &View<'_>, base: &str) -> Option<Health> {
    if !view.is_written() {
        return None;
    }
    let (path, every) = (view.at("path"), view.at("every"));
    if every.written_duration().is_some_and(|every| !every.is_zero() && every < LEAST_BETWEEN_PROBES) {
        compiler.report(&every, "is below `1s`; probes that often are a load of their own");
    }
    let written = path.text_or_preset();
    if !written.starts_with('/') {
        compiler.report(&path, "must begin with `/`");
        return None;
    }
    let is_sendable = written.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match below(base, written).parse() {
        Ok(path) if is_sendable => Some(Health { path, every: every.duration(Family::Chat) }),
        _ => {
            compiler
                .report(&path, "is no path that HTTP can carry; percent-encode it, and leave out what follows a `#`");
            None
        }
    }
}

/// A path below a base, without doubled slashes between them; the base's query goes last.
pub(super) fn below(base: &str, path: &str) -> String {
    let (base, query) = base.split_once('?').unwrap_or((base, ""));
    let mut out: String = base.split('/').filter(|part| !part.is_empty()).flat_map(|part| ["/", part]).collect();
    out.push('/');
    out.push_str(path.trim_start_matches('/'));
    if !query.is_empty() {
        out.push(if path.contains('?') { '&' } else { '?' });
        out.push_str(query);
    }
    out
}

/// Why no endpoint of a protocol can be reached below a base path, where that is so.
fn unreachable_everywhere(dialect: &dyn Dialect, base_path: &str, api_version: Option<&str>) -> Option<String> {
    let mut reason = None;
    for endpoint in Endpoint::ALL.into_iter().filter(|endpoint| dialect.speaks(*endpoint)) {
        match dialect.path(base_path, &Place { endpoint, model: "model", api_version }) {
            Ok(_) => return None,
            Err(text) => reason = reason.or(Some(text)),
        }
    }
    reason
}

/// An address, or a stand-in for one that the check has reported.
pub(super) fn base_url(compiler: &mut Compiler<'_>, view: &View<'_>) -> address::Address {
    let parsed = view.text().and_then(|text| address::parse(text, &["https", "http"]).ok());
    let Some(parsed) = parsed else {
        let origin = crate::snapshot::Origin { tls: false, host: String::new(), port: 0 };
        return address::Address { origin, path: "/".into(), user: None };
    };
    if parsed.user.is_some() {
        compiler
            .report(view, "holds a user or password; remove it and put the credential into the provider's `api_key`");
    }
    parsed
}

pub(super) fn pool(view: &View<'_>) -> Pool {
    Pool {
        idle_timeout: view.at("idle_timeout").duration(Family::Chat),
        tcp_keepalive: view.at("tcp_keepalive").duration(Family::Chat),
        connect_timeout: view.at("connect_timeout").duration(Family::Chat),
        max_connections: view.at("max_connections").integer().and_then(|most| usize::try_from(most).ok()).unwrap_or(1),
    }
}

fn keys(compiler: &mut Compiler<'_>, view: &View<'_>, auth: Auth) -> Vec<ApiKey> {
    let (one, several) = (view.at("api_key"), view.at("api_keys"));
    if one.is_written() && several.is_written() {
        compiler.report(&one, "is written beside `api_keys`; keep one of the two");
    }
    let views = if several.is_written() { several.items() } else { vec![one] };
    if views.len() > MOST_KEYS {
        compiler.report(&several, format!("holds more than {MOST_KEYS} keys"));
        return Vec::new();
    }
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    for view in views {
        let Some(text) = view.text() else { continue };
        if !seen.insert(text) {
            compiler.report(&view, "is the same key as one before it");
        }
        let (header, value) = match auth {
            Auth::Bearer => (header::AUTHORIZATION, format!("Bearer {text}")),
            Auth::Header(name) => (HeaderName::from_static(name), text.to_owned()),
        };
        match HeaderValue::try_from(value) {
            Ok(mut value) if is_header_token(text) => {
                value.set_sensitive(true);
                keys.push(ApiKey { index: keys.len(), header, value, secret: Secret::new(text) });
            }
            _ => compiler.report(&view, "holds characters that no header can carry (blanks, line ends, or letters outside ASCII); a line end behind the key is the usual cause"),
        }
    }
    keys
}

/// Headers that are sent along. `auth` has the one that carries the key, which is written as such; without it
/// `authorization` is one like any other.
pub(super) fn headers(
    compiler: &mut Compiler<'_>,
    view: &View<'_>,
    auth: Option<Auth>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    let entries = view.entries();
    if entries.len() > MOST_HEADERS {
        compiler.report(view, format!("holds more than {MOST_HEADERS} headers"));
        return headers;
    }
    for (written, view) in entries {
        let Ok(name) = HeaderName::try_from(written) else {
            compiler.report(&view, "is not the name of a header");
            continue;
        };
        let is_free = auth.is_none() && name == header::AUTHORIZATION;
        let is_key = matches!(auth, Some(Auth::Header(own)) if name == own);
        if is_key || (auth.is_some() && name == header::AUTHORIZATION) {
            compiler.report(&view, "is the header of the key; write the key as `api_key`");
            continue;
        }
        if !is_free && OWN_HEADERS.contains(&name.as_str()) {
            compiler.report(&view, "is a header that the gateway sets itself; remove it");
            continue;
        }
        if headers.iter().any(|(known, _)| *known == name) {
            compiler.report(&view, "is written twice (header names do not tell case); keep one");
            continue;
        }
        let Some(text) = view.text() else { continue };
        match HeaderValue::from_str(text) {
            // The value may be a credential of its own.
            Ok(mut value) => {
                value.set_sensitive(true);
                headers.push((name, value));
            }
            Err(_) => compiler
                .report(&view, "holds characters that no header can carry (line ends, or letters outside ASCII)"),
        }
    }
    headers
}

pub(super) fn proxy(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<Proxy> {
    let parsed = address::parse(view.text()?, &["http"]).ok()?;
    if parsed.path != "/" {
        compiler.report(view, "has a path; a proxy is a host and a port");
    }
    let authorization = parsed.user.and_then(|user| basic(&user));
    Some(Proxy { origin: parsed.origin, authorization })
}

/// `user:password` of an address, percent-encoded there, as a header says it (RFC 7617).
pub(super) fn basic(user: &str) -> Option<HeaderValue> {
    let credential: Vec<u8> = percent_decode_str(user).collect();
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(credential))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

pub(super) fn ca(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<Arc<[u8]>> {
    let pem = compiler.file(view)?;
    if has_certificates(&pem) {
        return Some(pem);
    }
    compiler.report_file(view, "the file holds no PEM certificate (`-----BEGIN CERTIFICATE-----`)".to_owned());
    None
}
