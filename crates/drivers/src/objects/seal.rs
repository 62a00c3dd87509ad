//! Secrets at rest: sealed, so that whoever gets hold of the database alone learns none of them.
//!
//! ChaCha20-Poly1305 (RFC 8439) under a key of 256 bits, with a random nonce for each seal, and what the secret
//! belongs to as associated data: a sealed secret opens at its own place alone. Nonces of 96 random bits are good for
//! some 2^32 seals under one key, which no operator makes.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::sqlite::Failure;

/// The key that secrets are sealed under.
#[derive(Clone)]
pub(super) struct Key(pub [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret key]")
    }
}

impl Key {
    /// One that nobody knows.
    pub fn random() -> Result<Self, Failure> {
        let mut key = [0; 32];
        fill(&mut key)?;
        Ok(Self(key))
    }

    /// One written as 64 hex digits.
    pub fn read(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        let (pairs, rest) = text.trim().as_bytes().as_chunks::<2>();
        if pairs.len() != key.len() || !rest.is_empty() {
            return None;
        }
        for (byte, digits) in key.iter_mut().zip(pairs) {
            // `from_str_radix` takes a sign too.
            let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
            *byte = u8::from_str_radix(text, 16).ok()?;
        }
        Some(Self(key))
    }

    /// As [`Key::read`] reads it.
    pub fn written(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(digit.into(), 16));
            }
            text
        })
    }
}

/// Seals and opens.
#[derive(Debug)]
pub(super) struct Seal {
    key: LessSafeKey,
    mark: hmac::Key,
}

impl Seal {
    pub fn with(key: &Key) -> Result<Self, Failure> {
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, &key.0);
        // Under a key of their own, so that marks say nothing of what is sealed.
        let of_marks = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key.0), b"marks");
        Ok(Self {
            key: LessSafeKey::new(unbound.map_err(|_| broken())?),
            mark: hmac::Key::new(hmac::HMAC_SHA256, of_marks.as_ref()),
        })
    }

    /// Seals a text that belongs to this.
    pub fn seal(&self, of: &str, plain: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce)?;
        let mut sealed = plain.to_vec();
        let tag = self.key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(of.as_bytes()),
            &mut sealed,
        );
        let tag = tag.map_err(|_| broken())?;
        Ok([nonce.as_slice(), &sealed, tag.as_ref()].concat())
    }

    /// Opens what [`Seal::seal`] sealed; `None` where it was sealed under another key, belongs to something else, or
    /// has been changed.
    pub fn open(&self, of: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.key.open_in_place(nonce, Aad::from(of.as_bytes()), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }

    /// Tells two texts apart without telling anything of them.
    pub fn mark(&self, text: &[u8]) -> Vec<u8> {
        hmac::sign(&self.mark, text).as_ref().to_vec()
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    SystemRandom::new().fill(bytes).map_err(|_| Failure::Trouble("the system gives no random bytes".to_owned()))
}

fn broken() -> Failure {
    Failure::Trouble("a secret cannot be sealed; please report this".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_at_its_own_place_under_its_own_key_alone() {
        let seal = Seal::with(&Key([1; 32])).unwrap();
        let sealed = seal.seal("provider a", b"sk-secret").unwrap();
        assert!(!sealed.windows(9).any(|window| window == b"sk-secret"));
        assert_eq!(seal.open("provider a", &sealed).unwrap(), b"sk-secret");
        assert_eq!(seal.open("provider b", &sealed), None);
        assert_eq!(Seal::with(&Key([2; 32])).unwrap().open("provider a", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open("provider a", &changed), None, "byte {at}");
            assert_eq!(seal.open("provider a", &sealed[..at]), None);
        }
        assert_ne!(seal.seal("provider a", b"sk-secret").unwrap(), sealed, "no two seals are alike");
    }

    #[test]
    fn a_key_is_64_hex_digits_and_nothing_else() {
        let key = Key([0xa7; 32]);
        assert_eq!(Key::read(&format!(" {}\n", key.written().to_uppercase())).unwrap().0, key.0);
        for wrong in ["", "a7", &"a7".repeat(31), &"a7".repeat(33), &"+7".repeat(32), &"ä".repeat(32), &"xy".repeat(32)]
        {
            assert!(Key::read(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "[secret key]");
    }
}
