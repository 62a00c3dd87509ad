//! What generates text, in OpenAI's form: chat completions, legacy completions, responses.
//!
//! Requests are patched, whole answers are judged and stay the bytes that came, streams are read
//! chunk by chunk and passed on as slices.

mod answer;
mod assembly;
mod choices;
mod chunks;
pub mod prompt;
mod question;
mod request;
mod shape;
mod storable;
mod typed;
pub mod usage;
mod whole;

pub use answer::{answer, pass};
pub use assembly::{Assembly, Broken};
pub use chunks::Chunks;
pub use question::{NoQuestion, Pattern, QUESTION_MAX, Question, Source, question};
pub use request::encode;
pub use storable::{Storable, Unstorable, is_storable};
pub use typed::Typed;
pub use whole::events;

use base::Fault;

use crate::errors::{self, is_nothing};
use crate::json::Value;

/// Finish reasons that stand for a failure of the upstream: Mistral and OpenRouter, DeepSeek,
/// Zhipu.
const FAILED: &[&str] = &["error", "insufficient_system_resource", "network_error"];

/// The fault behind a finish reason that is none.
fn failed_finish(reason: Value<'_>) -> Option<Fault> {
    let reason = reason.as_escaped()?;
    FAILED
        .contains(&reason)
        .then(|| errors::bad_response(format!("the upstream gave up its answer: finish_reason is '{reason}'")))
}

#[cfg(test)]
mod tests;
