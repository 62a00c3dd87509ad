//! A key that nobody has yet.

use base::Secret;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use state::objects::{IssuedKey, KeyDigest};
use std::sync::Arc;
use std::time::Duration;

/// A key as its owner gets it, once.
#[derive(Debug)]
pub struct NewKey {
    /// Names it; says nothing of the key.
    pub id: Arc<str>,
    /// The key itself.
    pub key: Secret,
}

/// The system gives no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoChance;

impl NewKey {
    /// A new one: `mai-` and 256 random bits in base64url, as the key of zero configuration begins; its id is `key_` and
    /// 64 random bits in hex.
    ///
    /// # Errors
    /// [`NoChance`].
    pub fn make() -> Result<Self, NoChance> {
        let id = u64::from_ne_bytes(random()?);
        let key = BASE64_URL_SAFE_NO_PAD.encode(random::<32>()?);
        Ok(Self { id: format!("key_{id:016x}").into(), key: Secret::new(format!("mai-{key}")) })
    }

    /// What is kept of it: for `client`, made `by` whom and when, good until then.
    #[must_use]
    pub fn kept(
        &self,
        client: Arc<str>,
        (by, note): (&str, &str),
        (now, expires): (Duration, Option<Duration>),
    ) -> IssuedKey {
        IssuedKey {
            id: self.id.clone(),
            client,
            digest: KeyDigest(self.key.sha256()),
            note: note.into(),
            by: by.into(),
            created: now,
            expires,
            last_used: None,
        }
    }
}

/// Bytes that nobody else knows.
fn random<const N: usize>() -> Result<[u8; N], NoChance> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| NoChance)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_long_fits_a_header_and_is_not_printed() {
        let (one, other) = (NewKey::make().unwrap(), NewKey::make().unwrap());
        let key = one.key.expose();
        assert!(key.starts_with("mai-") && key.len() == 4 + 43, "{key}");
        assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'), "{key}");
        assert!(one.id.starts_with("key_") && one.id.len() == 4 + 16, "{}", one.id);
        assert!(one.key != other.key && one.id != other.id);
        let now = Duration::from_secs(7);
        let shown = format!("{one:?} {:?}", one.kept("app".into(), ("ops", ""), (now, None)));
        assert!(!shown.contains(key) && shown.contains("[key digest]"), "{shown}");
    }
}
