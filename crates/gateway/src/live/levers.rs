//! What operators pull: breakers that they hold open or close, and drills.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use config::{Route, Upstream};
use rules::breaker::Hold;

use crate::live::Live;
pub use crate::running::Which;
use crate::running::{Lever, Running};
use crate::upstream::drills::{Drill, NoDrill, Wanted};
use crate::upstream::standing::{Glance, Shown};

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
        let until = length.map(|length| self.clock.now() + length);
        self.pull(which, Lever::Hold(until))
    }

    /// An operator closes breakers. What else keeps calls from these upstreams ends too: their rests, and
    /// those of their providers' keys.
    pub fn close_breakers(&self, which: Which<'_>) -> Vec<BreakerShown> {
        self.pull(which, Lever::Close)
    }

    /// Begins a drill. It ends by itself on the runtime of whoever calls.
    ///
    /// # Errors
    /// Why it does not begin.
    pub fn rehearse(&self, wanted: Wanted) -> Result<Arc<Drill>, NoDrill> {
        self.drills.begin(wanted, &self.dice, || self.running())
    }

    fn pull(&self, which: Which<'_>, lever: Lever) -> Vec<BreakerShown> {
        let now = self.clock.now();
        let running = {
            let mut pulled = self.pulled.lock().unwrap_or_else(PoisonError::into_inner);
            let running = self.running();
            let mut is_about_any = false;
            for (_, _, known) in running.upstreams().filter(|(route, upstream, _)| which.is(route, upstream)) {
                lever.pull(known, now);
                is_about_any = true;
            }
            if is_about_any {
                pulled.note(which, lever);
            }
            running
        };
        self.shown(&running, |route, upstream| which.is(route, upstream))
    }

    fn shown(&self, running: &Running, is_meant: impl Fn(&Route, &Upstream) -> bool) -> Vec<BreakerShown> {
        let now = self.clock.now();
        let meant = running.upstreams().filter(|(route, upstream, _)| is_meant(route, upstream));
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
                    since: self.shown_at(since),
                    is_held: held.is_some(),
                    held_until: held_until.map(|until| self.shown_at(until)),
                    resting_until: rests_until.max(known.keys.all_rest_until(now)).map(|until| self.shown_at(until)),
                }
            })
            .collect()
    }
}
