//! What operators pull: breakers that they hold open or close, and drills.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rules::breaker::Hold;

use crate::drills::{Drill, NoDrill, Wanted};
use crate::live::Live;
use crate::running::{Running, UpstreamState};
use crate::standing::{Glance, Shown};

/// The breaker of an upstream of a route, for people.
#[derive(Clone, Debug)]
pub struct BreakerShown {
    /// `provider/model`
    pub upstream: Arc<str>,
    /// Whose upstream it is.
    pub route: Arc<str>,
    /// How it stands.
    pub shown: Shown,
    /// Since when, from the Unix epoch.
    pub since: Duration,
    /// An operator holds it open.
    pub is_held: bool,
    /// Until when, from the Unix epoch; `None` also where it is held until it is closed.
    pub held_until: Option<Duration>,
    /// Until when the upstream rests, from the Unix epoch: it was throttled, or each of its provider's keys
    /// was throttled or refused.
    pub resting_until: Option<Duration>,
}

/// Which breakers a lever is about.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// Of upstreams with this label.
    pub upstream: &'a str,
    /// On this route alone; `None` on every one that has such an upstream.
    pub route: Option<&'a str>,
}

impl Live {
    /// Every breaker, in the order of the configuration.
    #[must_use]
    pub fn breakers(&self) -> Vec<BreakerShown> {
        let running = self.running();
        self.shown(&running, |_, _| true)
    }

    /// An operator holds breakers open, for so long or until they are closed. Says how they stand then; none
    /// where there are no such upstreams.
    pub fn hold_open(&self, which: Which<'_>, length: Option<Duration>) -> Vec<BreakerShown> {
        self.pull(which, |known, now| known.gate.standing().hold(now, length))
    }

    /// An operator closes breakers. What else keeps calls from these upstreams ends too: their rests, and
    /// those of their providers' keys.
    pub fn close_breakers(&self, which: Which<'_>) -> Vec<BreakerShown> {
        self.pull(which, |known, now| {
            known.keys.rouse();
            known.gate.standing().close(now);
        })
    }

    /// Begins a drill. It ends by itself on the runtime of whoever calls.
    ///
    /// # Errors
    /// Why it does not begin.
    pub fn rehearse(&self, wanted: Wanted) -> Result<Arc<Drill>, NoDrill> {
        self.drills.begin(wanted, &self.dice, || self.running())
    }

    fn pull(&self, which: Which<'_>, lever: impl Fn(&UpstreamState, Instant)) -> Vec<BreakerShown> {
        let running = self.running();
        let is_meant = |route: &str, upstream: &str| {
            upstream == which.upstream && which.route.is_none_or(|wanted| wanted == route)
        };
        let now = self.clock.now();
        for (route, upstream, known) in running.upstreams() {
            if is_meant(&route.name, &upstream.label) {
                lever(known, now);
            }
        }
        self.shown(&running, is_meant)
    }

    fn shown(&self, running: &Running, is_meant: impl Fn(&str, &str) -> bool) -> Vec<BreakerShown> {
        let now = self.clock.now();
        let meant = running.upstreams().filter(|(route, upstream, _)| is_meant(&route.name, &upstream.label));
        meant
            .map(|(route, upstream, known)| {
                let Glance { shown, since, held, rests_until } = known.gate.standing().glance(now);
                let held_until = match held {
                    Some(Hold::Until(until)) => Some(until),
                    _ => None,
                };
                BreakerShown {
                    upstream: upstream.label.clone(),
                    route: route.name.clone(),
                    shown,
                    since: self.wall_at(since),
                    is_held: held.is_some(),
                    held_until: held_until.map(|until| self.wall_at(until)),
                    resting_until: rests_until.max(known.keys.all_rest_until(now)).map(|until| self.wall_at(until)),
                }
            })
            .collect()
    }
}
