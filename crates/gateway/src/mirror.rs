//! Copies of calls to another upstream, whose answers are only recorded.
//!
//! A copy runs beside the call and after it, in a task of its own. It can neither slow, fail nor bill
//! the caller: it takes at most half of a provider's connections, waits for nothing that the call
//! waits for, rests and charges nobody, and is counted apart from the tries of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use base::{AttemptOutcome, Fault, Kind};
use bytes::Bytes;
use config::Route;
use dialect::Ask;
use http::HeaderValue;
use rules::pursuit::{Manner, Step, Target};
use rules::split::Mirror;

use crate::attempt::{Errand, Landed, Opened, Passed, attempt, unfold, unfold_rest};
use crate::running::{AtUpstream, Running};
use crate::worker::{Worker, set_off};

/// Copies of one route under way at a time, by worker.
const MOST_COPIES: usize = 32;

/// What a copy is made of.
#[derive(Debug)]
pub struct Copy {
    /// Who makes it.
    pub worker: Arc<Worker>,
    /// The configuration under which the call runs.
    pub running: Arc<Running>,
    /// The call's route.
    pub route: Arc<Route>,
    /// The call.
    pub ask: Ask,
    /// Sent upstream as `x-request-id`.
    pub request_id: HeaderValue,
    /// The caller's trace, where the gateway tells of no span in it: a copy is no part of a trace that it tells of.
    pub passed: Option<Box<Passed>>,
}

/// Sends a copy on its way; false where it is skipped.
#[must_use]
pub fn send(copy: Copy, mirror: Mirror) -> bool {
    let Some(on) = copy.running.on(&copy.route) else { return false };
    let (state, Some(AtUpstream { upstream, known })) = (on.state, on.at(mirror.to)) else { return false };
    let now = copy.worker.live.clock.now();
    let takes_copies = known.gate.standing().is_sound(now);
    // By chance: with a turn among the calls' they could see the same keys for ever.
    let turn = AtomicUsize::new(usize::try_from(copy.worker.dice.bits() >> 33).unwrap_or_default());
    let mut keys = known.keys.order(&upstream.provider, &turn, now).into_iter();
    let key = keys.find_map(|(key, bar)| bar.is_none().then_some(key));
    let place = Place::take(&state.counts.copies);
    let takes_copies = takes_copies && copy.worker.transport.is_roomy(&upstream.provider);
    let slot = known.slots.as_ref().filter(|_| takes_copies).map(|slots| slots.spare(&upstream.label, now));
    match (place, key) {
        (Some(place), Some(key)) if takes_copies && !matches!(slot, Some(None)) => {
            let target = Target { upstream: mirror.to, key };
            set_off(async move {
                copy.run(target).await;
                drop((place, slot));
            });
            true
        }
        _ => {
            copy.worker.live.metrics.mirrored(&copy.route.name, &upstream.label, "skipped");
            false
        }
    }
}

/// One of the copies under way.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(copies: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(copies.clone());
        // Counted before it is looked at; a place too many is given back by its drop.
        (copies.fetch_add(1, Relaxed) < MOST_COPIES).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Copy {
    async fn run(&self, target: Target) {
        let Some(upstream) = self.route.upstreams.get(target.upstream) else { return };
        let outcome = match self.answer(target).await {
            Ok(()) => AttemptOutcome::Ok,
            Err(fault) => AttemptOutcome::of(&fault),
        };
        self.worker.live.metrics.mirrored(&self.route.name, &upstream.label, outcome.as_str());
    }

    async fn answer(&self, target: Target) -> Result<(), Fault> {
        let unknown = || Fault::upstream(Kind::Connect, "the route has no such upstream");
        let at = self.running.on(&self.route).and_then(|on| on.at(target.upstream)).ok_or_else(unknown)?;
        let now = self.worker.live.clock.now();
        let step = Step { target, manner: Manner::default(), more: false };
        let until = now + self.route.timeout.attempt.min(self.route.deadline);
        let passed = self.passed.as_deref();
        let errand = Errand { ask: &self.ask, request_id: &self.request_id, traceparent: None, passed };
        match attempt(&self.worker, errand, at, &step, until).await {
            Ok(Landed::Whole(..)) => Ok(()),
            Ok(Landed::Stream(opened)) => self.read_out(*opened).await,
            Err(missed) => Err(missed.fault),
        }
    }

    /// Reads a stream to its end and throws it away.
    async fn read_out(&self, mut opened: Opened) -> Result<(), Fault> {
        let timeout = self.route.timeout;
        let end = self.worker.live.clock.now() + timeout.stream_total;
        while let Some(flow) = opened.flow.as_mut() {
            let idle: Instant = self.worker.live.clock.now() + timeout.stream_idle;
            let piece = tokio::time::timeout_at(idle.min(end).into(), flow.piece()).await;
            let piece =
                piece.map_err(|_elapsed| Fault::upstream(Kind::Idle, "the copy's stream did not end in time"))?;
            let piece = match piece {
                Some(Ok(piece)) => unfold(&mut opened.inflate, piece)?,
                Some(Err(_broken)) if opened.decoder.progress().finished => {
                    opened.flow = None;
                    Bytes::new()
                }
                Some(Err(_broken)) => return Err(Fault::upstream(Kind::Reset, "the copy's stream broke off")),
                None => {
                    opened.flow = None;
                    unfold_rest(&mut opened.inflate)?
                }
            };
            opened.decoder.feed(piece);
            if opened.decoder.progress().done {
                opened.flow = None;
            }
            if let Some(fault) = &opened.decoder.progress().fault {
                return Err(fault.clone());
            }
        }
        opened.decoder.finish();
        opened.decoder.progress().fault.clone().map_or(Ok(()), Err)
    }
}
