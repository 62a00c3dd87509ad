//! Values that must not be printed, and the hash under which client keys are kept.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A credential. It has no `Display`, its `Debug` says `[secret]`, and [`Secret::expose`] is easy
/// to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes the text into custody.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that must send or hash it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the text, which takes the place of a client key where it is kept.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The keyed hash of a client key: HMAC-SHA-256 of the key's SHA-256 under a key that lives only
/// in this process, so that a copy of it helps nobody and its comparison betrays nothing.
#[derive(Clone, Copy)]
pub struct KeyId([u8; 32]);

impl PartialEq for KeyId {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}
impl Eq for KeyId {}
impl std::hash::Hash for KeyId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write(&self.0[..8]);
    }
}
impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// Hashes client keys under this process's own key.
#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher")
    }
}

impl KeyHasher {
    /// A hasher under 64 bytes of the caller's choosing; random ones in production.
    #[must_use]
    pub fn new(process_key: &[u8; 64]) -> Self {
        // A key of exactly one block: no padding, no hashing, nothing that can fail.
        Self(Hmac::<Sha256>::new(process_key.into()))
    }

    /// The id of a key as a caller presents it.
    #[must_use]
    pub fn of_key(&self, key: &[u8]) -> KeyId {
        self.of_sha256(&Sha256::digest(key).into())
    }

    /// The id of a key of which only the SHA-256 is known (`sha256:<hex>` in the configuration).
    #[must_use]
    pub fn of_sha256(&self, digest: &[u8; 32]) -> KeyId {
        let mut mac = self.0.clone();
        mac.update(digest);
        KeyId(mac.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("sk-123");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(secret.expose(), "sk-123");
    }

    #[test]
    fn a_key_and_its_digest_have_one_id_under_one_process_key_only() {
        let here = KeyHasher::new(&[1; 64]);
        let there = KeyHasher::new(&[2; 64]);
        let digest: [u8; 32] = Sha256::digest(b"sk-team").into();
        assert_eq!(here.of_key(b"sk-team"), here.of_sha256(&digest));
        assert_ne!(here.of_key(b"sk-team"), here.of_key(b"sk-tean"));
        assert_ne!(here.of_key(b"sk-team"), there.of_key(b"sk-team"));
    }
}
