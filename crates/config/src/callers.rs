//! Who comes on which route.

use base::Globs;
use rules::shares::Priority;

use crate::{Route, Snapshot};

/// The priorities of a configuration's clients, by the routes that these may use.
#[derive(Debug)]
pub struct Callers {
    all: Comers,
    on: Globs<Comers>,
}

/// Whether clients of each priority come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comers {
    online: bool,
    batch: bool,
}

impl Comers {
    /// Whether clients of every priority come, so that places are shared between them.
    #[must_use]
    pub const fn are_of_all_priorities(self) -> bool {
        self.online && self.batch
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { online: self.online | other.online, batch: self.batch | other.batch }
    }

    const fn of(priority: Priority) -> Self {
        match priority {
            Priority::Online => Self { online: true, batch: false },
            Priority::Batch => Self { online: false, batch: true },
        }
    }
}

impl Callers {
    /// On any route.
    #[must_use]
    pub const fn anywhere(&self) -> Comers {
        self.all
    }

    /// On this one.
    #[must_use]
    pub fn on(&self, route: &Route) -> Comers {
        self.on.fitting(&route.name).fold(Comers::default(), |comers, of_glob| comers.and(*of_glob))
    }
}

impl Snapshot {
    /// Who comes on which route.
    #[must_use]
    pub fn callers(&self) -> Callers {
        let mut callers = Callers { all: Comers::default(), on: Globs::default() };
        for client in &self.clients {
            let comes = Comers::of(client.priority);
            callers.all = callers.all.and(comes);
            for glob in &client.routes {
                let known = callers.on.of(glob);
                *known = known.and(comes);
            }
        }
        callers
    }
}
