//! What an answer is found by.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A cryptographic hash over all that decides an answer.
///
/// Shown and read in 43 letters of URL-safe base64, as callers see it in `x-mai-cache-id`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// Its first 64 bits: no two keys of a store are expected to have the same, but they may.
    #[must_use]
    pub const fn print(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print());
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 43];
        let written = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text).unwrap_or_default();
        f.write_str(text.get(..written).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A text that is no [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKey;

impl FromStr for Key {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let mut bytes = [0; 32];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            _ => Err(NoKey),
        }
    }
}
