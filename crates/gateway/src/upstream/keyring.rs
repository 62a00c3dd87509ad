//! A provider's keys, and the rests of those that were refused or throttled.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::Provider;
use http::HeaderValue;
use rules::pursuit::Bar;

/// A provider's keys, and which ones rest.
#[derive(Debug, Default)]
pub struct KeyRing {
    rests: Mutex<Vec<Rest>>,
    /// False as long as no key has ever rested: nothing need be looked at then.
    has_rested: AtomicBool,
    refused: AtomicU64,
}

/// One key's rest.
#[derive(Debug, Default)]
struct Rest {
    /// The key, as its header is sent.
    key: Option<HeaderValue>,
    throttled_until: Option<Instant>,
    refused_until: Option<Instant>,
    /// How often in a row it was refused.
    refusals: AtomicU32,
}

impl Rest {
    fn bar(&self, now: Instant) -> Option<Bar> {
        let throttled = self.throttled_until.filter(|until| *until > now).map(Bar::Resting);
        self.refused_until.filter(|until| *until > now).map(Bar::Refused).or(throttled)
    }
}

/// How long a refused key rests at first; it doubles with every refusal, up to `breaker.max_rest`.
pub(crate) const REFUSED_REST: Duration = Duration::from_secs(60);

impl KeyRing {
    /// The ring of a provider after a reload: itself where its keys are what they were, else a new
    /// one in which the keys that stay keep their rests. Calls in flight go on with their own.
    pub(crate) fn fitting(self: &Arc<Self>, provider: &Provider) -> Arc<Self> {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = rests.len() == provider.keys.len()
            && rests.iter().zip(&provider.keys).all(|(rest, key)| rest.key.as_ref() == Some(&key.value));
        if is_same {
            return self.clone();
        }
        let rest_of = |key: &HeaderValue| {
            // Copied, not moved: calls in flight go on with the old ring.
            let known = rests.iter().find(|rest| rest.key.as_ref() == Some(key));
            Rest {
                key: Some(key.clone()),
                throttled_until: known.and_then(|rest| rest.throttled_until),
                refused_until: known.and_then(|rest| rest.refused_until),
                refusals: AtomicU32::new(known.map_or(0, |rest| rest.refusals.load(Ordering::Relaxed))),
            }
        };
        let fitted = provider.keys.iter().map(|key| &key.value).map(rest_of).collect();
        Arc::new(Self {
            rests: Mutex::new(fitted),
            has_rested: AtomicBool::new(self.has_rested.load(Ordering::Relaxed)),
            refused: AtomicU64::new(self.refused.load(Ordering::Relaxed)),
        })
    }

    /// The keys to try, the next of `turn` first, those that rest marked so. A provider without keys
    /// yields one `None`. Each upstream has a turn of its own: two at one provider, of which each call
    /// asks both, would else pass over the same keys for ever.
    #[must_use]
    pub fn order(
        &self,
        provider: &Provider,
        turn: &AtomicUsize,
        now: Instant,
    ) -> smallvec::SmallVec<[(Option<usize>, Option<Bar>); 2]> {
        let count = provider.keys.len();
        if count == 0 {
            return smallvec::smallvec![(None, None)];
        }
        if count == 1 && !self.has_rested.load(Ordering::Relaxed) {
            return smallvec::smallvec![(Some(0), None)];
        }
        let first = turn.fetch_add(1, Ordering::Relaxed) % count;
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = (0..count).map(|step| (first + step) % count);
        keys.map(|at| (Some(at), rests.get(at).and_then(|rest| rest.bar(now)))).collect()
    }

    /// Why one of them takes no calls now.
    #[must_use]
    pub fn bar(&self, at: Option<usize>, now: Instant) -> Option<Bar> {
        if !self.has_rested.load(Ordering::Relaxed) {
            return None;
        }
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.get(at?)?.bar(now)
    }

    /// Keys that rest now.
    #[must_use]
    pub fn resting(&self, now: Instant) -> usize {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.iter().filter(|rest| rest.bar(now).is_some()).count()
    }

    /// A key was refused: it rests a minute, doubling up to `longest`.
    pub fn refused(&self, at: Option<usize>, now: Instant, longest: Duration) {
        self.has_rested.store(true, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = at.and_then(|at| rests.get_mut(at)) {
            let doublings = rest.refusals.fetch_add(1, Ordering::Relaxed).min(8);
            rest.refused_until = Some(now + (REFUSED_REST * 2u32.pow(doublings)).min(longest));
        }
    }

    /// A key was throttled: it rests for `wait`. Of two rests the longer one counts.
    pub fn throttled(&self, at: Option<usize>, now: Instant, wait: Duration) {
        self.has_rested.store(true, Ordering::Relaxed);
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = at.and_then(|at| rests.get_mut(at)) {
            rest.throttled_until = rest.throttled_until.max(Some(now + wait));
        }
    }

    /// An operator wants every one of them tried again: no rest goes on.
    pub fn rouse(&self) {
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        for rest in rests.iter_mut() {
            (rest.throttled_until, rest.refused_until) = (None, None);
            rest.refusals.store(0, Ordering::Relaxed);
        }
    }

    /// When the first of them takes calls again, where every one rests.
    #[must_use]
    pub fn all_rest_until(&self, now: Instant) -> Option<Instant> {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let end = |rest: &Rest| match rest.bar(now) {
            Some(Bar::Resting(until) | Bar::Refused(until)) => Some(until),
            _ => None,
        };
        rests.iter().map(end).collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// A key worked.
    pub fn worked(&self, at: Option<usize>) {
        if self.refused.load(Ordering::Relaxed) == 0 {
            return;
        }
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = at.and_then(|at| rests.get(at)) {
            rest.refusals.store(0, Ordering::Relaxed);
        }
    }
}
