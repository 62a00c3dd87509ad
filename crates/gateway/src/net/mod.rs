//! The way to the upstreams: name, socket, TLS, proxy, HTTP/1.1 connections and their pool.
//!
//! Each worker owns its own [`Transport`]; nothing here is shared between workers but the resolver's
//! cache and the count of connections. Why so, and why HTTP/1.1 alone:
//! `docs/decisions/0001-http-client-and-pools.md`.

mod connect;
mod link;
mod places;
mod pool;
mod post;
mod resolve;
mod shortage;
mod tls;

pub use connect::{Connect, Dialed, Dialer, Dialing, Io, request_target};
pub use link::{Flow, Link, Outgoing, SendFault};
pub use places::Places;
pub use pool::{Checkout, Line, Transport};
pub use post::post;
pub use resolve::{Asking, Names, Resolver};
pub use shortage::unreachable;
pub use tls::{Roots, server_config};
