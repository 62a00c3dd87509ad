//! What a call holds of its limits while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use base::{Clock, Usage};
use config::{Client, Route};
use rules::limits::Aside;
use rules::shares::Priority;
use state::Settled;

use crate::limits::meters::Whose;
use crate::running::Running;

/// A call's place within every limit that applies to it, and the tokens put aside for it. Dropped, it
/// gives the place back, and of the tokens what was not used.
#[derive(Debug)]
pub struct Permit {
    /// Whose meters were charged. A reload in the meantime changes limits, not meters.
    running: Arc<Running>,
    whose: Whose,
    priority: Priority,
    aside: Aside,
    used: u64,
    is_void: bool,
    /// When the call has ended, where that is known.
    ended: Option<Instant>,
    /// Upstreams' lines in which the call stands; its parts may stand in several.
    lines: AtomicU32,
}

/// A call's stay in an upstream's line.
#[derive(Debug)]
pub struct LinedUp<'a>(&'a Permit);

impl Permit {
    /// For a call whose meters have been charged, with these tokens of each.
    #[must_use]
    pub fn new(running: Arc<Running>, client: &Client, route: &Route, aside: Aside) -> Self {
        let (whose, priority) = (Whose::of(client, route), client.priority);
        Self { running, whose, priority, aside, used: 0, is_void: false, ended: None, lines: AtomicU32::new(0) }
    }

    /// The call is known better: it wants so many tokens at most. What it has put aside beyond them is there again
    /// for others at once.
    pub fn wants(&mut self, tokens: u64) {
        if tokens < self.aside.most() {
            let meters = self.running.meters.of(self.whose);
            let now = Clock.now();
            self.running.meters.counters.spare(&meters, self.priority, (self.aside, tokens), now);
            self.running.batch_queue.has_news(&meters, now);
            self.aside = self.aside.at_most(tokens);
        }
    }

    /// Tokens put aside, of the limit of which it is the most.
    #[must_use]
    pub fn aside(&self) -> u64 {
        self.aside.most()
    }

    /// The call stands in an upstream's line until what this gives is dropped. It is in flight meanwhile, and keeps
    /// its places; but of a limit that it shares with online calls, batch calls that stand in lines hold a tenth at
    /// most: no further one is let in.
    #[must_use]
    pub fn lines_up(&self) -> LinedUp<'_> {
        if self.lines.fetch_add(1, Relaxed) == 0 {
            self.is_in_line(true);
        }
        LinedUp(self)
    }

    fn is_in_line(&self, is_in_line: bool) {
        if self.priority == Priority::Online {
            return;
        }
        let meters = self.running.meters.of(self.whose);
        for meter in meters.iter().filter(|meter| meter.scope.is_shared()) {
            meter.account().lines_up(is_in_line);
        }
        if !is_in_line {
            self.running.batch_queue.has_news(&meters, Clock.now());
        }
    }

    /// The call has used so much.
    pub const fn used(&mut self, usage: Usage) {
        self.used = usage.prompt.saturating_add(usage.completion);
    }

    /// The call has ended: its place is given back as of now, without another look at the clock.
    pub fn end(mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// The call is refused by its client's own quota or policy: what it took of limits that it shares with
    /// other clients is theirs again, and only its client's own rate has one call less.
    pub const fn void(&mut self) {
        self.is_void = true;
    }
}

impl Drop for LinedUp<'_> {
    fn drop(&mut self) {
        if self.0.lines.fetch_sub(1, Relaxed) == 1 {
            self.0.is_in_line(false);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let meters = self.running.meters.of(self.whose);
        let now = self.ended.unwrap_or_else(|| Clock.now());
        let tokens = Settled { aside: self.aside, used: self.used, is_void: self.is_void };
        self.running.meters.counters.give_back(&meters, self.priority, tokens, now);
        self.running.batch_queue.has_news(&meters, now);
    }
}
