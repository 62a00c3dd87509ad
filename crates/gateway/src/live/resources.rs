//! What the gateway itself has, and who is told where that is used up.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{Class, Fault, Kind};
use bytes::Bytes;

/// The operator is told of what is used up so often at most.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What the process has, shared by all workers.
#[derive(Debug, Default)]
pub struct Resources {
    /// Upstreams' answers that are held whole.
    pub buffered: Arc<Buffered>,
    /// When the operator was last told that something is used up.
    told: Mutex<Option<Instant>>,
}

impl Resources {
    /// Puts a fault of the gateway's own into the log, unless one was put there within the last minute.
    pub fn tell(&self, fault: &Fault, now: Instant) {
        if fault.class == Class::Gateway && self.is_due(now) {
            tracing::error!(
                "{} (mai_upstream_attempts_total counts such tries as gateway_overloaded; told once a minute)",
                fault.message
            );
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_EVERY);
        if is_due {
            *told = Some(now);
        }
        is_due
    }
}

/// Answers up to this are not counted: nearly all are, and workers share nothing for them. It is also the step in which
/// larger ones are.
const STEP: usize = 1 << 20;

/// Bytes of upstreams' answers that are held whole, of all calls together. Each is bounded by itself, but many large ones
/// at a time would take all memory.
#[derive(Debug)]
pub struct Buffered {
    most: AtomicUsize,
    bytes: AtomicUsize,
}

impl Default for Buffered {
    /// 1 GiB.
    fn default() -> Self {
        Self { most: AtomicUsize::new(1 << 30), bytes: AtomicUsize::new(0) }
    }
}

impl Buffered {
    /// So many bytes at most from now on. What is held stays.
    pub fn bound(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// Bytes that large answers take now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// An answer has come to so many bytes. `share` is what it takes so far; nothing of a small one.
    ///
    /// # Errors
    /// There is no room: the gateway's own lack.
    pub(crate) fn hold(self: &Arc<Self>, share: &mut Option<Share>, length: usize) -> Result<(), Fault> {
        let taken = share.as_ref().map_or(STEP, |share| share.bytes);
        if length <= taken {
            return Ok(());
        }
        let share = share.get_or_insert_with(|| Share { of: self.clone(), bytes: 0 });
        let more = length.next_multiple_of(STEP) - share.bytes;
        // Counted before it is looked at; what is too much goes with the share.
        share.bytes += more;
        let all = self.bytes.fetch_add(more, Relaxed) + more;
        if all <= self.most.load(Relaxed) { Ok(()) } else { Err(no_room(all)) }
    }
}

fn no_room(all: usize) -> Fault {
    let message = format!(
        "the gateway has no room for the answer: with it, large answers that are held at a time would come to {} MiB; send \
         the call again in a moment, ask for less in one call, or give the gateway more memory",
        all >> 20
    );
    Fault { class: Class::Gateway, ..Fault::upstream(Kind::Reset, message) }
}

/// What one answer takes of what all may. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Buffered>,
    bytes: usize,
}

impl Share {
    /// The answer, which has its share for as long as anybody holds a part of it.
    pub fn around(self, body: Bytes) -> Bytes {
        Bytes::from_owner(Held { body, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

struct Held {
    body: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_answers_take_nothing_and_large_ones_by_the_mebibyte_until_nobody_holds_them() {
        let all = Arc::new(Buffered::default());
        all.bound(8 * STEP);
        let mut share = None;
        all.hold(&mut share, STEP).unwrap();
        assert_eq!((share.is_none(), all.bytes()), (true, 0));
        for (length, taken) in [(STEP + 1, 2), (2 * STEP, 2), (5 * STEP - 1, 5)] {
            all.hold(&mut share, length).unwrap();
            assert_eq!(all.bytes(), taken * STEP);
        }
        let body = share.take().unwrap().around(vec![0; 100].into());
        let part = body.slice(10..20);
        drop(body);
        assert_eq!(all.bytes(), 5 * STEP, "a part of it is held");
        let fault = all.hold(&mut share, 4 * STEP).unwrap_err();
        assert!(fault.class == Class::Gateway && fault.maybe_processed && fault.message.contains("9 MiB"), "{fault:?}");
        drop(share);
        drop(part);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn the_operator_is_told_once_a_minute() {
        let (means, now) = (Resources::default(), base::Clock.now());
        let told = [0, 1, 59, 60, 61, 119, 120].map(|second| means.is_due(now + Duration::from_secs(second)));
        assert_eq!(told, [true, false, false, true, false, false, true]);
    }
}
