//! What time it is, for what grows old and for people, also where somebody sets the clock.

use std::time::{Duration, Instant};

use super::Live;

/// A wall clock that is so far ahead of the time since the start has been set.
const SET_FORWARD: Duration = Duration::from_secs(60);

impl Live {
    /// The wall clock for what grows old: it goes on evenly from the start, also where the machine's is set back, so that
    /// nothing lasts longer for that. Where that is set forward, as on a machine that began with a wrong time, it is
    /// believed. Caches and issued keys go by it; what people and the ledger are told is `clock.wall()`.
    #[must_use]
    pub fn steady_wall(&self) -> Duration {
        let evenly = self.began_wall + self.clock.now().saturating_duration_since(self.began);
        let wall = self.clock.wall();
        if wall > evenly + SET_FORWARD { wall } else { evenly }
    }

    /// An instant as people's clocks show it now, from the Unix epoch: always the same for the same instant, as long as
    /// nobody sets the clock.
    #[must_use]
    pub fn shown_at(&self, at: Instant) -> Duration {
        let began = Reading { instant: self.began, wall: self.began_wall };
        let now = Reading { instant: self.clock.now(), wall: self.clock.wall() };
        shown_at(began, now, at)
    }
}

/// What both clocks say at once.
#[derive(Clone, Copy)]
struct Reading {
    instant: Instant,
    /// From the Unix epoch.
    wall: Duration,
}

/// An instant by a wall clock that said so at the start, and says so now. What it was set by meanwhile counts in whole
/// seconds, so that two looks a moment apart do not differ by the moment between reading one clock and the other.
fn shown_at(began: Reading, now: Reading, at: Instant) -> Duration {
    const HALF: Duration = Duration::from_millis(500);
    let evenly = |at: Instant| match at.checked_duration_since(began.instant) {
        Some(after) => began.wall.saturating_add(after),
        None => began.wall.saturating_sub(began.instant.saturating_duration_since(at)),
    };
    let whole = |set_by: Duration| Duration::from_secs(set_by.saturating_add(HALF).as_secs());
    match now.wall.checked_sub(evenly(now.instant)) {
        Some(forward) => evenly(at).saturating_add(whole(forward)),
        None => evenly(at).saturating_sub(whole(evenly(now.instant) - now.wall)),
    }
}

#[cfg(test)]
mod tests {
    use base::Clock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn an_instant_is_shown_as_the_clock_has_it_when_it_is_asked_for() {
        let (began, wall) = (Clock.now(), 1_000 * HOUR);
        let (opened, now) = (began + HOUR, began + 3 * HOUR);
        let start = Reading { instant: began, wall };
        let shown = |clock: Duration, at| shown_at(start, Reading { instant: now, wall: clock }, at);
        let evenly = wall + 3 * HOUR;
        // Two hours ago, and in an hour, whatever the clock was set to.
        for clock in [evenly, evenly - 100 * HOUR, evenly - Duration::from_secs(5), evenly + 2 * HOUR] {
            assert_eq!((shown(clock, opened), shown(clock, now + HOUR)), (clock - 2 * HOUR, clock + HOUR));
        }
        assert_eq!(shown(Duration::ZERO, opened), Duration::ZERO, "a clock before the epoch overflows nothing");
    }

    #[test]
    fn an_instant_is_shown_alike_by_looks_whose_clocks_differ_by_a_moment() {
        let (began, wall) = (Clock.now(), 1_000 * HOUR);
        let start = Reading { instant: began, wall };
        let now = began + HOUR;
        let evenly = wall + HOUR;
        for off in [0, 1, 40, 400] {
            let off = Duration::from_millis(off);
            for clock in [evenly - off, evenly + off] {
                assert_eq!(shown_at(start, Reading { instant: now, wall: clock }, began), wall);
            }
        }
    }
}
