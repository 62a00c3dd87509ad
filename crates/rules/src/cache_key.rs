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

/// Bytes that are kept together at most before they are hashed: as many as BLAKE3 hashes side by side.
const KEPT: usize = 16 << 10;
/// A piece of so many bytes is hashed where it lies.
const LARGE: usize = 2 << 10;

/// What is hashed, piece by piece. A hasher is two kilobytes that have to be made and moved, and gains by many bytes
/// at once, while most keys are a few hundred in small pieces: those are kept until there are enough of them.
#[derive(Clone, Debug, Default)]
struct Hashing {
    kept: Vec<u8>,
    begun: Option<Box<blake3::Hasher>>,
}

impl Hashing {
    fn update(&mut self, piece: &[u8]) {
        if piece.len() < LARGE && self.kept.len() + piece.len() <= KEPT {
            self.kept.extend_from_slice(piece);
            return;
        }
        let hasher = self.begun.get_or_insert_default();
        hasher.update(&self.kept);
        self.kept.clear();
        if piece.len() < LARGE {
            self.kept.extend_from_slice(piece);
        } else {
            hasher.update(piece);
        }
    }

    fn finish(self) -> [u8; 32] {
        match self.begun {
            None => blake3::hash(&self.kept).into(),
            Some(mut hasher) => hasher.update(&self.kept).finalize().into(),
        }
    }
}

/// Puts a key together, part by part.
#[derive(Clone, Debug)]
pub struct KeyBuilder(Hashing);

impl KeyBuilder {
    /// Begins a key of one kind, such as `answer` or `vector`.
    #[must_use]
    pub fn new(domain: &str) -> Self {
        let mut hashing = Hashing { kept: Vec::with_capacity(384), begun: None };
        hashing.update(&VERSION.to_le_bytes());
        Self(hashing).part(domain.as_bytes())
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
        let mut content = Hashing { kept: Vec::with_capacity(1024), begun: None };
        feed(&mut |piece| content.update(piece))?;
        Ok(self.part(&content.finish()))
    }

    /// All that was added, as it will be hashed; `None` where some of it is hashed already, since it was long.
    #[must_use]
    pub fn so_far(&self) -> Option<&[u8]> {
        self.0.begun.is_none().then_some(&self.0.kept)
    }

    /// The key.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finish()
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
    fn content_of_any_size_is_hashed_as_one() {
        // Around what is kept together, and what is not kept at all.
        for size in [0, 1, 100, LARGE - 1, LARGE, LARGE + 1, KEPT - 1, KEPT, KEPT + 1, 3 * KEPT + 7] {
            let bytes: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
            for step in [1, 7, LARGE - 1, LARGE, 2 * LARGE + 3, KEPT] {
                let mut hashing = Hashing::default();
                bytes.chunks(step).for_each(|piece| hashing.update(piece));
                assert_eq!(hashing.finish(), *blake3::hash(&bytes).as_bytes(), "{size} bytes, {step} at a time");
            }
        }
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
