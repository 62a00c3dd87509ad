//! The keys of bodies that have come before, byte for byte.
//!
//! A key needs the body's canonical form and a wide hash over it, which is most of what a hit costs; and what is answered
//! from the cache has as a rule come in the very same bytes, for one program has written it each time. So a worker keeps
//! the keys of a few bodies that came twice. It compares all bytes: the place alone is found by a quick hash, and a
//! stranger there costs a look. What a key is made of is not known here; it is the same for the same bytes, always.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use base::Endpoint;
use dialect::Ask;
use foldhash::quality::RandomState;
use rules::cache_key::KeyBuilder;
use state::answers::Key;

/// Bodies that are kept at most, each in the place that its hash says.
const PLACES: usize = 256;
/// Bytes of a body that is kept, with what stands around it: so all take 4 MiB at most, for each worker.
const LARGEST: usize = 16 << 10;

/// One worker's.
#[derive(Debug, Default)]
pub struct KnownBodies {
    hasher: RandomState,
    /// Empty until something is looked for.
    places: Mutex<Vec<Place>>,
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// Of what came here last.
    hash: u64,
    /// Once that came again.
    known: Option<Box<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    endpoint: Endpoint,
    around: Box<[u8]>,
    body: Box<[u8]>,
    key: Key,
}

/// A body, and all else that its key is made of.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    /// How the body is read.
    endpoint: Endpoint,
    /// What the key says beside it.
    around: &'a [u8],
    /// As it goes to an upstream.
    body: &'a [u8],
}

impl KnownBodies {
    /// The key of a call, as `make` makes it of what the key says `around` it; `None` where it has none.
    pub fn key(&self, around: &KeyBuilder, ask: &Ask, make: impl FnOnce() -> Option<Key>) -> Option<Key> {
        match around.so_far().filter(|_| ask.is_decided_by_body()) {
            Some(around) => self.key_of(Asked { endpoint: ask.endpoint, around, body: &ask.body }, make),
            None => make(),
        }
    }

    fn key_of(&self, asked: Asked<'_>, make: impl FnOnce() -> Option<Key>) -> Option<Key> {
        if asked.around.len() + asked.body.len() > LARGEST {
            return make();
        }
        let hash = self.hash(asked);
        let at = usize::try_from(hash).unwrap_or_default() % PLACES;
        let came_before = match self.places.lock().unwrap_or_else(PoisonError::into_inner).get(at) {
            Some(Place { hash: last, known }) if *last == hash => {
                if let Some(known) = known.as_ref().filter(|known| known.is(asked)) {
                    return Some(known.key);
                }
                true
            }
            _ => false,
        };
        let key = make();
        let known = key.filter(|_| came_before).map(|key| Box::new(Known::of(asked, key)));
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.resize_with(PLACES, Place::default);
        if let Some(place) = places.get_mut(at) {
            *place = Place { hash, known };
        }
        key
    }

    fn hash(&self, Asked { endpoint, around, body }: Asked<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(endpoint.tail().as_bytes());
        hasher.write_usize(around.len());
        hasher.write(around);
        hasher.write(body);
        hasher.finish()
    }
}

impl Known {
    fn of(Asked { endpoint, around, body }: Asked<'_>, key: Key) -> Self {
        Self { endpoint, around: around.into(), body: body.into(), key }
    }

    fn is(&self, Asked { endpoint, around, body }: Asked<'_>) -> bool {
        (self.endpoint, &*self.around, &*self.body) == (endpoint, around, body)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const CHAT: Endpoint = Endpoint::Chat;

    /// How often a key was made for this, of as many times as it was asked for.
    fn made(known: &KnownBodies, asked: Asked<'_>, times: usize) -> usize {
        let made = Cell::new(0);
        for _ in 0..times {
            let make = || {
                made.set(made.get() + 1);
                Some(Key(*blake(asked)))
            };
            assert_eq!(known.key_of(asked, make), Some(Key(*blake(asked))), "the key is its own");
        }
        made.get()
    }

    fn blake(Asked { endpoint, around, body }: Asked<'_>) -> Box<[u8; 32]> {
        let key = KeyBuilder::new(endpoint.tail()).part(around).part(body);
        Box::new(key.finish())
    }

    #[test]
    fn a_body_that_came_twice_is_known() {
        let known = KnownBodies::default();
        assert_eq!(made(&known, Asked { endpoint: CHAT, around: b"around", body: b"{}" }, 10), 2);
    }

    #[test]
    fn every_other_byte_and_border_makes_another_key() {
        let known = KnownBodies::default();
        let all = [(CHAT, "ab", "c"), (CHAT, "a", "bc"), (CHAT, "ab", "d"), (Endpoint::Completions, "ab", "c")];
        for _ in 0..3 {
            for (endpoint, around, body) in all {
                made(&known, Asked { endpoint, around: around.as_bytes(), body: body.as_bytes() }, 3);
            }
        }
    }

    #[test]
    fn a_stranger_in_its_place_is_not_taken_for_it() {
        let known = KnownBodies::default();
        let one = Asked { endpoint: CHAT, around: b"", body: b"one" };
        let hash = known.hash(one);
        let other = Known { body: Box::from(*b"two"), ..Known::of(one, Key([9; 32])) };
        let place = Place { hash, known: Some(Box::new(other)) };
        *known.places.lock().unwrap() = vec![place; PLACES];
        assert_eq!(made(&known, one, 1), 1);
    }

    #[test]
    fn many_bodies_and_large_ones_take_no_more_room() {
        let known = KnownBodies::default();
        for at in 0..10 * PLACES {
            made(&known, Asked { endpoint: CHAT, around: b"", body: &at.to_le_bytes() }, 2);
        }
        assert_eq!(known.places.lock().unwrap().len(), PLACES);
        let large = vec![b'a'; LARGEST + 1];
        assert_eq!(made(&known, Asked { endpoint: CHAT, around: b"", body: &large }, 5), 5);
    }

    #[test]
    fn what_has_no_key_is_not_kept() {
        let known = KnownBodies::default();
        let asked = Asked { endpoint: CHAT, around: b"", body: b"no JSON" };
        for _ in 0..3 {
            assert_eq!(known.key_of(asked, || None), None);
        }
        assert!(known.places.lock().unwrap().iter().all(|place| place.known.is_none()));
    }
}
