//! What is configured, beside what is known of it: a route of the configuration in force, an upstream of a route.

use std::sync::Arc;

use config::{Route, Upstream};

use super::{RouteState, Running, UpstreamState};

/// A route of a configuration in force.
#[derive(Clone, Copy, Debug)]
pub struct OnRoute<'a> {
    /// The configuration.
    pub running: &'a Arc<Running>,
    /// The route as it is configured.
    pub route: &'a Arc<Route>,
    /// Its state.
    pub state: &'a RouteState,
}

impl<'a> OnRoute<'a> {
    /// One of its upstreams.
    #[must_use]
    pub fn at(&self, upstream: usize) -> Option<AtUpstream<'a>> {
        let (upstream, known) = self.route.upstreams.get(upstream).zip(self.state.upstreams.get(upstream))?;
        Some(AtUpstream { upstream, known })
    }
}

/// An upstream of a route.
#[derive(Clone, Copy, Debug)]
pub struct AtUpstream<'a> {
    /// The upstream as it is configured.
    pub upstream: &'a Arc<Upstream>,
    /// What is known of it.
    pub known: &'a UpstreamState,
}

impl Running {
    /// One of its routes, with its state.
    #[must_use]
    pub fn on<'a>(self: &'a Arc<Self>, route: &'a Arc<Route>) -> Option<OnRoute<'a>> {
        Some(OnRoute { running: self, route, state: self.state(route)? })
    }
}
