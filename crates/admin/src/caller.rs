//! Who asks, and whether the token's role lets them.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use config::Role;

use crate::desk::Desk;
use crate::document::Parameters;
use crate::error::Error;
use crate::extract::{parameters, unknown};

/// A role that a handler asks for.
pub trait Least {
    /// The least one.
    const ROLE: Role;
}

/// Reads.
#[derive(Debug)]
pub enum Viewer {}
/// Writes and pulls levers too.
#[derive(Debug)]
pub enum Operator {}
/// Sees what others may not, too.
#[derive(Debug)]
pub enum Admin {}

impl Least for Viewer {
    const ROLE: Role = Role::Viewer;
}
impl Least for Operator {
    const ROLE: Role = Role::Operator;
}
impl Least for Admin {
    const ROLE: Role = Role::Admin;
}

/// Whoever has sent a token of role `L` or a greater one. It is every handler's first argument, so that nobody
/// else hears what is wrong with the rest of a request.
pub struct Caller<L> {
    /// The token's name.
    pub name: String,
    /// Its role.
    pub role: Role,
    least: PhantomData<fn() -> L>,
}

impl<L> fmt::Debug for Caller<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, role(self.role))
    }
}

impl<L> Caller<L> {
    /// Whether this caller may also do what takes this role.
    ///
    /// # Errors
    /// 403.
    pub fn at_least(&self, least: Role) -> Result<(), Error> {
        if self.role < least { Err(Error::RoleNotAllowed(least)) } else { Ok(()) }
    }
}

/// A role as the configuration writes it.
#[must_use]
pub const fn role(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

impl<L: Least> FromRequestParts<Desk> for Caller<L> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, desk: &Desk) -> Result<Self, Error> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
        let presented = token(&parts.headers).ok_or(Error::InvalidToken)?;
        let now = desk.live.clock.now();
        let id = desk.hasher.of_key(presented);
        // A token is not looked at before: else whoever guesses would still learn which is right.
        if let Some(wait) = desk.attempts.wait(peer, id, now) {
            return Err(Error::TooManyAttempts(wait));
        }
        let running = desk.live.running();
        // Every token is compared, each in constant time.
        let tokens = running.snapshot.general.admin_tokens.iter();
        let known = tokens.fold(None, |found, token| if token.id == id { Some(token) } else { found });
        let Some(token) = known else {
            desk.attempts.failed(peer, id, now);
            return Err(Error::UnknownToken);
        };
        desk.attempts.passed(peer, id, now);
        let caller = Self { name: token.name.clone(), role: token.role, least: PhantomData };
        caller.at_least(L::ROLE)?;
        known_parameters(parts)?;
        Ok(caller)
    }
}

/// Refuses parameters that are not in the document, also of operations that take none.
fn known_parameters(parts: &Parts) -> Result<(), Error> {
    let (Some(path), Some(known)) = (parts.extensions.get::<MatchedPath>(), parts.extensions.get::<Arc<Parameters>>())
    else {
        return Ok(());
    };
    let Some(taken) = known.taken(parts.method.as_str(), path.as_str()) else { return Ok(()) };
    for name in parameters(parts.uri.query().unwrap_or_default())?.keys() {
        if !taken.contains(name) {
            let known: Vec<&str> = taken.iter().map(String::as_str).collect();
            return Err(Error::of(name, unknown("parameter", name, &known)));
        }
    }
    Ok(())
}

fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes)?.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}
