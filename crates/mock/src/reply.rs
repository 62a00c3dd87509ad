//! What a rule answers with: the meant form, and builders for tests that script in Rust.

use std::time::Duration;

use base::Dice;
use bytes::Bytes;
use serde_json::Value;

/// An answer and everything that is to go wrong with it. The default is the built-in answer, sound.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The wait before the answer's first byte.
    pub latency: Latency,
    /// 200 unless said otherwise. Without a body of its own, a status of 400 or more is answered
    /// with the provider's own error form.
    pub status: Option<u16>,
    /// Header fields beside, or in place of, those that the body brings.
    pub headers: Vec<(String, String)>,
    /// Header fields that hold a time, reckoned when the answer is made.
    pub dues: Vec<(String, Due)>,
    /// Header fields of the built-in answer that are left out.
    pub without: Vec<String>,
    /// What is sent.
    pub body: Body,
    /// The wait before each event or piece but the first.
    pub every: Option<Duration>,
    /// How the body's end is marked; by length where the body is known, else chunked.
    pub framing: Option<Framing>,
    /// A content coding.
    pub coding: Option<Coding>,
    /// Cuts the body's bytes anew, each slice a write of its own.
    pub slices: Option<Slices>,
    /// Where and how it breaks.
    pub cut: Option<Cut>,
    /// Answers before the call's body is read, by its head alone, and reads no more.
    pub early: bool,
    /// Keeps serving on the connection even where a header field says `connection: close`.
    pub keep_open: bool,
    /// What is different about the built-in answer.
    pub knobs: Knobs,
}

/// A moment that a header field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// So much later, as an HTTP date (RFC 9110, section 5.6.7), which knows whole seconds only.
    Date(Duration),
    /// So much later, in seconds since 1970.
    Unix(Duration),
}

impl Due {
    /// The field's value, where it is `wall` since 1970 now.
    #[must_use]
    pub fn value(self, wall: Duration) -> String {
        match self {
            Self::Date(wait) => http_date((wall + wait).as_secs()),
            Self::Unix(wait) => (wall + wait).as_secs().to_string(),
        }
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, from seconds since 1970.
fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let name = |names: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    // Years that begin in March leave the leap day at the end; 719,468 days lie between 0000-03-01 and 1970.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month >= 10);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{}, {day:02} {} {year:04} {hour:02}:{minute:02}:{:02} GMT",
        name(&DAYS, days % 7),
        name(&MONTHS, month),
        second % 60
    )
}

/// What is sent.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// What the endpoint would answer by itself.
    #[default]
    Answer,
    /// Nothing.
    Empty,
    /// One JSON value.
    Json(Value),
    /// Bytes with their content type.
    Bytes(&'static str, Bytes),
    /// A stream with its content type, one step a write.
    Stream(&'static str, Vec<Step>),
    /// Everything including the head, one step a write.
    Raw(Vec<Step>),
    /// The request, as JSON.
    Echo,
}

/// One step of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A write.
    Send(Bytes),
    /// A wait, in place of the usual one.
    Wait(Duration),
}

/// A wait, drawn anew for each call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Latency {
    /// None.
    #[default]
    None,
    /// Always the same.
    Fixed(Duration),
    /// Between the two, each equally likely.
    Uniform(Duration, Duration),
    /// Log-normal, by its median and its 95th percentile.
    LogNormal(Duration, Duration),
}

impl Latency {
    /// One draw; at most an hour.
    #[must_use]
    pub fn draw(self, dice: &Dice) -> Duration {
        const HOUR: Duration = Duration::from_secs(3600);
        let drawn = match self {
            Self::None => Duration::ZERO,
            Self::Fixed(wait) => wait,
            Self::Uniform(low, high) => low + high.saturating_sub(low).mul_f64(dice.unit()),
            Self::LogNormal(p50, p95) => {
                // The 95th percentile lies 1.645 standard deviations above the median; Box-Muller.
                let sigma = (p95.as_secs_f64() / p50.as_secs_f64().max(1e-9)).max(1.0).ln() / 1.645;
                let normal = (-2.0 * (1.0 - dice.unit()).ln()).sqrt() * (std::f64::consts::TAU * dice.unit()).cos();
                p50.mul_f64((sigma * normal).exp().min(1e6))
            }
        };
        drawn.min(HOUR)
    }
}

/// How the body's end is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `content-length`.
    Length,
    /// `transfer-encoding: chunked`.
    Chunked,
    /// The connection's end.
    Close,
}

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip,
    /// deflate, that is zlib (RFC 1950).
    Deflate,
    /// br (RFC 7932), as stored blocks: valid, but no shorter.
    Brotli,
    /// zstd (RFC 8878).
    Zstd,
}

/// Cuts a body's bytes anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slices {
    /// Slices of so many bytes.
    Of(usize, Duration),
    /// Cuts before these bytes, counted from 0.
    At(Vec<usize>, Duration),
}

/// Where and how an answer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub at: At,
    /// How.
    pub how: How,
}

/// Where an answer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The request is read, nothing is sent.
    Request,
    /// The head is sent.
    Head,
    /// So many events, pieces or slices are sent.
    Events(usize),
    /// So many bytes of the body are sent.
    Bytes(usize),
    /// The whole body is sent, but not its end.
    End,
}

/// How an answer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The connection is reset.
    Rst,
    /// The connection is closed.
    Fin,
    /// Nothing more comes, the connection stays open.
    Hang,
}

/// What is different about the built-in answer.
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    /// The chat answer, one text a delta.
    pub say: Option<Vec<String>>,
    /// Text that is sent as `reasoning_content` before the answer.
    pub reasoning: Option<String>,
    /// Tool calls: name and arguments.
    pub tool_calls: Vec<(String, String)>,
    /// The finish reason; null sends none.
    pub finish: Option<Value>,
    /// The usage object, whatever it says; null leaves it out.
    pub usage: Option<Value>,
    /// Answers as a stream, or as JSON, whatever was asked.
    pub stream: Option<bool>,
    /// The vectors' dimension, whatever was asked.
    pub dimensions: Option<usize>,
    /// The vectors' encoding, whatever was asked.
    pub vectors: Option<Vectors>,
    /// The model that the answer names.
    pub model: Option<String>,
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// Numbers.
    Float,
    /// Little-endian float32 in base64.
    Base64,
}

/// Builders: `Reply::sse(["…"]).every(ms)`.
impl Reply {
    /// A status, with the provider's error form from 400 on.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// A body of JSON.
    #[must_use]
    pub fn json(value: Value) -> Self {
        Self { body: Body::Json(value), ..Self::default() }
    }

    /// A body of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { body: Body::Bytes("text/plain; charset=utf-8", Bytes::from(text.into())), ..Self::default() }
    }

    /// A stream of server-sent events: each text becomes `data: TEXT` and a blank line. A text that
    /// begins with a colon is sent as a comment.
    #[must_use]
    pub fn sse<T: AsRef<str>>(events: impl IntoIterator<Item = T>) -> Self {
        let steps = events.into_iter().map(|event| Step::Send(sse_event(event.as_ref()).into())).collect();
        Self { body: Body::Stream("text/event-stream", steps), ..Self::default() }
    }

    /// A stream of server-sent events in exactly these writes, 20 ms apart.
    #[must_use]
    pub fn pieces<T: Into<Bytes>>(pieces: impl IntoIterator<Item = T>) -> Self {
        let steps = pieces.into_iter().map(|piece| Step::Send(piece.into())).collect();
        Self { body: Body::Stream("text/event-stream", steps), ..Self::default() }.every(Duration::from_millis(20))
    }

    /// Head and body in exactly these writes, 20 ms apart; then the connection is closed.
    #[must_use]
    pub fn raw<T: Into<Bytes>>(pieces: impl IntoIterator<Item = T>) -> Self {
        let steps = pieces.into_iter().map(|piece| Step::Send(piece.into())).collect();
        Self { body: Body::Raw(steps), ..Self::default() }.every(Duration::from_millis(20))
    }

    /// A chat answer, streamed or not as the call asks, in these deltas.
    #[must_use]
    pub fn say<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        let say = Some(deltas.into_iter().map(Into::into).collect());
        Self { knobs: Knobs { say, ..Knobs::default() }, ..Self::default() }
    }

    /// Reads the call and never answers.
    #[must_use]
    pub fn hang() -> Self {
        Self::default().cut(At::Request, How::Hang)
    }

    /// Reads the call and resets the connection.
    #[must_use]
    pub fn reset() -> Self {
        Self::default().cut(At::Request, How::Rst)
    }

    /// Reads the call and closes the connection.
    #[must_use]
    pub fn close() -> Self {
        Self::default().cut(At::Request, How::Fin)
    }

    /// Whether it has its own will about the header field of that name.
    #[must_use]
    pub fn sets(&self, name: &str) -> bool {
        let own = self.headers.iter().map(|(own, _)| own).chain(self.dues.iter().map(|(own, _)| own));
        own.chain(&self.without).any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The wait before the answer.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.latency = Latency::Fixed(wait);
        self
    }

    /// The wait before each event or piece but the first.
    #[must_use]
    pub fn every(mut self, wait: Duration) -> Self {
        self.every = Some(wait);
        self
    }

    /// A header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A header field that names a moment.
    #[must_use]
    pub fn due(mut self, name: &str, due: Due) -> Self {
        self.dues.push((name.to_owned(), due));
        self
    }

    /// Breaks the answer.
    #[must_use]
    pub fn cut(mut self, at: At, how: How) -> Self {
        self.cut = Some(Cut { at, how });
        self
    }

    /// The usage that the built-in answer reports; null leaves it out.
    #[must_use]
    pub fn usage(mut self, usage: Value) -> Self {
        self.knobs.usage = Some(usage);
        self
    }

    /// Another edit of the built-in answer.
    #[must_use]
    pub fn with(mut self, edit: impl FnOnce(&mut Knobs)) -> Self {
        edit(&mut self.knobs);
        self
    }
}

/// `data: TEXT` and a blank line; several lines become several `data` fields, a leading colon a comment.
#[must_use]
pub fn sse_event(text: &str) -> String {
    if text.starts_with(':') {
        return format!("{text}\n\n");
    }
    let mut event = String::with_capacity(text.len() + 8);
    for line in text.split('\n') {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_normal_wait_has_the_percentiles_it_was_given() {
        let dice = Dice::loaded(1);
        let latency = Latency::LogNormal(Duration::from_millis(100), Duration::from_millis(400));
        let mut draws: Vec<_> = (0..4000).map(|_| latency.draw(&dice).as_secs_f64() * 1000.0).collect();
        draws.sort_by(f64::total_cmp);
        assert!((90.0..110.0).contains(&draws[2000]), "{}", draws[2000]);
        assert!((330.0..480.0).contains(&draws[3800]), "{}", draws[3800]);
    }

    #[test]
    fn a_uniform_wait_stays_between_its_ends() {
        let dice = Dice::loaded(2);
        let (low, high) = (Duration::from_millis(10), Duration::from_millis(20));
        assert!((0..1000).map(|_| Latency::Uniform(low, high).draw(&dice)).all(|wait| (low..=high).contains(&wait)));
        assert_eq!(Latency::Uniform(high, low).draw(&dice), high);
    }

    #[test]
    fn a_moment_is_named_as_a_date_or_in_seconds() {
        let wall = Duration::from_secs(784_111_775);
        assert_eq!(Due::Date(Duration::from_secs(2)).value(wall), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Due::Unix(Duration::from_millis(2500)).value(wall), "784111777");
        let leap_day = Duration::from_secs(951_782_400);
        assert_eq!(Due::Date(Duration::ZERO).value(leap_day), "Tue, 29 Feb 2000 00:00:00 GMT");
        let new_year = leap_day + Duration::from_secs(307 * 86_400 - 1);
        assert_eq!(Due::Date(Duration::from_secs(1)).value(new_year), "Mon, 01 Jan 2001 00:00:00 GMT");
    }

    #[test]
    fn an_event_of_two_lines_has_two_data_fields() {
        assert_eq!(sse_event("a\nb"), "data: a\ndata: b\n\n");
        assert_eq!(sse_event(": ping"), ": ping\n\n");
    }
}
