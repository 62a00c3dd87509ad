//! One vector, as it is stored and as it is handed around.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use state::answers::Stored;

/// How what follows the numbers is written. Raised with every change.
const VERSION: u8 = 2;
/// Behind everything: tokens, the source, milliseconds, the lengths of both names, the version.
const TAIL: usize = 8 + 8 + 4 + 2 + 2 + 1;

/// Where a vector is from. The later ones say more about what the route answers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It was stored.
    Stored,
    /// Another call has brought it.
    Shared,
    /// This call has brought it from an upstream.
    Brought,
}

/// The vector of one input, and where it is from.
#[derive(Clone, Debug)]
pub struct InputVector {
    /// Little-endian `f32`s.
    pub numbers: Bytes,
    /// The model as the upstream named it, in UTF-8; empty where it named none.
    pub model: Bytes,
    /// The label of that upstream.
    pub upstream: Bytes,
    /// What is known of where it stands: see [`crate::cache::sources::of_vectors`].
    pub source: u64,
    /// The input's share of what the upstream counted.
    pub tokens: u64,
    /// How long the answer took that it came in.
    pub took: Duration,
    /// How long ago it was stored.
    pub age: Duration,
    /// Where it is from.
    pub how: How,
}

impl InputVector {
    /// A stored vector; `None` where it cannot be read.
    #[must_use]
    pub fn read(stored: &Arc<Stored>, now: Duration) -> Option<Self> {
        let mut numbers = stored.bytes();
        let tail = numbers.split_off(numbers.len().checked_sub(TAIL)?);
        let (tokens, tail) = tail.split_first_chunk::<8>()?;
        let (source, tail) = tail.split_first_chunk::<8>()?;
        let (took, tail) = tail.split_first_chunk::<4>()?;
        let (model, tail) = tail.split_first_chunk::<2>()?;
        let (upstream, version) = tail.split_first_chunk::<2>()?;
        if version != [VERSION] {
            return None;
        }
        let upstream = numbers.split_off(numbers.len().checked_sub(usize::from(u16::from_le_bytes(*upstream)))?);
        let model = numbers.split_off(numbers.len().checked_sub(usize::from(u16::from_le_bytes(*model)))?);
        let is_vector = !numbers.is_empty() && numbers.len().is_multiple_of(4);
        is_vector.then_some(Self {
            numbers,
            model,
            upstream,
            source: u64::from_le_bytes(*source),
            tokens: u64::from_le_bytes(*tokens),
            took: Duration::from_millis(u32::from_le_bytes(*took).into()),
            age: stored.age(now),
            how: How::Stored,
        })
    }

    /// As it is stored, in memory of its own.
    #[must_use]
    pub fn write(&self) -> Box<[u8]> {
        let names = [&self.model, &self.upstream];
        // A name that is too long for its length is left out.
        let [model, upstream] = names.map(|name| if name.len() > usize::from(u16::MAX) { &[][..] } else { name });
        let mut out = Vec::with_capacity(self.numbers.len() + model.len() + upstream.len() + TAIL);
        for part in [&self.numbers[..], model, upstream] {
            out.extend_from_slice(part);
        }
        out.put_u64_le(self.tokens);
        out.put_u64_le(self.source);
        out.put_u32_le(u32::try_from(self.took.as_millis()).unwrap_or(u32::MAX));
        for name in [model, upstream] {
            out.put_u16_le(u16::try_from(name.len()).unwrap_or_default());
        }
        out.push(VERSION);
        out.into()
    }

    /// How many numbers it has.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.numbers.len() / 4
    }

    /// The model as the upstream named it.
    #[must_use]
    pub fn model(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.model)
    }
}

#[cfg(test)]
mod tests {
    use state::answers::Kind;

    use super::*;

    fn stored(body: Box<[u8]>) -> Arc<Stored> {
        let time = Duration::from_secs(100);
        Arc::new(Stored {
            kind: Kind::Vector,
            route: "embedding".into(),
            client: None,
            kb_version: None,
            stored: time,
            expires: time,
            keep_until: time,
            body,
        })
    }

    #[test]
    fn a_vector_is_read_as_it_was_written() {
        let held = InputVector {
            numbers: Bytes::from_static(&[0, 0, 0, 63, 0, 0, 128, 190]),
            model: Bytes::from_static("bge-大".as_bytes()),
            upstream: Bytes::from_static(b"a/bge"),
            source: 1 << 50,
            tokens: 1 << 40,
            took: Duration::from_millis(1234),
            age: Duration::ZERO,
            how: How::Brought,
        };
        let read = InputVector::read(&stored(held.write()), Duration::from_secs(105)).unwrap();
        assert_eq!((&read.numbers, &read.model, &read.upstream), (&held.numbers, &held.model, &held.upstream));
        assert_eq!((read.tokens, read.took, read.age), (held.tokens, held.took, Duration::from_secs(5)));
        assert_eq!(read.source, held.source);
        assert_eq!((read.dimension(), &*read.model(), read.how), (2, "bge-大", How::Stored));
    }

    #[test]
    fn what_is_no_vector_is_not_read() {
        let held = |numbers: &'static [u8]| InputVector {
            numbers: Bytes::from_static(numbers),
            model: Bytes::new(),
            upstream: Bytes::new(),
            source: 0,
            tokens: 0,
            took: Duration::ZERO,
            age: Duration::ZERO,
            how: How::Brought,
        };
        let mut newer = held(&[0; 4]).write();
        *newer.last_mut().unwrap() += 1;
        let mut longer = held(&[0; 4]).write();
        longer[4 + 8 + 8 + 4] = 9;
        for body in [Box::default(), held(&[]).write(), held(&[0; 7]).write(), newer, longer, vec![0; 24].into()] {
            assert!(InputVector::read(&stored(body), Duration::ZERO).is_none());
        }
    }
}
