//! Conditional routing: which calls start at which upstream, and which are copied.

use std::sync::Arc;

/// A share of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Above 0, at most 100.
    pub percent: f64,
    /// Drawn once for each client instead of for each call (`sticky: client`).
    pub sticky: bool,
}

/// One branch of `split`; every condition written must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Request headers (names in lower case) with exactly these values. `x-mai-tag` is also met by
    /// the body's `metadata.mai_tag`.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The client's name.
    pub client: Option<Arc<str>>,
    /// The share of the calls that meet the other conditions.
    pub share: Option<Share>,
    /// The client has used at least this share of its quota, 0 to 1.
    pub quota_used: Option<f64>,
    /// Index among the route's upstreams.
    pub to: usize,
}

/// `mirror` of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirror {
    /// Index among the route's upstreams.
    pub to: usize,
    /// The share of calls that is copied.
    pub share: Share,
}
