//! How many calls of a route may be repeated: repeats must not become the load that keeps an upstream
//! down.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[cfg(test)]
mod tests;

/// Over how many seconds calls and repeats are counted, each second in a slot of its own.
const WINDOW: u64 = 10;

/// So many repeats within the window are allowed however few calls there are.
const FLOOR: f64 = 10.0;

/// The retry budget of a route: repeats of the last 10 s stay below a share of its calls.
#[derive(Debug)]
pub struct RetryBudget {
    epoch: Instant,
    /// Calls, a second in each: the number of the second in the upper half, the count in the lower.
    calls: [AtomicU64; WINDOW as usize],
    repeats: Mutex<Ring>,
}

impl RetryBudget {
    /// One that counts from `epoch` on.
    #[must_use]
    pub fn new(epoch: Instant) -> Self {
        Self { epoch, calls: Default::default(), repeats: Mutex::default() }
    }

    /// A call has come. Takes no lock: every call does this. Calls that meet where a slot turns to its
    /// next second may lose one count.
    pub fn called(&self, now: Instant) {
        let second = self.second(now);
        let Some(slot) = self.calls.get(index(second)) else { return };
        let held = slot.load(Ordering::Relaxed);
        if held >> 32 == second {
            slot.fetch_add(1, Ordering::Relaxed);
        } else if held >> 32 < second {
            slot.store((second << 32) | 1, Ordering::Relaxed);
        }
    }

    /// Takes one repeat, if with it the repeats of the last 10 s are at most `share` of the calls, or
    /// ten. A `share` of 0 allows none at all.
    pub fn take(&self, now: Instant, share: f64) -> bool {
        // Also where it is no number.
        if share.is_nan() || share <= 0.0 {
            return false;
        }
        let second = self.second(now);
        let most = (share * self.calls_until(second)).max(FLOOR);
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).take(second, most)
    }

    /// Seconds since the epoch, as many as fit half a slot: 136 years.
    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_secs().min(u64::from(u32::MAX))
    }

    fn calls_until(&self, second: u64) -> f64 {
        let counts = self.calls.iter().map(|slot| {
            let held = slot.load(Ordering::Relaxed);
            if is_recent(held >> 32, second) { held & u64::from(u32::MAX) } else { 0 }
        });
        as_float(counts.sum())
    }
}

/// Repeats, a second in each slot.
#[derive(Debug, Default)]
struct Ring {
    slots: [(u64, u64); WINDOW as usize],
    /// The latest second seen: whoever read the clock before others but came after them counts there.
    latest: u64,
}

impl Ring {
    fn take(&mut self, second: u64, most: f64) -> bool {
        self.latest = self.latest.max(second);
        let latest = self.latest;
        let taken: u64 = self.slots.iter().filter(|slot| is_recent(slot.0, latest)).map(|slot| slot.1).sum();
        if as_float(taken + 1) > most {
            return false;
        }
        let Some(slot) = self.slots.get_mut(index(latest)) else { return false };
        let before = if slot.0 == latest { slot.1 } else { 0 };
        *slot = (latest, before + 1);
        true
    }
}

fn is_recent(held: u64, now: u64) -> bool {
    held + WINDOW > now
}

fn index(second: u64) -> usize {
    usize::try_from(second % WINDOW).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "calls within ten seconds are far below 2^53")]
fn as_float(count: u64) -> f64 {
    count as f64
}
