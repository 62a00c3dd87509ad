//! The name that an answer is stored under: a wide hash of all that decides it.
//!
//! Whoever makes a key says in a fixed order what the answer depends on. Each part is hashed with its
//! length in front, so that no two lists of parts are one stream of bytes, and behind the name of what
//! the key is for and the version of that list, so that keys of two kinds never meet and a change of
//! what is said never finds an old answer. The hash is BLAKE3 (256 bits): callers choose what is
//! hashed, so nothing weaker than a cryptographic hash would do.

/// How a key is made of its parts. To be raised whenever parts are added, left out or written in
/// another way, since keys outlive the process on disk.
const VERSION: u32 = 1;

/// Puts a key together, part by part.
#[derive(Clone, Debug)]
pub struct KeyBuilder(blake3::Hasher);

impl KeyBuilder {
    /// Begins a key of one kind, such as `answer` or `vector`.
    #[must_use]
    pub fn new(domain: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&VERSION.to_le_bytes());
        Self(hasher).part(domain.as_bytes())
    }

    /// Adds a part.
    #[must_use]
    pub fn part(mut self, part: &[u8]) -> Self {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// Adds a part that may be absent, which is not the same as an empty one.
    #[must_use]
    pub fn option(self, part: Option<&[u8]>) -> Self {
        match part {
            Some(part) => self.part(&[1]).part(part),
            None => self.part(&[0]),
        }
    }

    /// Adds a list of parts of any length.
    #[must_use]
    pub fn list<'a>(self, parts: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let counted = self.part(&(parts.len() as u64).to_le_bytes());
        parts.fold(counted, Self::part)
    }

    /// Adds a part that comes in pieces; where they are cut makes no difference. `feed` is handed what
    /// takes them.
    ///
    /// # Errors
    /// What `feed` answers; there is no key then.
    pub fn content<E>(self, feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>) -> Result<Self, E> {
        // Hashed by itself, for its length is known only at its end.
        let mut content = blake3::Hasher::new();
        feed(&mut |piece| {
            content.update(piece);
        })?;
        Ok(self.part(content.finalize().as_bytes()))
    }

    /// The key.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// What two bodies under one idempotency key are compared by: equal for the same endpoint and the very
/// same bytes, and for nothing else.
#[must_use]
pub fn body_fingerprint(endpoint: &str, body: &[u8]) -> [u8; 32] {
    KeyBuilder::new("body").part(endpoint.as_bytes()).part(body).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[&[u8]]) -> [u8; 32] {
        parts.iter().fold(KeyBuilder::new("answer"), |key, part| key.part(part)).finish()
    }

    #[test]
    fn the_same_parts_make_the_same_key() {
        assert_eq!(key(&[b"production", b"rag-chat"]), key(&[b"production", b"rag-chat"]));
    }

    #[test]
    fn neither_order_nor_borders_nor_empty_parts_are_lost() {
        let keys = [
            key(&[]),
            key(&[b""]),
            key(&[b"", b""]),
            key(&[b"ab"]),
            key(&[b"a", b"b"]),
            key(&[b"b", b"a"]),
            key(&[b"", b"ab"]),
            key(&[b"ab", b""]),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(at + 1).all(|other| other != one), "{at}");
        }
    }

    #[test]
    fn kinds_of_keys_never_meet() {
        assert_ne!(KeyBuilder::new("answer").finish(), KeyBuilder::new("vector").finish());
        assert_ne!(KeyBuilder::new("ab").part(b"c").finish(), KeyBuilder::new("a").part(b"bc").finish());
    }

    #[test]
    fn absent_is_not_empty() {
        let with = |client: Option<&[u8]>| KeyBuilder::new("answer").option(client).finish();
        assert_ne!(with(None), with(Some(b"")));
        assert_ne!(with(Some(b"")), with(Some(b"\0")));
    }

    #[test]
    fn a_list_ends_where_the_next_part_begins() {
        let with =
            |models: &[&[u8]], next: &[u8]| KeyBuilder::new("answer").list(models.iter().copied()).part(next).finish();
        assert_eq!(with(&[b"a", b"b"], b"c"), with(&[b"a", b"b"], b"c"));
        assert_ne!(with(&[b"a", b"b"], b"c"), with(&[b"a"], b"b"));
        assert_ne!(with(&[b"a", b"b"], b"c"), with(&[b"b", b"a"], b"c"));
    }

    #[test]
    fn content_may_come_in_any_pieces() {
        let with = |pieces: &[&[u8]]| {
            let feed = |take: &mut dyn FnMut(&[u8])| {
                pieces.iter().for_each(|piece| take(piece));
                Ok::<(), ()>(())
            };
            KeyBuilder::new("answer").content(feed).map(|key| key.part(b"end").finish())
        };
        assert_eq!(with(&[b"abc"]), with(&[b"a", b"", b"bc"]));
        assert_ne!(with(&[b"abc"]), with(&[b"abce"]));
        assert_eq!(KeyBuilder::new("answer").content(|_| Err("not to be keyed")).map(drop), Err("not to be keyed"));
    }

    #[test]
    fn a_body_is_known_by_its_very_bytes() {
        let one = body_fingerprint("embeddings", br#"{"input":"a"}"#);
        assert_eq!(one, body_fingerprint("embeddings", br#"{"input":"a"}"#));
        assert_ne!(one, body_fingerprint("embeddings", br#"{"input": "a"}"#));
        assert_ne!(one, body_fingerprint("rerank", br#"{"input":"a"}"#));
    }

    /// Keys lie on disk: another way of making them must raise the version.
    #[test]
    fn keys_are_what_they_were() {
        let key = KeyBuilder::new("answer").part(b"production").option(None).list([].into_iter()).finish();
        let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "603f68e2a779d9c210897b5bfb470171ec7e6c76f7d531e75f28be36fd3492f5");
    }
}
