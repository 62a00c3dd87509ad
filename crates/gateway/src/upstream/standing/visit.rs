//! One try's way to an upstream, and its stay there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use rules::breaker::Trial;
use rules::pursuit::Bar;

use super::Standing;
use crate::upstream::slots::Slot;

/// One worker's way to a standing.
#[derive(Debug)]
pub struct Gate {
    standing: Arc<Standing>,
    /// Whether the route's strategy goes by load and latency, which cost a little to keep.
    is_measured: bool,
}

impl Gate {
    /// A way to `standing`.
    #[must_use]
    pub const fn new(standing: Arc<Standing>, is_measured: bool) -> Self {
        Self { standing, is_measured }
    }

    /// Where it leads.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Begins a visit.
    ///
    /// # Errors
    /// Why the upstream takes no calls now, and until when.
    pub fn enter(self: &Arc<Self>, now: Instant) -> Result<Visit, Bar> {
        let trial = self.standing.enter(now)?;
        if self.is_measured {
            self.standing.busy.fetch_add(1, Relaxed);
        }
        Ok(Visit { gate: self.clone(), trial, began: now, is_settled: false, slot: None })
    }
}

/// One try's stay at an upstream, a stream's to its last byte. Dropped without a verdict, it charges
/// nobody and gives the trial back that it may have been.
#[derive(Debug)]
pub struct Visit {
    gate: Arc<Gate>,
    trial: Option<Trial>,
    began: Instant,
    is_settled: bool,
    /// Its place among the calls side by side, where those are bounded.
    pub slot: Option<Slot>,
}

impl Visit {
    /// The answer is here, a stream's first content. A trial has succeeded with that: a stream may run for
    /// many minutes, and others are not kept out for so long. Should it break later, that is a failure like
    /// any other.
    pub fn answered(&mut self, now: Instant) {
        let standing = &self.gate.standing;
        if self.gate.is_measured {
            let took = now.saturating_duration_since(self.began);
            standing.latency.lock().unwrap_or_else(PoisonError::into_inner).observe(now, took);
        }
        if let Some(trial) = self.trial.take() {
            let mut state = standing.state();
            state.breaker.succeeded(Some(trial), now);
            standing.settle(&mut state, now);
            self.began = now;
        }
    }

    /// The answer has ended well.
    pub fn succeeded(mut self, now: Instant) {
        self.is_settled = true;
        if let Some(slot) = self.slot.take() {
            slot.succeeded(now);
        }
        let standing = &self.gate.standing;
        if self.trial.is_none() && standing.is_quiet.load(Relaxed) {
            return;
        }
        let mut state = standing.state();
        state.breaker.succeeded(self.trial, now);
        standing.settle(&mut state, now);
    }

    /// The upstream has failed.
    pub fn failed(mut self, now: Instant) {
        self.is_settled = true;
        let standing = &self.gate.standing;
        if self.gate.is_measured {
            let took = now.saturating_duration_since(self.began);
            standing.latency.lock().unwrap_or_else(PoisonError::into_inner).failed(now, took);
        }
        let mut state = standing.state();
        let terms = state.terms;
        state.breaker.failed(self.trial, self.began, now, &terms);
        standing.settle(&mut state, now);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.gate.is_measured {
            self.gate.standing.busy.fetch_sub(1, Relaxed);
        }
        if !self.is_settled && self.trial.is_some() {
            self.gate.standing.state().breaker.released(self.trial);
        }
    }
}
