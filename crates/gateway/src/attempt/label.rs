//! What kind of answer is coming. The endpoint decides; an answer's own `content-type` only where the endpoint leaves a
//! choice, for servers and what stands before them label as they like.

use base::{Fault, Kind};
use dialect::Ask;
use http::HeaderValue;

/// How an answer is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Whole, and judged.
    Json,
    /// Event by event.
    Events,
    /// Sound or a transcript: piece by piece.
    Sound,
}

impl Shape {
    /// Of the answer to `ask`.
    pub fn of(ask: &Ask, label: Label<'_>) -> Self {
        let is_json = label.is("application/json") || label.ends("+json");
        if ask.endpoint.is_audio() && !is_json {
            // `stream` says only that the sound may come bit by bit; some servers do not know the field at all.
            return if label.is_events() { Self::Events } else { Self::Sound };
        }
        // Some servers mislabel their event streams; what then turns out to be one JSON text is found out by its
        // first byte.
        if ask.stream && !is_json { Self::Events } else { Self::Json }
    }
}

/// An answer's `content-type`, where it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a>(pub Option<&'a HeaderValue>);

/// Letters of a label that are told.
const TOLD: usize = 100;

impl<'a> Label<'a> {
    /// Whether it begins with `start`.
    pub fn is(self, start: &str) -> bool {
        self.bytes().get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
    }

    fn ends(self, end: &str) -> bool {
        let own = self.bytes();
        own.len()
            .checked_sub(end.len())
            .and_then(|at| own.get(at..))
            .is_some_and(|own| own.eq_ignore_ascii_case(end.as_bytes()))
    }

    /// Server-sent events.
    pub fn is_events(self) -> bool {
        self.is("text/event-stream")
    }

    /// One JSON text a line.
    pub fn is_lines_of_json(self) -> bool {
        self.is("application/x-ndjson")
    }

    /// It says text, or says nothing.
    pub fn may_be_text(self) -> bool {
        self.is("text/") || self.0.is_none()
    }

    /// The fault of an answer that is none.
    pub fn no_answer(self) -> Fault {
        let label = String::from_utf8_lossy(self.bytes());
        let what = match label.chars().take(TOLD).collect::<String>() {
            label if label.is_empty() => "without a content-type".to_owned(),
            label => format!("with '{label}'"),
        };
        Fault::upstream(Kind::BadResponse, format!("the upstream answered {what}, and it is no answer to such a call"))
    }

    fn bytes(self) -> &'a [u8] {
        self.0.map(HeaderValue::as_bytes).unwrap_or_default()
    }
}
