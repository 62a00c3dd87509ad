//! Which version of a knowledge base holds now, whatever held when a call came.

use config::Route;

use super::Live;
use crate::cache::kb_versions::KbVersion;

impl Live {
    /// Whether a call of a route that began with this version would begin with it now: an operator may have set another
    /// one, or written it into the configuration.
    #[must_use]
    pub fn still_holds(&self, route: &Route, version: &KbVersion) -> bool {
        let running = self.running();
        let now = running.snapshot.route_named(&route.name).map_or(route, |now| now);
        self.kb_versions.still_holds(now, version)
    }
}
