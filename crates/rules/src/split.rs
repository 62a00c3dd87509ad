//! Conditional routing: which calls start at which upstream, and which are copied.

use std::sync::Arc;

#[cfg(test)]
mod tests;

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

/// What a branch may look at.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The route's name.
    pub route: &'a str,
    /// The value of a request header, by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<&'a [u8]>,
    /// `metadata.mai_tag` of the body.
    pub tag: Option<&'a str>,
    /// The client's name.
    pub client: &'a str,
    /// The share of its quota that the client has used; `None` where it has none.
    pub quota_used: Option<f64>,
}

/// The upstream that the first branch whose conditions hold leads to.
pub fn choose(branches: &[Branch], case: &Case<'_>, chance: &mut dyn FnMut() -> f64) -> Option<usize> {
    branches.iter().find(|branch| branch.is_met(case, chance)).map(|branch| branch.to)
}

impl Branch {
    /// Whether every condition written holds. The share is drawn last, and only where all others do.
    pub fn is_met(&self, case: &Case<'_>, chance: &mut dyn FnMut() -> f64) -> bool {
        self.headers.iter().all(|(name, value)| has(case, name, value))
            && self.client.as_deref().is_none_or(|client| client == case.client)
            && self.quota_used.is_none_or(|least| case.quota_used.is_some_and(|used| used >= least))
            && self.share.is_none_or(|share| share.is_drawn_for(case.client, (case.route, self.to), chance))
    }
}

/// The header whose value may stand in the body instead.
const TAG: &str = "x-mai-tag";

fn has(case: &Case<'_>, name: &str, value: &str) -> bool {
    (case.header)(name) == Some(value.as_bytes()) || (name == TAG && case.tag == Some(value))
}

impl Share {
    /// Whether a call of `client` falls into the share. A sticky one takes `chance` not at all: it holds
    /// for the same clients at every start and in every replica, and raising `percent` only adds to
    /// them. `salt`, the route's name, lets each route have clients of its own.
    pub fn is_drawn(&self, client: &str, salt: &str, chance: &mut dyn FnMut() -> f64) -> bool {
        self.is_drawn_for(client, (salt, usize::MAX), chance)
    }

    /// With the branch's upstream in the salt: else the second of two branches with equal shares would
    /// see only clients that the first one's draw has passed over, and never draw one.
    fn is_drawn_for(&self, client: &str, salt: (&str, usize), chance: &mut dyn FnMut() -> f64) -> bool {
        let point = if self.sticky { point(client, salt) } else { chance() };
        point * 100.0 < self.percent
    }
}

/// Where a client stands on a route, in `0.0..1.0`: the same in every process.
fn point(client: &str, (route, number): (&str, usize)) -> f64 {
    // No text holds this byte, so that no two pairs of names read the same.
    const BETWEEN: [u8; 1] = [0xff];
    let number = u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes();
    let bytes = [route.as_bytes(), &BETWEEN, client.as_bytes(), &BETWEEN, &number];
    let hash = mix(bytes
        .into_iter()
        .flatten()
        .fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)));
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
    let above = (hash >> 11) as f64;
    above / TWO_TO_53
}

/// FNV-1a of 64 bits: RFC 9923.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// See [`FNV_BASIS`].
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;

/// Lets every bit depend on every other, which FNV-1a alone does not for short names: the finalizer of
/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
