//! A stream on its way to the caller: pulled by the caller's socket, event by event, as it comes.
//!
//! Nothing is read ahead: a slow caller slows the upstream. The relay holds the request's trail to
//! the last byte; dropped before the end, it records a caller who left, and closes the upstream's
//! connection with it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use base::{AttemptOutcome, Class, Code, Fault, Kind, Outcome, Refusal, Usage};
use bytes::Bytes;
use config::{Timeouts, Upstream};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::attempt::{Opened, joined, scrubbed, unfold, unfold_rest};
use crate::caller::socket::Presence;
use crate::trail::Trail;
use crate::upstream::standing::Visit;
use crate::worker::Worker;

/// What a relay needs to know beside the stream itself.
pub struct Passage {
    /// Whose pool gets the connection back.
    pub worker: Arc<Worker>,
    /// The upstream that answers.
    pub upstream: Arc<Upstream>,
    /// The stay there, which ends with the stream.
    pub visit: Option<Visit>,
    /// The route's clocks.
    pub timeout: Timeouts,
    /// The caller's socket.
    pub presence: Presence,
    /// Becomes true when the gateway stops waiting for streams to end.
    pub cut: watch::Receiver<bool>,
    /// Tokens of the prompt, guessed, for a stream that never says.
    pub prompt_guess: u64,
}

/// A stream in passage.
pub struct Relay {
    opened: Opened,
    passage: Passage,
    trail: Trail,
    first: Option<Bytes>,
    began: Instant,
    last: Instant,
    /// When something last came that went on to the caller.
    said: Instant,
    clock: Pin<Box<Sleep>>,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    probed: bool,
    seen_done: bool,
    seal_at: Option<Instant>,
    over: bool,
    broken: Option<(Outcome, Refusal)>,
}

/// How long the end of the upstream's body is waited for once the stream has said that it is done.
/// It usually comes at once, and the connection can then carry another call; a server that keeps it
/// open must not keep the caller.
const AFTER_DONE: Duration = Duration::from_millis(250);

/// How long `[DONE]` is waited for once every choice has its finish reason and nothing more is said.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// The same where usage, which comes behind the finish reasons, has not been told: without it there is but a guess.
const BEFORE_USAGE: Duration = Duration::from_secs(6);

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("trail", &self.trail).finish_non_exhaustive()
    }
}

impl Relay {
    /// Takes over a stream whose first content is here.
    #[must_use]
    pub fn new(mut opened: Opened, passage: Passage, mut trail: Trail) -> Self {
        let now = passage.worker.live.clock.now();
        let first = std::mem::take(&mut opened.first);
        trail.first_content();
        let mut cut = passage.cut.clone();
        let waiting = async move {
            // An error means that the process is gone, and this task with it.
            let _ = cut.wait_for(|cut| *cut).await;
        };
        let clock = Box::pin(tokio::time::sleep_until((now + passage.timeout.stream_idle).into()));
        Self {
            opened,
            trail,
            first: (!first.is_empty()).then_some(first),
            began: now,
            last: now,
            said: now,
            clock,
            cut: Box::pin(waiting),
            probed: false,
            seen_done: false,
            seal_at: None,
            over: false,
            broken: None,
            passage,
        }
    }

    /// The next bytes for the caller; `None` after the last.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            // Pieces may be a few bytes each, and always there: the worker's other calls come in between.
            ready!(pin!(tokio::task::consume_budget()).poll(cx));
            let Some(flow) = self.opened.flow.as_mut() else {
                // It ended with its first content.
                self.conclude();
                continue;
            };
            let out = match flow.poll_piece(cx) {
                Poll::Ready(Some(Ok(piece))) => self.take(piece),
                Poll::Ready(Some(Err(_broken))) if self.opened.decoder.progress().done => {
                    self.opened.flow = None;
                    continue;
                }
                Poll::Ready(Some(Err(_broken))) if self.is_finished() => self.seal(),
                Poll::Ready(Some(Err(_broken))) => {
                    self.fail(&Fault::upstream(Kind::Reset, "the upstream's stream broke off"))
                }
                Poll::Ready(None) => self.close(),
                Poll::Pending => match self.wait(cx) {
                    Some(out) => out,
                    None => return Poll::Pending,
                },
            };
            match out {
                Ok(out) if out.is_empty() => {}
                out => return Poll::Ready(Some(out)),
            }
        }
    }

    fn take(&mut self, piece: Bytes) -> std::io::Result<Bytes> {
        self.last = self.passage.worker.live.clock.now();
        if let Some(over) = self.overdue() {
            return over;
        }
        let piece = match unfold(&mut self.opened.inflate, piece) {
            Ok(piece) => piece,
            Err(fault) => return self.fail(&fault),
        };
        let out = self.opened.decoder.feed(piece);
        if !out.is_empty() {
            self.said = self.last;
        }
        match self.opened.decoder.progress().fault.clone() {
            Some(fault) => self.fail(&fault).map(|event| joined(out, event)),
            None => Ok(out),
        }
    }

    /// An upstream that always has more, and a caller who takes it slowly, never let the relay wait:
    /// so what bounds a stream is looked at with every piece too, by what cannot itself be pending.
    fn overdue(&mut self) -> Option<std::io::Result<Bytes>> {
        if *self.passage.cut.borrow() {
            return Some(self.shut_down());
        }
        let total = self.passage.timeout.stream_total;
        (self.last >= self.began + total).then(|| {
            if self.is_finished() {
                return self.seal();
            }
            // Whoever has more at hand was kept waiting by the caller.
            drop(self.passage.visit.take());
            self.fail(&endless(total))
        })
    }

    fn is_finished(&self) -> bool {
        self.opened.decoder.progress().finished
    }

    /// When a finished stream that says nothing more is taken for whole.
    fn to_be_sealed(&self) -> Instant {
        let timeout = self.passage.timeout;
        let is_told = self.opened.decoder.progress().usage.is_some();
        let quiet_at = self.said + if is_told { AFTER_FINISH } else { BEFORE_USAGE };
        quiet_at.min(self.last + timeout.stream_idle).min(self.began + timeout.stream_total)
    }

    /// Nothing more comes or is waited for, and every choice has said why it ended: the answer is whole, only its seal is
    /// missing.
    fn seal(&mut self) -> std::io::Result<Bytes> {
        self.opened.flow = None;
        self.opened.inflate = None;
        self.close()
    }

    /// The upstream's body has ended.
    fn close(&mut self) -> std::io::Result<Bytes> {
        let rest = match unfold_rest(&mut self.opened.inflate) {
            Ok(rest) => self.opened.decoder.feed(rest),
            Err(fault) => return self.fail(&fault),
        };
        let out = joined(rest, self.opened.decoder.finish());
        if let Some(fault) = self.opened.decoder.progress().fault.clone() {
            return self.fail(&fault).map(|event| joined(out, event));
        }
        let worker = &self.passage.worker;
        if let Some(link) = self.opened.flow.take().and_then(|flow| flow.into_link(worker.live.clock.now())) {
            worker.transport.put_back(&self.passage.upstream.provider, link);
        }
        self.conclude();
        Ok(out)
    }

    /// Nothing has come: looks at the clocks and at the caller.
    fn wait(&mut self, cx: &mut Context<'_>) -> Option<std::io::Result<Bytes>> {
        if !self.probed && self.passage.presence.has_stopped_sending() && self.opened.raw.is_none() {
            // A comment is nothing to a caller who still reads, and finds out one who left.
            self.probed = true;
            return Some(Ok(Bytes::from_static(b":\n\n")));
        }
        if self.cut.as_mut().poll(cx).is_ready() {
            return Some(self.shut_down());
        }
        if self.opened.decoder.progress().done && !std::mem::replace(&mut self.seen_done, true) {
            let now = self.passage.worker.live.clock.now();
            self.clock.as_mut().reset((now + AFTER_DONE).into());
        }
        if self.is_finished() && !self.seen_done {
            let seal_at = self.to_be_sealed();
            if self.seal_at.replace(seal_at) != Some(seal_at) {
                self.clock.as_mut().reset(seal_at.into());
            }
        }
        while self.clock.as_mut().poll(cx).is_ready() {
            let now = self.passage.worker.live.clock.now();
            if self.seen_done {
                self.opened.flow = None;
                self.conclude();
                return Some(Ok(self.opened.decoder.finish()));
            }
            let timeout = self.passage.timeout;
            let (idle_at, total_at) = (self.last + timeout.stream_idle, self.began + timeout.stream_total);
            if self.is_finished() && now >= self.to_be_sealed() {
                return Some(self.seal());
            }
            if now >= idle_at {
                return Some(self.fail(&silent(timeout.stream_idle)));
            }
            if now >= total_at {
                return Some(self.fail(&endless(timeout.stream_total)));
            }
            self.clock.as_mut().reset(idle_at.min(total_at).into());
        }
        None
    }

    /// The stream has failed after its first content: the caller is told in an event of its own,
    /// for a clean end would pass for a whole answer.
    fn fail(&mut self, fault: &Fault) -> std::io::Result<Bytes> {
        let code = match fault.kind {
            Kind::Idle => Code::UpstreamTimeout,
            Kind::BadResponse => Code::UpstreamBadResponse,
            _ => Code::UpstreamError,
        };
        if fault.class != Class::Upstream {
            // An error event that blames the caller or a limit speaks not against the upstream.
            drop(self.passage.visit.take());
        }
        let fault = scrubbed(&self.passage.upstream.provider, fault.clone());
        self.give_up(&Refusal::new(code, fault.message), Outcome::UpstreamCut, AttemptOutcome::Failed(fault.kind))
    }

    fn shut_down(&mut self) -> std::io::Result<Bytes> {
        if self.is_finished() {
            return self.seal();
        }
        let refusal = Refusal::new(Code::ShuttingDown, "the gateway is stopping; send the call again");
        self.give_up(&refusal, Outcome::GatewayShutdown, AttemptOutcome::Cancelled)
    }

    fn give_up(&mut self, refusal: &Refusal, outcome: Outcome, attempt: AttemptOutcome) -> std::io::Result<Bytes> {
        self.opened.flow = None;
        self.trail.record.code = Some(refusal.code.row().code.into());
        self.broken = Some((outcome, refusal.clone()));
        self.end(outcome, attempt);
        if self.opened.raw.is_some() {
            return Err(std::io::Error::other("the upstream's answer broke off"));
        }
        Ok(dialect::sse::error_event(refusal))
    }

    fn conclude(&mut self) {
        self.end(Outcome::Ok, AttemptOutcome::Ok);
    }

    fn end(&mut self, outcome: Outcome, attempt: AttemptOutcome) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let usage = self.usage();
        self.trail.used(usage);
        if let Some(visit) = self.passage.visit.take() {
            let now = self.passage.worker.live.clock.now();
            match attempt {
                AttemptOutcome::Ok => visit.succeeded(now),
                AttemptOutcome::Failed(_) => visit.failed(now),
                // The caller or the gateway gave it up: that speaks neither for nor against the upstream.
                _ => drop(visit),
            }
        }
        self.trail.tries.end(attempt, Some(200));
        self.trail.end(outcome);
        self.passage.presence.idle();
    }

    /// Whether the last byte that the caller needs is out.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.opened.decoder.progress().done
    }

    /// How it broke off, where it did.
    #[must_use]
    pub const fn broken(&self) -> Option<&(Outcome, Refusal)> {
        self.broken.as_ref()
    }

    /// The upstream's word as it was written, where the caller is not shown it.
    #[must_use]
    pub fn unshown_usage(&self) -> Option<&str> {
        Some(&*self.opened.decoder.progress().unshown_usage).filter(|written| !written.is_empty())
    }

    /// The upstream's word, or a guess that errs high.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.opened.decoder.progress().used(self.passage.prompt_guess)
    }
}

fn silent(idle: Duration) -> Fault {
    Fault::upstream(Kind::Idle, format!("the upstream's stream has been silent for {} s", idle.as_secs_f64()))
}

fn endless(total: Duration) -> Fault {
    Fault::upstream(
        Kind::Idle,
        format!("the upstream's stream has run for {} s, longer than it may", total.as_secs_f64()),
    )
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Callers close at `[DONE]`, which comes a little before the end of the body.
        if self.first.is_none() && self.opened.decoder.progress().done {
            self.conclude();
        }
        let (outcome, attempt) = if self.passage.presence.is_cut() {
            // It took nothing, so it could not be told.
            self.trail.record.code = Some(Code::ShuttingDown.row().code.into());
            (Outcome::GatewayShutdown, AttemptOutcome::Cancelled)
        } else {
            (Outcome::CallerGone, AttemptOutcome::Gone)
        };
        self.end(outcome, attempt);
    }
}
