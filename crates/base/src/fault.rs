//! What went wrong with one try.

use std::time::Duration;

use crate::Usage;

/// Whose fault it was; decides what may follow (see docs/contract.md, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The caller's request is at fault: never repeated, never moved on, charges nobody.
    Caller,
    /// The gateway's own key was refused or is out of money: rest the key, move on.
    Credential,
    /// The upstream asks for a pause.
    Throttle,
    /// The upstream, or the way to it, is broken.
    Upstream,
    /// The gateway itself lacks what the try needs (descriptors, ports, memory): charges nobody, moves on.
    Gateway,
}

/// What happened, in the words of the attempt's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No connection: name not found, refused, TLS failed, connect timeout.
    Connect,
    /// The connection ended before the answer did.
    Reset,
    /// The attempt's clock ran out (whole answer, or headers).
    Timeout,
    /// The stream said nothing of substance in time.
    FirstByte,
    /// The stream fell silent, or ran longer than `stream_total`.
    Idle,
    /// An HTTP status that is not success.
    Status,
    /// A 2xx that is not the protocol's, or an error object inside a 200.
    BadResponse,
    /// Vectors of another dimension.
    Dimension,
    /// A stream that ended without finish reason and without `[DONE]`.
    Cut,
}

/// An upstream's own words about a refused call, after cleaning: no credentials, no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its HTTP status (400 for an error object inside a 200).
    pub status: u16,
    /// Its message, at most 2 KiB.
    pub message: String,
    /// The error object's `type`.
    pub kind: Option<String>,
    /// The error object's `param`.
    pub param: Option<String>,
    /// The error object's `code`, numbers as text.
    pub code: Option<String>,
}

/// Why one try did not give an answer. Building one logs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose fault it is.
    pub class: Class,
    /// What happened.
    pub kind: Kind,
    /// The upstream's HTTP status, where there was one.
    pub status: Option<u16>,
    /// A sentence for the log and for people; no secrets, no addresses.
    pub message: String,
    /// The upstream's own words, for the caller where the fault is the caller's.
    pub told: Option<Box<Told>>,
    /// How long the upstream asked to be left alone.
    pub retry_after: Option<Duration>,
    /// False where the upstream certainly did not process the call (connect error, 429, 503 with
    /// `retry-after`), so that even a call with side effects may move on.
    pub maybe_processed: bool,
    /// True for a prompt too long for the model, however the upstream worded it.
    pub context_overflow: bool,
    /// What the try used all the same, where the upstream has said so: an answer came that is none.
    pub usage: Option<Box<Usage>>,
}

impl Fault {
    /// A fault of the upstream or the way to it.
    #[must_use]
    pub fn upstream(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            class: Class::Upstream,
            kind,
            status: None,
            message: message.into(),
            told: None,
            retry_after: None,
            maybe_processed: !matches!(kind, Kind::Connect),
            context_overflow: false,
            usage: None,
        }
    }
}
