//! Sends traces and metrics to the collector (OTLP/HTTP, binary protobuf), beside all requests.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::Fault;
use bytes::Bytes;
use config::Destination;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio::sync::watch;

use crate::live::Live;
use crate::net::{Transport, post};
use crate::records::telemetry::{Batch, Phase, rejected};
use crate::running::Running;

/// Spans wait so long at most for others to go with them.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// Between two times that metrics are sent.
const METRICS_EVERY: Duration = Duration::from_secs(15);
/// What one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Before the first try again; then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A batch that could not be sent for so long is given up.
const GIVE_UP: Duration = Duration::from_secs(300);
/// A collector that asks for more time is left alone so long at most; meanwhile what ends waits, within its bound.
const LONGEST_ASKED: Duration = GIVE_UP;
/// Characters that the log shows of what a collector says.
const LONGEST_WORD: usize = 200;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Sends traces and metrics for ever, where the configuration in force has `telemetry`. What reloads bring is seen
/// with the next request. Ends once [`crate::records::telemetry::Telemetry::flush`] is called, and what is there has been sent.
///
/// `transport` should have places of its own, so that no call waits for this.
pub async fn keep_exporting(live: Arc<Live>, transport: Transport) {
    let phase = &live.telemetry.phase;
    phase.send_replace(Phase::Running);
    let exporter = |signal| Exporter { live: &live, transport: &transport, signal, is_out: AtomicBool::new(false) };
    let (traces, metrics) = (exporter("traces"), exporter("metrics"));
    tokio::join!(traces.keep_sending_spans(phase.subscribe()), metrics.keep_sending_metrics(phase.subscribe()));
    phase.send_replace(Phase::Done);
}

/// One signal on its way.
struct Exporter<'a> {
    live: &'a Live,
    transport: &'a Transport,
    /// As the log calls it.
    signal: &'static str,
    /// The collector has not taken the last request.
    is_out: AtomicBool,
}

/// Why a request was not taken.
struct Untaken {
    why: String,
    /// It may be sent again, by the collector's word after so long.
    again: Option<Option<Duration>>,
}

/// A request's body as it is posted.
#[derive(Clone)]
struct Body {
    bytes: Bytes,
    is_gzip: bool,
}

impl Body {
    /// Compressed where that is configured (OTLP 1.10, "OTLP/HTTP Request"), off the thread that accepts connections:
    /// it takes milliseconds.
    async fn of(to: &config::Telemetry, bytes: Bytes) -> Self {
        let plain = Self { bytes, is_gzip: false };
        if !to.gzip {
            return plain;
        }
        let whole = plain.bytes.clone();
        match tokio::task::spawn_blocking(move || gzip(&whole)).await {
            Ok(Ok(packed)) => Self { bytes: packed.into(), is_gzip: true },
            _ => plain,
        }
    }
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    packed.write_all(bytes)?;
    packed.finish()
}

type Configured = Option<Arc<config::Telemetry>>;

fn configured(running: &Running) -> Configured {
    running.snapshot.general.telemetry.clone()
}

async fn stopping(phase: &mut watch::Receiver<Phase>) {
    // The sender lives as long as the process.
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
}

impl Exporter<'_> {
    async fn keep_sending_spans(&self, mut phase: watch::Receiver<Phase>) {
        let mut known: Configured = None;
        loop {
            let is_last = *phase.borrow() == Phase::Stopping;
            let running = self.live.running();
            let now = configured(&running);
            // What was recorded before a reload took `telemetry` away still goes where it was to go.
            let to = now.clone().or(known);
            while let Some(batch) = self.live.telemetry.take(&running.snapshot) {
                self.deliver(to.as_deref(), batch, &mut phase).await;
            }
            if is_last {
                return;
            }
            known = now;
            tokio::select! {
                () = stopping(&mut phase) => {}
                () = self.live.telemetry.full.notified() => {}
                () = tokio::time::sleep(SPANS_EVERY) => {}
            }
        }
    }

    /// Sends a batch, again and again where that may help, and counts what becomes of it.
    async fn deliver(&self, to: Option<&config::Telemetry>, batch: Batch, phase: &mut watch::Receiver<Phase>) {
        let Batch { spans, body } = batch;
        let dropped = |why, count| self.live.metrics.telemetry.dropped(why, count);
        let Some(to) = to else { return dropped("refused", spans) };
        let now = || self.live.clock.now();
        let (began, mut pause) = (now(), FIRST_PAUSE);
        let body = Body::of(to, body).await;
        loop {
            let configured = configured(&self.live.running());
            let to = &configured.as_deref().unwrap_or(to).traces;
            let untaken = match self.send(to, body.clone()).await {
                Ok(rejected) => {
                    let rejected = rejected.min(spans);
                    self.live.metrics.telemetry.sent(spans - rejected);
                    return dropped("rejected", rejected);
                }
                Err(untaken) => untaken,
            };
            let Some(after) = untaken.again else { return dropped("refused", spans) };
            let wait = after.unwrap_or_else(|| pause.mul_f64(0.75 + self.live.dice.unit() / 2.0));
            // A batch that the collector itself has put off is tried once more after that, however long it was.
            let is_over = is_over(began, now(), if after.is_some() { Duration::ZERO } else { wait });
            if *phase.borrow() == Phase::Stopping || (is_over && after.is_none()) {
                return dropped("given_up", spans);
            }
            if is_over {
                dropped("given_up", spans);
            }
            tokio::select! {
                () = stopping(phase) => {}
                () = tokio::time::sleep(wait) => {}
            }
            if is_over {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn keep_sending_metrics(&self, mut phase: watch::Receiver<Phase>) {
        let mut wait = METRICS_EVERY;
        loop {
            tokio::select! {
                () = stopping(&mut phase) => {}
                () = tokio::time::sleep(wait) => {}
            }
            wait = METRICS_EVERY;
            let is_last = *phase.borrow() == Phase::Stopping;
            let running = self.live.running();
            if let Some(to) = configured(&running) {
                self.live.gather();
                if let Some(body) = self.live.telemetry.metrics(&running.snapshot, self.live.clock.wall()) {
                    // What is not taken is told again: sums only grow.
                    let body = Body::of(&to, body).await;
                    if let Err(Untaken { again: Some(Some(asked)), .. }) = self.send(&to.metrics, body).await {
                        wait = asked.max(METRICS_EVERY);
                    }
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends one request; gives how many of its spans or points were not taken.
    async fn send(&self, to: &Destination, body: Body) -> Result<usize, Untaken> {
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, PROTOBUF)]);
        if body.is_gzip {
            headers.insert(header::CONTENT_ENCODING, GZIP);
        }
        let answer = post(self.transport, to, headers, body.bytes, PATIENCE).await;
        let signal = self.signal;
        match judge(answer, self.live.clock.wall()) {
            Ok((rejected, said)) => {
                if self.is_out.swap(false, Relaxed) {
                    tracing::info!(signal, "the collector takes telemetry again");
                }
                if rejected > 0 || !said.is_empty() {
                    let said: String = said.chars().take(LONGEST_WORD).collect();
                    tracing::warn!(signal, rejected, said, "the collector has something to say");
                }
                Ok(rejected)
            }
            Err(untaken) => {
                if !self.is_out.swap(true, Relaxed) {
                    let reason = &untaken.why;
                    tracing::warn!(signal, reason, "the collector takes no telemetry; calls go on without");
                }
                Err(untaken)
            }
        }
    }
}

/// Whether a batch will have waited too long once it may be sent again.
fn is_over(began: Instant, now: Instant, wait: Duration) -> bool {
    now.saturating_duration_since(began).saturating_add(wait) > GIVE_UP
}

/// What an answer means (OTLP 1.10, "OTLP/HTTP Response"): how much was not taken, and the collector's words. `wall` is
/// the time from the Unix epoch.
fn judge(answer: Result<Response<Bytes>, Fault>, wall: Duration) -> Result<(usize, String), Untaken> {
    let answer = answer.map_err(|fault| Untaken { why: fault.message, again: Some(None) })?;
    if answer.status().is_success() {
        // An answer without a body, or with one in words, says that all was taken.
        let is_protobuf = answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == PROTOBUF);
        return Ok(if is_protobuf { rejected(answer.body()) } else { (0, String::new()) });
    }
    let may_help = matches!(
        answer.status(),
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let after = dialect::errors::retry_after(answer.headers(), wall).map(|asked| asked.min(LONGEST_ASKED));
    Err(Untaken { why: format!("status {}", answer.status().as_u16()), again: may_help.then_some(after) })
}
