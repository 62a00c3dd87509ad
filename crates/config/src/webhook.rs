//! Who is told of events.

use std::fmt;
use std::sync::Arc;

use base::Secret;

use crate::Destination;

/// One of `webhooks`.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// `name`, else its place in the list, from 0: as metrics, log and `/readyz` call it.
    pub name: Arc<str>,
    /// `url`, with `proxy` and `ca`.
    pub to: Destination,
    /// `secret`, as it is used.
    pub key: SigningKey,
    /// `secret`, as it was written: for the mask before the log alone.
    pub secret: Secret,
    /// `on`
    pub on: Vec<Occasion>,
}

/// Of what somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// A client has used a share of its quota that is warned of.
    Quota,
    /// A breaker has opened, or closed again.
    Breaker,
    /// Vectors of another dimension than the route's were withheld.
    DimensionMismatch,
}

impl Occasion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Quota, Self::Breaker, Self::DimensionMismatch];

    /// As `on` writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Breaker => "breaker",
            Self::DimensionMismatch => "dimension_mismatch",
        }
    }
}

/// The bytes that events are signed with. `Debug` says `[secret]`.
#[derive(Clone)]
pub struct SigningKey(Arc<[u8]>);

impl SigningKey {
    /// Takes the bytes into custody.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that signs with them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
