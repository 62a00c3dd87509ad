//! The nouns and seams that every other crate speaks in.
//!
//! Nothing here waits, allocates per byte or knows a provider: a call's [`Endpoint`], what it
//! consumed ([`Usage`]), what went wrong with one try ([`Fault`]), what the caller is told instead
//! of an answer ([`Refusal`]), what is written down about it ([`Record`]), and the two seams that
//! tests replace: [`Clock`] and [`Dice`].

mod cached;
mod clock;
pub mod decision;
mod endpoint;
mod fault;
mod glob;
mod letters;
mod money;
mod nearest;
mod object;
mod period;
mod record;
mod refusal;
mod secret;
pub mod steps;
mod trace;
mod truncated;
mod usage;

pub use cached::{Cached, Matched, Saved};
pub use clock::{Clock, Dice};
pub use decision::{Bypass, Decision, Fact, Facts, Line, Noted, Skip, StandIn};
pub use endpoint::{Endpoint, Family};
pub use fault::{Class, Fault, Kind, Told};
pub use glob::{Glob, Globs};
pub use letters::{LONGEST_VERSION, illegible, kb_version, unseen};
pub use money::{Cost, decimal, nanos};
pub use nearest::nearest;
pub use object::{Object, ObjectKind};
pub use period::Period;
pub use record::{Attempt, AttemptOutcome, CALLER_GONE, Outcome, Record, Spending, Spent};
pub use refusal::{Code, Refusal, Row, TYPES};
pub use secret::{KeyHasher, KeyId, Secret};
pub use trace::{AttemptSpan, SpanContext, SpanId, Trace, TraceId};
pub use truncated::Truncated;
pub use usage::{Usage, estimate};
