//! The access log: one JSON line per request, written behind the traffic.
//!
//! A request appends its line to a buffer in memory; one thread writes the buffer out. A log that
//! cannot be written never slows a request: the buffer is bounded, and what does not fit is counted.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use base::Record;
use serde_json::json;

/// Bytes waiting to be written at most.
const BOUND: usize = 8 << 20;
/// Lines are gathered this long, so that a busy gateway makes one system call for many.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Buffer {
    lines: Vec<u8>,
    writing: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    buffer: Mutex<Buffer>,
    changed: Condvar,
    lost: AtomicU64,
}

/// Where access-log lines go.
#[derive(Clone, Debug, Default)]
pub struct AccessLog(Arc<Shared>);

impl AccessLog {
    /// A log whose lines one thread writes to `sink`, e.g. standard output.
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn to(sink: impl Write + Send + 'static) -> std::io::Result<Self> {
        let log = Self::default();
        let shared = log.0.clone();
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || write_out(&shared, sink))?;
        Ok(log)
    }

    /// Lines that were lost because the sink took none.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Appends one record's line.
    pub fn append(&self, record: &Record) {
        let mut buffer = self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.lines.len() > BOUND {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = buffer.lines.is_empty();
        line(&mut buffer.lines, record);
        drop(buffer);
        if was_empty {
            self.0.changed.notify_all();
        }
    }

    /// Waits until everything appended so far is written, at most `patience`.
    pub fn flush(&self, patience: Duration) {
        let buffer = self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = |buffer: &mut Buffer| buffer.writing || !buffer.lines.is_empty();
        drop(self.0.changed.wait_timeout_while(buffer, patience, unwritten));
    }

    /// Everything appended, for tests: a log without a thread keeps its lines.
    #[must_use]
    pub fn text(&self) -> String {
        let buffer = self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&buffer.lines).into_owned()
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        // The thread holds one share, this value another.
        if Arc::strong_count(&self.0) <= 2 {
            self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
            self.0.changed.notify_all();
        }
    }
}

fn write_out(shared: &Shared, mut sink: impl Write) {
    // Two buffers take turns, so that none grows anew each time.
    let mut lines = Vec::new();
    loop {
        let mut buffer = shared.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        while buffer.lines.is_empty() && !buffer.closed {
            buffer = shared.changed.wait(buffer).unwrap_or_else(PoisonError::into_inner);
        }
        let closed = buffer.closed;
        if !closed {
            let gathered = shared.changed.wait_timeout_while(buffer, GATHER, |buffer| !buffer.closed);
            buffer = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        lines.clear();
        lines.shrink_to(1 << 20);
        std::mem::swap(&mut buffer.lines, &mut lines);
        buffer.writing = true;
        drop(buffer);
        if sink.write_all(&lines).and_then(|()| sink.flush()).is_err() {
            let count = lines.iter().filter(|byte| **byte == b'\n').count();
            shared.lost.fetch_add(count as u64, Ordering::Relaxed);
        }
        let mut buffer = shared.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.writing = false;
        let done = buffer.closed && buffer.lines.is_empty();
        drop(buffer);
        shared.changed.notify_all();
        if done {
            return;
        }
    }
}

/// Appends `record` as one JSON line. Written by hand: it is on every request's way.
fn line(out: &mut Vec<u8>, record: &Record) {
    out.extend_from_slice(b"{\"time\":\"");
    push_time(out, record.time);
    out.extend_from_slice(b"\",\"request_id\":");
    push_text(out, &record.request_id);
    push_name(out, "client", record.client.as_deref());
    push_name(out, "route", record.route.as_deref());
    push_name(out, "upstream", record.upstream.as_deref());
    out.extend_from_slice(b",\"attempts\":[");
    for (at, attempt) in record.attempts.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{\"upstream\":" } else { b",{\"upstream\":" });
        push_text(out, &attempt.upstream);
        out.extend_from_slice(b",\"outcome\":\"");
        out.extend_from_slice(attempt.outcome.as_str().as_bytes());
        out.push(b'"');
        push_number(out, "status", attempt.status.map(u64::from));
        push_ms(out, "ms", Some(attempt.took));
        if attempt.is_drill {
            out.extend_from_slice(b",\"drill\":true");
        }
        out.push(b'}');
    }
    out.push(b']');
    push_number(out, "status", Some(record.status.into()));
    out.extend_from_slice(b",\"outcome\":\"");
    out.extend_from_slice(record.outcome.as_str().as_bytes());
    out.push(b'"');
    push_name(out, "code", record.code.as_deref());
    push_name(out, "cache", record.cache.map(base::Cached::as_str));
    push_number(out, "tokens_in", record.usage.map(|usage| usage.prompt));
    push_number(out, "tokens_out", record.usage.map(|usage| usage.completion));
    push_key(out, "cost");
    match &record.cost {
        Some(cost) => out.extend_from_slice(base::decimal(cost.nanos).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
    push_ms(out, "ttft_ms", record.first_content);
    push_ms(out, "ms", Some(record.took));
    push_ms(out, "overhead_ms", Some(record.overhead));
    push_ms(out, "queue_ms", Some(record.queued));
    push_name(out, "truncated", record.truncated.map(|truncated| truncated.to_string()).as_deref());
    push_name(out, "degraded", record.degraded.as_deref());
    if let Some(matched) = &record.matched {
        push_name(out, "matched", Some(&matched.id));
        push_key(out, "similarity");
        // Four digits behind the point, as many as are worth something.
        out.extend_from_slice(format!("{:.4}", matched.similarity).as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

fn push_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn push_name(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    push_key(out, key);
    match value {
        Some(value) => push_text(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn push_number(out: &mut Vec<u8>, key: &str, value: Option<u64>) {
    push_key(out, key);
    match value {
        Some(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

/// Milliseconds with three digits behind the point.
fn push_ms(out: &mut Vec<u8>, key: &str, value: Option<Duration>) {
    let Some(value) = value else { return push_number(out, key, None) };
    let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    push_number(out, key, Some(micros / 1000));
    out.push(b'.');
    push_digits(out, micros % 1000, 3);
}

/// The last `count` decimal digits of a number, zeros in front.
fn push_digits(out: &mut Vec<u8>, number: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10_u64.pow(place) % 10;
        out.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    // Folded, not `all`: the compiler then looks at many bytes at a time.
    let odd = |byte: u8| !(0x20..0x7f).contains(&byte) | (byte == b'"') | (byte == b'\\');
    if !text.bytes().fold(false, |found, byte| found | odd(byte)) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        let _ = write!(out, "{}", json!(text));
    }
}

/// RFC 3339 in UTC, with milliseconds, of a time since the Unix epoch.
#[must_use]
pub fn rfc3339(since_epoch: Duration) -> String {
    let mut out = Vec::with_capacity(24);
    push_time(&mut out, since_epoch);
    // It is digits and signs.
    String::from_utf8(out).unwrap_or_default()
}

fn push_time(out: &mut Vec<u8>, since_epoch: Duration) {
    let (days, rest) = (since_epoch.as_secs() / 86_400, since_epoch.as_secs() % 86_400);
    // Days to a civil date: Howard Hinnant's algorithm, for dates from 1970 on.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let millis = u64::from(since_epoch.subsec_millis());
    push_digits(out, year, 4);
    let parts = [(b'-', month), (b'-', day), (b'T', hour), (b':', minute), (b':', second)];
    for (sign, number) in parts {
        out.push(sign);
        push_digits(out, number, 2);
    }
    out.push(b'.');
    push_digits(out, millis, 3);
    out.push(b'Z');
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Attempt, AttemptOutcome, Kind, Outcome, Usage};

    fn record() -> Record {
        Record {
            time: Duration::from_millis(1_796_000_000_123),
            request_id: "r\"1".into(),
            trace: None,
            client: Some("问答".into()),
            route: Some("rag-chat".into()),
            endpoint: None,
            upstream: None,
            model: None,
            attempts: smallvec::smallvec![Attempt {
                is_anothers: false,
                is_drill: false,
                upstream: "cloud/m".into(),
                outcome: AttemptOutcome::Failed(Kind::Connect),
                status: None,
                at: Duration::ZERO,
                span: None,
                took: Duration::from_micros(1500),
            }],
            decisions: smallvec::SmallVec::new(),
            status: 502,
            outcome: Outcome::UpstreamFailed,
            code: Some("upstream_error".into()),
            usage: Some(Usage { prompt: 3, completion: 4, cached: 0, units: 0, estimated: false }),
            cost: None,
            spending: base::Spending::default(),
            settled_in: 0,
            first_content: None,
            took: Duration::from_millis(2),
            overhead: Duration::from_micros(500),
            queued: Duration::ZERO,
            degraded: None,
            truncated: None,
            cache: None,
            saved: None,
            matched: None,
            fingerprints: [0; 2],
        }
    }

    #[test]
    fn a_line_is_one_json_object_whatever_the_names_hold() {
        let log = AccessLog::default();
        log.append(&record());
        let text = log.text();
        assert_eq!(text.matches('\n').count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["time"], "2026-11-30T00:53:20.123Z");
        assert_eq!(line["request_id"], "r\"1");
        assert_eq!(line["client"], "问答");
        assert_eq!(line["attempts"][0]["outcome"], "connect_error");
        assert_eq!(line["tokens_out"], 4);
    }

    #[test]
    fn dates_around_leap_days_are_right() {
        let shown = |secs| {
            let mut out = Vec::new();
            push_time(&mut out, Duration::from_secs(secs));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(1_709_251_199), "2024-02-29T23:59:59.000Z");
    }

    #[test]
    fn a_sink_that_takes_nothing_loses_lines_and_counts_them() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let log = AccessLog::to(Full).unwrap();
        log.append(&record());
        log.append(&record());
        log.flush(Duration::from_secs(5));
        assert_eq!(log.lost(), 2);
    }
}
