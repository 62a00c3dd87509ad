//! What operators do to breakers, and what of it a reload does again.

use std::collections::HashSet;
use std::time::Instant;

use config::{Route, Upstream};

use super::{Running, UpstreamState};

/// Which breakers a lever is about.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// Of upstreams with this label.
    pub upstream: &'a str,
    /// On this route alone; `None` on every one that has such an upstream.
    pub route: Option<&'a str>,
}

impl Which<'_> {
    pub(crate) fn is(&self, route: &Route, upstream: &Upstream) -> bool {
        &*upstream.label == self.upstream && self.route.is_none_or(|wanted| wanted == &*route.name)
    }
}

/// What is done to a breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lever {
    /// Held open until then, or until it is closed.
    Hold(Option<Instant>),
    /// Closed.
    Close,
}

impl Lever {
    pub(crate) fn pull(self, known: &UpstreamState, now: Instant) {
        match self {
            Self::Hold(until) => {
                known.gate.standing().hold(now, until.map(|until| until.saturating_duration_since(now)));
            }
            Self::Close => {
                known.keys.rouse();
                known.gate.standing().close(now);
            }
        }
    }
}

/// Levers that are pulled while a reload binds its configuration: what it has taken over by then is what was
/// before, and so it pulls them again. Empty at all other times.
#[derive(Debug, Default)]
pub(crate) struct Pulled {
    is_reloading: bool,
    /// Each upstream's and route's last, in order.
    levers: Vec<(Box<str>, Option<Box<str>>, Lever)>,
}

impl Pulled {
    /// A reload begins.
    pub(crate) fn begin(&mut self) {
        (self.is_reloading, self.levers) = (true, Vec::new());
    }

    pub(crate) fn note(&mut self, Which { upstream, route }: Which<'_>, lever: Lever) {
        if self.is_reloading {
            self.levers.retain(|(of, on, _)| (&**of, on.as_deref()) != (upstream, route));
            self.levers.push((upstream.into(), route.map(Into::into), lever));
        }
    }

    /// The reload ends: what was pulled since it began is pulled where the new configuration does not share the
    /// state of the one before.
    pub(crate) fn again(&mut self, before: &Running, running: &Running, now: Instant) {
        self.is_reloading = false;
        if self.levers.is_empty() {
            return;
        }
        let shared: HashSet<_> = before.upstreams().map(|(_, _, known)| known.state_at()).collect();
        for (upstream, route, lever) in std::mem::take(&mut self.levers) {
            let which = Which { upstream: &upstream, route: route.as_deref() };
            for (_, _, known) in running.upstreams().filter(|(route, upstream, _)| which.is(route, upstream)) {
                if !shared.contains(&known.state_at()) {
                    lever.pull(known, now);
                }
            }
        }
    }
}
