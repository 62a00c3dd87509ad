//! What a call holds of its limits while it runs.

use std::sync::Arc;

use base::{Clock, Usage};
use config::{Client, Route};
use state::Settled;

use crate::running::Running;

/// A call's place within every limit that applies to it, and the tokens put aside for it. Dropped, it
/// gives the place back, and of the tokens what was not used.
#[derive(Debug)]
pub struct Pass {
    /// Whose meters were charged. A reload in the meantime changes limits, not meters.
    running: Arc<Running>,
    client: Arc<Client>,
    route: Arc<Route>,
    aside: u64,
    used: u64,
    is_void: bool,
}

impl Pass {
    /// For a call whose meters have been charged, with `aside` tokens.
    #[must_use]
    pub const fn new(running: Arc<Running>, client: Arc<Client>, route: Arc<Route>, aside: u64) -> Self {
        Self { running, client, route, aside, used: 0, is_void: false }
    }

    /// The call has used so much.
    pub const fn used(&mut self, usage: Usage) {
        self.used = usage.prompt.saturating_add(usage.completion);
    }

    /// The call is refused by its client's own quota or policy: what it took of limits that it shares with
    /// other clients is theirs again, and only its client's own rate has one call less.
    pub const fn void(&mut self) {
        self.is_void = true;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let meters = self.running.meters.of(&self.client, &self.route);
        let (now, is_void) = (Clock.now(), self.is_void);
        let tokens = Settled { aside: self.aside, used: self.used, is_void };
        self.running.meters.counters.give_back(&meters, self.client.class, tokens, now);
        self.running.lobby.has_news(&meters, now);
    }
}
