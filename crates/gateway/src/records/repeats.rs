//! Who still repeats: calls that come again although the gateway does the retrying.
//!
//! One place has to be responsible for retries. Where an application, its SDK and the gateway all
//! repeat, one question becomes six calls. A call's way only takes two fingerprints; they are compared
//! where records are gathered, so that nothing shared is touched while a caller waits.

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use base::{Cached, Endpoint, Record};
use foldhash::quality::RandomState;
use rules::repeats::{Repeats, Told};

use crate::records::metrics::Metrics;

/// Makes the fingerprints of one process.
#[derive(Clone, Debug, Default)]
pub struct Fingerprints(RandomState);

/// A body up to here is taken whole.
const WHOLE: usize = 32 << 10;
/// Of a longer one so much at either end, and a sample of each stretch in between: to read all of a
/// prompt of many hundred kilobytes once more would be felt.
const END: usize = 16 << 10;
const STRETCH: usize = 8 << 10;
const SAMPLE: usize = 512;

impl Fingerprints {
    /// Of an endpoint, the model asked for, and a caller's own request id, or a body.
    #[must_use]
    pub fn of(&self, endpoint: Endpoint, model: &str, bytes: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(endpoint.tail().as_bytes());
        hasher.write_usize(model.len());
        hasher.write(model.as_bytes());
        hasher.write_usize(bytes.len());
        match (bytes.first_chunk::<END>(), bytes.last_chunk::<END>()) {
            (Some(head), Some(tail)) if bytes.len() > WHOLE => {
                hasher.write(head);
                hasher.write(tail);
                let between = bytes.get(END..bytes.len() - END).unwrap_or_default();
                for stretch in between.chunks(STRETCH) {
                    hasher.write(stretch.get(..SAMPLE).unwrap_or(stretch));
                }
            }
            _ => hasher.write(bytes),
        }
        // 0 stands for none.
        hasher.finish().max(1)
    }

    /// Of one client's call.
    fn of_client(&self, client: &str, call: u64) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(client.as_bytes());
        hasher.write_u64(call);
        hasher.finish()
    }
}

/// The calls of the last minute.
#[derive(Debug, Default)]
pub struct RepeatDetector {
    fingerprints: Fingerprints,
    repeats: Repeats,
    told: Told,
}

impl RepeatDetector {
    /// Counts a request that its client had sent before, and names the client in the log once. `at` is
    /// when the request came, by a clock that nobody sets.
    pub fn note(&mut self, record: &Record, at: Duration, metrics: &Metrics) {
        let Some(client) = &record.client else { return };
        if record.cache.is_some_and(is_anybodys) {
            return;
        }
        let mut again = false;
        for call in record.fingerprints.into_iter().filter(|call| *call != 0) {
            again |= self.repeats.seen(self.fingerprints.of_client(client, call), at);
        }
        if !again {
            return;
        }
        metrics.repeated(client);
        if self.told.tell(client, at) {
            tracing::warn!(
                client = &**client,
                route = record.route.as_deref(),
                "this client repeats its calls: the same request id or body came twice within a minute; the gateway retries \
                 already, so switch its SDK's retries off (mai_repeated_requests_total counts them)"
            );
        }
    }
}

/// Whether a call that ended so says nothing of who sent it. Many ask the same of an application, which is what its
/// cache is for; their calls took nothing of an upstream. A replay was asked for under the key of the very call, and
/// `partial` and `stale` went upstream: these count, as what no cache has answered.
const fn is_anybodys(cached: Cached) -> bool {
    match cached {
        Cached::Hit | Cached::Semantic | Cached::Shared => true,
        Cached::Partial | Cached::Stale | Cached::Replay | Cached::Miss | Cached::Bypass => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bodies_have_equal_fingerprints_and_others_do_not() {
        let fingerprints = Fingerprints::default();
        let of = |bytes: &[u8]| fingerprints.of(Endpoint::Embeddings, "m", bytes);
        assert_eq!(of(b"one"), of(b"one"));
        assert_ne!(of(b"one"), of(b"two"));
        assert_ne!(of(b"one"), fingerprints.of(Endpoint::Rerank, "m", b"one"));
        assert_ne!(of(b"one"), fingerprints.of(Endpoint::Embeddings, "n", b"one"));
        assert_ne!(of(b""), 0);
    }

    #[test]
    fn long_bodies_are_told_apart_by_their_length_their_ends_and_their_middle() {
        let fingerprints = Fingerprints::default();
        let of = |bytes: &[u8]| fingerprints.of(Endpoint::Embeddings, "m", bytes);
        let long = vec![b'a'; 200_000];
        assert_eq!(of(&long), of(&long.clone()));
        for at in [0, 1, 20, 199_999, END + STRETCH] {
            let mut other = long.clone();
            other[at] = b'b';
            assert_ne!(of(&long), of(&other), "{at}");
        }
        assert_ne!(of(&long), of(&long[1..]));
    }
}
