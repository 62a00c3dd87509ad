//! What happens again and again is told once in a while, with how often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::Occasion;
use foldhash::HashMap;

use super::event::Event;

/// Objects that are minded at most; the configuration has fewer. Those beyond are told each time.
const BOUND: usize = 10_000;

/// For so long after an event was told, further ones of the same object wait to be told as one. A breaker's
/// is as long as it is open by default, so that an ordinary closing is told when it happens.
const fn window(occasion: Occasion) -> Duration {
    match occasion {
        Occasion::Breaker => Duration::from_secs(30),
        Occasion::Quota | Occasion::DimensionMismatch => Duration::from_secs(60),
    }
}

/// Which objects an event was told of lately.
#[derive(Debug, Default)]
pub struct Folding(HashMap<Arc<str>, Told>);

#[derive(Debug)]
struct Told {
    /// When the next one may be told.
    until: Instant,
    /// What has happened since.
    later: Option<Event>,
}

impl Folding {
    /// Takes an event; gives it back where it is to be told at once.
    pub fn take(&mut self, event: Event, now: Instant) -> Option<Event> {
        if let Some(told) = self.0.get_mut(&event.object) {
            let count = told.later.as_ref().map_or(0, |later| later.count) + event.count;
            told.later = Some(Event { count, ..event });
            return None;
        }
        if self.0.len() < BOUND {
            self.0.insert(event.object.clone(), Told { until: now + window(event.occasion), later: None });
        }
        Some(event)
    }

    /// What has waited long enough.
    pub fn due(&mut self, now: Instant) -> Vec<Event> {
        let mut due = Vec::new();
        self.0.retain(|_, told| {
            if told.until > now {
                return true;
            }
            let Some(event) = told.later.take() else { return false };
            told.until = now + window(event.occasion);
            due.push(event);
            true
        });
        due.sort_by_key(|event| event.at);
        due
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().map(|told| told.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::Alert;

    fn breaker(upstream: &str, is_open: bool) -> Event {
        Event::of((
            Duration::ZERO,
            Alert::Breaker { route: "chat".into(), upstream: upstream.into(), is_open, is_held: false },
        ))
    }

    fn shown(event: &Event) -> (&'static str, u64) {
        (event.kind, event.count)
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_quota_only_the_same_share_is_folded_and_for_a_minute() {
        let share = |kind, share| {
            let (client, per, until) = ("app".into(), "month", "2026-12-01T00:00:00+00:00".to_owned());
            Event::of((Duration::ZERO, Alert::Quota { client, kind, share, per, until }))
        };
        let (mut folding, began) = (Folding::default(), base::Clock.now());
        for (kind, at) in [("tokens", 0.8), ("tokens", 0.95), ("cost", 0.8)] {
            assert!(folding.take(share(kind, at), began).is_some(), "{kind} {at} is told at once");
        }
        assert_eq!(folding.take(share("tokens", 0.8), began + Duration::from_secs(59)), None);
        assert_eq!(folding.due(began + Duration::from_secs(59)), []);
        let told = folding.due(began + Duration::from_secs(60));
        assert_eq!(told.iter().map(shown).collect::<Vec<_>>(), [("quota.warning", 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_at_once_and_what_follows_as_one_that_says_how_it_stands() {
        let (mut folding, began) = (Folding::default(), base::Clock.now());
        let after = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(folding.take(breaker("a", true), began).as_ref().map(shown), Some(("breaker.opened", 1)));
        for is_open in [false, true, false] {
            assert_eq!(folding.take(breaker("a", is_open), after(10)), None);
        }
        assert!(folding.take(breaker("b", true), after(10)).is_some(), "another upstream's is another's");
        assert_eq!(folding.due(after(29)), []);
        assert_eq!(folding.next(), Some(after(30)));
        assert_eq!(folding.due(after(30)).iter().map(shown).collect::<Vec<_>>(), [("breaker.closed", 3)]);
        // And from then on the same again.
        assert_eq!(folding.take(breaker("a", true), after(31)), None);
        assert_eq!(folding.due(after(60)).iter().map(shown).collect::<Vec<_>>(), [("breaker.opened", 1)]);
        assert_eq!(folding.due(after(90)), []);
        assert_eq!(folding.next(), None, "nothing is kept of what is quiet");
        assert!(folding.take(breaker("a", false), after(91)).is_some());
    }
}
