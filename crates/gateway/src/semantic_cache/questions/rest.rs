//! A rest for look-ups that have failed again and again: the calls that would have waited for them go on without.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many failures in a row, and nobody looks up for a while.
const FAILURES: u32 = 3;
/// A rest is so long at first and doubles with each failed trial, up to so long.
const REST: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// How look-ups of a route fare.
#[derive(Debug, Default)]
pub struct Rest(Mutex<Fortune>);

#[derive(Debug, Default)]
struct Fortune {
    failures: u32,
    /// Nobody looks up before.
    until: Option<Instant>,
    /// One looks up whether it is well again.
    is_tried: bool,
}

/// One look-up. Dropped without a word, it says nothing.
#[derive(Debug)]
pub struct Trial<'a> {
    rest: &'a Rest,
    /// It is the one that finds out whether look-ups are well again.
    is_probe: bool,
}

impl Rest {
    /// Begins a look-up; `None` while they rest.
    pub fn enter(&self, now: Instant) -> Option<Trial<'_>> {
        let mut fortune = self.fortune();
        if let Some(until) = fortune.until {
            if now < until || fortune.is_tried {
                return None;
            }
            fortune.is_tried = true;
        }
        Some(Trial { rest: self, is_probe: fortune.until.is_some() })
    }

    fn fortune(&self) -> MutexGuard<'_, Fortune> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trial<'_> {
    /// Whether it is the one that finds out whether look-ups are well again.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// It came to an end.
    pub fn succeeded(self) {
        let mut fortune = self.rest.fortune();
        // One that began before the rest says nothing of those who fail now, and is not to end the trial.
        if self.is_probe || fortune.until.is_none() {
            *fortune = Fortune::default();
        }
    }

    /// It failed, or took too long.
    pub fn failed(self, now: Instant) {
        let mut fortune = self.rest.fortune();
        if fortune.until.is_some() && !self.is_probe {
            // It began before the rest, and fails of what the rest began for.
            return;
        }
        fortune.failures = fortune.failures.saturating_add(1);
        if let Some(beyond) = fortune.failures.checked_sub(FAILURES) {
            let rest = REST.0.saturating_mul(1 << beyond.min(8));
            fortune.until = Some(now + rest.min(REST.1));
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.rest.fortune().is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Clock;

    use super::*;

    #[test]
    fn after_three_failures_in_a_row_one_tries_now_and_then() {
        let (rest, start) = (Rest::default(), Clock.now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for _ in 0..3 {
            rest.enter(at(0)).unwrap().failed(at(0));
        }
        assert!(rest.enter(at(4)).is_none());
        let trial = rest.enter(at(5)).unwrap();
        assert!(rest.enter(at(5)).is_none(), "one at a time");
        trial.failed(at(5));
        assert!(rest.enter(at(14)).is_none(), "twice as long");
        assert!(rest.enter(at(15)).unwrap().is_probe());
        drop(rest.enter(at(15)).unwrap());
        rest.enter(at(15)).unwrap().succeeded();
        rest.enter(at(15)).unwrap().failed(at(15));
        assert!(rest.enter(at(15)).is_some(), "what was before is forgotten");
    }

    #[test]
    fn look_ups_that_fail_together_are_one_failure_of_those_who_rest() {
        let (rest, start) = (Rest::default(), Clock.now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut together: Vec<_> = (0..9).map(|_| rest.enter(at(0)).unwrap()).collect();
        let [late, well] = [together.pop().unwrap(), together.pop().unwrap()];
        together.into_iter().for_each(|trial| trial.failed(at(0)));
        assert!(rest.enter(at(4)).is_none());
        let probe = rest.enter(at(5)).unwrap();
        drop(late);
        well.succeeded();
        assert!(rest.enter(at(5)).is_none(), "who began before the rest does not end the trial");
        assert!(probe.is_probe());
        probe.succeeded();
        let both = [rest.enter(at(5)).unwrap(), rest.enter(at(5)).unwrap()];
        assert!(both.iter().all(|trial| !trial.is_probe()), "all look up again, not one alone");
    }

    #[test]
    fn no_rest_is_longer_than_the_longest() {
        let (rest, mut now) = (Rest::default(), Clock.now());
        for _ in 0..100 {
            now += Duration::from_secs(60);
            rest.enter(now).unwrap().failed(now);
        }
    }
}
